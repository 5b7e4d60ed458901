/* Lines of metrics, those of traced steps on a tracer whose library delivers late. */
#include "base/files.h"
#include "check.h"
#include "measure/metrics.h"
#include "measure/tracer.h"
#include "samples/profile.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { QUEUE = 4096 };

/* A library that hands out what `released` allows, in order. */
struct slow_library {
    struct aorta_activity_record records[QUEUE];
    int queued, given, released, fetches;
    bool fails;
};
static struct slow_library library;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* lines are made on another thread */

static aorta_status slow_open(const struct aorta_tracer_call *call, void **state, struct aorta_tracer_facts *facts) {
    (void)call;
    memset(&library, 0, sizeof library);
    *state = &library;
    facts->library = "slow";
    facts->path = "";
    return NULL;
}

static void slow_close(void *state) {
    (void)state;
}

static aorta_status slow_switch(void *state) {
    (void)state;
    return NULL;
}

static aorta_status slow_fetch(void *state, bool all, struct aorta_tracer *tracer) {
    struct slow_library *slow = state;
    aorta_status status = NULL;
    pthread_mutex_lock(&lock);
    slow->fetches++;
    if (slow->fails) status = AORTA_ERROR(AORTA_DEVICE, "the library fell over");
    while (!status && slow->given < (all ? slow->queued : slow->released))
        status = aorta_tracer_receive(tracer, &slow->records[slow->given++]);
    pthread_mutex_unlock(&lock);
    return status;
}

static int64_t slow_dropped(void *state) {
    (void)state;
    return 0;
}

static const struct aorta_tracer_backend backend = {.open = slow_open,
                                                    .close = slow_close,
                                                    .start = slow_switch,
                                                    .stop = slow_switch,
                                                    .fetch = slow_fetch,
                                                    .dropped = slow_dropped};

/* ---- a run ---- */

struct run {
    char directory[32], path[64];
    struct aorta_tracer *tracer;
    struct aorta_metrics_writer *writer;
    struct aorta_metrics_lines *lines;
};

static void run_begin(struct run *run) {
    strcpy(run->directory, "/tmp/aorta_lines_XXXXXX");
    assert_non_null(mkdtemp(run->directory));
    snprintf(run->path, sizeof run->path, "%s/rank_00_metrics.jsonl", run->directory);
    check_ok(aorta_tracer_open_backend(&backend, NULL, &run->tracer));
    check_ok(aorta_metrics_open(run->directory, 0, &run->writer));
    check_ok(aorta_metrics_lines_open(run->tracer, run->writer, NULL, &run->lines));
}

static void run_end(struct run *run) {
    aorta_metrics_lines_close(run->lines);
    check_ok(aorta_metrics_close(run->writer));
    aorta_tracer_close(run->tracer);
    assert_int_equal(unlink(run->path), 0);
    assert_int_equal(rmdir(run->directory), 0);
}

static int lines_written(const struct run *run) {
    char *text;
    size_t length;
    int count = 0;
    check_ok(aorta_file_read(run->path, &text, &length));
    for (size_t i = 0; i < length; i++) count += text[i] == '\n';
    free(text);
    return count;
}

static void wait_for_lines(const struct run *run, int count) {
    for (int i = 0; i < 5000 && lines_written(run) < count; i++) usleep(1000);
    assert_int_equal(lines_written(run), count);
}

static void release(int records) {
    pthread_mutex_lock(&lock);
    library.released = records;
    pthread_mutex_unlock(&lock);
}

static int fetches(void) {
    pthread_mutex_lock(&lock);
    int count = library.fetches;
    pthread_mutex_unlock(&lock);
    return count;
}

/* One compute range from 1000·(step + 1) on, one kernel in it. */
static void launch(int step) {
    int64_t t = 1000 * (int64_t)(step + 1);
    library.records[library.queued++] = (struct aorta_activity_record){
        .name = "gemm", .start_ns = t + 100, .end_ns = t + 400, .stream = 1, .correlation = (uint32_t)(step + 1)};
}

