/* Vendor libraries, opened when the program runs. */
#ifndef AORTA_BASE_SHARED_LIBRARY_H
#define AORTA_BASE_SHARED_LIBRARY_H

#include "base/status.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct aorta_symbol {
    const char *name;
    size_t offset; /* of the function pointer in the table that is filled */
    bool required;
};

struct aorta_library_description {
    const char *purpose;      /* "matrix products" */
    const char *const *names; /* tried in order, NULL ends; also below the usual install folders */
    const struct aorta_symbol *symbols;
    size_t symbol_count;
    const char *install; /* how to get it */
};

/* An open library; `path` is where the loader found it. Folders in AORTA_LIBRARY_PATH are looked in first. */
struct aorta_library {
    void *handle;
    char path[PATH_MAX];
};

/* Opens the first name that loads and fills the table. AORTA_UNSUPPORTED names every path tried with its error, or the
 * required symbol that a file lacks (too old). Libraries are never closed: vendor libraries do not survive it. */
AORTA_MUST_USE aorta_status aorta_library_open(const struct aorta_library_description *description, void *table,
                                               struct aorta_library *library);

#endif
