/* Checks of arguments, made before anything is queued. Each failure is AORTA_INTERNAL and names operation and value. */
#ifndef AORTA_OPS_CHECK_H
#define AORTA_OPS_CHECK_H

#include "ops/ops.h"

AORTA_MUST_USE aorta_status aorta_check_dtype(const char *operation, enum aorta_dtype dtype); /* fp32, bf16 or fp16 */
AORTA_MUST_USE aorta_status aorta_check_dropout(const char *operation, float dropout);        /* in [0, 1] */
AORTA_MUST_USE aorta_status aorta_check_size(const char *operation, const char *name, int64_t value, int64_t least);
AORTA_MUST_USE aorta_status aorta_check_pointer(const char *operation, const char *name, const void *pointer);

/* Several pointers at once: aorta_check_pointers(operation, AORTA_POINTERS({"x", x}, {"y", y})). */
struct aorta_named_pointer {
    const char *name;
    const void *pointer;
};
#define AORTA_POINTERS(...) ((const struct aorta_named_pointer[]){__VA_ARGS__, {0}})
AORTA_MUST_USE aorta_status aorta_check_pointers(const char *operation, const struct aorta_named_pointer *pointers);

#endif
