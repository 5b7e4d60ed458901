/* The GPU driver on the fake CUDA: what it says when something is missing or fails, and its cache. FAKE_GPU is the
 * folder of the fake libraries. */
#include "check.h"
#include "device/gpu/driver.h"
#include "device/inventory.h"
#include "device/metrics.h"
#include "fake_gpu/fake_gpu.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- kernels of this program, on the fake ---- */

struct add_args {
    int64_t *sum, value;
};

static aorta_status run_add(const void *args) {
    const struct add_args *a = args;
    __atomic_fetch_add(a->sum, a->value, __ATOMIC_RELAXED); /* the host may look at any time */
    return NULL;
}

static aorta_status run_fault(const void *args) {
    (void)args;
    return AORTA_ERROR(AORTA_DEVICE, "a fault on the device");
}

/* Holds its stream until somebody writes there. */
struct hold_args {
    _Atomic int *release;
};

static aorta_status run_hold(const void *args) {
    const struct hold_args *a = args;
    while (!atomic_load(a->release)) usleep(100);
    return NULL;
}

extern const struct fake_kernel fake_kernel_add, fake_kernel_fault, fake_kernel_hold;
const struct fake_kernel fake_kernel_hold = {run_hold, sizeof(struct hold_args)};
const struct fake_kernel fake_kernel_add = {run_add, sizeof(struct add_args)};
const struct fake_kernel fake_kernel_fault = {run_fault, 0};

static const struct aorta_gpu_source source = {"test.cu", "add(struct add_args) fault() hold(struct hold_args)"};
static const struct aorta_gpu_source broken_source = {"broken.cu", "#error"};
static const struct aorta_gpu_entry add_entry = {&source, "add"}, fault_entry = {&source, "fault"},
                                    hold_entry = {&source, "hold"};
static const struct aorta_gpu_entry absent_entry = {&source, "absent"}, broken_entry = {&broken_source, "broken"};
static const struct aorta_gpu_grid one = {.blocks = {1}};

static aorta_status queue_add(struct aorta_stream *stream, int64_t *sum, int64_t value) {
    struct add_args args = {sum, value};
    return aorta_gpu_launch(stream, &add_entry, one, &args, sizeof args);
}

/* ---- the fake ---- */

static char folder[512]; /* of the cache, below /tmp */

static void use(const char *libraries) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", FAKE_GPU, libraries);
    setenv("AORTA_LIBRARY_PATH", path, 1);
}

static const struct fake_gpu_control *control(void) {
    void *library = dlopen(FAKE_GPU "/cuda/libcuda.so.1", RTLD_NOW);
    assert_non_null(library);
    const struct fake_gpu_control *found = dlsym(library, "fake_gpu_control");
    assert_non_null(found);
    return found;
}

static int begin(void **state) {
    (void)state;
    use("cuda");
    setenv("AORTA_CACHE_DIR", folder, 1);
    control()->strike(NULL, 0, 0, 0);
    control()->set_devices(1);
    control()->set_version(13000);
    return 0;
}

static struct aorta_device *open_gpu(void) {
    struct aorta_device *device;
    check_ok(aorta_device_open(AORTA_DEVICE_CUDA, 0, &device));
    return device;
}

static struct aorta_stream *open_stream(struct aorta_device *device, const char *name) {
    struct aorta_stream *stream;
    check_ok(aorta_stream_create(device, name, AORTA_PRIORITY_HIGH, &stream));
    return stream;
}

static void empty_cache(void) {
    DIR *directory = opendir(folder);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] != '.') unlink(path);
    }
    if (directory) closedir(directory);
}

/* ---- opening ---- */

static void test_the_device_describes_itself(void **state) {
    (void)state;
    control()->set_devices(2);
    struct aorta_device *device;
    check_ok(aorta_device_open(AORTA_DEVICE_CUDA, 1, &device));
    const struct aorta_device_info *info = aorta_device_get_info(device);
    assert_int_equal(info->kind, AORTA_DEVICE_CUDA);
    assert_int_equal(info->index, 1);
    assert_string_equal(info->name, "Fake GPU 1");
    assert_string_equal(info->isa, "sm_90");
    assert_int_equal(info->multiprocessors, 4);
    assert_int_equal(info->timestamp_tick, 32);
    const struct aorta_gpu_properties *properties = aorta_gpu_get_properties(device);
    assert_int_equal(properties->warp_size, 32);
    assert_int_equal(properties->shared_bytes_per_block, 227 * 1024);
    assert_string_equal(properties->pci_bus_id, "0000:02:00.0");
    assert_true(aorta_device_is_gpu(device));
    assert_true(aorta_gpu_clock_error_ns(device) > 0);
    int blocks;
    check_ok(aorta_gpu_occupancy(device, &add_entry, 256, 0, &blocks));
    assert_int_equal(blocks, 8);
    aorta_device_close(device);
}

static void test_what_is_missing_is_told(void **state) {
    (void)state;
    struct aorta_device *device;
    use("nowhere");
    aorta_status status = aorta_device_open(AORTA_DEVICE_HIP, 0, &device);
    assert_int_equal(aorta_status_code(status), AORTA_UNSUPPORTED);
    assert_non_null(strstr(aorta_status_message(status), "libamdhip64.so"));
    assert_non_null(strstr(aorta_status_message(status), "ROCm"));
    aorta_status_free(status);
    use("old");
    status = aorta_device_open(AORTA_DEVICE_CUDA, 0, &device);
    assert_int_equal(aorta_status_code(status), AORTA_UNSUPPORTED);
    assert_non_null(strstr(aorta_status_message(status), "old/libcuda.so.1 is too old"));
    assert_non_null(strstr(aorta_status_message(status), "cuGraphInstantiateWithFlags"));
    assert_null(strstr(aorta_status_message(status), "cuFuncLoad")); /* one that it can do without */
    aorta_status_free(status);
}

static void test_a_library_names_all_that_was_tried(void **state) {
    (void)state;
    static const char *const names[] = {"libaorta-none.so.2", "libaorta-none.so", NULL};
    const struct aorta_library_description description = {
        .purpose = "nothing", .names = names, .install = "it cannot be had"};
    struct aorta_library library;
    setenv("AORTA_LIBRARY_PATH", "/tmp/first::/tmp/second", 1);
    aorta_status status = aorta_library_open(&description, NULL, &library);
    assert_int_equal(aorta_status_code(status), AORTA_UNSUPPORTED);
    const char *const parts[] = {"nothing",     "libaorta-none.so.2", "libaorta-none.so:", "/tmp/first",
                                 "/tmp/second", "/opt/rocm",          "it cannot be had"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!strstr(aorta_status_message(status), parts[i])) fail_msg("%s: %s", parts[i], aorta_status_message(status));
    }
    aorta_status_free(status);
}

