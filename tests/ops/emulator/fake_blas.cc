// A cuBLASLt of a few lines that multiplies on the host. It checks that the descriptions of our code are consistent and
// that results are right. Numbers are cublasLt.h's. It offers no products of one row, and no sums of b with products in
// fp16, so that our fallbacks run, too.
#include "emulator.h"

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

enum { SUCCESS = 0, INVALID_VALUE = 7, NOT_SUPPORTED = 15 };
enum { R_32F = 0, R_16F = 2, R_16BF = 14, COMPUTE_32F = 68, COMPUTE_TF32 = 77 };
enum { TRANSPOSE_A = 3, TRANSPOSE_B = 4, EPILOGUE = 7, BIAS_POINTER = 8, ATTRIBUTES };
enum { PLAIN = 1, BIAS = 4, RELU_BIAS = 6, BIAS_GRADIENT_B = 512 };
enum { BATCH_COUNT = 5, BATCH_OFFSET = 6 };
enum { WORKSPACE_BYTES = 1, REDUCTIONS = 3, ALIGNMENT_A = 5, ALIGNMENT_D = 8, PREFERENCES };
enum { GUESSES = 2 };

struct description {
    int transpose_a, transpose_b;
    unsigned epilogue;
    void *bias;
};
struct layout {
    int type;
    uint64_t rows, columns;
    int64_t stride;
    int32_t batch;
    int64_t apart;
};
struct preference {
    uint64_t workspace;
    uint32_t alignment[4];
};
struct algorithm { // our data in the library's 64 bytes: the product it was found for
    uint64_t magic, guess;
    uint64_t m, n, k;
    uint32_t alignment[4];
    uint64_t rest;
};
struct candidate {
    algorithm found;
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};
static_assert(sizeof(algorithm) == 64 && sizeof(candidate) == 96, "as in cublasLt.h");

const uint64_t magic = 0x414f525441;

[[noreturn]] void fail(const char *what) {
    std::fprintf(stderr, "fake cuBLASLt: %s\n", what);
    std::abort();
}

double load(const void *base, int type, uint64_t index) {
    if (type == R_32F) return (double)static_cast<const float *>(base)[index];
    const uint16_t bits = static_cast<const uint16_t *>(base)[index];
    if (type == R_16F) return (double)emulated_from_half(bits);
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return (double)value;
}

