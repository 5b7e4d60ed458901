/* Training of transformer blocks with sharded parameters (FSDP) and tensor parallelism: forward, backward, and
 * gradients reduced, with each kind of work on its own streams.
 *
 * Streams, a quarter each: compute, all-gather, all-reduce, and the exchange of activations between tensor-parallel
 * ranks. The batch is cut into one part for each compute stream. While a block computes, the next block's parameters
 * are gathered into the second of two slots; a part's activations are exchanged while other parts compute. Gradients of
 * weights are one product each over the rows of all parts, alternating over the parts' streams: a product for each
 * part, and their sum, would move more memory. They are reduced while the block below computes.
 *
 * Ranks form a grid: `tensor` neighbours share heads and hidden units (Shoeybi et al., "Megatron-LM", 2019: columns of
 * the first, rows of the second product, partial sums all-reduced in between); ranks with the same position in them
 * share a block's parameters. Products that are summed over ranks have no bias. A block is y1 = norm(x + attention(x)),
 * y = norm(y1 + mlp(y1)); the loss is half the squared length of the last y, whose gradient is y itself.
 *
 * Rows of activations are ordered by position, then by sequence; columns of qkv by head, then query, key, value. So one
 * strided batched product computes all heads of all sequences of a part. */
#include "base/collective.h"
#include "hwq/limit.h"
#include "hwq/operations.h"
#include "hwq/run.h"

#include <math.h>
#include <stdio.h>

enum { MOST_BLOCKS = 32 };
/* The kinds of communication: a block's parameters, the sum of its gradients, partial sums of activations. */
enum { ALONE_GATHER, ALONE_REDUCTION, ALONE_EXCHANGE, KINDS };

struct options {
    int64_t blocks, width, heads, mlp, batch, positions, tensor;
};

/* Activations and gradients in one block, the parts of the batch in order. `…_all` is summed over the tensor-parallel
 * ranks. */
struct saved {
    struct hwq_tensor qkv, weights, context, attended, attended_all, y1, inner, active, mlp, mlp_all, y;
    struct hwq_norm_saved norm1, norm2;
    struct hwq_tensor dsum2, dactive, dinner, dy1, dy1_all, dsum1, dcontext, dqkv, dx, dx_all;
    struct hwq_tensor norms; /* [parts, …]: gradients of the norms' parameters from each part */
};

struct sizes {
    int64_t block, norms; /* floats of all parameters, and of those of its norms */
};

struct state {
    struct sizes sizes;
    int64_t padded, shards, shard_index, part_count; /* floats of a block, a multiple of UNIT · shards */
    struct hwq_tensor x, full[MOST_BLOCKS], shard[MOST_BLOCKS], slots[2];
    struct hwq_tensor dscores; /* used by all blocks */
    struct hwq_tensor gradients[MOST_BLOCKS],
        reduced[MOST_BLOCKS]; /* of this rank; of all ranks that share the block */
    struct saved saved[MOST_BLOCKS];
    struct aorta_comm *groups[AORTA_HWQ_MAX_STREAMS]; /* of streams that communicate */
};

static int quarter(const struct aorta_hwq *hwq, int which) {
    return hwq->stream_count * which / 4;
}
static int stream_in(const struct aorta_hwq *hwq, int which, int64_t index) {
    const int count = quarter(hwq, which + 1) - quarter(hwq, which);
    return quarter(hwq, which) + (int)(index % count);
}
enum { COMPUTE, GATHER, REDUCE, EXCHANGE };

static const char *role(const struct aorta_hwq *hwq, int stream) {
    static const char *const names[] = {"compute", "all-gather", "all-reduce", "exchange"};
    int which = 3;
    while (stream < quarter(hwq, which)) which--;
    return names[which];
}

