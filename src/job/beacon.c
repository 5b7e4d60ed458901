/* The record of each rank, in memory that the launcher maps too: see beacon.h. */
#include "job/beacon.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0x41424333u /* "ABC3": changes with the layout */
#define SLOTS 8           /* operations that may be reported at the same moment */

/* Several streams report at the same time, so every writer takes a slot of its own, in turn. */
struct slot {
    _Atomic uint32_t version; /* odd while it is being written */
    int64_t reported_ns;
    char text[AORTA_BEACON_TEXT];
};

/* The launcher may be reading when the writer dies, so nothing here is ever locked. */
struct record {
    uint32_t magic;
    _Atomic int32_t pid, group, wait_status;
    _Atomic int64_t ended_ns; /* 0: not ended; written last */
    _Atomic int64_t failed_ns;
    _Atomic int64_t step;
    _Atomic int64_t timeout_ns;
    _Atomic uint32_t next;
    struct slot slots[SLOTS];
};

struct aorta_beacon {
    struct record *record; /* of its rank */
    struct record *records;
    size_t length; /* of them all */
};

static aorta_status open_file(const char *directory, int flags, char path[PATH_MAX], int *fd) {
    if (snprintf(path, PATH_MAX, "%s/beacon", directory) >= PATH_MAX)
        return AORTA_ERROR(AORTA_IO, "state directory %s: the path is too long", directory);
    *fd = open(path, flags | O_CLOEXEC, 0600);
    return *fd < 0 ? AORTA_ERROR(AORTA_IO, "%s: %s", path, strerror(errno)) : NULL;
}

aorta_status aorta_beacon_create(const char *directory, int ranks) {
    char path[PATH_MAX];
    int fd = -1;
    AORTA_TRY(open_file(directory, O_RDWR | O_CREAT | O_EXCL, path, &fd));
    struct record empty = {.magic = MAGIC, .step = -1};
    aorta_status status = NULL;
    for (int i = 0; i < ranks && !status; i++) {
        ssize_t written = write(fd, &empty, sizeof empty);
        if (written == (ssize_t)sizeof empty) continue;
        status = AORTA_ERROR(AORTA_IO, "%s: %s", path, strerror(written < 0 ? errno : ENOSPC));
    }
    close(fd);
    return status;
}

