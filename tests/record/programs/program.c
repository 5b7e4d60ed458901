/* A program that uses a GPU and knows nothing of being recorded. The GPU is the fake one: libcuda.so.1 is found through
 * LD_LIBRARY_PATH, and what "runs" is put into the fake libcupti, which FAKE_CUPTI names and the program has loaded, as
 * PyTorch has its own.
 *
 *   program SCENARIO [NUMBER]
 *
 * A step launches, at synthetic times 1 ms apart, a GEMM of 100 us on stream 7, a collective of 100 us on stream 20
 * that begins in its middle, a copy of 20 us right after the collective, and a fill of 10 us after that. So each step
 * has 100 us of compute, 100 us of communication, 50 us of overlap, 30 us of copies. */
#include "fake_cupti/fake_cupti.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STEPS = 10, COPY = 1, FILL = 2, DRIVER = 4, RUNTIME = 5, KERNEL = 10, MARKER = 12 };
enum { LAUNCH_KERNEL = 211, LAUNCH_EX = 652, MEMCPY_ASYNC = 41, SYNCHRONIZE = 165, GET_DEVICE = 17 };

/* The state of the one program that this is. */
static const struct fake_cupti *cupti;
static void *cupti_library;
static int64_t zero_ns;
static uint32_t launches;
static bool is_child; /* of fork, while the recording had a thread */

/* LeakSanitizer asks this before it takes the allocator's locks, which in such a child the lost thread may hold. */
int __lsan_is_turned_off(void);  /* NOLINT(bugprone-reserved-identifier) */
int __lsan_is_turned_off(void) { /* NOLINT(bugprone-reserved-identifier) */
    return is_child;
}

