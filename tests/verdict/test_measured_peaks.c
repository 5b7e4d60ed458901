/* The roofline of our own steps, from ranges around operations and from the kernels within them. */
#include "check.h"
#include "samples/measured.h"
#include "verdict/remedies.h"
#include "verdict/roofline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A device of 1 TFLOP/s in single precision and 100 GB/s. */
static struct aorta_measured_peaks round_peaks(void) {
    struct aorta_measured_peaks peaks = {.gbytes_per_s = 100};
    for (int i = 0; i < AORTA_ARITHMETIC_COUNT; i++) peaks.tflops[i] = NAN;
    peaks.tflops[AORTA_IN_FP32] = 1;
    return peaks;
}

static struct aorta_range range(const char *function, const char *tag, int64_t start, int64_t end, double flops,
                                int64_t bytes) {
    return (struct aorta_range){.info = {.tag = tag,
                                         .function = function,
                                         .kind = AORTA_RANGE_COMPUTE,
                                         .flops = flops,
                                         .bytes = bytes,
                                         .dtype = AORTA_F32},
                                .start_ns = start,
                                .end_ns = end};
}

static struct aorta_roofline measure(struct aorta_range *ranges, size_t count, enum aorta_profile_source source,
                                     int64_t step_ns, bool on_gpu) {
    const struct aorta_profile profile = {.source = source,
                                          .ranges = ranges,
                                          .range_count = count,
                                          .end_ns = ranges[count - 1].end_ns,
                                          .overlap = {.span_ns = step_ns - 10, .lead_ns = 10}};
    const struct aorta_iteration iteration = {.profile = &profile, .on_gpu = on_gpu};
    const struct aorta_measured_peaks peaks = round_peaks();
    const struct aorta_metrics_device device = {.name = "box", .measured = true, .peaks = peaks};
    struct sample_recording recording;
    struct aorta_roofline roofline;
    check_ok(sample_analyze(&iteration, 1, 0, &device, &recording));
    check_ok(aorta_roofline_of_trace(&recording.analysis, 0, &roofline));
    assert_string_equal(roofline.device_name, "box");
    sample_recording_free(&recording);
    return roofline;
}

static void near(double value, double expected) {
    if (!(fabs(value - expected) <= 1e-9 * fabs(expected))) fail_msg("%.12g, expected %.12g", value, expected);
}

static void operations_of_the_cpu(void **state) {
    (void)state;
    struct aorta_range ranges[] = {
        range("linear_forward", "linear1", 0, 1000, 500e3, 20000), /* half of the peak; bytes would take 200 ns */
        range("gelu_forward", "gelu", 1000, 1400, 0, 30000),       /* 75 GB/s */
        range("attention_forward", "self_attn", 1400, 1600, 20e3, 10000), /* bytes take 100 ns, flops 20 */
        range("embedding_order", "embedding", 1600, 1700, 0, 0),
    };
    struct aorta_roofline roofline = measure(ranges, 4, AORTA_SOURCE_RANGE, 2000, false);
    const struct aorta_roofline_class *gemm = &roofline.classes[AORTA_WORK_GEMM];
    const struct aorta_roofline_class *pointwise = &roofline.classes[AORTA_WORK_POINTWISE];
    const struct aorta_roofline_class *attention = &roofline.classes[AORTA_WORK_ATTENTION];
    near(aorta_roofline_share(gemm), 0.5);
    assert_int_equal(aorta_roofline_bound(gemm), AORTA_BOUND_ARITHMETIC);
    near(aorta_roofline_share(pointwise), 0.75);
    near(aorta_roofline_covered(pointwise), 0.8);
    near(aorta_roofline_share(attention), 0.5);
    assert_int_equal(aorta_roofline_bound(attention), AORTA_BOUND_MEMORY);
    double covered;
    near(aorta_roofline_mfu(&roofline, &covered), (500.0 + 20) / 2000);
    near(covered, 1);
    assert_false(roofline.lower_bound);
    assert_string_equal(roofline.rows[0].operation, "linear_forward"); /* loses 500 ns */
    near(aorta_roofline_tflops(gemm), 0.5);
    assert_int_equal(gemm->arithmetic, AORTA_IN_FP32);
    near(aorta_roofline_gbytes_per_s(pointwise), 75);
    near(aorta_roofline_gbytes_per_s(attention), 50);
    assert_int_equal(gemm->ns, 1000);
    assert_int_equal(pointwise->kernels, 2);
    assert_int_equal(pointwise->ns, 500);
    assert_int_equal(attention->ns, 200);
    aorta_roofline_free(&roofline);
}

