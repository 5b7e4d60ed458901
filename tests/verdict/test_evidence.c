/* The tables behind the verdict: calls that wait and what made them, collectives by size, kernels that differ between
 * ranks, shapes of launches whose number in the file misleads. */
#include "analysis/analysis.h"
#include "analysis/steps.h"
#include "report/trace_report.h"
#include "said.h"
#include "samples/kineto.h"
#include "trace/open.h"
#include "verdict/verdict.h"

#include <stdlib.h>

struct run {
    struct aorta_trace_list list;
    struct aorta_trace_analysis analysis;
};

static void analyze(struct run *run) {
    check_ok(aorta_trace_analyze(&run->list, NULL, &run->analysis));
}

static void end(struct run *run) {
    aorta_trace_analysis_free(&run->analysis);
    aorta_trace_list_free(&run->list);
}

static void step_mark(struct sample_kineto *sample, int number, double start_us, double length_us) {
    char name[32];
    snprintf(name, sizeof name, "ProfilerStep#%d", number);
    sample_kineto_event(sample, "user_annotation", name, 1, start_us, length_us, "");
}

static const char *name_of(const struct run *run, uint32_t text) {
    return aorta_trace_text(run->analysis.ranks[0].trace, text);
}

static void print(struct run *run, struct aorta_text *text) {
    struct aorta_verdict verdict;
    said_make(&run->analysis, &verdict);
    aorta_trace_report_text(&(struct aorta_trace_report){.analysis = &run->analysis, .verdict = &verdict}, NULL, text);
    aorta_verdict_free(&verdict);
    check_ok(aorta_text_check(text));
}

/* ---- calls that wait ---- */

/* A loss is read twice per step, on one line. A watchdog waits, too, but launches nothing. The last wait comes after
 * the steps. */
static void waits_are_named_by_what_made_them(void **state) {
    (void)state;
    struct sample_kineto sample;
    struct run run = {0};
    sample_kineto_begin(&sample, 0, 1);
    sample_kineto_event(&sample, "python_function", "train.py(10): main", 1, 0, 5000, "");
    sample_kineto_event(&sample, "python_function", "torch/utils/data.py(3): loop", 1, 1, 4900, "");
    sample_kineto_kernel(&sample, "fill", 7, 2, 4, 2, "");
    for (int i = 0; i < 3; i++) {
        double at = 1000.0 * i + 10;
        step_mark(&sample, i, at, 990);
        sample_kineto_kernel(&sample, "gemm", 7, at + 5, at + 20, 500, "");
        for (int j = 0; j < 2; j++) {
            double item = at + 100 + 300 * j;
            sample_kineto_event(&sample, "python_function", "train.py(45): log_loss", 1, item, 250, "");
            sample_kineto_event(&sample, "python_function", "<built-in method item of Tensor>", 1, item + 1, 248, "");
            sample_kineto_event(&sample, "cpu_op", "aten::item", 1, item + 2, 245, "");
            sample_kineto_event(&sample, "cpu_op", "aten::_local_scalar_dense", 1, item + 3, 243, "");
            sample_kineto_event(&sample, "cuda_runtime", "cudaStreamSynchronize", 1, item + 10, 200, "");
        }
        sample_kineto_event(&sample, "cuda_runtime", "cudaEventSynchronize", 2, at + 100, 700, "");
        sample_kineto_event(&sample, "user_annotation", "evaluate", 1, at + 800, 100, "");
        sample_kineto_event(&sample, "cuda_runtime", "cudaDeviceSynchronize", 1, at + 810, 30, "");
    }
    sample_kineto_event(&sample, "cuda_runtime", "cudaDeviceSynchronize", 1, 4000, 800, "");
    sample_kineto_open(&sample, &run.list);
    analyze(&run);
    const struct aorta_trace_rank *rank = &run.analysis.ranks[0];
    assert_int_equal(rank->steps, 3);
    assert_int_equal(rank->sync_count, 2);
    const struct aorta_trace_sync_row *item = &rank->syncs[0], *device = &rank->syncs[1];
    assert_string_equal(name_of(&run, item->name), "cudaStreamSynchronize");
    assert_string_equal(name_of(&run, item->operation), "aten::item");
    assert_string_equal(name_of(&run, item->function), "train.py(45): log_loss");
    assert_int_equal(item->times.count, 6);
    assert_int_equal(item->times.total_ns, 6 * 200000);
    assert_string_equal(name_of(&run, device->function), "train.py(10): main");
    assert_int_equal(device->operation, AORTA_TRACE_NONE);
    assert_string_equal(name_of(&run, device->range), "evaluate");
    assert_int_equal(device->times.count, 3);
    struct aorta_text text = {0};
    print(&run, &text);
    assert_non_null(strstr(text.data, "  cudaStreamSynchronize in aten::item at train.py(45): log_loss"));
    aorta_text_free(&text);
    aorta_trace_analysis_free(&run.analysis);
    analyze(&run);
    struct aorta_verdict verdict;
    said_make(&run.analysis, &verdict);
    const struct aorta_finding *waits = &verdict.findings[0];
    assert_int_equal(waits->cause, AORTA_CAUSE_HOST_SYNC);
    assert_string_equal(said_place(waits, AORTA_FACT_CALLER),
                        "cudaStreamSynchronize in aten::item at train.py(45): log_loss");
    said_near(said_value(waits, AORTA_FACT_CALLER), 2, 1e-9);
    aorta_verdict_free(&verdict);
    end(&run);
}

/* x[mask] counts what the mask selects, and the host waits for the number; or it waits for a sum. */
static void selections_by_masks_are_named(void **state) {
    (void)state;
    for (int mask = 0; mask < 2; mask++) {
        struct sample_kineto sample;
        struct run run = {0};
        struct aorta_verdict verdict;
        sample_kineto_begin(&sample, 0, 1);
        for (int i = 0; i < 3; i++) {
            const double at = 1000.0 * i + 10;
            step_mark(&sample, i, at, 990);
            sample_kineto_kernel(&sample, "at::native::reduce_kernel", 7, at + 5, at + 20, 300, "");
            sample_kineto_event(&sample, "cuda_runtime", "cudaStreamSynchronize", 1, at + 10, 312, "");
            sample_kineto_kernel(&sample, mask ? "cub::DeviceSelectSweepKernel" : "at::native::mul", 7, at + 330,
                                 at + 340, 300, "");
        }
        sample_kineto_open(&sample, &run.list);
        analyze(&run);
        said_make(&run.analysis, &verdict);
        const struct aorta_finding *waits = said_finding(&verdict, AORTA_CAUSE_HOST_SYNC);
        assert_int_equal(said_has(waits, AORTA_FACT_SELECTS), mask);
        assert_int_equal(strstr(said_advice(waits), "torch.where") != NULL, mask);
        aorta_verdict_free(&verdict);
        end(&run);
    }
}

/* The search for an algorithm of a convolution needs no other advice than that. */
static void searches_of_convolutions_are_named(void **state) {
    (void)state;
    static const struct {
        const char *operation, *function;
        bool conv;
    } rows[] = {{"aten::add", "train.py(3): step", false},
                {"aten::add", "train.py(3): convert", false},
                {"aten::conv2d", "train.py(3): step", true}};
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        struct sample_kineto sample;
        struct run run = {0};
        struct aorta_verdict verdict;
        sample_kineto_begin(&sample, 0, 1);
        for (int i = 0; i < 3; i++) {
            const double at = 1000.0 * i + 10;
            step_mark(&sample, i, at, 990);
            sample_kineto_event(&sample, "python_function", rows[row].function, 1, at, 800, "");
            sample_kineto_event(&sample, "cpu_op", rows[row].operation, 1, at + 1, 700, "");
            sample_kineto_kernel(&sample, "at::native::gemm", 7, at + 5, at + 20, 300, "");
            sample_kineto_event(&sample, "cuda_runtime", "cudaEventSynchronize", 1, at + 10, 312, "");
        }
        sample_kineto_open(&sample, &run.list);
        analyze(&run);
        said_make(&run.analysis, &verdict);
        const struct aorta_finding *waits = said_finding(&verdict, AORTA_CAUSE_HOST_SYNC);
        assert_int_equal(said_has(waits, AORTA_FACT_CONVOLUTION_SEARCH), rows[row].conv);
        assert_int_equal(strstr(said_advice(waits), "try their algorithms") != NULL, rows[row].conv);
        aorta_verdict_free(&verdict);
        end(&run);
    }
}

/* Four values of a step are read, and most waits are known by their operation. */
static void items_are_values(void **state) {
    (void)state;
    for (int values = 2; values <= 4; values += 2) {
        struct sample_kineto sample;
        struct run run = {0};
        struct aorta_verdict verdict;
        sample_kineto_begin(&sample, 0, 1);
        for (int i = 0; i < 3; i++) {
            step_mark(&sample, i, 2000.0 * i + 10, 1990);
            for (int j = 0; j < values; j++) {
                const double at = 2000.0 * i + 450 * j + 20;
                sample_kineto_kernel(&sample, "at::native::gemm", 7, at, at + 10, 300, "");
                sample_kineto_event(&sample, "cpu_op", "aten::item", 1, at + 5, 330, "");
                sample_kineto_event(&sample, "cuda_runtime", "cudaStreamSynchronize", 1, at + 8, 312, "");
            }
        }
        sample_kineto_open(&sample, &run.list);
        analyze(&run);
        said_make(&run.analysis, &verdict);
        assert_int_equal(said_has(said_finding(&verdict, AORTA_CAUSE_HOST_SYNC), AORTA_FACT_MANY_VALUES), values == 4);
        aorta_verdict_free(&verdict);
        end(&run);
    }
}

