#include "base/clock.h"
#include "base/files.h"
#include "record/inject/inject.h"
#include "record/inject/settings.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* CUPTI of CUDA N works with drivers of N and later, so the driver's own number comes first. */
static const char *const newer_names[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so", NULL};
static const char *const older_names[] = {"libcupti.so.12", "libcupti.so", NULL};
enum { DRIVER_13 = 13000 };

/* Where toolkits are installed. */
static const char *const folders[] = {"/usr/local/cuda/lib64",        "/usr/local/cuda/extras/CUPTI/lib64",
                                      "/usr/local/cuda-*/lib64",      "/usr/local/cuda-*/extras/CUPTI/lib64",
                                      "/opt/cuda/extras/CUPTI/lib64", "/usr/lib/x86_64-linux-gnu"};

/* Relative to the folder of another NVIDIA library that the process has loaded: wheels (nvidia/cuda_runtime/lib next to
 * nvidia/cuda_cupti/lib; since CUDA 13 all in nvidia/cu13/lib) and toolkits. */
static const char *const beside[] = {"", "/../../cuda_cupti/lib", "/../extras/CUPTI/lib64"};

/* ---- libraries of the process ---- */

struct loaded {
    char cupti[1024];
    char folders[8][1024]; /* of other libraries of NVIDIA's */
    int folder_count;
};

static int look_at(struct dl_phdr_info *info, size_t size, void *user) {
    (void)size;
    struct loaded *loaded = user;
    const char *path = info->dlpi_name, *slash = path ? strrchr(path, '/') : NULL;
    if (!slash || strlen(path) >= sizeof loaded->cupti) return 0;
    if (strncmp(slash, "/libcupti.so", 12) == 0) {
        if (!loaded->cupti[0]) memcpy(loaded->cupti, path, strlen(path) + 1);
    } else if ((strncmp(slash, "/libcudart.so", 13) == 0 || strncmp(slash, "/libcublas", 10) == 0 ||
                strncmp(slash, "/libnvrtc.so", 12) == 0) &&
               loaded->folder_count < 8) {
        snprintf(loaded->folders[loaded->folder_count++], sizeof loaded->folders[0], "%.*s", (int)(slash - path), path);
    }
    return 0;
}

/* ---- opening ---- */

static bool try_path(struct aorta_inject_cupti *cupti, const char *path, int flags) {
    cupti->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | flags);
    if (cupti->handle) return true;
    const char *reason = dlerror();
    size_t used = strlen(cupti->tried);
    snprintf(cupti->tried + used, sizeof cupti->tried - used, "%s%s", used ? "; " : "", reason ? reason : path);
    return false;
}

static bool try_folder(struct aorta_inject_cupti *cupti, const char *folder, const char *const *names) {
    char path[PATH_MAX];
    for (; *names; names++) {
        int length = snprintf(path, sizeof path, "%s/%s", folder, *names);
        if (length < (int)sizeof path && access(path, R_OK) == 0 && try_path(cupti, path, 0)) return true;
    }
    return false;
}

static bool try_beside(struct aorta_inject_cupti *cupti, const struct loaded *loaded, const char *const *names) {
    char folder[PATH_MAX];
    for (int i = 0; i < loaded->folder_count; i++)
        for (size_t j = 0; j < sizeof beside / sizeof *beside; j++) {
            snprintf(folder, sizeof folder, "%s%s", loaded->folders[i], beside[j]);
            if (try_folder(cupti, folder, names)) return true;
        }
    return false;
}

static bool try_usual(struct aorta_inject_cupti *cupti, const char *const *names) {
    bool found = false;
    for (size_t i = 0; i < sizeof folders / sizeof *folders && !found; i++) {
        glob_t matches;
        if (glob(folders[i], 0, NULL, &matches) == 0)
            for (size_t j = matches.gl_pathc; j > 0 && !found; j--)
                found = try_folder(cupti, matches.gl_pathv[j - 1], names);
        globfree(&matches);
    }
    return found;
}

static bool find(struct aorta_inject_cupti *cupti, const char *wish) {
    struct loaded loaded = {0};
    dl_iterate_phdr(look_at, &loaded);
    /* Two of them in a process would fight over the driver's callbacks. */
    if (loaded.cupti[0] && try_path(cupti, loaded.cupti, RTLD_NOLOAD)) return true;
    if (wish && *wish && try_path(cupti, wish, 0)) return true;
    const char *const *names = cupti->driver && cupti->driver < DRIVER_13 ? older_names : newer_names;
    if (try_beside(cupti, &loaded, names)) return true;
    for (const char *const *name = names; *name; name++)
        if (try_path(cupti, *name, 0)) return true;
    return try_usual(cupti, names);
}

