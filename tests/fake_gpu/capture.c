/* The fake libcuda: captures, and the graphs made of them. */
#include "fake_gpu/cuda.h"
#include "fake_gpu/records.h"

#include <stdatomic.h>
#include <stdlib.h>

static _Atomic unsigned long long graph_flags;

unsigned long long fake_graph_flags(void) {
    return atomic_load(&graph_flags);
}

struct graph {
    struct aorta_graph *graph;
    struct fake_nodes *nodes;
    int references; /* the graph and what was made of it are one object here */
};

static void drop(struct graph *graph) {
    if (--graph->references) return;
    aorta_graph_destroy(graph->graph);
    free(graph);
}

EXPORT int cuStreamBeginCapture_v2(void *stream, int mode);
int cuStreamBeginCapture_v2(void *stream, int mode) {
    ENTER();
    (void)mode;
    fake_records_capture();
    return fake_code(aorta_capture_begin(stream));
}

EXPORT int cuStreamEndCapture(void *stream, void **graph);
int cuStreamEndCapture(void *stream, void **graph) {
    struct aorta_graph *captured = NULL;
    int wanted = fake_check(__func__), result = fake_code(aorta_capture_end(stream, &captured));
    struct fake_nodes *nodes = fake_records_captured();
    if (wanted) aorta_graph_destroy(captured);
    if (wanted || result) return wanted ? wanted : result;
    struct graph *made = malloc(sizeof *made);
    *made = (struct graph){captured, nodes, 1};
    *graph = made;
    return 0;
}

/* Their number is all that is known of them. */
EXPORT int cuGraphGetNodes(void *graph, void **nodes, size_t *count);
int cuGraphGetNodes(void *graph, void **nodes, size_t *count) {
    ENTER();
    if (nodes) return INVALID_VALUE;
    *count = aorta_graph_node_count(((const struct graph *)graph)->graph);
    return 0;
}

EXPORT int cuGraphInstantiateWithFlags(void **executable, void *graph, unsigned long long flags);
int cuGraphInstantiateWithFlags(void **executable, void *graph, unsigned long long flags) {
    struct graph *of = graph;
    ENTER();
    atomic_store(&graph_flags, flags);
    fake_records_instantiate(of->nodes);
    of->references++;
    *executable = graph;
    return 0;
}

EXPORT int cuGraphLaunch(void *executable, void *stream);
int cuGraphLaunch(void *executable, void *stream) {
    const struct graph *of = executable;
    ENTER();
    fake_records_replay(of->nodes, stream);
    return fake_code(aorta_graph_launch(of->graph, stream));
}

EXPORT int cuGraphDestroy(void *graph);
int cuGraphDestroy(void *graph) {
    int wanted = fake_check(__func__); /* what is destroyed is gone all the same */
    drop(graph);
    return wanted;
}

EXPORT int cuGraphExecDestroy(void *executable);
int cuGraphExecDestroy(void *executable) {
    int wanted = fake_check(__func__); /* what is destroyed is gone all the same */
    drop(executable);
    return wanted;
}
