/* The kernels of the fake libcuda: those of src/device/gpu, with the timer and the clock that they read; all other
 * kernels are the program's. */
#include "base/clock.h"
#include "device/gpu/driver.h"
#include "fake_gpu/cuda.h"
#include "ops/types.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- the clock ---- */

int64_t fake_timer(void) {
    int64_t now = aorta_clock_ns();
    return (1000000000000000 + now + now / 25000) / 32 * 32;
}

struct clock_page {
    volatile int current;
    struct gpu_clock_line lines[2];
};

/* A GPU reads one line while the other is written; the languages of the host want a lock. */
static pthread_mutex_t page_lock = PTHREAD_MUTEX_INITIALIZER;

static int64_t time_on(const struct gpu_clock_line *l, int64_t timer) {
    double ticks = (double)(timer - l->timer), slewed = ticks < l->slew_ticks ? ticks / l->slew_ticks : 1.0;
    return l->host_ns + (int64_t)(ticks * l->ns_per_tick + slewed * l->slew_ns);
}

static int64_t device_time(const struct clock_page *page, int64_t timer) {
    pthread_mutex_lock(&page_lock);
    int64_t time_ns = time_on(&page->lines[page->current], timer);
    pthread_mutex_unlock(&page_lock);
    return time_ns;
}

/* A GPU is not interrupted between the timer and the line. */
static int64_t device_time_now(const struct clock_page *page) {
    pthread_mutex_lock(&page_lock);
    int64_t time_ns = time_on(&page->lines[page->current], fake_timer());
    pthread_mutex_unlock(&page_lock);
    return time_ns;
}

/* ---- kernels ---- */

static aorta_status run_stamp(const void *args) {
    const struct gpu_stamp_args *a = args;
    const int64_t time_ns = device_time_now(a->clock);
    for (int i = 0; i < GPU_STAMPS; i++)
        if (a->slots[i]) *a->slots[i] = time_ns;
    return NULL;
}

/* For programs that need a kernel of known length, and none of their own. */
static aorta_status run_nap(const void *args) {
    const int64_t *ns = args;
    nanosleep(&(struct timespec){0, *ns}, NULL);
    return NULL;
}

/* The operation's kernel that programs without their own kernels are tested with. */
static aorta_status run_spin(const void *args) {
    const struct aorta_spin_args *a = args;
    int64_t start = fake_timer(), end = start + a->duration_ns + a->duration_ns / 25000;
    for (int64_t left; (left = end - fake_timer()) > 0;)
        nanosleep(&(struct timespec){left / 1000000000, left % 1000000000}, NULL);
    if (!a->stamps) return NULL;
    a->stamps[0] = device_time(a->clock, start);
    a->stamps[1] = device_time_now(a->clock);
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
            if (waited_ns > 5000) nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
        }
        if (atomic_load(&box->request) < ping) return;
        box->timers[ping] = fake_timer();
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

/* ---- kernels by their names ---- */

static const struct {
    const char *name;
    struct fake_kernel kernel;
} own_kernels[] = {
    {"aorta_stamp", {run_stamp, sizeof(struct gpu_stamp_args)}},
    {"aorta_clock_set", {run_clock_set, sizeof(struct gpu_clock_set_args)}},
    {"aorta_clock_ping", {run_clock_ping, sizeof(struct gpu_mailbox *)}},
    {"nap", {run_nap, sizeof(int64_t)}},
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

const struct fake_kernel *fake_find_kernel(const char *text, const char *name) {
    static const struct fake_kernel nothing = {.run = run_nothing};
    if (!strstr(text, name) && !ignores_kernels()) return NULL; /* names may be put together by macros */
    for (size_t i = 0; i < sizeof own_kernels / sizeof *own_kernels; i++)
        if (strcmp(own_kernels[i].name, name) == 0) return &own_kernels[i].kernel;
    char symbol[128];
    snprintf(symbol, sizeof symbol, "fake_kernel_%s", name);
    const struct fake_kernel *found = dlsym(RTLD_DEFAULT, symbol);
    return found || !ignores_kernels() ? found : &nothing;
}

bool fake_does_nothing(const struct fake_function *function) {
    return function->kernel.cpu == run_nothing;
}

aorta_status fake_run(struct aorta_stream *stream, const struct fake_function *function, const void *args) {
    atomic_store(&host_cpu, sched_getcpu());
    return aorta_launch(stream, &function->kernel, args, function->bytes);
}
