/* Which rank serves what. */
#include "check.h"

#include "sparse/tables.h"

static struct aorta_sparse_table tables[] = {{.rows = 100, .columns = 64, .number = 0},
                                             {.rows = 7, .columns = 32, .number = 1},
                                             {.rows = 1000, .columns = 32, .number = 2},
                                             {.rows = 3, .columns = 16, .number = 3},
                                             {.rows = 50, .columns = 6, .number = 4}};
static struct aorta_sparse_feature features[] = {{0, 0, 0},   {1, 1, 64},  {1, 2, 96},
                                                 {2, 3, 128}, {3, 4, 160}, {4, 5, 176}};
static const struct aorta_sparse_group group = {
    .tables = tables, .features = features, .table_count = 5, .feature_count = 6};

/* Every element of every feature is served by exactly one rank. */
static void expect_whole(const struct aorta_sparse_plan *plan) {
    for (int f = 0; f < group.feature_count; f++) {
        const struct aorta_sparse_table *table = &tables[features[f].table];
        for (int64_t row = 0; row < table->rows; row++) {
            for (int64_t column = 0; column < table->columns; column++) {
                int served = 0;
                for (int p = 0; p < plan->part_count; p++) {
                    const struct aorta_sparse_part *part = &plan->parts[p];
                    served += part->feature == f && row >= part->first_row && row < part->first_row + part->rows &&
                              column >= part->first_column && column < part->first_column + part->columns;
                }
                assert_int_equal(served, 1);
            }
        }
    }
}

static void test_whole(void **state) {
    (void)state;
    for (int sharding = AORTA_TABLE_WISE; sharding <= AORTA_DATA_PARALLEL; sharding++) {
        for (int ranks = 1; ranks <= 8; ranks++) {
            for (int local = 1; local <= ranks; local++) {
                struct aorta_arena arena = {0};
                struct aorta_sparse_plan plan;
                if (ranks % local) continue;
                check_ok(
                    aorta_sparse_plan_make(&group, (enum aorta_sparse_sharding)sharding, ranks, local, &arena, &plan));
                expect_whole(&plan);
                aorta_arena_free(&arena);
            }
        }
    }
}

/* Columns looked up for a sample: a 64, b 2 · 32, c 32, d 16, e 6. */
static void test_table_wise(void **state) {
    struct aorta_arena arena = {0};
    struct aorta_sparse_plan plan;
    (void)state;
    check_ok(aorta_sparse_plan_make(&group, AORTA_TABLE_WISE, 2, 2, &arena, &plan));
    assert_int_equal(plan.owners, 2);
    assert_int_equal(plan.widths[0], 64 + 32);
    assert_int_equal(plan.widths[1], 2 * 32 + 16 + 6);
    for (int o = 0; o < 2; o++)
        for (int p = plan.first[o]; p < plan.first[o + 1]; p++) assert_int_equal(plan.parts[p].owner, o);
    aorta_arena_free(&arena);
}

/* Tables stay on one host. */
static void test_hosts(void **state) {
    static const enum aorta_sparse_sharding shardings[] = {AORTA_TABLE_ROW_WISE, AORTA_TABLE_COLUMN_WISE};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct aorta_arena arena = {0};
        struct aorta_sparse_plan plan;
        int host[5] = {-1, -1, -1, -1, -1};
        check_ok(aorta_sparse_plan_make(&group, shardings[i], 4, 2, &arena, &plan));
        for (int p = 0; p < plan.part_count; p++) {
            const int table = features[plan.parts[p].feature].table;
            if (host[table] < 0) host[table] = plan.parts[p].owner / 2;
            assert_int_equal(plan.parts[p].owner / 2, host[table]);
        }
        assert_int_not_equal(host[0], host[1]);
        aorta_arena_free(&arena);
    }
}

static void test_cuts(void **state) {
    struct aorta_arena arena = {0};
    struct aorta_sparse_plan plan;
    (void)state;
    check_ok(aorta_sparse_plan_make(&group, AORTA_COLUMN_WISE, 4, 4, &arena, &plan));
    for (int p = 0; p < plan.part_count; p++)
        if (plan.parts[p].feature == 0) assert_int_equal(plan.parts[p].columns, 16);
    assert_int_equal(plan.first[4] - plan.first[3], 5); /* 6 columns are 2, 2, 2: none is left for the last */
    aorta_arena_free(&arena);
    check_ok(aorta_sparse_plan_make(&group, AORTA_ROW_WISE, 4, 4, &arena, &plan));
    assert_int_equal(plan.first[4] - plan.first[3], 5); /* 3 rows leave none for the last, 7 leave one */
    aorta_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_whole), cmocka_unit_test(test_table_wise),
                                       cmocka_unit_test(test_hosts), cmocka_unit_test(test_cuts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
