/* Launches per second of tiny_kernel_stress: ours through the harness, against a plain loop on CUDA's driver interface.
 *   bench_hwq_launch_rate
 *
 * Both launch 100 chains of 4 kernels on 256 elements on each of 1, 8, 32 and 64 streams, again and again without
 * waiting, eager and as a graph; host clock over all of it and the last wait. Rounds alternate, after one that does not
 * count; each round has a ratio; printed are medians and the range of the ratios. The aim is a median ratio of 0.95;
 * exit code 3 if one is below. Needs an NVIDIA GPU. */
#include "base/clock.h"
#include "base/statistics.h"
#include "device/gpu.h"
#include "hwq/graph.h"
#include "hwq/iterations.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHAINS = 100, LINKS = 4, ELEMENTS = 256, ROUNDS = 9, MOST = AORTA_HWQ_MAX_STREAMS };

/* ---- the plain side ---- */

struct plain {
    int (*alloc)(unsigned long long *, size_t);
    int (*module_load)(void **, const void *);
    int (*module_function)(void **, void *, const char *);
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                  void **);
    int (*stream_create)(void **, unsigned);
    int (*stream_synchronize)(void *);
    int (*event_create)(void **, unsigned);
    int (*event_record)(void *, void *);
    int (*stream_wait)(void *, void *, unsigned);
    int (*capture_begin)(void *, int);
    int (*capture_end)(void *, void **);
    int (*instantiate)(void **, void *, unsigned long long);
    int (*graph_launch)(void *, void *);
    int (*graph_destroy)(void *);
    int (*executable_destroy)(void *);
    void *function, *streams[MOST], *events[MOST];
    unsigned long long values[MOST];
};

static const char source[] =
    "extern \"C\" __global__ void chain(float *x, long long n, int link, float a, float b) {\n"
    "    long long i = (long long)blockIdx.x * 256 + threadIdx.x;\n"
    "    if (i >= n) return;\n"
    "    float v = x[i];\n"
    "    x[i] = link == 0 ? v * a : link == 1 ? v + a : link == 2 ? fabsf(v) : v < a ? a : v > b ? b : v;\n"
    "}\n";

static void need(int result, const char *what) {
    if (!result) return;
    fprintf(stderr, "%s: error %d\n", what, result);
    exit(1);
}

static void *symbol(void *library, const char *name) {
    void *found = library ? dlsym(library, name) : NULL;
    if (found) return found;
    fprintf(stderr, "%s is not there\n", name);
    exit(1);
}

/* Machine code by NVRTC. */
static char *compile(const char *architecture) {
    void *library = dlopen("libnvrtc.so.13", RTLD_NOW);
    if (!library) library = dlopen("libnvrtc.so.12", RTLD_NOW);
    int (*create)(void **, const char *, const char *, int, const char *const *, const char *const *);
    int (*run)(void *, int, const char *const *);
    int (*size)(void *, size_t *);
    int (*get)(void *, char *);
    *(void **)&create = symbol(library, "nvrtcCreateProgram");
    *(void **)&run = symbol(library, "nvrtcCompileProgram");
    *(void **)&size = symbol(library, "nvrtcGetCUBINSize");
    *(void **)&get = symbol(library, "nvrtcGetCUBIN");
    char option[64];
    const char *options[] = {option};
    void *program;
    size_t bytes;
    snprintf(option, sizeof option, "--gpu-architecture=%s", architecture);
    need(create(&program, source, "chain.cu", 0, NULL, NULL), "nvrtcCreateProgram");
    need(run(program, 1, options), "nvrtcCompileProgram");
    need(size(program, &bytes), "nvrtcGetCUBINSize");
    char *code = malloc(bytes);
    if (!code) exit(1);
    need(get(program, code), "nvrtcGetCUBIN");
    return code;
}