static aorta_status check(const struct aorta_hwq *hwq) {
    const struct options *o = hwq->options;
    const int ranks = aorta_comm_size(hwq->world);
    if (o->width % o->heads)
        return AORTA_ERROR(AORTA_USAGE, "fsdp_tp: %lld heads do not divide a width of %lld", (long long)o->heads,
                           (long long)o->width);
    if (ranks % o->tensor)
        return AORTA_ERROR(AORTA_USAGE, "fsdp_tp: tensor is %lld, which does not divide %d ranks", (long long)o->tensor,
                           ranks);
    if (o->heads % o->tensor == 0 && o->width * o->mlp % o->tensor == 0) return NULL;
    return AORTA_ERROR(AORTA_USAGE, "fsdp_tp: %lld heads and %lld hidden units cannot be shared by %lld ranks",
                       (long long)o->heads, (long long)(o->width * o->mlp), (long long)o->tensor);
}

/* ---- parameters of a block: one piece of memory ---- */

enum { UNIT = 64 }; /* floats: where each tensor begins */

/* Views of memory; views of no tensor are empty. The norms are last. *sizes (may be NULL) gets the floats of all
 * parameters and of the norms. */
static struct hwq_block block_in(const struct options *o, struct hwq_tensor weights, struct hwq_tensor gradients,
                                 struct hwq_tensor norms, struct sizes *sizes) {
    const int64_t width = o->width, own = width / o->tensor, hidden = width * o->mlp / o->tensor;
    struct sizes used = {0};
    struct hwq_block b;
    b.qkv = hwq_layer_in(weights, gradients, &used.block, width, 3 * own, true, UNIT);
    b.out = hwq_layer_in(weights, gradients, &used.block, own, width, false, UNIT);
    b.up = hwq_layer_in(weights, gradients, &used.block, width, hidden, true, UNIT);
    b.down = hwq_layer_in(weights, gradients, &used.block, hidden, width, false, UNIT);
    struct hwq_tensor *const views[][2] = {{&b.norm1.gamma, &b.norm1.dgamma},
                                           {&b.norm1.beta, &b.norm1.dbeta},
                                           {&b.norm2.gamma, &b.norm2.dgamma},
                                           {&b.norm2.beta, &b.norm2.dbeta}};
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        *views[i][0] = hwq_cut(weights, &used.block, 1, width, UNIT);
        *views[i][1] = hwq_cut(norms, &used.norms, 1, width, UNIT);
    }
    if (sizes) *sizes = used;
    return b;
}

/* ---- tensors ---- */

/* Start values of a block, equal on all ranks that share it; this rank stores its shard. */
static void make_parameters(struct hwq_graph *g, struct state *state, int64_t l) {
    const struct options *o = g->options;
    const uint64_t place = (uint64_t)(aorta_comm_rank(g->hwq->world) % o->tensor);
    const int64_t count = state->padded / state->shards;
    const struct hwq_tensor none = {0};
    const struct hwq_tensor full = hwq_constant(g, AORTA_F32, state->padded, NULL, "start values");
    const struct hwq_block b = block_in(o, full, none, none, NULL);
    const struct {
        struct hwq_tensor tensor;
        int64_t fan;
    } tensors[] = {{b.qkv.weight, b.qkv.in}, {b.qkv.bias, 100},          {b.out.weight, b.out.in},
                   {b.norm1.gamma, 1},       {b.norm1.beta, 100},        {b.up.weight, b.up.in},
                   {b.up.bias, 100},         {b.down.weight, b.down.in}, {b.norm2.gamma, 1},
                   {b.norm2.beta, 100}};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors && !g->status; i++)
        hwq_fail(g, aorta_hwq_fill(g->hwq, 0, 1000 * place + 20 * (uint64_t)l + i, AORTA_F32,
                                   tensors[i].tensor.rows * tensors[i].tensor.columns,
                                   1.0f / sqrtf((float)tensors[i].fan), hwq_floats(tensors[i].tensor)));
    state->full[l] = hwq_shaped(full, state->shards, count);
    state->shard[l] = hwq_constant(g, AORTA_F32, count, NULL, "shard of a block");
    if (g->status) return;
    hwq_fail(g, aorta_copy(g->hwq->streams[0], hwq_floats(state->shard[l]),
                           hwq_floats(hwq_rows(state->full[l], state->shard_index, 1)), hwq_bytes(state->shard[l])));
}

