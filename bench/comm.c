/* Collectives in the manner of nccl-tests: `aorta launch -n 2 -- bench_comm [cpu|cuda|hip] [largest MiB]`.
 *
 * algbw = bytes / time with the bytes of one rank's larger buffer, busbw = algbw × the factor of base/collective.h;
 * times are medians, from a barrier to the end on the slowest rank: of one call on host memory, and on GPUs, as in
 * nccl-tests, of a row of calls divided by their number. Then, on host memory, the other aim: what compute loses to
 * collectives that only wait. Two threads fill the cores of rank 0 while two of its streams wait for late ranks. */
#include "comm/comm.h"
#include "base/clock.h"
#include "base/statistics.h"
#include "device/device.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define REPEATS 9
#define GPU_CALLS 20
#define COMPUTE_S 1.0

struct bench {
    struct aorta_device *device;
    struct aorta_comm *world, *second;
    struct aorta_stream *streams[2];
    float *send, *receive;
    int64_t *time; /* on the device */
    int calls;     /* in one measurement */
};

static aorta_status queue(struct bench *bench, enum aorta_collective kind, size_t bytes) {
    struct aorta_comm *world = bench->world;
    struct aorta_stream *stream = bench->streams[0];
    size_t all = bytes / sizeof(float), block = all / (size_t)aorta_comm_size(world);
    const bool whole = kind == AORTA_ALL_REDUCE || kind == AORTA_BROADCAST;
    if (kind == AORTA_BARRIER) return aorta_barrier(world, stream);
    const struct aorta_comm_call call = {
        .kind = kind,
        .dtype = AORTA_F32,
        .reduction = AORTA_SUM,
        .piece_count = 1,
        .pieces = {{bench->send, kind == AORTA_BROADCAST ? bench->send : bench->receive, whole ? all : block}}};
    return aorta_collective(world, stream, &call);
}

static aorta_status slowest(struct bench *bench, int64_t *ns) {
    struct aorta_stream *stream = bench->streams[0];
    AORTA_TRY(aorta_copy(stream, bench->time, ns, sizeof *ns));
    AORTA_TRY(aorta_all_reduce(bench->world, stream, bench->time, bench->time, 1, AORTA_I64, AORTA_MAX));
    AORTA_TRY(aorta_copy(stream, ns, bench->time, sizeof *ns));
    return aorta_stream_synchronize(stream);
}

/* Nanoseconds of one call on the slowest rank. */
static aorta_status time_once(struct bench *bench, enum aorta_collective kind, size_t bytes, double *ns) {
    AORTA_TRY(aorta_barrier(bench->world, bench->streams[0]));
    AORTA_TRY(aorta_stream_synchronize(bench->streams[0]));
    int64_t time_ns = -aorta_clock_ns();
    for (int i = 0; i < bench->calls; i++) AORTA_TRY(queue(bench, kind, bytes));
    AORTA_TRY(aorta_stream_synchronize(bench->streams[0]));
    time_ns += aorta_clock_ns();
    AORTA_TRY(slowest(bench, &time_ns));
    *ns = (double)time_ns / bench->calls;
    return NULL;
}

static aorta_status time_collective(struct bench *bench, enum aorta_collective kind, size_t bytes) {
    double ns[REPEATS];
    for (int i = -1; i < REPEATS; i++)
        AORTA_TRY(time_once(bench, kind, bytes, &ns[i < 0 ? 0 : i])); /* one to warm up */
    if (aorta_comm_rank(bench->world) != 0) return NULL;
    double median = aorta_summarise(ns, REPEATS).p50;
    double factor = aorta_collective_bus_factor(kind, aorta_comm_size(bench->world));
    printf("%-15s %10zu %10.1f %8.2f %8.2f\n", aorta_collective_name(kind), bytes, median * 1e-3,
           (double)bytes / median, (double)bytes / median * factor);
    return NULL;
}

/* ---- compute while waiting ---- */

struct worker {
    pthread_t thread;
    _Atomic bool *stop;
    double rounds;
};

static void *compute(void *argument) {
    struct worker *worker = argument;
    float values[256] = {0};
    while (!atomic_load(worker->stop)) {
        for (int k = 0; k < 100; k++)
            for (int i = 0; i < 256; i++) values[i] = values[i] * 0.5f + (float)i;
        worker->rounds += values[255] > 0;
    }
    return NULL;
}

static double compute_rate(void) {
    _Atomic bool stop = false;
    struct worker workers[2] = {{.stop = &stop}, {.stop = &stop}};
    for (int i = 0; i < 2; i++) pthread_create(&workers[i].thread, NULL, compute, &workers[i]);
    usleep((useconds_t)(COMPUTE_S * 1e6));
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++) pthread_join(workers[i].thread, NULL);
    return (workers[0].rounds + workers[1].rounds) / COMPUTE_S;
}

/* Share of a core that this process uses while its main thread sleeps. */
static double idle_use(void) {
    struct timespec before, after;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    usleep((useconds_t)(COMPUTE_S * 1e6));
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    return ((double)(after.tv_sec - before.tv_sec) + (double)(after.tv_nsec - before.tv_nsec) * 1e-9) / COMPUTE_S;
}

static aorta_status wait_both(struct bench *bench) {
    AORTA_TRY(aorta_barrier(bench->world, bench->streams[0]));
    AORTA_TRY(aorta_barrier(bench->second, bench->streams[1]));
    return NULL;
}

