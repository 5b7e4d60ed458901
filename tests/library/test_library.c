/* Sees nothing but the installed headers. include/aorta: what it returns, and that mistakes are answered. */
#include "aorta/aorta.h"
#include "aorta/ranges.h"

#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define RANK(n) TEST_DATA "/whole/fsdp2_rank" #n ".json.gz"

static void a_recording_is_read_and_evaluated(void **state) {
    (void)state;
    struct libaorta_analysis *analysis, *other;
    struct libaorta_step step;
    struct libaorta_cause cause;
    char message[256] = "";
    const char *const paths[] = {RANK(0), RANK(1)}, *const one[] = {TEST_DATA "/whole/h100_qwen.json.gz"};
    assert_int_equal(libaorta_open(paths, 2, NULL, &analysis, message, sizeof message), LIBAORTA_OK);
    assert_int_equal(libaorta_open(one, 1, NULL, &other, NULL, 0), LIBAORTA_OK); /* side by side */
    assert_string_equal(message, "");
    libaorta_step(analysis, &step);
    assert_int_equal(step.ranks, 2);
    assert_true(step.step_ms > 0 && step.comm_ms > 0 && step.exposed_comm_ms <= step.comm_ms);
    assert_true(libaorta_cause_count(analysis) > 0);
    assert_int_equal(libaorta_cause(analysis, 0, &cause), LIBAORTA_OK);
    assert_true(strlen(cause.cause) > 0 && strlen(cause.evidence) > 0);
    assert_int_equal(libaorta_cause(analysis, 1000, &cause), LIBAORTA_INVALID);
    assert_int_equal(strncmp(libaorta_json(analysis), "{\"schema_version\"", 17), 0);
    assert_non_null(strstr(libaorta_verdict_markdown(analysis), "**Verdict: "));
    assert_non_null(strstr(libaorta_verdict_text(other), "Verdict: "));
    libaorta_step(other, &step);
    assert_true(step.steps > 0);
    libaorta_close(other);
    const struct libaorta_options whole = {.whole = 1};
    assert_int_equal(libaorta_open(one, 1, &whole, &other, NULL, 0), LIBAORTA_OK);
    libaorta_step(other, &step);
    assert_int_equal(step.steps, 0);
    libaorta_close(other);
    libaorta_close(analysis);
    libaorta_close(NULL);
}

static void every_table_can_be_had(void **state) {
    (void)state;
    struct libaorta_analysis *analysis;
    const char *const paths[] = {RANK(0), RANK(1)};
    size_t count = 0;
    assert_int_equal(libaorta_open(paths, 2, NULL, &analysis, NULL, 0), LIBAORTA_OK);
    for (const char *name; (name = libaorta_table_name(count)); count++) {
        const char *csv = libaorta_table_csv(analysis, name);
        if (!csv || !strchr(csv, '\r')) fail_msg("%s: no lines", name);
    }
    assert_true(count > 8);
    assert_int_equal(strncmp(libaorta_table_csv(analysis, "kernels"), "rank,name,", 10), 0);
    assert_null(libaorta_table_csv(analysis, "nothing"));
    libaorta_close(analysis);
}

static void mistakes_are_named(void **state) {
    (void)state;
    struct libaorta_analysis *analysis;
    char message[256], cut[8], path[] = "/tmp/aorta_broken_XXXXXX";
    const char *const missing[] = {"/nowhere/at.json"}, *const other[] = {TEST_DATA "/../../library/test_library.c"},
                      *const broken[] = {path}, *const good[] = {RANK(0)};
    static const char beginning[] = "{\"traceEvents\": [{\"ph\": ";
    const int file = mkstemp(path);
    assert_true(file >= 0 && write(file, beginning, sizeof beginning - 1) > 0 && !close(file));
    assert_int_equal(libaorta_open(missing, 1, NULL, &analysis, message, sizeof message), LIBAORTA_INVALID);
    assert_non_null(strstr(message, "/nowhere/at.json"));
    assert_null(analysis);
    assert_int_equal(libaorta_open(other, 1, NULL, &analysis, message, sizeof message), LIBAORTA_INVALID);
    assert_non_null(strstr(message, "is no trace"));
    assert_int_equal(libaorta_open(broken, 1, NULL, &analysis, cut, sizeof cut), LIBAORTA_FORMAT);
    assert_int_equal(strlen(cut), sizeof cut - 1);
    assert_int_equal(libaorta_open(NULL, 0, NULL, &analysis, NULL, 0), LIBAORTA_INVALID);
    unlink(path);
    const struct libaorta_options wrong = {.step_range = "a("};
    assert_int_equal(libaorta_open(good, 1, &wrong, &analysis, message, sizeof message), LIBAORTA_INVALID);
}

