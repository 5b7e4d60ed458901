/* Figures and sentences made of a clock's readings, from planted readings. */
#include "check.h"
#include "measure/clocks.h"

#include <math.h>
#include <string.h>

enum { MOST = 16 };

#define BIT(limit) (1U << AORTA_CLOCK_##limit)

/* A second between readings. */
struct plant {
    struct aorta_device_metrics values[MOST];
    struct aorta_clock_sample samples[MOST];
    size_t count;
};

static struct aorta_device_metrics *add(struct plant *plant, double mhz, unsigned limits) {
    struct aorta_device_metrics *values = &plant->values[plant->count];
    *values = aorta_device_unmeasured("");
    values->sm_clock_mhz = mhz, values->sm_clock_max_mhz = 1980;
    values->power_w = 690 + (double)plant->count, values->power_limit_w = 700;
    values->clock_limits_known = true, values->clock_limits = limits;
    plant->samples[plant->count] = (struct aorta_clock_sample){values, (int64_t)plant->count * 1000000000, true};
    plant->count++;
    return values;
}

static struct aorta_clocks made_of(const struct plant *plant) {
    struct aorta_clocks clocks;
    check_ok(aorta_clocks_make(plant->samples, plant->count, &clocks));
    return clocks;
}

static void check_cause(const struct aorta_clocks *clocks, const char *figures, const char *begin) {
    struct aorta_text text = {0};
    aorta_clocks_figures(clocks, &text);
    aorta_text_puts(&text, "; ");
    aorta_clocks_cause(clocks, &text);
    check_ok(aorta_text_check(&text));
    const char *cause = strstr(text.data, "; ") + 2;
    if (strncmp(text.data, figures, strlen(figures)) != 0 || strncmp(cause, begin, strlen(begin)) != 0)
        fail_msg("not \"%s; %s\" but: %s", figures, begin, text.data);
    aorta_text_free(&text);
}

static void check_json(const struct aorta_clocks *clocks, const char *expected) {
    struct aorta_text text = {0};
    struct aorta_json json;
    aorta_json_begin(&json, &text, 0);
    aorta_json_object(&json);
    aorta_clocks_json(clocks, &json);
    aorta_json_object_end(&json);
    check_ok(aorta_text_check(&text));
    if (!strstr(text.data, expected)) fail_msg("\"%s\" is not in: %s", expected, text.data);
    aorta_text_free(&text);
}

static void the_clock_at_its_maximum(void **state) {
    (void)state;
    struct plant plant = {0};
    for (int i = 0; i < 3; i++) add(&plant, i ? 1980 : 1500, BIT(POWER_CAP));
    struct aorta_clocks clocks = made_of(&plant);
    assert_true(!aorta_clocks_low(&clocks) && clocks.readings == 3 && clocks.mhz.p50 == 1980);
    check_json(&clocks,
               "\"readings\": 3, \"sm_clock_mhz\": {\"p50\": 1980.0, \"min\": 1500.0, \"max\": 1980.0}, "
               "\"sm_clock_max_mhz\": 1980.0, \"power_w\": 691.0, \"power_limit_w\": 700.0, \"counted_ms\": null");
    check_json(&clocks, "\"limited_by\": [{\"limit\": \"power_cap\", \"share\": 1.0, \"of\": \"readings\"}]");
    check_json(&clocks, "\"text\": null");
    for (size_t i = 0; i < 3; i++) plant.values[i].sm_clock_mhz = 1921;
    clocks = made_of(&plant);
    assert_false(aorta_clocks_low(&clocks)); /* 97.02% */
    for (size_t i = 0; i < 3; i++) plant.values[i].sm_clock_mhz = 1920;
    clocks = made_of(&plant);
    assert_true(aorta_clocks_low(&clocks));
}

