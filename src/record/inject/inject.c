/* libaorta_inject.so: CUDA's driver loads it into an unmodified program (CUDA_INJECTION64_PATH). It takes the records
 * of CUPTI's activity interface and writes them to a spool. A program that loads the library itself calls
 * aorta_record_begin and aorta_record_end (python/aorta).
 *
 * The process belongs to the user. So the library prints only one line, if the spool cannot be made. It changes no
 * signal handler, its thread gets no signals, and its memory is bounded. A child made by fork forgets everything. A
 * failure ends the recording but never the program.
 *
 * CUPTI serves one client. The library does not stay subscribed, because PyTorch's profiler gives up the GPU if it
 * cannot subscribe. If no records arrive, the library subscribes for a moment. If another client has the subscription,
 * the library stops using CUPTI and disables nothing, as everything enabled then belongs to that client. For the same
 * reason no clock is registered.
 *
 * Kernels of graphs are recorded one by one (kind CONCURRENT_KERNEL), not one record for a whole launch (kind
 * GRAPH_TRACE): this costs the device about a microsecond more per node, but is needed to separate compute and
 * communication inside a graph. */
#include "record/inject/inject.h"
#include "base/clock.h"
#include "base/thread.h"
#include "measure/cupti_abi.h"
#include "record/inject/settings.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ENTRY __attribute__((visibility("default")))

enum { QUIET_NS = 2000000000, LONGEST_QUIET = 32 }; /* without records until another profiler is looked for; doubled */
enum { END_SECONDS = 5 };                           /* how long the end waits for the thread */
enum { SETTLE_NS = 200000000 };                     /* work launched within the time to record ends within this */

/* NVIDIA advises buffers of 1 to 10 MB. But each thread that calls CUDA fills its own buffer, and a killed process
 * loses the buffers that are not full. */
enum { BUFFER_KB = 256, BUFFER_LIMIT = 256 };
enum { CALL_IDS = 1024 }; /* CUDA 13 has about 550 numbers of the runtime's calls, 850 of the driver's */
enum { FLUSH_AT_LATEST_NS = 2000000000 }; /* see fetch_finished */

enum state {
    OFF,     /* not begun, over, or in a child made by fork: buffers are not given out */
    RUNNING, /* the thread looks for records */
    TAKEN,   /* another profiler has CUPTI: never touched again */
    GONE     /* recording is over and CUPTI has left the process */
};

/* Global, as CUPTI's callbacks, exit handlers and fork handlers have no user argument. */
static struct {
    _Atomic int state;
    _Atomic int64_t lost;
    pid_t owner;
    bool attached; /* CUPTI knows of us */
    bool late;     /* recording begins when the program may have contexts */
    bool enabled;
    enum aorta_inject_stage stage;
    struct aorta_inject_detach detach;
    int64_t over_ns, over_time; /* when recording was over, on the monotonic clock and of day; 0: not yet */
    bool settled;               /* the last records since then are written */
    struct aorta_inject_cupti cupti;
    struct aorta_cupti_buffers buffers;
    struct aorta_spool spool;
    uint64_t limit; /* of the spool's bytes */
    struct aorta_inject_records records;
    int64_t begin_ns;      /* of recording at the earliest, on the monotonic clock */
    int64_t duration_ns;   /* of recording; 0: to the end of the process */
    int64_t end_ns;        /* on the monotonic clock; 0: not known yet, or with the process */
    int64_t window_ms;     /* length of each file's window; 0: one file */
    int64_t window_end_ms; /* time of window_time() */
    int64_t day_ns;        /* time of day minus the monotonic clock, at the start */
    int64_t flush_ns;
    int64_t flushed_ns; /* CUPTI's last flush, on the monotonic clock */
    int64_t arrived_ns; /* when records last came, on the monotonic clock */
    int64_t quiet_ns;   /* so long without records until the next look for another profiler */
    bool threaded;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool ending;
} inject = {.spool.fd = -1};

