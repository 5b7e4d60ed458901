/* Activation checkpointing: the forward pass stores only the input of each segment of blocks; the backward pass
 * recomputes a segment's activations while the gradient of the next segment is computed.
 *
 * The rows of the batch are cut into parts. Part p runs forward and gradients on stream p of the first half, and
 * recomputes on a stream of the second half. A segment's activations go into one of two sets of memory. Recomputation
 * may fill a set once the gradient of the segment that used it is done. Gradients of weights are
 * summed over the parts in their order. A block is y = down(gelu(up(x))); the loss is half the squared length of the
 * last y, whose gradient is y itself. */
#include "hwq/operations.h"

enum { MOST_BLOCKS = 64 };

struct options {
    int64_t blocks, every, width, hidden, batch, positions;
};

struct block {
    struct hwq_layer up, down;
    struct hwq_tensor dx, dactive, dinner; /* [rows, width], [rows, hidden] twice */
};

/* Activations of all blocks of a segment. */
struct activations {
    struct hwq_tensor inner[MOST_BLOCKS], active[MOST_BLOCKS], y[MOST_BLOCKS]; /* [rows, hidden] twice, [rows, width] */
};

struct state {
    struct block blocks[MOST_BLOCKS];
    struct hwq_tensor checkpoints[MOST_BLOCKS + 1]; /* inputs of segments, and the last output: [rows, width] */
    struct activations scratch, sets[2];
};

struct part {
    int64_t number;
    struct hwq_part rows; /* of the batch */
};

static int gradient_streams(const struct aorta_hwq *hwq) {
    return (hwq->stream_count + 1) / 2;
}
static int recompute_stream(const struct aorta_hwq *hwq, int64_t part) {
    return gradient_streams(hwq) + (int)(part % (hwq->stream_count - gradient_streams(hwq)));
}

static const char *role(const struct aorta_hwq *hwq, int stream) {
    return stream < gradient_streams(hwq) ? "forward and gradients" : "recomputation";
}

static aorta_status check(const struct aorta_hwq *hwq) {
    const struct options *o = hwq->options;
    if (o->blocks % o->every == 0) return NULL;
    return AORTA_ERROR(AORTA_USAGE, "activation_ckpt: %lld blocks cannot be cut into segments of %lld",
                       (long long)o->blocks, (long long)o->every);
}

static void make_activations(struct hwq_graph *g, int64_t rows, struct activations *set) {
    const struct options *o = g->options;
    for (int64_t b = 0; b < o->every; b++) {
        set->inner[b] = hwq_result(g, AORTA_F32, rows, o->hidden, "inside a block");
        set->active[b] = hwq_result(g, AORTA_F32, rows, o->hidden, "inside a block, after GELU");
        if (b + 1 < o->every) set->y[b] = hwq_result(g, AORTA_F32, rows, o->width, "output of a block");
    }
}

static void make_tensors(struct hwq_graph *g, struct state *state) {
    const struct options *o = g->options;
    const int64_t rows = o->batch * o->positions;
    state->checkpoints[0] = hwq_input(g, 1, rows, o->width, 1.0f, "input");
    for (int64_t i = 1; i <= o->blocks / o->every; i++)
        state->checkpoints[i] = hwq_result(g, AORTA_F32, rows, o->width, "checkpoint");
    make_activations(g, rows, &state->scratch);
    make_activations(g, rows, &state->sets[0]);
    make_activations(g, rows, &state->sets[1]);
    for (int64_t i = 0; i < o->blocks; i++) {
        struct block *b = &state->blocks[i];
        b->up = hwq_layer(g, 10 * (uint64_t)(i + 1), o->width, o->hidden, true);
        b->down = hwq_layer(g, 10 * (uint64_t)(i + 1) + 4, o->hidden, o->width, true);
        b->dx = hwq_result(g, AORTA_F32, rows, o->width, "gradient before a block");
        b->dactive = hwq_result(g, AORTA_F32, rows, o->hidden, "gradient inside a block");
        b->dinner = hwq_result(g, AORTA_F32, rows, o->hidden, "gradient before GELU");
    }
}

static struct hwq_tensor own(const struct part *part, struct hwq_tensor t) {
    return hwq_rows(t, part->rows.first, part->rows.count);
}

/* Runs a part's rows through a segment, into `set`. Recomputation does not compute the last block's output. */
static void run_segment(struct hwq_graph *g, int s, const struct state *state, const struct part *part, int64_t segment,
                        const struct activations *set) {
    const struct options *o = g->options;
    struct hwq_tensor x = own(part, state->checkpoints[segment]);
    for (int64_t i = 0; i < o->every; i++) {
        const struct block *b = &state->blocks[segment * o->every + i];
        const bool last = i == o->every - 1;
        const struct hwq_tensor inner = hwq_linear(hwq_into(g, own(part, set->inner[i])), s, &b->up, x);
        const struct hwq_tensor active = hwq_gelu(hwq_into(g, own(part, set->active[i])), s, inner);
        if (last && set != &state->scratch) return;
        x = hwq_linear(hwq_into(g, own(part, last ? state->checkpoints[segment + 1] : set->y[i])), s, &b->down, active);
    }
}

