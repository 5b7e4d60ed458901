#include "base/files.h"
#include "report/page.h"
#include "report/report.h"
#include "report/summary.h"
#include "said.h"
#include "workspace.h"

#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static struct aorta_log silent(void) {
    return (struct aorta_log){.level = AORTA_LOG_ERROR, .rank = -1};
}

static bool have_gnuplot(void) {
    return system("command -v gnuplot > /dev/null 2>&1") == 0;
}

static bool is_png(const struct workspace *workspace, const char *name) {
    char path[512], bytes[8] = {0};
    snprintf(path, sizeof path, "%s/%s", workspace->path, name);
    FILE *file = fopen(path, "r");
    bool read = file && fread(bytes, 1, sizeof bytes, file) == sizeof bytes;
    if (file) fclose(file);
    return read && memcmp(bytes, "\x89PNG\r\n\x1a\n", 8) == 0;
}

static double number_at(const json_t *root, const char *const *path) {
    for (; *path; path++) root = json_object_get(root, *path);
    assert_true(json_is_number(root));
    return json_number_value(root);
}
#define NUMBER(root, ...) number_at((root), (const char *const[]){__VA_ARGS__, NULL})

static json_t *load_summary(const struct workspace *workspace) {
    char *text = workspace_read(workspace, "summary.json");
    json_error_t error;
    json_t *root = json_loads(text, 0, &error);
    free(text);
    assert_non_null(root);
    return root;
}

#define GEMM(start, end)                                                                                               \
    "{\"stream\": \"compute\", \"tag\": \"x\", \"start_ms\": " start ", \"end_ms\": " end                              \
    ", \"metadata\": {\"function\": \"linear_forward\", \"kind\": \"compute\", \"flops\": 5e8}}"

#define GATHER(start, end)                                                                                             \
    "{\"stream\": \"aux\", \"tag\": \"x\", \"start_ms\": " start ", \"end_ms\": " end                                  \
    ", \"metadata\": {\"function\": \"all_gather\", \"kind\": \"collective\", \"collective\": \"all_gather\", "        \
    "\"bytes\": 4096}}"

/* Each iteration has a GEMM alone and, longer, one beside a gather; a reading of the clock says what limits it. */
static void write_contention(const struct workspace *workspace, const char *limit, int capped_ms) {
    struct aorta_text lines = {0};
    for (int i = 0; i < 14; i++)
        aorta_text_printf(
            &lines,
            "{\"rank\": 0, \"world_size\": 1, \"epoch\": 0, \"step\": %d, \"global_step\": %d, \"device\": "
            "\"cuda\", \"profile\": {\"ranges\": [" GEMM("0", "1") ", " GEMM(
                "1",
                "2.5") ", "
                       "{\"stream\": \"aux\", \"tag\": \"x\", \"start_ms\": 1, \"end_ms\": 2.5, \"metadata\": "
                       "{\"function\": \"all_gather\", \"kind\": \"collective\", \"collective\": \"all_gather\"}}]}, "
                       "\"clocks\": {\"sm_clock_mhz\": 1500, \"sm_clock_max_mhz\": 1980, \"power_w\": 695, "
                       "\"power_limit_w\": 700, \"power_capped_ms\": %d, \"thermal_capped_ms\": 0, \"limited_by\": "
                       "[\"%s\"], \"at_ns\": %d000000000}}\n",
            i, i, capped_ms * i, limit, i + 1);
    workspace_write(workspace, "rank_00_metrics.jsonl", lines.data);
    aorta_text_free(&lines);
}

