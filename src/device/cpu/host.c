/* This machine: processor, instruction set, memory. */
#include "base/parallel.h"
#include "device/cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

/* The text after "key<spaces>:" in a file of such lines (/proc/cpuinfo, /proc/meminfo); false when it is missing. */
static bool find_value(const char *path, const char *key, char *value, size_t size) {
    FILE *file = fopen(path, "re");
    if (!file) return false;
    char line[512];
    bool found = false;
    while (!found && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (!colon || strncmp(line, key, strlen(key)) != 0) continue;
        colon++;
        colon += strspn(colon, " \t");
        colon[strcspn(colon, "\n")] = '\0';
        snprintf(value, size, "%s", colon);
        found = true;
    }
    fclose(file);
    return found;
}

/* The number that a file consists of; `otherwise` when it is absent or says "max". */
static uint64_t read_number(const char *path, uint64_t otherwise) {
    FILE *file = fopen(path, "re");
    if (!file) return otherwise;
    unsigned long long number;
    bool read = fscanf(file, "%llu", &number) == 1;
    fclose(file);
    return read ? number : otherwise;
}

/* The path of this process in one hierarchy of control groups, from the line "number:controllers:path" of
 * /proc/self/cgroup (cgroups(7)): "memory" is version 1's, no controller at all means version 2. */
static bool find_cgroup(const char *controllers, char *path, size_t size) {
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (!file) return false;
    char line[512];
    bool found = false;
    while (!found && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *first = strchr(line, ':'), *second = first ? strchr(first + 1, ':') : NULL;
        if (!second) continue;
        *second = '\0';
        if (strcmp(first + 1, controllers) != 0) continue;
        snprintf(path, size, "%s", second + 1);
        found = true;
    }
    fclose(file);
    return found;
}

struct memory_bounds {
    uint64_t total, free;
};

static void narrow(struct memory_bounds *bounds, uint64_t limit, uint64_t used) {
    if (limit < bounds->total) bounds->total = limit;
    uint64_t rest = limit > used ? limit - used : 0;
    if (rest < bounds->free) bounds->free = rest;
}

/* The number after "key " in a file of such lines (memory.stat of a control group); 0 when it is missing. */
static uint64_t read_counter(const char *path, const char *key) {
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    char name[64];
    unsigned long long number, found = 0;
    while (!found && fscanf(file, "%63s %llu", name, &number) == 2) {
        if (strcmp(name, key) == 0) found = number;
    }
    fclose(file);
    return found;
}

/* A version of control groups: its path, and its names for the limit, the use, and the page cache that would be dropped
 * first, which counts as free. */
struct cgroup_version {
    const char *controllers, *root, *limit, *use, *cache;
};

static const struct cgroup_version cgroup_versions[] = {
    {"", "/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"},
    {"memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
};

static void narrow_by_cgroup(struct memory_bounds *bounds, const struct cgroup_version *version, const char *group) {
    char path[1024];
    snprintf(path, sizeof path, "%s%s/%s", version->root, group, version->limit);
    uint64_t limit = read_number(path, UINT64_MAX);
    if (limit == UINT64_MAX) return;
    snprintf(path, sizeof path, "%s%s/%s", version->root, group, version->use);
    uint64_t used = read_number(path, 0);
    snprintf(path, sizeof path, "%s%s/memory.stat", version->root, group);
    uint64_t cache = read_counter(path, version->cache);
    narrow(bounds, limit, used > cache ? used - cache : 0);
}

/* A limit holds for all groups below it, so every group from our own up to the root counts. */
static void narrow_by_cgroups(struct memory_bounds *bounds) {
    for (size_t i = 0; i < sizeof cgroup_versions / sizeof *cgroup_versions; i++) {
        char group[512];
        if (!find_cgroup(cgroup_versions[i].controllers, group, sizeof group)) continue;
        for (char *end = group + strlen(group); end; end = strrchr(group, '/')) {
            *end = '\0';
            narrow_by_cgroup(bounds, &cgroup_versions[i], group);
        }
    }
}

static struct memory_bounds memory_bounds(void) {
    uint64_t total = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    struct memory_bounds bounds = {total, total};
    char text[64];
    if (find_value("/proc/meminfo", "MemAvailable", text, sizeof text)) {
        bounds.free = strtoull(text, NULL, 10) * 1024;
    }
    narrow_by_cgroups(&bounds);
    return bounds;
}

uint64_t aorta_cpu_host_memory_free(void) {
    return memory_bounds().free;
}

static const char *instruction_set(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f")) return "avx512";
    if (__builtin_cpu_supports("avx2")) return "avx2";
    return "x86-64";
#else
    return NULL;
#endif
}

static void find_name(struct aorta_device_info *info) {
    struct utsname machine = {0};
    uname(&machine);
    const char *isa = instruction_set();
    snprintf(info->isa, sizeof info->isa, "%.60s", isa ? isa : machine.machine);
    if (!find_value("/proc/cpuinfo", "model name", info->name, sizeof info->name)) {
        snprintf(info->name, sizeof info->name, "%.100s CPU", machine.machine);
    }
}

void aorta_cpu_host_describe(struct aorta_device_info *info) {
    find_name(info);
    info->memory_bytes = memory_bounds().total;
    info->multiprocessors = aorta_processors();
    struct timespec tick = {0, 1};
    clock_getres(CLOCK_MONOTONIC, &tick);
    info->timestamp_tick = tick.tv_sec * 1000000000 + tick.tv_nsec;
}
