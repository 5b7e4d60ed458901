/* Ranges of NVTX: operations of PyTorch as emit_nvtx marks them, collectives as the backend does, and calls of MPI.
 *
 *   host     [aten::mm  launch][nccl:all_to_all  launch][aten::copy_  copy, wait][MPI_Sendrecv]
 *   device           [gemm 1 ms]                    [SendRecv 2 ms][copy]
 */
#include "analysis/analysis.h"
#include "check.h"
#include "folder.h"
#include "trace/nsys_database.h"
#include "trace/open.h"
#include "verdict/verdict.h"

#include <math.h>
#include <stdio.h>

enum { STEPS = 6 };
static const long long thread = ((long long)4711 << 24) + 4711;

static char folder[FOLDER_PATH], path[FOLDER_PATH + 16];

static int make_folder(void **state) {
    (void)state;
    folder_make(folder, "nvtx");
    snprintf(path, sizeof path, "%s/a.sqlite", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    return folder_remove(folder);
}

/* ---- an export ---- */

static const char tables[] =
    "CREATE TABLE StringIds (id INTEGER, value TEXT);"
    "INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel_v7000'), (2, 'sm80_gemm'), (3, "
    "'ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)'), (4, 'cudaMemcpyAsync_v3020'), (5, "
    "'cudaStreamSynchronize_v3020'), (6, 'MPI_Sendrecv'), (7, 'MPI_Comm_rank');"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, "
    "streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, "
    "streamId INTEGER, correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, "
    "nameId INTEGER);"
    "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER);"
    "CREATE TABLE MPI_P2P_EVENTS (start INTEGER, end INTEGER, globalTid INTEGER, textId INTEGER);"
    "CREATE TABLE MPI_OTHER_EVENTS (start INTEGER, end INTEGER, globalTid INTEGER, textId INTEGER);";

static void put_call(struct aorta_text *out, int name, long long start_us, long long end_us, int correlation) {
    aorta_text_printf(out, "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (%lld, %lld, %lld, %d, %d);",
                      1000 * start_us, 1000 * end_us, thread, correlation, name);
}

static void put_kernel(struct aorta_text *out, int name, int stream, long long start_us, long long end_us,
                       int correlation) {
    aorta_text_printf(out, "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (%lld, %lld, 0, 1, %d, %d, %lld, %d);",
                      1000 * start_us, 1000 * end_us, stream, correlation, thread - 4711, name);
}

static void put_range(struct aorta_text *out, const char *name, long long start_us, long long end_us) {
    aorta_text_printf(out, "INSERT INTO NVTX_EVENTS VALUES (%lld, %lld, 59, '%s', %lld);", 1000 * start_us,
                      1000 * end_us, name, thread);
}

/* Two products, an exchange, and a value that is read. */
static void put_step(struct aorta_text *out, int step) {
    const long long at = 10000 * step;
    const int first = 10 * step + 1;
    char name[128];
    snprintf(name, sizeof name, "ProfilerStep#%d", step);
    put_range(out, name, at, at + 9900);
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "aten::mm, seq = %d, op_id = %d, sizes = [[4096, 1024], [1024, 512]]", first + i,
                 1000 + 10 * step + i);
        put_range(out, name, at + 100 * i, at + 100 * i + 50);
        put_call(out, 1, at + 100 * i + 10, at + 100 * i + 15, first + i);
        put_kernel(out, 2, 7, at + 300 + 1000 * i, at + 1300 + 1000 * i, first + i);
    }
    snprintf(name, sizeof name, "c10d::alltoall_base_, op_id = %d", 1005 + 10 * step);
    put_range(out, name, at + 500, at + 590);
    snprintf(name, sizeof name, "record_param_comms, op_id = %d", 1006 + 10 * step);
    put_range(out, name, at + 505, at + 585);
    snprintf(name, sizeof name, "nccl:all_to_all, op_id = %d", 1007 + 10 * step);
    put_range(out, name, at + 510, at + 580);
    put_call(out, 1, at + 520, at + 525, first + 2);
    put_kernel(out, 3, 20, at + 2400, at + 4400, first + 2);
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "aten::copy_, seq = %d, op_id = %d", first + 3, 1008 + 10 * step + i);
        put_range(out, name, at + 700 + 3800 * i, at + 4460 + 3800 * i);
        put_call(out, 4, at + 710 + 3800 * i, at + 715 + 3800 * i, first + 3 + 2 * i);
        put_call(out, 5, at + 720 + 3800 * i, at + 4450 + 3800 * i, first + 4 + 2 * i);
        aorta_text_printf(out, "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (%lld, %lld, 0, 1, 7, %d, %lld, 4, 2);",
                          1000 * (at + 4410 + 3800 * i), 1000 * (at + 4420 + 3800 * i), first + 3 + 2 * i,
                          thread - 4711);
    }
    put_range(out, "Optimizer.step#SGD.step, op_id = 9", at + 9000, at + 9100);
}

struct opened {
    struct aorta_trace_list list;
    struct aorta_trace_analysis analysis;
};

static void open_text(struct aorta_text *text, struct opened *opened) {
    *opened = (struct opened){0};
    check_ok(aorta_text_check(text));
    run_statements(path, text->data);
    aorta_text_free(text);
    check_ok(aorta_trace_open_inputs(&(const char *){path}, 1, NULL, &opened->list));
    check_ok(aorta_trace_analyze(&opened->list, NULL, &opened->analysis));
}

static void end(struct opened *opened) {
    aorta_trace_analysis_free(&opened->analysis);
    aorta_trace_list_free(&opened->list);
}

/* ---- emit_nvtx ---- */

