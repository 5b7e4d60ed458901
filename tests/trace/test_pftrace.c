/* rocprofv3's pftrace: the recording of pftrace_sample.h. */
#include "base/files.h"
#include "check.h"
#include "folder.h"
#include "pftrace_sample.h"
#include "trace/open.h"

static void read_sample(size_t length, bool recover, struct aorta_trace_list *list, const char *fails) {
    const struct aorta_trace_options options = {.recover = recover};
    char folder[FOLDER_PATH], path[64];
    struct aorta_text bytes = {0};
    make_pftrace(&bytes);
    folder_make(folder, "pftrace");
    snprintf(path, sizeof path, "%s/run.pftrace", folder);
    check_ok(aorta_file_replace(path, bytes.data, length ? length : bytes.length));
    const char *paths[] = {path};
    aorta_status status = aorta_trace_open_inputs(paths, 1, &options, list);
    if (fails)
        check_fails(status, AORTA_FORMAT, fails);
    else
        check_ok(status);
    assert_int_equal(folder_remove(folder), 0);
    aorta_text_free(&bytes);
}

static void check_work(const struct aorta_trace *trace, size_t row, const char *name, int64_t start_ns, int64_t end_ns,
                       const char *call) {
    const struct aorta_trace_work *work = &trace->work[row];
    assert_string_equal(aorta_trace_text(trace, work->name), name);
    assert_int_equal(work->start_ns, start_ns);
    assert_int_equal(work->end_ns, end_ns);
    assert_int_equal(work->device, 4);
    assert_int_equal(trace->streams[work->stream].id, 2);
    assert_int_not_equal(work->call, AORTA_TRACE_NONE);
    assert_string_equal(aorta_trace_text(trace, trace->calls[work->call].name), call);
}

static void all_of_it_is_read(void **state) {
    (void)state;
    struct aorta_trace_list list = {0};
    read_sample(0, false, &list, NULL);
    assert_int_equal(list.count, 1);
    const struct aorta_trace *trace = list.items[0];
    assert_int_equal(trace->work_count, 3);
    check_work(trace, 0, "gemm", 1100, 1150, "hipLaunchKernel");
    check_work(trace, 1, "ncclDevKernel_Generic", 1150, 1250, "hipExtLaunchKernel");
    check_work(trace, 2, "copy host to device", 1260, 1280, "hipMemcpyAsync");
    assert_int_equal(trace->work[2].bytes, 4096);
    assert_int_equal(trace->queues[trace->work[0].queue].id, 3);
    assert_true(aorta_trace_is_collective(&trace->work[1]));
    assert_int_equal(trace->collectives[trace->work[1].collective].kind, AORTA_ALL_REDUCE); /* by the call around it */
    assert_int_equal(trace->annotation_count, 1);
    assert_string_equal(aorta_trace_text(trace, trace->annotations[0].name), "train_step");
    aorta_trace_list_free(&list);
}

static void a_break_is_said(void **state) {
    (void)state;
    struct aorta_text bytes = {0};
    struct aorta_trace_list list = {0};
    make_pftrace(&bytes);
    const size_t cut = bytes.length - 40; /* in the last kernel */
    aorta_text_free(&bytes);
    read_sample(cut, false, &list, "or the file ends in the middle");
    read_sample(cut, true, &list, NULL);
    assert_int_equal(list.items[0]->work_count, 2);
    assert_int_equal(list.items[0]->warnings[AORTA_REASON_TRUNCATED].count, 1);
    aorta_trace_list_free(&list);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_it_is_read),
        cmocka_unit_test(a_break_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
