/* Samples of the clock while iterations are timed, by the fake NVML; on a CPU there are none. FAKES is the folder of
 * the fake libraries. */
#include "check.h"
#include "hwq/iterations.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct aorta_clocks watch_for(enum aorta_device_kind kind, unsigned us) {
    struct aorta_device *device;
    struct aorta_hwq_clock_sampler *sampler;
    struct aorta_clocks clocks;
    check_ok(aorta_device_open(kind, 0, &device));
    check_ok(aorta_hwq_clock_sampler_begin(device, &sampler));
    usleep(us);
    check_ok(aorta_hwq_clock_sampler_end(sampler, &clocks));
    aorta_hwq_clock_sampler_close(sampler);
    aorta_device_close(device);
    return clocks;
}

/* Readings before and after the work, regardless of its length; the reading before is not part of it. */
static void short_work(void **state) {
    (void)state;
    setenv("FAKE_NVML_CLOCK", "1410", 1);
    setenv("FAKE_NVML_REASONS", "1", 1); /* idle: at the end it is always */
    setenv("FAKE_NVML_POWER_SHARE", "0.5", 1);
    struct aorta_clocks clocks = watch_for(AORTA_DEVICE_CUDA, 220000);
    assert_int_equal(clocks.readings, 1);
    assert_int_equal(clocks.limit_readings, 0);
    assert_true(clocks.mhz.p50 == 1410 && fabs(clocks.power_share - 0.5) < 0.1);
    assert_true(isfinite(clocks.counted_ms) && clocks.thermal_share == 0);
    setenv("FAKE_NVML_REASONS", "4", 1);
    clocks = watch_for(AORTA_DEVICE_CUDA, 0);
    assert_true(clocks.limit_readings == 1 && clocks.limited[AORTA_CLOCK_POWER_CAP] == 1);
    assert_true(isnan(clocks.power_share));
}

static void long_work(void **state) {
    (void)state;
    struct aorta_clocks clocks = watch_for(AORTA_DEVICE_CUDA, 1200000);
    assert_in_range(clocks.readings, 2, 3); /* one may be late */
}

static void nothing_to_read(void **state) {
    (void)state;
    struct aorta_clocks clocks = watch_for(AORTA_DEVICE_CPU, 0);
    assert_int_equal(clocks.readings, 0);
    assert_string_equal(clocks.reason, "not measured on the cpu device");
}

/* Ended by an error in between. */
static void closing_ends_it(void **state) {
    (void)state;
    struct aorta_device *device;
    struct aorta_hwq_clock_sampler *sampler;
    check_ok(aorta_device_open(AORTA_DEVICE_CUDA, 0, &device));
    check_ok(aorta_hwq_clock_sampler_begin(device, &sampler));
    aorta_hwq_clock_sampler_close(sampler);
    aorta_hwq_clock_sampler_close(NULL);
    aorta_device_close(device);
}

int main(void) {
    setenv("AORTA_LIBRARY_PATH", FAKES, 1);
    setenv("AORTA_CACHE_DIR", CACHE, 1);
    setenv("FAKE_GPU_KERNELS", "ignore", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_work),
        cmocka_unit_test(long_work),
        cmocka_unit_test(nothing_to_read),
        cmocka_unit_test(closing_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
