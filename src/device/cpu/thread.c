/* Worker threads. */
#include "device/cpu/cpu.h"

#include "base/thread.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Steps below the process's own niceness. Raising it further needs a privilege that is rarely there. */
static const int niceness[] = {
    [AORTA_PRIORITY_LOW] = 5,
    [AORTA_PRIORITY_NORMAL] = 1,
    [AORTA_PRIORITY_HIGH] = 0,
};

aorta_status aorta_cpu_thread_start(pthread_t *thread, void *(*function)(void *), void *user, const char *what) {
    int error = aorta_thread_start(thread, function, user);
    if (!error) return NULL;
    return AORTA_ERROR(AORTA_DEVICE, "stream %s: its thread could not be started: %s", what, strerror(error));
}

void aorta_cpu_thread_configure(const char *name, enum aorta_priority priority) {
    char shown[16]; /* what Linux keeps of a thread's name */
    snprintf(shown, sizeof shown, "%.15s", name);
    pthread_setname_np(pthread_self(), shown);
    int base = getpriority(PRIO_PROCESS, (id_t)getpid());
    setpriority(PRIO_PROCESS, (id_t)gettid(), base + niceness[priority]); /* a refusal leaves it as it was */
}

aorta_status aorta_cpu_thread_bind(pthread_t thread, double share, int part) {
    cpu_set_t allowed, own;
    if (sched_getaffinity(getpid(), sizeof allowed, &allowed))
        return AORTA_ERROR(AORTA_DEVICE, "the processors of this process are not known: %s", strerror(errno));
    const int total = CPU_COUNT(&allowed), count = (int)ceil(share * total - 1e-9);
    const int first = (int)((int64_t)part * count % total);
    CPU_ZERO(&own);
    for (int processor = 0, place = 0; place < total; processor++) {
        if (!CPU_ISSET(processor, &allowed)) continue;
        if ((place - first + total) % total < count) CPU_SET(processor, &own);
        place++;
    }
    int error = pthread_setaffinity_np(thread, sizeof own, &own);
    if (!error) return NULL;
    return AORTA_ERROR(AORTA_DEVICE, "its thread cannot be bound to %d processors: %s", count, strerror(error));
}
