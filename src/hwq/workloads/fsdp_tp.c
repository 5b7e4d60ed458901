/* Training of transformer blocks with sharded parameters (FSDP) and tensor parallelism: forward, backward, and
 * gradients reduced, with each kind of work on its own streams.
 *
 * Streams, a quarter each: compute, all-gather, all-reduce, and the exchange of activations between tensor-parallel
 * ranks. The batch is cut into one part for each compute stream. While a block computes, the next one's parameters are
 * gathered into the second of two slots; a part's activations are exchanged while other parts compute. Gradients of
 * weights are one product each over the rows of all parts, alternating over the parts' streams: a product for each
 * part, and their sum, would move more memory. They are reduced while the block below computes.
 *
 * Ranks form a grid: `tensor` neighbours share heads and hidden units (Shoeybi et al., "Megatron-LM", 2019: columns of
 * the first, rows of the second product, partial sums all-reduced in between); ranks with the same position in them
 * share a block's parameters. Products that are summed over ranks have no bias. A block is y1 = norm(x + attention(x)),
 * y = norm(y1 + mlp(y1)); the loss is half the squared length of the last y, whose gradient is y itself.
 *
 * Rows of activations are position by position, and within one sequence by sequence; columns of qkv head by head, and
 * within one query, key, value. So one strided batched product serves all heads of all sequences of a part. */
#include "hwq/workloads/fsdp_tp.h"
#include "hwq/run.h"

#include <math.h>

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
    const struct fsdp_options *o = hwq->options;
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

static float *cut(float *base, int64_t *used, int64_t count) {
    float *piece = base ? base + *used : NULL;
    *used += (count + 63) / 64 * 64;
    return piece;
}

static struct aorta_hwq_layer layer_in(float *weights, float *gradients, int64_t *used, int64_t in, int64_t out,
                                       bool bias) {
    int64_t same = *used;
    struct aorta_hwq_layer layer = {.in = in, .out = out};
    layer.weight = cut(weights, used, in * out);
    layer.dweight = cut(gradients, &same, in * out);
    if (!bias) return layer;
    layer.bias = cut(weights, used, out);
    layer.dbias = cut(gradients, &same, out);
    return layer;
}

static struct aorta_hwq_norm norm_in(float *weights, float *gradients, int64_t *used, int64_t width) {
    int64_t same = *used;
    struct aorta_hwq_norm norm = {.width = width};
    norm.gamma = cut(weights, used, width);
    norm.beta = cut(weights, used, width);
    norm.dgamma = cut(gradients, &same, width);
    norm.dbeta = cut(gradients, &same, width);
    return norm;
}

int64_t aorta_hwq_fsdp_block(const struct fsdp_options *o, float *weights, float *gradients, struct fsdp_block *b) {
    const int64_t width = o->width, own = width / o->tensor, hidden = width * o->mlp / o->tensor;
    int64_t used = 0;
    b->qkv = layer_in(weights, gradients, &used, width, 3 * own, true);
    b->out = layer_in(weights, gradients, &used, own, width, false);
    b->up = layer_in(weights, gradients, &used, width, hidden, true);
    b->down = layer_in(weights, gradients, &used, hidden, width, false);
    b->norm1 = norm_in(weights, gradients, &used, width); /* the norms in one piece: aorta_hwq_fsdp_norms */
    b->norm2 = norm_in(weights, gradients, &used, width);
    return used;
}

int64_t aorta_hwq_fsdp_norms(const struct fsdp_options *o, float *piece, struct fsdp_block *b) {
    float **const views[] = {&b->norm1.dgamma, &b->norm1.dbeta, &b->norm2.dgamma, &b->norm2.dbeta};
    int64_t used = 0;
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) *views[i] = cut(piece, &used, o->width);
    return used;
}

/* ---- setup ---- */

