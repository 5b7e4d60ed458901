#include "sweep/objective.h"
#include "base/files.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static double number_in(const json_t *object, const char *key, const char *inner) {
    return number(json_object_get(object, key), inner);
}

static void set_device(const json_t *name, char device[16]) {
    if (json_is_string(name))
        snprintf(device, 16, "%.*s", (int)strcspn(json_string_value(name), ":"), json_string_value(name));
}

static void from_summary(const json_t *root, struct aorta_sweep_measured *out) {
    json_t *labels = json_object_get(root, "labels");
    const json_t *run = json_object_iter_value(json_object_iter(labels));
    set_device(json_object_get(run, "device"), out->device);
    out->figures[AORTA_SWEEP_STEP_MS] = number_in(run, "step_ms", "p50");
    out->figures[AORTA_SWEEP_OVERLAP_RATIO] = number(run, "overlap_ratio_total");
    out->figures[AORTA_SWEEP_EXPOSED_COMM_MS] = number_in(run, "exposed_comm_ms", "mean");
    out->figures[AORTA_SWEEP_THROUGHPUT] = number_in(run, "samples_per_s", "mean");
}

/* Means over the steps of all ranks; a recording without steps has shares only. */
static void from_analysis(const json_t *root, struct aorta_sweep_measured *out) {
    double overlap = 0, comm = 0, exposed = 0;
    size_t i, j, steps = 0;
    const json_t *rank, *step;
    json_array_foreach(json_object_get(root, "ranks"), i, rank) {
        json_array_foreach(json_object_get(rank, "steps"), j, step) {
            overlap += number(step, "overlap_ms");
            comm += number(step, "comm_ms");
            exposed += number(step, "exposed_comm_ms");
            steps++;
        }
    }
    snprintf(out->device, sizeof out->device, "gpu");
    if (!steps) return;
    out->figures[AORTA_SWEEP_STEP_MS] = number(root, "judged_ms_mean");
    out->figures[AORTA_SWEEP_OVERLAP_RATIO] = comm > 0 ? fmin(overlap / comm, 1) : NAN; /* rounded sums */
    out->figures[AORTA_SWEEP_EXPOSED_COMM_MS] = exposed / (double)steps;
    out->figures[AORTA_SWEEP_THROUGHPUT] = 1e3 / out->figures[AORTA_SWEEP_STEP_MS];
}

static void from_hwq(const json_t *root, struct aorta_sweep_measured *out) {
    set_device(json_object_get(json_object_get(json_object_get(root, "metadata"), "config"), "device"), out->device);
    out->figures[AORTA_SWEEP_STEP_MS] = number_in(root, "latency_ms", "p50");
    out->figures[AORTA_SWEEP_THROUGHPUT] = number(root, "throughput");
    out->pressure = number(root, "machine_pressure");
}

static void from_result(const json_t *root, struct aorta_sweep_measured *out) {
    for (int i = 0; i < AORTA_SWEEP_OBJECTIVE_COUNT; i++) {
        double figure = number(root, aorta_sweep_objectives[i].key);
        if (isfinite(figure)) out->figures[i] = figure;
    }
}

/* Figures out of range become unknown. */
static aorta_status check_ranges(const char *path, double figures[AORTA_SWEEP_OBJECTIVE_COUNT]) {
    aorta_status status = NULL;
    for (int i = 0; i < AORTA_SWEEP_OBJECTIVE_COUNT; i++) {
        const struct aorta_sweep_objective_row *row = &aorta_sweep_objectives[i];
        if (aorta_sweep_figure_fits((enum aorta_sweep_objective)i, figures[i])) continue;
        if (!status)
            status = AORTA_ERROR(AORTA_FORMAT, "%s: %s is %g, which is not in %c%g, %g]", path, row->key, figures[i],
                                 row->above_min ? '(' : '[', row->min, row->max);
        figures[i] = NAN;
    }
    return status;
}

aorta_status aorta_sweep_figures_read(const char *path, enum aorta_sweep_source source,
                                      struct aorta_sweep_measured *out) {
    static void (*const readers[])(const json_t *, struct aorta_sweep_measured *) = {from_summary, from_analysis,
                                                                                     from_hwq, from_result};
    /* Values take many times the bytes of their text: a trial must not fill the memory. */
    const size_t most = source == AORTA_SWEEP_FROM_RESULT ? 1 << 20 : 64 << 20;
    char *bytes;
    size_t length;
    json_error_t error;
    AORTA_TRY(aorta_file_read_regular(path, most, &bytes, &length));
    json_t *root = json_loadb(bytes, length, 0, &error);
    free(bytes);
    if (!root) return AORTA_ERROR(AORTA_FORMAT, "%s:%d: %s", path, error.line, error.text);
    readers[source](root, out);
    json_decref(root);
    return check_ranges(path, out->figures);
}
