/* aorta sweep: trials of train, hwq or any command over the values of knobs. */
#include "sweep/sweep.h"
#include "base/directories.h"
#include "base/files.h"
#include "base/signals.h"
#include "cli/cli.h"
#include "device/inventory.h"
#include "hwq/workload.h"
#include "job/launch.h"
#include "report/page.h"
#include "sparse/options.h"
#include "sweep/compare.h"

#include <math.h>

struct sweep_values {
    const char *config, *workload, *output, *suggest, *read, *by, *submit;
    struct aorta_string_list overrides, grid, environment, compare, labels, retry;
    int search, objective;
    int64_t points, repeats, steps, ranks, seed, jobs;
    double timeout_s;
    bool resume, no_baseline, no_trace, dry_run, quiet;
    struct aorta_cli_outputs to;
};

#define AT(field) offsetof(struct sweep_values, field)
static const struct aorta_range_limits points = {.min = 1, .max = 10000};
static const struct aorta_range_limits repeats = {.min = 1, .max = 1000};
static const struct aorta_choice searches[] = {{"grid", AORTA_SWEEP_GRID},
                                               {"random", AORTA_SWEEP_RANDOM},
                                               {"halving", AORTA_SWEEP_HALVING},
                                               {"tpe", AORTA_SWEEP_TPE},
                                               {NULL, 0}};
enum { OBJECTIVE_AUTO = -1 };
static const struct aorta_choice objectives[] = {{"auto", OBJECTIVE_AUTO},
                                                 {"step_ms", AORTA_SWEEP_STEP_MS},
                                                 {"overlap_ratio", AORTA_SWEEP_OVERLAP_RATIO},
                                                 {"exposed_comm_ms", AORTA_SWEEP_EXPOSED_COMM_MS},
                                                 {"throughput", AORTA_SWEEP_THROUGHPUT},
                                                 {NULL, 0}};
static const char *const files[] = {"trials.jsonl", "environment.json", "sweep.json", "best.yaml",
                                    "best.env",     "trials/*",         NULL};
