/* What compute kernels are for, by their names: the one table is categories.def. */
#ifndef AORTA_TRACE_CATEGORIES_H
#define AORTA_TRACE_CATEGORIES_H

#include "trace/operations.h"

enum aorta_category {
    AORTA_CATEGORY_GEMM,        /* matrix products */
    AORTA_CATEGORY_EXPERTS,     /* those of a mixture of experts, and grouped ones */
    AORTA_CATEGORY_CONVOLUTION, /* convolutions */
    AORTA_CATEGORY_ATTENTION,   /* attention, paged or not */
    AORTA_CATEGORY_NORM,        /* normalisations, with what is fused into them */
    AORTA_CATEGORY_ACTIVATION,  /* SiLU, GELU and their gates */
    AORTA_CATEGORY_ROPE,        /* rotary positions */
    AORTA_CATEGORY_CACHE,       /* writes of keys and values to their cache */
    AORTA_CATEGORY_QUANTISATION,
    AORTA_CATEGORY_ROUTING, /* of tokens to experts */
    AORTA_CATEGORY_SAMPLING,
    AORTA_CATEGORY_SOFTMAX, /* softmax and losses */
    AORTA_CATEGORY_LOOKUP,  /* embeddings, gathers, scatters */
    AORTA_CATEGORY_SORT,    /* sorts, scans, selections */
    AORTA_CATEGORY_OPTIMIZER,
    AORTA_CATEGORY_COPY, /* copies, casts and transpositions made by kernels */
    AORTA_CATEGORY_ELEMENTWISE,
    AORTA_CATEGORY_REDUCTION,
    AORTA_CATEGORY_OTHER,
    AORTA_CATEGORY_COUNT
};
const char *aorta_category_name(enum aorta_category category); /* "gemm", "experts", … */

enum aorta_category aorta_kernel_category(const char *kernel);
/* Of an operation of this class whose kernel's name says nothing. */
enum aorta_category aorta_category_of_class(enum aorta_work_class class);

/* The class of a kernel by its name, where its operation is not known. */
enum aorta_work_class aorta_kernel_work_class(const char *kernel);
/* Whether a compute kernel multiplies matrices (convolutions included), by its name: "Cijk_…", "nvjet_…", "…gemm…". */
bool aorta_kernel_is_gemm(const char *kernel);

#endif