static void make_groups(struct hwq_graph *g, struct state *state) {
    enum { MOST_RANKS = 1 << 10 };
    const struct options *o = g->options;
    const int ranks = aorta_comm_size(g->hwq->world), rank = aorta_comm_rank(g->hwq->world), tensor = (int)o->tensor;
    int shards[MOST_RANKS], neighbours[MOST_RANKS], shard_count = 0;
    if (ranks > MOST_RANKS) {
        hwq_fail(g, AORTA_ERROR(AORTA_UNSUPPORTED, "fsdp_tp: %d ranks; at most %d", ranks, MOST_RANKS));
        return;
    }
    for (int r = rank % tensor; r < ranks; r += tensor) shards[shard_count++] = r;
    for (int i = 0; i < tensor; i++) neighbours[i] = rank / tensor * tensor + i;
    state->shards = shard_count;
    state->shard_index = rank / tensor;
    for (int s = quarter(g->hwq, GATHER); s < g->hwq->stream_count; s++)
        state->groups[s] =
            s >= quarter(g->hwq, EXCHANGE) ? hwq_split(g, neighbours, tensor) : hwq_split(g, shards, shard_count);
}

static void make_tensors(struct hwq_graph *g, struct state *state) {
    const struct options *o = g->options;
    const struct hwq_tensor none = {0};
    make_groups(g, state);
    if (g->status || state->shards < 1) return;
    block_in(o, none, none, none, &state->sizes);
    const int64_t unit = UNIT * state->shards, streams = quarter(g->hwq, GATHER);
    state->padded = (state->sizes.block + unit - 1) / unit * unit;
    state->part_count = streams < o->batch ? streams : o->batch;
    for (int i = 0; i < 2; i++)
        state->slots[i] = hwq_result(g, AORTA_F32, state->shards, state->padded / state->shards, "gathered block");
    state->x = hwq_input(g, 90000 + (uint64_t)state->shard_index, o->batch * o->positions, o->width, 1.0f, "input");
    for (int64_t l = 0; l < o->blocks; l++) {
        make_parameters(g, state, l);
        state->gradients[l] = hwq_result(g, AORTA_F32, 1, state->padded, "gradients of a block");
        state->reduced[l] = hwq_result(g, AORTA_F32, 1, state->padded, "reduced gradients");
        state->saved[l].norms = hwq_result(g, AORTA_F32, state->part_count, state->sizes.norms, "gradients of norms");
    }
}

/* ---- one iteration ---- */

/* A part of the batch in a block, on which a stage works. */
struct place {
    struct hwq_graph *g;
    const struct options *o;
    struct state *state;
    struct saved *k;
    struct hwq_part part; /* sequences */
    struct hwq_block b;
    int64_t l, p, width, matrices; /* matrices: of heads, in attention */
    float scale;                   /* of the scores */
    int s;
};

static struct place place_of(struct hwq_graph *g, struct state *state, int64_t l, int64_t p) {
    struct place at = {.g = g, .o = g->options, .state = state, .l = l, .p = p, .s = stream_in(g->hwq, COMPUTE, p)};
    at.width = at.o->width;
    at.part = hwq_part(at.o->batch, state->part_count, p);
    at.matrices = at.part.count * at.o->heads / at.o->tensor;
    const int64_t head = at.width / at.o->heads;
    at.scale = 1.0f / sqrtf((float)head);
    at.k = &state->saved[l];
    at.b = block_in(at.o, state->slots[l % 2], state->gradients[l], hwq_rows(at.k->norms, p, 1), NULL);
    return at;
}

/* The part's rows of a tensor with the rows of all parts. */
static struct hwq_tensor own(const struct place *at, struct hwq_tensor t) {
    const int64_t each = t.rows / at->o->batch;
    return hwq_rows(t, at->part.first * each, at->part.count * each);
}

/* The part's rows of a tensor, which is created for the first part. */
static struct hwq_tensor made(const struct place *at, struct hwq_tensor *t, int64_t columns) {
    const int64_t rows = at->o->batch * at->o->positions;
    if (!t->memory) *t = hwq_result(at->g, AORTA_F32, rows, columns, "activations of a block");
    return own(at, *t);
}

static struct hwq_graph *into(const struct place *at, struct hwq_tensor *t, int64_t columns) {
    return hwq_into(at->g, made(at, t, columns));
}