static int64_t time_of_day(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void nap(int ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static void *find(void *library, const char *name) {
    void *symbol = library ? dlsym(library, name) : NULL;
    if (symbol) return symbol;
    fprintf(stderr, "program: no %s: %s\n", name, dlerror());
    exit(99);
}

/* The test's setting. */
static const char *setting(const char *name) {
    const char *value = getenv(name);
    if (!value) exit(96);
    return value;
}

static void load_cupti(void) {
    cupti_library = dlopen(setting("FAKE_CUPTI"), RTLD_NOW | RTLD_LOCAL);
    const struct fake_cupti *(*get)(void);
    void *symbol = find(cupti_library, "fake_cupti");
    memcpy(&get, &symbol, sizeof get);
    cupti = get();
}

static void start_cuda(void) {
    void *symbol = find(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), "cuInit");
    int (*initialise)(unsigned flags);
    memcpy(&initialise, &symbol, sizeof initialise);
    if (initialise(0) != 0) exit(98);
    zero_ns = time_of_day();
}

/* ---- what the recording has come to: a slow machine takes longer, and a fast one is not made to wait ---- */

static void await(bool (*reached)(void), int limit_ms) {
    for (int waited_ms = 0; !reached() && waited_ms < limit_ms; waited_ms += 5) nap(5);
}

static bool is_recording(void) {
    return cupti->uses() & FAKE_CUPTI_ENABLED;
}

static bool is_over(void) {
    return cupti->enabled() == 0;
}

static bool is_fetched(void) {
    return cupti->lent() == 0;
}

static int flushes_before;
static bool is_flushed(void) {
    return cupti->flushes() > flushes_before;
}

/* Until what was launched is in the file: after it has come out of CUPTI it is written at once. */
static void await_written(void) {
    await(is_fetched, 60000);
    nap(300);
}

/* Until the time to record is over, and what was under way then is written. */
static void await_settled(void) {
    await(is_over, 60000);
    flushes_before = cupti->flushes();
    await(is_flushed, 2000); /* or it was before this */
    nap(200);
}

/* ---- work ---- */

static void call(uint32_t kind, uint32_t number, int64_t at_ns) {
    const struct fake_activity activity = {.kind = kind,
                                           .call = number,
                                           .start = (uint64_t)at_ns,
                                           .end = (uint64_t)at_ns + 5000,
                                           .correlation = ++launches,
                                           .thread = (uint32_t)getpid()};
    cupti->record(&activity);
}

static void kernel(const char *name, uint32_t stream, uint32_t device, int64_t at_ns) {
    const struct fake_activity activity = {.kind = KERNEL,
                                           .name = name,
                                           .start = (uint64_t)at_ns,
                                           .end = (uint64_t)at_ns + 100000,
                                           .device = device,
                                           .context = 1,
                                           .stream = stream,
                                           .correlation = launches,
                                           .grid = {16, 1, 1},
                                           .block = {512, 1, 1},
                                           .channel = stream + 1,
                                           .channel_type = 1};
    cupti->record(&activity);
}

static void transfer(uint32_t kind, uint32_t device, int64_t at_ns, int64_t length_ns) {
    const struct fake_activity activity = {.kind = kind,
                                           .copy_kind = 1,
                                           .bytes = 4096,
                                           .start = (uint64_t)at_ns,
                                           .end = (uint64_t)(at_ns + length_ns),
                                           .device = device,
                                           .context = 1,
                                           .stream = 7,
                                           .correlation = launches};
    cupti->record(&activity);
}

static void mark(const char *name, uint32_t id, uint32_t flags, int64_t at_ns) {
    const struct fake_activity activity = {.kind = MARKER,
                                           .name = name,
                                           .marker = id,
                                           .flags = flags,
                                           .start = (uint64_t)at_ns,
                                           .thread = (uint32_t)getpid()};
    cupti->record(&activity);
}

/* Texts stay, as CUPTI's do. */
static char *name_of(int number) {
    static struct name {
        struct name *last;
        char text[32];
    } * names;
    struct name *name = malloc(sizeof *name);
    if (!name) exit(97);
    name->last = names;
    names = name;
    snprintf(name->text, sizeof name->text, "ProfilerStep#%d", number);
    return name->text;
}

static void step(int number, uint32_t device) {
    const char *name = name_of(number);
    int64_t at_ns = zero_ns + (int64_t)number * 1000000;
    mark(name, (uint32_t)number + 1, 2, at_ns);
    call(RUNTIME, GET_DEVICE, at_ns); /* of no interest */
    call(RUNTIME, LAUNCH_KERNEL, at_ns + 1000);
    kernel("_Z4gemmPKfS0_Pf", 7, device, at_ns + 10000);
    call(DRIVER, LAUNCH_EX, at_ns + 20000);
    kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 20, device, at_ns + 60000);
    call(RUNTIME, MEMCPY_ASYNC, at_ns + 30000);
    transfer(COPY, device, at_ns + 160000, 20000);
    transfer(FILL, device, at_ns + 180000, 10000);
    call(RUNTIME, SYNCHRONIZE, at_ns + 200000);
    mark(NULL, (uint32_t)number + 1, 4, at_ns + 900000);
}

static void train(int first, int steps, uint32_t device) {
    for (int i = first; i < first + steps; i++) step(i, device);
}

static void start_all(void) {
    load_cupti();
    start_cuda();
}

/* ---- scenarios ---- */

static int normal(int number) {
    const char *rank = getenv("LOCAL_RANK");
    start_all();
    train(0, STEPS, rank ? (uint32_t)atoi(rank) : 0);
    printf("trained %d steps\n", STEPS);
    return number;
}

static int without_cuda(int number) {
    puts("nothing to do with GPUs");
    nap(300); /* so that it is seen */
    return number;
}

/* CUDA's driver in a process that never gets the variables. */
static int uninitialised(int number) {
    find(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), "cuInit");
    nap(1000);
    return number;
}

static int idle(int number) {
    start_all();
    return number;
}

/* A child that came of fork ends by exit, with all of the parent's exit handlers, while the parent works on. */
static int forked(int number) {
    start_all();
    train(0, STEPS / 2, 0);
    pid_t child = fork();
    if (child == 0) {
        is_child = true;
        step(1000, 0); /* must not reach the parent's file */
        exit(3);
    }
    int status = 0;
    waitpid(child, &status, 0);
    train(STEPS / 2, STEPS / 2, 0);
    return WEXITSTATUS(status) == 3 ? number : 96;
}

