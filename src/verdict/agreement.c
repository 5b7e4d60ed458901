/* Set differences say which part of a range was no kernel. |A| − |B| = |A − B| − |B − A| holds for any two sets, so
 * that nothing is left unexplained. */
#include "verdict/agreement.h"

#include <math.h>

const char *aorta_agreement_name(enum aorta_agreement_figure figure) {
    static const char *const names[AORTA_AGREE_COUNT] = {"compute", "comm", "overlap", "idle"};
    return (unsigned)figure < AORTA_AGREE_COUNT ? names[figure] : "unknown";
}

/* One view as sets of time. */
struct sets {
    struct aorta_intervals compute, comm, all;
};

static void free_sets(struct sets *sets) {
    aorta_intervals_free(&sets->compute);
    aorta_intervals_free(&sets->comm);
    aorta_intervals_free(&sets->all);
}

static aorta_status collect(const struct aorta_profile *profile, struct sets *sets) {
    for (size_t i = 0; i < profile->range_count; i++) {
        const struct aorta_range *range = &profile->ranges[i];
        AORTA_TRY(aorta_intervals_add(&sets->all, range->start_ns, range->end_ns));
        if (range->info.kind == AORTA_RANGE_COMPUTE)
            AORTA_TRY(aorta_intervals_add(&sets->compute, range->start_ns, range->end_ns));
        if (range->info.kind == AORTA_RANGE_COLLECTIVE)
            AORTA_TRY(aorta_intervals_add(&sets->comm, range->start_ns, range->end_ns));
    }
    aorta_intervals_normalise(&sets->compute);
    aorta_intervals_normalise(&sets->comm);
    aorta_intervals_normalise(&sets->all);
    return NULL;
}

typedef aorta_status operation(struct aorta_intervals *a, struct aorta_intervals *b, struct aorta_intervals *out);

/* Adds the length of a combination of two sets. */
static aorta_status add_length(operation *combine, struct aorta_intervals *a, struct aorta_intervals *b,
                               int64_t *length_ns) {
    struct aorta_intervals out = {0};
    aorta_status status = combine(a, b, &out);
    if (!status) *length_ns += aorta_intervals_length(&out);
    aorta_intervals_free(&out);
    return status;
}

/* Times at which a range was open and the host may still have been launching it. */
static aorta_status collect_launching(const struct aorta_profile *ranges, struct aorta_intervals *launching) {
    for (size_t i = 0; i < ranges->range_count; i++) {
        const struct aorta_range *range = &ranges->ranges[i];
        int64_t launched_ns = aorta_range_launched_by(ranges, i);
        if (launched_ns > range->end_ns) launched_ns = range->end_ns;
        AORTA_TRY(aorta_intervals_add(launching, range->start_ns, launched_ns));
    }
    aorta_intervals_normalise(launching);
    return NULL;
}

static aorta_status add_gaps(struct aorta_agreement *agreement, const struct aorta_profile *profile,
                             struct sets *ranges, struct sets *kernels) {
    struct aorta_intervals gaps = {0}, launching = {0};
    int64_t host_ns = 0;
    aorta_status status = aorta_intervals_subtract(&ranges->all, &kernels->all, &gaps);
    if (!status) status = collect_launching(profile, &launching);
    if (!status) status = add_length(aorta_intervals_intersect, &gaps, &launching, &host_ns);
    if (!status) {
        agreement->host_gap_ns += host_ns;
        agreement->latency_gap_ns += aorta_intervals_length(&gaps) - host_ns;
    }
    aorta_intervals_free(&gaps);
    aorta_intervals_free(&launching);
    return status;
}

static aorta_status add_class(struct aorta_agreement *agreement, int figure, struct aorta_intervals *ranges,
                              struct aorta_intervals *kernels) {
    agreement->range_ns[figure] += aorta_intervals_length(ranges);
    agreement->kernel_ns[figure] += aorta_intervals_length(kernels);
    AORTA_TRY(add_length(aorta_intervals_subtract, ranges, kernels, &agreement->gap_ns[figure]));
    return add_length(aorta_intervals_subtract, kernels, ranges, &agreement->outside_ns[figure]);
}

/* Idle time of both views within the window of the ranges. */
static aorta_status add_idle(struct aorta_agreement *agreement, const struct aorta_profile *profile,
                             struct sets *ranges, struct sets *kernels) {
    struct aorta_intervals window = {0};
    aorta_status status = aorta_intervals_add(&window, profile->start_ns, profile->end_ns);
    aorta_intervals_normalise(&window);
    if (!status)
        status = add_length(aorta_intervals_subtract, &window, &ranges->all, &agreement->range_ns[AORTA_AGREE_IDLE]);
    if (!status)
        status = add_length(aorta_intervals_subtract, &window, &kernels->all, &agreement->kernel_ns[AORTA_AGREE_IDLE]);
    aorta_intervals_free(&window);
    return status;
}