/* More resources for collectives are no advice where the clock is at the power limit. */
static void contention_at_the_power_limit(void **state) {
    (void)state;
    static const struct {
        const char *limit;
        int capped_ms;
        const char *advice;
    } rows[] = {{"power_cap", 950, "save energy first"},
                {"applications_clocks", 0, "fewer channels (NCCL_MAX_CTAS) on a GPU"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct workspace run = workspace_make();
        write_contention(&run, rows[i].limit, rows[i].capped_ms);
        struct aorta_report_input input = {run.path, "run"};
        struct aorta_report_options options = {.inputs = &input, .input_count = 1, .output = run.path, .warmup = -1};
        struct aorta_log log = silent();
        struct aorta_text text = {0};
        check_ok(aorta_report_make(&options, &log, &text, NULL));
        aorta_text_free(&text);
        char *summary = workspace_read(&run, "summary.json");
        assert_non_null(strstr(summary, "\"contention\""));
        if (!strstr(summary, rows[i].advice)) fail_msg("no \"%s\" in %s", rows[i].advice, summary);
        free(summary);
        workspace_remove(&run);
    }
}

/* Sections may be in sections; values are texts. */
static void settings_of_all_sections(void **state) {
    (void)state;
    static const struct aorta_setting expected[] = {{"streams.count", "4"},
                                                    {"streams.assignment.all_gather", "compute"},
                                                    {"compile.dynamic", "null"},
                                                    {"device.kind", "cuda"}};
    struct workspace run = workspace_make();
    struct aorta_arena arena = {0};
    struct aorta_settings settings;
    workspace_write(&run, "config.json",
                    "{\"streams\": {\"count\": 4, \"assignment\": {\"all_gather\": \"compute\"}}, "
                    "\"compile\": {\"dynamic\": null, \"options\": {}}, \"device\": {\"kind\": \"auto\"}}");
    check_ok(aorta_settings_read(run.path, "cuda", &arena, &settings));
    assert_int_equal(settings.count, 4);
    for (size_t i = 0; i < settings.count; i++) {
        assert_string_equal(settings.items[i].key, expected[i].key);
        assert_string_equal(settings.items[i].value, expected[i].value);
    }
    aorta_arena_free(&arena);
    workspace_remove(&run);
}

/* Two runs, the second 2 ms slower in compute: figures, verdict, comparison, files. */
static void compares_two_runs(void **state) {
    (void)state;
    struct workspace a = workspace_make(), b = workspace_make(), out = workspace_make();
    for (int rank = 0; rank < 2; rank++) {
        workspace_run(&a, rank, 2, 13, 10000000);
        workspace_run(&b, rank, 2, 13, 12000000);
    }
    const struct aorta_report_input inputs[] = {{a.path, "base \"one\""}, {b.path, "it's new"}};
    struct aorta_report_options options = {
        .inputs = inputs, .input_count = 2, .output = out.path, .pictures = true, .warmup = -1};
    struct aorta_log log = silent();
    struct aorta_text text = {0};
    check_ok(aorta_report_make(&options, &log, &text, NULL));
    assert_non_null(strstr(text.data, "it's new is "));
    assert_non_null(strstr(text.data, "summary.json"));
    aorta_text_free(&text);

    json_t *root = load_summary(&out);
    assert_true(NUMBER(root, "schema_version") == 1);
    assert_true(NUMBER(root, "labels", "base \"one\"", "exposed_comm_ms", "mean") == 1);
    assert_true(NUMBER(root, "labels", "base \"one\"", "comm_ms", "p99") == 1.5);
    assert_true(NUMBER(root, "labels", "base \"one\"", "overlap_ms", "count") == 20);
    assert_true(fabs(NUMBER(root, "labels", "base \"one\"", "overlap_ratio_total") - 1.0 / 3) < 1e-12);
    assert_true(NUMBER(root, "labels", "it's new", "warmup_per_rank") == 3);
    assert_true(NUMBER(root, "labels", "it's new", "collectives", "all_gather", "count") == 1);
    assert_true(NUMBER(root, "labels", "it's new", "collectives", "all_gather", "bytes") == 4096);
    double bandwidth = 4096.0 / 1500000;
    assert_true(fabs(NUMBER(root, "labels", "it's new", "collectives", "all_gather", "busbw_gbps") - bandwidth / 2) <
                1e-12);
    assert_true(NUMBER(root, "comparison", "metrics", "compute_ms", "delta") > 1.99);
    /* As the original Python toolkit writes it, over all iterations: its ratio is a share of compute. */
    assert_true(NUMBER(root, "datasets", "base \"one\"", "count") ==
                NUMBER(root, "labels", "base \"one\"", "iterations"));
    assert_true(NUMBER(root, "datasets", "base \"one\"", "mean_overlap_ms") > 0);
    const double before = NUMBER(root, "datasets", "base \"one\"", "overlap_ratio");
    const double after = NUMBER(root, "datasets", "it's new", "overlap_ratio");
    assert_true(fabs(before - NUMBER(root, "datasets", "base \"one\"", "mean_overlap_ms") /
                                  NUMBER(root, "datasets", "base \"one\"", "mean_compute_ms")) < 1e-12);
    assert_true(fabs(NUMBER(root, "comparison", "ratio_delta") - (after - before)) < 1e-12);
    assert_true(NUMBER(root, "comparison", "metrics", "compute_ms", "p_value") < 0.05);
    const json_t *interval = json_object_get(
        json_object_get(json_object_get(json_object_get(root, "comparison"), "metrics"), "compute_ms"), "ci");
    assert_true(json_number_value(json_array_get(interval, 0)) > 0 &&
                json_number_value(json_array_get(interval, 1)) < 4);
    const json_t *verdict = json_object_get(json_object_get(json_object_get(root, "labels"), "it's new"), "verdict");
    double sum = 0;
    for (size_t i = 0; i < json_array_size(verdict); i++) sum += NUMBER(json_array_get(verdict, i), "cost_ms");
    assert_true(fabs(sum - NUMBER(root, "labels", "it's new", "step_ms", "mean")) < 1e-9);
    json_decref(root);

    if (have_gnuplot()) {
        assert_true(is_png(&out, "overlap_breakdown.png"));
        assert_true(is_png(&out, "overlap_ratio.png"));
        assert_true(is_png(&out, "base__one__timeline.png"));
        assert_true(is_png(&out, "it_s_new_timeline.png"));
    }
    workspace_remove(&a);
    workspace_remove(&b);
    workspace_remove(&out);
}

/* The trainer's way: one directory, the report written into it. */
static void after_a_run(void **state) {
    (void)state;
    struct workspace workspace = workspace_make();
    for (int rank = 0; rank < 2; rank++) workspace_run(&workspace, rank, 2, 6, 10000000);
    struct aorta_log log = silent();
    struct aorta_text text = {0};
    check_ok(aorta_report_after_run(workspace.path, NULL, 0, &log, &text));
    assert_non_null(strstr(text.data, "Verdict: "));
    assert_non_null(strstr(text.data, "5 steps of 2 ranks after 1 of warm-up"));
    assert_true(workspace_has(&workspace, "summary.json"));
    aorta_text_free(&text);
    workspace_remove(&workspace);
}

enum { WIDTH = 400 };

static aorta_status draw(const struct workspace *workspace, const char *plot, double limit_s, char path[256]) {
    struct aorta_text script = {0};
    snprintf(path, 256, "%s/picture.png", workspace->path);
    aorta_text_printf(&script, "set terminal pngcairo size %d,300\n%s\n", WIDTH, plot);
    aorta_status status = aorta_plot_draw(&script, path, limit_s);
    aorta_text_free(&script);
    return status;
}

/* The picture's width, by its header; 0: there is no picture. */
static int width_of(const char *path) {
    unsigned char head[24] = {0};
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    assert_int_equal(fread(head, 1, sizeof head, file), sizeof head);
    fclose(file);
    return head[18] << 8 | head[19];
}

static void a_broken_script_leaves_no_picture(void **state) {
    (void)state;
    if (!have_gnuplot()) skip();
    struct workspace workspace = workspace_make();
    char path[256];
    check_fails(draw(&workspace, "plot no(x", AORTA_PLOT_LIMIT_S, path), AORTA_IO,
                "picture.png: gnuplot failed with exit status 1: ");
    assert_int_equal(width_of(path), 0);
    check_ok(draw(&workspace, "plot sin(x)", AORTA_PLOT_LIMIT_S, path));
    assert_int_equal(width_of(path), WIDTH);
    workspace_remove(&workspace);
}

/* gnuplot ends well when the disk is full; the picture is missing then, not empty. */
static void pictures_are_whole_or_absent(void **state) {
    (void)state;
    if (!have_gnuplot()) skip();
    struct workspace workspace = workspace_make();
    char path[256];
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 2000; /* the script fits, a picture does not */
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    aorta_status status = draw(&workspace, "plot sin(x)", AORTA_PLOT_LIMIT_S, path);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    check_fails(status, AORTA_IO, path);
    assert_int_equal(width_of(path), 0);
    workspace_remove(&workspace);
}

/* A gnuplot that hangs is ended, and the message says so. */
static void pictures_have_a_limit(void **state) {
    (void)state;
    struct workspace workspace = workspace_make();
    const char *before = getenv("PATH");
    char program[128], paths[256], picture[256], *former = strdup(before ? before : "");
    snprintf(program, sizeof program, "%s/gnuplot", workspace.path);
    snprintf(paths, sizeof paths, "%s:/usr/bin:/bin", workspace.path);
    check_ok(aorta_file_replace(program, "#!/bin/sh\nexec sleep 20\n", 24));
    assert_int_equal(chmod(program, 0700) | setenv("PATH", paths, 1), 0);
    aorta_status status = draw(&workspace, "plot sin(x)", 0.1, picture);
    assert_int_equal(setenv("PATH", former, 1), 0);
    check_fails(status, AORTA_IO, "picture.png: gnuplot did not end within 0.1 s");
    free(former);
    workspace_remove(&workspace);
}

/* Without gnuplot the figures are still written, and a warning names the package. */
static void without_gnuplot(void **state) {
    (void)state;
    struct workspace workspace = workspace_make();
    workspace_run(&workspace, 0, 1, 6, 10000000);
    const char *former = getenv("PATH");
    char *words = NULL, *path = strdup(former ? former : "");
    size_t length = 0;
    FILE *stream = open_memstream(&words, &length);
    assert_non_null(stream);
    struct aorta_log log = {.level = AORTA_LOG_INFO, .rank = -1, .stream = stream};
    assert_int_equal(setenv("PATH", workspace.path, 1), 0);
    aorta_status status = aorta_report_after_run(workspace.path, "run", 0, &log, NULL);
    assert_int_equal(setenv("PATH", path, 1), 0);
    fclose(stream);
    check_ok(status);
    assert_non_null(strstr(words, "apt install gnuplot-nox"));
    assert_true(workspace_has(&workspace, "summary.json"));
    assert_false(workspace_has(&workspace, "run_timeline.png"));
    free(words);
    free(path);
    workspace_remove(&workspace);
}

static void wrong_arguments(void **state) {
    (void)state;
    struct aorta_log log = silent();
    struct workspace workspace = workspace_make();
    workspace_run(&workspace, 0, 1, 2, 10000000);
    const struct aorta_report_input inputs[] = {{workspace.path, "a"}, {workspace.path, "b"}};
    const struct aorta_report_input same[] = {{workspace.path, "a"}, {workspace.path, "a"}};
    struct aorta_report_options options = {.inputs = same, .input_count = 2, .output = workspace.path, .warmup = -1};
    check_fails(aorta_report_make(&options, &log, NULL, NULL), AORTA_USAGE, "two run directories have the label \"a\"");
    options.inputs = inputs;
    options.reference = "a";
    check_fails(aorta_report_make(&options, &log, NULL, NULL), AORTA_USAGE, "--candidate is missing");
    options.candidate = "c";
    check_fails(aorta_report_make(&options, &log, NULL, NULL), AORTA_USAGE, "there are: a, b");
    options.candidate = "a";
    check_fails(aorta_report_make(&options, &log, NULL, NULL), AORTA_USAGE, "both name \"a\"");
    options.reference = options.candidate = NULL;
    options.warmup = 2;
    check_fails(aorta_report_make(&options, &log, NULL, NULL), AORTA_USAGE, "2 of each rank are warm-up");
    options.input_count = 0;
    check_fails(aorta_report_make(&options, &log, NULL, NULL), AORTA_USAGE, "no run directory");
    assert_false(workspace_has(&workspace, "summary.json"));
    workspace_remove(&workspace);
}

/* The original sample: upper bounds are called so. */
static void original_is_not_trusted(void **state) {
    (void)state;
    struct workspace out = workspace_make();
    const struct aorta_report_input input = {TEST_DATA "/original", "original"};
    struct aorta_report_options options = {.inputs = &input, .input_count = 1, .output = out.path, .warmup = -1};
    struct aorta_log log = silent();
    struct aorta_text text = {0};
    check_ok(aorta_report_make(&options, &log, &text, NULL));
    assert_non_null(strstr(text.data, "Verdict: unknown: these ranges of compute may contain gaps of the host"));
    assert_non_null(strstr(text.data, "at most "));
    aorta_text_free(&text);
    workspace_remove(&out);
}

/* Every `every`th iteration has ranges and takes 10.5 ms, 5% longer than an iteration without ranges. Both times vary
 * with the step's number. */
static void write_recorded_every(const struct workspace *workspace, int every) {
    struct aorta_text lines = {0};
    for (int i = 0; i < 24; i++) {
        const bool recorded = i % every == 0;
        aorta_text_printf(&lines,
                          "{\"rank\": 0, \"world_size\": 1, \"epoch\": 0, \"step\": %d, \"global_step\": %d, "
                          "\"step_ms\": %g, \"profile\": ",
                          i, i, (recorded ? 10.5 : 10.0) + 0.01 * (i % 4));
        if (recorded)
            aorta_text_puts(&lines, "{\"ranges\": [" GEMM("0", "9") ", " GATHER("1", "3") "]}}\n");
        else
            aorta_text_puts(&lines, "null, \"null_reasons\": {\"profile\": \"left out\"}}\n");
    }
    workspace_write(workspace, "rank_00_metrics.jsonl", lines.data);
    aorta_text_free(&lines);
}

/* The cost of recording is known only if some steps were not recorded. Otherwise the report does not mention it. */
static void cost_of_recording(void **state) {
    (void)state;
    for (int every = 1; every <= 3; every++) {
        struct workspace run = workspace_make();
        write_recorded_every(&run, every);
        struct aorta_report_input input = {run.path, "run"};
        struct aorta_report_options options = {.inputs = &input, .input_count = 1, .output = run.path, .warmup = 2};
        struct aorta_log log = silent();
        struct aorta_text text = {0};
        check_ok(aorta_report_make(&options, &log, &text, NULL));
        json_t *root = load_summary(&run);
        const json_t *label = json_object_get(json_object_get(root, "labels"), "run");
        if (every == 1) {
            assert_null(json_object_get(label, "recording_cost"));
            assert_null(strstr(text.data, "recording:"));
        } else {
            const int recorded = every == 2 ? 10 : 6; /* behind the second recorded one */
            assert_true(NUMBER(label, "recording_cost", "recorded_steps") == recorded);
            assert_true(NUMBER(label, "recording_cost", "unrecorded_steps") == (every == 2 ? 11 : 14));
            assert_true(fabs(NUMBER(label, "recording_cost", "percent") - 5) < 0.3);
            assert_true(fabs(NUMBER(label, "recording_cost", "recorded_step_ms_p50") - 10.5) < 0.04);
            assert_true(fabs(NUMBER(label, "recording_cost", "unrecorded_step_ms_p50") - 10) < 0.04);
            assert_true(NUMBER(label, "recording_cost", "p_value") < 1e-6);
            char sentence[64];
            snprintf(sentence, sizeof sentence, "ms with ranges (p50 of %d), ", recorded);
            said_expect(said_unwrapped(text.data), sentence);
            said_expect(said_unwrapped(text.data), ", significant (p = ");
        }
        json_decref(root);
        aorta_text_free(&text);
        workspace_remove(&run);
    }
}

/* Steps without ranges thin out no mean of collectives, and the warm-up is that of the verdict: of recorded steps. */
static void means_are_of_recorded_steps(void **state) {
    (void)state;
    for (int every = 1; every <= 5; every++) {
        struct workspace run = workspace_make();
        write_recorded_every(&run, every);
        struct aorta_report_input input = {run.path, "run"};
        struct aorta_report_options options = {.inputs = &input, .input_count = 1, .output = run.path, .warmup = 2};
        struct aorta_log log = silent();
        check_ok(aorta_report_make(&options, &log, NULL, NULL));
        json_t *root = load_summary(&run);
        const json_t *label = json_object_get(json_object_get(root, "labels"), "run");
        const int recorded = (24 + every - 1) / every;
        assert_true(NUMBER(label, "warmup_per_rank") == 2);
        assert_true(NUMBER(label, "compute_ms", "count") == recorded - 2);
        assert_true(NUMBER(json_array_get(json_object_get(label, "ranks"), 0), "iterations") == 24 - every - 1);
        assert_true(NUMBER(label, "collectives", "all_gather", "count") == 1);
        assert_true(NUMBER(label, "collectives", "all_gather", "bytes") == 4096);
        assert_true(fabs(NUMBER(label, "collectives", "all_gather", "time_ms") - 2) < 1e-9);
        assert_true(fabs(NUMBER(label, "collectives", "all_gather", "overlap_ms") - 2) < 1e-9);
        json_decref(root);
        workspace_remove(&run);
    }
}

/* Neither a profile, nor an empty one, is a reason to refuse what the run measured otherwise. */
static void runs_without_ranges(void **state) {
    (void)state;
    static const char *const ends[] = {"}\n", ", \"profile\": null}\n", ", \"profile\": {}}\n",
                                       ", \"profile\": {\"ranges\": []}}\n"};
    struct aorta_log log = silent();
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct workspace run = workspace_make();
        struct aorta_text lines = {0}, text = {0};
        for (int step = 0; step < 5; step++)
            aorta_text_printf(&lines,
                              "{\"rank\": 0, \"world_size\": 1, \"epoch\": 0, \"step\": %d, \"global_step\": %d, "
                              "\"step_ms\": 7%s",
                              step, step, ends[i]);
        workspace_write(&run, "rank_00_metrics.jsonl", lines.data);
        const struct aorta_report_input input = {run.path, "run"};
        struct aorta_report_options options = {.inputs = &input, .input_count = 1, .output = run.path, .warmup = -1};
        check_ok(aorta_report_make(&options, &log, &text, NULL));
        assert_non_null(strstr(text.data, "holds no ranges"));
        json_t *root = load_summary(&run);
        const json_t *label = json_object_get(json_object_get(root, "labels"), "run");
        assert_true(NUMBER(label, "step_ms", "count") == 5);
        assert_true(json_is_null(json_object_get(label, "verdict")));
        json_decref(root);
        aorta_text_free(&lines);
        aorta_text_free(&text);
        workspace_remove(&run);
    }
}