/* Start values of a block, the same for all ranks that share it; this rank stores its shard. */
static aorta_status setup_parameters(struct aorta_hwq *hwq, struct fsdp_state *state, int64_t l) {
    const struct fsdp_options *o = hwq->options;
    const uint64_t place = (uint64_t)(aorta_comm_rank(hwq->world) % o->tensor);
    struct fsdp_block b;
    void *full;
    AORTA_TRY(aorta_hwq_alloc(hwq, (size_t)state->padded * sizeof(float), "start values", &full));
    AORTA_TRY(aorta_fill_bytes(hwq->streams[0], full, 0, (size_t)state->padded * sizeof(float)));
    state->full[l] = full;
    aorta_hwq_fsdp_block(o, full, NULL, &b);
    const struct {
        float *memory;
        int64_t count, fan;
    } tensors[] = {{b.qkv.weight, b.qkv.in * b.qkv.out, b.qkv.in},
                   {b.qkv.bias, b.qkv.out, 100},
                   {b.out.weight, b.out.in * b.out.out, b.out.in},
                   {b.norm1.gamma, o->width, 1},
                   {b.norm1.beta, o->width, 100},
                   {b.up.weight, b.up.in * b.up.out, b.up.in},
                   {b.up.bias, b.up.out, 100},
                   {b.down.weight, b.down.in * b.down.out, b.down.in},
                   {b.norm2.gamma, o->width, 1},
                   {b.norm2.beta, o->width, 100}};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        AORTA_TRY(aorta_hwq_fill(hwq, 0, 1000 * place + 20 * (uint64_t)l + i, AORTA_F32, tensors[i].count,
                                 1.0f / sqrtf((float)tensors[i].fan), tensors[i].memory));
    void *shard;
    const int64_t count = state->padded / state->shards;
    AORTA_TRY(aorta_hwq_alloc(hwq, (size_t)count * sizeof(float), "shard of a block", &shard));
    state->shard[l] = shard;
    return aorta_copy(hwq->streams[0], shard, state->full[l] + state->shard_index * count,
                      (size_t)count * sizeof(float));
}

/* Memory of the activations of all parts in a block, part by part. */
static aorta_status setup_saved(struct aorta_hwq *hwq, struct fsdp_state *state, int64_t l) {
    const struct fsdp_options *o = hwq->options;
    const int64_t n = o->positions, own = o->width / o->tensor, hidden = o->width * o->mlp / o->tensor;
    const int64_t weights = o->heads / o->tensor * n * n;
    const struct {
        size_t member;
        int64_t count; /* for each sequence */
    } buffers[] = {{offsetof(struct fsdp_saved, qkv), n * 3 * own},
                   {offsetof(struct fsdp_saved, weights), weights},
                   {offsetof(struct fsdp_saved, context), n * own},
                   {offsetof(struct fsdp_saved, attended), n * o->width},
                   {offsetof(struct fsdp_saved, attended_all), n * o->width},
                   {offsetof(struct fsdp_saved, norm1.sum), n * o->width},
                   {offsetof(struct fsdp_saved, norm1.mean), n},
                   {offsetof(struct fsdp_saved, norm1.rstd), n},
                   {offsetof(struct fsdp_saved, y1), n * o->width},
                   {offsetof(struct fsdp_saved, inner), n * hidden},
                   {offsetof(struct fsdp_saved, active), n * hidden},
                   {offsetof(struct fsdp_saved, mlp), n * o->width},
                   {offsetof(struct fsdp_saved, mlp_all), n * o->width},
                   {offsetof(struct fsdp_saved, norm2.sum), n * o->width},
                   {offsetof(struct fsdp_saved, norm2.mean), n},
                   {offsetof(struct fsdp_saved, norm2.rstd), n},
                   {offsetof(struct fsdp_saved, y), n * o->width},
                   {offsetof(struct fsdp_saved, dsum2), n * o->width},
                   {offsetof(struct fsdp_saved, dactive), n * hidden},
                   {offsetof(struct fsdp_saved, dinner), n * hidden},
                   {offsetof(struct fsdp_saved, dy1), n * o->width},
                   {offsetof(struct fsdp_saved, dy1_all), n * o->width},
                   {offsetof(struct fsdp_saved, dsum1), n * o->width},
                   {offsetof(struct fsdp_saved, dcontext), n * own},
                   {offsetof(struct fsdp_saved, dqkv), n * 3 * own},
                   {offsetof(struct fsdp_saved, dx), n * o->width},
                   {offsetof(struct fsdp_saved, dx_all), n * o->width}};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) {
        float *memory;
        AORTA_TRY(
            aorta_hwq_output(hwq, &state->results, o->batch * buffers[i].count, "activations of a block", &memory));
        for (int64_t p = 0; p < state->part_count; p++)
            *(float **)(void *)((char *)&state->saved[l][p] + buffers[i].member) =
                memory + state->parts[p].first * buffers[i].count;
    }
    return NULL;
}

static aorta_status setup_gradients(struct aorta_hwq *hwq, struct fsdp_state *state, int64_t l) {
    struct fsdp_block unused;
    float *norms;
    const int64_t count = aorta_hwq_fsdp_norms(hwq->options, NULL, &unused);
    AORTA_TRY(aorta_hwq_output(hwq, &state->results, state->padded, "gradients of a block", &state->gradients[l]));
    AORTA_TRY(aorta_hwq_output(hwq, &state->results, state->padded, "reduced gradients", &state->reduced[l]));
    AORTA_TRY(aorta_hwq_output(hwq, &state->results, state->part_count * count, "gradients of norms", &norms));
    for (int64_t p = 0; p < state->part_count; p++) state->saved[l][p].norms = norms + p * count;
    return NULL;
}

