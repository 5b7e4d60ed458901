/* Kineto's layout: figures of real traces (tests/trace/cut.py), and everything that files of other versions do
 * differently. */
#include "base/files.h"
#include "base/interval.h"
#include "check.h"
#include "samples/dump.h"
#include "trace/open.h"

#include <limits.h>
#include <stdlib.h>

/* ---- cut from real files ---- */

struct figures {
    const char *name;
    int64_t events, work, compute_ns, comm_ns, overlap_ns, busy_ns, first_ns, last_ns;
    int64_t no_launch, no_work; /* cut off */
    int rank;
};
static const struct figures files[] = {
    {"fsdp2_rank0", 94, 24, 123903, 104481, 0, 235297, 4354026636839332, 4354026640865528, 0, 1, 0},
    {"fsdp2_rank1", 101, 24, 168836, 13597678, 123812, 13642702, 4354026424773956, 4354026439353171, 0, 0, 1},
    {"h100_qwen", 85, 24, 702176, 0, 0, 703744, 1428625748049536, 1428625748780156, 0, 1, -1},
    {"mi250_minitoy", 43, 10, 61440, 0, 0, 99601, 4203669603454206, 4203669604892774, 0, 0, -1},
    {"mi300_resnet", 52, 12, 36877, 20598, 239, 82991, 3743411252908790, 3743411253010589, 2, 0, 0},
};
enum { FILES = sizeof files / sizeof *files };

static void load(const char *name, char **bytes, size_t *length) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s.json", TEST_DATA, name);
    check_ok(aorta_file_read(path, bytes, length));
}

static struct aorta_trace *open_file(const char *name) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s.json", TEST_DATA, name);
    struct aorta_trace_list list = {0};
    check_ok(aorta_trace_open(path, NULL, &list));
    assert_int_equal(list.count, 1);
    struct aorta_trace *trace = list.items[0];
    free(list.items);
    return trace;
}

static void add(struct aorta_intervals *set, const struct aorta_trace_work *work) {
    aorta_intervals_add(set, work->start_ns, work->end_ns);
}

static void figures_are_exact(void **state) {
    (void)state;
    for (size_t f = 0; f < FILES; f++) {
        struct aorta_trace *trace = open_file(files[f].name);
        struct aorta_intervals compute = {0}, comm = {0}, busy = {0}, overlap = {0};
        for (size_t i = 0; i < trace->work_count; i++) {
            const struct aorta_trace_work *work = &trace->work[i];
            add(&busy, work);
            if (work->kind == AORTA_TRACE_KERNEL) add(aorta_trace_is_collective(work) ? &comm : &compute, work);
        }
        aorta_intervals_normalise(&compute);
        aorta_intervals_normalise(&comm);
        aorta_intervals_intersect(&compute, &comm, &overlap);
        assert_int_equal(trace->events, files[f].events);
        assert_int_equal(trace->work_count, files[f].work);
        assert_int_equal(trace->rank, files[f].rank);
        assert_int_equal(aorta_intervals_length(&compute), files[f].compute_ns);
        assert_int_equal(aorta_intervals_length(&comm), files[f].comm_ns);
        assert_int_equal(aorta_intervals_length(&overlap), files[f].overlap_ns);
        assert_int_equal(aorta_intervals_length(&busy), files[f].busy_ns);
        assert_int_equal(busy.items[0].start_ns, files[f].first_ns);
        assert_int_equal(busy.items[busy.count - 1].end_ns, files[f].last_ns);
        for (int reason = 0; reason < AORTA_REASON_COUNT; reason++)
            assert_int_equal(trace->warnings[reason].count, reason == AORTA_REASON_NO_LAUNCH ? files[f].no_launch
                                                            : reason == AORTA_REASON_NO_WORK ? files[f].no_work
                                                                                             : 0);
        aorta_intervals_free(&compute);
        aorta_intervals_free(&comm);
        aorta_intervals_free(&busy);
        aorta_intervals_free(&overlap);
        aorta_trace_free(trace);
    }
}

static const struct aorta_trace_work *find_work(const struct aorta_trace *trace, const char *part) {
    for (size_t i = 0; i < trace->work_count; i++)
        if (strstr(aorta_trace_text(trace, trace->work[i].name), part)) return &trace->work[i];
    fail_msg("no work is called %s", part);
    return NULL;
}

static void collectives_have_their_facts(void **state) {
    (void)state;
    struct aorta_trace *trace = open_file("fsdp2_rank0");
    const struct aorta_trace_work *work = find_work(trace, "ReduceScatter");
    assert_int_not_equal(work->collective, AORTA_TRACE_NONE);
    const struct aorta_trace_collective *c = &trace->collectives[work->collective];
    assert_string_equal(aorta_trace_text(trace, c->name), "_reduce_scatter_base");
    assert_string_equal(aorta_trace_text(trace, c->dtype), "Float");
    assert_true(c->named);
    assert_int_equal(c->kind, AORTA_REDUCE_SCATTER);
    assert_int_equal(c->in_elements, 5513984);
    assert_int_equal(c->out_elements, 2756992);
    assert_int_equal(c->bytes, 4 * 5513984);
    assert_int_equal(c->group_size, 2);
    assert_int_equal(c->sequence, -1);
    assert_string_equal(aorta_trace_text(trace, trace->annotations[c->annotation].name),
                        "FSDP::post_backward_reduce (encoder.layers.7)");
    const struct aorta_trace_group *group = &trace->groups[c->group];
    assert_string_equal(aorta_trace_text(trace, group->description), "default_pg");
    assert_int_equal(group->rank_count, 2);
    assert_int_equal(group->ranks[1], 1);
    assert_int_equal(trace->calls[work->call].kind, AORTA_CALL_LAUNCH);
    assert_string_equal(aorta_trace_text(trace, trace->backend), "nccl");
    assert_int_equal(trace->world, 2);
    assert_int_equal(trace->devices[1].multiprocessors, 132);
    assert_int_equal(trace->base_ns, 1790857026000000000);
    aorta_trace_free(trace);
}

