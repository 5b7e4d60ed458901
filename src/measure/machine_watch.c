/* Takes readings of the machine while a program runs. */
#include "base/clock.h"
#include "base/files.h"
#include "base/thread.h"
#include "measure/machine_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { OWN_MOST = 4096 }; /* the program's processes, which are distinguished from other ones */
static const int64_t period_ns = 1000000000;

struct aorta_machine_watch {
    int file; /* -1: it failed */
    pid_t root;
    struct aorta_machine_head head;
    struct aorta_gpus *gpus; /* NULL: none */
    int64_t looked_ns;       /* monotonic */
    double own_s;            /* the most so far: the time of a process that ends unwaited for disappears */
    int64_t *before;         /* processes on GPUs before the program began; owned */
    size_t before_count;
    size_t own_count;
    int64_t own[OWN_MOST];
    bool threaded, ending;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
};

static int64_t time_of_day(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static bool is_own(const struct aorta_machine_watch *watch, int64_t pid) {
    for (size_t i = 0; i < watch->own_count; i++)
        if (watch->own[i] == pid) return true;
    for (size_t i = 0; i < watch->before_count; i++)
        if (watch->before[i] == pid) return false;
    /* The driver may use the numbers of another namespace (containers): a process that is not found here and came after
     * the program's start counts as the program's own. */
    return kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

static aorta_status read_gpu(struct aorta_machine_watch *watch, size_t index, struct aorta_machine_gpu *gpu) {
    struct aorta_gpu_state state;
    aorta_gpus_read(watch->gpus, index, &state);
    *gpu = (struct aorta_machine_gpu){.metrics = state.metrics, .processes_known = state.processes_known};
    gpu->processes = calloc(state.process_count + 1, sizeof *gpu->processes);
    if (!gpu->processes) return AORTA_ERROR(AORTA_MEMORY, "no memory for a GPU's processes");
    for (gpu->process_count = 0; gpu->process_count < state.process_count; gpu->process_count++) {
        const struct aorta_gpu_process *from = &state.processes[gpu->process_count];
        gpu->processes[gpu->process_count] =
            (struct aorta_machine_process){from->pid, is_own(watch, from->pid), from->memory_bytes, from->sm_share};
    }
    return NULL;
}

static aorta_status read_gpus(struct aorta_machine_watch *watch, struct aorta_machine_reading *reading) {
    const size_t count = aorta_gpus_count(watch->gpus);
    if (!count) return NULL;
    reading->gpus = calloc(count, sizeof *reading->gpus);
    if (!reading->gpus) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu GPUs", count);
    for (; reading->gpu_count < count; reading->gpu_count++)
        AORTA_TRY(read_gpu(watch, reading->gpu_count, &reading->gpus[reading->gpu_count]));
    return NULL;
}

static void write_line(struct aorta_machine_watch *watch, const struct aorta_machine_reading *reading) {
    struct aorta_text line = {0};
    aorta_machine_write(&watch->head, reading, &line);
    const bool whole = line.data && !line.failed;
    if (!whole || aorta_write_all(watch->file, line.data, line.length)) {
        close(watch->file);
        watch->file = -1;
    }
    aorta_text_free(&line);
}

static aorta_status take(struct aorta_machine_watch *watch, double ended_s) {
    struct aorta_machine_reading reading = {.at_ns = time_of_day()};
    watch->looked_ns = aorta_clock_ns();
    aorta_machine_read_proc("/proc", &reading);
    double own_s = isnan(ended_s) ? aorta_machine_tree(watch->root, watch->own, OWN_MOST, &watch->own_count) : ended_s;
    if (own_s > watch->own_s) watch->own_s = own_s;
    reading.own_s = isnan(own_s) ? NAN : watch->own_s;
    aorta_status status = read_gpus(watch, &reading);
    if (!status && watch->file >= 0) write_line(watch, &reading);
    aorta_machine_reading_free(&reading);
    return status;
}

/* Stores the processes that are on a GPU before the program. */
static aorta_status note_who_is_there(struct aorta_machine_watch *watch, bool fresh) {
    const size_t count = aorta_gpus_count(watch->gpus);
    struct aorta_gpu_state state;
    if (!fresh) return NULL;
    watch->before = calloc(count * AORTA_GPU_PROCESSES_MOST + 1, sizeof *watch->before);
    if (!watch->before) return AORTA_ERROR(AORTA_MEMORY, "no memory for the processes on %zu GPUs", count);
    for (size_t i = 0; i < count; i++) {
        aorta_gpus_read(watch->gpus, i, &state);
        for (size_t j = 0; j < state.process_count; j++) watch->before[watch->before_count++] = state.processes[j].pid;
    }
    return NULL;
}

static void open_gpus(struct aorta_machine_watch *watch) {
    aorta_status status = aorta_gpus_open(&watch->gpus);
    if (status)
        snprintf(watch->head.gpu_reason, sizeof watch->head.gpu_reason,
                 "neither NVML (libnvidia-ml.so.1) nor ROCm SMI (librocm_smi64.so) serves here; aorta info says why");
    aorta_status_free(status);
}

aorta_status aorta_machine_watch_open(const char *path, pid_t root, bool fresh, struct aorta_machine_watch **out) {
    *out = NULL;
    struct aorta_machine_watch *watch = calloc(1, sizeof *watch);
    if (!watch) return AORTA_ERROR(AORTA_MEMORY, "no memory to watch the machine");
    watch->root = root;
    watch->head.processors = (int)sysconf(_SC_NPROCESSORS_ONLN);
    gethostname(watch->head.host, sizeof watch->head.host - 1);
    pthread_mutex_init(&watch->lock, NULL);
    aorta_cond_init(&watch->wake);
    watch->file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    aorta_status status = watch->file < 0 ? AORTA_ERROR(AORTA_IO, "%s: %s", path, strerror(errno)) : NULL;
    if (!status) open_gpus(watch);
    if (!status) status = note_who_is_there(watch, fresh);
    if (!status) status = take(watch, NAN);
    *out = watch;
    if (!status) return NULL;
    if (watch->file >= 0) close(watch->file);
    watch->file = -1;
    aorta_machine_watch_close(watch, NAN);
    *out = NULL;
    return status;
}

void aorta_machine_watch_look(struct aorta_machine_watch *watch) {
    if (!watch || watch->file < 0 || aorta_clock_ns() - watch->looked_ns < period_ns) return;
    aorta_status_free(take(watch, NAN));
}

static void *work(void *user) {
    struct aorta_machine_watch *watch = user;
    pthread_setname_np(pthread_self(), "machine");
    pthread_mutex_lock(&watch->lock);
    while (!watch->ending) {
        aorta_cond_wait_until(&watch->wake, &watch->lock, watch->looked_ns + period_ns);
        if (!watch->ending) aorta_machine_watch_look(watch);
    }
    pthread_mutex_unlock(&watch->lock);
    return NULL;
}

aorta_status aorta_machine_watch_start(struct aorta_machine_watch *watch) {
    int error = aorta_thread_start(&watch->thread, work, watch);
    watch->threaded = !error;
    if (!error) return NULL;
    return AORTA_ERROR(AORTA_DEVICE, "the thread that watches the machine cannot be started: %s", strerror(error));
}

static void end_thread(struct aorta_machine_watch *watch) {
    if (!watch->threaded) return;
    pthread_mutex_lock(&watch->lock);
    watch->ending = true;
    pthread_cond_broadcast(&watch->wake);
    pthread_mutex_unlock(&watch->lock);
    pthread_join(watch->thread, NULL);
}

void aorta_machine_watch_close(struct aorta_machine_watch *watch, double ended_s) {
    if (!watch) return;
    end_thread(watch);
    if (watch->file >= 0) aorta_status_free(take(watch, ended_s));
    if (watch->file >= 0) close(watch->file);
    aorta_gpus_close(watch->gpus);
    pthread_cond_destroy(&watch->wake);
    pthread_mutex_destroy(&watch->lock);
    free(watch->before);
    free(watch);
}
