/* The limit of an iteration, from planted stamps and times of both passes. */
#include "check.h"
#include "hwq/limit.h"
#include "hwq/run.h"

#include <math.h>
#include <string.h>

enum { US = 1000 };

struct plant {
    struct aorta_hwq_busy busy;
    struct aorta_hwq_result result;
    double time_ms, queueing_ms;
};

static void open_plant(struct plant *plant, double time_ms, double queueing_ms, int streams) {
    *plant = (struct plant){.time_ms = time_ms, .queueing_ms = queueing_ms};
    plant->result.iteration_times_ms = &plant->time_ms;
    plant->result.host_launch_ms = &plant->queueing_ms;
    plant->result.iteration_count = 1;
    plant->result.stream_count = streams;
    plant->result.latency_ms = aorta_summarise(&plant->time_ms, 1);
}

static void add(struct plant *plant, const struct aorta_span *items, size_t count) {
    struct aorta_hwq_spans spans = {0};
    for (size_t i = 0; i < count; i++) check_ok(aorta_hwq_spans_add(&spans, &items[i]));
    aorta_hwq_busy_add(&plant->busy, &spans);
    aorta_hwq_spans_free(&spans);
}

static void check_limit(struct plant *plant, bool gate, enum aorta_hwq_finding by, const char *part) {
    struct aorta_text text = {0};
    plant->result.limit = aorta_hwq_limit_find(&plant->busy, &plant->result, gate);
    assert_int_equal(plant->result.limit.by, by);
    assert_true(aorta_hwq_finding_text(&plant->result, by, &text));
    check_ok(aorta_text_check(&text));
    if (!strstr(text.data, part)) fail_msg("\"%s\" is not in: %s", part, text.data);
    aorta_text_free(&text);
}

static void check_finding(const struct aorta_hwq_result *result, size_t at, const char *part) {
    struct aorta_text text = {0};
    assert_true(at < result->found.count);
    assert_true(aorta_hwq_finding_text(result, result->found.items[at].finding, &text));
    check_ok(aorta_text_check(&text));
    if (!strstr(text.data, part)) fail_msg("\"%s\" is not in: %s", part, text.data);
    aorta_text_free(&text);
}

static void close_plant(struct plant *plant) {
    aorta_arena_free(&plant->busy.memory);
    aorta_hwq_result_free(&plant->result);
}

/* 0–60 and 20–80 side by side, 80–95: 95 of 100 us are busy, on 135 / 95 streams. */
static void test_kernels(void **state) {
    static const struct aorta_span items[] = {{.stream = 0, .start_ns = 0, .end_ns = 60 * US},
                                              {.stream = 1, .start_ns = 20 * US, .end_ns = 80 * US},
                                              {.stream = 0, .start_ns = 85 * US, .end_ns = 100 * US}};
    struct plant plant;
    (void)state;
    open_plant(&plant, 0.100, 0.010, 2);
    add(&plant, items, 3);
    check_limit(&plant, false, AORTA_HWQ_LIMIT_KERNELS,
                "kernels: they run for 95% of the iteration, on 1.42 of 2 streams at once");
    assert_true(fabs(plant.result.limit.busy_ms - 0.095) < 1e-12);
    assert_true(fabs(plant.result.limit.waiting_share - 0.05) < 1e-12);
    close_plant(&plant);
}

/* The stamped pass is slower, as stamps are launched as well: the other pass has no such gap. */
static void test_gaps_of_one_pass_alone_do_not_count(void **state) {
    static const struct aorta_span items[] = {{.stream = 0, .start_ns = 0, .end_ns = 50 * US},
                                              {.stream = 0, .start_ns = 100 * US, .end_ns = 150 * US}};
    struct plant plant;
    (void)state;
    open_plant(&plant, 0.101, 0.010, 1);
    add(&plant, items, 2);
    check_limit(&plant, false, AORTA_HWQ_LIMIT_KERNELS, "kernels: they run for 99% of the iteration");
    close_plant(&plant);
}

static void test_waiting(void **state) {
    static const struct aorta_span items[] = {{.stream = 0, .start_ns = 0, .end_ns = 50 * US},
                                              {.stream = 1, .start_ns = 150 * US, .end_ns = 200 * US}};
    struct plant plant;
    (void)state;
    open_plant(&plant, 0.200, 0.010, 2);
    add(&plant, items, 2);
    plant.result.switch_latency.inter_source = "workload";
    plant.result.switch_latency.inter_samples = 1;
    check_limit(&plant, false, AORTA_HWQ_LIMIT_WAITING,
                "waiting: 0.200 ms -> 0.100 ms per iteration without it (-50%)");
    plant.result.switch_latency.host.inter_samples = 3;
    check_limit(&plant, false, AORTA_HWQ_LIMIT_WAITING, "(-50%)");
    assert_true(fabs(plant.result.limit.host_gap_share - 0.75) < 1e-12);
    close_plant(&plant);
}