static const struct {
    const char *symbol;
    size_t offset;
    bool needed;
} symbols[] = {
#define ROW(member, symbol, tracer, recording, ...) {#symbol, offsetof(struct aorta_cupti_api, member), recording},
#include "measure/cupti.def"
#undef ROW
};

static bool fill_table(struct aorta_inject_cupti *cupti) {
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *function = dlsym(cupti->handle, symbols[i].symbol);
        memcpy((char *)&cupti->api + symbols[i].offset, &function, sizeof function);
        if (function || !symbols[i].needed) continue;
        snprintf(cupti->tried, sizeof cupti->tried, "%.900s has no %s", cupti->path, symbols[i].symbol);
        return false;
    }
    return true;
}

static void find_path(struct aorta_inject_cupti *cupti) {
    struct link_map *map = NULL;
    if (dlinfo(cupti->handle, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name)
        snprintf(cupti->path, sizeof cupti->path, "%s", map->l_name);
}

void *aorta_inject_driver_symbol(const char *name) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD); /* one reference more does no harm */
    return driver ? dlsym(driver, name) : NULL;
}

static uint32_t driver_version(void) {
    int version = 0;
    void *symbol = aorta_inject_driver_symbol("cuDriverGetVersion");
    int (*get)(int *version);
    memcpy(&get, &symbol, sizeof get);
    return get && get(&version) == 0 && version > 0 ? (uint32_t)version : 0;
}

bool aorta_inject_cupti_open(struct aorta_inject_cupti *cupti, const char *wish) {
    memset(cupti, 0, sizeof *cupti);
    cupti->driver = driver_version();
    if (!find(cupti, wish)) return false;
    find_path(cupti);
    if (!fill_table(cupti)) return false;
    if (cupti->api.get_version(&cupti->version) != AORTA_CUPTI_SUCCESS) cupti->version = 0;
    if (cupti->version >= AORTA_CUPTI_OLDEST) return true;
    snprintf(cupti->tried, sizeof cupti->tried, "%.900s is too old (interface %u; CUDA 12.0 has %d)", cupti->path,
             cupti->version, AORTA_CUPTI_OLDEST);
    return false;
}

/* ---- other profilers ---- */

static void no_event(void *user, uint32_t domain, uint32_t id, const void *data) {
    (void)user, (void)domain, (void)id, (void)data;
}

struct subscriber_params { /* CUpti_SubscriberParams */
    size_t size;
    const char *name;
    char *other;
    size_t other_size;
};

bool aorta_inject_cupti_taken(const struct aorta_inject_cupti *cupti, char name[64]) {
    void *subscriber = NULL, *symbol = dlsym(cupti->handle, "cuptiSubscribe_v2");
    uint32_t (*subscribe)(void **, aorta_cupti_event, void *, struct subscriber_params *);
    struct subscriber_params params = {sizeof params, "aorta", name, 64};
    memset(name, 0, 64);
    memcpy(&subscribe, &symbol, sizeof subscribe);
    uint32_t result =
        subscribe ? subscribe(&subscriber, no_event, NULL, &params) : cupti->api.subscribe(&subscriber, no_event, NULL);
    name[63] = '\0';
    if (result == AORTA_CUPTI_SUCCESS) cupti->api.unsubscribe(subscriber);
    return result == AORTA_CUPTI_MULTIPLE_SUBSCRIBERS;
}

/* ---- the environment ---- */

int64_t aorta_inject_setting(const char *name, int64_t fallback) {
    const char *text = getenv(name);
    char *end = NULL;
    int64_t value = text && *text ? strtoll(text, &end, 10) : fallback;
    return (end && *end) || value < 0 ? fallback : value;
}

uint32_t aorta_inject_parts_wished(void) {
    const char *wish = getenv(AORTA_INJECT_RECORD);
    for (int i = 0; wish && i < AORTA_INJECT_LEVELS; i++)
        if (strcmp(aorta_inject_levels[i].name, wish) == 0) return aorta_inject_levels[i].parts;
    return AORTA_SPOOL_LAUNCHES | AORTA_SPOOL_WAITS;
}

enum aorta_inject_stage aorta_inject_stage_wished(void) {
    const char *wish = getenv(AORTA_INJECT_STAGE);
    for (int i = 0; wish && i < AORTA_INJECT_STAGES; i++)
        if (strcmp(aorta_inject_stages[i], wish) == 0) return (enum aorta_inject_stage)i;
    return AORTA_INJECT_RECORDING;
}

/* ---- the process ---- */

static int32_t number_of(const char *const *names) {
    for (; *names; names++) {
        int64_t value = aorta_inject_setting(*names, -1);
        if (value >= 0 && value < INT32_MAX) return (int32_t)value;
    }
    return -1;
}

