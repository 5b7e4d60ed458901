#include "base/files.h"
#include "check.h"
#include "measure/run_files.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Every time in a line, of any length and sign, reads back to the same nanosecond. */
static void times_are_exact(void **state) {
    (void)state;
    static const struct {
        int64_t ns;
        const char *text;
    } rows[] = {{0, "0.0"},
                {1, "0.000001"},
                {-1, "-0.000001"},
                {1000000, "1.0"},
                {10000000, "10.0"},
                {1500000, "1.5"},
                {-2000300, "-2.0003"},
                {123456789, "123.456789"},
                {100, "0.0001"},
                {999999, "0.999999"},
                {3600000000000, "3600000.0"},
                {1000001, "1.000001"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct aorta_range range = {
            .info = {.tag = "t", .function = "f"}, .start_ns = 0, .end_ns = 4, .enqueue_ns = rows[i].ns};
        struct aorta_profile profile = {.ranges = &range, .range_count = 1, .end_ns = 4};
        check_ok(aorta_overlap_compute(&profile, INT64_MIN));
        struct aorta_step_metrics metrics = {.world_size = 1, .loss_scale = NAN, .profile = &profile};
        struct aorta_text text = {0};
        char wanted[64];
        check_ok(aorta_metrics_format(&metrics, &text));
        snprintf(wanted, sizeof wanted, "\"enqueue_ms\": %s,", rows[i].text);
        if (!strstr(text.data, wanted)) print_error("%s is not in %s\n", wanted, text.data);
        assert_non_null(strstr(text.data, wanted));
        assert_null(strchr(text.data, '\n'));
        aorta_text_free(&text);
        profile.ranges = NULL; /* of no heap */
        aorta_profile_free(&profile);
    }
}

/* An operation's kernel, and a second one, read back as they were written; shapes that are none are an error. */
static void operations_read_back(void **state) {
    (void)state;
    struct aorta_range ranges[2] = {
        {.info = {.tag = "gemm", .function = "layer_forward", .dtype = AORTA_BF16}, .end_ns = 4, .enqueue_ns = 1},
        {.info = {.tag = "sums", .function = "layer_forward"}, .end_ns = 4, .enqueue_ns = 1}};
    for (int i = 0; i < 2; i++) {
        ranges[i].info.within = "encoder.layers.0";
        ranges[i].info.operation = "linear_forward";
        ranges[i].info.number = 17;
    }
    const int32_t dims[2][AORTA_RANGE_DIMS] = {{11264, 1024}, {1024, 4608}};
    memcpy(ranges[0].info.dims, dims, sizeof dims);
    ranges[0].info.flops = 1e11;
    struct aorta_profile profile = {.ranges = ranges, .range_count = 2, .end_ns = 4};
    check_ok(aorta_overlap_compute(&profile, INT64_MIN));
    struct aorta_step_metrics metrics = {.world_size = 1, .loss_scale = NAN, .profile = &profile};
    struct aorta_text text = {0};
    check_ok(aorta_metrics_format(&metrics, &text));
    profile.ranges = NULL; /* of no heap */
    aorta_profile_free(&profile);
    struct aorta_run run = {0};
    struct aorta_step_metrics step;
    check_ok(aorta_run_parse_line(text.data, text.length, true, &run, &step));
    for (int i = 0; i < 2; i++) {
        const struct aorta_range_info *info = &step.profile->ranges[i].info;
        assert_string_equal(info->operation, "linear_forward");
        assert_int_equal(info->number, 17);
        assert_memory_equal(info->dims, ranges[i].info.dims, sizeof dims);
    }
    assert_int_equal(step.profile->ranges[0].info.dtype, AORTA_BF16);
    aorta_run_step_free(&step);
    static const char *const wrong[] = {
        "[[1, 2], [3, 4], [5]]",   "[[1, 2, 3, 4, 5]]", "[[1, -2]]", "[[1, 2]", "x", "[]", "[[1, 2]] ",
        "[[99999999999999999999]]"};
    char *at = strstr(text.data, "[[11264, 1024], [1024, 4608]]");
    assert_non_null(at);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct aorta_text changed = {0};
        aorta_text_printf(&changed, "%.*s%s%s", (int)(at - text.data), text.data, wrong[i],
                          at + strlen("[[11264, 1024], [1024, 4608]]"));
        check_fails(aorta_run_parse_line(changed.data, changed.length, true, &run, &step), AORTA_FORMAT,
                    "ranges[0]: metadata.dims is no list of shapes like [[768, 512], [512, 768]]: ");
        aorta_text_free(&changed);
    }
    aorta_run_free(&run);
    aorta_text_free(&text);
}

static void unwritable(void **state) {
    (void)state;
    struct aorta_metrics_writer *writer = NULL;
    check_fails(aorta_metrics_open("/nowhere", 3, &writer), AORTA_IO, "/nowhere/rank_03_metrics.jsonl");
    assert_null(writer);
    check_ok(aorta_metrics_close(NULL));
}

/* No space for a second line: the failure names the file, and the first line stays whole. */
static void full_disk(void **state) {
    (void)state;
    char directory[] = "/tmp/aorta_metrics_XXXXXX", path[64];
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/rank_00_metrics.jsonl", directory);
    struct aorta_metrics_writer *writer = NULL;
    struct aorta_step_metrics metrics = {.world_size = 1, .global_step = 12, .loss_scale = NAN};
    struct stat whole, after;
    struct rlimit limit, before;
    check_ok(aorta_metrics_open(directory, 0, &writer));
    check_ok(aorta_metrics_write(writer, &metrics));
    assert_int_equal(stat(path, &whole), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = (rlim_t)whole.st_size + 10;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    aorta_status status = aorta_metrics_write(writer, &metrics);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    check_fails(status, AORTA_IO, "cannot write iteration 12 to ");
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(after.st_size, whole.st_size);
    check_ok(aorta_metrics_close(writer));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(directory), 0);
}

