/* Remedies of compute on runs made by hand: each is found where it is true, and not where it is not; what the ledger
 * says adds up. A program is two steps of operations on an H100, each with the kernels it launches:
 *
 *     host     [step [operation  launch] [operation  launch] … ]
 *     device                        [kernel]            [kernel]   */
#include "check.h"
#include "samples/dump.h"
#include "trace/open.h"
#include "verdict/remedies.h"

#include <math.h>
#include <stdlib.h>

enum { STEPS = 2 };
enum { WITHOUT_OPERATIONS = 2 }; /* beside true and false, with or without shapes */

static const char H100[] = "\"name\": \"NVIDIA H100 80GB HBM3\", \"totalGlobalMem\": 85018279936, "
                           "\"computeMajor\": 9, \"computeMinor\": 0, \"numSms\": 132";
static const char MI300X[] = "\"name\": \"AMD Instinct MI300X\", \"totalGlobalMem\": 206141652992, "
                             "\"computeMajor\": 9, \"computeMinor\": 4, \"numSms\": 304";
static const char *launched_by = "cudaLaunchKernel", *device = H100;
static int blocks = 64; /* of each kernel */

struct made {
    struct aorta_text text;
    int host_us, device_us, correlation, stream;
    int shapes;
};

/* An operation and its kernel. A frame around several ends with END. */
struct op {
    const char *name, *dims, *types, *strides, *kernel;
    int us;
    const char *more; /* "Sequence number": …, or Concrete Inputs */
    int thread;       /* 0: the main one */
};
#define FRAME(name, more, thread)                                                                                      \
    { name, NULL, NULL, NULL, NULL, -1, more, thread }
#define RANGE(name)                                                                                                    \
    { name, NULL, NULL, NULL, NULL, -2, NULL, 0 }
#define END                                                                                                            \
    { NULL, NULL, NULL, NULL, NULL, 0, NULL, 0 }
#define FORWARD(number) "\"Sequence number\": " #number ", \"Fwd thread id\": 0"
#define GRADIENT(number) "\"Sequence number\": " #number ", \"Fwd thread id\": 1"

static void event(struct made *made, const char *category, const char *name, int thread, int start, int end,
                  const char *args) {
    aorta_text_printf(&made->text,
                      "{\"ph\": \"X\", \"cat\": \"%s\", \"name\": \"%s\", \"pid\": 1, \"tid\": %d, \"ts\": %d, "
                      "\"dur\": %d, \"args\": {%s}},\n",
                      category, name, thread, start, end - start, args);
}

static void launch(struct made *made, const struct op *op) {
    char args[256];
    made->correlation++;
    snprintf(args, sizeof args, "\"correlation\": %d", made->correlation);
    event(made, "cuda_runtime", launched_by, 1 + op->thread, made->host_us + 2, made->host_us + 4, args);
    if (made->device_us < made->host_us + 5) made->device_us = made->host_us + 5;
    snprintf(args, sizeof args,
             "\"device\": 0, \"context\": 1, \"stream\": %d, \"correlation\": %d, \"grid\": [%d, 1, 1], \"block\": "
             "[128, 1, 1]",
             made->stream, made->correlation, blocks);
    event(made, "kernel", op->kernel, made->stream, made->device_us, made->device_us + op->us, args);
    made->device_us += op->us + 1;
}

static void args_of(const struct made *made, const struct op *op, char *args, size_t size) {
    struct aorta_text text = {0};
    if (op->more) aorta_text_puts(&text, op->more);
    if (op->dims && made->shapes == true)
        aorta_text_printf(&text, "%s\"Input Dims\": %s, \"Input type\": %s, \"Input Strides\": %s",
                          text.length ? ", " : "", op->dims, op->types, op->strides ? op->strides : "[]");
    snprintf(args, size, "%s", text.data ? text.data : "");
    aorta_text_free(&text);
}

/* Emits ops[at …] up to the END of this frame; returns the place behind it. */
static size_t emit(struct made *made, const struct op *ops, size_t at, size_t count) {
    char args[1024];
    while (at < count && ops[at].name) {
        const struct op *op = &ops[at++];
        const int start = made->host_us;
        made->host_us += 1;
        if (op->us < 0) {
            at = emit(made, ops, at, count);
        } else if (op->kernel) {
            launch(made, op);
            made->host_us += 6;
        }
        made->host_us += 1;
        args_of(made, op, args, sizeof args);
        if (made->shapes != WITHOUT_OPERATIONS)
            event(made, op->us == -2 ? "user_annotation" : "cpu_op", op->name, 1 + op->thread, start, made->host_us,
                  args);
        made->host_us += 1;
    }
    return at + 1;
}

static void add_program(struct aorta_trace_list *list, int rank, const struct op *ops, size_t count, int stream,
                        int shapes) {
    struct made made = {.host_us = 10, .stream = stream, .shapes = shapes};
    aorta_text_printf(&made.text, "{\"distributedInfo\": {\"rank\": %d, \"world_size\": 8}, ", rank);
    aorta_text_printf(&made.text, "\"deviceProperties\": [{\"id\": 0, %s}], \"traceEvents\": [\n", device);
    for (int step = 0; step < STEPS; step++) {
        char name[32];
        const int start = made.host_us;
        for (size_t at = 0; at < count;) at = emit(&made, ops, at, count);
        made.host_us = made.device_us + 10;
        snprintf(name, sizeof name, "ProfilerStep#%d", step);
        event(&made, "user_annotation", name, 1, start - 1, made.host_us - 1, "");
    }
    aorta_text_puts(&made.text, "{\"ph\": \"M\", \"name\": \"x\"}]}");
    assert_false(made.text.failed);
    check_ok(aorta_trace_list_add(list, read_text(made.text.data)));
    aorta_text_free(&made.text);
}

struct found {
    struct aorta_trace_list list;
    struct aorta_trace_analysis analysis;
    struct aorta_remedies remedies;
};

static struct found find(const struct op *ops, size_t count, int stream, int shapes) {
    struct found found = {.list = {0}};
    add_program(&found.list, 0, ops, count, stream, shapes);
    check_ok(aorta_trace_analyze(&found.list, NULL, &found.analysis));
    assert_int_equal(found.analysis.ranks[0].steps, STEPS);
    check_ok(aorta_remedies_make(&found.analysis, 0, &found.remedies));
    return found;
}

static void end(struct found *found) {
    aorta_remedies_free(&found->remedies);
    aorta_trace_analysis_free(&found->analysis);
    aorta_trace_list_free(&found->list);
}

static enum aorta_remedy remedy_of(const char *key) {
    for (int i = 0; i < AORTA_REMEDY_COUNT; i++)
        if (!strcmp(aorta_remedy_rules[i].key, key)) return (enum aorta_remedy)i;
    fail_msg("no remedy %s", key);
    return AORTA_REMEDY_COUNT;
}

/* ---- pairs: worse, then better ---- */

#define TWO(a) "[\"" a "\", \"" a "\"]"
#define BF16 "c10::BFloat16"

static const struct op plain_product[] = {{"aten::mm", "[[4096, 4096], [4096, 4096]]", TWO("float"),
                                           "[[4096, 1], [4096, 1]]", "ampere_sgemm_128x64_nn", 2800, NULL, 0}};
static const struct op tf32_product[] = {{"aten::mm", "[[4096, 4096], [4096, 4096]]", TWO("float"),
                                          "[[4096, 1], [4096, 1]]", "sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n", 390, NULL,
                                          0}};
#define HALF                                                                                                           \
    {                                                                                                                  \
        "aten::mm", "[[4096, 4096], [4096, 4096]]", TWO(BF16), "[[4096, 1], [4096, 1]]",                               \
            "nvjet_sm90_tst_128x256_64x4_1x2_h_bz_NNN", 195, NULL, 0                                                   \
    }
static const struct op half_product[] = {HALF};
#define EXPONENTIAL(type, us)                                                                                          \
    {                                                                                                                  \
        "aten::exp", "[[8192, 4096]]", "[\"" type "\"]", "[[4096, 1]]",                                                \
            "vectorized_elementwise_kernel<4, at::native::exp_kernel_cuda(at::TensorIteratorBase&)::lambda(" type      \
            ")>",                                                                                                      \
            us, NULL, 0                                                                                                \
    }
static const struct op fp64_kernels[] = {EXPONENTIAL("double", 240)};
static const struct op fp32_kernels[] = {EXPONENTIAL("float", 120)};
static const struct op odd_vocabulary[] = {
    {"aten::mm", "[[8192, 768], [768, 50257]]", TWO(BF16), "[[768, 1], [1, 768]]",
     "cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_tn_align1", 6700, NULL, 0}};
static const struct op even_vocabulary[] = {{"aten::mm", "[[8192, 768], [768, 50304]]", TWO(BF16),
                                             "[[768, 1], [1, 768]]", "nvjet_sm90_tst_128x256_64x4_1x2_h_bz_TNN", 900,
                                             NULL, 0}};

#define GELU(more, thread)                                                                                             \
    {                                                                                                                  \
        "aten::gelu", "[[8192, 4096], []]", "[\"" BF16 "\", \"Scalar\"]", "[[4096, 1], []]",                           \
            "vectorized_elementwise_kernel<4, gelu>", 60, more, thread                                                 \
    }
static const struct op computed_again[] = {
    GELU(NULL, 0), FRAME("autograd::engine::evaluate_function: X", GRADIENT(3), 1), GELU(FORWARD(9), 1), END};
static const struct op computed_once[] = {
    GELU(FORWARD(3), 0), FRAME("autograd::engine::evaluate_function: X", GRADIENT(3), 1), GELU(NULL, 1), END};

#define HEADS "[[96, 1024, 64], [96, 64, 1024]]"
#define SCORES "[[8, 12, 1024, 1024], [], []]"
static const struct op written_out[] = {
    {"aten::bmm", HEADS, TWO(BF16), "[[65536, 64, 1], [65536, 1, 64]]", "nvjet_sm90_tst_bmm", 100, FORWARD(1), 0},
    {"aten::mul", "[[8, 12, 1024, 1024], []]", TWO(BF16), "[[12582912, 1048576, 1024, 1], []]",
     "vectorized_elementwise_kernel<4, mul>", 135, FORWARD(2), 0},
    {"aten::_softmax", SCORES, "[\"" BF16 "\", \"Scalar\", \"Scalar\"]", "[[12582912, 1048576, 1024, 1], [], []]",
     "softmax_warp_forward", 140, FORWARD(3), 0},
    {"aten::bmm", "[[96, 1024, 1024], [96, 1024, 64]]", TWO(BF16), "[[1048576, 1024, 1], [65536, 64, 1]]",
     "nvjet_sm90_tst_bmm", 100, FORWARD(4), 0}};
static const struct op products_apart[] = {
    {"aten::bmm", HEADS, TWO(BF16), "[[65536, 64, 1], [65536, 1, 64]]", "nvjet_sm90_tst_bmm", 100, FORWARD(1), 0},
    {"aten::bmm", "[[96, 1024, 1024], [96, 1024, 64]]", TWO(BF16), "[[1048576, 1024, 1], [65536, 64, 1]]",
     "nvjet_sm90_tst_bmm", 100, FORWARD(4), 0}};

#define CAST(to, from)                                                                                                 \
    {                                                                                                                  \
        "aten::copy_", "[[8192, 4096], [8192, 4096], []]", "[\"" to "\", \"" from "\", \"Scalar\"]",                   \
            "[[4096, 1], [4096, 1], []]", "vectorized_elementwise_kernel<4, copy>", 70, NULL, 0                        \
    }
