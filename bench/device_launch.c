/* The cost of a device's streams: launches per second eager and as a graph, timestamps, and the latency of an event.
 *   bench_device_launch [cpu|cuda|hip]
 *
 * The kernels do nothing, so that only queueing, waking and ordering remain. Medians of several rounds. */
#include "base/clock.h"
#include "base/statistics.h"
#include "device/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 7, LAUNCHES = 40000, REPLAYS = 40, NODES = 1000, HANDOVERS = 2000, MOST_STREAMS = 4 };

struct bench {
    struct aorta_device *device;
    struct aorta_stream *streams[MOST_STREAMS];
    struct aorta_event *events[MOST_STREAMS]; /* [0] forks, the following ones join */
    int64_t *stamps;                          /* NODES of them */
};

/* As large as the arguments of a real operation. */
struct arguments {
    void *pointers[4];
    int64_t sizes[4];
};

static aorta_status run_nothing(const void *args) {
    (void)args;
    return NULL;
}

static const struct aorta_gpu_source source = {"bench.cu",
                                               "struct arguments { void *pointers[4]; long long sizes[4]; };\n"
                                               "extern \"C\" __global__ void nothing(arguments a) {}\n"};
static const struct aorta_gpu_entry entry = {&source, "nothing"};

static aorta_status launch_nothing(struct aorta_stream *stream, const void *args) {
    return aorta_gpu_launch(stream, &entry, (struct aorta_gpu_grid){.blocks = {1}}, args, sizeof(struct arguments));
}

static const struct aorta_kernel nothing = {.name = "nothing", .cpu = run_nothing, .gpu = launch_nothing};

static aorta_status launch(struct aorta_stream *stream) {
    struct arguments args = {0};
    return aorta_launch(stream, &nothing, &args, sizeof args);
}

static aorta_status synchronize(struct bench *bench, int streams) {
    for (int s = 0; s < streams; s++) AORTA_TRY(aorta_stream_synchronize(bench->streams[s]));
    return NULL;
}

/* Launches in turn on all streams: ns a launch until the host has queued it, and until all have run. */
static aorta_status eager(struct bench *bench, int streams, double *queued_ns, double *done_ns) {
    int64_t start = aorta_clock_ns();
    for (int i = 0; i < LAUNCHES; i++) AORTA_TRY(launch(bench->streams[i % streams]));
    *queued_ns = (double)(aorta_clock_ns() - start) / LAUNCHES;
    AORTA_TRY(synchronize(bench, streams));
    *done_ns = (double)(aorta_clock_ns() - start) / LAUNCHES;
    return NULL;
}

static aorta_status record_nodes(struct bench *bench, int streams) {
    AORTA_TRY(aorta_event_record(bench->events[0], bench->streams[0]));
    for (int s = 1; s < streams; s++) AORTA_TRY(aorta_stream_wait(bench->streams[s], bench->events[0]));
    for (int i = 0; i < NODES; i++) AORTA_TRY(launch(bench->streams[i % streams]));
    for (int s = 1; s < streams; s++) {
        AORTA_TRY(aorta_event_record(bench->events[s], bench->streams[s]));
        AORTA_TRY(aorta_stream_wait(bench->streams[0], bench->events[s]));
    }
    return NULL;
}

static aorta_status replay(struct bench *bench, struct aorta_graph *graph, double *done_ns) {
    int64_t start = aorta_clock_ns();
    for (int i = 0; i < REPLAYS; i++) AORTA_TRY(aorta_graph_launch(graph, bench->streams[0]));
    AORTA_TRY(aorta_stream_synchronize(bench->streams[0]));
    *done_ns = (double)(aorta_clock_ns() - start) / (REPLAYS * NODES);
    return NULL;
}

static double median(const double *samples) {
    return aorta_summarise(samples, ROUNDS).p50;
}

static aorta_status measure_launches(struct bench *bench, int streams) {
    double queued[ROUNDS], done[ROUNDS], replayed[ROUNDS];
    struct aorta_graph *graph;
    for (int round = 0; round < ROUNDS; round++) AORTA_TRY(eager(bench, streams, &queued[round], &done[round]));
    AORTA_TRY(aorta_capture_begin(bench->streams[0]));
    aorta_status status = record_nodes(bench, streams);
    AORTA_TRY(aorta_status_join(status, aorta_capture_end(bench->streams[0], &graph)));
    for (int round = 0; round < ROUNDS && !status; round++) status = replay(bench, graph, &replayed[round]);
    aorta_graph_destroy(graph);
    AORTA_TRY(status);
    printf("%7d %16.0f %18.0f %18.0f\n", streams, median(queued), 1e9 / median(done), 1e9 / median(replayed));
    return NULL;
}

