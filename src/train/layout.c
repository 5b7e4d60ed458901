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

/* A rank's share of it is `count` elements. */
static int add_piece(struct aorta_layout *layout, int64_t count, int64_t elements) {
    layout->pieces[layout->piece_count] =
        (struct aorta_layout_piece){layout->shard, layout->full, count, elements == count * layout->ranks};
    layout->full += align(count * layout->ranks);
    layout->shard += align(count);
    return layout->piece_count++;
}

static void add_rows(struct aorta_layout *layout, int parameter) {
    struct aorta_layout_parameter *p = &layout->parameters[parameter];
    p->full_offset = layout->full;
    p->piece = add_piece(layout, ceil_divide(p->rows, layout->ranks) * p->columns, p->rows * p->columns);
}

static void add_all(struct aorta_layout *layout) {
    int64_t end = 0, elements = 0;
    for (int i = 0; i < layout->count; i++) {
        struct aorta_layout_parameter *p = &layout->parameters[i];
        p->full_offset = end;
        elements += p->rows * p->columns;
        end += align(p->rows * p->columns);
    }
    add_piece(layout, align(ceil_divide(end, layout->ranks)), elements);
}

struct aorta_layout aorta_layout_make(const int64_t *rows, const int64_t *columns, int count, int ranks, bool flat) {
    struct aorta_layout layout = {.ranks = ranks, .count = count};
    const bool by_rows = !flat && ranks > 1;
    for (int i = 0; i < count; i++) {
        layout.parameters[i] = (struct aorta_layout_parameter){.rows = rows[i], .columns = columns[i]};
        if (by_rows) add_rows(&layout, i);
    }
    if (!by_rows) add_all(&layout);
    return layout;
}

/* A chunk of rows may reach beyond the parameter, an even share beyond it on either side. */
bool aorta_layout_run_of(const struct aorta_layout *layout, int parameter, int rank, struct aorta_layout_run *run) {
    const struct aorta_layout_parameter *p = &layout->parameters[parameter];
    const struct aorta_layout_piece *piece = &layout->pieces[p->piece];
    const int64_t share = piece->full_offset + rank * piece->count;
    const int64_t first = larger(p->full_offset, share);
    const int64_t end = smaller(p->full_offset + p->rows * p->columns, share + piece->count);
    *run = (struct aorta_layout_run){piece->shard_offset + (first - share), first, end - first};
    return run->count > 0;
}