static const struct op there_and_back[] = {CAST("float", BF16), CAST(BF16, "float")};
static const struct op only_there[] = {CAST("float", BF16), GELU(NULL, 0), CAST(BF16, "float")};

#define LOSS(type, us)                                                                                                 \
    {                                                                                                                  \
        "aten::_log_softmax", "[[8192, 50304], [], []]", "[\"" type "\", \"Scalar\", \"Scalar\"]",                     \
            "[[50304, 1], [], []]", "cunn_SoftMaxForward", us, FORWARD(5), 0                                           \
    }
static const struct op wide_logits[] = {{"aten::copy_", "[[8192, 50304], [8192, 50304], []]",
                                         "[\"float\", \"" BF16 "\", \"Scalar\"]", "[[50304, 1], [50304, 1], []]",
                                         "vectorized_elementwise_kernel<4, copy>", 900, NULL, 0},
                                        LOSS("float", 1100)};
static const struct op narrow_logits[] = {LOSS(BF16, 600)};

#define CONVOLUTION(strides, kernel, us)                                                                               \
    {                                                                                                                  \
        "aten::cudnn_convolution", "[[64, 256, 56, 56], [256, 256, 3, 3], [], [], [], [], [], [], []]",                \
            "[\"" BF16 "\", \"" BF16                                                                                   \
            "\", \"ScalarList\", \"ScalarList\", \"ScalarList\", \"Scalar\", \"Scalar\", \"Scalar\", \"Scalar\"]",     \
            strides, kernel, us,                                                                                       \
            "\"Concrete Inputs\": [\"\", \"\", \"[1, 1]\", \"[1, 1]\", \"[1, 1]\", \"1\", \"False\", \"False\", "      \
            "\"True\"]",                                                                                               \
            0                                                                                                          \
    }
static const struct op nchw[] = {CONVOLUTION("[[802816, 3136, 56, 1], [2304, 9, 3, 1], [], [], [], [], [], [], []]",
                                             "cudnn::engines_precompiled::nchwToNhwcKernel", 400)};
static const struct op nhwc[] = {
    CONVOLUTION("[[802816, 1, 14336, 256], [2304, 1, 768, 256], [], [], [], [], [], [], []]",
                "sm90_xmma_fprop_implicit_gemm_bf16", 400)};

#define LIST "[\"TensorList\", \"TensorList\", \"TensorList\", \"TensorList\"]"
#define FOREACH(name, us)                                                                                              \
    { "aten::_foreach_" name, "[[], [], [], []]", LIST, NULL, "multi_tensor_apply_kernel", us, NULL, 0 }
static const struct op for_each[] = {RANGE("Optimizer.step#AdamW.step"),
                                     FOREACH("mul_", 1200),
                                     FOREACH("lerp_", 1800),
                                     FOREACH("mul_", 1200),
                                     FOREACH("addcmul_", 1800),
                                     FOREACH("sqrt", 1200),
                                     FOREACH("div_", 1200),
                                     FOREACH("add_", 1200),
                                     FOREACH("addcdiv_", 2400),
                                     END};
static const struct op fused_update[] = {RANGE("Optimizer.step#AdamW.step"),
                                         {"aten::_fused_adamw_", "[[], []]", "[\"TensorList\", \"TensorList\"]", NULL,
                                          "multi_tensor_apply_kernel<FusedAdam>", 4200, NULL, 0},
                                         END};

static const struct op whole_table[] = {
    FRAME("autograd::engine::evaluate_function: EmbeddingBackward0", GRADIENT(2), 1),
    {"aten::fill_", "[[1000000, 64], []]", "[\"float\", \"Scalar\"]", "[[64, 1], []]",
     "vectorized_elementwise_kernel<4, Fill>", 80, NULL, 1},
    {"aten::embedding_dense_backward", "[[4096, 64], [4096], [], [], []]",
     "[\"float\", \"long int\", \"Scalar\", \"Scalar\", \"Scalar\"]", "[[64, 1], [1], [], [], []]",
     "embedding_backward_feature_kernel", 40, NULL, 1},
    END,
    RANGE("Optimizer.step#SGD.step"),
    FOREACH("add_", 250),
    END};
static const struct op small_table[] = {
    FRAME("autograd::engine::evaluate_function: EmbeddingBackward0", GRADIENT(2), 1),
    {"aten::fill_", "[[4096, 64], []]", "[\"float\", \"Scalar\"]", "[[64, 1], []]",
     "vectorized_elementwise_kernel<4, Fill>", 3, NULL, 1},
    {"aten::embedding_dense_backward", "[[4096, 64], [4096], [], [], []]",
     "[\"float\", \"long int\", \"Scalar\", \"Scalar\", \"Scalar\"]", "[[64, 1], [1], [], [], []]",
     "embedding_backward_feature_kernel", 10, NULL, 1},
    END};

#define SMALL                                                                                                          \
    { "aten::mm", "[[256, 512], [512, 1024]]", TWO(BF16), "[[512, 1], [1024, 1]]", "nvjet_sm90_tst_64x64", 4, NULL, 0 }
#define STACK                                                                                                          \
    { "aten::cat", "[[], []]", "[\"TensorList\", \"Scalar\"]", NULL, "CatArrayBatchedCopy", 10, NULL, 0 }
static const struct op looped[] = {SMALL, SMALL, SMALL, SMALL, SMALL, SMALL, SMALL, SMALL, SMALL,
                                   SMALL, SMALL, SMALL, SMALL, SMALL, SMALL, SMALL, STACK};
static const struct op thrice[] = {SMALL, SMALL, SMALL, STACK};

#define POINTWISE(name)                                                                                                \
    {                                                                                                                  \
        "aten::" name, "[[8192, 4096], [8192, 4096]]", TWO(BF16), "[[4096, 1], [4096, 1]]",                            \
            "vectorized_elementwise_kernel<4, op>", 75, NULL, 0                                                        \
    }
static const struct op chain[] = {POINTWISE("mul"), POINTWISE("add"), GELU(NULL, 0), POINTWISE("mul")};
static const struct op alone[] = {POINTWISE("mul")};

#define DROP(us)                                                                                                       \
    {                                                                                                                  \
        "aten::native_dropout", "[[8192, 4096], [], []]", "[\"c10::BFloat16\", \"Scalar\", \"Scalar\"]",               \
            "[[4096, 1], [], []]", "fused_dropout_kernel_vec", us, NULL, 0                                             \
    }
static const struct op slow_dropout[] = {DROP(2000)};
static const struct op quick_dropout[] = {DROP(150)};

/* 1024 rows in tiles of 128, columns in tiles of 192: 22 × 8 of 132 are 1.3 waves; 16 × 8 in tiles of 256 fill one. */
#define TILED(columns, tile, us)                                                                                       \
    {                                                                                                                  \
        "aten::mm", "[[1024, 8192], [8192, " #columns "]]", TWO(BF16), "[[8192, 1], [" #columns ", 1]]",               \
            "nvjet_sm90_tst_" tile "_64x5_1x2_h_bz_coopB_NNT", us, NULL, 0                                             \
    }
static const struct op two_waves[] = {TILED(4160, "192x128", 200)};
static const struct op one_wave[] = {TILED(4096, "256x128", 110)};

static const struct op slow_product[] = {HALF,
                                         HALF,
                                         HALF,
                                         HALF,
                                         {"aten::mm", "[[4096, 4096], [4096, 4096]]", TWO(BF16),
                                          "[[4096, 1], [4096, 1]]", "cutlass_80_tensorop_s16816gemm_bf16", 900, NULL,
                                          0}};

#define COUNT(rows) (sizeof(rows) / sizeof *(rows))
#define PAIR(key, worse, better)                                                                                       \
    { key, worse, COUNT(worse), better, COUNT(better) }
static const struct pair {
    const char *key;
    const struct op *worse;
    size_t worse_count;
    const struct op *better;
    size_t better_count;
} pairs[] = {
    PAIR("precision=fp32", fp64_kernels, fp32_kernels),
    PAIR("precision=tf32", plain_product, tf32_product),
    PAIR("precision=bf16", tf32_product, half_product),
    PAIR("precision=bf16", plain_product, half_product),
    PAIR("precision=fp8", half_product, alone),
    PAIR("alignment", odd_vocabulary, even_vocabulary),
    PAIR("recompute", computed_again, computed_once),
    PAIR("attention", written_out, products_apart),
    PAIR("casts=copies", there_and_back, only_there),
    PAIR("casts=logits", wide_logits, narrow_logits),
    PAIR("layout", nchw, nhwc),
    PAIR("optimizer", for_each, fused_update),
    PAIR("embedding", whole_table, small_table),
    PAIR("small_kernels=batching", looped, thrice),
    PAIR("fusion", chain, alone),
    PAIR("library=indexing", slow_dropout, quick_dropout),
    PAIR("small_kernels=waves", two_waves, one_wave),
    PAIR("library=slow", slow_product, half_product),
};

static void found_where_true_alone(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(pairs); i++) {
        const enum aorta_remedy remedy = remedy_of(pairs[i].key);
        struct found worse = find(pairs[i].worse, pairs[i].worse_count, 7, true);
        struct found better = find(pairs[i].better, pairs[i].better_count, 7, true);
        const struct aorta_remedy_row *row = &worse.remedies.rows[remedy];
        if (!(row->alone_ns > 0.1 * row->touched_ns) || !row->largest.name)
            fail_msg("%s: not found (%f of %f ns)", pairs[i].key, row->alone_ns, worse.remedies.kernels_ns);
        if (better.remedies.rows[remedy].alone_ns > 0)
            fail_msg("%s: %f of %f ns where there is nothing", pairs[i].key, better.remedies.rows[remedy].alone_ns,
                     better.remedies.kernels_ns);
        end(&worse);
        end(&better);
    }
}

/* 2·4096³ flops in 2800 us are 49.1 TFLOP/s, 0.734 of fp32's 66.9; the same share of TF32's 494.7 takes 378.7 us, and
 * 0.72, as a run of one product says nothing of the type's rate, would take longer. */
static void products_reach_the_rate_of_their_type(void **state) {
    (void)state;
    struct found found = find(plain_product, 1, 7, true);
    const double left_us = 2800 - found.remedies.rows[AORTA_REMEDY_TF32].alone_ns / 1e3;
    assert_true(fabs(left_us - 378.7) < 1);
    end(&found);
}

/* Three tensors of 8192 × 4096 in 16 bits come from outside and one goes there, at 0.67 of 0.85 of 3350 GB/s:
 * 4 × 67.1 MB take 141 us of 285. */
static void chains_are_one_pass(void **state) {
    (void)state;
    struct found found = find(chain, COUNT(chain), 7, true);
    const double left_us = 285 - found.remedies.rows[AORTA_REMEDY_FUSION].alone_ns / 1e3;
    assert_true(left_us > 100 && left_us < 190);
    end(&found);
}

/* A benchmark adds the same tensors ten times: one pass cannot do what each of them does. */
static void repetitions_are_no_chain(void **state) {
    (void)state;
    static const struct op again[] = {POINTWISE("add"), POINTWISE("add"), POINTWISE("add"), POINTWISE("mul")};
    for (size_t count = 2; count <= 4; count++) {
        struct found found = find(again, count, 7, true);
        assert_int_equal(found.remedies.rows[AORTA_REMEDY_FUSION].alone_ns > 0, count != 3);
        end(&found);
    }
}

