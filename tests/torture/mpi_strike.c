/* Preloaded: Open MPI, in which one call fails. MPI_STRIKE=N is the call, counted over all functions of
 * src/comm/mpi.def; MPI_STRIKE_RANK the rank. The program asks dlsym for these functions, so dlsym is where they are
 * exchanged. All arguments are integers and pointers, so that one type serves all. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ERROR_OTHER = 16 };

typedef int function(intptr_t, intptr_t, intptr_t, intptr_t, intptr_t, intptr_t, intptr_t, intptr_t, intptr_t);
typedef void *symbol_function(void *, const char *);

static int strikes(const char *name) {
    static atomic_int calls;
    const char *nth = getenv("MPI_STRIKE"), *wanted = getenv("MPI_STRIKE_RANK"), *rank = getenv("OMPI_COMM_WORLD_RANK");
    if (!nth || !wanted || !rank || atoi(wanted) != atoi(rank)) return 0;
    if (atomic_fetch_add(&calls, 1) + 1 != atoi(nth)) return 0;
    fprintf(stderr, "MPI_STRIKE strikes %s\n", name);
    return 1;
}

#define HANDLE(member, type, symbol)
#define FUNCTION(name)                                                                                                 \
    static function *real_##name;                                                                                      \
    static int strike_##name(intptr_t a, intptr_t b, intptr_t c, intptr_t d, intptr_t e, intptr_t f, intptr_t g,       \
                             intptr_t h, intptr_t i) {                                                                 \
        return strikes("MPI_" #name) ? ERROR_OTHER : real_##name(a, b, c, d, e, f, g, h, i);                           \
    }
#include "comm/mpi.def"
#undef FUNCTION

static const struct row {
    const char *name;
    function **real, *strike;
} rows[] = {
#define FUNCTION(name) {"MPI_" #name, &real_##name, strike_##name},
#include "comm/mpi.def"
#undef FUNCTION
};

static symbol_function *next_dlsym(void) {
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
    void *found = NULL;
    for (size_t i = 0; i < sizeof versions / sizeof *versions && !found; i++)
        found = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    if (!found) abort();
    return (symbol_function *)found;
}

__attribute__((visibility("default"))) void *dlsym(void *library, const char *name) {
    void *found = next_dlsym()(library, name);
    for (size_t i = 0; found && i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].name, name) != 0) continue;
        *rows[i].real = (function *)found;
        return (void *)rows[i].strike;
    }
    return found;
}
