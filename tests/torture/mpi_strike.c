/* Preloaded: Open MPI, in which a call of the functions of src/comm/mpi.def fails: MPI_STRIKE (tests/strike.h). The
 * program asks dlsym for these functions, so dlsym is where they are
 * exchanged. All arguments are integers and pointers, so that one type serves all. */
#include "strike.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>

typedef int function(intptr_t, intptr_t, intptr_t, intptr_t, intptr_t, intptr_t, intptr_t, intptr_t, intptr_t);
typedef void *symbol_function(void *, const char *);

static struct strike strike;

static void read_environment(void) {
    strike_read(&strike, "MPI_STRIKE");
}

static int check(const char *name) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_once(&once, read_environment);
    pthread_mutex_lock(&lock);
    int code = strike_check(&strike, name);
    pthread_mutex_unlock(&lock);
    return code;
}

#define HANDLE(member, type, symbol)
#define FUNCTION(name)                                                                                                 \
    static function *real_##name;                                                                                      \
    static int strike_##name(intptr_t a, intptr_t b, intptr_t c, intptr_t d, intptr_t e, intptr_t f, intptr_t g,       \
                             intptr_t h, intptr_t i) {                                                                 \
        int code = check("MPI_" #name);                                                                                \
        return code ? code : real_##name(a, b, c, d, e, f, g, h, i);                                                   \
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
