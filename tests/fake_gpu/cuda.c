/* The fake libcuda: each function of cuda.def, on the CPU device. */
#include "base/clock.h"
#include "device/gpu/driver.h"
#include "fake_gpu/fake_gpu.h"
#include "fake_gpu/held.h"
#include "fake_gpu/queues.h"
#include "ops/kernels.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum {
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    NOT_FOUND = 500,
    NOT_SUPPORTED = 801,
    LAUNCH_FAILED = 719,
    NOT_READY = 600,
    MEMORY_BYTES = 1 << 30,
};

/* ---- what fails ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    char symbol[64], failed[64];
    int nth, code, lasting, calls, devices, version;
} control = {.devices = 1, .version = 13000};

static void set_failure(const char *symbol, int nth, int code, int lasting) {
    pthread_mutex_lock(&lock);
    snprintf(control.symbol, sizeof control.symbol, "%s", symbol ? symbol : "");
    control.failed[0] = '\0';
    control.nth = nth;
    control.code = code;
    control.lasting = lasting;
    control.calls = 0;
    pthread_mutex_unlock(&lock);
}

static int count_calls(void) {
    pthread_mutex_lock(&lock);
    int calls = control.calls;
    pthread_mutex_unlock(&lock);
    return calls;
}

static const char *last_failed(void) {
    return control.failed;
}

static void set_devices(int count) {
    control.devices = count;
}

static void set_version(int version) {
    control.version = version;
}

/* FAKE_GPU_STRIKE=symbol:nth:code[:lasting], for programs that cannot be told otherwise; of several ranks only
 * FAKE_GPU_STRIKE_RANK. */
static void read_environment(void) {
    const char *strike = getenv("FAKE_GPU_STRIKE"), *only = getenv("FAKE_GPU_STRIKE_RANK"), *rank = getenv("RANK");
    char symbol[64];
    int nth, code, lasting = 0;
    if (!strike || (only && rank && strcmp(only, rank) != 0)) return;
    if (sscanf(strike, "%63[^:]:%d:%d:%d", symbol, &nth, &code, &lasting) >= 3)
        set_failure(symbol, nth, code, lasting);
    else
        fprintf(stderr, "fake GPU: FAKE_GPU_STRIKE=%s says nothing\n", strike);
}

static int check(const char *symbol) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int code = 0;
    pthread_once(&once, read_environment);
    pthread_mutex_lock(&lock);
    bool any = strcmp(control.symbol, "*") == 0;
    if (any) control.calls++;
    if (!any && strcmp(control.symbol, symbol) == 0) control.calls++, any = true;
    if (any && control.nth && (control.calls == control.nth || (control.lasting && control.calls > control.nth))) {
        code = control.code;
        snprintf(control.failed, sizeof control.failed, "%s", symbol);
    }
    pthread_mutex_unlock(&lock);
    return code;
}

/* Opens every function: returns what the test wants to fail. */
#define ENTER()                                                                                                        \
    do {                                                                                                               \
        int wanted_code = check(__func__);                                                                             \
        if (wanted_code) return wanted_code;                                                                           \
    } while (0)

static int translate(aorta_status status) {
    if (!status) return 0;
    int code = aorta_status_code(status) == AORTA_MEMORY ? OUT_OF_MEMORY : LAUNCH_FAILED;
    aorta_status_free(status);
    return code;
}

/* ---- the device ---- */

static struct aorta_device *device;
static int context_count;

EXPORT int cuInit(unsigned flags);
/* As NVIDIA's driver does: the library named by CUDA_INJECTION64_PATH is loaded and called once, before anything else.
 */
static void inject(void) {
    const char *path = getenv("CUDA_INJECTION64_PATH");
    void *library = path && *path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    void *symbol = library ? dlsym(library, "InitializeInjection") : NULL;
    int (*initialise)(void);
    memcpy(&initialise, &symbol, sizeof initialise);
    if (initialise) initialise();
}

int cuInit(unsigned flags) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    ENTER();
    pthread_once(&once, inject);
    if (getenv("FAKE_GPU_TELL_CONNECTIONS"))
        fprintf(stderr, "fake GPU: %s connections\n", getenv("CUDA_DEVICE_MAX_CONNECTIONS"));
    return flags ? INVALID_VALUE : 0;
}

EXPORT int cuDriverGetVersion(int *version);
int cuDriverGetVersion(int *version) {
    ENTER();
    *version = control.version;
    return 0;
}

EXPORT int cuDeviceGetCount(int *count);
int cuDeviceGetCount(int *count) {
    ENTER();
    *count = control.devices;
    return 0;
}

EXPORT int cuDeviceGet(int *handle, int ordinal);
int cuDeviceGet(int *handle, int ordinal) {
    ENTER();
    if (ordinal >= control.devices) return INVALID_DEVICE;
    *handle = ordinal;
    return 0;
}

EXPORT int cuDeviceGetName(char *name, int length, int handle);
int cuDeviceGetName(char *name, int length, int handle) {
    ENTER();
    snprintf(name, (size_t)length, "Fake GPU %d", handle);
    return 0;
}

EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int handle);
int cuDeviceTotalMem_v2(size_t *bytes, int handle) {
    ENTER();
    (void)handle;
    *bytes = MEMORY_BYTES;
    return 0;
}

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int handle);
int cuDeviceGetAttribute(int *value, int attribute, int handle) {
    static const int values[][2] = {{16, 4},        {10, 32},      {1, 1024}, {39, 2048}, {97, 227 * 1024},
                                    {8, 48 * 1024}, {38, 1 << 20}, {75, 9},   {76, 0},    {41, 1}};
    ENTER();
    (void)handle;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        if (values[i][0] != attribute) continue;
        *value = values[i][1];
        return 0;
    }
    return INVALID_VALUE;
}

EXPORT int cuDeviceGetPCIBusId(char *id, int length, int handle);
int cuDeviceGetPCIBusId(char *id, int length, int handle) {
    ENTER();
    snprintf(id, (size_t)length, "0000:%02X:00.0", handle + 1);
    return 0;
}

EXPORT int cuDeviceCanAccessPeer(int *possible, int handle, int peer);
int cuDeviceCanAccessPeer(int *possible, int handle, int peer) {
    ENTER();
    *possible = handle != peer;
    return 0;
}

EXPORT int cuCtxEnablePeerAccess(void *context, unsigned flags);
int cuCtxEnablePeerAccess(void *context, unsigned flags) {
    ENTER();
    return context && !flags ? 0 : INVALID_VALUE;
}

EXPORT int cuDevicePrimaryCtxRetain(void **context, int handle);
int cuDevicePrimaryCtxRetain(void **context, int handle) {
    ENTER();
    (void)handle;
    pthread_mutex_lock(&lock);
    int result = 0;
    if (!context_count) {
        result = translate(aorta_device_open(AORTA_DEVICE_CPU, 0, &device));
        if (!result) aorta_device_limit_memory(device, MEMORY_BYTES);
    }
    if (!result) context_count++;
    *context = device;
    pthread_mutex_unlock(&lock);
    return result;
}

EXPORT int cuDevicePrimaryCtxGetState(int handle, unsigned *flags, int *active);
int cuDevicePrimaryCtxGetState(int handle, unsigned *flags, int *active) {
    ENTER();
    (void)handle;
    pthread_mutex_lock(&lock);
    *flags = 0;
    *active = context_count > 0;
    pthread_mutex_unlock(&lock);
    return 0;
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int handle);
int cuDevicePrimaryCtxRelease_v2(int handle) {
    int wanted = check(__func__); /* what is destroyed is gone all the same */
    (void)handle;
    pthread_mutex_lock(&lock);
    if (--context_count == 0) {
        fake_held_end();
        aorta_device_close(device);
    }
    pthread_mutex_unlock(&lock);
    return wanted;
}

EXPORT int cuCtxSetCurrent(void *context);
int cuCtxSetCurrent(void *context) {
    ENTER();
    return context == device ? 0 : INVALID_VALUE;
}

EXPORT int cuCtxGetStreamPriorityRange(int *least, int *greatest);
int cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    ENTER();
    *least = 0;
    *greatest = -5;
    return 0;
}

EXPORT int cuGetErrorName(int error, const char **name);
int cuGetErrorName(int error, const char **name) {
    static const struct {
        int code;
        const char *name;
    } names[] = {{INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"}, {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
                 {NO_DEVICE, "CUDA_ERROR_NO_DEVICE"},         {INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE"},
                 {NOT_FOUND, "CUDA_ERROR_NOT_FOUND"},         {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
                 {LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (names[i].code != error) continue;
        *name = names[i].name;
        return 0;
    }
    return INVALID_VALUE;
}

EXPORT int cuGetErrorString(int error, const char **text);
int cuGetErrorString(int error, const char **text) {
    static char texts[1000][32];
    if (error < 0 || error >= 1000) return INVALID_VALUE;
    pthread_mutex_lock(&lock);
    snprintf(texts[error], sizeof texts[error], "text of error %d", error);
    pthread_mutex_unlock(&lock);
    *text = texts[error];
    return 0;
}

/* ---- memory ---- */

EXPORT int cuMemAlloc_v2(void **memory, size_t bytes);
int cuMemAlloc_v2(void **memory, size_t bytes) {
    ENTER();
    return translate(aorta_device_alloc(device, bytes, "fake", memory));
}

EXPORT int cuMemFree_v2(void *memory);
int cuMemFree_v2(void *memory) {
    int wanted = check(__func__); /* what is destroyed is gone all the same */
    aorta_device_free(device, memory);
    return wanted;
}

EXPORT int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes);
int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
    ENTER();
    *total_bytes = MEMORY_BYTES;
    *free_bytes = MEMORY_BYTES - aorta_device_memory(device).allocated;
    return 0;
}

EXPORT int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags);
int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
    ENTER();
    (void)flags;
    return translate(aorta_pinned_alloc(device, bytes, "fake", memory));
}

EXPORT int cuMemFreeHost(void *memory);
int cuMemFreeHost(void *memory) {
    int wanted = check(__func__); /* what is destroyed is gone all the same */
    aorta_pinned_free(device, memory);
    return wanted;
}

/* ---- streams and events ---- */

