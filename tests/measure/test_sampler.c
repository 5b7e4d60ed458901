/* Readings of a device during the work: by the fake NVML, whose device has no utilization, and of the CPU, which has
 * none. FAKE_GPU is the folder of the fake libraries. */
#include "base/clock.h"
#include "base/text.h"
#include "check.h"
#include "measure/clocks.h"
#include "measure/metrics.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

static struct aorta_device *open_device(enum aorta_device_kind kind) {
    struct aorta_device *device;
    check_ok(aorta_device_open(kind, 0, &device));
    return device;
}

static void readings_of_a_gpu(void **state) {
    (void)state;
    struct aorta_device *device = open_device(AORTA_DEVICE_CUDA);
    struct aorta_sampler *sampler;
    check_ok(aorta_sampler_open(device, true, 3, &sampler));
    struct aorta_device_reading first = aorta_sampler_latest(sampler);
    assert_true(first.wanted && first.values.temperature_c == 41 && first.values.power_w == 123.5);
    assert_true(isnan(first.values.utilization));
    assert_true(first.read_ms >= 0 && first.age_ms >= 0);
    usleep(30000);
    double age_ms = aorta_sampler_latest(sampler).age_ms;
    int64_t first_ns = aorta_clock_ns() - (int64_t)(age_ms * 1e6); /* when it was made, at the latest */
    assert_true(age_ms >= 30);                                     /* unasked there is no other */
    for (int64_t end = aorta_clock_ns() + 60000000000, made_ns = 0; made_ns <= first_ns; usleep(1000)) {
        aorta_sampler_ask(sampler, AORTA_ASK_IF_QUICK);
        int64_t now_ns = aorta_clock_ns();
        made_ns = now_ns - (int64_t)(aorta_sampler_latest(sampler).age_ms * 1e6); /* at the earliest */
        assert_true(now_ns < end);
    }
    aorta_sampler_ask(sampler, AORTA_ASK_IF_QUICK); /* closing does not wait for what is asked */
    aorta_sampler_close(sampler);
    aorta_device_close(device);
}

/* The thread opens the library; what is insisted on comes, however long readings take, and is waited for. */
static void readings_in_the_background(void **state) {
    (void)state;
    struct aorta_device *device = open_device(AORTA_DEVICE_CUDA);
    struct aorta_sampler *sampler;
    setenv("FAKE_NVML_DELAY", "300", 1);
    check_ok(aorta_sampler_open(device, false, INT64_MAX, &sampler));
    aorta_sampler_ask(sampler, AORTA_ASK_ALWAYS);
    int64_t asked_ns;
    aorta_sampler_drain(sampler);
    struct aorta_device_reading first = aorta_sampler_latest(sampler);
    assert_true(first.wanted && first.values.sm_clock_mhz == 1980 && first.at_ns > 0);
    for (int i = 0; i < 50; i++) {
        asked_ns = aorta_clock_ns();
        aorta_sampler_ask(sampler, AORTA_ASK_ALWAYS);
        aorta_sampler_drain(sampler);
        struct aorta_device_reading reading = aorta_sampler_latest(sampler);
        assert_true(reading.at_ns - (int64_t)(reading.read_ms * 1e6) + 1 >= asked_ns);
    }
    int64_t reported_ns = aorta_sampler_latest(sampler).at_ns;
    aorta_sampler_ask(sampler, AORTA_ASK_IF_QUICK); /* it asks for no reading that takes so long */
    aorta_sampler_drain(sampler);
    assert_true(aorta_sampler_latest(sampler).at_ns == reported_ns);
    unsetenv("FAKE_NVML_DELAY");
    aorta_sampler_close(sampler);
    aorta_device_close(device);
    device = open_device(AORTA_DEVICE_CPU); /* has no readings: the thread ends, and nobody waits for it */
    check_ok(aorta_sampler_open(device, false, 1, &sampler));
    aorta_sampler_ask(sampler, AORTA_ASK_ALWAYS);
    aorta_sampler_drain(sampler);
    assert_string_equal(aorta_sampler_latest(sampler).values.reason, "not measured on the cpu device");
    aorta_sampler_ask(sampler, AORTA_ASK_ALWAYS);
    aorta_sampler_drain(sampler);
    aorta_sampler_close(sampler);
    aorta_device_close(device);
}

