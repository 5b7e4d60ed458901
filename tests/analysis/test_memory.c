/* What a device's memory was used for. One step on the host, times in us, bytes of blocks:
 *
 *   main       train.py(9): forward [10                 40]                         Optimizer.step [100      130]
 *              aten::linear [12 20]  aten::relu [22 30]                               aten::zeros [104 108]
 *   autograd                                            evaluate_function [50 90]
 *
 *   before     1000 in all: 100 freed at 95
 *   a (64)       14 =================================================== 80         activation
 *   b (32)                24 ==== 28                                                workspace
 *   c (200)                                             55 =================== 120  gradient
 *   d (16)                                              60 = 62                     workspace
 *   e (48)                                                             105 =======> optimizer
 *   f (8)                                                              110 = 115    workspace
 *
 * The peak is at 60: 1000 + 64 + 200 + 16. 900 stay from before: 200 of these are parameters and, with Adam,
 * 400 are the optimizer's. */
#include "analysis/memory.h"
#include "check.h"
#include "samples/dump.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void frame(struct aorta_text *out, const char *category, const char *name, int thread, int start, int length,
                  const char *args) {
    aorta_text_printf(out, "{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\",\"pid\":1,\"tid\":%d,", category, name,
                      thread);
    aorta_text_printf(out, "\"ts\":%d,\"dur\":%d,\"args\":{%s}},\n", start, length, args);
}

/* `address`: of the block; `type`: 0 is the host's memory. */
static void memory(struct aorta_text *out, int thread, int at, int address, int bytes, int allocated, int type) {
    aorta_text_printf(
        out,
        "{\"ph\":\"i\",\"cat\":\"cpu_instant_event\",\"s\":\"t\",\"name\":\"[memory]\",\"pid\":1,\"tid\":%d,"
        "\"ts\":%d,\"args\":{\"Total Reserved\":4096,\"Total Allocated\":%d,",
        thread, at, allocated);
    aorta_text_printf(out, "\"Bytes\":%d,\"Device Id\":0,\"Device Type\":%d,\"Addr\":%d}},\n", bytes, type, address);
}

struct read {
    struct aorta_trace_list list;
    struct aorta_trace_analysis analysis;
    struct aorta_memory memory;
    struct aorta_arena arena;
};

static void read_step(struct read *read, const char *optimizer, bool allocations) {
    static const struct aorta_trace_options options = {.functions = true};
    static const char autograd[] = "\"Sequence number\":7,\"Fwd thread id\":1";
    struct aorta_text text = {0};
    *read = (struct read){0};
    aorta_text_puts(&text, "{\"traceEvents\":[\n");
    frame(&text, "python_function", "train.py(9): forward", 1, 10, 30, "");
    frame(&text, "python_function", "nn.Module: Linear_0", 1, 11, 10, "");
    frame(&text, "cpu_op", "aten::linear", 1, 12, 8, "\"Sequence number\":7");
    frame(&text, "cpu_op", "aten::relu", 1, 22, 8, "\"Sequence number\":8");
    frame(&text, "cpu_op", "autograd::engine::evaluate_function: LinearBackward0", 2, 50, 40, autograd);
    frame(&text, "user_annotation", optimizer, 1, 100, 30, "");
    frame(&text, "cpu_op", "aten::zeros", 1, 104, 4, "");
    if (allocations) {
        memory(&text, 1, 13, 9, 5000, 5000, 0); /* of the host: does not count */
        memory(&text, 1, 14, 1, 64, 1064, 1);
        memory(&text, 1, 24, 2, 32, 1096, 1);
        memory(&text, 1, 28, 2, -32, 1064, 1);
        memory(&text, 2, 55, 3, 200, 1264, 1);
        memory(&text, 2, 60, 2, 16, 1280, 1); /* the address of b again */
        memory(&text, 2, 62, 2, -16, 1264, 1);
        memory(&text, 2, 80, 1, -64, 1200, 1);
        memory(&text, 1, 95, 77, -100, 1100, 1);
        memory(&text, 1, 105, 5, 48, 1148, 1);
        memory(&text, 1, 110, 6, 8, 1156, 1);
        memory(&text, 1, 115, 6, -8, 1148, 1);
        memory(&text, 1, 120, 3, -200, 948, 1);
    }
    frame(&text, "kernel", "sgemm", 7, 30, 20, "\"device\":0,\"stream\":7");
    text.length -= 2; /* the last comma */
    aorta_text_puts(&text, "\n]}\n");
    check_ok(aorta_text_check(&text));
    check_ok(read_with(text.data, text.length, 0, &options, &read->list));
    check_ok(aorta_trace_analyze(&read->list, NULL, &read->analysis));
    aorta_memory_make(&read->analysis.ranks[0], &read->arena, &read->memory);
    check_ok(aorta_arena_check(&read->arena, "the memory"));
    aorta_text_free(&text);
}

static void end(struct read *read) {
    aorta_arena_free(&read->arena);
    aorta_trace_analysis_free(&read->analysis);
    aorta_trace_list_free(&read->list);
}