/* exp(x) twice is a chain; exp(x, out=y) twice stores what the program wants stored. */
static void results_that_are_wanted_stay(void **state) {
    (void)state;
#define EXP(dims, types)                                                                                               \
    { "aten::exp", dims, types, NULL, "vectorized_elementwise_kernel<exp>", 60, NULL, 0 }
    static const struct op chained[] = {EXP("[[33554432]]", "[\"" BF16 "\"]"), EXP("[[33554432]]", "[\"" BF16 "\"]")};
    static const struct op stored[] = {EXP("[[33554432], [33554432]]", TWO(BF16)),
                                       EXP("[[33554432], [33554432]]", TWO(BF16))};
    for (int i = 0; i < 2; i++) {
        struct found found = find(i ? stored : chained, 2, 7, true);
        assert_int_equal(found.remedies.rows[AORTA_REMEDY_FUSION].alone_ns > 0, i == 0);
        end(&found);
    }
}

/* Copies that change nothing are what the program wants: none of them undoes another, and they make no chain. */
static void plain_copies_stay(void **state) {
    (void)state;
    static const struct op copies[] = {CAST("float", "float"), CAST("float", "float"), CAST("float", "float")};
    struct found found = find(copies, COUNT(copies), 7, true);
    assert_true(found.remedies.rows[AORTA_REMEDY_CASTS].alone_ns <= 0);
    assert_true(found.remedies.rows[AORTA_REMEDY_FUSION].alone_ns <= 0);
    end(&found);
}

/* A linear layer in fp32: autocast casts weight and bias for it, and their gradients back. */
static void casts_are_launches(void **state) {
    (void)state;
    static const struct op layer[] = {{"aten::addmm", "[[4096], [4096, 4096], [4096, 4096]]",
                                       "[\"float\", \"float\", \"float\"]", "[[1], [4096, 1], [4096, 1]]",
                                       "ampere_sgemm_128x64_nn", 2800, FORWARD(3), 0},
                                      FRAME("autograd::engine::evaluate_function: AddmmBackward0", GRADIENT(3), 1),
                                      {"aten::mm", "[[4096, 4096], [4096, 4096]]", TWO("float"),
                                       "[[4096, 1], [4096, 1]]", "ampere_sgemm_128x64_nn", 2800, NULL, 1},
                                      END};
    struct found found = find(layer, COUNT(layer), 7, true);
    struct aorta_work_scale *scales = calloc(found.list.items[0]->work_count + 1, sizeof *scales);
    const uint32_t half = aorta_remedy_bit(AORTA_REMEDY_BF16), tf32 = aorta_remedy_bit(AORTA_REMEDY_TF32);
    (void)aorta_remedies_apply(&found.remedies, half, scales);
    for (size_t i = 0; i < found.list.items[0]->work_count; i++) assert_int_equal(scales[i].added, i % 2 ? 0 : 4);
    (void)aorta_remedies_apply(&found.remedies, tf32, scales);
    for (size_t i = 0; i < found.list.items[0]->work_count; i++) assert_int_equal(scales[i].added, 0);
    free(scales);
    end(&found);
}

/* PyTorch's fallback of scaled_dot_product_attention in fp32. With one mask for all heads 16 bits have a fused kernel.
 * With one bias per head no type has one, and the fallback computes in fp32. */
#define FALLBACK_OF(type, bias, ...)                                                                                   \
    {                                                                                                                  \
        {"aten::scaled_dot_product_attention",                                                                         \
         "[[8, 12, 1024, 64], [8, 12, 1024, 64]]",                                                                     \
         TWO(type),                                                                                                    \
         NULL,                                                                                                         \
         NULL,                                                                                                         \
         -1,                                                                                                           \
         NULL,                                                                                                         \
         0},                                                                                                           \
            {"aten::bmm", HEADS, TWO("float"), "[[65536, 64, 1], [65536, 1, 64]]", "gemm_f32f32_tf32f32_f32", 300,     \
             FORWARD(1),  0},                                                                                          \
            {"aten::add_",                                                                                             \
             "[[8, 12, 1024, 1024], " bias "]",                                                                        \
             TWO("float"),                                                                                             \
             "[]",                                                                                                     \
             "elementwise_kernel<add>",                                                                                \
             270,                                                                                                      \
             FORWARD(2),                                                                                               \
             0},                                                                                                       \
            {"aten::_softmax",                                                                                         \
             SCORES,                                                                                                   \
             "[\"float\", \"Scalar\", \"Scalar\"]",                                                                    \
             "[[12582912, 1048576, 1024, 1], [], []]",                                                                 \
             "softmax_warp_forward",                                                                                   \
             280,                                                                                                      \
             FORWARD(3),                                                                                               \
             0},                                                                                                       \
            __VA_ARGS__{"aten::bmm",                                                                                   \
                        "[[96, 1024, 1024], [96, 1024, 64]]",                                                          \
                        TWO("float"),                                                                                  \
                        "[[1048576, 1024, 1], [65536, 64, 1]]",                                                        \
                        "gemm_f32f32_tf32f32_f32",                                                                     \
                        300,                                                                                           \
                        FORWARD(4),                                                                                    \
                        0},                                                                                            \
            END                                                                                                        \
    }
#define FALLBACK(bias) FALLBACK_OF("float", bias, )
static void biased_attention_stays(void **state) {
    (void)state;
    static const struct op masked[] = FALLBACK("[1024, 1024]"), biased[] = FALLBACK("[1, 12, 1024, 1024]");
    struct found fused = find(masked, COUNT(masked), 7, true), same = find(biased, COUNT(biased), 7, true);
    assert_true(fused.remedies.rows[AORTA_REMEDY_BF16].alone_ns > 900e3);
    assert_true(same.remedies.rows[AORTA_REMEDY_BF16].alone_ns <= 0);
    end(&fused);
    end(&same);
}

/* The fallback widens inputs in 16 bits, which fused kernels take: that is no matter of the program's precision. By the
 * kernels' names, the probabilities are narrowed between two products of fp32. */
static void widened_attention_can_be_fused(void **state) {
    (void)state;
    static const struct op widened[] =
        FALLBACK_OF(BF16, "[1024, 1024]",
                    {"aten::copy_", "[[8, 12, 1024, 1024], [8, 12, 1024, 1024]]", TWO("float"), "[]",
                     "vectorized_elementwise_kernel<bfloat16_copy_kernel_cuda>", 100, NULL, 0}, );
    static const int files[] = {true, WITHOUT_OPERATIONS};
    for (size_t i = 0; i < COUNT(files); i++) {
        struct found found = find(widened, COUNT(widened), 7, files[i]);
        const struct aorta_remedy_row *rows = found.remedies.rows;
        assert_true(rows[AORTA_REMEDY_ATTENTION].alone_ns > 900e3 && rows[AORTA_REMEDY_ATTENTION].alone_ns < 1250e3);
        assert_true(rows[AORTA_REMEDY_BF16].alone_ns < 150e3);
        assert_true(found.remedies.fallback);
        end(&found);
    }
    static const struct op wide[] = FALLBACK("[1024, 1024]");
    struct found found = find(wide, COUNT(wide), 7, WITHOUT_OPERATIONS);
    assert_true(found.remedies.rows[AORTA_REMEDY_ATTENTION].alone_ns <= 0);
    assert_false(found.remedies.fallback);
    end(&found);
}

/* Unfused attention of a program, in TF32. 16 bits alone gain little, since the scores are widened before the softmax
 * and narrowed after it, unless a bias has widened them. With fused attention 16 bits gain nearly all. */
static void softmax_stays_wide(void **state) {
    (void)state;
#define BY_HAND(bias)                                                                                                  \
    {                                                                                                                  \
        {"aten::bmm", HEADS, TWO("float"), "[[65536, 64, 1], [65536, 1, 64]]", "gemm_f32f32_tf32f32_f32", 500,         \
         FORWARD(1),  0},                                                                                              \
            {"aten::add",                                                                                              \
             "[[8, 12, 1024, 1024], " bias "]",                                                                        \
             TWO("float"),                                                                                             \
             "[]",                                                                                                     \
             "elementwise_kernel<add>",                                                                                \
             270,                                                                                                      \
             FORWARD(2),                                                                                               \
             0},                                                                                                       \
            {"aten::_softmax",                                                                                         \
             SCORES,                                                                                                   \
             "[\"float\", \"Scalar\", \"Scalar\"]",                                                                    \
             "[[12582912, 1048576, 1024, 1], [], []]",                                                                 \
             "softmax_warp_forward",                                                                                   \
             280,                                                                                                      \
             FORWARD(3),                                                                                               \
             0},                                                                                                       \
            {"aten::bmm",                                                                                              \
             "[[96, 1024, 1024], [96, 1024, 64]]",                                                                     \
             TWO("float"),                                                                                             \
             "[[1048576, 1024, 1], [65536, 64, 1]]",                                                                   \
             "gemm_f32f32_tf32f32_f32",                                                                                \
             500,                                                                                                      \
             FORWARD(4),                                                                                               \
             0},                                                                                                       \
    }
    static const struct op scaled[] = BY_HAND("[8, 12, 1024, 1024]"), biased[] = BY_HAND("[1, 12, 1024, 1024]");
    const double scores = 8 * 12 * 1024 * 1024.0, stream = 0.85 * 3350; /* bytes a ns */
    struct found a = find(scaled, COUNT(scaled), 7, true), b = find(biased, COUNT(biased), 7, true);
    const double products_ns = 500e3, sum_ns = 135e3; /* of both halves */
    const double saved_ns = products_ns + sum_ns - (10 + 6) * scores / stream;
    if (!(fabs(a.remedies.rows[AORTA_REMEDY_BF16].alone_ns - saved_ns) < 20e3))
        fail_msg("%f, not %f", a.remedies.rows[AORTA_REMEDY_BF16].alone_ns, saved_ns);
    const double more_ns = b.remedies.rows[AORTA_REMEDY_BF16].alone_ns - a.remedies.rows[AORTA_REMEDY_BF16].alone_ns;
    const double expected_ns = 10 * scores / stream - sum_ns - 0.25 * 270e3;
    if (!(fabs(more_ns - expected_ns) < 1e3)) fail_msg("%f more, not %f", more_ns, expected_ns);
    struct aorta_work_scale *scales = calloc(a.list.items[0]->work_count + 1, sizeof *scales);
    const uint32_t both = aorta_remedy_bit(AORTA_REMEDY_BF16) | aorta_remedy_bit(AORTA_REMEDY_ATTENTION);
    assert_true(aorta_remedies_apply(&a.remedies, both, scales).saved_ns > 900e3);
    free(scales);
    end(&a);
    end(&b);
}

/* Rows of 49 elements are loaded one by one, in 16 bits as in 32. */
static void odd_rows_gain_little(void **state) {
    (void)state;
#define ROWS_OF(n)                                                                                                     \
    {                                                                                                                  \
        "aten::bmm", "[[4096, 64, 64], [4096, 64, " #n "]]", TWO("float"), "[[4096, 64, 1], [4096, " #n ", 1]]",       \
            "gemm_f32f32_tf32f32_f32", 1000, NULL, 0                                                                   \
    }
    static const struct op even[] = {ROWS_OF(48)}, odd[] = {ROWS_OF(49)}, fours[] = {ROWS_OF(52)};
    struct found c = find(fours, 1, 7, true);
    assert_true(c.remedies.rows[AORTA_REMEDY_BF16].alone_ns <= 0);
    end(&c);
    struct found a = find(even, 1, 7, true), b = find(odd, 1, 7, true);
    assert_true(a.remedies.rows[AORTA_REMEDY_BF16].alone_ns > 450e3);
    if (!(fabs(b.remedies.rows[AORTA_REMEDY_BF16].alone_ns - 300e3) < 20e3))
        fail_msg("%f", b.remedies.rows[AORTA_REMEDY_BF16].alone_ns);
    end(&a);
    end(&b);
}

