/* Loops shared by threads: every element once, from several callers. */
#include "base/clock.h"
#include "check.h"
#include "hwq/thread_pool.h"

#include <pthread.h>
#include <stdlib.h>

enum { TOTAL = 1000003 };

struct marks {
    struct aorta_hwq_thread_pool *pool;
    unsigned char *count; /* how often an element was visited */
};

static void mark(void *user, int64_t first, int64_t count) {
    struct marks *marks = user;
    for (int64_t i = first; i < first + count; i++) marks->count[i]++;
}

static void check_marks(const struct marks *marks, int64_t total, int times) {
    for (int64_t i = 0; i < TOTAL; i++)
        if (marks->count[i] != (i < total ? times : 0))
            fail_msg("element %lld was visited %d times", (long long)i, marks->count[i]);
}

static void open_marks(struct marks *marks, int threads) {
    *marks = (struct marks){.count = calloc(TOTAL, 1)};
    assert_non_null(marks->count);
    check_ok(aorta_hwq_thread_pool_create(threads, &marks->pool));
}

static void close_marks(struct marks *marks) {
    aorta_hwq_thread_pool_destroy(marks->pool);
    free(marks->count);
}

static void every_element_once(void **state) {
    (void)state;
    const int threads[] = {1, 2, 5};
    const int64_t totals[] = {0, 1, 65536, 65537, TOTAL};
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++)
        for (size_t i = 0; i < sizeof totals / sizeof *totals; i++) {
            struct marks marks;
            open_marks(&marks, threads[t]);
            for (int times = 1; times <= 3; times++) {
                aorta_hwq_thread_pool_run(marks.pool, mark, &marks, totals[i]);
                check_marks(&marks, totals[i], times);
            }
            close_marks(&marks);
        }
}

static void *run_many(void *user) {
    struct marks *marks = user;
    for (int i = 0; i < 20; i++) aorta_hwq_thread_pool_run(marks->pool, mark, marks, TOTAL);
    return NULL;
}

/* Two callers with marks of their own and one pool. */
static void several_callers(void **state) {
    (void)state;
    struct marks mine, other;
    pthread_t thread;
    open_marks(&mine, 3);
    other = (struct marks){.pool = mine.pool, .count = calloc(TOTAL, 1)};
    assert_non_null(other.count);
    const int64_t begun = aorta_clock_ns();
    assert_int_equal(pthread_create(&thread, NULL, run_many, &other), 0);
    run_many(&mine);
    pthread_join(thread, NULL);
    assert_true(aorta_hwq_thread_pool_busy_ns(mine.pool) > 0);
    assert_true(aorta_hwq_thread_pool_busy_ns(mine.pool) <= aorta_clock_ns() - begun);
    check_marks(&mine, TOTAL, 20);
    check_marks(&other, TOTAL, 20);
    free(other.count);
    close_marks(&mine);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_element_once), cmocka_unit_test(several_callers)};
    return cmocka_run_group_tests_name("hwq: pool", tests, NULL, NULL);
}