static size_t open_descriptors(void) {
    size_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder)) count++;
    closedir(folder);
    return count;
}

/* Either it is evaluated in full, or there is a reason and nothing to close. */
static void open_hostile(const char *path) {
    struct libaorta_analysis *analysis;
    char message[64];
    const int code = libaorta_open(&path, 1, NULL, &analysis, message, sizeof message);
    if (code != LIBAORTA_OK) {
        if (analysis || !*message) fail_msg("%s: %d without a reason", path, code);
        return;
    }
    assert_int_equal(*libaorta_json(analysis), '{');
    assert_non_null(libaorta_verdict_text(analysis));
    const char *name;
    for (size_t i = 0; (name = libaorta_table_name(i)); i++) (void)libaorta_table_csv(analysis, name);
    libaorta_close(analysis);
}

/* Files of fuzzers, pipes, devices, folders: nothing is waited for, and no descriptor stays open. */
static void hostile_files_are_closed(void **state) {
    (void)state;
    static const char *const folders[] = {"trace",  "spool", "sqlite",  "xplane", "csv",
                                          "packed", "gzip",  "metrics", "merge"};
    char pipe[] = "/tmp/aorta_library_XXXXXX", path[PATH_MAX];
    assert_non_null(mkdtemp(pipe));
    snprintf(path, sizeof path, "%s/pipe.json", pipe);
    assert_int_equal(mkfifo(path, 0600), 0);
    const size_t before = open_descriptors();
    open_hostile(path);
    unlink(path);
    open_hostile(pipe);
    rmdir(pipe);
    open_hostile("/dev/zero");
    open_hostile("/proc/self/mem");
    open_hostile("");
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(path, sizeof path, "%s/../../fuzz/%s", TEST_DATA, folders[i]);
        const size_t length = strlen(path);
        DIR *folder = opendir(path);
        assert_non_null(folder);
        for (const struct dirent *entry; (entry = readdir(folder));) {
            snprintf(path + length, sizeof path - length, "/%s", entry->d_name);
            if (*entry->d_name != '.') open_hostile(path);
        }
        closedir(folder);
    }
    assert_int_equal(open_descriptors(), before);
}