/* ---- CUPTI's callbacks: on any thread, often a launching thread of the program ---- */

static void request_buffer(uint8_t **bytes, size_t *size, size_t *record_limit) {
    *bytes = NULL;
    *size = *record_limit = 0;
    if (atomic_load(&inject.state) != RUNNING) return;
    *bytes = aorta_cupti_buffers_lend(&inject.buffers, &inject.cupti.api, &inject.lost);
    if (*bytes) *size = inject.buffers.bytes;
}

static void complete_buffer(void *context, uint32_t stream, uint8_t *bytes, size_t size, size_t valid) {
    (void)context, (void)stream, (void)size;
    int state = atomic_load(&inject.state);
    if (bytes && (state == RUNNING || state == TAKEN)) aorta_cupti_buffers_return(&inject.buffers, bytes, valid);
}

/* ---- kinds of records ---- */

static bool enable_kind(uint32_t kind, bool needed) {
    uint32_t result = inject.cupti.api.enable(kind);
    if (result == AORTA_CUPTI_SUCCESS) return true;
    aorta_spool_note(&inject.spool, aorta_clock_day(), "cuptiActivityEnable(%u): %s (%u)", kind,
                     aorta_cupti_reason(&inject.cupti.api, result), result);
    if (needed) aorta_spool_set_state(&inject.spool, AORTA_SPOOL_REFUSED, result);
    return false;
}

/* Enables the requested calls of the table, or disables all other calls with ids below CALL_IDS. Some CUPTI versions
 * do not know the newest calls. False if nothing could be switched. */
static bool choose_calls(uint8_t on) {
    int chosen = 0;
    if (!inject.cupti.api.enable_runtime || !inject.cupti.api.enable_driver) return false;
    for (int runtime = 0; runtime < 2; runtime++) {
        uint32_t kind = runtime ? AORTA_CUPTI_KIND_RUNTIME : AORTA_CUPTI_KIND_DRIVER;
        for (uint32_t id = 1; id < CALL_IDS; id++) {
            const struct aorta_inject_call *call = aorta_inject_call_of(kind, id);
            bool wanted = call && aorta_inject_call_part(call) & inject.records.parts;
            if (wanted != on) continue;
            uint32_t result = (runtime ? inject.cupti.api.enable_runtime : inject.cupti.api.enable_driver)(id, on);
            chosen += result == AORTA_CUPTI_SUCCESS;
        }
    }
    return chosen > 0;
}

/* If a context was made while no call of an interface (runtime or driver) was enabled, single calls that are enabled
 * later are never recorded. So a late recording enables all calls and then disables the useless calls. Before CUDA
 * 12.5 CUPTI records all calls of an interface or none; useless records are dropped later. */
static void enable_calls(void) {
    bool none = !(inject.records.parts & (AORTA_SPOOL_LAUNCHES | AORTA_SPOOL_WAITS));
    if (none || (!inject.late && choose_calls(1))) return;
    inject.cupti.api.enable(AORTA_CUPTI_KIND_RUNTIME);
    inject.cupti.api.enable(AORTA_CUPTI_KIND_DRIVER);
    choose_calls(0);
}

static void disable_all(void) {
    if (!inject.enabled) return;
    inject.enabled = false;
    inject.over_ns = aorta_clock_ns();
    inject.over_time = aorta_clock_day();
    for (int i = AORTA_CUPTI_KIND_COUNT; i-- > 0;) inject.cupti.api.disable(aorta_cupti_kinds[i]);
    inject.cupti.api.disable(AORTA_CUPTI_KIND_RUNTIME);
    inject.cupti.api.disable(AORTA_CUPTI_KIND_DRIVER);
    inject.cupti.api.disable(AORTA_CUPTI_KIND_MARKER);
}

