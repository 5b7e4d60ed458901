#include "suite.h"

#include "base/clock.h"
#include "device/gpu.h"
#include "fake_gpu/fake_gpu.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

/* ---- the kernels on a GPU: the same work by the same structs ---- */

static const struct aorta_gpu_source source = {
    "suite.cu",
    "#if defined(__HIP_PLATFORM_AMD__) || defined(__HIPCC_RTC__) || defined(__AMDGCN__)\n"
    "#define FAULT() __builtin_trap()\n"
    "#else\n"
    "#define FAULT() asm volatile(\"trap;\")\n"
    "#endif\n"
    "struct mix_args { long long *counter, value; };\n"
    "extern \"C\" __global__ void mix(mix_args a) {\n"
    "    *a.counter = (long long)(31ull * (unsigned long long)*a.counter + (unsigned long long)a.value);\n"
    "}\n"
    "static __device__ void wait_for(volatile int *word) {\n"
    "    for (long long i = 0; !*word; i++) {\n"
    "        if (i > 10000000) FAULT(); /* each look goes to the host's memory: ten seconds or more */\n"
    "    }\n"
    "}\n"
    "struct lock_words { volatile int entered, open; };\n"
    "struct lock_args { lock_words *lock; };\n"
    "extern \"C\" __global__ void lock(lock_args a) {\n"
    "    a.lock->entered = 1;\n"
    "    __threadfence_system();\n"
    "    wait_for(&a.lock->open);\n"
    "}\n"
    "struct meeting_args { volatile int *mine, *theirs; };\n"
    "extern \"C\" __global__ void meeting(meeting_args a) {\n"
    "    *a.mine = 1;\n"
    "    __threadfence_system();\n"
    "    wait_for(a.theirs);\n"
    "}\n"
    "#if defined(__HIP_PLATFORM_AMD__) || defined(__HIPCC_RTC__) || defined(__AMDGCN__)\n"
    "static __device__ unsigned own_multiprocessor() { return __smid(); }\n"
    "#else\n"
    "static __device__ unsigned own_multiprocessor() {\n"
    "    unsigned number;\n"
    "    asm volatile(\"mov.u32 %0, %%smid;\" : \"=r\"(number));\n"
    "    return number;\n"
    "}\n"
    "#endif\n"
    "struct census_args { int *seen, size; };\n"
    "extern \"C\" __global__ void census(census_args a) {\n"
    "    unsigned own = own_multiprocessor();\n"
    "    if (threadIdx.x == 0 && own < (unsigned)a.size) a.seen[own] = 1;\n"
    "    for (long long begin = clock64(); clock64() - begin < 20000;) {} /* so that all get their share of blocks */\n"
    "}\n",
};
static const struct aorta_gpu_entry mix_entry = {&source, "mix"};
static const struct aorta_gpu_entry lock_entry = {&source, "lock"};
static const struct aorta_gpu_entry meeting_entry = {&source, "meeting"};

static const struct aorta_gpu_entry census_entry = {&source, "census"};

static aorta_status launch_mix(struct aorta_stream *stream, const void *args) {
    return aorta_gpu_launch(stream, &mix_entry, (struct aorta_gpu_grid){.blocks = {1}}, args, sizeof(struct mix_args));
}

static aorta_status launch_lock(struct aorta_stream *stream, const void *args) {
    return aorta_gpu_launch(stream, &lock_entry, (struct aorta_gpu_grid){.blocks = {1}}, args, sizeof(struct lock *));
}

static aorta_status launch_meeting(struct aorta_stream *stream, const void *args) {
    return aorta_gpu_launch(stream, &meeting_entry, (struct aorta_gpu_grid){.blocks = {1}}, args,
                            sizeof(struct meeting));
}

static aorta_status launch_census(struct aorta_stream *stream, const void *args) {
    uint32_t blocks = (uint32_t)aorta_device_get_info(aorta_stream_device(stream))->multiprocessors * 64;
    return aorta_gpu_launch(stream, &census_entry, (struct aorta_gpu_grid){.blocks = {blocks}, .threads = {256}}, args,
                            sizeof(struct census));
}

