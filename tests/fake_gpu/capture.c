/* The fake libcuda: captures, the graphs made of them, and what they tell of their kernels. */
#include "fake_gpu/cuda.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what captured streams do ---- */

struct fake_node {
    struct fake_node *next;
    struct fake_function *function;
    unsigned block[3], shared_bytes, cluster;
    struct aorta_event *before;   /* recorded right before it */
    const struct fake_call *call; /* that looks like this kernel */
};

static _Thread_local struct fake_node *captured_nodes; /* kernels of the capture that this thread makes */
static struct fake_node other_node;                    /* copies, host calls and the like */

/* What the streams of that capture did last. */
struct last {
    const void *stream;
    struct fake_node *node;    /* NULL: nothing */
    struct fake_node *awaited; /* the next command comes behind the beginning of this one, and has to be a kernel */
};
enum { CAPTURED_STREAMS = 64 };
static _Thread_local struct last captured_streams[CAPTURED_STREAMS];

static struct last *last_on(const void *stream) {
    for (int i = 0; i < CAPTURED_STREAMS; i++) {
        struct last *last = &captured_streams[i];
        if (last->stream && last->stream != stream) continue;
        last->stream = stream;
        return last;
    }
    fprintf(stderr, "fake GPU: more than %d streams in a capture\n", CAPTURED_STREAMS);
    abort();
}

int fake_capture_other(void *stream) {
    if (!aorta_stream_capturing(stream)) return 0;
    struct last *last = last_on(stream);
    if (last->awaited) return INVALID_VALUE;
    last->node = &other_node;
    return 0;
}

struct fake_node *fake_capture_kernel(void *stream, struct fake_function *function, const unsigned *block,
                                      unsigned shared_bytes, unsigned cluster) {
    if (!aorta_stream_capturing(stream)) return NULL;
    struct fake_node *node = calloc(1, sizeof *node);
    *node =
        (struct fake_node){captured_nodes, function, {block[0], block[1], block[2]}, shared_bytes, cluster, NULL, NULL};
    aorta_status_free(aorta_event_create_untimed(aorta_stream_device(stream), &node->before));
    if (node->before) aorta_status_free(aorta_event_record(node->before, stream));
    captured_nodes = node;
    *last_on(stream) = (struct last){stream, node, NULL};
    return node;
}

void fake_capture_call(struct fake_node *node, const struct fake_call *call) {
    node->call = call;
}

const struct fake_call *fake_captured_awaited(const struct aorta_stream *stream) {
    if (!aorta_stream_capturing(stream)) return NULL;
    const struct fake_node *awaited = last_on(stream)->awaited;
    return awaited ? awaited->call : NULL;
}

static void free_nodes(struct fake_node **nodes) {
    while (*nodes) {
        struct fake_node *node = *nodes;
        *nodes = node->next;
        free(node);
    }
}

/* The events order what is captured, and are not needed by the graph. */
static void end_nodes(struct fake_node *nodes) {
    for (struct fake_node *node = nodes; node; node = node->next) {
        if (node->before) aorta_event_destroy(node->before);
        node->before = NULL;
    }
    memset(captured_streams, 0, sizeof captured_streams);
}

/* ---- graphs ---- */

static _Atomic unsigned long long graph_flags;

unsigned long long fake_graph_flags(void) {
    return atomic_load(&graph_flags);
}

struct graph {
    struct aorta_graph *graph;
    struct fake_node *nodes; /* kernels */
    int references;          /* the graph and what was made of it are one object here */
};

static void drop(struct graph *graph) {
    if (--graph->references) return;
    aorta_graph_destroy(graph->graph);
    free_nodes(&graph->nodes);
    free(graph);
}

EXPORT int cuStreamBeginCapture_v2(void *stream, int mode);
int cuStreamBeginCapture_v2(void *stream, int mode) {
    ENTER();
    (void)mode;
    free_nodes(&captured_nodes);
    memset(captured_streams, 0, sizeof captured_streams);
    return fake_code(aorta_capture_begin(stream));
}

/* CUgraphEdgeData */
struct edge {
    unsigned char from_port, to_port, type, reserved[5];
};
enum { PORT_LAUNCH_ORDER = 2, EDGE_PROGRAMMATIC = 1 };

EXPORT int cuStreamGetCaptureInfo_v3(void *stream, int *status, unsigned long *id, void **graph,
                                     struct fake_node *const **nodes, const struct edge **edges, size_t *count);