static aorta_status setup_block(struct aorta_hwq *hwq, struct fsdp_state *state, int64_t l) {
    AORTA_TRY(setup_parameters(hwq, state, l));
    AORTA_TRY(setup_gradients(hwq, state, l));
    AORTA_TRY(setup_saved(hwq, state, l));
    for (int64_t p = 0; p < state->part_count; p++) AORTA_TRY(aorta_hwq_event(hwq, &state->saved[l][p].done));
    return aorta_hwq_event(hwq, &state->gathered[l]);
}

static aorta_status setup_parts(struct aorta_hwq *hwq, struct fsdp_state *state) {
    const struct fsdp_options *o = hwq->options;
    const int64_t row = o->positions * o->width, square = o->heads / o->tensor * o->positions * o->positions;
    float *x;
    AORTA_TRY(aorta_hwq_input(hwq, 90000 + (uint64_t)state->shard_index, o->batch * row, 1.0f, "input", &x));
    for (int64_t p = 0; p < state->part_count; p++) {
        struct fsdp_part *part = &state->parts[p];
        part->first = o->batch * p / state->part_count;
        part->sequences = o->batch * (p + 1) / state->part_count - part->first;
        part->x = x + part->first * row;
        const int64_t count = part->sequences * square;
        AORTA_TRY(aorta_hwq_output(hwq, &state->results, count, "gradients of scores", &part->dscores));
        AORTA_TRY(aorta_hwq_event(hwq, &part->there));
        AORTA_TRY(aorta_hwq_event(hwq, &part->back));
        AORTA_TRY(aorta_hwq_event(hwq, &part->ready));
    }
    return NULL;
}

/* One group for each stream that communicates: a group is used from one stream at a time. */
static aorta_status setup_groups(struct aorta_hwq *hwq, struct fsdp_state *state) {
    const struct fsdp_options *o = hwq->options;
    const int ranks = aorta_comm_size(hwq->world), rank = aorta_comm_rank(hwq->world), tensor = (int)o->tensor;
    int shards[1 << 10], neighbours[1 << 10], shard_count = 0;
    if (ranks > 1 << 10) return AORTA_ERROR(AORTA_UNSUPPORTED, "fsdp_tp: %d ranks; at most 1024", ranks);
    for (int r = rank % tensor; r < ranks; r += tensor) shards[shard_count++] = r;
    for (int i = 0; i < tensor; i++) neighbours[i] = rank / tensor * tensor + i;
    state->shards = shard_count;
    state->shard_index = rank / tensor;
    for (int s = quarter(hwq, GATHER); s < hwq->stream_count; s++) {
        const bool exchange = s >= quarter(hwq, EXCHANGE);
        AORTA_TRY(aorta_comm_split(hwq->world, exchange ? neighbours : shards, exchange ? tensor : shard_count,
                                   &state->groups[s]));
    }
    return NULL;
}

static aorta_status setup(struct aorta_hwq *hwq, void **made) {
    const struct fsdp_options *o = hwq->options;
    struct fsdp_block unused;
    AORTA_TRY(aorta_hwq_state(hwq, sizeof(struct fsdp_state), made));
    struct fsdp_state *state = *made;
    AORTA_TRY(setup_groups(hwq, state));
    AORTA_TRY(aorta_hwq_event(hwq, &state->alone));
    const int64_t count = aorta_hwq_fsdp_block(o, NULL, NULL, &unused),
                  unit = 64 * (state->shards > 1 ? state->shards : 1);
    state->padded = (count + unit - 1) / unit * unit;
    state->part_count = quarter(hwq, GATHER) < o->batch ? quarter(hwq, GATHER) : o->batch;
    for (int i = 0; i < 2; i++)
        AORTA_TRY(aorta_hwq_output(hwq, &state->results, state->padded, "gathered block", &state->slots[i]));
    AORTA_TRY(setup_parts(hwq, state));
    for (int64_t l = 0; l < o->blocks; l++) AORTA_TRY(setup_block(hwq, state, l));
    return NULL;
}

static void teardown(struct aorta_hwq *hwq, void *opaque) {
    struct fsdp_state *state = opaque;
    for (int s = 0; s < hwq->stream_count; s++) aorta_comm_close(state->groups[s]);
}

/* ---- one iteration ---- */

