/* Plans of matrix products: their descriptions, candidates and the choice among these.
 *
 * Our matrices are row-major, the library's are column-major. So the library sees our c [m, n] as transposed, and its
 * operands a and b are our b and a. */
#include "ops/gpu/blas.h"

#include "ops/gpu/gpu.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WANTED = 24, /* candidates with a workspace, and as many without */
    CANDIDATES = 2 * WANTED,
    PREFERRED = 6, /* candidates of each kind that are never dropped */
    OPERANDS = 4,
};

/* Identifies a plan. `alignment`: of the library's a, b, c and the bias, at most 16. */
struct key {
    struct aorta_blas_product product;
    uint32_t alignment[OPERANDS];
    bool tf32;
};

struct plan {
    struct plan *next;
    struct key key;
    bool possible;                 /* the library offers this product */
    void *description, *a, *b, *c; /* the library's */
    int found, place;              /* distinct candidates, and the one in use */
    struct aorta_candidate timing; /* measurement of the candidate in use; time 0 if not measured */
    _Alignas(8) unsigned char algorithm[AORTA_BLAS_CANDIDATE_BYTES]; /* returned by the library with the candidate */
};

struct blas {
    struct aorta_device *device;
    const struct aorta_blas_vendor *vendor;
    pthread_mutex_t lock; /* of everything below; locked while queueing, too, as descriptions have the bias' address */
    struct aorta_ops_settings settings;
    struct aorta_blas_api api;
    void *handle; /* NULL: not opened yet */
    struct plan *plans;
};

/* The library's candidates for a product. */
struct offers {
    int count;
    bool preferred[CANDIDATES];
    _Alignas(8) unsigned char candidates[CANDIDATES * AORTA_BLAS_CANDIDATE_BYTES];
};

/* ---- one for each device ---- */

static aorta_status blas_create(struct aorta_device *device, void **state) {
    struct blas *blas = calloc(1, sizeof *blas);
    if (!blas) return AORTA_ERROR(AORTA_MEMORY, "no memory for the table of matrix products");
    blas->device = device;
    blas->vendor = aorta_device_get_info(device)->kind == AORTA_DEVICE_HIP ? &aorta_blas_hip : &aorta_blas_cuda;
    pthread_mutex_init(&blas->lock, NULL);
    *state = blas;
    return NULL;
}

static void plan_destroy(struct blas *blas, struct plan *plan) {
    if (plan->description) blas->api.description_destroy(plan->description);
    void *const layouts[] = {plan->a, plan->b, plan->c};
    for (int i = 0; i < 3; i++)
        if (layouts[i]) blas->api.layout_destroy(layouts[i]);
    free(plan);
}

static void blas_destroy(void *state) {
    struct blas *blas = state;
    while (blas->plans) {
        struct plan *plan = blas->plans;
        blas->plans = plan->next;
        plan_destroy(blas, plan);
    }
    if (blas->handle) {
        aorta_status_free(aorta_gpu_make_current(blas->device));
        blas->api.destroy(blas->handle);
    }
    pthread_mutex_destroy(&blas->lock);
    free(blas);
}

static aorta_status find_blas(struct aorta_device *device, struct blas **blas) {
    static const char key;
    void *state;
    AORTA_TRY(aorta_device_attachment(device, &key, blas_create, blas_destroy, &state));
    *blas = state;
    return NULL;
}

static aorta_status blas_open(struct blas *blas) {
    if (blas->handle) return NULL;
    struct aorta_library library;
    AORTA_TRY(aorta_library_open(&blas->vendor->library, &blas->api, &library));
    int code = blas->api.create(&blas->handle);
    if (!code) return NULL;
    blas->handle = NULL;
    return AORTA_ERROR(AORTA_DEVICE, "%s (%s) does not start: status %d", blas->vendor->name, library.path, code);
}

/* ---- plans ---- */

static aorta_status failure(const struct blas *blas, const struct plan *plan, const char *what, int code) {
    const struct aorta_products *s = &plan->key.product.shape;
    return AORTA_ERROR(AORTA_DEVICE, "%s, product %lld x %lld x %lld in %s: %s gives status %d", blas->vendor->name,
                       (long long)s->n, (long long)s->m, (long long)s->k, aorta_dtype_name(plan->key.product.dtype),
                       what, code);
}

