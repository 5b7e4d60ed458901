/* Workloads at small sizes: set up, run several times, captured and replayed, verified. AORTA_TEST_DEVICE chooses the
 * device. On the fake GPU, whose kernels do nothing (FAKE_GPU_KERNELS=ignore), nothing can be verified: there it shows
 * that everything that is queued is accepted and can be captured. */
#include "check.h"
#include "hwq/graph_internal.h"
#include "hwq/operations.h"

#include <math.h>
#include <stdlib.h>

/* With kernels run by the emulator of tests/ops: at once, which has no place in a capture. */
#ifndef EMULATED
#define EMULATED 0
#endif

struct small {
    const char *name, *settings[20]; /* of options: key, value, …, NULL */
};

static const struct small all[] = {
    {"hetero_kernels", {"size", "16", "elements", "32", "interleave", "random"}},
    {"tiny_kernel_stress", {"chains", "3"}},
    {"large_gemm_only", {"size", "16"}},
    {"comms_compute_overlap", {"mm_dim", "16", "comm_size", "4K", "num_coll", "2"}},
    {"graph_subgraphs", {"graphs", "5", "batch", "3", "in", "24", "hidden", "40", "out", "16"}},
    {"grad_accum", {"micro", "4", "batch", "5", "in", "24", "hidden", "40", "classes", "10"}},
    {"moe", {"batch", "2", "positions", "37", "experts", "5", "width", "24", "hidden", "40", "capacity", "1.1"}},
    {"fsdp_tp", {"blocks", "3", "width", "24", "heads", "3", "mlp", "2", "batch", "5", "positions", "9"}},
    {"continuous_batch",
     {"layers", "3", "width", "24", "heads", "2", "positions", "11", "sequences", "5", "window", "19"}},
    {"speculative_decode",
     {"draft_width", "8", "draft_layers", "2", "main_width", "24", "main_layers", "3", "head_width", "4", "context",
      "11", "vocab", "50"}},
    {"activation_ckpt", {"blocks", "6", "width", "24", "hidden", "40", "batch", "3", "positions", "7"}},
    {"rag_pipeline",
     {"queries", "5", "documents", "30", "width", "24", "embedding", "8", "found", "7", "kept", "3", "layers", "2",
      "heads", "3", "vocab", "50"}},
    {"torch_compile", {"width", "24", "mlp", "2", "batch", "3", "positions", "7"}},
    {"zero_offload", {"layers", "5", "width", "24", "batch", "3", "threads", "3"}},
    {"async_dataload", {"images", "5", "pixels", "12", "channels", "4", "classes", "10", "chunk", "2"}},
};

static const char *setting(const struct small *small, const struct aorta_option *option) {
    if (EMULATED && strcmp(option->key, "compiled") == 0) return "false";
    for (int i = 0; i < 20 && small->settings[i]; i += 2)
        if (strcmp(small->settings[i], option->key) == 0) return small->settings[i + 1];
    return option->fallback;
}

static void fill_options(const struct small *small, const struct aorta_hwq_workload *workload, void *values,
                         struct aorta_arena *arena) {
    for (size_t i = 0; i < workload->option_count; i++) {
        const struct aorta_scalar scalar = {.text = setting(small, &workload->options[i])};
        assert_true(aorta_option_store(&workload->options[i], &scalar, 1, false, values, arena));
    }
}

static enum aorta_device_kind kind_wanted(void) {
    const char *wanted = getenv("AORTA_TEST_DEVICE");
    enum aorta_device_kind kind = AORTA_DEVICE_CPU;
    while (wanted && kind < AORTA_DEVICE_HIP && strcmp(wanted, aorta_device_kind_name(kind)) != 0) kind++;
    return kind;
}

static bool kernels_run(void) {
    return !getenv("FAKE_GPU_KERNELS");
}

/* A harness of a few lines with the promises of the real one to a workload. */
struct bench {
    struct aorta_hwq hwq;
    struct aorta_arena arena;
    struct aorta_device *device;
    struct aorta_event *event[AORTA_HWQ_MAX_STREAMS];
    struct hwq_graph *g;
    _Alignas(16) unsigned char options[AORTA_HWQ_OPTION_BYTES];
};