static struct hwq_norm_saved made_norm(const struct place *at, struct hwq_norm_saved *norm) {
    return (struct hwq_norm_saved){made(at, &norm->sum, at->width), made(at, &norm->mean, 1), made(at, &norm->rstd, 1)};
}

static struct hwq_tensor input_of(const struct place *at) {
    return own(at, at->l == 0 ? at->state->x : at->state->saved[at->l - 1].y);
}

/* Matrices [positions, head] of all heads of all sequences, side by side. A row has all sequences of a position, so
 * the stride between heads is constant. Columns `which` · head of every `each` heads. */
static struct hwq_tensor heads(const struct place *at, struct hwq_tensor *t, int64_t which, int64_t each) {
    const int64_t dim = at->width / at->o->heads, columns = each * at->b.out.in;
    const struct hwq_tensor rows = hwq_shaped(made(at, t, columns), at->o->positions, at->part.count * columns);
    return hwq_comb(rows, which * dim, dim, each * dim);
}

/* [positions, positions] of each head, one below the other. */
static struct hwq_tensor weights_of(const struct place *at, struct hwq_tensor *t) {
    const int64_t n = at->o->positions, row = n * at->o->heads / at->o->tensor;
    return hwq_shaped(made(at, t, row), at->part.count * row, n);
}

/* Fills the block's slot. */
static void gather(struct hwq_graph *g, const struct state *state, int64_t l) {
    const int s = stream_in(g->hwq, GATHER, l);
    hwq_all_gather(hwq_into(g, state->slots[l % 2]), s, state->groups[s], state->shard[l], state->full[l]);
}

/* Sum of a part's activations over the tensor-parallel ranks, on the exchange stream. The target is other memory, so
 * that one rank makes a copy and its stream has work, too. */
static void exchange(const struct place *at, struct hwq_tensor from, struct hwq_tensor *to) {
    const int e = stream_in(at->g->hwq, EXCHANGE, at->p);
    hwq_all_reduce(into(at, to, at->width), e, at->state->groups[e], "exchange", own(at, from), false);
}

/* One block for one part in stages. Each is queued for all parts before the next, so that no compute stream waits while
 * the host queues another's. */
static void forward_qkv(const struct place *at) {
    hwq_linear(into(at, &at->k->qkv, at->b.qkv.out), at->s, &at->b.qkv, input_of(at));
}

static void forward_attention(const struct place *at) {
    struct saved *k = at->k;
    const struct hwq_tensor weights = hwq_scores(hwq_into(at->g, weights_of(at, &k->weights)), at->s, at->matrices,
                                                 at->scale, heads(at, &k->qkv, 0, 3), heads(at, &k->qkv, 1, 3));
    hwq_products(hwq_into(at->g, heads(at, &k->context, 0, 1)), at->s, at->matrices, weights, heads(at, &k->qkv, 2, 3));
    hwq_linear(into(at, &k->attended, at->width), at->s, &at->b.out, own(at, k->context));
    exchange(at, k->attended, &k->attended_all);
}

static void forward_mlp(const struct place *at) {
    struct saved *k = at->k;
    struct hwq_norm_saved saved = made_norm(at, &k->norm1);
    const struct hwq_tensor y1 = hwq_norm_forward(into(at, &k->y1, at->width), at->s, &at->b.norm1,
                                                  own(at, k->attended_all), input_of(at), &saved);
    hwq_linear(into(at, &k->inner, at->b.up.out), at->s, &at->b.up, y1);
    hwq_gelu(into(at, &k->active, at->b.up.out), at->s, own(at, k->inner));
    hwq_linear(into(at, &k->mlp, at->width), at->s, &at->b.down, own(at, k->active));
    exchange(at, k->mlp, &k->mlp_all);
}

static void forward_end(const struct place *at) {
    struct saved *k = at->k;
    struct hwq_norm_saved saved = made_norm(at, &k->norm2);
    hwq_norm_forward(into(at, &k->y, at->width), at->s, &at->b.norm2, own(at, k->mlp_all), own(at, k->y1), &saved);
}

