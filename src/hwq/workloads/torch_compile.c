/* Regions as a compiler cuts a model into: A, then B and C side by side, then one that merges the two. Each region is a
 * graph captured beforehand and replayed with one launch. (The name is the one that users know from torch.compile.)
 *
 * Stream s runs region s modulo 4; the rows of the batch are cut into a part for each stream of the first region. A
 * region is y = down(gelu(up(x))); the merge takes the sum of the outputs of B and C. Inside a
 * capture of the whole iteration (--graph) a graph cannot be launched: there the regions' operations are queued. */
#include "hwq/verify.h"

enum { A, B, C, MERGE, REGIONS, MOST_PARTS = AORTA_HWQ_MAX_STREAMS / 4 };

struct options {
    int64_t width, mlp, batch, positions;
    bool compiled;
};

struct part {
    int64_t rows;
    const float *x;
    float *both, *sum;                                    /* [2, rows, width]: of B and C; [rows, width] */
    float *inner[REGIONS], *active[REGIONS], *y[REGIONS]; /* y of B and C are in `both` */
    struct aorta_graph *graphs[REGIONS];
    struct aorta_event *done[REGIONS];
};

struct state {
    struct aorta_hwq_layer up[REGIONS], down[REGIONS];
    struct part parts[MOST_PARTS];
    int64_t part_count;
    struct aorta_hwq_results results;
};

static const char *const names[REGIONS] = {"region A", "region B", "region C", "merge"};

static int stream_for(const struct aorta_hwq *hwq, int region, int64_t part) {
    const int count = (hwq->stream_count - region + 3) / 4;
    return region + 4 * (int)(part % count);
}

static const char *role(const struct aorta_hwq *hwq, int stream) {
    (void)hwq;
    return names[stream % 4];
}

/* ---- regions ---- */

static aorta_status queue_region(struct aorta_hwq *hwq, const struct state *state, const struct part *part, int region,
                                 int s) {
    const struct options *o = hwq->options;
    const int64_t n = part->rows;
    const float *x = region == A ? part->x : region == MERGE ? part->sum : part->y[A];
    if (region == MERGE) AORTA_TRY(aorta_hwq_sum_pieces(hwq, s, part->sum, part->both, 2, n * o->width, 1.0f));
    AORTA_TRY(aorta_hwq_linear(hwq, s, &state->up[region], n, x, part->inner[region]));
    AORTA_TRY(aorta_hwq_gelu(hwq, s, n * o->width * o->mlp, part->inner[region], part->active[region]));
    return aorta_hwq_linear(hwq, s, &state->down[region], n, part->active[region], part->y[region]);
}

/* Run once before: a capture does not allow the allocations of the first use. */
static aorta_status compile_region(struct aorta_hwq *hwq, const struct state *state, struct part *part, int region,
                                   int s) {
    struct aorta_stream *stream = hwq->streams[s];
    AORTA_TRY(queue_region(hwq, state, part, region, s));
    AORTA_TRY(aorta_stream_synchronize(stream));
    AORTA_TRY(aorta_capture_begin(stream));
    aorta_status inside = queue_region(hwq, state, part, region, s);
    aorta_status status = aorta_status_join(inside, aorta_capture_end(stream, &part->graphs[region]));
    return aorta_annotate(status, "torch_compile: %s cannot be captured", names[region]);
}

static aorta_status run_region(struct aorta_hwq *hwq, const struct state *state, const struct part *part, int region,
                               int s) {
    if (!part->graphs[region] || aorta_stream_capturing(hwq->streams[s]))
        return queue_region(hwq, state, part, region, s);
    AORTA_TRY(aorta_hwq_begin(hwq, s, AORTA_SPAN_KERNEL, names[region]));
    AORTA_TRY(aorta_graph_launch(part->graphs[region], hwq->streams[s]));
    return aorta_hwq_end(hwq, s);
}

/* ---- setup ---- */