static int epilogue_number(const struct aorta_blas_vendor *vendor, enum aorta_blas_epilogue epilogue) {
    const int numbers[] = {[AORTA_BLAS_PLAIN] = vendor->epilogue_none,
                           [AORTA_BLAS_BIAS] = vendor->epilogue_bias,
                           [AORTA_BLAS_BIAS_RELU] = vendor->epilogue_relu_bias,
                           [AORTA_BLAS_BIAS_GRADIENT] = vendor->epilogue_bias_gradient_b};
    return numbers[epilogue];
}

static int describe(struct blas *blas, struct plan *plan, const void *bias) {
    const struct aorta_blas_vendor *vendor = blas->vendor;
    const struct aorta_blas_product *p = &plan->key.product;
    const int32_t transpose_a = p->shape.transpose_b ? vendor->transposed : vendor->plain;
    const int32_t transpose_b = p->shape.transpose_a ? vendor->transposed : vendor->plain;
    const uint32_t epilogue = (uint32_t)epilogue_number(vendor, p->epilogue);
    const struct {
        int attribute;
        const void *value;
        size_t bytes;
    } attributes[] = {{vendor->transpose_a, &transpose_a, sizeof transpose_a},
                      {vendor->transpose_b, &transpose_b, sizeof transpose_b},
                      {vendor->epilogue, &epilogue, sizeof epilogue},
                      {vendor->bias_pointer, &bias, sizeof bias}};
    int code = blas->api.description_create(
        &plan->description, plan->key.tf32 ? vendor->compute_tf32 : vendor->compute_fp32, vendor->types[AORTA_F32]);
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes && !code; i++) {
        if (attributes[i].value == (const void *)&bias && !bias) continue;
        code = blas->api.description_set(plan->description, attributes[i].attribute, attributes[i].value,
                                         attributes[i].bytes);
    }
    return code;
}

/* Sets a layout to several matrices. */
static int repeat(struct blas *blas, void *layout, int64_t matrices, int64_t apart) {
    const int32_t count = (int32_t)matrices;
    int code = blas->api.layout_set(layout, blas->vendor->batch_count, &count, sizeof count);
    if (!code) code = blas->api.layout_set(layout, blas->vendor->batch_offset, &apart, sizeof apart);
    return code;
}

static int lay_out(struct blas *blas, struct plan *plan) {
    const struct aorta_blas_product *p = &plan->key.product;
    const struct aorta_products *s = &p->shape;
    const int type = blas->vendor->types[p->dtype], c_type = blas->vendor->types[p->c_dtype];
    const struct {
        void **layout;
        int type;
        int64_t rows, columns, stride, apart;
    } layouts[] = {
        {&plan->a, type, s->transpose_b ? s->k : s->n, s->transpose_b ? s->n : s->k, s->ldb, s->b_batch},
        {&plan->b, type, s->transpose_a ? s->m : s->k, s->transpose_a ? s->k : s->m, s->lda, s->a_batch},
        {&plan->c, c_type, s->n, s->m, s->ldc, s->c_batch},
    };
    int code = 0;
    for (size_t i = 0; i < 3 && !code; i++) {
        code = blas->api.layout_create(layouts[i].layout, layouts[i].type, (uint64_t)layouts[i].rows,
                                       (uint64_t)layouts[i].columns, layouts[i].stride);
        if (!code && s->batch > 1) code = repeat(blas, *layouts[i].layout, s->batch, layouts[i].apart);
    }
    return code;
}

/* Requests candidates that need at most this workspace. It is no error if none is found. */
static int ask(struct blas *blas, struct plan *plan, uint64_t workspace, unsigned char *candidates, int *found) {
    const struct aorta_blas_vendor *vendor = blas->vendor;
    const uint32_t *alignment = plan->key.alignment;
    const uint32_t alignments[] = {alignment[0], alignment[1], alignment[2], alignment[2]}; /* c twice: in and out */
    void *preference;
    int code = blas->api.preference_create(&preference);
    if (code) return code;
    code = blas->api.preference_set(preference, vendor->workspace_bytes, &workspace, sizeof workspace);
    /* A product split along k must not round its parts to 16 bits before they are added. */
    const uint32_t reductions = (uint32_t)vendor->reduce_in_fp32;
    if (vendor->reductions >= 0 && !code)
        code = blas->api.preference_set(preference, vendor->reductions, &reductions, sizeof reductions);
    for (int i = 0; i < OPERANDS && vendor->alignment_a >= 0 && !code; i++)
        code = blas->api.preference_set(preference, vendor->alignment_a + i, &alignments[i], sizeof alignments[i]);
    *found = 0;
    if (!code && blas->api.candidates(blas->handle, plan->description, plan->a, plan->b, plan->c, plan->c, preference,
                                      WANTED, candidates, found))
        *found = 0;
    blas->api.preference_destroy(preference);
    return code;
}

