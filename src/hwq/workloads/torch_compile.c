/* The regions into which a compiler cuts a model: A, then B and C side by side, then one that merges the two. Each
 * region is a graph captured beforehand and replayed with one launch. (Users know the name from torch.compile.)
 *
 * Stream s runs region s modulo 4; the rows of the batch are cut into a part for each stream of the first region. A
 * region is y = down(gelu(up(x))); the merge takes the sum of the outputs of B and C. Inside a
 * capture of the whole iteration (--graph) a graph cannot be launched: there the regions' operations are queued. */
#include "hwq/operations.h"

enum { A, B, C, MERGE, REGIONS };

struct options {
    int64_t width, mlp, batch, positions;
    bool compiled;
};

struct state {
    struct hwq_layer up[REGIONS], down[REGIONS];
};

static const char *const roles[] = {"region A", "region B", "region C", "merge", NULL};

/* A region on rows number `part`; merge sums two outputs, one below the other. */
static struct hwq_tensor region(struct hwq_graph *g, const struct state *state, int which, int64_t part,
                                struct hwq_tensor x, struct hwq_tensor y) {
    const struct options *o = g->options;
    const int s = hwq_stream(g, which, REGIONS, part);
    if (o->compiled) hwq_region_begin(g, s, roles[which]);
    if (which == MERGE) x = hwq_sum_pieces(g, s, x, 2, 1.0f);
    const struct hwq_tensor inner = hwq_linear(g, s, &state->up[which], x);
    const struct hwq_tensor active = hwq_gelu(g, s, inner);
    y = hwq_linear(hwq_into(g, y), s, &state->down[which], active);
    hwq_region_end(g);
    return y;
}

static void build(struct hwq_graph *g) {
    const struct options *o = g->options;
    const int64_t streams = (g->hwq->stream_count + 3) / 4, all = o->batch * o->positions;
    const int64_t parts = streams < all ? streams : all;
    const struct hwq_tensor none = {0};
    struct state state;
    for (int r = 0; r < REGIONS; r++) {
        state.up[r] = hwq_layer(g, 10 * (uint64_t)(r + 1), o->width, o->width * o->mlp, false);
        state.down[r] = hwq_layer(g, 10 * (uint64_t)(r + 1) + 2, o->width * o->mlp, o->width, false);
    }
    for (int64_t p = 0; p < parts; p++) {
        const int64_t n = hwq_part(all, parts, p).count;
        const struct hwq_tensor x = hwq_input(g, 1000 + (uint64_t)p, n, o->width, 1.0f, "input");
        const struct hwq_tensor both = hwq_result(g, AORTA_F32, 2 * n, o->width, "outputs of B and C");
        const struct hwq_tensor y = region(g, &state, A, p, x, none);
        region(g, &state, B, p, y, hwq_rows(both, 0, n));
        region(g, &state, C, p, y, hwq_rows(both, n, n));
        region(g, &state, MERGE, p, both, none);
    }
    g->work = (double)o->batch;
}

static const struct aorta_option rows[] = {
    AORTA_HWQ_ROW(struct options, width, "1024", "128", 1, HWQ_LARGEST, "width between regions"),
    AORTA_HWQ_ROW(struct options, mlp, "4", NULL, 1, HWQ_LARGEST, "width inside a region, as a multiple"),
    AORTA_HWQ_ROW(struct options, batch, "16", NULL, 1, HWQ_LARGEST, "sequences"),
    AORTA_HWQ_ROW(struct options, positions, "256", "64", 1, HWQ_LARGEST, "positions of each"),
    {"compiled", AORTA_OPTION_BOOL, offsetof(struct options, compiled), "true",
     .help = "regions are graphs captured beforehand; --compiled=false: their operations are queued one by one"},
};

const struct aorta_hwq_workload aorta_hwq_torch_compile = {
    .name = "torch_compile",
    .summary = "graphs of regions on several streams: regions without a dependency should not wait for each other",
    .group = AORTA_HWQ_P3,
    .category = "pipeline",
    .sensitivity = "medium",
    .streams = {.min = 4, .max = 12, .recommended = 8},
    .unit = "samples/s",
    AORTA_HWQ_OPTIONS(rows, struct options),
    .try_next = "--compiled=false shows what the regions' graphs save; with small --positions launches matter more",
    .roles = roles,
    .build = build,
};