static aorta_status compute_beside_waiting(struct bench *bench) {
    double ratios[3], uses[3];
    for (int i = 0; i < 3; i++) {
        if (aorta_comm_rank(bench->world) == 0) {
            double alone = compute_rate();
            AORTA_TRY(wait_both(bench));
            ratios[i] = compute_rate() / alone;
            uses[i] = idle_use();
        } else {
            usleep((useconds_t)(3.2 * COMPUTE_S * 1e6)); /* late on purpose */
            AORTA_TRY(wait_both(bench));
        }
        AORTA_TRY(aorta_stream_synchronize(bench->streams[0]));
        AORTA_TRY(aorta_stream_synchronize(bench->streams[1]));
    }
    if (aorta_comm_rank(bench->world) == 0) {
        printf("compute during two waiting collectives: %.1f%% of its rate alone (aim: at least 90%%)\n"
               "a waiting collective uses %.1f%% of a core\n",
               100 * aorta_summarise(ratios, 3).p50, 50 * aorta_summarise(uses, 3).p50);
    }
    return NULL;
}

/* ---- the program ---- */

static aorta_status open_bench(struct bench *bench, enum aorta_device_kind kind, size_t bytes) {
    struct aorta_comm_options options = {.backend = "auto", .timeout_s = 60};
    AORTA_TRY(aorta_ranks_detect(&options.ranks));
    bool cpu = kind == AORTA_DEVICE_CPU;
    AORTA_TRY(aorta_device_open(kind, cpu ? 0 : options.ranks.local_rank, &bench->device));
    options.device = bench->device;
    bench->calls = cpu ? 1 : GPU_CALLS;
    AORTA_TRY(aorta_comm_open(&options, &bench->world));
    int all[256], size = aorta_comm_size(bench->world);
    for (int i = 0; i < size && i < 256; i++) all[i] = i;
    AORTA_TRY(aorta_comm_split(bench->world, all, size, &bench->second));
    for (int i = 0; i < 2; i++)
        AORTA_TRY(aorta_stream_create(bench->device, "bench", AORTA_PRIORITY_NORMAL, &bench->streams[i]));
    AORTA_TRY(aorta_device_alloc(bench->device, bytes, "send buffer", (void **)&bench->send));
    AORTA_TRY(aorta_device_alloc(bench->device, bytes, "receive buffer", (void **)&bench->receive));
    AORTA_TRY(aorta_device_alloc(bench->device, sizeof *bench->time, "time", (void **)&bench->time));
    AORTA_TRY(aorta_fill_bytes(bench->streams[0], bench->send, 0, bytes));
    AORTA_TRY(aorta_fill_bytes(bench->streams[0], bench->receive, 0, bytes));
    return aorta_stream_synchronize(bench->streams[0]);
}

static void close_bench(struct bench *bench) {
    for (int i = 0; i < 2; i++) aorta_stream_destroy(bench->streams[i]);
    aorta_device_free(bench->device, bench->send);
    aorta_device_free(bench->device, bench->receive);
    aorta_device_free(bench->device, bench->time);
    aorta_comm_close(bench->second);
    aorta_comm_close(bench->world);
    aorta_device_close(bench->device);
    aorta_status_free(aorta_comm_shutdown(NULL, 60)); /* the measurements are printed */
}

static aorta_status run(struct bench *bench, enum aorta_device_kind kind, size_t largest) {
    AORTA_TRY(open_bench(bench, kind, largest));
    if (aorta_comm_rank(bench->world) == 0) {
        printf("%d %s, backend %s, %s\n%-15s %10s %10s %8s %8s\n", aorta_comm_size(bench->world),
               aorta_comm_size(bench->world) == 1 ? "rank" : "ranks", aorta_comm_backend(bench->world),
               aorta_device_get_info(bench->device)->name, "collective", "bytes", "us", "algbw", "busbw GB/s");
    }
    for (int collective = 0; collective < AORTA_BARRIER; collective++)
        for (size_t bytes = 2048; bytes <= largest; bytes *= 8)
            AORTA_TRY(time_collective(bench, (enum aorta_collective)collective, bytes));
    bool waits = aorta_comm_size(bench->world) > 1 && kind == AORTA_DEVICE_CPU;
    return waits ? compute_beside_waiting(bench) : NULL;
}

/* [cpu|cuda|hip] [largest MiB]; false when it is something else. */
static bool parse(char **argv, enum aorta_device_kind *kind, long *mebibytes) {
    for (int i = AORTA_DEVICE_CPU; *argv && i <= AORTA_DEVICE_HIP; i++) {
        if (strcmp(*argv, aorta_device_kind_name((enum aorta_device_kind)i)) != 0) continue;
        *kind = (enum aorta_device_kind)i;
        argv++;
    }
    *mebibytes = *kind == AORTA_DEVICE_CPU ? 64 : 512;
    char *end = (char[]){""};
    if (*argv) *mebibytes = strtol(*argv++, &end, 10);
    return !*argv && !*end && *mebibytes >= 1 && *mebibytes <= 4096;
}

int main(int argc, char **argv) {
    enum aorta_device_kind kind = AORTA_DEVICE_CPU;
    long mebibytes;
    (void)argc;
    if (!parse(argv + 1, &kind, &mebibytes)) {
        fprintf(stderr, "usage: aorta launch -n RANKS -- bench_comm [cpu|cuda|hip] [largest MiB, 1 to 4096]\n");
        return 2;
    }
    struct bench bench = {0};
    aorta_status status = run(&bench, kind, (size_t)mebibytes << 20);
    if (status) {
        fprintf(stderr, "bench_comm: %s\n", aorta_status_message(status));
        aorta_comm_abort(bench.world, aorta_code_exit(aorta_status_code(status)));
    }
    close_bench(&bench);
    return 0;
}
