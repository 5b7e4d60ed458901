/* Activation checkpointing: the forward pass stores only the input of each segment of blocks; the backward pass
 * recomputes a segment's activations while the gradient of the next segment is computed.
 *
 * The rows of the batch are cut into parts. Part p runs forward and gradients on stream p of the first half, and
 * recomputes on a stream of the second half. A segment's activations go into one of two sets of memory, which the
 * recomputation of a segment may fill once the gradient of the segment after the next is done. Gradients of weights are
 * summed over the parts in their order. A block is y = down(gelu(up(x))); the loss is half the squared length of the
 * last y, whose gradient is y itself. */
#include "hwq/verify.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_BLOCKS = 64, MOST_PARTS = AORTA_HWQ_MAX_STREAMS };

struct options {
    int64_t blocks, every, width, hidden, batch, positions;
};

struct block {
    struct aorta_hwq_layer up, down;
    float *dx, *dactive, *dinner; /* [rows, width], [rows, hidden] twice */
};

/* Of all blocks of a segment. */
struct activations {
    float *inner[MOST_BLOCKS], *active[MOST_BLOCKS], *y[MOST_BLOCKS]; /* [rows, hidden] twice, [rows, width] */
};

struct part {
    int64_t first, rows;
    struct aorta_event *forward, *recomputed[2], *graded[2], *added[MOST_BLOCKS];
};