void store(void *base, int type, uint64_t index, double value) {
    const float single = (float)value;
    if (type == R_32F) {
        static_cast<float *>(base)[index] = single;
    } else if (type == R_16F) {
        static_cast<uint16_t *>(base)[index] = emulated_to_half(single);
    } else {
        uint32_t bits;
        memcpy(&bits, &single, sizeof bits);
        static_cast<uint16_t *>(base)[index] = (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
    }
}

// The matrix, or its transpose, row by row.
std::vector<double> rows_of(const void *base, const layout &l, bool transposed, uint64_t rows, uint64_t columns) {
    std::vector<double> values(rows * columns);
    for (uint64_t i = 0; i < rows; i++)
        for (uint64_t j = 0; j < columns; j++) {
            const uint64_t row = transposed ? j : i, column = transposed ? i : j;
            values[i * columns + j] = load(base, l.type, row + column * (uint64_t)l.stride);
        }
    return values;
}

struct shape {
    uint64_t m, n, k;
};

// The sizes of a product, if the layouts fit together.
bool shape_of(const description &d, const layout &a, const layout &b, const layout &c, shape *s) {
    s->m = d.transpose_a ? a.columns : a.rows;
    s->k = d.transpose_a ? a.rows : a.columns;
    s->n = d.transpose_b ? b.rows : b.columns;
    return (d.transpose_b ? b.columns : b.rows) == s->k && c.rows == s->m && c.columns == s->n &&
           a.stride >= (int64_t)a.rows && b.stride >= (int64_t)b.rows && c.stride >= (int64_t)c.rows && s->k > 0 &&
           a.type == b.type && a.batch == c.batch && b.batch == c.batch;
}

// The matrix number `index` of several.
void *nth(const void *base, const layout &l, int32_t index) {
    const int64_t bytes = l.type == R_32F ? 4 : 2;
    return const_cast<char *>(static_cast<const char *>(base)) + index * l.apart * bytes;
}

void multiply_one(const description &what, const shape &s, const void *a, const layout &la, const void *b,
                  const layout &lb, void *d, const layout &lc, double times, double old) {
    const std::vector<double> left = rows_of(a, la, what.transpose_a != 0, s.m, s.k);
    const std::vector<double> right = rows_of(b, lb, what.transpose_b == 0, s.n, s.k);
    for (uint64_t j = 0; j < s.n; j++)
        for (uint64_t i = 0; i < s.m; i++) {
            double sum = 0.0;
            for (uint64_t k = 0; k < s.k; k++) sum += left[i * s.k + k] * right[j * s.k + k];
            sum *= times;
            const uint64_t place = i + j * (uint64_t)lc.stride;
            if (old != 0.0) sum += old * load(d, lc.type, place); // zero: c is not read, it may hold anything
            if (what.epilogue == BIAS || what.epilogue == RELU_BIAS) sum += load(what.bias, lc.type, i);
            if (what.epilogue == RELU_BIAS && sum < 0.0) sum = 0.0;
            store(d, lc.type, place, sum);
        }
    for (uint64_t j = 0; j < s.n && what.epilogue == BIAS_GRADIENT_B; j++) {
        double sum = 0.0;
        for (uint64_t k = 0; k < s.k; k++) sum += right[j * s.k + k];
        store(what.bias, lc.type, j, sum);
    }
}

} // namespace

