/* Comparison of results: noise as it is (outliers, drift, autocorrelation, runs that differ a little), planted changes,
 * and files of all kinds. */
#include "base/compare.h"
#include "base/files.h"
#include "base/random.h"

#include "check.h"
#include "flat.h"
#include "folder.h"
#include "hwq/compare.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- noise ---- */

/* A series of iterations: level · (1 + AR(1) noise + drift) with outliers, in all of which runs differ by `between`. */
struct noise {
    double sd, correlation; /* of the AR(1) part: standard deviation, and correlation of neighbours */
    double drift;           /* over the whole series, e.g. 0.02 */
    double outliers, size;  /* share of the iterations, and how much longer they take: size · |normal| */
    double between;         /* standard deviation of the levels of runs */
};

static const struct noise noises[] = {
    {.sd = 0.01},
    {.sd = 0.02, .correlation = 0.6, .between = 0.005},
    {.sd = 0.015, .correlation = 0.3, .drift = 0.02, .outliers = 0.03, .size = 2, .between = 0.008},
    {.sd = 0.01, .correlation = 0.9, .outliers = 0.01, .size = 10, .between = 0.005},
};
enum { NOISES = sizeof noises / sizeof *noises };

static struct aorta_normal_table table;

static void make_series(const struct noise *noise, uint64_t seed, double level, double *series, size_t count) {
    float *normals = malloc((2 * count + 1) * sizeof *normals), *uniforms = malloc(count * sizeof *uniforms);
    assert_true(normals && uniforms);
    const struct aorta_random random = {.seed = seed, .stream = 1, .domain = AORTA_RANDOM_DATA};
    const struct aorta_random dice = {.seed = seed, .stream = 2, .domain = AORTA_RANDOM_DATA};
    aorta_random_normal(&random, &table, 0, 2 * count + 1, normals);
    aorta_random_uniform(&dice, 0, count, 0, 1, uniforms);
    double state = 0, fresh = sqrt(1 - noise->correlation * noise->correlation);
    level *= 1 + noise->between * (double)normals[2 * count];
    for (size_t i = 0; i < count; i++) {
        state = noise->correlation * state + fresh * (double)normals[i];
        series[i] = level * (1 + noise->sd * state + noise->drift * (double)i / (double)count);
        if ((double)uniforms[i] < noise->outliers) series[i] *= 1 + noise->size * fabs((double)normals[count + i]);
    }
    free(normals);
    free(uniforms);
}

/* Equal runs of a GPU, one run on each side. */
static struct aorta_comparison of_series(const struct noise *noise, uint64_t seed, double slowdown, size_t count,
                                         double between) {
    double *first = malloc(2 * count * sizeof *first);
    assert_non_null(first);
    make_series(noise, 2 * seed, 3.5, first, count);
    make_series(noise, 2 * seed + 1, 3.5 * slowdown, first + count, count);
    const struct aorta_samples sides[2] = {{first, count, NULL, 1, NULL}, {first + count, count, NULL, 1, NULL}};
    const struct aorta_between_runs runs = {.share = between, .freedom = aorta_between_runs_on(true).freedom};
    const struct aorta_comparison compared = aorta_compare(&sides[0], &sides[1], AORTA_P50, &runs);
    free(first);
    return compared;
}

static enum aorta_hwq_change change_of(const struct aorta_comparison *compared) {
    const struct aorta_ratio ratio = aorta_hwq_ratio(compared);
    return aorta_hwq_change_of(&ratio, 0.05);
}

static const double usual = 0.005;

static void ten_percent_is_found_ten_of_ten(void **state) {
    (void)state;
    for (size_t i = 0; i < NOISES; i++) {
        for (uint64_t seed = 0; seed < 10; seed++) {
            const struct aorta_comparison slower = of_series(&noises[i], 100 * i + seed, 1.10, 100, usual),
                                          faster = of_series(&noises[i], 100 * i + seed, 1 / 1.10, 100, usual);
            if (change_of(&slower) != AORTA_HWQ_REGRESSION)
                fail_msg("noise %zu, seed %d: %.3f [%.3f, %.3f]", i, (int)seed, slower.delta, slower.low, slower.high);
            assert_int_not_equal(change_of(&faster), AORTA_HWQ_REGRESSION);
            assert_int_not_equal(change_of(&faster), AORTA_HWQ_UNCHANGED);
        }
    }
}

