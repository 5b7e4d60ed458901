/* What the parts of the fake libcuda know of each other. Each file holds the state of its theme:
 *   control.c   which calls fail, how many devices there are, the driver's version
 *   cuda.c      the context and its device of src/device, memory, errors
 *   streams.c   streams, partitions, events, copies, host calls
 *   launch.c    modules, functions, launches
 *   kernels.c   what kernels do, the timer and the clock
 *   capture.c   captures and graphs
 *   held.c, queues.c: see their headers */
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

/* A call on the host that was queued, maybe to run again and again. */
struct fake_call {
    struct fake_call *next;
    void (*function)(void *user);
    void *user;
    int64_t begin, end; /* of the last run, by the device's timer */
};

/* Returns CUDA's code. The call stays for as long as the library. */
int fake_queue_call(void *stream, void (*function)(void *user), void *user, struct fake_call **queued);
int fake_green_contexts(void); /* that exist */

/* ---- launch.c ---- */

struct fake_function {
    struct fake_function *next;
    struct aorta_kernel kernel; /* of the CPU device */
    size_t bytes;               /* of its arguments */
    bool tells_times;           /* its second parameter is a struct gpu_times */
    int registers, shared_bytes;
    char name[64];
};

/* See fake_gpu.h. */
int fake_launch_as_kernel(void *stream, const struct fake_shape *shape, void (*function)(void *user), void *user);

/* ---- kernels.c ---- */

/* The device's own timer: another beginning than the host's clock, 40 in a million faster, ticks of 32 ns. */
int64_t fake_timer(void);

/* The kernel of a module's text; NULL: it has none of this name, or nobody has the kernel. */
const struct fake_kernel *fake_find_kernel(const char *text, const char *name);
bool fake_does_nothing(const struct fake_function *function); /* FAKE_GPU_KERNELS=ignore, of a kernel that nobody has */

struct fake_node; /* a command of a capture, later of its graph */

/* Queues it. `awaited`: the call that looks like the kernel it is a witness of, NULL if it is none of such a one.
 * `node`: what it is in a capture. */
aorta_status fake_run(struct aorta_stream *stream, const struct fake_function *function,
                      const struct fake_call *awaited, const struct fake_node *node, void **parameters);

/* ---- capture.c ---- */

/* Notes that the stream, if it is captured, gets this kernel next. NULL: it is not captured. */
struct fake_node *fake_capture_kernel(void *stream, struct fake_function *function, const unsigned *block,
                                      unsigned shared_bytes, unsigned cluster);
/* What it is called with may be changed until its graph is made: the node keeps its own. NULL parameters: none. */
void fake_capture_parameters(struct fake_node *node, void **parameters);
const void *fake_node_args(const struct fake_node *node);
/* Where its kernel tells the timer. */
struct gpu_times;
const struct gpu_times *fake_node_times(const struct fake_node *node);
/* An event recorded on a captured stream, and a stream that waits for one, which may be captured from then on. */
void fake_capture_record(const void *event, const struct aorta_stream *stream);
void fake_capture_wait(const struct aorta_stream *stream, const void *event);
/* The kernel of this node is in truth a call. */
void fake_capture_call(struct fake_node *node, const struct fake_call *call);
/* The call that looks like the kernel whose beginning the next command of the stream waits for; NULL: none. */
const struct fake_call *fake_captured_awaited(const struct aorta_stream *stream);
/* A copy, a fill or a host call comes next: nothing for which a kernel's beginning may be waited for. CUDA's code. */
int fake_capture_other(void *stream);
void fake_capture_done(struct aorta_stream *stream); /* what comes next has been queued */
unsigned long long fake_graph_flags(void);           /* of the last graph made */
int fake_graph_leaves(void);                         /* of the last graph captured */

#endif
