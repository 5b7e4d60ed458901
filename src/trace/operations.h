/* What an operation of the framework computes and moves at least, from the shapes and types of its inputs. */
#ifndef AORTA_TRACE_OPERATIONS_H
#define AORTA_TRACE_OPERATIONS_H

#include "base/dtype.h"
#include "base/json_value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What work is to a device's peaks. */
enum aorta_work_class {
    AORTA_WORK_GEMM,        /* matrix products */
    AORTA_WORK_CONVOLUTION, /* convolutions */
    AORTA_WORK_ATTENTION,   /* fused attention */
    AORTA_WORK_POINTWISE,   /* element by element: arithmetic, casts, copies made by kernels, lookups */
    AORTA_WORK_REDUCTION,   /* sums, norms, softmax */
    AORTA_WORK_OTHER,       /* anything else, or not known */
    AORTA_WORK_CLASS_COUNT
};
const char *aorta_work_class_name(int class); /* "gemm", … */
/* Whether a kernel of one class can be an operation's of the other: convolutions run as matrix products, too. */
static inline bool aorta_work_class_fits(enum aorta_work_class kernel, enum aorta_work_class operation) {
    if (kernel == AORTA_WORK_GEMM && operation == AORTA_WORK_CONVOLUTION) return true;
    return kernel == operation && kernel != AORTA_WORK_OTHER;
}

/* The type that arithmetic is done in; accumulation may be wider. */
enum aorta_arithmetic {
    AORTA_IN_FP64,
    AORTA_IN_FP32,
    AORTA_IN_TF32,
    AORTA_IN_FP16,
    AORTA_IN_BF16,
    AORTA_IN_FP8,
    AORTA_IN_FP6, /* this and the next with a scale for each block of 32 or 16: MXFP6, MXFP4, NVFP4 */
    AORTA_IN_FP4,
    AORTA_ARITHMETIC_COUNT,
    AORTA_ARITHMETIC_UNKNOWN = AORTA_ARITHMETIC_COUNT
};
const char *aorta_arithmetic_name(int arithmetic); /* "fp64", …; "unknown" */
/* The arithmetic on elements of our own operations. */
enum aorta_arithmetic aorta_arithmetic_of(enum aorta_dtype dtype);

/* Rates measured on a device whose peaks no table has; NaN: not measured. */
struct aorta_measured_peaks {
    double tflops[AORTA_ARITHMETIC_COUNT], gbytes_per_s;
    double cost_ms; /* what measuring took */
};

/* What one run of an operation does. The arithmetic is that of products: 0 where there are none. */
struct aorta_work_amount {
    enum aorta_work_class class;
    enum aorta_arithmetic arithmetic;
    double flops; /* NaN: not known */
    double bytes; /* read and written at least, each input and output once; NaN: not known */
};

/* An operation as a file describes it, with JSON unchanged; length 0: the file does not say. */
struct aorta_operation {
    const char *name; /* without quotes; need not end with NUL */
    size_t name_length;
    struct aorta_json_value dims, types, values; /* of the inputs: shapes; C++ types; what is no tensor */
    struct aorta_json_value strides;
    int64_t sequence; /* autograd's number; -1: none */
    bool gradient;    /* autograd runs it for the operation of the forward pass with that number */
};

/* C[m,n] = A[m,k] B[k,n], `batch` times; -1: no matrix product, or not of a known form. */
struct aorta_product {
    int64_t batch, m, n, k;
};

/* Whether it only gives a tensor another shape, and launches nothing. */
bool aorta_operation_is_view(const char *name, size_t length);
/* Whether operations of this name are counted at all. */
bool aorta_operation_wanted(const char *name, size_t length);
/* Whether what is no tensor among its inputs (strides, causal masks) changes what is counted. */
bool aorta_operation_reads_values(const struct aorta_operation *operation);
/* False: it is not wanted, and nothing is set. */
bool aorta_operation_count(const struct aorta_operation *operation, struct aorta_product *product,
                           struct aorta_work_amount *amount);

/* What a kernel of Tensile's (rocBLAS, hipBLASLt) multiplies, by its name; UNKNOWN: another kernel, or integers. */
enum aorta_arithmetic aorta_kernel_tensile_arithmetic(const char *kernel);

/* Whether it reads or writes a cache of keys and values, of which its inputs do not say how much (requests.h). */
enum aorta_cache_use { AORTA_CACHE_UNUSED, AORTA_CACHE_READ, AORTA_CACHE_WRITTEN };
enum aorta_cache_use aorta_operation_cache_use(const char *name, size_t length);

/* Whether the name says that single precision is computed in TF32 (XF32). */
bool aorta_kernel_uses_tf32(const char *kernel);

#endif
