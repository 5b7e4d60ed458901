/* `test_failures CASE` as two ranks on GPUs: what becomes of a rank whose peer is late, dead or absent, or whose
 * library fails. It must fail in time, name the peer, and not hang. */
#include "suite.h"

#include "base/clock.h"
#include "device/gpu.h"
#include "fake_nccl/fake_nccl.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#define COUNT 1000

struct scene {
    struct aorta_comm_options options;
    struct aorta_comm *world;
    struct aorta_stream *stream, *unharmed;
    void *buffer;
    int64_t start_ns;
};

static void open_scene(struct scene *scene, double timeout_s) {
    static struct suite suite; /* only its device and its options are used */
    suite.timeout_s = timeout_s;
    suite_open_device(&suite);
    scene->options = suite_options(&suite);
    if (!suite_on_gpu(&suite) || scene->options.ranks.world_size != 2) {
        print_message("[  SKIPPED ] all: this is for two ranks on GPUs (AORTA_TEST_DEVICE)\n");
        exit(0);
    }
    check_ok(aorta_stream_create(suite.device, "failing", AORTA_PRIORITY_NORMAL, &scene->stream));
    check_ok(aorta_device_alloc(suite.device, COUNT * sizeof(float), "test buffer", &scene->buffer));
    scene->start_ns = aorta_clock_ns();
}

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

/* Everything can be ended in good order after a failure, too. */
static void close_scene(struct scene *scene) {
    aorta_stream_destroy(scene->stream);
    aorta_device_free(scene->options.device, scene->buffer);
    aorta_comm_close(scene->world);
    aorta_device_close(scene->options.device);
    assert_true(seconds(scene) < 30);
}

static bool first(const struct scene *scene) {
    return scene->options.ranks.rank == 0;
}

/* ---- the other rank ---- */

static void late(void **state) {
    (void)state;
    struct scene scene = {0};
    open_scene(&scene, 1);
    meet(&scene);
    if (!first(&scene)) {
        sleep(4);
        _exit(0);
    }
    check_ok(reduce(&scene));
    aorta_status status = aorta_stream_synchronize(scene.stream);
    assert_true(seconds(&scene) > 1 && seconds(&scene) < 4);
    assert_non_null(status);
    assert_non_null(strstr(aorta_status_message(status), "rank 0, last collective queued: all_reduce #2 of 2 ranks"));
    check_fails(status, AORTA_TIMEOUT, "is a rank dead or late? (distributed.timeout_s");
    check_fails(reduce(&scene), AORTA_TIMEOUT, "last collective queued"); /* it stays failed */
    close_scene(&scene);
}

static void late_in_graph(void **state) {
    (void)state;
    struct scene scene = {0};
    struct aorta_graph *graph;
    open_scene(&scene, 1);
    meet(&scene);
    check_ok(aorta_capture_begin(scene.stream));
    check_ok(reduce(&scene));
    check_ok(aorta_capture_end(scene.stream, &graph));
    check_ok(aorta_graph_launch(graph, scene.stream));
    check_ok(aorta_stream_synchronize(scene.stream));
    if (!first(&scene)) {
        sleep(4);
        _exit(0);
    }
    check_ok(aorta_graph_launch(graph, scene.stream));
    check_fails(aorta_stream_synchronize(scene.stream), AORTA_TIMEOUT, "distributed.timeout_s");
    aorta_graph_destroy(graph);
    close_scene(&scene);
}

/* Long before the time is over. */
static void dead(void **state) {
    (void)state;
    struct scene scene = {0};
    open_scene(&scene, 60);
    meet(&scene);
    if (!first(&scene)) _exit(0); /* without a farewell */
    check_ok(reduce(&scene));
    check_fails(aorta_stream_synchronize(scene.stream), AORTA_COMM, "rank 1 is gone");
    assert_true(seconds(&scene) < 10);
    close_scene(&scene);
}

static void absent(void **state) {
    (void)state;
    struct scene scene = {0};
    open_scene(&scene, 1);
    if (!first(&scene)) _exit(0);
    check_fails(aorta_comm_open(&scene.options, &scene.world), AORTA_TIMEOUT, "1");
    assert_null(scene.world);
    assert_true(seconds(&scene) < 10);
    close_scene(&scene);
}

