/* libhipblaslt on a machine with NVIDIA's libraries: forwarded to cuBLASLt. The numbers of both vendors are those of
 * ops/gpu/blas_vendor.c; what is not in that table is refused. Statuses are hipblas-common.h's (ROCm 6). */
#include "ops/gpu/blas.h"
#include "base/dtype.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Declares every function as our table of functions has it. */
#define ROW(member, suffix, ...)                                                                                       \
    __attribute__((visibility("default"))) __typeof__(*((struct aorta_blas_api *)0)->member) hipblasLt##suffix;
#include "ops/gpu/blas.def"
#undef ROW

enum { SUCCESS = 0, NOT_INITIALIZED = 1, ALLOC_FAILED = 2, INVALID_VALUE = 3, UNKNOWN = 11 };

static struct aorta_blas_api api;
static aorta_status failure;

static void load(void) {
    struct aorta_library library;
    failure = aorta_library_open(&aorta_blas_cuda.library, &api, &library);
    if (failure) fprintf(stderr, "HIP forwarder: %s\n", aorta_status_message(failure));
}

static bool ready(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return !failure;
}

/* ---- numbers ---- */

struct pair {
    int from, to;
};

static bool translate(const struct pair *pairs, size_t count, int from, int *to) {
    for (size_t i = 0; i < count; i++) {
        if (pairs[i].from != from) continue;
        *to = pairs[i].to;
        return true;
    }
    return false;
}
#define TRANSLATE(pairs, from, to) translate(pairs, sizeof(pairs) / sizeof *(pairs), from, to)

static int status_of(int cuda) {
    static const struct pair pairs[] = {{0, SUCCESS},       {1, NOT_INITIALIZED},   {3, ALLOC_FAILED},
                                        {7, INVALID_VALUE}, {8, 8 /* arch */},      {11, 4 /* mapping */},
                                        {13, 5 /* run */},  {14, 6 /* internal */}, {15, 7 /* not supported */}};
    int hip = UNKNOWN;
    TRANSLATE(pairs, cuda, &hip);
    return hip;
}

static bool translate_type(int hip, enum aorta_dtype *dtype) {
    for (int i = 0; i < 3; i++) {
        if (aorta_blas_hip.types[i] != hip) continue;
        *dtype = (enum aorta_dtype)i;
        return true;
    }
    return false;
}

/* ---- handles, descriptions, layouts, preferences ---- */

#define FORWARD(name, member, parameters, arguments)                                                                   \
    int name parameters {                                                                                              \
        return ready() ? status_of(api.member arguments) : NOT_INITIALIZED;                                            \
    }

FORWARD(hipblasLtCreate, create, (void **handle), (handle))
FORWARD(hipblasLtDestroy, destroy, (void *handle), (handle))
FORWARD(hipblasLtMatmulDescDestroy, description_destroy, (void *description), (description))
FORWARD(hipblasLtMatmulPreferenceCreate, preference_create, (void **preference), (preference))
FORWARD(hipblasLtMatmulPreferenceDestroy, preference_destroy, (void *preference), (preference))

int hipblasLtMatmulDescCreate(void **description, int compute_type, int scale_type) {
    const struct aorta_blas_vendor *hip = &aorta_blas_hip, *own = &aorta_blas_cuda;
    const struct pair computes[] = {{hip->compute_fp32, own->compute_fp32}, {hip->compute_tf32, own->compute_tf32}};
    enum aorta_dtype scale;
    int compute;
    if (!ready()) return NOT_INITIALIZED;
    if (!TRANSLATE(computes, compute_type, &compute) || !translate_type(scale_type, &scale)) return INVALID_VALUE;
    return status_of(api.description_create(description, compute, own->types[scale]));
}