static size_t workspace_of(const struct blas *blas, const unsigned char *candidate) {
    size_t bytes;
    memcpy(&bytes, candidate + blas->vendor->workspace_offset, sizeof bytes);
    return bytes;
}

/* A candidate that needs no workspace gets none. With a workspace, cuBLASLt clears four bytes of it before the kernel,
 * to distribute the work in a way that was not faster for any shape of the trainer. In a graph this is one more node,
 * which took 3 us alone and 8 us in a step on an H100. */
static int queue(struct blas *blas, const struct plan *plan, struct aorta_stream *stream,
                 const struct aorta_blas_operands *operands, const unsigned char *candidate, void *workspace) {
    const float one = 1.0f, zero = 0.0f;
    const size_t bytes = workspace_of(blas, candidate);
    return blas->api.multiply(blas->handle, plan->description, &one, operands->b, plan->a, operands->a, plan->b,
                              plan->key.product.shape.accumulate ? &one : &zero, operands->c, plan->c, operands->c,
                              plan->c, candidate, bytes ? workspace : NULL, bytes, aorta_gpu_stream_handle(stream));
}

/* ---- choosing among candidates by time ---- */

struct tuning {
    struct blas *blas;
    const struct plan *plan;
    struct aorta_stream *stream;
    struct aorta_blas_operands operands;
    const struct offers *offers;
    void *workspace;
};

static const unsigned char *candidate_at(const struct blas *blas, const struct offers *offers, int place) {
    return offers->candidates + (size_t)place * blas->vendor->candidate_bytes;
}

static int queue_candidate(void *context, int which) {
    const struct tuning *c = context;
    return queue(c->blas, c->plan, c->stream, &c->operands, candidate_at(c->blas, c->offers, which), c->workspace);
}

/* A product that adds to c is measured on a temporary buffer. If the buffer cannot be allocated, the library's first
 * candidate is used. */
static aorta_status choose(struct blas *blas, struct plan *plan, struct aorta_stream *stream,
                           const struct aorta_blas_operands *operands, const struct offers *offers) {
    const struct aorta_products *s = &plan->key.product.shape;
    struct aorta_ops_workspace workspace;
    AORTA_TRY(aorta_ops_workspace(stream, AORTA_WORKSPACE_BYTES, &workspace));
    struct tuning tuning = {.blas = blas,
                            .plan = plan,
                            .stream = stream,
                            .operands = *operands,
                            .offers = offers,
                            .workspace = workspace.memory};
    struct aorta_candidate timings[CANDIDATES];
    for (int i = 0; i < offers->count; i++)
        timings[i] = (struct aorta_candidate){.workspace_bytes = workspace_of(blas, candidate_at(blas, offers, i)),
                                              .preferred = offers->preferred[i]};
    void *own = NULL;
    if (s->accumulate) {
        const int64_t before = s->batch > 1 ? (s->batch - 1) * s->c_batch : 0;
        const size_t bytes = (size_t)(before + s->ldc * s->m) * aorta_dtype_size(plan->key.product.c_dtype);
        aorta_status full = aorta_device_alloc(blas->device, bytes, "autotuning of a product", &own);
        aorta_status_free(full);
        if (!own) return NULL;
        tuning.operands.c = own;
    }
    aorta_status status = aorta_autotune_run(
        &(struct aorta_autotune){
            .stream = stream, .queue = queue_candidate, .context = &tuning, .count = offers->count},
        timings);
    aorta_device_free(blas->device, own);
    if (status) return status;
    const int best = aorta_autotune_best(timings, offers->count);
    if (best < 0) return NULL; /* none runs; queueing the first one reports why */
    plan->place = best;
    plan->timing = timings[best];
    return NULL;
}

/* ---- from a product to its plan ---- */

static uint32_t alignment_of(const void *pointer) {
    const uintptr_t bits = (uintptr_t)pointer | 16;
    return (uint32_t)(bits & (~bits + 1));
}

