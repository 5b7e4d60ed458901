/* Shared by graph.c and graph_check.c: allocations, their readers and writers, and waits. */
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

/* Returns this access or the next earlier one that belongs to the graph, as graphs can share tensors. */
static inline const struct hwq_access *hwq_access_of(const struct hwq_access *a, const struct hwq_graph *g) {
    while (a && a->operation->graph != g) a = a->before;
    return a;
}

struct hwq_memory {
    const char *name;
    enum aorta_dtype dtype;
    char *address; /* NULL: a group of ranks */
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

/* Do the views share elements? */
bool hwq_overlap(const struct hwq_tensor *a, const struct hwq_tensor *b);
/* Whether the two need an order: one writes elements that the other reads or writes. */
bool hwq_conflict(const struct hwq_access *a, const struct hwq_access *b);
const char *hwq_operation_name(const struct hwq_operation *o);

#endif
