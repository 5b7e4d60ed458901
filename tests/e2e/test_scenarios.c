/* Contention scenarios whose effect is seen in the process itself, not in its files. */
#include "check.h"
#include "run.h"

#include <dirent.h>
#include <math.h>
#include <sched.h>
#include <signal.h>

/* The processors that a rank's thread of this name may run on; false when there is no such thread. */
static bool find_processors(pid_t process, const char *name, cpu_set_t *set) {
    char folder[64], path[400], text[64];
    bool found = false;
    snprintf(folder, sizeof folder, "/proc/%d/task", (int)process);
    DIR *threads = opendir(folder);
    assert_non_null(threads);
    for (struct dirent *entry; !found && (entry = readdir(threads));) {
        snprintf(path, sizeof path, "%s/%s/comm", folder, entry->d_name);
        FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "r");
        if (!file) continue;
        bool read = fgets(text, sizeof text, file) != NULL;
        fclose(file);
        text[strcspn(text, "\n")] = '\0';
        found = read && strcmp(text, name) == 0 &&
                sched_getaffinity((pid_t)strtol(entry->d_name, NULL, 10), sizeof *set, set) == 0;
    }
    closedir(threads);
    return found;
}

static void test_compute_keeps_to_its_processors(void **state) {
    (void)state;
    struct e2e_run run;
    e2e_start(&run, 2, "workload.occupancy_cap=0.5 training.max_steps=null training.epochs=100000");
    cpu_set_t own[2] = {0}, other, all, both;
    for (int rank = 0; rank < 2; rank++) e2e_wait_for_lines(&run, rank, 3);
    for (int rank = 0; rank < 2; rank++) {
        pid_t process = e2e_rank_pid(&run, rank);
        assert_int_equal(sched_getaffinity(process, sizeof all, &all), 0);
        assert_true(find_processors(process, "compute", &own[rank]));
        assert_true(find_processors(process, "aux", &other));
        assert_int_equal(CPU_COUNT(&own[rank]), (int)ceil(0.5 * CPU_COUNT(&all)));
        assert_true(CPU_EQUAL(&other, &all));
    }
    CPU_OR(&both, &own[0], &own[1]);
    assert_int_equal(CPU_COUNT(&both), CPU_COUNT(&all)); /* two halves, not one twice */
    kill(run.pid, SIGINT);
    e2e_finish(&run);
    e2e_free(&run);
}

/* The cap, and everything else together, changes when things run, not what comes out. */
static void test_results_stay(void **state) {
    (void)state;
    struct e2e_run plain, capped;
    e2e_train_well(&plain, 2, 6, "");
    e2e_train_well(&capped, 2, 6,
                   "workload.occupancy_cap=0.3 workload.gemm_chunks=3 workload.async_wait=true compile.enabled=true");
    for (size_t step = 0; step < 6; step++) {
        double expected = e2e_mean_loss(&plain, step), loss = e2e_mean_loss(&capped, step);
        if (fabs(loss - expected) > 1e-5 * fabs(expected))
            fail_msg("step %zu: loss %.9g, not %.9g", step, loss, expected);
    }
    e2e_free(&capped);
    e2e_free(&plain);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compute_keeps_to_its_processors),
        cmocka_unit_test(test_results_stay),
    };
    return cmocka_run_group_tests(tests, e2e_open, e2e_close);
}