/* Two ranges, as PyProf writes them, each around the same operation, and a third one around a wait of none:
 *
 *   ranges       |{'mod': 1, ...}          |{'mod': 2, ...}          |{'mod': 3, ...}
 *   operations     |aten::item               |aten::item
 *   calls            |synchronize|             |synchronize|             |synchronize|
 */
static void a_place_is_one_row_of_one_line(void **state) {
    (void)state;
    struct sample_kineto sample;
    struct run run = {0};
    struct aorta_text text = {0};
    sample_kineto_begin(&sample, 0, 1);
    sample_kineto_kernel(&sample, "fill", 7, 1, 2, 3, "");
    for (int i = 0; i < 3; i++) {
        const double at = 1000.0 * i;
        char range[256];
        snprintf(range, sizeof range, "{'mod': %d, 'args': [%0150d]}", i + 1, i + 1);
        sample_kineto_event(&sample, "user_annotation", range, 1, at, 900, "");
        if (i < 2) sample_kineto_event(&sample, "cpu_op", "aten::item", 1, at + 1, 700, "");
        sample_kineto_kernel(&sample, "gemm", 7, at + 5, at + 20, 300, "");
        sample_kineto_event(&sample, "cuda_runtime", "cudaStreamSynchronize", 1, at + 10, 312, "");
    }
    sample_kineto_open(&sample, &run.list);
    analyze(&run);
    const struct aorta_trace_rank *rank = &run.analysis.ranks[0];
    assert_int_equal(rank->sync_count, 2);
    assert_int_equal(rank->syncs[0].times.count, 2);
    assert_int_equal(rank->syncs[0].range, AORTA_TRACE_NONE);
    assert_string_equal(name_of(&run, rank->syncs[0].operation), "aten::item");
    print(&run, &text);
    assert_non_null(strstr(text.data, "    2.0     0.624    312.00  cudaStreamSynchronize in aten::item\n"));
    assert_non_null(strstr(text.data, "cudaStreamSynchronize in {'mod': 3, 'args': [000000000000000000"));
    assert_non_null(strstr(text.data, "0…\n"));
    aorta_text_free(&text);
    end(&run);
}

/* What the host waits for before the first kernel and after the last one is no part of the recording without steps. The
 * last kernel ends within the last call. */
static void waits_beyond_the_devices_time_do_not_count(void **state) {
    (void)state;
    struct sample_kineto sample;
    struct run run = {0};
    sample_kineto_begin(&sample, 0, 1);
    sample_kineto_event(&sample, "cuda_runtime", "cudaDeviceSynchronize", 1, 0, 900, "");
    sample_kineto_kernel(&sample, "gemm", 7, 990, 1000, 100, "");
    sample_kineto_event(&sample, "cuda_runtime", "cudaDeviceSynchronize", 1, 1010, 90, "");
    sample_kineto_kernel(&sample, "gemm", 7, 1110, 1120, 100, "");
    sample_kineto_event(&sample, "cuda_runtime", "cudaDeviceSynchronize", 1, 1130, 5000, "");
    sample_kineto_event(&sample, "cuda_runtime", "cudaDeviceSynchronize", 1, 7000, 10, "");
    sample_kineto_open(&sample, &run.list);
    analyze(&run);
    assert_int_equal(run.analysis.ranks[0].sync_count, 1);
    assert_int_equal(run.analysis.ranks[0].syncs[0].times.count, 2);
    assert_int_equal(run.analysis.ranks[0].syncs[0].times.total_ns, 90000 + 90000);
    end(&run);
}

/* Waits of less than a hundredth of the time are in the table, but not in the text. */
static void short_waits_are_not_printed(void **state) {
    (void)state;
    struct sample_kineto sample;
    struct run run = {0};
    struct aorta_text text = {0};
    sample_kineto_begin(&sample, 0, 1);
    sample_kineto_kernel(&sample, "gemm", 7, 0, 10, 1000, "");
    sample_kineto_event(&sample, "cuda_runtime", "cudaStreamSynchronize", 1, 20, 9, "");
    sample_kineto_open(&sample, &run.list);
    analyze(&run);
    assert_int_equal(run.analysis.ranks[0].sync_count, 1);
    assert_int_equal(run.analysis.ranks[0].syncs[0].function, AORTA_TRACE_NONE);
    print(&run, &text);
    assert_null(strstr(text.data, "wait for the GPU"));
    aorta_text_free(&text);
    end(&run);
}

/* ---- collectives by size ---- */

static void gather(struct sample_kineto *sample, int number, int elements, int channels, double start_us,
                   double end_us) {
    char args[512];
    snprintf(
        args, sizeof args,
        "\"Collective name\": \"_allgather_base\", \"In msg nelems\": %d, \"Out msg nelems\": %d, \"Group size\": 2, "
        "\"dtype\": \"BFloat16\", \"Process Group Name\": \"0\", \"Process Group Ranks\": \"[0, 1]\", \"Seq\": %d, "
        "\"grid\": [%d, 1, 1]",
        elements / 2, elements, number, channels);
    sample_kineto_kernel(sample, "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 20, start_us - 10,
                         start_us, end_us - start_us, args);
}

/* Rank 1 comes 100 us late to each; from then on 40 MB take 200 us, and 4 MB 50 us. */
static void collectives_are_counted_by_size(void **state) {
    (void)state;
    struct run run = {0};
    for (int rank = 0; rank < 2; rank++) {
        struct sample_kineto sample;
        sample_kineto_begin(&sample, rank, 2);
        for (int i = 0; i < 8; i++) {
            double at = 1000.0 * (i + 1), start = rank ? at + 100 : at;
            gather(&sample, i, i % 2 ? 2000000 : 20000000, i % 2 ? 2 : 24, start, at + 100 + (i % 2 ? 50 : 200));
        }
        sample_kineto_open(&sample, &run.list);
    }
    analyze(&run);
    const struct aorta_trace_rank *rank = &run.analysis.ranks[0];
    assert_int_equal(rank->collective_count, 1);
    assert_int_equal(rank->collective_size_count, 2);
    const struct aorta_trace_collective_row *large = &rank->collective_sizes[0], *small = &rank->collective_sizes[1];
    assert_int_equal(large->bytes_each, 40000000);
    assert_int_equal(large->channels, 24);
    assert_string_equal(name_of(&run, large->dtype), "BFloat16");
    assert_int_equal(large->times.count, 4);
    assert_int_equal(large->waits_known, 4);
    assert_int_equal(large->wait_ns, 4 * 100000);
    assert_int_equal(large->transfer_ns, 4 * 200000);
    assert_true(fabs(large->transfer_busbw_gbps - 100) < 1e-9); /* half of 40 MB in 200 us */
    assert_true(fabs(aorta_trace_link_of(&run.analysis, rank, large) - 450) < 1e-9);
    assert_int_equal(small->bytes_each, 4000000);
    assert_int_equal(small->channels, 2);
    assert_int_equal(small->transfer_ns, 4 * 50000);
    struct aorta_text text = {0};
    print(&run, &text);
    assert_non_null(strstr(text.data, "collectives by size"));
    assert_non_null(strstr(text.data, " 22.2%")); /* 100 of 450 GB/s */
    aorta_text_free(&text);
    end(&run);
}

/* ---- kernels that differ ---- */

enum change { ALIKE, STRAY, SLOWER, ONCE, BESIDE };

/* Four steps of 1000 us on two ranks; rank 1 is changed. */
static void two_ranks(struct run *run, enum change change) {
    *run = (struct run){0};
    for (int rank = 0; rank < 2; rank++) {
        struct sample_kineto sample;
        sample_kineto_begin(&sample, rank, 2);
        for (int i = 0; i < 4; i++) {
            double at = 1000.0 * i + 100;
            bool mine = rank == 1, slow = mine && (change == SLOWER || (change == ONCE && i == 2));
            step_mark(&sample, i, at, 1000);
            sample_kineto_kernel(&sample, "gemm", 7, at + 1, at + 20, 200 + (slow ? 100 : rank), "");
            sample_kineto_kernel(&sample, "gelu", 7, at + 5, at + 330, mine && change == BESIDE ? 150 : 100, "");
            gather(&sample, i, 1000, 2, mine && change == BESIDE ? at + 325 : at + 500, at + 600);
            if (mine && change == STRAY) sample_kineto_kernel(&sample, "stray", 7, at + 8, at + 700, 90, "");
            sample_kineto_kernel(&sample, "gelu", 7, at + 9, at + 800, 100, "");
        }
        sample_kineto_open(&sample, &run->list);
    }
    analyze(run);
}

