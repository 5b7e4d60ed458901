/* XLA's XSpace: the cut beginning of a run of JAX 0.11 on an H100, in the two files that its profiler writes
 * (cut_xla.py), and broken bytes.
 *
 *     jax.xplane.pb    /device:GPU:0  Stream #14(Memset,Compute), Stream #15(MemcpyH2D)    /host:CPU  threads
 *     jax.trace.json   the same, as events: all work, calls and ranges are equal to the ns */
#include "analysis/analysis.h"
#include "base/files.h"
#include "base/text.h"
#include "check.h"
#include "folder.h"
#include "trace/open.h"
#include "trace/proto.h"

#include <stdlib.h>
#include <unistd.h>

static struct aorta_trace *read_one(const char *path, bool recover) {
    const struct aorta_trace_options options = {.recover = recover};
    struct aorta_trace_list list = {0};
    check_ok(aorta_trace_open(path, &options, &list));
    assert_int_equal(list.count, 1);
    struct aorta_trace *trace = list.items[0];
    free(list.items);
    return trace;
}

static void same_text(const struct aorta_trace *a, uint32_t left, const struct aorta_trace *b, uint32_t right) {
    assert_string_equal(aorta_trace_text(a, left), aorta_trace_text(b, right));
}

static void check_work(const struct aorta_trace *space, const struct aorta_trace *json) {
    assert_int_equal(space->work_count, json->work_count);
    assert_int_equal(space->work_count, 34);
    for (size_t i = 0; i < space->work_count; i++) {
        const struct aorta_trace_work *a = &space->work[i], *b = &json->work[i];
        assert_int_equal(a->start_ns, b->start_ns);
        assert_int_equal(a->end_ns, b->end_ns);
        assert_int_equal(a->bytes, b->bytes);
        assert_int_equal(a->correlation, b->correlation);
        assert_int_equal(a->kind, b->kind);
        assert_int_equal(a->graph, b->graph);
        assert_int_equal(a->device, b->device);
        assert_int_equal(space->streams[a->stream].id, json->streams[b->stream].id);
        assert_int_equal(a->call == AORTA_TRACE_NONE, b->call == AORTA_TRACE_NONE);
        same_text(space, a->name, json, b->name);
        same_text(space, a->geometry, json, b->geometry);
    }
}

static void check_host(const struct aorta_trace *space, const struct aorta_trace *json) {
    assert_int_equal(space->call_count, json->call_count);
    assert_int_equal(space->call_count, 3);
    for (size_t i = 0; i < space->call_count; i++) {
        const struct aorta_trace_call *a = &space->calls[i], *b = &json->calls[i];
        assert_int_equal(a->start_ns, b->start_ns);
        assert_int_equal(a->end_ns, b->end_ns);
        assert_int_equal(a->correlation, b->correlation);
        same_text(space, a->name, json, b->name);
        same_text(space, space->threads[a->thread].name, json, json->threads[b->thread].name);
    }
    assert_int_equal(space->annotation_count, json->annotation_count);
    assert_true(space->annotation_count > 5);
    for (size_t i = 0; i < space->annotation_count; i++) {
        assert_int_equal(space->annotations[i].start_ns, json->annotations[i].start_ns);
        assert_int_equal(space->annotations[i].end_ns, json->annotations[i].end_ns);
    }
}

static void both_files_say_the_same(void **state) {
    (void)state;
    struct aorta_trace *space = read_one(TEST_DATA "/jax.xplane.pb", false),
                       *json = read_one(TEST_DATA "/jax.trace.json", false);
    assert_int_equal(space->format, AORTA_TRACE_XPLANE);
    assert_int_equal(json->format, AORTA_TRACE_XLA);
    check_work(space, json);
    check_host(space, json);
    /* What the JSON has not. */
    const struct aorta_trace_device *device = aorta_trace_device_of(space, 0);
    assert_non_null(device);
    assert_string_equal(aorta_trace_text(space, device->name), "NVIDIA H100 80GB HBM3");
    assert_int_equal(device->multiprocessors, 132);
    assert_int_equal(device->memory_bytes, 85017493504);
    assert_int_equal(space->base_ns, 1795528549049614928);
    aorta_trace_free(space);
    aorta_trace_free(json);
}

