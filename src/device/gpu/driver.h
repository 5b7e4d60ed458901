/* The GPU driver from inside: one driver for CUDA and HIP.
 *
 * Files: vendor.c (what differs, as data), api.h and *.def (the vendors' functions), library.c (loading), driver.c
 * (opening, memory, the table), clock.c (device time on the host's clock), compile.c and cache.c (kernels from source),
 * launch.c, held.c, prepared.c, stream.c, verdict.c (failures of host calls), note.c (what kernels note), event.c,
 * capture.c (graphs), aside.c, told.c, room.c and witness.c (timestamps that nothing waits for, that kernels tell
 * themselves, that wait for room, of others' kernels), node.c (what captures tell of their commands), kernels.c (the
 * driver's own), management.c with nvml.c and rsmi.c (clocks, power, links), inventory.c.
 *
 * Failures: what fails when it is queued (a kernel that does not compile, a refused launch) fails its stream at that
 * place, so that later work on it, and behind its events, is skipped, as on the CPU. A host call fails while device
 * work behind it is on its way already: that still runs; later host calls do not. A fault of a kernel ends the whole
 * context: every call fails from there on. */
#ifndef AORTA_DEVICE_GPU_DRIVER_H
#define AORTA_DEVICE_GPU_DRIVER_H

#include "device/backend.h"
#include "device/capture.h"
#include "device/gpu.h"
#include "device/gpu/api.h"

#include <pthread.h>
#include <stdatomic.h>

struct gpu_device;
struct gpu_stream;
struct gpu_capture;

/* ---- vendor.c ---- */

struct gpu_attributes { /* numbers of the vendor's device attributes; -1: there is none */
    int multiprocessors, warp_size, threads_per_block, threads_per_multiprocessor, shared_bytes, l2_bytes, major, minor,
        unified_addressing, timer_khz;
};