/* A link out of the directory is not followed, and a pipe does not hold the run up. */
static void only_regular_files(void **state) {
    (void)state;
    char directory[] = "/tmp/aorta_metrics_XXXXXX", path[64];
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/rank_00_metrics.jsonl", directory);
    struct aorta_metrics_writer *writer = NULL;
    assert_int_equal(symlink("/etc/passwd", path), 0);
    check_fails(aorta_metrics_open(directory, 0, &writer), AORTA_IO, "it is a link, which is not followed; remove it");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    check_fails(aorta_metrics_open(directory, 0, &writer), AORTA_IO,
                "rank_00_metrics.jsonl: it is a pipe that nobody reads");
    int reader = open(path, O_RDONLY | O_NONBLOCK);
    check_ok(aorta_metrics_open(directory, 0, &writer));
    check_ok(aorta_metrics_close(writer));
    close(reader);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(directory), 0);
}

static size_t lines_of(const char *path) {
    char *bytes;
    size_t length, lines = 0;
    check_ok(aorta_file_read(path, &bytes, &length));
    for (size_t i = 0; i < length; i++) lines += bytes[i] == '\n';
    free(bytes);
    return lines;
}

/* Rank 2's lines in the new folder root/out. */
static struct aorta_metrics_writer *open_below(char *root, char directory[64], char path[96]) {
    struct aorta_metrics_writer *writer = NULL;
    assert_non_null(mkdtemp(root));
    snprintf(directory, 64, "%s/out", root);
    snprintf(path, 96, "%s/rank_02_metrics.jsonl", directory);
    assert_int_equal(mkdir(directory, 0700), 0);
    check_ok(aorta_metrics_open(directory, 2, &writer));
    return writer;
}

/* A removed file comes back with all its lines: in its directory, once more, and where that is in the way, elsewhere.
 */
static void removed(void **state) {
    (void)state;
    char root[] = "/tmp/aorta_metrics_XXXXXX", directory[64], path[96];
    struct aorta_metrics_writer *writer = open_below(root, directory, path);
    struct aorta_step_metrics metrics = {.world_size = 1, .loss_scale = NAN};
    check_ok(aorta_metrics_write(writer, &metrics));
    assert_null(aorta_metrics_moved(writer));
    for (size_t lines = 2; lines < 4; lines++) {
        assert_int_equal(unlink(path) | rmdir(directory), 0);
        check_ok(aorta_metrics_write(writer, &metrics));
        assert_string_equal(aorta_metrics_moved(writer), directory);
        assert_int_equal(lines_of(path), lines);
    }
    check_ok(aorta_metrics_close(writer));

    check_ok(aorta_metrics_open(directory, 2, &writer));
    check_ok(aorta_metrics_write(writer, &metrics));
    assert_int_equal(unlink(path) | rmdir(directory), 0);
    assert_int_equal(symlink("nowhere/at/all", directory), 0);
    setenv("TMPDIR", root, 1);
    check_ok(aorta_metrics_write(writer, &metrics));
    check_ok(aorta_metrics_write(writer, &metrics));
    const char *moved = aorta_metrics_moved(writer);
    assert_memory_equal(moved, root, strlen(root));
    assert_non_null(strstr(moved, "/aorta-rescued-"));
    snprintf(path, sizeof path, "%s/rank_02_metrics.jsonl", moved);
    assert_int_equal(lines_of(path), 3);
    assert_int_equal(unlink(path) | rmdir(moved) | unlink(directory), 0);
    setenv("TMPDIR", "/nowhere", 1);
    assert_int_equal(mkdir(directory, 0700), 0);
    check_ok(aorta_metrics_close(writer));

    check_ok(aorta_metrics_open(directory, 2, &writer));
    snprintf(path, sizeof path, "%s/rank_02_metrics.jsonl", directory);
    assert_int_equal(unlink(path) | rmdir(directory), 0);
    assert_int_equal(symlink("nowhere/at/all", directory), 0);
    check_fails(aorta_metrics_write(writer, &metrics), AORTA_IO, "was removed, and could not be made again");
    unsetenv("TMPDIR");
    check_ok(aorta_metrics_close(writer));
    assert_int_equal(unlink(directory) | rmdir(root), 0);
}

static void *remove_again(void *directory) {
    for (int tries = 0; tries < 20000; tries++) {
        rmdir(directory);
        if (tries % 100 == 0) usleep(100);
    }
    return NULL;
}

/* What removes the directory goes on while the file is made again: the lines do not end up elsewhere for that. */
static void removed_again(void **state) {
    (void)state;
    char root[] = "/tmp/aorta_metrics_XXXXXX", directory[64], path[96];
    struct aorta_metrics_writer *writer = open_below(root, directory, path);
    struct aorta_step_metrics metrics = {.world_size = 1, .loss_scale = NAN};
    pthread_t remover;
    assert_int_equal(pthread_create(&remover, NULL, remove_again, directory), 0);
    for (size_t lines = 1; lines < 400; lines++) {
        unlink(path);
        check_ok(aorta_metrics_write(writer, &metrics));
        assert_int_equal(access(path, F_OK), 0);
    }
    pthread_join(remover, NULL);
    assert_string_equal(aorta_metrics_moved(writer), directory);
    check_ok(aorta_metrics_close(writer));
    assert_int_equal(unlink(path) | rmdir(directory) | rmdir(root), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_exact), cmocka_unit_test(operations_read_back), cmocka_unit_test(unwritable),
        cmocka_unit_test(full_disk),       cmocka_unit_test(only_regular_files),   cmocka_unit_test(removed),
        cmocka_unit_test(removed_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
