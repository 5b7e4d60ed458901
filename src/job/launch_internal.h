/* The job of a launcher, in its process. Internal to launch*.c. */
#ifndef AORTA_JOB_LAUNCH_INTERNAL_H
#define AORTA_JOB_LAUNCH_INTERNAL_H

#include "base/directories.h"
#include "job/beacon.h"
#include "job/launch.h"

#include <limits.h>
#include <signal.h>
#include <stdbool.h>

#define STATE_NS 1000000000 /* between two checks of the ranks' states */
#define TOKEN_BYTES 16

/* A process of the job that is stopped. */
struct stop {
    int rank; /* -1: mpirun */
    bool wrapper;
    pid_t pid;        /* 0: none was ever seen */
    int64_t since_ns; /* when it was first seen stopped; 0: it runs again */
    int64_t seen_ns;  /* when it was last seen so */
    bool reported;
};

struct job {
    const struct aorta_launch_options *options;
    struct aorta_temporary directory; /* files of the launcher and Open MPI */
    struct aorta_temporary shared; /* Open MPI's shared memory, where /dev/shm has the space; path "": in `directory` */
    char mpirun[PATH_MAX];         /* "": the ranks are our own children */
    int port;
    char token[2 * TOKEN_BYTES + 1]; /* of the rendezvous */
    struct aorta_beacon *beacon;
    pid_t *children; /* [child_count]: mpirun alone, or one wrapper per rank; 0: has ended */
    int child_count;
    int child_failure; /* exit code of the first child that ended with one */
    sigset_t watched, former_mask;
    int signals;        /* how many the user has sent */
    int64_t signal_ns;  /* the first of them */
    int signal;         /* last sent to the ranks; 0: none */
    bool *notified;     /* [ranks]: whether they had started and got it */
    bool timed_out;     /* the job took longer than allowed */
    bool stopped_out;   /* `stop` took longer than the ranks wait */
    bool stuck;         /* mpirun went on although all ranks had ended */
    int lost;           /* the rank whose wrapper ended without a word; -1: none */
    int64_t kill_at_ns; /* when the remaining ranks get SIGKILL; 0: the job is not being ended */
    int kills;          /* how often it was sent */
    struct stop stop;   /* the last one */
};

/* ---- preparations and reports ---- */

/* As shells give it. */
int job_exit_code(int wait_status);
/* The rank that failed first, or -1. */
int job_first_failure(const struct job *job, struct aorta_beacon_state *first);
/* When the last rank ended; 0: not all have. */
int64_t job_all_ended_ns(const struct job *job);

/* ---- launch_report.c ---- */

/* Reports a stopped process once. limit_ns is 0 if no timeout ends it. */
void job_report_stopped(struct stop *stop, int64_t limit_ns);
/* Says on stderr how the job ended; its exit code. */
int job_report(const struct job *job);

#endif