/* Replaces itself: the same process, another image, a file of its own. */
static int replaced(int number) {
    char self[] = "/proc/self/exe", scenario[] = "normal", code[16];
    start_all();
    train(0, STEPS / 2, 0);
    await_written(); /* it survives */
    snprintf(code, sizeof code, "%d", number);
    char *arguments[] = {self, scenario, code, NULL};
    execv(self, arguments);
    return 95;
}

/* Starts ranks as torchrun does, itself without any work; NUMBER of them. */
static int ranks(int number) {
    int failed = 0;
    for (int i = 0; i < number; i++) {
        if (fork() != 0) continue;
        char rank[16], world[16], self[] = "/proc/self/exe", scenario[] = "normal";
        snprintf(rank, sizeof rank, "%d", i);
        snprintf(world, sizeof world, "%d", number);
        setenv("RANK", rank, 1);
        setenv("LOCAL_RANK", rank, 1);
        setenv("WORLD_SIZE", world, 1);
        char *arguments[] = {self, scenario, NULL};
        execv(self, arguments);
        _exit(94);
    }
    for (int i = 0, status = 0; i < number; i++) failed |= wait(&status) < 0 || status != 0;
    return failed;
}

/* One process, as many GPUs as NUMBER says. */
static int devices(int number) {
    start_all();
    for (int i = 0; i < number; i++) train(0, STEPS, (uint32_t)i);
    return 0;
}

/* Ranks made by fork alone, as Python's multiprocessing does: CUDA starts in them, and they end by exit. */
static int workers(int number) {
    int failed = 0;
    for (int i = 0; i < number; i++) {
        if (fork() != 0) continue;
        char rank[16];
        snprintf(rank, sizeof rank, "%d", i);
        setenv("RANK", rank, 1);
        start_all();
        train(0, STEPS, (uint32_t)i);
        exit(0);
    }
    for (int i = 0, status = 0; i < number; i++) failed |= wait(&status) < 0 || status != 0;
    return failed;
}

/* Forks when the time to record is over and CUPTI waits for a call to leave at: the child's must not be the one. Its
 * exit code: 10 for each time that CUPTI was finalized here, and 1 for each time there. */
static int forked_late(int number) {
    (void)number;
    start_all();
    train(0, STEPS, 0);
    await_settled();
    pid_t child = fork();
    if (child == 0) {
        step(1000, 0);
        _exit(cupti->finalized());
    }
    int status = 0;
    waitpid(child, &status, 0);
    step(1001, 0);
    nap(100);
    return 10 * cupti->finalized() + WEXITSTATUS(status);
}

static int die_of(int number) {
    start_all();
    train(0, STEPS, 0);
    await_written();
    raise(number);
    return 93;
}

static int die_later(int number) {
    start_all();
    train(0, STEPS, 0);
    await_settled();
    raise(number);
    return 93;
}

static int own_exit(int number) {
    start_all();
    train(0, STEPS, 0);
    await_written();
    _exit(number);
}

static volatile sig_atomic_t caught;
static void on_signal(int signal) {
    caught = signal;
}

/* Handles signals itself: says so and ends with NUMBER. */
static int until_signal(int number) {
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    start_all();
    train(0, STEPS, 0);
    puts("ready");
    fflush(stdout);
    while (!caught) nap(20);
    printf("caught %d\n", (int)caught);
    return number;
}

/* ---- a profiler of its own, as PyTorch's: subscribes, takes the callbacks, and reads its own records ---- */

static uint8_t own_buffer[64 << 10];
static size_t own_bytes, foreign_buffers;

static void request(uint8_t **buffer, size_t *size, size_t *limit) {
    *buffer = own_buffer;
    *size = sizeof own_buffer;
    *limit = 0;
}

static void complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
    (void)context, (void)stream, (void)size;
    if (buffer == own_buffer)
        own_bytes += valid;
    else
        foreign_buffers++;
}

static void no_event(void *user, uint32_t domain, uint32_t id, const void *data) {
    (void)user, (void)domain, (void)id, (void)data;
}

