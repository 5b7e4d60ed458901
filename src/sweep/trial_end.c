#include "base/files.h"
#include "base/printable.h"
#include "report/report.h"
#include "report/summary.h"
#include "sweep/run.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Results of reading a trial's files, in memory shared with the reading process. */
struct reading {
    const struct aorta_sweep_job *job;
    const char *directory;
    struct aorta_trial trial; /* its figures, pressure and device */
    char failure[sizeof((struct aorta_trial *)0)->reason];
};

static double number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static double number_in(const json_t *object, const char *key, const char *inner) {
    return number(json_object_get(object, key), inner);
}

static void set_device(const json_t *name, char device[16]) {
    if (json_is_string(name))
        snprintf(device, 16, "%.*s", (int)strcspn(json_string_value(name), ":"), json_string_value(name));
}

static void from_summary(const json_t *root, struct reading *out) {
    json_t *labels = json_object_get(root, "labels");
    const json_t *run = json_object_iter_value(json_object_iter(labels));
    set_device(json_object_get(run, "device"), out->trial.device);
    out->trial.figures[AORTA_SWEEP_STEP_MS] = number_in(run, "step_ms", "p50");
    out->trial.figures[AORTA_SWEEP_OVERLAP_RATIO] = number(run, "overlap_ratio_total");
    out->trial.figures[AORTA_SWEEP_EXPOSED_COMM_MS] = number_in(run, "exposed_comm_ms", "mean");
    out->trial.figures[AORTA_SWEEP_THROUGHPUT] = number_in(run, "samples_per_s", "mean");
    snprintf(out->trial.unit, sizeof out->trial.unit, "samples/s");
}

/* A recording without steps has shares only. */
static void from_analysis(const json_t *root, struct reading *out) {
    const char *parts = json_string_value(json_object_get(root, "judged"));
    snprintf(out->trial.device, sizeof out->trial.device, "gpu");
    if (!parts || strcmp(parts, "steps") != 0) return;
    out->trial.figures[AORTA_SWEEP_STEP_MS] = number(root, "judged_ms_mean");
    out->trial.figures[AORTA_SWEEP_OVERLAP_RATIO] = number(root, "step_overlap_ratio");
    out->trial.figures[AORTA_SWEEP_EXPOSED_COMM_MS] = number(root, "step_exposed_comm_ms");
    out->trial.figures[AORTA_SWEEP_THROUGHPUT] = 1e3 / out->trial.figures[AORTA_SWEEP_STEP_MS];
    snprintf(out->trial.unit, sizeof out->trial.unit, "steps/s");
}

static void from_hwq(const json_t *root, struct reading *out) {
    set_device(json_object_get(json_object_get(json_object_get(root, "metadata"), "config"), "device"),
               out->trial.device);
    out->trial.figures[AORTA_SWEEP_STEP_MS] = number_in(root, "latency_ms", "p50");
    out->trial.figures[AORTA_SWEEP_THROUGHPUT] = number(root, "throughput");
    const char *unit = json_string_value(json_object_get(root, "throughput_unit"));
    snprintf(out->trial.unit, sizeof out->trial.unit, "%s", unit ? unit : "");
    out->trial.pressure = number(root, "machine_pressure");
}

static void from_result(const json_t *root, struct reading *out) {
    for (int i = 0; i < AORTA_SWEEP_OBJECTIVE_COUNT; i++) {
        double figure = number(root, aorta_sweep_objectives[i].key);
        if (!isfinite(figure)) continue;
        out->trial.figures[i] = figure;
        if (i == AORTA_SWEEP_THROUGHPUT) *out->trial.unit = '\0';
    }
}

/* Figures out of range become unknown. */
static aorta_status check_ranges(const char *path, double figures[AORTA_SWEEP_OBJECTIVE_COUNT]) {
    aorta_status status = NULL;
    for (int i = 0; i < AORTA_SWEEP_OBJECTIVE_COUNT; i++) {
        const struct aorta_sweep_objective_row *row = &aorta_sweep_objectives[i];
        if (aorta_sweep_figure_fits((enum aorta_sweep_objective)i, figures[i])) continue;
        if (!status)
            status = AORTA_ERROR(AORTA_FORMAT, "%s: %s is %g, which is not in %c%g, %g]", path, row->key, figures[i],
                                 row->above_min ? '(' : '[', row->min, row->max);
        figures[i] = NAN;
    }
    return status;
}

/* The end of what the program said. */
struct tail {
    char text[2048];
    size_t length;
};

