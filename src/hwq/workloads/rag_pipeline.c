/* Retrieval-augmented generation as a pipeline: queries are embedded, the most similar documents are found, the best of
 * these are chosen by a reranker, and a generator reads them and the query and draws a token.
 *
 * Stream s has role s modulo 4: 0 embeds, 1 searches, 2 reranks, 3 generates. Queries form as many groups as there are
 * streams of the first role; the groups pass through the stages one after the other. */
#include "hwq/verify.h"

#include <math.h>

enum { MOST_LAYERS = 32, MOST_GROUPS = AORTA_HWQ_MAX_STREAMS / 4, EMBED = 0, SEARCH = 1, RERANK = 2, GENERATE = 3 };

struct options {
    int64_t queries, documents, width, embedding, found, kept, layers, heads, vocab;
};

struct layer {
    struct aorta_hwq_layer qkv, out, up, down;
    struct aorta_hwq_norm norm1, norm2;
};

/* Of one layer of the generator, for all rows of a group: [rows, width] unless noted. */
struct thoughts {
    float *qkv, *context, *out, *y1, *inner, *active, *mlp,
        *y; /* qkv three times, inner and active four times as wide */
    struct aorta_hwq_norm_saved norm1, norm2;
};

struct group {
    int64_t queries;
    float *x, *embedded, *similar; /* [queries, width], [queries, embedding], [queries, documents] */
    int64_t *places, *best;        /* [queries, found], [queries, kept] */
    float *values, *candidates, *questions, *scores, *best_scores; /* candidates [queries · found, width] */
    float *rows; /* [queries, kept + 1, width]: the documents, then the query */
    struct thoughts thoughts[MOST_LAYERS];
    float *logits, *logsums;
    int64_t *tokens;
    struct aorta_event *embedded_there, *found_there, *chosen_there;
};

struct state {
    struct aorta_hwq_layer embed, documents, question; /* documents: their embeddings, of length one, as weights */
    float *texts;                                      /* [documents, width] */
    struct layer layers[MOST_LAYERS];
    struct aorta_hwq_layer head;
    struct group groups[MOST_GROUPS];
    int64_t group_count, *nothing; /* *nothing is 0: no position is cached */
    struct aorta_hwq_results results;
};

static int stream_for(const struct aorta_hwq *hwq, int what, int64_t group) {
    const int count = (hwq->stream_count - what + 3) / 4;
    return what + 4 * (int)(group % count);
}

static const char *role(const struct aorta_hwq *hwq, int stream) {
    static const char *const names[] = {"embed", "search", "rerank", "generate"};
    (void)hwq;
    return names[stream % 4];
}

static aorta_status check(const struct aorta_hwq *hwq) {
    const struct options *o = hwq->options;
    if (o->found > o->documents || o->kept > o->found)
        return AORTA_ERROR(AORTA_USAGE, "rag_pipeline: %lld kept of %lld found of %lld documents: each has to be fewer",
                           (long long)o->kept, (long long)o->found, (long long)o->documents);
    if (o->width % o->heads == 0 && o->width / o->heads <= 128) return NULL;
    return AORTA_ERROR(AORTA_USAGE,
                       "rag_pipeline: %lld heads of a width of %lld; heads must divide it, into 128 at most",
                       (long long)o->heads, (long long)o->width);
}

/* ---- setup ---- */

static aorta_status setup_models(struct aorta_hwq *hwq, struct state *state) {
    const struct options *o = hwq->options;
    const int64_t width = o->width;
    AORTA_TRY(aorta_hwq_layer_make(hwq, 10, width, o->embedding, false, &state->embed));
    AORTA_TRY(aorta_hwq_layer_make(hwq, 12, width, width, false, &state->question));
    AORTA_TRY(aorta_hwq_layer_make(hwq, 14, width, o->vocab, false, &state->head));
    state->documents = (struct aorta_hwq_layer){.in = o->embedding, .out = o->documents};
    AORTA_TRY(aorta_hwq_input(hwq, 16, o->documents * o->embedding, 1.0f, "documents", &state->documents.weight));
    AORTA_TRY(aorta_normalise_rows(hwq->streams[0], o->documents, o->embedding, state->documents.weight,
                                   state->documents.weight));
    AORTA_TRY(aorta_hwq_input(hwq, 17, o->documents * width, 1.0f, "texts", &state->texts));
    for (int64_t l = 0; l < o->layers; l++) {
        struct layer *layer = &state->layers[l];
        const uint64_t id = 20 * (uint64_t)(l + 2);
        AORTA_TRY(aorta_hwq_layer_make(hwq, id, width, 3 * width, false, &layer->qkv));
        AORTA_TRY(aorta_hwq_layer_make(hwq, id + 2, width, width, false, &layer->out));
        AORTA_TRY(aorta_hwq_layer_make(hwq, id + 4, width, 4 * width, false, &layer->up));
        AORTA_TRY(aorta_hwq_layer_make(hwq, id + 6, 4 * width, width, false, &layer->down));
        AORTA_TRY(aorta_hwq_norm_make(hwq, id + 8, width, false, &layer->norm1));
        AORTA_TRY(aorta_hwq_norm_make(hwq, id + 10, width, false, &layer->norm2));
    }
    void *memory;
    AORTA_TRY(aorta_hwq_alloc(hwq, sizeof *state->nothing, "positions", &memory));
    state->nothing = memory;
    return aorta_fill_bytes(hwq->streams[0], memory, 0, sizeof *state->nothing);
}

