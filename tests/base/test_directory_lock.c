/* One job at a time in a directory: another process is refused with the holder's name, until that ends in any way. */
#include "base/directories.h"
#include "check.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char root[] = "/tmp/aorta_lock_XXXXXX", directory[64], path[96];

static int make_root(void **state) {
    (void)state;
    snprintf(directory, sizeof directory, "%s/a/b", mkdtemp(root));
    snprintf(path, sizeof path, "%s/.aorta.lock", directory);
    return 0;
}

static int remove_root(void **state) {
    (void)state;
    char parent[64];
    snprintf(parent, sizeof parent, "%s/a", root);
    return rmdir(parent) | rmdir(root);
}

/* A process that holds the lock until it is killed. */
static pid_t start_holder(void) {
    int ends[2];
    char ready;
    assert_int_equal(pipe(ends), 0);
    pid_t holder = fork();
    if (!holder) {
        struct aorta_directory_lock *lock;
        aorta_status status = aorta_directory_lock(directory, "output", &lock);
        if (status || write(ends[1], "r", 1) != 1) _exit(1);
        for (;;) pause();
    }
    assert_int_equal(read(ends[0], &ready, 1), 1);
    close(ends[0]);
    close(ends[1]);
    return holder;
}

static void one_at_a_time(void **state) {
    (void)state;
    struct aorta_directory_lock *lock;
    char holder[64];
    pid_t other = start_holder();
    snprintf(holder, sizeof holder, ": process %ld on ", (long)other);
    check_fails(aorta_directory_lock(directory, "output", &lock), AORTA_CONFIG, holder);
    assert_null(lock);
    check_fails(aorta_directory_lock(directory, "output", &lock), AORTA_CONFIG, "test_directory_lock");
    assert_int_equal(kill(other, SIGKILL), 0);
    assert_int_equal(waitpid(other, NULL, 0), other);
    assert_int_equal(access(path, F_OK), 0); /* its file is there, its lock is not */
    check_ok(aorta_directory_lock(directory, "output", &lock));
    check_fails(aorta_directory_lock(directory, "output", &(struct aorta_directory_lock *){NULL}), AORTA_CONFIG,
                "another job writes into");
    aorta_directory_unlock(lock);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(rmdir(directory), 0); /* it was there before */
}

/* A lock with an empty file, as from a disk that was full: the message names the place to look. */
static void holder_without_a_name(void **state) {
    (void)state;
    struct aorta_directory_lock *lock;
    const pid_t other = start_holder();
    assert_int_equal(truncate(path, 0), 0);
    check_fails(aorta_directory_lock(directory, "output", &lock), AORTA_CONFIG, "it has not said which (fuser -v ");
    check_fails(aorta_directory_lock(directory, "output", &lock), AORTA_CONFIG,
                "/.aorta.lock names it); wait for its end, or choose another directory");
    assert_int_equal(kill(other, SIGKILL), 0);
    assert_int_equal(waitpid(other, NULL, 0), other);
    assert_int_equal(unlink(path) | rmdir(directory), 0);
}

/* `aorta trace run` has the lock of a directory into which the program that it runs writes too. */
static void child_of_the_holder(void **state) {
    (void)state;
    struct aorta_directory_lock *lock;
    check_ok(aorta_directory_lock(directory, "output", &lock));
    pid_t child = fork();
    if (!child) {
        pid_t grandchild = fork();
        int ended = 1;
        if (grandchild) _exit(waitpid(grandchild, &ended, 0) == grandchild && ended == 0 ? 0 : 1);
        struct aorta_directory_lock *none = lock;
        aorta_status status = aorta_directory_lock(directory, "output", &none);
        _exit(status || none ? 1 : 0);
    }
    int ended = 1;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(ended, 0);
    aorta_directory_unlock(lock);
    assert_int_equal(access(path, F_OK), -1);
}

/* The lock removes what it made, unless something was written there. */
static void leaves_nothing(void **state) {
    (void)state;
    struct aorta_directory_lock *lock;
    struct stat info;
    check_ok(aorta_directory_lock(directory, "output", &lock));
    aorta_directory_unlock(lock);
    assert_int_equal(stat(directory, &info), -1);
    check_ok(aorta_directory_lock(directory, "output", &lock));
    char written[96];
    snprintf(written, sizeof written, "%s/file", directory);
    fclose(fopen(written, "w"));
    aorta_directory_unlock(lock);
    assert_int_equal(unlink(written), 0);
    assert_int_equal(rmdir(directory), 0);
    aorta_directory_unlock(NULL);
}

/* A directory that was removed and made by somebody else stays theirs. */
static void removed(void **state) {
    (void)state;
    struct aorta_directory_lock *lock;
    check_ok(aorta_directory_lock(directory, "output", &lock));
    assert_int_equal(unlink(path) | rmdir(directory), 0);
    pid_t other = start_holder();
    aorta_directory_unlock(lock);
    assert_int_equal(access(path, F_OK), 0);
    check_fails(aorta_directory_lock(directory, "output", &lock), AORTA_CONFIG, "another job");
    assert_int_equal(kill(other, SIGKILL), 0);
    assert_int_equal(waitpid(other, NULL, 0), other);
    assert_int_equal(unlink(path) | rmdir(directory), 0);
    assert_int_equal(mkdir(directory, 0700) | symlink("/etc/passwd", path), 0);
    check_fails(aorta_directory_lock(directory, "output", &lock), AORTA_IO, ".aorta.lock");
    assert_int_equal(unlink(path) | rmdir(directory), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_at_a_time),
        cmocka_unit_test(holder_without_a_name),
        cmocka_unit_test(child_of_the_holder),
        cmocka_unit_test(leaves_nothing),
        cmocka_unit_test(removed),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
