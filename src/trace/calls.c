/* What calls of the CUDA and HIP interfaces do, by their names. */
#include "trace/builder.h"

#include <string.h>

static const struct {
    const char *name; /* without cuda, hip, cu or aorta */
    bool prefix;      /* longer names count too: MemcpyAsync, MemcpyHtoDAsync_v2 */
    enum aorta_trace_call_kind kind;
} rows[] = {
    {"LaunchKernel", true, AORTA_CALL_LAUNCH},
    {"LaunchCooperativeKernel", true, AORTA_CALL_LAUNCH},
    {"LaunchByPtr", true, AORTA_CALL_LAUNCH},
    {"Launch", false, AORTA_CALL_LAUNCH},
    {"LaunchGrid", true, AORTA_CALL_LAUNCH},
    {"ModuleLaunch", true, AORTA_CALL_LAUNCH},
    {"HccModuleLaunchKernel", true, AORTA_CALL_LAUNCH},
    {"ExtModuleLaunchKernel", true, AORTA_CALL_LAUNCH},
    {"ExtLaunch", true, AORTA_CALL_LAUNCH},
    {"GraphLaunch", true, AORTA_CALL_GRAPH_LAUNCH},
    {"Memcpy", true, AORTA_CALL_COPY},
    {"Memset", true, AORTA_CALL_FILL},
    {"DeviceSynchronize", true, AORTA_CALL_SYNC},
    {"StreamSynchronize", true, AORTA_CALL_SYNC},
    {"EventSynchronize", true, AORTA_CALL_SYNC},
    {"CtxSynchronize", true, AORTA_CALL_SYNC},
    {"ThreadSynchronize", true, AORTA_CALL_SYNC},
    {"Malloc", true, AORTA_CALL_MEMORY},
    {"Free", true, AORTA_CALL_MEMORY},
    {"HostAlloc", true, AORTA_CALL_MEMORY},
    {"HostMalloc", true, AORTA_CALL_MEMORY},
    {"HostFree", true, AORTA_CALL_MEMORY},
    {"HostRegister", true, AORTA_CALL_MEMORY},
    {"HostUnregister", true, AORTA_CALL_MEMORY},
    {"ExtMallocWithFlags", true, AORTA_CALL_MEMORY},
    {"MemAlloc", true, AORTA_CALL_MEMORY},
    {"MemHostAlloc", true, AORTA_CALL_MEMORY},
    {"MemFree", true, AORTA_CALL_MEMORY},
    {"MemCreate", true, AORTA_CALL_MEMORY},
    {"MemRelease", true, AORTA_CALL_MEMORY},
    {"MemMap", true, AORTA_CALL_MEMORY},
    {"MemUnmap", true, AORTA_CALL_MEMORY},
};

/* What follows the interface's own prefix; NULL: the name has none. */
static const char *without_prefix(const char *name) {
    static const char *const prefixes[] = {"cuda", "hip", "cu", "aorta"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        size_t length = strlen(prefixes[i]);
        if (!strncmp(name, prefixes[i], length)) return name + length;
    }
    return NULL;
}

bool aorta_trace_call_classify(const char *name, enum aorta_trace_call_kind *kind) {
    const char *rest = without_prefix(name);
    if (!rest) return false;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t length = strlen(rows[i].name);
        if (strncmp(rest, rows[i].name, length) != 0) continue;
        /* The interfaces' versions of one call: cuLaunch_ptsz, cuMemFree_v2. */
        if (!rows[i].prefix && rest[length] && rest[length] != '_') continue;
        *kind = rows[i].kind;
        return true;
    }
    return false;
}