static aorta_status setup_group(struct aorta_hwq *hwq, struct state *state, int64_t index) {
    const struct options *o = hwq->options;
    struct group *g = &state->groups[index];
    struct aorta_hwq_results *results = &state->results;
    const int64_t q = g->queries, n = q * (o->kept + 1), width = o->width;
    AORTA_TRY(aorta_hwq_input(hwq, 5000 + (uint64_t)index, q * width, 1.0f, "queries", &g->x));
    const struct {
        float **memory;
        int64_t count;
    } buffers[] = {{&g->embedded, q * o->embedding}, {&g->similar, q * o->documents},
                   {&g->values, q * o->found},       {&g->candidates, q * o->found * width},
                   {&g->questions, q * width},       {&g->scores, q * o->found},
                   {&g->best_scores, q * o->kept},   {&g->rows, n * width},
                   {&g->logits, q * o->vocab},       {&g->logsums, q}};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        AORTA_TRY(aorta_hwq_output(hwq, results, buffers[i].count, "results of a query", buffers[i].memory));
    for (int64_t l = 0; l < o->layers; l++) {
        struct thoughts *t = &g->thoughts[l];
        const struct {
            float **memory;
            int64_t count;
        } wide[] = {{&t->qkv, 3 * width},   {&t->context, width},    {&t->out, width},    {&t->y1, width},
                    {&t->inner, 4 * width}, {&t->active, 4 * width}, {&t->mlp, width},    {&t->y, width},
                    {&t->norm1.sum, width}, {&t->norm1.mean, 1},     {&t->norm1.rstd, 1}, {&t->norm2.sum, width},
                    {&t->norm2.mean, 1},    {&t->norm2.rstd, 1}};
        for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
            AORTA_TRY(aorta_hwq_output(hwq, results, n * wide[i].count, "activations", wide[i].memory));
    }
    /* Places are used as addresses, so they are not overwritten with NaN. */
    const struct {
        int64_t **memory, count;
    } integers[] = {{&g->places, q * o->found}, {&g->best, q * o->kept}, {&g->tokens, q}};
    for (size_t i = 0; i < 3; i++) {
        void *memory;
        AORTA_TRY(aorta_hwq_alloc(hwq, (size_t)integers[i].count * sizeof(int64_t), "places", &memory));
        AORTA_TRY(aorta_fill_bytes(hwq->streams[0], memory, 0, (size_t)integers[i].count * sizeof(int64_t)));
        *integers[i].memory = memory;
    }
    AORTA_TRY(aorta_hwq_event(hwq, &g->embedded_there));
    AORTA_TRY(aorta_hwq_event(hwq, &g->found_there));
    return aorta_hwq_event(hwq, &g->chosen_there);
}

static aorta_status setup(struct aorta_hwq *hwq, void **made) {
    const struct options *o = hwq->options;
    AORTA_TRY(aorta_hwq_state(hwq, sizeof(struct state), made));
    struct state *state = *made;
    AORTA_TRY(setup_models(hwq, state));
    const int64_t streams = (hwq->stream_count + 3) / 4;
    state->group_count = streams < o->queries ? streams : o->queries;
    for (int64_t g = 0; g < state->group_count; g++) {
        state->groups[g].queries = o->queries * (g + 1) / state->group_count - o->queries * g / state->group_count;
        AORTA_TRY(setup_group(hwq, state, g));
    }
    return aorta_stream_synchronize(hwq->streams[0]);
}