static void kernels_of_one_rank_are_named(void **state) {
    (void)state;
    struct run run;
    two_ranks(&run, STRAY);
    assert_int_equal(run.analysis.difference_count, 1);
    const struct aorta_trace_difference *row = &run.analysis.differences[0];
    assert_string_equal(row->name, "stray");
    assert_int_equal(row->rank, 1);
    assert_true(fabs(row->count - 1) < 1e-9 && fabs(row->ns - 90000) < 1e-6);
    assert_true(fabs(row->others_count) < 1e-9 && fabs(row->excess_ns - 90000) < 1e-6);
    struct aorta_text text = {0};
    print(&run, &text);
    assert_non_null(strstr(text.data, "kernels that differ between ranks"));
    aorta_text_free(&text);
    end(&run);
    two_ranks(&run, SLOWER);
    assert_int_equal(run.analysis.difference_count, 1);
    assert_string_equal(run.analysis.differences[0].name, "gemm");
    assert_true(fabs(run.analysis.differences[0].excess_ns - 100000) < 1e-6);
    end(&run);
}

/* A microsecond more, one slow step of four, and a kernel that is slower only beside a collective are no differences of
 * the ranks. */
static void noise_is_no_difference(void **state) {
    (void)state;
    static const enum change changes[] = {ALIKE, ONCE, BESIDE};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct run run;
        two_ranks(&run, changes[i]);
        assert_int_equal(run.analysis.difference_count, 0);
        end(&run);
    }
}

/* ---- shapes ---- */

#define PRODUCT_SHAPES                                                                                                 \
    "\"External id\": 5, \"Input Dims\": [[64, 32], [32, 16]], \"Input type\": [\"float\", \"float\"]"

/* The kernel's number is that of no operation, or of one at another time; but its launch lies within the product. A
 * launch elsewhere has the shape of its number only, and a kernel that is no product not that of a product. */
static void launches_within_an_operation_have_its_shape(void **state) {
    (void)state;
    struct sample_kineto sample;
    struct run run = {0};
    sample_kineto_begin(&sample, 0, 1);
    sample_kineto_event(&sample, "cpu_op", "aten::mm", 1, 100, 50, PRODUCT_SHAPES);
    sample_kineto_kernel(&sample, "sm90_xmma_gemm", 7, 110, 200, 10, "\"External id\": 77");
    sample_kineto_kernel(&sample, "fill", 7, 120, 220, 10, "\"External id\": 77");
    sample_kineto_kernel(&sample, "sm90_xmma_gemm", 7, 160, 240, 10, "\"External id\": 77");
    sample_kineto_kernel(&sample, "sm90_xmma_gemm", 7, 170, 260, 10, "\"External id\": 5");
    sample_kineto_event(&sample, "cpu_op", "aten::mm", 1, 1000, 50,
                        "\"External id\": 6, \"Input Dims\": [[8, 8], [8, 8]], \"Input type\": [\"float\", \"float\"]");
    sample_kineto_kernel(&sample, "sm90_xmma_gemm", 7, 130, 280, 10, "\"External id\": 6");
    sample_kineto_event(&sample, "cpu_op", "aten::mm", 1, 2000, 50,
                        "\"External id\": 7, \"Input Dims\": [\n  [\n 64,\n 32], [32,\n16\n ]\n ], \"Input type\": "
                        "[\n\"float\",\n  \"float\"]");
    sample_kineto_kernel(&sample, "sm90_xmma_gemm", 7, 2010, 2100, 10, "\"External id\": 7");
    sample_kineto_open(&sample, &run.list);
    const struct aorta_trace *trace = run.list.items[0];
    assert_int_equal(trace->work_count, 6);
    assert_int_equal(trace->work[5].shape, 0); /* a number a line: the same list */
    assert_string_equal(aorta_trace_text(trace, trace->shapes[0].dims), "[[64, 32], [32, 16]]");
    assert_int_equal(trace->shape_count, 2);
    assert_int_equal(trace->work[0].shape, 0);
    assert_int_equal(trace->work[1].shape, AORTA_TRACE_NONE);
    assert_int_equal(trace->work[2].shape, AORTA_TRACE_NONE);
    assert_int_equal(trace->work[3].shape, 0);
    assert_int_equal(trace->work[4].shape, 0);
    assert_true(fabs(aorta_trace_flops(trace, 0) - 2.0 * 64 * 32 * 16) < 1e-6);
    aorta_trace_list_free(&run.list);
}

/* ---- who was late ---- */

enum { MOST_WINDOWS = 64 };

/* Each collective of the analysis, as the alignment sees it (which `merge` prints) and as the verdict does. */
static size_t compare_lateness(const struct run *run) {
    struct aorta_rank_step steps[MOST_WINDOWS];
    size_t count = 0, compared = 0;
    struct aorta_arena memory = {0};
    for (size_t i = 0; i < run->analysis.rank_count; i++) {
        const struct aorta_trace_rank *rank = &run->analysis.ranks[i];
        for (size_t j = 0; j < rank->window_count; j++) {
            const struct aorta_trace_window *window = &rank->windows[j];
            if (!aorta_trace_window_counts(&run->analysis, window)) continue;
            assert_true(count < MOST_WINDOWS);
            steps[count++] = aorta_rank_step_make(
                &(struct aorta_iteration){.rank = rank->rank, .step = window->number, .profile = &window->profile},
                &memory);
        }
    }
    assert_true(aorta_pair_collectives(steps, count, &memory));
    check_ok(aorta_arena_check(&memory, "the steps"));
    for (size_t i = 0; i < count; i++) {
        const struct aorta_profile *profile = steps[i].iteration.profile;
        for (size_t j = 0; j < profile->range_count; j++) {
            const struct aorta_arrival *arrival = &steps[i].arrivals[j];
            if (profile->ranges[j].info.kind != AORTA_RANGE_COLLECTIVE || profile->ranges[j].sequence < 0) continue;
            const struct aorta_align_shared *shared = &run->analysis.alignment.shared[profile->ranges[j].sequence];
            if (!arrival->complete || !shared->cause_known) continue;
            int last = run->analysis.ranks[shared->last_rank].rank;
            assert_int_equal(arrival->late_rank < 0 ? steps[i].iteration.rank : arrival->late_rank, last);
            assert_int_equal(arrival->late_device, shared->device_late);
            compared++;
        }
    }
    aorta_arena_free(&memory);
    return compared;
}

static void merge_and_the_verdict_agree_on_who_was_late(void **state) {
    (void)state;
    struct run run = {0};
    check_ok(aorta_trace_open(RECORDED "/whole/fsdp2_rank0.json.gz", NULL, &run.list));
    check_ok(aorta_trace_open(RECORDED "/whole/fsdp2_rank1.json.gz", NULL, &run.list));
    analyze(&run);
    assert_true(compare_lateness(&run) > 100);
    end(&run);
}

/* ---- gradients of micro-batches ---- */

/* Steps of four micro-batches on one rank of two; the gradients of each, or of the last only, are reduced in two parts,
 * each beside nothing. `ahead`: the host launches far ahead of the device. */
static void micro_batches(struct run *run, bool each, bool marked, bool ahead) {
    struct sample_kineto sample;
    const char reduce[] = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
    sample_kineto_begin(&sample, 0, 2);
    for (int i = 0; i < 5; i++) {
        double at = 10000.0 * i + 100;
        double launch = ahead ? 100 + 800 * i : at;
        if (marked) step_mark(&sample, i, launch, ahead ? 799 : 9990);
        for (int j = 0; j < 4; j++, at += 2000, launch += ahead ? 150 : 2000) {
            const bool reduced = each || j == 3;
            for (int k = 0; k < 8; k++)
                sample_kineto_kernel(&sample, "sm90_xmma_gemm_forward", 7, launch + 10 * k, at + 20 + 50 * k, 49, "");
            sample_kineto_kernel(&sample, "sm90_xmma_gemm_backward", 7, launch + 100, at + 420, 80, "");
            if (reduced) sample_kineto_kernel(&sample, reduce, 20, launch + 110, at + 500, 300, "");
            sample_kineto_kernel(&sample, "sm90_xmma_gemm_backward", 7, launch + 120, at + 800, 80, "");
            if (j)
                sample_kineto_kernel(&sample, "void at::native::vectorized_elementwise_kernel", 7, launch + 125,
                                     at + 880, 5, "");
            if (reduced) sample_kineto_kernel(&sample, reduce, 20, launch + 130, at + 900, 800, "");
        }
        for (int k = 0; k < 6; k++)
            sample_kineto_kernel(&sample, "void at::native::multi_tensor_apply_kernel", 7, launch + 10 * k, at + 20 * k,
                                 15, "");
    }
    sample_kineto_open(&sample, &run->list);
    analyze(run);
}

static void gradients_reduced_for_each_micro_batch_are_seen(void **state) {
    (void)state;
    for (int each = 0; each < 2; each++) {
        struct run run = {0};
        struct aorta_verdict verdict;
        micro_batches(&run, each, true, false);
        said_make(&run.analysis, &verdict);
        const struct aorta_finding *exposed = said_finding(&verdict, AORTA_CAUSE_EXPOSED_COLLECTIVE);
        assert_int_equal(said_has(exposed, AORTA_FACT_REDUCED_AGAIN), each);
        if (each) said_near(said_value(exposed, AORTA_FACT_REDUCED_AGAIN), 4, 0);
        const char *advice = strstr(said_advice(exposed), "no_sync() around all but the last micro-batch");
        assert_int_equal(advice != NULL, each);
        const char *words =
            strstr(said_evidence(&verdict, exposed), "all gradients are reduced 4 times per step: once");
        assert_int_equal(words != NULL, each);
        aorta_verdict_free(&verdict);
        end(&run);
    }
}

