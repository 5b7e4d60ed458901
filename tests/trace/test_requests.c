/* Attention over a cache, by the lengths in the name of a step's range. In us, one step of four layers:
 *
 *   execute_12_context_2(…)_generation_3(…)  [0                                     400]
 *   vllm::unified_attention_with_output        [10 60] [110 160] [210 260] [310 360]
 *   kernels                                     40      14        40        12
 *
 * The second and the fourth layer have a window. */
#include "base/files.h"
#include "check.h"
#include "folder.h"
#include "trace/open.h"
#include "trace/operation_inputs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char LENGTHS[] = "execute_12_context_2(sq9sk17sqsq41sqsk81)_generation_3(sq3sk30sqsq3sqsk30)";
/* The requests of it: queries, and keys with them. */
static const int requests[][2] = {{4, 4}, {5, 13}, {1, 7}, {1, 13}, {1, 10}};
enum { REQUESTS = sizeof requests / sizeof *requests, LAYERS = 4, HEADS = 8, CACHED_HEADS = 2, WIDTH = 64 };

/* ---- by hand ---- */

/* Each query multiplies with each key up to its own, in both products of each head. */
static double flops_by_hand(void) {
    double pairs = 0;
    for (int i = 0; i < REQUESTS; i++)
        for (int query = 0; query < requests[i][0]; query++)
            for (int key = 0; key < requests[i][1]; key++) pairs += key <= requests[i][1] - requests[i][0] + query;
    return pairs * HEADS * 2 * (2 * WIDTH);
}

static double bytes_by_hand(int cache_bytes) {
    double bytes = 0;
    for (int i = 0; i < REQUESTS; i++)
        bytes += requests[i][0] * HEADS * WIDTH * 2 * 2 + requests[i][1] * CACHED_HEADS * WIDTH * 2 * cache_bytes;
    return bytes;
}

static void lengths_are_sums(void **state) {
    (void)state;
    struct aorta_request_lengths lengths, by_hand = {0};
    for (int i = 0; i < REQUESTS; i++) {
        by_hand.queries += requests[i][0];
        by_hand.keys += requests[i][1];
        by_hand.queries_squared += requests[i][0] * requests[i][0];
        by_hand.queries_by_keys += requests[i][0] * requests[i][1];
    }
    assert_true(aorta_request_lengths_read(LENGTHS, &lengths));
    assert_memory_equal(&lengths, &by_hand, sizeof lengths);
}

static void other_ranges_have_none(void **state) {
    (void)state;
    static const char *const names[] = {
        "",
        "execute_",
        "forward",
        "execute_context_1(888_788544)_generation_0(0)",
        "execute_8_context_0(sq0)_generation_8(sq8)",
        "execute_8_context_0(sq0sk0sqsq0sqsk0)_generation_8(sq8sk80sqsq8sqsk)",
        "execute_8_context_0(sq0sk0sqsq0sqsk0)_generation_8(sq8sk80sqsq8sqsk80",
        "execute_0_context_0(sq0sk0sqsq0sqsk0)_generation_0(sq0sk0sqsq0sqsk0)",  /* nothing to do */
        "execute_8_context_0(sq0sk0sqsq0sqsk0)_generation_8(sq8sk4sqsq8sqsk80)", /* fewer keys than queries */
        "execute_8_context_0(sq0sk0sqsq0sqsk0)_generation_8(sq8sk80sqsq80sqsk8)",
    };
    struct aorta_request_lengths lengths;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (aorta_request_lengths_read(names[i], &lengths)) fail_msg("%s has lengths", names[i]);
}

static bool attention(const char *dims, const char *types, int cache_bytes, struct aorta_work_amount *amount) {
    static const char name[] = "vllm::unified_attention";
    const struct aorta_operation operation = {
        .name = name, .name_length = strlen(name), .dims = {dims, strlen(dims)}, .types = {types, strlen(types)}};
    struct aorta_request_lengths lengths;
    assert_true(aorta_request_lengths_read(LENGTHS, &lengths));
    return aorta_request_attention(&operation, &lengths, cache_bytes, amount);
}