static void the_same_stays_silent(void **state) {
    (void)state;
    int unchanged = 0, all = 0;
    for (size_t i = 0; i < NOISES; i++) {
        for (uint64_t seed = 0; seed < 50; seed++) {
            const struct aorta_comparison same = of_series(&noises[i], 1000 + 100 * i + seed, 1, 100, usual);
            assert_int_not_equal(change_of(&same), AORTA_HWQ_REGRESSION);
            assert_int_not_equal(change_of(&same), AORTA_HWQ_IMPROVEMENT);
            unchanged += change_of(&same) == AORTA_HWQ_UNCHANGED;
            all++;
        }
    }
    if (unchanged <= all * 9 / 10) fail_msg("%d of %d", unchanged, all);
}

static void blocks_follow_the_correlation(void **state) {
    (void)state;
    enum { COUNT = 400 };
    double series[COUNT];
    make_series(&(struct noise){.sd = 0.05}, 3, 1, series, COUNT);
    assert_true(aorta_block_length(series, COUNT) <= 4);
    make_series(&(struct noise){.sd = 0.05, .correlation = 0.8, .outliers = 0.02, .size = 20}, 3, 1, series, COUNT);
    size_t length = aorta_block_length(series, COUNT);
    assert_true(length >= 8 && length <= COUNT / 3);
    make_series(&(struct noise){.sd = 0.001, .drift = 1}, 3, 1, series, COUNT);
    assert_true(aorta_block_length(series, COUNT) >= 30);
    for (size_t i = 0; i < COUNT; i++) series[i] = 2;
    assert_int_equal(aorta_block_length(series, COUNT), 1);
    assert_int_equal(aorta_block_length(series, 3), 1);
}

static void verdicts(void **state) {
    (void)state;
    static const struct {
        struct aorta_ratio ratio;
        enum aorta_hwq_change change;
    } cases[] = {
        {{1.10, 1.06, 1.14}, AORTA_HWQ_REGRESSION},  {{1.10, 1.04, 1.16}, AORTA_HWQ_UNCERTAIN},
        {{0.90, 0.88, 0.94}, AORTA_HWQ_IMPROVEMENT}, {{0.90, 0.85, 0.96}, AORTA_HWQ_UNCERTAIN},
        {{1.02, 0.99, 1.04}, AORTA_HWQ_UNCHANGED},   {{1.02, 0.90, 1.10}, AORTA_HWQ_UNCERTAIN},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(aorta_hwq_change_of(&cases[i].ratio, 0.05), cases[i].change);
}

/* Levels that differ by 2% from run to run: ten of ten stay silent, and 10% are found in most. */
static void unsteady_runs(void **state) {
    (void)state;
    static const struct noise unsteady = {.sd = 0.02, .correlation = 0.5, .between = 0.02};
    int found = 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        const struct aorta_comparison same = of_series(&unsteady, 7000 + seed, 1, 100, usual),
                                      slower = of_series(&unsteady, 8000 + seed, 1.1, 100, usual);
        assert_int_not_equal(change_of(&same), AORTA_HWQ_REGRESSION);
        found += change_of(&slower) == AORTA_HWQ_REGRESSION;
    }
    if (found < 24) fail_msg("%d of 40", found);
}

/* ---- files ---- */

static char folder[FOLDER_PATH];

static int make_folder(void **state) {
    (void)state;
    aorta_normal_table_fill(&table);
    folder_make(folder, "compare");
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    return folder_remove(folder);
}

static const char *path_of(const char *name) {
    static char paths[4][160];
    static int next;
    next = (next + 1) % 4;
    snprintf(paths[next], sizeof paths[next], "%s/%s", folder, name);
    return paths[next];
}

static const char *write_text(const char *name, const char *text) {
    const char *path = path_of(name);
    check_ok(aorta_file_replace(path, text, strlen(text)));
    return path;
}

