/* Retrieval-augmented generation as a pipeline: queries are embedded, the most similar documents are found, the best of
 * these are chosen by a reranker, and a generator reads them and the query and draws a token.
 *
 * Stream s has role s modulo 4: 0 embeds, 1 searches, 2 reranks, 3 generates. Queries form as many groups as there are
 * streams of the first role; the groups pass through the stages one after the other. */
#include "hwq/operations.h"

enum { MOST_LAYERS = 32, MOST_GROUPS = AORTA_HWQ_MAX_STREAMS / 4, EMBED = 0, SEARCH = 1, RERANK = 2, GENERATE = 3 };

struct options {
    int64_t queries, documents, width, embedding, found, kept, layers, heads, vocab;
};

struct group {
    int64_t queries;
    struct hwq_tensor x, places, rows; /* rows [queries · (kept + 1), width]: the documents, then the query */
};

struct state {
    struct hwq_layer embed, documents, question, head; /* documents: their embeddings, of length one, as weights */
    struct hwq_tensor texts, nothing;                  /* [documents, width]; 0: no position is cached */
    struct hwq_block blocks[MOST_LAYERS];
    struct group groups[MOST_GROUPS];
};

static const char *const roles[] = {"embed", "search", "rerank", "generate", NULL};

static aorta_status check(const struct aorta_hwq *hwq) {
    const struct options *o = hwq->options;
    if (o->found > o->documents || o->kept > o->found)
        return AORTA_ERROR(AORTA_USAGE, "rag_pipeline: %lld kept of %lld found of %lld documents: each has to be fewer",
                           (long long)o->kept, (long long)o->found, (long long)o->documents);
    return hwq_check_heads(hwq, o->heads, o->width);
}

static void make_models(struct hwq_graph *g, struct state *state) {
    const struct options *o = g->options;
    state->embed = hwq_layer(g, 10, o->width, o->embedding, false);
    state->question = hwq_layer(g, 12, o->width, o->width, false);
    state->head = hwq_layer(g, 14, o->width, o->vocab, false);
    state->documents = (struct hwq_layer){.in = o->embedding, .out = o->documents};
    state->documents.weight = hwq_input(g, 16, o->documents, o->embedding, 1.0f, "documents");
    float *documents = hwq_floats(state->documents.weight);
    if (documents)
        hwq_fail(g, aorta_normalise_rows(g->hwq->streams[0], &(struct aorta_normalise_args){.rows = o->documents,
                                                                                            .width = o->embedding,
                                                                                            .x = documents,
                                                                                            .y = documents}));
    state->texts = hwq_input(g, 17, o->documents, o->width, 1.0f, "texts");
    for (int64_t l = 0; l < o->layers; l++) state->blocks[l] = hwq_block(g, 20 * (uint64_t)(l + 2), o->width);
    state->nothing = hwq_constant(g, AORTA_I64, 1, NULL, "positions");
}

static void search(struct hwq_graph *g, const struct state *state, struct group *group, int64_t index) {
    const struct options *o = g->options;
    const int e = hwq_stream(g, EMBED, 4, index), s = hwq_stream(g, SEARCH, 4, index);
    group->x = hwq_input(g, 5000 + (uint64_t)index, group->queries, o->width, 1.0f, "queries");
    const struct hwq_tensor embedded = hwq_linear(g, e, &state->embed, group->x);
    hwq_normalise(g, e, embedded);
    const struct hwq_tensor similar = hwq_linear(g, s, &state->documents, embedded);
    group->places = hwq_top(g, s, similar, o->found);
}

/* The relevance of a document is question(query)·text. */
static void rerank(struct hwq_graph *g, const struct state *state, struct group *group, int64_t index) {
    const struct options *o = g->options;
    const int s = hwq_stream(g, RERANK, 4, index);
    const int64_t n = o->kept + 1;
    const struct hwq_tensor candidates = hwq_embed(g, s, group->places, state->texts);
    const struct hwq_tensor questions = hwq_linear(g, s, &state->question, group->x);
    const struct hwq_tensor scores = hwq_products(g, s, group->queries, questions, hwq_transposed(candidates));
    const struct hwq_tensor best = hwq_top(g, s, scores, o->kept);
    group->rows = hwq_result(g, AORTA_F32, group->queries * n, o->width, "texts and query");
    for (int64_t q = 0; q < group->queries; q++) {
        hwq_embed(hwq_into(g, hwq_rows(group->rows, q * n, o->kept)), s, hwq_rows(best, q, 1),
                  hwq_rows(candidates, q * o->found, o->found));
        hwq_copy(hwq_into(g, hwq_rows(group->rows, q * n + o->kept, 1)), s, hwq_rows(group->x, q, 1));
    }
}

