#include "train/layout.h"

static int64_t align(int64_t elements) {
    return (elements + AORTA_LAYOUT_ALIGNMENT - 1) / AORTA_LAYOUT_ALIGNMENT * AORTA_LAYOUT_ALIGNMENT;
}

static int64_t ceil_divide(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

struct aorta_layout aorta_layout_make(const int64_t *rows, const int64_t *columns, int count, int ranks, bool flat) {
    struct aorta_layout layout = {.ranks = ranks, .flat = flat || ranks == 1, .count = count};
    for (int i = 0; i < count; i++) {
        int64_t chunk_rows = ceil_divide(rows[i], ranks);
        layout.parameters[i] =
            (struct aorta_layout_parameter){rows[i], columns[i], layout.full, chunk_rows, layout.shard};
        int64_t chunk = chunk_rows * columns[i];
        layout.full += align(layout.flat ? rows[i] * columns[i] : chunk * ranks);
        layout.shard += align(chunk);
    }
    if (!layout.flat) return layout;
    layout.shard = align(ceil_divide(layout.full, ranks));
    layout.full = layout.shard * ranks;
    return layout;
}

int aorta_layout_piece_count(const struct aorta_layout *layout) {
    return layout->flat ? 1 : layout->count;
}

struct aorta_layout_piece aorta_layout_piece(const struct aorta_layout *layout, int piece) {
    if (layout->flat) return (struct aorta_layout_piece){0, 0, layout->shard};
    const struct aorta_layout_parameter *p = &layout->parameters[piece];
    return (struct aorta_layout_piece){p->shard_offset, p->full_offset, p->chunk_rows * p->columns};
}

bool aorta_layout_run_of(const struct aorta_layout *layout, int parameter, int rank, struct aorta_layout_run *run) {
    const struct aorta_layout_parameter *p = &layout->parameters[parameter];
    if (layout->flat) {
        int64_t shard_first = rank * layout->shard, shard_end = shard_first + layout->shard;
        int64_t first = larger(p->full_offset, shard_first);
        int64_t end = smaller(p->full_offset + p->rows * p->columns, shard_end);
        *run = (struct aorta_layout_run){first - shard_first, first, end - first};
    } else {
        int64_t first = smaller(rank * p->chunk_rows, p->rows), end = smaller(first + p->chunk_rows, p->rows);
        *run =
            (struct aorta_layout_run){p->shard_offset, p->full_offset + first * p->columns, (end - first) * p->columns};
    }
    return run->count > 0;
}
