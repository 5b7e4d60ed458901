/* A folder of runs as a sweep: the folders between it and a run say which point the run is of. */
#include "base/array.h"
#include "base/files.h"
#include "config/option.h"
#include "sweep/side.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_DEPTH = 8, WORD = NAME_MAX + 1 };

static aorta_status no_memory(const char *directory) {
    return AORTA_ERROR(AORTA_MEMORY, "no memory for the runs in %s", directory);
}

/* ---- finding the runs ---- */

struct paths {
    char **items;
    size_t count, capacity;
};

static void paths_free(struct paths *paths) {
    for (size_t i = 0; i < paths->count; i++) free(paths->items[i]);
    free(paths->items);
}

static aorta_status find_runs(const char *directory, int depth, struct paths *paths) {
    if (aorta_figures_can_read(directory)) {
        AORTA_TRY(aorta_array_reserve(&paths->items, &paths->capacity, paths->count + 1, sizeof *paths->items, "runs"));
        paths->items[paths->count] = strdup(directory);
        return paths->items[paths->count++] ? NULL : no_memory(directory);
    }
    DIR *entries = depth < MOST_DEPTH ? opendir(directory) : NULL;
    aorta_status status = NULL;
    for (struct dirent *entry; entries && !status && (entry = readdir(entries));) {
        struct stat facts;
        char *path = *entry->d_name == '.' ? NULL : aorta_path_join(directory, entry->d_name);
        if (path && lstat(path, &facts) == 0 && S_ISDIR(facts.st_mode)) status = find_runs(path, depth + 1, paths);
        free(path);
    }
    if (entries) closedir(entries);
    return status;
}

static int by_path(const void *left, const void *right) {
    return strverscmp(*(char *const *)left, *(char *const *)right);
}

/* ---- what a name says ---- */

struct knob_value {
    char name[WORD], value[WORD];
};

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

struct runs {
    struct paths paths;
    struct knob_value (*values)[MOST_DEPTH]; /* of each */
    size_t *counts;
};

static int by_value(const void *left, const void *right) {
    return strverscmp(*(const char *const *)left, *(const char *const *)right);
}

/* A name that has one value alone is no knob. */
static aorta_status add_knob(const struct runs *runs, const char *name, struct aorta_sweep_side *side) {
    struct aorta_sweep_space *space = &side->plan.space;
    const char **values = aorta_arena_alloc(&side->arena, AORTA_SWEEP_MOST_VALUES * sizeof *values);
    int count = 0;
    for (int i = 0; i < space->count; i++)
        if (strcmp(space->knobs[i].name, name) == 0) return NULL;
    if (!values) return no_memory(side->directory);
    for (size_t i = 0; i < runs->paths.count; i++) {
        const char *value = value_of(runs->values[i], runs->counts[i], name);
        int at = 0;
        while (at < count && strcmp(values[at], value) != 0) at++;
        if (at < count) continue;
        if (count == AORTA_SWEEP_MOST_VALUES)
            return AORTA_ERROR(AORTA_USAGE, "%s: the folders have more than %d values of %s", side->directory,
                               AORTA_SWEEP_MOST_VALUES, name);
        values[count] = aorta_arena_strdup(&side->arena, value);
        if (!values[count++]) return no_memory(side->directory);
    }
    if (count < 2) return NULL;
    if (space->count == AORTA_SWEEP_MOST_KNOBS)
        return AORTA_ERROR(AORTA_USAGE, "%s: more than %d levels of folders", side->directory, AORTA_SWEEP_MOST_KNOBS);
    qsort(values, (size_t)count, sizeof *values, by_value);
    struct aorta_sweep_knob *knob = &space->knobs[space->count];
    *knob = (struct aorta_sweep_knob){
        .name = aorta_arena_strdup(&side->arena, name), .values = values, .count = count, .ordered = true};
    for (int i = 0; i < count; i++) knob->ordered &= strspn(values[i], "0123456789") == strlen(values[i]);
    space->count++;
    return knob->name ? NULL : no_memory(side->directory);
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
    side->recordings[place].folder = aorta_arena_strdup(&side->arena, runs->paths.items[place]);
    if (!side->recordings[place].folder) return no_memory(side->directory);
    return aorta_trials_add(&side->trials, &trial);
}

static aorta_status make(struct runs *runs, struct aorta_sweep_side *side) {
    const size_t count = runs->paths.count;
    if (!count)
        return AORTA_ERROR(AORTA_USAGE,
                           "%s holds no trials.jsonl and no runs; name the directory that a sweep wrote (its "
                           "--output), or a folder of runs",
                           side->directory);
    qsort(runs->paths.items, count, sizeof *runs->paths.items, by_path);
    runs->values = calloc(count, sizeof *runs->values);
    runs->counts = calloc(count, sizeof *runs->counts);
    side->recordings = aorta_arena_alloc(&side->arena, (count + 1) * sizeof *side->recordings);
    if (!runs->values || !runs->counts || !side->recordings) return no_memory(side->directory);
    for (size_t i = 0; i < count; i++)
        runs->counts[i] = read_path(side->directory, runs->paths.items[i], runs->values[i]);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < runs->counts[i]; j++) AORTA_TRY(add_knob(runs, runs->values[i][j].name, side));
    for (size_t i = 0; i < count; i++) AORTA_TRY(add_run(runs, i, side));
    return NULL;
}

aorta_status aorta_sweep_folder_open(const char *directory, struct aorta_sweep_side *side) {
    struct runs runs = {0};
    side->plan = (struct aorta_sweep_plan){.repeats = 1};
    aorta_status status = find_runs(directory, 0, &runs.paths);
    if (!status) status = make(&runs, side);
    paths_free(&runs.paths);
    free(runs.values);
    free(runs.counts);
    return status;
}