static const struct aorta_option options[] = {
    {"config", AORTA_OPTION_STRING, AT(config), "null", .letter = 'c', .argument = "FILE", .path = AORTA_PATH_READ,
     .help = "configuration of aorta train that the knobs change"},
    {"override", AORTA_OPTION_STRING_LIST, AT(overrides), "null", .words = "config", .argument = "KEY=VALUE",
     .several = true, .help = "keys that are the same in all trials"},
    {"hwq", AORTA_OPTION_STRING, AT(workload), "null", .words = "hwq info", .argument = "WORKLOAD",
     .help = "run aorta hwq run WORKLOAD instead of aorta train; knobs are its options"},
    {"grid", AORTA_OPTION_STRING_LIST, AT(grid), "null", .words = "config", .argument = "KEY=A,B,C", .several = true,
     .help = "a knob and its values: a key of the configuration, an option of --hwq, or {KEY} in COMMAND; repeat it "
             "for several"},
    {"env", AORTA_OPTION_STRING_LIST, AT(environment), "null", .argument = "VAR=A,B", .several = true,
     .help = "an environment variable and its values; unset removes it"},
    {"suggest", AORTA_OPTION_STRING, AT(suggest), "null", .argument = "RUN", .path = AORTA_PATH_READ,
     .help = "add up to three knobs for the causes that the verdict of a run names (directory of aorta "
             "train, report or trace run)"},
    {"search", AORTA_OPTION_CHOICE, AT(search), "grid", .choices = searches, .argument = "grid|random|halving|tpe",
     .help = "grid: all combinations; random: some of them; halving: many with few steps, the best "
             "third again with three times as many; tpe: combinations that resemble good ones"},
    {"trials", AORTA_OPTION_INT, AT(points), "null", .limits = &points, .argument = "N",
     .help = "number of different combinations; default: grid: all, else 20"},
    {"repeats", AORTA_OPTION_INT, AT(repeats), "2", .limits = &repeats, .argument = "N",
     .help = "runs of each combination (halving, tpe: of the best ones), to measure the noise"},
    {"objective", AORTA_OPTION_CHOICE, AT(objective), "auto", .choices = objectives,
     .argument = "auto|step_ms|overlap_ratio|exposed_comm_ms|throughput",
     .help = "the figure to minimize (ms) or maximize (overlap_ratio, throughput); auto: throughput if "
             "a knob changes the work of a step, as a batch size does, else step_ms"},
    {"steps", AORTA_OPTION_INT, AT(steps), "null", .limits = AORTA_LIMITS(1, 1e6), .argument = "N",
     .help = "steps of a trial: training.max_steps, --iterations of --hwq, {steps} in COMMAND; default: as configured"},
    {"ranks", AORTA_OPTION_INT, AT(ranks), "1", .letter = 'n', .limits = AORTA_LIMITS(1, 1e6),
     .help = "ranks of each trial on this host, started as by aorta launch"},
    {"output", AORTA_OPTION_STRING, AT(output), "sweep", .letter = 'o', .argument = "DIR", .path = AORTA_PATH_FOLDER,
     .files = files, .help = "directory of the results and of the trials, created if needed"},
    {"resume", AORTA_OPTION_BOOL, AT(resume), "false", .help = "continue the sweep in --output"},
    {"retry", AORTA_OPTION_STRING_LIST, AT(retry), "null", .argument = "STATE", .several = true,
     .help = "as --resume, and repeat trials of these states: failed, crashed, hung, no_figure, or all; "
             "trials that found the disk full are always repeated"},
    {"timeout-s", AORTA_OPTION_DOUBLE, AT(timeout_s), "1800", .limits = AORTA_LIMITS(0, INFINITY),
     .argument = "SECONDS", .help = "a trial that takes longer is ended and counts as hung; 0: never"},
    {"submit", AORTA_OPTION_STRING, AT(submit), "null", .argument = "TEMPLATE", .path = AORTA_PATH_READ,
     .help = "run each trial as a Slurm job, from an sbatch script with {command} in it "
             "(scripts/slurm/sweep.sbatch); all nodes must share the folder of --output"},
    {"jobs", AORTA_OPTION_INT, AT(jobs), "1", .limits = AORTA_LIMITS(1, 1e6), .argument = "N",
     .help = "jobs of --submit that are queued or running at a time"},
    {"seed", AORTA_OPTION_INT, AT(seed), "0", .limits = AORTA_LIMITS(0, 1e15), .argument = "N",
     .help = "random seed of the order of trials and of random combinations"},
    {"no-baseline", AORTA_OPTION_BOOL, AT(no_baseline), "false", .help = "do not run the baseline (no knob set)"},
    {"no-trace", AORTA_OPTION_BOOL, AT(no_trace), "false",
     .help = "run COMMAND without aorta trace run; it writes its own figures (docs/sweep.md)"},
    {"compare", AORTA_OPTION_STRING_LIST, AT(compare), "null", .argument = "DIR", .several = true,
     .path = AORTA_PATH_READ,
     .help = "compare the sweeps (or folders of runs) in two or more directories with the first, or two values of one "
             "directory with --by; run nothing"},
    {"label", AORTA_OPTION_STRING_LIST, AT(labels), "null", .argument = "NAME", .several = true,
     .help = "with --compare: names of its directories; default: as typed"},
    {"by", AORTA_OPTION_STRING, AT(by), "null", .argument = "KNOB[=A,B]",
     .help = "with --compare and one directory: compare its trials with two values of a knob, point by point"},
    {"read", AORTA_OPTION_STRING, AT(read), "null", .argument = "DIR", .path = AORTA_PATH_READ,
     .help = "print the summary of the sweep in a directory; run nothing"},
    AORTA_CLI_QUIET_OPTION(AT(quiet)),
    AORTA_CLI_CSV_OPTION(AT(to.csv)),
    {"html", AORTA_OPTION_STRING, AT(to.html), "null", .argument = "OUT", .path = AORTA_PATH_FILE,
     .help = "the page's file; default: index.html in --output, none with --compare and --read"},
    {"dry-run", AORTA_OPTION_BOOL, AT(dry_run), "false", .help = "print the number of trials and the first command"},
    {"json", AORTA_OPTION_BOOL, AT(to.json), "false", .help = "print sweep.json instead of the summary"},
};

static const struct aorta_cli_syntax syntax = {
    .usage =
        "aorta sweep [--config FILE] --grid KEY=A,B --env VAR=A,B [--search METHOD --trials N] [-n RANKS] [-o DIR] "
        "[--resume] [-- COMMAND [ARGUMENT …]]\naorta sweep --compare DIR DIR … [--label NAME …] [--html OUT] "
        "[--csv DIR] [--json]\naorta sweep --compare DIR --by "
        "KNOB[=A,B] [--html OUT] [--csv DIR] [--json]\naorta sweep --read DIR [--html OUT] [--csv DIR] [--json]",
    .about = "Runs aorta train, aorta hwq or a command with different settings (knobs), one trial after "
             "another, and says which knobs change the objective by more than the noise, and which "
             "values are best. A trial that fails or hangs is recorded, and the next one runs.",
    AORTA_CLI_OPTIONS(options),
    .operands = true,
    .command = true,
    .footer = "DIR receives trials.jsonl, sweep.json, index.html, best.yaml (for aorta train --config), "
              "best.env (for a shell) and trials/NNNN with the log of each. A sweep can be stopped at "
              "any time; --resume continues it.",
};