/* From the gradient of a block's output to that of the MLP's input, whose sum over the ranks it starts. */
static void backward_mlp(const struct place *at) {
    struct saved *k = at->k, *above = at->l + 1 < at->o->blocks ? k + 1 : NULL;
    const struct hwq_norm_saved saved = made_norm(at, &k->norm2);
    const struct hwq_tensor dy = own(at, above ? above->dx_all : k->y);
    const struct hwq_tensor extra = above ? own(at, above->dsum1) : (struct hwq_tensor){0};
    hwq_norm_backward(into(at, &k->dsum2, at->width), at->s, &at->b.norm2, dy, extra, &saved);
    hwq_linear_input(into(at, &k->dactive, at->b.down.in), at->s, &at->b.down, own(at, k->dsum2));
    hwq_gelu_backward(into(at, &k->dinner, at->b.up.out), at->s, own(at, k->inner), own(at, k->dactive));
    hwq_linear_input(into(at, &k->dy1, at->width), at->s, &at->b.up, own(at, k->dinner));
    exchange(at, k->dy1, &k->dy1_all);
}

/* From the gradient of the context to that of qkv. */
static void backward_heads(const struct place *at) {
    struct saved *k = at->k;
    const int64_t count = at->matrices;
    const struct hwq_tensor dcontext = heads(at, &k->dcontext, 0, 1), weights = weights_of(at, &k->weights);
    const struct hwq_tensor dscores =
        hwq_scores_backward(hwq_into(at->g, weights_of(at, &at->state->dscores)), at->s, count, at->scale, dcontext,
                            heads(at, &k->qkv, 2, 3), weights);
    const struct hwq_tensor down = hwq_transposed(weights), back = hwq_transposed(dscores);
    hwq_products(hwq_into(at->g, heads(at, &k->dqkv, 2, 3)), at->s, count, down, dcontext);
    hwq_products(hwq_into(at->g, heads(at, &k->dqkv, 0, 3)), at->s, count, dscores, heads(at, &k->qkv, 1, 3));
    hwq_products(hwq_into(at->g, heads(at, &k->dqkv, 1, 3)), at->s, count, back, heads(at, &k->qkv, 0, 3));
}

/* From the gradient of qkv to that of the block's input. The block below waits for its sum over the ranks. */
static void backward_attention(const struct place *at) {
    struct saved *k = at->k;
    const struct hwq_norm_saved saved = made_norm(at, &k->norm1);
    hwq_norm_backward(into(at, &k->dsum1, at->width), at->s, &at->b.norm1, own(at, k->dy1_all), own(at, k->dsum2),
                      &saved);
    hwq_linear_input(into(at, &k->dcontext, at->b.out.in), at->s, &at->b.out, own(at, k->dsum1));
    backward_heads(at);
    if (at->l == 0) return;
    hwq_linear_input(into(at, &k->dx, at->width), at->s, &at->b.qkv, own(at, k->dqkv));
    exchange(at, k->dx, &k->dx_all);
}

/* The gradient of a layer's weights from the rows of all parts. Attention's two gradients take different times, so the
 * parts' streams alternate from block to block. */
static void weight(const struct place *at, int64_t turn, const struct hwq_layer *layer, struct hwq_tensor x,
                   struct hwq_tensor dy) {
    hwq_linear_weight(at->g, stream_in(at->g->hwq, COMPUTE, turn % at->state->part_count), layer, x, dy, false);
}

static void for_all_parts(struct hwq_graph *g, struct state *state, int64_t l, void (*stage)(const struct place *at)) {
    for (int64_t p = 0; p < state->part_count; p++) {
        const struct place at = place_of(g, state, l, p);
        stage(&at);
    }
}

static void forward(struct hwq_graph *g, struct state *state, int64_t l) {
    for_all_parts(g, state, l, forward_qkv);
    if (l + 1 < ((const struct options *)g->options)->blocks) gather(g, state, l + 1);
    for_all_parts(g, state, l, forward_attention);
    for_all_parts(g, state, l, forward_mlp);
    for_all_parts(g, state, l, forward_end);
}

