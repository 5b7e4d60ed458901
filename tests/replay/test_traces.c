/* Causes that only the file of a recording shows: events between streams, hardware queues that streams share,
 * communicators that collectives share, products that collectives slow down. Each is planted in a made-up trace. A
 * second trace looks alike and has another reason. */
#include "check.h"
#include "replay/trace_graph.h"
#include "replaying.h"
#include "samples/kineto.h"

#include <math.h>

enum { STEPS = 12, US = 1000 };

struct run {
    struct aorta_trace_list list;
    struct aorta_trace_analysis analysis;
    struct aorta_trace_graph built;
    struct aorta_gains gains;
};

static void measure(struct sample_kineto *sample, struct run *run) {
    *run = (struct run){0};
    sample_kineto_open(sample, &run->list);
    check_ok(aorta_trace_analyze(&run->list, NULL, &run->analysis));
    check_ok(aorta_trace_graph_make(&run->analysis, &run->built));
    measure_gains(&run->built.graph, &run->gains);
    struct aorta_replay replay = {0};
    const struct aorta_graph *graph = &run->built.graph;
    aorta_replay_run(graph, 0, &replay);
    for (uint32_t i = 0; i < graph->point_count; i++) assert_true(replay.point_ns[i] == graph->time_ns[i]);
    aorta_replay_free(&replay);
}

static void end(struct run *run) {
    aorta_trace_graph_free(&run->built);
    aorta_trace_analysis_free(&run->analysis);
    aorta_trace_list_free(&run->list);
}

static double gain_us(const struct run *run, enum aorta_removal removal) {
    return run->gains.gain_ns[removal] / US;
}

/* The host is far ahead: 40 us for a step's launches. */
static double host_at(int step) {
    return 100 + 40.0 * step;
}

static void mark(struct sample_kineto *sample, int step) {
    char name[32];
    snprintf(name, sizeof name, "ProfilerStep#%d", step);
    sample_kineto_event(sample, "user_annotation", name, 1, host_at(step), 39, "");
}

static void call(struct sample_kineto *sample, const char *name, double start_us, unsigned correlation) {
    char args[64];
    snprintf(args, sizeof args, "\"correlation\": %u", correlation);
    sample_kineto_event(sample, "cuda_runtime", name, 1, start_us, 1, args);
}

/* ---- queues ---- */

enum reason { ONE_QUEUE, OWN_QUEUES, EVENT, KNOWN_EVENT };

/* Work launched on `to` from now on waits for the work launched on `from` before. */
static void add_event(struct sample_kineto *sample, int from, int to, double at_us, bool known, unsigned number) {
    unsigned record = 5000 + 2 * number;
    char args[256];
    call(sample, "cudaEventRecord", at_us, record);
    call(sample, "cudaStreamWaitEvent", at_us + 2, record + 1);
    snprintf(args, sizeof args,
             "\"cuda_sync_kind\": \"Stream Wait Event\", \"stream\": %d, \"correlation\": %u, \"device\": 0, "
             "\"context\": 1, \"wait_on_stream\": %d, \"wait_on_cuda_event_record_corr_id\": %u",
             to, record + 1, from, record);
    if (known) sample_kineto_event(sample, "cuda_sync", "Stream Wait Event", to, at_us + 2, 1, args);
}

/* stream 7   AAAA      AAAA        Both launched at once, and yet one after the other, 400 us each: since they share a
 * stream 8       BBBB      BBBB    queue, or since each waits for the other. */
static void two_streams(enum reason reason, struct run *run) {
    struct sample_kineto sample;
    sample_kineto_begin(&sample, 0, 1);
    for (int i = 0; i < STEPS; i++) {
        double host = host_at(i), device = host_at(0) + 7 + 802.0 * i;
        const char *other = reason == OWN_QUEUES ? "\"context\": 1, \"channel\": 4" : "\"context\": 1, \"channel\": 3";
        mark(&sample, i);
        sample_kineto_kernel(&sample, "a", 7, host + 2, device, 400, "\"context\": 1, \"channel\": 3");
        if (reason == EVENT || reason == KNOWN_EVENT)
            add_event(&sample, 7, 8, host + 6, reason == KNOWN_EVENT, 2 * (unsigned)i);
        sample_kineto_kernel(&sample, "b", 8, host + 15, device + 401, 400, other);
        if (reason == EVENT || reason == KNOWN_EVENT)
            add_event(&sample, 8, 7, host + 20, reason == KNOWN_EVENT, 2 * (unsigned)i + 1);
    }
    measure(&sample, run);
}

