/* A CUDA driver without a GPU: libcuda.so.1, libnvrtc.so.13 and libnvidia-ml.so.1 whose device is the CPU device of
 * src/device, so that streams really run side by side and graphs really replay. Tests point AORTA_LIBRARY_PATH at the
 * folder of the three.
 *
 * Kernels are run by name: the program under test exports `fake_kernel_NAME`, a struct fake_kernel (link it with
 * ENABLE_EXPORTS). A source that does not contain the kernel's name does not have it. A program that cannot be linked
 * so may set FAKE_GPU_KERNELS=ignore: its kernels do nothing then (spin and nap are always there); and
 * FAKE_GPU_STRIKE (tests/strike.h), for what strike() does.
 * FAKE_GPU_QUEUES makes streams share hardware queues (queues.h). */
#ifndef AORTA_TESTS_FAKE_GPU_H
#define AORTA_TESTS_FAKE_GPU_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct fake_kernel {
    aorta_status (*run)(const void *args);
    size_t bytes; /* of the arguments */
};

/* A test's control of the fake libcuda: found there by dlsym under the name fake_gpu_control. */
struct fake_gpu_control {
    /* The call number `nth` (from 1, counted from now) of `symbol` ("*": of any) returns `code` and does nothing; with
     * `lasting`, all calls from there on. NULL: nothing fails. */
    void (*strike)(const char *symbol, int nth, int code, int lasting);
    int (*calls)(void);             /* of any symbol since the last strike() */
    const char *(*failed)(void);    /* the symbol that failed last, "" for none */
    void (*set_devices)(int count); /* 1 in the beginning */
    void (*set_version)(int version);
    void (*set_fill_rate)(int bytes_per_ms); /* of cuMemsetD8Async; 0, in the beginning: as fast as it goes */
    int (*green_contexts)(void);             /* that exist */
    unsigned long long (*graph_flags)(void); /* of the last graph made */
    int64_t (*timer)(void);                  /* the device's, which runs 40 in a million too fast */
    /* For stand-ins of libraries: queues a call on the host that is recorded as a kernel. */
    int (*launch_as_kernel)(void *stream, const char *name, void (*function)(void *user), void *user);
};

#endif