static void put_result(struct aorta_json *json, const char *workload, int streams, double slowdown, uint64_t seed,
                       const char *device, const char *connections) {
    double series[100];
    make_series(&noises[1], seed, 2 * slowdown, series, 100);
    aorta_json_object(json);
    if (workload) aorta_json_key_string(json, "workload_name", workload);
    aorta_json_key_int(json, "stream_count", streams);
    aorta_json_key_double(json, "throughput", 10);
    aorta_json_key_array(json, "iteration_times_ms");
    for (int i = 0; i < 100; i++) aorta_json_double(json, series[i]);
    aorta_json_array_end(json);
    aorta_json_key_object(json, "metadata");
    aorta_json_key_object(json, "device_info");
    aorta_json_key_string(json, "name", device);
    aorta_json_object_end(json);
    aorta_json_key_object(json, "environment");
    if (connections) aorta_json_key_string(json, "CUDA_DEVICE_MAX_CONNECTIONS", connections);
    aorta_json_object_end(json);
    aorta_json_object_end(json);
    aorta_json_object_end(json);
}

static const char *write_run(const char *name, int streams, double slowdown, uint64_t seed, const char *device,
                             const char *connections) {
    struct aorta_text text = {0};
    struct aorta_json json;
    aorta_json_begin(&json, &text, 2);
    put_result(&json, "moe", streams, slowdown, seed, device, connections);
    check_ok(aorta_text_check(&text));
    const char *path = write_text(name, text.data);
    aorta_text_free(&text);
    return path;
}

static const char *write_sweep(const char *name, const char *workload, double slowdown_16, uint64_t seed) {
    struct aorta_text text = {0};
    struct aorta_json json;
    aorta_json_begin(&json, &text, 2);
    aorta_json_object(&json);
    aorta_json_key_string(&json, "workload", workload);
    aorta_json_key_array(&json, "results");
    for (int streams = 4; streams <= 16; streams *= 2)
        put_result(&json, NULL, streams, streams == 16 ? slowdown_16 : 1, seed + (uint64_t)streams, "H100", NULL);
    aorta_json_array_end(&json);
    aorta_json_object_end(&json);
    check_ok(aorta_text_check(&text));
    const char *path = write_text(name, text.data);
    aorta_text_free(&text);
    return path;
}

struct sides {
    struct aorta_hwq_measurements baseline, test;
    struct aorta_hwq_comparison comparison;
    struct aorta_text text;
    size_t warnings;
};

static void compare_with(struct sides *sides, const char *baseline, const char *test, double between_runs) {
    const struct aorta_hwq_comparison_options options = {.threshold = 0.05, .between_runs = between_runs};
    sides->text = (struct aorta_text){0};
    check_ok(aorta_hwq_measurements_open(baseline, &sides->baseline));
    check_ok(aorta_hwq_measurements_open(test, &sides->test));
    check_ok(aorta_hwq_comparison_make(&sides->baseline, &sides->test, &options, &sides->comparison));
    aorta_hwq_comparison_text(&sides->comparison, &sides->text);
    sides->warnings = 0;
    for (size_t i = 0; i < sides->comparison.found.count; i++)
        sides->warnings += aorta_hwq_finding_rows[sides->comparison.found.items[i].finding].kind == AORTA_FOUND_WARNING;
    check_ok(aorta_text_check(&sides->text));
}

static void compare(struct sides *sides, const char *baseline, const char *test) {
    compare_with(sides, baseline, test, 0.005);
}

static void finish(struct sides *sides) {
    aorta_hwq_comparison_free(&sides->comparison);
    aorta_hwq_measurements_close(&sides->baseline);
    aorta_hwq_measurements_close(&sides->test);
    aorta_text_free(&sides->text);
}

static bool says(const struct sides *sides, const char *part) {
    return text_has(sides->text.data, part);
}

static void runs_and_settings(void **state) {
    (void)state;
    struct sides sides;
    compare(&sides, write_run("a.json", 8, 1, 1, "H100", NULL), write_run("b.json", 8, 1.1, 2, "H200", "1"));
    assert_int_equal(sides.comparison.pair_count, 1);
    assert_int_equal(sides.comparison.changes[AORTA_HWQ_REGRESSION], 1);
    assert_true(says(&sides, "REGRESSION"));
    assert_true(says(&sides, "b.json is slower than "));
    assert_int_equal(sides.comparison.found.items->finding, AORTA_HWQ_COMPARE_SLOWER);
    assert_true(says(&sides, "warning     device_info.name differs: H100 in the baseline, H200 in the test"));
    assert_true(says(&sides, "environment.CUDA_DEVICE_MAX_CONNECTIONS differs: null in the baseline, 1 in the test"));
    assert_true(says(&sides, "moe on 8 streams: a side is one run of 0.2 s; a longer disturbance"));
    assert_int_equal(sides.warnings, 3);
    finish(&sides);
}

