/* Bandwidth of each kind of collective of fsdp_tp, alone. As in nccl-tests, the time of calls in a row is divided by
 * their number: a stamp around each would add the start of a kernel. */
#include "hwq/gaps.h"
#include "hwq/iterations.h"
#include "hwq/workloads/fsdp_tp.h"

#include "base/collective.h"

#include <math.h>
#include <stdio.h>

enum { ITERATIONS = 10, MOST_MS = 1000, ROW = 20 }; /* ROW: calls in a row, as many as nccl-tests make */

static const struct {
    const char *name;
    enum aorta_collective collective;
} kinds[FSDP_COLLECTIVES] = {[FSDP_GATHER] = {"gather", AORTA_ALL_GATHER},
                             [FSDP_REDUCTION] = {"reduction", AORTA_ALL_REDUCE},
                             [FSDP_EXCHANGE] = {"exchange", AORTA_ALL_REDUCE}};

struct alone {
    struct fsdp_state *state;
    struct aorta_hwq_samples samples[FSDP_COLLECTIVES]; /* ns a call */
};

static aorta_status iterate(struct aorta_hwq *hwq, void *user) {
    const struct alone *alone = user;
    for (int kind = 0; kind < FSDP_COLLECTIVES; kind++)
        AORTA_TRY(aorta_hwq_fsdp_row(hwq, alone->state, (enum fsdp_collective)kind, ROW));
    return NULL;
}

/* A span is a row, in the order of launches. */
static aorta_status add_spans(void *user, const struct aorta_hwq_spans *spans) {
    struct alone *alone = user;
    for (size_t i = 0; i < spans->count && i < (size_t)FSDP_COLLECTIVES; i++)
        AORTA_TRY(aorta_hwq_samples_add(&alone->samples[i],
                                        (double)(spans->items[i].end_ns - spans->items[i].start_ns) / ROW));
    return NULL;
}

static aorta_status say(const struct aorta_hwq *hwq, struct alone *alone, enum fsdp_collective kind,
                        struct aorta_hwq_result *result) {
    const struct fsdp_message message = aorta_hwq_fsdp_message(hwq, alone->state, kind);
    const double seconds = aorta_hwq_samples_median(&alone->samples[kind]) * 1e-9;
    const bool carried = message.ranks > 1;
    const double factor = aorta_collective_bus_factor(kinds[kind].collective, message.ranks);
    const char *none = carried ? "no collective ran" : "one rank: no data crosses a bus";
    char name[64];
    snprintf(name, sizeof name, "%s_size", kinds[kind].name);
    AORTA_TRY(aorta_hwq_result_figure(result, name, "MiB", (double)message.bytes / (1 << 20), NULL));
    snprintf(name, sizeof name, "%s_busbw_alone", kinds[kind].name);
    return aorta_hwq_result_figure(result, name, "GB/s",
                                   carried ? (double)message.bytes * factor / seconds * 1e-9 : NAN, none);
}

aorta_status aorta_hwq_fsdp_report(struct aorta_hwq *hwq, void *state, struct aorta_hwq_result *result) {
    struct alone alone = {.state = state};
    const struct aorta_hwq_plan plan = {
        .iterations = aorta_hwq_result_iterations(result, MOST_MS, ITERATIONS), .iterate = iterate, .state = &alone};
    aorta_status status = aorta_hwq_stamp_iterations(hwq, &plan, add_spans, &alone);
    result->figure_group = "one collective alone";
    for (int kind = 0; kind < FSDP_COLLECTIVES && !status; kind++)
        status = say(hwq, &alone, (enum fsdp_collective)kind, result);
    for (int kind = 0; kind < FSDP_COLLECTIVES; kind++) aorta_hwq_samples_free(&alone.samples[kind]);
    return status;
}