struct gpu_vendor {
    enum aorta_device_kind kind;
    struct aorta_library_description driver, compiler;
    const char *visible[3]; /* variables that restrict what the driver shows */
    int oldest_driver;      /* as driver_version counts */
    const char *oldest_driver_text;
    struct gpu_attributes attribute;
    /* Makes kernels of a graph keep the priorities of the streams they were captured on, from that driver on. */
    unsigned long long priority_flag;
    int priority_driver;
    int timer_khz;          /* of the clock that kernels read, when the driver does not say */
    uint32_t shared_opt_in; /* above so many bytes a kernel has to be allowed its shared memory; 0: never */
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

/* ---- driver.c ---- */

/* The vendor's library, opened and initialised; opens no device. */
struct gpu_driver {
    const struct gpu_vendor *vendor;
    struct gpu_api api;
    struct aorta_library library;
    int version, count; /* of devices */
};
AORTA_MUST_USE aorta_status aorta_gpu_driver_open(const struct gpu_vendor *vendor, struct gpu_driver *driver);
/* Finds the device in an open driver and reads what it is; nothing is made on it. */
AORTA_MUST_USE aorta_status aorta_gpu_find_device(struct gpu_device *device, int index);

/* AORTA_MEMORY or AORTA_DEVICE: "what: CUDA_ERROR_… (its text)". */
AORTA_MUST_USE aorta_status aorta_gpu_error(const struct gpu_device *device, int result, const char *format, ...)
    AORTA_PRINTF(3, 4);
bool aorta_gpu_given_up(const struct gpu_device *device);

/* ---- clock.c ---- */

/* A straight line from the device's timer to the host's clock, with a correction that sets in over `slew_ticks`, so
 * that device time never jumps. Kernels read it: the layout is in kernels.c too. */
struct gpu_clock_line {
    int64_t timer, host_ns;
    double ns_per_tick, slew_ns, slew_ticks;
};

struct gpu_clock {
    pthread_mutex_t lock;
    void *page;                  /* device memory: which of two lines holds, and the two */
    struct gpu_mailbox *mailbox; /* pinned */
    void *stream;
    struct gpu_clock_line line;
    int64_t first_timer, first_ns, first_half_ns; /* the reading that the rate is taken from */
    int64_t last_ns, half_ns;                     /* when the line was last measured, and how well that is known */
    double rate_error;                            /* of ns_per_tick, as a share of it */
    _Atomic int64_t next_ns;                      /* when to measure again */
    int64_t interval_ns, tick_ns;                 /* between measurements; of the timer */
};
aorta_status aorta_gpu_clock_open(struct gpu_device *device);
void aorta_gpu_clock_close(struct gpu_device *device);
int64_t aorta_gpu_clock_error_ns(struct aorta_device *device);
void aorta_gpu_clock_tend(struct gpu_device *device); /* measures again when it is time; called where the host waits */

/* ---- compile.c, cache.c ---- */

struct gpu_compiler {
    pthread_mutex_t lock;
    bool open;
    struct gpu_compiler_api api;
    struct aorta_library library;
    int major, minor;
    char *cache;                  /* folder, owned; NULL: nothing is kept */
    char note[256];               /* why nothing is kept, or what the cache last failed at */
    uint64_t compiled, from_disk; /* sources */
};
void aorta_gpu_compiler_begin(struct gpu_compiler *compiler);
void aorta_gpu_compiler_end(struct gpu_compiler *compiler);
/* Machine code for this device, from the cache or compiled; the caller frees it. */
aorta_status aorta_gpu_compile(struct gpu_device *device, const struct aorta_gpu_source *source, char **code,
                               size_t *bytes);

struct gpu_cache_key {
    const char *name; /* of the source */
    const char *text; /* everything that the code depends on */
    size_t length;
};
char *aorta_gpu_cache_folder(char *note, size_t note_size); /* NULL, and why, when there is none */
bool aorta_gpu_cache_load(const char *folder, const struct gpu_cache_key *key, char **code, size_t *bytes);
aorta_status aorta_gpu_cache_store(const char *folder, const struct gpu_cache_key *key, const char *code, size_t bytes);

/* ---- launch.c ---- */

struct gpu_function {
    const struct aorta_gpu_entry *entry;
    void *handle;
    size_t parameter_bytes;      /* of the first parameter; SIZE_MAX: the driver cannot tell */
    bool tells_times;            /* its second parameter is a struct gpu_times */
    int registers;               /* of a thread; 0: the driver does not tell */
    _Atomic uint32_t shared_max; /* dynamic shared memory that it may ask for by now */
};

struct gpu_functions {
    pthread_mutex_t lock;
    _Atomic(struct gpu_function_table *) table; /* read without the lock */
    struct gpu_module *modules;                 /* loaded sources */
    struct gpu_ahead *ahead;                    /* sources being compiled, or compiled and not loaded yet */
};

/* Second parameter of the kernels in src/ops/kernels (times.h); drivers leave it away where a function has none. */
struct gpu_times {
    unsigned long long *begun, *ended; /* device memory: the timer then; NULL: not asked */
};

/* The function that a handle is of; NULL: it is not one of ours. */
const struct gpu_function *aorta_gpu_function_of(struct gpu_device *device, const void *handle);
/* The function is allowed this much dynamic shared memory. */
aorta_status aorta_gpu_allow_shared(struct gpu_device *device, struct gpu_function *function, uint32_t bytes);
aorta_status aorta_gpu_check_parameters(const struct gpu_function *function, size_t bytes);
/* The launch itself, on the vendor's stream. */
aorta_status aorta_gpu_launch_now(struct gpu_device *device, void *stream, struct gpu_function *function,
                                  const struct aorta_gpu_grid *grid, void *args, struct gpu_times times);
void aorta_gpu_functions_begin(struct gpu_functions *functions);
void aorta_gpu_functions_end(struct gpu_device *device);
/* Finds the function, compiling and loading it when need be. */
aorta_status aorta_gpu_function(struct gpu_device *device, const struct aorta_gpu_entry *entry,
                                struct gpu_function **function);

/* ---- compile_ahead.c: with the lock of the functions held ---- */

/* Waits for the source's thread, if there is one: true, and *status and what else aorta_gpu_compile would give. */
bool aorta_gpu_take_expected(struct gpu_functions *functions, const struct aorta_gpu_source *source, char **code,
                             size_t *bytes, aorta_status *status);
void aorta_gpu_expected_end(struct gpu_functions *functions);

/* ---- prepared.c ---- */

struct gpu_shot { /* one launch with everything that the vendor's call takes */
    struct gpu_function *function;
    struct aorta_gpu_grid grid; /* no zeros */
    void *args;                 /* owned */
};

struct gpu_prepared {
    struct aorta_prepared base;
    struct gpu_shot *shots;
    size_t count;
};
/* What aorta_gpu_launch does on a stream that prepares. */
aorta_status aorta_gpu_prepared_add(struct gpu_stream *stream, const struct aorta_gpu_entry *entry,
                                    const struct aorta_gpu_grid *grid, const void *args, size_t bytes);
aorta_status aorta_gpu_prepared_make(struct aorta_prepared *prepared);
aorta_status aorta_gpu_prepared_launch(struct aorta_prepared *const *items, size_t count);
void aorta_gpu_prepared_end(struct aorta_prepared *prepared);

/* ---- kernels.c ---- */

enum { GPU_STAMPS = 4 }; /* timestamps that one kernel writes */
struct gpu_stamp_args {
    void *clock;                /* NULL: slots[0] gets a reading of the timer, not a time */
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
enum { GPU_TOLD = 192 }; /* that one kernel turns into times */
struct gpu_told_args {
    void *clock;
    int64_t count;
    struct gpu_told_row {
        int64_t *slot;
        unsigned long long *reading;
    } rows[GPU_TOLD];
};
extern const struct aorta_gpu_entry aorta_gpu_stamp, aorta_gpu_stamp_reading, aorta_gpu_witness, aorta_gpu_told,
    aorta_gpu_clock_set, aorta_gpu_clock_ping;
enum { GPU_CLOCK_PAGE_BYTES = 256 };

struct gpu_room_args {
    struct gpu_stamp_args stamp;
    void *never; /* NULL */
};
/* Kernels that write a stamp, by the registers that a thread of theirs takes, ascending. */
enum { GPU_ROOM_STAMPS = 11 };
extern const struct aorta_gpu_entry aorta_gpu_room_stamps[GPU_ROOM_STAMPS];

/* ---- room.c: footprints ---- */

bool aorta_gpu_tells_footprints(const struct aorta_device *device);
/* What the largest kernel of the vendor's graph needs, if that is known and a stamp can take as much; else zeros. */
aorta_status aorta_gpu_graph_footprint(struct gpu_device *device, void *graph, struct aorta_footprint *footprint);
aorta_status aorta_gpu_timestamp_room(struct aorta_stream *stream, const struct aorta_footprint *footprint,
                                      int64_t *slot);

/* ---- note.c ---- */

struct gpu_note;
struct gpu_notes { /* without repetition; zeros: empty */
    struct gpu_note **items;
    size_t count;
};
bool aorta_gpu_notes_copy(struct gpu_notes *notes, const struct gpu_notes *from); /* false: no memory */
aorta_status aorta_gpu_notes_read(const struct gpu_notes *notes);                 /* the first failure */
void aorta_gpu_notes_free(struct gpu_notes *notes);
/* Who waits for `stream` reads these, too. `lock` guards them; NULL: nothing else changes them. */
aorta_status aorta_gpu_notes_carry(struct gpu_stream *stream, struct gpu_notes *from, pthread_mutex_t *lock);

/* ---- verdict.c: what became of a stream's host calls ---- */

struct gpu_verdict {
    _Atomic int references; /* the stream's, its queued calls', and those of events behind them */
    _Atomic bool failed;
    _Atomic uint64_t done; /* the calls up to this one have ended, and with them the graphs' before it */
    pthread_mutex_t lock;
    uint64_t position; /* of the call that failed; 0: a note */
    aorta_status failure;
    struct gpu_notes notes;
};
struct gpu_verdict *aorta_gpu_stream_verdict(struct gpu_stream *stream); /* made if need be; NULL: no memory */
struct gpu_verdict *aorta_gpu_verdict_retain(struct gpu_verdict *verdict);
void aorta_gpu_verdict_release(struct gpu_verdict *verdict); /* NULL is fine */
/* A copy of the failure if it was at `position` or before, or of what a note says now; NULL: none, so far. */
aorta_status aorta_gpu_verdict_at(struct gpu_verdict *verdict, uint64_t position);
/* Queues a call that fails `stream` if the calls of `from` up to `position` failed. */
aorta_status aorta_gpu_verdict_carry(struct gpu_stream *stream, struct gpu_verdict *from, uint64_t position);

/* Whose failure the host calls of a graph are: set anew for each run. */
struct gpu_run {
    struct gpu_verdict *verdict;
    uint64_t position;
    struct gpu_graph_call *calls; /* owned */
};
void aorta_gpu_run_free(struct gpu_run *run);
aorta_status aorta_gpu_run_begin(struct gpu_stream *stream, struct gpu_run *run); /* queued before the graph */

/* ---- the objects ---- */

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
    struct gpu_mark_pool *marks;
    _Atomic(struct gpu_partition *) partitions; /* limit.c's */
};

struct gpu_stream {
    struct aorta_stream base;
    void *handle;
    aorta_status failure;           /* sticky; owned */
    struct gpu_verdict *verdict;    /* NULL: no host call or note yet */
    uint64_t host_calls;            /* ever queued */
    struct gpu_branch *branch;      /* while captured */
    int64_t *stamps[GPU_STAMPS];    /* timestamps asked for since the last command of a capture */
    uint32_t stamp_count;           /* of them */
    bool stamps_aside;              /* nothing needs to wait for any of them */
    int64_t *next_begins;           /* when the next command does; NULL: nobody asks */
    struct gpu_held *held;          /* the last launch waits for what comes next; NULL: timestamps are not deferred */
    struct gpu_told *told[2];       /* by kernels outside captures; NULL: none yet */
    int telling;                    /* which of them is not delivered yet */
    const char *last;               /* last kernel launched, for messages; static */
    struct gpu_prepared *preparing; /* launches are kept in it and not queued; NULL: they are queued */
};

struct gpu_aside { /* zeros until it is used */
    void *stream, *event;
};

struct gpu_branch { /* what one stream does in a capture */
    struct capture_branch base;
    struct gpu_capture *capture;
    struct gpu_stream *stream; /* NULL: destroyed meanwhile */
    void *doomed;              /* its handle then, to be destroyed at the end of the capture */
    struct gpu_aside aside;    /* its timestamps that nothing waits for */
};

struct gpu_capture {
    struct capture_state state;
    struct gpu_branch **branches;
    size_t branch_count;
    struct gpu_run *run; /* NULL: no host call inside */
    struct gpu_notes notes;
    struct gpu_told *told;         /* NULL: no kernel is asked for its times */
    struct gpu_aside_note *asides; /* owned: kernels to be added at the end */
    size_t note_count, note_room;
};

/* One place in a stream: an event of the vendor's, and where the device writes the time. While an earlier record may
 * still be on its way, an event recorded on another stream takes a new one. */
struct gpu_mark {
    void *handle;
    int64_t *slot;                   /* pinned */
    const struct gpu_stream *stream; /* recorded on; only compared */
    bool captured;                   /* recorded in a capture: nothing is on its way */
    aorta_status failure;            /* the stream's when it was queued; owned */
    struct gpu_verdict *verdict;     /* the stream's; NULL: it had none */
    uint64_t position;               /* host calls before it */
    struct gpu_mark *next;
};

struct gpu_event {
    struct aorta_event base;
    pthread_mutex_t lock;
    struct gpu_mark *mark;       /* of the last record; NULL: never recorded */
    struct gpu_capture *capture; /* the last record was made in it; holds a reference */
    struct reach reach;          /* capture: what that record has behind it */
    char recorded_on[64];
};

static inline struct gpu_device *gpu_device(const struct aorta_device *device) {
    return (struct gpu_device *)(uintptr_t)device;
}
static inline struct gpu_stream *gpu_stream(struct aorta_stream *stream) {
    return (struct gpu_stream *)stream;
}
static inline struct gpu_event *gpu_event(struct aorta_event *event) {
    return (struct gpu_event *)event;
}
static inline struct gpu_device *device_of(const struct gpu_stream *stream) {
    return gpu_device(stream->base.device);
}
static inline const struct gpu_api *api_of(const struct gpu_stream *stream) {
    return &device_of(stream)->driver.api;
}

/* ---- stream.c ---- */

/* Before anything is queued: the context is made current and timestamps asked for are on their way. *skip: the stream
 * has failed, nothing more runs on it. */
aorta_status aorta_gpu_stream_enter(struct gpu_stream *stream, bool *skip);
/* Launches a kernel of the driver itself. */
aorta_status aorta_gpu_launch_own(struct gpu_device *device, void *stream, const struct aorta_gpu_entry *entry,
                                  void *args);
/* By so many threads of one block. */
aorta_status aorta_gpu_launch_wide(struct gpu_device *device, void *stream, const struct aorta_gpu_entry *entry,
                                   uint32_t threads, void *args);
/* What a refused call means: outside a capture the stream keeps it and NULL is returned, inside it breaks the capture.
 */
aorta_status aorta_gpu_stream_keep(struct gpu_stream *stream, aorta_status failure);
/* The same outside a capture, and returned as well. */
aorta_status aorta_gpu_stream_stick(struct gpu_stream *stream, aorta_status failure);
/* The launch held back and the timestamps asked for. */
aorta_status aorta_gpu_stream_write_stamps(struct gpu_stream *stream);
/* A stamp of when a captured stream comes to a command that cannot tell its beginning to *slot; NULL: nobody asks. */
aorta_status aorta_gpu_stream_write_next(struct gpu_stream *stream, int64_t *slot);
aorta_status aorta_gpu_stream_failure(struct gpu_stream *stream); /* a copy, host calls' included; NULL: none */

/* The number that the vendor has for a priority. */
int aorta_gpu_priority(const struct gpu_device *device, enum aorta_priority priority);

/* ---- aside.c: in captures ---- */

/* A stamp behind what the stream has queued. */
aorta_status aorta_gpu_aside_stamp(struct gpu_stream *stream, struct gpu_stamp_args *args);
/* Adds a kernel that leaves readings behind that place, when all else has been captured: of now, as begun
 * (aorta_gpu_stamp_reading), or of both ends of the kernels there (aorta_gpu_witness). */
aorta_status aorta_gpu_aside_note(struct gpu_stream *stream, const struct aorta_gpu_entry *entry,
                                  const struct aorta_frontier *place, struct gpu_times readings);
/* Before the capture ends: all kernels noted are added, and `origin` comes behind them. */
aorta_status aorta_gpu_asides_add(struct gpu_capture *capture, struct gpu_stream *origin);
void aorta_gpu_aside_close(const struct gpu_api *api, struct gpu_aside *aside); /* nothing of it is captured any more */

/* ---- node.c: of captures ---- */

struct gpu_kernel_node { /* CUDA_KERNEL_NODE_PARAMS_v2 of cuda.h; tests/device/signatures.cc compares */
    void *function;
    unsigned grid[3], block[3], shared_bytes;
    void **parameters, **extra;
    void *kernel, *context; /* where function is NULL */
};

bool aorta_gpu_is_kernel(const struct gpu_api *api, void *node);
/* False: it is no kernel, or the driver does not tell. The pointers inside belong to the node. */
bool aorta_gpu_read_kernel(const struct gpu_api *api, void *node, struct gpu_kernel_node *kernel);
/* What comes next on a captured stream of the vendor's; the result is the vendor's code. A count above
 * AORTA_FRONTIER_MOST: that many, not all of them are there. */
int aorta_gpu_find_frontier(const struct gpu_api *api, void *stream, struct aorta_frontier *frontier);
bool aorta_gpu_frontier(struct aorta_stream *stream, struct aorta_frontier *frontier);

/* ---- told.c: of captures, and of streams whose timestamps are deferred ---- */

enum { GPU_PARAMETERS_MOST = 4096 }; /* bytes of a kernel's parameters; kernels with more tell no ends */

/* A cell for a reading that becomes *slot; NULL: there is no memory. And another slot of the same cell: false, no
 * memory. */
unsigned long long *aorta_gpu_told_cell(struct gpu_stream *stream, int64_t *slot);
bool aorta_gpu_told_also(struct gpu_stream *stream, unsigned long long *cell, int64_t *slot);
/* Outside captures, where timestamps are deferred: the stamp leaves a reading that will become the times. */
void aorta_gpu_told_stamp(struct gpu_stream *stream, struct gpu_stamp_args *args);
/* Lets a kernel that is about to be launched tell *slot when it has begun; false, and nothing done: it cannot. */
bool aorta_gpu_told_begin(struct gpu_stream *stream, const struct gpu_function *function, int64_t *slot,
                          struct gpu_times *times);
/* Lets the kernel queued last tell *slot when it has ended; false, and nothing done: it cannot. */
bool aorta_gpu_told_end(struct gpu_stream *stream, int64_t *slot);
/* Behind all of them: what kernels told becomes times. Its memory stays. */
aorta_status aorta_gpu_told_write(const struct gpu_told *told, struct gpu_stream *stream);
aorta_status aorta_gpu_timestamps_deliver(struct aorta_stream *stream, struct aorta_stream *const *of, size_t count);
void aorta_gpu_told_free(struct gpu_device *device, struct gpu_told *told); /* NULL is fine */

/* ---- held.c ---- */

struct gpu_held {                  /* a launch that waits */
    struct gpu_function *function; /* NULL: it has been made */
    struct aorta_gpu_grid grid;
    struct gpu_times times; /* what it was asked for, if it is the last command of its stream */
    _Alignas(16) unsigned char args[GPU_PARAMETERS_MOST];
};
aorta_status aorta_gpu_timestamps_defer(struct aorta_stream *stream);
/* Keeps the launch back, if that is how the stream is used and its kernel can tell its end; false: it is to be made. */
bool aorta_gpu_hold(struct gpu_stream *stream, struct gpu_function *function, const struct aorta_gpu_grid *grid,
                    const void *args, size_t bytes, struct gpu_times times);
/* Makes the launch: behind a question for its end, which may be asked again, and before anything else is queued. */
aorta_status aorta_gpu_launch_held(struct gpu_stream *stream);
aorta_status aorta_gpu_release_held(struct gpu_stream *stream);

/* ---- witness.c: in captures ---- */

bool aorta_gpu_witnesses(const struct aorta_device *device);
aorta_status aorta_gpu_witness_kernel(struct aorta_stream *stream, int64_t *begin, int64_t *end);

/* ---- limit.c ---- */

aorta_status aorta_gpu_cuda_limited_stream(struct gpu_device *device, double share, enum aorta_priority priority,
                                           void **stream);
aorta_status aorta_gpu_hip_limited_stream(struct gpu_device *device, double share, enum aorta_priority priority,
                                          void **stream);
void aorta_gpu_partitions_close(struct gpu_device *device);

/* ---- event.c ---- */

aorta_status aorta_gpu_marks_open(struct gpu_device *device);
void aorta_gpu_marks_close(struct gpu_device *device);

/* ---- capture.c: told only of captured streams or events; the event is locked ---- */

aorta_status aorta_gpu_capture_record(struct gpu_branch *branch, struct gpu_event *event);
aorta_status aorta_gpu_capture_wait(struct gpu_stream *stream, struct gpu_event *event);
void aorta_gpu_capture_leave(struct gpu_stream *stream); /* a captured stream is being destroyed */
void aorta_gpu_capture_release(struct gpu_capture *capture);

/* ---- members of the table ---- */

aorta_status aorta_gpu_stream_create(struct aorta_device *device, const char *name, enum aorta_priority priority,
                                     struct aorta_stream **stream);
aorta_status aorta_gpu_stream_limit(struct aorta_stream *stream, double share, int part);
void aorta_gpu_stream_destroy(struct aorta_stream *stream);
aorta_status aorta_gpu_stream_synchronize(struct aorta_stream *stream);
bool aorta_gpu_stream_idle(struct aorta_stream *stream);
aorta_status aorta_gpu_stream_launch(struct aorta_stream *stream, const struct aorta_kernel *kernel, const void *args,
                                     size_t bytes);
aorta_status aorta_gpu_host_call(struct aorta_stream *stream, aorta_status (*function)(void *user), void *user);
aorta_status aorta_gpu_copy(struct aorta_stream *stream, void *to, const void *from, size_t bytes);
aorta_status aorta_gpu_fill_bytes(struct aorta_stream *stream, void *to, int value, size_t bytes);
aorta_status aorta_gpu_timestamp(struct aorta_stream *stream, int64_t *slot);
aorta_status aorta_gpu_timestamp_aside(struct aorta_stream *stream, int64_t *slot);
aorta_status aorta_gpu_timestamp_next(struct aorta_stream *stream, int64_t *slot);

aorta_status aorta_gpu_event_create(struct aorta_device *device, struct aorta_event **event);
void aorta_gpu_event_destroy(struct aorta_event *event);
aorta_status aorta_gpu_event_record(struct aorta_event *event, struct aorta_stream *stream);
aorta_status aorta_gpu_stream_wait(struct aorta_stream *stream, struct aorta_event *event);
aorta_status aorta_gpu_event_synchronize(struct aorta_event *event);
bool aorta_gpu_event_done(struct aorta_event *event);
aorta_status aorta_gpu_event_time(struct aorta_event *event, int64_t *time_ns);

aorta_status aorta_gpu_capture_begin(struct aorta_stream *stream);
aorta_status aorta_gpu_capture_end(struct aorta_stream *stream, struct aorta_graph **graph);
aorta_status aorta_gpu_capture_footprint(struct aorta_stream *stream, struct aorta_footprint *footprint);
bool aorta_gpu_stream_capturing(const struct aorta_stream *stream);
aorta_status aorta_gpu_graph_launch(struct aorta_graph *graph, struct aorta_stream *stream);
void aorta_gpu_graph_destroy(struct aorta_graph *graph);

#endif
