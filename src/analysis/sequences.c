#include "analysis/sequences.h"

#include "base/array.h"
#include "base/hash.h"
#include "base/table.h"

#include <stdlib.h>

/* What one run of an operation launched, with all that ran within it. */
struct run {
    uint64_t hash;
    int64_t ns, start_ns, end_ns;
    uint32_t count; /* stops beyond the longest */
    uint32_t row;   /* of the sequence whose first run this is, + 1 */
};

struct key {
    uint64_t hash;
    uint32_t length;
};

struct making {
    const struct aorta_trace_rank *rank;
    const struct aorta_trace *trace;
    struct run *runs; /* one for each operation */
    struct aorta_sequences *sequences;
    struct key *keys; /* of the rows */
    size_t row_capacity, key_capacity;
    struct aorta_table table;
};

static uint64_t hash_of_key(const void *of, uint32_t number) {
    return ((const struct key *)of)[number].hash;
}

static bool is_key(const void *of, uint32_t number, const void *wanted) {
    const struct key *row = (const struct key *)of + number, *key = wanted;
    return row->hash == key->hash && row->length == key->length;
}

/* ---- runs ---- */

static void add_work(struct making *making, const struct aorta_trace_work *work) {
    for (uint32_t at = work->operation; at != AORTA_TRACE_NONE; at = making->trace->operations[at].parent) {
        struct run *run = &making->runs[at];
        if (making->trace->operations[at].range || run->count > AORTA_SEQUENCE_LONGEST) continue;
        if (!run->count) run->start_ns = work->start_ns;
        if (!run->count || work->end_ns > run->end_ns) run->end_ns = work->end_ns;
        run->count++;
        run->ns += work->end_ns - work->start_ns;
        run->hash = aorta_hash_add(run->hash, work->name);
    }
}

/* The operation around it, if that launched nothing else. */
static bool is_within_equal(const struct making *making, size_t operation) {
    const struct aorta_trace_operation *operations = making->trace->operations;
    uint32_t around = operations[operation].parent;
    while (around != AORTA_TRACE_NONE && operations[around].range) around = operations[around].parent;
    return around != AORTA_TRACE_NONE && making->runs[around].count == making->runs[operation].count;
}

/* ---- rows ---- */

static bool count_run(struct making *making, size_t operation) {
    struct aorta_sequences *sequences = making->sequences;
    struct run *run = &making->runs[operation];
    const struct key key = {run->hash, run->count};
    if (!aorta_table_reserve(&making->table, sequences->count + 1, hash_of_key, making->keys)) return false;
    uint32_t *slot = aorta_table_slot(&making->table, key.hash, is_key, making->keys, &key);
    if (!*slot) {
        if (!aorta_array_fit(&sequences->rows, &making->row_capacity, sequences->count + 1, sizeof *sequences->rows) ||
            !aorta_array_fit(&making->keys, &making->key_capacity, sequences->count + 1, sizeof *making->keys))
            return false;
        making->keys[sequences->count] = key;
        sequences->rows[sequences->count++] =
            (struct aorta_sequence){.operation = making->trace->operations[operation].name};
        *slot = run->row = (uint32_t)sequences->count;
    }
    struct aorta_sequence *row = &sequences->rows[*slot - 1];
    row->runs++;
    row->ns += run->ns;
    row->span_ns += run->end_ns - run->start_ns;
    return true;
}

static void name_kernels(struct making *making, const struct aorta_trace_work *work) {
    for (uint32_t at = work->operation; at != AORTA_TRACE_NONE; at = making->trace->operations[at].parent) {
        if (!making->runs[at].row) continue;
        struct aorta_sequence *row = &making->sequences->rows[making->runs[at].row - 1];
        row->kernels[row->length++] = work->name;
    }
}

static int most_first(const void *left, const void *right) {
    const struct aorta_sequence *a = left, *b = right;
    const size_t of_a = a->runs * a->length, of_b = b->runs * b->length;
    if (of_a != of_b) return of_a > of_b ? -1 : 1;
    if (a->ns != b->ns) return a->ns > b->ns ? -1 : 1;
    return (a->operation > b->operation) - (a->operation < b->operation);
}

static void drop_single(struct aorta_sequences *sequences) {
    size_t left = 0;
    for (size_t i = 0; i < sequences->count; i++)
        if (sequences->rows[i].runs > 1) sequences->rows[left++] = sequences->rows[i];
    sequences->count = left;
    if (left) qsort(sequences->rows, left, sizeof *sequences->rows, most_first);
}

static bool make(struct making *making) {
    const struct aorta_trace_rank *rank = making->rank;
    making->runs = calloc(making->trace->operation_count + 1, sizeof *making->runs);
    if (!making->runs) return false;
    for (size_t i = 0; i < rank->work_count; i++) add_work(making, &rank->work[i]);
    for (size_t i = 0; i < making->trace->operation_count; i++) {
        const uint32_t count = making->runs[i].count;
        if (count < AORTA_SEQUENCE_SHORTEST || count > AORTA_SEQUENCE_LONGEST || is_within_equal(making, i)) continue;
        if (!count_run(making, i)) return false;
    }
    for (size_t i = 0; i < rank->work_count; i++) name_kernels(making, &rank->work[i]);
    return true;
}

aorta_status aorta_sequences_make(const struct aorta_trace_rank *rank, struct aorta_sequences *sequences) {
    struct making making = {.rank = rank, .trace = rank->trace, .sequences = sequences};
    *sequences = (struct aorta_sequences){0};
    const bool made = make(&making);
    if (made) drop_single(sequences);
    if (!rank->trace->operation_count)
        sequences->reason = "the file has no operations of a framework that launched this work";
    else if (!sequences->count)
        sequences->reason = "no operation launched the same kernels twice";
    aorta_table_free(&making.table);
    free(making.keys);
    free(making.runs);
    if (made) return NULL;
    aorta_sequences_free(sequences);
    return AORTA_ERROR(AORTA_MEMORY, "no memory for the sequences of %zu kernels", rank->work_count);
}

void aorta_sequences_free(struct aorta_sequences *sequences) {
    free(sequences->rows);
    *sequences = (struct aorta_sequences){0};
}