EXPORT int cuStreamCreateWithPriority(void **stream, unsigned flags, int priority);
int cuStreamCreateWithPriority(void **stream, unsigned flags, int priority) {
    ENTER();
    (void)flags;
    enum aorta_priority own = priority == 0 ? AORTA_PRIORITY_LOW : AORTA_PRIORITY_NORMAL;
    int result = translate(aorta_stream_create(device, "fake", own, (struct aorta_stream **)stream));
    if (!result) fake_queues_add(device, *stream);
    return result;
}

/* Of four multiprocessors, any two. */
struct fake_resource {
    int type;
    unsigned char internal[92];
    unsigned count, smallest, step;
};

EXPORT int cuDeviceGetDevResource(int handle, struct fake_resource *resource, int type);
int cuDeviceGetDevResource(int handle, struct fake_resource *resource, int type) {
    ENTER();
    (void)handle;
    if (type != 1) return INVALID_VALUE;
    *resource = (struct fake_resource){.type = type, .count = 4, .smallest = 2, .step = 2};
    return 0;
}

EXPORT int cuDevSmResourceSplitByCount(struct fake_resource *result, unsigned *groups,
                                       const struct fake_resource *input, struct fake_resource *remaining,
                                       unsigned flags, unsigned count);
int cuDevSmResourceSplitByCount(struct fake_resource *result, unsigned *groups, const struct fake_resource *input,
                                struct fake_resource *remaining, unsigned flags, unsigned count) {
    ENTER();
    (void)remaining;
    if (input->type != 1 || flags || count > input->count || *groups != 1) return INVALID_VALUE;
    *result = *input;
    result->count = (count + 1) / 2 * 2;
    return 0;
}

EXPORT int cuDevResourceGenerateDesc(void **description, struct fake_resource *resources, unsigned count);
int cuDevResourceGenerateDesc(void **description, struct fake_resource *resources, unsigned count) {
    ENTER();
    if (count != 1 || resources->type != 1) return INVALID_VALUE;
    *description = (void *)(uintptr_t)resources->count;
    return 0;
}

static int green_contexts;

EXPORT int cuGreenCtxCreate(void **context, void *description, int handle, unsigned flags);
int cuGreenCtxCreate(void **context, void *description, int handle, unsigned flags) {
    ENTER();
    (void)handle;
    if (flags != 1) return INVALID_VALUE;
    pthread_mutex_lock(&lock);
    green_contexts++;
    pthread_mutex_unlock(&lock);
    *context = description;
    return 0;
}

EXPORT int cuGreenCtxDestroy(void *context);
int cuGreenCtxDestroy(void *context) {
    int wanted = check(__func__); /* what is destroyed is gone all the same */
    pthread_mutex_lock(&lock);
    green_contexts--;
    pthread_mutex_unlock(&lock);
    return context ? wanted : INVALID_VALUE;
}

static _Atomic unsigned long long graph_flags;

static unsigned long long tell_graph_flags(void) {
    return atomic_load(&graph_flags);
}

static int count_green_contexts(void) {
    pthread_mutex_lock(&lock);
    int count = green_contexts;
    pthread_mutex_unlock(&lock);
    return count;
}

static _Atomic int held_blocks;

static int count_held(void) {
    return atomic_load(&held_blocks);
}

static int launch_as_kernel(void *stream, const struct fake_shape *shape, void (*function)(void *user), void *user);

EXPORT extern const struct fake_gpu_control fake_gpu_control;
const struct fake_gpu_control fake_gpu_control = {set_failure,      count_calls, last_failed,
                                                  set_devices,      set_version, count_green_contexts,
                                                  tell_graph_flags, count_held,  launch_as_kernel};

EXPORT int cuGreenCtxStreamCreate(void **stream, void *context, unsigned flags, int priority);
int cuGreenCtxStreamCreate(void **stream, void *context, unsigned flags, int priority) {
    ENTER();
    if (!context || flags != 1) return INVALID_VALUE;
    enum aorta_priority own = priority == 0 ? AORTA_PRIORITY_LOW : AORTA_PRIORITY_NORMAL;
    return translate(aorta_stream_create(device, "fake", own, (struct aorta_stream **)stream));
}

EXPORT int cuStreamDestroy_v2(void *stream);
int cuStreamDestroy_v2(void *stream) {
    int wanted = check(__func__); /* what is destroyed is gone all the same */
    fake_queues_remove(stream);
    aorta_stream_destroy(stream);
    return wanted;
}

EXPORT int cuStreamSynchronize(void *stream);
int cuStreamSynchronize(void *stream) {
    ENTER();
    return translate(aorta_stream_synchronize(stream));
}

EXPORT int cuStreamQuery(void *stream);
int cuStreamQuery(void *stream) {
    ENTER();
    return aorta_stream_idle(stream) ? 0 : NOT_READY;
}

EXPORT int cuStreamWaitEvent(void *stream, void *event, unsigned flags);
int cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
    ENTER();
    return flags ? INVALID_VALUE : translate(aorta_stream_wait(stream, event));
}

EXPORT int cuEventCreate(void **event, unsigned flags);
int cuEventCreate(void **event, unsigned flags) {
    ENTER();
    (void)flags;
    int result = translate(aorta_event_create(device, (struct aorta_event **)event));
    if (!result) fake_hold(*event);
    return result;
}

