#include "base/files.h"
#include "base/parallel.h"
#include "sweep/compare.h"

#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static aorta_status check_memory(const struct aorta_sweep_side *side) {
    return aorta_annotate(aorta_arena_check(&side->arena, "a sweep"), "%s", side->directory);
}

/* ---- a folder of runs as a sweep: the folders between it and a run name the run's point ---- */

enum { MOST_DEPTH = 8, WORD = NAME_MAX + 1 };

/* ---- finding the runs ---- */

struct knob_value {
    char name[WORD], value[WORD];
};

struct runs {
    char **paths;
    size_t count, capacity;
    struct knob_value (*values)[MOST_DEPTH]; /* of each */
    size_t *counts;
};

static void find_runs(const char *directory, int depth, struct aorta_arena *arena, struct runs *runs) {
    if (aorta_figures_can_read(directory)) {
        char *path = aorta_arena_strdup(arena, directory);
        aorta_arena_append(arena, &runs->paths, &runs->capacity, &runs->count, &path, sizeof path);
        return;
    }
    DIR *entries = depth < MOST_DEPTH ? opendir(directory) : NULL;
    for (struct dirent *entry; entries && !arena->failed && (entry = readdir(entries));) {
        struct stat facts;
        const struct aorta_file_path path = aorta_path_in(directory, "%s", entry->d_name);
        if (*entry->d_name != '.' && lstat(path.text, &facts) == 0 && S_ISDIR(facts.st_mode))
            find_runs(path.text, depth + 1, arena, runs);
    }
    if (entries) closedir(entries);
}

static int by_version(const void *left, const void *right) {
    return strverscmp(*(char *const *)left, *(char *const *)right);
}

/* ---- names of folders ---- */

static bool is_repeat(const char *name) {
    static const char *const names[] = {"rep", "repeat", "run", "trial", "iter", "iteration", "seed", "attempt"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcasecmp(name, names[i]) == 0) return true;
    return false;
}

static size_t without_joints(const char *text, size_t length) {
    while (length && strchr("_-.", text[length - 1])) length--;
    return length;
}

/* "bucket=8", "256thread", "nccl_28channels", "channels-28"; else the word is a value itself. */
static void read_word(const char *word, int depth, struct knob_value *out) {
    const char *equals = strchr(word, '=');
    if (equals && equals != word && equals[1]) {
        snprintf(out->name, WORD, "%.*s", (int)(equals - word), word);
        snprintf(out->value, WORD, "%s", equals + 1);
        return;
    }
    const size_t digits = strcspn(word, "0123456789"), count = strspn(word + digits, "0123456789");
    const char *after = word + digits + count;
    const size_t before = without_joints(word, digits);
    after += strspn(after, "_-.");
    if (!count || strpbrk(after, "0123456789") || (!before && !*after)) {
        snprintf(out->name, WORD, depth ? "folder %d" : "folder", depth + 1);
        snprintf(out->value, WORD, "%s", word);
        return;
    }
    snprintf(out->name, WORD, "%.*s%s%s", (int)before, word, before && *after ? "_" : "", after);
    snprintf(out->value, WORD, "%.*s", (int)count, word + digits);
}

/* Reads the run's folders below the root; repeats are no knobs. */
static size_t read_path(const char *root, const char *path, struct knob_value values[MOST_DEPTH]) {
    size_t count = 0;
    const char *at = path + strlen(root);
    for (int depth = 0; *at && count < MOST_DEPTH; depth++) {
        char word[WORD];
        at += strspn(at, "/");
        const size_t length = strcspn(at, "/");
        if (!length) break;
        snprintf(word, sizeof word, "%.*s", (int)length, at);
        read_word(word, depth, &values[count]);
        if (!is_repeat(values[count].name)) count++;
        at += length;
    }
    return count;
}

static const char *value_of(const struct knob_value *values, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(values[i].name, name) == 0) return values[i].value;
    return "none";
}

/* ---- the space ---- */

