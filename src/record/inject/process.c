#include "record/inject/process.h"
#include "record/inject/cupti.h"
#include "record/inject/settings.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int64_t aorta_inject_time_of_day(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- settings ---- */

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

static size_t read_command(char *text, size_t size) {
    FILE *file = fopen("/proc/self/cmdline", "re");
    if (!file) return 0;
    size_t length = fread(text, 1, size, file);
    fclose(file);
    for (size_t i = 0; i < length; i++)
        if (!text[i]) text[i] = ' ';
    return length && text[length - 1] == ' ' ? length - 1 : length;
}

void aorta_inject_put_process(struct aorta_spool *spool, const struct aorta_inject_cupti *cupti, uint32_t parts) {
    static const char *const rank[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", NULL};
    static const char *const world[] = {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", NULL};
    static const char *const local[] = {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID", NULL};
    static const char *const local_world[] = {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", NULL};
    char command[4096], host[256] = "";
    gethostname(host, sizeof host - 1);
    const char *const texts[] = {command, cupti->path, host};
    const size_t lengths[] = {read_command(command, sizeof command), strlen(cupti->path), strlen(host)};
    struct aorta_spool_process record = {
        .pid = (int32_t)getpid(),
        .parent = (int32_t)getppid(),
        .rank = number_of(rank),
        .world = number_of(world),
        .local_rank = number_of(local),
        .local_world = number_of(local_world),
        .cupti = cupti->version,
        .driver = cupti->driver,
        .start_ns = aorta_inject_time_of_day(),
        .command_length = (uint32_t)lengths[0],
        .library_length = (uint32_t)lengths[1],
        .host_length = (uint32_t)lengths[2],
        .parts = parts | AORTA_SPOOL_PARTS_KNOWN,
    };
    aorta_spool_put_texts(spool, AORTA_SPOOL_PROCESS, &record, sizeof record, texts, lengths, 3);
}

/* ---- leaving CUPTI ---- */

enum phase { ATTACHED, ASKED, LEAVING, GONE, CANCELLED };

static bool move_on(struct aorta_inject_detach *detach, int from, int to) {
    return atomic_compare_exchange_strong(&detach->phase, &from, to);
}

/* On any thread of the program. The first one whose call ends does it. */
static void at_call(void *user, uint32_t domain, uint32_t id, const void *data) {
    struct aorta_inject_detach *detach = user;
    uint32_t site;
    (void)id;
    if (domain != AORTA_CUPTI_DOMAIN_DRIVER && domain != AORTA_CUPTI_DOMAIN_RUNTIME) return;
    memcpy(&site, data, sizeof site);
    if (site != AORTA_CUPTI_SITE_EXIT || !move_on(detach, ASKED, LEAVING)) return;
    detach->cupti->api.unsubscribe(detach->subscriber);
    detach->result = detach->cupti->finalize();
    atomic_store(&detach->phase, GONE);
}

const char *aorta_inject_detach_ask(struct aorta_inject_detach *detach, const struct aorta_inject_cupti *cupti) {
    if (!cupti->finalize || !cupti->enable_domain || cupti->version < AORTA_CUPTI_DETACHES)
        return "CUPTI stays in the process until CUDA 12.6, and costs a little";
    uint32_t result = cupti->api.subscribe(&detach->subscriber, at_call, detach);
    /* The owner of the subscription is recording; CUPTI must stay for it. */
    if (result == AORTA_CUPTI_MULTIPLE_SUBSCRIBERS) return "CUPTI stays in the process, for another profiler uses it";
    if (result != AORTA_CUPTI_SUCCESS) return "CUPTI stays in the process, for it refused a subscription";
    detach->cupti = cupti;
    uint32_t results[] = {cupti->enable_domain(1, detach->subscriber, AORTA_CUPTI_DOMAIN_DRIVER),
                          cupti->enable_domain(1, detach->subscriber, AORTA_CUPTI_DOMAIN_RUNTIME)};
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
    if (move_on(detach, ASKED, CANCELLED)) detach->cupti->api.unsubscribe(detach->subscriber);
}

/* ---- NVTX ---- */

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(void *get_export_table);
/* Called by NVTX where NVTX_INJECTION64_PATH names this library. CUPTI has the handlers that make records of ranges;
 * its path is known only inside the process. */
int InitializeInjectionNvtx2(void *get_export_table) {
    struct aorta_inject_cupti cupti;
    const char *nvtx = getenv(AORTA_INJECT_NVTX);
    if (!nvtx || strcmp(nvtx, "1") != 0 || !aorta_inject_cupti_open(&cupti, getenv(AORTA_INJECT_CUPTI))) return 0;
    int (*initialise)(void *get_export_table);
    void *symbol = dlsym(cupti.handle, "InitializeInjectionNvtx2");
    memcpy(&initialise, &symbol, sizeof initialise);
    return initialise ? initialise(get_export_table) : 0;
}
