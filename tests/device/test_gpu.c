/* The GPU driver on the fake CUDA: opening it and what it says when something is missing, what it reports of devices
 * and their machine, what belongs to a device. Its other themes are in test_gpu_*.c. */
#include "device/gpu_rig.h"
#include "device/inventory.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- opening ---- */

static void test_the_device_describes_itself(void **state) {
    (void)state;
    control()->set_devices(2);
    struct aorta_device *device;
    check_ok(aorta_device_open(AORTA_DEVICE_CUDA, 1, &device));
    const struct aorta_device_info *info = aorta_device_get_info(device);
    assert_int_equal(info->kind, AORTA_DEVICE_CUDA);
    assert_int_equal(info->index, 1);
    assert_string_equal(info->name, "Fake GPU 1");
    assert_string_equal(info->isa, "sm_90");
    assert_int_equal(info->multiprocessors, 4);
    assert_int_equal(info->timestamp_tick, 32);
    const struct aorta_gpu_properties *properties = aorta_gpu_get_properties(device);
    assert_int_equal(properties->warp_size, 32);
    assert_int_equal(properties->shared_bytes_per_block, 227 * 1024);
    assert_string_equal(properties->pci_bus_id, "0000:02:00.0");
    assert_true(aorta_device_is_gpu(device));
    assert_true(aorta_device_clock_error_ns(device) > 0);
    aorta_device_close(device);
}

static void test_what_is_missing_is_reported(void **state) {
    (void)state;
    struct aorta_device *device;
    use_libraries("nowhere");
    aorta_status status = aorta_device_open(AORTA_DEVICE_HIP, 0, &device);
    assert_int_equal(aorta_status_code(status), AORTA_UNSUPPORTED);
    assert_non_null(strstr(aorta_status_message(status), "libamdhip64.so"));
    assert_non_null(strstr(aorta_status_message(status), "ROCm"));
    aorta_status_free(status);
    use_libraries("old");
    status = aorta_device_open(AORTA_DEVICE_CUDA, 0, &device);
    assert_int_equal(aorta_status_code(status), AORTA_UNSUPPORTED);
    assert_non_null(strstr(aorta_status_message(status), "old/libcuda.so.1 is too old"));
    assert_non_null(strstr(aorta_status_message(status), "cuGraphInstantiateWithFlags"));
    assert_null(strstr(aorta_status_message(status), "cuFuncLoad")); /* one that it can do without */
    aorta_status_free(status);
}

static void test_a_library_names_all_that_was_tried(void **state) {
    (void)state;
    static const char *const names[] = {"libaorta-none.so.2", "libaorta-none.so", NULL};
    const struct aorta_library_description description = {
        .purpose = "nothing", .names = names, .install = "it is not available"};
    struct aorta_library library;
    setenv("AORTA_LIBRARY_PATH", "/tmp/first::/tmp/second", 1);
    aorta_status status = aorta_library_open(&description, NULL, &library);
    assert_int_equal(aorta_status_code(status), AORTA_UNSUPPORTED);
    assert_string_equal(aorta_status_message(status),
                        "nothing: libaorta-none.so.2 could not be loaded; it is not available");
    const char *const parts[] = {"libaorta-none.so.2: ", "libaorta-none.so:", "/tmp/first", "/tmp/second", "/opt/rocm"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(aorta_status_detail(status), parts[i])) fail_msg("%s: %s", parts[i], aorta_status_detail(status));
    aorta_status_free(status);
}

/* A file that exists and is no library: the detail has the loader's reason. */
static void test_a_broken_library_is_reported(void **state) {
    (void)state;
    static const char *const names[] = {"libspoilt.so", NULL};
    const struct aorta_library_description description = {.purpose = "a spoilt one", .names = names, .install = ""};
    struct aorta_library library;
    char path[1024];
    snprintf(path, sizeof path, "%s/libspoilt.so", cache_folder());
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("no library at all, though long enough to look at", file);
    fclose(file);
    setenv("AORTA_LIBRARY_PATH", cache_folder(), 1);
    aorta_status status = aorta_library_open(&description, NULL, &library);
    assert_non_null(strstr(aorta_status_detail(status), "libspoilt.so: "));
    aorta_status_free(status);
    unlink(path);
}