/* Adds suggested knobs and prints them to the standard error. */
static aorta_status add_suggested(const struct sweep_values *values, struct aorta_sweep_job *job,
                                  struct aorta_arena *arena) {
    enum { MOST = 3 };
    struct aorta_text text = {0};
    const char *program = "any";
    if (job->target == AORTA_SWEEP_TRAIN)
        program = aorta_sparse_is_asked_for(job->config, job->overrides, job->override_count) ? "sparse" : "ours";
    aorta_status status = aorta_sweep_suggest(values->suggest, program, MOST, arena, &job->plan.space, &text);
    if (!status) status = aorta_text_check(&text);
    if (!status && text.length) fputs(text.data, stderr);
    aorta_text_free(&text);
    return status;
}

/* Step times are comparable only if each step has the same work; else the objective is throughput. */
static aorta_status choose_objective(const struct sweep_values *values, bool chosen, struct aorta_sweep_plan *plan) {
    const char *knob = aorta_sweep_changes_work(&plan->space);
    if (chosen && knob) plan->objective = AORTA_SWEEP_THROUGHPUT;
    if (!knob || values->objective != AORTA_SWEEP_STEP_MS) return NULL;
    return AORTA_ERROR(AORTA_USAGE,
                       "--objective step_ms: %s changes the work of a step, so that times of steps do not compare; use "
                       "throughput",
                       knob);
}

static aorta_status read_template(const char *path, struct aorta_arena *arena, struct aorta_sweep_job *job) {
    static const char *const programs[] = {"sbatch", "squeue", "scancel", "scontrol"};
    char found[PATH_MAX];
    AORTA_TRY(aorta_sweep_template_read(path, arena, &job->submit));
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        if (!aorta_program_find(programs[i], found))
            return AORTA_ERROR(AORTA_USAGE, "--submit: no %s in PATH: the sweep runs where Slurm's commands are",
                               programs[i]);
    return NULL;
}

static aorta_status make_job(const struct sweep_values *values, char **command, struct aorta_arena *arena,
                             struct aorta_sweep_job *job) {
    const bool auto_objective = values->objective == OBJECTIVE_AUTO;
    if ((values->workload != NULL) + (values->config || values->overrides.count) + (*command != NULL) > 1)
        return AORTA_ERROR(AORTA_USAGE, "--config and --override, --hwq, and a command exclude each other");
    const struct aorta_hwq_workload *workload;
    if (values->workload) AORTA_TRY(aorta_annotate(aorta_hwq_find(values->workload, &workload), "--hwq"));
    *job = (struct aorta_sweep_job){
        .plan = {.method = (enum aorta_sweep_method)values->search,
                 .objective = (enum aorta_sweep_objective)(auto_objective ? AORTA_SWEEP_STEP_MS : values->objective),
                 .points = values->points,
                 .repeats = (int)values->repeats,
                 .steps = values->steps,
                 .seed = (uint64_t)values->seed},
        .target = values->workload ? AORTA_SWEEP_HWQ
                  : *command       ? AORTA_SWEEP_COMMAND
                                   : AORTA_SWEEP_TRAIN,
        .config = values->config,
        .overrides = values->overrides.items,
        .override_count = values->overrides.count,
        .workload = values->workload,
        .command = command,
        .trace = !values->no_trace,
        .ranks = (int)values->ranks,
        .timeout_s = values->timeout_s,
        .jobs = values->jobs,
        .output = values->output,
        .resume = values->resume || values->retry.count,
        .progress = values->quiet ? NULL : stderr,
    };
    for (size_t i = 0; i < values->retry.count; i++)
        AORTA_TRY(aorta_sweep_states_read(values->retry.items[i], &job->retry));
    struct aorta_sweep_space *space = &job->plan.space;
    for (size_t i = 0; i < values->grid.count; i++)
        AORTA_TRY(aorta_sweep_space_add(space, values->grid.items[i], false, arena));
    for (size_t i = 0; i < values->environment.count; i++)
        AORTA_TRY(aorta_sweep_space_add(space, values->environment.items[i], true, arena));
    if (values->suggest) AORTA_TRY(add_suggested(values, job, arena));
    AORTA_TRY(choose_objective(values, auto_objective, &job->plan));
    if (!values->submit && values->jobs > 1)
        return AORTA_ERROR(AORTA_USAGE, "--jobs goes with --submit: trials of one machine disturb each other");
    if (values->submit) AORTA_TRY(read_template(values->submit, arena, job));
    job->plan.baseline = !values->no_baseline && aorta_sweep_has_baseline(job);
    AORTA_TRY(aorta_sweep_name(job, arena));
    AORTA_TRY(aorta_sweep_check(job));
    return aorta_sweep_find_equal(job, &job->plan.equal);
}