static void nap(int ms) {
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

static void *communicate(void *user) {
    int range = libaorta_range_begin(user, LIBAORTA_COMMUNICATION, NULL);
    nap(40);
    assert_int_equal(libaorta_range_end(user, range, NULL), LIBAORTA_OK);
    return NULL;
}

/*   compute        |---- 40 ----|
 *   communication               20 |---- 40 ----|    not while compute; then once more during it */
static void ranges_give_the_overlap(void **state) {
    (void)state;
    struct libaorta_ranges *ranges;
    struct libaorta_overlap overlap;
    pthread_t thread;
    assert_int_equal(libaorta_ranges_create(LIBAORTA_HOST, &ranges, NULL, 0), LIBAORTA_OK);
    int range = libaorta_range_begin(ranges, LIBAORTA_COMPUTE, NULL);
    nap(40);
    assert_int_equal(libaorta_range_end(ranges, range, NULL), LIBAORTA_OK);
    assert_int_equal(libaorta_range_end(ranges, range, NULL), LIBAORTA_INVALID);
    assert_int_equal(libaorta_range_end(ranges, 7, NULL), LIBAORTA_INVALID);
    nap(20);
    communicate(ranges);
    int open = libaorta_range_begin(ranges, LIBAORTA_COPY, NULL); /* never ends: does not count */
    assert_true(open > range);
    assert_int_equal(libaorta_ranges_overlap(ranges, &overlap, NULL, 0), LIBAORTA_OK);
    assert_true(overlap.overlap_ns == 0 && overlap.exposed_comm_ns == overlap.comm_ns && overlap.copy_ns == 0);
    assert_true(overlap.comm_ns >= 40000000 && overlap.compute_ns >= 40000000 && overlap.idle_ns >= 20000000);
    assert_int_equal(overlap.span_ns, overlap.comm_ns + overlap.compute_ns + overlap.idle_ns);

    range = libaorta_range_begin(ranges, LIBAORTA_COMPUTE, NULL); /* around all of the communication */
    assert_int_equal(range, 0);
    pthread_create(&thread, NULL, communicate, ranges);
    pthread_join(thread, NULL);
    assert_int_equal(libaorta_range_end(ranges, range, NULL), LIBAORTA_OK);
    assert_int_equal(libaorta_ranges_overlap(ranges, &overlap, NULL, 0), LIBAORTA_OK);
    assert_true(overlap.overlap_ns == overlap.comm_ns && overlap.overlap_ratio == 1 && overlap.idle_ns == 0);
    assert_int_equal(libaorta_ranges_overlap(ranges, &overlap, NULL, 0), LIBAORTA_OK);
    assert_true(overlap.span_ns == 0 && isnan(overlap.overlap_ratio));
    libaorta_ranges_free(ranges);
}

/* A caller that did not look at what libaorta_open returned, and worse. */
static void null_is_answered(void **state) {
    (void)state;
    struct libaorta_analysis *analysis;
    struct libaorta_step step;
    struct libaorta_cause cause;
    struct libaorta_ranges *ranges;
    struct libaorta_overlap overlap;
    char message[256] = "", one[1] = "x";
    const char *const paths[] = {RANK(0), NULL}, *const good[] = {RANK(0)};
    assert_int_equal(libaorta_open(paths, 2, NULL, &analysis, message, sizeof message), LIBAORTA_INVALID);
    assert_string_equal(message, "path 2 of 2 is NULL");
    assert_int_equal(libaorta_open(good, 1, NULL, NULL, message, sizeof message), LIBAORTA_INVALID);
    assert_string_equal(message, "the argument `analysis` is NULL");
    assert_int_equal(libaorta_open(NULL, 5, NULL, &analysis, one, 1), LIBAORTA_INVALID);
    assert_int_equal(*one, 0);
    assert_null(libaorta_verdict_text(analysis));
    assert_null(libaorta_verdict_markdown(analysis));
    assert_null(libaorta_json(analysis));
    assert_null(libaorta_table_csv(analysis, "kernels"));
    assert_int_equal(libaorta_cause_count(analysis), 0);
    assert_int_equal(libaorta_cause(analysis, 0, &cause), LIBAORTA_INVALID);
    libaorta_step(analysis, &step);
    assert_true(step.ranks == 0 && isnan(step.step_ms));
    assert_int_equal(libaorta_open(good, 1, NULL, &analysis, NULL, sizeof message), LIBAORTA_OK);
    assert_null(libaorta_table_csv(analysis, NULL));
    assert_int_equal(libaorta_cause(analysis, 0, NULL), LIBAORTA_INVALID);
    assert_int_equal(libaorta_cause(analysis, SIZE_MAX, &cause), LIBAORTA_INVALID);
    libaorta_step(analysis, NULL);
    libaorta_close(analysis);
    assert_null(libaorta_table_name(SIZE_MAX));

    assert_int_equal(libaorta_ranges_create(LIBAORTA_HOST, NULL, message, sizeof message), LIBAORTA_INVALID);
    assert_int_equal(libaorta_range_begin(NULL, LIBAORTA_COMPUTE, NULL), -1);
    assert_int_equal(libaorta_range_end(NULL, 0, NULL), LIBAORTA_INVALID);
    assert_int_equal(libaorta_ranges_overlap(NULL, &overlap, message, sizeof message), LIBAORTA_INVALID);
    assert_string_equal(message, "the argument `ranges` is NULL");
    assert_int_equal(libaorta_ranges_create(LIBAORTA_HOST, &ranges, NULL, 0), LIBAORTA_OK);
    assert_int_equal(libaorta_ranges_overlap(ranges, NULL, NULL, 0), LIBAORTA_INVALID);
    assert_int_equal(libaorta_range_begin(ranges, (enum libaorta_kind)7, NULL), -1);
    assert_int_equal(libaorta_range_end(ranges, -1, NULL), LIBAORTA_INVALID);
    libaorta_ranges_free(ranges);
    libaorta_ranges_free(NULL);
}

static void gpus_that_are_not_there_are_refused(void **state) {
    (void)state;
    struct libaorta_ranges *ranges;
    char message[256];
    assert_int_equal(libaorta_ranges_create(LIBAORTA_HIP, &ranges, message, sizeof message), LIBAORTA_UNSUPPORTED);
    assert_non_null(strstr(message, "libamdhip64.so"));
    assert_null(ranges);
    assert_int_equal(libaorta_ranges_create((enum libaorta_clock)9, &ranges, NULL, 0), LIBAORTA_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_recording_is_read_and_evaluated),
        cmocka_unit_test(every_table_can_be_had),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(hostile_files_are_closed),
        cmocka_unit_test(ranges_give_the_overlap),
        cmocka_unit_test(null_is_answered),
        cmocka_unit_test(gpus_that_are_not_there_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
