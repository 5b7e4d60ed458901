/* The roofline of traces made by hand: a device of round figures' name, kernels whose rates are known. */
#include "check.h"
#include "trace/builder.h"
#include "verdict/roofline.h"

#include <math.h>

struct made {
    struct aorta_trace_builder *builder;
    uint64_t correlation;
    struct aorta_trace_list list;
    struct aorta_trace_analysis analysis;
    struct aorta_roofline roofline;
};

static uint32_t text(const struct made *made, const char *string) {
    return aorta_trace_builder_text(made->builder, string, strlen(string));
}

static void begin(struct made *made, const char *device) {
    *made = (struct made){0};
    check_ok(aorta_trace_builder_create(AORTA_TRACE_KINETO, "made", NULL, &made->builder));
    const struct aorta_trace_device row = {.id = 0,
                                           .name = text(made, device),
                                           .memory_bytes = 85018279936,
                                           .multiprocessors = 132,
                                           .major = 9,
                                           .minor = 0};
    aorta_trace_builder_device(made->builder, &row);
}

static struct aorta_json_value json(const char *string) {
    return (struct aorta_json_value){string, strlen(string)};
}

static void operation(struct made *made, int64_t number, const char *name, const char *dims, const char *types,
                      const char *values) {
    const struct aorta_operation row = {
        .name = name, .name_length = strlen(name), .dims = json(dims), .types = json(types), .values = json(values)};
    const struct aorta_trace_annotation frame = {0, 0, text(made, name),
                                                 aorta_trace_builder_thread(made->builder, 1, 1)};
    aorta_trace_builder_operation(made->builder, &frame, number, &row);
}

/* `of`: number of its operation; -1: none. */
static void kernel(struct made *made, const char *name, int64_t start, int64_t end, int64_t of) {
    const struct aorta_trace_work work = {.start_ns = start,
                                          .end_ns = end,
                                          .bytes = -1,
                                          .correlation = ++made->correlation,
                                          .name = text(made, name),
                                          .stream = aorta_trace_builder_stream(made->builder, 0, -1, 7),
                                          .queue = AORTA_TRACE_NONE,
                                          .kind = AORTA_TRACE_KERNEL};
    aorta_trace_builder_work(made->builder, &work, of, NULL, -1);
}

static void step(struct made *made, const char *name, int64_t start, int64_t end) {
    aorta_trace_builder_device_annotation(made->builder, text(made, name), start, end);
}

static void finish(struct made *made) {
    struct aorta_trace *trace;
    check_ok(aorta_trace_builder_finish(made->builder, &trace));
    check_ok(aorta_trace_list_add(&made->list, trace));
    check_ok(aorta_trace_analyze(&made->list, NULL, &made->analysis));
    check_ok(aorta_roofline_of_trace(&made->analysis, 0, &made->roofline));
}

static void end(struct made *made) {
    aorta_roofline_free(&made->roofline);
    aorta_trace_analysis_free(&made->analysis);
    aorta_trace_list_free(&made->list);
}

static void write(const struct aorta_roofline *roofline, struct aorta_text *text) {
    struct aorta_json json;
    aorta_json_begin(&json, text, 0);
    aorta_json_object(&json);
    aorta_roofline_write(roofline, &json);
    aorta_json_object_end(&json);
}

static void near(double value, double expected) {
    if (!(fabs(value - expected) <= 1e-9 * fabs(expected))) fail_msg("%.12g, expected %.12g", value, expected);
}

static const char H100[] = "NVIDIA H100 80GB HBM3"; /* 989.4 TFLOP/s in bf16, 66.9 in fp32, 494.7 in tf32; 3350 GB/s */
static const char HALVES[] = "[\"c10::BFloat16\", \"c10::BFloat16\", \"c10::BFloat16\"]";
static const char FLOATS[] = "[\"float\", \"float\"]";

/* 2·4096³ flops in 200 us are 687 TFLOP/s; two kernels of one operation are one product. */
static void a_product(void **state) {
    (void)state;
    struct made made;
    begin(&made, H100);
    operation(&made, 1, "aten::mm", "[[4096, 4096], [4096, 4096]]", HALVES, "[]");
    kernel(&made, "nvjet_sm90_tst", 0, 190000, 1);
    kernel(&made, "splitKreduce_kernel", 190000, 200000, 1);
    finish(&made);
    const struct aorta_roofline_class *gemm = &made.roofline.classes[AORTA_WORK_GEMM];
    const double flops = 2.0 * 4096 * 4096 * 4096, bytes = 3.0 * 4096 * 4096 * 2;
    assert_int_equal(gemm->kernels, 2);
    assert_int_equal(gemm->ns, 200000);
    near(aorta_roofline_tflops(gemm), flops / 200000 / 1e3);
    near(aorta_roofline_gbytes_per_s(gemm), bytes / 200000);
    near(aorta_roofline_share(gemm), flops / 200000 / 1e3 / 989.4);
    assert_int_equal(aorta_roofline_bound(gemm), AORTA_BOUND_ARITHMETIC);
    near(aorta_roofline_covered(gemm), 1);
    double covered;
    near(aorta_roofline_mfu(&made.roofline, &covered), flops / 200000 / 1e3 / 989.4);
    near(covered, 1);
    assert_int_equal(made.roofline.row_count, 1);
    assert_int_equal(made.roofline.rows[0].runs, 1);
    assert_string_equal(made.roofline.rows[0].kernel, "nvjet_sm90_tst");
    near(made.roofline.rows[0].bound_ns, flops / 989.4 / 1e3);
    end(&made);
}

