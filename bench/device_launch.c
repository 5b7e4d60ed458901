/* What a device's streams cost: launches per second eager and as a graph, and the latency of an event.
 *
 * The kernels do nothing, so that only queueing, waking and ordering are left. Medians of several rounds. */
#include "base/clock.h"
#include "base/statistics.h"
#include "device/device.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 7, LAUNCHES = 40000, REPLAYS = 40, NODES = 1000, HANDOVERS = 2000, MOST_STREAMS = 4 };

struct bench {
    struct aorta_device *device;
    struct aorta_stream *streams[MOST_STREAMS];
    struct aorta_event *events[MOST_STREAMS]; /* [0] forks, the others join */
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

static const struct aorta_kernel nothing = {.name = "nothing", .cpu = run_nothing};

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
    for (int s = 0; s < 2; s++) { /* their last record belongs to a graph, and orders nothing outside it */
        AORTA_TRY(aorta_event_record(bench->events[s], bench->streams[s]));
    }
    for (int round = 0; round < ROUNDS; round++) {
        AORTA_TRY(hand_over(bench, &handed[round]));
        AORTA_TRY(round_trip(bench, &back[round]));
    }
    printf("event from stream to stream: %.2f us; launch, event, host: %.2f us\n", median(handed) / 1e3,
           median(back) / 1e3);
    return NULL;
}

static aorta_status open_bench(struct bench *bench) {
    AORTA_TRY(aorta_device_open(AORTA_DEVICE_CPU, 0, &bench->device));
    for (int s = 0; s < MOST_STREAMS; s++) {
        AORTA_TRY(aorta_stream_create(bench->device, "bench", AORTA_PRIORITY_NORMAL, &bench->streams[s]));
        AORTA_TRY(aorta_event_create(bench->device, &bench->events[s]));
    }
    return NULL;
}

static void close_bench(struct bench *bench) {
    for (int s = 0; s < MOST_STREAMS; s++) {
        aorta_stream_destroy(bench->streams[s]);
        aorta_event_destroy(bench->events[s]);
    }
    aorta_device_close(bench->device);
}

static aorta_status run(struct bench *bench) {
    AORTA_TRY(open_bench(bench));
    const struct aorta_device_info *info = aorta_device_get_info(bench->device);
    printf("%s, %d hardware threads\n", info->name, info->multiprocessors);
    printf("%7s %16s %18s %18s\n", "streams", "ns to queue one", "launches/s eager", "launches/s graph");
    for (int streams = 1; streams <= MOST_STREAMS; streams *= 2) AORTA_TRY(measure_launches(bench, streams));
    return measure_events(bench);
}

int main(void) {
    struct bench bench = {0};
    aorta_status status = run(&bench);
    close_bench(&bench);
    if (status) fprintf(stderr, "device_launch: %s\n", aorta_status_message(status));
    int code = aorta_code_exit(aorta_status_code(status));
    aorta_status_free(status);
    return code;
}