static void plain_open(struct plain *plain, const char *architecture) {
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW), *module;
    const struct {
        void **place;
        const char *name;
    } rows[] = {{(void **)&plain->alloc, "cuMemAlloc_v2"},
                {(void **)&plain->module_load, "cuModuleLoadData"},
                {(void **)&plain->module_function, "cuModuleGetFunction"},
                {(void **)&plain->launch, "cuLaunchKernel"},
                {(void **)&plain->stream_create, "cuStreamCreate"},
                {(void **)&plain->stream_synchronize, "cuStreamSynchronize"},
                {(void **)&plain->event_create, "cuEventCreate"},
                {(void **)&plain->event_record, "cuEventRecord"},
                {(void **)&plain->stream_wait, "cuStreamWaitEvent"},
                {(void **)&plain->capture_begin, "cuStreamBeginCapture_v2"},
                {(void **)&plain->capture_end, "cuStreamEndCapture"},
                {(void **)&plain->instantiate, "cuGraphInstantiateWithFlags"},
                {(void **)&plain->graph_launch, "cuGraphLaunch"},
                {(void **)&plain->graph_destroy, "cuGraphDestroy"},
                {(void **)&plain->executable_destroy, "cuGraphExecDestroy"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) *rows[i].place = symbol(cuda, rows[i].name);
    char *code = compile(architecture);
    need(plain->module_load(&module, code), "cuModuleLoadData");
    need(plain->module_function(&plain->function, module, "chain"), "cuModuleGetFunction");
    free(code);
    for (int s = 0; s < MOST; s++) {
        need(plain->stream_create(&plain->streams[s], 1), "cuStreamCreate");
        need(plain->event_create(&plain->events[s], 2), "cuEventCreate");
        need(plain->alloc(&plain->values[s], ELEMENTS * sizeof(float)), "cuMemAlloc");
    }
}

static void plain_chains(struct plain *plain, int streams) {
    float a[LINKS] = {1.01f, -0.25f, 0.0f, 0.0625f}, b = 2.0f;
    long long count = ELEMENTS;
    for (int c = 0; c < CHAINS; c++)
        for (int s = 0; s < streams; s++)
            for (int link = 0; link < LINKS; link++) {
                void *parameters[] = {&plain->values[s], &count, &link, &a[link], &b};
                need(plain->launch(plain->function, 1, 1, 1, ELEMENTS, 1, 1, 0, plain->streams[s], parameters, NULL),
                     "cuLaunchKernel");
            }
}

static void *plain_capture(struct plain *plain, int streams) {
    void *graph, *executable;
    need(plain->capture_begin(plain->streams[0], 1), "cuStreamBeginCapture");
    need(plain->event_record(plain->events[0], plain->streams[0]), "cuEventRecord");
    for (int s = 1; s < streams; s++) need(plain->stream_wait(plain->streams[s], plain->events[0], 0), "wait");
    plain_chains(plain, streams);
    for (int s = 1; s < streams; s++) {
        need(plain->event_record(plain->events[s], plain->streams[s]), "cuEventRecord");
        need(plain->stream_wait(plain->streams[0], plain->events[s], 0), "wait");
    }
    need(plain->capture_end(plain->streams[0], &graph), "cuStreamEndCapture");
    need(plain->instantiate(&executable, graph, 0), "cuGraphInstantiate");
    need(plain->graph_destroy(graph), "cuGraphDestroy");
    return executable;
}

enum { MOST_ITERATIONS = 20 };

/* Enough of them that a side takes a tenth of a second or so. */
static int iterations_on(int streams) {
    return streams > 8 ? 10 : MOST_ITERATIONS;
}

static double plain_rate(struct plain *plain, int streams, bool graph) {
    const int iterations = iterations_on(streams);
    void *executable = graph ? plain_capture(plain, streams) : NULL;
    int64_t start = 0;
    for (int i = -2; i < iterations; i++) {
        if (i == 0) {
            for (int s = 0; s < streams; s++) need(plain->stream_synchronize(plain->streams[s]), "synchronize");
            start = aorta_clock_ns();
        }
        if (graph)
            need(plain->graph_launch(executable, plain->streams[0]), "cuGraphLaunch");
        else
            plain_chains(plain, streams);
    }
    for (int s = 0; s < streams; s++) need(plain->stream_synchronize(plain->streams[s]), "synchronize");
    const double seconds = (double)(aorta_clock_ns() - start) * 1e-9;
    if (graph) need(plain->executable_destroy(executable), "cuGraphExecDestroy");
    return (double)iterations * CHAINS * LINKS * streams / seconds;
}