static aorta_status setup_part(struct aorta_hwq *hwq, struct state *state, int64_t index) {
    const struct options *o = hwq->options;
    struct part *part = &state->parts[index];
    const int64_t all = o->batch * o->positions, wide = o->width * o->mlp;
    const int64_t n = part->rows = all * (index + 1) / state->part_count - all * index / state->part_count;
    float *x;
    AORTA_TRY(aorta_hwq_input(hwq, 1000 + (uint64_t)index, n * o->width, 1.0f, "input", &x));
    part->x = x;
    AORTA_TRY(aorta_hwq_output(hwq, &state->results, 2 * n * o->width, "outputs of B and C", &part->both));
    AORTA_TRY(aorta_hwq_output(hwq, &state->results, n * o->width, "their sum", &part->sum));
    AORTA_TRY(aorta_hwq_output(hwq, &state->results, n * o->width, "output of A", &part->y[A]));
    AORTA_TRY(aorta_hwq_output(hwq, &state->results, n * o->width, "output", &part->y[MERGE]));
    part->y[B] = part->both;
    part->y[C] = part->both + n * o->width;
    for (int region = 0; region < REGIONS; region++) {
        AORTA_TRY(aorta_hwq_output(hwq, &state->results, n * wide, "inside a region", &part->inner[region]));
        AORTA_TRY(aorta_hwq_output(hwq, &state->results, n * wide, "inside a region", &part->active[region]));
        AORTA_TRY(aorta_hwq_event(hwq, &part->done[region]));
    }
    return NULL;
}

static aorta_status setup(struct aorta_hwq *hwq, void **made) {
    const struct options *o = hwq->options;
    AORTA_TRY(aorta_hwq_state(hwq, sizeof(struct state), made));
    struct state *state = *made;
    const int64_t streams = (hwq->stream_count + 3) / 4, all = o->batch * o->positions;
    state->part_count = streams < all ? streams : all;
    for (int region = 0; region < REGIONS; region++) {
        const uint64_t id = 10 * (uint64_t)(region + 1);
        AORTA_TRY(aorta_hwq_layer_make(hwq, id, o->width, o->width * o->mlp, false, &state->up[region]));
        AORTA_TRY(aorta_hwq_layer_make(hwq, id + 2, o->width * o->mlp, o->width, false, &state->down[region]));
    }
    for (int64_t p = 0; p < state->part_count; p++) AORTA_TRY(setup_part(hwq, state, p));
    AORTA_TRY(aorta_stream_synchronize(hwq->streams[0])); /* the inputs are ready */
    for (int64_t p = 0; p < state->part_count && o->compiled; p++)
        for (int region = 0; region < REGIONS; region++)
            AORTA_TRY(compile_region(hwq, state, &state->parts[p], region, stream_for(hwq, region, p)));
    return NULL;
}

static void teardown(struct aorta_hwq *hwq, void *opaque) {
    struct state *state = opaque;
    (void)hwq;
    for (int64_t p = 0; p < state->part_count; p++)
        for (int region = 0; region < REGIONS; region++)
            if (state->parts[p].graphs[region]) aorta_graph_destroy(state->parts[p].graphs[region]);
}

/* ---- one iteration ---- */

static aorta_status run_part(struct aorta_hwq *hwq, struct state *state, int64_t p) {
    const struct part *part = &state->parts[p];
    int s[REGIONS];
    for (int region = 0; region < REGIONS; region++) s[region] = stream_for(hwq, region, p);
    AORTA_TRY(run_region(hwq, state, part, A, s[A]));
    AORTA_TRY(aorta_event_record(part->done[A], hwq->streams[s[A]]));
    for (int region = B; region <= C; region++) {
        AORTA_TRY(aorta_stream_wait(hwq->streams[s[region]], part->done[A]));
        AORTA_TRY(run_region(hwq, state, part, region, s[region]));
        AORTA_TRY(aorta_hwq_after(hwq, s[MERGE], part->done[region], s[region]));
    }
    return run_region(hwq, state, part, MERGE, s[MERGE]);
}

static aorta_status iterate(struct aorta_hwq *hwq, void *opaque) {
    struct state *state = opaque;
    for (int64_t p = 0; p < state->part_count; p++) AORTA_TRY(run_part(hwq, state, p));
    return NULL;
}

