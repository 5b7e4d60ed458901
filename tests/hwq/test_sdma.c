/* A product during copies: figures from planted samples, runs in all directions of the CPU device, and the errors for
 * wrong bytes or products. The linker sends aorta_copy here (--wrap). */
#include "check.h"
#include "fake_gpu/fake_gpu.h"
#include "hwq/sdma.h"
#include "ops/ops.h"

#include <dlfcn.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

aorta_status __real_aorta_copy(struct aorta_stream *stream, void *to, const void *from, size_t bytes);
aorta_status __wrap_aorta_copy(struct aorta_stream *stream, void *to, const void *from, size_t bytes);
aorta_status __real_aorta_fill_bytes(struct aorta_stream *stream, void *to, int value, size_t bytes);
aorta_status __wrap_aorta_fill_bytes(struct aorta_stream *stream, void *to, int value, size_t bytes);

enum { COPY_BYTES = 1 << 16 };

/* The target is cleared once for each kind of run that is compared with the pattern. Between the time that is named
 * and the next, from 1, copies to it lose a byte: all, as a run is repeated on a machine that is too busy. */
static struct {
    int times, lossy; /* lossy 0: none is lost */
    const void *target;
} cleared;

aorta_status __wrap_aorta_fill_bytes(struct aorta_stream *stream, void *to, int value, size_t bytes) {
    if (bytes == COPY_BYTES) {
        cleared.times++;
        cleared.target = to;
    }
    return __real_aorta_fill_bytes(stream, to, value, bytes);
}

aorta_status __wrap_aorta_copy(struct aorta_stream *stream, void *to, const void *from, size_t bytes) {
    const bool lossy = cleared.lossy && cleared.times == cleared.lossy && to == cleared.target;
    return __real_aorta_copy(stream, to, from, lossy ? bytes - 1 : bytes);
}

static struct aorta_device *device;

static int begin(void **state) {
    (void)state;
    cleared.times = cleared.lossy = 0;
    check_ok(aorta_device_open(AORTA_DEVICE_CPU, 0, &device));
    return 0;
}

static int end(void **state) {
    (void)state;
    aorta_device_close(device);
    return 0;
}

static struct aorta_sdma_options small(enum aorta_sdma_direction direction) {
    return (struct aorta_sdma_options){.device = device,
                                       .direction = direction,
                                       .dtype = AORTA_F32,
                                       .matrix_size = 96,
                                       .copy_bytes = COPY_BYTES,
                                       .iterations = 5,
                                       .warmup = 1};
}

static void runs_in_all_directions(void **state) {
    (void)state;
    for (enum aorta_sdma_direction direction = AORTA_SDMA_D2H; direction <= AORTA_SDMA_D2D; direction++) {
        struct aorta_sdma_options options = small(direction);
        options.dtype = direction == AORTA_SDMA_H2D ? AORTA_BF16 : AORTA_F32;
        struct aorta_sdma result;
        check_ok(aorta_sdma_run(&options, &result));
        assert_int_equal(result.verified, COPY_BYTES);
        assert_true(result.gemm_error > 0 && result.gemm_error < 1);
        for (enum aorta_sdma_mode mode = 0; mode < AORTA_SDMA_MODE_COUNT; mode++) {
            assert_int_equal(result.times[mode].count, 5);
            assert_true(result.times[mode].min > 0);
        }
        /* The end of all comes after the ends of both. */
        for (int i = 0; i < 5; i++) {
            assert_true(result.samples_ms[AORTA_SDMA_GEMM_TOGETHER][i] <= result.samples_ms[AORTA_SDMA_TOGETHER][i]);
            assert_true(result.samples_ms[AORTA_SDMA_COPY_TOGETHER][i] <= result.samples_ms[AORTA_SDMA_TOGETHER][i]);
            assert_true(result.samples_ms[AORTA_SDMA_COPY_TOGETHER][i] > 0);
        }
        aorta_sdma_free(&result);
    }
}

