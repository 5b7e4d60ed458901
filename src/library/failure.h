/* From a status to the library's result. */
#ifndef AORTA_LIBRARY_FAILURE_H
#define AORTA_LIBRARY_FAILURE_H

#include "aorta/aorta.h"
#include "base/status.h"

/* Frees the status; its message goes to `message`, cut at `size`. */
enum libaorta_result aorta_library_failure(aorta_status status, char *message, size_t size);

/* AORTA_USAGE: this argument may not be NULL. */
AORTA_MUST_USE aorta_status aorta_library_null(const char *argument);

#endif