static void test_no_device_and_too_old(void **state) {
    (void)state;
    struct aorta_device *device;
    control()->set_devices(0);
    setenv("CUDA_VISIBLE_DEVICES", "none of them", 1);
    check_fails(aorta_device_open(AORTA_DEVICE_CUDA, 0, &device), AORTA_UNSUPPORTED,
                "shows no device; CUDA_VISIBLE_DEVICES is \"none of them\"");
    control()->strike("cuInit", 1, 100, 0);
    check_fails(aorta_device_open(AORTA_DEVICE_CUDA, 0, &device), AORTA_UNSUPPORTED, "shows no device");
    control()->strike("cuInit", 1, 999, 0);
    check_fails(aorta_device_open(AORTA_DEVICE_CUDA, 0, &device), AORTA_DEVICE, "text of error 999");
    unsetenv("CUDA_VISIBLE_DEVICES");
    control()->set_devices(3);
    check_fails(aorta_device_open(AORTA_DEVICE_CUDA, 3, &device), AORTA_UNSUPPORTED, "shows 3 devices");
    control()->set_version(11000);
    check_fails(aorta_device_open(AORTA_DEVICE_CUDA, 0, &device), AORTA_DEVICE, "CUDA 11.4");
}

/* A driver that cannot be used is no reason to take the CPU; one that is not there is. */
static void test_a_broken_driver_is_not_passed_over(void **state) {
    (void)state;
    static const struct {
        int result;
        enum aorta_code code;
    } rows[] = {{100, AORTA_OK}, {34, AORTA_OK}, {999, AORTA_DEVICE}, {803, AORTA_DEVICE}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct aorta_device *device = NULL;
        struct aorta_device_warning warning;
        control()->strike("cuInit", 1, rows[i].result, 0);
        aorta_status status = aorta_device_open_best(0, &device, &warning);
        assert_int_equal(aorta_status_code(status), rows[i].code);
        if (status) assert_non_null(strstr(aorta_status_message(status), "device.kind cpu does without"));
        if (!status) assert_int_equal(aorta_device_get_info(device)->kind, AORTA_DEVICE_CPU);
        aorta_status_free(status);
        if (device) aorta_device_close(device);
    }
    struct aorta_device *device;
    struct aorta_device_warning warning;
    control()->set_version(11000);
    check_fails(aorta_device_open_best(0, &device, &warning), AORTA_DEVICE, "too old");
}

static void test_ranks_share_devices(void **state) {
    (void)state;
    struct aorta_device *device;
    struct aorta_device_warning warning;
    control()->set_devices(2);
    check_ok(aorta_device_open_best(1, &device, &warning));
    assert_int_equal(aorta_device_get_info(device)->kind, AORTA_DEVICE_CUDA);
    assert_int_equal(aorta_device_get_info(device)->index, 1);
    assert_string_equal(warning.text, "");
    aorta_device_close(device);
    check_ok(aorta_device_open_local(AORTA_DEVICE_CUDA, 5, &device, &warning));
    assert_int_equal(aorta_device_get_info(device)->index, 1);
    assert_string_equal(warning.text, "local rank 5 shares device cuda:1 with another rank: there are 2 devices");
    aorta_device_close(device);
    control()->set_devices(0);
    check_ok(aorta_device_open_best(3, &device, &warning));
    assert_int_equal(aorta_device_get_info(device)->kind, AORTA_DEVICE_CPU);
    aorta_device_close(device);
    control()->set_devices(1);
    control()->strike("cuStreamCreateWithPriority", 1, 2, 0);
    check_fails(aorta_device_open_best(0, &device, &warning), AORTA_MEMORY, "device.kind cpu");
}

/* ---- metrics and inventory ---- */

static void test_metrics_say_what_is_missing(void **state) {
    (void)state;
    struct aorta_device *device = open_gpu();
    for (int i = 0; i < 2; i++) {
        struct aorta_device_metrics metrics = aorta_device_measure(device);
        assert_true(metrics.temperature_c == 41 && metrics.power_w == 123.5 && metrics.sm_clock_mhz == 1980);
        assert_true(metrics.memory_clock_mhz == 2619 && metrics.memory_used_bytes == 12345678);
        assert_true(isnan(metrics.utilization));
        assert_non_null(strstr(metrics.reason, "utilization"));
    }
    aorta_device_close(device);
    check_ok(aorta_device_open(AORTA_DEVICE_CPU, 0, &device));
    struct aorta_device_metrics none = aorta_device_measure(device);
    assert_true(isnan(none.temperature_c));
    assert_non_null(strstr(none.reason, "cpu"));
    aorta_device_close(device);
}

