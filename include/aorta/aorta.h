/* libaorta: recordings of GPU programs, analysed, as a library: the results of `aorta trace analyze`.
 *
 * There is no global state. An analysis belongs to one thread at a time; several may be used concurrently. Texts and
 * structs of an analysis live as long as it does. Times are milliseconds of one step, means over ranks. What is
 * not known is NaN, NULL or -1. A pointer that is NULL where that makes no sense is answered with LIBAORTA_INVALID, NULL
 * or 0. Link with `pkg-config --cflags --libs aorta`. */
#ifndef LIBAORTA_AORTA_H
#define LIBAORTA_AORTA_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "0.1.0"; static. */
const char *libaorta_version(void);

enum libaorta_result {
    LIBAORTA_OK,
    LIBAORTA_INVALID, /* an argument or option makes no sense, or names no file or no trace */
    LIBAORTA_IO,      /* a file cannot be read or written */
    LIBAORTA_FORMAT,  /* a trace is broken; the message names the byte */
    LIBAORTA_MEMORY,
    LIBAORTA_UNSUPPORTED, /* this machine or this recording cannot do it */
    LIBAORTA_FAILED       /* anything else; the message says what */
};

struct libaorta_options {   /* zero-initialise; NULL means zeros */
    int recover;            /* keep the part before the place where a file breaks off */
    int whole;              /* the whole recording, start and end included, instead of its steps */
    const char *step_range; /* a step begins with each range whose name matches (POSIX extended) */
};

struct libaorta_analysis;

/* Reads traces of any format that `aorta trace analyze` reads, or a folder of them, one file for each rank, and
 * analyses them. *analysis ends with libaorta_close; it is NULL after a failure. `message` gets the reason of a
 * failure, cut at `size` bytes with its NUL; it may be NULL where size is 0. */
enum libaorta_result libaorta_open(const char *const *paths, size_t count, const struct libaorta_options *options,
                                   struct libaorta_analysis **analysis, char *message, size_t size);
void libaorta_close(struct libaorta_analysis *analysis); /* NULL is fine */

/* ---- the verdict ---- */

/* The verdict that `aorta trace analyze` prints, in 100 columns, and with --markdown; and all that --json has. NULL: no
 * memory. */
const char *libaorta_verdict_text(struct libaorta_analysis *analysis);
const char *libaorta_verdict_markdown(struct libaorta_analysis *analysis);
const char *libaorta_json(struct libaorta_analysis *analysis);

struct libaorta_step {
    size_t ranks, steps; /* steps of each rank; 0: none are known, and the figures are of the whole recording */
    double step_ms, step_p50_ms;
    double compute_ms, comm_ms, exposed_comm_ms, idle_ms;
    double overlap_ratio; /* of communication that is hidden; NaN without communication */
};
void libaorta_step(const struct libaorta_analysis *analysis, struct libaorta_step *step);

struct libaorta_cause {
    const char *cause;      /* "host_launch", "exposed_collective", … (docs/metrics.md) */
    const char *collective; /* "all_gather", …; NULL: the cause has no kind of collective */
    double gain_ms;         /* how much shorter a step is without it; NaN: not known */
    double cost_ms, share;  /* its time per step */
    int rank;               /* with the largest cost or, of a straggler, the late one; -1: all ranks are alike */
    const char *evidence, *advice;
};
/* Largest gain first. */
size_t libaorta_cause_count(const struct libaorta_analysis *analysis);
/* LIBAORTA_INVALID: there is no such cause. */
enum libaorta_result libaorta_cause(const struct libaorta_analysis *analysis, size_t index,
                                    struct libaorta_cause *cause);

/* ---- tables ---- */

/* Names of all tables: "kernels", "gemms", "collectives", "gaps", …; NULL after the last. */
const char *libaorta_table_name(size_t index);
/* The table as CSV (RFC 4180): a line of names, with units in brackets, and a line for each row; the first column is
 * the rank. NULL: no such table, or no memory. */
const char *libaorta_table_csv(struct libaorta_analysis *analysis, const char *name);

#ifdef __cplusplus
}
#endif

#endif
