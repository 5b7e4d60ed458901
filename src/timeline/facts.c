/* What the names and sizes in a file say about collectives. */
#include "timeline/builder_internal.h"

#include <ctype.h>
#include <string.h>

/* ---- collectives ---- */

/* PyTorch's names ("_allgather_base", "all_to_allv", "allreduce_coalesced") and NCCL's, without case and underscores.
 */
static const struct {
    const char *begin;
    enum aorta_collective kind;
} collective_names[] = {
    {"allreduce", AORTA_ALL_REDUCE}, {"reducescatter", AORTA_REDUCE_SCATTER}, {"allgather", AORTA_ALL_GATHER},
    {"broadcast", AORTA_BROADCAST},  {"alltoall", AORTA_ALL_TO_ALL},          {"barrier", AORTA_BARRIER},
};

static bool kind_by_name(const char *name, enum aorta_collective *kind) {
    char plain[24];
    size_t length = 0;
    for (; *name && length < sizeof plain - 1; name++)
        if (*name != '_') plain[length++] = (char)tolower((unsigned char)*name);
    plain[length] = 0;
    for (size_t i = 0; i < sizeof collective_names / sizeof *collective_names; i++) {
        if (strncmp(plain, collective_names[i].begin, strlen(collective_names[i].begin)) != 0) continue;
        *kind = collective_names[i].kind;
        return true;
    }
    return false;
}

/* Element sizes by PyTorch's names (c10/core/ScalarType.h) that are not also ours. */
static const struct {
    const char *name;
    int64_t bytes;
} scalar_types[] = {
    {"Byte", 1},
    {"Char", 1},
    {"Bool", 1},
    {"Short", 2},
    {"Int", 4},
    {"Long", 8},
    {"Half", 2},
    {"Float", 4},
    {"Double", 8},
    {"BFloat16", 2},
    {"UInt16", 2},
    {"UInt32", 4},
    {"UInt64", 8},
    {"ComplexHalf", 4},
    {"ComplexFloat", 8},
    {"QInt8", 1},
    {"QUInt8", 1},
    {"QInt32", 4},
    {"ComplexDouble", 16},
    {"Float8_e4m3fn", 1},
    {"Float8_e5m2", 1},
    {"Float8_e4m3fnuz", 1},
    {"Float8_e5m2fnuz", 1},
    {"Float8_e8m0fnu", 1},
};

/* -1: not known. */
static int64_t element_bytes(const char *name) {
    for (size_t i = 0; i < sizeof scalar_types / sizeof *scalar_types; i++)
        if (!strcmp(name, scalar_types[i].name)) return scalar_types[i].bytes;
    enum aorta_dtype dtype;
    return aorta_dtype_parse(name, &dtype) ? (int64_t)aorta_dtype_size(dtype) : -1;
}

void aorta_trace_collective_complete(const struct aorta_trace *trace, struct aorta_trace_collective *collective) {
    if (!collective->named) {
        collective->kind = AORTA_COLLECTIVE_OTHER;
        collective->named = kind_by_name(aorta_trace_text(trace, collective->name), &collective->kind);
    }
    if (collective->bytes >= 0) return;
    int64_t elements =
        collective->in_elements > collective->out_elements ? collective->in_elements : collective->out_elements;
    int64_t size = element_bytes(aorta_trace_text(trace, collective->dtype)), bytes;
    if (elements >= 0 && size > 0 && !__builtin_mul_overflow(elements, size, &bytes)) collective->bytes = bytes;
}
