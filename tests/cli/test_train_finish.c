/* What a run of training says after its last step. */
#include "check.h"
#include "cli/cli.h"
#include "job/ranks.h"

/* Somebody removes the run's folder between the last line and the report: no mistake in what the user typed, so that
 * the exit code is 1, and the message names the folder. */
static void the_folder_is_gone(void **state) {
    (void)state;
    const struct aorta_log log = {.level = AORTA_LOG_ERROR, .rank = -1};
    const struct aorta_ranks alone = {.world_size = 1, .local_world_size = 1};
    const struct aorta_train_finish finish = {
        .directory = "/nonexistent/run", .log = &log, .ranks = &alone, .timeout_s = 1, .rank_0 = true, .report = true};
    aorta_status status = aorta_train_finish(&finish);
    assert_non_null(status);
    assert_int_equal(aorta_code_exit(aorta_status_code(status)), 1);
    assert_non_null(strstr(aorta_status_message(status), "/nonexistent/run"));
    assert_non_null(strstr(aorta_status_message(status), "the report is not"));
    aorta_status_free(status);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_folder_is_gone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