static void read_tail(const char *directory, struct tail *tail) {
    const int file = aorta_file_open_regular(aorta_path_in(directory, "log").text);
    tail->length = 0;
    if (file >= 0) {
        const off_t length = lseek(file, 0, SEEK_END), most = sizeof tail->text - 1;
        const ssize_t got = pread(file, tail->text, sizeof tail->text - 1, length > most ? length - most : 0);
        close(file);
        if (got > 0) tail->length = (size_t)got;
    }
    tail->text[tail->length] = '\0';
}

/* The last line of a text that ends at *end: where it begins, and without the blanks after it. */
static size_t line_before(const char *text, size_t *end) {
    while (*end && strchr("\r\n \t", text[*end - 1])) --*end;
    size_t begin = *end;
    while (begin && text[begin - 1] != '\n') begin--;
    return begin;
}

/* The last line of output, or "". Skips srun's messages about the end of its program, as the line before them has the
 * reason. */
static void last_line(struct tail *from, char *out, size_t size) {
    static const char launcher[] = "srun: error: ";
    char *tail = from->text;
    size_t end = from->length, begin = line_before(tail, &end);
    for (size_t before = begin; strncmp(tail + begin, launcher, sizeof launcher - 1) == 0;) {
        const size_t at = line_before(tail, &before);
        if (!before) break;
        end = before;
        begin = before = at;
    }
    tail[end] = '\0';
    aorta_make_printable(tail + begin, end - begin, false);
    snprintf(out, size, "%.*s", (int)size - 1, tail + begin);
    /* Replaces a character that was cut. */
    aorta_make_printable(out, strlen(out), false);
}

/* Reads a file if it exists. It is limited to `most` bytes, as JSON values need many times the memory of their text
 * and a trial must not exhaust the memory. */
static aorta_status read_figures(struct reading *reading, const char *name, int64_t most,
                                 void (*read)(const json_t *root, struct reading *out)) {
    const struct aorta_file_path path = aorta_path_in(reading->directory, "%s", name);
    json_t *root;
    if (access(path.text, F_OK)) return NULL;
    AORTA_TRY(aorta_json_file_read(path.text, (size_t)most, &root));
    read(root, reading);
    json_decref(root);
    return check_ranges(path.text, reading->trial.figures);
}

static aorta_status summarise_run(const char *directory) {
    const struct aorta_log log = {.level = AORTA_LOG_ERROR, .rank = -1};
    const struct aorta_file_path out = aorta_path_in(directory, "out");
    const struct aorta_report_input input = {.directory = out.text, .label = "run"};
    const struct aorta_report_options options = {.inputs = &input, .input_count = 1, .output = out.text, .warmup = -1};
    return aorta_report_make(&options, &log, NULL, NULL);
}

/* What the machine did during a run, from the file next to it. */
static aorta_status read_pressure(const char *directory, const char *folder, struct reading *reading) {
    struct aorta_recorded_machine machine;
    AORTA_TRY(aorta_recorded_machine_read(aorta_path_in(directory, "%s", folder).text, NULL, &machine));
    if (machine.known) reading->trial.pressure = aorta_machine_pressure(&machine.summary);
    aorta_recorded_machine_free(&machine);
    return NULL;
}

static aorta_status measure(struct reading *reading) {
    enum { SMALL = 1 << 20, LARGE = 64 << 20 };
    const struct aorta_sweep_job *job = reading->job;
    const char *directory = reading->directory;
    if (job->target == AORTA_SWEEP_TRAIN) {
        AORTA_TRY(summarise_run(directory));
        AORTA_TRY(read_pressure(directory, "out", reading));
        return read_figures(reading, "out/summary.json", LARGE, from_summary);
    }
    if (job->target == AORTA_SWEEP_HWQ) return read_figures(reading, "hwq.json", LARGE, from_hwq);
    AORTA_TRY(read_pressure(directory, "trace", reading));
    AORTA_TRY(read_figures(reading, "trace/analysis.json", LARGE, from_analysis));
    /* a trace's throughput counts steps, whatever work they have */
    if (aorta_sweep_changes_work(&job->plan.space)) reading->trial.figures[AORTA_SWEEP_THROUGHPUT] = NAN;
    return read_figures(reading, "result.json", SMALL, from_result);
}

static void read_all_figures(void *user) {
    struct reading *reading = user;
    aorta_status status = measure(reading);
    if (status) snprintf(reading->failure, sizeof reading->failure, "%s", aorta_status_message(status));
    aorta_status_free(status);
}