/* The product's flops stand on its longest kernel; the kernel that adds up its parts takes time all the same. */
static void kernels_within_ranges(void **state) {
    (void)state;
    struct aorta_range ranges[] = {
        range("linear_forward", "nvjet_tst", 0, 900, 500e3, 20000),
        range("linear_forward", "splitKreduce_kernel", 900, 1000, 0, 0),
        range("kernel", "vectorized_elementwise_kernel", 1000, 1500, 0, 0),
    };
    ranges[0].info.within = ranges[1].info.within = "linear1";
    struct aorta_roofline roofline = measure(ranges, 3, AORTA_SOURCE_KERNEL, 2000, true);
    near(aorta_roofline_share(&roofline.classes[AORTA_WORK_GEMM]), 0.5);
    assert_int_equal(roofline.classes[AORTA_WORK_GEMM].kernels, 2);
    assert_int_equal(roofline.rows[0].runs, 1);
    assert_false(roofline.lower_bound);
    aorta_roofline_free(&roofline);
}

/* On GPUs a range is a layer's whole pass: its arithmetic counts for the step, not for a class. */
static void whole_layers(void **state) {
    (void)state;
    struct aorta_range ranges[] = {range("layer_forward", "encoder.layers.0", 0, 1000, 500e3, 0)};
    struct aorta_roofline roofline = measure(ranges, 1, AORTA_SOURCE_RANGE, 2000, true);
    double covered;
    near(aorta_roofline_mfu(&roofline, &covered), 0.25);
    assert_true(roofline.lower_bound);
    assert_int_equal(roofline.classes[AORTA_WORK_OTHER].covered_ns, 0);
    aorta_roofline_free(&roofline);
}

/* A layer's products and attention stand together on the longest of its kernels; names say which kernels are which. */
static void kernels_of_a_layer(void **state) {
    (void)state;
    struct aorta_range ranges[] = {
        range("layer_forward", "nvjet_tst", 0, 1000, 0, 0),
        range("layer_forward", "attention_whole_forward_64_bf16", 1000, 1200, 0, 0),
        range("layer_forward", "norm_forward_wide_bf16", 1200, 2400, 520e3, 30000), /* the longest */
    };
    for (size_t i = 0; i < 3; i++) ranges[i].info.within = "encoder.layers.0";
    ranges[2].info.attention_flops = 20e3;
    ranges[2].info.attention_bytes = 10000;
    struct aorta_roofline roofline = measure(ranges, 3, AORTA_SOURCE_KERNEL, 4000, true);
    const struct aorta_roofline_class *gemm = &roofline.classes[AORTA_WORK_GEMM];
    near(aorta_roofline_share(gemm), 0.5);
    near(aorta_roofline_gbytes_per_s(gemm), 20);
    assert_int_equal(gemm->kernels, 1);
    near(aorta_roofline_share(&roofline.classes[AORTA_WORK_ATTENTION]), 0.5); /* by its bytes */
    assert_int_equal(roofline.classes[AORTA_WORK_REDUCTION].ns, 1200);
    assert_int_equal(roofline.classes[AORTA_WORK_REDUCTION].covered_ns, 0);
    double covered;
    near(aorta_roofline_mfu(&roofline, &covered), 520.0 / 4000);
    near(covered, 1);
    aorta_roofline_free(&roofline);
}