/* Fills the block's slot, after all parts of its block before (`before` < 0: none in this iteration). */
static aorta_status gather(struct aorta_hwq *hwq, struct fsdp_state *state, int64_t l, int64_t before) {
    const int s = stream_in(hwq, GATHER, l);
    for (int64_t p = 0; p < state->part_count && before >= 0; p++)
        AORTA_TRY(aorta_stream_wait(hwq->streams[s], state->saved[before][p].done));
    AORTA_TRY(aorta_hwq_all_gather(hwq, s, state->groups[s], state->shard[l], state->slots[l % 2],
                                   state->padded / state->shards));
    return aorta_event_record(state->gathered[l], hwq->streams[s]);
}

static int64_t activations(const struct aorta_hwq *hwq, const struct fsdp_state *state, int64_t p) {
    const struct fsdp_options *o = hwq->options;
    return state->parts[p].sequences * o->positions * o->width;
}

/* Into other memory: on one rank it is a copy, so its stream has work as well. */
static aorta_status add_up(struct aorta_hwq *hwq, const struct fsdp_state *state, int s, const char *name,
                           const float *from, float *to, int64_t count) {
    AORTA_TRY(aorta_hwq_begin(hwq, s, AORTA_SPAN_COLLECTIVE, name));
    AORTA_TRY(aorta_all_reduce(state->groups[s], hwq->streams[s], from, to, (size_t)count, AORTA_F32, AORTA_SUM));
    return aorta_hwq_end(hwq, s);
}

/* Sum of a part's activations over the tensor-parallel ranks, on the exchange stream. A part has one exchange at a
 * time: its work before await_exchange runs beside the exchange. */
static aorta_status start_exchange(struct aorta_hwq *hwq, struct fsdp_state *state, int64_t p, const float *from,
                                   float *to) {
    const int s = stream_in(hwq, COMPUTE, p), e = stream_in(hwq, EXCHANGE, p);
    AORTA_TRY(aorta_hwq_after(hwq, e, state->parts[p].there, s));
    AORTA_TRY(add_up(hwq, state, e, "exchange", from, to, activations(hwq, state, p)));
    return aorta_event_record(state->parts[p].back, hwq->streams[e]);
}

static aorta_status await_exchange(struct aorta_hwq *hwq, struct fsdp_state *state, int64_t p) {
    return aorta_stream_wait(hwq->streams[stream_in(hwq, COMPUTE, p)], state->parts[p].back);
}

float aorta_hwq_fsdp_scale(const struct fsdp_options *o) {
    const int64_t dim = o->width / o->heads;
    return 1.0f / sqrtf((float)dim);
}

/* Products of all heads of all sequences at once: of matrices [positions, head] in rows of qkv or of the context, and
 * of the weights [positions, positions] of head h of sequence s, the one of number s · heads + h. As positions of all
 * sequences are adjacent, and a head's query, key and value too, number n begins n · 3 · head elements into the first
 * row of qkv, n · head into that of the context. */
struct aorta_products aorta_hwq_fsdp_products(const struct fsdp_options *o, int64_t sequences,
                                              enum fsdp_product which) {
    const int64_t t = o->positions, heads = o->heads / o->tensor, dim = o->width / o->heads;
    const int64_t context_row = sequences * heads * dim, row = 3 * context_row;
    struct aorta_products p = {.batch = sequences * heads, .m = t};
    if (which == FSDP_SCORES || which == FSDP_DWEIGHTS) {
        const bool scores = which == FSDP_SCORES;
        p.n = t, p.k = dim, p.transpose_b = true;
        p.lda = scores ? row : context_row, p.a_batch = scores ? 3 * dim : dim;
        p.ldb = row, p.b_batch = 3 * dim, p.ldc = t, p.c_batch = t * t;
        return p;
    }
    const bool into_context = which == FSDP_CONTEXT, from_context = which == FSDP_DVALUES;
    p.n = dim, p.k = t, p.lda = t, p.a_batch = t * t;
    p.transpose_a = which == FSDP_DVALUES || which == FSDP_DKEYS;
    p.ldb = from_context ? context_row : row, p.b_batch = from_context ? dim : 3 * dim;
    p.ldc = into_context ? context_row : row, p.c_batch = into_context ? dim : 3 * dim;
    return p;
}

static aorta_status attention_product(struct aorta_hwq *hwq, int s, const struct fsdp_part *part,
                                      enum fsdp_product which, const float *a, const float *b, float *c) {
    const struct aorta_products products = aorta_hwq_fsdp_products(hwq->options, part->sequences, which);
    return aorta_hwq_products(hwq, s, &products, a, b, c);
}