/* Reads the files in a separate process, with the trial's time limit, as a trial may leave any files. */
static aorta_status read_in_process(const struct aorta_sweep_ended *ended, struct reading *reading, int *interrupted) {
    const struct aorta_sweep_process process = {
        .work = read_all_figures, .user = reading, .timeout_s = ended->job->timeout_s};
    struct aorta_sweep_end end;
    AORTA_TRY(aorta_sweep_process_run(ended->signals, &process, &end));
    *interrupted = end.interrupted;
    if (end.timed_out)
        snprintf(reading->failure, sizeof reading->failure, "reading its results took longer than %.6g s (--timeout-s)",
                 ended->job->timeout_s);
    else if (end.signal)
        snprintf(reading->failure, sizeof reading->failure, "reading its results was ended by a signal (%s)",
                 strsignal(end.signal));
    return NULL;
}

static aorta_status read_trial(const struct aorta_sweep_ended *ended, struct aorta_trial *trial, int *interrupted) {
    const struct aorta_sweep_job *job = ended->job;
    struct reading *reading = mmap(NULL, sizeof *reading, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (reading == MAP_FAILED) return AORTA_ERROR(AORTA_MEMORY, "no memory for the figures of a trial");
    *reading = (struct reading){.job = job, .directory = ended->directory, .trial = *trial};
    aorta_status status = read_in_process(ended, reading, interrupted);
    *trial = reading->trial;
    if (*reading->failure || !isfinite(trial->figures[job->plan.objective])) {
        trial->state = AORTA_TRIAL_NO_FIGURE;
        snprintf(trial->reason, sizeof trial->reason, "%s was not measured%s%.130s",
                 aorta_sweep_objectives[job->plan.objective].key, *reading->failure ? ": " : "", reading->failure);
        aorta_make_printable(trial->reason, strlen(trial->reason), false);
    }
    munmap(reading, sizeof *reading);
    return status;
}

/* Writes the reason of a failed trial: who ended it, the time limit, its last line of output, or else its signal or
 * exit code. */
static void say_end(const struct aorta_sweep_ended *ended, struct tail *tail, struct aorta_trial *trial) {
    const struct aorta_sweep_end *end = &ended->end;
    char *reason = trial->reason;
    const size_t size = sizeof trial->reason;
    *reason = '\0';
    if (*end->by)
        snprintf(reason, size, "%s", end->by);
    else if (end->timed_out)
        snprintf(reason, size, "ended after %.6g s (--timeout-s)", ended->job->timeout_s);
    else
        last_line(tail, reason, size);
    if (*reason) return;
    if (trial->signal)
        snprintf(reason, size, "ended by signal %d (%s) without any output", trial->signal, strsignal(trial->signal));
    else
        snprintf(reason, size, "ended with exit code %d without any output", trial->exit_code);
}

/* A trial that found no space is not failed but runs again. AORTA_IO if the disk is still full, so nothing more can be
 * recorded.
 */
static aorta_status check_disk(const struct aorta_sweep_ended *ended, const struct tail *tail,
                               struct aorta_trial *trial) {
    enum { PROBE_BYTES = 64 << 10 };
    static const int errors[] = {ENOSPC, EDQUOT};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        const char *words = strerror(errors[i]);
        if (strstr(tail->text, words) || strstr(trial->reason, words)) trial->state = AORTA_TRIAL_DISK_FULL;
    }
    const int error = aorta_directory_try(ended->directory, PROBE_BYTES);
    if (error != ENOSPC && error != EDQUOT) return NULL;
    return AORTA_ERROR(AORTA_IO, "%s: %s; trial %lld is not recorded: free some space, then --resume goes on",
                       ended->job->output, strerror(error), (long long)trial->number);
}

aorta_status aorta_sweep_conclude(const struct aorta_sweep_ended *ended, struct aorta_trial *trial, int *interrupted) {
    const struct aorta_sweep_end *end = &ended->end;
    struct tail tail;
    trial->seconds = end->seconds;
    trial->exit_code = end->exit_code;
    /* A shell or launcher reports the signal that ended its program as 128 + signal. */
    trial->signal = end->signal ? end->signal : end->exit_code > 128 ? end->exit_code - 128 : 0;
    for (int i = 0; i < AORTA_SWEEP_OBJECTIVE_COUNT; i++) trial->figures[i] = NAN;
    trial->state = end->timed_out              ? AORTA_TRIAL_HUNG
                   : trial->signal || *end->by ? AORTA_TRIAL_CRASHED
                   : end->exit_code            ? AORTA_TRIAL_FAILED
                                               : AORTA_TRIAL_DONE;
    read_tail(ended->directory, &tail);
    if (trial->state == AORTA_TRIAL_DONE) AORTA_TRY(read_trial(ended, trial, interrupted));
    if (trial->state == AORTA_TRIAL_DONE || *interrupted) return NULL;
    if (trial->state != AORTA_TRIAL_NO_FIGURE) say_end(ended, &tail, trial);
    return check_disk(ended, &tail, trial);
}