/* Why a clock is low: by this driver, and by one that is too old to say it. */
static void test_clocks_and_their_limits(void **state) {
    (void)state;
    struct aorta_device *device = open_gpu();
    setenv("FAKE_NVML_CLOCK", "1410", 1);
    setenv("FAKE_NVML_REASONS", "68", 1);
    setenv("FAKE_NVML_POWER_SHARE", "0.5", 1);
    struct aorta_device_metrics metrics = aorta_device_measure(device), later;
    assert_true(metrics.sm_clock_mhz == 1410 && metrics.sm_clock_max_mhz == 1980 && metrics.power_limit_w == 700);
    assert_true(metrics.clock_limits_known);
    assert_int_equal(metrics.clock_limits, 1U << AORTA_CLOCK_POWER_CAP | 1U << AORTA_CLOCK_HW_THERMAL);
    usleep(20000);
    later = aorta_device_measure(device);
    assert_true(later.power_capped_ms - metrics.power_capped_ms >= 10);
    assert_true(later.thermal_capped_ms == 0);
    setenv("FAKE_NVML_REASONS", "0", 1);
    metrics = aorta_device_measure(device);
    assert_true(metrics.clock_limits_known && metrics.clock_limits == 0);
    setenv("FAKE_NVML_REASONS", "511", 1);
    assert_int_equal(aorta_device_measure(device).clock_limits, (1U << AORTA_CLOCK_LIMITS) - 1);
    setenv("FAKE_NVML_POWER_SHARE", "none", 1);
    assert_true(isnan(aorta_device_measure(device).power_capped_ms));
    aorta_device_close(device);
    unsetenv("FAKE_NVML_REASONS");
    unsetenv("FAKE_NVML_POWER_SHARE");
    use_old_management();
    device = open_gpu();
    metrics = aorta_device_measure(device);
    assert_true(metrics.sm_clock_mhz == 1410 && isnan(metrics.sm_clock_max_mhz) && isnan(metrics.power_limit_w));
    assert_true(!metrics.clock_limits_known && isnan(metrics.power_capped_ms) && isnan(metrics.thermal_capped_ms));
    aorta_device_close(device);
    use_libraries("cuda");
    unsetenv("FAKE_NVML_CLOCK");
}

static void test_the_inventory_lists_devices_and_links(void **state) {
    (void)state;
    struct aorta_gpu_inventory inventory;
    control()->set_devices(2);
    check_ok(aorta_gpu_inventory_take(AORTA_DEVICE_CUDA, &inventory));
    assert_int_equal(inventory.count, 2);
    assert_string_equal(inventory.devices[1].info.name, "Fake GPU 1");
    assert_string_equal(inventory.driver_version, "13.0");
    assert_string_equal(inventory.compiler_version, "NVRTC 13.0");
    assert_string_equal(inventory.management_version, "driver 580.00.fake");
    assert_string_equal(inventory.links[0].name, "X");
    assert_string_equal(inventory.links[1].name, "NV4");
    assert_true(inventory.links[1].peer);
    aorta_gpu_inventory_free(&inventory);
    control()->set_devices(3); /* one that NVML does not know */
    check_ok(aorta_gpu_inventory_take(AORTA_DEVICE_CUDA, &inventory));
    assert_string_equal(inventory.links[1].name, "?");
    assert_non_null(strstr(inventory.management_problem, "0000:03:00.0"));
    aorta_gpu_inventory_free(&inventory);
}

static void test_devices_reach_each_other(void **state) {
    (void)state;
    control()->set_devices(2);
    struct aorta_device *first = open_gpu(), *second;
    bool direct = false;
    check_ok(aorta_device_open(AORTA_DEVICE_CUDA, 1, &second));
    check_ok(aorta_gpu_enable_peer(first, second, &direct));
    assert_true(direct);
    control()->strike("cuCtxEnablePeerAccess", 1, 704, 0); /* already so */
    check_ok(aorta_gpu_enable_peer(first, second, &direct));
    assert_true(direct);
    control()->strike("cuCtxEnablePeerAccess", 1, 2, 0);
    check_fails(aorta_gpu_enable_peer(second, first, &direct), AORTA_MEMORY, "device 1 to the memory of device 0");
    aorta_device_close(second);
    aorta_device_close(first);
}