/* ---- one iteration ---- */

static aorta_status top(struct aorta_hwq *hwq, int s, int64_t rows, int64_t width, int64_t count, const float *x,
                        int64_t *places, float *values) {
    AORTA_TRY(aorta_hwq_begin(hwq, s, AORTA_SPAN_KERNEL, "top"));
    AORTA_TRY(aorta_top(hwq->streams[s], rows, width, count, x, places, values));
    return aorta_hwq_end(hwq, s);
}

static aorta_status search(struct aorta_hwq *hwq, const struct state *state, int64_t index) {
    const struct options *o = hwq->options;
    const struct group *g = &state->groups[index];
    const int e = stream_for(hwq, EMBED, index), s = stream_for(hwq, SEARCH, index);
    AORTA_TRY(aorta_hwq_linear(hwq, e, &state->embed, g->queries, g->x, g->embedded));
    AORTA_TRY(aorta_hwq_begin(hwq, e, AORTA_SPAN_KERNEL, "normalise"));
    AORTA_TRY(aorta_normalise_rows(hwq->streams[e], g->queries, o->embedding, g->embedded, g->embedded));
    AORTA_TRY(aorta_hwq_end(hwq, e));
    AORTA_TRY(aorta_hwq_after(hwq, s, g->embedded_there, e));
    AORTA_TRY(aorta_hwq_linear(hwq, s, &state->documents, g->queries, g->embedded, g->similar));
    return top(hwq, s, g->queries, o->documents, o->found, g->similar, g->places, g->values);
}

/* Relevance of a document = question(query)·text. */
static struct aorta_products relevance(const struct options *o, int64_t queries) {
    return (struct aorta_products){.batch = queries,
                                   .m = 1,
                                   .n = o->found,
                                   .k = o->width,
                                   .transpose_b = true,
                                   .lda = o->width,
                                   .ldb = o->width,
                                   .ldc = o->found,
                                   .a_batch = o->width,
                                   .b_batch = o->found * o->width,
                                   .c_batch = o->found};
}

static aorta_status rerank(struct aorta_hwq *hwq, const struct state *state, int64_t index) {
    const struct options *o = hwq->options;
    const struct group *g = &state->groups[index];
    const int s = stream_for(hwq, RERANK, index);
    const int64_t width = o->width;
    const struct aorta_products products = relevance(o, g->queries);
    AORTA_TRY(aorta_hwq_after(hwq, s, g->found_there, stream_for(hwq, SEARCH, index)));
    AORTA_TRY(
        aorta_hwq_embed(hwq, s, g->queries * o->found, o->documents, width, g->places, state->texts, g->candidates));
    AORTA_TRY(aorta_hwq_linear(hwq, s, &state->question, g->queries, g->x, g->questions));
    AORTA_TRY(aorta_hwq_products(hwq, s, &products, g->questions, g->candidates, g->scores));
    AORTA_TRY(top(hwq, s, g->queries, o->found, o->kept, g->scores, g->best, g->best_scores));
    for (int64_t q = 0; q < g->queries; q++) {
        float *rows = g->rows + q * (o->kept + 1) * width;
        AORTA_TRY(aorta_hwq_embed(hwq, s, o->kept, o->found, width, g->best + q * o->kept,
                                  g->candidates + q * o->found * width, rows));
        AORTA_TRY(aorta_hwq_copy(hwq, s, rows + o->kept * width, g->x + q * width, (size_t)width * sizeof(float)));
    }
    return NULL;
}

static struct aorta_cache sequence_of(const struct options *o) {
    return (struct aorta_cache){1, 1, 1, o->heads, o->width / o->heads, o->kept + 1};
}

