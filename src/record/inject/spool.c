#include "base/files.h"
#include "base/table.h"
#include "record/inject/inject.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* 0: it is full. */
static uint32_t add(struct aorta_inject_names *names, struct aorta_inject_name *slot, struct aorta_spool *spool,
                    const char *text, size_t length, uint32_t hash) {
    bool full = names->count >= AORTA_INJECT_NAME_SLOTS / 2 || names->bytes + length > AORTA_INJECT_NAME_BYTES;
    char *copy = full ? NULL : strndup(text, length);
    if (!copy) return 0;
    names->count++;
    names->bytes += length;
    *slot = (struct aorta_inject_name){copy, hash, (uint32_t)names->count};
    struct aorta_spool_text record = {.id = slot->id, .length = (uint32_t)length};
    aorta_spool_put_texts(spool, AORTA_SPOOL_TEXT, &record, sizeof record, &text, &length, 1);
    return slot->id;
}

uint32_t aorta_inject_name(struct aorta_inject_names *names, struct aorta_spool *spool, const char *text) {
    if (!text) return 0;
    size_t length = strnlen(text, AORTA_INJECT_NAME_LONGEST);
    uint32_t hash = (uint32_t)aorta_hash_bytes(text, length);
    for (uint32_t i = hash;; i++) {
        struct aorta_inject_name *slot = &names->slots[i % AORTA_INJECT_NAME_SLOTS];
        if (!slot->text) return add(names, slot, spool, text, length, hash);
        if (slot->hash == hash && strncmp(slot->text, text, length) == 0 && !slot->text[length]) return slot->id;
    }
}

void aorta_inject_names_free(struct aorta_inject_names *names) {
    for (size_t i = 0; i < AORTA_INJECT_NAME_SLOTS; i++) free(names->slots[i].text);
    memset(names, 0, sizeof *names);
}

/* ---- the spool ---- */

enum { HIGHEST = 4000 }; /* highest descriptor used */

_Static_assert(sizeof(struct aorta_spool_head) == 80 && sizeof(struct aorta_spool_process) == 64 &&
                   sizeof(struct aorta_spool_text) == 16 && sizeof(struct aorta_spool_device) == 40 &&
                   sizeof(struct aorta_spool_kernel) == 80 && sizeof(struct aorta_spool_transfer) == 56 &&
                   sizeof(struct aorta_spool_call) == 40 && sizeof(struct aorta_spool_mark) == 32 &&
                   sizeof(struct aorta_spool_note) == 24,
               "records are a file format: sizes are fixed, multiples of 8, without gaps");

/* ---- the file ---- */

static bool is_ours(const struct aorta_spool *spool) {
    struct stat info;
    return spool->fd >= 0 && fstat(spool->fd, &info) == 0 && info.st_dev == spool->device &&
           info.st_ino == spool->inode;
}

/* Moves the file to a high descriptor: if the program closes ours, its next file gets the lowest free descriptor. */
static void move_up(struct aorta_spool *spool) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit)) return;
    const int high = limit.rlim_cur < HIGHEST ? (int)limit.rlim_cur / 4 * 3 : HIGHEST;
    int moved = fcntl(spool->fd, F_DUPFD_CLOEXEC, high);
    if (moved < 0) return;
    close(spool->fd);
    spool->fd = moved;
}

/* Opens the file again if the program has closed it. False if that fails (another user now, another root). */
static bool hold(struct aorta_spool *spool) {
    if (is_ours(spool)) return true;
    spool->fd = open(spool->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (is_ours(spool) && lseek(spool->fd, 0, SEEK_END) >= 0) {
        move_up(spool);
        return true;
    }
    if (spool->fd >= 0) close(spool->fd);
    spool->fd = -1;
    spool->stopped = true;
    return false;
}

/* The head is at the file's beginning and already allocated, so this works on a full disk. */
static void write_head(struct aorta_spool *spool) {
    ssize_t done = pwrite(spool->fd, &spool->head, sizeof spool->head, 0);
    (void)done; /* a failure cannot be reported */
}

/* Blocks SIGXFSZ, which a write past the process's file size limit would raise. The write still fails with EFBIG. */
static bool hold_signal(sigset_t *former) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &set, former);
    return sigismember(former, SIGXFSZ) == 0;
}

static void release_signal(const sigset_t *former, bool ours) {
    const struct timespec now = {0};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    while (ours && sigtimedwait(&set, NULL, &now) == SIGXFSZ) continue;
    pthread_sigmask(SIG_SETMASK, former, NULL);
}

static void stop(struct aorta_spool *spool, enum aorta_spool_state state, uint32_t result) {
    spool->stopped = true;
    spool->used = 0;
    aorta_spool_set_state(spool, state, result);
}

static void write_buffer(struct aorta_spool *spool) {
    if (spool->fd < 0 || !spool->used || !hold(spool)) return;
    sigset_t former;
    bool ours = hold_signal(&former);
    int error = aorta_write_all(spool->fd, spool->buffer, spool->used);
    if (error && ftruncate(spool->fd, (off_t)(spool->head.bytes + spool->head.written)) == 0)
        lseek(spool->fd, 0, SEEK_END);
    release_signal(&former, ours);
    if (error) {
        stop(spool, AORTA_SPOOL_FAILED, (uint32_t)error);
    } else {
        spool->head.written += spool->used;
        spool->used = 0;
    }
}