static void bench_begin(struct bench *b, const struct small *small, const struct aorta_hwq_workload *workload,
                        int streams) {
    *b = (struct bench){0};
    check_ok(aorta_device_open(kind_wanted(), 0, &b->device));
    const struct aorta_ops_settings own = {.own_products = true}; /* there is no matrix library */
    if (!kernels_run()) check_ok(aorta_ops_configure(b->device, &own));
    fill_options(small, workload, b->options, &b->arena);
    b->hwq = (struct aorta_hwq){.workload = workload,
                                .device = b->device,
                                .stream_count = streams,
                                .options = b->options,
                                .owned = {.device = b->device},
                                .ranks = {.world_size = 1, .local_world_size = 1},
                                .seed = 7,
                                .arena = &b->arena};
    for (int s = 0; s < streams; s++) {
        char name[16];
        snprintf(name, sizeof name, "s%d", s);
        check_ok(aorta_stream_create(b->device, name, AORTA_PRIORITY_NORMAL, &b->hwq.streams[s]));
        check_ok(aorta_event_create(b->device, &b->event[s]));
    }
    if (workload->collectives) {
        const struct aorta_comm_options options = {
            .device = b->device, .backend = "local", .ranks = b->hwq.ranks, .timeout_s = 60};
        check_ok(aorta_comm_open(&options, &b->hwq.world));
    }
}

static void bench_open(struct bench *b, const struct small *small, const struct aorta_hwq_workload *workload,
                       int streams) {
    bench_begin(b, small, workload, streams);
    if (workload->check) check_ok(workload->check(&b->hwq));
    check_ok(hwq_graph_create(&b->hwq, workload, &b->g));
    check_ok(hwq_graph_start(b->g));
}

static void wait_all(struct bench *b) {
    for (int s = 0; s < b->hwq.stream_count; s++) check_ok(aorta_stream_synchronize(b->hwq.streams[s]));
}

static void iterate_joined(struct bench *b) {
    check_ok(aorta_event_record(b->event[0], b->hwq.streams[0]));
    for (int s = 1; s < b->hwq.stream_count; s++) check_ok(aorta_stream_wait(b->hwq.streams[s], b->event[0]));
    check_ok(hwq_graph_iterate(b->g));
    for (int s = 1; s < b->hwq.stream_count; s++) {
        check_ok(aorta_event_record(b->event[s], b->hwq.streams[s]));
        check_ok(aorta_stream_wait(b->hwq.streams[0], b->event[s]));
    }
}

static void bench_end(struct bench *b) {
    wait_all(b);
    aorta_owned_free(&b->hwq.owned);
    aorta_comm_close(b->hwq.world);
    for (int s = 0; s < b->hwq.stream_count; s++) {
        aorta_event_destroy(b->event[s]);
        aorta_stream_destroy(b->hwq.streams[s]);
    }
    aorta_device_close(b->device);
    aorta_arena_free(&b->arena);
}

static void bench_close(struct bench *b) {
    wait_all(b);
    hwq_graph_destroy(b->g);
    bench_end(b);
}

static void verify(struct bench *b, const struct aorta_hwq_workload *workload, int streams) {
    struct aorta_hwq_check check = {0};
    if (!kernels_run()) return;
    check_ok(hwq_graph_check(b->g, &check));
    if (check.compared < 10 || check.worst > 1.0)
        fail_msg("%s on %d streams: %lld compared, %s: got %.9g, expected %.9g (%g of the allowed error)",
                 workload->name, streams, (long long)check.compared, check.what, check.got, check.expected,
                 check.worst);
}

static void replay(struct bench *b, const struct aorta_hwq_workload *workload, int streams) {
    struct aorta_graph *graph;
    check_ok(aorta_capture_begin(b->hwq.streams[0]));
    iterate_joined(b);
    check_ok(aorta_capture_end(b->hwq.streams[0], &graph));
    for (int i = 0; i < 2; i++) check_ok(aorta_graph_launch(graph, b->hwq.streams[0]));
    wait_all(b);
    aorta_graph_destroy(graph);
    verify(b, workload, streams);
}