/* Loading a kernel may wait for the device, and some tests hold it up: all are loaded first. */
static void load_kernels(struct aorta_device *device) {
    const struct aorta_gpu_entry *const entries[] = {&mix_entry, &lock_entry, &meeting_entry, &census_entry};
    if (!aorta_device_is_gpu(device)) return;
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) check_ok(aorta_gpu_prepare(device, entries[i]));
}

/* ---- the device ---- */

static int open_kind(enum aorta_device_kind kind, void **state) {
    struct aorta_device *device;
    aorta_status status = aorta_device_open(kind, 0, &device);
    if (aorta_status_code(status) == AORTA_UNSUPPORTED && kind != AORTA_DEVICE_CPU) {
        print_message("[  SKIPPED ] all: %s\n", aorta_status_message(status));
        exit(0);
    }
    check_ok(status);
    load_kernels(device);
    *state = device;
    return 0;
}

int suite_open(void **state) {
    const char *wanted = getenv("AORTA_TEST_DEVICE");
    const enum aorta_device_kind kinds[] = {AORTA_DEVICE_CPU, AORTA_DEVICE_CUDA, AORTA_DEVICE_HIP};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(wanted ? wanted : "cpu", aorta_device_kind_name(kinds[i])) != 0) continue;
        return open_kind(kinds[i], state);
    }
    print_error("AORTA_TEST_DEVICE is %s; cpu, cuda and hip are known\n", wanted);
    return -1;
}

int suite_close(void **state) {
    struct aorta_memory_info memory = aorta_device_memory(*state);
    aorta_device_close(*state);
    if (!memory.allocated && !memory.pinned) return 0;
    print_error("%llu bytes and %llu pinned bytes were not freed\n", (unsigned long long)memory.allocated,
                (unsigned long long)memory.pinned);
    return -1;
}

struct aorta_stream *make_stream(struct aorta_device *device, const char *name) {
    struct aorta_stream *stream;
    check_ok(aorta_stream_create(device, name, AORTA_PRIORITY_NORMAL, &stream));
    return stream;
}

struct aorta_event *make_event(struct aorta_device *device) {
    struct aorta_event *event;
    check_ok(aorta_event_create(device, &event));
    return event;
}

void *make_memory(struct aorta_device *device, size_t bytes) {
    void *memory;
    check_ok(aorta_device_alloc(device, bytes, "test memory", &memory));
    return memory;
}

void *make_pinned(struct aorta_device *device, size_t bytes) {
    void *memory;
    check_ok(aorta_pinned_alloc(device, bytes, "test memory", &memory));
    memset(memory, 0, bytes);
    return memory;
}

void sync_stream(struct aorta_stream *stream) {
    check_ok(aorta_stream_synchronize(stream));
}

void check_busy(struct aorta_stream *stream) {
    struct aorta_event *event = make_event(aorta_stream_device(stream));
    check_ok(aorta_event_record(event, stream));
    assert_false(aorta_event_done(event));
    aorta_event_destroy(event);
}

int64_t mix(int64_t counter, int64_t value) {
    return (int64_t)(31 * (uint64_t)counter + (uint64_t)value);
}

static aorta_status run_mix(const void *args) {
    const struct mix_args *a = args;
    *a->counter = mix(*a->counter, a->value);
    return NULL;
}

const struct aorta_kernel mix_kernel = {.name = "mix", .cpu = run_mix, .gpu = launch_mix};

aorta_status queue_mix_on(struct aorta_stream *stream, int64_t *counter, int64_t value) {
    struct mix_args args = {counter, value};
    aorta_status status = aorta_launch(stream, &mix_kernel, &args, sizeof args);
    memset(&args, 0xFF, sizeof args); /* the call must have copied them */
    return status;
}

void queue_mix(struct aorta_stream *stream, int64_t *counter, int64_t value) {
    check_ok(queue_mix_on(stream, counter, value));
}

