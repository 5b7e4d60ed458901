/* libaorta_inject.so: CUDA's driver loads it into an unmodified program (CUDA_INJECTION64_PATH). It takes the records
 * of CUPTI's activity interface and writes them to a spool. A program that loads the library itself calls
 * aorta_record_begin and aorta_record_end (python/aorta).
 *
 * The process belongs to the user. So: nothing is printed but one line when the spool cannot be made, no signal handler
 * is touched, memory is bounded, the thread takes no signals, a child made by fork forgets everything, and a failure
 * ends the recording and never the program.
 *
 * CUPTI serves one client. The library keeps no subscription, because PyTorch's profiler gives up the GPU when it
 * cannot subscribe. When records stop coming, the library tries to subscribe for a moment; if another client has the
 * subscription, this library stops using CUPTI and touches nothing any more, since everything enabled then belongs to
 * that client. No clock is registered for this reason, too.
 *
 * Kernels of graphs are recorded one by one (kind CONCURRENT_KERNEL), not one record for a whole launch (kind
 * GRAPH_TRACE): it costs the device about a microsecond more per node, but only so compute and communication inside a
 * graph can be separated. */
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

/* NVIDIA advises buffers of 1 to 10 MB, but every thread that calls CUDA fills one of its own, and a process that is
 * killed loses those that are not full. */
enum { BUFFER_KB = 256, BUFFER_LIMIT = 256 };
enum { CALL_IDS = 1024 }; /* CUDA 13 has about 550 numbers of the runtime's calls, 850 of the driver's */
enum { FLUSH_AT_LATEST_NS = 2000000000 }; /* see fetch_finished */

enum state {
    OFF,     /* not begun, over, or in a child made by fork: buffers are not given out */
    RUNNING, /* the thread looks for records */
    TAKEN,   /* another profiler has CUPTI: never touched again */
    GONE     /* recording is over and CUPTI has left the process */
};

/* CUPTI's callbacks, exit handlers and fork handlers carry no argument of ours, and a process has one of each. */
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
    int64_t window_ms;     /* of each file; 0: there is one */
    int64_t window_end_ms; /* time of window_time() */
    int64_t day_ns;        /* time of day less the clock that nobody sets, as it was at the start */
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

/* ---- CUPTI's callbacks: on any thread, often one of the program's that is launching ---- */

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

/* Switches the requested calls of the table on, or all other calls of the first CALL_IDS off; some CUPTI versions do
 * not know the newest. False: none could be switched. */
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

/* Single calls that are switched on after a context was made, with none of their interface on at that time, are never
 * recorded. So a recording that begins late switches all on, and then the useless ones off. Before CUDA 12.5 CUPTI
 * records all calls of an interface or none; useless ones are dropped later. */
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

/* From the buffers to the file. False: there were none. */
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

/* With no buffer lent there is nothing to fetch, and an idle process is left in peace. */
static void fetch(uint32_t flag) {
    if (inject.enabled && aorta_cupti_buffers_lent(&inject.buffers)) inject.cupti.api.flush(flag);
    inject.flushed_ns = aorta_clock_ns();
    drain();
}

/* A program's threads may wait at CUPTI's locks while it flushes. A busy thread fills buffers, and full ones arrive
 * anyway. So CUPTI is flushed only for a quiet program, when it has many records, and once in a while for threads that
 * do little. */
static void fetch_finished(void) {
    bool came = drain();
    bool many = aorta_cupti_buffers_lent(&inject.buffers) > BUFFER_LIMIT / 4;
    if (!came || many || aorta_clock_ns() - inject.flushed_ns >= FLUSH_AT_LATEST_NS) fetch(0);
}

/* Threads that launch concurrently then do not wait for each other. CUDA 13 does so without this setting; older ones
 * refuse it, and nothing is lost. */
static void give_each_thread_buffers(void) {
    uint8_t on = 1;
    size_t bytes = sizeof on;
    if (inject.cupti.api.set_attribute)
        inject.cupti.api.set_attribute(AORTA_CUPTI_ATTRIBUTE_BUFFER_PER_THREAD, &bytes, &on);
}

/* Another profiler may have enabled records by now without having noticed ours: these are not ours to disable. */
static void stop_recording(enum aorta_spool_state state) {
    char other[64];
    if (aorta_inject_cupti_taken(&inject.cupti, other)) {
        leave_cupti(other);
        return;
    }
    disable_all();
    aorta_spool_set_state(&inject.spool, state, 0);
}

/* Nothing of CUPTI is touched before its time, so that until then a program runs as fast as alone. */
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

/* CUPTI's exit handlers were registered after ours by now, and would run first: ours is registered once more. */
static void attach_late(void) {
    inject.late = true;
    attach();
    atexit(at_exit);
}

/* The time of day without its jumps: windows are named by it, in all processes that have started before a jump. */
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

/* The next window's file. It repeats the process's identity, and has its own names. If it cannot be made this window is
 * not recorded, and the next one tries again. */
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

/* Waits for work that was under way when recording ended, then removes CUPTI. */
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
        /* Full or failed, as its state says already: nobody takes the records any more, before the next window. */
        if (inject.spool.stopped && inject.enabled && !inject.window_ms) stop_recording(inject.spool.head.state);
        look_for_others(inject.quiet_ns);
    }
    note_departure();
    turn_window();
    aorta_spool_flush(&inject.spool);
}

/* The program has priority where processors are short: a thread of this class never interrupts one that runs. It is not
 * slower than the program's threads (nice), since they would wait for it while it holds a lock of CUPTI's. */
static void yield_to_the_program(void) {
    const struct sched_param parameters = {0};
    pthread_setschedparam(pthread_self(), SCHED_BATCH, &parameters);
}

/* Where the time to record begins and ends it looks at that moment, not up to a whole round later. */
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

/* False: the spool says why there will be no records. */
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
    /* Now, not on the thread: a graph made before would be recorded without its kernels. */
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
/* Called by the driver within cuInit, once. It takes the 1 for success and goes on either way. */
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

/* Drops the state of the process's earlier recording. CUPTI stays open: it costs nothing while nothing is enabled. */
static void forget_the_last(void) {
    aorta_inject_names_free(&inject.records.names);
    memset(&inject.records, 0, sizeof inject.records);
    inject.detach.phase = 0;
    inject.over_ns = inject.over_time = inject.end_ns = 0;
    inject.attached = inject.enabled = inject.settled = inject.threaded = inject.ending = false;
    atomic_store(&inject.lost, 0);
}

ENTRY int aorta_record_begin(const char *directory);
/* Records the process from now on, into a new spool of the folder. 0; EBUSY: it is being recorded already; else an
 * errno of the spool. Whether CUPTI gives records is written in the spool. One thread at a time. */
int aorta_record_begin(const char *directory) {
    if (atomic_load(&inject.state) != OFF) return EBUSY;
    forget_the_last();
    inject.late = true;
    return start(directory, false);
}

ENTRY int aorta_record_end(void);
/* Ends the recording of aorta_record_begin. The caller waits for the device first: work that has not ended has no
 * times. 0; ESRCH: nothing was being recorded; ETIMEDOUT: CUPTI hangs, and the written spool stays valid. */
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
