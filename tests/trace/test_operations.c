/* Arithmetic and bytes of operations, by hand. Inputs as Kineto writes them. */
#include "check.h"
#include "trace/kernel_names.h"
#include "trace/operation_inputs.h"

#include <math.h>
#include <string.h>

static const double UNKNOWN = NAN;

struct sample {
    const char *name, *dims, *types, *values;
    enum aorta_work_class class;
    enum aorta_arithmetic arithmetic;
    double flops, bytes;
};

static struct aorta_json_value json(const char *text) {
    return (struct aorta_json_value){text, text ? strlen(text) : 0};
}

static bool count(const struct sample *sample, struct aorta_work_amount *amount) {
    const struct aorta_operation operation = {.name = sample->name,
                                              .name_length = strlen(sample->name),
                                              .dims = json(sample->dims),
                                              .types = json(sample->types),
                                              .values = json(sample->values)};
    struct aorta_product product;
    return aorta_operation_count(&operation, &product, amount);
}

static bool same(double a, double b) {
    return isnan(a) ? isnan(b) : fabs(a - b) <= 1e-9 * fabs(b);
}

static void check(const struct sample *samples, size_t sample_count) {
    for (size_t i = 0; i < sample_count; i++) {
        struct aorta_work_amount amount;
        if (!count(&samples[i], &amount)) fail_msg("%s is not counted", samples[i].name);
        if (same(amount.flops, samples[i].flops) && same(amount.bytes, samples[i].bytes) &&
            amount.class == samples[i].class && amount.arithmetic == samples[i].arithmetic)
            continue;
        fail_msg("%s %s: %g flops, %g bytes, %s, %s; not %g, %g", samples[i].name, samples[i].dims, amount.flops,
                 amount.bytes, aorta_work_class_name(amount.class), aorta_arithmetic_name(amount.arithmetic),
                 samples[i].flops, samples[i].bytes);
    }
}
#define CHECK(samples) check(samples, sizeof(samples) / sizeof *(samples))

static void products(void **state) {
    (void)state;
    static const char halves[] = "[\"c10::BFloat16\", \"c10::BFloat16\"]";
    const struct sample samples[] = {
        /* 2·64·16·32; 64·32 + 32·16 + 64·16 elements of two bytes */
        {"aten::mm", "[[64, 32], [32, 16]]", halves, NULL, AORTA_WORK_GEMM, AORTA_IN_BF16, 65536,
         2.0 * (2048 + 512 + 1024)},
        {"aten::bmm", "[[8, 16, 32], [8, 32, 4]]", "[\"double\", \"double\"]", NULL, AORTA_WORK_GEMM, AORTA_IN_FP64,
         2.0 * 8 * 16 * 32 * 4, 8.0 * 8 * (512 + 128 + 64)},
        {"aten::_scaled_mm", "[[16, 32], [32, 8]]", "[\"c10::Float8_e4m3fn\", \"c10::Float8_e4m3fn\"]", NULL,
         AORTA_WORK_GEMM, AORTA_IN_FP8, 2.0 * 16 * 32 * 8, 512 + 256 + 128},
        {"aten::mm", "[[64, 32], [32, 16]]", NULL, NULL, AORTA_WORK_GEMM, AORTA_ARITHMETIC_UNKNOWN, 65536, UNKNOWN},
        {"aten::mm", "[[64, 32], [31, 16]]", halves, NULL, AORTA_WORK_GEMM, AORTA_ARITHMETIC_UNKNOWN, UNKNOWN, UNKNOWN},
        {"aorta::linear_backward_input", "[[4, 8], [8, 2]]", "[\"float\", \"float\"]", NULL, AORTA_WORK_GEMM,
         AORTA_IN_FP32, 128, 4.0 * (32 + 16 + 8)},
    };
    CHECK(samples);
}

