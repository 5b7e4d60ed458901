/* Steps that nobody marked: found where training repeats itself, and not where it does not. */
#include "check.h"
#include "trace/builder.h"
#include "trace/infer.h"

#include <stdlib.h>

enum { LAYERS = 6, LAUNCH_NS = 2000, KERNEL_NS = 5000, PAUSE_NS = 40000 };

/* A program that launches kernels one after another. */
struct program {
    struct aorta_trace_builder *builder;
    int64_t time_ns; /* on the device */
    uint64_t launches;
};

static void program_open(struct program *program, int rank) {
    *program = (struct program){.time_ns = 1000000};
    check_ok(aorta_trace_builder_create(AORTA_TRACE_SPOOL, "a.spool", NULL, &program->builder));
    aorta_trace_builder_head(program->builder)->rank = rank;
}

static uint32_t text(struct program *program, const char *name) {
    return aorta_trace_builder_text(program->builder, name, strlen(name));
}

static void kernel(struct program *program, const char *name, int64_t stream) {
    const struct aorta_trace_call call = {.start_ns = program->time_ns - 2 * LAUNCH_NS,
                                          .end_ns = program->time_ns - LAUNCH_NS,
                                          .correlation = ++program->launches,
                                          .name = text(program, "cudaLaunchKernel"),
                                          .thread = aorta_trace_builder_thread(program->builder, 1, 1)};
    const struct aorta_trace_work work = {.start_ns = program->time_ns,
                                          .end_ns = program->time_ns + KERNEL_NS,
                                          .bytes = -1,
                                          .correlation = program->launches,
                                          .name = text(program, name),
                                          .stream = aorta_trace_builder_stream(program->builder, 0, 1, stream),
                                          .queue = AORTA_TRACE_NONE,
                                          .call = AORTA_TRACE_NONE,
                                          .collective = AORTA_TRACE_NONE,
                                          .shape = AORTA_TRACE_NONE,
                                          .kind = AORTA_TRACE_KERNEL};
    aorta_trace_builder_call(program->builder, &call);
    aorta_trace_builder_work(program->builder, &work, -1, NULL, -1);
    program->time_ns += KERNEL_NS + LAUNCH_NS;
}

/* Layers look alike forward, and backward; one kernel of the embedding, one of the loss, three of the optimizer. */
static void train_step(struct program *program, const char *optimizer, bool logs) {
    kernel(program, "embedding", 7);
    for (int i = 0; i < LAYERS; i++) {
        kernel(program, "norm", 7);
        kernel(program, "gemm", 7);
        kernel(program, "gelu", 7);
    }
    kernel(program, "loss", 7);
    if (logs) kernel(program, "copy_for_the_log", 7);
    for (int i = 0; i < LAYERS; i++) {
        kernel(program, "gelu_backward", 7);
        kernel(program, "gemm", 7);
        kernel(program, "gemm", 7);
        if (i % 2) kernel(program, "ncclDevKernel_ReduceScatter", 20);
    }
    for (int i = 0; i < 3; i++) kernel(program, optimizer, 7);
    program->time_ns += PAUSE_NS;
}

static void start_up(struct program *program) {
    for (int i = 0; i < 50; i++) kernel(program, i % 3 ? "fill" : "normal_", 7);
}

static struct aorta_trace *finish(struct program *program) {
    struct aorta_trace *trace;
    check_ok(aorta_trace_builder_finish(program->builder, &trace));
    return trace;
}

static struct aorta_trace_list list_of(struct aorta_trace *first, struct aorta_trace *second) {
    struct aorta_trace_list list = {0};
    check_ok(aorta_trace_list_add(&list, first));
    if (second) check_ok(aorta_trace_list_add(&list, second));
    check_ok(aorta_trace_infer_steps(&list));
    return list;
}

static const char *first_kernel(const struct aorta_trace *trace, size_t step) {
    for (size_t i = 0; i < trace->work_count; i++)
        if (trace->work[i].start_ns == trace->steps[step].device_start_ns)
            return aorta_trace_text(trace, trace->work[i].name);
    return "";
}