extern "C" {

int cublasLtCreate(void **handle) {
    *handle = std::malloc(1);
    return SUCCESS;
}
int cublasLtDestroy(void *handle) {
    std::free(handle);
    return SUCCESS;
}
int cublasLtMatmulDescCreate(void **made, int compute, int scale) {
    if ((compute != COMPUTE_32F && compute != COMPUTE_TF32) || scale != R_32F) return INVALID_VALUE;
    *made = new description{0, 0, PLAIN, nullptr};
    return SUCCESS;
}
int cublasLtMatmulDescDestroy(void *d) {
    delete static_cast<description *>(d);
    return SUCCESS;
}
int cublasLtMatmulDescSetAttribute(void *to, int attribute, const void *value, size_t bytes) {
    description *d = static_cast<description *>(to);
    void *const members[ATTRIBUTES] = {nullptr, nullptr, nullptr,      &d->transpose_a, &d->transpose_b,
                                       nullptr, nullptr, &d->epilogue, &d->bias};
    if (attribute < 0 || attribute >= ATTRIBUTES || !members[attribute]) return INVALID_VALUE;
    if (bytes != (attribute == BIAS_POINTER ? sizeof(void *) : sizeof(int))) return INVALID_VALUE;
    memcpy(members[attribute], value, bytes);
    return SUCCESS;
}
int cublasLtMatrixLayoutCreate(void **made, int type, uint64_t rows, uint64_t columns, int64_t stride) {
    if (type != R_32F && type != R_16F && type != R_16BF) return INVALID_VALUE;
    *made = new layout{type, rows, columns, stride, 1, 0};
    return SUCCESS;
}
int cublasLtMatrixLayoutDestroy(void *l) {
    delete static_cast<layout *>(l);
    return SUCCESS;
}
int cublasLtMatrixLayoutSetAttribute(void *to, int attribute, const void *value, size_t bytes) {
    layout *l = static_cast<layout *>(to);
    if (attribute == BATCH_COUNT && bytes == sizeof l->batch) {
        memcpy(&l->batch, value, bytes);
        return SUCCESS;
    }
    if (attribute != BATCH_OFFSET || bytes != sizeof l->apart) return INVALID_VALUE;
    memcpy(&l->apart, value, bytes);
    return SUCCESS;
}
int cublasLtMatmulPreferenceCreate(void **made) {
    *made = new preference{0, {256, 256, 256, 256}};
    return SUCCESS;
}
int cublasLtMatmulPreferenceDestroy(void *p) {
    delete static_cast<preference *>(p);
    return SUCCESS;
}
int cublasLtMatmulPreferenceSetAttribute(void *to, int attribute, const void *value, size_t bytes) {
    preference *p = static_cast<preference *>(to);
    if (attribute == WORKSPACE_BYTES && bytes == sizeof p->workspace) {
        memcpy(&p->workspace, value, bytes);
        return SUCCESS;
    }
    if (attribute == REDUCTIONS && bytes == sizeof(uint32_t)) return SUCCESS; // it adds in one go
    if (attribute < ALIGNMENT_A || attribute > ALIGNMENT_D || bytes != sizeof p->alignment[0]) return INVALID_VALUE;
    memcpy(&p->alignment[attribute - ALIGNMENT_A], value, bytes);
    return SUCCESS;
}

int cublasLtMatmulAlgoGetHeuristic(void *, void *described, void *a, void *b, void *c, void *d, void *preferred,
                                   int wanted, void *results, int *found) {
    const description &what = *static_cast<description *>(described);
    const layout &out = *static_cast<layout *>(c);
    const preference &p = *static_cast<preference *>(preferred);
    shape s;
    *found = 0;
    if (c != d || !shape_of(what, *static_cast<layout *>(a), *static_cast<layout *>(b), out, &s))
        fail("layouts that do not fit together");
    if (what.epilogue != PLAIN && !what.bias) fail("an epilogue without its vector");
    if (s.m == 1) return NOT_SUPPORTED;
    if (what.epilogue == BIAS_GRADIENT_B && static_cast<layout *>(b)->type == R_16F) return NOT_SUPPORTED;
    for (; *found < GUESSES && *found < wanted; ++*found) {
        candidate &one = static_cast<candidate *>(results)[*found];
        one = candidate{};
        one.found = algorithm{magic, (uint64_t)*found, s.m, s.n, s.k, {}, 0};
        memcpy(one.found.alignment, p.alignment, sizeof p.alignment);
        one.workspace = *found % 2 ? 0 : p.workspace;
    }
    return SUCCESS;
}

int cublasLtMatmul(void *, void *described, const void *alpha, const void *a, void *a_layout, const void *b,
                   void *b_layout, const void *beta, const void *c, void *c_layout, void *d, void *d_layout,
                   const void *chosen, void *workspace, size_t workspace_bytes, void *) {
    const description &what = *static_cast<description *>(described);
    const layout &la = *static_cast<layout *>(a_layout), &lb = *static_cast<layout *>(b_layout);
    const layout &lc = *static_cast<layout *>(c_layout);
    const algorithm &how = *static_cast<const algorithm *>(chosen);
    shape s;
    if (c != d || c_layout != d_layout || !shape_of(what, la, lb, lc, &s)) fail("a product unlike its description");
    if (how.magic != magic || how.m != s.m || how.n != s.n || how.k != s.k)
        fail("an algorithm made for something else");
    const void *const pointers[] = {a, b, c, d};
    for (int i = 0; i < 4; i++)
        if ((uintptr_t)pointers[i] % how.alignment[i] != 0) fail("an operand aligned less than promised");
    // As cuBLASLt: it accepts a workspace that it did not ask for, and then clears a counter there.
    if (how.guess % 2 && workspace_bytes) fail("workspace for an algorithm that asks for none");
    memset(workspace, 0xFF, workspace_bytes < 65536 ? workspace_bytes : 65536); // the library may write there
    const double times = (double)*static_cast<const float *>(alpha), old = (double)*static_cast<const float *>(beta);
    for (int32_t batch = 0; batch < lc.batch; batch++)
        multiply_one(what, s, nth(a, la, batch), la, nth(b, lb, batch), lb, nth(d, lc, batch), lc, times, old);
    return SUCCESS;
}
}
