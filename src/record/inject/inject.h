/* The library in other programs: the file that it writes, the records in it, and the process. */
#ifndef AORTA_RECORD_INJECT_INJECT_H
#define AORTA_RECORD_INJECT_INJECT_H

#include "measure/cupti_abi.h"
#include "record/inject/settings.h"
#include "trace/spool_format.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
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
 * Texts of a spool, each written once: bounded, so that a process that makes up names does not use unlimited memory. */

enum { AORTA_INJECT_NAME_SLOTS = 1 << 15, AORTA_INJECT_NAME_BYTES = 32 << 20, AORTA_INJECT_NAME_LONGEST = 16 << 10 };

struct aorta_inject_name {
    char *text;
    uint32_t hash, id;
};

struct aorta_inject_names { /* zero-initialise */
    struct aorta_inject_name slots[AORTA_INJECT_NAME_SLOTS];
    size_t count, bytes;
};

/* The text's number, written to the spool when it is new; 0 when it is full or there is no text. */
uint32_t aorta_inject_name(struct aorta_inject_names *names, struct aorta_spool *spool, const char *text);
void aorta_inject_names_free(struct aorta_inject_names *names);

/* ---- from CUPTI's records to the spool's. One thread ---- */

enum { AORTA_INJECT_DEVICES = 64 };

struct aorta_inject_records { /* zero-initialise */
    uint32_t parts;           /* enum aorta_spool_part: other calls are dropped */
    struct aorta_inject_names names;
    uint8_t known_devices[AORTA_INJECT_DEVICES]; /* already described */
    uint64_t unfinished;
};

/* Calls of other parts are dropped; device work without times counts as unfinished. */
void aorta_inject_record(struct aorta_inject_records *records, struct aorta_spool *spool,
                         const struct aorta_cupti_activity *activity);

/* The calls of CUDA's interfaces whose times are recorded: what launches, waits for the device, or can make it wait.
 * Numbers are those of cupti_runtime_cbid.h and cupti_driver_cbid.h, which never change;
 * tests/record/test_calls.c compares them with the headers where these are installed. */

struct aorta_inject_call {
    const char *name;      /* without the version after it in NVIDIA's list; "cuda…" are of the runtime */
    const uint16_t ids[8]; /* up to the first 0 */
};

extern const struct aorta_inject_call aorta_inject_calls[];
extern const uint32_t aorta_inject_call_count;

/* `kind`: AORTA_CUPTI_KIND_RUNTIME or _DRIVER. NULL: none of them. */
const struct aorta_inject_call *aorta_inject_call_of(uint32_t kind, uint32_t id);
/* Which part of a recording it is: enum aorta_spool_part. */
uint32_t aorta_inject_call_part(const struct aorta_inject_call *call);

/* The process that is recorded, which is not ours: its CUPTI, its settings of the recording, and its identity. */

/* ---- CUPTI: the library the process already has, or the one that suits its driver ---- */

struct aorta_inject_cupti {
    struct aorta_cupti_api api;
    void *handle;
    char path[1024];
    char tried[1024];         /* the paths tried, when nothing was found */
    uint32_t version, driver; /* 0: not known */
};

/* `wish`: a path to be tried once no libcupti is loaded yet; may be NULL. */
bool aorta_inject_cupti_open(struct aorta_inject_cupti *cupti, const char *wish);

/* A name of the driver's library, where it is loaded; NULL. */
void *aorta_inject_driver_symbol(const char *name);

/* Whether another profiler has subscribed in this process. Takes and gives back the one subscription there is, so it
 * is asked only at the start and when no records come. `name`: the other's, where CUPTI names it. */
bool aorta_inject_cupti_taken(const struct aorta_inject_cupti *cupti, char name[64]);

/* ---- the environment ---- */

/* A whole number from 0 on in this variable of the environment; `fallback` without it. */
int64_t aorta_inject_setting(const char *name, int64_t fallback);
/* Parts of the record (AORTA_SPOOL_…). A word that is not known cannot come from our command: everything is recorded.
 */
uint32_t aorta_inject_parts_wished(void);
enum aorta_inject_stage aorta_inject_stage_wished(void);

/* The spool's record of the process: rank, host, command, CUPTI. */
void aorta_inject_put_process(struct aorta_spool *spool, const struct aorta_inject_cupti *cupti, uint32_t parts);

/* ---- leaving CUPTI ----
 * Removes CUPTI from a program that continues to run.
 *
 * Disabling all records is not enough: CUPTI, once used, slows every call of CUDA's interfaces down, and PyTorch's
 * users saw 10 to 20% of a step remain (github.com/pytorch/pytorch/pull/146604). cuptiFinalize removes it.
 * NVIDIA wants it called where a call of CUDA's ends (cupti_activity.h at cuptiFinalize), so a subscriber is put there
 * for a moment, and the program's next call takes CUPTI out on its own thread. Programs with CUDA graphs crashed before
 * CUDA 12.6, so there CUPTI stays. */

struct aorta_inject_detach { /* zero-initialise; stays where it is, for CUPTI holds its address */
    _Atomic int phase;
    void *subscriber;
    uint32_t result; /* of cuptiFinalize, once it is done */
    const struct aorta_inject_cupti *cupti;
};

/* Asks for it, once. NULL, or why CUPTI stays: it is too old, or another's by now. Everything must be disabled and
 * flushed before. */
const char *aorta_inject_detach_ask(struct aorta_inject_detach *detach, const struct aorta_inject_cupti *cupti);
/* Whether CUPTI is gone, or has refused to go (`result`). No function of it may be called any more then: it would come
 * back. */
bool aorta_inject_detach_done(const struct aorta_inject_detach *detach);
/* The program ends: if none of its calls has come by, it need not. */
void aorta_inject_detach_cancel(struct aorta_inject_detach *detach);
/* In a child made by fork, which has no CUDA: without a call of CUPTI's. */
void aorta_inject_detach_forget(struct aorta_inject_detach *detach);

#endif