/* ---- what reductions take the host ---- */

enum { LAUNCH_US = 20 };

static void launch_next(struct sample_kineto *sample, const char *name, int stream, double *at_us) {
    sample_kineto_kernel(sample, name, stream, *at_us, *at_us + 3, stream == 7 ? 4 : 12, "");
    *at_us += LAUNCH_US;
}

static void copy_next(struct sample_kineto *sample, const char *name, double *at_us) {
    char args[96];
    snprintf(args, sizeof args, "\"device\": 0, \"stream\": 7, \"correlation\": %u", ++sample->correlation);
    sample_kineto_event(sample, "cuda_runtime", "cudaMemcpyAsync", 1, *at_us, 2, args);
    sample_kineto_event(sample, "gpu_memcpy", name, 7, *at_us + 3, 2, args);
    *at_us += LAUNCH_US;
}

/* Five steps of a job of so many ranks, of which one is recorded, and the verdict; end_steps ends both. */
typedef void launch_step(struct sample_kineto *sample, double *at_us, const void *of);
static void make_steps(int ranks, launch_step *step, const void *of, struct run *run, struct aorta_verdict *verdict) {
    struct sample_kineto sample;
    double at = 100;
    *run = (struct run){0};
    sample_kineto_begin(&sample, 0, ranks);
    for (int i = 0; i < 5; i++) {
        const double begin = at;
        step(&sample, &at, of);
        step_mark(&sample, i, begin - 1, at - begin);
    }
    sample_kineto_open(&sample, &run->list);
    analyze(run);
    said_make(&run->analysis, verdict);
}

static void end_steps(struct run *run, struct aorta_verdict *verdict) {
    aorta_verdict_free(verdict);
    end(run);
}

static void launch_times(struct sample_kineto *sample, const char *name, int times, double *at_us) {
    for (int i = 0; i < times; i++) launch_next(sample, name, 7, at_us);
}

/* Two buckets of one backward pass that recomputes: as many kernels before the second as from step to step.
 *
 *     launched   8 forward | 2 backward  R  8 recomputed, backward  R | 8 forward …
 *
 * Only reductions of one size can be of the same gradients. */
static void launch_buckets(struct sample_kineto *sample, double *at_us, const void *of) {
    const int *elements = of;
    for (int bucket = 0; bucket < 2; bucket++) {
        char args[160] = "";
        launch_times(sample, bucket ? "sm90_xmma_gemm_recomputed" : "sm90_xmma_gemm_forward", 8, at_us);
        launch_times(sample, "sm90_xmma_gemm_backward", 2, at_us);
        if (elements[bucket])
            snprintf(args, sizeof args,
                     "\"Collective name\": \"allreduce\", \"In msg nelems\": %d, \"Out msg nelems\": %d, \"dtype\": "
                     "\"Float\", \"Group size\": 2",
                     elements[bucket], elements[bucket]);
        sample_kineto_kernel(sample, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 20,
                             *at_us, *at_us + 3, 100, args);
        *at_us += LAUNCH_US;
    }
    launch_times(sample, "void at::native::multi_tensor_apply_kernel", 2, at_us);
}

