/* Writing a spool (trace/spool_format.h). One thread at a time. Failures end the recording and are written to the
 * head; nothing is printed, for the process belongs to somebody else. It may close descriptors that are not its own, as
 * daemons do, and then have a file of its own under the number: each use checks that the file is ours still. */
#ifndef AORTA_RECORD_INJECT_SPOOL_H
#define AORTA_RECORD_INJECT_SPOOL_H

#include "trace/spool_format.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { AORTA_SPOOL_BUFFER = 256 << 10, AORTA_SPOOL_PATH = 4096 };

struct aorta_spool {
    int fd;       /* -1: none */
    dev_t device; /* identifies the file if its number is reused */
    ino_t inode;
    char path[AORTA_SPOOL_PATH];
    struct aorta_spool_head head;
    uint64_t limit; /* bytes of the file */
    bool stopped;   /* failed or full: records are dropped */
    size_t used;
    _Alignas(8) uint8_t buffer[AORTA_SPOOL_BUFFER];
};

/* Makes a new file in the directory, its name from the process's number. Returns 0, or the errno. */
int aorta_spool_open(struct aorta_spool *spool, const char *directory, uint64_t limit);
void aorta_spool_close(struct aorta_spool *spool);
/* Forgets the file without writing to it: in a child that came of fork. */
void aorta_spool_forget(struct aorta_spool *spool);

/* Appends a record of `bytes` (a multiple of 8 with its head), whose head is filled in here. */
void aorta_spool_put(struct aorta_spool *spool, enum aorta_spool_type type, unsigned detail, void *record,
                     size_t bytes);
/* As aorta_spool_put, followed by texts. */
void aorta_spool_put_texts(struct aorta_spool *spool, enum aorta_spool_type type, void *record, size_t bytes,
                           const char *const *texts, const size_t *lengths, size_t count);
void aorta_spool_note(struct aorta_spool *spool, int64_t time_ns, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Writes the buffer, then the state. */
void aorta_spool_flush(struct aorta_spool *spool);
/* The state, if recording has not ended for another reason before. */
void aorta_spool_set_state(struct aorta_spool *spool, enum aorta_spool_state state, uint32_t result);

/* ---- names ----
 * Texts of a spool, each written once: bounded, so that a process that makes up names does not use unlimited memory.
 *
 * A text usually repeats at one address, so the last text at this address is compared first: hashing long kernel names
 * would take processor time from the program. */

enum { AORTA_INJECT_NAME_SLOTS = 1 << 15, AORTA_INJECT_NAME_BYTES = 32 << 20, AORTA_INJECT_NAME_LONGEST = 16 << 10 };
enum { AORTA_INJECT_NAME_PLACES = 1 << 12 };

struct aorta_inject_name {
    char *text;
    uint32_t hash, id;
};

struct aorta_inject_name_place {
    const char *place; /* only compared: the text there may have gone */
    const struct aorta_inject_name *name;
};

struct aorta_inject_names { /* zero-initialise */
    struct aorta_inject_name slots[AORTA_INJECT_NAME_SLOTS];
    struct aorta_inject_name_place places[AORTA_INJECT_NAME_PLACES];
    size_t count, bytes;
};

/* The text's number, written to the spool when it is new; 0 when it is full or there is no text. */
uint32_t aorta_inject_name(struct aorta_inject_names *names, struct aorta_spool *spool, const char *text);
void aorta_inject_names_free(struct aorta_inject_names *names);

#endif