struct state {
    int64_t rows, segments, part_count;
    struct block blocks[MOST_BLOCKS];
    float *checkpoints[MOST_BLOCKS + 1]; /* inputs of segments, and the last output: [rows, width] */
    struct activations scratch, sets[2];
    struct part parts[MOST_PARTS];
    struct aorta_hwq_results results;
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

/* ---- setup ---- */

static aorta_status setup_activations(struct aorta_hwq *hwq, struct state *state, struct activations *set) {
    const struct options *o = hwq->options;
    for (int64_t b = 0; b < o->every; b++) {
        AORTA_TRY(aorta_hwq_output(hwq, &state->results, state->rows * o->hidden, "activations", &set->inner[b]));
        AORTA_TRY(aorta_hwq_output(hwq, &state->results, state->rows * o->hidden, "activations", &set->active[b]));
        AORTA_TRY(aorta_hwq_output(hwq, &state->results, state->rows * o->width, "activations", &set->y[b]));
    }
    return NULL;
}

static aorta_status setup_block(struct aorta_hwq *hwq, struct state *state, int64_t index) {
    const struct options *o = hwq->options;
    struct block *b = &state->blocks[index];
    AORTA_TRY(aorta_hwq_layer_make(hwq, 10 * (uint64_t)(index + 1), o->width, o->hidden, true, &b->up));
    AORTA_TRY(aorta_hwq_layer_make(hwq, 10 * (uint64_t)(index + 1) + 4, o->hidden, o->width, true, &b->down));
    AORTA_TRY(aorta_hwq_output(hwq, &state->results, state->rows * o->width, "gradients", &b->dx));
    AORTA_TRY(aorta_hwq_output(hwq, &state->results, state->rows * o->hidden, "gradients", &b->dactive));
    return aorta_hwq_output(hwq, &state->results, state->rows * o->hidden, "gradients", &b->dinner);
}

static aorta_status setup_part(struct aorta_hwq *hwq, struct part *part) {
    const struct options *o = hwq->options;
    AORTA_TRY(aorta_hwq_event(hwq, &part->forward));
    for (int i = 0; i < 2; i++) AORTA_TRY(aorta_hwq_event(hwq, &part->recomputed[i]));
    for (int i = 0; i < 2; i++) AORTA_TRY(aorta_hwq_event(hwq, &part->graded[i]));
    for (int64_t b = 0; b < o->blocks; b++) AORTA_TRY(aorta_hwq_event(hwq, &part->added[b]));
    return NULL;
}

static aorta_status setup(struct aorta_hwq *hwq, void **made) {
    const struct options *o = hwq->options;
    AORTA_TRY(aorta_hwq_state(hwq, sizeof(struct state), made));
    struct state *state = *made;
    state->rows = o->batch * o->positions;
    state->segments = o->blocks / o->every;
    state->part_count = gradient_streams(hwq) < state->rows ? gradient_streams(hwq) : state->rows;
    AORTA_TRY(aorta_hwq_input(hwq, 1, state->rows * o->width, 1.0f, "input", &state->checkpoints[0]));
    for (int64_t i = 1; i <= state->segments; i++)
        AORTA_TRY(aorta_hwq_output(hwq, &state->results, state->rows * o->width, "checkpoint", &state->checkpoints[i]));
    AORTA_TRY(setup_activations(hwq, state, &state->scratch));
    AORTA_TRY(setup_activations(hwq, state, &state->sets[0]));
    AORTA_TRY(setup_activations(hwq, state, &state->sets[1]));
    for (int64_t b = 0; b < o->blocks; b++) AORTA_TRY(setup_block(hwq, state, b));
    for (int64_t p = 0; p < state->part_count; p++) {
        struct part *part = &state->parts[p];
        part->first = state->rows * p / state->part_count;
        part->rows = state->rows * (p + 1) / state->part_count - part->first;
        AORTA_TRY(setup_part(hwq, part));
    }
    return NULL;
}

/* ---- one iteration ---- */

/* A part's rows through a segment, into `set`. The output of the last block goes to `out`; NULL: not computed. */
static aorta_status run_segment(struct aorta_hwq *hwq, int s, const struct state *state, const struct part *part,
                                int64_t segment, const struct activations *set, float *out) {
    const struct options *o = hwq->options;
    const int64_t at = part->first * o->width, inside = part->first * o->hidden;
    const float *x = state->checkpoints[segment] + at;
    for (int64_t i = 0; i < o->every; i++) {
        const struct block *b = &state->blocks[segment * o->every + i];
        const bool last = i == o->every - 1;
        AORTA_TRY(aorta_hwq_linear(hwq, s, &b->up, part->rows, x, set->inner[i] + inside));
        AORTA_TRY(aorta_hwq_gelu(hwq, s, part->rows * o->hidden, set->inner[i] + inside, set->active[i] + inside));
        if (last && !out) return NULL;
        float *y = (last ? out : set->y[i]) + at;
        AORTA_TRY(aorta_hwq_linear(hwq, s, &b->down, part->rows, set->active[i] + inside, y));
        x = y;
    }
    return NULL;
}

static aorta_status recompute(struct aorta_hwq *hwq, struct state *state, int64_t p, int64_t segment) {
    struct part *part = &state->parts[p];
    const int s = recompute_stream(hwq, p);
    AORTA_TRY(aorta_stream_wait(hwq->streams[s], part->forward));
    if (segment + 2 < state->segments) AORTA_TRY(aorta_stream_wait(hwq->streams[s], part->graded[segment % 2]));
    AORTA_TRY(run_segment(hwq, s, state, part, segment, &state->sets[segment % 2], NULL));
    return aorta_event_record(part->recomputed[segment % 2], hwq->streams[s]);
}

/* Gradients of one block: of its weights, after those of the part before, and of its input. */
static aorta_status grade_block(struct aorta_hwq *hwq, struct state *state, int64_t p, int64_t index) {
    const struct options *o = hwq->options;
    struct part *part = &state->parts[p];
    struct block *b = &state->blocks[index];
    const int s = (int)p;
    const int64_t at = part->first * o->width, inside = part->first * o->hidden, n = part->rows, i = index % o->every;
    const struct activations *set = &state->sets[index / o->every % 2];
    const float *dy = (index + 1 < o->blocks ? state->blocks[index + 1].dx : state->checkpoints[state->segments]) + at;
    const float *x = (i == 0 ? state->checkpoints[index / o->every] : set->y[i - 1]) + at;
    AORTA_TRY(aorta_hwq_linear_input(hwq, s, &b->down, n, dy, b->dactive + inside, false));
    AORTA_TRY(aorta_hwq_gelu_backward(hwq, s, n, o->hidden, set->inner[i] + inside, b->dactive + inside,
                                      b->dinner + inside, NULL));
    AORTA_TRY(aorta_hwq_linear_input(hwq, s, &b->up, n, b->dinner + inside, b->dx + at, false));
    if (p > 0) AORTA_TRY(aorta_stream_wait(hwq->streams[s], state->parts[p - 1].added[index]));
    AORTA_TRY(aorta_hwq_linear_weight(hwq, s, &b->down, n, set->active[i] + inside, dy, p > 0));
    AORTA_TRY(aorta_hwq_linear_weight(hwq, s, &b->up, n, x, b->dinner + inside, p > 0));
    return aorta_event_record(part->added[index], hwq->streams[s]);
}

static aorta_status grade(struct aorta_hwq *hwq, struct state *state, int64_t p, int64_t segment) {
    const struct options *o = hwq->options;
    struct part *part = &state->parts[p];
    AORTA_TRY(aorta_stream_wait(hwq->streams[p], part->recomputed[segment % 2]));
    for (int64_t i = o->every - 1; i >= 0; i--) AORTA_TRY(grade_block(hwq, state, p, segment * o->every + i));
    return aorta_event_record(part->graded[segment % 2], hwq->streams[p]);
}

static aorta_status iterate(struct aorta_hwq *hwq, void *opaque) {
    struct state *state = opaque;
    for (int64_t segment = 0; segment < state->segments; segment++)
        for (int64_t p = 0; p < state->part_count; p++)
            AORTA_TRY(run_segment(hwq, (int)p, state, &state->parts[p], segment, &state->scratch,
                                  state->checkpoints[segment + 1]));
    for (int64_t p = 0; p < state->part_count; p++) {
        AORTA_TRY(aorta_event_record(state->parts[p].forward, hwq->streams[p]));
        AORTA_TRY(recompute(hwq, state, p, state->segments - 1));
    }
    for (int64_t segment = state->segments - 1; segment >= 0; segment--)
        for (int64_t p = 0; p < state->part_count; p++) {
            if (segment > 0) AORTA_TRY(recompute(hwq, state, p, segment - 1));
            AORTA_TRY(grade(hwq, state, p, segment));
        }
    return NULL;
}

static aorta_status work(struct aorta_hwq *hwq, void *state, int64_t iterations, double *amount) {
    (void)state;
    *amount = (double)(iterations * ((const struct options *)hwq->options)->batch);
    return NULL;
}

/* ---- verification ---- */

struct row {
    double *x, *inner;
};

/* y = weight·x + bias for one row. */
static aorta_status row_linear(struct aorta_hwq_verifier *verifier, const struct aorta_hwq_layer *layer,
                               const double *x, double *y) {
    const float *weight, *bias;
    AORTA_TRY(aorta_hwq_fetch(verifier, layer->weight, layer->in * layer->out, &weight));
    AORTA_TRY(aorta_hwq_fetch(verifier, layer->bias, layer->out, &bias));
    for (int64_t i = 0; i < layer->out; i++) {
        y[i] = (double)bias[i];
        for (int64_t k = 0; k < layer->in; k++) y[i] += (double)weight[i * layer->in + k] * x[k];
    }
    return NULL;
}

/* One row through a whole segment, whose activations are not stored. */
static aorta_status verify_segment(struct aorta_hwq_verifier *verifier, const struct state *state, int64_t segment,
                                   struct row row) {
    const struct options *o = verifier->hwq->options;
    const int64_t at = aorta_hwq_sample((segment + 2) % state->rows, state->rows);
    const float *x, *y;
    double most = 0.0;
    AORTA_TRY(aorta_hwq_fetch(verifier, state->checkpoints[segment] + at * o->width, o->width, &x));
    AORTA_TRY(aorta_hwq_fetch(verifier, state->checkpoints[segment + 1] + at * o->width, o->width, &y));
    for (int64_t i = 0; i < o->width; i++) row.x[i] = (double)x[i];
    for (int64_t b = segment * o->every; b < (segment + 1) * o->every; b++) {
        AORTA_TRY(row_linear(verifier, &state->blocks[b].up, row.x, row.inner));
        for (int64_t i = 0; i < o->hidden; i++) row.inner[i] *= 0.5 * erfc(-row.inner[i] / sqrt(2.0));
        AORTA_TRY(row_linear(verifier, &state->blocks[b].down, row.inner, row.x));
    }
    for (int64_t i = 0; i < o->width; i++) most = fmax(most, fabs(row.x[i]));
    for (int64_t i = 0; i < o->width; i++)
        aorta_hwq_compare(verifier->check, (double)y[i], row.x[i], 2e-5 * most, 0, "output of segment %lld[%lld, %lld]",
                          (long long)segment, (long long)at, (long long)i);
    return NULL;
}

static aorta_status verify_segments(struct aorta_hwq_verifier *verifier, const struct state *state) {
    const struct options *o = verifier->hwq->options;
    const struct row row = {calloc((size_t)o->width, sizeof(double)), calloc((size_t)o->hidden, sizeof(double))};
    aorta_status status = row.x && row.inner ? NULL : AORTA_ERROR(AORTA_MEMORY, "no host memory to verify a row");
    for (int64_t segment = 0; segment < state->segments && !status; segment++)
        status = verify_segment(verifier, state, segment, row);
    free(row.x);
    free(row.inner);
    return status;
}

/* Blocks of the first two segments, whose activations are still in memory. */
static aorta_status verify_recomputed(struct aorta_hwq_verifier *verifier, const struct state *state, int64_t index) {
    const struct options *o = verifier->hwq->options;
    const struct block *b = &state->blocks[index];
    const struct activations *set = &state->sets[index / o->every % 2];
    const int64_t i = index % o->every, n = state->rows;
    const float *x = i == 0 ? state->checkpoints[index / o->every] : set->y[i - 1];
    const float *dy = index + 1 < o->blocks ? state->blocks[index + 1].dx : state->checkpoints[state->segments];
    AORTA_TRY(
        aorta_hwq_verify_linear(verifier, "recomputed", &b->up, n, x, set->inner[i], AORTA_HWQ_PLAIN, AORTA_HWQ_FP32));
    AORTA_TRY(aorta_hwq_verify_gelu(verifier, "recomputed GELU", n * o->hidden, set->inner[i], set->active[i]));
    AORTA_TRY(aorta_hwq_verify_gelu_backward(verifier, "gradient before GELU", n * o->hidden, set->inner[i], b->dactive,
                                             b->dinner));
    AORTA_TRY(aorta_hwq_verify_weight(verifier, "second layer", &b->down, n, set->active[i], dy, 1.0));
    return aorta_hwq_verify_weight(verifier, "first layer", &b->up, n, x, b->dinner, 1.0);
}

static aorta_status compare(struct aorta_hwq_verifier *verifier, void *opaque) {
    const struct state *state = opaque;
    const struct options *o = verifier->hwq->options;
    AORTA_TRY(verify_segments(verifier, state));
    for (int64_t i = 0; i < o->blocks; i++) {
        const struct block *b = &state->blocks[i];
        const float *dy = i + 1 < o->blocks ? state->blocks[i + 1].dx : state->checkpoints[state->segments];
        AORTA_TRY(
            aorta_hwq_verify_input(verifier, "gradient inside a block", &b->down, state->rows, dy, b->dactive, NULL));
        AORTA_TRY(
            aorta_hwq_verify_input(verifier, "gradient before a block", &b->up, state->rows, b->dinner, b->dx, NULL));
        if (i < 2 * o->every) AORTA_TRY(verify_recomputed(verifier, state, i));
    }
    return NULL;
}

static aorta_status verify(struct aorta_hwq *hwq, void *opaque, struct aorta_hwq_check *result) {
    return aorta_hwq_verify_iteration(hwq, result, &((struct state *)opaque)->results, opaque, iterate, compare);
}

static const struct aorta_range_limits block_count = {.min = 1, .max = MOST_BLOCKS};
static const struct aorta_option rows[] = {
    AORTA_HWQ_ROW(struct options, blocks, "8", block_count, "blocks"),
    AORTA_HWQ_ROW(struct options, every, "2", block_count, "blocks of a segment, whose input is a checkpoint"),
    AORTA_HWQ_ROW(struct options, width, "1024", aorta_hwq_sizes, "width between blocks"),
    AORTA_HWQ_ROW(struct options, hidden, "4096", aorta_hwq_sizes, "width inside a block"),
    AORTA_HWQ_ROW(struct options, batch, "4", aorta_hwq_sizes, "sequences"),
    AORTA_HWQ_ROW(struct options, positions, "512", aorta_hwq_sizes, "positions of each"),
};

static const struct aorta_hwq_size on_cpu[] = {{"width", "128"}, {"hidden", "512"}, {"positions", "64"}, {0}};

const struct aorta_hwq_workload aorta_hwq_activation_ckpt = {
    .name = "activation_ckpt",
    .summary = "recomputation runs beside the gradient of the next segment, if their streams do not share a queue",
    .group = AORTA_HWQ_P2,
    .category = AORTA_HWQ_DISTRIBUTED,
    .sensitivity = AORTA_HWQ_HIGH,
    .min_streams = 4,
    .max_streams = 12,
    .recommended_streams = 6,
    .unit = "samples/s",
    .options = rows,
    .option_count = sizeof rows / sizeof *rows,
    .option_bytes = sizeof(struct options),
    .on_cpu = on_cpu,
    .try_next = "--every 1 and 4: memory against time; a small --batch lets the recomputation hide",
    .check = check,
    .role = role,
    .setup = setup,
    .iterate = iterate,
    .work = work,
    .verify = verify,
};