/* Beside convolutions of NCHW the gradient of an interpolation: 8.4 million elements of 256 channels take 14 ps each in
 * NHWC; of few channels nothing is known. */
static void interpolation_gains_in_nhwc(void **state) {
    (void)state;
#define ENLARGED(channels, us)                                                                                         \
    {                                                                                                                  \
        "aten::upsample_bilinear2d_backward", "[[8, " #channels ", 64, 64]]", "[\"" BF16 "\"]",                        \
            "[[1048576, 4096, 64, 1]]", "upsample_bilinear2d_backward_out_frame", us, NULL, 0                          \
    }
    const struct op large[] = {nchw[0], ENLARGED(256, 400)}, few[] = {nchw[0], ENLARGED(3, 400)},
                    slow[] = {nchw[0], ENLARGED(256, 4000)};
    struct found c = find(slow, 2, 7, true);
    assert_true(c.remedies.rows[AORTA_REMEDY_LAYOUT].alone_ns < 400e3 + 3000e3 + 1);
    end(&c);
    struct found a = find(large, 2, 7, true), b = find(few, 2, 7, true);
    const double more_ns =
        a.remedies.rows[AORTA_REMEDY_LAYOUT].alone_ns - b.remedies.rows[AORTA_REMEDY_LAYOUT].alone_ns;
    if (!(fabs(more_ns - (400e3 - 14e-3 * 8 * 256 * 64 * 64)) < 1)) fail_msg("%f ns", more_ns);
    end(&a);
    end(&b);
}

/* Volumes in 16 bits. Convolutions take half the time, except on three colours. Batch norms use other kernels and take
 * longer: 0.98 ns for each of the 802816 elements of a channel. A remedy that only costs time is not applied. */
static void volumes_in_half(void **state) {
    (void)state;
#define VOLUMES(channels)                                                                                              \
    {                                                                                                                  \
        "aten::cudnn_convolution",                                                                                     \
            "[[32, " #channels ", 8, 56, 56], [64, " #channels ", 3, 3, 3], [], [], [], [], [], [], []]",              \
            "[\"float\", \"float\", \"ScalarList\", \"ScalarList\", \"ScalarList\", \"Scalar\", \"Scalar\", "          \
            "\"Scalar\", \"Scalar\"]",                                                                                 \
            NULL, "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32", 1200,                                           \
            "\"Concrete Inputs\": [\"\", \"\", \"[1, 1, 1]\", \"[1, 1, 1]\", \"[1, 1, 1]\", \"1\", \"False\", "        \
            "\"False\", \"True\"]",                                                                                    \
            0                                                                                                          \
    }
    static const struct op wide[] = {VOLUMES(64)}, colours[] = {VOLUMES(3)};
    static const struct op normed[] = {
        VOLUMES(64),
        {"aten::cudnn_batch_norm", "[[32, 64, 8, 56, 56], [64], [64]]", "[\"float\", \"float\", \"float\"]",
         "[[1605632, 25088, 3136, 56, 1], [1], [1]]", "cudnn::bn_fw_tr_1C11_kernel", 449, NULL, 0}};
    static const double NORM_NS = 0.98 * 32 * 8 * 56 * 56 - 449e3;
    struct found a = find(wide, 1, 7, true), b = find(colours, 1, 7, true), c = find(normed, 2, 7, true),
                 d = find(normed + 1, 1, 7, true);
    const double gain_ns = a.remedies.rows[AORTA_REMEDY_BF16].alone_ns;
    assert_true(gain_ns > 500e3);
    assert_true(b.remedies.rows[AORTA_REMEDY_BF16].alone_ns <= 0);
    assert_true(fabs(c.remedies.rows[AORTA_REMEDY_BF16].alone_ns - (gain_ns - NORM_NS)) < 1e3);
    assert_true(d.remedies.rows[AORTA_REMEDY_BF16].alone_ns <= 0);
    end(&a);
    end(&b);
    end(&c);
    end(&d);
}

/* In 16 bits a copy that turns its tensor takes nearly as long as before, one along its rows half. */
static void turning_copies_gain_little(void **state) {
    (void)state;
#define TURN(strides)                                                                                                  \
    {                                                                                                                  \
        "aten::copy_", "[[8192, 4096], [8192, 4096], []]", "[\"float\", \"float\", \"Scalar\"]", strides,              \
            "elementwise_kernel<copy>", 1000, NULL, 0                                                                  \
    }
    const struct op straight[] = {plain_product[0], TURN("[[4096, 1], [4096, 1], []]")},
                    turned[] = {plain_product[0], TURN("[[4096, 1], [1, 8192], []]")};
    struct found a = find(straight, 2, 7, true), b = find(turned, 2, 7, true);
    const double more_ns = a.remedies.rows[AORTA_REMEDY_BF16].alone_ns - b.remedies.rows[AORTA_REMEDY_BF16].alone_ns;
    if (!(fabs(more_ns - (0.8 - 0.5) * 1000e3) < 1e3)) fail_msg("%f ns", more_ns);
    end(&a);
    end(&b);
}

/* No remedy saves less than nothing, also after those before it, or more than it touches; what is left adds up. Returns
 * what all save together. */
static double check_ledger(const struct found *found, bool slower) {
    struct aorta_work_scale *scales = calloc(found->list.items[0]->work_count + 1, sizeof *scales);
    struct aorta_remedies *remedies = (struct aorta_remedies *)&found->remedies;
    double saved_ns = 0, left_ns = 0;
    uint32_t set = 0;
    for (int j = 0; j < AORTA_REMEDY_COUNT; j++) {
        const struct aorta_remedy_row *row = &remedies->rows[j];
        assert_true(row->alone_ns >= 0 && row->alone_ns <= row->touched_ns + 1e-3);
        if (row->alone_ns <= 0 || aorta_remedy_rules[j].upper) continue;
        set |= aorta_remedy_bit((enum aorta_remedy)j);
        const double before_ns = saved_ns;
        saved_ns = aorta_remedies_apply(remedies, set, scales).saved_ns;
        assert_true(saved_ns >= before_ns - 1e-3);
    }
    assert_true(fabs(aorta_remedies_apply(remedies, set, scales).saved_ns - saved_ns) < 1);
    for (size_t j = 0; j < found->list.items[0]->work_count; j++) {
        assert_true(scales[j].left >= 0 && (slower || scales[j].left <= 1));
        const struct aorta_trace_work *work = &found->list.items[0]->work[j];
        left_ns += (double)scales[j].left * (double)(work->end_ns - work->start_ns) / STEPS;
    }
    assert_true(left_ns >= 0 && left_ns <= remedies->kernels_ns + 1);
    assert_true(fabs(remedies->kernels_ns - left_ns - saved_ns) < 1 + 1e-5 * remedies->kernels_ns);
    free(scales);
    return saved_ns;
}

static void the_ledger_adds_up(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(pairs); i++) {
        struct found found = find(pairs[i].worse, pairs[i].worse_count, 7, true);
        (void)check_ledger(&found, false);
        end(&found);
    }
}

/* Programs of parts taken at random: their ledgers add up, too, with sizes and without; streams have any number. */
static void any_program_adds_up(void **state) {
    (void)state;
    enum { PROGRAMS = 60, PARTS = 7, MOST = 256 };
    struct op ops[MOST];
    uint32_t random = 12345;
    for (int program = 0; program < PROGRAMS; program++) {
        size_t count = 0;
        for (int part = 0; part < PARTS; part++) {
            random = random * 1664525 + 1013904223;
            const struct pair *pair = &pairs[(random >> 8) % COUNT(pairs)];
            const bool worse = random >> 31;
            const size_t more = worse ? pair->worse_count : pair->better_count;
            if (count + more > MOST) break;
            memcpy(ops + count, worse ? pair->worse : pair->better, more * sizeof *ops);
            count += more;
        }
        for (int shapes = 0; shapes <= WITHOUT_OPERATIONS; shapes++) {
            struct found found = find(ops, count, 7, shapes), renamed = find(ops, count, 23, shapes);
            assert_true(fabs(check_ledger(&found, true) - check_ledger(&renamed, true)) < 1e-6);
            end(&found);
            end(&renamed);
        }
    }
}

static void streams_may_have_any_number(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(pairs); i++) {
        struct found a = find(pairs[i].worse, pairs[i].worse_count, 7, true);
        struct found b = find(pairs[i].worse, pairs[i].worse_count, 23, true);
        for (int j = 0; j < AORTA_REMEDY_COUNT; j++)
            assert_true(fabs(a.remedies.rows[j].alone_ns - b.remedies.rows[j].alone_ns) < 1e-6);
        assert_true(fabs(check_ledger(&a, false) - check_ledger(&b, false)) < 1e-6);
        end(&a);
        end(&b);
    }
}

/* Two programs on two ranks. The results of each are the same for all rank numbers, also in the other order. */
static void ranks_may_have_any_number(void **state) {
    (void)state;
    static const int numbers[][2] = {{0, 1}, {7, 3}};
    struct aorta_remedies said[2][2];
    for (int i = 0; i < 2; i++) {
        struct aorta_trace_list list = {0};
        struct aorta_trace_analysis analysis;
        add_program(&list, numbers[i][0], chain, COUNT(chain), 7, true);
        add_program(&list, numbers[i][1], odd_vocabulary, COUNT(odd_vocabulary), 7, true);
        check_ok(aorta_trace_analyze(&list, NULL, &analysis));
        assert_int_equal(analysis.rank_count, 2);
        for (size_t j = 0; j < 2; j++) {
            const int program = analysis.ranks[j].rank == numbers[i][1];
            check_ok(aorta_remedies_make(&analysis, j, &said[i][program]));
        }
        for (int j = 0; j < 2; j++) aorta_remedies_settle(&said[i][j]);
        aorta_trace_analysis_free(&analysis);
        aorta_trace_list_free(&list);
    }
    assert_true(said[0][0].rows[AORTA_REMEDY_FUSION].alone_ns > 100e3);
    assert_true(said[0][1].rows[AORTA_REMEDY_ALIGNMENT].alone_ns > 1e6);
    for (int j = 0; j < 2 * AORTA_REMEDY_COUNT; j++) {
        const struct aorta_remedy_row *a = &said[0][j % 2].rows[j / 2], *b = &said[1][j % 2].rows[j / 2];
        assert_true(fabs(a->alone_ns - b->alone_ns) < 1e-6);
    }
    for (int i = 0; i < 4; i++) aorta_remedies_free(&said[i / 2][i % 2]);
}

/* ---- recordings without shapes ---- */

/* Shapes removed, and operations, too: the run stays, each rule says what it lacks or an upper bound, and none more
 * than with shapes by much. What autograd and the optimizer's range say needs none. */