static void attention(void **state) {
    (void)state;
    static const char types[] = "[\"c10::Half\", \"c10::Half\", \"c10::Half\"]";
    static const char flash[] = "[[2, 128, 4, 64], [2, 128, 4, 64], [2, 128, 4, 64], [], [], [], [], [], []]";
    static const char cudnn[] = "[[2, 4, 128, 64], [2, 4, 256, 64], [2, 4, 256, 32], [], [], [], [], [], [], [], []]";
    static const char backward[] = "[[2, 4, 128, 64], [2, 4, 128, 64], [2, 4, 128, 64], [2, 4, 128, 64], [], [], [], "
                                   "[], [], [], [], [], [], [], []]";
    static const char all[] = "[\"c10::Half\", \"c10::Half\", \"c10::Half\", \"c10::Half\"]";
    const double heads = 2 * 4, tensor = heads * 128 * 64 * 2;
    const struct sample samples[] = {
        /* Two products of 128 × 128 × 64 for each head; causal: 128·129/2 pairs of them. */
        {"aten::_flash_attention_forward", flash, types, "[\"\",\"\",\"\",\"\",\"\",\"128\",\"128\",\"0.\",\"False\"]",
         AORTA_WORK_ATTENTION, AORTA_IN_FP16, heads * 4 * 128 * 128 * 64, 4 * tensor},
        {"aten::_flash_attention_forward", flash, types, "[\"\",\"\",\"\",\"\",\"\",\"128\",\"128\",\"0.\",\"True\"]",
         AORTA_WORK_ATTENTION, AORTA_IN_FP16, heads * 4 * (128 * 129 / 2.0) * 64, 4 * tensor},
        {"aten::_flash_attention_forward", flash, types, NULL, AORTA_WORK_ATTENTION, AORTA_ARITHMETIC_UNKNOWN, UNKNOWN,
         UNKNOWN}, /* causal or not: the file does not say */
        {"aten::_cudnn_attention_forward", cudnn, types,
         "[\"\",\"\",\"\",\"\",\"\",\"\",\"128\",\"256\",\"True\",\"0.1\",\"False\"]", AORTA_WORK_ATTENTION,
         AORTA_IN_FP16, heads * 2 * 128 * 256 * (64 + 32), heads * 2 * (128 * 64 + 256 * 64 + 256 * 32 + 128 * 32)},
        {"aten::_cudnn_attention_backward", backward, all,
         "[\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"128\",\"128\",\"0.1\",\"False\"]",
         AORTA_WORK_ATTENTION, AORTA_IN_FP16, heads * 8 * 128 * 128 * 64, 8 * tensor},
        {"aten::_scaled_dot_product_flash_attention", flash, types, NULL, AORTA_WORK_ATTENTION,
         AORTA_ARITHMETIC_UNKNOWN, UNKNOWN, UNKNOWN},
    };
    CHECK(samples);
}

static void convolutions(void **state) {
    (void)state;
    static const char forward[] = "[[10, 64, 56, 56], [128, 64, 3, 3], [], [], [], [], []]";
    static const char types[] = "[\"float\", \"float\", \"float\"]";
    static const char backward[] =
        "[[10, 128, 28, 28], [10, 64, 56, 56], [128, 64, 3, 3], [], [], [], [], [], [], [], []]";
    static const char both[] =
        "[\"\",\"\",\"\",\"[0]\",\"[2, 2]\",\"[1, 1]\",\"[1, 1]\",\"False\",\"[0, 0]\",\"1\",\"[True, "
        "True, False]\"]";
    static const char first[] = "[\"\",\"\",\"\",\"[0]\",\"[2, 2]\",\"[1, 1]\",\"[1, 1]\",\"False\",\"[0, "
                                "0]\",\"1\",\"[False, True, False]\"]";
    const double outputs = 10.0 * 128 * 28 * 28, flops = 2 * outputs * 64 * 9;
    const double x = 10.0 * 64 * 56 * 56 * 4, y = outputs * 4, w = 128.0 * 64 * 9 * 4;
    const struct sample samples[] = {
        {"aten::miopen_convolution", forward, types, "[\"\",\"\",\"\",\"[1, 1]\",\"[2, 2]\",\"[1, 1]\",\"1\"]",
         AORTA_WORK_CONVOLUTION, AORTA_IN_FP32, flops, x + y + w},
        {"aten::cudnn_convolution", forward, types, "[\"\",\"\",\"[1, 1]\",\"[2, 2]\",\"[1, 1]\",\"1\"]",
         AORTA_WORK_CONVOLUTION, AORTA_IN_FP32, flops, x + y + w},
        {"aten::cudnn_convolution", forward, types, NULL, AORTA_WORK_CONVOLUTION, AORTA_ARITHMETIC_UNKNOWN, UNKNOWN,
         UNKNOWN},
        {"aten::convolution_backward", backward, types, both, AORTA_WORK_CONVOLUTION, AORTA_IN_FP32, 2 * flops,
         y + 2 * (x + w)},
        {"aten::convolution_backward", backward, types, first, AORTA_WORK_CONVOLUTION, AORTA_IN_FP32, flops, y + x + w},
    };
    CHECK(samples);
}