/* Two runs whose clocks are of `mhz` and of 20 more; 0: not read. */
static const char *write_clocked(const char *name, uint64_t seed, double mhz) {
    struct aorta_text text = {0};
    struct aorta_json json;
    aorta_json_begin(&json, &text, 0);
    aorta_json_array(&json);
    for (int run = 0; run < 2; run++) put_result(&json, "moe", 8, 1, seed + (uint64_t)run, "H100", NULL);
    aorta_json_array_end(&json);
    check_ok(aorta_text_check(&text));
    char clocks[96], *end = strrchr(text.data, '}');
    snprintf(clocks, sizeof clocks, ", \"clocks\": {\"sm_clock_mhz\": {\"p50\": %g}}}]", mhz);
    *end = '\0';
    if (mhz == 0) snprintf(clocks, sizeof clocks, ", \"clocks\": null}]");
    struct aorta_text whole = {0};
    aorta_text_puts(&whole, "[{\"clocks\": ");
    if (mhz > 0)
        aorta_text_printf(&whole, "{\"sm_clock_mhz\": {\"p50\": %g}}, ", mhz + 20);
    else
        aorta_text_puts(&whole, "null, ");
    aorta_text_puts(&whole, strchr(text.data, '{') + 1);
    aorta_text_puts(&whole, clocks);
    check_ok(aorta_text_check(&whole));
    const char *path = write_text(name, whole.data);
    aorta_text_free(&text);
    aorta_text_free(&whole);
    return path;
}