static void files_without_shapes_lose_evidence(void **state) {
    (void)state;
    static const double MUCH = 1.3, CASTS_NS = 110e3; /* of a product alone, which its name does not show */
    for (size_t i = 0; i < COUNT(pairs); i++) {
        struct found sized = find(pairs[i].worse, pairs[i].worse_count, 7, true);
        for (int shapes = 0; shapes <= WITHOUT_OPERATIONS; shapes += WITHOUT_OPERATIONS) {
            struct found found = find(pairs[i].worse, pairs[i].worse_count, 7, shapes);
            assert_true(fabs(found.remedies.kernels_ns - sized.remedies.kernels_ns) < 1e-6);
            for (int j = 0; j < AORTA_REMEDY_COUNT; j++) {
                const struct aorta_remedy_row *row = &found.remedies.rows[j];
                if (aorta_remedy_rules[j].needs == AORTA_NEEDS_SHAPES) assert_true(row->alone_ns <= 0);
                if (row->alone_ns > MUCH * sized.remedies.rows[j].alone_ns + (j == AORTA_REMEDY_BF16 ? CASTS_NS : 0))
                    fail_msg("%s of %s: %f ns, with shapes %f", aorta_remedy_rules[j].key, pairs[i].key, row->alone_ns,
                             sized.remedies.rows[j].alone_ns);
            }
            assert_string_equal(found.remedies.lacks, shapes ? "operations" : "shapes");
            end(&found);
        }
        end(&sized);
    }
    struct found wide = find(fp64_kernels, COUNT(fp64_kernels), 7, WITHOUT_OPERATIONS);
    assert_true(fabs(wide.remedies.rows[AORTA_REMEDY_FP32].alone_ns - 120e3) < 1);
    end(&wide);
    struct found again = find(computed_again, COUNT(computed_again), 7, false);
    assert_true(again.remedies.rows[AORTA_REMEDY_RECOMPUTE].alone_ns > 50e3);
    end(&again);
    struct found update = find(for_each, COUNT(for_each), 7, false);
    assert_true(update.remedies.rows[AORTA_REMEDY_OPTIMIZER].alone_ns > 5e6);
    end(&update);
}

/* Foreach Adam as kernels are named, and one that is fused. */
#define APPLY(functor, us)                                                                                             \
    { "aten::_foreach_", NULL, NULL, NULL, "multi_tensor_apply_kernel<" functor ">", us, NULL, 0 }
static const struct op foreach_kernels[] = {APPLY("BinaryOpScalarFunctor<float, 1, 1, 0>, multiplies", 1200),
                                            APPLY("TernaryOpScalarFunctor<float, 2, 2, 0>, LerpFunctor", 1800),
                                            APPLY("PointwiseOpScalarFunctor<float, 3, 3, 0>, multiplies", 2400),
                                            APPLY("UnaryOpFunctor<float, 2, 1, 1>, Sqrt", 1600),
                                            APPLY("PointwiseOpScalarListFunctor<float, 3, 3, 0>, divides", 2400)};
static const struct op fused_kernels[] = {APPLY("FusedAdamMathFunctor<float, 4, ADAMW>", 4200)};

/* The table's gradient is filled, rows are added to it, and SGD or Adam reads all of it. */
#define TABLE(update)                                                                                                  \
    {                                                                                                                  \
        {"aten::zeros", NULL, NULL, NULL, "vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>", 80,      \
         NULL,          0},                                                                                            \
            {"aten::embedding_dense_backward",                                                                         \
             NULL,                                                                                                     \
             NULL,                                                                                                     \
             NULL,                                                                                                     \
             "at::native::compute_grad_weight<float, long>",                                                           \
             5,                                                                                                        \
             NULL,                                                                                                     \
             0},                                                                                                       \
            update                                                                                                     \
    }
static const struct op table_by_sgd[] = TABLE(APPLY("BinaryOpListAlphaFunctor<float, 2, 2, 0>, plus", 320)),
                       table_by_adam[] = TABLE(APPLY("PointwiseOpScalarListFunctor<float, 3, 3, 0>, divides", 320)),
                       table_by_fused[] = TABLE(APPLY("FusedAdamMathFunctor<float, 4, ADAMW>", 320));

static void tables_are_known_by_kernels(void **state) {
    (void)state;
    const struct op *const programs[] = {table_by_sgd, table_by_adam, table_by_fused};
    for (int i = 0; i < 3; i++) {
        struct found found = find(programs[i], COUNT(table_by_sgd), 7, WITHOUT_OPERATIONS);
        const struct aorta_remedy_row *row = &found.remedies.rows[AORTA_REMEDY_EMBEDDING];
        if (i)
            assert_true(row->alone_ns <= 0);
        else /* all but the update of a few rows */
            assert_float_equal(row->alone_ns, 393e3, 1e3);
        end(&found);
    }
}

/* Names say that products and attention run in fp32 without matrix units: a tenth or less is left in 16 bits. */
static void wide_kernels_are_known_by_names(void **state) {
    (void)state;
    static const struct op wide[] = {
        {"aten::mm", NULL, NULL, NULL, "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8", 1000, NULL, 0},
        {"aten::_efficient_attention_forward", NULL, NULL, NULL, "fmha_cutlassF_f32_aligned_64x64_rf_sm80", 1000, NULL,
         0}};
    struct found found = find(wide, COUNT(wide), 7, WITHOUT_OPERATIONS);
    const struct aorta_remedy_row *row = &found.remedies.rows[AORTA_REMEDY_BF16];
    assert_true(row->alone_ns > 1800e3 && row->alone_ns < 1900e3);
    assert_true(aorta_remedy_row_is_rough(row));
    end(&found);
}

/* Inference under autocast: input and weights are cast in front of each product; and without the casts. */
#define KERNEL(name, us, thread)                                                                                       \
    { "aten::any", NULL, NULL, NULL, name, us, NULL, thread }
static const struct op cast_weights[] = {KERNEL("bfloat16_copy_kernel_cuda", 8, 0),
                                         KERNEL("bfloat16_copy_kernel_cuda", 80, 0),
                                         KERNEL("nvjet_sm90_tst_128x192_64x5_2x1_v_bz_TNN", 110, 0)},
                       narrow_weights[] = {KERNEL("nvjet_sm90_tst_128x192_64x5_2x1_v_bz_TNN", 110, 0)},
                       cast_in_training[] = {KERNEL("bfloat16_copy_kernel_cuda", 80, 0),
                                             KERNEL("nvjet_sm90_tst_128x192_64x5_2x1_v_bz_TNN", 110, 0),
                                             KERNEL("layer_norm_backward_kernel", 20, 1)},
                       cast_by_norms[] = {KERNEL("bfloat16_copy_kernel_cuda", 80, 0),
                                          KERNEL("nvjet_sm90_tst_128x192_64x5_2x1_v_bz_TNN", 110, 0),
                                          KERNEL("nvjet_sm90_tst_128x192_64x5_2x1_v_bz_TNN", 110, 0)};

/* Keys and values are copied to append a token; are written in place; and queries and keys of all tokens are turned. */
static const struct op
    grown_cache[] = {KERNEL("CatArrayBatchedCopy<float>", 800, 0), KERNEL("CatArrayBatchedCopy<float>", 812, 0),
                     KERNEL("flash_fwd_splitkv_kernel", 133, 0)},
    spacious_cache[] = {KERNEL("flash_fwd_splitkv_kernel", 133, 0)},
    reordered_cache[] = {KERNEL("flash_fwd_splitkv_kernel", 133, 0), KERNEL("flash_fwd_splitkv_kernel", 133, 0),
                         KERNEL("vectorized_gather_kernel", 120, 0), KERNEL("vectorized_gather_kernel", 120, 0),
                         KERNEL("vectorized_gather_kernel", 120, 0), KERNEL("vectorized_gather_kernel", 120, 0)},
    noted_order[] = {KERNEL("flash_fwd_splitkv_kernel", 133, 0), KERNEL("flash_fwd_splitkv_kernel", 133, 0)},
    gathered[] = {KERNEL("flash_fwd_splitkv_kernel", 133, 0), KERNEL("flash_fwd_splitkv_kernel", 133, 0),
                  KERNEL("vectorized_gather_kernel", 120, 0)}, /* no cache: one for two attentions */
    turned[] = {KERNEL("CatArrayBatchedCopy<float>", 100, 0), KERNEL("CatArrayBatchedCopy<float>", 100, 0),
                KERNEL("flash_fwd_kernel", 250, 0)};

/* Batch norms of NCHW between converted convolutions, and those of NHWC. */
static const struct op plane_norms[] = {KERNEL("nchwToNhwcKernel", 200, 0), KERNEL("sm90_xmma_fprop_bf16_nhwc", 300, 0),
                                        KERNEL("batch_norm_collect_statistics_kernel", 400, 0),
                                        KERNEL("batch_norm_transform_input_kernel", 100, 0)},
                       channel_norms[] = {KERNEL("sm90_xmma_fprop_bf16_nhwc", 300, 0),
                                          KERNEL("batch_norm_collect_statistics_channels_last_kernel", 100, 0),
                                          KERNEL("batch_norm_transform_input_channels_last_kernel", 100, 0)};

/* flex_attention that is not compiled: scores in fp32, twelve operations of a penalty, and the sum in 16 bits. */
#define PENALTY(us)                                                                                                    \
    KERNEL("vectorized_elementwise_kernel_abs", us, 0), KERNEL("elementwise_kernel_mul", us, 0),                       \
        KERNEL("elementwise_kernel_sub", us, 0)
static const struct op flex_scores[] = {KERNEL("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n", 1000, 0),
                                        PENALTY(100),
                                        PENALTY(100),
                                        PENALTY(100),
                                        PENALTY(100),
                                        PENALTY(1),
                                        PENALTY(1),
                                        PENALTY(1),
                                        PENALTY(1),
                                        KERNEL("softmax_warp_forward<float, float, float, 11, false, false>", 800, 0),
                                        KERNEL("vectorized_elementwise_kernel<8, bfloat16_copy_kernel_cuda>", 300, 0),
                                        KERNEL("nvjet_sm90_tst_64x512_64x2_1x2_h_bz_coopB_NNT", 150, 0)},
                       flex_products[] = {KERNEL("nvjet_sm90_tst_64x512_64x2_1x2_h_bz_coopB_NNT", 150, 0),
                                          KERNEL("nvjet_sm90_tst_64x512_64x2_1x2_h_bz_coopB_NNT", 150, 0)};

/* All scores are sorted, or the largest are selected. */
static const struct op sorted_scores[] = {KERNEL("nvjet_sm90_tst_128x192_64x5_2x1_v_bz_TNN", 110, 0),
                                          KERNEL("cub::DeviceSegmentedRadixSortKernel", 1000, 0)},
                       selected_scores[] = {KERNEL("nvjet_sm90_tst_128x192_64x5_2x1_v_bz_TNN", 110, 0),
                                            KERNEL("sbtopk::gatherTopK", 150, 0)};

/* Rows of a small table are read by index; their gradient takes ten times as long, or twice. */
static const struct op serial_rows[] = {KERNEL("vectorized_gather_kernel", 240, 0),
                                        KERNEL("indexing_backward_kernel", 2440, 1)},
                       parallel_rows[] = {KERNEL("vectorized_gather_kernel", 240, 0),
                                          KERNEL("indexing_backward_kernel", 480, 1)};

/* Two samples of a convolution without cuDNN, forward and backward: products between copies of windows. */
#define UNFOLDED                                                                                                       \
    KERNEL("im2col_kernel", 90, 0), KERNEL("sm90_xmma_gemm", 25, 0), KERNEL("im2col_kernel", 90, 0),                   \
        KERNEL("sm90_xmma_gemm", 25, 1), KERNEL("sm90_xmma_gemm", 30, 1), KERNEL("col2im_kernel", 240, 1)