/* Adds a knob unless the name has only one value. */
static aorta_status add_knob(const struct runs *runs, const char *name, struct aorta_sweep_side *side) {
    struct aorta_sweep_space *space = &side->plan.space;
    const char **values = aorta_arena_alloc(&side->arena, AORTA_SWEEP_MOST_VALUES * sizeof *values);
    int count = 0;
    if (aorta_sweep_knob_named(space, name, strlen(name)) >= 0) return NULL;
    for (size_t i = 0; values && i < runs->count; i++) {
        const char *value = value_of(runs->values[i], runs->counts[i], name);
        int at = 0;
        while (at < count && strcmp(values[at], value) != 0) at++;
        if (at < count) continue;
        if (count == AORTA_SWEEP_MOST_VALUES)
            return AORTA_ERROR(AORTA_USAGE, "%s: the folders have more than %d values of %s", side->directory,
                               AORTA_SWEEP_MOST_VALUES, name);
        values[count++] = aorta_arena_strdup(&side->arena, value);
    }
    if (count < 2 || side->arena.failed) return NULL;
    if (space->count == AORTA_SWEEP_MOST_KNOBS)
        return AORTA_ERROR(AORTA_USAGE, "%s: more than %d levels of folders", side->directory, AORTA_SWEEP_MOST_KNOBS);
    qsort(values, (size_t)count, sizeof *values, by_version);
    struct aorta_sweep_knob *knob = &space->knobs[space->count];
    *knob = (struct aorta_sweep_knob){
        .name = aorta_arena_strdup(&side->arena, name), .values = values, .count = count, .ordered = true};
    for (int i = 0; i < count; i++) knob->ordered &= strspn(values[i], "0123456789") == strlen(values[i]);
    space->count++;
    return NULL;
}

static int64_t cell_of(const struct aorta_sweep_space *space, const struct knob_value *values, size_t count) {
    int64_t cell = 0;
    for (int k = 0; k < space->count; k++) {
        const struct aorta_sweep_knob *knob = &space->knobs[k];
        const char *value = value_of(values, count, knob->name);
        int level = 0;
        while (level + 1 < knob->count && strcmp(knob->values[level], value) != 0) level++;
        cell = cell * knob->count + level;
    }
    return cell;
}

static aorta_status add_run(const struct runs *runs, size_t place, struct aorta_sweep_side *side) {
    struct aorta_trial trial = {.number = (int64_t)place, .again = -1, .state = AORTA_TRIAL_DONE};
    trial.cell = cell_of(&side->plan.space, runs->values[place], runs->counts[place]);
    for (size_t i = 0; i < side->trials.count; i++) trial.repeat += side->trials.items[i].cell == trial.cell;
    if (trial.repeat >= side->plan.repeats) side->plan.repeats = trial.repeat + 1;
    for (int f = 0; f < AORTA_SWEEP_OBJECTIVE_COUNT; f++) trial.figures[f] = NAN;
    side->recordings[place].folder = runs->paths[place];
    return aorta_trials_add(&side->trials, &trial);
}

static aorta_status read_folder(const char *directory, struct aorta_sweep_side *side) {
    struct runs runs = {0};
    side->plan.repeats = 1;
    find_runs(directory, 0, &side->arena, &runs);
    const size_t count = runs.count;
    if (!count && !side->arena.failed)
        return AORTA_ERROR(AORTA_USAGE,
                           "%s holds no trials.jsonl and no runs; name the directory that a sweep wrote (its "
                           "--output), or a folder of runs",
                           side->directory);
    runs.values = aorta_arena_alloc(&side->arena, count * sizeof *runs.values);
    runs.counts = aorta_arena_alloc(&side->arena, count * sizeof *runs.counts);
    side->recordings = aorta_arena_alloc(&side->arena, (count + 1) * sizeof *side->recordings);
    AORTA_TRY(check_memory(side));
    if (count) qsort(runs.paths, count, sizeof *runs.paths, by_version);
    for (size_t i = 0; i < count; i++) runs.counts[i] = read_path(side->directory, runs.paths[i], runs.values[i]);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < runs.counts[i]; j++) AORTA_TRY(add_knob(&runs, runs.values[i][j].name, side));
    AORTA_TRY(check_memory(side));
    for (size_t i = 0; i < count; i++) AORTA_TRY(add_run(&runs, i, side));
    return NULL;
}

bool aorta_sweep_is_ours(const char *target) {
    return strncmp(target, "train ", 6) == 0 || strncmp(target, "hwq run ", 8) == 0;
}

/* ---- a sweep's directory ---- */