static void products_have_their_shapes(void **state) {
    (void)state;
    struct aorta_trace *trace = open_file("fsdp2_rank0");
    const struct aorta_trace_work *work = find_work(trace, "nvjet_sm90_tst_128x128_64x6_2x4_h_bz_NTT");
    const struct aorta_trace_shape *shape = &trace->shapes[work->shape];
    assert_string_equal(aorta_trace_text(trace, shape->op), "aten::mm");
    assert_string_equal(aorta_trace_text(trace, shape->dims), "[[2304, 512], [512, 768]]");
    assert_int_equal(shape->product.m, 2304);
    assert_int_equal(shape->product.k, 512);
    assert_int_equal(shape->product.n, 768);
    aorta_trace_free(trace);
}

/* The forward pass runs on thread 1, autograd on thread 2:
 *
 *     thread 1   [attention      [matmul #7        [bmm       launch 1] ] ]
 *     thread 2   [evaluate #7    [BmmBackward #7   [bmm       launch 2] ] ] */
static void operations_are_nested(void **state) {
    (void)state;
    static const char op[] =
        "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"%s\",\"pid\":1,\"tid\":%d,\"ts\":%d,\"dur\":%d,"
        "\"args\":{%s}},";
    static const char call[] =
        "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":1,\"tid\":%d,"
        "\"ts\":%d,\"dur\":1,\"args\":{\"correlation\":%d}},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"gemm\",\"pid\":0,\"tid\":7,\"ts\":%d,\"dur\":5,"
        "\"args\":{\"device\":0,\"stream\":7,\"correlation\":%d}},";
    static const char bmm[] = "\"Input Dims\": [[4, 8, 8], [4, 8, 8]], \"Input type\": [\"float\", \"float\"], "
                              "\"Input Strides\": [[64, 8, 1], [64, 1, 8]], \"Concrete Inputs\": [\"\", \"\"]";
    struct aorta_text text = {0};
    aorta_text_puts(&text, "[");
    aorta_text_printf(&text, op, "aten::matmul", 1, 10, 40, "\"Sequence number\": 7, \"Fwd thread id\": 0");
    aorta_text_printf(&text, op, "aten::bmm", 1, 20, 20, bmm);
    aorta_text_printf(&text, op, "evaluate", 2, 100, 50, "\"Sequence number\": 7, \"Fwd thread id\": 1");
    aorta_text_printf(&text, op, "aten::bmm", 2, 120, 20, bmm);
    aorta_text_printf(&text, call, 1, 25, 1, 60, 1);
    aorta_text_printf(&text, call, 2, 125, 2, 160, 2);
    aorta_text_puts(&text,
                    "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"attention\",\"pid\":1,\"tid\":1,\"ts\":5,"
                    "\"dur\":50}]");
    struct aorta_trace *trace = read_text(text.data);
    aorta_text_free(&text);
    assert_int_equal(trace->operation_count, 5);
    const struct aorta_trace_operation *first = &trace->operations[trace->work[0].operation];
    const struct aorta_trace_operation *second = &trace->operations[trace->work[1].operation];
    assert_string_equal(aorta_trace_text(trace, first->name), "aten::bmm");
    assert_int_equal(first->sequence, -1);
    assert_int_equal(first->inputs, second->inputs);
    const struct aorta_trace_inputs *inputs = &trace->inputs[first->inputs];
    assert_string_equal(aorta_trace_text(trace, inputs->dims), "[[4, 8, 8], [4, 8, 8]]");
    assert_string_equal(aorta_trace_text(trace, inputs->strides), "[[64, 8, 1], [64, 1, 8]]");
    assert_int_equal(inputs->values, AORTA_TRACE_NONE);
    const struct aorta_trace_operation *forward = &trace->operations[first->parent];
    const struct aorta_trace_operation *backward = &trace->operations[second->parent];
    assert_string_equal(aorta_trace_text(trace, forward->name), "aten::matmul");
    assert_true(forward->sequence == 7 && !forward->gradient);
    assert_true(backward->sequence == 7 && backward->gradient);
    assert_true(trace->operations[forward->parent].range);
    assert_int_equal(trace->operations[forward->parent].parent, AORTA_TRACE_NONE);
    aorta_trace_free(trace);
}

static void rocm_streams_are_queues(void **state) {
    (void)state;
    struct aorta_trace *trace = open_file("mi300_resnet");
    for (size_t i = 0; i < trace->work_count; i++) {
        assert_int_not_equal(trace->work[i].queue, AORTA_TRACE_NONE);
        assert_int_equal(trace->queues[trace->work[i].queue].id, trace->streams[trace->work[i].stream].id);
        assert_int_equal(trace->work[i].device, 2);
    }
    aorta_trace_free(trace);
}

/* ---- pieces, cuts, breaks ---- */