EXPORT int cuEventDestroy_v2(void *event);
int cuEventDestroy_v2(void *event) {
    int wanted = check(__func__); /* what is destroyed is gone all the same */
    fake_let_go(event);
    aorta_event_destroy(event);
    return wanted;
}

EXPORT int cuEventRecord(void *event, void *stream);
int cuEventRecord(void *event, void *stream) {
    ENTER();
    return translate(aorta_event_record(event, stream));
}

EXPORT int cuEventSynchronize(void *event);
int cuEventSynchronize(void *event) {
    ENTER();
    return translate(aorta_event_synchronize(event));
}

EXPORT int cuEventQuery(void *event);
int cuEventQuery(void *event) {
    ENTER();
    return aorta_event_done(event) ? 0 : NOT_READY;
}

/* ---- what captured streams do ---- */

struct function;
struct host_call;

/* A kernel of the capture that this thread makes, later of its graph. */
struct node {
    struct node *next;
    struct function *function;
    unsigned blocks, block[3], shared_bytes, cluster;
    struct aorta_event *before;   /* recorded right before it */
    const struct host_call *call; /* that looks like this kernel */
};
static _Thread_local struct node *captured_nodes;
static struct node other_node; /* copies, host calls and the like */

/* What the streams of that capture did last. */
struct last {
    const void *stream;
    struct node *node;    /* NULL: nothing */
    struct node *awaited; /* the next command comes behind the beginning of this one, and has to be a kernel */
};
enum { CAPTURED_STREAMS = 64 };
static _Thread_local struct last captured_streams[CAPTURED_STREAMS];

static struct last *last_on(const void *stream) {
    for (int i = 0; i < CAPTURED_STREAMS; i++) {
        struct last *last = &captured_streams[i];
        if (last->stream && last->stream != stream) continue;
        last->stream = stream;
        return last;
    }
    fprintf(stderr, "fake GPU: more than %d streams in a capture\n", CAPTURED_STREAMS);
    abort();
}

/* A copy, a fill or a host call: nothing for which a kernel's beginning may be waited for. */
static int note_other(void *stream) {
    if (!aorta_stream_capturing(stream)) return 0;
    struct last *last = last_on(stream);
    if (last->awaited) return INVALID_VALUE;
    last->node = &other_node;
    return 0;
}

static struct node *note_launch(void *stream, struct function *function, unsigned blocks, const unsigned *block,
                                unsigned shared_bytes, unsigned cluster) {
    if (!aorta_stream_capturing(stream)) return NULL;
    struct node *node = calloc(1, sizeof *node);
    *node = (struct node){captured_nodes, function, blocks, {block[0], block[1], block[2]},
                          shared_bytes,   cluster,  NULL,   NULL};
    aorta_status_free(aorta_event_create_untimed(aorta_stream_device(stream), &node->before));
    if (node->before) aorta_status_free(aorta_event_record(node->before, stream));
    captured_nodes = node;
    *last_on(stream) = (struct last){stream, node, NULL};
    return node;
}

static void free_nodes(struct node **nodes) {
    while (*nodes) {
        struct node *node = *nodes;
        *nodes = node->next;
        free(node);
    }
}

/* The events order what is captured, and are not needed by the graph. */
static void end_nodes(struct node *nodes) {
    for (struct node *node = nodes; node; node = node->next) {
        if (node->before) aorta_event_destroy(node->before);
        node->before = NULL;
    }
    memset(captured_streams, 0, sizeof captured_streams);
}

EXPORT int cuMemcpyAsync(void *to, void *from, size_t bytes, void *stream);
int cuMemcpyAsync(void *to, void *from, size_t bytes, void *stream) {
    ENTER();
    int refused = note_other(stream);
    if (refused) return refused;
    fake_queues_enter(stream);
    int result = translate(aorta_copy(stream, to, from, bytes));
    fake_queues_leave(stream);
    return result;
}

EXPORT int cuMemsetD8Async(void *to, unsigned char value, size_t bytes, void *stream);
int cuMemsetD8Async(void *to, unsigned char value, size_t bytes, void *stream) {
    ENTER();
    int refused = note_other(stream);
    return refused ? refused : translate(aorta_fill_bytes(stream, to, value, bytes));
}

/* Calls stay for as long as the library, since a graph may run one again and again. */
static struct host_call {
    struct host_call *next;
    void (*function)(void *user);
    void *user;
    int64_t begin, end; /* of the last run, by the device's timer */
} * host_calls;

static int64_t read_timer(void);

static aorta_status run_host_call(void *user) {
    struct host_call *call = user;
    call->begin = read_timer();
    call->function(call->user);
    call->end = read_timer();
    return NULL;
}

static int queue_host_call(void *stream, void (*function)(void *user), void *user, struct host_call **queued) {
    struct host_call *call = malloc(sizeof *call);
    if (!call) return OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    *call = (struct host_call){host_calls, function, user, 0, 0};
    host_calls = call;
    pthread_mutex_unlock(&lock);
    *queued = call;
    return translate(aorta_host_call(stream, run_host_call, call));
}

