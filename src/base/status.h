/* Failures, and how they are reported.
 *
 * A function that can fail returns an aorta_status. NULL means success; anything else is a heap object that carries a
 * code, a message and the place where it arose. The receiver owns it: return it (AORTA_TRY, aorta_annotate) or free it
 * (aorta_status_free). The compiler rejects a status that is dropped.
 *
 * Thread: a status belongs to one thread at a time. */
#ifndef AORTA_BASE_STATUS_H
#define AORTA_BASE_STATUS_H

#include <stdarg.h>

/* One map for codes, their names and the exit code of a program that ends with them. */
#define AORTA_CODE_MAP(X)                                                                                              \
    X(OK, "ok", 0)                                                                                                     \
    X(USAGE, "usage", 2)             /* wrong command line */                                                          \
    X(CONFIG, "configuration", 2)    /* wrong configuration file, key or value */                                      \
    X(IO, "input/output", 1)         /* a file or directory could not be read or written */                            \
    X(FORMAT, "format", 1)           /* a file's content is malformed             */                                   \
    X(MEMORY, "out of memory", 1)    /* host or device memory is exhausted */                                          \
    X(UNSUPPORTED, "unsupported", 1) /* this device, library or build cannot do it */                                  \
    X(DEVICE, "device", 1)           /* the device or its driver failed */                                             \
    X(COMM, "communication", 1)      /* a collective or the rendezvous failed */                                       \
    X(TIMEOUT, "timeout", 1)         /* a peer did not answer in time */                                               \
    X(INTERRUPTED, "interrupted", 1) /* a signal ended the work early; its output is valid      */                     \
    X(REGRESSION, "regression", 1)   /* a comparison found one */                                                      \
    X(INTERNAL, "internal", 1)       /* a defect of this program */

enum aorta_code {
#define X(id, name, exit_code) AORTA_##id,
    AORTA_CODE_MAP(X)
#undef X
        AORTA_CODE_COUNT
};

#define AORTA_MUST_USE __attribute__((warn_unused_result))
#define AORTA_PRINTF(format_index, first_arg) __attribute__((format(printf, format_index, first_arg)))

typedef struct aorta_error *aorta_status;

/* A new error; never NULL (a static object stands in when memory is exhausted). Use through AORTA_ERROR. */
AORTA_MUST_USE aorta_status aorta_error_at(const char *file, int line, enum aorta_code code, const char *format, ...)
    AORTA_PRINTF(4, 5);

/* For compiler and analyzer: an error is never NULL. Else they follow paths on which it is. */
AORTA_MUST_USE static inline aorta_status aorta_never_null(aorta_status status) {
    if (!status) __builtin_unreachable();
    return status;
}

/* Puts "context: " before the message of a failure and returns it; NULL stays NULL. */
AORTA_MUST_USE aorta_status aorta_annotate(aorta_status status, const char *format, ...) AORTA_PRINTF(2, 3);

enum aorta_code aorta_status_code(aorta_status status);
const char *aorta_status_message(aorta_status status); /* "" for NULL; lives as long as the status */
/* Gives a failure another code. */
AORTA_MUST_USE aorta_status aorta_status_recode(aorta_status status, enum aorta_code code);
/* Adds what only a longer report shows, such as the places that were searched, and returns the failure. */
AORTA_MUST_USE aorta_status aorta_with_detail(aorta_status status, const char *detail);
const char *aorta_status_detail(aorta_status status); /* "": none */
const char *aorta_status_file(aorta_status status);   /* source file that raised it; "" for NULL */
int aorta_status_line(aorta_status status);
void aorta_status_free(aorta_status status); /* NULL is fine */

/* A copy of the failure, with its place; NULL for NULL. */
AORTA_MUST_USE aorta_status aorta_status_copy(aorta_status status);

/* Keeps the first of two failures and frees the second: for clean-up paths that can fail too. */
AORTA_MUST_USE aorta_status aorta_status_join(aorta_status first, aorta_status second);

const char *aorta_code_name(enum aorta_code code);
int aorta_code_exit(enum aorta_code code);

#define AORTA_ERROR(code, ...) aorta_never_null(aorta_error_at(__FILE__, __LINE__, (code), __VA_ARGS__))

/* Returns from the calling function when the expression fails. */
#define AORTA_TRY(expression)                                                                                          \
    do {                                                                                                               \
        aorta_status aorta_try_status = (expression);                                                                  \
        if (aorta_try_status) return aorta_try_status;                                                                 \
    } while (0)

#endif