int hipblasLtMatmulDescSetAttribute(void *description, int attribute, const void *value, size_t bytes) {
    const struct aorta_blas_vendor *hip = &aorta_blas_hip, *own = &aorta_blas_cuda;
    const struct pair numbers[] = {
        {hip->transpose_a, own->transpose_a}, {hip->transpose_b, own->transpose_b}, {hip->epilogue, own->epilogue}};
    const struct pair operations[] = {{hip->plain, own->plain}, {hip->transposed, own->transposed}};
    const struct pair epilogues[] = {{hip->epilogue_none, own->epilogue_none},
                                     {hip->epilogue_bias, own->epilogue_bias},
                                     {hip->epilogue_relu_bias, own->epilogue_relu_bias},
                                     {hip->epilogue_bias_gradient_b, own->epilogue_bias_gradient_b}};
    int to, number;
    if (!ready()) return NOT_INITIALIZED;
    if (attribute == hip->bias_pointer)
        return status_of(api.description_set(description, own->bias_pointer, value, bytes));
    if (!TRANSLATE(numbers, attribute, &to) || bytes != sizeof number) return INVALID_VALUE;
    memcpy(&number, value, sizeof number);
    const bool known =
        attribute == hip->epilogue ? TRANSLATE(epilogues, number, &number) : TRANSLATE(operations, number, &number);
    return known ? status_of(api.description_set(description, to, &number, sizeof number)) : INVALID_VALUE;
}

struct layout {
    void *real;
    uint32_t element_bytes;
};

int hipblasLtMatrixLayoutCreate(void **layout, int type, uint64_t rows, uint64_t columns, int64_t stride) {
    enum aorta_dtype dtype;
    if (!ready()) return NOT_INITIALIZED;
    if (!translate_type(type, &dtype)) return INVALID_VALUE;
    struct layout *made = calloc(1, sizeof *made);
    if (!made) return ALLOC_FAILED;
    made->element_bytes = (uint32_t)aorta_dtype_size(dtype);
    const int code = api.layout_create(&made->real, aorta_blas_cuda.types[dtype], rows, columns, stride);
    if (code)
        free(made);
    else
        *layout = made;
    return status_of(code);
}

int hipblasLtMatrixLayoutDestroy(void *layout) {
    struct layout *made = layout;
    const int code = api.layout_destroy(made->real);
    free(made);
    return status_of(code);
}

int hipblasLtMatrixLayoutSetAttribute(void *layout, int attribute, const void *value, size_t bytes) {
    const struct aorta_blas_vendor *hip = &aorta_blas_hip, *own = &aorta_blas_cuda;
    const struct pair numbers[] = {{hip->batch_count, own->batch_count}, {hip->batch_offset, own->batch_offset}};
    int to;
    if (!ready()) return NOT_INITIALIZED;
    if (!TRANSLATE(numbers, attribute, &to)) return INVALID_VALUE;
    return status_of(api.layout_set(((struct layout *)layout)->real, to, value, bytes));
}

int hipblasLtMatmulPreferenceSetAttribute(void *preference, int attribute, const void *value, size_t bytes) {
    if (!ready()) return NOT_INITIALIZED;
    if (attribute != aorta_blas_hip.workspace_bytes) return INVALID_VALUE;
    return status_of(api.preference_set(preference, aorta_blas_cuda.workspace_bytes, value, bytes));
}

/* ---- algorithms: cuBLASLt's are larger than hipBLASLt's, so they stay here and the caller gets a number ---- */

enum { ALGORITHMS = 4096, CANDIDATES = 32 };
#define MAGIC 0x41524F5441424C54u

struct cuda_candidate {
    uint64_t algorithm[8];
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};

struct hip_algorithm {
    uint64_t magic, number;
    size_t most_workspace;
};
struct hip_candidate {
    struct hip_algorithm algorithm;
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};
_Static_assert(sizeof(struct cuda_candidate) == 96 && sizeof(struct hip_candidate) == 56, "as in the vendors' headers");

