/* The CPU device: its threads, its limits, and devices that do not exist. */
#include "check.h"
#include "device/device.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

static int open_cpu(void **state) {
    struct aorta_device *device;
    check_ok(aorta_device_open(AORTA_DEVICE_CPU, 0, &device));
    *state = device;
    return 0;
}

static int close_cpu(void **state) {
    aorta_device_close(*state);
    return 0;
}

static void test_absent_devices_are_named(void **state) {
    (void)state;
    struct aorta_device *device;
    check_fails(aorta_device_open(AORTA_DEVICE_CUDA, 99, &device), AORTA_UNSUPPORTED, "cuda:99");
    check_fails(aorta_device_open(AORTA_DEVICE_HIP, 99, &device), AORTA_UNSUPPORTED, "hip:99");
    check_fails(aorta_device_open(AORTA_DEVICE_CUDA, 99, &device), AORTA_UNSUPPORTED, "aorta info");
    check_fails(aorta_device_open(AORTA_DEVICE_CPU, 1, &device), AORTA_UNSUPPORTED, "cpu:1");
    aorta_device_close(NULL);
}

struct thread_facts {
    char name[32];
    int nice;
    sigset_t blocked;
    pid_t thread;
};

static void look_at_thread(void *user) {
    struct thread_facts *facts = user;
    pthread_getname_np(pthread_self(), facts->name, sizeof facts->name);
    facts->nice = getpriority(PRIO_PROCESS, (id_t)gettid());
    facts->thread = gettid();
    pthread_sigmask(SIG_SETMASK, NULL, &facts->blocked);
}

static struct thread_facts facts_of(struct aorta_device *device, const char *name, enum aorta_priority priority) {
    struct aorta_stream *stream;
    struct thread_facts facts = {0};
    check_ok(aorta_stream_create(device, name, priority, &stream));
    check_ok(aorta_host_call(stream, look_at_thread, &facts));
    check_ok(aorta_stream_synchronize(stream));
    aorta_stream_destroy(stream);
    return facts;
}

static void test_threads_bear_the_streams_name(void **state) {
    assert_string_equal(facts_of(*state, "compute", AORTA_PRIORITY_NORMAL).name, "compute");
    assert_string_equal(facts_of(*state, "a name longer than Linux keeps", AORTA_PRIORITY_NORMAL).name,
                        "a name longer t");
}

static void test_priorities_become_niceness(void **state) {
    int base = getpriority(PRIO_PROCESS, (id_t)getpid()), most = 19;
    assert_int_equal(facts_of(*state, "high", AORTA_PRIORITY_HIGH).nice, base);
    assert_int_equal(facts_of(*state, "normal", AORTA_PRIORITY_NORMAL).nice, base + 1 < most ? base + 1 : most);
    assert_int_equal(facts_of(*state, "low", AORTA_PRIORITY_LOW).nice, base + 5 < most ? base + 5 : most);
}

static void test_signals_go_elsewhere(void **state) {
    struct thread_facts facts = facts_of(*state, "quiet", AORTA_PRIORITY_NORMAL);
    const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) assert_true(sigismember(&facts.blocked, signals[i]));
    sigset_t ours;
    pthread_sigmask(SIG_SETMASK, NULL, &ours);
    assert_false(sigismember(&ours, SIGINT)); /* and the creator's mask is as before */
}

static void test_branches_of_a_graph_have_threads_of_their_own(void **state) {
    struct aorta_stream *origin, *side;
    struct aorta_event *fork, *join;
    struct aorta_graph *graph;
    struct thread_facts first = {0}, second = {0};
    check_ok(aorta_stream_create(*state, "origin", AORTA_PRIORITY_NORMAL, &origin));
    check_ok(aorta_stream_create(*state, "side", AORTA_PRIORITY_HIGH, &side));
    check_ok(aorta_event_create(*state, &fork));
    check_ok(aorta_event_create(*state, &join));
    check_ok(aorta_capture_begin(origin));
    check_ok(aorta_event_record(fork, origin));
    check_ok(aorta_stream_wait(side, fork));
    check_ok(aorta_host_call(side, look_at_thread, &second));
    check_ok(aorta_host_call(origin, look_at_thread, &first));
    check_ok(aorta_event_record(join, side));
    check_ok(aorta_stream_wait(origin, join));
    check_ok(aorta_capture_end(origin, &graph));
    check_ok(aorta_graph_launch(graph, origin));
    check_ok(aorta_stream_synchronize(origin));
    assert_string_equal(first.name, "origin");
    assert_string_equal(second.name, "side");
    assert_int_equal(second.nice, getpriority(PRIO_PROCESS, (id_t)getpid()));
    pid_t branch = second.thread;
    check_ok(aorta_graph_launch(graph, origin));
    check_ok(aorta_stream_synchronize(origin));
    assert_int_equal(second.thread, branch); /* started once, not for every run */
    assert_true(sigismember(&second.blocked, SIGTERM));
    aorta_graph_destroy(graph);
    aorta_stream_destroy(origin);
    aorta_stream_destroy(side);
    aorta_event_destroy(fork);
    aorta_event_destroy(join);
}

static void look_at_processors(void *user) {
    sched_getaffinity(0, sizeof(cpu_set_t), user); /* of the calling thread */
}