EXPORT int cuLaunchHostFunc(void *stream, void (*function)(void *user), void *user);
int cuLaunchHostFunc(void *stream, void (*function)(void *user), void *user) {
    ENTER();
    struct host_call *call;
    int refused = note_other(stream);
    return refused ? refused : queue_host_call(stream, function, user, &call);
}

/* ---- kernels ---- */

/* The device's own timer: another beginning than the host's clock, 40 in a million faster, ticks of 32 ns. */
static int64_t read_timer(void) {
    int64_t now = aorta_clock_ns();
    return (1000000000000000 + now + now / 25000) / 32 * 32;
}

struct clock_page {
    volatile int current;
    struct gpu_clock_line lines[2];
};

/* A GPU reads one line while the other is written; the languages of the host want a lock. */
static pthread_mutex_t page_lock = PTHREAD_MUTEX_INITIALIZER;

static int64_t device_time(const struct clock_page *page, int64_t timer) {
    pthread_mutex_lock(&page_lock);
    const struct gpu_clock_line *l = &page->lines[page->current];
    double ticks = (double)(timer - l->timer), slewed = ticks < l->slew_ticks ? ticks / l->slew_ticks : 1.0;
    int64_t time_ns = l->host_ns + (int64_t)(ticks * l->ns_per_tick + slewed * l->slew_ns);
    pthread_mutex_unlock(&page_lock);
    return time_ns;
}

static aorta_status run_stamp(const void *args) {
    const struct gpu_stamp_args *a = args;
    int64_t time_ns = device_time(a->clock, read_timer());
    for (int i = 0; i < GPU_STAMPS; i++) {
        if (a->slots[i]) *a->slots[i] = time_ns;
    }
    return NULL;
}

/* What it is a witness of is known when it is launched; of kernels of the program's own only the end is. */
struct witness_args {
    struct gpu_stamp_args stamps;
    const struct host_call *call;
};

static aorta_status run_witness(const void *args) {
    const struct witness_args *a = args;
    const int64_t now = read_timer(), begin = a->call ? a->call->begin : now, end = a->call ? a->call->end : now;
    if (a->stamps.slots[0]) *a->stamps.slots[0] = device_time(a->stamps.clock, begin);
    if (a->stamps.slots[1]) *a->stamps.slots[1] = device_time(a->stamps.clock, end);
    return NULL;
}

/* Of the operations' kernels the one that programs without kernels of their own are tested with. */
static aorta_status run_spin(const void *args) {
    const struct aorta_spin_args *a = args;
    int64_t start = read_timer(), end = start + a->duration_ns + a->duration_ns / 25000;
    for (int64_t left; (left = end - read_timer()) > 0;) {
        nanosleep(&(struct timespec){left / 1000000000, left % 1000000000}, NULL);
    }
    if (!a->stamps) return NULL;
    a->stamps[0] = device_time(a->clock, start);
    a->stamps[1] = device_time(a->clock, read_timer());
    return NULL;
}

static aorta_status run_clock_set(const void *args) {
    const struct gpu_clock_set_args *a = args;
    struct clock_page *page = a->clock;
    pthread_mutex_lock(&page_lock);
    page->lines[1 - page->current] = a->line;
    page->current = 1 - page->current;
    pthread_mutex_unlock(&page_lock);
    return NULL;
}

static _Atomic int host_cpu; /* where the last launch came from */

/* A GPU never shares a processor with the host; two threads that answer each other are often put on one. */
static void leave_host_cpu(void) {
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    CPU_CLR(atomic_load(&host_cpu), &allowed);
    if (CPU_COUNT(&allowed) > 0) sched_setaffinity(0, sizeof allowed, &allowed);
}

static void answer_pings(struct gpu_mailbox *box) {
    box->tick = 32;
    for (int ping = 1; ping <= GPU_PINGS; ping++) {
        int64_t begin = aorta_clock_ns();
        while (atomic_load(&box->request) >= 0 && atomic_load(&box->request) < ping) {
            int64_t waited_ns = aorta_clock_ns() - begin;
            if (waited_ns > 1000000000) return;
            if (waited_ns > 5000) sched_yield();
        }
        if (atomic_load(&box->request) < ping) return;
        box->timers[ping] = read_timer();
        atomic_store(&box->answer, ping);
    }
}

static aorta_status run_clock_ping(const void *args) {
    struct gpu_mailbox *box = *(struct gpu_mailbox *const *)args;
    cpu_set_t before;
    bool known = sched_getaffinity(0, sizeof before, &before) == 0;
    leave_host_cpu();
    if (known) answer_pings(box);
    if (known) sched_setaffinity(0, sizeof before, &before);
    return NULL;
}

/* Its arguments begin with those of a plain stamp. */
static aorta_status run_room(const void *args) {
    return run_stamp(args);
}

/* The same kernel, told to stay. All blocks find room at once, whatever else is there. */
struct stay {
    struct gpu_room_args room;
    int blocks;
};
static aorta_status run_stay(const void *args) {
    const struct stay *a = args;
    struct aorta_hold *hold = a->room.hold;
    int64_t begin = read_timer();
    atomic_fetch_add(&held_blocks, a->blocks);
    for (int i = 0; i < a->blocks; i++) __atomic_store_n(&hold->begun[i], 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&hold->release, __ATOMIC_ACQUIRE) && read_timer() - begin < a->room.hold_ticks)
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    atomic_fetch_sub(&held_blocks, a->blocks);
    return NULL;
}