/* ---- attachments ---- */

static int ended;
static aorta_status make_number(struct aorta_device *device, void **state) {
    (void)device;
    *state = calloc(1, 8);
    return NULL;
}

static void end_number(void *state) {
    free(state);
    ended++;
}

static aorta_status fail_to_make(struct aorta_device *device, void **state) {
    (void)device, (void)state;
    return AORTA_ERROR(AORTA_UNSUPPORTED, "not today");
}

static void test_attachments_live_as_long_as_the_device(void **state) {
    (void)state;
    static const char first_key, second_key;
    struct aorta_device *device = open_gpu();
    void *first, *again, *second;
    ended = 0;
    check_ok(aorta_device_attachment(device, &first_key, make_number, end_number, &first));
    check_ok(aorta_device_attachment(device, &first_key, fail_to_make, end_number, &again));
    assert_ptr_equal(first, again);
    check_fails(aorta_device_attachment(device, &second_key, fail_to_make, end_number, &second), AORTA_UNSUPPORTED,
                "not today");
    check_ok(aorta_device_attachment(device, &second_key, make_number, end_number, &second));
    assert_ptr_not_equal(first, second);
    assert_int_equal(ended, 0);
    aorta_device_close(device);
    assert_int_equal(ended, 2);
}

/* ---- partitions ---- */

/* The fake has four multiprocessors and cuts them into pairs. */
static void test_a_limited_stream_has_a_partition(void **state) {
    (void)state;
    struct aorta_device *device = open_gpu();
    struct aorta_stream *whole = open_stream(device, "whole"), *half = open_stream(device, "half");
    check_ok(aorta_stream_limit(whole, 1, 0));
    assert_int_equal(control()->green_contexts(), 0);
    check_ok(aorta_stream_limit(half, 0.8, 3)); /* three, rounded down */
    assert_int_equal(control()->green_contexts(), 1);
    control()->strike("cuDevSmResourceSplitByCount", 0, 0, 0);
    struct aorta_stream *small = open_stream(device, "small");
    check_fails(aorta_stream_limit(small, 0.49, 0), AORTA_UNSUPPORTED,
                "stream small: a share of 0.49 of the device's 4 multiprocessors is less than it can set apart: 2, a "
                "share of 0.5");
    assert_int_equal(control()->calls(), 0);
    int64_t *sum = NULL;
    void *memory;
    check_ok(aorta_pinned_alloc(device, sizeof *sum, "sum", &memory));
    sum = memory;
    *sum = 0;
    check_ok(queue_add(half, sum, 5));
    check_ok(aorta_stream_synchronize(half));
    check_ok(queue_add(small, sum, 2)); /* works on as if it had not been asked */
    check_ok(aorta_stream_synchronize(small));
    assert_int_equal(*sum, 7);
    aorta_pinned_free(device, sum);
    aorta_stream_destroy(whole);
    aorta_stream_destroy(half);
    aorta_stream_destroy(small);
    aorta_device_close(device);
    assert_int_equal(control()->green_contexts(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_the_device_describes_itself, reset_fake),
        cmocka_unit_test_setup(test_what_is_missing_is_reported, reset_fake),
        cmocka_unit_test_setup(test_a_library_names_all_that_was_tried, reset_fake),
        cmocka_unit_test_setup(test_a_broken_library_is_reported, reset_fake),
        cmocka_unit_test_setup(test_no_device_and_too_old, reset_fake),
        cmocka_unit_test_setup(test_a_broken_driver_is_not_passed_over, reset_fake),
        cmocka_unit_test_setup(test_ranks_share_devices, reset_fake),
        cmocka_unit_test_setup(test_metrics_say_what_is_missing, reset_fake),
        cmocka_unit_test_setup(test_clocks_and_their_limits, reset_fake),
        cmocka_unit_test_setup(test_the_inventory_lists_devices_and_links, reset_fake),
        cmocka_unit_test_setup(test_devices_reach_each_other, reset_fake),
        cmocka_unit_test_setup(test_attachments_live_as_long_as_the_device, reset_fake),
        cmocka_unit_test_setup(test_a_limited_stream_has_a_partition, reset_fake),
    };
    return cmocka_run_group_tests(tests, make_cache, remove_cache);
}