#define FOLDED KERNEL("sm90_xmma_gemm", 25, 0), KERNEL("sm90_xmma_gemm", 25, 1), KERNEL("sm90_xmma_gemm", 30, 1)
static const struct op unfolded[] = {UNFOLDED, UNFOLDED, UNFOLDED}, in_place[] = {FOLDED, FOLDED, FOLDED},
                       few_unfolded[] = {UNFOLDED, UNFOLDED};

#define BY_CUDNN KERNEL("im2col4d_kernel", 90, 0), KERNEL("sm90_xmma_gemm", 25, 0), KERNEL("im2col4d_kernel", 90, 0)
static const struct op by_cudnn[] = {BY_CUDNN, BY_CUDNN, BY_CUDNN, BY_CUDNN, BY_CUDNN};

/* A program may unfold a little itself, and cuDNN has such kernels, too. */
static void few_windows_stay(void **state) {
    (void)state;
    static const struct {
        const struct op *ops;
        size_t count;
    } programs[] = {{few_unfolded, COUNT(few_unfolded)}, {by_cudnn, COUNT(by_cudnn)}};
    for (size_t i = 0; i < COUNT(programs); i++) {
        struct found found = find(programs[i].ops, programs[i].count, 7, WITHOUT_OPERATIONS);
        assert_true(found.remedies.rows[AORTA_REMEDY_UNFOLDING].alone_ns <= 0);
        end(&found);
    }
}

static void casts_of_training_and_norms_and_other_copies_stay(void **state) {
    (void)state;
    static const struct {
        const struct op *ops;
        size_t count;
    } programs[] = {{cast_in_training, COUNT(cast_in_training)},
                    {cast_by_norms, COUNT(cast_by_norms)},
                    {turned, COUNT(turned)},
                    {gathered, COUNT(gathered)}};
    for (size_t i = 0; i < COUNT(programs); i++) {
        struct found found = find(programs[i].ops, programs[i].count, 7, WITHOUT_OPERATIONS);
        assert_true(found.remedies.rows[AORTA_REMEDY_WEIGHTS].alone_ns <= 0);
        assert_true(found.remedies.rows[AORTA_REMEDY_CACHE].alone_ns <= 0);
        end(&found);
    }
}

#define ROUGHLY(key, worse, better, least_us, most_us)                                                                 \
    { PAIR(key, worse, better), least_us, most_us }
static const struct rough {
    struct pair pair;
    double least_us, most_us; /* saved a step */
} roughly[] = {
    /* what stands between the products; 0.67 of the rate for one pass of the longest; 7 of 4 passes of the last */
    ROUGHLY("attention", written_out, products_apart, 270, 280),
    ROUGHLY("fusion", chain, alone, 285 - 75 / 0.67 - 1, 285 - 75 / 0.67 + 5),
    ROUGHLY("optimizer", foreach_kernels, fused_kernels, 9400 - 4200 - 1, 9400 - 4200 + 5),
    ROUGHLY("layout", nchw, nhwc, 399, 401),
    ROUGHLY("layout", plane_norms, channel_norms, 499, 501),      /* 200 + 0.6 * (400 + 100) */
    ROUGHLY("attention", flex_scores, flex_products, 2312, 3312), /* what is between, and some of the first product */
    ROUGHLY("library=indexing", sorted_scores, selected_scores, 849, 851),
    ROUGHLY("library=rows", serial_rows, parallel_rows, 2079, 2081), /* 2440 - 1.5 * 240 */
    ROUGHLY("library=unfolding", unfolded, in_place, 1259, 1261),    /* 3 * (2 * 90 + 240) */
    ROUGHLY("casts=weights", cast_weights, narrow_weights, 87, 89),
    ROUGHLY("casts=cache", grown_cache, spacious_cache, 1605, 1607), /* but writing the token */
};

/* One pass reads and writes 822 MB each at 0.67 * 0.85 * 3350 GB/s where the norm knows its mean, as in inference. In
 * training the norm reads twice, which leaves no gain. */
static void norms_of_inference_read_once(void **state) {
    (void)state;
#define NORMED(kernel)                                                                                                 \
    {                                                                                                                  \
        {"aten::cudnn_batch_norm",                                                                                     \
         "[[256, 64, 112, 112], [64]]",                                                                                \
         "[\"float\", \"float\"]",                                                                                     \
         "[[802816, 12544, 112, 1], [1]]",                                                                             \
         kernel,                                                                                                       \
         600,                                                                                                          \
         NULL,                                                                                                         \
         0},                                                                                                           \
        {                                                                                                              \
            "aten::relu_", "[[256, 64, 112, 112]]", "[\"float\"]", "[[802816, 12544, 112, 1]]",                        \
                "vectorized_elementwise_kernel<4, relu>", 600, NULL, 0                                                 \
        }                                                                                                              \
    }
    static const struct op inference[] = NORMED("cudnn::bn_fw_inf_1C11_kernel_NCHW<float, float, true, 1>");
    static const struct op training[] = NORMED("cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, 512, true, 1>");
    static const double ONE_PASS_NS = 2 * 4.0 * 256 * 64 * 112 * 112 / (0.67 * 0.85 * 3350);
    struct found known = find(inference, 2, 7, true), unknown = find(training, 2, 7, true);
    assert_float_equal(known.remedies.rows[AORTA_REMEDY_FUSION].alone_ns, 1200e3 - ONE_PASS_NS, 1e3);
    assert_true(unknown.remedies.rows[AORTA_REMEDY_FUSION].alone_ns <= 0);
    end(&known);
    end(&unknown);
    known = find(inference, 2, 7, false);
    unknown = find(training, 2, 7, WITHOUT_OPERATIONS);
    assert_float_equal(known.remedies.rows[AORTA_REMEDY_FUSION].alone_ns, 1200e3 - 600e3 / 0.67, 1);
    assert_true(unknown.remedies.rows[AORTA_REMEDY_FUSION].alone_ns < 10e3);
    end(&known);
    end(&unknown);
}

static void names_and_times_say_some(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(roughly); i++) {
        const struct pair *pair = &roughly[i].pair;
        const enum aorta_remedy remedy = remedy_of(pair->key);
        struct found worse = find(pair->worse, pair->worse_count, 7, WITHOUT_OPERATIONS);
        struct found better = find(pair->better, pair->better_count, 7, WITHOUT_OPERATIONS);
        const struct aorta_remedy_row *row = &worse.remedies.rows[remedy];
        if (row->alone_ns < roughly[i].least_us * 1e3 || row->alone_ns > roughly[i].most_us * 1e3)
            fail_msg("%s: %f us", pair->key, row->alone_ns / 1e3);
        assert_true(aorta_remedy_row_is_rough(row));
        assert_int_not_equal(aorta_remedy_rules[remedy].needs, AORTA_NEEDS_SHAPES);
        assert_non_null(row->largest.name);
        assert_null(row->largest.dims); /* which would be read from the file */
        assert_true(row->largest.runs > 0 && row->largest.ns > 0 && row->largest.ns <= row->touched_ns);
        assert_true(row->touched_ns <= worse.remedies.kernels_ns);
        assert_true(better.remedies.rows[remedy].alone_ns <= 0);
        end(&worse);
        end(&better);
    }
    struct found sized = find(chain, COUNT(chain), 7, true);
    assert_false(aorta_remedy_row_is_rough(&sized.remedies.rows[AORTA_REMEDY_FUSION]));
    assert_non_null(sized.remedies.rows[AORTA_REMEDY_FUSION].largest.dims);
    end(&sized);
}

/* Rules that compare times find the same on a device that is not in the table, with and without sizes. Precision needs
 * the device's rates. */
static void times_suffice_on_devices_without_rates(void **state) {
    (void)state;
    static const char unlisted[] = "\"name\": \"NVIDIA GeForce RTX 3070\", \"totalGlobalMem\": 8366784512, "
                                   "\"computeMajor\": 8, \"computeMinor\": 6, \"numSms\": 46";
    for (size_t i = 0; i < COUNT(roughly); i++) {
        const struct pair *pair = &roughly[i].pair;
        for (int shapes = 0; shapes <= WITHOUT_OPERATIONS; shapes++) {
            device = unlisted;
            struct found found = find(pair->worse, pair->worse_count, 7, shapes);
            device = H100;
            struct found known = find(pair->worse, pair->worse_count, 7, shapes == true ? false : shapes);
            const enum aorta_remedy remedy = remedy_of(pair->key);
            const double ns = found.remedies.rows[remedy].alone_ns, expected = known.remedies.rows[remedy].alone_ns;
            if (!(fabs(ns - expected) < 1)) fail_msg("%s: %f us of %f", pair->key, ns / 1e3, expected / 1e3);
            assert_non_null(found.remedies.unknown);
            assert_true(found.remedies.rows[AORTA_REMEDY_BF16].alone_ns <= 0);
            end(&found);
            end(&known);
        }
    }
}

/* A program in C multiplies 16 small matrices, a call each: 5 us on 4 of 132 multiprocessors. Together they take as
 * long as one, and no other type makes one shorter. */
static void small_products_of_one_size_are_batched(void **state) {
    (void)state;
    struct op products[16];
    for (size_t i = 0; i < COUNT(products); i++)
        products[i] = (struct op)KERNEL("sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize32x32x8", 5, 0);
    for (blocks = 4; blocks <= 64; blocks += 60) {
        struct found found = find(products, COUNT(products), 7, WITHOUT_OPERATIONS);
        const double batched_us = found.remedies.rows[AORTA_REMEDY_BATCHING].alone_ns / 1e3,
                     typed_us = found.remedies.rows[AORTA_REMEDY_TF32].alone_ns / 1e3;
        assert_true(blocks == 4 ? fabs(batched_us - 75) < 0.1 : batched_us <= 0);
        assert_true(blocks == 4 ? typed_us <= 0 : typed_us > 40);
        end(&found);
    }
    blocks = 64;
}

/* A loop factorizes 16 small matrices and puts the results together, in a recording without operations. Together they
 * take as long as one. What follows them is not the loop's end if it puts nothing together. */
static void small_factorizations_in_a_loop_are_batched(void **state) {
    (void)state;
    enum { MATRICES = 16 };
    static const struct op turn[] = {KERNEL("void getrf_pivot<float>", 20, 0), KERNEL("batch_trsm_left_kernel", 4, 0),
                                     KERNEL("void at::native::elementwise_kernel<128, 2>", 1, 0)};
    struct op loop[COUNT(turn) * MATRICES + 1];
    for (size_t i = 0; i < COUNT(loop) - 1; i++) loop[i] = turn[i % COUNT(turn)];
    for (int stacked = 0; stacked < 2; stacked++)
        for (blocks = 4; blocks <= 64; blocks += 60) {
            loop[COUNT(loop) - 1] = (struct op)KERNEL("void at::native::reduce_kernel<512, 1>", 5, 0);
            if (stacked) loop[COUNT(loop) - 1].kernel = "void at::native::CatArrayBatchedCopy<float, 3>";
            struct found found = find(loop, COUNT(loop), 7, WITHOUT_OPERATIONS);
            assert_float_equal(found.remedies.rows[AORTA_REMEDY_BATCHING].alone_ns / 1e3,
                               stacked && blocks == 4 ? (MATRICES - 1) * 25 : 0, 0.1);
            end(&found);
        }
    blocks = 64;
}

