/* The vendor's real compiler, where it is installed, compiles several sources at once, with the results of compiling
 * each alone. Needs no GPU. */
#include "check.h"
#include "device/gpu/driver.h"
#include "ops/gpu/gpu.h"

#include <stdlib.h>

/* As much of a device as compiling takes. */
static struct gpu_device *make_device(void) {
    struct gpu_device *device = calloc(1, sizeof *device);
    assert_non_null(device);
    device->driver.vendor = &aorta_gpu_cuda;
    device->properties.major = 9;
    snprintf(device->properties.architecture, sizeof device->properties.architecture, "sm_90");
    aorta_gpu_compiler_begin(&device->compiler);
    aorta_gpu_functions_begin(&device->functions);
    return device;
}

static void free_device(struct gpu_device *device) {
    aorta_gpu_expected_end(&device->functions);
    pthread_mutex_destroy(&device->functions.lock);
    aorta_gpu_compiler_end(&device->compiler);
    free(device);
}

static bool has_compiler(void) {
    struct gpu_compiler_api api;
    struct aorta_library library = {0};
    aorta_status status = aorta_library_open(&aorta_gpu_cuda.compiler, &api, &library);
    aorta_status_free(status);
    return !status;
}

static void compiled_side_by_side(void **state) {
    (void)state;
    static const enum aorta_ops_source numbers[] = {AORTA_OPS_SOURCE_step, AORTA_OPS_SOURCE_pointwise,
                                                    AORTA_OPS_SOURCE_softmax, AORTA_OPS_SOURCE_inference};
    enum { COUNT = sizeof numbers / sizeof *numbers };
    const struct aorta_gpu_source *sources[COUNT];
    if (!has_compiler()) skip();
    for (int i = 0; i < COUNT; i++) sources[i] = aorta_ops_sources[numbers[i]];
    setenv("AORTA_CACHE_DIR", "/proc/none", 1); /* everything is compiled */
    struct gpu_device *device = make_device();
    aorta_gpu_expect(&device->base, sources, COUNT);
    for (int i = COUNT - 1; i > 0; i--) { /* the first is for nobody */
        char *together, *alone;
        size_t bytes, bytes_alone;
        aorta_status status;
        assert_true(aorta_gpu_take_expected(&device->functions, sources[i], &together, &bytes, &status));
        check_ok(status);
        check_ok(aorta_gpu_compile(device, sources[i], &alone, &bytes_alone));
        assert_int_equal(bytes, bytes_alone);
        assert_true(bytes > 1000);
        free(together);
        free(alone);
        assert_false(aorta_gpu_take_expected(&device->functions, sources[i], &together, &bytes, &status));
    }
    free_device(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(compiled_side_by_side)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
