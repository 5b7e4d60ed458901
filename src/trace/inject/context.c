#include "trace/inject/context.h"

#include "trace/inject/cupti.h"

#include <link.h>
#include <stddef.h>
#include <string.h>

static int is_runtime(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)size, (void)unused;
    const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    return slash && strncmp(slash, "/libcudart", 10) == 0; /* in PyTorch's old wheels libcudart-0123abcd.so.11.0 */
}

#define ROW(member, symbol)                                                                                            \
    { symbol, offsetof(struct aorta_inject_context, member) }
static const struct {
    const char *symbol;
    size_t offset;
} symbols[] = {
    ROW(get_count, "cuDeviceGetCount"),
    ROW(get_device, "cuDeviceGet"),
    ROW(get_state, "cuDevicePrimaryCtxGetState"),
};
#undef ROW

bool aorta_inject_context_open(struct aorta_inject_context *context) {
    *context = (struct aorta_inject_context){0};
    if (!dl_iterate_phdr(is_runtime, NULL)) return false;
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *function = aorta_inject_driver_symbol(symbols[i].symbol);
        if (!function) return false;
        memcpy((char *)context + symbols[i].offset, &function, sizeof function);
    }
    return true;
}

/* Until cuInit is over the driver's functions only say so. */
static bool is_active(const struct aorta_inject_context *context) {
    int count = 0;
    if (context->get_count(&count) != 0) return false;
    for (int i = 0; i < count; i++) {
        int device, active = 0;
        unsigned flags;
        bool known = context->get_device(&device, i) == 0 && context->get_state(device, &flags, &active) == 0;
        if (known && active) return true;
    }
    return false;
}

bool aorta_inject_context_exists(struct aorta_inject_context *context) {
    bool before = context->seen;
    context->seen = is_active(context);
    return before && context->seen;
}