static aorta_status print_plan(const struct aorta_sweep_job *job, struct aorta_arena *arena) {
    const struct aorta_trials none = {0};
    struct aorta_sweep_next next;
    struct aorta_text text = {0};
    bool more;
    char **words;
    AORTA_TRY(aorta_sweep_choose(&job->plan, &none, &next, &more));
    AORTA_TRY(aorta_sweep_command(job, &next, "DIR/trials/0000", arena, &words));
    aorta_text_printf(&text, "%s of %s%s; the first is ", aorta_counted(aorta_sweep_planned(&job->plan), "trial").text,
                      aorta_counted(aorta_sweep_cells(&job->plan.space), "combination").text,
                      job->plan.baseline ? " and the baseline" : "");
    aorta_sweep_point_text(&job->plan.space, next.cell, &text);
    aorta_text_puts(&text, "\n ");
    for (; *words; words++) aorta_text_printf(&text, " %s", *words);
    aorta_text_puts(&text, "\n");
    return aorta_cli_print(&text, NULL, false);
}

/* Writes and prints the result, unless `status` is already a failure. */
static aorta_status show(const struct aorta_sweep_result *result, const struct sweep_values *values,
                         const struct aorta_cli_outputs *to, const char *folder, aorta_status status) {
    const struct aorta_page_results page = {.kind = "sweep", .title = "AORTA: sweep"};
    struct aorta_text text = {0}, json = {0};
    aorta_sweep_result_json(result, &json);
    aorta_sweep_result_text(result, values->quiet, &text);
    if (folder && !values->quiet) aorta_text_printf(&text, "  %-11s %s\n", "files", folder);
    if (!status && to->csv) status = aorta_sweep_result_csv(result, to->csv);
    return aorta_cli_show(to, NULL, page, &text, &json, status);
}

/* index.html is written where this build has pages. */
static aorta_status conclude(const struct aorta_sweep_job *job, const struct aorta_trials *trials,
                             const struct sweep_values *values) {
    struct aorta_sweep_result result;
    struct aorta_cli_outputs to = values->to;
    const struct aorta_file_path own = aorta_path_in(job->output, "index.html");
    if (!to.html && aorta_page_available()) to.html = own.text;
    AORTA_TRY(aorta_sweep_result_make(&job->plan, trials, &result));
    aorta_status status = show(&result, values, &to, job->output, aorta_sweep_result_write(job, &result));
    if (!status && !result.best && trials->count)
        status = AORTA_ERROR(AORTA_DEVICE, "no trial measured %s; %s/trials has their logs",
                             aorta_sweep_objectives[job->plan.objective].key, job->output);
    aorta_sweep_result_free(&result);
    return status;
}

static aorta_status run_job(const struct aorta_sweep_job *job, const struct sweep_values *values) {
    struct aorta_directory_lock *lock;
    struct aorta_trials trials = {0};
    int interrupted = 0;
    AORTA_TRY(aorta_directory_check_writable(job->output, "--output"));
    AORTA_TRY(aorta_directory_lock(job->output, "--output", &lock));
    aorta_status status = aorta_environment_of_host_save(job->output);
    if (!status) status = aorta_sweep_run(job, &trials, &interrupted);
    if (!status && trials.count) status = conclude(job, &trials, values);
    if (!status && interrupted)
        status = AORTA_ERROR(AORTA_INTERRUPTED, "interrupted by %s after %s; --resume goes on",
                             aorta_signal_name(interrupted), aorta_counted((long long)trials.count, "trial").text);
    aorta_trials_free(&trials);
    aorta_directory_unlock(lock);
    return status;
}

/* Shows the result of a finished sweep. */
static aorta_status read_sweep(const struct sweep_values *values) {
    struct aorta_sweep_side side = {0};
    AORTA_TRY(aorta_cli_outputs_prepare(&values->to));
    aorta_status status = aorta_sweep_side_open(values->read, values->read, &side);
    if (!status) status = show(&side.result, values, &values->to, NULL, NULL);
    aorta_sweep_side_close(&side);
    return status;
}

