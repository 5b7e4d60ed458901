/* Layouts against brute force: the place of every single element of every parameter. */
#include "check.h"

#include "train/strategy.h"

#include <stdlib.h>

enum { CASES = 400, LARGEST_ROWS = 37, LARGEST_COLUMNS = 11, LARGEST_WORLD = 7 };

struct shape {
    int64_t rows[AORTA_LAYOUT_MAX_PARAMETERS], columns[AORTA_LAYOUT_MAX_PARAMETERS];
    int count;
};

/* Small numbers are wanted more often than large ones: they leave ranks with nothing. */
static int64_t some(int64_t largest) {
    int64_t limit = rand() % 2 ? largest : 3;
    return 1 + rand() % limit;
}

static struct shape random_shape(void) {
    struct shape shape = {.count = 1 + rand() % AORTA_LAYOUT_MAX_PARAMETERS};
    for (int i = 0; i < shape.count; i++) {
        shape.rows[i] = some(LARGEST_ROWS);
        shape.columns[i] = rand() % 3 ? some(LARGEST_COLUMNS) : 1;
    }
    return shape;
}

/* For each place of all ranks' shards its place in full memory; −1: padding. */
static int64_t *map_of(const struct aorta_layout *layout) {
    int64_t places = layout->shard * layout->ranks;
    int64_t *map = malloc((size_t)places * sizeof *map);
    assert_non_null(map);
    for (int64_t i = 0; i < places; i++) map[i] = -1;
    for (int parameter = 0; parameter < layout->count; parameter++) {
        for (int rank = 0; rank < layout->ranks; rank++) {
            struct aorta_layout_run run;
            if (!aorta_layout_run_of(layout, parameter, rank, &run)) continue;
            assert_true(run.shard_offset >= 0 && run.shard_offset + run.count <= layout->shard);
            for (int64_t i = 0; i < run.count; i++) {
                int64_t *place = &map[rank * layout->shard + run.shard_offset + i];
                assert_int_equal(*place, -1); /* no two elements overlap */
                *place = run.full_offset + i;
            }
        }
    }
    return map;
}

/* How often each place of full memory occurs in the shards: once for an element, never for padding. */
static void check_complete(const struct aorta_layout *layout, const struct shape *shape, const int64_t *map) {
    int *seen = calloc((size_t)layout->full, sizeof *seen);
    assert_non_null(seen);
    for (int64_t i = 0; i < layout->shard * layout->ranks; i++)
        if (map[i] >= 0) seen[map[i]]++;
    for (int parameter = 0; parameter < shape->count; parameter++) {
        int64_t first = layout->parameters[parameter].full_offset,
                count = shape->rows[parameter] * shape->columns[parameter];
        assert_int_equal(first % AORTA_LAYOUT_ALIGNMENT, 0);
        for (int64_t i = first; i < first + count; i++) {
            assert_int_equal(seen[i], 1);
            seen[i] = 0;
        }
    }
    for (int64_t i = 0; i < layout->full; i++) assert_int_equal(seen[i], 0);
    free(seen);
}

/* Gathered flat shards are full memory itself. */
static void check_flat(const struct aorta_layout *layout, const int64_t *map) {
    assert_int_equal(layout->piece_count, 1);
    assert_int_equal(layout->full, layout->shard * layout->ranks);
    for (int64_t i = 0; i < layout->full; i++)
        if (map[i] >= 0) assert_int_equal(map[i], i);
}

/* Pieces carry every run to its place in full memory, from zeros to zeros where there is none, and overlap nowhere. */
static void check_pieces(const struct aorta_layout *layout, const int64_t *map) {
    char *written = calloc((size_t)layout->full, 1), *sent = calloc((size_t)layout->shard, 1);
    assert_true(written && sent);
    int64_t places = 0, moved = 0;
    for (int i = 0; i < layout->piece_count; i++) {
        const struct aorta_layout_piece piece = layout->pieces[i];
        assert_int_equal(piece.shard_offset % AORTA_LAYOUT_ALIGNMENT, 0);
        assert_int_equal(piece.full_offset % AORTA_LAYOUT_ALIGNMENT, 0);
        assert_true(piece.shard_offset + piece.count <= layout->shard);
        assert_true(piece.full_offset + layout->ranks * piece.count <= layout->full);
        for (int64_t at = 0; at < piece.count; at++) assert_int_equal(sent[piece.shard_offset + at]++, 0);
        bool padding = false;
        for (int64_t at = 0; at < layout->ranks * piece.count; at++) {
            int64_t full = piece.full_offset + at;
            int64_t shard = at / piece.count * layout->shard + piece.shard_offset + at % piece.count;
            assert_int_equal(written[full]++, 0);
            padding |= map[shard] < 0;
            if (map[shard] < 0) continue;
            assert_int_equal(map[shard], full);
            moved++;
        }
        assert_int_equal(piece.whole, !padding);
    }
    for (int64_t i = 0; i < layout->shard * layout->ranks; i++) places += map[i] >= 0;
    assert_int_equal(moved, places);
    free(sent);
    free(written);
}

