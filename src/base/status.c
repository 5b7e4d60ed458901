#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct aorta_error {
    enum aorta_code code;
    char *message, *detail; /* detail: NULL: none */
};

/* Replaces an error that could not be allocated; const in effect: never written, never freed. */
static struct aorta_error no_memory = {AORTA_MEMORY, (char[]){"out of memory while reporting an error"}, NULL};

static char *format_message(const char *format, va_list args) {
    char *text;
    return vasprintf(&text, format, args) < 0 ? NULL : text;
}

aorta_status aorta_error_make(enum aorta_code code, const char *format, ...) {
    struct aorta_error *error = malloc(sizeof *error);
    if (!error) return &no_memory;
    va_list args;
    va_start(args, format);
    *error = (struct aorta_error){code, format_message(format, args), NULL};
    va_end(args);
    if (error->message) return error;
    free(error);
    return &no_memory;
}

aorta_status aorta_annotate(aorta_status status, const char *format, ...) {
    if (!status || status == &no_memory) return status;
    va_list args;
    va_start(args, format);
    char *context = format_message(format, args);
    va_end(args);
    char *joined;
    if (context && asprintf(&joined, "%s: %s", context, status->message) >= 0) {
        free(status->message);
        status->message = joined;
    }
    free(context);
    return status;
}

enum aorta_code aorta_status_code(aorta_status status) {
    return status ? status->code : AORTA_OK;
}

aorta_status aorta_status_recode(aorta_status status, enum aorta_code code) {
    if (status && status != &no_memory) status->code = code;
    return status;
}

const char *aorta_status_message(aorta_status status) {
    return status ? status->message : "";
}

aorta_status aorta_with_detail(aorta_status status, const char *detail) {
    if (!status || status == &no_memory || status->detail) return status;
    status->detail = strdup(detail);
    return status;
}

const char *aorta_status_detail(aorta_status status) {
    return status && status->detail ? status->detail : "";
}

void aorta_status_free(aorta_status status) {
    if (!status || status == &no_memory) return;
    free(status->message);
    free(status->detail);
    free(status);
}

aorta_status aorta_status_copy(aorta_status status) {
    if (!status) return NULL;
    return aorta_with_detail(AORTA_ERROR(status->code, "%s", status->message), aorta_status_detail(status));
}

aorta_status aorta_status_join(aorta_status first, aorta_status second) {
    if (!first) return second;
    aorta_status_free(second);
    return first;
}

int aorta_code_exit(enum aorta_code code) {
    if (code == AORTA_OK) return 0;
    return code == AORTA_USAGE || code == AORTA_CONFIG ? 2 : 1;
}
