/* The machine's processors and a program's processes by Linux. */
#include "measure/machine_internal.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A file of /proc, which has no length before it is read. Empty: it is not there. */
static void read_small(const char *path, char *text, size_t size) {
    FILE *file = fopen(path, "re");
    size_t length = file ? fread(text, 1, size - 1, file) : 0;
    if (file) fclose(file);
    text[length] = '\0';
}

static double tick_s(void) {
    return 1.0 / (double)sysconf(_SC_CLK_TCK);
}

/* cpu USER NICE SYSTEM IDLE IOWAIT IRQ SOFTIRQ STEAL GUEST GUEST_NICE: guests are in user and nice already (proc(5)).
 */
static void read_times(const char *text, struct aorta_machine_reading *reading) {
    enum { IDLE = 3, IOWAIT = 4, STEAL = 7, COUNTED = 8 };
    unsigned long long ticks[COUNTED] = {0}, total = 0;
    if (strncmp(text, "cpu ", 4) != 0) return;
    const char *at = text + 4;
    for (int i = 0; i < COUNTED; i++) {
        char *end;
        ticks[i] = strtoull(at, &end, 10);
        if (end == at) return;
        total += ticks[i];
        at = end;
    }
    reading->total_s = (double)total * tick_s();
    reading->idle_s = (double)(ticks[IDLE] + ticks[IOWAIT]) * tick_s();
    reading->stolen_s = (double)ticks[STEAL] * tick_s();
}

void aorta_machine_read_proc(const char *root, struct aorta_machine_reading *reading) {
    char path[4096], text[512], *end;
    reading->load = reading->total_s = reading->idle_s = reading->stolen_s = NAN;
    snprintf(path, sizeof path, "%s/stat", root);
    read_small(path, text, sizeof text);
    read_times(text, reading);
    snprintf(path, sizeof path, "%s/loadavg", root);
    read_small(path, text, sizeof text);
    double load = strtod(text, &end);
    if (end != text) reading->load = load;
}

/* PID (NAME) STATE PPID … UTIME STIME CUTIME CSTIME: fields 14 to 17; a name may hold spaces and brackets. */
static bool times_of(long pid, double *seconds) {
    char path[64], text[1024];
    unsigned long long user, system;
    long long children_user, children_system;
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    read_small(path, text, sizeof text);
    const char *behind = strrchr(text, ')');
    if (!behind || sscanf(behind + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %lld %lld", &user,
                          &system, &children_user, &children_system) != 4)
        return false;
    *seconds = ((double)(user + system) + (double)(children_user + children_system)) * tick_s();
    return true;
}

/* Adds the children that a thread has started. */
static bool add_children_of(const char *path, int64_t *pids, size_t most, size_t *count) {
    char text[16384], *end;
    if (access(path, R_OK) != 0) return false;
    read_small(path, text, sizeof text);
    for (const char *at = text;; at = end) {
        long long pid = strtoll(at, &end, 10);
        if (end == at) return true;
        if (*count < most) pids[(*count)++] = pid;
    }
}

/* False: this kernel does not list children. A process that has just ended has none. */
static bool add_children(int64_t pid, int64_t *pids, size_t most, size_t *count) {
    char path[64], children[384];
    snprintf(path, sizeof path, "/proc/%lld/task", (long long)pid);
    DIR *folder = opendir(path);
    bool listed = false, any = false;
    for (struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) {
        if (*entry->d_name == '.') continue;
        any = true;
        snprintf(children, sizeof children, "%s/%s/children", path, entry->d_name);
        listed |= add_children_of(children, pids, most, count);
    }
    if (folder) closedir(folder);
    return listed || !any;
}

double aorta_machine_tree(pid_t root, int64_t *pids, size_t most, size_t *count) {
    double sum = 0, seconds;
    bool listed = true;
    *count = 0;
    pids[(*count)++] = root;
    for (size_t i = 0; i < *count; i++) {
        if (times_of((long)pids[i], &seconds)) sum += seconds;
        listed &= add_children(pids[i], pids, most, count);
    }
    return listed ? sum : NAN;
}
