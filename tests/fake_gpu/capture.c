/* The fake libcuda: captures, the graphs made of them, and what they tell of their kernels. */
#include "device/gpu/driver.h"
#include "fake_gpu/cuda.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what captured streams do ---- */

struct fake_node {
    struct fake_node *next;
    bool followed;                  /* others come behind it */
    struct fake_function *function; /* NULL: a copy, a host call or the like */
    unsigned block[3], shared_bytes, cluster;
    struct aorta_event *after;    /* recorded right behind it */
    const struct fake_call *call; /* that looks like this kernel */
    void *args;                   /* owned; NULL: the kernel has none */
    struct gpu_times times;
    void *parameters[2]; /* the two, for who asks */
};

static _Thread_local struct fake_node *captured_nodes; /* of the capture that this thread makes, the last one first */

/* What comes next comes behind these. */
enum { FRONTIER = 256 };
struct frontier {
    struct fake_node *nodes[FRONTIER];
    size_t count;
};

/* Where the streams of that capture are. */
struct last {
    const void *stream;
    struct frontier frontier;
    struct fake_node *awaited; /* the next command comes behind the beginning of this one, and has to be a kernel */
};
/* And the events recorded in it. */
struct record {
    const void *event;
    struct frontier frontier;
};
enum { CAPTURED_STREAMS = 64, RECORDS = 2048 };
static _Thread_local struct last captured_streams[CAPTURED_STREAMS];
static _Thread_local struct record records[RECORDS];

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

static struct record *record_of(const void *event) {
    for (int i = 0; i < RECORDS; i++) {
        struct record *record = &records[i];
        if (record->event && record->event != event) continue;
        record->event = event;
        return record;
    }
    fprintf(stderr, "fake GPU: more than %d events in a capture\n", RECORDS);
    abort();
}

static void forget_frontiers(void) {
    memset(captured_streams, 0, sizeof captured_streams);
    for (int i = 0; i < RECORDS && records[i].event; i++) records[i] = (struct record){0};
}

void fake_capture_record(const void *event, const struct aorta_stream *stream) {
    if (aorta_stream_capturing(stream)) record_of(event)->frontier = last_on(stream)->frontier;
}

static void add(struct frontier *frontier, struct fake_node *node) {
    for (size_t i = 0; i < frontier->count; i++)
        if (frontier->nodes[i] == node) return;
    if (frontier->count == FRONTIER) {
        fprintf(stderr, "fake GPU: a command behind more than %d others\n", FRONTIER);
        abort();
    }
    frontier->nodes[frontier->count++] = node;
}

void fake_capture_wait(const struct aorta_stream *stream, const void *event) {
    if (!aorta_stream_capturing(stream)) return;
    const struct frontier *from = &record_of(event)->frontier;
    for (size_t i = 0; i < from->count; i++) add(&last_on(stream)->frontier, from->nodes[i]);
}

static struct fake_node *add_node(void *stream, const struct fake_node *like) {
    struct fake_node *node = calloc(1, sizeof *node);
    *node = *like;
    node->next = captured_nodes;
    captured_nodes = node;
    const struct frontier *before = &last_on(stream)->frontier;
    for (size_t i = 0; i < before->count; i++) before->nodes[i]->followed = true;
    *last_on(stream) = (struct last){stream, {{node}, 1}, NULL};
    return node;
}

int fake_capture_other(void *stream) {
    if (!aorta_stream_capturing(stream)) return 0;
    if (last_on(stream)->awaited) return INVALID_VALUE;
    add_node(stream, &(struct fake_node){0});
    return 0;
}

struct fake_node *fake_capture_kernel(void *stream, struct fake_function *function, const unsigned *block,
                                      unsigned shared_bytes, unsigned cluster) {
    if (!aorta_stream_capturing(stream)) return NULL;
    struct fake_node node = {.function = function,
                             .block = {block[0], block[1], block[2]},
                             .shared_bytes = shared_bytes,
                             .cluster = cluster};
    return add_node(stream, &node);
}