/* A file that is there and is no library: the loader's reason is told. */
static void test_a_spoilt_library_is_told(void **state) {
    (void)state;
    static const char *const names[] = {"libspoilt.so", NULL};
    const struct aorta_library_description description = {.purpose = "a spoilt one", .names = names, .install = ""};
    struct aorta_library library;
    char path[1024];
    snprintf(path, sizeof path, "%s/libspoilt.so", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("no library at all, though long enough to look at", file);
    fclose(file);
    setenv("AORTA_LIBRARY_PATH", folder, 1);
    check_fails(aorta_library_open(&description, NULL, &library), AORTA_UNSUPPORTED, "libspoilt.so: ");
    unlink(path);
}

static void test_no_device_and_too_old(void **state) {
    (void)state;
    struct aorta_device *device;
    control()->set_devices(0);
    setenv("CUDA_VISIBLE_DEVICES", "none of them", 1);
    check_fails(aorta_device_open(AORTA_DEVICE_CUDA, 0, &device), AORTA_UNSUPPORTED,
                "shows no device; CUDA_VISIBLE_DEVICES is \"none of them\"");
    control()->strike("cuInit", 1, 100, 0);
    check_fails(aorta_device_open(AORTA_DEVICE_CUDA, 0, &device), AORTA_UNSUPPORTED, "shows no device");
    control()->strike("cuInit", 1, 999, 0);
    check_fails(aorta_device_open(AORTA_DEVICE_CUDA, 0, &device), AORTA_UNSUPPORTED, "text of error 999");
    unsetenv("CUDA_VISIBLE_DEVICES");
    control()->set_devices(3);
    check_fails(aorta_device_open(AORTA_DEVICE_CUDA, 3, &device), AORTA_UNSUPPORTED, "shows 3 devices");
    control()->set_version(11000);
    check_fails(aorta_device_open(AORTA_DEVICE_CUDA, 0, &device), AORTA_UNSUPPORTED, "CUDA 11.4");
}

static void test_ranks_share_devices(void **state) {
    (void)state;
    struct aorta_device *device;
    struct aorta_device_warning warning;
    control()->set_devices(2);
    check_ok(aorta_device_open_best(1, &device, &warning));
    assert_int_equal(aorta_device_get_info(device)->kind, AORTA_DEVICE_CUDA);
    assert_int_equal(aorta_device_get_info(device)->index, 1);
    assert_string_equal(warning.text, "");
    aorta_device_close(device);
    check_ok(aorta_device_open_local(AORTA_DEVICE_CUDA, 5, &device, &warning));
    assert_int_equal(aorta_device_get_info(device)->index, 1);
    assert_string_equal(warning.text, "local rank 5 shares device cuda:1 with another rank: there are 2 devices");
    aorta_device_close(device);
    control()->set_devices(0);
    check_ok(aorta_device_open_best(3, &device, &warning));
    assert_int_equal(aorta_device_get_info(device)->kind, AORTA_DEVICE_CPU);
    aorta_device_close(device);
    control()->set_devices(1);
    control()->strike("cuStreamCreateWithPriority", 1, 2, 0);
    check_fails(aorta_device_open_best(0, &device, &warning), AORTA_MEMORY, "device.kind cpu");
}

/* ---- everything fails once: no crash, no leak, and the message names the vendor's error ---- */

static aorta_status use_everything(struct aorta_device *device);

static aorta_status open_and_use(void) {
    struct aorta_device *device;
    AORTA_TRY(aorta_device_open(AORTA_DEVICE_CUDA, 0, &device));
    aorta_status status = use_everything(device);
    aorta_device_close(device);
    return status;
}

/* A note lies in pinned memory as kernels leave it: the sum, when it is not 0. */
static aorta_status read_sum(void *user) {
    const int64_t met = __atomic_exchange_n((int64_t *)user, 0, __ATOMIC_RELAXED);
    return met ? AORTA_ERROR(AORTA_DEVICE, "a sum of %lld", (long long)met) : NULL;
}

static void test_notes_of_kernels_reach_whoever_waits(void **state) {
    (void)state;
    struct aorta_device *device = open_gpu();
    struct aorta_stream *a = open_stream(device, "a"), *b = open_stream(device, "b"), *c = open_stream(device, "c");
    struct aorta_event *event;
    void *pinned;
    check_ok(aorta_event_create(device, &event));
    check_ok(aorta_pinned_alloc(device, sizeof(int64_t), "sum", &pinned));
    int64_t *sum = pinned;
    *sum = 0;
    for (int i = 0; i < 2; i++) check_ok(aorta_gpu_note(a, read_sum, sum));
    check_ok(aorta_event_record(event, a));
    check_ok(aorta_stream_wait(b, event));
    check_ok(aorta_stream_synchronize(a));
    check_ok(aorta_stream_synchronize(b));
    check_ok(queue_add(a, sum, 7));
    check_ok(aorta_event_record(event, a));
    check_ok(aorta_stream_wait(b, event));
    check_fails(aorta_stream_synchronize(b), AORTA_DEVICE, "stream a: a sum of 7");
    assert_int_equal(*sum, 0);
    check_fails(aorta_event_synchronize(event), AORTA_DEVICE, "stream a: a sum of 7");
    check_fails(aorta_stream_synchronize(a), AORTA_DEVICE, "stream a: a sum of 7");
    check_ok(aorta_stream_synchronize(c));
    check_ok(aorta_stream_wait(c, event));
    check_fails(aorta_stream_synchronize(c), AORTA_DEVICE, "stream a: a sum of 7");
    aorta_stream_destroy(a);
    aorta_stream_destroy(b);
    aorta_stream_destroy(c);
    aorta_event_destroy(event);
    aorta_pinned_free(device, sum);
    aorta_device_close(device);
}

static void test_notes_of_graphs_are_their_launchers(void **state) {
    (void)state;
    struct aorta_device *device = open_gpu();
    struct aorta_stream *a = open_stream(device, "a"), *b = open_stream(device, "b");
    struct aorta_graph *graph;
    void *pinned;
    check_ok(aorta_pinned_alloc(device, sizeof(int64_t), "sum", &pinned));
    int64_t *sum = pinned;
    *sum = 0;
    check_ok(aorta_capture_begin(a));
    check_ok(queue_add(a, sum, 5));
    check_ok(aorta_gpu_note(a, read_sum, sum));
    check_ok(aorta_capture_end(a, &graph));
    assert_int_equal(aorta_graph_node_count(graph), 1); /* nothing that the host would have to run */
    check_ok(aorta_graph_launch(graph, b));
    check_ok(aorta_stream_synchronize(a));
    check_fails(aorta_stream_synchronize(b), AORTA_DEVICE, "stream a: a sum of 5");
    aorta_graph_destroy(graph);
    check_fails(aorta_stream_synchronize(b), AORTA_DEVICE, "stream a: a sum of 5");
    aorta_stream_destroy(a);
    aorta_stream_destroy(b);
    aorta_pinned_free(device, sum);
    aorta_device_close(device);
}

struct things {
    struct aorta_stream *a, *b;
    struct aorta_event *event, *joined;
    struct aorta_graph *graph;
    int64_t *sum, *device_sum, *stamp;
    struct aorta_hold *hold;
};

static aorta_status note_call(void *user) {
    (void)user;
    return NULL;
}

static aorta_status make_things(struct aorta_device *device, struct things *t) {
    void *pinned, *memory;
    AORTA_TRY(aorta_stream_create(device, "a", AORTA_PRIORITY_LOW, &t->a));
    AORTA_TRY(aorta_stream_create(device, "b", AORTA_PRIORITY_NORMAL, &t->b));
    AORTA_TRY(aorta_stream_limit(t->b, 0.5, 0));
    AORTA_TRY(aorta_event_create(device, &t->event));
    AORTA_TRY(aorta_event_create_untimed(device, &t->joined));
    AORTA_TRY(aorta_pinned_alloc(device, 64 + sizeof *t->hold, "sums", &pinned));
    memset(pinned, 0, 64 + sizeof *t->hold);
    t->sum = pinned;
    t->stamp = t->sum + 1;
    t->hold = (struct aorta_hold *)(t->sum + 8);
    t->hold->release = 1;
    AORTA_TRY(aorta_device_alloc(device, 64, "device sums", &memory));
    t->device_sum = memory;
    return NULL;
}

static aorta_status queue_all(struct things *t) {
    AORTA_TRY(aorta_timestamp(t->a, t->stamp));
    AORTA_TRY(queue_add(t->a, t->sum, 1));
    AORTA_TRY(aorta_timestamp_aside(t->a, t->stamp));
    AORTA_TRY(aorta_fill_bytes(t->a, t->stamp + 1, 0, 1));
    AORTA_TRY(aorta_event_record(t->event, t->a));
    AORTA_TRY(aorta_stream_wait(t->b, t->event));
    AORTA_TRY(aorta_copy(t->b, t->device_sum, t->sum, sizeof *t->sum));
    AORTA_TRY(aorta_fill_bytes(t->b, t->device_sum, 0, sizeof *t->sum));
    AORTA_TRY(aorta_host_call(t->b, note_call, NULL));
    AORTA_TRY(aorta_gpu_note(t->b, note_call, t->sum));
    AORTA_TRY(aorta_event_record(t->joined, t->b));
    return aorta_stream_wait(t->a, t->joined);
}

static aorta_status run_all(struct things *t) {
    int64_t time;
    AORTA_TRY(queue_all(t));
    AORTA_TRY(aorta_stream_synchronize(t->a));
    AORTA_TRY(aorta_event_synchronize(t->event));
    AORTA_TRY(aorta_event_time(t->event, &time));
    AORTA_TRY(aorta_capture_begin(t->a));
    aorta_status status = queue_all(t), ended = aorta_capture_end(t->a, &t->graph);
    status = aorta_status_join(status, ended);
    if (status) return status;
    AORTA_TRY(aorta_graph_launch(t->graph, t->b));
    AORTA_TRY(aorta_graph_launch(t->graph, t->a));
    AORTA_TRY(aorta_timestamp_room(t->a, &(struct aorta_footprint){64, 32, 0, 2, 2}, t->stamp));
    AORTA_TRY(aorta_hold_room(t->a, &(struct aorta_footprint){64, 32, 0, 1, 2}, t->hold, 1000000000));
    AORTA_TRY(aorta_stream_synchronize(t->b));
    return aorta_stream_synchronize(t->a);
}

static aorta_status use_everything(struct aorta_device *device) {
    struct things t = {0};
    aorta_status status = make_things(device, &t);
    if (!status) status = run_all(&t);
    aorta_stream_destroy(t.a);
    aorta_stream_destroy(t.b);
    aorta_event_destroy(t.event);
    aorta_event_destroy(t.joined);
    aorta_graph_destroy(t.graph);
    aorta_pinned_free(device, t.sum);
    aorta_device_free(device, t.device_sum);
    return status;
}

static void fail_each_call(int code, enum aorta_code expected, const char *name) {
    control()->strike("*", 0, 0, 0);
    check_ok(open_and_use());
    int calls = control()->calls(), silent = 0;
    assert_true(calls > 100);
    for (int nth = 1; nth <= calls; nth++) {
        control()->strike("*", nth, code, 0);
        aorta_status status = open_and_use();
        char failed[64];
        snprintf(failed, sizeof failed, "%s", control()->failed());
        control()->strike(NULL, 0, 0, 0);
        if (!status) { /* closing, the clock's care, and what is only asked */
            silent++;
            continue;
        }
        bool named = strstr(aorta_status_message(status), name) != NULL;
        bool coded = aorta_status_code(status) == expected || aorta_status_code(status) == AORTA_UNSUPPORTED;
        if (!coded || (!named && expected != AORTA_MEMORY))
            fail_msg("call %d, %s: %s", nth, failed, aorta_status_message(status));
        aorta_status_free(status);
    }
    assert_true(silent < calls / 2);
}

static void test_every_call_may_fail(void **state) {
    (void)state;
    fail_each_call(700, AORTA_DEVICE, "CUDA_ERROR_ILLEGAL_ADDRESS");
    fail_each_call(2, AORTA_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY");
}

/* The device is lost at each call in turn, and stays lost. */
static void test_the_device_may_be_lost_at_any_call(void **state) {
    (void)state;
    control()->strike("cuLaunchKernel", 0, 0, 0);
    check_ok(open_and_use());
    int launches = control()->calls(), silent = 0;
    for (int nth = 1; nth <= launches; nth++) {
        control()->strike("cuLaunchKernel", nth, 719, 1);
        aorta_status status = open_and_use();
        if (!status) { /* a launch of the clock's care, or one fewer of them than the first time */
            silent++;
            continue;
        }
        assert_int_equal(aorta_status_code(status), AORTA_DEVICE);
        aorta_status_free(status);
    }
    assert_true(silent < launches / 2);
}

/* ---- failures on streams ---- */

static void test_a_lost_device_fails_the_stream_for_good(void **state) {
    (void)state;
    struct aorta_device *device = open_gpu();
    struct aorta_stream *stream = open_stream(device, "struck");
    void *sum;
    check_ok(aorta_pinned_alloc(device, sizeof(int64_t), "sum", &sum));
    check_ok(queue_add(stream, sum, 1));
    control()->strike("cuStreamSynchronize", 1, 700, 0);
    aorta_status status = aorta_stream_synchronize(stream);
    assert_int_equal(aorta_status_code(status), AORTA_DEVICE);
    const char *const parts[] = {"struck", "CUDA_ERROR_ILLEGAL_ADDRESS", "text of error 700",
                                 "last kernel launched add"};
    for (size_t i = 0; i < 4; i++) assert_non_null(strstr(aorta_status_message(status), parts[i]));
    aorta_status_free(status);
    check_fails(aorta_stream_synchronize(stream), AORTA_DEVICE, "CUDA_ERROR_ILLEGAL_ADDRESS");
    check_ok(queue_add(stream, sum, 1)); /* skipped */
    aorta_stream_destroy(stream);
    aorta_pinned_free(device, sum);
    aorta_device_close(device);
}

static aorta_status launch_far_too_large(struct aorta_stream *stream, const void *args) {
    struct aorta_gpu_grid grid = {.blocks = {1}, .threads = {4096}};
    return aorta_gpu_launch(stream, &add_entry, grid, args, sizeof(struct add_args));
}

static void test_a_refused_launch_is_told_at_the_next_wait(void **state) {
    (void)state;
    static const struct aorta_kernel kernel = {.name = "oversized", .gpu = launch_far_too_large};
    struct aorta_device *device = open_gpu();
    struct aorta_stream *stream = open_stream(device, "narrow");
    struct add_args args = {NULL, 1};
    check_ok(aorta_launch(stream, &kernel, &args, sizeof args));
    aorta_status status = aorta_stream_synchronize(stream);
    const char *const parts[] = {"narrow", "oversized", "4096 x 1 x 1 threads", "CUDA_ERROR_INVALID_VALUE"};
    for (size_t i = 0; i < 4; i++) {
        if (!strstr(aorta_status_message(status), parts[i])) fail_msg("%s", aorta_status_message(status));
    }
    aorta_status_free(status);
    aorta_stream_destroy(stream);
    aorta_device_close(device);
}

static void test_wrong_arguments_and_entries_are_told(void **state) {
    (void)state;
    struct aorta_device *device = open_gpu();
    struct aorta_stream *stream = open_stream(device, "s");
    int64_t small = 0;
    check_fails(aorta_gpu_launch(stream, &add_entry, one, &small, sizeof small), AORTA_INTERNAL,
                "takes 16 bytes of arguments and is given 8");
    check_fails(aorta_gpu_launch(stream, &absent_entry, one, NULL, 0), AORTA_DEVICE, "kernel absent");
    check_fails(aorta_gpu_prepare(device, &broken_entry), AORTA_DEVICE, "as the source wants it");
    struct aorta_gpu_grid wide = {.blocks = {1}, .shared_bytes = 1 << 20};
    struct add_args args = {&small, 1};
    check_fails(aorta_gpu_launch(stream, &add_entry, wide, &args, sizeof args), AORTA_DEVICE, "shared memory");
    wide.shared_bytes = 100000;
    control()->strike("cuFuncSetAttribute", 0, 0, 0);
    for (int i = 0; i < 3; i++) check_ok(aorta_gpu_launch(stream, &add_entry, wide, &args, sizeof args));
    assert_int_equal(control()->calls(), 1);                                                        /* asked for once */
    check_ok(aorta_gpu_launch(stream, &add_entry, (struct aorta_gpu_grid){0}, &args, sizeof args)); /* nothing to do */
    check_ok(aorta_stream_synchronize(stream));
    assert_int_equal(small, 3);
    aorta_stream_destroy(stream);
    aorta_device_close(device);
}

static void test_a_failed_stream_is_known_and_can_be_failed(void **state) {
    (void)state;
    struct aorta_device *device = open_gpu();
    struct aorta_stream *stream = open_stream(device, "collective");
    assert_false(aorta_gpu_stream_failed(stream));
    assert_non_null(aorta_gpu_stream_handle(stream));
    check_ok(aorta_gpu_stream_fail(stream, AORTA_ERROR(AORTA_COMM, "rank 3 is gone")));
    assert_true(aorta_gpu_stream_failed(stream));
    check_fails(aorta_stream_synchronize(stream), AORTA_COMM, "stream collective: rank 3 is gone");
    aorta_stream_destroy(stream);
    stream = open_stream(device, "captured");
    struct aorta_graph *graph = NULL;
    check_ok(aorta_capture_begin(stream));
    check_fails(aorta_gpu_stream_fail(stream, AORTA_ERROR(AORTA_COMM, "rank 3 is gone")), AORTA_COMM, "rank 3");
    check_fails(aorta_capture_end(stream, &graph), AORTA_COMM, "rank 3");
    check_ok(aorta_stream_synchronize(stream));
    aorta_stream_destroy(stream);
    aorta_device_close(device);
}

/* ---- host calls whose failure comes late ---- */

struct late {
    _Atomic int release;
};

static aorta_status fail_when_released(void *user) {
    struct late *late = user;
    while (!atomic_load(&late->release)) usleep(100);
    return AORTA_ERROR(AORTA_IO, "the disk is gone");
}

static void test_a_late_failure_goes_where_events_lead(void **state) {
    (void)state;
    struct aorta_device *device = open_gpu();
    struct aorta_stream *a = open_stream(device, "a"), *b = open_stream(device, "b"), *c = open_stream(device, "c");
    struct aorta_event *before, *behind;
    struct late late = {0};
    check_ok(aorta_event_create(device, &before));
    check_ok(aorta_event_create(device, &behind));
    check_ok(aorta_host_call(a, note_call, NULL));
    check_ok(aorta_event_record(before, a));
    check_ok(aorta_host_call(a, fail_when_released, &late));
    check_ok(aorta_event_record(behind, a));
    check_ok(aorta_stream_wait(b, behind));
    check_ok(aorta_stream_wait(c, before));
    check_ok(aorta_event_record(before, c));
    atomic_store(&late.release, 1);
    check_fails(aorta_stream_synchronize(b), AORTA_IO, "stream a: host call: the disk is gone");
    check_fails(aorta_event_synchronize(behind), AORTA_IO, "the disk is gone");
    check_ok(aorta_event_synchronize(before));
    check_ok(aorta_stream_synchronize(c));
    check_ok(aorta_stream_wait(c, behind)); /* reached, and failed */
    check_fails(aorta_stream_synchronize(c), AORTA_IO, "the disk is gone");
    check_fails(aorta_stream_synchronize(a), AORTA_IO, "the disk is gone");
    aorta_stream_destroy(a);
    check_fails(aorta_event_synchronize(behind), AORTA_IO, "the disk is gone"); /* the stream itself is gone */
    aorta_stream_destroy(b);
    aorta_stream_destroy(c);
    aorta_event_destroy(before);
    aorta_event_destroy(behind);
    aorta_device_close(device);
}

/* Who waits for work behind calls that have ended needs no call of its own: it would hold its stream up, and every
 * stream that waits for that one. Only while a call is under way one has to be queued. */
static void test_ended_calls_are_not_asked_again(void **state) {
    (void)state;
    struct aorta_device *device = open_gpu();
    struct aorta_stream *a = open_stream(device, "a"), *b = open_stream(device, "b");
    struct aorta_event *event;
    _Atomic int release = 0;
    struct late late = {0};
    const struct hold_args args = {&release};
    check_ok(aorta_event_create_untimed(device, &event));
    check_ok(aorta_host_call(a, note_call, NULL));
    check_ok(aorta_stream_synchronize(a));
    check_ok(aorta_gpu_launch(a, &hold_entry, one, &args, sizeof args)); /* so that the event is not reached */
    check_ok(aorta_event_record(event, a));
    control()->strike("cuLaunchHostFunc", 1, 2, 1);
    check_ok(aorta_stream_wait(b, event));
    assert_string_equal(control()->failed(), "");
    control()->strike(NULL, 0, 0, 0);
    atomic_store(&release, 1);
    check_ok(aorta_stream_synchronize(b));
    check_ok(aorta_stream_synchronize(a));

    check_ok(aorta_host_call(a, fail_when_released, &late));
    check_ok(aorta_event_record(event, a));
    control()->strike("cuLaunchHostFunc", 0, 0, 0);
    check_ok(aorta_stream_wait(b, event));
    assert_int_equal(control()->calls(), 1);
    atomic_store(&late.release, 1);
    check_fails(aorta_stream_synchronize(b), AORTA_IO, "the disk is gone");
    check_fails(aorta_stream_synchronize(a), AORTA_IO, "the disk is gone");
    check_ok(aorta_event_record(event, a));
    control()->strike(NULL, 0, 0, 0);
    aorta_stream_destroy(b);
    b = open_stream(device, "b");
    check_ok(aorta_stream_wait(b, event)); /* the call has ended, and had failed */
    check_fails(aorta_stream_synchronize(b), AORTA_IO, "the disk is gone");
    aorta_stream_destroy(a);
    aorta_stream_destroy(b);
    aorta_event_destroy(event);
    aorta_device_close(device);
}

/* A graph's calls come behind the one that begins its run: until the run has been waited for, others ask. */
static void test_a_graphs_late_failure_goes_where_events_lead(void **state) {
    (void)state;
    struct aorta_device *device = open_gpu();
    struct aorta_stream *a = open_stream(device, "a"), *b = open_stream(device, "b");
    struct aorta_event *event;
    struct aorta_graph *graph;
    struct late late = {1};
    check_ok(aorta_event_create_untimed(device, &event));
    check_ok(aorta_capture_begin(a));
    check_ok(aorta_host_call(a, note_call, NULL));
    check_ok(aorta_capture_end(a, &graph));
    check_ok(aorta_graph_launch(graph, a));
    check_ok(aorta_stream_synchronize(a));
    check_ok(aorta_event_record(event, a));
    control()->strike("cuLaunchHostFunc", 0, 0, 0);
    check_ok(aorta_stream_wait(b, event));
    assert_int_equal(control()->calls(), 0);
    aorta_graph_destroy(graph);

    atomic_store(&late.release, 0);
    check_ok(aorta_capture_begin(a));
    check_ok(aorta_host_call(a, fail_when_released, &late));
    check_ok(aorta_capture_end(a, &graph));
    check_ok(aorta_graph_launch(graph, a));
    check_ok(aorta_event_record(event, a));
    usleep(2000); /* so that the call that begins the run has ended */
    check_ok(aorta_stream_wait(b, event));
    atomic_store(&late.release, 1);
    check_fails(aorta_stream_synchronize(b), AORTA_IO, "the disk is gone");
    check_fails(aorta_stream_synchronize(a), AORTA_IO, "the disk is gone");
    control()->strike(NULL, 0, 0, 0);
    aorta_graph_destroy(graph);
    aorta_stream_destroy(a);
    aorta_stream_destroy(b);
    aorta_event_destroy(event);
    aorta_device_close(device);
}

/* ---- timestamps ---- */

static aorta_status queue_stamps(struct aorta_stream *stream, int64_t *stamps, int64_t *sum) {
    AORTA_TRY(aorta_timestamp(stream, &stamps[0]));
    AORTA_TRY(aorta_timestamp(stream, &stamps[1]));
    AORTA_TRY(queue_add(stream, sum, 1));
    for (int i = 2; i < 7; i++) AORTA_TRY(aorta_timestamp(stream, &stamps[i]));
    return NULL;
}

static void check_stamps(int64_t *stamps) {
    for (int i = 1; i < 7; i++) assert_true(stamps[i - 1] && stamps[i - 1] <= stamps[i]);
    memset(stamps, 0, 7 * sizeof *stamps);
}

/* In a graph. Outside, each is written at once: the host may be late with what comes next. */
/* Unless the graph is told so, all of it runs with the priority of the stream it is launched on. */
static void test_kernels_of_graphs_keep_their_priorities(void **state) {
    (void)state;
    static const struct {
        int version;
        unsigned long long flags;
    } rows[] = {{13000, 8}, {11070, 8}, {11060, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        control()->set_version(rows[i].version);
        struct aorta_device *device = open_gpu();
        struct aorta_stream *stream = open_stream(device, "s");
        struct aorta_graph *graph;
        int64_t sum = 0;
        check_ok(aorta_capture_begin(stream));
        check_ok(queue_add(stream, &sum, 1));
        check_ok(aorta_capture_end(stream, &graph));
        assert_int_equal(control()->graph_flags(), rows[i].flags);
        aorta_graph_destroy(graph);
        aorta_stream_destroy(stream);
        aorta_device_close(device);
    }
    control()->set_version(13000);
}

static void test_timestamps_in_a_row_share_a_kernel(void **state) {
    (void)state;
    struct aorta_device *device = open_gpu();
    struct aorta_stream *stream = open_stream(device, "stamps");
    struct aorta_graph *graph;
    void *memory;
    check_ok(aorta_pinned_alloc(device, 8 * sizeof(int64_t), "stamps", &memory));
    int64_t *stamps = memory;
    memset(stamps, 0, 8 * sizeof *stamps);
    control()->strike("cuLaunchKernel", 0, 0, 0);
    check_ok(queue_stamps(stream, stamps, &stamps[7]));
    assert_int_equal(control()->calls(), 8);
    check_ok(aorta_stream_synchronize(stream));
    check_stamps(stamps);
    check_ok(aorta_capture_begin(stream));
    control()->strike("cuLaunchKernel", 0, 0, 0);
    check_ok(queue_stamps(stream, stamps, &stamps[7]));
    check_ok(aorta_capture_end(stream, &graph));
    assert_int_equal(control()->calls(), 4); /* 2 together, the add, 4 together and 1 */
    check_ok(aorta_graph_launch(graph, stream));
    check_ok(aorta_stream_synchronize(stream));
    assert_int_equal(stamps[0], stamps[1]);
    check_stamps(stamps);
    aorta_graph_destroy(graph);
    aorta_stream_destroy(stream);
    aorta_pinned_free(device, memory);
    aorta_device_close(device);
}

/* Launches of a capture: each round is a range's two stamps around an addition, with an event between rounds and, if
 * asked for, a wait for another stream. */
static int count_launches(struct aorta_stream *stream, struct aorta_stream *other, int64_t *stamps, bool aside) {
    struct aorta_event *event, *joined;
    struct aorta_graph *graph;
    check_ok(aorta_event_create_untimed(aorta_stream_device(stream), &event));
    check_ok(aorta_event_create_untimed(aorta_stream_device(stream), &joined));
    for (int i = 0; i < 6; i++) stamps[i] = 0;
    check_ok(aorta_capture_begin(stream));
    control()->strike("cuLaunchKernel", 0, 0, 0);
    for (int round = 0; round < 3; round++) {
        check_ok(aorta_timestamp(stream, &stamps[2 * round]));
        check_ok(queue_add(stream, &stamps[7], 1));
        check_ok(aside ? aorta_timestamp_aside(stream, &stamps[2 * round + 1])
                       : aorta_timestamp(stream, &stamps[2 * round + 1]));
        check_ok(
            aorta_event_record(event, stream)); /* shares the stamps of two rounds if they need no kernel between */
        if (round == 1) check_ok(aorta_stream_wait(other, event));
        if (round == 1) check_ok(queue_add(other, &stamps[6], 1));
        if (round == 1) check_ok(aorta_event_record(joined, other));
        if (round == 1) check_ok(aorta_stream_wait(stream, joined));
    }
    check_ok(aorta_capture_end(stream, &graph));
    int launches = control()->calls();
    check_ok(aorta_graph_launch(graph, stream));
    check_ok(aorta_stream_synchronize(stream));
    for (int i = 0; i < 6; i++) assert_true(stamps[i] != 0);
    for (int round = 0; round < 3; round++) assert_true(stamps[2 * round] <= stamps[2 * round + 1]);
    aorta_graph_destroy(graph);
    aorta_event_destroy(event);
    aorta_event_destroy(joined);
    return launches;
}

/* An end that nothing waits for shares the kernel of the next beginning across an event; before a wait, and at the end
 * of the capture, it has one beside. The graph waits for all of them. */
static void test_timestamps_aside(void **state) {
    (void)state;
    struct aorta_device *device = open_gpu();
    struct aorta_stream *stream = open_stream(device, "a"), *other = open_stream(device, "b");
    void *memory;
    check_ok(aorta_pinned_alloc(device, 8 * sizeof(int64_t), "stamps", &memory));
    int64_t *stamps = memory;
    stamps[6] = stamps[7] = 0;
    assert_int_equal(count_launches(stream, other, stamps, false), 4 + 6);
    assert_int_equal(count_launches(stream, other, stamps, true), 4 + 5);
    assert_int_equal(stamps[1], stamps[2]); /* one kernel wrote both */
    assert_int_equal(stamps[7], 6);
    /* Outside captures it is a plain stamp. */
    stamps[0] = 0;
    check_ok(aorta_timestamp_aside(stream, &stamps[0]));
    check_ok(aorta_stream_synchronize(stream));
    assert_true(stamps[0] != 0);
    /* A stream that was joined before its stamp is written: the stamp is joined all the same. */
    struct aorta_event *event;
    struct aorta_graph *graph;
    check_ok(aorta_event_create_untimed(device, &event));
    check_ok(aorta_capture_begin(stream));
    check_ok(aorta_event_record(event, stream));
    check_ok(aorta_stream_wait(other, event));
    check_ok(queue_add(other, &stamps[6], 1));
    check_ok(aorta_timestamp_aside(other, &stamps[0]));
    check_ok(aorta_event_record(event, other));
    check_ok(aorta_stream_wait(stream, event));
    check_ok(aorta_capture_end(stream, &graph));
    stamps[0] = 0;
    check_ok(aorta_graph_launch(graph, stream));
    check_ok(aorta_stream_synchronize(stream));
    assert_true(stamps[0] != 0);
    aorta_graph_destroy(graph);
    aorta_event_destroy(event);
    aorta_stream_destroy(stream);
    aorta_stream_destroy(other);
    aorta_pinned_free(device, memory);
    aorta_device_close(device);
}

/* ---- footprints ---- */

static const struct fake_shape shapes[] = {
    {.threads = 64, .registers = 255},
    {.threads = 640, .registers = 93, .static_bytes = 1000, .dynamic_bytes = 80000, .cluster = 4},
    {.threads = 512, .registers = 32},
};

static void do_nothing(void *user) {
    (void)user;
}

/* Captures kernels of these shapes and asks what they need. */
static struct aorta_footprint ask(struct aorta_stream *stream, const struct fake_shape *some, size_t count) {
    struct aorta_footprint footprint;
    check_ok(aorta_capture_begin(stream));
    for (size_t i = 0; i < count; i++)
        assert_int_equal(control()->launch_as_kernel(aorta_gpu_stream_handle(stream), &some[i], do_nothing, NULL), 0);
    check_ok(aorta_host_call(stream, note_call, NULL)); /* a node that is no kernel */
    check_ok(aorta_capture_footprint(stream, &footprint));
    assert_false(aorta_stream_capturing(stream));
    return footprint;
}

/* What the largest kernel needs is told, and a stamp takes as much. */
static void test_a_stamp_takes_the_room_of_a_kernel(void **state) {
    (void)state;
    struct aorta_device *device = open_gpu();
    struct aorta_stream *stream = open_stream(device, "s");
    struct aorta_graph *graph;
    void *memory;
    check_ok(aorta_pinned_alloc(device, 2 * sizeof(int64_t), "stamps", &memory));
    int64_t *stamps = memory;
    assert_true(aorta_device_tells_footprints(device));
    struct aorta_footprint footprint = ask(stream, shapes, 3);
    assert_int_equal(footprint.threads, 640);
    assert_int_equal(footprint.registers, 93);
    assert_int_equal(footprint.shared_bytes, 81000);
    assert_int_equal(footprint.cluster, 4);
    stamps[0] = stamps[1] = 0;
    int64_t before = aorta_device_now_ns(device);
    check_ok(aorta_timestamp_room(stream, &footprint, &stamps[0]));
    check_ok(aorta_stream_synchronize(stream));
    assert_true(stamps[0] > before - 1000000 && stamps[0] < aorta_device_now_ns(device) + 1000000);
    /* In a graph it is a kernel like any other: the footprint of the graph is that of the stamp. */
    struct aorta_footprint again;
    check_ok(aorta_capture_begin(stream));
    check_ok(aorta_timestamp_room(stream, &footprint, &stamps[1]));
    check_ok(aorta_capture_footprint(stream, &again));
    assert_int_equal(again.threads, 640);
    assert_int_equal(again.registers, 96);
    assert_int_equal(again.shared_bytes, 81000);
    check_ok(aorta_capture_begin(stream));
    check_ok(aorta_timestamp_room(stream, &footprint, &stamps[1]));
    check_ok(aorta_capture_end(stream, &graph));
    check_ok(aorta_graph_launch(graph, stream));
    check_ok(aorta_stream_synchronize(stream));
    assert_true(stamps[1] >= stamps[0]);
    aorta_graph_destroy(graph);
    aorta_stream_destroy(stream);
    aorta_pinned_free(device, memory);
    aorta_device_close(device);
}

static void test_what_no_stamp_can_take_is_not_known(void **state) {
    (void)state;
    static const struct fake_shape too_much = {.threads = 64, .registers = 32, .dynamic_bytes = 300000};
    static const struct fake_shape far_too_many = {.threads = 64, .registers = 32, .cluster = 16};
    static const char *const symbols[] = {"cuGraphGetNodes", "cuGraphNodeGetType", "cuGraphKernelNodeGetParams_v2",
                                          "cuFuncGetAttribute", "cuOccupancyMaxActiveBlocksPerMultiprocessor"};
    struct aorta_device *device = open_gpu();
    struct aorta_stream *stream = open_stream(device, "s");
    int64_t stamp = 0;
    assert_int_equal(ask(stream, NULL, 0).threads, 0);
    assert_int_equal(ask(stream, &too_much, 1).threads, 0);
    assert_int_equal(ask(stream, &far_too_many, 1).threads, 0);
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        control()->strike(symbols[i], 1, 1, 1);
        assert_int_equal(ask(stream, shapes, 3).threads, 0);
    }
    control()->strike(NULL, 0, 0, 0);
    assert_int_equal(ask(stream, shapes, 3).threads, 640);
    /* A plain stamp then, and where a launch is refused the stream says so. */
    check_ok(aorta_timestamp_room(stream, &(struct aorta_footprint){0}, &stamp));
    check_ok(aorta_stream_synchronize(stream));
    assert_true(stamp != 0);
    control()->strike("cuLaunchKernelEx", 1, 701, 0);
    check_ok(aorta_timestamp_room(stream, &(struct aorta_footprint){640, 96, 1024, 4, 4}, &stamp));
    check_fails(aorta_stream_synchronize(stream), AORTA_DEVICE, "kernel aorta_stamp_room_96 (640 threads, 1024 bytes");
    aorta_stream_destroy(stream);
    aorta_device_close(device);
}

/* A block that would be too large takes what a block can have. */
static void test_registers_are_chosen(void **state) {
    (void)state;
    static const struct {
        uint32_t threads, registers, taken;
    } rows[] = {{1024, 64, 64}, {1024, 60, 64}, {640, 97, 96}, {32, 255, 255}, {512, 10, 32}, {256, 129, 168}};
    struct aorta_device *device = open_gpu();
    struct aorta_stream *stream = open_stream(device, "s");
    int64_t stamp;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct aorta_footprint wanted = {.threads = rows[i].threads, .registers = rows[i].registers}, taken;
        check_ok(aorta_capture_begin(stream));
        check_ok(aorta_timestamp_room(stream, &wanted, &stamp));
        check_ok(aorta_capture_footprint(stream, &taken));
        assert_int_equal(taken.threads, rows[i].threads);
        assert_int_equal(taken.registers, rows[i].taken);
    }
    aorta_stream_destroy(stream);
    aorta_device_close(device);
}

/* ---- kernels that others launch ---- */

static void sleep_a_while(void *user) {
    (void)user;
    nanosleep(&(struct timespec){0, 4000000}, NULL);
}

static aorta_status launch_library(struct aorta_stream *stream) {
    assert_int_equal(control()->launch_as_kernel(aorta_gpu_stream_handle(stream), &shapes[1], sleep_a_while, NULL), 0);
    return NULL;
}

/* Both ends of a library's kernel, whatever follows it on its stream. */
static void test_a_kernel_of_a_library_is_witnessed(void **state) {
    (void)state;
    struct aorta_device *device = open_gpu();
    struct aorta_stream *a = open_stream(device, "a");
    struct aorta_graph *graph;
    void *memory;
    check_ok(aorta_pinned_alloc(device, 3 * sizeof(int64_t), "stamps", &memory));
    int64_t *stamps = memory, *sum = stamps + 2;
    *sum = 0;
    assert_true(aorta_device_witnesses(device));
    check_ok(aorta_capture_begin(a));
    check_ok(launch_library(a));
    check_ok(aorta_witness(a, &stamps[0], &stamps[1]));
    check_ok(queue_add(a, sum, 1));
    check_ok(aorta_capture_end(a, &graph));
    for (int run = 0; run < 2; run++) {
        stamps[0] = stamps[1] = 0;
        check_ok(aorta_graph_launch(graph, a));
        check_ok(aorta_stream_synchronize(a));
        assert_true(stamps[0] > 0);
        assert_true(stamps[1] - stamps[0] >= 4000000);
        assert_int_equal(*sum, run + 1);
    }
    aorta_graph_destroy(graph);
    aorta_stream_destroy(a);
    aorta_pinned_free(device, memory);
    aorta_device_close(device);
}

static void test_only_kernels_of_captures_are_witnessed(void **state) {
    (void)state;
    struct aorta_device *device = open_gpu();
    struct aorta_stream *a = open_stream(device, "a");
    struct aorta_graph *graph;
    int64_t begin, end, sum = 0;
    check_fails(aorta_witness(a, &begin, &end), AORTA_INTERNAL, "stream a is not captured");
    check_ok(aorta_capture_begin(a));
    check_ok(aorta_host_call(a, note_call, NULL));
    check_fails(aorta_witness(a, &begin, &end), AORTA_DEVICE, "stream a: what was queued last is no kernel");
    check_fails(aorta_capture_end(a, &graph), AORTA_DEVICE, "broken");
    check_ok(aorta_capture_begin(a));
    check_fails(aorta_witness(a, &begin, &end), AORTA_DEVICE, "behind 0 kernels");
    check_fails(aorta_capture_end(a, &graph), AORTA_DEVICE, "broken");
    control()->strike("cuStreamUpdateCaptureDependencies_v2", 1, 1, 0);
    check_ok(aorta_capture_begin(a));
    check_ok(queue_add(a, &sum, 1));
    check_fails(aorta_witness(a, &begin, &end), AORTA_DEVICE, "behind a kernel's beginning");
    check_fails(aorta_capture_end(a, &graph), AORTA_DEVICE, "broken");
    control()->strike(NULL, 0, 0, 0);
    aorta_stream_destroy(a);
    aorta_device_close(device);
    struct aorta_device *cpu;
    check_ok(aorta_device_open(AORTA_DEVICE_CPU, 0, &cpu));
    a = open_stream(cpu, "a");
    assert_false(aorta_device_witnesses(cpu));
    check_fails(aorta_witness(a, &begin, &end), AORTA_INTERNAL, "cannot tell when a kernel begins");
    aorta_stream_destroy(a);
    aorta_device_close(cpu);
}

static void test_untimed_events_have_no_time(void **state) {
    (void)state;
    struct aorta_device *device = open_gpu();
    struct aorta_stream *stream = open_stream(device, "s");
    struct aorta_event *event;
    int64_t time;
    check_ok(aorta_event_create_untimed(device, &event));
    control()->strike("cuLaunchKernel", 0, 0, 0);
    check_ok(aorta_event_record(event, stream));
    assert_int_equal(control()->calls(), 0); /* waiting may launch the clock's own */
    check_ok(aorta_event_synchronize(event));
    check_fails(aorta_event_time(event, &time), AORTA_DEVICE, "order streams only");
    aorta_event_destroy(event);
    aorta_stream_destroy(stream);
    aorta_device_close(device);
}

/* The fake's timer runs 40 in a million too fast: after a while device time is the host's all the same. */
/* Stamps for a second; then what the device's clock is off by at least, the best of many looks. */
static int64_t run_the_clock(struct aorta_device *device, struct aorta_stream *stream, int64_t *stamp) {
    int64_t best = INT64_MAX;
    for (int i = 0; i < 200; i++) {
        check_ok(aorta_timestamp(stream, stamp));
        check_ok(aorta_stream_synchronize(stream));
        usleep(5000);
    }
    for (int i = 0; i < 200; i++) {
        int64_t before = aorta_device_now_ns(device);
        check_ok(aorta_timestamp(stream, stamp));
        check_ok(aorta_stream_synchronize(stream));
        int64_t after = aorta_device_now_ns(device),
                off = before - *stamp > *stamp - after ? before - *stamp : *stamp - after;
        if (off < best) best = off;
    }
    return best;
}

/* Without care it would be off by 40 us after the first round and by more after each. On a busy machine no measurement
 * of a round may be good; a later one is. */
static void test_the_clocks_stay_together(void **state) {
    (void)state;
    struct aorta_device *device = open_gpu();
    struct aorta_stream *stream = open_stream(device, "clock");
    void *stamp;
    int64_t off = INT64_MAX;
    check_ok(aorta_pinned_alloc(device, sizeof(int64_t), "stamp", &stamp));
    for (int round = 0; round < 20 && off >= 15000; round++) off = run_the_clock(device, stream, stamp);
    assert_true(off < 15000);
    aorta_stream_destroy(stream);
    aorta_pinned_free(device, stamp);
    aorta_device_close(device);
}

/* ---- the cache ---- */

static struct aorta_gpu_compiler prepare_in(struct aorta_device *device) {
    check_ok(aorta_gpu_prepare(device, &add_entry));
    check_ok(aorta_gpu_prepare(device, &add_entry));
    check_ok(aorta_gpu_prepare(device, &fault_entry)); /* of the same source */
    return aorta_gpu_compiler_info(device);
}

static struct aorta_gpu_compiler prepare_and_close(void) {
    struct aorta_device *device = open_gpu();
    struct aorta_gpu_compiler info = prepare_in(device);
    aorta_device_close(device);
    return info;
}

static void test_compiled_kernels_are_kept(void **state) {
    (void)state;
    empty_cache();
    struct aorta_gpu_compiler info = prepare_and_close();
    assert_int_equal(info.compiled, 2); /* the driver's own source and this one */
    assert_int_equal(info.from_disk, 0);
    assert_string_equal(info.cache, folder);
    assert_string_equal(info.note, "");
    assert_string_equal(info.version, "NVRTC 13.0");
    info = prepare_and_close();
    assert_int_equal(info.compiled, 0);
    assert_int_equal(info.from_disk, 2);
}

/* Every file is cut, or has a bit turned, or belongs to something else: all are compiled anew. */
static void spoil_files(int how) {
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory));) {
        char path[1024];
        struct stat status = {0};
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] == '.') continue;
        int file = open(path, O_RDWR);
        assert_true(file >= 0 && fstat(file, &status) == 0);
        char byte = 'x';
        off_t at = how == 1 ? status.st_size - 2 : 40; /* in the code, or in what it was made from */
        if (how == 0) assert_int_equal(ftruncate(file, status.st_size - 1), 0);
        if (how == 1 || how == 2) assert_int_equal(pwrite(file, &byte, 1, at), 1);
        if (how == 3) assert_int_equal(ftruncate(file, 3), 0);
        close(file);
    }
    closedir(directory);
}