static aorta_status think(struct aorta_hwq *hwq, int s, const struct state *state, const struct group *g, int64_t l) {
    const struct options *o = hwq->options;
    const struct layer *layer = &state->layers[l];
    const struct thoughts *t = &g->thoughts[l];
    const struct aorta_cache cache = sequence_of(o);
    const int64_t fresh = o->kept + 1, n = g->queries * fresh;
    const float *x = l == 0 ? g->rows : g->thoughts[l - 1].y;
    AORTA_TRY(aorta_hwq_linear(hwq, s, &layer->qkv, n, x, t->qkv));
    for (int64_t q = 0; q < g->queries; q++) /* nothing is cached: keys and values are never read there */
        AORTA_TRY(aorta_hwq_attend(hwq, s, &cache, 0, fresh, t->qkv + q * fresh * 3 * o->width, t->qkv, t->qkv,
                                   state->nothing, t->context + q * fresh * o->width));
    AORTA_TRY(aorta_hwq_linear(hwq, s, &layer->out, n, t->context, t->out));
    AORTA_TRY(aorta_hwq_norm_forward(hwq, s, &layer->norm1, n, t->out, x, &t->norm1, t->y1));
    AORTA_TRY(aorta_hwq_linear(hwq, s, &layer->up, n, t->y1, t->inner));
    AORTA_TRY(aorta_hwq_gelu(hwq, s, n * 4 * o->width, t->inner, t->active));
    AORTA_TRY(aorta_hwq_linear(hwq, s, &layer->down, n, t->active, t->mlp));
    return aorta_hwq_norm_forward(hwq, s, &layer->norm2, n, t->mlp, t->y1, &t->norm2, t->y);
}

/* Logits of the last row of each query. */
static struct aorta_products last_rows(const struct options *o, int64_t queries) {
    return (struct aorta_products){.batch = 1,
                                   .m = queries,
                                   .n = o->vocab,
                                   .k = o->width,
                                   .transpose_b = true,
                                   .lda = (o->kept + 1) * o->width,
                                   .ldb = o->width,
                                   .ldc = o->vocab};
}

static aorta_status generate(struct aorta_hwq *hwq, const struct state *state, int64_t index) {
    const struct options *o = hwq->options;
    const struct group *g = &state->groups[index];
    const struct aorta_products products = last_rows(o, g->queries);
    const int s = stream_for(hwq, GENERATE, index);
    AORTA_TRY(aorta_hwq_after(hwq, s, g->chosen_there, stream_for(hwq, RERANK, index)));
    for (int64_t l = 0; l < o->layers; l++) AORTA_TRY(think(hwq, s, state, g, l));
    AORTA_TRY(aorta_hwq_products(hwq, s, &products, g->thoughts[o->layers - 1].y + o->kept * o->width,
                                 state->head.weight, g->logits));
    AORTA_TRY(aorta_hwq_begin(hwq, s, AORTA_SPAN_KERNEL, "sample"));
    AORTA_TRY(aorta_sample(hwq->streams[s], g->queries, o->vocab, g->logits, hwq->seed, (uint32_t)index, NULL,
                           g->tokens, g->logsums));
    return aorta_hwq_end(hwq, s);
}

static aorta_status iterate(struct aorta_hwq *hwq, void *opaque) {
    struct state *state = opaque;
    for (int64_t g = 0; g < state->group_count; g++) AORTA_TRY(search(hwq, state, g));
    for (int64_t g = 0; g < state->group_count; g++) AORTA_TRY(rerank(hwq, state, g));
    for (int64_t g = 0; g < state->group_count; g++) AORTA_TRY(generate(hwq, state, g));
    return NULL;
}

static aorta_status work(struct aorta_hwq *hwq, void *state, int64_t iterations, double *amount) {
    (void)state;
    *amount = (double)(iterations * ((const struct options *)hwq->options)->queries);
    return NULL;
}

/* ---- verification ---- */

/* places [rows, count] are those of the largest of x [rows, width], largest first. */
static aorta_status verify_top(struct aorta_hwq_verifier *verifier, const char *what, int64_t rows, int64_t width,
                               int64_t count, const float *x, const int64_t *places) {
    const float *in;
    const void *got = NULL;
    AORTA_TRY(aorta_hwq_fetch(verifier, x, rows * width, &in));
    AORTA_TRY(aorta_hwq_fetch_bytes(verifier, places, (size_t)(rows * count) * sizeof *places, &got));
    for (int64_t row = 0; row < rows; row++)
        for (int64_t k = 0; k < count; k++) {
            const int64_t place = ((const int64_t *)got)[row * count + k];
            int64_t before = 0;
            if (place < 0 || place >= width)
                return AORTA_ERROR(AORTA_DEVICE, "rag_pipeline: %s is %lld", what, (long long)place);
            for (int64_t i = 0; i < width; i++) {
                const float other = in[row * width + i], own = in[row * width + place];
                before += other > own || (other == own && i < place);
            }
            aorta_hwq_compare(verifier->check, (double)before, (double)k, 0.5, 0, "rank of %s %lld of query %lld", what,
                              (long long)k, (long long)row);
        }
    return NULL;
}