static void find_recording(struct aorta_sweep_side *side, size_t place) {
    static const char *const folders[] = {"out", "trace"};
    struct aorta_sweep_recording *recording = &side->recordings[place];
    for (size_t i = 0; i < sizeof folders / sizeof *folders && !recording->folder; i++) {
        const char *folder = aorta_arena_printf(&side->arena, "%s/trials/%04lld/%s", side->directory,
                                                (long long)side->trials.items[place].number, folders[i]);
        const char *page = folder ? aorta_arena_printf(&side->arena, "%s/index.html", folder) : NULL;
        if (!page || access(folder, F_OK) != 0) continue;
        recording->folder = folder;
        if (access(page, F_OK) == 0) recording->page = page;
    }
}

static aorta_status open_sweep(const char *path, struct aorta_sweep_side *side) {
    AORTA_TRY(aorta_sweep_read(path, &side->arena, &side->plan, &side->trials, NULL));
    /* Earlier versions chose step_ms even if knobs change a step's work. Throughput does not help for a user's
     * command, as it counts steps per second. */
    if (aorta_sweep_is_ours(side->plan.target) && side->plan.objective == AORTA_SWEEP_STEP_MS &&
        aorta_sweep_changes_work(&side->plan.space))
        side->plan.objective = AORTA_SWEEP_THROUGHPUT;
    side->recordings = aorta_arena_alloc(&side->arena, (side->trials.count + 1) * sizeof *side->recordings);
    for (size_t i = 0; side->recordings && i < side->trials.count; i++)
        if (side->trials.items[i].state == AORTA_TRIAL_DONE) find_recording(side, i);
    AORTA_TRY(check_memory(side));
    AORTA_TRY(aorta_settings_environment(side->directory, &side->arena, &side->environment));
    return aorta_sweep_result_make(&side->plan, &side->trials, &side->result);
}

/* ---- a folder of runs ---- */

/* A trial's figures are those of its run. */
static void take_figures(struct aorta_sweep_side *side, size_t place) {
    struct aorta_trial *trial = &side->trials.items[place];
    const struct aorta_figures *figures = side->recordings[place].figures;
    for (int f = 0; f < AORTA_SWEEP_OBJECTIVE_COUNT; f++) {
        const struct aorta_figure *figure = figures ? aorta_figures_find(figures, aorta_sweep_objectives[f].key) : NULL;
        trial->figures[f] = figure ? figure->value : NAN;
        if (figure && f == AORTA_SWEEP_THROUGHPUT) snprintf(trial->unit, sizeof trial->unit, "%.15s", figure->unit);
    }
    if (figures) snprintf(trial->device, sizeof trial->device, "%.15s", figures->device);
    if (isfinite(trial->figures[side->plan.objective])) return;
    trial->state = AORTA_TRIAL_NO_FIGURE;
    snprintf(trial->reason, sizeof trial->reason, "%.159s",
             side->recordings[place].reason ? side->recordings[place].reason : "its recording has no such figure");
}

static aorta_status open_folder(struct aorta_sweep_side *side) {
    AORTA_TRY(read_folder(side->directory, side));
    AORTA_TRY(aorta_sweep_side_read(side));
    for (size_t i = 0; i < side->trials.count; i++) take_figures(side, i);
    return aorta_sweep_result_make(&side->plan, &side->trials, &side->result);
}

aorta_status aorta_sweep_side_open(const char *directory, const char *label, struct aorta_sweep_side *side) {
    *side = (struct aorta_sweep_side){.directory = directory, .label = label, .plan = {.target = ""}};
    const struct aorta_file_path path = aorta_path_in(directory, "trials.jsonl");
    return access(path.text, F_OK) == 0 ? open_sweep(path.text, side) : open_folder(side);
}

/* ---- what the trials recorded ---- */

/* Limited, as reading a large recording needs a gigabyte. */
enum { READERS = 4 };

static aorta_status read_some(void *user, size_t piece) {
    struct aorta_sweep_side *side = user;
    for (size_t i = piece; i < side->trials.count; i += READERS) {
        struct aorta_sweep_recording *recording = &side->recordings[i];
        if (!recording->folder) continue;
        aorta_status status = aorta_figures_read(recording->folder, &side->figures[i]);
        if (!status) recording->figures = &side->figures[i];
        if (status) recording->reason = aorta_arena_strdup(&side->figures[i].arena, aorta_status_message(status));
        aorta_status_free(status);
    }
    return NULL;
}

aorta_status aorta_sweep_side_read(struct aorta_sweep_side *side) {
    if (side->figures) return NULL;
    side->figures = aorta_arena_alloc(&side->arena, (side->trials.count + 1) * sizeof *side->figures);
    AORTA_TRY(check_memory(side));
    return aorta_parallel(READERS, read_some, side);
}