static aorta_status work(struct aorta_hwq *hwq, void *state, int64_t iterations, double *amount) {
    (void)state;
    *amount = (double)(iterations * ((const struct options *)hwq->options)->batch);
    return NULL;
}

/* ---- verification ---- */

static aorta_status verify_part(struct aorta_hwq_verifier *verifier, const struct state *state,
                                const struct part *part) {
    const struct options *o = verifier->hwq->options;
    const int64_t n = part->rows, count = n * o->width;
    const float *both, *sum;
    AORTA_TRY(aorta_hwq_fetch(verifier, part->both, 2 * count, &both));
    AORTA_TRY(aorta_hwq_fetch(verifier, part->sum, count, &sum));
    for (int64_t i = 0; i < aorta_hwq_sample_count(count); i++) {
        const int64_t at = aorta_hwq_sample(i, count);
        aorta_hwq_compare(verifier->check, (double)sum[at], (double)both[at] + (double)both[count + at], 1e-7, 1e-6,
                          "sum of B and C, %lld", (long long)at);
    }
    for (int region = 0; region < REGIONS; region++) {
        const float *x = region == A ? part->x : region == MERGE ? part->sum : part->y[A];
        AORTA_TRY(aorta_hwq_verify_linear(verifier, names[region], &state->up[region], n, x, part->inner[region],
                                          AORTA_HWQ_PLAIN, AORTA_HWQ_FP32));
        AORTA_TRY(aorta_hwq_verify_gelu(verifier, names[region], n * o->width * o->mlp, part->inner[region],
                                        part->active[region]));
        AORTA_TRY(aorta_hwq_verify_linear(verifier, names[region], &state->down[region], n, part->active[region],
                                          part->y[region], AORTA_HWQ_PLAIN, AORTA_HWQ_FP32));
    }
    return NULL;
}

static aorta_status compare(struct aorta_hwq_verifier *verifier, void *opaque) {
    const struct state *state = opaque;
    for (int64_t p = 0; p < state->part_count; p++) AORTA_TRY(verify_part(verifier, state, &state->parts[p]));
    return NULL;
}

static aorta_status verify(struct aorta_hwq *hwq, void *opaque, struct aorta_hwq_check *result) {
    return aorta_hwq_verify_iteration(hwq, result, &((struct state *)opaque)->results, opaque, iterate, compare);
}

static const struct aorta_option rows[] = {
    AORTA_HWQ_ROW(struct options, width, "1024", aorta_hwq_sizes, "width between regions"),
    AORTA_HWQ_ROW(struct options, mlp, "4", aorta_hwq_sizes, "width inside a region, as a multiple"),
    AORTA_HWQ_ROW(struct options, batch, "16", aorta_hwq_sizes, "sequences"),
    AORTA_HWQ_ROW(struct options, positions, "256", aorta_hwq_sizes, "positions of each"),
    {"compiled", AORTA_OPTION_BOOL, offsetof(struct options, compiled), "true",
     .help = "regions are graphs captured beforehand; --compiled=false: their operations are queued one by one"},
};

static const struct aorta_hwq_size on_cpu[] = {{"width", "128"}, {"positions", "64"}, {0}};

const struct aorta_hwq_workload aorta_hwq_torch_compile = {
    .name = "torch_compile",
    .summary = "graphs of regions on several streams: those without a dependency should not wait for each other",
    .group = AORTA_HWQ_P3,
    .category = AORTA_HWQ_PIPELINE,
    .sensitivity = AORTA_HWQ_MEDIUM,
    .min_streams = 4,
    .max_streams = 12,
    .recommended_streams = 8,
    .unit = "samples/s",
    .options = rows,
    .option_count = sizeof rows / sizeof *rows,
    .option_bytes = sizeof(struct options),
    .on_cpu = on_cpu,
    .try_next = "--compiled=false shows what the regions' graphs save; with small --positions launches matter more",
    .role = role,
    .setup = setup,
    .iterate = iterate,
    .work = work,
    .verify = verify,
    .teardown = teardown,
};