struct lock *make_lock(struct aorta_device *device) {
    return make_pinned(device, sizeof(struct lock));
}

static aorta_status run_lock(const void *args) {
    struct lock *lock = *(struct lock *const *)args;
    atomic_store(&lock->entered, 1);
    int64_t deadline = aorta_clock_ns() + 10000000000;
    while (!atomic_load(&lock->open)) {
        if (aorta_clock_ns() > deadline) return AORTA_ERROR(AORTA_TIMEOUT, "nobody opened the lock");
        sched_yield();
    }
    return NULL;
}

void queue_lock(struct aorta_stream *stream, struct lock *lock) {
    static const struct aorta_kernel kernel = {.name = "lock", .cpu = run_lock, .gpu = launch_lock};
    check_ok(aorta_launch(stream, &kernel, &lock, sizeof lock));
}

void open_lock(struct lock *lock) {
    atomic_store(&lock->open, 1);
}

void wait_for_entry(struct lock *lock) {
    int64_t deadline = aorta_clock_ns() + 10000000000;
    while (!atomic_load(&lock->entered)) {
        if (aorta_clock_ns() > deadline) fail_msg("the kernel was never started");
        sched_yield();
    }
}

static aorta_status run_meeting(const void *args) {
    const struct meeting *a = args;
    atomic_store(a->mine, 1);
    for (int64_t spins = 0; !atomic_load(a->theirs); spins++) {
        if (spins > 10000) return AORTA_ERROR(AORTA_TIMEOUT, "the other kernel did not come");
        struct timespec pause = {0, 1000000};
        nanosleep(&pause, NULL);
    }
    return NULL;
}

void queue_meeting(struct aorta_stream *stream, struct meeting meeting) {
    static const struct aorta_kernel kernel = {.name = "meeting", .cpu = run_meeting, .gpu = launch_meeting};
    check_ok(aorta_launch(stream, &kernel, &meeting, sizeof meeting));
}

static aorta_status run_census(const void *args) {
    const struct census *a = args;
    int own = sched_getcpu();
    if (own >= 0 && own < a->size) a->seen[own] = 1;
    return NULL;
}

void queue_census(struct aorta_stream *stream, struct census census) {
    static const struct aorta_kernel kernel = {.name = "census", .cpu = run_census, .gpu = launch_census};
    check_ok(aorta_launch(stream, &kernel, &census, sizeof census));
}

struct failure_args {
    char text[64];
};

static aorta_status run_failure(const void *args) {
    const struct failure_args *a = args;
    return AORTA_ERROR(AORTA_DEVICE, "%s", a->text);
}

/* A kernel that fails on a GPU takes the device with it; only its launch can fail alone. */
static aorta_status launch_failure(struct aorta_stream *stream, const void *args) {
    (void)stream;
    return run_failure(args);
}

void queue_failure(struct aorta_stream *stream, const char *text) {
    static const struct aorta_kernel kernel = {.name = "fail", .cpu = run_failure, .gpu = launch_failure};
    struct failure_args args = {0};
    snprintf(args.text, sizeof args.text, "%s", text);
    check_ok(aorta_launch(stream, &kernel, &args, sizeof args));
}

/* ---- the kernels on the fake GPU ---- */

/* Nothing is known of the fake's multiprocessors but that there are some. */
static aorta_status run_fake_census(const void *args) {
    const struct census *a = args;
    a->seen[0] = 1;
    return NULL;
}

extern const struct fake_kernel fake_kernel_mix, fake_kernel_lock, fake_kernel_meeting, fake_kernel_census;
const struct fake_kernel fake_kernel_mix = {run_mix, sizeof(struct mix_args)};
const struct fake_kernel fake_kernel_lock = {run_lock, sizeof(struct lock *)};
const struct fake_kernel fake_kernel_meeting = {run_meeting, sizeof(struct meeting)};
const struct fake_kernel fake_kernel_census = {run_fake_census, sizeof(struct census)};