static bool is_usable(const struct blas *blas, const unsigned char *candidate) {
    int state;
    memcpy(&state, candidate + blas->vendor->state_offset, sizeof state);
    return state == 0 && workspace_of(blas, candidate) <= AORTA_WORKSPACE_BYTES;
}

/* Requests candidates of one kind and appends usable ones. Duplicates, with the same algorithm and workspace, are
 * skipped. */
static int collect_kind(struct blas *blas, struct plan *plan, uint64_t workspace, struct offers *offers) {
    _Alignas(8) unsigned char answer[WANTED * AORTA_BLAS_CANDIDATE_BYTES] = {0};
    const size_t size = blas->vendor->candidate_bytes, identity = blas->vendor->workspace_offset + sizeof(size_t);
    int found = 0, taken = 0;
    int code = ask(blas, plan, workspace, answer, &found);
    for (int i = 0; i < found && !code; i++) {
        const unsigned char *one = answer + (size_t)i * size;
        bool known = !is_usable(blas, one);
        for (int j = 0; j < offers->count && !known; j++) known = !memcmp(candidate_at(blas, offers, j), one, identity);
        if (known) continue;
        offers->preferred[offers->count] = taken++ < PREFERRED;
        memcpy(offers->candidates + (size_t)offers->count++ * size, one, size);
    }
    return code;
}

/* The library's candidates with workspace, its own best first; then those without. */
static int collect(struct blas *blas, struct plan *plan, struct offers *offers) {
    const int code = collect_kind(blas, plan, AORTA_WORKSPACE_BYTES, offers);
    return code || !offers->count ? code : collect_kind(blas, plan, 0, offers);
}

static aorta_status fill_plan(struct blas *blas, struct plan *plan, struct aorta_stream *stream,
                              const struct aorta_blas_operands *operands) {
    struct offers offers = {0};
    int code = describe(blas, plan, operands->bias);
    if (!code) code = lay_out(blas, plan);
    if (!code) code = collect(blas, plan, &offers);
    if (code) return failure(blas, plan, "its description", code);
    plan->found = offers.count;
    plan->possible = plan->found > 0;
    plan->timing = (struct aorta_candidate){.workspace_bytes = workspace_of(blas, offers.candidates)};
    if (plan->found > 1 && !aorta_stream_capturing(stream)) AORTA_TRY(choose(blas, plan, stream, operands, &offers));
    memcpy(plan->algorithm, candidate_at(blas, &offers, plan->place), blas->vendor->candidate_bytes);
    return NULL;
}

static bool same_key(const struct key *x, const struct key *y) {
    const struct aorta_blas_product *p = &x->product, *q = &y->product;
    const struct aorta_products *s = &p->shape, *t = &q->shape;
    return p->dtype == q->dtype && p->c_dtype == q->c_dtype && p->epilogue == q->epilogue && s->m == t->m &&
           s->n == t->n && s->k == t->k && s->lda == t->lda && s->ldb == t->ldb && s->ldc == t->ldc &&
           s->transpose_a == t->transpose_a && s->transpose_b == t->transpose_b && s->accumulate == t->accumulate &&
           s->batch == t->batch && s->a_batch == t->a_batch && s->b_batch == t->b_batch && s->c_batch == t->c_batch &&
           x->tf32 == y->tf32 && memcmp(x->alignment, y->alignment, sizeof x->alignment) == 0;
}

static aorta_status find_plan(struct blas *blas, struct aorta_stream *stream, const struct aorta_blas_product *product,
                              const struct aorta_blas_operands *operands, struct plan **found) {
    const struct key key = {.product = *product,
                            .alignment = {alignment_of(operands->b), alignment_of(operands->a),
                                          alignment_of(operands->c), alignment_of(operands->bias)},
                            .tf32 = (blas->settings.allow_tf32 || product->tf32) && product->dtype == AORTA_F32};
    for (*found = blas->plans; *found; *found = (*found)->next)
        if (same_key(&(*found)->key, &key)) return NULL;
    struct plan *plan = calloc(1, sizeof *plan);
    if (!plan) return AORTA_ERROR(AORTA_MEMORY, "no memory for the plan of a matrix product");
    plan->key = key;
    aorta_status status = fill_plan(blas, plan, stream, operands);
    if (status) {
        plan_destroy(blas, plan);
        return status;
    }
    plan->next = blas->plans;
    blas->plans = *found = plan;
    return NULL;
}