static void test_spoilt_files_are_compiled_anew(void **state) {
    (void)state;
    for (int how = 0; how < 4; how++) {
        prepare_and_close();
        spoil_files(how);
        struct aorta_gpu_compiler info = prepare_and_close();
        assert_int_equal(info.compiled, 2);
        assert_int_equal(info.from_disk, 0);
    }
}

static void test_without_a_cache_it_works_and_says_so(void **state) {
    (void)state;
    setenv("AORTA_CACHE_DIR", "/proc/no/such/place", 1);
    struct aorta_gpu_compiler info = prepare_and_close();
    assert_int_equal(info.compiled, 2);
    assert_string_equal(info.cache, "");
    assert_non_null(strstr(info.note, "/proc/no"));
    assert_non_null(strstr(info.note, "AORTA_CACHE_DIR"));
}

/* The folder goes while the program runs. */
static void test_a_cache_that_fails_later_is_noted(void **state) {
    (void)state;
    char path[600];
    snprintf(path, sizeof path, "%s-gone", folder);
    setenv("AORTA_CACHE_DIR", path, 1);
    struct aorta_device *device = open_gpu();
    char command[700];
    snprintf(command, sizeof command, "rm -r %s", path);
    assert_int_equal(system(command), 0);
    struct aorta_gpu_compiler info = prepare_in(device);
    assert_int_equal(info.compiled, 2);
    assert_non_null(strstr(info.note, "not kept"));
    aorta_device_close(device);
}