static bool enable_all(void) {
    if (inject.stage < AORTA_INJECT_RECORDING) return true;
    inject.enabled = true;
    inject.spool.head.begun_ns = aorta_clock_day();
    inject.arrived_ns = aorta_clock_ns();
    inject.end_ns = inject.duration_ns ? inject.arrived_ns + inject.duration_ns : 0;
    for (int i = 0; i < AORTA_CUPTI_KIND_COUNT; i++) {
        if (enable_kind(aorta_cupti_kinds[i], i == 0) || i > 0) continue;
        disable_all();
        return false;
    }
    enable_calls();
    const char *nvtx = getenv(AORTA_INJECT_NVTX);
    if (nvtx && strcmp(nvtx, "1") == 0) inject.cupti.api.enable(AORTA_CUPTI_KIND_MARKER);
    return true;
}

/* ---- the thread ---- */

static void read_buffer(struct aorta_cupti_buffer *buffer) {
    struct aorta_cupti_activity *activity = NULL;
    while (inject.cupti.api.next_record(buffer->bytes, buffer->valid, &activity) == AORTA_CUPTI_SUCCESS)
        aorta_inject_record(&inject.records, &inject.spool, activity);
}

/* Moves records from the full buffers to the file. False if there were none. */
static bool drain(void) {
    bool any = false;
    for (struct aorta_cupti_buffer *buffer; (buffer = aorta_cupti_buffers_take(&inject.buffers)); any = true) {
        read_buffer(buffer);
        aorta_cupti_buffers_recycle(&inject.buffers, buffer);
    }
    size_t dropped = 0; /* since it was last asked */
    if (any && inject.cupti.api.dropped(NULL, 0, &dropped) == AORTA_CUPTI_SUCCESS)
        atomic_fetch_add(&inject.lost, (int64_t)dropped);
    inject.spool.head.lost = (uint64_t)atomic_load(&inject.lost);
    inject.spool.head.unfinished = inject.records.unfinished;
    if (!any) return false;
    inject.spool.head.last_ns = inject.over_ns ? inject.over_time : aorta_clock_day();
    inject.arrived_ns = aorta_clock_ns();
    inject.quiet_ns = QUIET_NS;
    return true;
}

static void leave_cupti(const char *other) {
    atomic_store(&inject.state, TAKEN);
    inject.enabled = false;
    aorta_spool_note(&inject.spool, aorta_clock_day(), "%s has CUPTI in this process%s",
                     *other ? other : "another profiler",
                     inject.spool.head.last_ns ? "; it took it over from the recording" : "");
    aorta_spool_set_state(&inject.spool, AORTA_SPOOL_TAKEN, AORTA_CUPTI_MULTIPLE_SUBSCRIBERS);
}

static void look_for_others(int64_t quiet_ns) {
    char other[64];
    if (!inject.enabled || aorta_clock_ns() - inject.arrived_ns < quiet_ns) return;
    if (aorta_inject_cupti_taken(&inject.cupti, other)) leave_cupti(other);
    if (inject.quiet_ns < (int64_t)QUIET_NS * LONGEST_QUIET) inject.quiet_ns *= 2;
}

/* Flushes CUPTI only if it has buffers, so that an idle process is not disturbed. */
static void fetch(uint32_t flag) {
    if (inject.enabled && aorta_cupti_buffers_lent(&inject.buffers)) inject.cupti.api.flush(flag);
    inject.flushed_ns = aorta_clock_ns();
    drain();
}

/* The program's threads may wait for CUPTI's locks during a flush, and full buffers of busy threads arrive without it.
 * So CUPTI is flushed only if no buffer arrived, if it has many buffers, and after FLUSH_AT_LATEST_NS for threads with
 * few records. */
static void fetch_finished(void) {
    bool came = drain();
    bool many = aorta_cupti_buffers_lent(&inject.buffers) > BUFFER_LIMIT / 4;
    if (!came || many || aorta_clock_ns() - inject.flushed_ns >= FLUSH_AT_LATEST_NS) fetch(0);
}

/* With a buffer per thread, threads that launch concurrently do not wait for each other. This is CUDA 13's default.
 * Versions that do not know the setting refuse it, which does no harm. */
