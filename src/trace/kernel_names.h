/* What a kernel is, by its name: the one table of collective kernels. */
#ifndef AORTA_TRACE_KERNEL_NAMES_H
#define AORTA_TRACE_KERNEL_NAMES_H

#include "base/collective.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

enum aorta_kernel_class {
    AORTA_KERNEL_COMPUTE,
    AORTA_KERNEL_COLLECTIVE,
    AORTA_KERNEL_STAMP, /* writes timestamps of this program's recorder: no work of the step */
    AORTA_KERNEL_CLOCK, /* keeps the device's clock: neither */
    AORTA_KERNEL_GATE,  /* holds a stream until all is queued behind it (aorta hwq): it waits, and is waited for */
};

struct aorta_kernel_kind {
    enum aorta_kernel_class class;
    enum aorta_collective collective; /* when `named` */
    bool named;                       /* the name says which collective it is */
};

/* Patterns of names: of a user's own collective kernels (--comm-pattern), tried before the table, and of others. */
struct aorta_kernel_patterns;

/* An extended regular expression (POSIX), searched in the name. AORTA_USAGE says what is wrong with it and where. Call
 * it once for each pattern; *patterns starts as NULL. */
AORTA_MUST_USE aorta_status aorta_kernel_patterns_add(struct aorta_kernel_patterns **patterns, const char *regex);
void aorta_kernel_patterns_free(struct aorta_kernel_patterns *patterns); /* NULL is fine */
/* Whether one of them is in the name; NULL: none is. */
bool aorta_kernel_patterns_match(const struct aorta_kernel_patterns *patterns, const char *name);

/* `patterns` may be NULL. Names may be demangled, mangled or cut. */
struct aorta_kernel_kind aorta_kernel_classify(const char *name, const struct aorta_kernel_patterns *patterns);

/* Whether the text has the word of a collective, as names of kernels and operations do: "symm_mem::…all_gather". */
bool aorta_collective_in(const char *text, enum aorta_collective *kind);

/* Whether a compute kernel of no known category is called as communication is: "dispatch", "combine", "a2a". */
bool aorta_kernel_may_communicate(const char *name);
/* A pattern for aorta_kernel_patterns_add that such a kernel has: its name without type and arguments. Writes at most
 * `size` bytes. */
void aorta_kernel_pattern_of(const char *name, char *pattern, size_t size);

/* Whether this program launches such kernels to measure, not to work: figures leave them out. */
bool aorta_kernel_only_measures(enum aorta_kernel_class class);

/* A name that fits a line: without return type, namespaces, parameters and template arguments, but with the functor of
 * PyTorch's generic kernels ("elementwise_kernel<CUDAFunctor_add>"). Mangled names are read too. Writes at most `size`
 * bytes, and at most 128, ending included, and returns `text`; what is cut ends in an ellipsis. What is no C++ name
 * comes out as it is. */
const char *aorta_kernel_short_name(const char *name, char *text, size_t size);

#endif