/* A product of one row moves its matrix: memory bounds it. */
static void a_thin_product_is_bound_by_memory(void **state) {
    (void)state;
    struct made made;
    begin(&made, H100);
    operation(&made, 1, "aten::mm", "[[1, 4096], [4096, 4096]]", HALVES, "[]");
    kernel(&made, "gemv", 0, 20000, 1);
    finish(&made);
    const struct aorta_roofline_class *gemm = &made.roofline.classes[AORTA_WORK_GEMM];
    const double bytes = 2.0 * (4096 + 4096.0 * 4096 + 4096);
    assert_int_equal(aorta_roofline_bound(gemm), AORTA_BOUND_MEMORY);
    near(aorta_roofline_share(gemm), bytes / 20000 / 3350);
    end(&made);
}

static void attention_and_pointwise(void **state) {
    (void)state;
    struct made made;
    begin(&made, H100);
    operation(&made, 1, "aten::_flash_attention_forward",
              "[[4, 2048, 16, 128], [4, 2048, 16, 128], [4, 2048, 16, 128], [], [], [], [], [], []]", HALVES,
              "[\"\",\"\",\"\",\"\",\"\",\"2048\",\"2048\",\"0.\",\"False\"]");
    operation(&made, 2, "aten::mul", "[[4096, 4096], [4096, 4096]]", HALVES, "[]");
    kernel(&made, "flash_fwd_kernel", 0, 300000, 1);
    kernel(&made, "vectorized_elementwise_kernel", 300000, 340000, 2);
    kernel(&made, "vectorized_elementwise_kernel", 340000, 350000, -1); /* of unknown shape */
    finish(&made);
    const struct aorta_roofline_class *attention = &made.roofline.classes[AORTA_WORK_ATTENTION];
    const double flops = 4.0 * 16 * 4 * 2048 * 2048 * 128;
    near(aorta_roofline_tflops(attention), flops / 300000 / 1e3);
    near(aorta_roofline_share(attention), flops / 300000 / 1e3 / 989.4);
    const struct aorta_roofline_class *pointwise = &made.roofline.classes[AORTA_WORK_POINTWISE];
    const double bytes = 3.0 * 4096 * 4096 * 2;
    assert_int_equal(pointwise->kernels, 2);
    near(aorta_roofline_covered(pointwise), 0.8);
    near(aorta_roofline_gbytes_per_s(pointwise), bytes / 40000); /* of what is covered */
    near(aorta_roofline_share(pointwise), bytes / 40000 / 3350);
    assert_true(isnan(aorta_roofline_tflops(pointwise)));
    assert_int_equal(aorta_roofline_bound(pointwise), AORTA_BOUND_MEMORY);
    assert_int_equal(attention->arithmetic, AORTA_IN_BF16);
    assert_int_equal(attention->ns, 300000);
    assert_int_equal(pointwise->ns, 50000);
    end(&made);
}

/* A rate of a sixth of the time would be that of a few kernels. */
static void rates_of_a_few_are_not_shown(void **state) {
    (void)state;
    struct made made;
    begin(&made, H100);
    operation(&made, 1, "aten::mm", "[[4096, 4096], [4096, 4096]]", HALVES, "[]");
    kernel(&made, "gemm_kernel", 0, 200000, 1);
    kernel(&made, "gemm_kernel", 200000, 1200000, -1); /* of unknown shape */
    finish(&made);
    const struct aorta_roofline_class *gemm = &made.roofline.classes[AORTA_WORK_GEMM];
    near(aorta_roofline_covered(gemm), 1.0 / 6);
    assert_false(aorta_roofline_rated(gemm));
    struct aorta_text json = {0};
    write(&made.roofline, &json);
    assert_non_null(strstr(json.data, "\"mfu\": null"));
    assert_non_null(strstr(json.data, "the recording has the shapes of less than a fifth of their time"));
    assert_non_null(strstr(json.data, "\"tflops\": null"));
    aorta_text_free(&json);
    end(&made);
}