static int profile(void) {
    uint32_t (*subscribe)(void **, void (*)(void *, uint32_t, uint32_t, const void *), void *);
    uint32_t (*callbacks)(void (*)(uint8_t **, size_t *, size_t *),
                          void (*)(void *, uint32_t, uint8_t *, size_t, size_t));
    uint32_t (*enable)(uint32_t);
    void *symbols[] = {find(cupti_library, "cuptiSubscribe"), find(cupti_library, "cuptiActivityRegisterCallbacks"),
                       find(cupti_library, "cuptiActivityEnable")};
    void *subscriber;
    memcpy(&subscribe, &symbols[0], sizeof subscribe);
    memcpy(&callbacks, &symbols[1], sizeof callbacks);
    memcpy(&enable, &symbols[2], sizeof enable);
    if (subscribe(&subscriber, no_event, NULL) != 0) return 92;
    return callbacks(request, complete) || enable(KERNEL) ? 91 : 0;
}

static void stop_profiling(void) {
    uint32_t (*flush)(uint32_t);
    void *symbol = find(cupti_library, "cuptiActivityFlushAll");
    memcpy(&flush, &symbol, sizeof flush);
    flush(1);
    printf("own profile: %zu bytes, %d kinds enabled\n", own_bytes, cupti->enabled());
}

static int profiled_first(int number) {
    load_cupti();
    if (profile()) return 90;
    start_cuda();
    train(0, STEPS, 0);
    stop_profiling();
    return number;
}

static int profiled_later(int number) {
    start_all();
    train(0, STEPS / 2, 0);
    await_written();
    int failed = profile();
    train(STEPS / 2, STEPS / 2, 0);
    nap(2600); /* it takes two seconds without records until somebody is suspected */
    step(STEPS, 0);
    stop_profiling();
    return failed ? failed : number;
}

/* Training of NUMBER steps that repeat, 5 ms apart, after a start of another kind. */
static int layers(int number) {
    static const char *const names[] = {"norm", "gemm", "gelu", "gemm_2", "loss", "gemm_backward", "FusedAdam"};
    start_all();
    for (int i = 0; i < 20; i++) {
        call(RUNTIME, LAUNCH_KERNEL, zero_ns + i * 1000000);
        kernel(i % 3 ? "fill" : "normal_", 7, 0, zero_ns + i * 1000000 + 10000);
    }
    for (int i = 0; i < number; i++) {
        for (int j = 0; j < 7; j++) {
            int64_t at_ns = zero_ns + 30000000 + i * 5000000LL + j * 200000;
            call(RUNTIME, LAUNCH_KERNEL, at_ns);
            kernel(names[j], 7, 0, at_ns + 10000);
        }
    }
    return 0;
}

/* ---- training that goes on in real time, on one rank or several ---- */

static void kernel_of(const char *name, uint32_t stream, int64_t start_ns, int64_t length_ns) {
    const struct fake_activity activity = {.kind = KERNEL,
                                           .name = name,
                                           .start = (uint64_t)start_ns,
                                           .end = (uint64_t)(start_ns + length_ns),
                                           .context = 1,
                                           .stream = stream,
                                           .correlation = launches,
                                           .grid = {16, 1, 1},
                                           .block = {512, 1, 1}};
    call(RUNTIME, LAUNCH_KERNEL, start_ns - 10000);
    cupti->record(&activity);
}

/* One step from at_ns on; `late` ms that this rank, and `waited` ms that all of them take longer:
 *
 *   compute     | gemm 2 ms, or 2 + late |                     | FusedAdam 1 ms |
 *   collective                           | until all are there, then 1 ms |            */
static void live_step(int64_t at_ns, int late, int waited) {
    static const char *const layers[] = {"norm", "gemm", "gelu", "gemm_2", "loss"};
    const int64_t ms = 1000000, ready_ns = at_ns + (2 + late) * ms, all_ns = at_ns + (2 + waited) * ms;
    for (int i = 0; i < 5; i++) kernel_of(layers[i], 7, at_ns + i * (2 + late) * ms / 5, (2 + late) * ms / 5 - 20000);
    kernel_of("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 20, ready_ns,
              all_ns + ms - ready_ns);
    kernel_of("FusedAdam", 7, all_ns + ms + 20000, ms);
}

