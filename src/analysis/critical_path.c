#include "analysis/critical_path.h"

#include "base/sort.h"

#include <stdlib.h>
#include <string.h>

const char *aorta_path_kind_name(int kind) {
    static const char *const names[] = {"kernel", "collective", "copy", "launch",    "behind",
                                        "call",   "return",     "host", "data_wait", "unexplained"};
    return names[kind];
}

void aorta_critical_path_free(struct aorta_critical_path *path) {
    free(path->pieces);
    *path = (struct aorta_critical_path){0};
}

static int by_name(const void *left, const void *right) {
    const struct aorta_path_row *a = left, *b = right;
    if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    if (!a->name || !b->name) return (a->name != NULL) - (b->name != NULL);
    return strcmp(a->name, b->name);
}

static int longest_first(const void *left, const void *right) {
    const struct aorta_path_row *a = left, *b = right;
    return a->ns != b->ns ? aorta_order_int64(b->ns, a->ns) : by_name(left, right);
}

aorta_status aorta_path_rows_make(const struct aorta_critical_path *path, uint32_t rank, struct aorta_path_rows *rows) {
    size_t joined = 0;
    *rows = (struct aorta_path_rows){.reason = path->reason, .rows = malloc((path->count + 1) * sizeof *rows->rows)};
    if (!rows->rows) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu pieces of the critical path", path->count);
    for (size_t i = 0; i < path->count; i++) {
        const struct aorta_path_piece *piece = &path->pieces[i];
        const int64_t ns = piece->end_ns - piece->start_ns;
        rows->total_ns += ns;
        if (rank == UINT32_MAX || piece->rank == rank)
            rows->rows[rows->count++] = (struct aorta_path_row){piece->rank, piece->kind, piece->name, 1, ns};
    }
    if (rows->count) qsort(rows->rows, rows->count, sizeof *rows->rows, by_name);
    for (size_t i = 0; i < rows->count; i++) {
        struct aorta_path_row *last = joined ? &rows->rows[joined - 1] : NULL;
        if (last && !by_name(last, &rows->rows[i])) {
            last->count++;
            last->ns += rows->rows[i].ns;
        } else {
            rows->rows[joined++] = rows->rows[i];
        }
    }
    rows->count = joined;
    if (joined) qsort(rows->rows, joined, sizeof *rows->rows, longest_first);
    return NULL;
}

void aorta_path_rows_free(struct aorta_path_rows *rows) {
    free(rows->rows);
    *rows = (struct aorta_path_rows){0};
}