static void check_uses(const int64_t *found, const int64_t expected[AORTA_MEMORY_USE_COUNT]) {
    for (int use = 0; use < AORTA_MEMORY_USE_COUNT; use++)
        if (found[use] != expected[use])
            fail_msg("%s: %lld bytes, expected %lld", aorta_memory_use_name(use), (long long)found[use],
                     (long long)expected[use]);
}

static void uses_follow_from_times(void **state) {
    (void)state;
    struct read read;
    read_step(&read, "Optimizer.step#AdamW.step", true);
    assert_null(read.memory.reason);
    assert_int_equal(read.memory.peak_ns, 60000);
    assert_int_equal(read.memory.peak_bytes, 1280);
    assert_int_equal(read.memory.peak_reserved, 4096);
    check_uses(read.memory.peak_use, (int64_t[AORTA_MEMORY_USE_COUNT]){[AORTA_MEMORY_PARAMETERS] = 200,
                                                                       [AORTA_MEMORY_GRADIENTS] = 200,
                                                                       [AORTA_MEMORY_OPTIMIZER] = 400,
                                                                       [AORTA_MEMORY_ACTIVATIONS] = 64,
                                                                       [AORTA_MEMORY_WORKSPACE] = 16,
                                                                       [AORTA_MEMORY_BEFORE] = 400});
    end(&read);
    /* Without Adam nothing says what an optimizer keeps. */
    read_step(&read, "Optimizer.step#SGD.step", true);
    assert_int_equal(read.memory.peak_use[AORTA_MEMORY_OPTIMIZER], 0);
    assert_int_equal(read.memory.peak_use[AORTA_MEMORY_BEFORE], 800);
    end(&read);
}

/* a was allocated by linear, in its module and line; c by autograd, for the module and line of the forward pass. */
static void the_peak_names_its_lines(void **state) {
    (void)state;
    struct read read;
    size_t found = 0;
    read_step(&read, "Optimizer.step#SGD.step", true);
    const struct aorta_trace *trace = read.analysis.ranks[0].trace;
    for (size_t i = 0; i < read.memory.count; i++) {
        const struct aorta_memory_row *row = &read.memory.rows[i];
        if (row->use != AORTA_MEMORY_ACTIVATIONS && row->use != AORTA_MEMORY_GRADIENTS) continue;
        const bool gradient = row->use == AORTA_MEMORY_GRADIENTS;
        assert_string_equal(aorta_trace_text(trace, row->operation),
                            gradient ? "autograd::engine::evaluate_function: LinearBackward0" : "aten::linear");
        assert_string_equal(aorta_trace_text(trace, row->module), "nn.Module: Linear_0");
        assert_string_equal(aorta_trace_text(trace, row->function), "train.py(9): forward");
        assert_int_equal(row->bytes, gradient ? 200 : 64);
        found++;
    }
    assert_int_equal(found, 2);
    end(&read);
}

/* Parts have the most of any moment in them: [0, 50) a and b, [50, 100) the peak, [100, 150) what is left of it. */
static void parts_have_their_own_peaks(void **state) {
    (void)state;
    struct read read;
    struct aorta_memory_part parts[3];
    const int64_t bounds[] = {0, 50000, 100000, 150000};
    read_step(&read, "Optimizer.step#SGD.step", true);
    aorta_memory_over(&read.memory, bounds, 3, &read.arena, parts);
    assert_int_equal(parts[0].bytes, 1096);
    assert_int_equal(parts[1].bytes, 1280);
    assert_int_equal(parts[2].bytes, 1156);
    assert_int_equal(parts[2].use[AORTA_MEMORY_OPTIMIZER], 48);
    assert_int_equal(parts[2].use[AORTA_MEMORY_GRADIENTS], 200);
    end(&read);
}

/* PyTorch 1.9 writes allocations without an address: they are no damage, and not enough for a table. */
static void allocations_without_address_are_skipped(void **state) {
    (void)state;
    struct aorta_trace_list list = {0};
    struct aorta_text text = {0};
    aorta_text_puts(&text, "{\"traceEvents\":[\n");
    frame(&text, "cpu_op", "aten::relu", 1, 12, 8, "");
    aorta_text_puts(&text, "{\"ph\":\"i\",\"s\":\"t\",\"name\":\"[memory]\",\"pid\":1,\"tid\":1,\"ts\":14,"
                           "\"args\":{\"Device Type\":1,\"Device Id\":0,\"Bytes\":-512}}]}");
    check_ok(read_with(text.data, text.length, 0, NULL, &list));
    aorta_text_free(&text);
    assert_int_equal(list.items[0]->allocation_count, 0);
    assert_int_equal(list.items[0]->warnings[AORTA_REASON_ODD_VALUE].count, 0);
    aorta_trace_list_free(&list);
}

static void without_allocations_nothing_is_said(void **state) {
    (void)state;
    struct read read;
    read_step(&read, "Optimizer.step#SGD.step", false);
    assert_non_null(strstr(read.memory.reason, "profile_memory=True"));
    assert_int_equal(read.memory.count, 0);
    end(&read);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uses_follow_from_times),
        cmocka_unit_test(the_peak_names_its_lines),
        cmocka_unit_test(parts_have_their_own_peaks),
        cmocka_unit_test(allocations_without_address_are_skipped),
        cmocka_unit_test(without_allocations_nothing_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
