/* The injected library: its file, the records in it, and the process. */
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
/* Closes the file without writing to it, for a child made by fork. */
void aorta_spool_forget(struct aorta_spool *spool);

/* Fills in the record's head and appends the record. `bytes` includes the head and is a multiple of 8. */
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
 * Texts of a spool, each written once. The table is bounded, as a process may generate any number of names. */

enum { AORTA_INJECT_NAME_SLOTS = 1 << 15, AORTA_INJECT_NAME_BYTES = 32 << 20, AORTA_INJECT_NAME_LONGEST = 16 << 10 };

struct aorta_inject_name {
    char *text;
    uint32_t hash, id;
};

struct aorta_inject_names { /* zero-initialise */
    struct aorta_inject_name slots[AORTA_INJECT_NAME_SLOTS];
    size_t count, bytes;
};

/* The text's number. A new text is written to the spool. 0 if the table is full or `text` is NULL. */
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

/* The CUDA calls whose times are recorded: calls that launch, wait for the device, or can make it wait.
 * Ids are from cupti_runtime_cbid.h and cupti_driver_cbid.h and never change. tests/record/test_calls.c compares them
 * with installed headers. */

struct aorta_inject_call {
    const char *name;      /* without the version suffix of NVIDIA's list; runtime calls begin with "cuda" */
    const uint16_t ids[8]; /* up to the first 0 */
};

extern const struct aorta_inject_call aorta_inject_calls[];
extern const uint32_t aorta_inject_call_count;

/* `kind`: AORTA_CUPTI_KIND_RUNTIME or _DRIVER. NULL: none of them. */
const struct aorta_inject_call *aorta_inject_call_of(uint32_t kind, uint32_t id);
/* The part of a recording that the call belongs to: enum aorta_spool_part. */
uint32_t aorta_inject_call_part(const struct aorta_inject_call *call);

/* The recorded process: its CUPTI, its settings for the recording, and its identity. */

/* ---- CUPTI: the library that the process has loaded, or one that fits its driver ---- */

struct aorta_inject_cupti {
    struct aorta_cupti_api api;
    void *handle;
    char path[1024];
    char tried[1024];         /* the paths tried, when nothing was found */
    uint32_t version, driver; /* 0: not known */
};

/* `wish`: a path to be tried once no libcupti is loaded yet; may be NULL. */
bool aorta_inject_cupti_open(struct aorta_inject_cupti *cupti, const char *wish);

/* A symbol of the driver's library. NULL if the library is not loaded or has no such symbol. */
void *aorta_inject_driver_symbol(const char *name);

/* Whether another profiler has subscribed in this process. Subscribes and unsubscribes to find out, so call it only at
 * the start and if no records arrive. `name`: the other profiler's name, if CUPTI gives one. */
bool aorta_inject_cupti_taken(const struct aorta_inject_cupti *cupti, char name[64]);

/* ---- the environment ---- */

/* Value of an environment variable as an integer of at least 0, or `fallback`. */
int64_t aorta_inject_setting(const char *name, int64_t fallback);
/* Parts to record (AORTA_SPOOL_…). Everything for an unknown word, which our command never sets.
 */
uint32_t aorta_inject_parts_wished(void);
enum aorta_inject_stage aorta_inject_stage_wished(void);

/* The spool's record of the process: rank, host, command, CUPTI. */
void aorta_inject_put_process(struct aorta_spool *spool, const struct aorta_inject_cupti *cupti, uint32_t parts);

/* ---- leaving CUPTI ----
 * Removes CUPTI from a program that continues to run.
 *
 * Disabling all records is not enough: once used, CUPTI slows down every CUDA call, which cost PyTorch users 10 to 20%
 * of a step (github.com/pytorch/pytorch/pull/146604). cuptiFinalize removes it.
 * NVIDIA wants it called at the end of a CUDA call (cupti_activity.h at cuptiFinalize). So the library subscribes to
 * calls for a moment, and the program's next call removes CUPTI on its own thread. Before CUDA 12.6 programs with CUDA
 * graphs crashed, so there CUPTI stays. */

struct aorta_inject_detach { /* zero-initialise; must not move, as CUPTI has its address */
    _Atomic int phase;
    void *subscriber;
    uint32_t result; /* of cuptiFinalize, once it is done */
    const struct aorta_inject_cupti *cupti;
};

/* Requests the removal, once. Returns NULL, or why CUPTI stays: it is too old, or another profiler uses it. Disable
 * and flush all records before. */
const char *aorta_inject_detach_ask(struct aorta_inject_detach *detach, const struct aorta_inject_cupti *cupti);
/* Whether CUPTI is removed, or has refused it (`result`). Then no CUPTI function may be called, as this would
 * initialize CUPTI again. */
bool aorta_inject_detach_done(const struct aorta_inject_detach *detach);
/* Cancels a request that no call of the program has served yet, at the program's end. */
void aorta_inject_detach_cancel(struct aorta_inject_detach *detach);
/* Resets the state in a child made by fork, without calling CUPTI, as the child has no CUDA. */
void aorta_inject_detach_forget(struct aorta_inject_detach *detach);

#endif