static void pieces_give_the_same_trace(void **state) {
    (void)state;
    static const size_t pieces[] = {1, 7, 64, 1000, 4096};
    for (size_t f = 0; f < FILES; f++) {
        char *bytes;
        size_t length;
        load(files[f].name, &bytes, &length);
        struct aorta_text whole = {0}, cut = {0};
        for (size_t p = 0; p <= sizeof pieces / sizeof *pieces; p++) {
            struct aorta_trace_list list = {0};
            check_ok(read_memory(bytes, length, p ? pieces[p - 1] : 0, false, &list));
            aorta_text_clear(&cut);
            dump_trace(list.items[0], p ? &cut : &whole);
            if (p) assert_string_equal(whole.data, cut.data);
            aorta_trace_list_free(&list);
        }
        aorta_text_free(&whole);
        aorta_text_free(&cut);
        free(bytes);
    }
}

static void every_prefix_fails_or_recovers(void **state) {
    (void)state;
    char *bytes;
    size_t length;
    load("mi250_minitoy", &bytes, &length);
    const char *first = strstr(bytes, "\"traceEvents\": [");
    size_t begin = (size_t)(first - bytes) + strlen("\"traceEvents\": [");
    int64_t before = 0;
    for (size_t cut = 0; cut < length - 2; cut += 5) {
        char *prefix = malloc(cut + 1); /* of its own, so that reading past it shows */
        memcpy(prefix, bytes, cut);
        struct aorta_trace_list list = {0};
        check_fails(read_memory(prefix, cut, 0, false, &list), AORTA_FORMAT, "byte");
        assert_int_equal(list.count, 0);
        aorta_status status = read_memory(prefix, cut, 0, true, &list);
        if ((status == NULL) != (cut >= begin))
            fail_msg("%d of %d: %s", (int)cut, (int)begin, aorta_status_message(status));
        aorta_status_free(status);
        if (!status) {
            assert_int_equal(list.items[0]->warnings[AORTA_REASON_TRUNCATED].count, 1);
            assert_in_range(list.items[0]->warnings[AORTA_REASON_TRUNCATED].offset, 0, cut);
            assert_in_range(list.items[0]->events, before, 43);
            before = list.items[0]->events;
        }
        aorta_trace_list_free(&list);
        free(prefix);
    }
    assert_int_equal(before, 43);
    free(bytes);
}

static void a_break_is_placed_and_recovered(void **state) {
    (void)state;
    static const char text[] = "{\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"a\",\"ts\":1,\"dur\":2,"
                               "\"args\":{\"stream\":7,\"correlation\":1}},\n{\"ph\":\"X\",\"cat\" \"kernel\"},{}]}";
    struct aorta_trace_list list = {0};
    check_fails(read_memory(text, sizeof text - 1, 0, false, &list), AORTA_FORMAT,
                "malformed at byte 115, in the event that begins at byte 105");
    check_ok(read_memory(text, sizeof text - 1, 0, true, &list));
    assert_int_equal(list.items[0]->work_count, 1);
    assert_int_equal(list.items[0]->warnings[AORTA_REASON_MALFORMED].count, 1);
    assert_int_equal(list.items[0]->warnings[AORTA_REASON_MALFORMED].offset, 105);
    aorta_trace_list_free(&list);
}

static void what_is_no_trace_is_said(void **state) {
    (void)state;
    struct aorta_trace_list list = {0};
    check_fails(read_memory("{\"a\":1}", 7, 0, true, &list), AORTA_USAGE, "is JSON, but no trace");
    check_fails(aorta_trace_open("/nowhere/file.json", NULL, &list), AORTA_IO, "/nowhere/file.json");
    check_fails(aorta_trace_open("/tmp", NULL, &list), AORTA_IO, "directory");
    check_fails(aorta_trace_open("/dev/null", NULL, &list), AORTA_USAGE, "is empty");
    check_fails(aorta_trace_open(TEST_DATA "/../CMakeLists.txt", NULL, &list), AORTA_USAGE, "is no trace");
    assert_int_equal(list.count, 0);
    aorta_trace_list_free(&list);
}

static void several_files_keep_their_order(void **state) {
    (void)state;
    char paths[FILES + 1][PATH_MAX];
    const char *list_of_paths[FILES + 1];
    for (size_t f = 0; f < FILES; f++) {
        snprintf(paths[f], sizeof paths[f], "%s/%s.json", TEST_DATA, files[f].name);
        list_of_paths[f] = paths[f];
    }
    struct aorta_trace_list list = {0};
    check_ok(aorta_trace_open_many(list_of_paths, FILES, NULL, &list));
    assert_int_equal(list.count, FILES);
    for (size_t f = 0; f < FILES; f++) assert_string_equal(list.items[f]->path, paths[f]);
    list_of_paths[FILES] = "/nowhere/at/all";
    check_fails(aorta_trace_open_many(list_of_paths, FILES + 1, NULL, &list), AORTA_IO, "/nowhere/at/all");
    assert_int_equal(list.count, FILES);
    aorta_trace_list_free(&list);
}

/* ---- what other files do differently ---- */