static void test_the_cache_follows_the_usual_folders(void **state) {
    (void)state;
    char note[256] = "";
    unsetenv("AORTA_CACHE_DIR");
    setenv("XDG_CACHE_HOME", folder, 1);
    char *found = aorta_gpu_cache_folder(note, sizeof note);
    assert_non_null(found);
    assert_int_equal(strncmp(found, folder, strlen(folder)), 0);
    assert_string_equal(found + strlen(folder), "/aorta");
    rmdir(found);
    free(found);
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", folder, 1);
    found = aorta_gpu_cache_folder(note, sizeof note);
    assert_non_null(strstr(found, "/.cache/aorta"));
    rmdir(found);
    free(found);
}

/* What each rank does, in a process of its own. */
static int fill_cache(void) {
    struct aorta_device *device;
    if (aorta_device_open(AORTA_DEVICE_CUDA, 0, &device)) return 1;
    if (aorta_gpu_prepare(device, &add_entry)) return 2;
    aorta_device_close(device);
    return 0;
}

static void test_many_ranks_fill_the_cache_at_once(void **state) {
    (void)state;
    empty_cache();
    enum { RANKS = 6 };
    pid_t children[RANKS];
    for (int i = 0; i < RANKS; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            execl("/proc/self/exe", "test_gpu", "fill", (char *)NULL);
            _exit(3);
        }
    }
    for (int i = 0; i < RANKS; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    struct aorta_gpu_compiler info = prepare_and_close();
    assert_int_equal(info.from_disk, 2);
}