/* Files of before have flops without their type. */
static void untyped_flops_claim_nothing(void **state) {
    (void)state;
    struct aorta_range ranges[] = {range("linear_forward", "linear1", 0, 1000, 500e3, 0)};
    ranges[0].info.dtype = AORTA_DTYPE_COUNT;
    struct aorta_roofline roofline = measure(ranges, 1, AORTA_SOURCE_RANGE, 2000, false);
    double covered;
    assert_true(isnan(aorta_roofline_share(&roofline.classes[AORTA_WORK_GEMM])));
    assert_true(isnan(aorta_roofline_mfu(&roofline, &covered)));
    aorta_roofline_free(&roofline);
}

/* A product of our own trainer at the peak of single precision: in 16 bits it keeps its share, 0.85 at most, of a peak
 * 14 times as high, if the device has one. */
static void precision_of_our_own(void **state) {
    (void)state;
    for (int has_half = 0; has_half < 2; has_half++) {
        struct aorta_range ranges[] = {range("linear_forward", "linear1", 0, 1000000, 1e9, 20000),
                                       range("gelu_forward", "gelu", 1000000, 1001000, 0, 30000)};
        const struct aorta_profile profile = {.source = AORTA_SOURCE_RANGE,
                                              .ranges = ranges,
                                              .range_count = 2,
                                              .end_ns = 1001000,
                                              .overlap = {.span_ns = 1001000}};
        const struct aorta_iteration iteration = {.profile = &profile};
        struct aorta_measured_peaks peaks = round_peaks();
        if (has_half) peaks.tflops[AORTA_IN_BF16] = 14;
        const struct aorta_metrics_device device = {.name = "box", .measured = true, .peaks = peaks};
        struct sample_recording recording;
        struct aorta_remedies remedies;
        check_ok(sample_analyze(&iteration, 1, 0, &device, &recording));
        check_ok(aorta_remedies_make(&recording.analysis, 0, &remedies));
        const double saved_ns = remedies.rows[AORTA_REMEDY_BF16].alone_ns;
        if (has_half) near(saved_ns, 1e6 - 1e9 / (0.85 * 14e3));
        if (!has_half) assert_true(saved_ns == 0);
        assert_true(remedies.rows[AORTA_REMEDY_TF32].alone_ns == 0);
        aorta_remedies_free(&remedies);
        sample_recording_free(&recording);
    }
}

/* The second step begins with the copy of its batch, long before the first one ends:
 *   step 0            [ linear            ]
 *   step 1     [copy]                      [ linear            ] */
static void a_batch_copied_far_ahead(void **state) {
    (void)state;
    struct aorta_range first[] = {range("linear_forward", "linear1", 1000, 2000, 500e3, 20000)};
    struct aorta_range second[] = {range("prefetch", "input", 500, 600, 0, 5000),
                                   range("linear_forward", "linear1", 2000, 3000, 500e3, 20000)};
    second[0].info.kind = AORTA_RANGE_COPY;
    const struct aorta_profile profiles[] = {
        {.source = AORTA_SOURCE_RANGE, .ranges = first, .range_count = 1, .end_ns = 2000, .overlap = {.span_ns = 1000}},
        {.source = AORTA_SOURCE_RANGE,
         .ranges = second,
         .range_count = 2,
         .end_ns = 3000,
         .overlap = {.span_ns = 1000}}};
    const struct aorta_iteration iterations[] = {{.profile = &profiles[0]}, {.step = 1, .profile = &profiles[1]}};
    const struct aorta_measured_peaks peaks = round_peaks();
    const struct aorta_metrics_device device = {.name = "box", .measured = true, .peaks = peaks};
    struct sample_recording recording;
    struct aorta_roofline roofline;
    check_ok(sample_analyze(iterations, 2, 0, &device, &recording));
    check_ok(aorta_roofline_of_trace(&recording.analysis, 0, &roofline));
    const struct aorta_roofline_class *gemm = &roofline.classes[AORTA_WORK_GEMM];
    near(aorta_roofline_share(gemm), 0.5);
    near(aorta_roofline_gbytes_per_s(gemm), 20);
    near(gemm->flops, 1e6);
    aorta_roofline_free(&roofline);
    sample_recording_free(&recording);
}