static void test_the_host(void **state) {
    static const struct aorta_span items[] = {
        {.stream = 0, .start_ns = 0, .end_ns = 20 * US},
        {.stream = 1, .kind = AORTA_SPAN_HOST, .start_ns = 15 * US, .end_ns = 95 * US}, /* 75 of them alone */
        {.stream = 0, .start_ns = 96 * US, .end_ns = 100 * US}};
    struct plant plant;
    (void)state;
    open_plant(&plant, 0.100, 0.099, 2);
    add(&plant, items, 3);
    check_limit(&plant, false, AORTA_HWQ_LIMIT_HOST_WORK,
                "host work: 0.100 ms -> 0.0250 ms per iteration if the device works meanwhile (-75%)");
    close_plant(&plant);

    open_plant(&plant, 0.100, 0.099, 2);
    aorta_hwq_result_figure(&plant.result, "host_us_per_launch", "us", 2.5, NULL);
    const struct aorta_span late[] = {items[0], items[2]};
    add(&plant, late, 2);
    check_limit(&plant, false, AORTA_HWQ_LIMIT_LAUNCHES,
                "launches: queueing takes 99% of the iteration, 2.5 us per launch");
    check_limit(&plant, true, AORTA_HWQ_LIMIT_WAITING, "(-76%)"); /* with a gate */
    close_plant(&plant);

    /* Launches of marks belong to the marked work: where the host is late it seems to last. */
    for (int marked = 0; marked < 2; marked++) {
        const struct aorta_span slow_one = {.stream = 0, .marked = marked, .start_ns = 0, .end_ns = 130 * US};
        open_plant(&plant, 0.100, 0.070, 2);
        add(&plant, &slow_one, 1);
        if (marked) check_limit(&plant, false, AORTA_HWQ_LIMIT_UNKNOWN, "0.130 ms of work per iteration of 0.100 ms");
        check_limit(&plant, marked, AORTA_HWQ_LIMIT_KERNELS, "run for 100%"); /* with a gate */
        close_plant(&plant);
        const struct aorta_span long_one = {.stream = 0, .marked = marked, .start_ns = 0, .end_ns = 120 * US};
        open_plant(&plant, 0.100, 0.099, 2);
        add(&plant, &long_one, 1);
        check_limit(&plant, false, marked ? AORTA_HWQ_LIMIT_LAUNCHES : AORTA_HWQ_LIMIT_KERNELS,
                    marked ? "takes 99%" : "run for 100%");
        close_plant(&plant);
    }
}

static void test_long_iterations_are_fewer(void **state) {
    struct aorta_hwq_result result = {.latency_ms = {.p50 = 10.0}};
    (void)state;
    assert_int_equal(aorta_hwq_result_iterations(&result, 2000, 20), 20);
    assert_int_equal(aorta_hwq_result_iterations(&result, 100, 20), 10);
    result.latency_ms.p50 = 853.0;
    assert_int_equal(aorta_hwq_result_iterations(&result, 2000, 20), 3);
    result.latency_ms.p50 = NAN;
    assert_int_equal(aorta_hwq_result_iterations(&result, 2000, 20), 20);
}

static void test_drift(void **state) {
    double times[40];
    struct aorta_hwq_result result = {.iteration_times_ms = times, .iteration_count = 40};
    (void)state;
    for (int i = 0; i < 40; i++) times[i] = i < 30 ? 10.0 : 10.4;
    aorta_hwq_find_drift(&result);
    assert_int_equal(result.found.count, 0);
    for (int i = 25; i < 40; i++) times[i] = 11.5;
    aorta_hwq_find_drift(&result);
    assert_int_equal(result.found.count, 1);
    check_finding(&result, 0, "slower: 10.0 ms in the first quarter, 11.5 ms in the last (+15%)");
    result.iteration_count = 19; /* too few for a finding */
    aorta_hwq_find_drift(&result);
    for (int i = 0; i < 10; i++) times[i] = 20.0;
    result.iteration_count = 20;
    aorta_hwq_find_drift(&result);
    assert_int_equal(result.found.count, 2);
    check_finding(&result, 1, "faster");
    aorta_hwq_result_free(&result);
}