/* ---- ours ---- */

static aorta_status our_rate(struct aorta_hwq *hwq, struct hwq_graph *g, bool graph, double *rate) {
    double iteration_ms[MOST_ITERATIONS], host_ms[MOST_ITERATIONS];
    struct aorta_hwq_times times = {.iteration_ms = iteration_ms, .host_ms = host_ms};
    const struct aorta_hwq_plan plan = {
        .sync = AORTA_HWQ_END_ONLY, .graph = graph, .iterations = iterations_on(hwq->stream_count), .g = g};
    struct aorta_hwq_plan warm_up = plan;
    warm_up.iterations = 2;
    AORTA_TRY(aorta_hwq_time_iterations(&warm_up, &times));
    AORTA_TRY(aorta_hwq_time_iterations(&plan, &times));
    *rate = (double)times.queued * (double)plan.iterations / (times.wall_ms * 1e-3);
    return NULL;
}

static const double aim = 0.95;

static aorta_status compare(struct aorta_hwq *hwq, struct plain *plain, int streams, bool *all_met) {
    const struct aorta_hwq_workload *workload;
    struct hwq_graph *g;
    hwq->stream_count = streams;
    AORTA_TRY(aorta_hwq_find("tiny_kernel_stress", &workload));
    hwq->workload = workload;
    AORTA_TRY(hwq_graph_create(hwq, workload, &g));
    AORTA_TRY(hwq_graph_start(g));
    for (int graph = 0; graph < 2; graph++) {
        double ours[ROUNDS], theirs[ROUNDS], ratios[ROUNDS];
        for (int round = -1; round < ROUNDS; round++) {
            const int slot = round < 0 ? 0 : round;
            AORTA_TRY(our_rate(hwq, g, graph, &ours[slot]));
            theirs[slot] = plain_rate(plain, streams, graph);
            ratios[slot] = ours[slot] / theirs[slot];
        }
        const struct aorta_summary ratio = aorta_summarise(ratios, ROUNDS);
        const bool met = ratio.p50 >= aim;
        *all_met &= met;
        printf("%-6s %3d streams: ours %9.0f/s, plain %9.0f/s, ratio %.3f (%.3f to %.3f, %d rounds): aim of %.2f %s\n",
               graph ? "graph" : "eager", streams, aorta_summarise(ours, ROUNDS).p50,
               aorta_summarise(theirs, ROUNDS).p50, ratio.p50, ratio.min, ratio.max, ROUNDS, aim,
               met ? "met" : "missed");
    }
    hwq_graph_destroy(g);
    return NULL;
}

static aorta_status run(struct aorta_hwq *hwq, bool *all_met) {
    static const int counts[] = {1, 8, 32, 64};
    struct plain plain = {0};
    AORTA_TRY(aorta_gpu_make_current(hwq->device));
    plain_open(&plain, aorta_gpu_get_properties(hwq->device)->architecture);
    hwq->owned.device = hwq->device;
    for (int s = 0; s < MOST; s++)
        AORTA_TRY(aorta_stream_create(hwq->device, "bench", AORTA_PRIORITY_NORMAL, &hwq->streams[s]));
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) AORTA_TRY(compare(hwq, &plain, counts[i], all_met));
    return NULL;
}

int main(void) {
    static const struct { int64_t chains, elements; } options = {CHAINS, ELEMENTS}; /* as tiny_kernel_stress has them */
    struct aorta_arena arena = {0};
    struct aorta_hwq hwq = {.options = &options, .arena = &arena};
    aorta_status status = aorta_device_open(AORTA_DEVICE_CUDA, 0, &hwq.device);
    bool all_met = true;
    if (!status) status = run(&hwq, &all_met);
    aorta_owned_free(&hwq.owned);
    for (int s = 0; s < MOST; s++) aorta_stream_destroy(hwq.streams[s]);
    aorta_device_close(hwq.device);
    aorta_arena_free(&arena);
    if (!status) return all_met ? 0 : 3;
    fprintf(stderr, "bench_hwq_launch_rate: %s\n", aorta_status_message(status));
    aorta_status_free(status);
    return 1;
}
