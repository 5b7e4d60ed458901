/* The functions of cuBLASLt and hipBLASLt that we call. They differ only in the types of handles and in the numbers
 * of struct aorta_blas_vendor. tests/ops/blas_signatures.cc compares both with NVIDIA's header. */
#ifndef AORTA_OPS_GPU_BLAS_H
#define AORTA_OPS_GPU_BLAS_H

#include "base/dtype.h"
#include "device/device.h"
#include "device/gpu.h"
#include "ops/ops.h"

struct aorta_blas_api { /* 0 is success */
#define ROW(member, suffix, result, parameters) result(*member) parameters;
#include "ops/gpu/blas.def"
#undef ROW
};

/* Numbers from cublasLt.h and cublas_api.h (CUDA 13), hipblaslt.h and hipblas-common.h (ROCm 6); neither vendor has
 * changed them since. */
struct aorta_blas_vendor {
    const char *name;
    struct aorta_library_description library;
    int types[3]; /* by enum aorta_dtype; cudaDataType and hipDataType */
    int compute_fp32, compute_tf32;
    int plain, transposed;
    int transpose_a, transpose_b, epilogue, bias_pointer; /* attributes of a description */
    int epilogue_none, epilogue_bias, epilogue_relu_bias, epilogue_bias_gradient_b;
    int batch_count, batch_offset; /* attributes of a layout: int32, and int64 in elements */
    int workspace_bytes;           /* attributes of a preference */
    int reductions;                /* how partial sums may be added up; -1 if there is no such setting */
    int reduce_in_fp32;            /* value of `reductions`: in the type of the computation, in the workspace */
    int alignment_a;               /* b, c, d follow; -1 if there is no such setting */
    /* One candidate: the algorithm at its beginning, then the workspace it needs and its status. */
    size_t candidate_bytes, workspace_offset, state_offset;
};

enum { AORTA_BLAS_CANDIDATE_BYTES = 96 }; /* of the greater */

extern const struct aorta_blas_vendor aorta_blas_cuda, aorta_blas_hip;

/* ---- products ---- */

enum aorta_blas_epilogue {
    AORTA_BLAS_PLAIN,
    AORTA_BLAS_BIAS,          /* c = a·b + bias, bias [n] in the type of c added to every row */
    AORTA_BLAS_BIAS_RELU,     /* with bias, and negative values become 0 */
    AORTA_BLAS_BIAS_GRADIENT, /* bias [m] in the type of c receives the sums over k of op(a) */
};

/* Row-major products in any type, with sums in fp32. A batch of 0 is one product. */
struct aorta_blas_product {
    enum aorta_dtype dtype, c_dtype; /* of a and b; of c */
    struct aorta_products shape;
    enum aorta_blas_epilogue epilogue;
    bool tf32; /* fp32 operands may be rounded to TF32, also where the settings do not allow it */
};

struct aorta_blas_operands {
    const void *a, *b;
    void *c;
    const void *bias; /* written by AORTA_BLAS_BIAS_GRADIENT */
};

/* *done is false, and nothing queued, when the library does not offer this product or the settings exclude it. */
AORTA_MUST_USE aorta_status aorta_blas_multiply(struct aorta_stream *stream, const struct aorta_blas_product *product,
                                                const struct aorta_blas_operands *operands, bool *done);

/* Autotuning finds the fastest of several candidates for one piece of work on a stream. They are replayed from a graph,
 * as steps are, so that a candidate that needs a second node (a library that clears a counter before its kernel) shows
 * the node's cost. */

enum { AORTA_AUTOTUNE_MOST = 48 };

struct aorta_candidate {
    size_t workspace_bytes; /* the caller's: memory that this candidate needs, … */
    bool preferred;         /* … and whether it is never dropped, even if it is slow at first */
    int64_t time_ns;        /* the shortest run; INT64_MAX: it does not run, or is much slower than the fastest */
    int nodes;              /* graph nodes per run; 0 if not captured but timed as launched */
};

struct aorta_autotune {
    struct aorta_stream *stream;
    /* Queues a run of candidate number `which` on the stream, which may be capturing. Returns 0, or another value if
     * it is refused and nothing is queued.
     */
    int (*queue)(void *context, int which);
    void *context;
    int count; /* at most AORTA_AUTOTUNE_MOST */
};

/* Fills time and nodes of `count` candidates. If there are many, the slowest as launched are dropped first; if the work
 * is long, only the preferred ones are measured. Waits for the stream, which is not capturing. If some candidates can
 * be captured, only these are measured; else all are timed as launched. */
AORTA_MUST_USE aorta_status aorta_autotune_run(const struct aorta_autotune *autotune,
                                               struct aorta_candidate *candidates);

/* The fastest. Times within 2% are noise: among these, the one with the fewest nodes, then without workspace, then the
 * fastest. −1: none runs. */
int aorta_autotune_best(const struct aorta_candidate *candidates, int count);

#endif