static void training_is_cut_behind_the_optimizer(void **state) {
    (void)state;
    struct program program;
    program_open(&program, 0);
    start_up(&program);
    for (int i = 0; i < 12; i++) train_step(&program, "multi_tensor_apply<FusedAdamMathFunctor>", i == 5);
    struct aorta_trace_list list = list_of(finish(&program), NULL);
    const struct aorta_trace *trace = list.items[0];
    assert_int_equal(trace->steps_by, AORTA_STEPS_BY_REPETITION);
    assert_in_range(trace->step_count, 10, 11); /* nothing follows the last one, which would end it */
    for (size_t i = 0; i < trace->step_count; i++) {
        assert_string_equal(first_kernel(trace, i), "embedding");
        assert_true(trace->steps[i].start_ns == trace->steps[i].device_start_ns - 2 * LAUNCH_NS);
        if (i) assert_int_equal(trace->steps[i].number, trace->steps[i - 1].number + 1);
        if (i) assert_int_equal(trace->steps[i].start_ns, trace->steps[i - 1].end_ns);
    }
    aorta_trace_list_free(&list);
}

/* The device waits longest before the backward pass, but kernels over lists of tensors end the step. The next one
 * begins with what a stage of a pipeline receives. */
static void kernels_over_lists_end_a_step(void **state) {
    (void)state;
    struct program program;
    program_open(&program, 0);
    for (int i = 0; i < 12; i++) {
        kernel(&program, "ncclDevKernel_SendRecv", 20);
        for (int j = 0; j < LAYERS; j++) kernel(&program, j ? "gemm" : "embedding", 7);
        program.time_ns += 2 * PAUSE_NS;
        for (int j = 0; j < LAYERS; j++) kernel(&program, "gemm_backward", 7);
        for (int j = 0; j < 3; j++) kernel(&program, "multi_tensor_apply_kernel<BinaryOpListAlphaFunctor>", 7);
    }
    struct aorta_trace_list list = list_of(finish(&program), NULL);
    assert_in_range(list.items[0]->step_count, 10, 11);
    assert_string_equal(first_kernel(list.items[0], 2), "ncclDevKernel_SendRecv");
    aorta_trace_list_free(&list);
}

static void without_an_optimizer_it_is_cut_where_the_device_waits(void **state) {
    (void)state;
    struct program program;
    program_open(&program, 0);
    for (int i = 0; i < 8; i++) train_step(&program, "update", false);
    struct aorta_trace_list list = list_of(finish(&program), NULL);
    assert_true(list.items[0]->step_count >= 6);
    assert_string_equal(first_kernel(list.items[0], 2), "embedding");
    aorta_trace_list_free(&list);
}

/* Files list names in any order. */
static void the_order_of_names_does_not_move_steps(void **state) {
    (void)state;
    static const char *const names[] = {"embedding", "norm", "gemm", "gelu", "loss", "loss_backward"};
    enum { NAMES = sizeof names / sizeof *names };
    struct aorta_trace_list lists[2];
    for (int backward = 0; backward < 2; backward++) {
        struct program program;
        program_open(&program, 0);
        for (int i = NAMES; backward && i-- > 0;) text(&program, names[i]);
        for (int i = 0; i < 8 * NAMES; i++) {
            if (i % NAMES == 0) program.time_ns += PAUSE_NS;
            kernel(&program, names[i % NAMES], 7);
        }
        lists[backward] = list_of(finish(&program), NULL);
    }
    const struct aorta_trace *forward = lists[0].items[0], *backward = lists[1].items[0];
    assert_int_equal(forward->step_count, backward->step_count);
    for (size_t i = 0; i < forward->step_count; i++)
        assert_int_equal(forward->steps[i].start_ns, backward->steps[i].start_ns);
    for (int i = 0; i < 2; i++) aorta_trace_list_free(&lists[i]);
}