static void buckets_of_one_pass_are_reduced_once(void **state) {
    (void)state;
    static const struct {
        int elements[2];
        bool again;
    } rows[] = {{{1000, 3000}, false}, {{0, 0}, false}, {{3000, 3000}, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct run run;
        struct aorta_verdict verdict;
        make_steps(2, launch_buckets, rows[i].elements, &run, &verdict);
        const struct aorta_finding *exposed = said_finding(&verdict, AORTA_CAUSE_EXPOSED_COLLECTIVE);
        assert_int_equal(said_has(exposed, AORTA_FACT_REDUCED_AGAIN), rows[i].again);
        end_steps(&run, &verdict);
    }
}

static void launch_ddp(struct sample_kineto *sample, double *at_us) {
    for (int k = 0; k < 4; k++) {
        launch_next(sample, "sm90_xmma_gemm_backward", 7, at_us);
        launch_next(sample, "void at::native::vectorized_elementwise_kernel<4, AUnaryFunctor<MulFunctor> >", 7, at_us);
        if (k % 2 == 0) continue;
        launch_next(sample, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 20, at_us);
        *at_us += 30;
    }
    for (int k = 0; k < 4; k++) copy_next(sample, "Memcpy DtoD (Device -> Device)", at_us);
}

static void launch_fsdp2(struct sample_kineto *sample, double *at_us) {
    for (int k = 0; k < 2; k++) {
        for (int l = 0; l < 2; l++) launch_next(sample, "sm90_xmma_gemm_backward", 7, at_us);
        copy_next(sample, "Memcpy HtoD (Pinned -> Device)", at_us);
        launch_next(sample, "void at::native::detail::chunk_cat_cuda_kernel<float, c10::BFloat16>", 7, at_us);
        launch_next(sample, "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 20, at_us);
        *at_us += 30;
        for (int l = 0; l < 3; l++)
            launch_next(sample, "void at::native::vectorized_elementwise_kernel<4, CUDAFunctor_add<float> >", 20,
                        at_us);
    }
}

struct reducing {
    void (*launch)(struct sample_kineto *, double *);
    double launches; /* that serve the reductions of a micro-batch */
};

static void reduce_each(struct sample_kineto *sample, double *at_us, const void *of) {
    const struct reducing *reducing = of;
    for (int i = 0; i < 4; i++) {
        launch_times(sample, "sm90_xmma_gemm_forward", 8, at_us);
        reducing->launch(sample, at_us);
    }
    launch_times(sample, "void at::native::multi_tensor_apply_kernel", 6, at_us);
}

/* The host is the limit. DDP scales each of four gradients into a bucket, reduces two buckets and copies the gradients
 * back. FSDP2 copies arguments, fills a bucket, reduces and adds three shards, twice. The host takes 30 us longer after
 * it has launched a reduction. */
static void reducing_once_saves_what_serves_reductions(void **state) {
    (void)state;
    static const struct reducing rows[] = {{launch_ddp, 4 + 4 + 2}, {launch_fsdp2, 2 * (2 + 1 + 3)}};
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        struct run run;
        struct aorta_verdict verdict;
        make_steps(2, reduce_each, &rows[row], &run, &verdict);
        const struct aorta_finding *exposed = said_finding(&verdict, AORTA_CAUSE_EXPOSED_COLLECTIVE);
        const double saved_us = 3 * (rows[row].launches * LAUNCH_US + 2 * 30);
        said_near(said_value(exposed, AORTA_FACT_GAIN_OF_ONCE), saved_us / 1e3, 0.1);
        end_steps(&run, &verdict);
    }
}

/* Before each pass of a unit: two copies of shards on their own stream, the gather, arguments, the copy of the result.
 */
static void launch_gather(struct sample_kineto *sample, double *at_us) {
    for (int i = 0; i < 2; i++) launch_next(sample, "void at::native::multi_tensor_apply_kernel<Copy>", 15, at_us);
    launch_next(sample, "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 19, at_us);
    copy_next(sample, "Memcpy HtoD (Pinned -> Device)", at_us);
    launch_next(sample, "at::native::detail::split_with_sizes_copy_out_contiguous_no_cast_kernel", 7, at_us);
}

enum { UNITS = 2 };

static void gather_each(struct sample_kineto *sample, double *at_us, const void *of) {
    const int passes = 2 * *(const int *)of;
    for (int i = 0; i < passes * UNITS; i++) {
        launch_gather(sample, at_us);
        launch_times(sample, "sm90_xmma_gemm", 4, at_us);
        if (i >= (passes - 1) * UNITS) launch_next(sample, "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", 23, at_us);
    }
    launch_times(sample, "void at::native::multi_tensor_apply_kernel", 6, at_us);
}

/* Two units of FSDP2 are gathered for the forward and the backward pass of each micro-batch. One batch has two passes
 * anyway, and the finding says what the second gather costs. */
static void gathering_once_saves_what_serves_gathers(void **state) {
    (void)state;
    enum { MICROS = 4, EACH = 5 };
    for (int micros = 1; micros <= MICROS; micros += MICROS - 1) {
        struct run run;
        struct aorta_verdict verdict;
        make_steps(2, gather_each, &micros, &run, &verdict);
        const struct aorta_finding *exposed = aorta_verdict_find(&verdict, AORTA_CAUSE_EXPOSED_COLLECTIVE);
        assert_non_null(exposed);
        assert_true(said_has(exposed, AORTA_FACT_GATHERED_AGAIN) == (micros > 1));
        assert_true(said_has(exposed, AORTA_FACT_GAIN_OF_STAYING) == (micros == 1));
        if (micros == 1)
            said_near(said_value(exposed, AORTA_FACT_GAIN_OF_STAYING), UNITS * EACH * LAUNCH_US / 1e3, 0.1);
        if (micros > 1) {
            said_near(said_value(exposed, AORTA_FACT_GATHERED_AGAIN), 2 * MICROS, 0);
            said_near(exposed->gain_ms, UNITS * (2 * MICROS - 1) * EACH * LAUNCH_US / 1e3, 0.1);
            assert_non_null(strstr(said_advice(exposed), "reshard_after_forward=False"));
        }
        end_steps(&run, &verdict);
    }
}

enum { GROUPS = 30 };

static void update_groups(struct sample_kineto *sample, double *at_us, const void *of) {
    enum { EACH = 5 };
    static const char *const adam[EACH] = {"LerpFunctor", "PointwiseOpScalarFunctor, multiplies", "Sqrt", "plus",
                                           "PointwiseOpScalarListFunctor, divides"};
    launch_times(sample, "sm90_xmma_gemm", 20, at_us);
    for (int i = 0; i < GROUPS * EACH; i++) {
        char name[128];
        snprintf(name, sizeof name, "void at::native::multi_tensor_apply_kernel<%s>",
                 adam[*(const int *)of == 1 ? i / GROUPS : i % EACH]);
        launch_next(sample, name, 7, at_us);
    }
}

/* Adam over lists of tensors, in one group of parameters or one for each of thirty. */
static void groups_of_parameters_are_counted(void **state) {
    (void)state;
    for (int groups = 1; groups <= GROUPS; groups += GROUPS - 1) {
        struct run run;
        struct aorta_verdict verdict;
        make_steps(1, update_groups, &groups, &run, &verdict);
        const struct aorta_finding *found = said_finding(&verdict, AORTA_CAUSE_OPTIMIZER);
        assert_int_equal(said_has(found, AORTA_FACT_PARAMETER_GROUPS), groups > 1);
        assert_int_equal(strstr(said_advice(found), "one group for all parameters") != NULL, groups > 1);
        if (groups > 1) said_near(said_value(found, AORTA_FACT_PARAMETER_GROUPS), groups, 0);
        end_steps(&run, &verdict);
    }
}

enum { TENSORS = 40 };

struct listed {
    const char *collective, *between;
    int stream, forward;
    bool joins;
    int elements; /* of fp32 in each; 0: not recorded */
};

static void launch_list(struct sample_kineto *sample, double *at_us, const void *of) {
    const struct listed *listed = of;
    launch_times(sample, "at::native::gemm_forward", listed->forward, at_us);
    char facts[128] = "";
    if (listed->elements)
        snprintf(facts, sizeof facts,
                 "\"Collective name\": \"allreduce\", \"In msg nelems\": %d, \"dtype\": \"Float\", \"Group size\": 1",
                 listed->elements);
    for (int i = 0; i < TENSORS; i++) {
        sample_kineto_kernel(sample, listed->collective, listed->stream, *at_us, *at_us + 3,
                             listed->stream == 7 ? 4 : 12, facts);
        *at_us += LAUNCH_US;
        launch_next(sample, listed->between, 7, at_us);
    }
}

/* Forty small collectives of 12 us, which the host launches all 20 us with a kernel between: 32 can be one, and the
 * remaining eight another. Their bytes need less time than they take, if they are recorded.
 *
 *   a list            forward | B div B div B div …          gradients       forward | B wgrad B wgrad …
 *   needed at once    forward | B gemm B gemm …              activations     B gemm B gemm … from the start
 *   batch norms       forward | B wgrad … on the compute stream, where a list joins, too */
static void small_collectives_are_joined(void **state) {
    (void)state;
    enum { GONE = TENSORS - 2 };
    static const char broadcast[] = "ncclDevKernel_Broadcast_RING_LL",
                      reduce[] = "ncclDevKernel_AllReduce_Sum_f32_RING_LL", gemm[] = "at::native::gemm_forward",
                      wgrad[] = "at::native::gemm_backward", divide[] = "void at::native::elementwise_kernel<div>";
    static const struct listed rows[] = {{broadcast, divide, 20, 30, true, 0}, {broadcast, gemm, 20, 30, false, 0},
                                         {reduce, wgrad, 20, 30, true, 0},     {reduce, divide, 7, 30, true, 0},
                                         {reduce, wgrad, 20, 0, false, 0},     {reduce, wgrad, 7, 30, false, 0},
                                         {reduce, wgrad, 20, 30, true, 1000}};
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        struct run run;
        struct aorta_verdict verdict;
        make_steps(1, launch_list, &rows[row], &run, &verdict);
        const struct aorta_finding *exposed = aorta_verdict_find(&verdict, AORTA_CAUSE_EXPOSED_COLLECTIVE);
        assert_true((exposed && said_has(exposed, AORTA_FACT_GAIN_OF_ONE)) == rows[row].joins);
        if (rows[row].joins) {
            assert_non_null(strstr(said_advice(exposed), "one flat tensor for many"));
            const int lasts_us = rows[row].stream == 7 ? 4 : 12;
            const int moves_us = rows[row].elements ? 4 * rows[row].elements / 1000 : lasts_us;
            said_near(said_value(exposed, AORTA_FACT_GAIN_OF_ONE), GONE * (LAUNCH_US - moves_us) / 1e3, 0.03);
        }
        end_steps(&run, &verdict);
    }
}

enum { BUFFERS = 2, SENT_US = 400, COMPUTED_US = 600 };

/* Both are launched at once; what follows a broadcast begins when it has ended. */
static void broadcast_buffers(struct sample_kineto *sample, double *at_us, const void *of) {
    double begin = *at_us + 3;
    (void)of;
    for (int i = 0; i < BUFFERS; i++) {
        sample_kineto_kernel(sample, "ncclDevKernel_Broadcast_RING_LL", 20, *at_us + 2 * i, begin, SENT_US, "");
        sample_kineto_kernel(sample, "at::native::gemm_forward", 7, *at_us + 2 * i + 1, begin + SENT_US + 1,
                             COMPUTED_US, "");
        begin += SENT_US + COMPUTED_US + 2;
    }
    *at_us = begin;
}

/* Buffers that DDP sends before the forward pass: at best they are constant, and none of it is needed. */
static void broadcasts_of_each_step_can_go(void **state) {
    (void)state;
    struct run run;
    struct aorta_verdict verdict;
    make_steps(1, broadcast_buffers, NULL, &run, &verdict);
    const struct aorta_finding *exposed = said_finding(&verdict, AORTA_CAUSE_EXPOSED_COLLECTIVE);
    said_near(exposed->at_best_ms, 3.0 / 4 * BUFFERS * SENT_US / 1e3,
              0.03); /* the host launches one of four steps late */
    assert_non_null(strstr(said_advice(exposed), "broadcast_buffers=False"));
    end_steps(&run, &verdict);
}

/* Twelve cells a step, each launched after the one before has ended; or other kernels. */
static void check_cells(const char *kernel, bool expected) {
    struct run run = {0};
    struct sample_kineto sample;
    struct aorta_verdict verdict;
    sample_kineto_begin(&sample, 0, 1);
    for (int i = 0; i < 5; i++) {
        const double at = 1000 + 1000.0 * i;
        step_mark(&sample, i, at, 995);
        for (int j = 0; j < 12; j++) sample_kineto_kernel(&sample, kernel, 7, at + 80 * j, at + 80 * j + 10, 5, "");
    }
    sample_kineto_open(&sample, &run.list);
    analyze(&run);
    said_make(&run.analysis, &verdict);
    const struct aorta_finding *launches = said_finding(&verdict, AORTA_CAUSE_HOST_LAUNCH);
    assert_int_equal(said_has(launches, AORTA_FACT_RNN_CELLS), expected);
    assert_int_equal(strstr(said_advice(launches), "nn.LSTM or nn.GRU") != NULL, expected);
    aorta_verdict_free(&verdict);
    end(&run);
}

static void cells_of_recurrent_networks_are_seen(void **state) {
    (void)state;
    check_cells("void at::native::(anonymous namespace)::kernel::lstm_cell_forward<float, float, int, 1>", true);
    check_cells("void at::native::vectorized_elementwise_kernel", false);
}

/* DataParallel: one process launches the kernels of two devices in turn, and broadcasts parameters; or it only computes
 * on both. */
static void a_process_for_each_device_is_advised(void **state) {
    (void)state;
    for (int exchanges = 0; exchanges < 2; exchanges++) {
        struct run run = {0};
        struct sample_kineto sample;
        struct aorta_verdict verdict;
        sample_kineto_begin(&sample, -1, 1);
        for (int i = 0; i < 5 * 12; i++) {
            const double at = 1000 + 80.0 * i;
            const bool broadcasts = exchanges && i % 12 < 2;
            char args[64];
            if (i % 12 == 0) step_mark(&sample, i / 12, at, 955);
            snprintf(args, sizeof args, "\"correlation\": %d", i + 1);
            sample_kineto_event(&sample, "cuda_runtime", "cudaLaunchKernel", 1, at, 2, args);
            snprintf(args, sizeof args, "\"device\": %d, \"stream\": 7, \"correlation\": %d", i % 2, i + 1);
            sample_kineto_event(&sample, "kernel",
                                broadcasts ? "ncclDevKernel_Broadcast_RING_LL" : "at::native::elementwise_kernel", 7,
                                at + 10, 5, args);
        }
        sample_kineto_open(&sample, &run.list);
        analyze(&run);
        said_make(&run.analysis, &verdict);
        assert_int_equal(run.analysis.rank_count, 2);
        const struct aorta_finding *launches = said_finding(&verdict, AORTA_CAUSE_HOST_LAUNCH);
        assert_int_equal(strstr(said_advice(launches), "DDP") != NULL, exchanges);
        aorta_verdict_free(&verdict);
        end(&run);
    }
}

/* Three of four times two reductions of 300 and 800 us. */
static void reducing_once_has_a_gain(void **state) {
    (void)state;
    struct run run = {0};
    struct aorta_verdict verdict;
    micro_batches(&run, true, true, true);
    said_make(&run.analysis, &verdict);
    const struct aorta_finding *exposed = said_finding(&verdict, AORTA_CAUSE_EXPOSED_COLLECTIVE);
    said_near(said_value(exposed, AORTA_FACT_GAIN_OF_ONCE), 3.3, 0.2);
    said_near(exposed->gain_ms, 3.3, 0.2);
    aorta_verdict_free(&verdict);
    end(&run);
}

/* ---- late launches ---- */

/* A kernel each 100 us; before one whose launch is not recorded the device is idle for 1 or 90 us in each step: the
 * first is not worth words. How short the work is says nothing of collectives, which wait for other ranks. */
static void late_launches_are_counted_with_the_work_they_launch(void **state) {
    (void)state;
    for (int much = 0; much < 2; much++) {
        struct sample_kineto sample;
        struct run run = {0};
        struct aorta_verdict verdict;
        sample_kineto_begin(&sample, 0, 2);
        for (int i = 0; i < 5; i++) {
            const double at = 2000.0 * i + 100;
            step_mark(&sample, i, at, 1990);
            for (int j = 0; j < 15; j++)
                sample_kineto_kernel(&sample, "relu", 7, at + 100 * j, at + 100 * j + 5, 10, "");
            sample_kineto_event(&sample, "kernel", "relu", 0, at + 1415 + (much ? 90 : 1), 10,
                                "\"device\": 0, \"stream\": 7, \"correlation\": 999999");
            sample_kineto_kernel(&sample, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 20, at + 1600, at + 1610, 300, "");
        }
        sample_kineto_open(&sample, &run.list);
        analyze(&run);
        said_make(&run.analysis, &verdict);
        const struct aorta_finding *launches = said_finding(&verdict, AORTA_CAUSE_HOST_LAUNCH);
        assert_int_equal(said_has(launches, AORTA_FACT_IDLE_UNKNOWN), much);
        if (much) said_near(said_value(launches, AORTA_FACT_IDLE_UNKNOWN), 0.09, 0.01);
        said_near(said_value(launches, AORTA_FACT_LAUNCHES), 16, 1e-9);
        said_near(said_value(launches, AORTA_FACT_LAUNCH_WORK), 10, 1e-9);
        aorta_verdict_free(&verdict);
        end(&run);
    }
}

/* ---- sends ---- */

/* NCCL's kernel is the same for both; the file may say which it was. */
static void sends_are_no_all_to_all(void **state) {
    static const char *const begin[] = {"sends and receives run", "all_to_all runs"};
    (void)state;
    for (int named = 0; named < 2; named++) {
        struct sample_kineto sample;
        struct run run = {0};
        struct aorta_verdict verdict;
        sample_kineto_begin(&sample, 0, 2);
        for (int i = 0; i < 5; i++) {
            const double at = 2000.0 * i + 100;
            step_mark(&sample, i, at, 1990);
            sample_kineto_kernel(&sample, "sm90_xmma_gemm", 7, at + 10, at + 20, 900, "");
            sample_kineto_kernel(
                &sample, "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", 20, at + 30, at + 930, 900,
                named ? "\"Collective name\": \"all_to_allv\", \"In msg nelems\": 4, \"Group size\": 2" : "");
        }
        sample_kineto_open(&sample, &run.list);
        analyze(&run);
        said_make(&run.analysis, &verdict);
        const struct aorta_finding *exposed = said_finding(&verdict, AORTA_CAUSE_EXPOSED_COLLECTIVE);
        said_near(said_value(exposed, AORTA_FACT_EXPOSED), 0.9, 1e-9);
        assert_int_equal(said_has(exposed, AORTA_FACT_SENDS), !named);
        const char *evidence = said_evidence(&verdict, exposed);
        assert_ptr_equal(strstr(evidence, begin[named]), evidence);
        struct aorta_text text = {0};
        aorta_trace_report_text(&(struct aorta_trace_report){.analysis = &run.analysis, .verdict = &verdict}, NULL,
                                &text);
        check_ok(aorta_text_check(&text));
        assert_int_equal(strstr(text.data, "  sends and receives\n") != NULL, !named); /* the table */
        assert_int_equal(strstr(text.data, "  all_to_all\n") != NULL, named);
        aorta_text_free(&text);
        aorta_verdict_free(&verdict);
        end(&run);
    }
}

/* ---- launches that block the host ---- */

/* A second kernel is launched by a call of 5 ms, and a third by the next call; in us:
 *
 *     host    [a]  [ launch of `second`          5000][c]
 *     device    [a 100]                               [100][c 100]        ends as the kernel begins: blocked
 *             or  [a 100][ 4000 ]                          [c 100]        the kernel runs within the call: it is not */
static void block_in(struct run *run, const char *second, double begins_us, double lasts_us) {
    struct sample_kineto sample;
    sample_kineto_begin(&sample, 0, 1);
    sample_kineto_kernel(&sample, "first", 7, 0, 10, 100, "");
    sample_kineto_event(&sample, "cuda_runtime", "cudaLaunchKernel", 1, 200, 5000, "\"correlation\":900");
    sample_kineto_event(&sample, "kernel", second, 7, begins_us, lasts_us,
                        "\"device\":0,\"stream\":7,\"correlation\":900");
    sample_kineto_kernel(&sample, "third", 7, 5210, 5400, 100, "");
    *run = (struct run){0};
    sample_kineto_open(&sample, &run->list);
    analyze(run);
}

static void a_launch_that_blocks_the_host_is_a_stall(void **state) {
    (void)state;
    for (int again = 0; again < 2; again++) {
        struct run run;
        struct aorta_verdict verdict;
        block_in(&run, again ? "first" : "second", 5203, 100);
        assert_int_equal(run.analysis.ranks[0].idle.ns[AORTA_IDLE_HOST_LAUNCH], (5200 - 110) * 1000);
        assert_int_equal(run.analysis.ranks[0].idle.ns[AORTA_IDLE_LAUNCH_LATENCY], (3 + 97) * 1000);
        said_make(&run.analysis, &verdict);
        const struct aorta_finding *stall = said_finding(&verdict, AORTA_CAUSE_HOST_PAUSE);
        said_near(said_value(stall, AORTA_FACT_PAUSE), 4.9, 0.11);
        assert_string_equal(said_place(stall, AORTA_FACT_PAUSE), again ? "first" : "second");
        assert_string_equal(said_fact(stall, AORTA_FACT_PAUSE)->place.host, "cudaLaunchKernel");
        assert_true(stall->gain_ms > 4.8);
        assert_int_equal(said_has(stall, AORTA_FACT_PAUSE_LOAD), !again);
        assert_int_equal(strstr(said_advice(stall), "warm-up") != NULL, !again);
        aorta_verdict_free(&verdict);
        end(&run);
    }
}

/* The kernel begins 600 us before the call of 5 ms ends, or 150 us after it. A kernel that has run before is not
 * loaded. */
static void the_launch_that_loads_a_kernel_is_a_stall(void **state) {
    (void)state;
    static const struct {
        const char *kernel;
        double begins_us, stall_ms;
    } rows[] = {{"second", 4600, 4.2}, {"second", 5350, 4.9}, {"first", 5350, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct run run;
        struct aorta_verdict verdict;
        block_in(&run, rows[i].kernel, rows[i].begins_us, 100);
        said_make(&run.analysis, &verdict);
        const struct aorta_finding *stall = aorta_verdict_find(&verdict, AORTA_CAUSE_HOST_PAUSE);
        assert_int_equal(stall != NULL, rows[i].stall_ms > 0);
        if (stall) {
            said_near(said_value(stall, AORTA_FACT_PAUSE), rows[i].stall_ms, 0.3);
            assert_true(said_has(stall, AORTA_FACT_PAUSE_LOAD));
            const struct aorta_finding *launches = said_finding(&verdict, AORTA_CAUSE_HOST_LAUNCH);
            said_near(said_value(launches, AORTA_FACT_IDLE_STALLED), rows[i].stall_ms, 0.4);
            const struct aorta_fact *gap = aorta_facts_find(&launches->facts, AORTA_FACT_GAP);
            assert_true(!gap || gap->value < 1); /* the longest one is the stall */
        }
        aorta_verdict_free(&verdict);
        end(&run);
    }
}

/* Loading counts by its share of the recording: 300 us of 720, in us:
 *
 *     host    [a][ launch of `second`  300][c]        a kernel that has run before is not loaded
 *     device   [a 100]                     [second 100][c 100] */
static void a_short_load_of_a_short_recording_is_a_stall(void **state) {
    (void)state;
    for (int again = 0; again < 2; again++) {
        struct run run = {0};
        struct aorta_verdict verdict;
        struct sample_kineto sample;
        sample_kineto_begin(&sample, 0, 1);
        sample_kineto_kernel(&sample, "first", 7, 0, 10, 100, "");
        sample_kineto_event(&sample, "cuda_runtime", "cudaLaunchKernel", 1, 200, 300, "\"correlation\":900");
        sample_kineto_event(&sample, "kernel", again ? "first" : "second", 7, 503, 100,
                            "\"device\":0,\"stream\":7,\"correlation\":900");
        sample_kineto_kernel(&sample, "third", 7, 510, 620, 100, "");
        sample_kineto_open(&sample, &run.list);
        analyze(&run);
        said_make(&run.analysis, &verdict);
        const struct aorta_finding *stall = aorta_verdict_find(&verdict, AORTA_CAUSE_HOST_PAUSE);
        assert_int_equal(stall != NULL, !again);
        if (stall) assert_true(stall->gain_ms > 0.15 && said_has(stall, AORTA_FACT_PAUSE_LOAD));
        aorta_verdict_free(&verdict);
        end(&run);
    }
}

/* The host compiles a kernel for 6 ms within an operation, and then launches it; the last time it has it, in us:
 *
 *     operation        [ attention                                      ]
 *     host    [first]      .......... 6000 ..........[launch of triton_]
 *     device     [first 100]                               [triton_ 100] */
static void a_stall_before_a_generated_kernel_compiles_it(void **state) {
    (void)state;
    static const struct {
        const char *first, *kernel;
        bool compiled;
        double again_us;
    } rows[] = {{"first", "triton_softmax", true, 0},
                {"triton_softmax", "triton_softmax", false, 0}, /* it has run before */
                {"first", "softmax_fused_triton", false, 0},    /* of a program's own */
                {"first", "triton_softmax", false, 4000},       /* the host does the same before its next launch */
                {"first", "triton_softmax", true, 1000}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct run run = {0};
        struct aorta_verdict verdict;
        struct sample_kineto sample;
        sample_kineto_begin(&sample, 0, 1);
        sample_kineto_kernel(&sample, rows[i].first, 7, 0, 10, 100, "");
        sample_kineto_event(&sample, "cpu_op", "attention", 1, 50, 6200, "");
        sample_kineto_kernel(&sample, rows[i].kernel, 7, 6100, 6110, 100, "");
        sample_kineto_kernel(&sample, "third", 7, 6120, 6220, 100, "");
        if (rows[i].again_us > 0)
            sample_kineto_kernel(&sample, rows[i].kernel, 7, 6120 + rows[i].again_us, 6130 + rows[i].again_us, 100, "");
        sample_kineto_open(&sample, &run.list);
        analyze(&run);
        said_make(&run.analysis, &verdict);
        const struct aorta_finding *stall = said_finding(&verdict, AORTA_CAUSE_HOST_PAUSE);
        assert_int_equal(said_has(stall, AORTA_FACT_PAUSE_COMPILED), rows[i].compiled);
        assert_int_equal(strstr(said_advice(stall), "compiled once") != NULL, rows[i].compiled);
        assert_string_equal(said_fact(stall, AORTA_FACT_PAUSE)->place.host, "attention");
        aorta_verdict_free(&verdict);
        end(&run);
    }
}

/* A call that neither launches nor waits fills most of a stall, in us:
 *
 *     host    [first]    [ cuLibraryLoadData 5000 ]  [launch of second]
 *     device     [first 100]                            [second 100] */
static void a_stall_names_the_call_that_it_is(void **state) {
    (void)state;
    static const struct {
        const char *kernel, *call;
        double length_us;
        bool named, loads;
    } rows[] = {{"second", "cuLibraryLoadData", 5000, true, true},
                {"second", "cuModuleLoadDataEx", 5000, true, true},
                {"first", "cuLibraryLoadData", 5000, true, false}, /* it has run before */
                {"second", "cudaGraphInstantiate", 5000, true, false},
                {"second", "cuLibraryLoadData", 1000, false, false}}; /* a part of the stall */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct run run = {0};
        struct aorta_verdict verdict;
        struct sample_kineto sample;
        sample_kineto_begin(&sample, 0, 1);
        sample_kineto_kernel(&sample, "first", 7, 0, 10, 100, "");
        sample_kineto_event(&sample, "cuda_driver", rows[i].call, 1, 100, rows[i].length_us, "");
        sample_kineto_kernel(&sample, rows[i].kernel, 7, 6100, 6110, 100, "");
        sample_kineto_kernel(&sample, "third", 7, 6120, 6220, 100, "");
        sample_kineto_open(&sample, &run.list);
        analyze(&run);
        said_make(&run.analysis, &verdict);
        const struct aorta_finding *stall = said_finding(&verdict, AORTA_CAUSE_HOST_PAUSE);
        const char *host = said_fact(stall, AORTA_FACT_PAUSE)->place.host;
        assert_string_equal(host ? host : "", rows[i].named ? rows[i].call : "");
        assert_int_equal(said_has(stall, AORTA_FACT_PAUSE_LOAD), rows[i].loads);
        assert_int_equal(strstr(said_advice(stall), "warm-up") != NULL, rows[i].loads);
        assert_int_equal(strstr(said_advice(stall), "instantiate the graph once") != NULL,
                         strcmp(rows[i].call, "cudaGraphInstantiate") == 0);
        aorta_verdict_free(&verdict);
        end(&run);
    }
}

/* As with CUDA_LAUNCH_BLOCKING=1. */
static void a_launch_that_waits_for_its_kernel_is_none(void **state) {
    (void)state;
    struct run run;
    struct aorta_verdict verdict;
    block_in(&run, "second", 210, 4000);
    assert_int_equal(run.analysis.ranks[0].idle.ns[AORTA_IDLE_HOST_LAUNCH], (90 + 1000) * 1000);
    said_make(&run.analysis, &verdict);
    const struct aorta_finding *stall = said_finding(&verdict, AORTA_CAUSE_HOST_PAUSE);
    assert_true(!stall || !said_has(stall, AORTA_FACT_PAUSE_LOAD));
    aorta_verdict_free(&verdict);
    end(&run);
}

/* The host allocates, then records nothing; the device's first work, without a launch, comes meanwhile. In us:
 *
 *     host    [malloc 10]                                       [launch 10000]
 *     device                       [copy 6000, 100]                           [gemm 1000] */
static void a_stall_is_no_longer_than_the_recording(void **state) {
    (void)state;
    struct sample_kineto sample;
    struct run run = {0};
    struct aorta_verdict verdict;
    sample_kineto_begin(&sample, 0, 1);
    sample_kineto_event(&sample, "cuda_runtime", "cudaMalloc", 1, 0, 10, "\"correlation\":800");
    sample_kineto_event(&sample, "gpu_memcpy", "Memcpy HtoD (Unified memory)", 7, 6000, 100,
                        "\"device\":0,\"stream\":7");
    sample_kineto_kernel(&sample, "gemm", 7, 10000, 10010, 1000, "");
    sample_kineto_open(&sample, &run.list);
    analyze(&run);
    said_make(&run.analysis, &verdict);
    said_near(said_value(said_finding(&verdict, AORTA_CAUSE_HOST_PAUSE), AORTA_FACT_PAUSE), 4, 0.01);
    aorta_verdict_free(&verdict);
    end(&run);
}

/* ---- few blocks ---- */

/* A kernel with its number of thread blocks, and of the threads of each. */
static void launch_grid(struct sample_kineto *sample, const char *name, int stream, int blocks, int threads,
                        double launch_us, double length_us) {
    char grid[64];
    snprintf(grid, sizeof grid, "\"grid\": [%d, 1, 1], \"block\": [%d, 1, 1]", blocks, threads);
    sample_kineto_kernel(sample, name, stream, launch_us, launch_us + 5, length_us, grid);
}

static void launch_blocks(struct sample_kineto *sample, const char *name, int stream, int blocks, double launch_us,
                          double length_us) {
    launch_grid(sample, name, stream, blocks, 128, launch_us, length_us);
}

/* One kernel of 9 ms and one of 1 ms on a device of 132 multiprocessors. */
static const struct narrow {
    int blocks, threads, streams;
    double left; /* of the 9 ms, at best; 1: no finding */
} narrow_rows[] = {
    {1, 128, 1, 1.0 / 132}, {1, 128, 2, 2.0 / 132}, /* two of them run beside each other for these 9 ms */
    {100, 128, 1, 1},                               /* most multiprocessors work */
    {4000, 16, 1, 0.25},                            /* half of the lanes of a warp, and half of the warps */
    {4000, 64, 1, 1},       {66, 16, 1, 0.0625},    {1, 32, 1, 1.0 / 132 / 4}, /* one of four warps */
};

static void launch_narrow(struct sample_kineto *sample, double *at_us, const void *of) {
    const struct narrow *row = of;
    for (int i = 0; i < row->streams; i++) launch_grid(sample, "add", 8 + i, row->blocks, row->threads, *at_us, 9000);
    launch_blocks(sample, "wide", 7, 4000, *at_us + 9000, 990);
    *at_us += 10000;
}

static void kernels_of_few_threads_leave_the_device_idle(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof narrow_rows / sizeof *narrow_rows; i++) {
        const struct narrow *row = &narrow_rows[i];
        struct run run;
        struct aorta_verdict verdict;
        make_steps(1, launch_narrow, row, &run, &verdict);
        const struct aorta_finding *few = aorta_verdict_find(&verdict, AORTA_CAUSE_FEW_BLOCKS);
        assert_int_equal(few != NULL, row->left < 1);
        if (few) {
            said_near(few->at_best_ms, 9 * (1 - row->left), 0.05);
            said_near(said_value(few, AORTA_FACT_FEW_BLOCKS), 9, 0.05);
            said_expect(said_evidence(&verdict, few),
                        row->threads < 32 ? "in blocks of 16 threads: a warp has 32" : "add, 1 block");
            said_expect(said_advice(few),
                        row->threads < 32 ? "blocks of 128 to 256 threads" : "several blocks per multiprocessor");
        }
        end_steps(&run, &verdict);
    }
}