/* ---- metrics and inventory ---- */

static void test_metrics_say_what_is_missing(void **state) {
    (void)state;
    struct aorta_device *device = open_gpu();
    for (int i = 0; i < 2; i++) {
        struct aorta_device_metrics metrics = aorta_device_measure(device);
        assert_true(metrics.temperature_c == 41 && metrics.power_w == 123.5 && metrics.sm_clock_mhz == 1980);
        assert_true(metrics.memory_clock_mhz == 2619 && metrics.memory_used_bytes == 12345678);
        assert_true(isnan(metrics.utilization));
        assert_non_null(strstr(metrics.reason, "utilization"));
    }
    aorta_device_close(device);
    check_ok(aorta_device_open(AORTA_DEVICE_CPU, 0, &device));
    struct aorta_device_metrics none = aorta_device_measure(device);
    assert_true(isnan(none.temperature_c));
    assert_non_null(strstr(none.reason, "cpu"));
    aorta_device_close(device);
}

static void test_the_inventory_lists_devices_and_links(void **state) {
    (void)state;
    struct aorta_gpu_inventory inventory;
    control()->set_devices(2);
    check_ok(aorta_gpu_inventory_take(AORTA_DEVICE_CUDA, &inventory));
    assert_int_equal(inventory.count, 2);
    assert_string_equal(inventory.devices[1].info.name, "Fake GPU 1");
    assert_string_equal(inventory.driver_version, "13.0");
    assert_string_equal(inventory.compiler_version, "NVRTC 13.0");
    assert_string_equal(inventory.management_version, "driver 580.00.fake");
    assert_string_equal(inventory.links[0].name, "X");
    assert_string_equal(inventory.links[1].name, "NV4");
    assert_true(inventory.links[1].peer);
    aorta_gpu_inventory_free(&inventory);
    control()->set_devices(3); /* one that NVML does not know */
    check_ok(aorta_gpu_inventory_take(AORTA_DEVICE_CUDA, &inventory));
    assert_string_equal(inventory.links[1].name, "?");
    assert_non_null(strstr(inventory.management_problem, "0000:03:00.0"));
    aorta_gpu_inventory_free(&inventory);
}