/* Each of many products is tried with several kernels before training begins: far more kernels than ten steps have. */
static void a_long_start_up_hides_no_steps(void **state) {
    (void)state;
    struct program program;
    char name[32];
    program_open(&program, 0);
    for (int product = 0; product < 60; product++) {
        for (int candidate = 0; candidate < 12; candidate++) {
            snprintf(name, sizeof name, "gemm_%d", (product * 7 + candidate) % 90);
            for (int run = 0; run < 1 + candidate % 4; run++) {
                kernel(&program, "flush", 7);
                kernel(&program, name, 7);
            }
        }
    }
    size_t start_up_launches = program.launches;
    for (int i = 0; i < 10; i++) train_step(&program, "adamw", false);
    assert_true(start_up_launches > 5 * (program.launches - start_up_launches));
    struct aorta_trace_list list = list_of(finish(&program), NULL);
    const struct aorta_trace *trace = list.items[0];
    assert_int_equal(trace->steps_by, AORTA_STEPS_BY_REPETITION);
    assert_in_range(trace->step_count, 8, 9);
    for (size_t i = 0; i < trace->step_count; i++) assert_string_equal(first_kernel(trace, i), "embedding");
    aorta_trace_list_free(&list);
}

static void ranks_number_the_same_steps_alike(void **state) {
    (void)state;
    struct program programs[2];
    for (int rank = 0; rank < 2; rank++) {
        program_open(&programs[rank], rank);
        start_up(&programs[rank]);
        if (rank == 1) programs[rank].time_ns += 10000; /* a little late */
        for (int i = 0; i < 10; i++) train_step(&programs[rank], "adam", i == 3 && rank == 0);
    }
    struct aorta_trace_list list = list_of(finish(&programs[0]), finish(&programs[1]));
    const struct aorta_trace *a = list.items[0], *b = list.items[1];
    assert_int_equal(a->step_count, b->step_count);
    for (size_t i = 0; i < a->step_count; i++) {
        assert_int_equal(a->steps[i].number, b->steps[i].number);
        assert_true(llabs(a->steps[i].device_start_ns - b->steps[i].device_start_ns) < 30000);
    }
    aorta_trace_list_free(&list);
}

/* Sequences of other lengths: other products are chosen, and a few more layers pay for one more kernel.
 *
 *     embedding (norm gemm_64|gemm_128 gelu [cast]) x 6 loss … adam adam adam | embedding (norm gemm_32 … */
static void steps_of_sequences_of_other_lengths(void **state) {
    (void)state;
    static const char *const products[] = {"gemm_64x64", "gemm_128x64", "nvjet_tst_192x128", "gemm_32x32"};
    static const int lengths[] = {2, 0, 1, 3, 3, 1, 2, 0, 2, 1, 0, 3};
    struct program program;
    program_open(&program, 0);
    start_up(&program);
    for (int i = 0; i < 12; i++) {
        kernel(&program, "embedding", 7);
        for (int j = 0; j < LAYERS; j++) {
            kernel(&program, "norm", 7);
            kernel(&program, products[lengths[i]], 7);
            kernel(&program, "elementwise_kernel<gelu<{lambda(float)#1}>>", 7); /* no LAMB */
            if (lengths[i] == 3 && j % 2) kernel(&program, "cast", 7);
        }
        kernel(&program, "loss", 7);
        for (int j = 0; j < LAYERS; j++) {
            kernel(&program, "gelu_backward", 7);
            kernel(&program, products[(lengths[i] + 1) % 4], 7);
            kernel(&program, products[lengths[i]], 7);
        }
        for (int j = 0; j < 3; j++) kernel(&program, "FusedAdam", 7);
        program.time_ns += PAUSE_NS;
    }
    struct aorta_trace_list list = list_of(finish(&program), NULL);
    assert_int_equal(list.items[0]->step_count, 10); /* the first begins somewhere, the last one ends with nothing */
    for (size_t i = 0; i < 10; i++) assert_string_equal(first_kernel(list.items[0], i), "embedding");
    aorta_trace_list_free(&list);
}

