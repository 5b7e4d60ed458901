/* Memory runs out at each allocation in turn: each time an error is returned, nothing hangs, nothing leaks (the address
 * sanitizer counts) and everything can be destroyed. The linker redirects the allocation functions to this file. */
#include "check.h"
#include "device/device.h"

#include <stdlib.h>

/* Which allocation of this thread fails, counted down; 0: none. */
static _Thread_local long fail_at;

static bool fails_now(void) {
    return fail_at > 0 && --fail_at == 0;
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);

void *__wrap_malloc(size_t bytes) {
    return fails_now() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes) {
    return fails_now() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *memory, size_t bytes) {
    return fails_now() ? NULL : __real_realloc(memory, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
    return fails_now() ? NULL : __real_aligned_alloc(alignment, bytes);
}

/* Everything the scenario makes, so that it can be taken down from any point. */
struct scene {
    struct aorta_device *device;
    struct aorta_stream *streams[2];
    struct aorta_event *events[2];
    struct aorta_graph *graph;
    void *memory, *pinned;
    int runs;
};

static aorta_status run_large(const void *args) {
    (void)args;
    return NULL;
}

static void count_run(void *user) {
    ++*(int *)user;
}

static aorta_status fork_and_join(struct scene *s) {
    AORTA_TRY(aorta_event_record(s->events[0], s->streams[0]));
    AORTA_TRY(aorta_stream_wait(s->streams[1], s->events[0]));
    AORTA_TRY(aorta_host_call(s->streams[1], count_run, &s->runs));
    AORTA_TRY(aorta_event_record(s->events[1], s->streams[1]));
    AORTA_TRY(aorta_stream_wait(s->streams[0], s->events[1]));
    return aorta_host_call(s->streams[0], count_run, &s->runs);
}

static aorta_status play(struct scene *s) {
    static const struct aorta_kernel kernel = {.name = "large", .cpu = run_large};
    static const unsigned char large[100000];
    AORTA_TRY(aorta_device_open(AORTA_DEVICE_CPU, 0, &s->device));
    for (int i = 0; i < 2; i++) {
        AORTA_TRY(aorta_stream_create(s->device, "exhausted", AORTA_PRIORITY_NORMAL, &s->streams[i]));
        AORTA_TRY(aorta_event_create(s->device, &s->events[i]));
    }
    AORTA_TRY(aorta_device_alloc(s->device, 1000, "device memory", &s->memory));
    AORTA_TRY(aorta_pinned_alloc(s->device, 1000, "pinned memory", &s->pinned));
    AORTA_TRY(aorta_launch(s->streams[0], &kernel, large, sizeof large));
    AORTA_TRY(fork_and_join(s));
    AORTA_TRY(aorta_capture_begin(s->streams[0]));
    aorta_status status = fork_and_join(s);
    AORTA_TRY(aorta_status_join(status, aorta_capture_end(s->streams[0], &s->graph)));
    AORTA_TRY(aorta_graph_launch(s->graph, s->streams[0]));
    AORTA_TRY(aorta_stream_synchronize(s->streams[0]));
    return aorta_stream_synchronize(s->streams[1]);
}

static void take_down(struct scene *s) {
    aorta_graph_destroy(s->graph);
    for (int i = 0; i < 2; i++) {
        aorta_event_destroy(s->events[i]);
        aorta_stream_destroy(s->streams[i]);
    }
    if (s->device) {
        aorta_device_free(s->device, s->memory);
        aorta_pinned_free(s->device, s->pinned);
        if (s->memory) assert_int_equal(aorta_device_memory(s->device).allocated, 0);
    }
    aorta_device_close(s->device);
}

static void test_every_allocation_may_fail(void **state) {
    (void)state;
    long failed = 0;
    for (long at = 1;; at++) {
        struct scene scene = {0};
        fail_at = at;
        aorta_status status = play(&scene);
        bool reached_the_end = fail_at > 0;
        fail_at = 0;
        if (!reached_the_end) {
            failed++;
            /* A few places can do without: a failed one is then no error, and the result is whole. */
            if (status) assert_int_equal(aorta_status_code(status), AORTA_MEMORY);
        }
        if (!status) assert_int_equal(scene.runs, 4);
        aorta_status_free(status);
        take_down(&scene);
        if (reached_the_end) break;
    }
    print_message("%ld allocations failed in turn\n", failed);
    assert_true(failed > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_allocation_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
