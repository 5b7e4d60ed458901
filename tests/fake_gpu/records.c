#include "fake_gpu/records.h"

#include "base/clock.h"
#include "fake_cupti/fake_cupti.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Captured nodes are numbered; nodes of the executable graph have this number added. */
enum { CLONES = 1 << 20 };

struct fake_nodes {
    struct fake_nodes *next;
    uint64_t first, count;
    uint32_t number; /* of the launch that runs now; the stream writes it */
};

struct fake_record {
    struct fake_record *next;
    struct fake_activity activity;
    char name[64];
    const struct fake_nodes *nodes; /* NULL: launched one by one */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the lists and the number of nodes */
static struct fake_nodes *all_nodes;
static struct fake_record *all_records; /* those of a capture run again and again, and of all the name is borrowed */
static uint64_t node_count;
static _Thread_local struct fake_nodes *capturing; /* what this thread captures */

static const struct fake_cupti *look(void) {
    void *library = dlopen("libcupti.so.13", RTLD_NOW | RTLD_NOLOAD);
    if (!library) library = dlopen("librocprofiler-sdk.so.1", RTLD_NOW | RTLD_NOLOAD); /* under the HIP forwarder */
    void *symbol = library ? dlsym(library, "fake_cupti") : NULL;
    const struct fake_cupti *(*get)(void);
    memcpy(&get, &symbol, sizeof get);
    return get ? get() : NULL;
}

static int take_changes(struct dl_phdr_info *info, size_t size, void *user) {
    (void)size;
    *(unsigned long long *)user = info->dlpi_adds + info->dlpi_subs;
    return 1; /* each entry says the same */
}

/* Looks only when libraries have come or gone: a search in vain takes a millisecond, and each call asks. */
static const struct fake_cupti *find(void) {
    static _Atomic(const struct fake_cupti *) found;
    static _Atomic unsigned long long looked;
    unsigned long long changes = 0;
    dl_iterate_phdr(take_changes, &changes);
    if (changes != atomic_load(&looked)) {
        atomic_store(&found, look());
        atomic_store(&looked, changes);
    }
    return atomic_load(&found);
}

void fake_records_call(uint32_t callback) {
    const struct fake_cupti *cupti = find();
    if (cupti) cupti->call(callback);
}

/* ---- one piece of work ---- */

static void note_start(void *user) {
    struct fake_record *record = user;
    record->activity.start = (uint64_t)aorta_clock_ns();
}

static void note_end(void *user) {
    struct fake_record *record = user;
    record->activity.end = (uint64_t)aorta_clock_ns();
    if (record->nodes) record->activity.correlation = record->nodes->number;
    find()->record(&record->activity);
}

static void become_node(const struct fake_cupti *cupti, struct fake_record *record) {
    pthread_mutex_lock(&lock);
    const uint64_t id = ++node_count;
    if (!capturing->count++) capturing->first = id;
    pthread_mutex_unlock(&lock);
    record->nodes = capturing;
    record->activity.graph = 1;
    record->activity.graph_node = id + CLONES;
    cupti->node(id, 0);
}

/* FAKE_GPU_RECORDS=none: tests report what ran themselves. */
static const struct fake_cupti *find_for_records(void) {
    const char *wish = getenv("FAKE_GPU_RECORDS");
    return wish && strcmp(wish, "none") == 0 ? NULL : find();
}

struct fake_record *fake_record_begin(struct aorta_stream *stream, enum fake_work kind, const char *name,
                                      size_t bytes) {
    const struct fake_cupti *cupti = find_for_records();
    if (!cupti || !cupti->enabled()) return NULL;
    struct fake_record *record = calloc(1, sizeof *record);
    if (!record) return NULL;
    snprintf(record->name, sizeof record->name, "%s", name);
    record->activity = (struct fake_activity){.kind = kind,
                                              .name = record->name,
                                              .stream = (uint32_t)((uintptr_t)stream >> 4),
                                              .correlation = cupti->call(0),
                                              .bytes = bytes};
    pthread_mutex_lock(&lock);
    record->next = all_records;
    all_records = record;
    pthread_mutex_unlock(&lock);
    if (aorta_stream_capturing(stream)) become_node(cupti, record);
    aorta_status failure = aorta_host_call(stream, note_start, record);
    aorta_status_free(failure);
    return failure ? NULL : record;
}

void fake_record_end(struct aorta_stream *stream, struct fake_record *record) {
    if (record) aorta_status_free(aorta_host_call(stream, note_end, record));
}

/* ---- graphs ---- */

void fake_records_capture(void) {
    capturing = calloc(1, sizeof *capturing);
    if (!capturing) abort();
    pthread_mutex_lock(&lock);
    capturing->next = all_nodes;
    all_nodes = capturing;
    pthread_mutex_unlock(&lock);
}

struct fake_nodes *fake_records_captured(void) {
    struct fake_nodes *nodes = capturing;
    capturing = NULL;
    return nodes;
}

void fake_records_instantiate(const struct fake_nodes *nodes) {
    const struct fake_cupti *cupti = find();
    for (uint64_t i = 0; cupti && i < nodes->count; i++) cupti->node(nodes->first + i + CLONES, nodes->first + i);
}

struct launch {
    struct fake_nodes *nodes;
    uint32_t number;
};

static void note_launch(void *user) {
    struct launch *launch = user;
    launch->nodes->number = launch->number;
    free(launch);
}

void fake_records_replay(struct fake_nodes *nodes, struct aorta_stream *stream) {
    const struct fake_cupti *cupti = find();
    struct launch *launch = cupti ? malloc(sizeof *launch) : NULL;
    if (!launch) return;
    *launch = (struct launch){nodes, cupti->call(0)};
    aorta_status failure = aorta_host_call(stream, note_launch, launch);
    if (failure) free(launch);
    aorta_status_free(failure);
}