static struct {
    pthread_mutex_t lock;
    uint64_t count;
    uint64_t algorithms[ALGORITHMS][8];
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The number of an algorithm; equal ones share it. ALGORITHMS: the table is full. */
static uint64_t keep(const uint64_t *algorithm) {
    const size_t bytes = sizeof table.algorithms[0];
    uint64_t number = 0;
    pthread_mutex_lock(&table.lock);
    while (number < table.count && memcmp(table.algorithms[number], algorithm, bytes) != 0) number++;
    if (number == table.count && number < ALGORITHMS) memcpy(table.algorithms[table.count++], algorithm, bytes);
    pthread_mutex_unlock(&table.lock);
    return number;
}

static bool recall(const struct hip_algorithm *given, uint64_t *algorithm) {
    pthread_mutex_lock(&table.lock);
    const bool known = given->magic == MAGIC && given->number < table.count;
    if (known) memcpy(algorithm, table.algorithms[given->number], sizeof table.algorithms[0]);
    pthread_mutex_unlock(&table.lock);
    return known;
}

/* Defaults of hipBLASLt: algorithms for operands aligned to their elements, partial sums never rounded. */
static int demand(void *preference, const struct layout *const *operands) {
    const struct aorta_blas_vendor *own = &aorta_blas_cuda;
    const uint32_t reductions = (uint32_t)own->reduce_in_fp32;
    int code = api.preference_set(preference, own->reductions, &reductions, sizeof reductions);
    for (int i = 0; i < 4 && !code; i++) {
        const uint32_t alignment = operands[i]->element_bytes;
        code = api.preference_set(preference, own->alignment_a + i, &alignment, sizeof alignment);
    }
    return code;
}

static bool convert(const struct cuda_candidate *from, struct hip_candidate *to) {
    *to = (struct hip_candidate){.workspace = from->workspace, .state = status_of(from->state), .waves = from->waves};
    if (to->state != SUCCESS) return true;
    to->algorithm = (struct hip_algorithm){MAGIC, keep(from->algorithm), from->workspace};
    if (to->algorithm.number < ALGORITHMS) return true;
    fprintf(stderr, "HIP forwarder: more than %d algorithms of cuBLASLt\n", ALGORITHMS);
    return false;
}

int hipblasLtMatmulAlgoGetHeuristic(void *handle, void *description, void *a, void *b, void *c, void *d,
                                    void *preference, int wanted, void *results, int *found) {
    const struct layout *const operands[] = {a, b, c, d};
    struct cuda_candidate candidates[CANDIDATES] = {0};
    int count = 0;
    *found = 0;
    if (!ready()) return NOT_INITIALIZED;
    if (wanted < 1) return INVALID_VALUE;
    int code = demand(preference, operands);
    if (!code)
        code = api.candidates(handle, description, operands[0]->real, operands[1]->real, operands[2]->real,
                              operands[3]->real, preference, wanted < CANDIDATES ? wanted : CANDIDATES, candidates,
                              &count);
    if (code) return status_of(code);
    for (int i = 0; i < count; i++)
        if (!convert(&candidates[i], (struct hip_candidate *)results + i)) return ALLOC_FAILED;
    *found = count;
    return SUCCESS;
}

int hipblasLtMatmul(void *handle, void *description, const void *alpha, const void *a, void *a_layout, const void *b,
                    void *b_layout, const void *beta, const void *c, void *c_layout, void *d, void *d_layout,
                    const void *algorithm, void *workspace, size_t workspace_bytes, void *stream) {
    const struct layout *la = a_layout, *lb = b_layout, *lc = c_layout, *ld = d_layout;
    uint64_t own[8];
    if (!ready()) return NOT_INITIALIZED;
    if (!algorithm || !recall(algorithm, own)) return INVALID_VALUE;
    return status_of(api.multiply(handle, description, alpha, a, la->real, b, lb->real, beta, c, lc->real, d, ld->real,
                                  own, workspace, workspace_bytes, stream));
}