/* One kernel in a loop, then an evaluation that repeats nothing. */
static void a_short_loop_before_an_evaluation(void **state) {
    (void)state;
    struct program program;
    program_open(&program, 0);
    for (int i = 0; i < 100; i++) kernel(&program, "triton_softmax", 7);
    for (int i = 0; i < 60; i++) {
        char name[16];
        snprintf(name, sizeof name, "check_%d", i * i % 59);
        kernel(&program, name, 7);
    }
    struct aorta_trace_list list = list_of(finish(&program), NULL);
    assert_true(list.items[0]->step_count >= 98 && list.items[0]->step_count <= 100);
    for (size_t i = 0; i < 98; i++) assert_string_equal(first_kernel(list.items[0], i), "triton_softmax");
    aorta_trace_list_free(&list);
}

/* Windows of a recording: rank 0 has lost its first four steps.
 *
 *   rank 0              | 0 | 1 | 2 | …
 *   rank 1  |-4 |-3 |-2 |-1 | 0 | 1 | … */
static void ranks_may_begin_steps_apart(void **state) {
    (void)state;
    struct program programs[2];
    program_open(&programs[1], 1);
    for (int i = 0; i < 14; i++) {
        if (i == 4) {
            program_open(&programs[0], 0);
            programs[0].time_ns = programs[1].time_ns;
        }
        train_step(&programs[1], "adam", false);
        if (i >= 4) train_step(&programs[0], "adam", false);
    }
    struct aorta_trace_list list = list_of(finish(&programs[0]), finish(&programs[1]));
    const struct aorta_trace *a = list.items[0], *b = list.items[1];
    assert_true(a->step_count >= 8 && b->step_count >= a->step_count + 4);
    for (size_t i = 0; i < a->step_count; i++)
        for (size_t j = 0; j < b->step_count; j++)
            if (a->steps[i].number == b->steps[j].number)
                assert_true(llabs(a->steps[i].device_start_ns - b->steps[j].device_start_ns) < 30000);
    assert_int_equal(b->steps[0].number, a->steps[0].number - 4);
    aorta_trace_list_free(&list);
}

/* Equal layers; the host does a little more between two steps, and everything varies by more than that. */
static void run_layers(struct program *program, int steps, int layers, int64_t between_ns) {
    uint32_t random = 1;
    start_up(program);
    for (int i = 0; i < steps * layers; i++) {
        for (int j = 0; j < 3; j++) {
            static const char *const names[] = {"norm", "gemm", "gelu"};
            random = random * 1664525u + 1013904223u;
            program->time_ns += random >> 20; /* up to 4 us */
            if (j == 0 && i % layers == 0) program->time_ns += between_ns;
            kernel(program, names[j], 7);
        }
    }
}

static void layers_that_differ_in_times_only_make_a_step(void **state) {
    (void)state;
    struct program programs[2];
    for (int rank = 0; rank < 2; rank++) {
        program_open(&programs[rank], rank);
        programs[rank].time_ns += 50000 * rank;
        run_layers(&programs[rank], 30, 5, rank ? 2000 : 3000);
    }
    struct aorta_trace_list list = list_of(finish(&programs[0]), finish(&programs[1]));
    for (size_t i = 0; i < 2; i++) {
        const struct aorta_trace *trace = list.items[i];
        assert_in_range(trace->step_count, 26, 30);
        assert_in_range(trace->steps[0].number, 0, 3);
        for (size_t j = 0; j < trace->step_count; j++) {
            const struct aorta_trace_step *step = &trace->steps[j];
            size_t kernels = 0;
            for (size_t k = 0; k < trace->work_count; k++)
                kernels +=
                    trace->work[k].start_ns >= step->device_start_ns && trace->work[k].start_ns < step->device_end_ns;
            assert_int_equal(kernels, 15);
            assert_int_equal(step->number, trace->steps[0].number + (int64_t)j);
        }
    }
    aorta_trace_list_free(&list);
}