/* One stream hands over to another and back, by events alone. */
static aorta_status hand_over(struct bench *bench, double *ns) {
    int64_t start = aorta_clock_ns();
    for (int i = 0; i < HANDOVERS; i++) {
        int mine = i % 2;
        AORTA_TRY(aorta_stream_wait(bench->streams[mine], bench->events[1 - mine]));
        AORTA_TRY(aorta_event_record(bench->events[mine], bench->streams[mine]));
    }
    AORTA_TRY(synchronize(bench, 2));
    *ns = (double)(aorta_clock_ns() - start) / HANDOVERS;
    return NULL;
}

/* From a launch on a resting stream until the host has seen its event. */
static aorta_status round_trip(struct bench *bench, double *ns) {
    int64_t start = aorta_clock_ns();
    for (int i = 0; i < HANDOVERS; i++) {
        AORTA_TRY(launch(bench->streams[0]));
        AORTA_TRY(aorta_event_record(bench->events[0], bench->streams[0]));
        AORTA_TRY(aorta_event_synchronize(bench->events[0]));
    }
    *ns = (double)(aorta_clock_ns() - start) / HANDOVERS;
    return NULL;
}

static aorta_status measure_events(struct bench *bench) {
    double handed[ROUNDS], back[ROUNDS];
    for (int s = 0; s < 2; s++) /* their last record belongs to a graph, and orders nothing outside it */
        AORTA_TRY(aorta_event_record(bench->events[s], bench->streams[s]));
    for (int round = 0; round < ROUNDS; round++) {
        AORTA_TRY(hand_over(bench, &handed[round]));
        AORTA_TRY(round_trip(bench, &back[round]));
    }
    printf("event from stream to stream: %.2f us; launch, event, host: %.2f us\n", median(handed) / 1e3,
           median(back) / 1e3);
    return NULL;
}

/* ---- timestamps: what one adds to a stream of launches ---- */

enum stamping { PLAIN, STAMPED, STAMPED_TWICE }; /* nothing; one between any two launches; two in a row */

static aorta_status queue_stamped(struct bench *bench, enum stamping stamping) {
    for (int i = 0; i < NODES; i++) {
        for (int j = 0; j < (int)stamping; j++) AORTA_TRY(aorta_timestamp(bench->streams[0], &bench->stamps[i]));
        AORTA_TRY(launch(bench->streams[0]));
    }
    return NULL;
}

static aorta_status run_stamped(struct bench *bench, enum stamping stamping, double *host_ns, double *done_ns) {
    int64_t start = aorta_clock_ns();
    AORTA_TRY(queue_stamped(bench, stamping));
    *host_ns = (double)(aorta_clock_ns() - start) / NODES;
    AORTA_TRY(aorta_stream_synchronize(bench->streams[0]));
    *done_ns = (double)(aorta_clock_ns() - start) / NODES;
    return NULL;
}

static aorta_status replay_stamped(struct bench *bench, enum stamping stamping, double *done_ns) {
    struct aorta_graph *graph;
    AORTA_TRY(aorta_capture_begin(bench->streams[0]));
    aorta_status status = queue_stamped(bench, stamping);
    AORTA_TRY(aorta_status_join(status, aorta_capture_end(bench->streams[0], &graph)));
    double samples[ROUNDS];
    for (int round = 0; round < ROUNDS && !status; round++) status = replay(bench, graph, &samples[round]);
    *done_ns = status ? 0 : aorta_summarise(samples, ROUNDS).p50;
    aorta_graph_destroy(graph);
    return status;
}

static aorta_status measure_stamps(struct bench *bench) {
    double host[3], done[3], replayed[3];
    for (int stamping = PLAIN; stamping <= STAMPED_TWICE; stamping++) {
        double hosts[ROUNDS], dones[ROUNDS];
        for (int round = 0; round < ROUNDS; round++)
            AORTA_TRY(run_stamped(bench, (enum stamping)stamping, &hosts[round], &dones[round]));
        host[stamping] = median(hosts);
        done[stamping] = median(dones);
        AORTA_TRY(replay_stamped(bench, (enum stamping)stamping, &replayed[stamping]));
    }
    printf(
        "a timestamp adds %.0f ns of the host, %.0f ns eager, %.0f ns in a graph; a second one in a row %.0f ns in a "
        "graph\n",
        host[1] - host[0], done[1] - done[0], replayed[1] - replayed[0], replayed[2] - replayed[1]);
    return NULL;
}