/* The JSON in the same folder is read in its place; alone the file is found. */
static void in_a_folder_it_yields_to_the_json(void **state) {
    (void)state;
    char folder[FOLDER_PATH], space[FOLDER_PATH + 16], json[FOLDER_PATH + 16], *bytes;
    const char *const input = folder;
    size_t length;
    folder_make(folder, "xplane");
    snprintf(space, sizeof space, "%s/vm.xplane.pb", folder);
    snprintf(json, sizeof json, "%s/vm.json", folder);
    check_ok(aorta_file_read(TEST_DATA "/jax.xplane.pb", &bytes, &length));
    check_ok(aorta_file_replace(space, bytes, length));
    free(bytes);
    for (int i = 0; i < 2; i++) {
        struct aorta_trace_list list = {0};
        check_ok(aorta_trace_open_inputs(&input, 1, NULL, &list));
        assert_int_equal(list.count, 1);
        assert_int_equal(list.items[0]->format, i ? AORTA_TRACE_XLA : AORTA_TRACE_XPLANE);
        aorta_trace_list_free(&list);
        check_ok(aorta_file_read(TEST_DATA "/jax.trace.json", &bytes, &length));
        check_ok(aorta_file_replace(json, bytes, length));
        free(bytes);
    }
    assert_int_equal(folder_remove(folder), 0);
}

/* Cut anywhere: an error with the place, or with recover what whole planes hold; never more than there was. */
static void cut_files_are_errors_or_recovered(void **state) {
    (void)state;
    char folder[FOLDER_PATH], path[FOLDER_PATH + 16], *bytes;
    size_t length, refused = 0;
    folder_make(folder, "xplane");
    snprintf(path, sizeof path, "%s/cut.xplane.pb", folder);
    check_ok(aorta_file_read(TEST_DATA "/jax.xplane.pb", &bytes, &length));
    for (size_t cut = 64; cut < length; cut += 997) {
        struct aorta_trace_list list = {0};
        check_ok(aorta_file_replace(path, bytes, cut));
        aorta_status status = aorta_trace_open(path, NULL, &list);
        refused += status != NULL;
        if (status) check_fails(status, AORTA_FORMAT, "the file ends in the middle");
        aorta_trace_list_free(&list);
        struct aorta_trace *trace = read_one(path, true);
        assert_true(trace->work_count <= 34);
        assert_int_equal(trace->warnings[AORTA_REASON_TRUNCATED].count, 1);
        aorta_trace_free(trace);
    }
    assert_true(refused > 10);
    free(bytes);
    assert_int_equal(folder_remove(folder), 0);
}

/* 08 96 01: field 1 is 150; 12 02 'h' 'i': field 2 is a text; 19 …: field 3 has eight bytes; 25 …: field 4 has four. */
static void fields_of_every_kind(void **state) {
    (void)state;
    static const char bytes[] = "\x08\x96\x01\x12\x02hi\x19\1\0\0\0\0\0\0\x80\x25\2\0\0\0";
    struct aorta_proto message = {bytes, bytes + sizeof bytes - 1};
    struct aorta_proto_field field;
    assert_true(aorta_proto_next(&message, &field));
    assert_int_equal(field.number, 1);
    assert_int_equal(field.value, 150);
    assert_true(aorta_proto_next(&message, &field));
    assert_memory_equal(field.bytes.at, "hi", 2);
    assert_true(aorta_proto_next(&message, &field));
    assert_true(field.value == 0x8000000000000001u);
    assert_true(aorta_proto_next(&message, &field));
    assert_int_equal(field.value, 2);
    assert_false(aorta_proto_next(&message, &field));
    assert_ptr_equal(message.at, message.end);
}

/* A text longer than the message, a number without end, a group, field 0. */
static void broken_fields_stop_where_they_begin(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t length;
    } broken[] = {
        {"\x12\x7fhi", 4}, {"\x08\xff", 2}, {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12},
        {"\x0b", 1},       {"\0\1", 2},
    };
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        struct aorta_proto message = {broken[i].bytes, broken[i].bytes + broken[i].length};
        struct aorta_proto_field field;
        assert_false(aorta_proto_next(&message, &field));
        assert_ptr_equal(message.at, broken[i].bytes);
    }
}

/* ---- TensorFlow ---- */

static void put_varint(struct aorta_text *out, uint64_t value) {
    for (; value > 0x7f; value >>= 7) aorta_text_append(out, &(char){(char)(0x80 | (value & 0x7f))}, 1);
    aorta_text_append(out, &(char){(char)value}, 1);
}

static void put_number(struct aorta_text *out, unsigned field, uint64_t value) {
    put_varint(out, field << 3);
    put_varint(out, value);
}

static void put_text(struct aorta_text *out, unsigned field, const char *bytes, size_t length) {
    put_varint(out, field << 3 | 2);
    put_varint(out, length);
    aorta_text_append(out, bytes, length);
}

static void put_message(struct aorta_text *out, unsigned field, struct aorta_text *message) {
    put_text(out, field, message->data, message->length);
    aorta_text_free(message);
}