/* Each limit alone in two of three readings; the gravest of several that hold as often. */
static void every_limit_has_words(void **state) {
    (void)state;
    static const struct {
        unsigned limits;
        const char *words;
    } rows[] = {
        {BIT(POWER_CAP), "at the power limit (691 of 700 W) in 2 of 3 readings: kernels side by side share the power"},
        {BIT(SW_THERMAL), "slowed down by the driver for heat in 2 of 3 readings: better cooling"},
        {BIT(HW_THERMAL) | BIT(HW_SLOWDOWN), "slowed down by the hardware for heat in 2 of 3 readings: its cooling"},
        {BIT(POWER_BRAKE) | BIT(HW_SLOWDOWN), "limited by the machine's power brake in 2 of 3 readings: the mach"},
        {BIT(HW_SLOWDOWN), "slowed down by the hardware in 2 of 3 readings: for heat"},
        {BIT(APPLICATIONS), "limited by applications clocks that somebody set in 2 of 3 readings: nvidia-smi -q"},
        {BIT(SYNC_BOOST), "equal to the slowest device of its sync boost group in 2 of 3 readings: that"},
        {BIT(DISPLAY), "limited by the display's clock setting in 2 of 3 readings: a device"},
        {BIT(IDLE), "let down because little ran in 2 of 3 readings: a busier"},
        {0, "the driver names no reason: the clock may be locked (nvidia-smi -q -d CLOCK"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct plant plant = {0};
        add(&plant, 1410, 0);
        add(&plant, 1420, rows[i].limits);
        add(&plant, 1430, rows[i].limits);
        struct aorta_clocks clocks = made_of(&plant);
        check_cause(&clocks, "1420 of 1980 MHz (72%)", rows[i].words);
    }
}

static void limits_are_read_as_they_are_written(void **state) {
    (void)state;
    struct aorta_texts strings = {0};
    for (unsigned active = 0; active <= 1U << AORTA_CLOCK_LIMITS; active++) {
        const bool other = active == 1U << AORTA_CLOCK_LIMITS;
        struct aorta_device_metrics values = {0};
        struct aorta_text text = {0};
        struct aorta_json json;
        aorta_json_begin(&json, &text, 0);
        if (other)
            aorta_text_puts(&text, "[\"boredom\"]");
        else
            aorta_clock_limits_json(&(struct aorta_device_metrics){.clock_limits_known = true, .clock_limits = active},
                                    &json);
        const struct aorta_json_value list = {text.data, text.length};
        struct aorta_rows_reader reader = {.line = text.data, .strings = &strings};
        check_ok(aorta_clock_limits_read(&reader, &list, "limited_by", &values));
        assert_int_equal(values.clock_limits_known, !other);
        assert_int_equal(values.clock_limits, other ? 0 : active);
        aorta_text_free(&reader.scratch);
        aorta_text_free(&text);
    }
    aorta_texts_free(&strings);
}

/* The counters went on for 0.9 of 3 s and 0.6 of 3 s, for any single readings. */
static void counters_count_for_more_than_moments(void **state) {
    (void)state;
    struct plant plant = {0};
    for (int i = 0; i < 4; i++) {
        struct aorta_device_metrics *values = add(&plant, 1500, i ? 0 : BIT(POWER_CAP));
        values->power_capped_ms = 1e9 + 300 * i;
        values->thermal_capped_ms = 200 * i;
    }
    struct aorta_clocks clocks = made_of(&plant);
    assert_true(fabs(clocks.power_share - 0.3) < 1e-9 && fabs(clocks.thermal_share - 0.2) < 1e-9);
    assert_true(clocks.counted_ms == 3000);
    check_cause(&clocks, "1500 of 1980 MHz (76%)", "at the power limit (692 of 700 W) 30% of the time: ");
    assert_false(aorta_clocks_at_power_limit(&clocks)); /* not most of it */
    for (size_t i = 0; i < 4; i++) plant.values[i].thermal_capped_ms = 900 * (double)i;
    clocks = made_of(&plant);
    check_cause(&clocks, "1500", "slowed down by the driver for heat 90% of the time: ");
    plant.values[2].clock_limits = BIT(HW_THERMAL);
    clocks = made_of(&plant);
    check_cause(&clocks, "1500", "slowed down by the hardware for heat 90% of the time: ");
    check_json(&clocks, "{\"limit\": \"hw_thermal\", \"share\": 0.9, \"of\": \"time\"}");
}

/* Counters that do not move although the limit was seen, that ran backwards (a new driver), over a time too short. */
static void counters_that_do_not_change(void **state) {
    (void)state;
    struct plant plant = {0};
    for (int i = 0; i < 3; i++) add(&plant, 1500, BIT(POWER_CAP))->power_capped_ms = 7;
    struct aorta_clocks clocks = made_of(&plant);
    assert_true(clocks.power_share == 0);
    check_cause(&clocks, "1500", "at the power limit (691 of 700 W) in 3 of 3 readings: ");
    plant.values[2].power_capped_ms = 6;
    clocks = made_of(&plant);
    assert_true(isnan(clocks.power_share));
    plant.values[2].power_capped_ms = 1000;
    for (size_t i = 0; i < 3; i++) plant.samples[i].at_ns = (int64_t)i * 90000000;
    clocks = made_of(&plant);
    assert_true(isnan(clocks.power_share) && isnan(clocks.counted_ms));
    plant.samples[2].at_ns = 300000000; /* and a reading after the second half */
    clocks = made_of(&plant);
    assert_true(clocks.power_share == 1);
    assert_true(aorta_clocks_at_power_limit(&clocks));
}

/* A mean over the last second is not yet the power of a short run. */
static void power_far_from_its_limit(void **state) {
    (void)state;
    static const struct {
        double watts, limit;
        const char *words;
    } rows[] = {{630, 700, "at the power limit (630 of 700 W) in 1 of"},
                {629, 700, "at the power limit (700 W) in 1 of"},
                {NAN, 700, "at the power limit (700 W) in 1 of"},
                {629, NAN, "at the power limit in 1 of"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct plant plant = {0};
        struct aorta_device_metrics *values = add(&plant, 1500, BIT(POWER_CAP));
        values->power_w = rows[i].watts, values->power_limit_w = rows[i].limit;
        struct aorta_clocks clocks = made_of(&plant);
        check_cause(&clocks, "1500", rows[i].words);
    }
}

/* Only counters cover the time before and after the work; without a reading of the clock there is only a reason. */
static void readings_beside_the_work(void **state) {
    (void)state;
    struct plant plant = {0};
    add(&plant, 345, BIT(IDLE))->power_capped_ms = 0;
    plant.samples[0].working = false;
    add(&plant, 1500, 0)->power_capped_ms = 500;
    struct aorta_clocks clocks = made_of(&plant);
    assert_true(clocks.readings == 1 && clocks.mhz.min == 1500 && clocks.power_share == 0.5);
    plant.count = 1;
    clocks = made_of(&plant);
    assert_true(clocks.readings == 0 && !aorta_clocks_low(&clocks));
    check_json(&clocks, "{\"clocks\": null, \"clocks_reason\": \"the clock was not read while measured work ran\"}");
    plant.values[0] = aorta_device_unmeasured("no library");
    plant.samples[0].working = true;
    clocks = made_of(&plant);
    check_json(&clocks, "{\"clocks\": null, \"clocks_reason\": \"no library\"}");
}

/* An old driver: neither a maximum nor reasons. ROCm SMI: no reasons. */
static void drivers_that_report_less(void **state) {
    (void)state;
    struct plant plant = {0};
    struct aorta_device_metrics *values = add(&plant, 1500, 0);
    values->clock_limits_known = false;
    struct aorta_clocks clocks = made_of(&plant);
    check_cause(&clocks, "1500 of 1980 MHz (76%)", "the driver does not report why");
    check_json(&clocks,
               "\"limited_by\": null, \"limited_by_reason\": \"the driver does not report why a clock is low\"");
    values->sm_clock_max_mhz = values->power_w = values->power_limit_w = NAN;
    clocks = made_of(&plant);
    assert_false(aorta_clocks_low(&clocks));
    check_json(&clocks, "\"sm_clock_max_mhz\": null, \"sm_clock_max_reason\": \"the driver does not report it of this "
                        "device\", \"power_w\": null, \"power_reason\": ");
}

/* A library in a long path: its name and what is wrong with it stay. */
static void a_long_path_leaves_the_reason(void **state) {
    (void)state;
    char reason[600], folder[300];
    memset(folder, 'f', sizeof folder);
    snprintf(reason, sizeof reason, "clocks of the GPUs: /%.*s/libnvidia-ml.so.1 is too old", (int)sizeof folder,
             folder);
    assert_string_equal(aorta_device_unmeasured(reason).reason, "clocks of the GPUs: …/libnvidia-ml.so.1 is too old");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_are_read_as_they_are_written),
        cmocka_unit_test(a_long_path_leaves_the_reason),
        cmocka_unit_test(the_clock_at_its_maximum),
        cmocka_unit_test(every_limit_has_words),
        cmocka_unit_test(counters_count_for_more_than_moments),
        cmocka_unit_test(counters_that_do_not_change),
        cmocka_unit_test(power_far_from_its_limit),
        cmocka_unit_test(readings_beside_the_work),
        cmocka_unit_test(drivers_that_report_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