static struct fsdp_block block_of(const struct aorta_hwq *hwq, const struct fsdp_state *state, int64_t l, int64_t p) {
    struct fsdp_block b;
    aorta_hwq_fsdp_block(hwq->options, state->slots[l % 2], state->gradients[l], &b);
    aorta_hwq_fsdp_norms(hwq->options, state->saved[l][p].norms, &b);
    return b;
}

static const float *input_of(const struct fsdp_state *state, int64_t l, int64_t p) {
    return l == 0 ? state->parts[p].x : state->saved[l - 1][p].y;
}

/* One block for one part in stages. Each is queued for all parts before the next, so that no compute stream waits while
 * the host queues another's. */
static aorta_status forward_qkv(struct aorta_hwq *hwq, struct fsdp_state *state, int64_t l, int64_t p) {
    const struct fsdp_options *o = hwq->options;
    const struct fsdp_block b = block_of(hwq, state, l, p);
    const int s = stream_in(hwq, COMPUTE, p);
    AORTA_TRY(aorta_stream_wait(hwq->streams[s], state->gathered[l]));
    return aorta_hwq_linear(hwq, s, &b.qkv, state->parts[p].sequences * o->positions, input_of(state, l, p),
                            state->saved[l][p].qkv);
}

static aorta_status forward_attention(struct aorta_hwq *hwq, struct fsdp_state *state, int64_t l, int64_t p) {
    const struct fsdp_options *o = hwq->options;
    const struct fsdp_part *part = &state->parts[p];
    const struct fsdp_saved *k = &state->saved[l][p];
    const struct fsdp_block b = block_of(hwq, state, l, p);
    const int s = stream_in(hwq, COMPUTE, p);
    const int64_t dim = o->width / o->heads;
    const struct aorta_products scores = aorta_hwq_fsdp_products(o, part->sequences, FSDP_SCORES);
    AORTA_TRY(aorta_hwq_scores(hwq, s, &scores, aorta_hwq_fsdp_scale(o), k->qkv, k->qkv + dim, k->weights));
    AORTA_TRY(attention_product(hwq, s, part, FSDP_CONTEXT, k->weights, k->qkv + 2 * dim, k->context));
    AORTA_TRY(aorta_hwq_linear(hwq, s, &b.out, part->sequences * o->positions, k->context, k->attended));
    return start_exchange(hwq, state, p, k->attended, k->attended_all);
}

static aorta_status forward_mlp(struct aorta_hwq *hwq, struct fsdp_state *state, int64_t l, int64_t p) {
    const struct fsdp_options *o = hwq->options;
    const struct fsdp_saved *k = &state->saved[l][p];
    const struct fsdp_block b = block_of(hwq, state, l, p);
    const int s = stream_in(hwq, COMPUTE, p);
    const int64_t n = state->parts[p].sequences * o->positions;
    AORTA_TRY(await_exchange(hwq, state, p));
    AORTA_TRY(aorta_hwq_norm_forward(hwq, s, &b.norm1, n, k->attended_all, input_of(state, l, p), &k->norm1, k->y1));
    AORTA_TRY(aorta_hwq_linear(hwq, s, &b.up, n, k->y1, k->inner));
    AORTA_TRY(aorta_hwq_gelu(hwq, s, n * b.up.out, k->inner, k->active));
    AORTA_TRY(aorta_hwq_linear(hwq, s, &b.down, n, k->active, k->mlp));
    return start_exchange(hwq, state, p, k->mlp, k->mlp_all);
}

static aorta_status forward_end(struct aorta_hwq *hwq, struct fsdp_state *state, int64_t l, int64_t p) {
    const struct fsdp_options *o = hwq->options;
    const struct fsdp_saved *k = &state->saved[l][p];
    const struct fsdp_block b = block_of(hwq, state, l, p);
    const int s = stream_in(hwq, COMPUTE, p);
    AORTA_TRY(await_exchange(hwq, state, p));
    AORTA_TRY(aorta_hwq_norm_forward(hwq, s, &b.norm2, state->parts[p].sequences * o->positions, k->mlp_all, k->y1,
                                     &k->norm2, k->y));
    return aorta_event_record(k->done, hwq->streams[s]);
}

/* From the gradient of the context to that of qkv. */
static aorta_status attention_backward(struct aorta_hwq *hwq, int s, const struct fsdp_part *part,
                                       const struct fsdp_saved *k) {
    const struct fsdp_options *o = hwq->options;
    const int64_t dim = o->width / o->heads;
    const struct aorta_products dweights = aorta_hwq_fsdp_products(o, part->sequences, FSDP_DWEIGHTS);
    AORTA_TRY(aorta_hwq_scores_backward(hwq, s, &dweights, aorta_hwq_fsdp_scale(o), k->dcontext, k->qkv + 2 * dim,
                                        k->weights, part->dscores));
    AORTA_TRY(attention_product(hwq, s, part, FSDP_DVALUES, k->weights, k->dcontext, k->dqkv + 2 * dim));
    AORTA_TRY(attention_product(hwq, s, part, FSDP_DQUERIES, part->dscores, k->qkv + dim, k->dqkv));
    return attention_product(hwq, s, part, FSDP_DKEYS, part->dscores, k->qkv, k->dqkv + dim);
}