/* An event of the plane, by the number of its name, in us. */
struct tf_event {
    uint64_t name, start_us, length_us;
};

static void put_line(struct aorta_text *plane, const char *name, const struct tf_event *events, size_t count) {
    struct aorta_text line = {0};
    put_text(&line, 2, name, strlen(name));
    for (size_t i = 0; i < count; i++) {
        struct aorta_text event = {0};
        put_number(&event, 1, events[i].name);
        put_number(&event, 2, 1000000 * events[i].start_us);
        put_number(&event, 3, 1000000 * events[i].length_us);
        put_message(&line, 4, &event);
    }
    put_message(plane, 3, &line);
}

static void put_plane(struct aorta_text *space, const char *name, struct aorta_text *plane) {
    static const char *const names[] = {"MatMul", "MemcpyH2D", "0", "warm-up"};
    struct aorta_text whole = {0};
    put_text(&whole, 2, name, strlen(name));
    aorta_text_append(&whole, plane->data, plane->length);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct aorta_text entry = {0}, value = {0};
        put_text(&value, 2, names[i], strlen(names[i]));
        put_number(&entry, 1, i + 1);
        put_message(&entry, 2, &value);
        put_message(&whole, 4, &entry);
    }
    put_message(space, 1, &whole);
    aorta_text_free(plane);
}

/* Two GPUs, whose steps have the same numbers and other times, and a third one that was only set up:
 *
 *   us         0         100       200       300       400
 *   GPU:0      copy      |Matmul  step 0 |
 *   GPU:1                copy                |Matmul  step 0 |
 *   GPU:2      copy
 */
static void steps_of_tensorflow(void **state) {
    (void)state;
    static const struct tf_event copies[][1] = {{{2, 0, 5}}, {{2, 100, 5}}, {{2, 0, 5}}};
    static const struct tf_event kernels[][2] = {{{1, 100, 40}, {1, 160, 30}}, {{1, 300, 40}, {1, 370, 30}}};
    static const struct tf_event steps[][1] = {{{3, 100, 90}}, {{3, 300, 100}}};
    char folder[FOLDER_PATH], path[FOLDER_PATH + 16], name[32];
    struct aorta_text space = {0};
    for (int gpu = 0; gpu < 3; gpu++) {
        struct aorta_text plane = {0};
        put_line(&plane, "Stream #1(MemcpyH2D)", copies[gpu], 1);
        if (gpu < 2) put_line(&plane, "Stream #2(Compute)", kernels[gpu], 2);
        if (gpu < 2) put_line(&plane, "Steps", steps[gpu], 1);
        snprintf(name, sizeof name, "/device:GPU:%d", gpu);
        put_plane(&space, name, &plane);
    }
    folder_make(folder, "xplane");
    snprintf(path, sizeof path, "%s/tf.xplane.pb", folder);
    check_ok(aorta_file_replace(path, space.data, space.length));
    struct aorta_trace_list list = {0};
    struct aorta_trace_analysis analysis;
    check_ok(aorta_trace_open(path, NULL, &list));
    assert_int_equal(list.items[0]->step_count, 2);
    check_ok(aorta_trace_analyze(&list, NULL, &analysis));
    assert_int_equal(analysis.rank_count, 2);
    assert_int_equal(analysis.devices_idle, 1);
    assert_true(analysis.stepped);
    for (size_t i = 0; i < 2; i++) {
        const struct aorta_trace_rank *rank = &analysis.ranks[i];
        size_t counted = 0;
        for (size_t j = 0; j < rank->window_count; j++) {
            if (!aorta_trace_window_counts(&analysis, &rank->windows[j])) continue;
            counted++;
            assert_int_equal(rank->windows[j].number, 0);
            assert_int_equal(rank->windows[j].start_ns, i ? 300000 : 100000);
            assert_int_equal(rank->windows[j].profile.overlap.lead_ns, 0); /* the copy is no part of it */
            assert_in_range(rank->windows[j].end_ns, i ? 400000 : 190000, i ? 400001 : 190001);
        }
        assert_int_equal(counted, 1);
    }
    aorta_trace_analysis_free(&analysis);
    aorta_trace_list_free(&list);
    aorta_text_free(&space);
    assert_int_equal(folder_remove(folder), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_files_say_the_same),
        cmocka_unit_test(in_a_folder_it_yields_to_the_json),
        cmocka_unit_test(cut_files_are_errors_or_recovered),
        cmocka_unit_test(steps_of_tensorflow),
        cmocka_unit_test(fields_of_every_kind),
        cmocka_unit_test(broken_fields_stop_where_they_begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
