/* Shared by the programs test_gpu*.c: the GPU driver on the fake CUDA of tests/fake_gpu, kernels to run on it, and a
 * folder for its cache. FAKE_GPU is the folder of the fake libraries. */
#ifndef AORTA_TESTS_DEVICE_GPU_RIG_H
#define AORTA_TESTS_DEVICE_GPU_RIG_H

#include "check.h"
#include "device/gpu.h"
#include "fake_gpu/fake_gpu.h"

/* ---- cmocka's set-up and tear-down ---- */

/* For each test: the libraries of the folder "cuda", the cache, one device, and no failing call. */
int reset_fake(void **state);

/* For each program: the cache's folder, below /tmp. */
int make_cache(void **state);
int remove_cache(void **state);

const char *cache_folder(void);
void use_libraries(const char *subfolder); /* "cuda", "old"; another has none */
void use_old_management(void);             /* "cuda", with a library that lacks what is optional */
const struct fake_gpu_control *control(void);

/* ---- devices and streams; the caller closes and destroys them ---- */

struct aorta_device *open_gpu(void);                                             /* the first one */
struct aorta_stream *open_stream(struct aorta_device *device, const char *name); /* of high priority */

/* ---- kernels ---- */

struct add_args {
    int64_t *sum, value;
};

extern const struct aorta_gpu_source rig_source; /* of both */
extern const struct aorta_gpu_entry add_entry;   /* takes a struct add_args */
extern const struct aorta_gpu_entry fault_entry; /* fails */
extern const struct aorta_gpu_grid one_block;

aorta_status queue_add(struct aorta_stream *stream, int64_t *sum, int64_t value);

aorta_status no_failure(void *user); /* what looks at a note */
void do_nothing(void *user);         /* a host call */

/* Kernels that write their times: the first takes that long. */
aorta_status nap(struct aorta_stream *stream, int64_t ns);
aorta_status queue_timed_add(struct aorta_stream *stream, int64_t *sum, int64_t value);

/* ---- two streams, and what orders and stamps them ---- */

enum { STAMP_SLOTS = 2200 };
struct stamp_rig {
    struct aorta_device *device;
    struct aorta_stream *a, *b;
    struct aorta_event *fork, *join;
    int64_t *slots; /* pinned, zeros */
};
struct stamp_rig open_stamp_rig(void);
void close_stamp_rig(struct stamp_rig *rig);

#endif
