/* Shared by the parts of the fake libcuda. Each file holds the state of its theme:
 *   control.c   which calls fail, how many devices there are, the driver's version
 *   cuda.c      the context and its device of src/device, memory, errors
 *   streams.c   streams, partitions, events, copies, host calls
 *   launch.c    modules, functions, launches
 *   kernels.c   kernels, the timer and the clock
 *   capture.c   captures and graphs
 *   objects.c, queues.c, records.c: see their headers */
#ifndef AORTA_TESTS_FAKE_GPU_CUDA_H
#define AORTA_TESTS_FAKE_GPU_CUDA_H

#include "device/device.h"
#include "fake_gpu/fake_gpu.h"

#include <stdbool.h>

#define EXPORT __attribute__((visibility("default")))

enum {
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    NOT_FOUND = 500,
    NOT_READY = 600,
    LAUNCH_FAILED = 719,
    NOT_SUPPORTED = 801,
};

/* ---- control.c ---- */

/* Counts a call of `symbol`: the code that the test wants it to fail with, or 0. */
int fake_check(const char *symbol);

/* Opens every function: returns what the test wants to fail. */
#define ENTER()                                                                                                        \
    do {                                                                                                               \
        int wanted_code = fake_check(__func__);                                                                        \
        if (wanted_code) return wanted_code;                                                                           \
    } while (0)

int fake_code(aorta_status status); /* CUDA's, 0 for success; frees the status */
int fake_device_count(void);
int fake_version(void);
int fake_fill_rate(void); /* bytes per millisecond; 0: no limit */

/* ---- cuda.c ---- */

struct aorta_device *fake_device(void); /* what the context is made of, for all devices */

/* ---- streams.c ---- */

int fake_queue_call(void *stream, void (*function)(void *user), void *user); /* CUDA's code */
int fake_green_contexts(void);                                               /* that exist */

/* ---- launch.c ---- */

struct fake_function {
    struct fake_function *next;
    struct aorta_kernel kernel; /* of the CPU device */
    size_t bytes;               /* of its arguments */
    char name[64];
};

/* See fake_gpu.h. */
int fake_launch_as_kernel(void *stream, const char *name, void (*function)(void *user), void *user);

/* ---- kernels.c ---- */

/* The device's own timer: another beginning than the host's clock, 40 in a million faster, ticks of 32 ns. */
int64_t fake_timer(void);

/* The kernel of a module's text; NULL: it has none of this name, or nobody has the kernel. */
const struct fake_kernel *fake_find_kernel(const char *text, const char *name);
bool fake_does_nothing(const struct fake_function *function); /* FAKE_GPU_KERNELS=ignore, of a kernel that nobody has */

/* Queues it. */
aorta_status fake_run(struct aorta_stream *stream, const struct fake_function *function, const void *args);

/* ---- capture.c ---- */

unsigned long long fake_graph_flags(void); /* of the last graph made */

#endif