static void an_unknown_device_has_rates_without_shares(void **state) {
    (void)state;
    struct made made;
    begin(&made, "Wonder 9000");
    operation(&made, 1, "aten::mm", "[[4096, 4096], [4096, 4096]]", HALVES, "[]");
    operation(&made, 2, "aten::mul", "[[4096, 4096], [4096, 4096]]", HALVES, "[]");
    kernel(&made, "gemm", 0, 200000, 1);
    kernel(&made, "vectorized_elementwise_kernel", 200000, 300000, 2);
    finish(&made);
    const struct aorta_roofline_class *gemm = &made.roofline.classes[AORTA_WORK_GEMM];
    near(aorta_roofline_tflops(gemm), 2.0 * 4096 * 4096 * 4096 / 200000 / 1e3);
    assert_true(isnan(aorta_roofline_share(gemm)));
    assert_int_equal(aorta_roofline_bound(gemm), AORTA_BOUND_NOT_KNOWN);
    double covered;
    assert_true(isnan(aorta_roofline_mfu(&made.roofline, &covered)));
    assert_int_equal(made.roofline.row_count, 0);
    near(aorta_roofline_gbytes_per_s(&made.roofline.classes[AORTA_WORK_POINTWISE]), 3.0 * 4096 * 4096 * 2 / 100000);
    struct aorta_text words = {0};
    write(&made.roofline, &words);
    assert_non_null(strstr(words.data, "\"device\": \"Wonder 9000\""));
    assert_non_null(strstr(words.data, "\"peaks\": null, \"peaks_reason\": \"the device is not in the table\""));
    assert_non_null(strstr(words.data, "\"mfu\": null"));
    aorta_text_free(&words);
    end(&made);
}

static void without_shapes_nothing_is_claimed(void **state) {
    (void)state;
    struct made made;
    begin(&made, H100);
    kernel(&made, "nvjet_sm90_tst", 0, 200000, -1);
    finish(&made);
    const struct aorta_roofline_class *gemm = &made.roofline.classes[AORTA_WORK_GEMM];
    assert_int_equal(gemm->ns, 200000);
    near(aorta_roofline_covered(gemm) + 1, 1);
    assert_true(isnan(aorta_roofline_share(gemm)) && isnan(aorta_roofline_tflops(gemm)));
    double covered;
    assert_true(isnan(aorta_roofline_mfu(&made.roofline, &covered)));
    near(covered + 1, 1);
    end(&made);
}

/* 2·4096³ flops in single precision: 3 ms are 45.8 TFLOP/s, 1 ms would be more than the 66.9 there are. */
static void single_precision_and_tf32(void **state) {
    (void)state;
    static const struct {
        const char *kernel;
        int64_t ns;
        double peak;
    } rows[] = {{"sgemm", 3000000, 66.9}, {"xmma_gemm_tf32f32", 3000000, 494.7}, {"nvjet_sss", 1000000, 494.7}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct made made;
        begin(&made, H100);
        operation(&made, 1, "aten::mm", "[[4096, 4096], [4096, 4096]]", FLOATS, "[]");
        kernel(&made, rows[i].kernel, 0, rows[i].ns, 1);
        finish(&made);
        near(aorta_roofline_share(&made.roofline.classes[AORTA_WORK_GEMM]),
             2.0 * 4096 * 4096 * 4096 / (double)rows[i].ns / 1e3 / rows[i].peak);
        end(&made);
    }
}

/* Steps of 100 us each; the kernel that runs across their border counts on both sides with its parts. */
static void sums_are_over_steps(void **state) {
    (void)state;
    struct made made;
    begin(&made, H100);
    operation(&made, 1, "aten::mul", "[[1024, 1024], [1024, 1024]]", HALVES, "[]");
    operation(&made, 2, "aten::mul", "[[1024, 1024], [1024, 1024]]", HALVES, "[]");
    operation(&made, 3, "aten::mul", "[[1024, 1024], [1024, 1024]]", HALVES, "[]");
    kernel(&made, "elementwise_a", 0, 10000, 1); /* before the steps */
    step(&made, "ProfilerStep#1", 100000, 190000);
    step(&made, "ProfilerStep#2", 200000, 290000);
    kernel(&made, "elementwise_b", 100000, 110000, 2);
    kernel(&made, "elementwise_c", 190000, 210000, 3);
    kernel(&made, "elementwise_d", 280000, 290000, -1);
    finish(&made);
    const struct aorta_roofline_class *pointwise = &made.roofline.classes[AORTA_WORK_POINTWISE];
    assert_int_equal(made.roofline.steps, 2);
    near(pointwise->bytes, 2 * 3.0 * 1024 * 1024 * 2);
    assert_int_equal(pointwise->covered_ns, 30000);
    assert_int_equal(pointwise->ns, 40000);
    end(&made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_product),
        cmocka_unit_test(a_thin_product_is_bound_by_memory),
        cmocka_unit_test(attention_and_pointwise),
        cmocka_unit_test(an_unknown_device_has_rates_without_shares),
        cmocka_unit_test(without_shapes_nothing_is_claimed),
        cmocka_unit_test(single_precision_and_tf32),
        cmocka_unit_test(rates_of_a_few_are_not_shown),
        cmocka_unit_test(sums_are_over_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
