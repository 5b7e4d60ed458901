/* What a user reads about a GPU: its clock, as a line of the verdict and `clocks` in summary.json, and nothing where
 * there is nothing to say; advice that suits it. The fake NVML plays the devices (tests/fake_gpu/nvml.c). */
#include "check.h"
#include "run.h"

#include <stdlib.h>
#include <string.h>

enum { STEPS = 6, MANY_STEPS = 400 };

#define CUDA "device.kind=cuda "

struct setting {
    const char *variable, *value;
};

static const char *const variables[] = {"FAKE_NVML_CLOCK",       "FAKE_NVML_POWER",         "FAKE_NVML_REASONS",
                                        "FAKE_NVML_POWER_SHARE", "FAKE_NVML_THERMAL_SHARE", "FAKE_NVML_RANK",
                                        "FAKE_NVML_AT_REST"};

static int begin(void **state) {
    (void)state;
    e2e_use_fake_gpu(FAKES);
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) unsetenv(variables[i]);
    return 0;
}

/* A run and its report; the caller frees what the report printed and the label in summary.json's text. */
static json_t *train_and_report(int ranks, int steps, const char *words, char **printed) {
    struct e2e_run run, report;
    e2e_train_well(&run, ranks, steps, words);
    json_t *summary = e2e_report(&run, &report);
    json_t *label = json_incref(json_object_get(json_object_get(summary, "labels"), "run"));
    assert_non_null(label);
    json_decref(summary);
    *printed = strdup(report.output);
    e2e_free(&run);
    e2e_free(&report);
    return label;
}

/* Lines are broken anywhere. */
static void expect_words(const char *printed, const char *words) {
    char *flat = strdup(printed);
    size_t length = 0;
    for (const char *c = printed; *c; c++)
        if ((*c != '\n' && *c != ' ') || (length && flat[length - 1] != ' ')) flat[length++] = *c == '\n' ? ' ' : *c;
    flat[length] = '\0';
    if (!strstr(flat, words)) fail_msg("\"%s\" is not in: %s", words, flat);
    free(flat);
}

/* Only lines of their own count: on a busy machine there may be advice to look at a slow rank's clocks. */
static void expect_silence(const char *printed) {
    if (strstr(printed, "clocks: ") || strstr(printed, "MHz") || strstr(printed, "nvml"))
        fail_msg("something is said of clocks: %s", printed);
}

static void test_full_clock(void **state) {
    (void)state;
    char *printed;
    setenv("FAKE_NVML_AT_REST", "2", 1); /* while the run is set up */
    json_t *label = train_and_report(2, STEPS, CUDA, &printed);
    expect_silence(printed);
    assert_true(e2e_number(label, "clocks.readings") >= 1);
    assert_true(e2e_number(label, "clocks.sm_clock_mhz.min") == 1980);
    assert_true(e2e_number(label, "clocks.sm_clock_mhz.p50") == 1980);
    assert_true(e2e_number(label, "clocks.sm_clock_max_mhz") == 1980);
    assert_true(e2e_number(label, "clocks.power_w") == 123.5);
    assert_true(e2e_number(label, "clocks.power_limit_w") == 700);
    assert_int_equal(json_array_size(e2e_get(label, "clocks.limited_by")), 0);
    assert_true(json_is_null(e2e_get(label, "clocks.text")));
    for (size_t rank = 0; rank < 2; rank++) {
        const json_t *one = json_array_get(e2e_get(label, "ranks"), rank);
        assert_true(e2e_number(one, "clocks.readings") >= 1);
    }
    json_decref(label);
    free(printed);
}

/* The device is found, not named: what is advised suits it all the same. */
static void test_advice_suits_the_device(void **state) {
    (void)state;
    char *printed;
    json_t *label = train_and_report(2, STEPS, "device.kind=auto compile.enabled=true", &printed);
    const json_t *findings = e2e_get(label, "verdict");
    bool latency = false;
    for (size_t i = 0; i < json_array_size(findings); i++) {
        const json_t *finding = json_array_get(findings, i);
        const char *advice = json_string_value(e2e_get(finding, "advice"));
        if (strstr(advice, "on the CPU")) fail_msg("to a GPU: %s", advice);
        if (strcmp(json_string_value(e2e_get(finding, "cause")), "launch_latency") != 0) continue;
        latency = true;
        assert_non_null(strstr(json_string_value(e2e_get(finding, "evidence")), "between operations of one graph"));
        assert_non_null(strstr(advice, "training.batch_size, now "));
    }
    assert_true(latency);
    json_decref(label);
    free(printed);
}