static void clocks_that_differ_are_reported(void **state) {
    (void)state;
    static const struct {
        double baseline, test;
        const char *warning; /* NULL: none */
    } rows[] = {{1970, 1535, "moe on 8 streams: the device's clock was 1980 MHz in the baseline, 1545 MHz in the test"},
                {1535, 1970, "clock was 1545 MHz in the baseline, 1980 MHz in the test"},
                {1970, 1920, NULL},
                {1970, 0, NULL},
                {0, 0, NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sides sides;
        compare(&sides, write_clocked("a.json", 1, rows[i].baseline), write_clocked("b.json", 5, rows[i].test));
        assert_int_equal(sides.comparison.pairs[0].baseline->runs, 2);
        assert_int_equal(sides.warnings, rows[i].warning ? 1 : 0);
        if (rows[i].warning && !says(&sides, rows[i].warning)) fail_msg("%s", sides.text.data);
        finish(&sides);
    }
}

static void sweeps_are_paired_by_streams(void **state) {
    (void)state;
    struct sides sides;
    compare(&sides, write_sweep("a.json", "moe", 1, 10), write_sweep("b.json", "moe", 1.15, 50));
    assert_int_equal(sides.comparison.pair_count, 3);
    assert_int_equal(sides.comparison.changes[AORTA_HWQ_REGRESSION], 1);
    assert_int_equal(sides.comparison.changes[AORTA_HWQ_UNCHANGED], 2);
    assert_int_equal(sides.comparison.pairs[2].baseline->streams, 16);
    assert_int_equal(sides.comparison.pairs[2].change, AORTA_HWQ_REGRESSION);
    assert_int_equal(sides.warnings, 1); /* 16 streams: short runs */
    finish(&sides);
}

static void partners_that_are_missing(void **state) {
    (void)state;
    struct sides sides;
    compare(&sides, write_sweep("a.json", "moe", 1, 10), write_run("b.json", 8, 1, 3, "H100", NULL));
    assert_int_equal(sides.comparison.pair_count, 1);
    assert_true(says(&sides, "moe on 4 streams is only in the baseline"));
    finish(&sides);
    struct aorta_hwq_measurements a, b;
    struct aorta_hwq_comparison comparison;
    const struct aorta_hwq_comparison_options options = {.threshold = 0.05, .between_runs = NAN};
    check_ok(aorta_hwq_measurements_open(write_run("a.json", 3, 1, 3, "H100", NULL), &a));
    check_ok(aorta_hwq_measurements_open(write_run("b.json", 8, 1, 3, "H100", NULL), &b));
    check_fails(aorta_hwq_comparison_make(&a, &b, &options, &comparison), AORTA_USAGE, "a.json has moe on 3 streams");
    aorta_hwq_measurements_close(&a);
    aorta_hwq_measurements_close(&b);
}

/* The files of run-priority: a sweep for each workload, its summary, and the original's file about the machine. */
static void directories(void **state) {
    (void)state;
    struct sides sides;
    assert_int_equal(mkdir(path_of("one"), 0777), 0);
    assert_int_equal(mkdir(path_of("two"), 0777), 0);
    write_sweep("one/moe_results.json", "moe", 1, 10);
    write_sweep("one/fsdp_tp_results.json", "fsdp_tp", 1, 20);
    write_text("one/environment_info.json", "{\"hostname\": \"vm\"}");
    write_text("one/run_priority.json", "{\"schema_version\": 1, \"kind\": \"hwq_run_priority\"}");
    write_sweep("two/moe_results.json", "moe", 1, 30);
    write_sweep("two/fsdp_tp_results.json", "fsdp_tp", 1, 40);
    write_sweep("two/fsdp_tp_again.json", "fsdp_tp", 1, 60);
    compare(&sides, path_of("one"), path_of("two"));
    assert_int_equal(sides.comparison.pair_count, 6);
    assert_string_equal(sides.comparison.pairs[0].baseline->workload, "fsdp_tp");
    assert_int_equal(sides.comparison.pairs[0].test->runs, 2);
    assert_int_equal(sides.comparison.pairs[0].test->count, 200);
    assert_true(says(&sides, "environment_info.json: skipped: no result of a workload in it"));
    assert_false(says(&sides, "run_priority.json"));
    finish(&sides);
}

/* Files of one directory that are pooled although their runs were set up differently. */
static void mixed_directories(void **state) {
    (void)state;
    struct sides sides;
    assert_int_equal(mkdir(path_of("mixed"), 0777), 0);
    write_run("mixed/a.json", 8, 1, 1, "H100", NULL);
    write_run("mixed/b.json", 8, 1, 2, "H200", "1");
    write_run("mixed/c.json", 8, 1, 3, "H100", NULL);
    compare(&sides, write_run("a.json", 8, 1, 4, "H100", NULL), path_of("mixed"));
    assert_int_equal(sides.comparison.pairs[0].test->runs, 3);
    assert_int_equal(sides.warnings, 2);
    assert_true(says(&sides, "mixed/b.json: device_info.name differs: H200, but H100 in "));
    assert_true(says(&sides, "mixed/b.json: environment.CUDA_DEVICE_MAX_CONNECTIONS differs: 1, but null in "));
    assert_true(says(&sides, "mixed/a.json, which is pooled with it "));
    finish(&sides);
}

/* All results of a group in one file: lists and names around the sweeps do not matter. */
static void groups_in_one_file(void **state) {
    (void)state;
    struct aorta_text text = {0};
    struct aorta_json json;
    aorta_json_begin(&json, &text, 0);
    aorta_json_object(&json);
    aorta_json_key_string(&json, "group", "P1");
    aorta_json_key_array(&json, "workloads");
    aorta_json_object(&json);
    aorta_json_key_string(&json, "workload", "grad_accum");
    aorta_json_key_array(&json, "results");
    put_result(&json, NULL, 4, 1, 1, "H100", NULL);
    aorta_json_array_end(&json);
    aorta_json_object_end(&json);
    aorta_json_object(&json);
    aorta_json_key_string(&json, "workload", "moe");
    aorta_json_key_string(&json, "error", "no memory");
    aorta_json_object_end(&json);
    aorta_json_array_end(&json);
    aorta_json_object_end(&json);
    check_ok(aorta_text_check(&text));
    struct aorta_hwq_measurements measurements;
    check_ok(aorta_hwq_measurements_open(write_text("group.json", text.data), &measurements));
    assert_int_equal(measurements.count, 1);
    assert_string_equal(measurements.items[0].workload, "grad_accum");
    aorta_hwq_measurements_close(&measurements);
    aorta_text_free(&text);
}

/* A sweep that the original toolkit wrote. */
static void the_originals_files(void **state) {
    (void)state;
    struct aorta_hwq_measurements measurements;
    check_ok(aorta_hwq_measurements_open(TEST_DATA "/original_sweep.json", &measurements));
    assert_int_equal(measurements.count, 1);
    const struct aorta_hwq_measurement *measurement = &measurements.items[0];
    assert_string_equal(measurement->workload, "hetero_kernels");
    assert_int_equal(measurement->streams, 8);
    assert_int_equal(measurement->count, 30);
    assert_true(fabs(aorta_summarise(measurement->times_ms, 30).p50 - 10.835567951202393) < 1e-9);
    bool device = false;
    for (size_t i = 0; i < measurement->settings.count; i++)
        device |= strcmp(measurement->settings.items[i].key, "device_info.name") == 0 &&
                  strcmp(measurement->settings.items[i].value, "NVIDIA H100 80GB HBM3") == 0;
    assert_true(device);
    aorta_hwq_measurements_close(&measurements);
    struct sides sides;
    compare(&sides, TEST_DATA "/original_sweep.json", TEST_DATA "/original_sweep.json");
    assert_int_equal(sides.comparison.changes[AORTA_HWQ_UNCHANGED], 1);
    finish(&sides);
}

static void few_iterations(void **state) {
    (void)state;
    struct sides sides;
    const char *path =
        write_text("few.json", "{\"workload_name\": \"moe\", \"stream_count\": 4, \"iteration_times_ms\": [1, 2, 3]}");
    const char *before =
        write_text("two.json", "{\"workload_name\": \"moe\", \"stream_count\": 4, \"iteration_times_ms\": [1, 2]}");
    compare(&sides, before, path);
    assert_int_equal(sides.comparison.changes[AORTA_HWQ_UNCERTAIN], 1);
    assert_true(says(&sides, "two.json: not decided, 1 of 1 pair uncertain\n"));
    assert_true(says(&sides, "  compared    1 pair (threshold 5%, 95% intervals)\n"));
    assert_true(says(&sides, "  uncertain   fewer than 8 iterations on a side: 1 pair\n  try         --iterations 30 "
                             "to decide 1 uncertain pair\n"));
    finish(&sides);
    compare_with(&sides, before, path, 1.5); /* runs that differ by more than they take */
    assert_true(says(&sides, "  noise       too few iterations to estimate how equal runs differ\n"));
    finish(&sides);
}

static void a_file_equals_itself(void **state) {
    (void)state;
    struct sides sides;
    compare(&sides, write_run("a.json", 8, 1, 1, "H100", NULL), path_of("a.json"));
    assert_int_equal(sides.comparison.changes[AORTA_HWQ_UNCHANGED], 1);
    assert_true(says(&sides, "a.json: all iteration times are the same\n"));
    assert_true(says(&sides, " equal\n"));
    assert_false(says(&sides, "noise") || says(&sides, "try"));
    finish(&sides);
}

/* Both sides count, so that swapped files say the same. */
static void the_noise_of_both_sides(void **state) {
    (void)state;
    struct sides sides;
    const char *names[] = {"a.json", "b.json"};
    char shares[2][2][16];
    write_run(names[0], 8, 1, 1, "cpu", NULL);
    write_text(names[1], "{\"workload_name\": \"moe\", \"stream_count\": 8, \"iteration_times_ms\": "
                         "[2, 9, 3, 8, 2, 7, 4, 9, 2, 8]}");
    for (int i = 0; i < 2; i++) {
        compare_with(&sides, path_of(names[i]), path_of(names[!i]), NAN);
        const char *noise = strstr(sides.text.data, "  noise       equal runs are assumed to differ by ");
        assert_non_null(noise);
        assert_int_equal(sscanf(noise, "  noise equal runs are assumed to differ by %15s in the baseline and %15s",
                                shares[i][i], shares[i][!i]),
                         2);
        finish(&sides);
    }
    assert_string_equal(shares[0][0], shares[1][0]);
    assert_string_equal(shares[0][1], shares[1][1]);
    assert_string_not_equal(shares[0][0], shares[0][1]);
}

static void bad_files(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "the file is empty"},
        {"{\"workload_name\": \"moe\", \"stream_count\": 4, \"iteration_times_ms\": [1, 2", "the file is cut off"},
        {"workload,streams\nmoe,4\n", "line 1, column"},
        {"\x1f\x8b\x08", "compressed; unpack it with gunzip"},
        {"SQLite format 3", "aorta trace analyze"},
        {"{\"traceEvents\": []}", "it looks like a trace; aorta trace analyze reads it"},
        {"{\"kind\": \"hwq_map\"}", "it looks like hwq_map"},
        {"[]", "no result of a workload in it"},
        {"17", "line 1"},
        {"{\"stream_count\": 4, \"iteration_times_ms\": [1]}", "a result: it has no workload_name"},
        {"{\"workload_name\": \"moe\", \"iteration_times_ms\": [1]}", "moe: stream_count is missing"},
        {"{\"workload_name\": \"moe\", \"stream_count\": 0, \"iteration_times_ms\": [1]}", "not a number of streams"},
        {"{\"workload_name\": \"moe\", \"stream_count\": 4, \"iteration_times_ms\": [1, -2]}",
         "moe on 4 streams: iteration_times_ms[1] is not a time above 0"},
        {"{\"workload_name\": \"moe\", \"stream_count\": 4, \"iteration_times_ms\": [1, 4e-324]}",
         "moe on 4 streams: iteration_times_ms[1] is not a time above 0"},
        {"{\"workload_name\": \"moe\", \"stream_count\": 4, \"iteration_times_ms\": [1, null]}",
         "iteration_times_ms[1]"},
        {"{\"workload_name\": \"moe\", \"stream_count\": 4, \"throughput\": 1}",
         "moe on 4 streams: skipped: it has no raw iterations"},
    };
    struct aorta_hwq_measurements measurements;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = write_text("bad.json", cases[i].text);
        check_fails(aorta_hwq_measurements_open(path, &measurements), AORTA_USAGE, cases[i].message);
        check_fails(aorta_hwq_measurements_open(path, &measurements), AORTA_USAGE, "bad.json");
    }
    check_fails(aorta_hwq_measurements_open(path_of("none.json"), &measurements), AORTA_USAGE,
                "none.json: cannot be read");
    assert_int_equal(mkdir(path_of("empty"), 0777), 0);
    check_fails(aorta_hwq_measurements_open(path_of("empty"), &measurements), AORTA_USAGE,
                "no .json file in this directory");
    write_text("empty/cut.json", "{\"a\": ");
    check_fails(aorta_hwq_measurements_open(path_of("empty"), &measurements), AORTA_USAGE, "cut.json: line 1");
}

