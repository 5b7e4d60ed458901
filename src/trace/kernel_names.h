/* Classifies kernels by name; has the table of collective kernels. */
#ifndef AORTA_TRACE_KERNEL_NAMES_H
#define AORTA_TRACE_KERNEL_NAMES_H

#include "base/collective.h"
#include "base/status.h"
#include "trace/operations.h"

#include <string.h>

enum aorta_kernel_class {
    AORTA_KERNEL_COMPUTE,
    AORTA_KERNEL_COLLECTIVE,
    AORTA_KERNEL_STAMP, /* writes timestamps of our recorder; not part of the step */
    AORTA_KERNEL_CLOCK, /* aligns the device's clock with the host's; not part of the step */
    AORTA_KERNEL_GATE,  /* holds a stream until all is queued behind it (aorta hwq): it waits, and is waited for */
};

struct aorta_kernel_kind {
    enum aorta_kernel_class class;
    enum aorta_collective collective; /* when `named` */
    bool named;                       /* the name says which collective it is */
};

static inline bool aorta_begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}
/* Whether the text contains one of the parts, in any case. The list ends with NULL. */
bool aorta_has_any(const char *text, const char *const *parts);

/* Patterns of names, for example of a user's own collective kernels (--comm-pattern), which are tried before the
 * table. */
struct aorta_kernel_patterns;

/* An extended regular expression (POSIX), searched in the name. AORTA_USAGE says what is wrong with it and where. Call
 * it once for each pattern; *patterns starts as NULL. */
AORTA_MUST_USE aorta_status aorta_kernel_patterns_add(struct aorta_kernel_patterns **patterns, const char *regex);
void aorta_kernel_patterns_free(struct aorta_kernel_patterns *patterns); /* NULL is fine */
/* Whether a pattern matches the name; false if `patterns` is NULL. */
bool aorta_kernel_patterns_match(const struct aorta_kernel_patterns *patterns, const char *name);

/* `patterns` may be NULL. Names may be demangled, mangled or cut. */
struct aorta_kernel_kind aorta_kernel_classify(const char *name, const struct aorta_kernel_patterns *patterns);

/* Whether the text contains the name of a collective, as in "symm_mem::…all_gather". */
bool aorta_collective_in(const char *text, enum aorta_collective *kind);

/* Whether a compute kernel of unknown category has a name that suggests communication: "dispatch", "combine", "a2a". */
bool aorta_kernel_may_communicate(const char *name);
/* Writes a pattern for aorta_kernel_patterns_add that matches the kernel: its name without type and arguments, at most
 * `size` bytes. */
void aorta_kernel_pattern_of(const char *name, char *pattern, size_t size);

/* Whether our own program launches such kernels for measurement; figures exclude them. */
bool aorta_kernel_only_measures(enum aorta_kernel_class class);

/* A name that fits a line: without return type, namespaces, parameters and template arguments, but with the functor of
 * PyTorch's generic kernels ("elementwise_kernel<CUDAFunctor_add>"). Mangled names are read too. Writes at most `size`
 * bytes, and at most 128, ending included, and returns `text`. A name that is cut ends in an ellipsis. Names that are
 * not C++ are not shortened otherwise. */
const char *aorta_kernel_short_name(const char *name, char *text, size_t size);

/* ---- categories of compute kernels, by name (categories.def) ---- */

enum aorta_category {
    AORTA_CATEGORY_GEMM,        /* matrix products */
    AORTA_CATEGORY_EXPERTS,     /* matrix products of a mixture of experts, and grouped products */
    AORTA_CATEGORY_CONVOLUTION, /* convolutions */
    AORTA_CATEGORY_ATTENTION,   /* attention, paged or not */
    AORTA_CATEGORY_NORM,        /* normalisations and operations fused into them */
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
/* The category for an operation of this class if the kernel's name has none. */
enum aorta_category aorta_category_of_class(enum aorta_work_class class);

/* The class of a kernel by its name, where its operation is not known. */
enum aorta_work_class aorta_kernel_work_class(const char *kernel);
/* Whether a compute kernel multiplies matrices (convolutions included), by its name: "Cijk_…", "nvjet_…", "…gemm…". */
bool aorta_kernel_is_gemm(const char *kernel);
/* Whether the name contains an optimizer's name, or the kernel takes lists of tensors, as optimizers' kernels do. */
bool aorta_kernel_is_of_optimizer(const char *name);

/* ---- mangled C++ names (Itanium C++ ABI, section 5.1), as in CUPTI's records ---- */

/* Demangles a name with the machine's C++ library. NULL if it is not mangled or there is no such library. The caller
 * frees it. */
char *aorta_demangle(const char *name);

/* Reads a mangled name without a library: "void at::native::fill_kernel<FillFunctor>(", with only the named template
 * arguments and no parameters. False if it is not mangled or not understood. */
bool aorta_mangled_names(const char *name, char *text, size_t size);

/* ---- directions of copies, by name ---- */

enum aorta_copied {
    AORTA_COPIED_TO_DEVICE,
    AORTA_COPIED_TO_HOST,
    AORTA_COPIED_WITHIN,  /* the device */
    AORTA_COPIED_BETWEEN, /* devices; in a series also copies of an unknown direction */
    AORTA_COPIED_FILLED,
    AORTA_COPIED_COUNT,
    AORTA_COPIED_UNKNOWN = AORTA_COPIED_COUNT /* the name does not say */
};

/* Reads the names of CUPTI ("Memcpy HtoD"), Kineto ("Memcpy DtoH (Device -> Pinned)", also without the letters),
 * rocprofv3 and HIP. Never FILLED. */
enum aorta_copied aorta_copied_how(const char *name);

/* "Memcpy HtoD", … by CUPTI's kind of copy (CUpti_ActivityMemcpyKind), to which Nsight Systems adds three
 * (ENUM_CUDA_MEMCPY_OPER). "Memcpy" if the kind is unknown. */
const char *aorta_copy_name(int64_t kind);

#endif