static aorta_status multiply(struct blas *blas, struct aorta_stream *stream, const struct aorta_blas_product *product,
                             const struct aorta_blas_operands *operands, bool *done) {
    *done = false;
    if (blas->settings.own_products) return NULL;
    AORTA_TRY(blas_open(blas));
    struct plan *plan;
    AORTA_TRY(find_plan(blas, stream, product, operands, &plan));
    if (!plan->possible) return NULL;
    struct aorta_ops_workspace workspace;
    AORTA_TRY(aorta_ops_workspace(stream, AORTA_WORKSPACE_BYTES, &workspace));
    int code = 0;
    if (operands->bias)
        code = blas->api.description_set(plan->description, blas->vendor->bias_pointer, &operands->bias,
                                         sizeof operands->bias);
    if (!code) code = queue(blas, plan, stream, operands, plan->algorithm, workspace.memory);
    if (code) return failure(blas, plan, "the product", code);
    *done = true;
    return NULL;
}

aorta_status aorta_blas_multiply(struct aorta_stream *stream, const struct aorta_blas_product *product,
                                 const struct aorta_blas_operands *operands, bool *done) {
    struct aorta_device *device = aorta_stream_device(stream);
    struct blas *blas;
    AORTA_TRY(find_blas(device, &blas));
    AORTA_TRY(aorta_gpu_make_current(device));
    pthread_mutex_lock(&blas->lock);
    aorta_status status = multiply(blas, stream, product, operands, done);
    pthread_mutex_unlock(&blas->lock);
    return status;
}

/* ---- settings, and a report of the plans ---- */

aorta_status aorta_ops_configure(struct aorta_device *device, const struct aorta_ops_settings *settings) {
    struct blas *blas;
    AORTA_TRY(find_blas(device, &blas));
    pthread_mutex_lock(&blas->lock);
    blas->settings = *settings;
    pthread_mutex_unlock(&blas->lock);
    return NULL;
}

aorta_status aorta_ops_prepare(struct aorta_stream *stream) {
    struct aorta_device *device = aorta_stream_device(stream);
    if (!aorta_device_is_gpu(device)) return NULL;
    struct aorta_ops_workspace workspace;
    AORTA_TRY(aorta_ops_workspace(stream, AORTA_WORKSPACE_BYTES, &workspace));
    struct blas *blas;
    AORTA_TRY(find_blas(device, &blas));
    AORTA_TRY(aorta_gpu_make_current(device));
    pthread_mutex_lock(&blas->lock);
    aorta_status status = blas->settings.own_products ? NULL : blas_open(blas);
    pthread_mutex_unlock(&blas->lock);
    return status;
}

static void report(const struct plan *plan, void (*print)(void *user, const char *line), void *user) {
    const struct aorta_blas_product *p = &plan->key.product;
    const struct aorta_products *s = &p->shape;
    const struct aorta_candidate *t = &plan->timing;
    char line[256], batch[32] = "", how[96] = "not autotuned";
    if (s->batch > 1) snprintf(batch, sizeof batch, "%lld x ", (long long)s->batch);
    if (t->time_ns && !t->nodes) snprintf(how, sizeof how, "%.1f us as launched", (double)t->time_ns * 1e-3);
    if (t->time_ns && t->nodes)
        snprintf(how, sizeof how, "%.1f us as %d %s of a graph", (double)t->time_ns * 1e-3, t->nodes,
                 t->nodes > 1 ? "nodes" : "node");
    snprintf(line, sizeof line,
             "product %s%lld x %lld x %lld (%c%c, %s to %s%s): candidate %d of %d, workspace %zu bytes, %s", batch,
             (long long)s->n, (long long)s->m, (long long)s->k, s->transpose_b ? 'T' : 'N', s->transpose_a ? 'T' : 'N',
             aorta_dtype_name(p->dtype), aorta_dtype_name(p->c_dtype), s->accumulate ? ", added" : "", plan->place + 1,
             plan->found, t->workspace_bytes, how);
    print(user, line);
}

aorta_status aorta_ops_report_products(struct aorta_device *device, void (*print)(void *user, const char *line),
                                       void *user) {
    if (!aorta_device_is_gpu(device)) return NULL;
    struct blas *blas;
    AORTA_TRY(find_blas(device, &blas));
    pthread_mutex_lock(&blas->lock);
    for (const struct plan *plan = blas->plans; plan; plan = plan->next)
        if (plan->possible) report(plan, print, user);
    pthread_mutex_unlock(&blas->lock);
    return NULL;
}