static void what_only_moves(void **state) {
    (void)state;
    const struct sample samples[] = {
        {"aten::mul", "[[1024], [16, 559, 1024]]", "[\"c10::BFloat16\", \"c10::BFloat16\"]", NULL, AORTA_WORK_POINTWISE,
         AORTA_IN_BF16, 0, 2.0 * (1024 + 2.0 * 16 * 559 * 1024)},
        /* a column times a row is wider than both; the result has the wider type */
        {"aten::mul", "[[8, 1], [4]]", "[\"c10::BFloat16\", \"float\"]", NULL, AORTA_WORK_POINTWISE, AORTA_IN_BF16, 0,
         2.0 * 8 + 4.0 * 4 + 4.0 * 32},
        {"aten::add", "[[16, 4], [], []]", "[\"float\", \"double\", \"Scalar\"]", NULL, AORTA_WORK_POINTWISE,
         AORTA_IN_FP32, 0, 4.0 * 64 + 8 + 4.0 * 64},
        {"aten::eq", "[[16, 4], []]", "[\"long int\", \"Scalar\"]", NULL, AORTA_WORK_POINTWISE,
         AORTA_ARITHMETIC_UNKNOWN, 0, 8.0 * 64 + 64},
        {"aten::copy_", "[[16, 4], [16, 4], []]", "[\"c10::BFloat16\", \"float\", \"Scalar\"]", NULL,
         AORTA_WORK_POINTWISE, AORTA_IN_FP32, 0, 2.0 * 64 + 4.0 * 64},
        {"aten::fill_", "[[16, 4], []]", "[\"float\", \"Scalar\"]", NULL, AORTA_WORK_POINTWISE, AORTA_IN_FP32, 0, 256},
        {"aten::sum", "[[512, 768], [], [], []]", "[\"float\", \"ScalarList\", \"Scalar\", \"\"]", NULL,
         AORTA_WORK_REDUCTION, AORTA_IN_FP32, 0, 4.0 * 512 * 768},
        {"aten::native_batch_norm", "[[10, 64, 7, 7], [64], [64], [64], [64], [], [], []]",
         "[\"float\", \"float\", \"float\", \"float\", \"float\", \"Scalar\", \"Scalar\", \"Scalar\"]", NULL,
         AORTA_WORK_REDUCTION, AORTA_IN_FP32, 0, 4.0 * (2 * 64 + 2 * 10 * 64 * 49)},
        {"aten::index_select", "[[151936, 1024], [], [8944]]", "[\"c10::BFloat16\", \"Scalar\", \"long int\"]",
         "[\"\", \"0\", \"\"]", AORTA_WORK_POINTWISE, AORTA_IN_BF16, 0, 8.0 * 8944 + 2.0 * 8944 * 1024},
        {"aten::gather", "[[60000, 192], [], [16384, 192], [], [16384, 192]]",
         "[\"float\", \"Scalar\", \"long int\", \"Scalar\", \"float\"]", NULL, AORTA_WORK_POINTWISE, AORTA_IN_FP32, 0,
         12.0 * 16384 * 192},
        /* lists of tensors have no types in the file */
        {"aten::cat", "[[[4, 2], [4, 2]], []]", "[\"TensorList\", \"Scalar\"]", NULL, AORTA_WORK_POINTWISE,
         AORTA_ARITHMETIC_UNKNOWN, UNKNOWN, UNKNOWN},
        {"aten::add", "[[[4], [2]], [], []]", "[\"TensorList\", \"Scalar\", \"Scalar\"]", NULL, AORTA_WORK_POINTWISE,
         AORTA_ARITHMETIC_UNKNOWN, 0, UNKNOWN},
        {"aten::mul", "[[4], [4]]", NULL, NULL, AORTA_WORK_POINTWISE, AORTA_ARITHMETIC_UNKNOWN, 0, UNKNOWN},
    };
    CHECK(samples);
}