/* The embedding is the linear layer's output brought to length one. */
static aorta_status verify_embedding(struct aorta_hwq_verifier *verifier, const struct state *state,
                                     const struct group *g) {
    const struct aorta_hwq_layer *e = &state->embed;
    const float *x, *weight, *bias, *got;
    AORTA_TRY(aorta_hwq_fetch(verifier, g->x, g->queries * e->in, &x));
    AORTA_TRY(aorta_hwq_fetch(verifier, e->weight, e->in * e->out, &weight));
    AORTA_TRY(aorta_hwq_fetch(verifier, e->bias, e->out, &bias));
    AORTA_TRY(aorta_hwq_fetch(verifier, g->embedded, g->queries * e->out, &got));
    double length = 1.0;
    for (int64_t q = 0; q < g->queries; q++)
        for (int pass = 0; pass < 2; pass++) { /* its length, then its elements */
            double square = 0.0;
            for (int64_t i = 0; i < e->out; i++) {
                double sum = (double)bias[i];
                for (int64_t k = 0; k < e->in; k++) sum += (double)weight[i * e->in + k] * (double)x[q * e->in + k];
                square += sum * sum;
                if (pass)
                    aorta_hwq_compare(verifier->check, (double)got[q * e->out + i], sum / length, 1e-5, 0,
                                      "embedding of query %lld, %lld", (long long)q, (long long)i);
            }
            length = sqrt(square);
        }
    return NULL;
}

static aorta_status verify_layer(struct aorta_hwq_verifier *verifier, const struct state *state, const struct group *g,
                                 int64_t l) {
    const struct options *o = verifier->hwq->options;
    const struct layer *layer = &state->layers[l];
    const struct thoughts *t = &g->thoughts[l];
    const struct aorta_cache cache = sequence_of(o);
    const struct aorta_hwq_sequence empty = {0};
    const int64_t fresh = o->kept + 1, n = g->queries * fresh, last = (g->queries - 1) * fresh * o->width;
    const struct {
        const char *what;
        const struct aorta_hwq_layer *layer;
        const float *x, *y;
    } linears[] = {{"queries, keys, values", &layer->qkv, l ? g->thoughts[l - 1].y : g->rows, t->qkv},
                   {"attention", &layer->out, t->context, t->out},
                   {"inside the MLP", &layer->up, t->y1, t->inner},
                   {"MLP", &layer->down, t->active, t->mlp}};
    for (size_t i = 0; i < sizeof linears / sizeof *linears; i++)
        AORTA_TRY(aorta_hwq_verify_linear(verifier, linears[i].what, linears[i].layer, n, linears[i].x, linears[i].y,
                                          AORTA_HWQ_PLAIN, AORTA_HWQ_FP32));
    AORTA_TRY(aorta_hwq_verify_attend(verifier, "generator", &cache, 0, fresh, 0, &empty, t->qkv + 3 * last,
                                      t->context + last));
    AORTA_TRY(aorta_hwq_verify_norm(verifier, "first norm", &layer->norm1, n, t->norm1.sum, t->y1));
    AORTA_TRY(aorta_hwq_verify_gelu(verifier, "GELU", n * 4 * o->width, t->inner, t->active));
    return aorta_hwq_verify_norm(verifier, "second norm", &layer->norm2, n, t->norm2.sum, t->y);
}

/* Rows that the generator reads: the chosen documents' texts. */
static aorta_status verify_rows(struct aorta_hwq_verifier *verifier, const struct state *state, const struct group *g) {
    const struct options *o = verifier->hwq->options;
    const int64_t width = o->width, last = g->queries - 1;
    const float *texts, *rows;
    const void *places = NULL, *best = NULL;
    AORTA_TRY(aorta_hwq_fetch(verifier, state->texts, o->documents * width, &texts));
    AORTA_TRY(aorta_hwq_fetch(verifier, g->rows + last * (o->kept + 1) * width, o->kept * width, &rows));
    AORTA_TRY(
        aorta_hwq_fetch_bytes(verifier, g->places + last * o->found, (size_t)o->found * sizeof(int64_t), &places));
    AORTA_TRY(aorta_hwq_fetch_bytes(verifier, g->best + last * o->kept, (size_t)o->kept * sizeof(int64_t), &best));
    for (int64_t i = 0; i < o->kept * width; i++) {
        const int64_t document = ((const int64_t *)places)[((const int64_t *)best)[i / width]];
        aorta_hwq_compare(verifier->check, (double)rows[i], (double)texts[document * width + i % width], 1e-30, 0,
                          "text %lld, element %lld", (long long)(i / width), (long long)(i % width));
    }
    return NULL;
}