/* An event, with a timestamp before it and without. */
static aorta_status record_many(struct bench *bench, bool timed, double *done_ns) {
    int64_t start = aorta_clock_ns();
    for (int i = 0; i < HANDOVERS; i++) {
        AORTA_TRY(launch(bench->streams[0]));
        if (timed) AORTA_TRY(aorta_timestamp(bench->streams[0], bench->stamps));
        AORTA_TRY(aorta_event_record(bench->events[0], bench->streams[0]));
    }
    AORTA_TRY(aorta_stream_synchronize(bench->streams[0]));
    *done_ns = (double)(aorta_clock_ns() - start) / HANDOVERS;
    return NULL;
}

static aorta_status measure_records(struct bench *bench) {
    double timed[ROUNDS], untimed[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        AORTA_TRY(record_many(bench, true, &timed[round]));
        AORTA_TRY(record_many(bench, false, &untimed[round]));
    }
    printf("launch and record: %.2f us, with a timestamp %.2f us\n", median(untimed) / 1e3, median(timed) / 1e3);
    return NULL;
}

/* The error of a timestamp against the host's clock: it must be between two readings around it. */
static aorta_status measure_clock(struct bench *bench) {
    if (!aorta_device_is_gpu(bench->device)) return NULL;
    int64_t worst_ns = 0, bound_ns = 0;
    for (int i = 0; i < 300; i++) {
        int64_t start = aorta_clock_ns();
        while (aorta_clock_ns() - start < 10000000) {
        }
        int64_t before = aorta_clock_ns();
        AORTA_TRY(aorta_timestamp(bench->streams[0], bench->stamps));
        AORTA_TRY(aorta_stream_synchronize(bench->streams[0]));
        int64_t after = aorta_clock_ns(), stamp = bench->stamps[0];
        int64_t outside = before - stamp > stamp - after ? before - stamp : stamp - after;
        int64_t bound = aorta_device_clock_error_ns(bench->device);
        if (outside > worst_ns) worst_ns = outside;
        if (bound > bound_ns) bound_ns = bound;
    }
    printf("timestamps tick every %lld ns; in 3 s they lay at most %lld ns outside the host's readings around them "
           "(error stated: %lld ns)\n",
           (long long)aorta_device_get_info(bench->device)->timestamp_tick, (long long)worst_ns, (long long)bound_ns);
    return NULL;
}

static aorta_status open_bench(enum aorta_device_kind kind, struct bench *bench) {
    void *stamps;
    AORTA_TRY(aorta_device_open(kind, 0, &bench->device));
    for (int s = 0; s < MOST_STREAMS; s++) {
        AORTA_TRY(aorta_stream_create(bench->device, "bench", AORTA_PRIORITY_NORMAL, &bench->streams[s]));
        AORTA_TRY(aorta_event_create(bench->device, &bench->events[s]));
    }
    AORTA_TRY(aorta_pinned_alloc(bench->device, NODES * sizeof *bench->stamps, "timestamps", &stamps));
    bench->stamps = stamps;
    return NULL;
}

static void close_bench(struct bench *bench) {
    for (int s = 0; s < MOST_STREAMS; s++) {
        aorta_stream_destroy(bench->streams[s]);
        aorta_event_destroy(bench->events[s]);
    }
    if (!bench->device) return;
    aorta_pinned_free(bench->device, bench->stamps);
    aorta_device_close(bench->device);
}

static aorta_status run(enum aorta_device_kind kind, struct bench *bench) {
    AORTA_TRY(open_bench(kind, bench));
    const struct aorta_device_info *info = aorta_device_get_info(bench->device);
    printf("%s, %d %s\n", info->name, info->multiprocessors,
           kind == AORTA_DEVICE_CPU ? "hardware threads" : "multiprocessors");
    printf("%7s %16s %18s %18s\n", "streams", "ns to queue one", "launches/s eager", "launches/s graph");
    for (int streams = 1; streams <= MOST_STREAMS; streams *= 2) AORTA_TRY(measure_launches(bench, streams));
    AORTA_TRY(measure_events(bench));
    AORTA_TRY(measure_records(bench));
    AORTA_TRY(measure_stamps(bench));
    return measure_clock(bench);
}

int main(int argc, char **argv) {
    enum aorta_device_kind kind = AORTA_DEVICE_CPU;
    if (argc > 1 && strcmp(argv[1], "cuda") == 0) kind = AORTA_DEVICE_CUDA;
    if (argc > 1 && strcmp(argv[1], "hip") == 0) kind = AORTA_DEVICE_HIP;
    struct bench bench = {0};
    aorta_status status = run(kind, &bench);
    close_bench(&bench);
    if (status) fprintf(stderr, "device_launch: %s\n", aorta_status_message(status));
    int code = aorta_code_exit(aorta_status_code(status));
    aorta_status_free(status);
    return code;
}