/* The table is searched in halves. */
/* Shapes as vLLM's and SGLang's traces have them, smaller. */
static void inference(void **state) {
    (void)state;
    static const char half[] = "[\"c10::BFloat16\", \"c10::BFloat16\", \"c10::BFloat16\", \"c10::BFloat16\", "
                               "\"c10::BFloat16\"]";
    const struct sample samples[] = {
        /* 2 sequences of 4 queries and keys: 10 pairs each, 2 products of 8 for each of 3 heads; keys have one head. */
        {"aiter::mha_batch_prefill", "[[8, 3, 8], [99, 1, 8], [99, 1, 8], [3], [3], [9], [], [], [], [], [], [], []]",
         "[\"c10::BFloat16\", \"c10::BFloat16\", \"c10::BFloat16\", \"int\", \"int\", \"int\"]",
         "[\"\",\"\",\"\",\"\",\"\",\"\",\"4\",\"4\",\"0.\",\"0.35\",\"0.\",\"False\",\"True\"]", AORTA_WORK_ATTENTION,
         AORTA_IN_BF16, 2.0 * 2 * 3 * 10 * 16, 2.0 * (2 * 8 * 3 * 8 + 2 * 4 * 16)},
        /* The sequences have unequal, unknown lengths: 7 queries of two sequences of 4 at most. */
        {"flash_attn::_flash_attn_varlen_forward", "[[7, 3, 8], [7, 1, 8], [7, 1, 8], [3], [3], [], [], [], [], []]",
         "[\"c10::BFloat16\", \"c10::BFloat16\", \"c10::BFloat16\", \"int\", \"int\"]",
         "[\"\",\"\",\"\",\"\",\"\",\"4\",\"4\",\"0.\",\"0.35\",\"True\"]", AORTA_WORK_ATTENTION,
         AORTA_ARITHMETIC_UNKNOWN, UNKNOWN, UNKNOWN},
        /* 6 tokens, 2 of 8 experts each: 12 lines through [32, 16] and [16, 16]; all experts can be reached. */
        {"vllm::outplace_fused_experts", "[[6, 16], [8, 32, 16], [8, 16, 16], [6, 2], [6, 2]]",
         "[\"c10::BFloat16\", \"c10::Float8_e4m3fn\", \"c10::Float8_e4m3fn\", \"float\", \"int\"]", NULL,
         AORTA_WORK_GEMM, AORTA_IN_FP8, 2.0 * 12 * (512 + 256), 2.0 * 192 + 8 * (512 + 256)},
        {"vllm::rocm_aiter_fused_moe", "[[6, 16], [8, 32, 16], [8, 16, 16], [6, 2], [6, 2]]",
         "[\"c10::BFloat16\", \"c10::Float8_e4m3fn\", \"c10::Float8_e4m3fn\", \"float\", \"int\"]", NULL,
         AORTA_WORK_GEMM, AORTA_IN_FP8, 2.0 * 12 * (512 + 256), 2.0 * 192 + 8 * (512 + 256)},
        {"aten::_grouped_mm", "[[64, 32], [4, 32, 16], [4]]", half, NULL, AORTA_WORK_GEMM, AORTA_IN_BF16,
         2.0 * 64 * 32 * 16, 2.0 * (2048 + 2048 + 1024)},
        /* Two numbers of four bits in a byte: k is 64. */
        {"aten::_scaled_mm", "[[16, 32], [32, 8]]", "[\"c10::Float4_e2m1fn_x2\", \"c10::Float4_e2m1fn_x2\"]", NULL,
         AORTA_WORK_GEMM, AORTA_IN_FP4, 2.0 * 16 * 64 * 8, 512 + 256 + 128},
        {"vllm::rocm_unquantized_gemm_impl", "[[4, 32], [8, 32], []]", half, NULL, AORTA_WORK_GEMM, AORTA_IN_BF16,
         2.0 * 4 * 32 * 8, 2.0 * (128 + 256 + 32)},
        /* Output, input, weight; then input and residual that are read and written. */
        {"_C::rms_norm", "[[8, 16], [8, 16], [16], []]", half, NULL, AORTA_WORK_REDUCTION, AORTA_IN_BF16, 0,
         2.0 * (128 + 128 + 16)},
        {"_C::fused_add_rms_norm", "[[8, 16], [8, 16], [16], []]", half, NULL, AORTA_WORK_REDUCTION, AORTA_IN_BF16, 0,
         2.0 * (4 * 128 + 16)},
        {"aiter::rms_norm", "[[4, 16], [16], [], []]", "[\"c10::BFloat16\", \"c10::BFloat16\", \"Scalar\", \"Scalar\"]",
         NULL, AORTA_WORK_REDUCTION, AORTA_IN_BF16, 0, 2.0 * (64 + 16 + 64)},
        /* What it writes is among the inputs: output, input, residual read and written, weight. */
        {"aiter::rmsnorm2d_fwd_with_add_ck", "[[4, 16], [4, 16], [4, 16], [4, 16], [16], [], []]",
         "[\"c10::BFloat16\", \"c10::BFloat16\", \"c10::BFloat16\", \"c10::BFloat16\", \"c10::BFloat16\", \"Scalar\", "
         "\"Scalar\"]",
         NULL, AORTA_WORK_REDUCTION, AORTA_IN_BF16, 0, 2.0 * (4 * 64 + 16)},
        {"aiter::rmsnorm2d_fwd_with_dynamicquant_ck", "[[4, 16], [4, 16], [4, 1], [16], [], []]",
         "[\"c10::Float8_e4m3fn\", \"c10::BFloat16\", \"float\", \"c10::BFloat16\", \"Scalar\", \"Scalar\"]", NULL,
         AORTA_WORK_REDUCTION, AORTA_IN_FP8, 0, 64 + 2.0 * 64 + 4.0 * 4 + 2.0 * 16},
        {"aiter::gemm_a16w16", "[[64, 32], [16, 32], [], []]",
         "[\"c10::BFloat16\", \"c10::BFloat16\", \"\", \"Scalar\"]", NULL, AORTA_WORK_GEMM, AORTA_IN_BF16, 65536,
         2.0 * (2048 + 512 + 1024)},
        {"sgl_kernel::silu_and_mul", "[[8, 16], [8, 32]]", half, NULL, AORTA_WORK_POINTWISE, AORTA_IN_BF16, 0,
         2.0 * (128 + 256)},
        /* Positions of 8 bytes; query and key there and back; a line of 4 sines for each of 8 tokens. */
        {"_C::rotary_embedding", "[[8], [8, 16], [8, 4], [], [1000, 4], []]",
         "[\"long int\", \"c10::BFloat16\", \"c10::BFloat16\", \"Scalar\", \"c10::BFloat16\", \"Scalar\"]", NULL,
         AORTA_WORK_POINTWISE, AORTA_IN_BF16, 0, 64 + 2.0 * 2 * (128 + 32) + 2.0 * 8 * 4},
        /* 8 tokens of 2 × 4 from two bytes into one. */
        {"_C_cache_ops::reshape_and_cache_flash", "[[8, 2, 4], [8, 2, 4], [99, 16, 2, 4], [99, 16, 2, 4], [8], []]",
         "[\"c10::BFloat16\", \"c10::BFloat16\", \"unsigned char\", \"unsigned char\", \"long int\", \"\"]", NULL,
         AORTA_WORK_POINTWISE, AORTA_IN_BF16, 0, 2 * 2.0 * 64 + 64 + 2.0 * 64},
    };
    CHECK(samples);
}