/* Eager, then captured and replayed; both leave results that hold. */
static void run(const struct small *small, int streams) {
    const struct aorta_hwq_workload *workload;
    struct bench b;
    double amount = 0.0;
    check_ok(aorta_hwq_find(small->name, &workload));
    bench_open(&b, small, workload, streams);
    for (int i = 0; i < 3; i++) iterate_joined(&b);
    wait_all(&b);
    check_ok(hwq_graph_amount(b.g, 3, &amount));
    if (!(amount > 0.0)) fail_msg("%s: no work was done", small->name);
    verify(&b, workload, streams);
    if (!EMULATED) replay(&b, workload, streams);
    bench_close(&b);
}

static const struct small *find_small(const char *name) {
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].name, name) == 0) return &all[i];
    fail_msg("no small sizes for %s", name);
    return NULL;
}

static void check_workload(const char *name) {
    const struct aorta_hwq_workload *workload;
    check_ok(aorta_hwq_find(name, &workload));
    run(find_small(name), workload->streams.min);
    if (EMULATED) return; /* slow, and one stream at a time */
    run(find_small(name), workload->streams.recommended + 1);
    run(find_small(name), workload->streams.max);
}

#define TEST(name)                                                                                                     \
    static void name(void **state) {                                                                                   \
        (void)state;                                                                                                   \
        check_workload(#name);                                                                                         \
    }
TEST(graph_subgraphs)
TEST(grad_accum)
TEST(moe)
TEST(fsdp_tp)
TEST(continuous_batch)
TEST(speculative_decode)
TEST(activation_ckpt)
TEST(rag_pipeline)
TEST(torch_compile)
TEST(zero_offload)
TEST(async_dataload)

/* ---- the order of operations ---- */

/* No dependency is missing, on any number of streams. */
static void order_of_all_workloads(void **state) {
    (void)state;
    int checked = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const struct aorta_hwq_workload *workload;
        check_ok(aorta_hwq_find(all[i].name, &workload));
        for (int streams = workload->streams.min; streams <= workload->streams.max; streams++) {
            struct bench b;
            bench_begin(&b, &all[i], workload, streams);
            check_ok(hwq_graph_create(&b.hwq, workload, &b.g));
            aorta_status status = hwq_graph_check_order(b.g);
            if (status) fail_msg("%s on %d streams: %s", all[i].name, streams, aorta_status_message(status));
            checked++;
            bench_close(&b);
        }
    }
    assert_true(checked > 300);
}

static void graph_of(const char *name, int streams, struct bench *b) {
    const struct aorta_hwq_workload *workload;
    check_ok(aorta_hwq_find(name, &workload));
    bench_open(b, find_small(name), workload, streams);
}

/* The check notices each missing wait:
 *
 *   compute     linear ──record           norm
 *   exchange           └─ ✗ ── exchange ──record ┘
 */
static void missing_waits(void **state) {
    int waits = 0;
    (void)state;
    for (size_t w = 0; w < sizeof all / sizeof *all; w++) {
        const struct aorta_hwq_workload *workload;
        struct bench b;
        check_ok(aorta_hwq_find(all[w].name, &workload));
        bench_open(&b, &all[w], workload, workload->streams.recommended);
        for (size_t i = 0; i < b.g->step_count; i++) {
            if (b.g->steps[i].kind != HWQ_WAIT) continue;
            b.g->steps[i].kind = HWQ_NOTHING;
            check_fails(hwq_graph_check_order(b.g), AORTA_INTERNAL, "and nothing orders the two");
            b.g->steps[i].kind = HWQ_WAIT;
            waits++;
        }
        check_ok(hwq_graph_check_order(b.g));
        bench_close(&b);
    }
    assert_true(waits > 100);
}

/* Which operations, which tensor, which streams. */
static void missing_wait_by_name(void **state) {
    struct bench b;
    size_t i = 0;
    (void)state;
    graph_of("fsdp_tp", 4, &b);
    struct hwq_graph *g = b.g;
    while (g->steps[i].kind != HWQ_WAIT || g->steps[i].stream != 3) i++; /* the first of the exchange stream */
    g->steps[i].kind = HWQ_NOTHING;
    check_fails(hwq_graph_check_order(g), AORTA_INTERNAL,
                "exchange on stream 3 reads \"activations of a block\", which linear on stream 0 writes, and nothing "
                "orders the two");
    g->steps[i].kind = HWQ_WAIT;
    bench_close(&b);
}