/* Why iterations become slower, from readings of the clock: nothing read, one, several. */
static void test_drift_by_the_clock(void **state) {
    static const struct {
        double mhz[3]; /* 0: not read */
        unsigned limits;
        bool low;
        const char *why;
    } rows[] = {
        {{0, 0, 0}, 0, false, "(+20%): power or heat limits, or other work on the machine"},
        {{1980, 0, 0}, 0, false, "(+20%): power or heat limits, or other work on the machine"},
        {{1980, 1980, 1975}, 0, false, "(+20%): other work on the machine, as its clock is 1975 MHz or more"},
        {{1980, 1700, 1600}, 0, true, "(+20%): its clock fell from 1980 MHz to 1600 MHz"},
        {{1500, 1500, 1500}, 1U << AORTA_CLOCK_POWER_CAP, true, "(+20%): the device was at the power limit in 3 of 3"},
        {{1500, 0, 0}, 0, true, "(+20%): its clock is low"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct aorta_device_metrics values[3];
        struct aorta_clock_sample samples[3];
        double times[20];
        size_t count = 0;
        struct aorta_hwq_result result = {.iteration_times_ms = times, .iteration_count = 20};
        for (int j = 0; j < 20; j++) times[j] = j < 10 ? 10.0 : 12.0;
        for (; count < 3 && rows[i].mhz[count] > 0; count++) {
            values[count] = aorta_device_unmeasured("");
            values[count].sm_clock_mhz = rows[i].mhz[count], values[count].sm_clock_max_mhz = 1980;
            values[count].clock_limits_known = true, values[count].clock_limits = rows[i].limits;
            samples[count] = (struct aorta_clock_sample){&values[count], (int64_t)count, true};
        }
        check_ok(aorta_clocks_make(samples, count, &result.clocks));
        aorta_hwq_find_low_clocks(&result);
        assert_int_equal(result.found.count, rows[i].low);
        if (rows[i].low) check_finding(&result, 0, "the device's clock was low, 1");
        aorta_hwq_find_drift(&result);
        check_finding(&result, result.found.count - 1, rows[i].why);
        aorta_hwq_result_free(&result);
    }
}

static void test_gaps(void **state) {
    static const struct aorta_span items[] = {{.stream = 0, .start_ns = 0, .end_ns = 10 * US},
                                              {.stream = 1, .start_ns = 8 * US, .end_ns = 18 * US},
                                              {.stream = 0, .start_ns = 17 * US, .end_ns = 27 * US},
                                              {.stream = 1, .start_ns = 25 * US, .end_ns = 35 * US}};
    struct plant plant;
    (void)state;
    open_plant(&plant, 0.035, 0.001, 2);
    add(&plant, items, 4);
    plant.result.switch_latency =
        (struct aorta_hwq_switch){.intra_gap_ms = 0.007, .intra_samples = 10, .intra_source = "workload"};
    check_limit(&plant, false, AORTA_HWQ_LIMIT_GAPS, "gaps on each stream: 7.00 us after each kernel of 10.0 us");
    plant.result.switch_latency.intra_source = "probe";
    check_limit(&plant, false, AORTA_HWQ_LIMIT_KERNELS, "run for 100% of the iteration");
    close_plant(&plant);
}

static void test_nothing_was_stamped(void **state) {
    struct plant plant;
    struct aorta_json json;
    struct aorta_text text = {0};
    (void)state;
    open_plant(&plant, 0.1, 0.01, 2);
    check_limit(&plant, false, AORTA_HWQ_LIMIT_UNSTAMPED, "no kernel has timestamps");
    aorta_json_begin(&json, &text, 0);
    aorta_hwq_limit_json(&plant.result, &json);
    assert_non_null(strstr(text.data, "\"by\": null"));
    assert_non_null(strstr(text.data, "\"busy_ms\": null"));
    aorta_text_free(&text);
    close_plant(&plant);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernels),
        cmocka_unit_test(test_gaps_of_one_pass_alone_do_not_count),
        cmocka_unit_test(test_waiting),
        cmocka_unit_test(test_the_host),
        cmocka_unit_test(test_gaps),
        cmocka_unit_test(test_nothing_was_stamped),
        cmocka_unit_test(test_drift),
        cmocka_unit_test(test_drift_by_the_clock),
        cmocka_unit_test(test_long_iterations_are_fewer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
