/* The reader of spools: what was written comes back; what was cut or damaged is read up to there, or named. */
#include "check.h"
#include "sample.h"
#include "trace/kernel_names.h"
#include "trace/open.h"
#include "trace/spool.h"

#include <stdlib.h>

static aorta_status read_bytes(uint8_t *bytes, size_t length, bool recover, struct aorta_spool_facts *facts,
                               struct aorta_trace **trace) {
    const struct aorta_trace_options options = {.recover = recover};
    *facts = (struct aorta_spool_facts){0};
    FILE *file = fmemopen(bytes, length ? length : 1, "rb");
    assert_non_null(file);
    if (!length) fgetc(file);
    aorta_status status = aorta_spool_read(file, "a.spool", &options, facts, trace);
    fclose(file);
    return status;
}

static void all_comes_back(void **state) {
    (void)state;
    size_t length, ends[32];
    struct aorta_spool_facts facts;
    struct aorta_trace *trace;
    uint8_t *bytes = sample_make(&length, ends);
    check_ok(read_bytes(bytes, length, false, &facts, &trace));
    assert_int_equal(trace->format, AORTA_TRACE_SPOOL);
    assert_int_equal(trace->rank, 3);
    assert_int_equal(trace->world, 8);
    assert_int_equal(trace->process, 4711);
    assert_int_equal(trace->base_ns, 0);
    assert_int_equal(trace->bytes_read, length);
    assert_int_equal(trace->work_count, SAMPLE_WORK);
    assert_string_equal(aorta_trace_text(trace, trace->work[0].name), "gemm");
    assert_string_equal(aorta_trace_text(trace, trace->work[0].geometry), "4x1x1 of 128x1x1");
    assert_int_equal(trace->work[1].geometry, AORTA_TRACE_NONE); /* no matrix product */
    assert_int_equal(trace->work[1].class, AORTA_KERNEL_COLLECTIVE);
    assert_true(trace->work[1].graph);
    assert_int_equal(trace->collectives[trace->work[1].collective].blocks, 4);
    assert_string_equal(aorta_trace_text(trace, trace->work[2].name), "Memcpy DtoH");
    assert_int_equal(trace->work[2].bytes, 64);
    assert_int_equal(trace->work[3].kind, AORTA_TRACE_FILL);
    assert_int_equal(trace->streams[trace->work[1].stream].id, 20);
    assert_int_equal(trace->queues[trace->work[0].queue].id, 8);
    assert_string_equal(aorta_trace_text(trace, trace->queues[trace->work[0].queue].type), "compute");
    assert_int_equal(trace->call_count, 2);
    assert_int_equal(trace->step_count, 1);
    assert_int_equal(trace->steps[0].number, 5);
    assert_int_equal(trace->steps[0].end_ns, 3000);
    assert_string_equal(aorta_trace_text(trace, trace->devices[0].name), "H100");
    assert_int_equal(trace->warnings[AORTA_REASON_LOST].count, 17);
    assert_int_equal(trace->graph_count, 1);
    assert_int_equal(trace->graphs[0].count, 1);
    assert_int_equal(trace->warnings[AORTA_REASON_NO_WORK].count, 0);
    assert_string_equal(facts.command, "python train.py");
    assert_string_equal(facts.library, "/lib/libcupti.so.13");
    assert_string_equal(facts.host, "node7");
    assert_string_equal(facts.note, "a note of 42");
    assert_int_equal(facts.end_ns, 2900);
    assert_int_equal(facts.head.state, AORTA_SPOOL_ENDED);
    aorta_trace_free(trace);
    aorta_spool_facts_free(&facts);
    free(bytes);
}

static void cut_anywhere_it_is_valid_up_to_the_last_whole_record(void **state) {
    (void)state;
    size_t whole, ends[32], record = 0;
    uint8_t *bytes = sample_make(&whole, ends);
    int64_t work = 0;
    for (size_t length = 0; length <= whole; length++) {
        struct aorta_spool_facts facts;
        struct aorta_trace *trace;
        uint8_t *piece = malloc(length + 1); /* of this very size, for the sanitizer */
        memcpy(piece, bytes, length);
        aorta_status status = read_bytes(piece, length, false, &facts, &trace);
        if (length < sizeof(struct aorta_spool_head)) {
            check_fails(status, AORTA_FORMAT, "head of a spool");
        } else {
            check_ok(status);
            while (ends[record] && ends[record] <= length) record++;
            size_t last = record ? ends[record - 1] : sizeof(struct aorta_spool_head);
            assert_int_equal(facts.cut_bytes, length - last);
            assert_int_equal(trace->warnings[AORTA_REASON_TRUNCATED].count, length > last);
            if (length > last) assert_int_equal(trace->warnings[AORTA_REASON_TRUNCATED].offset, last);
            assert_int_equal(trace->work_count, facts.work);
            assert_true(facts.work >= work);
            work = facts.work;
            aorta_trace_free(trace);
        }
        aorta_spool_facts_free(&facts);
        free(piece);
    }
    assert_int_equal(work, SAMPLE_WORK);
    free(bytes);
}