static void backward(struct hwq_graph *g, struct state *state, int64_t l) {
    const struct place at = place_of(g, state, l, 0);
    struct saved *k = at.k;
    for_all_parts(g, state, l, backward_mlp);
    weight(&at, l, &at.b.down, k->active, k->dsum2); /* during the exchanges */
    weight(&at, l + 1, &at.b.up, k->y1, k->dinner);
    for_all_parts(g, state, l, backward_attention);
    weight(&at, l + 2, &at.b.out, k->context, k->dsum1);
    weight(&at, l + 3, &at.b.qkv, l == 0 ? state->x : state->saved[l - 1].y, k->dqkv);
}

/* The norms' gradients are summed over the parts before all gradients are summed over the ranks. */
static void reduce(struct hwq_graph *g, const struct state *state, int64_t l) {
    const int s = stream_in(g->hwq, REDUCE, l);
    const struct sizes *sizes = &state->sizes;
    const struct hwq_tensor norms = hwq_piece(state->gradients[l], sizes->block - sizes->norms, 1, sizes->norms);
    hwq_sum_pieces(hwq_into(g, norms), s, state->saved[l].norms, state->part_count, 1.0f);
    hwq_all_reduce(hwq_into(g, state->reduced[l]), s, state->groups[s], NULL, state->gradients[l], false);
}

static void build(struct hwq_graph *g) {
    const struct options *o = g->options;
    struct state *state = g->state = hwq_state(g, sizeof *state);
    if (!state) return;
    make_tensors(g, state);
    if (g->status) return;
    g->work = (double)o->batch;
    gather(g, state, 0);
    for (int64_t l = 0; l < o->blocks; l++) forward(g, state, l);
    for (int64_t l = o->blocks - 1; l >= 0; l--) { /* the last two blocks are still in memory */
        if (l + 2 < o->blocks) gather(g, state, l);
        backward(g, state, l);
        reduce(g, state, l);
    }
}

/* ---- collectives alone ----
 * A stamp around each call would add the start of a kernel, so, as in nccl-tests, calls in a row share two stamps. */

enum { ITERATIONS = 10, MOST_MS = 1000, ROW = 20 }; /* ROW: calls in a row, as many as nccl-tests make */

static const struct {
    const char *name;
    enum aorta_collective collective;
    int quarter;
} kinds[KINDS] = {[ALONE_GATHER] = {"gather", AORTA_ALL_GATHER, GATHER},
                  [ALONE_REDUCTION] = {"reduction", AORTA_ALL_REDUCE, REDUCE},
                  [ALONE_EXCHANGE] = {"exchange", AORTA_ALL_REDUCE, EXCHANGE}};

static aorta_status run_row(const struct hwq_operation *o, struct aorta_stream *stream) {
    const struct hwq_operation *one = *(const struct hwq_operation *const *)o->shape;
    for (int i = 0; i < ROW; i++) AORTA_TRY(one->kind->run(one, stream));
    return NULL;
}

static const struct hwq_kind row = {.name = "row", .span = AORTA_SPAN_COLLECTIVE, .run = run_row};

/* Adds one collective of the first block or part, which synchronizes the ranks, then a row of them. They follow the row
 * of the previous kind. */
static void add_row(struct hwq_graph *g, struct state *state, int kind) {
    const int s = stream_in(g->hwq, kinds[kind].quarter, 0);
    const struct place at = place_of(g, state, 0, 0);
    if (kind > 0) hwq_after(g, s, stream_in(g->hwq, kinds[kind - 1].quarter, 0));
    if (kind == ALONE_GATHER) gather(g, state, 0);
    if (kind == ALONE_EXCHANGE) exchange(&at, at.k->mlp, &at.k->mlp_all);
    if (kind == ALONE_REDUCTION)
        hwq_all_reduce(hwq_into(g, state->reduced[0]), s, state->groups[s], NULL, state->gradients[0], false);
    struct hwq_operation of = {.kind = &row, .stream = s};
    if (g->last) of.out[0] = g->last->out[0];
    hwq_append(g, &of, &g->last, sizeof g->last);
}

struct alone {
    struct aorta_arena memory;
    struct aorta_hwq_samples kinds[KINDS]; /* ns of a call */
};

/* Spans in the order of launches: of each kind one call, and the row. */
static aorta_status add_spans(void *user, const struct aorta_hwq_spans *spans) {
    struct alone *alone = user;
    for (size_t i = 1; i < spans->count && i < 2 * (size_t)KINDS; i += 2)
        aorta_hwq_samples_add(&alone->kinds[i / 2], (double)(spans->items[i].end_ns - spans->items[i].start_ns) / ROW,
                              &alone->memory);
    return aorta_arena_check(&alone->memory, "samples");
}

