/* Failures, and how they are reported.
 *
 * A function that can fail returns an aorta_status. NULL means success; anything else is a heap object that carries a
 * code and a message. The receiver owns it: return it (AORTA_TRY, aorta_annotate) or free it (aorta_status_free). The
 * compiler rejects a status that is dropped.
 *
 * Thread: a status belongs to one thread at a time. */
#ifndef AORTA_BASE_STATUS_H
#define AORTA_BASE_STATUS_H

#include <stdarg.h>

enum aorta_code {
    AORTA_OK,
    AORTA_USAGE,       /* wrong command line */
    AORTA_CONFIG,      /* wrong configuration file, key or value */
    AORTA_IO,          /* a file or directory could not be read or written */
    AORTA_FORMAT,      /* a file's content is malformed */
    AORTA_MEMORY,      /* host or device memory is exhausted */
    AORTA_UNSUPPORTED, /* this device, library or build cannot do it */
    AORTA_DEVICE,      /* the device or its driver failed */
    AORTA_COMM,        /* a collective or the rendezvous failed */
    AORTA_TIMEOUT,     /* a peer did not answer in time */
    AORTA_INTERRUPTED, /* a signal ended the work early; its output is valid */
    AORTA_REGRESSION,  /* a comparison found one */
    AORTA_INTERNAL,    /* a defect of this program */
    AORTA_CODE_COUNT
};

#define AORTA_MUST_USE __attribute__((warn_unused_result))
#define AORTA_PRINTF(format_index, first_arg) __attribute__((format(printf, format_index, first_arg)))

typedef struct aorta_error *aorta_status;

/* A new error; never NULL (a static object when memory is exhausted). Use through AORTA_ERROR. */
AORTA_MUST_USE aorta_status aorta_error_make(enum aorta_code code, const char *format, ...) AORTA_PRINTF(2, 3);

/* Lets compiler and analyzer assume that an error is never NULL. Else they follow paths on which it is NULL. */
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
/* Adds details for a longer report, such as the paths searched, and returns the failure. */
AORTA_MUST_USE aorta_status aorta_with_detail(aorta_status status, const char *detail);
const char *aorta_status_detail(aorta_status status); /* "": none */
void aorta_status_free(aorta_status status);          /* NULL is fine */

/* A copy of the failure; NULL for NULL. */
AORTA_MUST_USE aorta_status aorta_status_copy(aorta_status status);

/* Keeps the first of two failures and frees the second: for clean-up paths that can fail too. */
AORTA_MUST_USE aorta_status aorta_status_join(aorta_status first, aorta_status second);

int aorta_code_exit(enum aorta_code code); /* the exit code of a program that ends with it */

#define AORTA_ERROR(code, ...) aorta_never_null(aorta_error_make((code), __VA_ARGS__))

/* Returns from the calling function when the expression fails. */
#define AORTA_TRY(expression)                                                                                          \
    do {                                                                                                               \
        aorta_status aorta_try_status = (expression);                                                                  \
        if (aorta_try_status) return aorta_try_status;                                                                 \
    } while (0)

#endif
