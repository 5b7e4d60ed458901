/* Communication that is no kernel of a library: copies of copy engines, and sends with their receives.
 *
 *   host       [record_param_comms  copy copy copy]
 *   stream 20                          [PtoP][PtoP][DtoD]      one all_gather of 4 ranks
 */
#include "analysis/analysis.h"
#include "check.h"
#include "samples/dump.h"
#include "samples/kineto.h"
#include "trace/open.h"

#include <stdlib.h>

struct opened {
    struct aorta_trace_list list;
    struct aorta_trace_analysis analysis;
};

static void analyze(struct opened *opened) {
    check_ok(aorta_trace_analyze(&opened->list, NULL, &opened->analysis));
}

static void end(struct opened *opened) {
    aorta_trace_analysis_free(&opened->analysis);
    aorta_trace_list_free(&opened->list);
}

/* ---- copy engines ---- */

static void put_copy(struct sample_kineto *sample, const char *name, double launch_us, double start_us,
                     double length_us) {
    char args[160];
    snprintf(args, sizeof args, "\"correlation\": %u", ++sample->correlation);
    sample_kineto_event(sample, "cuda_runtime", "cudaMemcpyAsync", 1, launch_us, 2, args);
    snprintf(args, sizeof args, "\"device\": 0, \"stream\": 20, \"correlation\": %u, \"bytes\": 1048576",
             sample->correlation);
    sample_kineto_event(sample, "gpu_memcpy", name, 20, start_us, length_us, args);
}

static void put_request(struct sample_kineto *sample, int ranks, double start_us) {
    char args[256];
    snprintf(args, sizeof args,
             "\"Collective name\": \"_allgather_base\", \"In msg nelems\": 524288, \"Out msg nelems\": %d, \"dtype\": "
             "\"BFloat16\", \"Group size\": %d, \"Process Group Name\": \"0\"",
             524288 * ranks, ranks);
    sample_kineto_event(sample, "cpu_op", "record_param_comms", 1, start_us, 50, args);
}

/* A kernel of 100 us, of which 40 run beside the copies; these take 90 us in all. */
static void put_gather(struct sample_kineto *sample, const char *between, bool own) {
    sample_kineto_kernel(sample, "gemm", 7, 10, 20, 100, "");
    for (int i = 0; i < 3; i++) put_copy(sample, between, 40 + 5 * i, 80 + 30 * i, 30);
    if (own) put_copy(sample, "Memcpy DtoD (Device -> Device)", 60, 170, 10);
}

static void check_gather(struct sample_kineto *sample, size_t gathers, int64_t us, int64_t bytes) {
    struct opened opened = {0};
    sample_kineto_open(sample, &opened.list);
    analyze(&opened);
    const struct aorta_trace_rank *rank = &opened.analysis.ranks[0];
    assert_int_equal(rank->collective_count, gathers > 0);
    assert_int_equal(rank->figures.comm_ns, 1000 * us);
    assert_int_equal(rank->figures.exposed_comm_ns, us ? 1000 * (us - 40) : 0);
    if (gathers) {
        assert_int_equal(rank->collectives[0].kind, AORTA_ALL_GATHER);
        assert_int_equal(rank->collectives[0].times.count, gathers);
        assert_int_equal(rank->collectives[0].bytes, bytes);
        assert_int_equal(rank->figures.memcpy_ns, 0);
    } else {
        assert_true(rank->figures.memcpy_ns > 0);
    }
    end(&opened);
}

static void copies_of_a_request_are_its_collective(void **state) {
    (void)state;
    static const char *const names[] = {"Memcpy PtoP (Device -> Device)", "Memcpy DtoD (Device -> Device)"};
    for (size_t i = 0; i < 2; i++) {
        struct sample_kineto sample;
        sample_kineto_begin(&sample, 0, 4);
        put_request(&sample, 4, 30);
        put_gather(&sample, names[i], true);
        check_gather(&sample, 1, 100, 4 * 1048576);
    }
}

static void copies_of_symmetric_memory_are_collectives(void **state) {
    (void)state;
    struct sample_kineto sample;
    sample_kineto_begin(&sample, 0, 4);
    sample_kineto_event(&sample, "cpu_op", "symm_mem::_low_contention_all_gather", 1, 30, 50, "\"External id\": 9");
    put_gather(&sample, "Memcpy DtoD (Device -> Device)", false);
    check_gather(&sample, 1, 90, -1);
}

/* Outside a collective; of one rank; beside the collective's kernel, which then only packs and unpacks. */
static void other_copies_stay_copies(void **state) {
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        struct sample_kineto sample;
        struct opened opened = {0};
        sample_kineto_begin(&sample, 0, 4);
        if (kind > 0) put_request(&sample, kind == 1 ? 1 : 4, 30);
        put_gather(&sample, kind == 1 ? "Memcpy PtoP (Device -> Device)" : "Memcpy DtoD (Device -> Device)", false);
        if (kind == 2) sample_kineto_kernel(&sample, "ncclDevKernel_AllGather_RING_LL", 21, 62, 200, 10, "");
        if (kind < 2) {
            check_gather(&sample, 0, 0, 0);
            continue;
        }
        sample_kineto_open(&sample, &opened.list);
        analyze(&opened);
        assert_int_equal(opened.analysis.ranks[0].figures.comm_ns, 10000);
        assert_int_equal(opened.analysis.ranks[0].figures.memcpy_ns, 90000);
        end(&opened);
    }
}

