#include "base/files.h"
#include "check.h"
#include "folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char directory[FOLDER_PATH]; /* of the test that runs */

static int enter_new_directory(void **state) {
    (void)state;
    folder_make(directory, "files");
    return chdir(directory) == 0 ? 0 : -1;
}

static int remove_directory(void **state) {
    (void)state;
    return chdir("/tmp") == 0 && folder_remove(directory) == 0 ? 0 : -1;
}

static int entries(const char *path) {
    DIR *listed = opendir(path);
    assert_non_null(listed);
    int count = -2; /* "." and ".." */
    while (readdir(listed)) count++;
    closedir(listed);
    return count;
}

static void test_replace_and_read(void **state) {
    (void)state;
    char *bytes;
    size_t length;
    check_ok(aorta_file_replace("a.txt", "one", 3));
    check_ok(aorta_file_replace("a.txt", "a\0b", 3));
    check_ok(aorta_file_read("a.txt", &bytes, &length));
    assert_int_equal(length, 3);
    assert_memory_equal(bytes, "a\0b", 4);
    free(bytes);
    struct stat info;
    mode_t mask = umask(022);
    umask(mask);
    assert_int_equal(stat("a.txt", &info), 0);
    assert_int_equal(info.st_mode & 0777, 0666 & ~mask);
    assert_int_equal(entries("."), 1); /* nothing temporary is left */
    check_ok(aorta_file_replace("empty", "", 0));
    check_ok(aorta_file_read("empty", &bytes, &length));
    assert_int_equal(length, 0);
    assert_string_equal(bytes, "");
    free(bytes);
}