static void streams_that_share_a_queue_would_run_side_by_side(void **state) {
    (void)state;
    struct run run;
    two_streams(ONE_QUEUE, &run);
    assert_true(fabs(gain_us(&run, AORTA_WITHOUT_SERIALIZED_STREAMS) - 400) < 40);
    end(&run);
}

static void streams_that_wait_for_each_other_would_not(void **state) {
    (void)state;
    static const enum reason reasons[] = {OWN_QUEUES, EVENT, KNOWN_EVENT};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        struct run run;
        two_streams(reasons[i], &run);
        assert_true(gain_us(&run, AORTA_WITHOUT_SERIALIZED_STREAMS) < 1);
        assert_true((run.gains.inferred_share > 0.1) == (reasons[i] != KNOWN_EVENT));
        end(&run);
    }
}

/* ---- communicators ---- */

static void gather(struct sample_kineto *sample, int stream, double launch_us, double start_us, double length_us,
                   const char *group, int number) {
    char args[384];
    snprintf(args, sizeof args,
             "\"Collective name\": \"_allgather_base\", \"In msg nelems\": 1000, \"Out msg nelems\": 2000, \"Group "
             "size\": 2, \"dtype\": \"Float\", \"Process Group Name\": \"%s\", \"Seq\": %d",
             group, number);
    sample_kineto_kernel(sample, "ncclDevKernel_AllGather_RING_LL", stream, launch_us, start_us, length_us, args);
}

static void two_collectives(bool one_group, struct run *run) {
    struct sample_kineto sample;
    sample_kineto_begin(&sample, 0, 2);
    for (int i = 0; i < STEPS; i++) {
        double host = host_at(i), device = host_at(0) + 7 + 802.0 * i;
        mark(&sample, i);
        gather(&sample, 20, host + 2, device, 400, "0", 2 * i);
        gather(&sample, 21, host + 15, device + 401, 400, one_group ? "0" : "1", 2 * i + 1);
    }
    measure(&sample, run);
}

static void collectives_share_a_communicator(void **state) {
    (void)state;
    for (int one_group = 0; one_group < 2; one_group++) {
        struct run run;
        two_collectives(one_group, &run);
        double gain = gain_us(&run, AORTA_WITHOUT_SERIALIZED_STREAMS);
        assert_true(one_group ? fabs(gain - 400) < 40 : gain < 1);
        end(&run);
    }
}

/* ---- events ---- */

/* stream 7   AAAA                B waits for A, as the file says or does not. A copy that has nothing to do with it
 * ends stream 9   ccccc  (copy)       last before B begins. */
