/* What the files of a graph share: allocations, who reads and writes them, and waits. */
#ifndef AORTA_HWQ_GRAPH_INTERNAL_H
#define AORTA_HWQ_GRAPH_INTERNAL_H

#include "hwq/graph.h"

struct hwq_access {
    const struct hwq_operation *operation;
    const struct hwq_tensor *tensor; /* of that operation */
    int output;                      /* which; −1: it is read */
    struct hwq_access *before;       /* by an earlier operation, or the same */
    struct hwq_access *write_before; /* the next earlier one that writes */
};

/* The access, or the next earlier one, of an operation of this graph: another graph may have the same tensors. */
static inline const struct hwq_access *hwq_access_of(const struct hwq_access *a, const struct hwq_graph *g) {
    while (a && a->operation->graph != g) a = a->before;
    return a;
}

static inline const struct hwq_access *hwq_write_of(const struct hwq_access *a, const struct hwq_graph *g) {
    while (a && a->operation->graph != g) a = a->write_before;
    return a;
}

struct hwq_memory {
    const char *name;
    enum aorta_dtype dtype;
    char *address; /* NULL: stands for a group of ranks */
    size_t bytes;
    bool result, pinned;
    const void *group;
    struct hwq_access *last, *last_write;
    void **pages[2]; /* verification's copies, before and after the iteration */
    struct hwq_memory *next;
};

struct hwq_wait {
    struct hwq_operation *operation;
    struct hwq_wait *next;
};

struct hwq_region {
    const char *name;
    int stream;
    struct aorta_graph *captured;
    struct hwq_region *next;
};

struct hwq_owned {
    void (*end)(void *object);
    void *object;
    struct hwq_owned *next;
};

struct hwq_launch {
    struct hwq_operation *operation;
    struct hwq_launch *next;
};

/* In bytes of the allocation. */
static inline int64_t hwq_address(const struct hwq_tensor *t, int64_t row, int64_t column) {
    const int64_t within = column < t->width ? column : column / t->width * t->period + column % t->width;
    return t->offset + (row * t->stride + within) * t->size;
}
/* Is the byte in the view, and in which row and column? (graph_order.c) */
bool hwq_contains(const struct hwq_tensor *t, int64_t address, int64_t *row, int64_t *column);
/* Exact. */
bool hwq_overlap(const struct hwq_tensor *a, const struct hwq_tensor *b);
/* Operations on one memory that need an order: what one writes the other reads or writes as well. */
bool hwq_conflict(const struct hwq_access *a, const struct hwq_access *b);
const char *hwq_operation_name(const struct hwq_operation *o);

#endif