static void give_each_thread_buffers(void) {
    uint8_t on = 1;
    size_t bytes = sizeof on;
    if (inject.cupti.api.set_attribute)
        inject.cupti.api.set_attribute(AORTA_CUPTI_ATTRIBUTE_BUFFER_PER_THREAD, &bytes, &on);
}

/* Another profiler may have enabled records by now; those must not be disabled. */
static void stop_recording(enum aorta_spool_state state) {
    char other[64];
    if (aorta_inject_cupti_taken(&inject.cupti, other)) {
        leave_cupti(other);
        return;
    }
    disable_all();
    aorta_spool_set_state(&inject.spool, state, 0);
}

/* CUPTI is not used before the recording begins, so that until then the program runs at full speed. */
static bool attach(void) {
    char other[64];
    if (inject.stage < AORTA_INJECT_SUBSCRIBED) return true;
    inject.attached = true;
    if (aorta_inject_cupti_taken(&inject.cupti, other)) {
        leave_cupti(other);
        return false;
    }
    if (inject.stage < AORTA_INJECT_REGISTERED) return true;
    give_each_thread_buffers();
    uint32_t result = inject.cupti.api.register_callbacks(request_buffer, complete_buffer);
    if (result == AORTA_CUPTI_SUCCESS) return enable_all();
    aorta_spool_note(&inject.spool, aorta_clock_day(), "cuptiActivityRegisterCallbacks: %s (%u)",
                     aorta_cupti_reason(&inject.cupti.api, result), result);
    aorta_spool_set_state(&inject.spool, AORTA_SPOOL_REFUSED, result);
    return false;
}

static void at_exit(void);

/* Registers our exit handler again, as CUPTI's exit handlers were registered after it and would run first. */
static void attach_late(void) {
    inject.late = true;
    attach();
    atexit(at_exit);
}

/* The time of day without jumps of the clock after the start. Windows are named by it, so processes that started
 * before a jump agree. */
static int64_t window_time(void) {
    return inject.day_ns + aorta_clock_ns();
}

/* Makes the folder of the window that is now: 0, or errno. */
static int window_folder(char folder[AORTA_SPOOL_PATH]) {
    const char *directory = getenv(AORTA_INJECT_DIRECTORY);
    int64_t now_ms = window_time() / 1000000, start_ms = now_ms - now_ms % inject.window_ms;
    inject.window_end_ms = start_ms + inject.window_ms;
    int length = snprintf(folder, AORTA_SPOOL_PATH, "%s/" AORTA_SPOOL_WINDOW_NAME, directory ? directory : ".",
                          (long long)start_ms, (long long)inject.window_ms);
    if (length >= AORTA_SPOOL_PATH) return ENAMETOOLONG;
    return mkdir(folder, 0700) && errno != EEXIST ? errno : 0;
}

/* Starts the next window's file, with the process's identity again and its own names. If the file cannot be made, this
 * window is not recorded and the next window tries again. */
static void turn_window(void) {
    char folder[AORTA_SPOOL_PATH];
    if (!inject.window_ms || inject.over_ns || window_time() / 1000000 < inject.window_end_ms) return;
    fetch(0);
    aorta_spool_set_state(&inject.spool, AORTA_SPOOL_WINDOW, 0);
    int64_t last_ns = inject.spool.head.last_ns, begun_ns = inject.spool.head.begun_ns;
    aorta_spool_close(&inject.spool);
    aorta_inject_names_free(&inject.records.names);
    memset(inject.records.known_devices, 0, sizeof inject.records.known_devices);
    inject.records.unfinished = 0;
    atomic_store(&inject.lost, 0);
    int error = window_folder(folder);
    if (!error) error = aorta_spool_open(&inject.spool, folder, inject.limit);
    if (error) return;
    inject.spool.head.last_ns = last_ns;
    inject.spool.head.begun_ns = begun_ns ? aorta_clock_day() : 0;
    aorta_inject_put_process(&inject.spool, &inject.cupti, inject.records.parts);
}

