/* How a test controls the stand-in for librocprofiler-sdk; found in it with dlsym ("fake_rocprofiler"). */
#ifndef AORTA_TESTS_FAKE_ROCPROFILER_H
#define AORTA_TESTS_FAKE_ROCPROFILER_H

#include <stddef.h>
#include <stdint.h>

enum { FAKE_CLOCK_AHEAD_NS = 1000000000 }; /* of CLOCK_MONOTONIC */

/* One dispatch or copy; times are those of the library's clock. */
struct fake_dispatch {
    uint64_t start, end, external; /* external: of `launch` */
    uint64_t agent, queue, kernel;
    uint32_t group_bytes, workgroup[3], grid[3];
    uint32_t copy; /* 0: a kernel; else the direction, and `bytes` of it */
    uint64_t bytes;
};

struct fake_rocprofiler {
    void (*set_version)(uint32_t major, uint32_t minor, uint32_t patch); /* before anything is opened */
    void (*refuse)(const char *function, uint32_t status);               /* from now on; NULL: nothing */
    void (*load)(uint64_t kernel, const char *name);                     /* code with a kernel of this number */
    void (*enter)(uint64_t stream);                                      /* a HIP function on this thread … */
    void (*leave)(void);
    uint64_t (*launch)(void); /* on this thread; what the tool gives the record along; 0: nothing is recorded */
    void (*finish)(const struct fake_dispatch *work); /* stored until a flush, or until the watermark is passed */
    void (*lose)(uint64_t count);                     /* records, reported with the next ones */
    int (*running)(void);                             /* whether records are asked for */
};

const struct fake_rocprofiler *fake_rocprofiler(void);

#endif