/* From the gradient of a block's output to that of the MLP's input, whose sum over the ranks it starts. */
static aorta_status backward_mlp(struct aorta_hwq *hwq, struct fsdp_state *state, int64_t l, int64_t p) {
    const struct fsdp_options *o = hwq->options;
    const struct fsdp_saved *k = &state->saved[l][p], *above = l + 1 < o->blocks ? &state->saved[l + 1][p] : NULL;
    const struct fsdp_block b = block_of(hwq, state, l, p);
    const int s = stream_in(hwq, COMPUTE, p);
    const int64_t n = state->parts[p].sequences * o->positions;
    AORTA_TRY(aorta_stream_wait(hwq->streams[s], state->gathered[l]));
    if (above) AORTA_TRY(await_exchange(hwq, state, p));
    AORTA_TRY(aorta_hwq_norm_backward(hwq, s, &b.norm2, n, above ? above->dx_all : k->y, above ? above->dsum1 : NULL,
                                      &k->norm2, k->dsum2, NULL));
    AORTA_TRY(aorta_hwq_linear_input(hwq, s, &b.down, n, k->dsum2, k->dactive, false));
    AORTA_TRY(aorta_hwq_gelu_backward(hwq, s, n, b.up.out, k->inner, k->dactive, k->dinner, NULL));
    AORTA_TRY(aorta_event_record(state->parts[p].ready, hwq->streams[s]));
    AORTA_TRY(aorta_hwq_linear_input(hwq, s, &b.up, n, k->dinner, k->dy1, false));
    return start_exchange(hwq, state, p, k->dy1, k->dy1_all);
}

/* From there to the gradient of the block's input, whose sum over the ranks the block below waits for. */
static aorta_status backward_attention(struct aorta_hwq *hwq, struct fsdp_state *state, int64_t l, int64_t p) {
    const struct fsdp_options *o = hwq->options;
    const struct fsdp_part *part = &state->parts[p];
    const struct fsdp_saved *k = &state->saved[l][p];
    const struct fsdp_block b = block_of(hwq, state, l, p);
    const int s = stream_in(hwq, COMPUTE, p);
    const int64_t n = part->sequences * o->positions;
    AORTA_TRY(await_exchange(hwq, state, p));
    AORTA_TRY(aorta_hwq_norm_backward(hwq, s, &b.norm1, n, k->dy1_all, k->dsum2, &k->norm1, k->dsum1, NULL));
    AORTA_TRY(aorta_hwq_linear_input(hwq, s, &b.out, n, k->dsum1, k->dcontext, false));
    AORTA_TRY(attention_backward(hwq, s, part, k));
    AORTA_TRY(aorta_event_record(part->ready, hwq->streams[s]));
    if (l == 0) return NULL;
    AORTA_TRY(aorta_hwq_linear_input(hwq, s, &b.qkv, n, k->dqkv, k->dx, false));
    return start_exchange(hwq, state, p, k->dx, k->dx_all);
}

/* The gradient of a layer's weights from the rows of all parts, when all are ready. */
static aorta_status weight(struct aorta_hwq *hwq, struct fsdp_state *state, int64_t part,
                           const struct aorta_hwq_layer *layer, const float *x, const float *dy) {
    const struct fsdp_options *o = hwq->options;
    const int64_t own = part % state->part_count;
    const int s = stream_in(hwq, COMPUTE, own);
    for (int64_t p = 0; p < state->part_count; p++)
        if (p != own) AORTA_TRY(aorta_stream_wait(hwq->streams[s], state->parts[p].ready));
    return aorta_hwq_linear_weight(hwq, s, layer, o->batch * o->positions, x, dy, false);
}

/* Those of the MLP, which take about as long as each other, and those of attention, which do not: so the parts' streams
 * take turns from block to block. The activations of all parts begin at the first part's. */
static aorta_status weights_mlp(struct aorta_hwq *hwq, struct fsdp_state *state, int64_t l) {
    const struct fsdp_saved *k = &state->saved[l][0];
    const struct fsdp_block b = block_of(hwq, state, l, 0);
    AORTA_TRY(weight(hwq, state, l, &b.down, k->active, k->dsum2));
    return weight(hwq, state, l + 1, &b.up, k->y1, k->dinner);
}