static void settle(void) {
    inject.settled = true;
    inject.cupti.api.flush(AORTA_CUPTI_FLUSH_FORCED);
    drain();
}

/* Removes CUPTI once the work that was running at the end of recording has had time to end. */
static void let_go(int64_t now_ns) {
    const char *wish = getenv(AORTA_INJECT_DETACH), *reason = NULL;
    if (now_ns - inject.over_ns < SETTLE_NS || inject.settled) return;
    settle();
    if (!wish || strcmp(wish, "0") != 0) reason = aorta_inject_detach_ask(&inject.detach, &inject.cupti);
    if (reason) aorta_spool_note(&inject.spool, aorta_clock_day(), "%s", reason);
}

static void note_departure(void) {
    if (!aorta_inject_detach_done(&inject.detach)) return;
    atomic_store(&inject.state, GONE);
    uint32_t result = inject.detach.result; /* has no words: CUPTI is not to be called any more */
    if (result)
        aorta_spool_note(&inject.spool, aorta_clock_day(), "CUPTI stays in the process: cuptiFinalize (%u)", result);
}

static void look(void) {
    int64_t now_ns = aorta_clock_ns();
    if (!inject.attached && now_ns >= inject.begin_ns) attach_late();
    if (inject.enabled && inject.end_ns && now_ns >= inject.end_ns) stop_recording(AORTA_SPOOL_STOPPED);
    if (inject.over_ns) {
        let_go(now_ns);
    } else if (inject.attached) {
        fetch_finished();
        /* The spool is full or failed, as its state says, and drops all records until the next window. */
        if (inject.spool.stopped && inject.enabled && !inject.window_ms) stop_recording(inject.spool.head.state);
        look_for_others(inject.quiet_ns);
    }
    note_departure();
    turn_window();
    aorta_spool_flush(&inject.spool);
}

/* Gives the program priority if processors are short: a SCHED_BATCH thread does not preempt running threads. A nice
 * value would be worse: the program's threads would wait longer while this thread has a lock of CUPTI. */
static void yield_to_the_program(void) {
    const struct sched_param parameters = {0};
    pthread_setschedparam(pthread_self(), SCHED_BATCH, &parameters);
}

/* The next look is no later than the begin or end of recording or of a window. */
static int64_t next_look(int64_t now_ns) {
    int64_t edge_ns = inject.attached ? inject.end_ns : inject.begin_ns, usual_ns = now_ns + inject.flush_ns;
    if (inject.window_ms) {
        int64_t left_ns = inject.window_end_ms * 1000000 - window_time();
        if (left_ns > 0 && left_ns < inject.flush_ns) usual_ns = now_ns + left_ns;
    }
    return edge_ns > now_ns && edge_ns < usual_ns ? edge_ns : usual_ns;
}

static void *run(void *unused) {
    (void)unused;
    pthread_setname_np(pthread_self(), "aorta-trace");
    yield_to_the_program();
    pthread_mutex_lock(&inject.lock);
    while (!inject.ending && atomic_load(&inject.state) == RUNNING) {
        aorta_cond_wait_until(&inject.wake, &inject.lock, next_look(aorta_clock_ns()));
        if (inject.ending) break;
        pthread_mutex_unlock(&inject.lock);
        look();
        pthread_mutex_lock(&inject.lock);
    }
    pthread_mutex_unlock(&inject.lock);
    return NULL;
}

/* ---- the end, and children ---- */

static bool end_thread(void) {
    static const struct timespec nap = {.tv_nsec = 2000000};
    if (!inject.threaded) return true;
    pthread_mutex_lock(&inject.lock);
    inject.ending = true;
    pthread_cond_signal(&inject.wake);
    pthread_mutex_unlock(&inject.lock);
    const int64_t until_ns = aorta_clock_ns() + END_SECONDS * INT64_C(1000000000);
    int error; /* pthread_timedjoin_np would wait by the time of day, which may jump */
    while ((error = pthread_tryjoin_np(inject.thread, NULL)) == EBUSY && aorta_clock_ns() < until_ns)
        nanosleep(&nap, NULL);
    return error == 0;
}