static void damage_is_named_with_its_place(void **state) {
    (void)state;
    static const struct {
        size_t record, within; /* the value at this place of the record with this number */
        uint32_t value;
        const char *part;
    } damages[] = {
        {0, 0, 3, "a record of an impossible size"},       {0, 0, 1 << 20, "a record of an impossible size"},
        {2, 0, 8, "a record that is too short for its"},   {2, 8, 7, "a text out of order"},
        {2, 12, 4000, "a text that is longer than"},       {0, 48, 1 << 30, "texts that are longer than their record"},
        {0, 52, UINT32_MAX, "texts that are longer than"}, {15, 16, 999, "a note that is longer than its record"},
    };
    size_t length, ends[32];
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        struct aorta_spool_facts facts;
        struct aorta_trace *trace;
        char place[64];
        uint8_t *bytes = sample_make(&length, ends);
        size_t start = damages[i].record ? ends[damages[i].record - 1] : sizeof(struct aorta_spool_head);
        memcpy(bytes + start + damages[i].within, &damages[i].value, 4);
        check_fails(read_bytes(bytes, length, false, &facts, &trace), AORTA_FORMAT, damages[i].part);
        aorta_spool_facts_free(&facts);
        snprintf(place, sizeof place, "a.spool: at byte %zu: ", start);
        check_fails(read_bytes(bytes, length, false, &facts, &trace), AORTA_FORMAT, place);
        aorta_spool_facts_free(&facts);
        check_ok(read_bytes(bytes, length, true, &facts, &trace));
        assert_int_equal(trace->warnings[AORTA_REASON_MALFORMED].count, 1);
        assert_int_equal(trace->warnings[AORTA_REASON_MALFORMED].offset, start);
        aorta_trace_free(trace);
        aorta_spool_facts_free(&facts);
        free(bytes);
    }
}

static void strange_heads_are_named(void **state) {
    (void)state;
    static const struct {
        size_t place;
        uint8_t value;
        const char *part;
    } damages[] = {{0, 'X', "is no spool"},
                   {8, 9, "version 9; this program reads version 1"},
                   {12, 7, "a head of 7 bytes"},
                   {16, 1, "another byte order"}};
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        size_t length, ends[32];
        struct aorta_spool_facts facts;
        struct aorta_trace *trace;
        uint8_t *bytes = sample_make(&length, ends);
        bytes[damages[i].place] = damages[i].value;
        check_fails(read_bytes(bytes, length, true, &facts, &trace), AORTA_FORMAT, damages[i].part);
        aorta_spool_facts_free(&facts);
        free(bytes);
    }
}

static void odd_values_are_counted(void **state) {
    (void)state;
    size_t length, ends[32];
    struct aorta_spool_facts facts;
    struct aorta_trace *trace;
    uint8_t *bytes = sample_make(&length, ends);
    struct aorta_spool_kernel *first = (void *)(bytes + ends[5]), *second = (void *)(bytes + ends[6]);
    struct aorta_spool_transfer *third = (void *)(bytes + ends[7]), *fourth = (void *)(bytes + ends[8]);
    assert_int_equal(fourth->record.type, AORTA_SPOOL_FILL);
    assert_int_equal(first->record.type, AORTA_SPOOL_KERNEL);
    first->end_ns = first->start_ns - 1;
    second->name = 77;
    third->device = UINT32_MAX;
    fourth->end_ns = INT64_MAX; /* no clock shows it */
    check_ok(read_bytes(bytes, length, false, &facts, &trace));
    assert_int_equal(trace->warnings[AORTA_REASON_BAD_EVENT].count, 3);
    assert_int_equal(trace->warnings[AORTA_REASON_BAD_EVENT].offset, ends[5]);
    assert_int_equal(trace->warnings[AORTA_REASON_UNKNOWN_NAME].count, 1);
    assert_int_equal(trace->work_count, SAMPLE_WORK - 3);
    assert_string_equal(aorta_trace_text(trace, trace->work[0].name), "(unknown)");
    aorta_trace_free(trace);
    aorta_spool_facts_free(&facts);
    free(bytes);
}

static void names_are_made_readable(void **state) {
    (void)state;
    char *name = aorta_demangle("_ZN2at6native4fillEv");
    assert_string_equal(name, "at::native::fill()");
    free(name);
    assert_null(aorta_demangle("ncclDevKernel"));
    assert_null(aorta_demangle("_Znonsense"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_comes_back),
        cmocka_unit_test(cut_anywhere_it_is_valid_up_to_the_last_whole_record),
        cmocka_unit_test(damage_is_named_with_its_place),
        cmocka_unit_test(strange_heads_are_named),
        cmocka_unit_test(odd_values_are_counted),
        cmocka_unit_test(names_are_made_readable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