static void order_and_unknown_fields_do_not_matter(void **state) {
    (void)state;
    static const char plain[] =
        "{\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k<(int)1>\",\"pid\":0,\"tid\":7,\"ts\":5.001,"
        "\"dur\":2.5,"
        "\"args\":{\"device\":0,\"context\":1,\"stream\":7,\"correlation\":9}},"
        "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":4,\"tid\":5,\"ts\":1,\"dur\":1,"
        "\"args\":{\"correlation\":9}}]}";
    static const char odd[] =
        "{\"x\":[{\"]\":\"\\\"}\"}],\"traceEvents\":[ { "
        "\"new\":{\"args\":{\"stream\":3}},\"args\":{\"later\":[1,{\"device\":9}],"
        "\"correlation\":\"0x9\",\"stream\":7,\"context\":1,\"device\":0,\"note\":null},\"tid\":7,\"dur\":2.5,"
        "\"pid\":0,\"name\":\"\\u006b<(int)1>\",\"id\":184467440737095516150,\"ts\":\"5.001\",\"cat\":\"kernel\","
        "\"ph\":\"X\"},"
        "\n\t{\"dur\":1,\"ts\":1,\"tid\":5,\"args\":{\"correlation\":9.0},\"pid\":4,\"name\":\"cudaLaunchKernel\","
        "\"cat\":\"cuda_runtime\",\"ph\":\"X\"}],\"z\":-1e400}";
    struct aorta_trace *a = read_text(plain), *b = read_text(odd);
    for (size_t i = 0; i < AORTA_REASON_COUNT; i++) a->warnings[i].offset = b->warnings[i].offset = -1;
    struct aorta_text x = {0}, y = {0};
    dump_trace(a, &x);
    dump_trace(b, &y);
    assert_string_equal(x.data, y.data);
    assert_non_null(strstr(x.data, "work 5001 7501 -1 9 k<(int)1> 0 -1 0 -1 -1 0 0 0 0 \n"));
    aorta_text_free(&x);
    aorta_text_free(&y);
    aorta_trace_free(a);
    aorta_trace_free(b);
}

/* Wraps one event's fields and arguments as device work. */
static struct aorta_trace *read_event(const char *fields, const char *args) {
    struct aorta_text text = {0};
    aorta_text_printf(&text, "{\"traceEvents\":[{\"ph\":\"X\",%s,\"args\":{%s}}]}", fields, args);
    struct aorta_trace *trace = read_text(text.data);
    aorta_text_free(&text);
    return trace;
}

static void old_layouts(void **state) {
    (void)state;
    struct aorta_trace *t = read_event("\"cat\":\"Kernel\",\"name\":\"ncclKernel_AllReduce\",\"pid\":1,\"tid\":"
                                       "\"stream 20\",\"ts\":1600000000000000,\"dur\":7",
                                       "\"queued\":0,\"external id\":3");
    assert_int_equal(t->work[0].start_ns, 1600000000000000000);
    assert_int_equal(t->base_ns, 0); /* since 1970 already */
    assert_int_equal(t->streams[t->work[0].stream].id, 20);
    assert_int_equal(t->work[0].device, 1);
    assert_true(aorta_trace_is_collective(&t->work[0]));
    assert_int_equal(t->warnings[AORTA_REASON_NO_CORRELATION].count, 1);
    assert_int_equal(t->warnings[AORTA_REASON_NO_COLLECTIVE].count, 1);
    aorta_trace_free(t);
    t = read_event("\"cat\":\"Memcpy\",\"name\":\"Memcpy HtoD\",\"pid\":0,\"tid\":\"?\",\"ts\":1,\"dur\":7",
                   "\"bytes\":64");
    assert_int_equal(t->work[0].kind, AORTA_TRACE_COPY);
    assert_int_equal(t->work[0].bytes, 64);
    assert_int_equal(t->warnings[AORTA_REASON_NO_STREAM].count, 1);
    aorta_trace_free(t);
    t = read_text(
        "[{\"ph\":\"X\",\"cat\":\"Operator\",\"name\":\"ProfilerStep#5\",\"pid\":1,\"tid\":\"1\",\"ts\":0,\"dur\":9},"
        "{\"ph\":\"X\",\"cat\":\"Operator\",\"name\":\"enumerate(DataLoader)#x.__next__\",\"pid\":1,\"tid\":\"1\","
        "\"ts\":1,\"dur\":2},"
        "{\"ph\":\"X\",\"cat\":\"Operator\",\"name\":\"aten::add\",\"pid\":1,\"tid\":\"1\",\"ts\":4,\"dur\":1},"
        "{\"ph\":\"X\",\"cat\":\"Kernel\",\"name\":\"k\",\"pid\":0,\"tid\":\"stream 7\",\"ts\":5,\"dur\":1}]");
    assert_int_equal(t->step_count, 1);
    assert_int_equal(t->steps[0].number, 5);
    assert_int_equal(t->call_count, 1);
    assert_int_equal(t->calls[0].kind, AORTA_CALL_DATA_WAIT);
    assert_int_equal(t->operation_count, 2); /* the loader's range is one, too */
    aorta_trace_free(t);
}

static void hardware_queues(void **state) {
    (void)state;
    static const char fields[] = "\"cat\":\"kernel\",\"name\":\"k\",\"ts\":1,\"dur\":7";
    struct aorta_trace *t =
        read_event(fields, "\"device\":3,\"stream\":5,\"hsa_queue\":\"0x11\",\"kind\":\"Dispatch Kernel\"");
    assert_int_equal(t->queues[t->work[0].queue].id, 17);
    assert_int_equal(t->queues[t->work[0].queue].device, 3);
    aorta_trace_free(t);
    t = read_event(fields, "\"device\":0,\"stream\":5,\"channel\":12,\"channel_type\":\"compute\"");
    assert_int_equal(t->queues[t->work[0].queue].id, 12);
    assert_string_equal(aorta_trace_text(t, t->queues[t->work[0].queue].type), "compute");
    aorta_trace_free(t);
    t = read_event(fields, "\"device\":0,\"stream\":5");
    assert_int_equal(t->work[0].queue, AORTA_TRACE_NONE);
    aorta_trace_free(t);
}