/* Convolutions in NCHW gain nothing by NHWC beside layers for volumes, or beside instance norms. Elsewhere they do. */
static void volumes_and_instance_norms_stay_nchw(void **state) {
    (void)state;
    static const struct {
        const char *name, *kernel;
        bool stays;
    } beside[] = {{"aten::max_pool2d_with_indices", "max_pool_forward_nchw", false},
                  {"aten::max_pool3d_with_indices", "max_pool3d_with_indices_single_out_frame", true},
                  {"aten::conv1d", "cudnn_conv1d", true},
                  {"aten::instance_norm", "batch_norm_collect_statistics_kernel", true}};
    for (size_t i = 0; i < COUNT(beside); i++)
        for (int shapes = 0; shapes <= WITHOUT_OPERATIONS; shapes++) {
            if (shapes == WITHOUT_OPERATIONS && strstr(beside[i].name, "norm"))
                continue; /* its kernel is a batch norm's */
            struct op ops[COUNT(nchw) + 1];
            memcpy(ops, nchw, sizeof nchw);
            ops[COUNT(nchw)] = (struct op){beside[i].name, NULL, NULL, NULL, beside[i].kernel, 20, NULL, 0};
            struct found found = find(ops, COUNT(ops), 7, shapes);
            assert_int_equal(found.remedies.rows[AORTA_REMEDY_LAYOUT].alone_ns <= 0, beside[i].stays);
            end(&found);
        }
}

/* torch.compile calls some operations by choice. Graphs that are only run again (aot_eager) have no generated kernels.
 */
static void operations_of_compiled_graphs_are_chosen(void **state) {
    (void)state;
    const struct op compiled[] = {KERNEL("triton_poi_fused_add_0", 20, 0), FRAME("CompiledFunction", NULL, 0),
                                  POINTWISE("mul"), POINTWISE("add"), END};
    const struct op beside[] = {KERNEL("triton_poi_fused_add_0", 20, 0), POINTWISE("mul"), POINTWISE("add")};
    struct found chosen = find(compiled, COUNT(compiled), 7, true),
                 again = find(compiled + 1, COUNT(compiled) - 1, 7, true),
                 left_out = find(beside, COUNT(beside), 7, true);
    assert_true(chosen.remedies.rows[AORTA_REMEDY_FUSION].alone_ns <= 0);
    assert_true(again.remedies.rows[AORTA_REMEDY_FUSION].alone_ns > 0);
    assert_true(left_out.remedies.rows[AORTA_REMEDY_FUSION].alone_ns > 0);
    end(&chosen);
    end(&again);
    end(&left_out);
}

/* PyTorch's own kernels of depthwise convolutions take as long in other types, with sizes and without. */
static void depthwise_convolutions_stay_as_they_are(void **state) {
    (void)state;
#define VOLUME(kernel)                                                                                                 \
    {                                                                                                                  \
        "aten::convolution_backward",                                                                                  \
            "[[32, 96, 8, 56, 56], [32, 96, 8, 56, 56], [96, 1, 3, 3, 3], [], [], [], [], [], [], [], []]",            \
            "[\"float\", \"float\", \"float\", \"ScalarList\", \"ScalarList\", \"ScalarList\", \"ScalarList\", "       \
            "\"Scalar\", \"ScalarList\", \"Scalar\", \"ScalarList\"]",                                                 \
            NULL, kernel, 6000, NULL, 0                                                                                \
    }
    static const struct op own[] = {VOLUME("conv_depthwise3d_cuda_backward_input_kernel<float, float, 3, 3, 3>")};
    static const struct op library[] = {VOLUME("implicit_convolve_sgemm<float, 128, 6, 7>")};
    for (int shapes = 0; shapes <= WITHOUT_OPERATIONS; shapes++) {
        struct found stays = find(own, 1, 7, shapes), gains = find(library, 1, 7, shapes);
        assert_true(stays.remedies.rows[AORTA_REMEDY_BF16].alone_ns <= 0);
        assert_true(gains.remedies.rows[AORTA_REMEDY_BF16].alone_ns > 1e6);
        end(&stays);
        end(&gains);
    }
}

/* Three layers of eight kernels. Autograd's thread runs them again before their gradients; or does only that, as
 * another thread of a server would; or they have no product. */
static void layers_that_run_again_on_another_thread(void **state) {
    (void)state;
    enum { LAYERS = 3, EACH = 8, GRADIENTS = 10, COUNT = LAYERS * (2 * EACH + GRADIENTS) };
    static const char *const forward[EACH] = {
        "layer_norm_kernel",        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64",
        "elementwise_kernel<add>",  "elementwise_kernel<copy>",
        "softmax_warp_forward",     "elementwise_kernel<mul>",
        "elementwise_kernel<gelu>", "elementwise_kernel<residual>"};
    for (int kind = 0; kind < 3; kind++) {
        struct op ops[COUNT];
        size_t count = 0;
        for (int i = 0; i < 2 * LAYERS; i++) {
            const int thread = i >= LAYERS;
            for (int j = 0; j < EACH; j++)
                ops[count++] = (struct op){
                    "aten::any", NULL, NULL, NULL, kind == 2 && j == 1 ? forward[0] : forward[j], 30, NULL, thread};
            for (int j = 0; thread && kind != 1 && j < GRADIENTS; j++)
                ops[count++] = (struct op){"aten::any",
                                           NULL,
                                           NULL,
                                           NULL,
                                           j % 2 ? "sm90_xmma_gemm_bf16bf16_bf16f32_f32_nt_n_tilesize128x128x64"
                                                 : "elementwise_kernel<backward>",
                                           30,
                                           NULL,
                                           thread};
        }
        struct found found = find(ops, count, 7, WITHOUT_OPERATIONS);
        const struct aorta_remedy_row *row = &found.remedies.rows[AORTA_REMEDY_RECOMPUTE];
        assert_float_equal(row->alone_ns, kind == 0 ? LAYERS * EACH * 30e3 : 0, 1);
        assert_false(aorta_remedy_row_is_rough(row) && kind == 0);
        end(&found);
    }
}

/* A loop over parameters is no chain of one pass, and one that adds quotients is Adam's. */
static void loops_over_parameters_are_no_chain(void **state) {
    (void)state;
    enum { PARAMETERS = 20, EACH = 4 };
    static const struct op adam[EACH] = {
        {"aten::lerp_", NULL, NULL, NULL, "vectorized_elementwise_kernel<4, lerp>", 30, NULL, 0},
        {"aten::sqrt", NULL, NULL, NULL, "vectorized_elementwise_kernel<4, sqrt>", 20, NULL, 0},
        {"aten::add_", NULL, NULL, NULL, "vectorized_elementwise_kernel<4, add>", 20, NULL, 0},
        {"aten::addcdiv_", NULL, NULL, NULL, "vectorized_elementwise_kernel<4, addcdiv_cuda_kernel>", 40, NULL, 0}};
    struct op ops[PARAMETERS * EACH];
    for (int i = 0; i < PARAMETERS * EACH; i++) ops[i] = adam[i % EACH];
    struct found found = find(ops, PARAMETERS * EACH, 7, WITHOUT_OPERATIONS);
    assert_true(found.remedies.rows[AORTA_REMEDY_FUSION].alone_ns <= 0);
    assert_true(found.remedies.rows[AORTA_REMEDY_OPTIMIZER].alone_ns > 20 * 35e3);
    end(&found);
    for (int i = 0; i < PARAMETERS * EACH; i++) ops[i] = adam[2];
    found = find(ops, PARAMETERS * EACH, 7, WITHOUT_OPERATIONS);
    assert_true(found.remedies.rows[AORTA_REMEDY_FUSION].alone_ns <= 0);
    end(&found);
}

/* An optimizer of so many groups of parameters has so many fused kernels. FSDP's copies of shards are no part of it. */
static void each_group_of_parameters_keeps_a_launch(void **state) {
    (void)state;
    enum { MOST = 3, EACH = COUNT(foreach_kernels), COPIES = 2 };
    static const struct op copies[COPIES] = {APPLY("CopyFunctor<c10::BFloat16, float, 2, 1, 1>", 40),
                                             APPLY("UnaryOpFunctor<c10::BFloat16, 2, 1, 1>, at::native::Copy", 40)};
    struct op ops[COPIES + MOST * EACH];
    memcpy(ops, copies, sizeof copies);
    for (int groups = 1; groups <= MOST; groups++) {
        const int count = groups * EACH;
        for (int i = 0; i < count; i++) ops[COPIES + i] = foreach_kernels[i % EACH];
        struct found found = find(ops, (size_t)(COPIES + count), 7, WITHOUT_OPERATIONS);
        assert_float_equal(found.remedies.rows[AORTA_REMEDY_OPTIMIZER].operations, count, 1e-9);
        assert_float_equal(found.remedies.rows[AORTA_REMEDY_OPTIMIZER].gone, groups * (EACH - 1), 1e-9);
        end(&found);
    }
}

/* Who made the kernels, whose words the advice has. */
static void frameworks_are_known_by_names(void **state) {
    (void)state;
    static const struct {
        const char *kernel;
        enum aorta_framework framework;
        const char *call;
    } known[] = {{"loop_add_fusion_3", AORTA_FRAMEWORK_XLA, "cudaLaunchKernel"},
                 {"wrapped_transpose_6", AORTA_FRAMEWORK_XLA, "cudaLaunchKernel"},
                 {"gemm_fusion_dot_73", AORTA_FRAMEWORK_XLA, "cudaLaunchKernel"},
                 {"cupy_add__float32_float32_float32", AORTA_FRAMEWORK_CUPY, "cudaLaunchKernel"},
                 {"triton_red_fused_add_mean_2", AORTA_FRAMEWORK_COMPILED, "cudaLaunchKernel"},
                 {"blend", AORTA_FRAMEWORK_TRITON, "cuLaunchKernelEx"},
                 {"blend", AORTA_FRAMEWORK_OTHER, "cudaLaunchKernel"}, /* of a program in CUDA */
                 {"batched_transpose_16x32_half", AORTA_FRAMEWORK_OTHER, "hipModuleLaunchKernel"},
                 {"nvkernel_solve_F1L210_2", AORTA_FRAMEWORK_DIRECTIVES, "cuLaunchKernel"},
                 {"__omp_offloading_10302_main_l18", AORTA_FRAMEWORK_DIRECTIVES, "cuLaunchKernel"},
                 {"matmul_fp16_gpu", AORTA_FRAMEWORK_TRITON, "cuLaunchKernel"},
                 {"solve_42_gpu", AORTA_FRAMEWORK_DIRECTIVES, "cuLaunchKernel"},
                 {"on_gpu_solve_42_gpu", AORTA_FRAMEWORK_DIRECTIVES, "cuLaunchKernel"},
                 {"solve_42_gpu__red", AORTA_FRAMEWORK_DIRECTIVES, "cuLaunchKernel"},
                 {"__pgi_uacc_cuda_fill_42_gpu", AORTA_FRAMEWORK_DIRECTIVES, "cuLaunchKernel"},
                 {"SubTensorOpWithScalar1d", AORTA_FRAMEWORK_OTHER, "hipModuleLaunchKernel"},
                 {"_ZN2ck16tensor_operation6device12_GLOBAL__N_1", AORTA_FRAMEWORK_OTHER, "hipModuleLaunchKernel"},
                 {"nvjet_sm90_tst_64x64", AORTA_FRAMEWORK_OTHER, "cudaLaunchKernel"},
                 {"vectorized_elementwise_kernel<4, mul>", AORTA_FRAMEWORK_OTHER, "cudaLaunchKernel"}};
    for (size_t i = 0; i < COUNT(known); i++) {
        const struct op op = {"x", NULL, NULL, NULL, known[i].kernel, 60, NULL, 0};
        launched_by = known[i].call;
        struct found found = find(&op, 1, 7, WITHOUT_OPERATIONS);
        assert_int_equal(aorta_trace_framework(found.list.items[0]), known[i].framework);
        const bool torch =
            known[i].framework == AORTA_FRAMEWORK_COMPILED || known[i].framework == AORTA_FRAMEWORK_TRITON;
        assert_int_equal(aorta_framework_is_torch(known[i].framework), torch);
        end(&found);
    }
    launched_by = "cudaLaunchKernel";
}