/* Checks that each file listed as written exists and is listed once. Returns the number of files. */
static int check_files(const char *text) {
    int count = 0;
    const char *line = strstr(text, "Written:\n");
    assert_non_null(line);
    for (line = strchr(line, '\n') + 1; *line; line = strchr(line, '\n') + 1) {
        char path[512];
        snprintf(path, sizeof path, "%.*s", (int)strcspn(line + 2, "\n"), line + 2);
        if (access(path, R_OK) != 0) fail_msg("%s is said to be written", path);
        strcat(path, "\n");
        if (strstr(strchr(line, '\n'), path)) fail_msg("named twice: %s", path);
        count++;
    }
    return count;
}

static void pictures_of_a_run_whose_first_rank_is_empty(void **state) {
    (void)state;
    if (!have_gnuplot()) skip();
    struct workspace run = workspace_make();
    workspace_write(&run, "rank_00_metrics.jsonl", "");
    workspace_run(&run, 1, 2, 6, 10000000);
    struct aorta_log log = silent();
    struct aorta_text text = {0};
    check_ok(aorta_report_after_run(run.path, "run", 0, &log, &text));
    assert_null(strstr(text.data, "Written:")); /* of a quiet run */
    aorta_text_free(&text);
    log.level = AORTA_LOG_INFO;
    check_ok(aorta_report_after_run(run.path, "run", 0, &log, &text));
    assert_int_equal(check_files(text.data), 4 + aorta_page_available());
    assert_true(is_png(&run, "run_timeline.png"));
    aorta_text_free(&text);
    workspace_remove(&run);
}