/* Both meet, but only one of them goes on to make the communicator. */
static void absent_from_group(void **state) {
    (void)state;
    struct scene scene = {0};
    struct aorta_comm *group;
    const int both[] = {0, 1};
    open_scene(&scene, 1);
    meet(&scene);
    if (!first(&scene)) {
        sleep(4);
        _exit(0);
    }
    check_fails(aorta_comm_split(scene.world, both, 2, &group), AORTA_TIMEOUT, "rank 0 waited for rank 1");
    assert_null(group);
    close_scene(&scene);
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
    (void)state;
    struct scene scene = {0};
    open_scene(&scene, 60);
    meet(&scene);
    const struct fake_nccl_control *fake = fake_library();
    if (!first(&scene)) {
        sleep(3);
        _exit(0);
    }
    check_ok(reduce(&scene));
    fake->set_async_error(6);
    check_fails(aorta_stream_synchronize(scene.stream), AORTA_COMM, "remote process exited: as the fake was asked to");
    assert_int_equal(fake->aborted(), 1);
    close_scene(&scene);
}

static void refused_collective(void **state) {
    (void)state;
    struct scene scene = {0};
    open_scene(&scene, 5);
    meet(&scene);
    fake_library()->refuse("ncclAllReduce", 1, 5);
    check_ok(reduce(&scene)); /* the stream keeps it */
    check_fails(aorta_stream_synchronize(scene.stream), AORTA_COMM, "ncclAllReduce: invalid usage: as the fake");
    check_fails(aorta_stream_synchronize(scene.stream), AORTA_COMM, "all_reduce #2 of 2 ranks, 4000 bytes: rank");
    close_scene(&scene);
}

static void refused_exchange(void **state) {
    (void)state;
    struct scene scene = {0};
    open_scene(&scene, 5);
    meet(&scene);
    void *other;
    check_ok(aorta_device_alloc(scene.options.device, COUNT * sizeof(float), "test buffer", &other));
    fake_library()->refuse("ncclSend", 2, 4);
    check_ok(aorta_all_to_all(scene.world, scene.stream, scene.buffer, other, COUNT / 2, AORTA_F32));
    check_fails(aorta_stream_synchronize(scene.stream), AORTA_COMM, "ncclSend and ncclRecv: invalid argument");
    aorta_device_free(scene.options.device, other);
    close_scene(&scene);
}

/* The second of three: the group is ended, and the message names the whole. */
static void refused_piece(void **state) {
    (void)state;
    struct scene scene = {0};
    open_scene(&scene, 5);
    meet(&scene);
    void *other;
    check_ok(aorta_device_alloc(scene.options.device, COUNT * sizeof(float), "test buffer", &other));
    struct aorta_comm_piece pieces[3];
    for (int i = 0; i < 3; i++)
        pieces[i] = (struct aorta_comm_piece){(float *)scene.buffer + 100 * i, (float *)other + 200 * i, 100};
    fake_library()->refuse("ncclAllGather", 2, 4);
    check_ok(aorta_all_gather_pieces(scene.world, scene.stream, pieces, 3, AORTA_F32));
    check_fails(aorta_stream_synchronize(scene.stream), AORTA_COMM, "ncclAllGather: invalid argument");
    check_fails(aorta_stream_synchronize(scene.stream), AORTA_COMM, "all_gather #2 of 2 ranks, 2400 bytes: rank");
    check_ok(aorta_stream_create(scene.options.device, "unharmed", AORTA_PRIORITY_NORMAL, &scene.unharmed));
    check_ok(aorta_all_reduce(scene.world, scene.unharmed, other, other, 10, AORTA_F32, AORTA_SUM));
    check_ok(aorta_stream_synchronize(scene.unharmed)); /* and not blocked by a group that is open for ever */
    aorta_stream_destroy(scene.unharmed);
    aorta_device_free(scene.options.device, other);
    close_scene(&scene);
}