/* Long enough for the driver's counters. */
static void test_power_cap(void **state) {
    (void)state;
    char *printed;
    setenv("FAKE_NVML_CLOCK", "1545", 1);
    setenv("FAKE_NVML_POWER", "698", 1);
    setenv("FAKE_NVML_REASONS", "4", 1);
    setenv("FAKE_NVML_POWER_SHARE", "0.96", 1);
    json_t *label =
        train_and_report(1, MANY_STEPS, CUDA "training.max_steps=400 training.epochs=10 --device-metrics", &printed);
    expect_words(printed, " clocks 1545 of 1980 MHz (78%): at the power limit (698 of 700 W) 96% of the time: kernels "
                          "side by side share the power and slow down, so hiding communication gains less than its "
                          "exposed time");
    const json_t *limit = json_array_get(e2e_get(label, "clocks.limited_by"), 0);
    assert_string_equal(json_string_value(e2e_get(limit, "limit")), "power_cap");
    assert_string_equal(json_string_value(e2e_get(limit, "of")), "time");
    assert_true(e2e_number(limit, "share") > 0.9 && e2e_number(limit, "share") <= 1);
    assert_non_null(strstr(json_string_value(e2e_get(label, "clocks.text")), "96% of the time"));
    json_decref(label);
    free(printed);
}

/* A note costs nothing: the causes are the whole step, as they are without it. */
static void check_costs(const json_t *label) {
    const json_t *verdict = e2e_get(label, "verdict"), *folded = json_object_get(label, "verdict_folded");
    double sum = json_is_object(folded) ? e2e_number(folded, "share") : 0; /* of rows beyond the eighth */
    for (size_t i = 0; i < json_array_size(verdict); i++) sum += e2e_number(json_array_get(verdict, i), "share");
    assert_true(sum > 0.999999 && sum < 1.000001);
}

static void test_heat_on_one_rank(void **state) {
    (void)state;
    char *printed;
    setenv("FAKE_NVML_RANK", "1", 1);
    setenv("FAKE_NVML_CLOCK", "1200", 1);
    setenv("FAKE_NVML_REASONS", "72", 1); /* hardware slowdown, hardware thermal */
    setenv("FAKE_NVML_THERMAL_SHARE", "none", 1);
    json_t *label = train_and_report(2, STEPS, CUDA, &printed);
    expect_words(printed, " clocks 1200 of 1980 MHz (61%) on rank 1, 1980 MHz on rank 0: slowed down by the hardware "
                          "for heat in ");
    assert_true(e2e_number(label, "clocks_rank") == 1);
    const json_t *limit = json_array_get(e2e_get(label, "clocks.limited_by"), 0);
    assert_string_equal(json_string_value(e2e_get(limit, "limit")), "hw_thermal");
    assert_string_equal(json_string_value(e2e_get(limit, "of")), "readings");
    check_costs(label);
    json_decref(label);
    free(printed);
}

static void check_none(const json_t *label, const char *reason) {
    assert_true(json_is_null(e2e_get(label, "clocks")));
    const char *given = json_string_value(e2e_get(label, "clocks_reason"));
    if (!strstr(given, reason)) fail_msg("\"%s\" is not in: %s", reason, given);
}

/* An old driver gives the clock and nothing to compare it with; without the library, on a CPU, there is none. */
static void test_what_cannot_be_read(void **state) {
    (void)state;
    char *printed;
    setenv("FAKE_NVML_CLOCK", "1200", 1);
    setenv("AORTA_LIBRARY_PATH", OLD_NVML ":" FAKES, 1);
    json_t *label = train_and_report(1, STEPS, CUDA, &printed);
    expect_silence(printed);
    assert_true(e2e_number(label, "clocks.sm_clock_mhz.p50") == 1200);
    assert_true(json_is_null(e2e_get(label, "clocks.sm_clock_max_mhz")));
    assert_true(json_is_null(e2e_get(label, "clocks.limited_by")));
    assert_non_null(e2e_get(label, "clocks.limited_by_reason"));
    json_decref(label);
    free(printed);
    setenv("AORTA_LIBRARY_PATH", WRONG "/nvml:" FAKES, 1);
    label = train_and_report(1, STEPS, CUDA, &printed);
    expect_silence(printed);
    check_none(label, "libnvidia-ml.so.1");
    json_decref(label);
    free(printed);
    label = train_and_report(1, STEPS, "device.kind=cpu", &printed);
    expect_silence(printed);
    check_none(label, "not measured on the cpu device");
    json_decref(label);
    free(printed);
}