static aorta_status weights_attention(struct aorta_hwq *hwq, struct fsdp_state *state, int64_t l) {
    const struct fsdp_saved *k = &state->saved[l][0];
    const struct fsdp_block b = block_of(hwq, state, l, 0);
    AORTA_TRY(weight(hwq, state, l + 2, &b.out, k->context, k->dsum1));
    return weight(hwq, state, l + 3, &b.qkv, input_of(state, l, 0), k->dqkv);
}

static aorta_status backward(struct aorta_hwq *hwq, struct fsdp_state *state, int64_t l) {
    for (int64_t p = 0; p < state->part_count; p++) AORTA_TRY(backward_mlp(hwq, state, l, p));
    AORTA_TRY(weights_mlp(hwq, state, l)); /* beside the exchanges */
    for (int64_t p = 0; p < state->part_count; p++) AORTA_TRY(backward_attention(hwq, state, l, p));
    AORTA_TRY(weights_attention(hwq, state, l));
    for (int64_t p = 0; p < state->part_count; p++)
        AORTA_TRY(aorta_event_record(state->saved[l][p].done, hwq->streams[stream_in(hwq, COMPUTE, p)]));
    return NULL;
}

/* Over the ranks with shards of the same block, after the norms' gradients are summed over the parts. */
static aorta_status reduce(struct aorta_hwq *hwq, struct fsdp_state *state, int64_t l) {
    const int s = stream_in(hwq, REDUCE, l);
    struct fsdp_block b, unused;
    for (int64_t p = 0; p < state->part_count; p++)
        AORTA_TRY(aorta_stream_wait(hwq->streams[s], state->saved[l][p].done));
    aorta_hwq_fsdp_block(hwq->options, NULL, state->gradients[l], &b);
    AORTA_TRY(aorta_hwq_sum_pieces(hwq, s, b.norm1.dgamma, state->saved[l][0].norms, state->part_count,
                                   aorta_hwq_fsdp_norms(hwq->options, NULL, &unused), 1.0f));
    return add_up(hwq, state, s, "all_reduce", state->gradients[l], state->reduced[l], state->padded);
}

static aorta_status forward(struct aorta_hwq *hwq, struct fsdp_state *state, int64_t l) {
    const struct fsdp_options *o = hwq->options;
    for (int64_t p = 0; p < state->part_count; p++) AORTA_TRY(forward_qkv(hwq, state, l, p));
    if (l + 1 < o->blocks) AORTA_TRY(gather(hwq, state, l + 1, l - 1));
    for (int64_t p = 0; p < state->part_count; p++) AORTA_TRY(forward_attention(hwq, state, l, p));
    for (int64_t p = 0; p < state->part_count; p++) AORTA_TRY(forward_mlp(hwq, state, l, p));
    for (int64_t p = 0; p < state->part_count; p++) AORTA_TRY(forward_end(hwq, state, l, p));
    return NULL;
}

static aorta_status iterate(struct aorta_hwq *hwq, void *opaque) {
    struct fsdp_state *state = opaque;
    const struct fsdp_options *o = hwq->options;
    AORTA_TRY(gather(hwq, state, 0, -1));
    for (int64_t l = 0; l < o->blocks; l++) AORTA_TRY(forward(hwq, state, l));
    for (int64_t l = o->blocks - 1; l >= 0; l--) { /* the last two blocks are still in memory */
        if (l + 2 < o->blocks) AORTA_TRY(gather(hwq, state, l, l + 2));
        AORTA_TRY(backward(hwq, state, l));
        AORTA_TRY(reduce(hwq, state, l));
    }
    return NULL;
}

/* ---- collectives alone ---- */

static int stream_of(const struct aorta_hwq *hwq, enum fsdp_collective kind) {
    static const int quarters[FSDP_COLLECTIVES] = {GATHER, REDUCE, EXCHANGE};
    return stream_in(hwq, quarters[kind], 0);
}

struct fsdp_message aorta_hwq_fsdp_message(const struct aorta_hwq *hwq, const struct fsdp_state *state,
                                           enum fsdp_collective kind) {
    const int64_t count = kind == FSDP_EXCHANGE ? activations(hwq, state, 0) : state->padded;
    return (struct fsdp_message){count * (int64_t)sizeof(float), aorta_comm_size(state->groups[stream_of(hwq, kind)])};
}