/* All kernels of RCCL have one name. */
static void sends_are_known_by_their_facts(void **state) {
    (void)state;
    struct aorta_trace *t =
        read_event("\"cat\":\"kernel\",\"name\":\"ncclDevKernel_Generic_4\",\"ts\":1,\"dur\":1",
                   "\"stream\":1,\"correlation\":1,\"Collective name\":\"recv\",\"In msg nelems\":10");
    assert_int_equal(t->collectives[t->work[0].collective].kind, AORTA_ALL_TO_ALL);
    aorta_trace_free(t);
}

static void huge_and_cut_values(void **state) {
    (void)state;
    struct aorta_trace *t = read_event(
        "\"cat\":\"kernel\",\"name\":\"ncclDevKernel_Generic\",\"ts\":1,\"dur\":1",
        "\"stream\":1,\"correlation\":1,\"Collective name\":\"all_to_allv\",\"In msg nelems\":10,\"Out msg nelems\":12,"
        "\"dtype\":\"BFloat16\",\"Group size\":64,\"Process Group Name\":\"3\",\"Process Group Ranks\":\"[0, 1, ..., "
        "63]\","
        "\"Seq\":41,\"Comms Id\":17890412345678901234567,\"grid\":[24,2,1],\"bytes\":99999999999999999999");
    const struct aorta_trace_collective *c = &t->collectives[t->work[0].collective];
    assert_string_equal(aorta_trace_text(t, c->communicator), "17890412345678901234567");
    assert_int_equal(c->kind, AORTA_ALL_TO_ALL);
    assert_int_equal(c->bytes, 24);
    assert_int_equal(c->blocks, 48);
    assert_int_equal(c->sequence, 41);
    assert_null(t->groups[c->group].ranks);
    assert_int_equal(t->groups[c->group].size, 64);
    assert_int_equal(t->work[0].bytes, -1);
    assert_int_equal(t->warnings[AORTA_REASON_ODD_VALUE].count, 1);
    aorta_trace_free(t);
}

