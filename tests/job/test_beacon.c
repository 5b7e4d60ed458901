#include "check.h"

#include "job/beacon.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static char directory[64];

static int setup(void **state) {
    (void)state;
    strcpy(directory, "/tmp/aorta-beacon-XXXXXX");
    assert_non_null(mkdtemp(directory));
    return 0;
}

static int teardown(void **state) {
    (void)state;
    char path[128];
    snprintf(path, sizeof path, "%s/beacon", directory);
    unlink(path);
    rmdir(directory);
    unsetenv("AORTA_STATE_DIR");
    return 0;
}

static void test_absent(void **state) {
    (void)state;
    struct aorta_beacon *beacon = (void *)1;
    unsetenv("AORTA_STATE_DIR");
    check_ok(aorta_beacon_open(0, &beacon));
    assert_null(beacon);
    aorta_beacon_set(beacon, "nobody hears this");
    aorta_beacon_step(beacon, 3);
    aorta_beacon_failed(beacon);
    aorta_beacon_close(beacon);
}

static void test_said_and_read(void **state) {
    (void)state;
    struct aorta_beacon *rank, *launcher;
    struct aorta_beacon_state seen;
    check_ok(aorta_beacon_create(directory, 3));
    setenv("AORTA_STATE_DIR", directory, 1);
    check_ok(aorta_beacon_open(2, &rank));
    check_ok(aorta_beacon_open_at(directory, 0, &launcher));
    seen = aorta_beacon_read(launcher, 2);
    assert_int_equal(seen.pid, 0);
    assert_int_equal(seen.step, -1);
    assert_string_equal(seen.text, "");
    for (int i = 0; i < 100; i++) {
        char text[32];
        snprintf(text, sizeof text, "operation %d", i);
        aorta_beacon_set(rank, text);
    }
    aorta_beacon_step(rank, 7);
    aorta_beacon_started(rank, 123, 122);
    seen = aorta_beacon_read(launcher, 2);
    assert_string_equal(seen.text, "operation 99");
    assert_int_equal(seen.step, 7);
    assert_int_equal(seen.pid, 123);
    assert_int_equal(seen.group, 122);
    assert_false(seen.ended);
    assert_int_equal(seen.failed_ns, 0);
    aorta_beacon_failed(rank);
    seen = aorta_beacon_read(launcher, 2);
    int64_t first = seen.failed_ns;
    assert_true(first >= seen.reported_ns);
    aorta_beacon_failed(rank);
    seen = aorta_beacon_read(launcher, 2);
    assert_int_equal(seen.failed_ns, first);
    aorta_beacon_ended(rank, 0x900);
    seen = aorta_beacon_read(launcher, 2);
    assert_true(seen.ended);
    assert_int_equal(WEXITSTATUS(seen.wait_status), 9);
    aorta_beacon_close(rank);
    aorta_beacon_close(launcher);
}

static void test_long_text_is_cut(void **state) {
    (void)state;
    char text[300];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    struct aorta_beacon *beacon;
    struct aorta_beacon_state seen;
    check_ok(aorta_beacon_create(directory, 1));
    check_ok(aorta_beacon_open_at(directory, 0, &beacon));
    aorta_beacon_set(beacon, text);
    seen = aorta_beacon_read(beacon, 0);
    assert_int_equal(strlen(seen.text), AORTA_BEACON_TEXT - 1);
    aorta_beacon_close(beacon);
}

/* The text of a killed process stays. */
static void test_survives_kill(void **state) {
    (void)state;
    struct aorta_beacon *beacon;
    struct aorta_beacon_state seen;
    check_ok(aorta_beacon_create(directory, 2));
    pid_t pid = fork();
    if (pid == 0) {
        setenv("AORTA_STATE_DIR", directory, 1);
        if (aorta_beacon_open(1, &beacon)) _exit(1);
        aorta_beacon_set(beacon, "last words");
        kill(getpid(), SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    check_ok(aorta_beacon_open_at(directory, 1, &beacon));
    seen = aorta_beacon_read(beacon, 1);
    assert_string_equal(seen.text, "last words");
    aorta_beacon_close(beacon);
}

static void *talk(void *beacon) {
    for (int i = 0; i < 2000; i++) aorta_beacon_set(beacon, i % 2 ? "aaaaaaaaaaaaaaaa" : "bbbbbbbbbbbbbbbb");
    return NULL;
}

/* Two streams speak at once; the words never mix. */
static void test_two_speakers(void **state) {
    (void)state;
    struct aorta_beacon *beacon;
    check_ok(aorta_beacon_create(directory, 1));
    check_ok(aorta_beacon_open_at(directory, 0, &beacon));
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, talk, beacon), 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    struct aorta_beacon_state seen = aorta_beacon_read(beacon, 0);
    assert_true(!strcmp(seen.text, "aaaaaaaaaaaaaaaa") || !strcmp(seen.text, "bbbbbbbbbbbbbbbb"));
    aorta_beacon_close(beacon);
}

static void test_failures(void **state) {
    (void)state;
    struct aorta_beacon *beacon;
    check_fails(aorta_beacon_open_at("/nonexistent", 0, &beacon), AORTA_IO, "/nonexistent/beacon");
    assert_null(beacon);
    check_ok(aorta_beacon_create(directory, 2));
    check_fails(aorta_beacon_create(directory, 2), AORTA_IO, "exists");
    check_fails(aorta_beacon_open_at(directory, 2, &beacon), AORTA_IO, "no record of rank 2");
    check_fails(aorta_beacon_open_at(directory, -1, &beacon), AORTA_IO, "no record of rank -1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_absent),
        cmocka_unit_test_setup_teardown(test_said_and_read, setup, teardown),
        cmocka_unit_test_setup_teardown(test_long_text_is_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(test_survives_kill, setup, teardown),
        cmocka_unit_test_setup_teardown(test_two_speakers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failures, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
