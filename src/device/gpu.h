/* Interface for operations and collectives on a GPU (CUDA or HIP), in addition to device.h.
 *
 * A kernel (struct aorta_kernel) has a CPU version and a host function `gpu`, which computes the grid and calls
 * aorta_gpu_launch, or a vendor library on the stream's handle. Kernels are C in the CUDA/HIP dialect
 * (src/ops/kernels/), compiled for the device at first use and cached on disk. A kernel's parameter is the struct of
 * its CPU version, by value. */
#ifndef AORTA_DEVICE_GPU_H
#define AORTA_DEVICE_GPU_H

#include "base/shared_library.h"
#include "device/device.h"

#include <limits.h>

/* One source file of kernels; static and const. `text` is self-contained: headers are already in it. */
struct aorta_gpu_source {
    const char *name; /* "norm.cu" */
    const char *text;
};

/* One extern "C" __global__ function; static and const: launches look it up by its address. */
struct aorta_gpu_entry {
    const struct aorta_gpu_source *source;
    const char *name;
};

struct aorta_gpu_grid {
    uint32_t blocks[3], threads[3]; /* 0 counts as 1 */
    uint32_t shared_bytes;          /* dynamic shared memory; above 48 KiB is asked for by the driver */
};

/* Queues entry(args). AORTA_DEVICE names the entry, and carries the compiler's log when it does not compile. A grid
 * without blocks[0] queues nothing. */
AORTA_MUST_USE aorta_status aorta_gpu_launch(struct aorta_stream *stream, const struct aorta_gpu_entry *entry,
                                             struct aorta_gpu_grid grid, const void *args, size_t bytes);
/* Compiles and loads an entry ahead of its first launch: that takes up to a second, and may wait for work on the
 * device.
 */
AORTA_MUST_USE aorta_status aorta_gpu_prepare(struct aorta_device *device, const struct aorta_gpu_entry *entry);

struct aorta_gpu_properties {
    int multiprocessors, warp_size;
    uint32_t shared_bytes_per_block; /* most that a block may ask for */
    int major, minor;                /* CUDA: compute capability; HIP: from the gfx name */
    char architecture[32];           /* "sm_90", "gfx942" */
    char pci_bus_id[32];
};
const struct aorta_gpu_properties *aorta_gpu_get_properties(const struct aorta_device *device);

/* Visible devices of a kind of GPU, at least one; AORTA_UNSUPPORTED when there is none, or no driver, AORTA_DEVICE when
 * there is a driver and it cannot be used. */
AORTA_MUST_USE aorta_status aorta_gpu_count(enum aorta_device_kind kind, int *count);
/* The first kind that has a usable device, and how many of it: cuda, hip, else the CPU (one), unless there is a driver
 * that cannot be used: AORTA_DEVICE. */
AORTA_MUST_USE aorta_status aorta_device_best_kind(enum aorta_device_kind *kind, int *count);
bool aorta_device_is_gpu(const struct aorta_device *device);
/* CUstream or hipStream_t. Call this before each use, as it writes pending timestamps before the caller's work and
 * notes in a capture that the stream has work. */
void *aorta_gpu_stream_handle(struct aorta_stream *stream);
/* Kernels cannot fail; they note failures in pinned memory. The host calls `check`, which reads and clears the note
 * (NULL: no failure), in every wait for the stream, for an event recorded on it from now on, or for a stream that
 * waited for such an event. A failure applies to all of these. Calls with the same `check` and `user` count as one. In
 * a capture it belongs to the graph, and so to every stream that launches it. `user` lives as long as the device.
 * AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_gpu_note(struct aorta_stream *stream, aorta_status (*check)(void *user), void *user);
/* Makes the device's context current on the calling thread (vendor libraries need that). */
AORTA_MUST_USE aorta_status aorta_gpu_make_current(struct aorta_device *device);

/* Calls a function of the vendor's library that does nothing. A profiler shows its place among the launches. */
void aorta_gpu_call_driver(struct aorta_device *device);

/* Begins to compile sources that will be needed, in parallel on their own threads, if the vendor's compiler can; else
 * each is compiled when needed. The user of a source gets its failure. Call once per source. */
void aorta_gpu_expect(struct aorta_device *device, const struct aorta_gpu_source *const *sources, size_t count);

/* How kernels were compiled so far. */
struct aorta_gpu_compiler {
    char library[PATH_MAX], version[64]; /* empty until the first source */
    char cache[256];                     /* folder; empty: nothing is cached */
    char note[256];                      /* why nothing is cached, if so */
    uint64_t compiled, from_disk;        /* sources */
};
struct aorta_gpu_compiler aorta_gpu_compiler_info(struct aorta_device *device);

/* The conversion from the device's timer to device time, for kernels that write their own timestamps: a struct
 * clock_page of ops/kernels/clock.h in device memory, valid while the device is open. */
const void *aorta_gpu_clock_page(struct aorta_device *device);
/* The length of a timer tick, for kernels that write ticks. */
double aorta_gpu_ns_per_tick(struct aorta_device *device);
/* Converts a recent timer value to device time by the clock's last measurement. */
int64_t aorta_gpu_timer_time(struct aorta_device *device, int64_t timer);

/* Lets `device` read and write the other's memory directly if the link supports it. *direct is true if copies
 * between the two are then direct. Otherwise aorta_copy goes through the host. */
AORTA_MUST_USE aorta_status aorta_gpu_enable_peer(struct aorta_device *device, struct aorta_device *other,
                                                  bool *direct);

/* State that a module attaches to a device for as long as it is open (library handles, workspaces), so that none of it
 * is global. `key` is the address of any static object of the module. `make` is called once, at first use. Thread-safe.
 * `end` runs at aorta_device_close, last attached first. */
AORTA_MUST_USE aorta_status aorta_device_attachment(struct aorta_device *device, const void *key,
                                                    aorta_status (*make)(struct aorta_device *device, void **state),
                                                    void (*end)(void *state), void **state);

#endif
