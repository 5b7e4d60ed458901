/* The minimum that an operation of the framework computes and moves, from shapes and types of its inputs. */
#ifndef AORTA_TRACE_OPERATIONS_H
#define AORTA_TRACE_OPERATIONS_H

#include "base/dtype.h"
#include "base/json_value.h"

/* Kinds of work that are limited by different peaks of a device. */
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
/* Whether a kernel of one class can belong to an operation of the other: convolutions also run as matrix products. */
static inline bool aorta_work_class_fits(enum aorta_work_class kernel, enum aorta_work_class operation) {
    if (kernel == AORTA_WORK_GEMM && operation == AORTA_WORK_CONVOLUTION) return true;
    return kernel == operation && kernel != AORTA_WORK_OTHER;
}

/* The type of arithmetic; accumulation may be wider. */
enum aorta_arithmetic {
    AORTA_IN_FP64,
    AORTA_IN_FP32,
    AORTA_IN_TF32,
    AORTA_IN_FP16,
    AORTA_IN_BF16,
    AORTA_IN_FP8,
    AORTA_IN_FP6, /* FP6 and FP4 have a scale per block of 32 or 16: MXFP6, MXFP4, NVFP4 */
    AORTA_IN_FP4,
    AORTA_ARITHMETIC_COUNT,
    AORTA_ARITHMETIC_UNKNOWN = AORTA_ARITHMETIC_COUNT
};
const char *aorta_arithmetic_name(int arithmetic); /* "fp64", …; "unknown" */
/* The arithmetic on elements of our own operations. */
enum aorta_arithmetic aorta_arithmetic_of(enum aorta_dtype dtype);

/* Rates measured on a device whose peaks are in no table; NaN if not measured. */
struct aorta_measured_peaks {
    double tflops[AORTA_ARITHMETIC_COUNT], gbytes_per_s;
    double cost_ms; /* duration of the measurement */
};

/* The work of one run of an operation. flops is of matrix products, convolutions and attention; 0 without these. */
struct aorta_work_amount {
    enum aorta_work_class class;
    enum aorta_arithmetic arithmetic;
    double flops; /* NaN: not known */
    double bytes; /* minimum read and written, each input and output once; NaN: not known */
};

/* An operation as in the file, with JSON unchanged; length 0 if absent. */
struct aorta_operation {
    const char *name; /* without quotes; need not end with NUL */
    size_t name_length;
    struct aorta_json_value dims, types, values; /* of the inputs: shapes; C++ types; values of non-tensors */
    struct aorta_json_value strides;
    int64_t sequence; /* autograd's number; -1: none */
    bool gradient;    /* autograd runs it for the operation of the forward pass with that number */
};

/* C[m,n] = A[m,k] B[k,n], `batch` times; -1: no matrix product, or not of a known form. */
struct aorta_product {
    int64_t batch, m, n, k;
};

/* Whether an operation only gives a tensor another shape and launches nothing. */
bool aorta_operation_is_view(const char *name, size_t length);
/* Whether operations of this name are counted at all. */
bool aorta_operation_wanted(const char *name, size_t length);
/* Whether the amount depends on inputs that are no tensors (strides, causal masks). */
bool aorta_operation_reads_values(const struct aorta_operation *operation);
/* Computes product and amount. False, with nothing set, if the operation is not wanted. */
bool aorta_operation_count(const struct aorta_operation *operation, struct aorta_product *product,
                           struct aorta_work_amount *amount);

/* The type that a Tensile kernel (rocBLAS, hipBLASLt) multiplies, by its name; UNKNOWN for other kernels and
 * integers. */
enum aorta_arithmetic aorta_kernel_tensile_arithmetic(const char *kernel);

/* How an operation uses a cache of keys and values. Its inputs do not show how much it reads (operation_inputs.h). */
enum aorta_cache_use { AORTA_CACHE_UNUSED, AORTA_CACHE_READ, AORTA_CACHE_WRITTEN };
enum aorta_cache_use aorta_operation_cache_use(const char *name, size_t length);

/* Whether the kernel computes single precision in TF32 (XF32), by its name. */
bool aorta_kernel_uses_tf32(const char *kernel);

#endif
