/* `test_failures CASE` as two ranks on GPUs: what becomes of a rank whose peer is late, dead or absent, or whose
 * library fails. It must fail in time, name the peer, and not hang. */
#include "suite.h"

#include "base/clock.h"
#include "device/gpu.h"
#include "fake_nccl/fake_nccl.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define COUNT 1000

struct scene {
    double timeout_s;
    bool apart; /* the ranks do not meet first */
    struct aorta_comm_options options;
    struct aorta_comm *world;
    struct aorta_stream *stream, *unharmed;
    void *buffer;
    int64_t start_ns;
};

static double seconds(const struct scene *scene) {
    return (double)(aorta_clock_ns() - scene->start_ns) * 1e-9;
}

static aorta_status reduce(const struct scene *scene) {
    return aorta_all_reduce(scene->world, scene->stream, scene->buffer, scene->buffer, COUNT, AORTA_F32, AORTA_SUM);
}

/* Both ranks have met, and connections are made. */
static void meet(struct scene *scene) {
    check_ok(aorta_comm_open(&scene->options, &scene->world));
    check_ok(reduce(scene));
    check_ok(aorta_stream_synchronize(scene->stream));
    scene->start_ns = aorta_clock_ns();
}

static void name_file(int rank, char path[128]) {
    const char *folder = getenv("TMPDIR"), *port = getenv("MASTER_PORT");
    snprintf(path, 128, "%s/aorta-failures-%s.%d", folder ? folder : "/tmp", port ? port : "", rank);
}

/* Until the other rank has come as far: the short timeouts are of what the tests plant, not of the start of a process.
 */
