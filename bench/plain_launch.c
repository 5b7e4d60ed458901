/* The plain other side of bench/hwq_launch_rate.py: CUDA's driver called as directly as can be, the launches of
 * tiny_kernel_stress in a loop from one host thread, eagerly and as a graph.
 *   bench_plain_launch STREAMS eager|graph [ITERATIONS]
 *
 * An iteration is 100 rounds of a chain of four kernels on each stream in turn; it ends when all streams have. Prints
 * the median of its time in ms and the launches of one. The functions' signatures are those of cuda.h and nvrtc.h. */
#include "base/clock.h"
#include "base/statistics.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHAINS = 100, LINKS = 4, ELEMENTS = 256, MOST_STREAMS = 64, WARMUP = 5, MOST_ITERATIONS = 1000 };

static const char text[] =
    "extern \"C\" __global__ void multiply(float *x) { x[threadIdx.x] *= 1.0001f; }\n"
    "extern \"C\" __global__ void add(float *x) { x[threadIdx.x] += 0.5f; }\n"
    "extern \"C\" __global__ void absolute(float *x) { float v = x[threadIdx.x]; x[threadIdx.x] = v < 0 ? -v : v; }\n"
    "extern \"C\" __global__ void clamp(float *x) { float v = x[threadIdx.x]; x[threadIdx.x] = v > 8 ? 8 : v; }\n";
static const char *const names[LINKS] = {"multiply", "add", "absolute", "clamp"};

struct driver {
    int (*init)(unsigned);
    int (*device_get)(int *, int);
    int (*attribute)(int *, int, int);
    int (*retain)(void **, int);
    int (*set_current)(void *);
    int (*load)(void **, const void *);
    int (*function)(void **, void *, const char *);
    int (*alloc)(unsigned long long *, size_t);
    int (*stream_create)(void **, unsigned);
    int (*stream_synchronize)(void *);
    int (*stream_wait)(void *, void *, unsigned);
    int (*event_create)(void **, unsigned);
    int (*event_record)(void *, void *);
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                  void **);
    int (*capture_begin)(void *, int);
    int (*capture_end)(void *, void **);
    int (*instantiate)(void **, void *, unsigned long long);
    int (*graph_launch)(void *, void *);
};

struct compiler {
    int (*create)(void **, const char *, const char *, int, const char *const *, const char *const *);
    int (*compile)(void *, int, const char *const *);
    int (*size)(void *, size_t *);
    int (*get)(void *, char *);
};

static void fail(const char *what, int code) {
    fprintf(stderr, "bench_plain_launch: %s: %d\n", what, code);
    exit(1);
}

static void check(const char *what, int code) {
    if (code) fail(what, code);
}

static void find(const char *const *libraries, const char *const *symbols, void *functions) {
    void *library = NULL;
    for (; *libraries && !library; libraries++) library = dlopen(*libraries, RTLD_NOW);
    if (!library) fail("a library of CUDA is missing", 0);
    for (void **function = functions; *symbols; symbols++, function++)
        if (!(*function = dlsym(library, *symbols))) fail(*symbols, 0);
}

struct bench {
    struct driver cu;
    void *functions[LINKS], *streams[MOST_STREAMS], *events[MOST_STREAMS], *graph;
    unsigned long long values[MOST_STREAMS];
    int stream_count;
};

