/* Which readings of the clock lines get: those that were begun while measured steps ran, one in a second. The fake NVML
 * is slow here, so that lines are written before a reading arrives. FAKE_GPU is the folder of the fake libraries. */
#include "check.h"
#include "measure/metrics.h"
#include "train/train_internal.h"

#include <stdlib.h>
#include <string.h>

enum { STEPS = 40, MEASURED = 4 }; /* the second of the steps that are measured */

struct rig {
    struct aorta_train_options options;
    struct aorta_log log;
    struct aorta_train_context context;
    struct aorta_readings readings;
};

static void open_rig(struct rig *rig, enum aorta_device_kind kind) {
    const struct aorta_train_run run = {.options = &rig->options};
    *rig = (struct rig){.log = {.level = AORTA_LOG_ERROR}};
    rig->options.training.log_interval = 10;
    rig->context.options = &rig->options;
    rig->context.log = &rig->log;
    check_ok(aorta_device_open(kind, 0, &rig->context.device));
    check_ok(aorta_readings_open(&run, &rig->context, &rig->readings));
    aorta_readings_expect(&rig->readings, STEPS);
}

static void close_rig(struct rig *rig) {
    aorta_readings_close(&rig->readings);
    aorta_device_close(rig->context.device);
}

static struct aorta_device_reading report(struct rig *rig, bool last) {
    struct aorta_step_readings step = {0};
    aorta_readings_report(&rig->readings, last, &step);
    assert_false(step.device_metrics.wanted || step.rocm_smi_output.wanted);
    return step.clocks;
}

static void a_reading_of_measured_steps(void **state) {
    (void)state;
    struct rig rig;
    setenv("FAKE_NVML_DELAY", "30000", 1); /* for each of two clocks */
    open_rig(&rig, AORTA_DEVICE_CUDA);
    aorta_sampler_drain(rig.readings.sampler); /* the device is at rest: there are readings, and they do not count */
    assert_true(aorta_sampler_latest(rig.readings.sampler).at_ns > 0);
    for (int64_t step = 0; step < MEASURED; step++) {
        aorta_readings_step(&rig.readings, step);
        assert_false(report(&rig, false).wanted);
    }
    aorta_readings_step(&rig.readings, MEASURED); /* asks; the reading has not arrived yet */
    assert_false(report(&rig, false).wanted);
    aorta_sampler_drain(rig.readings.sampler);
    struct aorta_device_reading first = report(&rig, false);
    assert_true(first.wanted && first.values.sm_clock_mhz == 1980);
    assert_false(report(&rig, false).wanted);         /* reported once */
    aorta_readings_step(&rig.readings, MEASURED + 1); /* too soon for another */
    aorta_sampler_drain(rig.readings.sampler);
    assert_false(report(&rig, false).wanted);
    aorta_readings_step(&rig.readings, STEPS - 1); /* the last one is read in any case, and waited for */
    struct aorta_device_reading last = report(&rig, true);
    assert_true(last.wanted && last.at_ns > first.at_ns);
    close_rig(&rig);
    unsetenv("FAKE_NVML_DELAY");
}

/* The reason goes into one line. */
static void a_library_without_symbols(void **state) {
    (void)state;
    struct rig rig;
    setenv("AORTA_LIBRARY_PATH", EMPTY_NVML ":" FAKE_GPU, 1);
    open_rig(&rig, AORTA_DEVICE_CUDA);
    aorta_readings_step(&rig.readings, MEASURED);
    struct aorta_device_reading reading = report(&rig, true);
    assert_true(reading.wanted && strstr(reading.values.reason, "libnvidia-ml.so.1"));
    aorta_readings_step(&rig.readings, MEASURED + 1);
    assert_false(report(&rig, true).wanted);
    close_rig(&rig);
    setenv("AORTA_LIBRARY_PATH", FAKE_GPU, 1);
}

static void a_cpu_is_not_read(void **state) {
    (void)state;
    struct rig rig;
    open_rig(&rig, AORTA_DEVICE_CPU);
    assert_null(rig.readings.sampler);
    aorta_readings_step(&rig.readings, MEASURED);
    assert_false(report(&rig, true).wanted);
    close_rig(&rig);
}

int main(void) {
    setenv("AORTA_LIBRARY_PATH", FAKE_GPU, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reading_of_measured_steps),
        cmocka_unit_test(a_library_without_symbols),
        cmocka_unit_test(a_cpu_is_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