static void each_operation_is_found(void **state) {
    (void)state;
    static const char *const names[] = {
#define OPERATION(name, class, rule, first, count) name,
#include "trace/operations.def"
#undef OPERATION
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_true(aorta_operation_wanted(names[i], strlen(names[i])));
        if (i) assert_true(strcmp(names[i - 1], names[i]) < 0);
    }
    assert_false(aorta_operation_wanted("aten::mm_like", 13));
    assert_false(aorta_operation_wanted("aten::m", 7));
    static const char zeros[] = "aten::mm\0and zeros in it, further than the name is long";
    assert_false(aorta_operation_wanted(zeros, sizeof zeros - 1));
    assert_true(aorta_operation_wanted("aten::mm and more", 8));
    assert_true(aorta_operation_wanted("aten::convolution_overrideable", 30));
}

static void kernels_by_name(void **state) {
    (void)state;
    static const struct {
        const char *name;
        enum aorta_work_class class;
    } rows[] = {
        {"nvjet_sm90_tst_128x96_64x6_1x2_h_bz_NTT", AORTA_WORK_GEMM},
        {"cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma", AORTA_WORK_ATTENTION},
        {"void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>", AORTA_WORK_POINTWISE},
        {"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>", AORTA_WORK_REDUCTION},
        {"batched_transpose_16x32_half", AORTA_WORK_POINTWISE},
        {"my_own_kernel", AORTA_WORK_OTHER},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(aorta_kernel_work_class(rows[i].name), rows[i].class);
    assert_true(aorta_kernel_uses_tf32("sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32"));
    assert_true(aorta_kernel_uses_tf32("ampere_s1688gemm_128x128_tn"));
    assert_false(aorta_kernel_uses_tf32("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>"));
    assert_true(aorta_kernel_uses_tf32("Cijk_Alik_Bljk_S_MX_B_Bias_HA_S_SAV_UserArgs_MT128x160x64_MI16x16x1_SN"));
    assert_false(aorta_kernel_uses_tf32("Cijk_Ailk_Bljk_S_B_Bias_HA_S_SAV_UserArgs_MT16x16x128_MI16x16x1_SN"));
}

static void tensile_says_its_types(void **state) {
    (void)state;
    static const struct {
        const char *name;
        enum aorta_arithmetic arithmetic;
    } rows[] = {
        {"Cijk_Alik_Bljk_B_BS_BH_Bias_HA_S_SAV_UserArgs_MT256x128x64_MI16x16x1_SN", AORTA_IN_BF16},
        {"Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT320x224x64_MI16x16x1_SN", AORTA_IN_BF16},
        {"Custom_Cijk_Ailk_Bljk_HSS_BH_Bias_AS_SAV_MT64x16x64_MI16x16x1", AORTA_IN_FP16},
        {"Cijk_Ailk_Bljk_SB_MT64x64x16_MI16x16x4x1_SN", AORTA_IN_FP32},
        {"Cijk_Ailk_Bjlk_S_MX_B_UserArgs_MT128x160x64_MI16x16x1_SN", AORTA_IN_TF32},
        {"Cijk_Alik_Bljk_F8BS_BH_Bias_HA_S_SAB_SAV_UserArgs_MT256x256x128", AORTA_IN_FP8},
        {"Cijk_Alik_Bljk_B8F8BS_BH_UserArgs_MT256x256x128", AORTA_IN_FP8},
        {"Cijk_Alik_Bljk_I8II_BH_MT64x64x64", AORTA_ARITHMETIC_UNKNOWN},
        {"Cijk_Ailk_Bljk_", AORTA_ARITHMETIC_UNKNOWN},
        {"Cijk_", AORTA_ARITHMETIC_UNKNOWN},
        {"nvjet_sm90_tst_128x96_64x6", AORTA_ARITHMETIC_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(aorta_kernel_tensile_arithmetic(rows[i].name), rows[i].arithmetic);
}

/* Numbers of c10/core/ScalarType.h. */
static void types_by_number(void **state) {
    (void)state;
    static const struct {
        int64_t code;
        const char *name; /* NULL: no such type */
    } rows[] = {{0, "Byte"},
                {4, "Long"},
                {5, "Half"},
                {6, "Float"},
                {9, "ComplexFloat"},
                {11, "Bool"},
                {15, "BFloat16"},
                {16, NULL},
                {23, "Float8_e5m2"},
                {24, "Float8_e4m3fn"},
                {26, "Float8_e4m3fnuz"},
                {27, "UInt16"},
                {30, NULL},
                {44, "Float8_e8m0fnu"},
                {46, NULL},
                {47, NULL},
                {48, NULL},
                {-1, NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct aorta_element *element = aorta_element_of_code(rows[i].code);
        assert_ptr_equal(element, rows[i].name ? aorta_element_named(rows[i].name) : NULL);
    }
    assert_int_equal(aorta_element_of_code(45)->arithmetic, AORTA_IN_FP4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensile_says_its_types),
        cmocka_unit_test(products),
        cmocka_unit_test(attention),
        cmocka_unit_test(convolutions),
        cmocka_unit_test(what_only_moves),
        cmocka_unit_test(inference),
        cmocka_unit_test(each_operation_is_found),
        cmocka_unit_test(kernels_by_name),
        cmocka_unit_test(types_by_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