/* NUMBER seconds of steps of 10 ms; from LIVE_CHANGE seconds on rank LIVE_LATE is late by 3 ms. */
static int live(int number) {
    const char *rank = getenv("RANK"), *from = getenv("LIVE_BASE"), *late = getenv("LIVE_LATE"),
               *change = getenv("LIVE_CHANGE"), *dies = getenv("LIVE_DIES");
    start_all();
    const int64_t base_ns = from ? atoll(from) : time_of_day(), end_ns = base_ns + number * 1000000000LL;
    const int64_t change_ns = change ? base_ns + atoll(change) * 1000000000 : INT64_MAX;
    const int own = late && rank && atoi(late) == atoi(rank) ? 3 : 0;
    for (int64_t at_ns = base_ns; at_ns < end_ns; at_ns += 10000000) {
        const bool changed = at_ns >= change_ns;
        while (time_of_day() < at_ns + 10000000) nap(2);
        live_step(at_ns, changed ? own : 0, changed && late ? 3 : 0);
        if (changed && dies && rank && atoi(dies) == atoi(rank)) raise(SIGKILL);
        if (changed && late) at_ns += 3000000;
    }
    return 0;
}

/* NUMBER seconds of `live` on LIVE_RANKS ranks. */
static int live_ranks(int number) {
    char base[32], seconds[16], self[] = "/proc/self/exe", scenario[] = "live";
    const int ranks = atoi(setting("LIVE_RANKS"));
    snprintf(base, sizeof base, "%lld", (long long)time_of_day());
    snprintf(seconds, sizeof seconds, "%d", number);
    setenv("LIVE_BASE", base, 1);
    setenv("WORLD_SIZE", setting("LIVE_RANKS"), 1);
    for (int i = 0; i < ranks; i++) {
        if (fork() != 0) continue;
        char rank[16];
        snprintf(rank, sizeof rank, "%d", i);
        setenv("RANK", rank, 1);
        char *arguments[] = {self, scenario, seconds, NULL};
        execv(self, arguments);
        _exit(94);
    }
    int failed = 0;
    for (int i = 0, status = 0; i < ranks; i++) failed |= wait(&status) < 0 || status != 0;
    return failed;
}

/* Files of the program's own take all numbers up to 5000, opened after it has closed what it does not know; true: at
 * its end they hold what it wrote. */
enum { OWN_FILES = 5000 };
#ifdef __SANITIZE_THREAD__
/* Taking numbers that the recorder's thread still looks at is what this program is for. */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void) {
    return "race:close_all_and_open\n";
}
#endif
static void close_all_and_open(int files[OWN_FILES]) {
    if (close_range(3, OWN_FILES + 3, 0)) exit(81);
    char path[] = "/tmp/aorta_program_XXXXXX";
    files[0] = mkstemp(path);
    unlink(path);
    if (write(files[0], "mine", 4) != 4) exit(85);
    for (int i = 1; i < OWN_FILES; i++) files[i] = dup(files[0]);
}

static bool is_mine(int fd) {
    char text[8];
    return pread(fd, text, sizeof text, 0) == 4 && memcmp(text, "mine", 4) == 0;
}

/* Closes all descriptors in the middle of its work, as daemons do, and goes elsewhere. Its exit code: NUMBER when its
 * own files are untouched. */
static int closing(int number) {
    static int files[OWN_FILES];
    const struct rlimit many = {8192, 8192};
    setrlimit(RLIMIT_NOFILE, &many);
    start_all();
    train(0, STEPS / 2, 0);
    nap(300);
    close_all_and_open(files);
    if (chdir("/")) return 84;
    train(STEPS / 2, STEPS / 2, 0);
    nap(300);
    return is_mine(files[0]) ? number : 83;
}

/* A daemon: forked twice, a session of its own, another directory, no descriptors; then it uses the GPU, and NUMBER is
 * the user that it becomes meanwhile (0: stays). */