/* Kernels of 30 blocks on two streams. A kernel on the default stream (7) follows each, so that they take turns:
 *
 *     stream 8    [ 1 ms ]                               or its count runs on the kernel's stream, and the other stream
 *     stream 9                  [ 1 ms ]                 has other reasons to wait
 *     stream 7             [count]         [count] */
static void launch_in_turns(struct sample_kineto *sample, double *at_us, const void *of) {
    for (int i = 0; i < 6; i++, *at_us += 1100) {
        const int stream = 8 + i % 2;
        launch_blocks(sample, "blur", stream, 30, *at_us, 1000);
        launch_blocks(sample, "count", *(const bool *)of ? 7 : stream, 1, *at_us + 1001, 10);
    }
}

static void the_default_stream_makes_streams_take_turns(void **state) {
    (void)state;
    for (int turns = 0; turns < 2; turns++) {
        const bool default_stream = turns;
        struct run run;
        struct aorta_verdict verdict;
        make_steps(1, launch_in_turns, &default_stream, &run, &verdict);
        const struct aorta_finding *few = said_finding(&verdict, AORTA_CAUSE_FEW_BLOCKS);
        assert_int_equal(said_has(few, AORTA_FACT_TAKE_TURNS), turns);
        said_expect(said_advice(few), turns ? "launch nothing on the default stream" : "several blocks");
        end_steps(&run, &verdict);
    }
}