/* Kernels of one step of our trainer on an H100, one operation each but for the last, which has two:
 *
 *     gather   linear_forward   gelu   attention   linear_backward_weight  [ adamw  adamw ]
 */
static struct aorta_range kernel(int number, const char *operation, const char *name, int64_t start, int64_t ns) {
    struct aorta_range made = range("layer_forward", name, start, start + ns, 0, 0);
    made.info.within = "encoder.layers.0";
    made.info.operation = operation;
    made.info.number = number;
    return made;
}

static void product(struct aorta_range *kernel, int32_t m, int32_t k, int32_t n) {
    kernel->info.dims[0][0] = m, kernel->info.dims[0][1] = kernel->info.dims[1][0] = k, kernel->info.dims[1][1] = n;
    kernel->info.flops = 2.0 * (double)m * (double)k * (double)n;
    kernel->info.bytes =
        ((int64_t)m * k + (int64_t)k * n + (int64_t)m * n) * (int64_t)aorta_dtype_size(kernel->info.dtype);
}

enum { ROWS = 8192, WIDTH = 1024, HIDDEN = 4096, POSITIONS = 128, OPERATIONS = 6 };
static void make_step(struct aorta_range ranges[OPERATIONS], enum aorta_dtype dtype, int32_t hidden, int32_t heads) {
    const bool half = dtype != AORTA_F32;
    const struct aorta_range made[OPERATIONS] = {
        kernel(1, "linear_forward", half ? "nvjet_sm90_tst_128x256_64x4" : "cutlass_80_simt_sgemm_256x128_8x4_tn", 0,
               half ? 100000 : 1400000),
        kernel(2, "gelu_forward", "gelu_forward", 1500000, half ? 50000 : 100000),
        kernel(3, "attention_forward",
               heads == 16 && half ? "attention_whole_forward_64_bf16" : "attention_forward_128", 1700000, 600000),
        kernel(4, "linear_backward_weight", half ? "nvjet_sm90_tss_128x256_64x4" : "cutlass_80_simt_sgemm_256x128",
               2400000, half ? 110000 : 1500000),
        kernel(5, "adamw_step", "adamw", 4000000, 200000),
        kernel(5, "adamw_step", "adamw", 4200000, 200000),
    };
    memcpy(ranges, made, sizeof made);
    for (int i = 0; i < OPERATIONS; i++) ranges[i].info.dtype = i < 4 ? dtype : AORTA_F32;
    product(&ranges[0], ROWS, WIDTH, hidden);
    product(&ranges[3], hidden, ROWS, WIDTH);
    ranges[1].info.bytes = 2 * ROWS * hidden * (int64_t)aorta_dtype_size(dtype);
    ranges[1].info.dims[0][0] = ROWS, ranges[1].info.dims[0][1] = hidden;
    ranges[2].info.flops = 4.0 * ROWS * WIDTH * POSITIONS;
    ranges[2].info.bytes = 4 * ROWS * WIDTH * (int64_t)aorta_dtype_size(dtype);
    const int32_t dims[AORTA_RANGE_DIMS] = {ROWS / POSITIONS, heads, POSITIONS, WIDTH / heads};
    memcpy(ranges[2].info.dims[0], dims, sizeof dims);
    ranges[4].info.bytes = 28 << 20;
}

static void find(struct aorta_range *ranges, size_t count, struct sample_recording *recording,
                 struct aorta_remedies *remedies) {
    const struct aorta_profile profile = {.source = AORTA_SOURCE_KERNEL,
                                          .ranges = ranges,
                                          .range_count = count,
                                          .end_ns = 4400000,
                                          .overlap = {.span_ns = 4400000}};
    const struct aorta_iteration iteration = {.profile = &profile, .on_gpu = true};
    const struct aorta_metrics_device device = {
        .name = "NVIDIA H100 80GB HBM3", .memory_bytes = 85017493504, .multiprocessors = 132, .isa = "sm_90"};
    check_ok(sample_analyze(&iteration, 1, 0, &device, recording));
    check_ok(aorta_remedies_make(&recording->analysis, 0, remedies));
}