static int daemon_of(int number) {
    enum { ENDS = 300 }; /* a descriptor above those that it closes, which is open until its end */
    int pipes[2];
    char nothing;
    if (pipe(pipes)) return 1;
    if (fork() != 0) {
        close(pipes[1]);
        return read(pipes[0], &nothing, 1) != 0;
    }
    if (dup2(pipes[1], ENDS) < 0) _exit(1);
    setsid();
    if (fork() != 0) _exit(0);
    if (chdir("/")) _exit(1);
    for (int fd = 0; fd < 256; fd++) close(fd);
    for (int i = 0; i < 3; i++)
        if (open("/dev/null", O_RDWR) < 0) _exit(1);
    umask(0);
    start_all();
    train(0, STEPS / 2, 0);
    if (number && setuid((uid_t)number)) _exit(1);
    train(STEPS / 2, STEPS / 2, 0);
    exit(0);
}

/* Records itself twice: steps 3 to 6 and 8 to 9 of 12. */
static int records_itself(int number) {
    const char *library = getenv("CUDA_INJECTION64_PATH"), *folder = getenv("AORTA_TRACE_SPOOL");
    void *inject = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    void *symbols[] = {find(inject, "aorta_record_begin"), find(inject, "aorta_record_end")};
    int (*begin)(const char *directory), (*end)(void);
    memcpy(&begin, &symbols[0], sizeof begin);
    memcpy(&end, &symbols[1], sizeof end);
    unsetenv("CUDA_INJECTION64_PATH");
    start_all();
    train(0, 3, 0);
    if (end() != ESRCH || begin("/nowhere") != ENOENT || begin(folder) != 0) return 89;
    train(3, 4, 0);
    if (begin(folder) != EBUSY || end() != 0) return 88;
    train(7, 1, 0);
    if (begin(folder) != 0) return 87;
    train(8, 2, 0);
    if (end() != 0) return 86;
    train(10, 2, 0);
    return number;
}

static bool is_read(void) {
    return access(setting("AORTA_TRACE_SPOOL"), F_OK) != 0;
}

/* Starts a child that goes on using the GPU, until the test has read and removed the recording. */
static int left_behind(int number) {
    int pipes[2];
    char ready = 0;
    if (pipe(pipes)) return 80;
    if (fork() == 0) {
        setsid();
        start_all();
        train(0, STEPS, 0);
        await_written();
        if (write(pipes[1], &ready, 1) != 1) _exit(1);
        await(is_read, 60000);
        _exit(0);
    }
    return read(pipes[0], &ready, 1) == 1 ? number : 80;
}

/* Many records, fast: the buffers are bounded. */
static int flood(int number) {
    start_all();
    for (int i = 0; i < number; i++) step(i, 0);
    return 0;
}

/* KiB of memory that are this process's own. */
static long own_memory(void) {
    char line[128];
    long kb = -1;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "RssAnon: %ld", &kb) == 1) break;
    if (file) fclose(file);
    return kb;
}

/* NUMBER thousand launches with their kernels, as fast as the recording takes them, as a long job makes them in hours.
 * Prints its own memory after a tenth and at the end, in KiB; exit code 82: it grew by 13 bytes a launch. Each five
 * thousand are waited for: buffers that wait to be written, 250 bytes a launch, are no growth. */
static int hours(int number) {
    long early_kb = 0;
    start_all();
    for (int i = 0; i < number; i++) {
        for (int j = 0; j < 1000; j++) {
            const int64_t at_ns = zero_ns + ((int64_t)i * 1000 + j) * 100000;
            call(RUNTIME, LAUNCH_KERNEL, at_ns);
            kernel("_Z4gemmPKfS0_Pf", 7, 0, at_ns + 10000);
        }
        if (i % 5 == 4) await(is_fetched, 60000);
        if (i == number / 10) early_kb = own_memory();
    }
    const long late_kb = own_memory();
    printf("memory %ld to %ld KiB\n", early_kb, late_kb);
    return late_kb > early_kb + 12L * number ? 82 : 0;
}

/* Files may not grow: as a full disk, and the signal that comes with it would end the program. */
static int limited(int number) {
    const struct rlimit limit = {64 << 10, 64 << 10};
    setrlimit(RLIMIT_FSIZE, &limit);
    start_all();
    for (int i = 0; i < 5000; i++) step(i, 0);
    return number;
}