/* Loading a kernel takes 80 of 100 ms: a kernel of one block that takes 3 ms is much of what remains. In us:
 *
 *     host    [a][ launch of `second` 80000 ][c]
 *     device   [a]                          [second][c 3000, 1 block] */
static void few_blocks_are_much_of_what_loading_leaves(void **state) {
    (void)state;
    for (int again = 0; again < 2; again++) {
        struct sample_kineto sample;
        struct run run = {0};
        struct aorta_verdict verdict;
        sample_kineto_begin(&sample, 0, 1);
        launch_blocks(&sample, "first", 7, 4000, 0, 10000);
        sample_kineto_event(&sample, "cuda_runtime", "cudaLaunchKernel", 1, 200, 80000, "\"correlation\":900");
        sample_kineto_event(&sample, "kernel", again ? "first" : "second", 7, 80203, 10000,
                            "\"device\":0,\"stream\":7,\"correlation\":900");
        launch_blocks(&sample, "third", 7, 1, 90300, 3000);
        sample_kineto_open(&sample, &run.list);
        analyze(&run);
        said_make(&run.analysis, &verdict);
        assert_int_equal(aorta_verdict_find(&verdict, AORTA_CAUSE_FEW_BLOCKS) != NULL, !again);
        aorta_verdict_free(&verdict);
        end(&run);
    }
}