/* Beam search copies keys and values of each layer; without the copies only attention is left. */
static void an_order_that_is_noted_copies_nothing(void **state) {
    (void)state;
    struct found worse = find(reordered_cache, COUNT(reordered_cache), 7, WITHOUT_OPERATIONS);
    struct found better = find(noted_order, COUNT(noted_order), 7, WITHOUT_OPERATIONS);
    assert_float_equal(worse.remedies.rows[AORTA_REMEDY_CACHE].alone_ns, 480e3, 1);
    assert_true(worse.remedies.reorders);
    assert_true(better.remedies.rows[AORTA_REMEDY_CACHE].alone_ns <= 0);
    assert_false(better.remedies.reorders);
    end(&worse);
    end(&better);
}

/* Weights of 8 bits are widened and scaled in each pass. What takes less time than its product is no weight. */
static void widened_weights_can_be_stored(void **state) {
    (void)state;
#define WIDENED(us)                                                                                                    \
    KERNEL("elementwise_kernel<direct_copy_kernel_cuda>", us, 0),                                                      \
        KERNEL("nvjet_sm90_tst_128x64_64x8_2x1_v_bz_TNT", 110, 0)
    static const struct op weights[] = {KERNEL("elementwise_kernel<direct_copy_kernel_cuda>", 180, 0),
                                        KERNEL("vectorized_elementwise_kernel<4, mul>", 170, 0),
                                        KERNEL("nvjet_sm90_tst_128x64_64x8_2x1_v_bz_TNT", 38, 0), WIDENED(180)};
    static const struct op activations[] = {WIDENED(80), WIDENED(80)};
    static const struct op casts[] = {KERNEL("elementwise_kernel<bfloat16_copy_kernel_cuda>", 180, 0),
                                      KERNEL("nvjet_sm90_tst_128x64_64x8_2x1_v_bz_TNT", 110, 0)};
    struct found found = find(weights, COUNT(weights), 7, WITHOUT_OPERATIONS);
    assert_float_equal(found.remedies.rows[AORTA_REMEDY_WEIGHTS].alone_ns, 530e3, 1);
    assert_true(found.remedies.widens);
    end(&found);
    found = find(casts, COUNT(casts), 7, WITHOUT_OPERATIONS); /* of autocast, which has other advice */
    assert_false(found.remedies.widens);
    end(&found);
    found = find(activations, COUNT(activations), 7, WITHOUT_OPERATIONS);
    assert_true(found.remedies.rows[AORTA_REMEDY_WEIGHTS].alone_ns <= 0);
    end(&found);
}

/* fp64 on an H100: its rate is that of fp32 without TF32. XLA's fp32 has TF32, and its loops go along. */
static void doubles_gain_most_in_tf32(void **state) {
    (void)state;
    static const struct op torch[] = {KERNEL("sm90_xmma_gemm_f64f64_f64f64_f64_nn_n_tilesize128x64x16", 1000, 0),
                                      KERNEL("at::native::vectorized_elementwise_kernel<4, lambda(double)>", 100, 0)};
    static const struct op xla[] = {KERNEL("sm90_xmma_gemm_f64f64_f64f64_f64_nn_n_tilesize128x64x16", 1000, 0),
                                    KERNEL("loop_multiply_fusion_1", 100, 0)};
    static const double LEFT = 66.9 / 494.7 / 0.7;
    launched_by = "cudaLaunchKernel";
    struct found found = find(torch, COUNT(torch), 7, WITHOUT_OPERATIONS);
    assert_true(found.remedies.all_fp64);
    assert_float_equal(found.remedies.rows[AORTA_REMEDY_FP32].alone_ns, 50e3, 100);
    assert_float_equal(found.remedies.rows[AORTA_REMEDY_TF32].alone_ns, 50e3 + 1000e3 * (1 - LEFT), 100);
    end(&found);
    found = find(xla, COUNT(xla), 7, WITHOUT_OPERATIONS);
    assert_float_equal(found.remedies.rows[AORTA_REMEDY_FP32].alone_ns, 50e3 + 1000e3 * (1 - LEFT), 100);
    end(&found);
}

/* On AMD kernels say their types otherwise, with sizes recorded or not, and TF32 is of products only. */
static void amd_has_names_of_its_own(void **state) {
    (void)state;
#define CIJK(types)                                                                                                    \
    {                                                                                                                  \
        "aten::mm", "[[4096, 4096], [4096, 4096]]", TWO("float"), "[[4096, 1], [4096, 1]]",                            \
            "Cijk_Alik_Bljk_" types "_UserArgs_MT128x128x32_MI16x16x1_SN", 1200, NULL, 0                               \
    }
    static const struct {
        struct op op;
        bool tf32, half;
    } rows[] = {{CIJK("S_B_Bias_HA_S_SAV"), true, true},
                {CIJK("SB"), true, true},
                {CIJK("S_MX_B"), false, true},
                {{"aten::miopen_convolution", "[[64, 256, 56, 56], [256, 256, 3, 3], [], [], [], [], [], [], []]",
                  "[\"float\", \"float\", \"\", \"ScalarList\", \"ScalarList\", \"ScalarList\", \"Scalar\", "
                  "\"Scalar\", \"Scalar\"]",
                  NULL, "miopenSp3AsmConv_v30_3_1_gfx9_fp32_f2x3_stride1", 4000,
                  "\"Concrete Inputs\": [\"\", \"\", \"\", \"[1, 1]\", \"[1, 1]\", \"[1, 1]\", \"1\", "
                  "\"False\", \"False\"]",
                  0},
                 false,
                 true}};
    device = MI300X;
    for (size_t i = 0; i < COUNT(rows); i++)
        for (int shapes = 0; shapes < 2; shapes++) {
            struct found found = find(&rows[i].op, 1, 7, shapes);
            assert_true(found.remedies.amd);
            assert_int_equal(found.remedies.rows[AORTA_REMEDY_TF32].alone_ns > 0, rows[i].tf32);
            assert_int_equal(found.remedies.rows[AORTA_REMEDY_BF16].alone_ns > 0, rows[i].half);
            end(&found);
        }
    device = H100;
}

/* The inputs of the first operation lack the experts' weights: it may already run at its bound. The second one's inputs
 * are complete. */
static void what_is_not_known_takes_as_long(void **state) {
    (void)state;
    static const struct op program[] = {
        {"vllm::moe_forward", "[[64, 4096], [64, 32]]", "[\"c10::BFloat16\", \"c10::BFloat16\"]", NULL,
         "nvjet_tst_128x128", 700, NULL, 0},
        {"aten::mm", "[[4096, 4096], [4096, 4096]]", "[\"c10::BFloat16\", \"c10::BFloat16\"]", NULL,
         "nvjet_tst_256x128", 300, NULL, 0},
    };
    struct found found = find(program, sizeof program / sizeof *program, 7, true);
    assert_float_equal(found.remedies.bounded_ns, 1e6, 1);
    assert_float_equal(found.remedies.sized_ns, 300e3, 1);
    assert_float_equal(found.remedies.at_peak_ns, 700e3 + 2.0 * 4096 * 4096 * 4096 / 989.4e3, 100);
    end(&found);
}

static void keys_and_causes_are_found(void **state) {
    (void)state;
    assert_int_equal(aorta_remedy_find("precision=bf16"), aorta_remedy_bit(AORTA_REMEDY_BF16));
    assert_int_equal(aorta_remedy_find("precision"), aorta_remedy_bit(AORTA_REMEDY_FP32) |
                                                         aorta_remedy_bit(AORTA_REMEDY_TF32) |
                                                         aorta_remedy_bit(AORTA_REMEDY_BF16));
    assert_int_equal(aorta_remedy_find("casts"),
                     aorta_remedy_bit(AORTA_REMEDY_CASTS) | aorta_remedy_bit(AORTA_REMEDY_WEIGHTS) |
                         aorta_remedy_bit(AORTA_REMEDY_CACHE) | aorta_remedy_bit(AORTA_REMEDY_LOGITS));
    assert_int_equal(aorta_remedy_find("precision=fp16"), 0);
    assert_int_equal(aorta_remedy_find(""), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(found_where_true_alone),
        cmocka_unit_test(products_reach_the_rate_of_their_type),
        cmocka_unit_test(chains_are_one_pass),
        cmocka_unit_test(repetitions_are_no_chain),
        cmocka_unit_test(the_ledger_adds_up),
        cmocka_unit_test(any_program_adds_up),
        cmocka_unit_test(streams_may_have_any_number),
        cmocka_unit_test(files_without_shapes_lose_evidence),
        cmocka_unit_test(tables_are_known_by_kernels),
        cmocka_unit_test(wide_kernels_are_known_by_names),
        cmocka_unit_test(what_is_not_known_takes_as_long),
        cmocka_unit_test(keys_and_causes_are_found),
        cmocka_unit_test(results_that_are_wanted_stay),
        cmocka_unit_test(plain_copies_stay),
        cmocka_unit_test(casts_are_launches),
        cmocka_unit_test(ranks_may_have_any_number),
        cmocka_unit_test(norms_of_inference_read_once),
        cmocka_unit_test(names_and_times_say_some),
        cmocka_unit_test(times_suffice_on_devices_without_rates),
        cmocka_unit_test(small_products_of_one_size_are_batched),
        cmocka_unit_test(small_factorizations_in_a_loop_are_batched),
        cmocka_unit_test(volumes_and_instance_norms_stay_nchw),
        cmocka_unit_test(operations_of_compiled_graphs_are_chosen),
        cmocka_unit_test(depthwise_convolutions_stay_as_they_are),
        cmocka_unit_test(casts_of_training_and_norms_and_other_copies_stay),
        cmocka_unit_test(few_windows_stay),
        cmocka_unit_test(layers_that_run_again_on_another_thread),
        cmocka_unit_test(loops_over_parameters_are_no_chain),
        cmocka_unit_test(each_group_of_parameters_keeps_a_launch),
        cmocka_unit_test(frameworks_are_known_by_names),
        cmocka_unit_test(biased_attention_stays),
        cmocka_unit_test(turning_copies_gain_little),
        cmocka_unit_test(widened_weights_can_be_stored),
        cmocka_unit_test(doubles_gain_most_in_tf32),
        cmocka_unit_test(an_order_that_is_noted_copies_nothing),
        cmocka_unit_test(amd_has_names_of_its_own),
        cmocka_unit_test(widened_attention_can_be_fused),
        cmocka_unit_test(softmax_stays_wide),
        cmocka_unit_test(odd_rows_gain_little),
        cmocka_unit_test(volumes_in_half),
        cmocka_unit_test(interpolation_gains_in_nhwc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