static void odd_work_is_counted(void **state) {
    (void)state;
    struct aorta_trace *t =
        read_text("[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"negative\",\"ts\":9,\"dur\":-2,\"args\":{\"stream\":1,"
                  "\"correlation\":1}},"
                  "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"endless\",\"ts\":9,\"args\":{\"stream\":1}},"
                  "{\"ph\":\"X\",\"cat\":\"kernel\",\"ts\":9,\"dur\":1},{\"ph\":\"B\",\"cat\":\"kernel\",\"name\":"
                  "\"half\",\"ts\":9},"
                  "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"late\",\"ts\":1e30,\"dur\":1},"
                  "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"same\",\"ts\":20,\"dur\":5,\"args\":{\"stream\":1,"
                  "\"correlation\":2}},"
                  "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"same\",\"ts\":20,\"dur\":5,\"args\":{\"stream\":1,"
                  "\"correlation\":2}},"
                  "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"inside\",\"ts\":21,\"dur\":1,\"args\":{\"stream\":1,"
                  "\"correlation\":3}},"
                  "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"ts\":22,\"dur\":1,\"args\":{"
                  "\"correlation\":3}},"
                  "{\"ph\":\"X\",\"cat\":\"gpu_something\",\"name\":\"?\",\"ts\":22,\"dur\":1},"
                  "{\"ph\":\"i\",\"cat\":\"kernel\",\"name\":\"mark\",\"ts\":22}, 7, \"text\", null, []]");
    assert_int_equal(t->events, 15);
    assert_int_equal(t->work_count, 3);
    static const struct {
        enum aorta_trace_reason reason;
        int64_t count;
    } rows[] = {{AORTA_REASON_NEGATIVE_DURATION, 1}, {AORTA_REASON_BAD_EVENT, 4},
                {AORTA_REASON_DUPLICATE, 1},         {AORTA_REASON_SAME_STREAM_OVERLAP, 1},
                {AORTA_REASON_UNKNOWN_CATEGORY, 1},  {AORTA_REASON_ZERO_DURATION, 1},
                {AORTA_REASON_LAUNCH_AFTER_START, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (t->warnings[rows[i].reason].count != rows[i].count)
            fail_msg("%s: %d", aorta_trace_reason_key(rows[i].reason), (int)t->warnings[rows[i].reason].count);
        assert_true(strlen(aorta_trace_warning_text(t, rows[i].reason)) > 20);
        assert_true(t->warnings[rows[i].reason].offset > 0);
    }
    aorta_trace_free(t);
}

/* Differences of times that no clock shows would not fit: such work is left out, and the first one is named. */
static void times_that_cannot_be(void **state) {
    (void)state;
    static const char text[] =
        "[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"sound\",\"ts\":1.6e15,\"dur\":1},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"before\",\"ts\":-9e15,\"dur\":1},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"after\",\"ts\":9e15,\"dur\":1},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"endless\",\"ts\":5,\"dur\":9e15},"
        "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaDeviceSynchronize\",\"ts\":-9e15,\"dur\":1}]";
    struct aorta_trace *t = read_text(text);
    assert_int_equal(t->work_count, 1);
    assert_int_equal(t->call_count, 0);
    assert_int_equal(t->warnings[AORTA_REASON_BAD_EVENT].count, 3);
    assert_int_equal(t->warnings[AORTA_REASON_BAD_EVENT].offset, strstr(text, "},{") + 2 - text);
    assert_int_equal(t->warnings[AORTA_REASON_ODD_VALUE].count, 1);
    aorta_trace_free(t);
}

static void host_side(void **state) {
    (void)state;
    struct aorta_trace *t = read_text(
        "[{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#12\",\"pid\":1,\"tid\":1,\"ts\":0,\"dur\":"
        "100},"
        "{\"ph\":\"X\",\"cat\":\"gpu_user_annotation\",\"name\":\"ProfilerStep#12\",\"pid\":0,\"tid\":7,\"ts\":10,"
        "\"dur\":10},"
        "{\"ph\":\"X\",\"cat\":\"gpu_user_annotation\",\"name\":\"ProfilerStep#12\",\"pid\":0,\"tid\":9,\"ts\":5,"
        "\"dur\":10},"
        "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"enumerate(DataLoader)#_SingleProcessDataLoaderIter.__"
        "next__\","
        "\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":2},"
        "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"outer\",\"pid\":1,\"tid\":1,\"ts\":20,\"dur\":30},"
        "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"FSDP::all_gather "
        "(layers.3)\",\"pid\":1,\"tid\":1,\"ts\":21,\"dur\":9},"
        "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"record_param_comms\",\"pid\":1,\"tid\":1,\"ts\":22,\"dur\":6,"
        "\"args\":{"
        "\"Collective name\":\"_allgather_base\",\"In msg nelems\":5,\"Out msg nelems\":10,\"dtype\":\"Half\",\"Group "
        "size\":2}},"
        "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"nccl:_all_gather_base\",\"pid\":1,\"tid\":1,\"ts\":22.5,"
        "\"dur\":4},"
        "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernelExC_v11060\",\"pid\":1,\"tid\":1,\"ts\":23,"
        "\"dur\":1,"
        "\"args\":{\"correlation\":5}},"
        "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaEventQuery\",\"pid\":1,\"tid\":1,\"ts\":24,\"dur\":1,"
        "\"args\":{\"correlation\":6}},"
        "{\"ph\":\"X\",\"cat\":\"cuda_driver\",\"name\":\"cuNewSortOfLaunch\",\"pid\":1,\"tid\":2,\"ts\":25,\"dur\":1,"
        "\"args\":{\"correlation\":7}},"
        "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaGraphLaunch\",\"pid\":1,\"tid\":1,\"ts\":26,\"dur\":1,"
        "\"args\":{\"correlation\":8}},"
        "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaDeviceSynchronize\",\"pid\":1,\"tid\":1,\"ts\":90,"
        "\"dur\":5},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclDevKernel_AllGather_RING_LL\",\"ts\":30,\"dur\":5,\"args\":{"
        "\"stream\":2,\"correlation\":5}},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"x\",\"ts\":31,\"dur\":5,\"args\":{\"stream\":3,\"correlation\":7}}"
        ","
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"y\",\"ts\":37,\"dur\":5,\"args\":{\"stream\":3,\"correlation\":8}}"
        ","
        "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":2,\"args\":{\"name\":\"thread 2 (\\\"auto\\\")\"}}]");
    assert_int_equal(t->step_count, 1);
    assert_int_equal(t->steps[0].number, 12);
    assert_int_equal(t->steps[0].end_ns, 100000);
    assert_int_equal(t->steps[0].device_start_ns, 5000);
    assert_int_equal(t->steps[0].device_end_ns, 20000);
    const struct aorta_trace_collective *c = &t->collectives[t->work[0].collective];
    assert_int_equal(c->bytes, 20);
    assert_string_equal(aorta_trace_text(t, t->annotations[c->annotation].name), "FSDP::all_gather (layers.3)");
    static const struct {
        const char *name;
        enum aorta_trace_call_kind kind;
    } calls[] = {{"enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", AORTA_CALL_DATA_WAIT},
                 {"cudaLaunchKernelExC_v11060", AORTA_CALL_LAUNCH},
                 {"cuNewSortOfLaunch", AORTA_CALL_OTHER},
                 {"cudaGraphLaunch", AORTA_CALL_GRAPH_LAUNCH},
                 {"cudaDeviceSynchronize", AORTA_CALL_SYNC}};
    assert_int_equal(t->call_count, sizeof calls / sizeof *calls);
    for (size_t i = 0; i < t->call_count; i++) {
        assert_string_equal(aorta_trace_text(t, t->calls[i].name), calls[i].name);
        assert_int_equal(t->calls[i].kind, calls[i].kind);
    }
    assert_false(t->work[1].graph);
    assert_true(t->work[2].graph);
    assert_int_equal(t->work[1].call, 2);
    assert_string_equal(aorta_trace_text(t, t->threads[t->calls[2].thread].name), "thread 2 (\"auto\")");
    aorta_trace_free(t);
}