static aorta_status communicate(struct aorta_hwq *hwq, struct fsdp_state *state, enum fsdp_collective kind) {
    const int s = stream_of(hwq, kind);
    const struct fsdp_saved *k = &state->saved[0][0];
    if (kind == FSDP_GATHER) return gather(hwq, state, 0, -1);
    if (kind == FSDP_EXCHANGE) return add_up(hwq, state, s, "exchange", k->mlp, k->mlp_all, activations(hwq, state, 0));
    return add_up(hwq, state, s, "all_reduce", state->gradients[0], state->reduced[0], state->padded);
}

static aorta_status communicate_unstamped(struct aorta_hwq *hwq, struct fsdp_state *state, enum fsdp_collective kind,
                                          int count) {
    struct aorta_hwq_stamps *const stamps = hwq->stamps;
    aorta_status status = NULL;
    hwq->stamps = NULL;
    for (int i = 0; i < count && !status; i++) status = communicate(hwq, state, kind);
    hwq->stamps = stamps;
    return status;
}

aorta_status aorta_hwq_fsdp_row(struct aorta_hwq *hwq, struct fsdp_state *state, enum fsdp_collective kind, int count) {
    const int s = stream_of(hwq, kind);
    AORTA_TRY(aorta_stream_wait(hwq->streams[s], state->alone));
    AORTA_TRY(communicate_unstamped(hwq, state, kind, 1)); /* it ends when the last rank has arrived */
    AORTA_TRY(aorta_hwq_begin(hwq, s, AORTA_SPAN_COLLECTIVE, "row"));
    AORTA_TRY(communicate_unstamped(hwq, state, kind, count));
    AORTA_TRY(aorta_hwq_end(hwq, s));
    return aorta_event_record(state->alone, hwq->streams[s]);
}

static aorta_status work(struct aorta_hwq *hwq, void *state, int64_t iterations, double *amount) {
    (void)state;
    *amount = (double)(iterations * ((const struct fsdp_options *)hwq->options)->batch);
    return NULL;
}

static aorta_status verify(struct aorta_hwq *hwq, void *opaque, struct aorta_hwq_check *result) {
    return aorta_hwq_verify_iteration(hwq, result, &((struct fsdp_state *)opaque)->results, opaque, iterate,
                                      aorta_hwq_fsdp_verify);
}

static const struct aorta_range_limits block_count = {.min = 2, .max = FSDP_MOST_BLOCKS};
static const struct aorta_option rows[] = {
    AORTA_HWQ_ROW(struct fsdp_options, blocks, "4", block_count, "transformer blocks"),
    AORTA_HWQ_ROW(struct fsdp_options, width, "512", aorta_hwq_sizes, "width of a block"),
    AORTA_HWQ_ROW(struct fsdp_options, heads, "8", aorta_hwq_sizes, "heads of the attention"),
    AORTA_HWQ_ROW(struct fsdp_options, mlp, "4", aorta_hwq_sizes, "width inside the MLP, as a multiple"),
    AORTA_HWQ_ROW(struct fsdp_options, batch, "8", aorta_hwq_sizes, "sequences of each rank"),
    AORTA_HWQ_ROW(struct fsdp_options, positions, "512", aorta_hwq_sizes, "positions of a sequence"),
    AORTA_HWQ_ROW(struct fsdp_options, tensor, "1", aorta_hwq_sizes, "ranks that share heads and hidden units"),
};

static const char *try_of(const struct aorta_hwq_run *run, const struct aorta_hwq_result *result) {
    const struct fsdp_options *o = run->options;
    (void)result;
    if (run->ranks.world_size == 1)
        return "several ranks (aorta launch -n 2), and --tensor 2 there: then what is exchanged is real";
    return o->tensor == 1 ? "--tensor 2: ranks then share each layer's products, and exchange what these give" : NULL;
}

static const struct aorta_hwq_size on_cpu[] = {{"width", "128"}, {"batch", "2"}, {"positions", "64"}, {0}};

const struct aorta_hwq_workload aorta_hwq_fsdp_tp = {
    .name = "fsdp_tp",
    .summary = "gathers, reductions and exchanges have to overlap with the blocks that compute",
    .group = AORTA_HWQ_P1,
    .category = AORTA_HWQ_DISTRIBUTED,
    .sensitivity = AORTA_HWQ_HIGH,
    .min_streams = 4,
    .max_streams = 16,
    .recommended_streams = 10,
    .unit = "samples/s",
    .collectives = true,
    .options = rows,
    .option_count = sizeof rows / sizeof *rows,
    .option_bytes = sizeof(struct fsdp_options),
    .on_cpu = on_cpu,
    .try_of = try_of,
    .check = check,
    .role = role,
    .setup = setup,
    .iterate = iterate,
    .work = work,
    .verify = verify,
    .report = aorta_hwq_fsdp_report,
    .teardown = teardown,
};
