#include "ops/check.h"

aorta_status aorta_check_dtype(const char *operation, enum aorta_dtype dtype) {
    if (dtype == AORTA_F32 || dtype == AORTA_F16 || dtype == AORTA_BF16) return NULL;
    if ((int)dtype < 0 || dtype >= AORTA_DTYPE_COUNT)
        return AORTA_ERROR(AORTA_INTERNAL, "%s: %d is no element type", operation, (int)dtype);
    return AORTA_ERROR(AORTA_INTERNAL, "%s: element type %s; only fp32, bf16 and fp16 are computed with", operation,
                       aorta_dtype_name(dtype));
}

aorta_status aorta_check_dropout(const char *operation, float dropout) {
    if (dropout >= 0.0f && dropout <= 1.0f) return NULL;
    return AORTA_ERROR(AORTA_INTERNAL, "%s: dropout %g is not in [0, 1]", operation, (double)dropout);
}

aorta_status aorta_check_size(const char *operation, const char *name, int64_t value, int64_t least) {
    if (value >= least) return NULL;
    return AORTA_ERROR(AORTA_INTERNAL, "%s: %s is %lld, must be at least %lld", operation, name, (long long)value,
                       (long long)least);
}

aorta_status aorta_check_pointer(const char *operation, const char *name, const void *pointer) {
    if (pointer) return NULL;
    return AORTA_ERROR(AORTA_INTERNAL, "%s: %s is NULL", operation, name);
}

aorta_status aorta_check_pointers(const char *operation, const struct aorta_named_pointer *pointers) {
    for (; pointers->name; pointers++) AORTA_TRY(aorta_check_pointer(operation, pointers->name, pointers->pointer));
    return NULL;
}