void aorta_inject_put_process(struct aorta_spool *spool, const struct aorta_inject_cupti *cupti, uint32_t parts) {
    static const char *const rank[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", NULL};
    static const char *const world[] = {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", NULL};
    static const char *const local[] = {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID", NULL};
    static const char *const local_world[] = {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", NULL};
    char command[4096], host[256] = "";
    gethostname(host, sizeof host - 1);
    const char *const texts[] = {command, cupti->path, host};
    const size_t lengths[] = {aorta_command_line(command, sizeof command), strlen(cupti->path), strlen(host)};
    struct aorta_spool_process record = {
        .pid = (int32_t)getpid(),
        .parent = (int32_t)getppid(),
        .rank = number_of(rank),
        .world = number_of(world),
        .local_rank = number_of(local),
        .local_world = number_of(local_world),
        .cupti = cupti->version,
        .driver = cupti->driver,
        .start_ns = aorta_clock_day(),
        .command_length = (uint32_t)lengths[0],
        .library_length = (uint32_t)lengths[1],
        .host_length = (uint32_t)lengths[2],
        .parts = parts | AORTA_SPOOL_PARTS_KNOWN,
    };
    aorta_spool_put_texts(spool, AORTA_SPOOL_PROCESS, &record, sizeof record, texts, lengths, 3);
}

/* ---- leaving CUPTI ---- */

enum phase { ATTACHED, ASKED, LEAVING, GONE, CANCELLED };

static bool move_on(struct aorta_inject_detach *detach, int to) {
    int from = ASKED;
    return atomic_compare_exchange_strong(&detach->phase, &from, to);
}

/* Called on any thread of the program. The first thread whose call ends removes CUPTI. */
static void at_call(void *user, uint32_t domain, uint32_t id, const void *data) {
    struct aorta_inject_detach *detach = user;
    uint32_t site;
    (void)id;
    if (domain != AORTA_CUPTI_DOMAIN_DRIVER && domain != AORTA_CUPTI_DOMAIN_RUNTIME) return;
    memcpy(&site, data, sizeof site);
    if (site != AORTA_CUPTI_SITE_EXIT || !move_on(detach, LEAVING)) return;
    detach->cupti->api.unsubscribe(detach->subscriber);
    detach->result = detach->cupti->api.finalize();
    atomic_store(&detach->phase, GONE);
}

const char *aorta_inject_detach_ask(struct aorta_inject_detach *detach, const struct aorta_inject_cupti *cupti) {
    if (!cupti->api.finalize || !cupti->api.enable_domain || cupti->version < AORTA_CUPTI_DETACHES)
        return "CUPTI stays in the process until CUDA 12.6, and costs a little";
    uint32_t result = cupti->api.subscribe(&detach->subscriber, at_call, detach);
    /* CUPTI must stay for the other profiler. */
    if (result == AORTA_CUPTI_MULTIPLE_SUBSCRIBERS) return "CUPTI stays in the process, for another profiler uses it";
    if (result != AORTA_CUPTI_SUCCESS) return "CUPTI stays in the process, for it refused a subscription";
    detach->cupti = cupti;
    uint32_t results[] = {cupti->api.enable_domain(1, detach->subscriber, AORTA_CUPTI_DOMAIN_DRIVER),
                          cupti->api.enable_domain(1, detach->subscriber, AORTA_CUPTI_DOMAIN_RUNTIME)};
    atomic_store(&detach->phase, ASKED); /* not before: from now on CUPTI may be gone */
    if (results[0] == AORTA_CUPTI_SUCCESS || results[1] == AORTA_CUPTI_SUCCESS) return NULL;
    aorta_inject_detach_cancel(detach);
    return "CUPTI stays in the process, because it refused callbacks of calls";
}

bool aorta_inject_detach_done(const struct aorta_inject_detach *detach) {
    return atomic_load(&detach->phase) == GONE;
}

void aorta_inject_detach_forget(struct aorta_inject_detach *detach) {
    atomic_store(&detach->phase, CANCELLED);
}

void aorta_inject_detach_cancel(struct aorta_inject_detach *detach) {
    if (move_on(detach, CANCELLED)) detach->cupti->api.unsubscribe(detach->subscriber);
}

/* ---- NVTX ---- */

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(void *get_export_table);
/* Called by NVTX where NVTX_INJECTION64_PATH names this library. Forwards to CUPTI, which records the ranges and whose
 * path is known only inside the process. */
int InitializeInjectionNvtx2(void *get_export_table) {
    struct aorta_inject_cupti cupti;
    const char *nvtx = getenv(AORTA_INJECT_NVTX);
    if (!nvtx || strcmp(nvtx, "1") != 0 || !aorta_inject_cupti_open(&cupti, getenv(AORTA_INJECT_CUPTI))) return 0;
    int (*initialise)(void *get_export_table);
    void *symbol = dlsym(cupti.handle, "InitializeInjectionNvtx2");
    memcpy(&initialise, &symbol, sizeof initialise);
    return initialise ? initialise(get_export_table) : 0;
}