/* Without --device-metrics few lines hold a reading, none of the warm-up; with it every key is present. */
static void test_lines(void **state) {
    (void)state;
    struct e2e_run run;
    int found = 0;
    setenv("FAKE_NVML_REASONS", "2", 1);
    e2e_train_well(&run, 1, STEPS, CUDA);
    for (int step = 0; step < STEPS; step++) {
        const json_t *clocks = json_object_get(e2e_line(&run, 0, (size_t)step), "clocks");
        assert_null(json_object_get(e2e_line(&run, 0, (size_t)step), "device_metrics"));
        if (!clocks) continue;
        found++;
        assert_true(step >= 1); /* one step is the warm-up */
        assert_true(e2e_number(clocks, "sm_clock_mhz") == 1980 && e2e_number(clocks, "power_capped_ms") == 0);
        assert_string_equal(json_string_value(json_array_get(e2e_get(clocks, "limited_by"), 0)), "applications_clocks");
    }
    assert_in_range(found, 1, 2);
    e2e_free(&run);
    e2e_train_well(&run, 1, STEPS, CUDA "--device-metrics");
    const json_t *metrics = e2e_get(e2e_line(&run, 0, STEPS - 1), "device_metrics");
    assert_true(e2e_number(metrics, "sm_clock_max_mhz") == 1980 && e2e_number(metrics, "power_limit_w") == 700);
    assert_int_equal(json_array_size(e2e_get(metrics, "clock_limited_by")), 1);
    e2e_free(&run);
}

static json_t *run_hwq(const char *words, char **printed) {
    struct e2e_run run;
    char command[300];
    json_error_t error;
    snprintf(command, sizeof command, "hwq run tiny_kernel_stress --streams 2 --output result.json %s", words);
    e2e_start_command(&run, command);
    e2e_finish(&run);
    e2e_expect_output(&run, 0, "throughput");
    snprintf(command, sizeof command, "%s/result.json", run.directory);
    json_t *result = json_load_file(command, 0, &error);
    assert_non_null(result);
    *printed = strdup(run.output);
    e2e_free(&run);
    return result;
}

static void test_hwq(void **state) {
    (void)state;
    char *printed;
    setenv("FAKE_NVML_CLOCK", "1410", 1);
    setenv("FAKE_NVML_REASONS", "32", 1);
    setenv("FAKE_NVML_THERMAL_SHARE", "none", 1);
    json_t *result = run_hwq("--device cuda --iterations 20 --warmup 1", &printed);
    expect_words(printed, "the device's clock was low, 1410 of 1980 MHz (71%): slowed down by the driver for heat in ");
    assert_true(e2e_number(result, "clocks.sm_clock_mhz.p50") == 1410);
    json_decref(result);
    free(printed);
    begin(NULL);
    result = run_hwq("--device cuda --iterations 20 --warmup 1", &printed);
    assert_null(strstr(printed, "clock was"));
    assert_true(json_is_null(e2e_get(result, "clocks.text")));
    json_decref(result);
    free(printed);
    result = run_hwq("--device cpu --iterations 3 --warmup 1", &printed);
    check_none(result, "not measured on the cpu device");
    json_decref(result);
    free(printed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_full_clock, begin), cmocka_unit_test_setup(test_advice_suits_the_device, begin),
        cmocka_unit_test_setup(test_power_cap, begin),  cmocka_unit_test_setup(test_heat_on_one_rank, begin),
        cmocka_unit_test_setup(test_lines, begin),      cmocka_unit_test_setup(test_what_cannot_be_read, begin),
        cmocka_unit_test_setup(test_hwq, begin),
    };
    return cmocka_run_group_tests_name("e2e gpu clocks", tests, e2e_open, e2e_close);
}
