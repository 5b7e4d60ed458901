#include "base/clock.h"
#include "base/log.h"
#include "base/progress.h"
#include "check.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Output of a stream in memory. */
struct printed {
    char *text;
    size_t length;
    FILE *stream;
};

static void open_printed(struct printed *printed) {
    printed->stream = open_memstream(&printed->text, &printed->length);
    assert_non_null(printed->stream);
}

static void check_printed(struct printed *printed, const char *expected) {
    fclose(printed->stream);
    assert_string_equal(printed->text, expected);
    free(printed->text);
}

static void test_log(void **state) {
    (void)state;
    struct printed printed;
    open_printed(&printed);
    struct aorta_log log = {AORTA_LOG_INFO, 3, printed.stream};
    aorta_log(&log, AORTA_LOG_DEBUG, "not shown %d", 1);
    aorta_log(&log, AORTA_LOG_INFO, "step %d", 2);
    aorta_log(&log, AORTA_LOG_WARNING, "slow");
    log.rank = -1;
    aorta_log(&log, AORTA_LOG_ERROR, "lost");
    check_printed(&printed, "[rank 3] step 2\n[rank 3] warning: slow\nerror: lost\n");
}

static void test_long_message_is_cut(void **state) {
    (void)state;
    struct printed printed;
    open_printed(&printed);
    struct aorta_log log = {AORTA_LOG_INFO, -1, printed.stream};
    aorta_log(&log, AORTA_LOG_INFO, "%05000d", 7);
    fclose(printed.stream);
    assert_int_equal(printed.length, 2047);
    assert_int_equal(printed.text[printed.length - 1], '\n');
    free(printed.text);
}

/* `elapsed_ns` since the start, `due` or not. */
static void pretend(struct aorta_progress *progress, int64_t elapsed_ns, bool due) {
    int64_t now_ns = aorta_clock_ns();
    progress->started_ns = now_ns - elapsed_ns;
    progress->printed_ns = due ? now_ns - progress->interval_ns : now_ns;
}

static void test_progress_in_a_file(void **state) {
    (void)state;
    struct printed printed;
    open_printed(&printed);
    struct aorta_progress progress;
    aorta_progress_begin(&progress, printed.stream, "train", "steps", 40);
    assert_false(progress.terminal);
    aorta_progress_update(&progress, 1, "not due yet");
    pretend(&progress, 10000000000, true);
    aorta_progress_update(&progress, 20, "loss 0.693");
    pretend(&progress, 20000000000, false);
    aorta_progress_update(&progress, 30, NULL);
    aorta_progress_update(&progress, 50, NULL);
    aorta_progress_end(&progress);
    check_printed(&printed, "train 20/40 steps, 2 steps/s, ETA 0:10, loss 0.693\ntrain 40/40 steps, 2 steps/s\n");
}

/* A line is one write: ranks write to one place. Each write is a message here. */
static void test_progress_lines_are_whole(void **state) {
    int ends[2];
    char line[256];
    struct aorta_progress progress;
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    FILE *stream = fdopen(ends[1], "w");
    assert_non_null(stream);
    setvbuf(stream, NULL, _IONBF, 0); /* as the standard error output is */
    aorta_progress_begin(&progress, stream, "train", "steps", 40);
    aorta_progress_update(&progress, 40, NULL);
    progress.terminal = true;
    aorta_progress_end(&progress);
    fclose(stream);
    ssize_t length = recv(ends[0], line, sizeof line - 1, 0);
    assert_true(length > 0 && line[length - 1] == '\n');
    line[length] = '\0';
    assert_non_null(strstr(line, "40/40 steps"));
    assert_int_equal(recv(ends[0], line, sizeof line, 0), 0);
    close(ends[0]);
}

static void test_progress_on_a_terminal(void **state) {
    (void)state;
    struct printed printed;
    open_printed(&printed);
    struct aorta_progress progress;
    aorta_progress_begin(&progress, printed.stream, "train", "steps", 24);
    progress.terminal = true;
    pretend(&progress, 3600000000000, true);
    aorta_progress_update(&progress, 6, NULL);
    aorta_progress_end(&progress);
    check_printed(&printed, "\r\033[Ktrain [######..................] 6/24 steps, 0.00167 steps/s, ETA 3:00:00"
                            "\r\033[Ktrain [######..................] 6/24 steps, 0.00167 steps/s, ETA 3:00:00\n");
}

/* No bar where escapes would be printed. */
static void test_progress_on_a_dumb_terminal(void **state) {
    struct aorta_progress progress;
    (void)state;
    const int ours = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(ours >= 0 && !grantpt(ours) && !unlockpt(ours));
    FILE *stream = fopen(ptsname(ours), "w");
    assert_non_null(stream);
    assert_int_equal(ioctl(ours, TIOCSWINSZ, &(struct winsize){.ws_row = 24, .ws_col = 80}), 0);
    setenv("TERM", "dumb", 1);
    aorta_progress_begin(&progress, stream, "train", "steps", 24);
    assert_false(progress.terminal);
    setenv("TERM", "xterm", 1);
    aorta_progress_begin(&progress, stream, "train", "steps", 24);
    assert_true(progress.terminal);
    fclose(stream);
    close(ours);
}

static void test_progress_without_a_total(void **state) {
    (void)state;
    struct printed printed;
    open_printed(&printed);
    struct aorta_progress progress;
    aorta_progress_begin(&progress, printed.stream, "read", "files", 0);
    pretend(&progress, 2000000000, true);
    aorta_progress_update(&progress, 4, NULL);
    check_printed(&printed, "read 4 files, 2 files/s\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_log),
        cmocka_unit_test(test_long_message_is_cut),
        cmocka_unit_test(test_progress_in_a_file),
        cmocka_unit_test(test_progress_lines_are_whole),
        cmocka_unit_test(test_progress_on_a_terminal),
        cmocka_unit_test(test_progress_on_a_dumb_terminal),
        cmocka_unit_test(test_progress_without_a_total),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