static aorta_status write_comparison(const struct sweep_values *values,
                                     const struct aorta_sweep_comparison *comparison) {
    struct aorta_text json = {0}, text = {0}, parts[AORTA_SWEEP_MOST_SIDES] = {0};
    const struct aorta_page_results page = {
        .kind = "sweep_comparison", .title = "AORTA: sweeps", .parts = parts, .part_count = comparison->side_count};
    aorta_sweep_compare_json(comparison, &json);
    aorta_sweep_compare_text(comparison, values->quiet, &text);
    for (size_t s = 0; values->to.html && s < comparison->side_count; s++)
        aorta_sweep_compare_part(comparison, s, values->to.html, &parts[s]);
    aorta_status status = values->to.csv ? aorta_sweep_compare_csv(comparison, values->to.csv) : NULL;
    status = aorta_cli_show(&values->to, NULL, page, &text, &json, status);
    for (size_t s = 0; s < comparison->side_count; s++) aorta_text_free(&parts[s]);
    return status;
}

static aorta_status check_compared(const struct sweep_values *values) {
    const size_t count = values->compare.count;
    if (values->by && count != 1)
        return AORTA_ERROR(AORTA_USAGE, "--by goes with one directory, as --compare DIR --by %s", values->by);
    if (values->by && values->labels.count)
        return AORTA_ERROR(AORTA_USAGE, "--label: the halves of --by are called by their values");
    if (!values->by && count < 2)
        return AORTA_ERROR(AORTA_USAGE, "--compare takes two directories of sweeps or more, or one and --by");
    if (count > AORTA_SWEEP_MOST_SIDES)
        return AORTA_ERROR(AORTA_USAGE, "--compare takes %d directories at most", AORTA_SWEEP_MOST_SIDES);
    if (values->labels.count && values->labels.count != count)
        return AORTA_ERROR(AORTA_USAGE, "--label: %zu names for %zu directories; give one for each",
                           values->labels.count, count);
    return aorta_cli_outputs_prepare(&values->to);
}

/* Compares several directories, or two halves of one sweep by a knob. */
static aorta_status compare(const struct sweep_values *values) {
    struct aorta_sweep_side whole = {0}, sides[AORTA_SWEEP_MOST_SIDES] = {0};
    struct aorta_sweep_comparison comparison = {0};
    const char *const *paths = values->compare.items;
    const size_t count = values->by ? 2 : values->compare.count;
    AORTA_TRY(check_compared(values));
    aorta_status status = NULL;
    for (size_t i = 0; i < count && !status && !values->by; i++) {
        status = aorta_sweep_side_open(paths[i], values->labels.count ? values->labels.items[i] : paths[i], &sides[i]);
        if (!status) status = aorta_sweep_side_read(&sides[i]);
    }
    if (values->by) status = aorta_sweep_side_open(paths[0], paths[0], &whole);
    if (!status && values->by) status = aorta_sweep_side_read(&whole);
    if (!status && values->by) status = aorta_sweep_side_halves(&whole, values->by, sides);
    if (!status) status = aorta_sweep_compare(sides, count, &comparison);
    if (!status) status = write_comparison(values, &comparison);
    aorta_sweep_comparison_free(&comparison);
    for (size_t i = 0; i < count; i++) aorta_sweep_side_close(&sides[i]);
    aorta_sweep_side_close(&whole);
    return status;
}

static aorta_status run(struct aorta_cli_line *line, const struct sweep_values *values) {
    char self[PATH_MAX];
    struct aorta_sweep_job job;
    AORTA_TRY(aorta_cli_self(self));
    AORTA_TRY(aorta_cli_outputs_prepare(&values->to));
    AORTA_TRY(aorta_folder_check_free(values->output, "--output", AORTA_FOLDER_RUN | AORTA_FOLDER_REPORT));
    AORTA_TRY(make_job(values, line->operands, &line->arena, &job));
    job.self = self;
    return values->dry_run ? print_plan(&job, &line->arena) : run_job(&job, values);
}

/* --compare and --read run nothing. */
static aorta_status sweep(struct aorta_cli_line *line, void *of) {
    static const char *const allowed[] = {"compare", "label", "by", "read", "csv", "html", "json", "quiet", NULL};
    const struct sweep_values *values = of;
    if (!values->compare.count && !values->read) return run(line, values);
    AORTA_TRY(aorta_cli_only(&syntax, line, values->read ? "--read" : "--compare", allowed));
    return values->compare.count ? compare(values) : read_sweep(values);
}

const struct aorta_cli_entry aorta_cli_sweep = {&syntax, sweep, .size = sizeof(struct sweep_values)};