/* Labels that come out as the same name of a file: each run keeps its pictures. */
static void pictures_of_like_labels(void **state) {
    (void)state;
    if (!have_gnuplot()) skip();
    struct workspace run = workspace_make(), out = workspace_make();
    workspace_run(&run, 0, 1, 6, 10000000);
    const struct aorta_report_input inputs[] = {{run.path, "a b"}, {run.path, "a_b"}, {run.path, "a_b_2"}};
    struct aorta_report_options options = {
        .inputs = inputs, .input_count = 3, .output = out.path, .pictures = true, .warmup = -1};
    struct aorta_log log = silent();
    struct aorta_text text = {0};
    check_ok(aorta_report_make(&options, &log, &text, NULL));
    assert_int_equal(check_files(text.data), 6 + aorta_page_available());
    assert_true(is_png(&out, "a_b_timeline.png"));
    assert_true(is_png(&out, "a_b_2_timeline.png"));
    assert_true(is_png(&out, "a_b_2_2_timeline.png"));
    aorta_text_free(&text);
    workspace_remove(&run);
    workspace_remove(&out);
}

/* A report of many iterations takes a time in proportion to their number: half a second here, and minutes if it looked
 * through the run for each of them. */
static void many_iterations(void **state) {
    (void)state;
    struct workspace run = workspace_make();
    struct aorta_text lines = {0};
    for (int i = 0; i < 40000; i++)
        aorta_text_printf(&lines,
                          "{\"rank\": 0, \"world_size\": 1, \"epoch\": 0, \"step\": %d, \"global_step\": %d, "
                          "\"step_ms\": %d, \"profile\": null}\n",
                          i, i, i % 7);
    workspace_write(&run, "rank_00_metrics.jsonl", lines.data);
    aorta_text_free(&lines);
    const struct aorta_report_input inputs[] = {{run.path, "a"}, {run.path, "b"}};
    struct aorta_report_options options = {
        .inputs = inputs, .input_count = 2, .output = run.path, .reference = "a", .candidate = "b", .warmup = -1};
    struct aorta_log log = silent();
    const clock_t start = clock();
    check_ok(aorta_report_make(&options, &log, NULL, NULL));
    const double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    if (seconds > 10) fail_msg("the report of 40000 iterations took %.1f s", seconds);
    workspace_remove(&run);
}