static aorta_status finish_any_step(struct run *run, int step, bool traced) {
    struct sample sample;
    struct aorta_memory_info memory = {.allocated = 5};
    int64_t t = 1000 * (int64_t)(step + 1);
    sample_begin(&sample, step);
    sample_compute(&sample, t, t + 500, t - 50)->info.tag = "mlp";
    sample_done(&sample, INT64_MIN);
    struct aorta_step_metrics metrics = {.world_size = 1, .global_step = step, .loss_scale = NAN, .memory = &memory};
    struct aorta_launches launches = {.after = (uint32_t)step, .until = (uint32_t)(step + 1)};
    launches.ranges = traced ? malloc(sizeof *launches.ranges) : NULL;
    if (traced) *launches.ranges = (struct aorta_range_launches){launches.after, launches.until};
    aorta_status status = aorta_metrics_lines_add(run->lines, &metrics, &sample.profile, &launches, t + 500);
    assert_null(sample.profile.ranges); /* taken over, also on failure */
    assert_null(launches.ranges);
    memset(&memory, 0xff, sizeof memory); /* copied */
    return status;
}

static aorta_status finish_step(struct run *run, int step) {
    return finish_any_step(run, step, true);
}

/* Steps that the tracer did not see wait for no record, but for their turn; their lines have no kernels. */
static void untraced_steps_wait_for_nothing(void **state) {
    (void)state;
    struct run run;
    run_begin(&run);
    check_ok(finish_any_step(&run, 0, false));
    wait_for_lines(&run, 1);
    launch(1);
    check_ok(finish_any_step(&run, 1, true));
    check_ok(finish_any_step(&run, 2, false));
    for (int i = 0; i < 5000 && fetches() < 1; i++) usleep(1000);
    usleep(20000);
    assert_int_equal(lines_written(&run), 1);
    release(1);
    check_ok(aorta_metrics_lines_finish(run.lines));
    assert_int_equal(lines_written(&run), 3);
    char *text;
    size_t length;
    check_ok(aorta_file_read(run.path, &text, &length));
    int step = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), step++)
        assert_int_equal(strstr(line, "\"source\": \"kernel\"") != NULL, step == 1);
    free(text);
    run_end(&run);
}

static aorta_status finish_unrecorded(struct aorta_metrics_lines *lines, int step) {
    const struct aorta_step_metrics metrics = {
        .world_size = 1, .global_step = step, .loss_scale = NAN, .unrecorded = "left out"};
    return aorta_metrics_lines_add(lines, &metrics, NULL, NULL, 1000 * (int64_t)(step + 1) + 500);
}

/* In the order of the steps, with what there is of each. */
static void lines_of_all_steps(void **state) {
    (void)state;
    struct run run;
    run_begin(&run);
    launch(0);
    check_ok(finish_step(&run, 0));
    check_ok(finish_unrecorded(run.lines, 1)); /* its records are not waited for */
    check_ok(finish_any_step(&run, 2, false));
    check_ok(aorta_metrics_lines_finish(run.lines));
    char *text, expected[32];
    size_t length;
    check_ok(aorta_file_read(run.path, &text, &length));
    int step = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), step++) {
        snprintf(expected, sizeof expected, "\"global_step\": %d,", step);
        assert_non_null(strstr(line, expected));
        assert_int_equal(strstr(line, "\"profile\": \"left out\"") != NULL, step == 1);
        assert_int_equal(strstr(line, "\"profile\": null") != NULL, step == 1);
        assert_int_equal(strstr(line, "\"compute_ms\"") != NULL, step != 1);
    }
    assert_int_equal(step, 3);
    free(text);
    run_end(&run);
}

/* Nothing is traced, and there is no thread. */
static void without_a_tracer(void **state) {
    (void)state;
    struct run run;
    run_begin(&run);
    struct aorta_metrics_lines *traced = run.lines;
    check_ok(aorta_metrics_lines_open(NULL, run.writer, NULL, &run.lines));
    check_ok(finish_unrecorded(run.lines, 0));
    check_ok(finish_any_step(&run, 1, false));
    assert_int_equal(lines_written(&run), 2);
    aorta_metrics_lines_close(run.lines);
    run.lines = traced;
    assert_int_equal(fetches(), 0);
    run_end(&run);
}