static void at_exit(void) {
    if (getpid() != inject.owner || atomic_load(&inject.state) == OFF) return;
    if (!end_thread()) return; /* it hangs in CUPTI; the written spool stays valid */
    int state = atomic_load(&inject.state);
    if (state == RUNNING) {
        look_for_others((int64_t)inject.flush_ns);
        if (inject.enabled) fetch(AORTA_CUPTI_FLUSH_FORCED);
        if (inject.over_ns && !inject.settled) settle();
        aorta_inject_detach_cancel(&inject.detach);
        aorta_spool_set_state(&inject.spool, AORTA_SPOOL_ENDED, 0);
    } else if (state == TAKEN) {
        drain();
    }
    atomic_store(&inject.state, OFF);
    aorta_spool_close(&inject.spool);
    aorta_inject_names_free(&inject.records.names);
}

/* A child has no CUDA, none of the threads, and no business with the parent's file. */
static void in_child(void) {
    atomic_store(&inject.state, OFF);
    aorta_inject_detach_forget(&inject.detach);
    aorta_spool_forget(&inject.spool);
}

/* ---- the beginning ---- */

static bool start_thread(void) {
    pthread_mutex_init(&inject.lock, NULL);
    aorta_cond_init(&inject.wake);
    int error = aorta_thread_start(&inject.thread, run, NULL);
    inject.threaded = error == 0;
    if (error) aorta_spool_note(&inject.spool, aorta_clock_day(), "no thread for the recording: %s", strerror(error));
    if (error) aorta_spool_set_state(&inject.spool, AORTA_SPOOL_FAILED, (uint32_t)error);
    return error == 0;
}

/* False if there will be no records; the spool has the reason. */
static bool open_cupti(void) {
    bool wanted = inject.stage >= AORTA_INJECT_OPENED;
    bool found = wanted && (inject.cupti.handle || aorta_inject_cupti_open(&inject.cupti, getenv(AORTA_INJECT_CUPTI)));
    aorta_inject_put_process(&inject.spool, &inject.cupti, inject.records.parts);
    if (inject.stage < AORTA_INJECT_RECORDING)
        aorta_spool_note(&inject.spool, aorta_clock_day(), AORTA_INJECT_STAGE "=%s goes no further",
                         aorta_inject_stages[inject.stage]);
    if (found || !wanted) return true;
    aorta_spool_note(&inject.spool, aorta_clock_day(), "%s", inject.cupti.tried);
    aorta_spool_set_state(&inject.spool, AORTA_SPOOL_MISSING, 0);
    return false;
}

static bool begin(void) {
    if (!open_cupti()) return false;
    int64_t buffer_kb = aorta_inject_setting(AORTA_INJECT_BUFFER, BUFFER_KB);
    bool sound = buffer_kb >= 1 && buffer_kb <= 16 << 10;
    if (!inject.buffers.bytes) /* CUPTI may still hold some of an earlier recording */
        aorta_cupti_buffers_init(&inject.buffers, (size_t)(sound ? buffer_kb : BUFFER_KB) << 10, BUFFER_LIMIT);
    atomic_store(&inject.state, RUNNING);
    /* Attaches here and not on the thread, as kernels of a graph that is made before are not recorded. */
    if (inject.begin_ns <= aorta_clock_ns() && !attach()) return false;
    aorta_spool_flush(&inject.spool); /* from here on it is the thread's */
    return inject.stage < AORTA_INJECT_REGISTERED || start_thread();
}

static void hook_the_end(void) {
    static bool hooked;
    if (hooked) return;
    hooked = true;
    pthread_atfork(NULL, NULL, in_child);
    atexit(at_exit); /* after CUPTI's own, so that it runs before them */
}

