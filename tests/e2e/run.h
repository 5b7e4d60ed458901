/* Runs of `aorta train` in a temporary directory, and what they left behind. */
#ifndef AORTA_TESTS_E2E_RUN_H
#define AORTA_TESTS_E2E_RUN_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { E2E_MAX_RANKS = 8 };

struct e2e_run {
    char name[64];
    char directory[256]; /* holds out/ (training.output_dir), dump/, output (both streams), pid.R of each rank */
    int ranks;
    pid_t pid; /* of the program, or of the launcher */
    int exit_code;
    double seconds;
    char *output;                 /* what it printed */
    json_t *lines[E2E_MAX_RANKS]; /* by rank: array of the iterations; NULL: there is no such file */
};

/* Group fixtures: the workspace with the base configuration. Six steps of a tiny model of three layers in fp32 without
 * dropout, four samples a rank, a data set of 200. */
int e2e_open(void **state);
int e2e_close(void **state);
const char *e2e_workspace(void);

/* The whole of a run: start, finish, read. `words` are words for the command line behind --override; $RANK in them is
 * each rank's number. */
void e2e_train(struct e2e_run *run, int ranks, const char *words) __attribute__((nonnull));
/* The same in a job that trains for several runs (programs/trains.c). It must have ended well, with a line for each of
 * `steps` steps on every rank; 0: for any number of steps. */
void e2e_train_well(struct e2e_run *run, int ranks, int steps, const char *words);
void e2e_free(struct e2e_run *run);

void e2e_start(struct e2e_run *run, int ranks, const char *words);
/* Starts any command line of the program (words behind "aorta"), in the run's directory. Among the words AORTA_PROGRAM
 * is the program, ../config the folder of configurations. */
void e2e_start_command(struct e2e_run *run, const char *words);
void e2e_finish(struct e2e_run *run); /* waits; reads what it printed */
/* Parses the lines of every rank. All must parse; `cut`: but for the last one, which a kill may have cut. */
void e2e_read_lines(struct e2e_run *run, bool cut);
/* Waits until rank has written this many lines. */
void e2e_wait_for_lines(const struct e2e_run *run, int rank, size_t lines);
pid_t e2e_rank_pid(const struct e2e_run *run, int rank);
void e2e_expect_gone(pid_t pid);                              /* within some seconds; it may still wait to be reaped */
bool e2e_exists(const struct e2e_run *run, const char *path); /* below the run's directory */
void e2e_expect_output(const struct e2e_run *run, int exit_code, const char *part);

/* `aorta report` on what a run wrote; it must end well. Returns its summary.json, where the run is the label "run". */
json_t *e2e_report(const struct e2e_run *run, struct e2e_run *report);
/* From now on runs find these libraries, tests/fake_gpu's among them, whose kernels do nothing. */
void e2e_use_fake_gpu(const char *libraries);

/* ---- lines ---- */

size_t e2e_steps(const struct e2e_run *run, int rank);
const json_t *e2e_line(const struct e2e_run *run, int rank, size_t step);
const json_t *e2e_get(const json_t *object, const char *path); /* "profile.overlap.comm_ms"; fails when absent */
double e2e_number(const json_t *object, const char *path);
double e2e_mean_loss(const struct e2e_run *run, size_t step); /* over the ranks */

/* ---- ranges ---- */

/* What a range must be; NULL: anything. */
struct e2e_filter {
    const char *function, *tag, *stream, *kind;
};
const json_t *e2e_ranges(const json_t *line);
int e2e_count(const json_t *line, struct e2e_filter filter);
/* The nth (from 0; negative: from the end) such range in order of enqueueing; fails when there is none. */
const json_t *e2e_range(const json_t *line, struct e2e_filter filter, int nth);
double e2e_start_ms(const json_t *range);
double e2e_end_ms(const json_t *range);
double e2e_enqueue_ms(const json_t *range);
int e2e_index(const json_t *line, const json_t *range); /* place in the order of enqueueing */

#endif