/* Four kernels of 1 ms on four streams; the host waits for each, and 300 us pass until the next.
 *
 *     stream 7    kernel
 *     stream 8             kernel             …      5.2 ms a step
 *
 * Kernels that fill the device cannot run beside each other without the waits. */
static void launch_and_wait(struct sample_kineto *sample, double *at_us, const void *of) {
    for (int i = 0; i < 4; i++, *at_us += 1300) {
        launch_blocks(sample, "stencil", 7 + i, *(const int *)of, *at_us, 1000);
        sample_kineto_event(sample, "cuda_runtime", "cudaDeviceSynchronize", 1, *at_us + 3, 1005, "");
    }
}

static void kernels_that_fill_the_device_run_one_by_one(void **state) {
    (void)state;
    static const int blocks[] = {132, 4000};
    for (int fills = 0; fills < 2; fills++) {
        struct run run;
        struct aorta_verdict verdict;
        make_steps(1, launch_and_wait, &blocks[fills], &run, &verdict);
        assert_true(fills ? verdict.replay.floor_ms > 3.9 : verdict.replay.floor_ms < 2.5);
        end_steps(&run, &verdict);
    }
}

/* The same kernels of one block: blocks for all multiprocessors, or no waits between kernels, save the same 4 ms. */
static void bounds_of_the_same_time_do_not_add_up(void **state) {
    (void)state;
    static const int one = 1;
    struct run run;
    struct aorta_verdict verdict;
    make_steps(1, launch_and_wait, &one, &run, &verdict);
    const struct aorta_finding *few = aorta_verdict_find(&verdict, AORTA_CAUSE_FEW_BLOCKS);
    assert_non_null(few);
    assert_true(few->at_best_ms > 3.5);
    assert_true(verdict.replay.floor_ms > 0.5 && verdict.replay.floor_ms <= 5.2 - few->at_best_ms);
    end_steps(&run, &verdict);
}

/* ---- notes ---- */

/* Two ranks with work without a launch, of two files or merged in one. */
static void a_merged_file_is_one_file(void **state) {
    (void)state;
    for (int merged = 0; merged < 2; merged++) {
        struct run run = {0};
        struct aorta_text text = {0};
        for (int rank = 0; rank < 2; rank++) {
            struct sample_kineto sample;
            sample_kineto_begin(&sample, rank, 2);
            sample_kineto_event(&sample, "kernel", "gemm", 0, 10, 10, "\"device\":0,\"stream\":7,\"correlation\":1");
            sample_kineto_open(&sample, &run.list);
        }
        if (merged) {
            free(run.list.items[1]->path);
            run.list.items[1]->path = strdup(run.list.items[0]->path);
        }
        analyze(&run);
        print(&run, &text);
        said_expect(text.data, "2 × device work without a recorded launch (");
        assert_null(strstr(text.data, ", byte ")); /* which nobody can look up */
        assert_int_equal(strstr(text.data, "and 1 more file") == NULL, merged);
        aorta_text_free(&text);
        end(&run);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_are_named_by_what_made_them),
        cmocka_unit_test(waits_beyond_the_devices_time_do_not_count),
        cmocka_unit_test(selections_by_masks_are_named),
        cmocka_unit_test(searches_of_convolutions_are_named),
        cmocka_unit_test(items_are_values),
        cmocka_unit_test(a_place_is_one_row_of_one_line),
        cmocka_unit_test(short_waits_are_not_printed),
        cmocka_unit_test(collectives_are_counted_by_size),
        cmocka_unit_test(kernels_of_one_rank_are_named),
        cmocka_unit_test(noise_is_no_difference),
        cmocka_unit_test(launches_within_an_operation_have_its_shape),
        cmocka_unit_test(merge_and_the_verdict_agree_on_who_was_late),
        cmocka_unit_test(gradients_reduced_for_each_micro_batch_are_seen),
        cmocka_unit_test(buckets_of_one_pass_are_reduced_once),
        cmocka_unit_test(reducing_once_saves_what_serves_reductions),
        cmocka_unit_test(reducing_once_has_a_gain),
        cmocka_unit_test(gathering_once_saves_what_serves_gathers),
        cmocka_unit_test(groups_of_parameters_are_counted),
        cmocka_unit_test(small_collectives_are_joined),
        cmocka_unit_test(broadcasts_of_each_step_can_go),
        cmocka_unit_test(cells_of_recurrent_networks_are_seen),
        cmocka_unit_test(a_process_for_each_device_is_advised),
        cmocka_unit_test(late_launches_are_counted_with_the_work_they_launch),
        cmocka_unit_test(sends_are_no_all_to_all),
        cmocka_unit_test(a_launch_that_blocks_the_host_is_a_stall),
        cmocka_unit_test(the_launch_that_loads_a_kernel_is_a_stall),
        cmocka_unit_test(a_stall_before_a_generated_kernel_compiles_it),
        cmocka_unit_test(a_stall_names_the_call_that_it_is),
        cmocka_unit_test(a_short_load_of_a_short_recording_is_a_stall),
        cmocka_unit_test(a_launch_that_waits_for_its_kernel_is_none),
        cmocka_unit_test(a_stall_is_no_longer_than_the_recording),
        cmocka_unit_test(kernels_of_few_threads_leave_the_device_idle),
        cmocka_unit_test(few_blocks_are_much_of_what_loading_leaves),
        cmocka_unit_test(the_default_stream_makes_streams_take_turns),
        cmocka_unit_test(bounds_of_the_same_time_do_not_add_up),
        cmocka_unit_test(kernels_that_fill_the_device_run_one_by_one),
        cmocka_unit_test(a_merged_file_is_one_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