static void say(const struct aorta_hwq_samples *samples, int kind, const struct hwq_operation *call,
                struct aorta_hwq_result *result) {
    const int64_t bytes = (int64_t)hwq_bytes(call->out[0]); /* the larger buffer of one rank, as nccl-tests count */
    const int ranks = aorta_comm_size(call->comm);
    const double seconds = aorta_hwq_samples_median(&samples[kind]) * 1e-9;
    const double factor = aorta_collective_bus_factor(kinds[kind].collective, ranks);
    const char *none = ranks > 1 ? "no collective ran" : "one rank: no data crosses a bus";
    char name[64];
    snprintf(name, sizeof name, "%s_size", kinds[kind].name);
    aorta_hwq_result_figure(result, name, "MiB", (double)bytes / (1 << 20), NULL);
    snprintf(name, sizeof name, "%s_busbw_alone", kinds[kind].name);
    aorta_hwq_result_figure(result, name, "GB/s", ranks > 1 ? (double)bytes * factor / seconds * 1e-9 : NAN, none);
}

static aorta_status report(struct hwq_graph *whole, struct aorta_hwq_result *result) {
    struct hwq_graph *g;
    struct alone alone = {0};
    AORTA_TRY(hwq_graph_create(whole->hwq, NULL, &g));
    for (int kind = 0; kind < KINDS; kind++) add_row(g, whole->state, kind);
    AORTA_TRY(hwq_graph_finish(g));
    const struct aorta_hwq_plan plan = {.iterations = aorta_hwq_result_iterations(result, MOST_MS, ITERATIONS), .g = g};
    aorta_status status = aorta_hwq_stamp_iterations(&plan, add_spans, &alone);
    result->figure_group = "One collective alone";
    const struct hwq_operation *call = g->first;
    for (int kind = 0; kind < KINDS && !status; kind++, call = call->next->next) say(alone.kinds, kind, call, result);
    aorta_arena_free(&alone.memory);
    return status;
}

static const struct aorta_option rows[] = {
    AORTA_HWQ_ROW(struct options, blocks, "4", NULL, 2, MOST_BLOCKS, "transformer blocks"),
    AORTA_HWQ_ROW(struct options, width, "512", "128", 1, HWQ_LARGEST, "width of a block"),
    AORTA_HWQ_ROW(struct options, heads, "8", NULL, 1, HWQ_LARGEST, "heads of the attention"),
    AORTA_HWQ_ROW(struct options, mlp, "4", NULL, 1, HWQ_LARGEST, "width inside the MLP, as a multiple"),
    AORTA_HWQ_ROW(struct options, batch, "8", "2", 1, HWQ_LARGEST, "sequences of each rank"),
    AORTA_HWQ_ROW(struct options, positions, "512", "64", 1, HWQ_LARGEST, "positions of a sequence"),
    AORTA_HWQ_ROW(struct options, tensor, "1", NULL, 1, HWQ_LARGEST, "ranks that share heads and hidden units"),
};

static const char *try_of(const struct aorta_hwq_run *run, const struct aorta_hwq_result *result) {
    const struct options *o = run->options;
    (void)result;
    if (run->ranks.world_size == 1)
        return "several ranks (aorta launch -n 2), and --tensor 2 there, make the exchange real";
    return o->tensor == 1 ? "--tensor 2: ranks then share each layer's products, and exchange their results" : NULL;
}

const struct aorta_hwq_workload aorta_hwq_fsdp_tp = {
    .name = "fsdp_tp",
    .summary = "gathers, reductions and exchanges have to overlap with the blocks that compute",
    .group = AORTA_HWQ_P1,
    .category = "distributed",
    .sensitivity = "high",
    .streams = {.min = 4, .max = 16, .recommended = 10},
    .unit = "samples/s",
    .collectives = true,
    AORTA_HWQ_OPTIONS(rows, struct options),
    .try_of = try_of,
    .check = check,
    .role = role,
    .build = build,
    .report = report,
};