/* Chance alone, and two buffers in turns. */
static void layers_that_do_not_differ_are_steps(void **state) {
    (void)state;
    static const struct {
        int layers;
        int64_t between_ns;
    } rows[] = {{5, 0}, {2, 4000}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct program program;
        program_open(&program, 0);
        run_layers(&program, 150 / rows[i].layers, rows[i].layers, rows[i].between_ns);
        struct aorta_trace_list list = list_of(finish(&program), NULL);
        assert_in_range(list.items[0]->step_count, 140, 150);
        aorta_trace_list_free(&list);
    }
}

/* Intervals of a recorded loop of six layers. Eighteen explain a little more, as they would by chance. */
static void a_multiple_of_the_layers_is_no_step(void **state) {
    (void)state;
    static const int64_t intervals[] = {
        123, 40,  22,  18,  55, 132, 8,   3,   21,  63,  14,  141, 122, 113, 112, 71, 57,  140, 121, 72,  98,
        66,  84,  92,  27,  1,  50,  6,   44,  89,  80,  111, 77,  119, 70,  139, 74, 96,  62,  50,  89,  96,
        24,  13,  48,  50,  9,  134, 114, 41,  61,  129, 99,  142, 137, 102, 29,  46, 35,  94,  58,  53,  25,
        33,  19,  138, 109, 55, 127, 81,  124, 135, 76,  101, 45,  87,  27,  105, 32, 11,  39,  16,  38,  133,
        68,  103, 110, 92,  64, 136, 126, 107, 34,  42,  22,  86,  35,  83,  52,  10, 26,  108, 78,  116, 60,
        130, 91,  118, 88,  69, 11,  37,  1,   125, 53,  0,   19,  4,   47,  120, 73, 30,  79,  43,  131, 128,
        106, 75,  103, 5,   7,  117, 82,  17,  100, 15,  31,  85,  59,  96,  66,  65, 115,
    };
    struct aorta_arena memory = {0};
    struct aorta_layers layers = {0};
    aorta_layers_find(intervals, sizeof intervals / sizeof *intervals, &memory, &layers);
    assert_int_equal(layers.period, 6);
    assert_false(memory.failed);
}

enum { PASSES = 5, KERNELS_OF_LAYER = 9 };

/* A pass has twelve layers, then a head and an embedding, whose kernels layers have, too. The third one may differ. */
static void run_passes(struct program *program, int other_layers) {
    static const char *const layer[KERNELS_OF_LAYER] = {"norm", "qkv", "rotate", "scores", "softmax",
                                                        "mix",  "up",  "gelu",   "down"};
    for (int pass = 0; pass < PASSES; pass++) {
        const int layers = pass == 2 ? other_layers : 12;
        for (int i = 0; i < layers; i++)
            for (int j = 0; j < KERNELS_OF_LAYER; j++) kernel(program, layer[j], 7);
        kernel(program, "norm", 7);
        kernel(program, "qkv", 7);
        kernel(program, "gelu", 7);
    }
}

static void passes_with_kernels_between_layers_are_steps(void **state) {
    (void)state;
    for (int other = 12; other >= 7; other -= 5) {
        struct program program;
        program_open(&program, 0);
        run_passes(&program, other);
        struct aorta_trace_list list = list_of(finish(&program), NULL);
        const struct aorta_trace *trace = list.items[0];
        if (other == 12) assert_in_range(trace->step_count, PASSES - 2, PASSES);
        if (other != 12) assert_true(trace->step_count > 10 * PASSES); /* the layers themselves */
        const struct aorta_trace_step *step = &trace->steps[1];
        const int64_t kernels = other == 12 ? 12 * KERNELS_OF_LAYER + 3 : KERNELS_OF_LAYER;
        assert_int_equal(step->device_end_ns - step->device_start_ns, kernels * (KERNEL_NS + LAUNCH_NS));
        aorta_trace_list_free(&list);
    }
}