/* Neither a device nor a pipe is replaced by a file. */
static void test_devices_and_pipes_stay(void **state) {
    (void)state;
    struct stat info;
    check_ok(aorta_file_prepare("/dev/null", "--output"));
    check_ok(aorta_file_replace("/dev/null", "gone", 4));
    assert_int_equal(stat("/dev/null", &info), 0);
    assert_true(S_ISCHR(info.st_mode));

    assert_int_equal(mkfifo("pipe", 0600), 0);
    check_fails(aorta_file_replace("pipe", "x", 1), AORTA_IO, "pipe: it is a pipe that nobody reads");
    int reader = open("pipe", O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    check_ok(aorta_file_replace("pipe", "text", 4));
    char bytes[8];
    assert_int_equal(read(reader, bytes, sizeof bytes), 4);
    assert_memory_equal(bytes, "text", 4);
    close(reader);
    assert_int_equal(stat("pipe", &info), 0);
    assert_true(S_ISFIFO(info.st_mode));

    assert_int_equal(symlink("/dev/null", "link"), 0);
    check_ok(aorta_file_replace("link", "gone", 4));
    assert_int_equal(lstat("link", &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(entries("."), 2);
}

/* A link to a file is replaced; the file that it names stays. */
static void test_links_are_not_followed(void **state) {
    (void)state;
    char *bytes;
    size_t length;
    check_ok(aorta_file_replace("target", "old", 3));
    assert_int_equal(symlink("target", "name"), 0);
    check_ok(aorta_file_replace("name", "new", 3));
    check_ok(aorta_file_read("target", &bytes, &length));
    assert_string_equal(bytes, "old");
    free(bytes);
    check_ok(aorta_file_read("name", &bytes, &length));
    assert_string_equal(bytes, "new");
    free(bytes);
}

static void test_standard_output_is_written_on(void **state) {
    (void)state;
    char *bytes;
    size_t length;
    fflush(stdout);
    int saved = dup(STDOUT_FILENO), file = open("out", O_WRONLY | O_CREAT, 0600);
    dup2(file, STDOUT_FILENO);
    aorta_status status = aorta_file_replace("/dev/stdout", "one ", 4);
    if (!status) status = aorta_file_replace("-", "two", 3);
    dup2(saved, STDOUT_FILENO);
    close(saved);
    close(file);
    check_ok(status);
    check_ok(aorta_file_read("out", &bytes, &length));
    assert_string_equal(bytes, "one two");
    free(bytes);
    assert_int_equal(entries("."), 1);
}

static void test_long_file(void **state) {
    (void)state;
    enum { LENGTH = 100001 };
    char *written = malloc(LENGTH), *bytes;
    size_t length;
    assert_non_null(written);
    for (int i = 0; i < LENGTH; i++) written[i] = (char)(i * 7);
    check_ok(aorta_file_replace("long", written, LENGTH));
    check_ok(aorta_file_read("long", &bytes, &length));
    assert_int_equal(length, LENGTH);
    assert_memory_equal(bytes, written, LENGTH);
    free(bytes);
    free(written);
}

static void test_failures_name_path_and_reason(void **state) {
    (void)state;
    char *bytes;
    size_t length;
    check_fails(aorta_file_read("missing", &bytes, &length), AORTA_IO,
                "cannot read missing: No such file or directory");
    assert_null(bytes);
    check_fails(aorta_file_read_small("/dev/zero", 2 << 20, &bytes, &length), AORTA_IO,
                "cannot read /dev/zero: it is larger than 2 MiB");
    check_fails(aorta_file_read("/dev/zero", &bytes, &length), AORTA_IO, "cannot read /dev/zero: it is a device");
    check_fails(aorta_file_read(".", &bytes, &length), AORTA_IO, "cannot read .: Is a directory");
    check_fails(aorta_file_replace("no/such", "x", 1), AORTA_IO, "cannot create no/such: No such file or directory");
    check_ok(aorta_directory_make("taken"));
    check_fails(aorta_file_replace("taken", "x", 1), AORTA_IO, "cannot put taken in its place");
    assert_int_equal(entries("."), 1);
}

static void test_directories(void **state) {
    (void)state;
    check_ok(aorta_directory_make("a/b//c/"));
    check_ok(aorta_directory_make("a/b/c"));
    check_ok(aorta_directory_make("/tmp"));
    assert_int_equal(entries("a/b"), 1);
    check_ok(aorta_file_replace("a/file", "x", 1));
    check_fails(aorta_directory_make("a/file/d"), AORTA_IO, "cannot make the directory a/file");
    /* The reason is why it could not be made, not that it is not there. */
    aorta_status status = aorta_directory_make("/sys/none");
    assert_int_equal(aorta_status_code(status), AORTA_IO);
    assert_null(strstr(aorta_status_message(status), "No such file"));
    aorta_status_free(status);
}

static void test_writable(void **state) {
    (void)state;
    check_ok(aorta_directory_make("here"));
    check_ok(aorta_directory_check_writable("here", "key"));
    check_ok(aorta_directory_check_writable("here/there/", "key"));
    check_ok(aorta_directory_check_writable("new", "key"));
    check_ok(aorta_directory_check_writable(".", "key"));
    assert_int_equal(entries("here"), 0);
    assert_int_equal(entries("."), 1);
    check_ok(aorta_file_replace("file", "x", 1));
    check_fails(aorta_directory_check_writable("file", "training.output_dir"), AORTA_CONFIG,
                "training.output_dir: file is a file, not a directory");
    check_fails(aorta_directory_check_writable("file/sub", "key"), AORTA_CONFIG, "key: ");
    check_fails(aorta_directory_check_writable("", "key"), AORTA_CONFIG, "key: the name of the directory is empty");
    /* a file system that takes no files, for root as well */
    check_fails(aorta_directory_check_writable("/proc", "key"), AORTA_CONFIG,
                "key: the directory /proc is not writable");
    check_fails(aorta_directory_check_writable("/proc/x/y", "key"), AORTA_CONFIG,
                "key: the directory /proc/x/y cannot be made (/proc: ");
}

static void test_prepared(void **state) {
    (void)state;
    check_ok(aorta_file_prepare(NULL, "--output"));
    check_ok(aorta_file_prepare("file", "--output"));
    assert_int_equal(entries("."), 0);
    check_ok(aorta_file_prepare("a/b/file", "--output"));
    check_ok(aorta_file_replace("a/b/file", "x", 1));
    check_ok(aorta_file_prepare("a/b/file", "--output"));
    check_ok(aorta_file_prepare("/file", "--output"));
    check_fails(aorta_file_prepare("a/b", "--output"), AORTA_CONFIG, "--output: a/b is a directory; name a file");
    check_ok(aorta_file_replace("protected", "data", 4)); /* a rename would replace it, whatever its mode */
    assert_int_equal(chmod("protected", 0444), 0);
    check_fails(aorta_file_prepare("protected", "--output"), AORTA_CONFIG,
                "--output: protected is write-protected; name another");
    assert_int_equal(unlink("protected"), 0);
    check_fails(aorta_file_prepare("missing/", "--output"), AORTA_CONFIG, "missing/ is a directory; name a file");
    check_fails(aorta_file_prepare("a/b/file/c", "--output"), AORTA_CONFIG, "a/b/file is a file, not a directory");
}

/* Also by SIGKILL, where the file system has files without a name. */
static void test_a_killed_writer_leaves_nothing(void **state) {
    (void)state;
    int status;
    const int nameless = open(".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
    if (nameless < 0) skip();
    close(nameless);
    check_ok(aorta_file_replace("a.txt", "former", 6));
    const pid_t child = fork();
    if (child == 0) {
        struct aorta_file_writer *writer;
        aorta_status failed = aorta_file_begin("a.txt", &writer);
        if (!failed) failed = aorta_file_append(writer, "half", 4);
        if (failed) _exit(1);
        raise(SIGKILL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(entries("."), 1);
}

static void test_join(void **state) {
    (void)state;
    static const struct {
        const char *directory, *name, *path;
    } cases[] = {{"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"/", "b", "/b"}, {"", "b", "b"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct aorta_file_path path = aorta_path_in(cases[i].directory, "%s", cases[i].name);
        assert_string_equal(path.text, cases[i].path);
    }
    const struct aorta_file_path longer = aorta_path_in("a", "%0*d", 2 * PATH_MAX, 1);
    assert_int_equal(open(longer.text, O_RDONLY), -1);
    assert_int_equal(errno, ENAMETOOLONG);
}

#define in_new_directory(test) cmocka_unit_test_setup_teardown(test, enter_new_directory, remove_directory)

int main(void) {
    const struct CMUnitTest tests[] = {
        in_new_directory(test_replace_and_read),
        in_new_directory(test_long_file),
        in_new_directory(test_failures_name_path_and_reason),
        in_new_directory(test_directories),
        in_new_directory(test_writable),
        in_new_directory(test_prepared),
        in_new_directory(test_devices_and_pipes_stay),
        in_new_directory(test_links_are_not_followed),
        in_new_directory(test_standard_output_is_written_on),
        in_new_directory(test_a_killed_writer_leaves_nothing),
        cmocka_unit_test(test_join),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