static void test_devices_reach_each_other(void **state) {
    (void)state;
    control()->set_devices(2);
    struct aorta_device *first = open_gpu(), *second;
    bool direct = false;
    check_ok(aorta_device_open(AORTA_DEVICE_CUDA, 1, &second));
    check_ok(aorta_gpu_enable_peer(first, second, &direct));
    assert_true(direct);
    control()->strike("cuCtxEnablePeerAccess", 1, 704, 0); /* already so */
    check_ok(aorta_gpu_enable_peer(first, second, &direct));
    assert_true(direct);
    control()->strike("cuCtxEnablePeerAccess", 1, 2, 0);
    check_fails(aorta_gpu_enable_peer(second, first, &direct), AORTA_MEMORY, "device 1 to the memory of device 0");
    aorta_device_close(second);
    aorta_device_close(first);
}

/* A stream whose work never ends is not waited for once somebody gave the device up. */
static void test_a_device_given_up_is_not_waited_for(void **state) {
    (void)state;
    struct aorta_device *device = open_gpu();
    struct aorta_stream *stream = open_stream(device, "hung");
    void *memory;
    check_ok(aorta_device_alloc(device, 1024, "memory", &memory));
    check_ok(aorta_host_call(stream, note_call, NULL));
    check_ok(aorta_stream_synchronize(stream));
    aorta_device_fail(device, AORTA_ERROR(AORTA_COMM, "rank 1 is dead"));
    check_fails(aorta_stream_synchronize(stream), AORTA_COMM, "rank 1 is dead");
    control()->strike("*", 0, 0, 0);
    aorta_device_free(device, memory);
    control()->strike("cuStreamSynchronize", 0, 0, 0);
    aorta_stream_destroy(stream);
    assert_int_equal(control()->calls(), 0);
    control()->strike("cuMemFree_v2", 0, 0, 0);
    aorta_device_close(device);
    assert_int_equal(control()->calls(), 0);
}