void fake_capture_done(struct aorta_stream *stream) {
    if (!aorta_stream_capturing(stream)) return;
    struct fake_node *node = last_on(stream)->frontier.nodes[0];
    aorta_status_free(aorta_event_create_untimed(aorta_stream_device(stream), &node->after));
    if (node->after) aorta_status_free(aorta_event_record(node->after, stream));
}

void fake_capture_parameters(struct fake_node *node, void **parameters) {
    if (!node->function->tells_times) return;
    const size_t bytes = node->function->bytes; /* 0: of a kernel that nobody has */
    if (!node->args) node->args = aligned_alloc(16, bytes / 16 * 16 + 16);
    memcpy(node->args, parameters[0], bytes);
    node->times = *(const struct gpu_times *)parameters[1];
}

const void *fake_node_args(const struct fake_node *node) {
    return node->args;
}

const struct gpu_times *fake_node_times(const struct fake_node *node) {
    return &node->times;
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
        free(node->args);
        free(node);
    }
}

static _Atomic int leaves;

int fake_graph_leaves(void) {
    return atomic_load(&leaves);
}

/* The events order what is captured, and are not needed by the graph. */
static void end_nodes(struct fake_node *nodes) {
    atomic_store(&leaves, 0);
    for (struct fake_node *node = nodes; node; node = node->next) {
        if (!node->followed) atomic_fetch_add(&leaves, 1);
        if (node->after) aorta_event_destroy(node->after);
        node->after = NULL;
    }
    forget_frontiers();
}

/* ---- graphs ---- */

static _Atomic unsigned long long graph_flags;

unsigned long long fake_graph_flags(void) {
    return atomic_load(&graph_flags);
}

struct graph {
    struct aorta_graph *graph;
    struct fake_node *nodes;
    int references; /* the graph and what was made of it are one object here */
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
    forget_frontiers();
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
    *nodes = last_on(stream)->frontier.nodes;
    *count = last_on(stream)->frontier.count;
    return 0;
}

EXPORT int cuStreamUpdateCaptureDependencies_v2(void *stream, struct fake_node **nodes, const struct edge *edges,
                                                size_t count, unsigned flags);
int cuStreamUpdateCaptureDependencies_v2(void *stream, struct fake_node **nodes, const struct edge *edges, size_t count,
                                         unsigned flags) {
    ENTER();
    if (!aorta_stream_capturing(stream) || !count || flags > 1) return INVALID_VALUE;
    struct last *last = last_on(stream);
    if (flags) *last = (struct last){.stream = stream};
    for (size_t i = 0; i < count; i++) {
        const bool begun = edges[i].type == EDGE_PROGRAMMATIC;
        if (begun && (!nodes[i]->function || edges[i].from_port != PORT_LAUNCH_ORDER)) return INVALID_VALUE;
        if (begun) last->awaited = nodes[i];
        add(&last->frontier, nodes[i]);
        /* A kernel behind a beginning waits for the end, too. */
        int result = fake_code(aorta_stream_wait(stream, nodes[i]->after));
        if (result) return result;
    }
    return 0;
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
    struct fake_node *node = of->nodes;
    if (!nodes) *count = aorta_graph_node_count(of->graph);
    for (size_t i = 0; nodes && i < *count; i++) {
        nodes[i] = node;
        if (node) node = node->next;
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
    const struct fake_node *of = node;
    *type = of && of->function ? 0 : 1;
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
    struct fake_node *of = node;
    if (!of->function) return INVALID_VALUE;
    of->parameters[0] = of->args;
    of->parameters[1] = &of->times;
    *parameters = (struct kernel_parameters){.function = of->function,
                                             .grid = {1, 1, 1},
                                             .block = {of->block[0], of->block[1], of->block[2]},
                                             .shared_bytes = of->shared_bytes,
                                             .parameters = of->args ? of->parameters : NULL};
    return 0;
}

/* The function and its shape stay. */
EXPORT int cuGraphKernelNodeSetParams_v2(void *node, const struct kernel_parameters *parameters);
int cuGraphKernelNodeSetParams_v2(void *node, const struct kernel_parameters *parameters) {
    ENTER();
    struct fake_node *of = node;
    if (!of->function || parameters->function != of->function || !parameters->parameters) return INVALID_VALUE;
    fake_capture_parameters(of, parameters->parameters);
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
