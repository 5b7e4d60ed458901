/* What the files of the GPU driver share: its clock, compiler and launches, and the differences between CUDA and HIP as
 * data. */
#ifndef AORTA_DEVICE_GPU_DRIVER_H
#define AORTA_DEVICE_GPU_DRIVER_H

#include "device/backend.h"
#include "device/gpu.h"
#include "device/gpu/api.h"

#include <pthread.h>
#include <stdatomic.h>

struct gpu_device;

/* ---- device time on the host's clock (clock.c) ---- */

/* A straight line from the device's timer to the host's clock, with a correction that is applied gradually over
 * `slew_ticks`, so that device time never jumps. Kernels read it: driver.cu repeats the structs. */
struct gpu_clock_line {
    int64_t timer, host_ns;
    double ns_per_tick, slew_ns, slew_ticks;
};

struct gpu_clock {
    pthread_mutex_t lock;
    void *page;                  /* device memory: two lines, and which one is current */
    struct gpu_mailbox *mailbox; /* pinned */
    void *stream;
    struct gpu_clock_line line;
    int64_t first_timer, first_ns, first_half_ns; /* the reading that the rate is taken from */
    int64_t last_ns, half_ns;     /* when the line was last measured, and the error bound of that measurement */
    double rate_error;            /* of ns_per_tick, as a share of it */
    _Atomic int64_t next_ns;      /* when to measure again */
    int64_t interval_ns, tick_ns; /* between measurements; of the timer */
};
aorta_status aorta_gpu_clock_open(struct gpu_device *device);
void aorta_gpu_clock_close(struct gpu_device *device);
int64_t aorta_gpu_clock_error_ns(struct aorta_device *device);
void aorta_gpu_clock_refresh(
    struct gpu_device *device); /* measures again when it is time; called where the host waits */

/* ---- kernels (driver.cu) ---- */

enum { GPU_STAMPS = 4 }; /* timestamps that one kernel writes */
struct gpu_stamp_args {
    void *clock;
    int64_t *slots[GPU_STAMPS]; /* NULL: none */
};
struct gpu_clock_set_args {
    void *clock;
    struct gpu_clock_line line;
};
enum { GPU_PINGS = 8 };
struct gpu_mailbox {
    _Atomic int request, answer; /* host: the ping wanted, -1 gives up; device: the ping answered */
    int64_t tick;                /* smallest step of the timer that was seen, in ticks */
    int64_t timers[GPU_PINGS + 1];
};
extern const struct aorta_gpu_entry aorta_gpu_stamp, aorta_gpu_clock_set, aorta_gpu_clock_ping;
enum { GPU_CLOCK_PAGE_BYTES = 256 };

/* ---- from a kernel's source to code for this device (compile.c) ---- */

struct gpu_compiler {
    pthread_mutex_t lock;
    bool open;
    struct gpu_compiler_api api;
    struct aorta_library library;
    int major, minor;
    char *cache;                  /* folder, owned; NULL: nothing is cached */
    char note[256];               /* why nothing is cached, or the cache's last failure */
    uint64_t compiled, from_disk; /* sources */
};
void aorta_gpu_compiler_begin(struct gpu_compiler *compiler);
void aorta_gpu_compiler_end(struct gpu_compiler *compiler);
/* Machine code for this device, from the cache or compiled; the caller frees it. */
aorta_status aorta_gpu_compile(struct gpu_device *device, const struct aorta_gpu_source *source, char **code,
                               size_t *bytes);

/* ---- the cache on disk ---- */

struct gpu_cache_key {
    const char *name; /* of the source */
    const char *text; /* everything that the code depends on */
    size_t length;
};
char *aorta_gpu_cache_folder(char *note, size_t note_size); /* NULL, and why, when there is none */

/* ---- launches (launch.c) ---- */

struct gpu_stream;

struct gpu_function {
    const struct aorta_gpu_entry *entry;
    void *handle;
    size_t parameter_bytes;      /* of the first parameter; SIZE_MAX: not known */
    _Atomic uint32_t shared_max; /* dynamic shared memory that it is allowed so far */
};

enum { GPU_FUNCTIONS_MOST = 1024 };
struct gpu_functions {
    pthread_mutex_t lock;
    _Atomic(struct gpu_function *) places[GPU_FUNCTIONS_MOST]; /* read without the lock; only ever filled */
    int count;
    struct gpu_module *modules; /* loaded sources */
    struct gpu_ahead *ahead;    /* sources being compiled, or compiled and not loaded yet */
};

void aorta_gpu_functions_begin(struct gpu_functions *functions);
void aorta_gpu_functions_end(struct gpu_device *device);
/* Finds the function, compiling and loading it when need be. */
aorta_status aorta_gpu_function(struct gpu_device *device, const struct aorta_gpu_entry *entry,
                                struct gpu_function **function);
/* Launches a kernel of the driver itself, of one thread. */
aorta_status aorta_gpu_launch_own(struct gpu_device *device, void *stream, const struct aorta_gpu_entry *entry,
                                  void *args);

/* ---- ahead of use: the caller has the lock of the functions ---- */

