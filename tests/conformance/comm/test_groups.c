/* Groups of ranks: overlapping ones, several at once, and lists that do not fit together. */
#include "suite.h"

#define COUNT 5000

/* All-reduces over the group and compares with the sum over the world ranks it is made of. */
static void check_sum(struct suite *suite, struct aorta_comm *group, const int *ranks, int count) {
    assert_int_equal(aorta_comm_size(group), count);
    assert_int_equal(ranks[aorta_comm_rank(group)], suite->rank);
    void *buffer = suite_buffer(suite, COUNT, AORTA_F32);
    suite_fill(suite, buffer, 0, COUNT, AORTA_F32, suite->rank);
    check_ok(aorta_all_reduce(group, suite->stream, buffer, buffer, COUNT, AORTA_F32, AORTA_SUM));
    suite_finish(suite, suite->stream);
    for (size_t i = 0; i < COUNT; i++) {
        suite_expect(suite, buffer, i, AORTA_F32, suite_reduced(ranks, count, i, AORTA_F32, AORTA_SUM),
                     "sum over a group");
    }
    suite_free(suite, buffer);
}

/* {0,1}, {1,2}, …: each rank is in two of them. */
static void test_overlapping(void **state) {
    struct suite *suite = *state;
    struct aorta_comm *groups[8] = {NULL};
    for (int first = 0; first + 1 < suite->size; first++) {
        const int ranks[] = {first, first + 1};
        bool member = suite->rank == first || suite->rank == first + 1;
        check_ok(aorta_comm_split(suite->world, ranks, member ? 2 : 0, &groups[first]));
        assert_int_equal(groups[first] != NULL, member);
    }
    for (int first = 0; first + 1 < suite->size; first++) {
        const int ranks[] = {first, first + 1};
        if (groups[first]) check_sum(suite, groups[first], ranks, 2);
    }
    for (int first = 0; first + 1 < suite->size; first++) aorta_comm_close(groups[first]);
}

/* Even and odd ranks at the same call, each with its own list; and an order of ranks of one's own choice. */
static void test_disjoint_and_reversed(void **state) {
    struct suite *suite = *state;
    int mine[64], count = 0, reversed[64];
    for (int rank = suite->rank % 2; rank < suite->size; rank += 2) mine[count++] = rank;
    struct aorta_comm *half, *backwards;
    check_ok(aorta_comm_split(suite->world, mine, count, &half));
    check_sum(suite, half, mine, count);
    for (int i = 0; i < suite->size; i++) reversed[i] = suite->size - 1 - i;
    check_ok(aorta_comm_split(suite->world, reversed, suite->size, &backwards));
    check_sum(suite, backwards, reversed, suite->size);
    aorta_comm_close(half);
    aorta_comm_close(backwards);
}

static void test_group_of_group(void **state) {
    struct suite *suite = *state;
    int all[64];
    for (int i = 0; i < suite->size; i++) all[i] = i;
    struct aorta_comm *copy, *alone;
    check_ok(aorta_comm_split(suite->world, all, suite->size, &copy));
    check_sum(suite, copy, all, suite->size);
    check_ok(aorta_comm_split(copy, &suite->rank, 1, &alone));
    check_sum(suite, alone, &suite->rank, 1);
    aorta_comm_close(alone);
    aorta_comm_close(copy);
}