static cpu_set_t processors_of(struct aorta_device *device, double share, int part) {
    struct aorta_stream *stream;
    cpu_set_t set;
    CPU_ZERO(&set);
    check_ok(aorta_stream_create(device, "limited", AORTA_PRIORITY_NORMAL, &stream));
    check_ok(aorta_stream_limit(stream, share, part));
    check_ok(aorta_host_call(stream, look_at_processors, &set));
    check_ok(aorta_stream_synchronize(stream));
    aorta_stream_destroy(stream);
    return set;
}

/* A share of the processors is rounded up; parts are side by side until all processors are used. */
static void test_a_limited_stream_keeps_to_its_processors(void **state) {
    cpu_set_t all, common;
    sched_getaffinity(0, sizeof all, &all);
    const int total = CPU_COUNT(&all);
    const double shares[] = {0.001, 0.25, 0.5, 0.7, 0.999, 1};
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        const int count = (int)ceil(shares[i] * total);
        for (int part = 0; part < 5; part++) {
            cpu_set_t own = processors_of(*state, shares[i], part), next = processors_of(*state, shares[i], part + 1);
            CPU_AND(&common, &own, &all);
            assert_int_equal(CPU_COUNT(&own), count);
            assert_int_equal(CPU_COUNT(&common), count);
            CPU_AND(&common, &own, &next);
            if (2 * count <= total) assert_int_equal(CPU_COUNT(&common), 0);
            CPU_OR(&common, &own, &next);
            if (2 * count >= total) assert_int_equal(CPU_COUNT(&common), total);
        }
    }
    cpu_set_t after;
    sched_getaffinity(0, sizeof after, &after);
    assert_true(CPU_EQUAL(&all, &after)); /* nobody else is bound */
}

/* The thread of a graph's branch keeps to what the stream it was captured from keeps to. */
static void test_branches_keep_to_the_streams_processors(void **state) {
    struct aorta_stream *origin, *side;
    struct aorta_event *event;
    struct aorta_graph *graph;
    cpu_set_t all, wide, narrow;
    sched_getaffinity(0, sizeof all, &all);
    check_ok(aorta_stream_create(*state, "origin", AORTA_PRIORITY_NORMAL, &origin));
    check_ok(aorta_stream_create(*state, "side", AORTA_PRIORITY_NORMAL, &side));
    check_ok(aorta_event_create(*state, &event));
    check_ok(aorta_stream_limit(side, 1e-3, 1));
    check_ok(aorta_capture_begin(origin));
    check_ok(aorta_host_call(origin, look_at_processors, &wide));
    check_ok(aorta_event_record(event, origin));
    check_ok(aorta_stream_wait(side, event));
    check_ok(aorta_host_call(side, look_at_processors, &narrow));
    check_ok(aorta_event_record(event, side));
    check_ok(aorta_stream_wait(origin, event));
    check_ok(aorta_capture_end(origin, &graph));
    check_ok(aorta_graph_launch(graph, origin));
    check_ok(aorta_stream_synchronize(origin));
    assert_int_equal(CPU_COUNT(&wide), CPU_COUNT(&all));
    assert_int_equal(CPU_COUNT(&narrow), 1);
    aorta_graph_destroy(graph);
    aorta_stream_destroy(origin);
    aorta_stream_destroy(side);
    aorta_event_destroy(event);
}

static void test_long_stream_names_are_cut_to_63_bytes(void **state) {
    struct aorta_stream *stream;
    char name[100];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    check_ok(aorta_stream_create(*state, name, AORTA_PRIORITY_NORMAL, &stream));
    assert_int_equal(strlen(aorta_stream_name(stream)), 63);
    aorta_stream_destroy(stream);
}

static aorta_status run_nothing(const void *args) {
    (void)args;
    return NULL;
}

static void test_too_many_arguments_are_refused(void **state) {
    static const struct aorta_kernel kernel = {.name = "huge", .cpu = run_nothing};
    struct aorta_stream *stream;
    struct aorta_graph *graph;
    check_ok(aorta_stream_create(*state, "s", AORTA_PRIORITY_NORMAL, &stream));
    check_fails(aorta_launch(stream, &kernel, "", SIZE_MAX), AORTA_INTERNAL, "too many");
    check_ok(aorta_stream_synchronize(stream));
    check_ok(aorta_capture_begin(stream));
    check_fails(aorta_launch(stream, &kernel, "", SIZE_MAX), AORTA_INTERNAL, "too many");
    check_fails(aorta_capture_end(stream, &graph), AORTA_INTERNAL, "too many");
    aorta_stream_destroy(stream);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_absent_devices_are_named),
        cmocka_unit_test(test_threads_bear_the_streams_name),
        cmocka_unit_test(test_priorities_become_niceness),
        cmocka_unit_test(test_signals_go_elsewhere),
        cmocka_unit_test(test_branches_of_a_graph_have_threads_of_their_own),
        cmocka_unit_test(test_a_limited_stream_keeps_to_its_processors),
        cmocka_unit_test(test_branches_keep_to_the_streams_processors),
        cmocka_unit_test(test_long_stream_names_are_cut_to_63_bytes),
        cmocka_unit_test(test_too_many_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, open_cpu, close_cpu);
}