/* ---- attachments ---- */

static int ended;
static aorta_status make_number(struct aorta_device *device, void **state) {
    (void)device;
    *state = calloc(1, 8);
    return NULL;
}

static void end_number(void *state) {
    free(state);
    ended++;
}

static aorta_status fail_to_make(struct aorta_device *device, void **state) {
    (void)device, (void)state;
    return AORTA_ERROR(AORTA_UNSUPPORTED, "not today");
}

static void test_attachments_live_as_long_as_the_device(void **state) {
    (void)state;
    static const char first_key, second_key;
    struct aorta_device *device = open_gpu();
    void *first, *again, *second;
    ended = 0;
    check_ok(aorta_device_attachment(device, &first_key, make_number, end_number, &first));
    check_ok(aorta_device_attachment(device, &first_key, fail_to_make, end_number, &again));
    assert_ptr_equal(first, again);
    check_fails(aorta_device_attachment(device, &second_key, fail_to_make, end_number, &second), AORTA_UNSUPPORTED,
                "not today");
    check_ok(aorta_device_attachment(device, &second_key, make_number, end_number, &second));
    assert_ptr_not_equal(first, second);
    assert_int_equal(ended, 0);
    aorta_device_close(device);
    assert_int_equal(ended, 2);
}

/* The fake has four multiprocessors and cuts them into pairs. */
static void test_a_limited_stream_has_a_partition(void **state) {
    (void)state;
    struct aorta_device *device = open_gpu();
    struct aorta_stream *whole = open_stream(device, "whole"), *half = open_stream(device, "half");
    check_ok(aorta_stream_limit(whole, 1, 0));
    assert_int_equal(control()->green_contexts(), 0);
    check_ok(aorta_stream_limit(half, 0.8, 3)); /* three, rounded down */
    assert_int_equal(control()->green_contexts(), 1);
    control()->strike("cuDevSmResourceSplitByCount", 0, 0, 0);
    struct aorta_stream *small = open_stream(device, "small");
    check_fails(aorta_stream_limit(small, 0.49, 0), AORTA_UNSUPPORTED,
                "stream small: a share of 0.49 of the device's 4 multiprocessors is less than it can set apart: 2, a "
                "share of 0.5");
    assert_int_equal(control()->calls(), 0);
    int64_t *sum = NULL;
    void *memory;
    check_ok(aorta_pinned_alloc(device, sizeof *sum, "sum", &memory));
    sum = memory;
    *sum = 0;
    check_ok(queue_add(half, sum, 5));
    check_ok(aorta_stream_synchronize(half));
    check_ok(queue_add(small, sum, 2)); /* works on as if it had not been asked */
    check_ok(aorta_stream_synchronize(small));
    assert_int_equal(*sum, 7);
    aorta_pinned_free(device, sum);
    aorta_stream_destroy(whole);
    aorta_stream_destroy(half);
    aorta_stream_destroy(small);
    aorta_device_close(device);
    assert_int_equal(control()->green_contexts(), 0);
}