/* No position is cached, so keys and values are not read. */
static struct hwq_tensor attention(struct hwq_graph *g, int s, const struct state *state, int64_t queries,
                                   struct hwq_tensor qkv) {
    const struct options *o = g->options;
    const int64_t n = o->kept + 1;
    const struct hwq_cache cache = {{1, 1, 1, o->heads, o->width / o->heads, n}, qkv, qkv, state->nothing};
    const struct hwq_tensor context = hwq_result(g, AORTA_F32, qkv.rows, o->width, "context");
    for (int64_t q = 0; q < queries; q++)
        hwq_attend(hwq_into(g, hwq_rows(context, q * n, n)), s, &cache, 0, 0, n, hwq_rows(qkv, q * n, n));
    return context;
}

static void generate(struct hwq_graph *g, const struct state *state, const struct group *group, int64_t index) {
    const struct options *o = g->options;
    const int s = hwq_stream(g, GENERATE, 4, index);
    const int64_t row = (o->kept + 1) * o->width;
    struct hwq_tensor y = group->rows, logsums = {0};
    for (int64_t l = 0; l < o->layers; l++) {
        const struct hwq_tensor qkv = hwq_linear(g, s, &state->blocks[l].qkv, y);
        y = hwq_block_rest(g, s, &state->blocks[l], attention(g, s, state, group->queries, qkv), y);
    }
    const struct hwq_tensor last = hwq_strided(y, row - o->width, group->queries, o->width, row);
    const struct hwq_tensor logits = hwq_products(g, s, 1, last, hwq_transposed(state->head.weight));
    hwq_sample(g, s, logits, (uint32_t)index, (struct hwq_tensor){0},
               hwq_result(g, AORTA_I64, 1, group->queries, "tokens"), &logsums);
}

static void build(struct hwq_graph *g) {
    const struct options *o = g->options;
    const int64_t streams = (g->hwq->stream_count + 3) / 4, count = streams < o->queries ? streams : o->queries;
    struct state *state = hwq_state(g, sizeof *state);
    if (!state) return;
    make_models(g, state);
    g->work = (double)o->queries;
    for (int64_t i = 0; i < count; i++) {
        state->groups[i].queries = hwq_part(o->queries, count, i).count;
        search(g, state, &state->groups[i], i);
    }
    for (int64_t i = 0; i < count; i++) rerank(g, state, &state->groups[i], i);
    for (int64_t i = 0; i < count; i++) generate(g, state, &state->groups[i], i);
}

static const struct aorta_option rows[] = {
    AORTA_HWQ_ROW(struct options, queries, "8", "4", 1, 1024, "queries at a time"),
    AORTA_HWQ_ROW(struct options, documents, "100", NULL, 1, 4096, "documents to search in"),
    AORTA_HWQ_ROW(struct options, width, "768", "192", 1, HWQ_LARGEST, "width of queries, texts and the generator"),
    AORTA_HWQ_ROW(struct options, embedding, "256", "64", 1, HWQ_LARGEST, "width of the embeddings"),
    AORTA_HWQ_ROW(struct options, found, "10", NULL, 1, 4096, "documents that the search finds"),
    AORTA_HWQ_ROW(struct options, kept, "4", NULL, 1, 4096, "documents after reranking"),
    AORTA_HWQ_ROW(struct options, layers, "4", NULL, 1, MOST_LAYERS, "layers of the generator"),
    AORTA_HWQ_ROW(struct options, heads, "12", NULL, 1, HWQ_LARGEST, "its heads"),
    AORTA_HWQ_ROW(struct options, vocab, "32000", "2000", 1, HWQ_LARGEST, "different tokens"),
};

const struct aorta_hwq_workload aorta_hwq_rag_pipeline = {
    .name = "rag_pipeline",
    .summary = "a pipeline of short and long stages: short ones wait where they share a queue with the generator",
    .group = AORTA_HWQ_P2,
    .category = "inference",
    .sensitivity = "high",
    .streams = {.min = 4, .max = 12, .recommended = 8},
    .unit = "queries/s",
    AORTA_HWQ_OPTIONS(rows, struct options),
    .try_next = "compare 4 and 12 streams: one group of queries, or three that share the device",
    .check = check,
    .roles = roles,
    .build = build,
};