/* ---- the halves of one sweep ---- */

static void leave_out(struct aorta_sweep_space *space, int knob) {
    space->count--;
    for (int i = knob; i < space->count; i++) space->knobs[i] = space->knobs[i + 1];
}

static int64_t cell_without(const struct aorta_sweep_space *space, int64_t cell, int knob) {
    int64_t below = 1;
    for (int i = knob + 1; i < space->count; i++) below *= space->knobs[i].count;
    return cell / (below * space->knobs[knob].count) * below + cell % below;
}

static aorta_status make_half(const struct aorta_sweep_side *whole, int knob, int value,
                              struct aorta_sweep_side *half) {
    const struct aorta_sweep_space *space = &whole->plan.space;
    half->plan = whole->plan;
    half->directory = whole->directory;
    half->environment = whole->environment;
    half->half = true;
    half->label = aorta_arena_printf(&half->arena, "%s=%s", space->knobs[knob].name, space->knobs[knob].values[value]);
    half->recordings = aorta_arena_alloc(&half->arena, (whole->trials.count + 1) * sizeof *half->recordings);
    AORTA_TRY(check_memory(half));
    leave_out(&half->plan.space, knob);
    half->plan.equal = 0;
    for (size_t i = 0; i < whole->trials.count; i++) {
        struct aorta_trial trial = whole->trials.items[i];
        if (trial.cell == AORTA_SWEEP_BASELINE || aorta_sweep_level(space, trial.cell, knob) != value) continue;
        trial.cell = cell_without(space, trial.cell, knob);
        half->recordings[half->trials.count] = whole->recordings[i];
        AORTA_TRY(aorta_trials_add(&half->trials, &trial));
    }
    return aorta_sweep_result_make(&half->plan, &half->trials, &half->result);
}

static int value_named(const struct aorta_sweep_knob *knob, const char *name, size_t length) {
    for (int i = 0; i < knob->count; i++)
        if (strlen(knob->values[i]) == length && !strncmp(knob->values[i], name, length)) return i;
    return -1;
}

/* Parses "A,B". Tries each comma, as values may contain commas. */
static bool two_values(const struct aorta_sweep_knob *knob, const char *text, int values[2]) {
    for (const char *comma = strchr(text, ','); comma; comma = strchr(comma + 1, ',')) {
        values[0] = value_named(knob, text, (size_t)(comma - text));
        values[1] = value_named(knob, comma + 1, strlen(comma + 1));
        if (values[0] >= 0 && values[1] >= 0 && values[0] != values[1]) return true;
    }
    return false;
}

static aorta_status wrong_values(const struct aorta_sweep_knob *knob, const char *by) {
    struct aorta_text text = {0};
    aorta_text_printf(&text, "--by %s: give two values of the knob, as --by NAME=A,B; it has ", by);
    aorta_text_words(&text, knob->values, (size_t)knob->count);
    return aorta_text_error(&text, AORTA_USAGE);
}

aorta_status aorta_sweep_side_halves(const struct aorta_sweep_side *whole, const char *by,
                                     struct aorta_sweep_side halves[2]) {
    const struct aorta_sweep_space *space = &whole->plan.space;
    const size_t length = strcspn(by, "=");
    const int knob = aorta_sweep_knob_named(space, by, length);
    int values[2] = {0, 1};
    for (int side = 0; side < 2; side++) halves[side] = (struct aorta_sweep_side){0};
    if (knob < 0) return AORTA_ERROR(AORTA_USAGE, "--by %s: %s has no such knob", by, whole->directory);
    if (by[length] ? !two_values(&space->knobs[knob], by + length + 1, values) : space->knobs[knob].count != 2)
        return wrong_values(&space->knobs[knob], by);
    if (space->count == 1)
        return AORTA_ERROR(AORTA_USAGE, "--by %s: this is the only knob of %s; --read %s compares its values", by,
                           whole->directory, whole->directory);
    for (int side = 0; side < 2; side++) AORTA_TRY(make_half(whole, knob, values[side], &halves[side]));
    return NULL;
}

void aorta_sweep_side_close(struct aorta_sweep_side *side) {
    for (size_t i = 0; side->figures && i < side->trials.count; i++) aorta_figures_free(&side->figures[i]);
    aorta_sweep_result_free(&side->result);
    aorta_trials_free(&side->trials);
    aorta_arena_free(&side->arena);
    *side = (struct aorta_sweep_side){0};
}