#define ROOM_STAMP(registers)                                                                                          \
    {                                                                                                                  \
        "aorta_stamp_room_" #registers, {                                                                              \
            run_room, sizeof(struct gpu_room_args)                                                                     \
        }                                                                                                              \
    }
static const struct {
    const char *name;
    struct fake_kernel kernel;
} own_kernels[] = {
    {"aorta_stamp", {run_stamp, sizeof(struct gpu_stamp_args)}},
    {"aorta_witness", {run_witness, sizeof(struct gpu_stamp_args)}},
    {"aorta_clock_set", {run_clock_set, sizeof(struct gpu_clock_set_args)}},
    {"aorta_clock_ping", {run_clock_ping, sizeof(struct gpu_mailbox *)}},
    ROOM_STAMP(32),
    ROOM_STAMP(40),
    ROOM_STAMP(48),
    ROOM_STAMP(56),
    ROOM_STAMP(64),
    ROOM_STAMP(72),
    ROOM_STAMP(80),
    ROOM_STAMP(96),
    ROOM_STAMP(128),
    ROOM_STAMP(168),
    ROOM_STAMP(255),
    {"spin", {run_spin, sizeof(struct aorta_spin_args)}},
};

static aorta_status run_nothing(const void *args) {
    (void)args;
    return NULL;
}

/* FAKE_GPU_KERNELS=ignore: kernels that nobody has do nothing. */
static bool ignores_kernels(void) {
    const char *wish = getenv("FAKE_GPU_KERNELS");
    return wish && strcmp(wish, "ignore") == 0;
}

static const struct fake_kernel *find_kernel(const char *name) {
    static const struct fake_kernel nothing = {.run = run_nothing};
    for (size_t i = 0; i < sizeof own_kernels / sizeof *own_kernels; i++) {
        if (strcmp(own_kernels[i].name, name) == 0) return &own_kernels[i].kernel;
    }
    char symbol[128];
    snprintf(symbol, sizeof symbol, "fake_kernel_%s", name);
    const struct fake_kernel *found = dlsym(RTLD_DEFAULT, symbol);
    return found || !ignores_kernels() ? found : &nothing;
}

struct function {
    struct function *next;
    struct aorta_kernel kernel; /* of the CPU device */
    size_t bytes;
    int registers, shared_bytes;
    char name[64];
};

struct module {
    char *text;
    struct function *functions;
};

EXPORT int cuModuleLoadData(void **module, const void *image);
int cuModuleLoadData(void **module, const void *image) {
    ENTER();
    if (strncmp(image, "fake code\n", 10) != 0) return INVALID_IMAGE;
    struct module *made = calloc(1, sizeof *made);
    made->text = strdup(image);
    fake_hold(made);
    *module = made;
    return 0;
}

EXPORT int cuModuleUnload(void *module);
int cuModuleUnload(void *module) {
    int wanted = check(__func__); /* what is destroyed is gone all the same */
    struct module *gone = module;
    fake_let_go(gone);
    while (gone->functions) {
        struct function *function = gone->functions;
        gone->functions = function->next;
        free(function);
    }
    free(gone->text);
    free(gone);
    return wanted;
}

/* Stamps that take room have as many as their name says. */
static int registers_of(const char *name) {
    int registers = 32;
    sscanf(name, "aorta_stamp_room_%d", &registers);
    return registers;
}

EXPORT int cuModuleGetFunction(void **function, void *module, const char *name);
int cuModuleGetFunction(void **function, void *module, const char *name) {
    ENTER();
    struct module *of = module;
    bool there = strstr(of->text, name) || ignores_kernels(); /* names may be put together by macros */
    const struct fake_kernel *kernel = there ? find_kernel(name) : NULL;
    if (!kernel) return NOT_FOUND;
    struct function *made = calloc(1, sizeof *made);
    snprintf(made->name, sizeof made->name, "%s", name);
    made->kernel = (struct aorta_kernel){.name = made->name, .cpu = kernel->run};
    made->bytes = kernel->bytes;
    made->registers = registers_of(name);
    made->next = of->functions;
    of->functions = made;
    *function = made;
    return 0;
}

EXPORT int cuFuncGetAttribute(int *value, int attribute, void *function);
int cuFuncGetAttribute(int *value, int attribute, void *function) {
    ENTER();
    const struct function *known = function;
    *value = attribute == GPU_FUNCTION_REGISTERS      ? known->registers
             : attribute == GPU_FUNCTION_SHARED_BYTES ? known->shared_bytes
                                                      : 0;
    return 0;
}

EXPORT int cuFuncSetAttribute(void *function, int attribute, int value);
int cuFuncSetAttribute(void *function, int attribute, int value) {
    ENTER();
    (void)function;
    return attribute == 8 && value <= 227 * 1024 ? 0 : INVALID_VALUE;
}

EXPORT int cuFuncGetParamInfo(void *function, size_t index, size_t *offset, size_t *bytes);
int cuFuncGetParamInfo(void *function, size_t index, size_t *offset, size_t *bytes) {
    ENTER();
    *offset = 0;
    *bytes = ((struct function *)function)->bytes;
    if (((struct function *)function)->kernel.cpu == run_nothing) return NOT_SUPPORTED;
    return index || !*bytes ? INVALID_VALUE : 0;
}