static aorta_status add_figures(struct aorta_agreement *agreement, const struct aorta_profile *profile,
                                struct sets *ranges, struct sets *kernels) {
    AORTA_TRY(add_class(agreement, AORTA_AGREE_COMPUTE, &ranges->compute, &kernels->compute));
    AORTA_TRY(add_class(agreement, AORTA_AGREE_COMM, &ranges->comm, &kernels->comm));
    AORTA_TRY(add_length(aorta_intervals_intersect, &ranges->compute, &ranges->comm,
                         &agreement->range_ns[AORTA_AGREE_OVERLAP]));
    AORTA_TRY(add_length(aorta_intervals_intersect, &kernels->compute, &kernels->comm,
                         &agreement->kernel_ns[AORTA_AGREE_OVERLAP]));
    AORTA_TRY(add_idle(agreement, profile, ranges, kernels));
    return add_gaps(agreement, profile, ranges, kernels);
}

aorta_status aorta_agreement_add(struct aorta_agreement *agreement, const struct aorta_profile *ranges,
                                 const struct aorta_profile *kernels) {
    struct sets range_sets = {0}, kernel_sets = {0};
    aorta_status status = collect(ranges, &range_sets);
    if (!status) status = collect(kernels, &kernel_sets);
    if (!status) status = add_figures(agreement, ranges, &range_sets, &kernel_sets);
    free_sets(&range_sets);
    free_sets(&kernel_sets);
    if (status) return status;
    for (size_t i = 0; i < ranges->range_count; i++) {
        if (ranges->ranges[i].info.kind != AORTA_RANGE_COLLECTIVE) continue;
        agreement->collectives++;
        agreement->room += ranges->ranges[i].room;
        agreement->witnessed += ranges->ranges[i].room && ranges->ranges[i].witnessed;
    }
    agreement->iterations++;
    agreement->kernels += (int64_t)kernels->range_count;
    agreement->attributed += kernels->kernels.attributed;
    agreement->dropped += kernels->kernels.dropped;
    return NULL;
}

double aorta_agreement_difference(const struct aorta_agreement *agreement, enum aorta_agreement_figure figure) {
    int64_t range = agreement->range_ns[figure], kernel = agreement->kernel_ns[figure];
    if (kernel == 0) return range == 0 ? 0 : NAN;
    return (double)(range - kernel) / (double)kernel;
}

const char *aorta_agreement_range_start(const struct aorta_agreement *agreement) {
    if (!agreement->collectives) return NULL;
    if (!agreement->room) return "stream";
    if (agreement->witnessed == agreement->collectives) return "kernel";
    return agreement->room == agreement->collectives ? "room" : "mixed";
}

static double mean_ms(const struct aorta_agreement *agreement, int64_t ns) {
    return (double)ns / 1e6 / (double)agreement->iterations;
}

void aorta_agreement_text(const struct aorta_agreement *agreement, struct aorta_text *out) {
    static const char *const words[AORTA_AGREE_COUNT] = {"compute", "communication", "overlap", "idle"};
    aorta_text_puts(out, "kernels:");
    for (int figure = 0; figure < AORTA_AGREE_COUNT; figure++) {
        double difference = aorta_agreement_difference(agreement, (enum aorta_agreement_figure)figure);
        aorta_text_printf(out, "%s %s %.2f ms", figure ? "," : "", words[figure],
                          mean_ms(agreement, agreement->kernel_ns[figure]));
        if (isnan(difference))
            aorta_text_printf(out, " (ranges: %.2f)", mean_ms(agreement, agreement->range_ns[figure]));
        else if (agreement->kernel_ns[figure])
            aorta_text_printf(out, " (ranges %+.1f%%)", 100 * difference);
    }
    aorta_text_printf(out, "; gaps inside ranges: %.2f ms host, %.2f ms launch latency",
                      mean_ms(agreement, agreement->host_gap_ns), mean_ms(agreement, agreement->latency_gap_ns));
    aorta_text_printf(out, "; %.2f ms between the kernels of compute's ranges",
                      mean_ms(agreement, agreement->gap_ns[AORTA_AGREE_COMPUTE]));
    if (agreement->dropped)
        aorta_text_printf(out, "; %lld kernel records were lost: the kernels' figures are too low",
                          (long long)agreement->dropped);
}