/* Events that were stamped on the host in addition to operations. */
static void host_frames(void **state) {
    (void)state;
    struct aorta_trace *t = read_text(
        "[{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#1\",\"pid\":1,\"tid\":4,\"ts\":0,\"dur\":9}"
        ","
        "{\"ph\":\"X\",\"cat\":\"python_function\",\"name\":\"torch/nn/modules/module.py(1): "
        "_call_impl\",\"pid\":1,\"tid\":4,\"ts\":1,\"dur\":7},"
        "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::t\",\"pid\":1,\"tid\":4,\"ts\":2,\"dur\":0.5},"
        "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaGetDevice\",\"pid\":1,\"tid\":4,\"ts\":3,\"dur\":1},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":5,\"dur\":1,\"args\":{\"stream\":7}}]");
    static const struct {
        int64_t start_ns, end_ns;
        enum aorta_trace_frame_kind kind;
    } frames[] = {{0, 9000, AORTA_FRAME_RANGE}, {1000, 8000, AORTA_FRAME_FUNCTION}, {3000, 4000, AORTA_FRAME_CALL}};
    assert_int_equal(t->frame_count, sizeof frames / sizeof *frames);
    for (size_t i = 0; i < t->frame_count; i++) {
        assert_int_equal(t->frames[i].start_ns, frames[i].start_ns);
        assert_int_equal(t->frames[i].end_ns, frames[i].end_ns);
        assert_int_equal(t->frames[i].kind, frames[i].kind);
        assert_int_equal(t->threads[t->frames[i].thread].id, 4);
    }
    assert_int_equal(t->frames[1].name, AORTA_TRACE_NONE);
    assert_int_equal(t->operation_count, 1);
    assert_int_equal(t->call_count, 0);
    aorta_trace_free(t);
}

static void users_patterns_count(void **state) {
    (void)state;
    struct aorta_kernel_patterns *patterns = NULL;
    check_ok(aorta_kernel_patterns_add(&patterns, "^my_reduce"));
    const struct aorta_trace_options options = {.patterns = patterns};
    char path[] = "/tmp/aorta_trace_pattern_XXXXXX";
    int file = mkstemp(path);
    FILE *out = fdopen(file, "w");
    fputs("[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"my_reduce_3\",\"ts\":1,\"dur\":1,\"args\":{\"stream\":1}}]",
          out);
    fclose(out);
    struct aorta_trace_list list = {0};
    check_ok(aorta_trace_open(path, &options, &list));
    check_ok(aorta_trace_open(path, NULL, &list));
    assert_true(aorta_trace_is_collective(&list.items[0]->work[0]));
    assert_false(aorta_trace_is_collective(&list.items[1]->work[0]));
    aorta_trace_list_free(&list);
    aorta_kernel_patterns_free(patterns);
    remove(path);
}

/* symm_mem::multimem_all_reduce_ around its launch, and no record_param_comms: 1000 elements of two bytes. The second
 * kernel's operation has no tensor, the third none at all.
 *
 *   op    [ [1000] bf16    ]  [ [] ]
 *   calls    1                  2     3
 */
static void sizes_of_the_launching_operation(void **state) {
    (void)state;
#define LAUNCH(ts, number)                                                                                             \
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":1,\"tid\":1,\"ts\":" #ts             \
    ",\"dur\":1,\"args\":{\"correlation\":" #number "}},"                                                              \
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"multimem_all_reduce_kernel\",\"ts\":3" #ts                            \
    ",\"dur\":2,\"args\":{\"stream\":3,\"correlation\":" #number "}}"
#define OPERATION(ts, dims, types)                                                                                     \
    "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"symm_mem::multimem_all_reduce_\",\"pid\":1,\"tid\":1,\"ts\":" #ts     \
    ",\"dur\":5,\"args\":{\"Input Dims\":" dims ",\"Input type\":" types "}},"
    struct aorta_trace *t = read_text("[" OPERATION(10, "[[1000], [], []]", "[\"c10::BFloat16\", \"\", \"\"]") LAUNCH(
        12, 1) "," OPERATION(20, "[[], []]", "[\"Scalar\", \"\"]") LAUNCH(22, 2) "," LAUNCH(32, 3) "]");
#undef LAUNCH
#undef OPERATION
    assert_int_equal(t->work_count, 3);
    assert_int_equal(t->collective_count, 1);
    const struct aorta_trace_collective *c = &t->collectives[t->work[0].collective];
    assert_int_equal(c->in_elements, 1000);
    assert_int_equal(c->bytes, 2000);
    assert_string_equal(aorta_trace_text(t, c->dtype), "BFloat16");
    assert_true(c->named && c->kind == AORTA_ALL_REDUCE);
    assert_int_equal(t->work[1].collective, AORTA_TRACE_NONE);
    assert_int_equal(t->warnings[AORTA_REASON_NO_COLLECTIVE].count, 2);
    aorta_trace_free(t);
}

static void put_event(struct aorta_text *text, const char *category, const char *name, int ts, const char *args) {
    aorta_text_printf(text,
                      "%s{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\",\"pid\":1,\"tid\":1,\"ts\":%d,\"dur\":8,"
                      "\"args\":{%s}}",
                      text->length ? "," : "[", category, name, ts, args);
}

/* PyTorch's files of the roctracer time: launches and work have "External id" alone; operations count in another
 * series.
 *
 *   operation   1 [4097]                 2 [512]
 *   calls          1 properties  2 launch    3 properties  4 launch   perhaps another launch
 *   GPU                              2 kernel                  4 kernel   a kernel */
