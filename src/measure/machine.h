/* The machine during a recording: load and stolen time of its processors, other processes on its GPUs, their clocks.
 * A reading is taken about once a second and written to a file of JSON lines next to the recording. The warning about
 * a disturbed machine is based on that file. Keys: docs/trace-formats.md. Linux; times are ns since 1970. */
#ifndef AORTA_MEASURE_MACHINE_H
#define AORTA_MEASURE_MACHINE_H

#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"
#include "device/inventory.h"
#include "measure/clocks.h"

#include <sys/types.h>

#define AORTA_MACHINE_FILE "machine.jsonl"     /* of `aorta trace run` */
#define AORTA_MACHINE_PATTERN "machine*.jsonl" /* and of `aorta train`: machine_RR.jsonl, one for each host */
enum { AORTA_MACHINE_SCHEMA = 1 };

/* ---- readings ---- */

struct aorta_machine_process {
    int64_t pid;
    bool own;                      /* of the recorded program, else another's */
    double memory_bytes, sm_share; /* as in device/inventory.h */
};

struct aorta_machine_gpu {
    struct aorta_device_metrics metrics;
    bool processes_known;
    struct aorta_machine_process *processes;
    size_t process_count;
};

/* Sums are since the machine started, of all processors together. */
struct aorta_machine_reading {
    int64_t at_ns;
    double load;                      /* runnable and waiting for disks, mean of a minute; NaN: not known */
    double total_s, idle_s, stolen_s; /* idle includes waiting for disks; stolen by the hypervisor. NaN: unknown */
    double own_s;                     /* of the program and its descendants; NaN: unknown */
    struct aorta_machine_gpu *gpus;
    size_t gpu_count;
};

/* ---- taking them ---- */

struct aorta_machine_watch;

/* Begins a file and takes the first reading. `root` and its descendants are the program's own processes; `fresh`: the
 * program has just started and uses no GPU yet. Missing GPUs or libraries are no failure: each line names the missing
 * part. AORTA_IO, AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_machine_watch_open(const char *path, pid_t root, bool fresh,
                                                     struct aorta_machine_watch **watch);
/* Takes a reading if the last is a second old; from one thread. A failed write ends the file. */
void aorta_machine_watch_look(struct aorta_machine_watch *watch); /* NULL is fine */
/* Starts a thread that takes the readings. */
AORTA_MUST_USE aorta_status aorta_machine_watch_start(struct aorta_machine_watch *watch);
/* Takes the last reading. `ended_s`: processor time of a program that has ended and was waited for; NaN if it still
 * runs. Frees the watch; NULL is fine. */
void aorta_machine_watch_close(struct aorta_machine_watch *watch, double ended_s);

/* The keys of a line, for the docs. */
void aorta_machine_markdown(struct aorta_text *out);

/* ---- evaluation ---- */

struct aorta_machine {
    struct aorta_arena arena;               /* of all of it: free it in the end */
    struct aorta_machine_reading *readings; /* in order of time */
    size_t count, capacity;
    int processors;
    const char *host;
    char gpu_reason[256]; /* why the GPUs are unknown; else empty */
};

/* AORTA_FORMAT names the line. An incomplete last line, after a kill, is ignored. */
AORTA_MUST_USE aorta_status aorta_machine_read(const char *path, struct aorta_machine *machine);

/* Another program's process on a GPU. */
struct aorta_machine_other {
    int64_t pid;
    size_t gpu;
    double sm_share, memory_bytes; /* maximum; NaN: unknown */
};
enum { AORTA_MACHINE_OTHERS_MOST = 8 };

/* Between two moments. Shares are of the time of all processors; NaN: not known. */
struct aorta_machine_summary {
    const struct aorta_machine *machine; /* borrowed */
    size_t readings;
    double seconds, load, stolen_share, idle_share, own_share, others_share;
    bool gpus_known; /* which processes are on them */
    struct aorta_machine_other others[AORTA_MACHINE_OTHERS_MOST];
    size_t other_count; /* those stored */
    size_t slow_gpu;    /* whose clock is the lowest of those that the program used */
    struct aorta_clocks clocks;
};
/* Uses the readings from the last before from_ns to the first after until_ns; 0 and INT64_MAX: all. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_machine_summarise(const struct aorta_machine *machine, int64_t from_ns,
                                                    int64_t until_ns, struct aorta_machine_summary *summary);
/* The pressure of other programs on the processors (aorta_pressure_of); NaN: not known. */
double aorta_machine_pressure(const struct aorta_machine_summary *summary);
/* As aorta_machine_pressure, for programs that run for less than a second: between two looks at the processors' time
 * and the time of `root` and its descendants. If less than 0.2 s of processor time has passed, the load of the last
 * minute is used. */
void aorta_machine_look(pid_t root, struct aorta_machine_reading *reading);
double aorta_machine_pressure_between(const struct aorta_machine_reading *first,
                                      const struct aorta_machine_reading *last);
/* Writes "disturbed: 12% of processor time stolen; ...". False, and nothing is written, if the machine was not
 * disturbed or this is unknown. */
bool aorta_machine_disturbed(const struct aorta_machine_summary *summary, struct aorta_text *out);
/* Key and value of "machine", an object; unknown values are null, with a reason. */
void aorta_machine_json(const struct aorta_machine_summary *summary, struct aorta_json *json);

/* ---- shared by the writer and the reader of a machine's file ---- */

struct aorta_machine_head {
    char host[256];
    int processors;
    char gpu_reason[256]; /* why there are no GPUs; else empty */
};

/* One line. */
void aorta_machine_write(const struct aorta_machine_head *head, const struct aorta_machine_reading *reading,
                         struct aorta_text *out);

/* Processor seconds of a process and its descendants so far, or NAN if unknown. Writes at most `most` of their process
 * ids to `pids`, and their number to *count. */
double aorta_machine_tree(pid_t root, int64_t *pids, size_t most, size_t *count);
/* Times of all processors, and the load. Unknown values stay NaN. `root` is /proc, or a folder in its place. */
void aorta_machine_read_proc(const char *root, struct aorta_machine_reading *reading);

#endif