static aorta_status compare(struct aorta_hwq_verifier *verifier, void *opaque) {
    const struct state *state = opaque;
    const struct options *o = verifier->hwq->options;
    for (int64_t i = 0; i < state->group_count; i++) {
        const struct group *g = &state->groups[i];
        const struct aorta_products scores = relevance(o, g->queries), logits = last_rows(o, g->queries);
        AORTA_TRY(verify_embedding(verifier, state, g));
        AORTA_TRY(aorta_hwq_verify_linear(verifier, "similarity", &state->documents, g->queries, g->embedded,
                                          g->similar, AORTA_HWQ_PLAIN, AORTA_HWQ_FP32));
        AORTA_TRY(verify_top(verifier, "document", g->queries, o->documents, o->found, g->similar, g->places));
        AORTA_TRY(aorta_hwq_verify_linear(verifier, "question", &state->question, g->queries, g->x, g->questions,
                                          AORTA_HWQ_PLAIN, AORTA_HWQ_FP32));
        AORTA_TRY(aorta_hwq_verify_products(verifier, "relevance", &scores, g->questions, g->candidates, g->scores));
        AORTA_TRY(verify_top(verifier, "choice", g->queries, o->found, o->kept, g->scores, g->best));
        AORTA_TRY(verify_rows(verifier, state, g));
        for (int64_t l = 0; l < o->layers; l++) AORTA_TRY(verify_layer(verifier, state, g, l));
        AORTA_TRY(aorta_hwq_verify_products(verifier, "logits", &logits,
                                            g->thoughts[o->layers - 1].y + o->kept * o->width, state->head.weight,
                                            g->logits));
    }
    return NULL;
}

static aorta_status verify(struct aorta_hwq *hwq, void *opaque, struct aorta_hwq_check *result) {
    return aorta_hwq_verify_iteration(hwq, result, &((struct state *)opaque)->results, opaque, iterate, compare);
}

static const struct aorta_range_limits layer_count = {.min = 1, .max = MOST_LAYERS},
                                       document_count = {.min = 1, .max = 4096};
static const struct aorta_range_limits query_count = {.min = 1, .max = 1024};
static const struct aorta_option rows[] = {
    AORTA_HWQ_ROW(struct options, queries, "8", query_count, "queries at a time"),
    AORTA_HWQ_ROW(struct options, documents, "100", document_count, "documents to search in"),
    AORTA_HWQ_ROW(struct options, width, "768", aorta_hwq_sizes, "width of queries, texts and the generator"),
    AORTA_HWQ_ROW(struct options, embedding, "256", aorta_hwq_sizes, "width of the embeddings"),
    AORTA_HWQ_ROW(struct options, found, "10", document_count, "documents that the search finds"),
    AORTA_HWQ_ROW(struct options, kept, "4", document_count, "documents after reranking"),
    AORTA_HWQ_ROW(struct options, layers, "4", layer_count, "layers of the generator"),
    AORTA_HWQ_ROW(struct options, heads, "12", aorta_hwq_sizes, "its heads"),
    AORTA_HWQ_ROW(struct options, vocab, "32000", aorta_hwq_sizes, "different tokens"),
};

static const struct aorta_hwq_size on_cpu[] = {
    {"width", "192"}, {"embedding", "64"}, {"vocab", "2000"}, {"queries", "4"}, {0}};

const struct aorta_hwq_workload aorta_hwq_rag_pipeline = {
    .name = "rag_pipeline",
    .summary = "a pipeline of short and long stages: short ones wait where they share a queue with the generator",
    .group = AORTA_HWQ_P2,
    .category = AORTA_HWQ_INFERENCE,
    .sensitivity = AORTA_HWQ_HIGH,
    .min_streams = 4,
    .max_streams = 12,
    .recommended_streams = 8,
    .unit = "queries/s",
    .options = rows,
    .option_count = sizeof rows / sizeof *rows,
    .option_bytes = sizeof(struct options),
    .on_cpu = on_cpu,
    .try_next = "compare 4 and 12 streams: one group of queries, or three that share the device",
    .check = check,
    .role = role,
    .setup = setup,
    .iterate = iterate,
    .work = work,
    .verify = verify,
};