EXPORT int cuFuncLoad(void *function);
int cuFuncLoad(void *function) {
    ENTER();
    return function ? 0 : INVALID_VALUE;
}

EXPORT int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads, size_t shared_bytes);
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads, size_t shared_bytes) {
    ENTER();
    (void)function, (void)shared_bytes;
    *blocks = 2048 / threads;
    return 0;
}

/* ---- what graphs tell of their kernels ---- */

EXPORT int cuGraphNodeGetType(void *node, int *type);
int cuGraphNodeGetType(void *node, int *type) {
    ENTER();
    *type = node == &other_node ? 1 : 0;
    return 0;
}

/* CUDA_KERNEL_NODE_PARAMS_v2 */
struct kernel_parameters {
    void *function;
    unsigned grid[3], block[3], shared_bytes;
    void **parameters, **extra;
    void *kernel, *context;
};

EXPORT int cuGraphKernelNodeGetParams_v2(void *node, struct kernel_parameters *parameters);
int cuGraphKernelNodeGetParams_v2(void *node, struct kernel_parameters *parameters) {
    ENTER();
    const struct node *of = node;
    if (of == &other_node) return INVALID_VALUE;
    *parameters = (struct kernel_parameters){.function = of->function,
                                             .grid = {of->blocks, 1, 1},
                                             .block = {of->block[0], of->block[1], of->block[2]},
                                             .shared_bytes = of->shared_bytes};
    return 0;
}

EXPORT int cuGraphKernelNodeGetAttribute(void *node, int attribute, unsigned *value);
int cuGraphKernelNodeGetAttribute(void *node, int attribute, unsigned *value) {
    ENTER();
    if (attribute != 4) return INVALID_VALUE;
    const unsigned cluster = ((const struct node *)node)->cluster;
    value[0] = cluster;
    value[1] = value[2] = cluster ? 1 : 0;
    return 0;
}

EXPORT int cuKernelGetFunction(void **function, void *kernel);
int cuKernelGetFunction(void **function, void *kernel) {
    ENTER();
    *function = kernel;
    return 0;
}

static struct function *call_functions; /* of calls that look like kernels; they stay, as the calls do */

/* For a stand-in of a library: queues a call on the host that looks like a kernel of a cluster of four blocks. */
static int launch_as_kernel(void *stream, const struct fake_shape *shape, void (*function)(void *user), void *user) {
    struct function *made = calloc(1, sizeof *made);
    made->registers = shape->registers;
    made->shared_bytes = shape->static_bytes;
    pthread_mutex_lock(&lock);
    made->next = call_functions;
    call_functions = made;
    pthread_mutex_unlock(&lock);
    struct node *node = note_launch(stream, made, shape->blocks ? (unsigned)shape->blocks : 1,
                                    (const unsigned[]){(unsigned)shape->threads, 1, 1}, (unsigned)shape->dynamic_bytes,
                                    (unsigned)shape->cluster);
    struct host_call *call = NULL;
    const int result = check("cuLaunchHostFunc");
    if (result) return result;
    int queued = queue_host_call(stream, function, user, &call);
    if (node) node->call = call;
    return queued;
}

static aorta_status launch(struct aorta_stream *stream, const struct function *function, unsigned blocks,
                           const struct node *awaited, const void *args) {
    static const struct aorta_kernel staying = {.name = "stay", .cpu = run_stay};
    const struct gpu_room_args *room = args;
    if (function->kernel.cpu == run_witness) {
        struct witness_args witness = {.call = awaited ? awaited->call : NULL};
        memcpy(&witness.stamps, args, sizeof witness.stamps);
        return aorta_launch(stream, &function->kernel, &witness, sizeof witness);
    }
    if (function->kernel.cpu != run_room || !room->hold)
        return aorta_launch(stream, &function->kernel, args, function->bytes);
    return aorta_launch(stream, &staying, &(struct stay){*room, (int)blocks}, sizeof(struct stay));
}

EXPORT int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared_bytes, void *stream, void **parameters, void **extra);
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared_bytes, void *stream, void **parameters, void **extra) {
    ENTER();
    (void)extra;
    if (!gx || !gy || !gz || !bx || !by || !bz || bx * by * bz > 1024) return INVALID_VALUE;
    struct function *known = function;
    const struct node *awaited = aorta_stream_capturing(stream) ? last_on(stream)->awaited : NULL;
    note_launch(stream, known, gx * gy * gz, (const unsigned[]){bx, by, bz}, shared_bytes, 1);
    atomic_store(&host_cpu, sched_getcpu());
    fake_queues_enter(stream);
    int result = translate(launch(stream, known, gx * gy * gz, awaited, parameters[0]));
    fake_queues_leave(stream);
    return result;
}

/* CUlaunchConfig, with attributes of which only the cluster is looked at. */
struct launch_attribute {
    int id;
    char unused[4];
    unsigned value[16];
};
struct launch_config {
    unsigned grid[3], block[3], shared_bytes;
    void *stream;
    struct launch_attribute *attributes;
    unsigned attribute_count;
};