/* A graph of the test's own on two streams. */
static struct hwq_graph *begin_graph(struct bench *b, int streams) {
    const struct aorta_hwq_workload *any;
    struct hwq_graph *g;
    check_ok(aorta_hwq_find("graph_subgraphs", &any));
    bench_begin(b, find_small("graph_subgraphs"), any, streams);
    check_ok(hwq_graph_create(&b->hwq, NULL, &g));
    return g;
}

static int count_steps(const struct hwq_graph *g, enum hwq_step_kind kind) {
    int count = 0;
    for (size_t i = 0; i < g->step_count; i++) count += g->steps[i].kind == kind;
    return count;
}

/* Rows 0, 1 of y are made on stream 0, row 2 on stream 1:
 *
 *   stream 0   rows 0–1 ───────────── reads 0–1 (none waits)
 *   stream 1   row 2 ── reads 1–2 (waits for rows 0–1)
 *
 * and columns of one row do not meet. */
static void waits_are_those_that_are_needed(void **state) {
    struct bench b;
    (void)state;
    struct hwq_graph *g = begin_graph(&b, 2);
    const struct hwq_tensor x = hwq_input(g, 1, 3, 8, 1.0f, "x"), y = hwq_result(g, AORTA_F32, 3, 8, "y");
    hwq_gelu(hwq_into(g, hwq_rows(y, 0, 2)), 0, hwq_rows(x, 0, 2));
    hwq_gelu(hwq_into(g, hwq_rows(y, 2, 1)), 1, hwq_rows(x, 2, 1));
    hwq_gelu(g, 1, hwq_rows(y, 1, 2));
    hwq_gelu(g, 0, hwq_rows(y, 0, 2));
    hwq_gelu(hwq_into(g, hwq_columns(x, 0, 4)), 0, hwq_columns(x, 4, 4));
    check_ok(hwq_graph_finish(g));
    check_ok(hwq_graph_check_order(g));
    assert_int_equal(count_steps(g, HWQ_OPERATION), 5);
    assert_int_equal(count_steps(g, HWQ_WAIT), 2); /* the second: x is overwritten, whose row 2 stream 1 reads */
    assert_int_equal(count_steps(g, HWQ_RECORD), 2);
    bench_end(&b);
}

static void reads_of_nothing(void **state) {
    struct bench b;
    (void)state;
    struct hwq_graph *g = begin_graph(&b, 1);
    hwq_gelu(g, 0, hwq_result(g, AORTA_F32, 3, 8, "y"));
    check_ok(hwq_graph_finish(g));
    check_fails(hwq_graph_check_order(g), AORTA_INTERNAL,
                "gelu on stream 0 reads \"y\", which no operation has written");
    bench_end(&b);
}

/* Streams that a workload declares independent. */
static void independent_streams(void **state) {
    struct bench b;
    (void)state;
    struct hwq_graph *g = begin_graph(&b, 2);
    hwq_gelu(g, 1, hwq_gelu(g, 0, hwq_input(g, 1, 3, 8, 1.0f, "x")));
    check_ok(hwq_graph_finish(g));
    check_ok(hwq_graph_check_order(g));
    g->independent = true;
    check_fails(hwq_graph_check_order(g), AORTA_INTERNAL, "its workload has independent streams");
    bench_end(&b);
}

/* Views of two heads with query, key and value of two columns each:
 *
 *   column   0  1  2  3  4  5  6  7  8  9 10 11
 *            q  q  k  k  v  v  q  q  k  k  v  v
 */
