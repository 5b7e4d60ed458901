#include "profile/kernel_lines.h"
#include "profile/kernels.h"

#include <stdlib.h>
#include <string.h>

/* A finished step whose kernel records are awaited. */
struct line {
    struct aorta_step_metrics metrics; /* its pointers are set when it is written */
    struct aorta_memory_info memory;
    struct aorta_profile profile;
    struct aorta_overlap overlap;
};

struct aorta_kernel_lines {
    struct aorta_tracer *tracer;
    struct aorta_metrics_writer *writer;
    struct line lines[AORTA_KERNEL_LINES]; /* a ring */
    int first, count;
    int64_t last_end_ns; /* of the kernel view before; INT64_MIN: none */
};

aorta_status aorta_kernel_lines_open(struct aorta_tracer *tracer, struct aorta_metrics_writer *writer,
                                     struct aorta_kernel_lines **lines) {
    *lines = calloc(1, sizeof **lines);
    if (!*lines) return AORTA_ERROR(AORTA_MEMORY, "no memory for the lines of traced steps");
    (*lines)->tracer = tracer;
    (*lines)->writer = writer;
    (*lines)->last_end_ns = INT64_MIN;
    return NULL;
}

static void drop_first(struct aorta_kernel_lines *lines) {
    struct line *line = &lines->lines[lines->first];
    aorta_overlap_free(&line->overlap);
    aorta_profile_free(&line->profile);
    lines->first = (lines->first + 1) % AORTA_KERNEL_LINES;
    lines->count--;
}

void aorta_kernel_lines_close(struct aorta_kernel_lines *lines) {
    if (!lines) return;
    while (lines->count) drop_first(lines);
    free(lines);
}

static aorta_status make_view(struct aorta_kernel_lines *lines, const struct line *line, struct aorta_profile *kernels,
                              struct aorta_overlap *overlap) {
    AORTA_TRY(aorta_tracer_take(lines->tracer, line->profile.start_ns, line->profile.end_ns, kernels));
    AORTA_TRY(aorta_kernels_attribute(kernels, &line->profile));
    AORTA_TRY(aorta_overlap_compute(kernels, lines->last_end_ns, overlap));
    if (kernels->range_count) lines->last_end_ns = kernels->end_ns;
    return NULL;
}

static aorta_status write_first(struct aorta_kernel_lines *lines) {
    struct line *line = &lines->lines[lines->first];
    struct aorta_profile kernels = {0};
    struct aorta_overlap overlap = {0};
    struct aorta_step_metrics metrics = line->metrics;
    metrics.memory = line->metrics.memory ? &line->memory : NULL;
    metrics.profile = &line->profile;
    metrics.overlap = &line->overlap;
    metrics.kernel_profile = &kernels;
    metrics.kernel_overlap = &overlap;
    aorta_status status = make_view(lines, line, &kernels, &overlap);
    if (!status) status = aorta_metrics_write(lines->writer, &metrics);
    aorta_overlap_free(&overlap);
    aorta_profile_free(&kernels);
    drop_first(lines);
    return status;
}

/* Writes the lines whose records have arrived, and the oldest when there is no room for another. */
static aorta_status write_reached(struct aorta_kernel_lines *lines) {
    while (lines->count) {
        bool reached = false;
        AORTA_TRY(aorta_tracer_reached(lines->tracer, lines->lines[lines->first].profile.end_ns, &reached));
        if (!reached && lines->count < AORTA_KERNEL_LINES) return NULL;
        AORTA_TRY(write_first(lines));
    }
    return NULL;
}

aorta_status aorta_kernel_lines_add(struct aorta_kernel_lines *lines, const struct aorta_step_metrics *metrics,
                                    struct aorta_profile *profile, struct aorta_overlap *overlap) {
    struct line *line = &lines->lines[(lines->first + lines->count) % AORTA_KERNEL_LINES];
    *line = (struct line){.metrics = *metrics, .profile = *profile, .overlap = *overlap};
    if (metrics->memory) line->memory = *metrics->memory;
    memset(profile, 0, sizeof *profile);
    memset(overlap, 0, sizeof *overlap);
    lines->count++;
    return write_reached(lines);
}

aorta_status aorta_kernel_lines_finish(struct aorta_kernel_lines *lines) {
    if (!lines->count) return NULL;
    AORTA_TRY(aorta_tracer_flush(lines->tracer, true));
    while (lines->count) AORTA_TRY(write_first(lines));
    return NULL;
}