EXPORT int cuLaunchKernelEx(const struct launch_config *config, void *function, void **parameters, void **extra);
int cuLaunchKernelEx(const struct launch_config *config, void *function, void **parameters, void **extra) {
    ENTER();
    const unsigned *grid = config->grid, *block = config->block;
    for (unsigned i = 0; i < config->attribute_count; i++) {
        const struct launch_attribute *attribute = &config->attributes[i];
        if (attribute->id == 4 && (!attribute->value[0] || grid[0] % attribute->value[0])) return INVALID_VALUE;
    }
    return cuLaunchKernel(function, grid[0], grid[1], grid[2], block[0], block[1], block[2], config->shared_bytes,
                          config->stream, parameters, extra);
}

/* ---- graphs ---- */

struct graph {
    struct aorta_graph *graph;
    struct node *nodes; /* kernels */
    int references;     /* the graph and what was made of it are one object here */
};

static void drop(struct graph *graph) {
    if (--graph->references) return;
    aorta_graph_destroy(graph->graph);
    free_nodes(&graph->nodes);
    free(graph);
}

EXPORT int cuStreamBeginCapture_v2(void *stream, int mode);
int cuStreamBeginCapture_v2(void *stream, int mode) {
    ENTER();
    (void)mode;
    free_nodes(&captured_nodes);
    memset(captured_streams, 0, sizeof captured_streams);
    return translate(aorta_capture_begin(stream));
}

/* CUgraphEdgeData */
struct edge {
    unsigned char from_port, to_port, type, reserved[5];
};
enum { PORT_LAUNCH_ORDER = 2, EDGE_PROGRAMMATIC = 1 };

EXPORT int cuStreamGetCaptureInfo_v3(void *stream, int *status, unsigned long *id, void **graph,
                                     struct node *const **nodes, const struct edge **edges, size_t *count);
int cuStreamGetCaptureInfo_v3(void *stream, int *status, unsigned long *id, void **graph, struct node *const **nodes,
                              const struct edge **edges, size_t *count) {
    ENTER();
    if (!aorta_stream_capturing(stream)) return INVALID_VALUE;
    *status = 1;
    *id = 1;
    *graph = NULL;
    *edges = NULL;
    *nodes = &last_on(stream)->node;
    *count = **nodes ? 1 : 0;
    return 0;
}

EXPORT int cuStreamUpdateCaptureDependencies_v2(void *stream, struct node **nodes, const struct edge *edges,
                                                size_t count, unsigned flags);
int cuStreamUpdateCaptureDependencies_v2(void *stream, struct node **nodes, const struct edge *edges, size_t count,
                                         unsigned flags) {
    ENTER();
    if (!aorta_stream_capturing(stream) || count != 1 || flags > 1) return INVALID_VALUE;
    if (nodes[0] == &other_node || edges[0].from_port != PORT_LAUNCH_ORDER || edges[0].type != EDGE_PROGRAMMATIC)
        return INVALID_VALUE;
    last_on(stream)->awaited = nodes[0];
    return translate(aorta_stream_wait(stream, nodes[0]->before));
}

EXPORT int cuStreamEndCapture(void *stream, void **graph);
int cuStreamEndCapture(void *stream, void **graph) {
    struct aorta_graph *captured = NULL;
    int wanted = check(__func__), result = translate(aorta_capture_end(stream, &captured));
    end_nodes(captured_nodes);
    if (wanted) aorta_graph_destroy(captured);
    if (wanted || result) return wanted ? wanted : result;
    struct graph *made = malloc(sizeof *made);
    *made = (struct graph){captured, captured_nodes, 1};
    captured_nodes = NULL;
    *graph = made;
    return 0;
}

EXPORT int cuGraphGetNodes(void *graph, void **nodes, size_t *count);
int cuGraphGetNodes(void *graph, void **nodes, size_t *count) {
    ENTER();
    const struct graph *of = graph;
    struct node *kernel = of->nodes;
    if (!nodes) *count = aorta_graph_node_count(of->graph);
    for (size_t i = 0; nodes && i < *count; i++) {
        nodes[i] = kernel ? kernel : &other_node;
        if (kernel) kernel = kernel->next;
    }
    return 0;
}

EXPORT int cuGraphInstantiateWithFlags(void **executable, void *graph, unsigned long long flags);
int cuGraphInstantiateWithFlags(void **executable, void *graph, unsigned long long flags) {
    ENTER();
    atomic_store(&graph_flags, flags);
    ((struct graph *)graph)->references++;
    *executable = graph;
    return 0;
}

EXPORT int cuGraphLaunch(void *executable, void *stream);
int cuGraphLaunch(void *executable, void *stream) {
    ENTER();
    return translate(aorta_graph_launch(((struct graph *)executable)->graph, stream));
}

EXPORT int cuGraphDestroy(void *graph);
int cuGraphDestroy(void *graph) {
    int wanted = check(__func__); /* what is destroyed is gone all the same */
    drop(graph);
    return wanted;
}

EXPORT int cuGraphExecDestroy(void *executable);
int cuGraphExecDestroy(void *executable) {
    int wanted = check(__func__); /* what is destroyed is gone all the same */
    drop(executable);
    return wanted;
}