static char *compile(struct bench *b) {
    static const char *const libraries[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", NULL};
    static const char *const symbols[] = {"nvrtcCreateProgram", "nvrtcCompileProgram", "nvrtcGetPTXSize", "nvrtcGetPTX",
                                          NULL};
    struct compiler nvrtc;
    find(libraries, symbols, &nvrtc);
    int major = 0, minor = 0;
    check("device attribute", b->cu.attribute(&major, 75, 0));
    check("device attribute", b->cu.attribute(&minor, 76, 0));
    char architecture[32];
    snprintf(architecture, sizeof architecture, "-arch=compute_%d%d", major, minor);
    const char *const options[] = {architecture};
    void *program;
    size_t bytes;
    check("nvrtcCreateProgram", nvrtc.create(&program, text, "plain.cu", 0, NULL, NULL));
    check("nvrtcCompileProgram", nvrtc.compile(program, 1, options));
    check("nvrtcGetPTXSize", nvrtc.size(program, &bytes));
    char *ptx = malloc(bytes);
    if (!ptx) fail("out of memory", 0);
    check("nvrtcGetPTX", nvrtc.get(program, ptx));
    return ptx;
}

static void open_driver(struct bench *b) {
    static const char *const libraries[] = {"libcuda.so.1", NULL};
    static const char *const symbols[] = {"cuInit",
                                          "cuDeviceGet",
                                          "cuDeviceGetAttribute",
                                          "cuDevicePrimaryCtxRetain",
                                          "cuCtxSetCurrent",
                                          "cuModuleLoadData",
                                          "cuModuleGetFunction",
                                          "cuMemAlloc_v2",
                                          "cuStreamCreate",
                                          "cuStreamSynchronize",
                                          "cuStreamWaitEvent",
                                          "cuEventCreate",
                                          "cuEventRecord",
                                          "cuLaunchKernel",
                                          "cuStreamBeginCapture_v2",
                                          "cuStreamEndCapture",
                                          "cuGraphInstantiateWithFlags",
                                          "cuGraphLaunch",
                                          NULL};
    find(libraries, symbols, &b->cu);
    int device;
    void *context, *module;
    check("cuInit", b->cu.init(0));
    check("cuDeviceGet", b->cu.device_get(&device, 0));
    check("cuDevicePrimaryCtxRetain", b->cu.retain(&context, device));
    check("cuCtxSetCurrent", b->cu.set_current(context));
    char *ptx = compile(b);
    check("cuModuleLoadData", b->cu.load(&module, ptx));
    free(ptx);
    for (int i = 0; i < LINKS; i++) check(names[i], b->cu.function(&b->functions[i], module, names[i]));
    for (int s = 0; s < b->stream_count; s++) {
        check("cuStreamCreate", b->cu.stream_create(&b->streams[s], 1));
        check("cuEventCreate", b->cu.event_create(&b->events[s], 2));
        check("cuMemAlloc", b->cu.alloc(&b->values[s], ELEMENTS * sizeof(float)));
    }
}

static void launch_all(struct bench *b) {
    for (int chain = 0; chain < CHAINS; chain++) {
        for (int s = 0; s < b->stream_count; s++) {
            void *arguments[] = {&b->values[s]};
            for (int i = 0; i < LINKS; i++)
                check("cuLaunchKernel",
                      b->cu.launch(b->functions[i], 1, 1, 1, ELEMENTS, 1, 1, 0, b->streams[s], arguments, NULL));
        }
    }
}

static void capture(struct bench *b) {
    void *graph;
    check("cuStreamBeginCapture", b->cu.capture_begin(b->streams[0], 2));
    check("cuEventRecord", b->cu.event_record(b->events[0], b->streams[0]));
    for (int s = 1; s < b->stream_count; s++)
        check("cuStreamWaitEvent", b->cu.stream_wait(b->streams[s], b->events[0], 0));
    launch_all(b);
    for (int s = 1; s < b->stream_count; s++) {
        check("cuEventRecord", b->cu.event_record(b->events[s], b->streams[s]));
        check("cuStreamWaitEvent", b->cu.stream_wait(b->streams[0], b->events[s], 0));
    }
    check("cuStreamEndCapture", b->cu.capture_end(b->streams[0], &graph));
    check("cuGraphInstantiate", b->cu.instantiate(&b->graph, graph, 0));
}

static double iteration_ms(struct bench *b) {
    const int64_t start = aorta_clock_ns();
    if (b->graph)
        check("cuGraphLaunch", b->cu.graph_launch(b->graph, b->streams[0]));
    else
        launch_all(b);
    for (int s = 0; s < b->stream_count; s++) check("cuStreamSynchronize", b->cu.stream_synchronize(b->streams[s]));
    return (double)(aorta_clock_ns() - start) * 1e-6;
}

int main(int argc, char **argv) {
    static double times[MOST_ITERATIONS];
    struct bench b = {.stream_count = argc > 1 ? atoi(argv[1]) : 0};
    const int iterations = argc > 3 ? atoi(argv[3]) : 30;
    const bool graph = argc > 2 && strcmp(argv[2], "graph") == 0, eager = argc > 2 && strcmp(argv[2], "eager") == 0;
    if (b.stream_count < 1 || b.stream_count > MOST_STREAMS || !(graph || eager) || iterations < 1 ||
        iterations > MOST_ITERATIONS) {
        fprintf(stderr, "usage: %s STREAMS (1 to %d) eager|graph [ITERATIONS (1 to %d)]\n", argv[0], MOST_STREAMS,
                MOST_ITERATIONS);
        return 2;
    }
    open_driver(&b);
    if (graph) capture(&b);
    for (int i = -WARMUP; i < iterations; i++) {
        const double ms = iteration_ms(&b);
        if (i >= 0) times[i] = ms;
    }
    const struct aorta_summary summary = aorta_summarise(times, (size_t)iterations);
    printf("%.6f %d\n", summary.p50, CHAINS * LINKS * b.stream_count);
    return 0;
}
