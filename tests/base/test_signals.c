/* A child works without a look at anything, as in a long call of a library; signals reach it all the same. */
#include "base/directories.h"
#include "base/files.h"
#include "base/signals.h"
#include "check.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static bool note(void *user, int signal) {
    const char letter = signal == SIGTERM ? 'T' : 'I';
    (void)!write(*(int *)user, &letter, 1);
    return false;
}

static bool note_and_end(void *user, int signal) {
    (void)note(user, signal);
    return true;
}

/* Works until the first signal where it `asks`, else for ever; exit code 3 after AORTA_INTERRUPTED. */
static _Noreturn void work(aorta_signals_first *first, int notes, bool asks) {
    struct aorta_signals *signals;
    if (aorta_signals_begin(first, &notes, &signals)) _exit(1);
    const char ready = 'r';
    (void)!write(notes, &ready, 1);
    for (;;) {
        aorta_status status = asks ? aorta_signals_check(signals) : NULL;
        if (!status) continue;
        const bool right = aorta_status_code(status) == AORTA_INTERRUPTED;
        aorta_status_free(status);
        aorta_signals_end(signals);
        _exit(right ? 3 : 1);
    }
}

static pid_t start(aorta_signals_first *first, bool asks, int *notes) {
    int ends[2];
    char ready = 0;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        work(first, ends[1], asks);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &ready, 1), 1);
    assert_int_equal(ready, 'r');
    *notes = ends[0];
    return child;
}

static void check_note(int notes, char expected) {
    char letter = 0;
    assert_int_equal(read(notes, &letter, 1), 1);
    assert_int_equal(letter, expected);
}

static void test_second_ends_at_once(void **state) {
    (void)state;
    int notes, status;
    const pid_t child = start(note, false, &notes);
    kill(child, SIGINT);
    check_note(notes, 'I');
    assert_int_equal(waitpid(child, &status, WNOHANG), 0);
    kill(child, SIGTERM);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    close(notes);
}

static void test_first_is_asked_for(void **state) {
    (void)state;
    int notes, status;
    const pid_t child = start(note, true, &notes);
    kill(child, SIGTERM);
    check_note(notes, 'T');
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    close(notes);
}

static void test_first_ends_at_once(void **state) {
    (void)state;
    int notes, status;
    const pid_t child = start(note_and_end, false, &notes);
    kill(child, SIGTERM);
    check_note(notes, 'T');
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    close(notes);
}

/* As under nohup, or in the background of a shell. */
static void test_ignored_stays_ignored(void **state) {
    (void)state;
    int notes, status;
    signal(SIGINT, SIG_IGN);
    const pid_t child = start(note, false, &notes);
    signal(SIGINT, SIG_DFL);
    for (int i = 0; i < 3; i++) {
        kill(child, SIGINT);
        usleep(20000);
    }
    assert_int_equal(waitpid(child, &status, WNOHANG), 0);
    kill(child, SIGTERM);
    check_note(notes, 'T');
    kill(child, SIGTERM);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    close(notes);
}

/* A child that has a guarded directory with a file in it. */
static void test_a_guarded_directory_goes_with_its_process(void **state) {
    (void)state;
    static const int ending[] = {SIGINT, SIGTERM};
    for (int i = 0; i < 2; i++) {
        char path[PATH_MAX + 8] = "";
        int ends[2], status;
        assert_int_equal(pipe(ends), 0);
        const pid_t child = fork();
        if (child == 0) {
            struct aorta_temporary directory;
            alarm(20);
            if (aorta_temporary_make("aorta-test-", &directory) || aorta_temporary_guard(&directory)) _exit(1);
            snprintf(path, sizeof path, "%s/file", directory.path);
            if (aorta_file_replace(path, "text", 4)) _exit(1);
            (void)!write(ends[1], path, sizeof path);
            for (;;) pause();
        }
        close(ends[1]);
        assert_int_equal(read(ends[0], path, sizeof path), sizeof path);
        assert_int_equal(access(path, F_OK), 0);
        kill(child, ending[i]);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == ending[i]);
        *strrchr(path, '/') = '\0';
        assert_int_equal(access(path, F_OK), -1);
        close(ends[0]);
    }
}

/* Signals end the process again once the directory is removed. */
static void test_a_guard_ends_with_its_directory(void **state) {
    (void)state;
    struct aorta_temporary directory;
    sigset_t before, after;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    check_ok(aorta_temporary_make("aorta-test-", &directory));
    check_ok(aorta_temporary_guard(&directory));
    aorta_temporary_remove(&directory);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    assert_int_equal(sigismember(&after, SIGTERM), sigismember(&before, SIGTERM));
    assert_int_equal(access(directory.path, F_OK), -1);
}

static void test_nothing_came(void **state) {
    (void)state;
    int notes = -1;
    struct aorta_signals *signals;
    check_ok(aorta_signals_begin(note, &notes, &signals));
    check_ok(aorta_signals_check(signals));
    assert_int_equal(aorta_signals_get(signals), 0);
    aorta_signals_end(signals);
    check_ok(aorta_signals_check(NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_second_ends_at_once),
        cmocka_unit_test(test_first_is_asked_for),
        cmocka_unit_test(test_first_ends_at_once),
        cmocka_unit_test(test_ignored_stays_ignored),
        cmocka_unit_test(test_a_guarded_directory_goes_with_its_process),
        cmocka_unit_test(test_a_guard_ends_with_its_directory),
        cmocka_unit_test(test_nothing_came),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