static void within(double value, double least, double most) {
    if (!(value >= least && value <= most)) fail_msg("%g is not from %g to %g", value, least, most);
}

/* Each operation in fp32 has a better form; what was seen of large.yaml is the measure. Only keys are advised. */
static void remedies_of_our_own(void **state) {
    (void)state;
    static const bool has_key[AORTA_REMEDY_COUNT] = {[AORTA_REMEDY_ATTENTION] = true,
                                                     [AORTA_REMEDY_TF32] = true,
                                                     [AORTA_REMEDY_BF16] = true,
                                                     [AORTA_REMEDY_ALIGNMENT] = true};
    struct aorta_range ranges[OPERATIONS];
    struct sample_recording recording;
    struct aorta_remedies remedies;
    make_step(ranges, AORTA_F32, HIDDEN, 16);
    find(ranges, OPERATIONS, &recording, &remedies);
    const double flops = 2.0 * ROWS * WIDTH * HIDDEN;
    within(remedies.rows[AORTA_REMEDY_TF32].alone_ns, 2900000 - 2 * flops / (0.72 * 494.5e3),
           2900000 - 2 * flops / (0.75 * 494.5e3));
    const struct aorta_remedy_row *half = &remedies.rows[AORTA_REMEDY_BF16];
    within(half->alone_ns, 2900000 - 2.1 * flops / (0.7 * 989e3) + 50000 + 500000, 2900000 + 50000 + 600000);
    near(half->operations, 4); /* not the optimizer */
    struct aorta_work_scale *scales = calloc(recording.analysis.ranks[0].trace->work_count + 1, sizeof *scales);
    const uint32_t tf32 = aorta_remedy_bit(AORTA_REMEDY_TF32), both = tf32 | aorta_remedy_bit(AORTA_REMEDY_BF16);
    const double first_ns = aorta_remedies_apply(&remedies, tf32, scales).saved_ns;
    within(aorta_remedies_apply(&remedies, both, scales).saved_ns - first_ns, 1, half->alone_ns);
    free(scales);
    for (int i = 0; i < AORTA_REMEDY_COUNT; i++)
        if (!has_key[i]) near(remedies.rows[i].alone_ns, 0);
    near(remedies.rows[AORTA_REMEDY_ALIGNMENT].alone_ns, 0);
    near(remedies.rows[AORTA_REMEDY_ATTENTION].alone_ns, 0); /* in fp32 there are no better kernels */
    aorta_remedies_free(&remedies);
    sample_recording_free(&recording);
}

/* Layers of the sparse pipeline are in fp32 whatever a key says: TF32 is what they can have. */
static void layers_of_the_sparse_pipeline(void **state) {
    (void)state;
    struct aorta_range ranges[OPERATIONS];
    struct sample_recording recording;
    struct aorta_remedies remedies;
    make_step(ranges, AORTA_F32, HIDDEN, 16);
    ranges[0].info.operation = "dense_forward", ranges[3].info.operation = "dense_backward_weight";
    for (int i = 0; i < OPERATIONS; i++) ranges[i].info.function = i < 3 ? "top_forward" : "top_backward";
    find(ranges, OPERATIONS, &recording, &remedies);
    const double flops = 2.0 * ROWS * WIDTH * HIDDEN;
    within(remedies.rows[AORTA_REMEDY_TF32].alone_ns, 2900000 - 2 * flops / (0.72 * 494.5e3),
           2900000 - 2 * flops / (0.75 * 494.5e3));
    within(remedies.rows[AORTA_REMEDY_BF16].alone_ns, 0, 700000); /* of activations and attention alone */
    struct aorta_roofline roofline;
    check_ok(aorta_roofline_of_trace(&recording.analysis, 0, &roofline));
    near(roofline.classes[AORTA_WORK_GEMM].flops, 2 * flops);
    aorta_roofline_free(&roofline);
    aorta_remedies_free(&remedies);
    sample_recording_free(&recording);
}