/* Three steps of 8 samples in 10 ms and one that waits, in 70 ms: 32 samples in 100 ms. */
static void throughput_counts_waiting(void **state) {
    (void)state;
    const double rates[] = {800, 800, 800, 8 / 0.07, NAN};
    assert_true(fabs(aorta_rate_mean(rates, 5) - 320) < 1e-9);
    assert_true(isnan(aorta_rate_mean(rates + 4, 1)));
}

static void labels(void **state) {
    (void)state;
    static const char *const rows[][2] = {{"/a/b/", "b"}, {"b", "b"},      {"./x", "x"}, {".", "run"},
                                          {"..", "run"},  {"a/..", "run"}, {"/", "run"}};
    struct aorta_arena arena = {0};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_string_equal(aorta_report_label(rows[i][0], &arena), rows[i][1]);
    aorta_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contention_at_the_power_limit),
        cmocka_unit_test(settings_of_all_sections),
        cmocka_unit_test(compares_two_runs),
        cmocka_unit_test(after_a_run),
        cmocka_unit_test(pictures_have_a_limit),
        cmocka_unit_test(without_gnuplot),
        cmocka_unit_test(a_broken_script_leaves_no_picture),
        cmocka_unit_test(pictures_are_whole_or_absent),
        cmocka_unit_test(wrong_arguments),
        cmocka_unit_test(original_is_not_trusted),
        cmocka_unit_test(cost_of_recording),
        cmocka_unit_test(means_are_of_recorded_steps),
        cmocka_unit_test(runs_without_ranges),
        cmocka_unit_test(pictures_of_a_run_whose_first_rank_is_empty),
        cmocka_unit_test(pictures_of_like_labels),
        cmocka_unit_test(many_iterations),
        cmocka_unit_test(labels),
        cmocka_unit_test(throughput_counts_waiting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