static void a_copy_beside(bool known, struct run *run) {
    struct sample_kineto sample;
    sample_kineto_begin(&sample, 0, 1);
    for (int i = 0; i < STEPS; i++) {
        double host = host_at(i), device = host_at(0) + 7 + 820.0 * i;
        char args[128];
        mark(&sample, i);
        sample_kineto_kernel(&sample, "a", 7, host + 2, device, 400, "\"context\": 1");
        add_event(&sample, 7, 8, host + 5, known, (unsigned)i);
        sample.correlation++;
        call(&sample, "cudaMemcpyAsync", host + 9, sample.correlation);
        snprintf(args, sizeof args, "\"device\": 0, \"context\": 1, \"stream\": 9, \"correlation\": %u, \"bytes\": 64",
                 sample.correlation);
        sample_kineto_event(&sample, "gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 9, device, 407, args);
        sample_kineto_kernel(&sample, "b", 8, host + 15, device + 409, 400, "\"context\": 1");
        sample_kineto_kernel(&sample, "c", 7, host + 18, device + 811, 1, "\"context\": 1");
    }
    measure(&sample, run);
}

static void recorded_events_come_before_what_times_suggest(void **state) {
    (void)state;
    struct run run;
    a_copy_beside(false, &run);
    double inferred = run.gains.inferred_share;
    assert_true(gain_us(&run, AORTA_WITHOUT_COPY) > 300); /* it seems that B waited for the copy */
    end(&run);
    a_copy_beside(true, &run);
    assert_true(gain_us(&run, AORTA_WITHOUT_COPY) < 20);
    assert_true(run.gains.inferred_share < inferred);
    const struct aorta_trace *trace = run.list.items[0];
    assert_int_equal(trace->wait_count, STEPS);
    assert_int_equal(trace->waits[0].recorded_ns, (int64_t)(host_at(0) + 5) * US);
    assert_int_equal(trace->waits[0].asked_ns, (int64_t)(host_at(0) + 7) * US);
    assert_int_equal(trace->streams[trace->waits[0].stream].id, 8);
    assert_int_equal(trace->streams[trace->waits[0].on].id, 7);
    end(&run);
}

/* The host waits for an event after A, or for A's stream; B, on another stream, ends just before the call returns. */
static void a_host_that_waits(const char *kind, struct run *run) {
    struct sample_kineto sample;
    char args[256];
    sample_kineto_begin(&sample, 0, 1);
    for (int i = 0; i < STEPS; i++) {
        double host = 100 + 1000.0 * i;
        unsigned record = 5000 + 2 * (unsigned)i;
        char name[32];
        snprintf(name, sizeof name, "ProfilerStep#%d", i);
        sample_kineto_event(&sample, "user_annotation", name, 1, host, 990, "");
        sample_kineto_kernel(&sample, "a", 7, host + 2, host + 7, 500, "\"context\": 1");
        call(&sample, "cudaEventRecord", host + 5, record);
        sample_kineto_kernel(&sample, "b", 8, host + 8, host + 14, 497, "\"context\": 1");
        snprintf(args, sizeof args, "\"correlation\": %u", record + 1);
        bool stream = kind && !strcmp(kind, "Stream Sync");
        sample_kineto_event(&sample, "cuda_runtime", stream ? "cudaStreamSynchronize" : "cudaEventSynchronize", 1,
                            host + 20, 495, args);
        snprintf(args, sizeof args,
                 "\"stream\": %d, \"correlation\": %u, \"device\": 0, \"context\": 1, \"wait_on_stream\": 7, "
                 "\"wait_on_cuda_event_record_corr_id\": %u",
                 stream ? 7 : -1, record + 1, record);
        if (kind) sample_kineto_event(&sample, "cuda_sync", kind, 7, host + 20, 495, args);
    }
    measure(&sample, run);
}

/* Row of the span that the host's call waits for. */
static const char *awaited_name(const struct run *run, bool *inferred) {
    const struct aorta_graph *graph = &run->built.graph;
    for (uint32_t to = 0; to < graph->point_count; to++) {
        for (uint32_t i = graph->first_edge[to]; i < graph->first_edge[to + 1]; i++) {
            if (graph->kind[i] != AORTA_EDGE_WAIT) continue;
            const struct aorta_trace *trace = run->list.items[0];
            uint32_t row = aorta_subject_row(graph->subject[graph->from[i]]);
            *inferred = graph->inferred[i];
            return aorta_trace_text(trace, trace->work[row].name);
        }
    }
    return "";
}

static void the_host_waits_for_what_the_file_says(void **state) {
    (void)state;
    static const char *const kinds[] = {NULL, "Event Sync", "Stream Sync"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct run run;
        bool inferred = false;
        a_host_that_waits(kinds[i], &run);
        assert_string_equal(awaited_name(&run, &inferred), kinds[i] ? "a" : "b");
        assert_int_equal(inferred, !kinds[i]);
        end(&run);
    }
}

/* Kernels that come late, and a copy whose call lasts beyond it; whether a wait of the host's call joins the graph.
 *
 *   host   a  a  a  | cudaMemcpyAsync |
 *   GPU     a  a  a    copy              */
static bool waits_for_copy(const char *copy) {
    struct sample_kineto sample;
    struct run run;
    char args[128];
    bool found = false;
    sample_kineto_begin(&sample, 0, 1);
    for (int i = 0; i < STEPS; i++) {
        const double host = host_at(i);
        mark(&sample, i);
        sample_kineto_kernel(&sample, "a", 7, host + 2, host + 7, 3, "");
        snprintf(args, sizeof args, "\"correlation\": %u", ++sample.correlation);
        sample_kineto_event(&sample, "cuda_runtime", "cudaMemcpyAsync", 1, host + 12, 25, args);
        snprintf(args, sizeof args, "\"device\": 0, \"stream\": 7, \"correlation\": %u, \"bytes\": 4096",
                 sample.correlation);
        sample_kineto_event(&sample, "gpu_memcpy", copy, 7, host + 18, 5, args);
    }
    measure(&sample, &run);
    const struct aorta_graph *graph = &run.built.graph;
    for (uint32_t i = 0; i < graph->edge_count; i++) found |= graph->kind[i] == AORTA_EDGE_WAIT_COPY;
    end(&run);
    return found;
}

static void the_host_does_not_wait_for_copies_within_a_device(void **state) {
    (void)state;
    assert_true(waits_for_copy("Memcpy HtoD (Pageable -> Device)"));
    assert_false(waits_for_copy("Memcpy DtoD (Device -> Device)"));
}

/* ---- contention ---- */

/* Two products a step alone, two beside a collective: 100 us each, and there `beside_us`. */
static void products(double beside_us, bool shapes, struct run *run) {
    struct sample_kineto sample;
    double device = host_at(0) + 10;
    sample_kineto_begin(&sample, 0, 1);
    for (int i = 0; i < STEPS; i++) {
        double host = host_at(i);
        mark(&sample, i);
        if (shapes)
            sample_kineto_event(&sample, "cpu_op", "aten::mm", 1, host + 1, 37,
                                "\"External id\": 5, \"Input Dims\": [[64, 32], [32, 16]], \"Input type\": [\"float\", "
                                "\"float\"]");
        for (int j = 0; j < 4; j++) {
            double length = j < 2 ? 100 : beside_us;
            sample_kineto_kernel(&sample, "sm90_xmma_gemm", 7, host + 5 + 3 * j, device, length,
                                 "\"External id\": 5, \"grid\": [4, 1, 1], \"block\": [128, 1, 1]");
            device += length + 1;
            if (j == 1) /* begins after the second product */
                sample_kineto_kernel(&sample, "ncclDevKernel_AllGather_RING_LL", 20, host + 10, device,
                                     2 * (beside_us + 1), "");
        }
    }
    measure(&sample, run);
}

static void products_are_slower_beside_collectives(void **state) {
    (void)state;
    struct run run;
    products(150, true, &run);
    assert_true(fabs(gain_us(&run, AORTA_WITHOUT_CONTENTION) - 100) < 15);
    end(&run);
    products(100, true, &run);
    assert_true(gain_us(&run, AORTA_WITHOUT_CONTENTION) < 1);
    end(&run);
    products(150, false, &run); /* of the same grid; but whether of the same depth is not known */
    assert_true(gain_us(&run, AORTA_WITHOUT_CONTENTION) < 1);
    end(&run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_that_share_a_queue_would_run_side_by_side),
        cmocka_unit_test(streams_that_wait_for_each_other_would_not),
        cmocka_unit_test(collectives_share_a_communicator),
        cmocka_unit_test(recorded_events_come_before_what_times_suggest),
        cmocka_unit_test(the_host_waits_for_what_the_file_says),
        cmocka_unit_test(the_host_does_not_wait_for_copies_within_a_device),
        cmocka_unit_test(products_are_slower_beside_collectives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