/* An editor's mark is no part of a file; metadata without end would cost the square of its members. */
static void strange_files(void **state) {
    (void)state;
    struct aorta_hwq_measurements measurements;
    const char *path = write_text("marked.json", "\xef\xbb\xbf{\"workload_name\": \"moe\", \"stream_count\": 4, "
                                                 "\"iteration_times_ms\": [1, 2]}");
    check_ok(aorta_hwq_measurements_open(path, &measurements));
    assert_int_equal(measurements.count, 1);
    aorta_hwq_measurements_close(&measurements);
    struct aorta_text text = {0};
    aorta_text_puts(&text, "{\"workload_name\": \"moe\", \"stream_count\": 4, \"iteration_times_ms\": [1], "
                           "\"metadata\": {\"k\": 0");
    for (int i = 0; i < 5000; i++) aorta_text_printf(&text, ", \"k%d\": %d", i, i);
    aorta_text_puts(&text, "}}");
    check_fails(aorta_hwq_measurements_open(write_text("many.json", text.data), &measurements), AORTA_USAGE,
                "moe on 4 streams: its metadata holds more than 4096 values");
    aorta_text_free(&text);
    check_fails(aorta_hwq_measurements_open("/dev/zero", &measurements), AORTA_USAGE,
                "cannot read /dev/zero: it is larger than 256 MiB");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdicts),
        cmocka_unit_test(blocks_follow_the_correlation),
        cmocka_unit_test(ten_percent_is_found_ten_of_ten),
        cmocka_unit_test(the_same_stays_silent),
        cmocka_unit_test(unsteady_runs),
        cmocka_unit_test(runs_and_settings),
        cmocka_unit_test(clocks_that_differ_are_reported),
        cmocka_unit_test(sweeps_are_paired_by_streams),
        cmocka_unit_test(partners_that_are_missing),
        cmocka_unit_test(directories),
        cmocka_unit_test(mixed_directories),
        cmocka_unit_test(groups_in_one_file),
        cmocka_unit_test(the_originals_files),
        cmocka_unit_test(few_iterations),
        cmocka_unit_test(a_file_equals_itself),
        cmocka_unit_test(the_noise_of_both_sides),
        cmocka_unit_test(bad_files),
        cmocka_unit_test(strange_files),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
