/* Pieces of work on several threads. */
#include "base/parallel.h"
#include "check.h"

#include <stdatomic.h>

enum { PIECES = 1000 };

struct counted {
    atomic_int runs[PIECES];
    atomic_size_t begun;
    size_t first_bad; /* this piece and every third after it fail */
};

static aorta_status count(void *user, size_t piece) {
    struct counted *counted = user;
    atomic_fetch_add(&counted->runs[piece], 1);
    atomic_fetch_add(&counted->begun, 1);
    if (piece < counted->first_bad || (piece - counted->first_bad) % 3) return NULL;
    return AORTA_ERROR(AORTA_FORMAT, "piece %zu is bad", piece);
}

static void each_piece_runs_once(void **state) {
    static struct counted counted;
    (void)state;
    counted.first_bad = PIECES;
    check_ok(aorta_parallel(PIECES, count, &counted));
    for (size_t i = 0; i < PIECES; i++) assert_int_equal(atomic_load(&counted.runs[i]), 1);
    check_ok(aorta_parallel(0, count, &counted));
    assert_int_equal(atomic_load(&counted.begun), PIECES);
}

/* The message does not depend on the first thread, and remaining pieces do not begin. */
static void the_lowest_failure_is_returned(void **state) {
    (void)state;
    for (int round = 0; round < 200; round++) {
        static const struct counted none;
        struct counted counted = none;
        counted.first_bad = 5;
        check_fails(aorta_parallel(PIECES, count, &counted), AORTA_FORMAT, "piece 5 is bad");
        for (size_t i = 0; i <= 5; i++) assert_int_equal(atomic_load(&counted.runs[i]), 1);
        assert_true(atomic_load(&counted.begun) < PIECES);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_piece_runs_once),
        cmocka_unit_test(the_lowest_failure_is_returned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
