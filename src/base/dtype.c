#include "base/dtype.h"

#include <string.h>
#include <strings.h>

static const struct {
    size_t size;
    const char *name, *cxx;
    const char *aliases[4];
} dtypes[AORTA_DTYPE_COUNT] = {
    [AORTA_F32] = {4, "fp32", "float", {"float32", "float", "f32"}},
    [AORTA_F16] = {2, "fp16", "c10::Half", {"float16", "half", "f16"}},
    [AORTA_BF16] = {2, "bf16", "c10::BFloat16", {"bfloat16"}},
    [AORTA_I64] = {8, "int64", "long int", {"i64", "long"}},
    [AORTA_I32] = {4, "int32", "int", {"i32", "int"}},
    [AORTA_U8] = {1, "uint8", "unsigned char", {"u8", "byte"}},
};

size_t aorta_dtype_size(enum aorta_dtype dtype) {
    return dtypes[dtype].size;
}

const char *aorta_dtype_name(enum aorta_dtype dtype) {
    return dtypes[dtype].name;
}

const char *aorta_dtype_cxx_name(enum aorta_dtype dtype) {
    return (unsigned)dtype < AORTA_DTYPE_COUNT ? dtypes[dtype].cxx : "unknown";
}

bool aorta_dtype_parse(const char *name, enum aorta_dtype *dtype) {
    for (int i = 0; i < AORTA_DTYPE_COUNT; i++) {
        bool match = strcasecmp(name, dtypes[i].name) == 0;
        for (int a = 0; a < 4 && dtypes[i].aliases[a]; a++) match |= strcasecmp(name, dtypes[i].aliases[a]) == 0;
        if (!match) continue;
        *dtype = (enum aorta_dtype)i;
        return true;
    }
    return false;
}