/* The library is loaded by a first opening, set to fail, and the second opening fails on both ranks. */
static void fail_opening(const char *symbol, int failing_rank, const char *own, const char *others) {
    struct scene scene = {0};
    open_scene(&scene, 3);
    meet(&scene);
    bool fails = failing_rank < 0 || failing_rank == scene.options.ranks.rank;
    if (fails) fake_library()->refuse(symbol, 1, 3);
    struct aorta_comm *second;
    aorta_status status = aorta_comm_open(&scene.options, &second);
    assert_null(second);
    check_fails(status, AORTA_COMM, fails ? own : others);
    check_ok(reduce(&scene)); /* the first group is not concerned */
    check_ok(aorta_stream_synchronize(scene.stream));
    close_scene(&scene);
}

static void no_id(void **state) {
    (void)state;
    fail_opening("ncclGetUniqueId", 0, "ncclGetUniqueId: internal error",
                 "rank 0 of a group of 2 ranks could not make");
}

static void no_communicator(void **state) {
    (void)state;
    fail_opening("ncclCommInitRankConfig", -1, "ncclCommInitRankConfig: internal error", "");
}

/* One rank cannot make its communicator: the other waits for it in the library, but not for ever. */
static void stuck_communicator(void **state) {
    (void)state;
    struct scene scene = {0};
    struct aorta_comm *second;
    open_scene(&scene, 2);
    meet(&scene);
    if (!first(&scene)) fake_library()->refuse("ncclCommInitRankConfig", 1, 3);
    aorta_status status = aorta_comm_open(&scene.options, &second);
    assert_null(second);
    if (first(&scene))
        check_fails(status, AORTA_TIMEOUT, "ncclCommInitRankConfig: rank 0 of 2 waited 2.0 s for its peers");
    else
        check_fails(status, AORTA_COMM, "ncclCommInitRankConfig: internal error");
    check_ok(reduce(&scene)); /* the first group is not concerned */
    check_ok(aorta_stream_synchronize(scene.stream));
    close_scene(&scene);
}

/* Kernels that do not even end when they are aborted: the process ends, and says why. */
static void deaf(void **state) {
    (void)state;
    struct scene scene = {0};
    open_scene(&scene, 1);
    meet(&scene);
    fake_library()->refuse("ncclCommAbort", 1, 3);
    if (!first(&scene)) {
        sleep(20);
        _exit(0);
    }
    check_ok(reduce(&scene));
    aorta_status status = aorta_stream_synchronize(scene.stream);
    fail_msg("the process should have ended: %s", aorta_status_message(status));
}

static void no_split(void **state) {
    (void)state;
    struct scene scene = {0};
    const int both[] = {0, 1};
    struct aorta_comm *group;
    open_scene(&scene, 3);
    meet(&scene);
    fake_library()->refuse("ncclCommSplit", 1, 3);
    check_fails(aorta_comm_split(scene.world, both, 2, &group), AORTA_COMM, "ncclCommSplit: internal error");
    fake_library()->refuse(NULL, 0, 0);
    check_ok(aorta_comm_split(scene.world, both, 2, &group));
    aorta_comm_close(group);
    close_scene(&scene);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(late),
    cmocka_unit_test(late_in_graph),
    cmocka_unit_test(dead),
    cmocka_unit_test(absent),
    cmocka_unit_test(absent_from_group),
    cmocka_unit_test(broken_network),
    cmocka_unit_test(refused_collective),
    cmocka_unit_test(refused_exchange),
    cmocka_unit_test(refused_piece),
    cmocka_unit_test(no_id),
    cmocka_unit_test(no_communicator),
    cmocka_unit_test(no_split),
    cmocka_unit_test(stuck_communicator),
    cmocka_unit_test(deaf),
};

int main(int argc, char **argv) {
    for (size_t i = 0; argc == 2 && i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(argv[1], cases[i].name) != 0) continue;
        const struct CMUnitTest chosen[] = {cases[i]};
        return cmocka_run_group_tests(chosen, NULL, NULL);
    }
    fprintf(stderr, "usage: %s CASE, one of", argv[0]);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) fprintf(stderr, " %s", cases[i].name);
    fprintf(stderr, "\n");
    return 2;
}