static void figures_follow_from_samples(void **state) {
    (void)state;
    double gemm[] = {2, 2, 9}, copy[] = {1, 1, 1}, serial[] = {3, 3.2, 3}, together[] = {2.5, 2.5, 2.4};
    double gemm_together[] = {2.4, 2.4, 2.4}, copy_together[] = {1.25, 1.25, 1.25};
    struct aorta_sdma result = {
        .options = {.device = device, .matrix_size = 1000, .copy_bytes = 1000000, .iterations = 3},
        .samples_ms = {gemm, copy, serial, together, gemm_together, copy_together}};
    check_ok(aorta_sdma_evaluate(&result));
    assert_true(fabs(result.ideal_ms - 2) < 1e-12);
    assert_true(fabs(result.saved - 0.5 / 3) < 1e-12);
    assert_true(fabs(result.share_of_ideal - 0.8) < 1e-12);
    assert_true(fabs(result.hidden - 0.5) < 1e-12);
    assert_true(fabs(result.gemm_tflops - 1) < 1e-12);
    assert_true(fabs(result.copy_alone_gbps - 1) < 1e-12);
    assert_true(fabs(result.copy_together_gbps - 0.8) < 1e-12);
    struct aorta_text text = {0};
    aorta_sdma_text(&result, &text);
    check_ok(aorta_text_check(&text));
    assert_non_null(
        strstr(text.data, "Overlap: 3.00 ms serial -> 2.50 ms together (-17%), 50% of the copy hidden\n\n"));
    assert_non_null(strstr(text.data, "  ideal       2 ms, the product alone; 80% of this speed reached\n"));
    assert_non_null(strstr(text.data, "  together    time of the product +20%, of the copy +25%: "));
    aorta_text_free(&text);
    aorta_sdma_json(&result, &text);
    json_t *root = json_loads(text.data, 0, NULL);
    assert_true(fabs(json_real_value(json_object_get(root, "savings_percent")) - 50.0 / 3) < 1e-9);
    assert_int_equal(json_array_size(json_object_get(json_object_get(root, "together_ms"), "samples")), 3);
    assert_true(json_is_null(json_object_get(root, "peer_direct")));
    const json_t *fact = json_array_get(json_object_get(root, "facts"), 0);
    assert_string_equal(json_string_value(json_object_get(fact, "finding")), "overlap");
    assert_string_equal(json_string_value(json_object_get(fact, "key")), "serial");
    assert_true(json_real_value(json_object_get(fact, "value")) == 3);
    json_decref(root);
    aorta_found_free(&result.found);
    aorta_text_free(&text);
}

/* Together against serial is the one measure: below a tenth of the shorter side nothing overlaps. */
static void no_overlap(void **state) {
    (void)state;
    static const struct {
        double together;
        const char *says;
    } rows[] = {{2.92, "No overlap: 3.00 ms serial, 2.92 ms together (-2.7%)\n"},
                {1.8, "Overlap not known: 3.00 ms serial -> 1.80 ms together (-40%) saves more than the copy takes\n"},
                {4.5, "No overlap: 3.00 ms serial, 4.50 ms together (+50%)\n"},
                {2.89, "Overlap: 3.00 ms serial -> 2.89 ms together (-3.7%), 11% of the copy hidden\n"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double gemm = 2, copy = 1, serial = 3, gemm_together = 2.4, copy_together = 1.2, together = rows[i].together;
        struct aorta_sdma result = {
            .options = {.device = device, .matrix_size = 1000, .copy_bytes = 1000000, .iterations = 1},
            .samples_ms = {&gemm, &copy, &serial, &together, &gemm_together, &copy_together}};
        struct aorta_text text = {0};
        check_ok(aorta_sdma_evaluate(&result));
        aorta_found_answer_text(&result.found, &text);
        assert_string_equal(text.data, rows[i].says);
        aorta_found_free(&result.found);
        aorta_text_free(&text);
    }
}

static void lost_bytes_are_found(void **state) {
    (void)state;
    static const char *const where[] = {"the copy alone is wrong: byte 65535 of 65536",
                                        "the copy after the product is wrong", "the copy during the product is wrong"};
    for (int i = 0; i < 3; i++) {
        struct aorta_sdma_options options = small(AORTA_SDMA_D2D);
        struct aorta_sdma result;
        cleared.times = 0;
        cleared.lossy = 1 + i;
        check_fails(aorta_sdma_run(&options, &result), AORTA_DEVICE, where[i]);
    }
}

/* On two fake GPUs the copy arrives at the other one, and the product, whose kernels do nothing there, is found wrong.
 */
static void peers_and_wrong_products(void **state) {
    (void)state;
    setenv("AORTA_LIBRARY_PATH", FAKES, 1);
    setenv("AORTA_CACHE_DIR", CACHE, 1);
    setenv("FAKE_GPU_KERNELS", "ignore", 1);
    const struct fake_gpu_control *control = dlsym(dlopen(FAKES "/libcuda.so.1", RTLD_NOW), "fake_gpu_control");
    control->set_devices(2);
    struct aorta_device *gpu, *peer;
    check_ok(aorta_device_open(AORTA_DEVICE_CUDA, 0, &gpu));
    check_ok(aorta_device_open(AORTA_DEVICE_CUDA, 1, &peer));
    check_ok(aorta_ops_configure(gpu, &(struct aorta_ops_settings){.own_products = true}));
    struct aorta_sdma_options options = small(AORTA_SDMA_P2P);
    options.device = gpu;
    options.peer = peer;
    struct aorta_sdma result;
    check_fails(aorta_sdma_run(&options, &result), AORTA_DEVICE, "the product is wrong: product, product[0, 0]");
    cleared.times = 0;
    cleared.lossy = 1;
    check_fails(aorta_sdma_run(&options, &result), AORTA_DEVICE, "the copy alone is wrong: byte 65535");
    aorta_device_close(peer);
    aorta_device_close(gpu);
}

#define with_device(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void) {
    const struct CMUnitTest tests[] = {
        with_device(figures_follow_from_samples), with_device(no_overlap),
        with_device(runs_in_all_directions),      with_device(lost_bytes_are_found),
        with_device(peers_and_wrong_products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