/* 0, or the reason that there is no spool. Later failures are written in the spool. */
static int start(const char *directory, bool windowed) {
    int64_t now_ns = aorta_clock_ns();
    char folder[AORTA_SPOOL_PATH];
    inject.limit = (uint64_t)aorta_inject_setting(AORTA_INJECT_LIMIT, 2048) << 20;
    inject.day_ns = aorta_clock_day() - now_ns;
    inject.window_ms = windowed ? aorta_inject_setting(AORTA_INJECT_WINDOW, 0) : 0;
    inject.owner = getpid();
    inject.flush_ns = aorta_inject_setting(AORTA_INJECT_FLUSH, 200) * 1000000;
    inject.begin_ns = now_ns + aorta_inject_setting(AORTA_INJECT_DELAY, 0) * 1000000;
    inject.duration_ns = aorta_inject_setting(AORTA_INJECT_DURATION, 0) * 1000000;
    inject.arrived_ns = inject.flushed_ns = now_ns;
    inject.quiet_ns = QUIET_NS;
    inject.records.parts = aorta_inject_parts_wished();
    inject.stage = aorta_inject_stage_wished();
    int error = inject.window_ms ? window_folder(folder) : 0;
    if (!error) error = aorta_spool_open(&inject.spool, inject.window_ms ? folder : directory, inject.limit);
    if (error) return error;
    bool begun = begin();
    hook_the_end();
    if (begun) return 0;
    atomic_store(&inject.state, OFF);
    aorta_spool_close(&inject.spool);
    return 0;
}

ENTRY int InitializeInjection(void);
/* The driver calls this once, within cuInit. 1 means success; cuInit continues in any case. */
int InitializeInjection(void) {
    static atomic_flag begun = ATOMIC_FLAG_INIT;
    const char *directory = getenv(AORTA_INJECT_DIRECTORY);
    if (!directory || !*directory || atomic_flag_test_and_set(&begun)) return 1;
    int error = start(directory, true);
    if (error)
        fprintf(stderr, "aorta trace run: process %d is not recorded: %s: %s\n", (int)inject.owner, directory,
                strerror(error));
    return 1;
}

/* ---- recordings that the program itself begins and ends ---- */

/* Resets the state after an earlier recording. CUPTI stays open, as it costs nothing while nothing is enabled. */
static void forget_the_last(void) {
    aorta_inject_names_free(&inject.records.names);
    memset(&inject.records, 0, sizeof inject.records);
    inject.detach.phase = 0;
    inject.over_ns = inject.over_time = inject.end_ns = 0;
    inject.attached = inject.enabled = inject.settled = inject.threaded = inject.ending = false;
    atomic_store(&inject.lost, 0);
}

ENTRY int aorta_record_begin(const char *directory);
/* Begins to record the process into a new spool in the folder. Returns 0, EBUSY if it is already recorded, or an errno
 * of the spool. The spool shows whether CUPTI delivers records. One thread at a time. */
int aorta_record_begin(const char *directory) {
    if (atomic_load(&inject.state) != OFF) return EBUSY;
    forget_the_last();
    inject.late = true;
    return start(directory, false);
}

ENTRY int aorta_record_end(void);
/* Ends the recording of aorta_record_begin. The caller must synchronize the device first, as unfinished work has no
 * times. Returns 0, ESRCH if nothing was recorded, or ETIMEDOUT if CUPTI hangs; the written spool stays valid. */
int aorta_record_end(void) {
    if (atomic_load(&inject.state) == OFF || getpid() != inject.owner) return ESRCH;
    if (!end_thread()) return ETIMEDOUT;
    if (atomic_load(&inject.state) == RUNNING && inject.enabled) {
        fetch(AORTA_CUPTI_FLUSH_FORCED); /* while everything is enabled: threads still have records */
        stop_recording(AORTA_SPOOL_STOPPED);
    }
    inject.threaded = false;
    at_exit();
    return 0;
}