/* The ranks queue the two collectives in opposite order: only groups that progress apart can finish. */
static void test_two_at_once(void **state) {
    struct suite *suite = *state;
    int all[64];
    for (int i = 0; i < suite->size; i++) all[i] = i;
    struct aorta_comm *copy;
    check_ok(aorta_comm_split(suite->world, all, suite->size, &copy));
    if (suite_on_gpu(suite)) check_sum(suite, copy, all, suite->size); /* NCCL connects at first use: comm.h */
    struct aorta_stream *streams[] = {suite->stream, suite->other};
    struct aorta_comm *groups[] = {suite->world, copy};
    const size_t count = 300007;
    void *buffers[2];
    for (int i = 0; i < 2; i++) buffers[i] = suite_buffer(suite, count, AORTA_F32);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 2; i++) suite_fill(suite, buffers[i], 0, count, AORTA_F32, suite->rank);
        for (int i = 0; i < 2; i++) {
            int which = (i + suite->rank) % 2;
            check_ok(aorta_all_reduce(groups[which], streams[which], buffers[which], buffers[which], count, AORTA_F32,
                                      which ? AORTA_MAX : AORTA_SUM));
        }
        check_ok(aorta_stream_synchronize(streams[1]));
        suite_finish(suite, streams[0]);
        for (int i = 0; i < 2; i++) {
            for (size_t k = 0; k < count; k++) {
                double expected = suite_reduced(all, suite->size, k, AORTA_F32, i ? AORTA_MAX : AORTA_SUM);
                suite_expect(suite, buffers[i], k, AORTA_F32, expected, "two groups at once");
            }
        }
    }
    for (int i = 0; i < 2; i++) suite_free(suite, buffers[i]);
    aorta_comm_close(copy);
}

static void test_bad_lists(void **state) {
    struct suite *suite = *state;
    struct aorta_comm *group;
    const int twice[] = {suite->rank, suite->rank}, outside[] = {suite->rank, suite->size};
    check_fails(aorta_comm_split(suite->world, twice, 2, &group), AORTA_USAGE, "named twice");
    check_fails(aorta_comm_split(suite->world, outside, 2, &group), AORTA_USAGE, "not in the parent group");
    assert_null(group);
    if (suite->size < 2) return;
    const int other = (suite->rank + 1) % suite->size;
    check_fails(aorta_comm_split(suite->world, &other, 1, &group), AORTA_USAGE, "not in the list it passed");
    /* Rank 0 passes {0,1}, rank 1 passes {1,0}: both must get an error, all other ranks are not concerned. */
    const int pair[] = {suite->rank, 1 - suite->rank};
    if (suite->rank > 1)
        check_ok(aorta_comm_split(suite->world, NULL, 0, &group));
    else
        check_fails(aorta_comm_split(suite->world, pair, 2, &group), AORTA_USAGE, "another list of ranks");
}

static void test_bad_arguments(void **state) {
    struct suite *suite = *state;
    float buffer[64] = {0};
    struct aorta_comm *world = suite->world;
    struct aorta_stream *stream = suite->stream;
    check_fails(aorta_all_reduce(world, stream, buffer, buffer + 1, 4, AORTA_F32, AORTA_SUM), AORTA_USAGE, "overlap");
    check_fails(aorta_all_reduce(world, stream, NULL, buffer, 4, AORTA_F32, AORTA_SUM), AORTA_USAGE, "NULL");
    check_fails(suite_all_gather(world, stream, buffer + 1, buffer, 3, AORTA_F32), AORTA_USAGE, "all_gather");
    check_fails(aorta_broadcast(world, stream, buffer, 4, AORTA_F32, suite->size), AORTA_USAGE, "root");
    check_fails(aorta_all_reduce(world, stream, buffer, buffer, 4, AORTA_U8, AORTA_SUM), AORTA_UNSUPPORTED, "uint8");
    check_fails(suite_all_to_all(world, stream, buffer, buffer, 4, AORTA_F32), AORTA_USAGE, "overlap");
    check_fails(aorta_all_reduce(world, stream, buffer, buffer, SIZE_MAX / 2, AORTA_F32, AORTA_SUM), AORTA_USAGE,
                "more than memory");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overlapping),    cmocka_unit_test(test_disjoint_and_reversed),
        cmocka_unit_test(test_group_of_group), cmocka_unit_test(test_two_at_once),
        cmocka_unit_test(test_bad_lists),      cmocka_unit_test(test_bad_arguments),
    };
    return cmocka_run_group_tests(tests, suite_setup, suite_teardown);
}