/* Gathers of fp32 parameters move half as much in 16 bits; reductions stay, and so do gathers in other types. */
static void gathers_move_half(void **state) {
    (void)state;
    static const struct {
        enum aorta_collective kind;
        enum aorta_dtype dtype;
        double left;
    } rows[] = {{AORTA_ALL_GATHER, AORTA_F32, (10 + 45) / 100.0},
                {AORTA_ALL_GATHER, AORTA_BF16, 1},
                {AORTA_REDUCE_SCATTER, AORTA_F32, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct aorta_range ranges[OPERATIONS + 1];
        struct sample_recording recording;
        struct aorta_remedies remedies;
        make_step(ranges, AORTA_F32, HIDDEN, 16);
        ranges[OPERATIONS] = range("gather", "ncclDevKernel", 3000000, 3100000, 0, 0);
        struct aorta_range_info *info = &ranges[OPERATIONS].info;
        info->kind = AORTA_RANGE_COLLECTIVE, info->collective = rows[i].kind;
        info->dtype = rows[i].dtype, info->bytes = 64 << 20;
        find(ranges, OPERATIONS + 1, &recording, &remedies);
        const struct aorta_trace *trace = recording.analysis.ranks[0].trace;
        struct aorta_work_scale *scales = calloc(trace->work_count + 1, sizeof *scales);
        for (size_t j = 0; j < trace->work_count; j++) scales[j].left = 1;
        (void)aorta_remedies_apply(&remedies, aorta_remedy_bit(AORTA_REMEDY_BF16), scales);
        size_t collectives = 0;
        for (size_t j = 0; j < trace->work_count; j++) {
            if (trace->work[j].collective == AORTA_TRACE_NONE) continue;
            within((double)scales[j].left, rows[i].left - 1e-6, rows[i].left + 1e-6);
            collectives++;
        }
        assert_int_equal(collectives, 1);
        free(scales);
        aorta_remedies_free(&remedies);
        sample_recording_free(&recording);
    }
}

/* The better form itself has nothing left; wider heads and rows that miss 16 bytes have. */
static void better_forms_of_our_own(void **state) {
    (void)state;
    static const struct {
        int32_t hidden, heads;
        enum aorta_remedy remedy; /* COUNT: none */
    } rows[] = {
        {HIDDEN, 16, AORTA_REMEDY_COUNT}, {HIDDEN, 8, AORTA_REMEDY_ATTENTION}, {4093, 16, AORTA_REMEDY_ALIGNMENT}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct aorta_range ranges[OPERATIONS];
        struct sample_recording recording;
        struct aorta_remedies remedies;
        make_step(ranges, AORTA_BF16, rows[i].hidden, rows[i].heads);
        if (rows[i].remedy == AORTA_REMEDY_ALIGNMENT) /* twelve times as slow as the aligned ones */
            ranges[0].end_ns += 1100000, ranges[3].end_ns += 1100000;
        find(ranges, OPERATIONS, &recording, &remedies);
        for (int j = 0; j < AORTA_REMEDY_COUNT; j++)
            if (rows[i].remedy == (enum aorta_remedy)j)
                within(remedies.rows[j].alone_ns, 400000, 2300000);
            else
                near(remedies.rows[j].alone_ns, 0);
        aorta_remedies_free(&remedies);
        sample_recording_free(&recording);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_of_the_cpu),
        cmocka_unit_test(kernels_within_ranges),
        cmocka_unit_test(whole_layers),
        cmocka_unit_test(kernels_of_a_layer),
        cmocka_unit_test(untyped_flops_claim_nothing),
        cmocka_unit_test(precision_of_our_own),
        cmocka_unit_test(a_batch_copied_far_ahead),
        cmocka_unit_test(remedies_of_our_own),
        cmocka_unit_test(layers_of_the_sparse_pipeline),
        cmocka_unit_test(gathers_move_half),
        cmocka_unit_test(better_forms_of_our_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