static void waits_for_records(void **state) {
    (void)state;
    struct run run;
    run_begin(&run);
    for (int step = 0; step < 6; step++) launch(step);
    release(1);
    check_ok(finish_step(&run, 0));
    for (int i = 0; i < 5000 && fetches() < 1; i++) usleep(1000);
    usleep(20000);
    assert_int_equal(lines_written(&run), 0); /* its kernel has come, but nothing later */
    release(3);
    check_ok(finish_step(&run, 1));
    wait_for_lines(&run, 2);
    int before = fetches();
    check_ok(finish_step(&run, 2));
    check_ok(finish_step(&run, 3));
    for (int i = 0; i < 5000 && fetches() == before; i++) usleep(1000);
    usleep(20000);
    assert_int_equal(lines_written(&run), 2);
    check_ok(aorta_metrics_lines_finish(run.lines));
    check_ok(aorta_metrics_lines_finish(run.lines));
    assert_int_equal(lines_written(&run), 4);
    char *text;
    size_t length;
    check_ok(aorta_file_read(run.path, &text, &length));
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        const char *kernels = strstr(line, "\"kernel_profile\": {");
        assert_non_null(kernels);
        assert_non_null(strstr(line, "\"allocated_bytes\": 5"));
        assert_non_null(strstr(kernels, "\"source\": \"kernel\""));
        assert_non_null(strstr(kernels, "\"tag\": \"gemm\""));
        assert_non_null(strstr(kernels, "\"range\": \"mlp\""));
        assert_non_null(strstr(kernels, "\"attributed\": 1"));
        assert_non_null(strstr(kernels, "\"compute_ms\": 0.0003"));
        assert_non_null(strstr(line, "\"tag\": \"mlp\""));
        assert_null(strstr(strstr(kernels, "\"gemm\"") + 1, "\"gemm\"")); /* each kernel stands in one step */
    }
    free(text);
    run_end(&run);
}

/* Short steps: the library is asked for many of them at once. */
static void asks_seldom(void **state) {
    (void)state;
    enum { STEPS = AORTA_METRICS_LINES - 4 };
    struct run run;
    run_begin(&run);
    for (int step = 0; step < STEPS; step++) launch(step);
    for (int step = 0; step < STEPS; step++) {
        release(step); /* a step's kernel arrives with the next step */
        check_ok(finish_step(&run, step));
    }
    wait_for_lines(&run, STEPS - 2);
    if (fetches() > STEPS / 3) fail_msg("%d fetches in %d steps", fetches(), STEPS);
    check_ok(aorta_metrics_lines_finish(run.lines));
    assert_int_equal(lines_written(&run), STEPS);
    run_end(&run);
}

/* A library that never delivers holds back so many lines and no more. */
static void bounded(void **state) {
    (void)state;
    struct run run;
    run_begin(&run);
    for (int step = 0; step < AORTA_METRICS_LINES + 10; step++) check_ok(finish_step(&run, step));
    wait_for_lines(&run, 11);
    check_ok(aorta_metrics_lines_finish(run.lines));
    assert_int_equal(lines_written(&run), AORTA_METRICS_LINES + 10);
    run_end(&run);
}

static void failures(void **state) {
    (void)state;
    struct run run;
    run_begin(&run);
    library.fails = true; /* nothing runs yet */
    check_ok(finish_step(&run, 0));
    check_fails(aorta_metrics_lines_finish(run.lines), AORTA_DEVICE, "fell over");
    check_ok(aorta_metrics_lines_finish(run.lines)); /* reported once */
    check_ok(finish_step(&run, 1));
    aorta_status status = NULL;
    for (int step = 2; step < 5000 && !status; step++, usleep(1000)) status = finish_step(&run, step);
    check_fails(status, AORTA_DEVICE, "fell over"); /* the next line reports it too */
    check_ok(finish_step(&run, 5000));
    run_end(&run); /* what waited is released */
    aorta_metrics_lines_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(untraced_steps_wait_for_nothing),
        cmocka_unit_test(lines_of_all_steps),
        cmocka_unit_test(without_a_tracer),
        cmocka_unit_test(waits_for_records),
        cmocka_unit_test(asks_seldom),
        cmocka_unit_test(bounded),
        cmocka_unit_test(failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
