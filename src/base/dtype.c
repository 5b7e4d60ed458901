#include "base/dtype.h"
#include "base/collective.h"

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

/* ---- kinds of collectives ---- */

/* factor = ring_passes × (n − 1)/n + constant */
static const struct {
    const char *name;
    double ring_passes, constant;
} collectives[AORTA_COLLECTIVE_COUNT] = {
    [AORTA_ALL_REDUCE] = {"all_reduce", 2, 0},       [AORTA_REDUCE_SCATTER] = {"reduce_scatter", 1, 0},
    [AORTA_ALL_GATHER] = {"all_gather", 1, 0},       [AORTA_BROADCAST] = {"broadcast", 0, 1},
    [AORTA_ALL_TO_ALL] = {"all_to_all", 1, 0},       [AORTA_BARRIER] = {"barrier", 0, 0},
    [AORTA_COLLECTIVE_OTHER] = {"collective", 0, 0},
};

const char *aorta_collective_name(int kind) {
    return collectives[kind].name;
}

const char *aorta_collective_words(enum aorta_collective kind, bool sends) {
    if (kind == AORTA_COLLECTIVE_OTHER) return "unidentified collective";
    return sends && kind == AORTA_ALL_TO_ALL ? "sends and receives" : aorta_collective_name(kind);
}

double aorta_collective_bus_factor(enum aorta_collective kind, int ranks) {
    return collectives[kind].ring_passes * (ranks - 1) / ranks + collectives[kind].constant;
}