/* XLA names the operation of the copies, and the device to which they go. */
static void copies_of_xla_are_collectives(void **state) {
    (void)state;
    static const char text[] =
        "{\"traceEvents\": ["
        "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"/device:GPU:0\"}},"
        "{\"ph\":\"M\",\"pid\":1,\"tid\":14,\"name\":\"thread_name\",\"args\":{\"name\":\"Stream #14(Compute)\"}},"
        "{\"ph\":\"X\",\"pid\":1,\"tid\":14,\"ts\":10,\"dur\":50,\"name\":\"fusion\",\"args\":{\"correlation_id\":1}},"
        "{\"ph\":\"X\",\"pid\":1,\"tid\":14,\"ts\":60,\"dur\":30,\"name\":\"MemcpyP2P\",\"args\":{\"correlation_id\":2,"
        "\"hlo_op\":\"all-gather-start.3\",\"memcpy_details\":\"size:4096 dest:1 async:1\"}},"
        "{\"ph\":\"X\",\"pid\":1,\"tid\":14,\"ts\":90,\"dur\":20,\"name\":\"MemcpyD2D\",\"args\":{\"correlation_id\":3,"
        "\"hlo_op\":\"copy.7\",\"memcpy_details\":\"size:4096 dest:0 async:1\"}}]}";
    struct opened opened = {0};
    check_ok(aorta_trace_list_add(&opened.list, read_text(text)));
    analyze(&opened);
    const struct aorta_trace_rank *rank = &opened.analysis.ranks[0];
    assert_int_equal(rank->collective_count, 1);
    assert_int_equal(rank->collectives[0].kind, AORTA_ALL_GATHER);
    assert_int_equal(rank->figures.exposed_comm_ns, 30000);
    assert_int_equal(rank->figures.memcpy_ns, 20000);
    end(&opened);
}

/* ---- sends and receives ---- */

enum { STAGES = 3, BATCHES = 4 };
enum how { BY_RANKS, BY_RANGE };

static void put_transfer(struct sample_kineto *sample, enum how how, bool receives, int own, int peer, int sequence,
                         double start_us, double end_us) {
    char args[256] = "", name[48];
    if (how == BY_RANKS) {
        snprintf(
            args, sizeof args,
            "\"Collective name\": \"%s\", \"In msg nelems\": 1024, \"Out msg nelems\": 1024, \"dtype\": \"Float\", "
            "\"Group size\": 3, \"Process Group Name\": \"pp\", \"Process Group Ranks\": \"[0, 1, 2]\", \"Seq\": "
            "%d, \"%s Rank\": %d",
            receives ? "recv" : "send", sequence, receives ? "Src" : "Dst", peer);
    } else {
        snprintf(name, sizeof name, receives ? "nccl:recv %d<-%d" : "nccl:send %d->%d", own, peer);
        sample_kineto_event(sample, "user_annotation", name, 1, start_us - 6, 4, "");
    }
    sample_kineto_kernel(sample, "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", 20, start_us - 5, start_us,
                         end_us - start_us, args);
}

/* Each micro-batch takes a stage 100 us; a stage waits for the one before it in its receive.
 *
 *   rank 0   [ 0 ]send[ 1 ]send[ 2 ]send[ 3 ]send
 *   rank 1   recv.....[ 0 ]send recv [ 1 ]send ...
 *   rank 2   recv...............[ 0 ] recv ...
 */
static void put_stage(struct sample_kineto *sample, enum how how, int rank) {
    double free_us = 1000;
    int sequence = 10 * rank; /* counts each rank's own */
    for (int batch = 0; batch < BATCHES; batch++) {
        const double ready_us = 1000 + 120 * (batch + rank);
        if (rank) {
            put_transfer(sample, how, true, rank, rank - 1, ++sequence, free_us, ready_us);
            free_us = ready_us;
        }
        sample_kineto_kernel(sample, "gemm", 7, free_us - 8, free_us, 100, "");
        free_us += 100;
        if (rank + 1 < STAGES) put_transfer(sample, how, false, rank, rank + 1, ++sequence, free_us, free_us + 20);
        free_us += 20;
    }
}

static void sends_meet_their_receives(void **state) {
    (void)state;
    for (int how = BY_RANKS; how <= BY_RANGE; how++) {
        struct opened opened = {0};
        for (int rank = 0; rank < STAGES; rank++) {
            struct sample_kineto sample;
            sample_kineto_begin(&sample, rank, STAGES);
            put_stage(&sample, (enum how)how, rank);
            sample_kineto_open(&sample, &opened.list);
        }
        analyze(&opened);
        const struct aorta_trace_analysis *analysis = &opened.analysis;
        assert_int_equal(analysis->alignment.shared_count, (STAGES - 1) * BATCHES);
        for (size_t i = 0; i < analysis->alignment.shared_count; i++) {
            const struct aorta_align_shared *shared = &analysis->alignment.shared[i];
            assert_true(shared->pair);
            assert_int_equal(shared->part_count, 2);
            assert_int_equal(shared->parts[1].rank, shared->parts[0].rank + 1);
            assert_true(shared->parts[0].end_ns == shared->parts[1].end_ns);
            assert_true(shared->complete);
        }
        /* Rank 2 waits for its first batch from 1000 to 1220 us, when rank 1 begins to send it. */
        assert_int_equal(analysis->ranks[2].collectives[0].waits_known, BATCHES);
        assert_true(analysis->ranks[2].collectives[0].wait_ns >= 220000);
        /* From then on rank 1 is busy for 20 us when rank 0 begins to send. */
        assert_int_equal(analysis->ranks[0].collectives[0].wait_ns, 20000 * (BATCHES - 1));
        assert_true(analysis->sends);
        end(&opened);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_of_a_request_are_its_collective),
        cmocka_unit_test(copies_of_symmetric_memory_are_collectives),
        cmocka_unit_test(other_copies_stay_copies),
        cmocka_unit_test(copies_of_xla_are_collectives),
        cmocka_unit_test(sends_meet_their_receives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