/* torch.chunk on dimension 0: rank r holds rows [r·c, (r+1)·c) with c = ceil(rows / ranks). */
static void check_chunks(const struct aorta_layout *layout, int parameter) {
    const struct aorta_layout_parameter *p = &layout->parameters[parameter];
    int64_t chunk = (p->rows + layout->ranks - 1) / layout->ranks;
    for (int rank = 0; rank < layout->ranks; rank++) {
        int64_t expected = 0;
        for (int64_t row = 0; row < p->rows; row++) expected += row / chunk == rank ? p->columns : 0;
        struct aorta_layout_run run;
        bool holds = aorta_layout_run_of(layout, parameter, rank, &run);
        assert_int_equal(holds, expected > 0);
        if (!holds) continue;
        assert_int_equal(run.count, expected);
        assert_int_equal(run.full_offset, p->full_offset + rank * chunk * p->columns);
        assert_int_equal(run.shard_offset, layout->pieces[p->piece].shard_offset);
    }
}

static void check_by_rows(const struct aorta_layout *layout) {
    assert_int_equal(layout->piece_count, layout->count);
    for (int i = 0; i < layout->count; i++) {
        assert_int_equal(layout->parameters[i].piece, i);
        check_chunks(layout, i);
    }
}

static void check_one(const struct shape *shape, int ranks, bool flat) {
    struct aorta_layout layout = aorta_layout_make(shape->rows, shape->columns, shape->count, ranks, flat);
    assert_int_equal(layout.count, shape->count);
    assert_int_equal(layout.ranks, ranks);
    assert_int_equal(layout.shard % AORTA_LAYOUT_ALIGNMENT, 0);
    int64_t *map = map_of(&layout);
    check_complete(&layout, shape, map);
    check_pieces(&layout, map);
    if (flat || ranks == 1)
        check_flat(&layout, map);
    else
        check_by_rows(&layout);
    free(map);
}

static void test_every_element_has_one_place(void **state) {
    (void)state;
    srand(5);
    for (int i = 0; i < CASES; i++) {
        struct shape shape = random_shape();
        for (int ranks = 1; ranks <= LARGEST_WORLD; ranks++) {
            check_one(&shape, ranks, false);
            check_one(&shape, ranks, true);
        }
    }
}

/* One row on four ranks: by rows it is whole on rank 0 and padding on all other ranks; flat it is cut. */
static void test_ranks_with_nothing(void **state) {
    (void)state;
    struct shape shape = {.rows = {1}, .columns = {40}, .count = 1};
    struct aorta_layout by_rows = aorta_layout_make(shape.rows, shape.columns, 1, 4, false);
    struct aorta_layout flat = aorta_layout_make(shape.rows, shape.columns, 1, 4, true);
    struct aorta_layout_run run;
    assert_true(aorta_layout_run_of(&by_rows, 0, 0, &run));
    assert_int_equal(run.count, 40);
    for (int rank = 1; rank < 4; rank++) assert_false(aorta_layout_run_of(&by_rows, 0, rank, &run));
    assert_int_equal(by_rows.shard, 48); /* the chunk's size on every rank */
    assert_int_equal(flat.shard, 16);
    assert_true(aorta_layout_run_of(&flat, 0, 2, &run));
    assert_int_equal(run.count, 8);
    assert_false(aorta_layout_run_of(&flat, 0, 3, &run));
}

/* Five rows on four ranks: chunks of two leave 2, 2, 1, 0. */
static void test_last_chunk_is_short(void **state) {
    (void)state;
    static const int64_t expected[] = {2, 2, 1, 0};
    struct aorta_layout layout = aorta_layout_make((int64_t[]){5}, (int64_t[]){3}, 1, 4, false);
    for (int rank = 0; rank < 4; rank++) {
        struct aorta_layout_run run;
        bool holds = aorta_layout_run_of(&layout, 0, rank, &run);
        assert_int_equal(holds ? run.count : 0, expected[rank] * 3);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_element_has_one_place),
        cmocka_unit_test(test_ranks_with_nothing),
        cmocka_unit_test(test_last_chunk_is_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