static void views_that_overlap(void **state) {
    struct bench b;
    (void)state;
    struct hwq_graph *g = begin_graph(&b, 1);
    const struct hwq_tensor t = hwq_input(g, 1, 3, 12, 1.0f, "qkv");
    const struct hwq_tensor q = hwq_comb(t, 0, 2, 6), k = hwq_comb(t, 2, 2, 6);
    const struct hwq_tensor columns = hwq_columns(t, 8, 2), row = hwq_rows(t, 1, 1), flat = hwq_shaped(t, 1, 36);
    const struct {
        struct hwq_tensor a, b;
        bool overlap;
    } cases[] = {{q, k, false},
                 {q, t, true},
                 {k, columns, true},
                 {q, columns, false},
                 {row, k, true},
                 {row, row, true},
                 {flat, q, true},
                 {hwq_columns(flat, 12, 2), k, false},
                 {hwq_columns(flat, 14, 1), k, true},
                 {hwq_rows(k, 0, 1), hwq_rows(k, 1, 2), false},
                 {hwq_strided(t, 2, 3, 2, 6), k, true},
                 {hwq_strided(t, 4, 5, 2, 6), k, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(hwq_overlap(&cases[i].a, &cases[i].b), cases[i].overlap);
        assert_int_equal(hwq_overlap(&cases[i].b, &cases[i].a), cases[i].overlap);
    }
    bench_end(&b);
}

/* Contradicting options: each error names the problem, before anything is created. */
static void impossible_options(void **state) {
    (void)state;
    static const struct {
        struct small small;
        const char *message;
    } cases[] = {
        {{"moe", {"experts", "3", "top", "5"}}, "moe: top is 5, but there are only 3 experts"},
        {{"fsdp_tp", {"width", "64", "heads", "5"}}, "fsdp_tp: 5 heads do not divide a width of 64"},
        {{"fsdp_tp", {"tensor", "2"}}, "tensor is 2, which does not divide 1 ranks"},
        {{"continuous_batch", {"width", "64", "heads", "5"}}, "5 heads of a width of 64"},
        {{"continuous_batch", {"positions", "65", "window", "64"}}, "65 positions do not fit a window of 64"},
        {{"speculative_decode", {"head_width", "60"}},
         "heads of 60 do not divide widths of 256 (draft) and 1024 (main)"},
        {{"speculative_decode", {"context", "4"}}, "4 drafted tokens do not fit a context of 4"},
        {{"activation_ckpt", {"blocks", "7"}}, "7 blocks cannot be cut into segments of 2"},
        {{"rag_pipeline", {"found", "5", "kept", "6"}}, "6 kept of 5 found of 100 documents"},
        {{"rag_pipeline", {"heads", "7"}}, "7 heads of a width of 768"},
        {{"async_dataload", {"pixels", "102"}}, "102 pixels cannot be halved 2 times"},
        {{"async_dataload", {"images", "1024", "chunk", "1"}}, "2048 chunks of images; at most 1024"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct aorta_hwq_workload *workload;
        struct bench b;
        check_ok(aorta_hwq_find(cases[i].small.name, &workload));
        bench_begin(&b, &cases[i].small, workload, 1);
        check_fails(workload->check(&b.hwq), AORTA_USAGE, cases[i].message);
        bench_end(&b);
    }
}

/* Overwrites element 7 of a tensor, unseen by the graph. */
static aorta_status run_spoiler(const struct hwq_operation *o, struct aorta_stream *stream) {
    const struct hwq_tensor *t = o->shape;
    return aorta_fill_bytes(stream, hwq_floats(*t) + 7, 0, sizeof(float));
}

static void spoil(struct hwq_graph *g, struct hwq_tensor t) {
    static const struct hwq_kind spoiler = {.name = "spoiler", .span = AORTA_SPAN_KERNEL, .run = run_spoiler};
    hwq_append(g, &(struct hwq_operation){.kind = &spoiler}, &t, sizeof t);
}

static void check_found(struct hwq_graph *g, bool good, const char *what) {
    struct aorta_hwq_check check = {0};
    check_ok(hwq_graph_finish(g));
    check_ok(hwq_graph_verify(g, &check));
    if (good != (check.worst <= 1.0)) fail_msg("%s: %g of the allowed error", check.what, check.worst);
    if (!good) assert_non_null(strstr(check.what, what));
}

/* A verification that cannot fail would show nothing: one wrong element of thirty is found. */
static void wrong_results(void **state) {
    (void)state;
    if (!kernels_run()) skip();
    for (int spoilt = 0; spoilt < 2; spoilt++) {
        struct bench b;
        struct hwq_graph *g = begin_graph(&b, 1);
        const struct hwq_layer layer = hwq_layer(g, 1, 8, 6, false);
        const struct hwq_tensor y = hwq_linear(g, 0, &layer, hwq_input(g, 9, 5, 8, 1.0f, "x"));
        if (spoilt) spoil(g, y);
        check_found(g, !spoilt, "linear, output of a layer[1, 1]");
        bench_end(&b);
    }
}

/* Results of memory that is overwritten later are verified from the inputs of that memory:
 *
 *   x ── linear ──▶ t ── gelu ──▶ y      other ── gelu ──▶ t
 *   x ── gelu in place of its input's gradient, and a sum that grows in place
 */
static void overwritten_inputs(void **state) {
    (void)state;
    if (!kernels_run()) skip();
    for (int spoilt = 0; spoilt < 4; spoilt++) {
        struct bench b;
        struct hwq_graph *g = begin_graph(&b, 1);
        const struct hwq_layer layer = hwq_layer(g, 1, 8, 6, true);
        const struct hwq_tensor x = hwq_input(g, 9, 5, 8, 1.0f, "x"), dy = hwq_input(g, 10, 5, 6, 1.0f, "dy");
        const struct hwq_tensor t = hwq_linear(g, 0, &layer, x), y = hwq_gelu(g, 0, t);
        hwq_gelu(hwq_into(g, t), 0, dy);
        const struct hwq_tensor dx = hwq_linear_input(g, 0, &layer, dy);
        hwq_relu_backward(g, 0, x, dx);
        hwq_linear_weight(g, 0, &layer, x, dy, false);
        hwq_linear_weight(g, 0, &layer, x, dy, true);
        const struct hwq_tensor counter =
            hwq_input(g, 11, 3, 8, 1.0f, "counter"); /* differs from iteration to iteration */
        hwq_add(g, 0, counter, x.memory ? hwq_rows(x, 0, 3) : x, 0.5f);
        const struct hwq_tensor of[] = {y, layer.dweight, counter};
        static const char *const found[] = {"gelu, GELU[1, 1]", "linear_weight, gradients of weights[0, 7]",
                                            "add, counter[0, 7]"};
        if (spoilt < 3) spoil(g, of[spoilt]);
        check_found(g, spoilt == 3, spoilt < 3 ? found[spoilt] : "");
        bench_end(&b);
    }
}

/* Fewer rows than segments, and layers whose ReLU leaves nothing: right results are right there, too. */
static void tiny_sizes(void **state) {
    static const struct small tiny[] = {
        {"activation_ckpt", {"width", "4", "hidden", "4", "batch", "1", "positions", "3"}},
        {"zero_offload", {"layers", "5", "width", "1", "batch", "1", "threads", "1"}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof tiny / sizeof *tiny; i++) {
        const struct aorta_hwq_workload *workload;
        struct bench b;
        check_ok(aorta_hwq_find(tiny[i].name, &workload));
        bench_open(&b, &tiny[i], workload, workload->streams.min);
        verify(&b, workload, workload->streams.min);
        bench_close(&b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(graph_subgraphs),
                                       cmocka_unit_test(grad_accum),
                                       cmocka_unit_test(moe),
                                       cmocka_unit_test(fsdp_tp),
                                       cmocka_unit_test(continuous_batch),
                                       cmocka_unit_test(speculative_decode),
                                       cmocka_unit_test(activation_ckpt),
                                       cmocka_unit_test(rag_pipeline),
                                       cmocka_unit_test(torch_compile),
                                       cmocka_unit_test(zero_offload),
                                       cmocka_unit_test(async_dataload),
                                       cmocka_unit_test(impossible_options),
                                       cmocka_unit_test(wrong_results),
                                       cmocka_unit_test(overwritten_inputs),
                                       cmocka_unit_test(order_of_all_workloads),
                                       cmocka_unit_test(missing_waits),
                                       cmocka_unit_test(missing_wait_by_name),
                                       cmocka_unit_test(waits_are_those_that_are_needed),
                                       cmocka_unit_test(reads_of_nothing),
                                       cmocka_unit_test(independent_streams),
                                       cmocka_unit_test(views_that_overlap),
                                       cmocka_unit_test(tiny_sizes)};
    return cmocka_run_group_tests_name("hwq: workloads", tests, NULL, NULL);
}
