/* The GPU driver on the fake CUDA: compiled kernels, cached on disk from one process to the next. */
#include "device/gpu/driver.h"
#include "device/gpu_rig.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void empty_cache(void) {
    DIR *directory = opendir(cache_folder());
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", cache_folder(), entry->d_name);
        if (entry->d_name[0] != '.') unlink(path);
    }
    if (directory) closedir(directory);
}

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

static void test_compiled_kernels_are_cached(void **state) {
    (void)state;
    empty_cache();
    struct aorta_gpu_compiler info = prepare_and_close();
    assert_int_equal(info.compiled, 2); /* the driver's own source and this one */
    assert_int_equal(info.from_disk, 0);
    assert_string_equal(info.cache, cache_folder());
    assert_string_equal(info.note, "");
    assert_string_equal(info.version, "NVRTC 13.0");
    info = prepare_and_close();
    assert_int_equal(info.compiled, 0);
    assert_int_equal(info.from_disk, 2);
}

/* Every file is cut, or has a bit turned, or belongs to something else: all are compiled anew. */
static void spoil_files(int how) {
    DIR *directory = opendir(cache_folder());
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory));) {
        char path[1024];
        struct stat status = {0};
        snprintf(path, sizeof path, "%s/%s", cache_folder(), entry->d_name);
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
    snprintf(path, sizeof path, "%s-gone", cache_folder());
    setenv("AORTA_CACHE_DIR", path, 1);
    struct aorta_device *device = open_gpu();
    char command[700];
    snprintf(command, sizeof command, "rm -r %s", path);
    assert_int_equal(system(command), 0);
    struct aorta_gpu_compiler info = prepare_in(device);
    assert_int_equal(info.compiled, 2);
    assert_non_null(strstr(info.note, "not cached"));
    aorta_device_close(device);
}

static void test_the_cache_follows_the_usual_folders(void **state) {
    (void)state;
    char note[256] = "";
    unsetenv("AORTA_CACHE_DIR");
    setenv("XDG_CACHE_HOME", cache_folder(), 1);
    char *found = aorta_gpu_cache_folder(note, sizeof note);
    assert_non_null(found);
    assert_int_equal(strncmp(found, cache_folder(), strlen(cache_folder())), 0);
    assert_string_equal(found + strlen(cache_folder()), "/aorta");
    rmdir(found);
    free(found);
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", cache_folder(), 1);
    found = aorta_gpu_cache_folder(note, sizeof note);
    assert_non_null(strstr(found, "/.cache/aorta"));
    rmdir(found);
    free(found);
}

/* The work of each rank, in its own process. */
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
            execl("/proc/self/exe", "test_gpu_cache", "fill", (char *)NULL);
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

/* Expected sources are compiled once; one that does not compile fails for its users, and an unused one does not fail.
 */
static void test_expected_sources(void **state) {
    (void)state;
    static const struct aorta_gpu_source broken = {"broken.cu", "#error"}, unneeded = {"unneeded.cu", "#error as well"};
    static const struct aorta_gpu_entry entry = {&broken, "broken"};
    const struct aorta_gpu_source *const sources[] = {&broken, add_entry.source, &unneeded};
    for (int again = 0; again < 2; again++) {
        if (!again) empty_cache();
        struct aorta_device *device = open_gpu();
        aorta_gpu_expect(device, sources, sizeof sources / sizeof *sources);
        struct aorta_gpu_compiler info = prepare_in(device);
        assert_int_equal(again ? info.from_disk : info.compiled, 2); /* the driver's own, and this one */
        for (int twice = 0; twice < 2; twice++)                      /* by its thread, then by the caller */
            check_fails(aorta_gpu_prepare(device, &entry), AORTA_DEVICE, "as the source wants it");
        aorta_device_close(device);
    }
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "fill") == 0) return fill_cache();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_compiled_kernels_are_cached, reset_fake),
        cmocka_unit_test_setup(test_spoilt_files_are_compiled_anew, reset_fake),
        cmocka_unit_test_setup(test_without_a_cache_it_works_and_says_so, reset_fake),
        cmocka_unit_test_setup(test_a_cache_that_fails_later_is_noted, reset_fake),
        cmocka_unit_test_setup(test_the_cache_follows_the_usual_folders, reset_fake),
        cmocka_unit_test_setup(test_many_ranks_fill_the_cache_at_once, reset_fake),
        cmocka_unit_test_setup(test_expected_sources, reset_fake),
    };
    return cmocka_run_group_tests(tests, make_cache, remove_cache);
}