int cuStreamGetCaptureInfo_v3(void *stream, int *status, unsigned long *id, void **graph,
                              struct fake_node *const **nodes, const struct edge **edges, size_t *count) {
    ENTER();
    if (!aorta_stream_capturing(stream)) return INVALID_VALUE;
    *status = 1;
    *id = 1;
    *graph = NULL;
    *edges = NULL;
    *nodes = &last_on(stream)->node;
    *count = **nodes ? 1 : 0;
    return 0;
}

EXPORT int cuStreamUpdateCaptureDependencies_v2(void *stream, struct fake_node **nodes, const struct edge *edges,
                                                size_t count, unsigned flags);
int cuStreamUpdateCaptureDependencies_v2(void *stream, struct fake_node **nodes, const struct edge *edges, size_t count,
                                         unsigned flags) {
    ENTER();
    if (!aorta_stream_capturing(stream) || count != 1 || flags > 1) return INVALID_VALUE;
    if (nodes[0] == &other_node || edges[0].from_port != PORT_LAUNCH_ORDER || edges[0].type != EDGE_PROGRAMMATIC)
        return INVALID_VALUE;
    last_on(stream)->awaited = nodes[0];
    return fake_code(aorta_stream_wait(stream, nodes[0]->before));
}

EXPORT int cuStreamEndCapture(void *stream, void **graph);
int cuStreamEndCapture(void *stream, void **graph) {
    struct aorta_graph *captured = NULL;
    int wanted = fake_check(__func__), result = fake_code(aorta_capture_end(stream, &captured));
    end_nodes(captured_nodes);
    if (wanted) aorta_graph_destroy(captured);
    if (wanted || result) return wanted ? wanted : result;
    struct graph *made = malloc(sizeof *made);
    *made = (struct graph){captured, captured_nodes, 1};
    captured_nodes = NULL;
    *graph = made;
    return 0;
}

EXPORT int cuGraphGetNodes(void *graph, void **nodes, size_t *count);
int cuGraphGetNodes(void *graph, void **nodes, size_t *count) {
    ENTER();
    const struct graph *of = graph;
    struct fake_node *kernel = of->nodes;
    if (!nodes) *count = aorta_graph_node_count(of->graph);
    for (size_t i = 0; nodes && i < *count; i++) {
        nodes[i] = kernel ? kernel : &other_node;
        if (kernel) kernel = kernel->next;
    }
    return 0;
}

EXPORT int cuGraphInstantiateWithFlags(void **executable, void *graph, unsigned long long flags);
int cuGraphInstantiateWithFlags(void **executable, void *graph, unsigned long long flags) {
    ENTER();
    atomic_store(&graph_flags, flags);
    ((struct graph *)graph)->references++;
    *executable = graph;
    return 0;
}

EXPORT int cuGraphLaunch(void *executable, void *stream);
int cuGraphLaunch(void *executable, void *stream) {
    ENTER();
    return fake_code(aorta_graph_launch(((struct graph *)executable)->graph, stream));
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

/* ---- what graphs tell of their kernels ---- */

EXPORT int cuGraphNodeGetType(void *node, int *type);
int cuGraphNodeGetType(void *node, int *type) {
    ENTER();
    *type = node == &other_node ? 1 : 0;
    return 0;
}

/* CUDA_KERNEL_NODE_PARAMS_v2 */
struct kernel_parameters {
    void *function;
    unsigned grid[3], block[3], shared_bytes;
    void **parameters, **extra;
    void *kernel, *context;
};

EXPORT int cuGraphKernelNodeGetParams_v2(void *node, struct kernel_parameters *parameters);
int cuGraphKernelNodeGetParams_v2(void *node, struct kernel_parameters *parameters) {
    ENTER();
    const struct fake_node *of = node;
    if (of == &other_node) return INVALID_VALUE;
    *parameters = (struct kernel_parameters){.function = of->function,
                                             .grid = {1, 1, 1},
                                             .block = {of->block[0], of->block[1], of->block[2]},
                                             .shared_bytes = of->shared_bytes};
    return 0;
}

EXPORT int cuGraphKernelNodeGetAttribute(void *node, int attribute, unsigned *value);
int cuGraphKernelNodeGetAttribute(void *node, int attribute, unsigned *value) {
    ENTER();
    if (attribute != 4) return INVALID_VALUE;
    const unsigned cluster = ((const struct fake_node *)node)->cluster;
    value[0] = cluster;
    value[1] = value[2] = cluster ? 1 : 0;
    return 0;
}
