/* Any bytes as a kernel's name: what is made of it ends within the buffer, and its kind is one that there is. The first
 * byte is the size of the buffer. */
#include "fuzz.h"
#include "trace/kernel_names.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    size_t capacity = (size_t)data[0] + 1; /* memory of just this size, so that the sanitizer sees what is behind it */
    char *name = strndup((const char *)data + 1, size - 1), *text = malloc(capacity);
    if (!name || !text) abort();
    aorta_kernel_short_name(name, text, capacity);
    if (strlen(text) >= capacity) abort();
    if (aorta_mangled_names(name, text, capacity) && (strncmp(name, "_Z", 2) != 0 || strlen(text) >= capacity)) abort();
    struct aorta_kernel_kind kind = aorta_kernel_classify(name, NULL);
    if (kind.class > AORTA_KERNEL_GATE || kind.collective >= AORTA_COLLECTIVE_COUNT) abort();
    if (kind.named && kind.class != AORTA_KERNEL_COLLECTIVE) abort();
    aorta_kernel_is_gemm(name);
    free(name);
    free(text);
    return 0;
}