static void what_does_not_repeat_has_no_steps(void **state) {
    (void)state;
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"};
    struct program program;
    uint32_t random = 1;
    program_open(&program, 0);
    for (int i = 0; i < 2000; i++) {
        random = random * 1664525u + 1013904223u; /* Numerical Recipes' generator */
        kernel(&program, names[random >> 16 & 7], 7);
    }
    struct aorta_trace_list list = list_of(finish(&program), NULL);
    assert_int_equal(list.items[0]->step_count, 0);
    assert_int_equal(list.items[0]->steps_by, AORTA_STEPS_MARKED);
    aorta_trace_list_free(&list);
}

static void one_rank_without_steps_leaves_all_without(void **state) {
    (void)state;
    struct program programs[2];
    for (int rank = 0; rank < 2; rank++) program_open(&programs[rank], rank);
    for (int i = 0; i < 10; i++) train_step(&programs[0], "adam", false);
    kernel(&programs[1], "gemm", 7);
    struct aorta_trace_list list = list_of(finish(&programs[0]), finish(&programs[1]));
    assert_int_equal(list.items[0]->step_count, 0);
    aorta_trace_list_free(&list);
}

/* A launcher that initialises CUDA and runs nothing. */
static void a_process_without_work_takes_no_steps_away(void **state) {
    (void)state;
    struct program programs[2];
    for (int rank = 0; rank < 2; rank++) program_open(&programs[rank], rank);
    for (int i = 0; i < 10; i++) train_step(&programs[0], "adam", false);
    struct aorta_trace_list list = list_of(finish(&programs[0]), finish(&programs[1]));
    assert_true(list.items[0]->step_count >= 8);
    assert_int_equal(list.items[1]->step_count, 0);
    aorta_trace_list_free(&list);
}

static void marked_steps_count(void **state) {
    (void)state;
    struct program program;
    program_open(&program, 0);
    for (int i = 0; i < 10; i++) train_step(&program, "adam", false);
    const struct aorta_trace_annotation marked = {
        .end_ns = 2000000, .name = aorta_trace_builder_text(program.builder, "ProfilerStep#7", 14)};
    aorta_trace_builder_annotation(program.builder, &marked);
    struct aorta_trace_list list = list_of(finish(&program), NULL);
    assert_int_equal(list.items[0]->step_count, 1);
    assert_int_equal(list.items[0]->steps_by, AORTA_STEPS_MARKED);
    aorta_trace_list_free(&list);
}

static void empty_traces_are_no_trouble(void **state) {
    (void)state;
    struct program program;
    program_open(&program, 0);
    struct aorta_trace_list list = list_of(finish(&program), NULL);
    assert_int_equal(list.items[0]->step_count, 0);
    aorta_trace_list_free(&list);
    check_ok(aorta_trace_infer_steps(&list));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_is_cut_behind_the_optimizer),
        cmocka_unit_test(kernels_over_lists_end_a_step),
        cmocka_unit_test(without_an_optimizer_it_is_cut_where_the_device_waits),
        cmocka_unit_test(the_order_of_names_does_not_move_steps),
        cmocka_unit_test(a_long_start_up_hides_no_steps),
        cmocka_unit_test(ranks_number_the_same_steps_alike),
        cmocka_unit_test(steps_of_sequences_of_other_lengths),
        cmocka_unit_test(a_short_loop_before_an_evaluation),
        cmocka_unit_test(ranks_may_begin_steps_apart),
        cmocka_unit_test(layers_that_differ_in_times_only_make_a_step),
        cmocka_unit_test(layers_that_do_not_differ_are_steps),
        cmocka_unit_test(a_multiple_of_the_layers_is_no_step),
        cmocka_unit_test(passes_with_kernels_between_layers_are_steps),
        cmocka_unit_test(what_does_not_repeat_has_no_steps),
        cmocka_unit_test(one_rank_without_steps_leaves_all_without),
        cmocka_unit_test(a_process_without_work_takes_no_steps_away),
        cmocka_unit_test(marked_steps_count),
        cmocka_unit_test(empty_traces_are_no_trouble),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