static void await_peer(const struct scene *scene) {
    char own[128], peers[128];
    const int rank = scene->options.ranks.rank;
    name_file(rank, own);
    name_file(1 - rank, peers);
    const int file = open(own, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (file >= 0) close(file);
    while (access(peers, F_OK) != 0) usleep(1000);
    if (rank == 0) unlink(peers);
    while (rank == 1 && access(own, F_OK) == 0) usleep(1000); /* rank 0 has seen it */
    if (rank == 1) unlink(peers);
}

static int open_scene(void **state) {
    static struct suite suite; /* only its device and its options are used */
    struct scene *scene = *state;
    suite.timeout_s = scene->timeout_s;
    suite_open_device(&suite);
    scene->options = suite_options(&suite);
    if (!suite_on_gpu(&suite) || scene->options.ranks.world_size != 2) {
        print_message("[  SKIPPED ] all: this is for two ranks on GPUs (AORTA_TEST_DEVICE)\n");
        exit(0);
    }
    check_ok(aorta_stream_create(suite.device, "failing", AORTA_PRIORITY_NORMAL, &scene->stream));
    check_ok(aorta_device_alloc(suite.device, COUNT * sizeof(float), "test buffer", &scene->buffer));
    await_peer(scene);
    scene->start_ns = aorta_clock_ns();
    if (!scene->apart) meet(scene);
    return 0;
}

/* Everything can be ended in good order after a failure, too. */
static int close_scene(void **state) {
    struct scene *scene = *state;
    aorta_stream_destroy(scene->stream);
    aorta_device_free(scene->options.device, scene->buffer);
    aorta_comm_close(scene->world);
    aorta_device_close(scene->options.device);
    assert_true(seconds(scene) < 30);
    return 0;
}

static bool first(const struct scene *scene) {
    return scene->options.ranks.rank == 0;
}

/* ---- the other rank ---- */

static void late(void **state) {
    struct scene *scene = *state;
    if (!first(scene)) {
        sleep(4);
        _exit(0);
    }
    check_ok(reduce(scene));
    aorta_status status = aorta_stream_synchronize(scene->stream);
    assert_true(seconds(scene) > 1 && seconds(scene) < 4);
    assert_non_null(status);
    assert_non_null(strstr(aorta_status_message(status), "rank 0, last collective queued: all_reduce #2 of 2 ranks"));
    check_fails(status, AORTA_TIMEOUT, "is a rank dead or late? (distributed.timeout_s");
    check_fails(reduce(scene), AORTA_TIMEOUT, "last collective queued"); /* it stays failed */
}

static void late_in_graph(void **state) {
    struct scene *scene = *state;
    struct aorta_graph *graph;
    check_ok(aorta_capture_begin(scene->stream));
    check_ok(reduce(scene));
    check_ok(aorta_capture_end(scene->stream, &graph));
    check_ok(aorta_graph_launch(graph, scene->stream));
    check_ok(aorta_stream_synchronize(scene->stream));
    if (!first(scene)) {
        sleep(4);
        _exit(0);
    }
    check_ok(aorta_graph_launch(graph, scene->stream));
    check_fails(aorta_stream_synchronize(scene->stream), AORTA_TIMEOUT, "distributed.timeout_s");
    aorta_graph_destroy(graph);
}

/* Long before the time is over. */
static void dead(void **state) {
    struct scene *scene = *state;
    if (!first(scene)) _exit(0); /* without a farewell */
    check_ok(reduce(scene));
    check_fails(aorta_stream_synchronize(scene->stream), AORTA_COMM, "rank 1 is gone");
    assert_true(seconds(scene) < 10);
}

static void absent(void **state) {
    struct scene *scene = *state;
    if (!first(scene)) _exit(0);
    check_fails(aorta_comm_open(&scene->options, &scene->world), AORTA_TIMEOUT, "1");
    assert_null(scene->world);
    assert_true(seconds(scene) < 10);
}

/* Both meet, but only one of them goes on to make the communicator. */
static void absent_from_group(void **state) {
    struct scene *scene = *state;
    struct aorta_comm *group;
    const int both[] = {0, 1};
    if (!first(scene)) {
        sleep(4);
        _exit(0);
    }
    check_fails(aorta_comm_split(scene->world, both, 2, &group), AORTA_TIMEOUT, "rank 0 waited for rank 1");
    assert_null(group);
}

/* ---- the library: only where it is the fake ---- */

static const struct fake_nccl_control *fake_library(void) {
    const struct fake_nccl_control *control = suite_fake_nccl();
    if (!control) {
        print_message("[  SKIPPED ] this needs the NCCL of tests/fake_nccl\n");
        exit(0);
    }
    return control;
}

static void broken_network(void **state) {
    struct scene *scene = *state;
    const struct fake_nccl_control *fake = fake_library();
    if (!first(scene)) {
        sleep(3);
        _exit(0);
    }
    check_ok(reduce(scene));
    fake->set_async_error(6);
    check_fails(aorta_stream_synchronize(scene->stream), AORTA_COMM, "remote process exited: as the fake was asked to");
    assert_int_equal(fake->aborted(), 1);
}

static void refused_collective(void **state) {
    struct scene *scene = *state;
    fake_library()->refuse("ncclAllReduce", 1, 5);
    check_ok(reduce(scene)); /* the stream keeps it */
    check_fails(aorta_stream_synchronize(scene->stream), AORTA_COMM, "ncclAllReduce: invalid usage: as the fake");
    check_fails(aorta_stream_synchronize(scene->stream), AORTA_COMM, "all_reduce #2 of 2 ranks, 4000 bytes: rank");
}

static void refused_exchange(void **state) {
    struct scene *scene = *state;
    void *other;
    check_ok(aorta_device_alloc(scene->options.device, COUNT * sizeof(float), "test buffer", &other));
    fake_library()->refuse("ncclSend", 2, 4);
    check_ok(suite_all_to_all(scene->world, scene->stream, scene->buffer, other, COUNT / 2, AORTA_F32));
    check_fails(aorta_stream_synchronize(scene->stream), AORTA_COMM, "ncclSend and ncclRecv: invalid argument");
    aorta_device_free(scene->options.device, other);
}

/* The second of three: the group is ended, and the message names the whole. */
static void refused_piece(void **state) {
    struct scene *scene = *state;
    void *other;
    check_ok(aorta_device_alloc(scene->options.device, COUNT * sizeof(float), "test buffer", &other));
    struct aorta_comm_piece pieces[3];
    for (int i = 0; i < 3; i++)
        pieces[i] = (struct aorta_comm_piece){(float *)scene->buffer + 100 * i, (float *)other + 200 * i, 100};
    fake_library()->refuse("ncclAllGather", 2, 4);
    check_ok(suite_all_gather_pieces(scene->world, scene->stream, pieces, 3, AORTA_F32));
    check_fails(aorta_stream_synchronize(scene->stream), AORTA_COMM, "ncclAllGather: invalid argument");
    check_fails(aorta_stream_synchronize(scene->stream), AORTA_COMM, "all_gather #2 of 2 ranks, 2400 bytes: rank");
    check_ok(aorta_stream_create(scene->options.device, "unharmed", AORTA_PRIORITY_NORMAL, &scene->unharmed));
    check_ok(aorta_all_reduce(scene->world, scene->unharmed, other, other, 10, AORTA_F32, AORTA_SUM));
    check_ok(aorta_stream_synchronize(scene->unharmed)); /* and not blocked by a group that is open for ever */
    aorta_stream_destroy(scene->unharmed);
    aorta_device_free(scene->options.device, other);
}

/* The library is loaded by a first opening, set to fail, and the second opening fails on both ranks. */
static void fail_opening(struct scene *scene, const char *symbol, int failing_rank, const char *own,
                         const char *others) {
    bool fails = failing_rank < 0 || failing_rank == scene->options.ranks.rank;
    if (fails) fake_library()->refuse(symbol, 1, 3);
    struct aorta_comm *second;
    aorta_status status = aorta_comm_open(&scene->options, &second);
    assert_null(second);
    check_fails(status, AORTA_COMM, fails ? own : others);
    check_ok(reduce(scene)); /* the first group is not concerned */
    check_ok(aorta_stream_synchronize(scene->stream));
}

static void no_id(void **state) {
    fail_opening(*state, "ncclGetUniqueId", 0, "ncclGetUniqueId: internal error",
                 "rank 0 of a group of 2 ranks could not make");
}

static void no_communicator(void **state) {
    fail_opening(*state, "ncclCommInitRankConfig", -1, "ncclCommInitRankConfig: internal error", "");
}

/* One rank cannot make its communicator: the other waits for it in the library, but not for ever. */
static void stuck_communicator(void **state) {
    struct scene *scene = *state;
    struct aorta_comm *second;
    if (!first(scene)) fake_library()->refuse("ncclCommInitRankConfig", 1, 3);
    aorta_status status = aorta_comm_open(&scene->options, &second);
    assert_null(second);
    if (first(scene))
        check_fails(status, AORTA_TIMEOUT, "ncclCommInitRankConfig: rank 0 of 2 waited 2.0 s for its peers");
    else
        check_fails(status, AORTA_COMM, "ncclCommInitRankConfig: internal error");
    check_ok(reduce(scene)); /* the first group is not concerned */
    check_ok(aorta_stream_synchronize(scene->stream));
}

/* Kernels that do not even end when they are aborted: the process ends, and says why. */
static void deaf(void **state) {
    struct scene *scene = *state;
    fake_library()->refuse("ncclCommAbort", 1, 3);
    if (!first(scene)) {
        sleep(20);
        _exit(0);
    }
    check_ok(reduce(scene));
    aorta_status status = aorta_stream_synchronize(scene->stream);
    fail_msg("the process should have ended: %s", aorta_status_message(status));
}

static void no_split(void **state) {
    struct scene *scene = *state;
    const int both[] = {0, 1};
    struct aorta_comm *group;
    fake_library()->refuse("ncclCommSplit", 1, 3);
    check_fails(aorta_comm_split(scene->world, both, 2, &group), AORTA_COMM, "ncclCommSplit: internal error");
    fake_library()->refuse(NULL, 0, 0);
    check_ok(aorta_comm_split(scene->world, both, 2, &group));
    aorta_comm_close(group);
}

static const struct failure {
    const char *name;
    CMUnitTestFunction test;
    double timeout_s;
    bool apart; /* the ranks have not met before */
} cases[] = {
    {.name = "late", .test = late, .timeout_s = 1},
    {.name = "late_in_graph", .test = late_in_graph, .timeout_s = 1},
    {.name = "dead", .test = dead, .timeout_s = 60},
    {.name = "absent", .test = absent, .timeout_s = 1, .apart = true},
    {.name = "absent_from_group", .test = absent_from_group, .timeout_s = 1},
    {.name = "broken_network", .test = broken_network, .timeout_s = 60},
    {.name = "refused_collective", .test = refused_collective, .timeout_s = 5},
    {.name = "refused_exchange", .test = refused_exchange, .timeout_s = 5},
    {.name = "refused_piece", .test = refused_piece, .timeout_s = 5},
    {.name = "no_id", .test = no_id, .timeout_s = 3},
    {.name = "no_communicator", .test = no_communicator, .timeout_s = 3},
    {.name = "no_split", .test = no_split, .timeout_s = 3},
    {.name = "stuck_communicator", .test = stuck_communicator, .timeout_s = 2},
    {.name = "deaf", .test = deaf, .timeout_s = 1},
};

int main(int argc, char **argv) {
    static struct scene scene;
    for (size_t i = 0; argc == 2 && i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(argv[1], cases[i].name) != 0) continue;
        scene.timeout_s = cases[i].timeout_s;
        scene.apart = cases[i].apart;
        const struct CMUnitTest chosen[] = {
            {cases[i].name, cases[i].test, open_scene, close_scene, &scene},
        };
        return cmocka_run_group_tests(chosen, NULL, NULL);
    }
    fprintf(stderr, "usage: %s CASE, one of", argv[0]);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) fprintf(stderr, " %s", cases[i].name);
    fprintf(stderr, "\n");
    return 2;
}
