#include "timeline/framework.h"

#include <string.h>

static enum aorta_framework framework_of(const char *name) {
    if (strstr(name, "stream_executor::gpu") || (strncmp(name, "loop_", 5) == 0 && strstr(name, "_fusion")))
        return AORTA_FRAMEWORK_XLA;
    return strncmp(name, "cupy_", 5) == 0 ? AORTA_FRAMEWORK_CUPY : AORTA_FRAMEWORK_OTHER;
}

enum aorta_framework aorta_trace_framework(const struct aorta_trace *trace) {
    for (size_t i = 0; i < aorta_trace_text_count(trace); i++) {
        const enum aorta_framework framework = framework_of(aorta_trace_text(trace, (uint32_t)i));
        if (framework) return framework;
    }
    return AORTA_FRAMEWORK_OTHER;
}