static int stopped(struct aorta_spool *spool, int error) {
    spool->stopped = true;
    return error;
}

int aorta_spool_open(struct aorta_spool *spool, const char *directory, uint64_t limit) {
    struct stat info;
    spool->fd = -1;
    spool->used = 0;
    spool->stopped = false;
    spool->limit = limit;
    spool->head = (struct aorta_spool_head){.version = AORTA_SPOOL_VERSION,
                                            .bytes = sizeof spool->head,
                                            .byte_order = AORTA_SPOOL_BYTE_ORDER,
                                            .state = AORTA_SPOOL_RECORDING};
    memcpy(spool->head.magic, AORTA_SPOOL_MAGIC, sizeof spool->head.magic);
    /* exec does not change the process id, so names get a number. */
    for (int image = 0; spool->fd < 0 && image < 1000; image++) {
        int length =
            snprintf(spool->path, sizeof spool->path, "%s/%d-%d" AORTA_SPOOL_SUFFIX, directory, (int)getpid(), image);
        if (length >= (int)sizeof spool->path) return stopped(spool, ENAMETOOLONG);
        spool->fd = open(spool->path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (spool->fd < 0 && errno != EEXIST) return stopped(spool, errno);
    }
    if (spool->fd < 0) return stopped(spool, EEXIST);
    int error = fstat(spool->fd, &info) ? errno : 0;
    spool->device = info.st_dev;
    spool->inode = info.st_ino;
    if (!error) error = aorta_write_all(spool->fd, &spool->head, sizeof spool->head);
    move_up(spool);
    if (!error) return 0;
    unlink(spool->path);
    aorta_spool_forget(spool);
    return error;
}

void aorta_spool_forget(struct aorta_spool *spool) {
    if (is_ours(spool)) close(spool->fd);
    spool->fd = -1;
    spool->used = 0;
    spool->stopped = true;
}

void aorta_spool_close(struct aorta_spool *spool) {
    aorta_spool_flush(spool);
    aorta_spool_forget(spool);
}

void aorta_spool_flush(struct aorta_spool *spool) {
    write_buffer(spool);
    if (spool->fd >= 0 && hold(spool)) write_head(spool);
}

void aorta_spool_set_state(struct aorta_spool *spool, enum aorta_spool_state state, uint32_t result) {
    if (spool->head.state != AORTA_SPOOL_RECORDING) return;
    spool->head.state = state;
    spool->head.result = result;
}

/* ---- records ---- */

/* Space for one record in the buffer; NULL when recording has ended. */
static uint8_t *reserve(struct aorta_spool *spool, size_t bytes) {
    if (spool->used + bytes > sizeof spool->buffer) write_buffer(spool);
    if (spool->stopped) return NULL;
    if (spool->head.bytes + spool->head.written + spool->used + bytes > spool->limit) {
        write_buffer(spool);
        stop(spool, AORTA_SPOOL_FULL, 0);
        return NULL;
    }
    uint8_t *place = spool->buffer + spool->used;
    spool->used += bytes;
    return place;
}

void aorta_spool_put(struct aorta_spool *spool, enum aorta_spool_type type, unsigned detail, void *record,
                     size_t bytes) {
    *(struct aorta_spool_record *)record = (struct aorta_spool_record){(uint32_t)bytes, type, (uint16_t)detail};
    uint8_t *place = reserve(spool, bytes);
    if (place) memcpy(place, record, bytes);
}

void aorta_spool_put_texts(struct aorta_spool *spool, enum aorta_spool_type type, void *record, size_t bytes,
                           const char *const *texts, const size_t *lengths, size_t count) {
    size_t whole = bytes;
    for (size_t i = 0; i < count; i++) whole += lengths[i];
    whole = (whole + AORTA_SPOOL_STRIDE - 1) / AORTA_SPOOL_STRIDE * AORTA_SPOOL_STRIDE;
    *(struct aorta_spool_record *)record = (struct aorta_spool_record){(uint32_t)whole, type, 0};
    uint8_t *place = reserve(spool, whole);
    if (!place) return;
    memset(place + whole - AORTA_SPOOL_STRIDE, 0, AORTA_SPOOL_STRIDE);
    memcpy(place, record, bytes);
    place += bytes;
    for (size_t i = 0; i < count; i++) {
        memcpy(place, texts[i], lengths[i]);
        place += lengths[i];
    }
}

void aorta_spool_note(struct aorta_spool *spool, int64_t time_ns, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char text[2048];
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length < 0) return;
    size_t stored = (size_t)length < sizeof text ? (size_t)length : sizeof text - 1;
    struct aorta_spool_note note = {.time_ns = time_ns, .length = (uint32_t)stored};
    const char *const texts[] = {text};
    aorta_spool_put_texts(spool, AORTA_SPOOL_NOTE, &note, sizeof note, texts, &stored, 1);
}