static int make_folder(void **state) {
    (void)state;
    char pattern[] = "/tmp/aorta-cache-XXXXXX";
    if (!mkdtemp(pattern)) return -1;
    snprintf(folder, sizeof folder, "%s", pattern);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    char command[600];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

#define TEST(name) cmocka_unit_test_setup(name, begin)

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "fill") == 0) return fill_cache();
    const struct CMUnitTest tests[] = {
        TEST(test_the_device_describes_itself),
        TEST(test_what_is_missing_is_told),
        TEST(test_a_library_names_all_that_was_tried),
        TEST(test_a_spoilt_library_is_told),
        TEST(test_no_device_and_too_old),
        TEST(test_ranks_share_devices),
        TEST(test_every_call_may_fail),
        TEST(test_the_device_may_be_lost_at_any_call),
        TEST(test_a_lost_device_fails_the_stream_for_good),
        TEST(test_a_refused_launch_is_told_at_the_next_wait),
        TEST(test_wrong_arguments_and_entries_are_told),
        TEST(test_a_failed_stream_is_known_and_can_be_failed),
        TEST(test_a_late_failure_goes_where_events_lead),
        TEST(test_ended_calls_are_not_asked_again),
        TEST(test_a_graphs_late_failure_goes_where_events_lead),
        TEST(test_notes_of_kernels_reach_whoever_waits),
        TEST(test_notes_of_graphs_are_their_launchers),
        TEST(test_kernels_of_graphs_keep_their_priorities),
        TEST(test_timestamps_in_a_row_share_a_kernel),
        TEST(test_timestamps_aside),
        TEST(test_a_stamp_takes_the_room_of_a_kernel),
        TEST(test_what_no_stamp_can_take_is_not_known),
        TEST(test_registers_are_chosen),
        TEST(test_a_kernel_of_a_library_is_witnessed),
        TEST(test_only_kernels_of_captures_are_witnessed),
        TEST(test_untimed_events_have_no_time),
        TEST(test_the_clocks_stay_together),
        TEST(test_compiled_kernels_are_kept),
        TEST(test_spoilt_files_are_compiled_anew),
        TEST(test_without_a_cache_it_works_and_says_so),
        TEST(test_a_cache_that_fails_later_is_noted),
        TEST(test_the_cache_follows_the_usual_folders),
        TEST(test_many_ranks_fill_the_cache_at_once),
        TEST(test_metrics_say_what_is_missing),
        TEST(test_the_inventory_lists_devices_and_links),
        TEST(test_devices_reach_each_other),
        TEST(test_attachments_live_as_long_as_the_device),
        TEST(test_a_limited_stream_has_a_partition),
        TEST(test_a_device_given_up_is_not_waited_for), /* leaves the fake with memory in use: the last one */
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
