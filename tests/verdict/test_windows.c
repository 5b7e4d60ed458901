/* Steps whose work runs into other steps: the loader copies ahead on its own stream, kernels lag behind their launch,
 * the profiler had several cycles, and ranges of the host share time. Whatever the program, an analysis ends, windows
 * share no time, and each piece of work belongs to one operation of one step.
 *
 *     host        [step 0  l l c][step 1  l l c]
 *     stream 7        [kernel 0    ][kernel 0  ][kernel 1  ]
 *     stream 13              [copy for 1]    [copy for 2]
 */
#include "check.h"
#include "random.h"
#include "samples/kineto.h"
#include "verdict/remedy_internal.h"
#include "verdict/verdict.h"

#include <math.h>
#include <stdlib.h>

enum { PROGRAMS = 400, STREAMS = 3 };
static const int streams[STREAMS] = {7, 13, 20};

static bool chance(int percent) {
    return random_between(1, 100) <= percent;
}

struct program {
    struct sample_kineto sample;
    double free_us[STREAMS]; /* when the stream has ended its work */
    int lag_us, length_us;   /* of kernels, at most */
    int operation;
};

static void add_kernel(struct program *program, double at_us) {
    static const char *const names[STREAMS] = {"vectorized_elementwise_kernel<4>", "batch_norm_kernel", "nvjet_gemm"};
    const int stream = chance(60) ? 0 : (int)random_between(0, STREAMS - 1);
    const double length_us = (double)random_between(0, program->length_us);
    const double lag_us = (double)random_between(3, program->lag_us);
    const double start_us = fmax(program->free_us[stream], at_us + lag_us);
    char args[64];
    snprintf(args, sizeof args, "\"External id\": %d", program->operation);
    sample_kineto_kernel(&program->sample, names[random_between(0, STREAMS - 1)], streams[stream], at_us, start_us,
                         length_us, args);
    program->free_us[stream] = start_us + length_us;
}

static void add_operation(struct program *program, double at_us) {
    char args[64];
    const int kernels = (int)random_between(1, 4);
    program->operation++;
    snprintf(args, sizeof args, "\"External id\": %d", program->operation);
    sample_kineto_event(&program->sample, "cpu_op", "aten::mul", 1, at_us, 5 * kernels + 1, args);
    for (int i = 0; i < kernels; i++) add_kernel(program, at_us + 1 + 5 * i);
}

static void add_step(struct program *program, int number, double start_us, double end_us) {
    char name[32];
    snprintf(name, sizeof name, "ProfilerStep#%d", number);
    sample_kineto_event(&program->sample, "user_annotation", name, 1, start_us, end_us - start_us, "");
    if (chance(50))
        sample_kineto_event(&program->sample, "gpu_user_annotation", name, 13, start_us + 20,
                            (double)random_between(1, 2000), "");
    if (chance(50))
        sample_kineto_event(&program->sample, "gpu_user_annotation", name, 7, start_us + 200,
                            (double)random_between(1, 3000), "");
}

/* Each program draws how far its device lags, and how its steps follow each other. */
static void make_program(uint64_t seed, struct aorta_trace_list *list) {
    struct program program = {0};
    random_state = seed;
    program.lag_us = (int)random_between(4, 1500);
    program.length_us = (int)random_between(1, 600);
    const int steps = (int)random_between(1, 8), shared = chance(30) ? (int)random_between(1, 200) : 0;
    const int cycle = chance(40) ? (int)random_between(1, 3) : steps;
    double at_us = 1000;
    sample_kineto_begin(&program.sample, 0, 1);
    for (int i = 0, number = 0; i < steps; i++, number++) {
        const double start_us = at_us - shared;
        for (int left = (int)random_between(i == 0, 12); left > 0; left--) {
            add_operation(&program, at_us);
            at_us += 25 + (double)random_between(0, 60);
        }
        add_step(&program, number, start_us, at_us);
        at_us += (double)random_between(0, 20);
        if ((i + 1) % cycle) continue;
        number += 5;
        at_us += (double)random_between(0, 5000);
    }
    add_operation(&program, at_us + 10); /* beyond all steps, and something runs in any program */
    sample_kineto_open(&program.sample, list);
}

static void check_windows(const struct aorta_trace_rank *rank) {
    for (size_t i = 0; i < rank->window_count; i++) {
        assert_true(rank->windows[i].start_ns < rank->windows[i].end_ns);
        if (i) assert_true(rank->windows[i - 1].end_ns <= rank->windows[i].start_ns);
    }
}

/* Every row that was analysed is linked once. */
static void check_leaves(const struct aorta_trace_analysis *analysis) {
    const struct aorta_trace_rank *rank = &analysis->ranks[0];
    struct aorta_remedies remedies;
    bool *seen = calloc(rank->trace->work_count + 1, sizeof *seen);
    size_t linked = 0, distinct = 0;
    check_ok(aorta_remedies_make(analysis, 0, &remedies));
    for (size_t i = 0; i < remedies.model->leaf_count; i++) {
        const struct leaf *leaf = &remedies.model->leaves[i];
        uint32_t row = leaf->first_work;
        for (uint32_t j = 0; j < aorta_leaf_work(leaf); j++, row = remedies.model->next_work[row]) {
            assert_false(seen[row]);
            seen[row] = true;
            linked++;
        }
    }
    for (size_t i = 0; i < rank->work_count; i++) {
        bool *row = &seen[rank->source ? rank->source[i] : i];
        distinct += *row;
        *row = false;
    }
    assert_int_equal(linked, distinct);
    free(seen);
    aorta_remedies_free(&remedies);
}

/* The table has each kernel once, with all of its time, also where a window cuts it. */
static void check_kernels(const struct aorta_trace_rank *rank) {
    bool *seen = calloc(rank->trace->work_count + 1, sizeof *seen);
    size_t distinct = 0, counted = 0;
    int64_t all_ns = 0, table_ns = 0;
    for (size_t i = 0; i < rank->work_count; i++) {
        bool *row = &seen[rank->source ? rank->source[i] : i];
        distinct += !*row;
        *row = true;
        all_ns += rank->work[i].end_ns - rank->work[i].start_ns;
    }
    for (size_t i = 0; i < rank->kernel_count; i++) {
        counted += rank->kernels[i].times.count;
        table_ns += rank->kernels[i].times.total_ns;
    }
    assert_int_equal(counted, distinct);
    assert_int_equal(table_ns, all_ns);
    free(seen);
}

static void every_piece_of_work_belongs_to_one_step(void **unused) {
    (void)unused;
    for (uint64_t seed = 1; seed <= PROGRAMS; seed++) {
        struct aorta_trace_list list = {0};
        make_program(seed, &list);
        for (int all_steps = 0; all_steps < 2; all_steps++) {
            struct aorta_trace_analysis analysis;
            struct aorta_verdict verdict;
            const struct aorta_trace_analysis_options options = {.all_steps = all_steps};
            check_ok(aorta_trace_analyze(&list, &options, &analysis));
            check_windows(&analysis.ranks[0]);
            check_leaves(&analysis);
            check_kernels(&analysis.ranks[0]);
            check_ok(aorta_verdict_make(&analysis, &verdict));
            aorta_verdict_free(&verdict);
            aorta_trace_analysis_free(&analysis);
        }
        aorta_trace_list_free(&list);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_piece_of_work_belongs_to_one_step)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