static aorta_status map_record(const char *path, int fd, int rank, struct aorta_beacon *beacon) {
    struct stat info;
    if (fstat(fd, &info)) return AORTA_ERROR(AORTA_IO, "%s: %s", path, strerror(errno));
    long ranks = (long)((size_t)info.st_size / sizeof(struct record));
    if (rank < 0 || rank >= ranks || (size_t)info.st_size % sizeof(struct record)) {
        return AORTA_ERROR(AORTA_IO, "%s: no record of rank %d in a file for %ld ranks (is AORTA_STATE_DIR stale?)",
                           path, rank, ranks);
    }
    beacon->length = (size_t)info.st_size;
    beacon->records = mmap(NULL, beacon->length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (beacon->records == MAP_FAILED) return AORTA_ERROR(AORTA_IO, "%s: %s", path, strerror(errno));
    beacon->record = &beacon->records[rank];
    if (beacon->record->magic == MAGIC) return NULL;
    munmap(beacon->records, beacon->length);
    return AORTA_ERROR(AORTA_IO, "%s: written by another version of this program", path);
}

aorta_status aorta_beacon_open(int rank, struct aorta_beacon **beacon) {
    const char *directory = getenv("AORTA_STATE_DIR");
    if (directory && *directory) return aorta_beacon_open_at(directory, rank, beacon);
    *beacon = NULL;
    return NULL;
}

aorta_status aorta_beacon_open_at(const char *directory, int rank, struct aorta_beacon **beacon) {
    *beacon = NULL;
    char path[PATH_MAX];
    int fd = -1;
    AORTA_TRY(open_file(directory, O_RDWR, path, &fd));
    struct aorta_beacon *made = malloc(sizeof *made);
    aorta_status status =
        made ? map_record(path, fd, rank, made) : AORTA_ERROR(AORTA_MEMORY, "out of memory for the beacon");
    close(fd);
    if (status) {
        free(made);
        return status;
    }
    *beacon = made;
    return NULL;
}

void aorta_beacon_close(struct aorta_beacon *beacon) {
    if (!beacon) return;
    munmap(beacon->records, beacon->length);
    free(beacon);
}

/* The next slot that is not being written: a delayed writer may still use it. NULL: all are in use. */
static struct slot *claim(struct record *record) {
    for (int i = 0; i < SLOTS; i++) {
        struct slot *slot = &record->slots[atomic_fetch_add(&record->next, 1) % SLOTS];
        uint32_t version = atomic_load(&slot->version);
        if (version % 2 == 0 && atomic_compare_exchange_strong(&slot->version, &version, version + 1)) return slot;
    }
    return NULL;
}

void aorta_beacon_set(struct aorta_beacon *beacon, const char *text) {
    struct slot *slot = beacon ? claim(beacon->record) : NULL;
    if (!slot) return;
    slot->reported_ns = aorta_clock_ns();
    size_t length = strnlen(text, AORTA_BEACON_TEXT - 1);
    memcpy(slot->text, text, length);
    slot->text[length] = '\0';
    atomic_fetch_add(&slot->version, 1);
}

void aorta_beacon_step(struct aorta_beacon *beacon, int64_t step) {
    if (beacon) atomic_store(&beacon->record->step, step);
}

void aorta_beacon_failed(struct aorta_beacon *beacon) {
    int64_t never = 0;
    if (beacon) atomic_compare_exchange_strong(&beacon->record->failed_ns, &never, aorta_clock_ns());
}

void aorta_beacon_timeout(struct aorta_beacon *beacon, double timeout_s) {
    if (beacon) atomic_store(&beacon->record->timeout_ns, (int64_t)(timeout_s * 1e9));
}

void aorta_beacon_started(struct aorta_beacon *beacon, int pid, int group) {
    atomic_store(&beacon->record->group, group);
    atomic_store(&beacon->record->pid, pid);
}

void aorta_beacon_ended(struct aorta_beacon *beacon, int wait_status) {
    atomic_store(&beacon->record->wait_status, wait_status);
    atomic_store(&beacon->record->ended_ns, aorta_clock_ns());
}

/* Reads the newest complete slot. A slot that a dying writer left incomplete is skipped. */
static void read_newest(struct record *record, struct aorta_beacon_state *state) {
    for (int i = 0; i < SLOTS; i++) {
        struct slot *slot = &record->slots[i];
        uint32_t before = atomic_load(&slot->version);
        int64_t reported_ns = slot->reported_ns;
        if (before % 2 || reported_ns <= state->reported_ns) continue;
        char text[AORTA_BEACON_TEXT];
        memcpy(text, slot->text, sizeof text);
        /* Adding 0 orders the copy before this second read, which a plain load would not. */
        if (atomic_fetch_add(&slot->version, 0) != before) continue;
        state->reported_ns = reported_ns;
        memcpy(state->text, text, sizeof text);
    }
}

struct aorta_beacon_state aorta_beacon_read(const struct aorta_beacon *beacon, int rank) {
    struct record *record = &beacon->records[rank];
    struct aorta_beacon_state state = {.pid = atomic_load(&record->pid),
                                       .group = atomic_load(&record->group),
                                       .ended_ns = atomic_load(&record->ended_ns),
                                       .failed_ns = atomic_load(&record->failed_ns),
                                       .step = atomic_load(&record->step),
                                       .timeout_ns = atomic_load(&record->timeout_ns)};
    state.ended = state.ended_ns != 0;
    state.wait_status = atomic_load(&record->wait_status);
    read_newest(record, &state);
    return state;
}
