/* Names as C++ compilers mangle them (Itanium C++ ABI, section 5.1), which is how CUPTI gives those of kernels. */
#ifndef AORTA_TRACE_MANGLED_H
#define AORTA_TRACE_MANGLED_H

#include <stdbool.h>
#include <stddef.h>

/* The name in full as C++ writes it, by the C++ library of the machine; NULL when it is not mangled or there is no such
 * library. The caller frees it. */
char *aorta_demangle(const char *name);

/* The names that a mangled one is made of, without a library: "void at::native::fill_kernel<FillFunctor>(", of template
 * arguments only what has a name, of parameters nothing. False when it is not mangled or not understood. */
bool aorta_mangled_names(const char *name, char *text, size_t size);

#endif