/* Waits for the source's thread, if there is one: true, and *status and the results of aorta_gpu_compile. */
bool aorta_gpu_take_expected(struct gpu_functions *functions, const struct aorta_gpu_source *source, char **code,
                             size_t *bytes, aorta_status *status);
void aorta_gpu_expected_end(struct gpu_functions *functions);

/* ---- prepared launches ---- */

struct gpu_prepared {
    struct aorta_prepared base;
    struct gpu_function *function; /* NULL: the kernel needs no launch */
    struct aorta_gpu_grid grid;    /* no zeros */
};
aorta_status aorta_gpu_prepared_make(struct aorta_prepared *prepared);
aorta_status aorta_gpu_prepared_launch(struct aorta_prepared *const *items, size_t count);

/* ---- the vendors (vendor.c) ---- */

struct gpu_attributes { /* numbers of the vendor's device attributes; -1: there is none */
    int multiprocessors, warp_size, shared_bytes, major, minor, unified_addressing, timer_khz;
};

struct gpu_vendor {
    enum aorta_device_kind kind;
    struct aorta_library_description driver, compiler;
    const char *visible[3];  /* variables that restrict the devices the driver shows */
    const char *blocking[2]; /* variables that, unless 0, make each launch wait for its kernel */
    int oldest_driver;       /* as driver_version counts */
    const char *oldest_driver_text;
    struct gpu_attributes attribute;
    /* Makes kernels of a graph keep the priorities of the streams they were captured on, from that driver on. */
    unsigned long long priority_flag;
    int priority_driver;
    int timer_khz;          /* of the clock that kernels read, when the driver does not say */
    uint32_t shared_opt_in; /* above this many bytes shared memory must be allowed per kernel; 0: never */
    int shared_attribute;   /* of a function */
    const char *compiler_name;
    bool compiles_side_by_side; /* several programs at once, on several threads */
    int (*copy)(const struct gpu_api *api, void *to, const void *from, size_t bytes, void *stream);
    const char *(*error_name)(const struct gpu_api *api, int error);
    const char *(*error_text)(const struct gpu_api *api, int error);
    /* Fills architecture, major and minor; returns the vendor's error, 0 for none. */
    int (*architecture)(const struct gpu_device *device, struct aorta_gpu_properties *properties);
    /* A stream on at most `share` of the multiprocessors. */
    aorta_status (*limited_stream)(struct gpu_device *device, double share, enum aorta_priority priority,
                                   void **stream);
    /* Writes the option that names the architecture to the compiler. */
    void (*architecture_option)(const struct aorta_gpu_properties *properties, char *text, size_t size);
};

extern const struct gpu_vendor aorta_gpu_cuda, aorta_gpu_hip;
const struct gpu_vendor *aorta_gpu_vendor(enum aorta_device_kind kind); /* NULL: not a GPU */

/* ---- streams with a share of the device (stream.c) ---- */

aorta_status aorta_gpu_cuda_limited_stream(struct gpu_device *device, double share, enum aorta_priority priority,
                                           void **stream);
aorta_status aorta_gpu_hip_limited_stream(struct gpu_device *device, double share, enum aorta_priority priority,
                                          void **stream);

/* ---- the driver ----
 * The GPU driver from inside: one driver for CUDA and HIP.
 *
 * Headers, each with the files of its theme: api.h and vendor.def (the vendors' functions), driver.h (device time on
 * the host's clock; kernels from source, launches; the vendors' differences, as data; a device), stream.h (streams,
 * events, captures, graphs; notes of kernels), management.h (NVML and ROCm SMI: clocks, power, links).
 *
 * Failures: what fails when it is queued (a kernel that does not compile, a refused launch) fails its stream at that
 * place, so that later work on it, and after its events, is skipped, as on the CPU. A fault of a kernel ends the whole
 * context: every call fails from there on. */

/* The vendor's library, opened and initialised; opens no device. */
struct gpu_driver {
    const struct gpu_vendor *vendor;
    struct gpu_api api;
    struct aorta_library library;
    int version, count; /* of devices */
};

/* AORTA_MEMORY or AORTA_DEVICE: "what: CUDA_ERROR_… (its text)". */
AORTA_MUST_USE aorta_status aorta_gpu_error(const struct gpu_device *device, int result, const char *format, ...)
    AORTA_PRINTF(3, 4);
bool aorta_gpu_given_up(const struct gpu_device *device);

struct gpu_device {
    struct aorta_device base;
    struct gpu_driver driver;
    struct aorta_gpu_properties properties;
    int handle;
    void *context;
    int priority_low, priority_high; /* lower numbers go first */
    struct gpu_compiler compiler;
    struct gpu_functions functions;
    struct gpu_clock clock;
    pthread_mutex_t notes_lock;
    struct gpu_note *notes;                     /* of kernels, and their failures */
    _Atomic(struct gpu_partition *) partitions; /* stream.c's */
};

static inline struct gpu_device *gpu_device(const struct aorta_device *device) {
    return (struct gpu_device *)(uintptr_t)device;
}

#endif
