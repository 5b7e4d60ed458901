/* How ranks come to collectives, and all-to-alls with unequal parts. Two ranks of four bytes an element, times in us:
 *
 *   rank 0   all_to_all 0: 10 ========= 40     all_to_all 1: 60 ====== 90    sends [3, 1], then [2, 2]
 *   rank 1   all_to_all 0:       30 === 40     all_to_all 1: 60 ====== 90    sends [5, 7], then equal parts
 *
 * Rank 1 is 20 late to the first, nobody to the second. */
#include "analysis/analysis.h"
#include "check.h"
#include "samples/dump.h"

#include <stdlib.h>
#include <string.h>

struct read {
    struct aorta_trace_list list;
    struct aorta_trace_analysis analysis;
};

static void exchange(struct aorta_text *out, int start, int end, int number, int elements, const char *sent,
                     const char *received) {
    aorta_text_printf(out,
                      ",\n{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclDevKernel_SendRecv(x)\",\"pid\":0,\"tid\":8,"
                      "\"ts\":%d,\"dur\":%d,\"args\":{\"device\":0,\"stream\":8,\"Collective name\":\"all_to_allv\",",
                      start, end - start);
    aorta_text_printf(out,
                      "\"In msg nelems\":%d,\"Out msg nelems\":%d,\"dtype\":\"Float\",\"Group size\":2,\"Seq\":%d,"
                      "\"Process Group Name\":\"0\",\"Process Group Ranks\":\"[0, 1]\",",
                      elements, elements, number);
    aorta_text_printf(out, "\"In split size\":\"%s\",\"Out split size\":\"%s\"}}", sent, received);
}

static void read_ranks(struct read *read, const char *devices, const char *sent, int32_t gpus_per_node) {
    const struct aorta_trace_analysis_options options = {.gpus_per_node = gpus_per_node};
    *read = (struct read){0};
    for (int rank = 0; rank < 2; rank++) {
        struct aorta_text text = {0};
        aorta_text_printf(&text, "{\"deviceProperties\":[%s],\"distributedInfo\":{\"rank\":%d},\"traceEvents\":[{}",
                          devices, rank);
        exchange(&text, rank ? 30 : 10, 40, 0, rank ? 12 : 8, rank ? "[5, 7]" : sent, rank ? "[1, 7]" : "[3, 5]");
        exchange(&text, 60, 90, 1, 4, rank ? "[]" : "[2, 2]", "[]");
        aorta_text_puts(&text, "\n]}\n");
        check_ok(read_memory(text.data, text.length, 0, false, &read->list));
        aorta_text_free(&text);
    }
    check_ok(aorta_trace_analyze(&read->list, &options, &read->analysis));
}

static void end(struct read *read) {
    aorta_trace_analysis_free(&read->analysis);
    aorta_trace_list_free(&read->list);
}

static void the_late_rank_is_first(void **state) {
    (void)state;
    struct read read;
    read_ranks(&read, "", "[3, 1]", 0);
    assert_int_equal(read.analysis.arrival_count, 2);
    const struct aorta_trace_arrivals *late = &read.analysis.arrivals[0], *other = &read.analysis.arrivals[1];
    assert_int_equal(late->rank, 1);
    assert_int_equal(late->collectives, 2);
    assert_int_equal(late->late_ns, 20000);
    assert_int_equal(late->after_first_most_ns, 20000);
    assert_int_equal(late->wait_ns, 0);
    assert_int_equal(other->late_ns, 0);
    assert_int_equal(other->wait_ns, 20000);
    assert_int_equal(other->ns, 60000);
    end(&read);
}

static void unequal_parts_are_summed_by_pairs(void **state) {
    (void)state;
    struct read read;
    static const struct aorta_trace_pair expected[] = {{0, 0, 2, 20}, {0, 1, 2, 12}, {1, 0, 1, 20}, {1, 1, 1, 28}};
    read_ranks(&read, "", "[3, 1]", 0);
    assert_int_equal(read.analysis.uneven_count, 3); /* rank 1 sends equal parts in the second */
    assert_int_equal(read.analysis.uneven[0].sent, 16);
    assert_int_equal(read.analysis.uneven[0].received, 32);
    assert_float_equal(read.analysis.uneven[0].imbalance, 1.5, 1e-9);
    assert_int_equal(read.analysis.pair_count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(read.analysis.pairs[i].from, expected[i].from);
        assert_int_equal(read.analysis.pairs[i].to, expected[i].to);
        assert_int_equal(read.analysis.pairs[i].count, expected[i].count);
        assert_int_equal(read.analysis.pairs[i].bytes, expected[i].bytes);
    }
    end(&read);
}

/* Parts that are no list of sizes are not known; nothing else changes. */
static void damaged_parts_are_left_out(void **state) {
    (void)state;
    static const char *const damaged[] = {"[3, -1]", "[3; 1]", "three", "[3, 1", "[99999999999999999999, 1]", "[, ]"};
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        struct read read;
        read_ranks(&read, "", damaged[i], 0);
        for (size_t p = 0; p < read.analysis.pair_count; p++)
            if (read.analysis.pairs[p].from == 0) assert_int_equal(read.analysis.pairs[p].count, 1);
        assert_int_equal(read.analysis.arrivals[0].late_ns, 20000);
        end(&read);
    }
}

static void nodes_follow_from_devices(void **state) {
    (void)state;
    struct read read;
    static const char one[] = "{\"id\":0,\"name\":\"H100\"}",
                      two[] = "{\"id\":0,\"name\":\"H100\"},{\"id\":1,\"name\":\"H100\"}";
    read_ranks(&read, two, "[3, 1]", 0);
    assert_int_equal(aorta_trace_nodes_of(&read.analysis, 0), 1);
    end(&read);
    read_ranks(&read, one, "[3, 1]", 0); /* only its own: the node may have more */
    assert_int_equal(aorta_trace_nodes_of(&read.analysis, 0), -1);
    end(&read);
    read_ranks(&read, two, "[3, 1]", 1); /* the user knows better */
    assert_int_equal(aorta_trace_nodes_of(&read.analysis, 0), 2);
    assert_int_equal(aorta_trace_nodes_of(&read.analysis, AORTA_TRACE_NONE), -1);
    end(&read);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_late_rank_is_first),
        cmocka_unit_test(unequal_parts_are_summed_by_pairs),
        cmocka_unit_test(damaged_parts_are_left_out),
        cmocka_unit_test(nodes_follow_from_devices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