static void each_request_counts(void **state) {
    (void)state;
    static const char halves[] = "[\"c10::BFloat16\", \"c10::BFloat16\", \"c10::BFloat16\"]";
    static const char bytes[] = "[\"c10::BFloat16\", \"unsigned char\", \"unsigned char\"]";
    const struct {
        const char *dims, *types;
        int cache_bytes, counted; /* of an element of the cache; 0: not known */
    } rows[] = {
        {"[[12, 8, 64], [12, 2, 64], [12, 2, 64]]", halves, 2, 2},
        {"[[16, 8, 64], [16, 2, 64], [16, 2, 64]]", halves, 1, 1}, /* a graph has more lines than there are queries */
        {"[[12, 8, 64], [12, 2, 64], [12, 2, 64]]", halves, 0, 0},
        {"[[12, 8, 64], [500, 16, 2, 64], [500, 16, 2, 64]]", halves, 0, 2}, /* the cache itself */
        {"[[12, 8, 64], [500, 16, 2, 64], [500, 16, 2, 64]]", bytes, 2, 1},
        {"[[12, 8, 64], [9000, 2, 64], [9000, 2, 64]]", halves, 0, 2},
        {"[[11, 8, 64], [11, 2, 64], [11, 2, 64]]", halves, 2, 0}, /* of other requests */
        {"[[12, 8, 64], [12, 2, 32], [12, 2, 64]]", halves, 2, 0},
        {"[[12, 512], [12, 128], [12, 128]]", halves, 2, 0},
        {"[[12, 8, 64]]", halves, 2, 0},
        {"[[12, 8, 64], [12, 2, 64], [12, 2, 64]]", "[]", 2, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct aorta_work_amount amount = {.arithmetic = AORTA_ARITHMETIC_UNKNOWN};
        if (attention(rows[i].dims, rows[i].types, rows[i].cache_bytes, &amount) != (rows[i].counted > 0))
            fail_msg("row %zu is %scounted", i, rows[i].counted ? "not " : "");
        if (!rows[i].counted) continue;
        assert_int_equal(amount.arithmetic, AORTA_IN_BF16);
        assert_true(amount.flops == flops_by_hand());
        assert_true(amount.bytes == bytes_by_hand(rows[i].counted));
    }
}

/* ---- in a file ---- */

struct scene {
    const char *range;
    const char *kernels[LAYERS];
    double us[LAYERS];
    const char *cache; /* type of what is written to; NULL: nothing is */
};

static void event(struct aorta_text *out, const char *category, const char *name, double ts, double dur,
                  const char *args) {
    aorta_text_printf(out, "{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\",\"pid\":1,\"tid\":1,\"ts\":%g,\"dur\":%g,",
                      category, name, ts, dur);
    aorta_text_printf(out, "\"args\":{%s}},\n", args);
}

/* An operation that launches a kernel. */
static void run(struct aorta_text *out, int number, const char *name, double ts, const char *inputs, const char *kernel,
                double us) {
    struct aorta_text args = {0};
    aorta_text_printf(&args, "\"External id\":%d,%s", number, inputs);
    event(out, "cpu_op", name, ts, 20, args.data);
    aorta_text_clear(&args);
    aorta_text_printf(&args, "\"correlation\":%d,\"External id\":%d", number, number);
    event(out, "cuda_runtime", "hipLaunchKernel", ts + 5, 2, args.data);
    aorta_text_clear(&args);
    aorta_text_printf(&args, "\"device\":0,\"stream\":7,\"correlation\":%d,\"External id\":%d", number, number);
    event(out, "kernel", kernel, 1000 + ts, us, args.data);
    aorta_text_free(&args);
}

static void read_scene(const struct scene *scene, struct aorta_trace_list *list) {
    static const char inputs[] = "\"Input Dims\":[[12,8,64],[12,2,64],[12,2,64]],"
                                 "\"Input type\":[\"c10::BFloat16\",\"c10::BFloat16\",\"c10::BFloat16\"]";
    char folder[FOLDER_PATH], path[96], cache[256];
    struct aorta_text out = {0};
    aorta_text_puts(&out, "{\"traceEvents\":[\n");
    event(&out, "user_annotation", scene->range, 0, 400, "");
    for (int i = 0; i < LAYERS; i++) {
        const double ts = 10 + 100 * i;
        snprintf(cache, sizeof cache,
                 "\"Input Dims\":[[12,2,64],[12,2,64],[500,16,2,64],[500,16,2,64],[12]],\"Input type\":["
                 "\"c10::BFloat16\",\"c10::BFloat16\",\"%s\",\"%s\",\"long int\"]",
                 scene->cache, scene->cache);
        if (scene->cache)
            run(&out, 100 + i, "_C_cache_ops::reshape_and_cache_flash", ts, cache, "reshape_and_cache_kernel", 3);
        run(&out, 200 + i, "vllm::unified_attention_with_output", ts + 30, inputs, scene->kernels[i], scene->us[i]);
    }
    aorta_text_puts(&out, "{\"ph\":\"M\",\"name\":\"x\"}]}");
    folder_make(folder, "requests");
    snprintf(path, sizeof path, "%s/trace.json", folder);
    check_ok(aorta_file_replace(path, out.data, out.length));
    const char *paths[] = {path};
    check_ok(aorta_trace_open_inputs(paths, 1, NULL, list));
    assert_int_equal(folder_remove(folder), 0);
    aorta_text_free(&out);
}

static const struct aorta_work_amount *amount_of(const struct aorta_trace *trace, const char *kernel, int run) {
    for (size_t i = 0; i < trace->work_count; i++) {
        const struct aorta_trace_work *work = &trace->work[i];
        if (strcmp(aorta_trace_text(trace, work->name), kernel) != 0 || run--) continue;
        return &trace->shapes[work->shape].amount;
    }
    fail_msg("there is no %s", kernel);
    return NULL;
}

#define ALL_LIKE                                                                                                       \
    "kernel_unified_attention", "kernel_unified_attention", "kernel_unified_attention", "kernel_unified_attention"

static void layers_with_a_window_are_not_known(void **state) {
    (void)state;
    const struct scene scenes[] = {
        {LENGTHS, {ALL_LIKE}, {40, 14, 40, 12}, "c10::BFloat16"},
        {LENGTHS, {ALL_LIKE}, {40, 38, 35, 41}, "unsigned char"},
        {LENGTHS, {ALL_LIKE}, {40, 14, 40, 12}, NULL}, /* whose elements may be of one byte or of two */
        {"execute_context_2(9)_generation_3(3)", {ALL_LIKE}, {40, 14, 40, 12}, "c10::BFloat16"},
    };
    const int bytes[][LAYERS] = {{2, 0, 2, 0}, {1, 1, 1, 1}, {0}, {0}};
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        struct aorta_trace_list list = {0};
        read_scene(&scenes[i], &list);
        for (int layer = 0; layer < LAYERS; layer++) {
            const struct aorta_work_amount *amount = amount_of(list.items[0], "kernel_unified_attention", layer);
            assert_int_equal(amount->class, AORTA_WORK_ATTENTION);
            assert_int_equal(!isnan(amount->flops), bytes[i][layer] > 0);
            if (!bytes[i][layer]) continue;
            assert_true(amount->flops == flops_by_hand());
            assert_true(amount->bytes == bytes_by_hand(bytes[i][layer]));
        }
        aorta_trace_list_free(&list);
    }
}

/* Whatever time they take. */
static void some_kernels_say_so(void **state) {
    (void)state;
    const struct scene scene = {
        LENGTHS, {"fmhaSliding", "fmhaCausal", "fmhaSliding", "fmhaCausal"}, {30, 30, 30, 30}, "c10::BFloat16"};
    struct aorta_trace_list list = {0};
    read_scene(&scene, &list);
    for (int i = 0; i < 2; i++) {
        assert_true(isnan(amount_of(list.items[0], "fmhaSliding", i)->flops));
        assert_true(amount_of(list.items[0], "fmhaCausal", i)->flops == flops_by_hand());
    }
    aorta_trace_list_free(&list);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_are_sums),    cmocka_unit_test(other_ranges_have_none),
        cmocka_unit_test(each_request_counts), cmocka_unit_test(layers_with_a_window_are_not_known),
        cmocka_unit_test(some_kernels_say_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