static void recompute(struct hwq_graph *g, const struct state *state, const struct part *part, int64_t segment) {
    run_segment(g, recompute_stream(g->hwq, part->number), state, part, segment, &state->sets[segment % 2]);
}

/* Gradients of one block: of its input, and of its weights, added to those of the part before. */
static void backward_block(struct hwq_graph *g, const struct state *state, const struct part *part, int64_t index) {
    const struct options *o = g->options;
    const struct block *b = &state->blocks[index];
    const int s = (int)part->number;
    const int64_t i = index % o->every, segment = index / o->every;
    const struct activations *set = &state->sets[segment % 2];
    const struct hwq_tensor dy = own(part, index + 1 < o->blocks ? b[1].dx : state->checkpoints[o->blocks / o->every]);
    const struct hwq_tensor x = own(part, i == 0 ? state->checkpoints[segment] : set->y[i - 1]);
    const struct hwq_tensor dactive = hwq_linear_input(hwq_into(g, own(part, b->dactive)), s, &b->down, dy);
    const struct hwq_tensor dinner =
        hwq_gelu_backward(hwq_into(g, own(part, b->dinner)), s, own(part, set->inner[i]), dactive);
    hwq_linear_input(hwq_into(g, own(part, b->dx)), s, &b->up, dinner);
    hwq_linear_weight(g, s, &b->down, own(part, set->active[i]), dy, s > 0);
    hwq_linear_weight(g, s, &b->up, x, dinner, s > 0);
}

static void backward(struct hwq_graph *g, const struct state *state, const struct part *part, int64_t segment) {
    const int64_t every = ((const struct options *)g->options)->every;
    for (int64_t i = every - 1; i >= 0; i--) backward_block(g, state, part, segment * every + i);
}

/* Recomputation begins when the forward pass has ended. */
static void build(struct hwq_graph *g) {
    const struct options *o = g->options;
    const int64_t rows = o->batch * o->positions, segments = o->blocks / o->every;
    const int64_t count = gradient_streams(g->hwq) < rows ? gradient_streams(g->hwq) : rows;
    struct part parts[AORTA_HWQ_MAX_STREAMS];
    struct state *state = hwq_state(g, sizeof *state);
    if (!state) return;
    make_tensors(g, state);
    for (int64_t p = 0; p < count; p++) parts[p] = (struct part){p, hwq_part(rows, count, p)};
    for (int64_t segment = 0; segment < segments; segment++)
        for (int64_t p = 0; p < count; p++) run_segment(g, (int)p, state, &parts[p], segment, &state->scratch);
    for (int64_t p = 0; p < count; p++) {
        hwq_after(g, recompute_stream(g->hwq, p), (int)p);
        recompute(g, state, &parts[p], segments - 1);
    }
    for (int64_t segment = segments - 1; segment >= 0; segment--)
        for (int64_t p = 0; p < count; p++) {
            if (segment > 0) recompute(g, state, &parts[p], segment - 1);
            backward(g, state, &parts[p], segment);
        }
    g->work = (double)o->batch;
}

static const struct aorta_option rows[] = {
    AORTA_HWQ_ROW(struct options, blocks, "8", NULL, 1, MOST_BLOCKS, "blocks"),
    AORTA_HWQ_ROW(struct options, every, "2", NULL, 1, MOST_BLOCKS, "blocks of a segment, whose input is a checkpoint"),
    AORTA_HWQ_ROW(struct options, width, "1024", "128", 1, HWQ_LARGEST, "width between blocks"),
    AORTA_HWQ_ROW(struct options, hidden, "4096", "512", 1, HWQ_LARGEST, "width inside a block"),
    AORTA_HWQ_ROW(struct options, batch, "4", NULL, 1, HWQ_LARGEST, "sequences"),
    AORTA_HWQ_ROW(struct options, positions, "512", "64", 1, HWQ_LARGEST, "positions of each"),
};

const struct aorta_hwq_workload aorta_hwq_activation_ckpt = {
    .name = "activation_ckpt",
    .summary = "recomputation runs during the gradient of the next segment, if their streams do not share a queue",
    .group = AORTA_HWQ_P2,
    .category = "distributed",
    .sensitivity = "high",
    .streams = {.min = 4, .max = 12, .recommended = 6},
    .unit = "samples/s",
    AORTA_HWQ_OPTIONS(rows, struct options),
    .try_next = "--every 1 and 4: memory against time; a small --batch hides the recomputation",
    .check = check,
    .role = role,
    .build = build,
};
