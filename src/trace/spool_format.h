/* The file that the injected library writes, one for each process: a head, then records one after another.
 *
 * All values are in the machine's byte order, which the head names. A record begins with its size and type, so that
 * unknown types can be skipped; sizes are multiples of 8. Records are only appended, and incomplete ones do not
 * count: a file that was cut anywhere after its head (kill -9, a full disk) is valid up to its last whole record. The
 * state in the head is rewritten in place, so that it is known even if the disk is full.
 *
 * Times are CUPTI's own, CLOCK_REALTIME in ns: another profiler that takes over CUPTI relies on it. */
#ifndef AORTA_TRACE_SPOOL_FORMAT_H
#define AORTA_TRACE_SPOOL_FORMAT_H

#include <stdint.h>

#define AORTA_SPOOL_MAGIC "AORTASPL"
#define AORTA_SPOOL_SUFFIX ".spool"
/* Each window of a recording has a folder, named after its start in ms of CLOCK_REALTIME, a multiple of its length. */
#define AORTA_SPOOL_WINDOW_NAME "window-%lld-%lld" /* start, length */
#define AORTA_SPOOL_BYTE_ORDER 0x0102030405060708ull

enum {
    AORTA_SPOOL_VERSION = 1, /* raised if readers of the old version would misread the new one */
    AORTA_SPOOL_STRIDE = 8,
    AORTA_SPOOL_RECORD_MAX = 1 << 16, /* bytes */
};

/* States of a recording. */
enum aorta_spool_state {
    AORTA_SPOOL_RECORDING, /* the process runs, or ended without its exit handlers (a signal, _exit, exec) */
    AORTA_SPOOL_ENDED,     /* the process ended by exit, all records were written */
    AORTA_SPOOL_TAKEN,     /* another profiler has CUPTI: recording stopped at last_ns */
    AORTA_SPOOL_REFUSED,   /* CUPTI refused; `result` is its code, a note names the call */
    AORTA_SPOOL_MISSING,   /* no libcupti could be opened; a note says what was tried */
    AORTA_SPOOL_FAILED,    /* writing failed; `result` is the errno. Recording stopped at last_ns */
    AORTA_SPOOL_FULL,      /* the limit of the file's size was reached. Recording stopped at last_ns */
    AORTA_SPOOL_STOPPED,   /* the time to record was over */
    AORTA_SPOOL_WINDOW,    /* the file's window ended; the process continues in the next window's file */
    AORTA_SPOOL_STATE_COUNT
};

struct aorta_spool_head {
    char magic[8];
    uint32_t version;
    uint32_t bytes; /* of this head; the first record follows it */
    uint64_t byte_order;
    /* rewritten in place */
    uint32_t state, result;
    uint64_t lost;       /* records that CUPTI or the bounded buffers dropped */
    uint64_t unfinished; /* records without times, of work that ran at the end */
    int64_t last_ns;     /* when records last arrived; 0: never */
    uint64_t written;    /* bytes of whole records */
    int64_t begun_ns;    /* when recording began; 0: not yet, or an older file */
    uint64_t padding;
};

struct aorta_spool_record {
    uint32_t bytes; /* of the whole record */
    uint16_t type;
    uint16_t detail; /* by type; else 0 */
};

enum aorta_spool_type {
    AORTA_SPOOL_PROCESS = 1,
    AORTA_SPOOL_TEXT,
    AORTA_SPOOL_DEVICE,
    AORTA_SPOOL_KERNEL,
    AORTA_SPOOL_COPY,
    AORTA_SPOOL_FILL,
    AORTA_SPOOL_CALL,
    AORTA_SPOOL_MARK,
    AORTA_SPOOL_NOTE
};

/* Which calls of the host are recorded. 0 in older files, which have all. */
enum aorta_spool_part {
    AORTA_SPOOL_LAUNCHES = 1, /* of kernels, graphs, copies and fills */
    AORTA_SPOOL_WAITS = 2,    /* for the device; allocations and frees, which may wait too */
    AORTA_SPOOL_PARTS_KNOWN = 1 << 30,
};

/* The first record of a file. Numbers are -1 if the environment lacks them. */
struct aorta_spool_process {
    struct aorta_spool_record record;
    int32_t pid, parent, rank, world, local_rank, local_world;
    uint32_t cupti; /* cuptiGetVersion; 0: none */
    uint32_t driver;
    int64_t start_ns;
    uint32_t command_length, library_length, host_length;
    uint32_t parts; /* enum aorta_spool_part */
    /* command line, path of libcupti, name of the host, one after another without NUL; then padding */
};

/* A text, before its first use. Numbers begin at 1; 0 means "not known". */
struct aorta_spool_text {
    struct aorta_spool_record record;
    uint32_t id, length;
    /* the bytes, then padding */
};

struct aorta_spool_device {
    struct aorta_spool_record record;
    uint32_t id, name; /* as in kernels; text */
    int32_t multiprocessors, major, minor, padding;
    int64_t memory_bytes;
};

struct aorta_spool_kernel {
    struct aorta_spool_record record; /* detail: type of the channel (CUpti_ChannelType), 0: not known */
    int64_t start_ns, end_ns;
    uint32_t correlation, name;
    uint32_t device, context, stream, channel;
    uint32_t graph; /* 0: not launched by a graph */
    uint32_t grid[3], block[3];
    uint32_t padding;
};

/* COPY and FILL. */
struct aorta_spool_transfer {
    struct aorta_spool_record record; /* detail: CUpti_ActivityMemcpyKind of a copy */
    int64_t start_ns, end_ns;
    int64_t bytes;
    uint32_t correlation;
    uint32_t device, context, stream;
    uint32_t graph;
    uint32_t padding;
};

struct aorta_spool_call {
    struct aorta_spool_record record;
    int64_t start_ns, end_ns;
    uint32_t correlation, name, thread, padding;
};

/* One end of a range that the program marked (NVTX). */
struct aorta_spool_mark {
    struct aorta_spool_record record; /* detail: 1 beginning, 2 end */
    int64_t time_ns;
    uint32_t id; /* the same at both ends */
    uint32_t name, thread, padding;
};

/* A message about the recording. */
struct aorta_spool_note {
    struct aorta_spool_record record;
    int64_t time_ns;
    uint32_t length, padding;
    /* the bytes, then padding */
};

#endif