static const char *operation_of(const struct aorta_trace *trace, const struct aorta_trace_work *work) {
    assert_int_not_equal(work->operation, AORTA_TRACE_NONE);
    return aorta_trace_text(trace, trace->operations[work->operation].name);
}

static void names_are_those_of_operations(void **state) {
    (void)state;
    struct aorta_text text = {0};
    struct opened opened;
    aorta_text_puts(&text, tables);
    for (int i = 0; i < STEPS; i++) put_step(&text, i);
    open_text(&text, &opened);
    const struct aorta_trace *trace = opened.list.items[0];
    const struct aorta_trace_work *product = &trace->work[0], *exchange = &trace->work[2];
    assert_string_equal(operation_of(trace, product), "aten::mm");
    assert_int_equal(trace->operations[product->operation].sequence, 1);
    assert_string_equal(aorta_trace_text(trace, trace->shapes[product->shape].dims), "[[4096, 1024], [1024, 512]]");
    assert_int_equal(trace->shapes[product->shape].product.n, 512);
    assert_string_equal(operation_of(trace, &trace->work[3]), "aten::copy_");
    assert_int_equal(trace->annotation_count, 2 * STEPS); /* the backend's, the optimizer's */
    assert_string_equal(aorta_trace_text(trace, trace->annotations[1].name), "Optimizer.step#SGD.step");
    assert_int_equal(aorta_trace_collective_kind(trace, exchange), AORTA_ALL_TO_ALL);
    assert_false(opened.analysis.sends); /* the backend says what it is */
    const struct aorta_trace_rank *rank = &opened.analysis.ranks[0];
    assert_int_equal(rank->steps, STEPS - 1); /* the first has no recorded start */
    assert_int_equal(rank->collective_count, 1);
    assert_int_equal(rank->sync_count, 1); /* one place, twice a step */
    assert_int_equal(rank->syncs[0].times.count, 2 * (STEPS - 1));
    assert_string_equal(aorta_trace_text(trace, rank->syncs[0].operation), "aten::copy_");
    end(&opened);
}

/* Names that are cut, or only look so. */
static void odd_names_stay_ranges(void **state) {
    (void)state;
    static const char *const names[] = {"forward, seq = ", "a, sizes = [[4, ", "x, op_id = 99999999999999999999999",
                                        ", seq = 5", "plain"};
    struct aorta_text text = {0};
    struct opened opened;
    aorta_text_puts(&text, tables);
    for (int i = 0; i < 5; i++) put_range(&text, names[i], 10 * i, 10 * i + 5);
    put_kernel(&text, 2, 7, 100, 200, 1);
    open_text(&text, &opened);
    assert_int_equal(opened.list.items[0]->annotation_count, 5);
    assert_int_equal(opened.list.items[0]->operation_count, 0);
    end(&opened);
}

/* ---- MPI ---- */

/* Each iteration computes 10 ms, copies 2 ms to the host and back, and exchanges for 20 ms between: of 34 ms 20 are
 * MPI's. As NVTX ranges, and in the tables of --trace=mpi. */
static void put_iteration(struct aorta_text *out, int i, bool own_table) {
    const long long at = 34000 * (long long)i;
    put_call(out, 1, at, at + 5, 10 * i + 1);
    put_kernel(out, 2, 7, at + 10, at + 10000, 10 * i + 1);
    for (int back = 0; back < 2; back++) {
        const long long copy = at + 10010 + back * 22000;
        put_call(out, 4, copy - 5, copy + 1950, 10 * i + 2 + back);
        aorta_text_printf(out,
                          "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (%lld, %lld, 0, 1, 7, %d, %lld, 20000000, "
                          "%d);",
                          1000 * copy, 1000 * (copy + 1940), 10 * i + 2 + back, thread - 4711, back ? 1 : 2);
    }
    if (own_table)
        aorta_text_printf(out,
                          "INSERT INTO MPI_P2P_EVENTS VALUES (%lld, %lld, %lld, 6);"
                          "INSERT INTO MPI_OTHER_EVENTS VALUES (%lld, %lld, %lld, 7);",
                          1000 * (at + 11970), 1000 * (at + 31970), thread, 1000 * (at + 11960), 1000 * (at + 11961),
                          thread);
    else
        put_range(out, "MPI_Sendrecv", at + 11970, at + 31970);
}

static void mpi_is_communication(void **state) {
    (void)state;
    for (int own_table = 0; own_table < 2; own_table++) {
        struct aorta_text text = {0};
        struct opened opened;
        struct aorta_verdict verdict;
        size_t exchanges = 0;
        aorta_text_puts(&text, tables);
        for (int i = 0; i < 8; i++) put_iteration(&text, i, own_table);
        open_text(&text, &opened);
        const struct aorta_trace *trace = opened.list.items[0];
        for (size_t i = 0; i < trace->call_count; i++) exchanges += trace->calls[i].kind == AORTA_CALL_COLLECTIVE;
        assert_int_equal(exchanges, 8);
        check_ok(aorta_verdict_make(&opened.analysis, &verdict));
        const struct aorta_finding *first = &verdict.findings[0];
        for (size_t i = 1; i < verdict.finding_count; i++)
            if (verdict.findings[i].alone_ms > first->alone_ms) first = &verdict.findings[i];
        assert_int_equal(first->cause, AORTA_CAUSE_HOST_COLLECTIVE);
        assert_true(fabs(first->alone_ms - (verdict.whole ? 160 : 20)) < 0.5);
        aorta_verdict_free(&verdict);
        end(&opened);
        unlink(path);
    }
}

int main(void) {
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(names_are_those_of_operations),
        IN_FOLDER(odd_names_stay_ranges),
        IN_FOLDER(mpi_is_communication),
    };
#undef IN_FOLDER
    return cmocka_run_group_tests(tests, NULL, NULL);
}
