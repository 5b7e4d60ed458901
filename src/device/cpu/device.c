/* Opening the CPU device, its memory, and its table. */
#include "base/clock.h"
#include "base/files.h"
#include "base/parallel.h"
#include "device/cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

/* ---- this machine ---- */

/* Returns the number after the beginning of a line, or `otherwise` if there is no number ("max"). */
static uint64_t read_number(const char *path, const char *begin, uint64_t otherwise) {
    char text[64], *end;
    if (!aorta_file_line(path, begin, text, sizeof text)) return otherwise;
    const unsigned long long number = strtoull(text, &end, 10);
    return end > text ? number : otherwise;
}

/* The path of this process in one hierarchy of control groups, from the line "number:controllers:path" of
 * /proc/self/cgroup (cgroups(7)): the controller "memory" is version 1, an empty list of controllers version 2. */
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
    uint64_t limit = read_number(path, "", UINT64_MAX);
    if (limit == UINT64_MAX) return;
    snprintf(path, sizeof path, "%s%s/%s", version->root, group, version->use);
    uint64_t used = read_number(path, "", 0);
    snprintf(path, sizeof path, "%s%s/memory.stat", version->root, group);
    uint64_t cache = read_number(path, version->cache, 0);
    narrow(bounds, limit, used > cache ? used - cache : 0);
}

/* A limit also applies to all groups below, so every group from our own up to the root is read. */
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
    struct memory_bounds bounds = {total, read_number("/proc/meminfo", "MemAvailable", total / 1024) * 1024};
    narrow_by_cgroups(&bounds);
    return bounds;
}

/* memory that the machine and its control group still have */
static uint64_t free_host_memory(void) {
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
    if (!aorta_file_line("/proc/cpuinfo", "model name", info->name, sizeof info->name))
        snprintf(info->name, sizeof info->name, "%.100s CPU", machine.machine);
}

static void describe_host(struct aorta_device_info *info) {
    find_name(info);
    info->memory_bytes = memory_bounds().total;
    info->multiprocessors = aorta_processors();
    struct timespec tick = {0, 1};
    clock_getres(CLOCK_MONOTONIC, &tick);
    info->timestamp_tick = tick.tv_sec * 1000000000 + tick.tv_nsec;
}

enum {
    ALIGNMENT = 256,
    PAGE = 4096,
    HUGE_PAGE = 2 * 1024 * 1024,
    LARGE = 16 * 1024 * 1024, /* from this size on, free memory is read first */
};

static aorta_status cpu_open(const struct aorta_backend *backend, int index, struct aorta_device **device) {
    if (index != 0) return AORTA_ERROR(AORTA_UNSUPPORTED, "no device cpu:%d: there is one cpu device, cpu:0", index);
    *device = calloc(1, sizeof **device);
    if (!*device) return AORTA_ERROR(AORTA_MEMORY, "no host memory for a device");
    (*device)->backend = backend;
    (*device)->info.kind = AORTA_DEVICE_CPU;
    describe_host(&(*device)->info);
    return NULL;
}

static void cpu_close(struct aorta_device *device) {
    free(device);
}

static void *get_aligned(size_t bytes, size_t alignment) {
    if (bytes > SIZE_MAX - alignment) return NULL;
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

/* Linux overcommits memory, so large blocks are checked against free memory. */
static aorta_status cpu_memory_get(struct aorta_device *device, size_t bytes, void **memory) {
    (void)device;
    *memory = NULL;
    if (bytes >= LARGE && bytes > free_host_memory()) return NULL;
    *memory = get_aligned(bytes, bytes < LARGE ? ALIGNMENT : HUGE_PAGE);
    if (*memory && bytes >= LARGE) madvise(*memory, bytes, MADV_HUGEPAGE); /* only advice: a refusal changes nothing */
    return NULL;
}

static void cpu_memory_put(struct aorta_device *device, void *memory) {
    (void)device;
    free(memory);
}

static aorta_status cpu_pinned_get(struct aorta_device *device, size_t bytes, void **memory) {
    (void)device;
    *memory = NULL;
    if (bytes >= LARGE && bytes > free_host_memory()) return NULL;
    *memory = get_aligned(bytes, PAGE);
    if (*memory) (void)!mlock(*memory, bytes); /* often not permitted; the memory works all the same */
    return NULL;
}

static void cpu_pinned_put(struct aorta_device *device, void *memory, size_t bytes) {
    (void)device;
    (void)!munlock(memory, bytes);
    free(memory);
}

static uint64_t cpu_memory_free(struct aorta_device *device) {
    (void)device;
    return free_host_memory();
}

const struct aorta_backend aorta_cpu_backend = {
    .kind = AORTA_DEVICE_CPU,
    .open = cpu_open,
    .close = cpu_close,
    .memory_get = cpu_memory_get,
    .memory_put = cpu_memory_put,
    .pinned_get = cpu_pinned_get,
    .pinned_put = cpu_pinned_put,
    .memory_free = cpu_memory_free,
    .stream_create = aorta_cpu_stream_create,
    .stream_limit = aorta_cpu_stream_limit,
    .stream_destroy = aorta_cpu_stream_destroy,
    .stream_synchronize = aorta_cpu_stream_synchronize,
    .launch = aorta_cpu_launch,
    .host_call = aorta_cpu_host_call,
    .copy = aorta_cpu_copy,
    .fill_bytes = aorta_cpu_fill_bytes,
    .timestamp = aorta_cpu_timestamp,
    .event_bytes = sizeof(struct cpu_event),
    .event_end = aorta_cpu_event_end,
    .event_record = aorta_cpu_event_record,
    .stream_wait = aorta_cpu_stream_wait,
    .event_synchronize = aorta_cpu_event_synchronize,
    .event_done = aorta_cpu_event_done,
    .capture_bytes = sizeof(struct capture),
    .branch_bytes = sizeof(struct branch),
    .capture_end = aorta_cpu_capture_end,
    .capture_free = aorta_cpu_capture_free,
    .graph_launch = aorta_cpu_graph_launch,
    .graph_destroy = aorta_cpu_graph_destroy,
};