/* Works for NUMBER ms so that buffers fill all the time, then waits for what is left to be asked for. Its exit code:
 * how often CUPTI was flushed, less the times that this process did not get to work for half a look (50 ms). */
static int paced(int number) {
    start_all();
    int starved = 0;
    int64_t now_ns = time_of_day(), until_ns = now_ns + (int64_t)number * 1000000;
    for (int i = 0; now_ns < until_ns; i += 100) {
        train(i, 100, 0);
        nap(5);
        const int64_t last_ns = now_ns;
        now_ns = time_of_day();
        starved += now_ns - last_ns > 50000000;
    }
    const int while_busy = flushes_before = cupti->flushes();
    await(is_flushed, 60000);
    if (!is_flushed()) return 89;
    return while_busy < starved ? 0 : while_busy - starved < 88 ? while_busy - starved : 88;
}

/* Its exit code: what of CUPTI has been used, enum fake_cupti_use. */
static int used(int number) {
    start_all();
    train(0, STEPS, 0);
    nap(number);
    return cupti->uses();
}

/* Trains until the time to record is over, and on. Its exit code: 10 for each time that CUPTI was finalized, and what
 * has been used of it since. */
static int windowed(int number) {
    (void)number;
    start_all();
    train(0, STEPS, 0);
    await_settled();
    for (int i = 0; i < 10; i++) {
        train(STEPS + i, 1, 0);
        nap(50);
    }
    if (cupti->subscribers()) return 88;
    return 10 * cupti->finalized() + cupti->uses();
}

/* Trains before the time to record, in it and after it. Its exit code: steps that were launched in it, or NUMBER of
 * them. */
static int surrounded(int number) {
    int steps = 0;
    start_all();
    train(0, STEPS, 0);
    await(is_recording, 60000);
    for (; steps < number && !is_over(); steps++) {
        train(STEPS + steps, 1, 0);
        nap(20);
    }
    if (is_over()) train(STEPS + steps, STEPS, 0);
    return steps;
}

/* As windowed, but another profiler has come when the time is over, after NUMBER ms. Its exit code: times that CUPTI
 * was finalized; 86: it was disturbed. */
static int profiled_windowed(int number) {
    start_all();
    train(0, STEPS, 0);
    await(is_fetched, 60000);
    if (profile()) return 87;
    nap(number);
    train(STEPS, STEPS, 0);
    nap(200);
    return cupti->subscribers() == 1 && cupti->enabled() ? cupti->finalized() : 86;
}

/* Its exit code: the attribute that was set before callbacks were registered, + 1. */
static int attribute(int number) {
    start_all();
    train(0, STEPS, 0);
    return number + cupti->attribute();
}

static const struct {
    const char *name;
    int (*run)(int number);
} scenarios[] = {
    {"normal", normal},
    {"without-cuda", without_cuda},
    {"uninitialised", uninitialised},
    {"idle", idle},
    {"forked", forked},
    {"replaced", replaced},
    {"ranks", ranks},
    {"die-of", die_of},
    {"die-later", die_later},
    {"own-exit", own_exit},
    {"until-signal", until_signal},
    {"profiled-first", profiled_first},
    {"profiled-later", profiled_later},
    {"flood", flood},
    {"limited", limited},
    {"paced", paced},
    {"attribute", attribute},
    {"used", used},
    {"windowed", windowed},
    {"surrounded", surrounded},
    {"profiled-windowed", profiled_windowed},
    {"devices", devices},
    {"workers", workers},
    {"forked-late", forked_late},
    {"layers", layers},
    {"live", live},
    {"live-ranks", live_ranks},
    {"left-behind", left_behind},
    {"records-itself", records_itself},
    {"closing", closing},
    {"daemon", daemon_of},
    {"hours", hours},
};

int main(int argc, char **argv) {
    for (size_t i = 0; argc > 1 && i < sizeof scenarios / sizeof *scenarios; i++)
        if (strcmp(scenarios[i].name, argv[1]) == 0) return scenarios[i].run(argc > 2 ? atoi(argv[2]) : 0);
    return 100;
}