static struct aorta_trace *read_roctracer(const char *args_of_last, const char *args_of_launch) {
    static const char properties[] = "hipGetDevicePropertiesR0600", launch[] = "hipExtModuleLaunchKernel";
    static const char dims[] = "\"External id\":%d,\"Input Dims\":[[%d,8],[8,8]],\"Input type\":[\"float\",\"float\"]";
    struct aorta_text text = {0};
    char args[128];
    for (int i = 0; i < 2; i++) {
        const char *const kernel = i ? "Cijk_B_PostGSU2" : "Cijk_Ailk_Bljk_SB_MT64x64x16_ISA942_IU1";
        snprintf(args, sizeof args, dims, i + 1, i ? 512 : 4097);
        put_event(&text, "cpu_op", "aten::mm", 100 * i, args);
        snprintf(args, sizeof args, "\"External id\":%d", 2 * i + 1);
        put_event(&text, "cuda_runtime", properties, 100 * i + 1, args);
        snprintf(args, sizeof args, "\"External id\":%d", 2 * i + 2);
        put_event(&text, "cuda_runtime", launch, 100 * i + 5, args);
        put_event(&text, "kernel", kernel, 100 * i + 20, args);
    }
    put_event(&text, "kernel", "k", 300, args_of_last);
    if (args_of_launch) put_event(&text, "cuda_runtime", launch, 200, args_of_launch);
    aorta_text_printf(&text, "]");
    struct aorta_trace *trace = read_text(text.data);
    aorta_text_free(&text);
    return trace;
}

static const char *dims_of(const struct aorta_trace *trace, size_t work) {
    const uint32_t shape = trace->work[work].shape;
    return shape == AORTA_TRACE_NONE ? "" : aorta_trace_text(trace, trace->shapes[shape].dims);
}

static void launches_of_roctracer(void **state) {
    (void)state;
    struct aorta_trace *t = read_roctracer("\"External id\":9", NULL);
    assert_int_equal(t->call_count, 2);
    assert_int_equal(t->work[0].call, 0);
    assert_int_equal(t->work[1].call, 1);
    assert_int_equal(t->work[2].call, AORTA_TRACE_NONE);
    assert_int_equal(t->warnings[AORTA_REASON_NO_CORRELATION].count, 1);
    assert_int_equal(t->warnings[AORTA_REASON_NO_WORK].count, 0);
    assert_string_equal(dims_of(t, 0), "[[4097,8],[8,8]]");
    assert_string_equal(dims_of(t, 1), "[[512,8],[8,8]]");
    assert_non_null(aorta_trace_device_of(t, 1));
    assert_string_equal(aorta_trace_text(t, aorta_trace_device_of(t, 1)->name), "gfx942");
    aorta_trace_free(t);
}

/* Where work has a correlation, or launches share a number, "External id" is the operation's. */
static void external_ids_of_operations(void **state) {
    (void)state;
    struct aorta_trace *const traces[] = {read_roctracer("\"correlation\":9", NULL),
                                          read_roctracer("\"External id\":4", "\"External id\":4")};
    for (size_t i = 0; i < 2; i++) {
        for (size_t j = 0; j < 3; j++) assert_int_equal(traces[i]->work[j].call, AORTA_TRACE_NONE);
        assert_string_equal(dims_of(traces[i], 0), "[[512,8],[8,8]]");
        assert_int_equal(traces[i]->coverage.launches, 0);
        aorta_trace_free(traces[i]);
    }
}

/* Meta's accelerator: its processing elements 10-30, a copy 20-25, a wait that is no work. */
static void work_of_mtia(void **state) {
    (void)state;
#define MTIA(name, ts, dur, args)                                                                                      \
    "{\"ph\":\"X\",\"cat\":\"mtia_ccp_events\",\"name\":\"" name "\",\"pid\":17,\"tid\":1,\"ts\":" #ts                 \
    ",\"dur\":" #dur ",\"args\":{" args "}}"
    struct aorta_trace *trace = read_text("{\"traceEvents\":[" MTIA("pe_exe", 10, 20, "\"stream\":112") "," MTIA(
        "dma_request", 20, 5, "\"stream\":105,\"direction\":\"DEVICE_TO_HOST\",\"size\":1024") "," //
                                          MTIA("event_wait", 1, 50, "\"stream\":108") "]}");
#undef MTIA
    assert_int_equal(trace->work_count, 2);
    assert_int_equal(trace->work[0].kind, AORTA_TRACE_KERNEL);
    assert_int_equal(trace->work[0].end_ns - trace->work[0].start_ns, 20000);
    assert_int_equal(trace->work[1].kind, AORTA_TRACE_COPY);
    assert_int_equal(trace->work[1].bytes, 1024);
    assert_string_equal(aorta_trace_text(trace, trace->work[1].name), "DEVICE_TO_HOST");
    assert_int_equal(trace->streams[trace->work[1].stream].id, 105);
    aorta_trace_free(trace);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_of_mtia),
        cmocka_unit_test(launches_of_roctracer),
        cmocka_unit_test(external_ids_of_operations),
        cmocka_unit_test(figures_are_exact),
        cmocka_unit_test(collectives_have_their_facts),
        cmocka_unit_test(products_have_their_shapes),
        cmocka_unit_test(operations_are_nested),
        cmocka_unit_test(rocm_streams_are_queues),
        cmocka_unit_test(pieces_give_the_same_trace),
        cmocka_unit_test(every_prefix_fails_or_recovers),
        cmocka_unit_test(a_break_is_placed_and_recovered),
        cmocka_unit_test(what_is_no_trace_is_said),
        cmocka_unit_test(several_files_keep_their_order),
        cmocka_unit_test(order_and_unknown_fields_do_not_matter),
        cmocka_unit_test(old_layouts),
        cmocka_unit_test(hardware_queues),
        cmocka_unit_test(sends_are_known_by_their_facts),
        cmocka_unit_test(huge_and_cut_values),
        cmocka_unit_test(odd_work_is_counted),
        cmocka_unit_test(times_that_cannot_be),
        cmocka_unit_test(host_side),
        cmocka_unit_test(host_frames),
        cmocka_unit_test(users_patterns_count),
        cmocka_unit_test(sizes_of_the_launching_operation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