static void readings_of_a_cpu(void **state) {
    (void)state;
    struct aorta_device *device = open_device(AORTA_DEVICE_CPU);
    struct aorta_sampler *sampler;
    check_ok(aorta_sampler_open(device, true, 1, &sampler));
    aorta_sampler_ask(sampler, AORTA_ASK_IF_QUICK);
    struct aorta_device_reading reading = aorta_sampler_latest(sampler);
    assert_true(reading.wanted && isnan(reading.values.power_w));
    assert_string_equal(reading.values.reason, "not measured on the cpu device");
    aorta_sampler_close(sampler);
    aorta_sampler_close(NULL);
    aorta_device_close(device);
}

static void check_line(const struct aorta_step_metrics *metrics, const char *part, bool there) {
    struct aorta_text text = {0};
    check_ok(aorta_metrics_format(metrics, &text));
    if ((strstr(text.data, part) != NULL) != there) fail_msg("%s in %s", part, text.data);
    aorta_text_free(&text);
}

static void readings_in_lines(void **state) {
    (void)state;
    struct aorta_step_metrics metrics = {.world_size = 1, .loss_scale = NAN};
    check_line(&metrics, "device_metrics", false);
    check_line(&metrics, "rocm_smi_output", false);
    struct aorta_step_readings readings = {0};
    metrics.readings = &readings;
    check_line(&metrics, "device_metrics", false);
    struct aorta_device_metrics some = aorta_device_unmeasured("no power");
    some.temperature_c = 41, some.sm_clock_mhz = 1545, some.sm_clock_max_mhz = 1980;
    some.utilization = 0.25, some.memory_used_bytes = 12345678;
    some.clock_limits_known = true, some.clock_limits = 1U << AORTA_CLOCK_HW_THERMAL | 1U << AORTA_CLOCK_POWER_CAP;
    readings.device_metrics =
        (struct aorta_device_reading){.wanted = true, .values = some, .age_ms = 1.5, .read_ms = 0.25};
    readings.rocm_smi_output =
        (struct aorta_device_reading){.wanted = true, .values = aorta_device_unmeasured("no AMD here")};
    check_line(
        &metrics,
        "\"device_metrics\": {\"temperature_c\": 41.0, \"power_w\": null, \"sm_clock_mhz\": 1545.0, "
        "\"memory_clock_mhz\": null, \"memory_used_bytes\": 12345678.0, \"utilization\": 0.25, "
        "\"sm_clock_max_mhz\": 1980.0, \"power_limit_w\": null, \"clock_limited_by\": [\"power_cap\", "
        "\"hw_thermal\"], \"age_ms\": 1.5, \"read_ms\": 0.25, \"null_reasons\": {\"power_w\": \"the driver does "
        "not report it of this device\", \"memory_clock_mhz\": \"the driver does not report it of this device\", "
        "\"power_limit_w\": \"the driver does not report it of this device\"}}",
        true);
    check_line(&metrics, "\"rocm_smi_output\": null", true);
    check_line(&metrics, "\"clocks\"", false);
    readings.clocks = readings.device_metrics;
    readings.clocks.at_ns = 5000000123;
    readings.clocks.values.power_capped_ms = 12.5;
    check_line(&metrics,
               "\"clocks\": {\"sm_clock_mhz\": 1545.0, \"sm_clock_max_mhz\": 1980.0, \"power_w\": null, "
               "\"power_limit_w\": null, \"power_capped_ms\": 12.5, \"thermal_capped_ms\": null, \"limited_by\": "
               "[\"power_cap\", \"hw_thermal\"], \"at_ns\": 5000000123, \"null_reasons\": {\"power_w\": ",
               true);
    readings.clocks = readings.rocm_smi_output;
    check_line(&metrics, "\"clocks\": \"no AMD here\"", true);
    check_line(&metrics, "\"rocm_smi_output\": \"no AMD here\"", true);
}

int main(void) {
    setenv("AORTA_LIBRARY_PATH", FAKE_GPU, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readings_of_a_gpu),
        cmocka_unit_test(readings_in_the_background),
        cmocka_unit_test(readings_of_a_cpu),
        cmocka_unit_test(readings_in_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
