#include "sweep/side.h"
#include "base/files.h"
#include "base/parallel.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool aorta_sweep_is_ours(const char *target) {
    return strncmp(target, "train ", 6) == 0 || strncmp(target, "hwq run ", 8) == 0;
}

static aorta_status no_memory(const char *directory) {
    return AORTA_ERROR(AORTA_MEMORY, "no memory for the sweep in %s", directory);
}

/* ---- a sweep's directory ---- */

static aorta_status find_recording(struct aorta_sweep_side *side, size_t place) {
    static const char *const folders[] = {"out", "trace"};
    struct aorta_sweep_recording *recording = &side->recordings[place];
    for (size_t i = 0; i < sizeof folders / sizeof *folders && !recording->folder; i++) {
        const char *folder = aorta_arena_printf(&side->arena, "%s/trials/%04lld/%s", side->directory,
                                                (long long)side->trials.items[place].number, folders[i]);
        const char *page = folder ? aorta_arena_printf(&side->arena, "%s/index.html", folder) : NULL;
        if (!page) return no_memory(side->directory);
        if (access(folder, F_OK) != 0) continue;
        recording->folder = folder;
        if (access(page, F_OK) == 0) recording->page = page;
    }
    return NULL;
}

static aorta_status open_sweep(const char *path, struct aorta_sweep_side *side) {
    AORTA_TRY(aorta_sweep_read(path, &side->arena, &side->plan, &side->target, &side->trials, NULL));
    /* Earlier versions took the time of a step, whatever was in it. A command's steps a second are no better. */
    if (aorta_sweep_is_ours(side->target) && side->plan.objective == AORTA_SWEEP_STEP_MS &&
        aorta_sweep_changes_work(&side->plan.space))
        side->plan.objective = AORTA_SWEEP_THROUGHPUT;
    side->recordings = aorta_arena_alloc(&side->arena, (side->trials.count + 1) * sizeof *side->recordings);
    if (!side->recordings) return no_memory(side->directory);
    for (size_t i = 0; i < side->trials.count; i++)
        if (side->trials.items[i].state == AORTA_TRIAL_DONE) AORTA_TRY(find_recording(side, i));
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
    }
    if (figures) snprintf(trial->device, sizeof trial->device, "%.15s", figures->device);
    if (isfinite(trial->figures[side->plan.objective])) return;
    trial->state = AORTA_TRIAL_NO_FIGURE;
    snprintf(trial->reason, sizeof trial->reason, "%.159s",
             side->recordings[place].reason ? side->recordings[place].reason : "its recording has no such figure");
}

static aorta_status open_folder(struct aorta_sweep_side *side) {
    AORTA_TRY(aorta_sweep_folder_open(side->directory, side));
    AORTA_TRY(aorta_sweep_side_read(side));
    for (size_t i = 0; i < side->trials.count; i++) take_figures(side, i);
    return aorta_sweep_result_make(&side->plan, &side->trials, &side->result);
}

aorta_status aorta_sweep_side_open(const char *directory, const char *label, struct aorta_sweep_side *side) {
    *side = (struct aorta_sweep_side){.directory = directory, .label = label, .target = ""};
    char *path = aorta_path_join(directory, "trials.jsonl");
    if (!path) return no_memory(directory);
    aorta_status status = access(path, F_OK) == 0 ? open_sweep(path, side) : open_folder(side);
    free(path);
    return status;
}

/* ---- what the trials recorded ---- */

/* Large recordings take a gigabyte each. */
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
    side->figures = calloc(side->trials.count + 1, sizeof *side->figures);
    if (!side->figures) return no_memory(side->directory);
    return aorta_parallel(READERS, read_some, side);
}

/* ---- the halves of one sweep ---- */

static void leave_out(struct aorta_sweep_space *space, int knob) {
    space->count--;
    for (int i = knob; i < space->count; i++) space->knobs[i] = space->knobs[i + 1];
}

/* The cell without the knob's digit. */
static int64_t cell_without(const struct aorta_sweep_space *space, int64_t cell, int knob) {
    int64_t below = 1;
    for (int i = knob + 1; i < space->count; i++) below *= space->knobs[i].count;
    return cell / (below * space->knobs[knob].count) * below + cell % below;
}

static aorta_status make_half(const struct aorta_sweep_side *whole, int knob, int value,
                              struct aorta_sweep_side *half) {
    const struct aorta_sweep_space *space = &whole->plan.space;
    half->plan = whole->plan;
    half->target = whole->target;
    half->directory = whole->directory;
    half->environment = whole->environment;
    half->half = true;
    half->label = aorta_arena_printf(&half->arena, "%s=%s", space->knobs[knob].name, space->knobs[knob].values[value]);
    half->recordings = aorta_arena_alloc(&half->arena, (whole->trials.count + 1) * sizeof *half->recordings);
    if (!half->label || !half->recordings) return no_memory(whole->directory);
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

/* "A,B"; values may have commas, so each comma is tried. */
static bool two_values(const struct aorta_sweep_knob *knob, const char *text, int values[2]) {
    for (const char *comma = strchr(text, ','); comma; comma = strchr(comma + 1, ',')) {
        values[0] = value_named(knob, text, (size_t)(comma - text));
        values[1] = value_named(knob, comma + 1, strlen(comma + 1));
        if (values[0] >= 0 && values[1] >= 0 && values[0] != values[1]) return true;
    }
    return false;
}

aorta_status aorta_sweep_side_halves(const struct aorta_sweep_side *whole, const char *by,
                                     struct aorta_sweep_side halves[2]) {
    const struct aorta_sweep_space *space = &whole->plan.space;
    const size_t length = strcspn(by, "=");
    int knob = 0, values[2] = {0, 1};
    for (int side = 0; side < 2; side++) halves[side] = (struct aorta_sweep_side){0};
    while (knob < space->count &&
           (strlen(space->knobs[knob].name) != length || strncmp(space->knobs[knob].name, by, length) != 0))
        knob++;
    if (knob == space->count) return AORTA_ERROR(AORTA_USAGE, "--by %s: %s has no such knob", by, whole->directory);
    if (by[length] ? !two_values(&space->knobs[knob], by + length + 1, values) : space->knobs[knob].count != 2)
        return AORTA_ERROR(AORTA_USAGE, "--by %s: give two values of the knob, as --by NAME=A,B", by);
    if (space->count == 1) return AORTA_ERROR(AORTA_USAGE, "--by %s: %s has no other knob", by, whole->directory);
    for (int side = 0; side < 2; side++) AORTA_TRY(make_half(whole, knob, values[side], &halves[side]));
    return NULL;
}

void aorta_sweep_side_close(struct aorta_sweep_side *side) {
    for (size_t i = 0; side->figures && i < side->trials.count; i++) aorta_figures_free(&side->figures[i]);
    free(side->figures);
    aorta_sweep_result_free(&side->result);
    aorta_trials_free(&side->trials);
    aorta_arena_free(&side->arena);
    *side = (struct aorta_sweep_side){0};
}
