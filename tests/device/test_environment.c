/* The environment of a result: the variables that matter, and the file. */
#include "base/files.h"
#include "check.h"
#include "device/inventory.h"
#include "folder.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static void variables_that_matter(void **state) {
    (void)state;
    static const char *const with[] = {"NCCL_PROTO",        "RCCL_MSCCL_ENABLE",           "HSA_ENABLE_SDMA=0",
                                       "GPU_MAX_HW_QUEUES", "CUDA_DEVICE_MAX_CONNECTIONS", "OMPI_MCA_btl=^tcp"},
                             *const without[] = {"HOME=/root", "OMPI_MCA_ess_base_jobid=1", "RANK=0",
                                                 "GPU_MAX_HW_QUEUES_X", "NCC"};
    for (size_t i = 0; i < sizeof with / sizeof *with; i++) assert_true(aorta_environment_matters(with[i]));
    for (size_t i = 0; i < sizeof without / sizeof *without; i++) assert_false(aorta_environment_matters(without[i]));
}

static const char *text_at(const json_t *root, const char *section, const char *key) {
    return json_string_value(json_object_get(json_object_get(root, section), key));
}

/* aorta {version, commit}, host {name, kernel, …}, device {kind, name}, software {…}, environment {NCCL_PROTO}. */
static void the_file(void **state) {
    (void)state;
    char folder[FOLDER_PATH], path[FOLDER_PATH + 32];
    folder_make(folder, "environment");
    assert_int_equal(setenv("NCCL_PROTO", "LL\"128", 1), 0);
    struct aorta_device *device = NULL;
    struct aorta_environment environment;
    check_ok(aorta_device_open(AORTA_DEVICE_CPU, 0, &device));
    check_ok(aorta_environment_take(device, &environment));
    aorta_environment_add(&environment, "software", "collectives", "mpi Open MPI v4");
    aorta_environment_add(&environment, "software", "none", NULL);
    check_ok(aorta_environment_save(&environment, folder));
    aorta_environment_free(&environment);
    aorta_device_close(device);
    snprintf(path, sizeof path, "%s/%s", folder, aorta_environment_file);
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    assert_string_equal(text_at(root, "environment", "NCCL_PROTO"), "LL\"128");
    assert_string_equal(text_at(root, "software", "collectives"), "mpi Open MPI v4");
    assert_null(text_at(root, "software", "none"));
    assert_string_equal(text_at(root, "device", "kind"), "cpu");
    assert_string_equal(text_at(root, "aorta", "commit"), aorta_commit);
    assert_true(strlen(aorta_commit) >= 7 && strlen(text_at(root, "host", "kernel")) > 0);
    json_decref(root);
    assert_int_equal(unsetenv("NCCL_PROTO"), 0);
    assert_int_equal(folder_remove(folder), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(variables_that_matter), cmocka_unit_test(the_file)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
