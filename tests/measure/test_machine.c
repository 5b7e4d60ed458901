/* The machine during a program: made-up readings, a made-up /proc, this machine itself, and the fake NVML (FAKE_GPU is
 * its folder). */
#include "base/clock.h"
#include "check.h"
#include "folder.h"
#include "measure/machine.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const int64_t second_ns = 1000000000, begin_ns = 1700000000ll * 1000000000;

/* ---- readings and a sentence ---- */

/* Four processors for ten seconds, a reading each second:
 *
 *   stolen 12% | idle | the program 50% | other programs use the remaining time */
struct story {
    double stolen, idle, own; /* of all processors' time */
    const struct aorta_machine_process *processes;
    size_t process_count;
    double mhz, utilization;
    unsigned limits; /* 1 << enum aorta_clock_limit */
};

static void write_story(const struct story *story, const char *path) {
    const struct aorta_machine_head head = {.host = "node7", .processors = 4};
    struct aorta_text text = {0};
    for (int i = 0; i <= 10; i++) {
        struct aorta_machine_gpu gpus[2] = {0};
        for (int j = 0; j < 2; j++) {
            gpus[j].metrics = aorta_device_unmeasured("");
            gpus[j].metrics.sm_clock_max_mhz = 1980;
            gpus[j].metrics.sm_clock_mhz = j ? story->mhz : 1980;
            gpus[j].metrics.utilization = story->utilization;
            gpus[j].metrics.clock_limits_known = true;
            gpus[j].metrics.clock_limits = j ? story->limits : 0;
            gpus[j].processes_known = true;
        }
        gpus[1].processes = (struct aorta_machine_process *)story->processes;
        gpus[1].process_count = story->process_count;
        const struct aorta_machine_reading reading = {.at_ns = begin_ns + i * second_ns,
                                                      .load = 3.5,
                                                      .total_s = 1000 + 4 * i,
                                                      .idle_s = 500 + 4 * i * story->idle,
                                                      .stolen_s = 7 + 4 * i * story->stolen,
                                                      .own_s = 4 * i * story->own,
                                                      .gpus = gpus,
                                                      .gpu_count = 2};
        aorta_machine_write(&head, &reading, &text);
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text.data, file);
    fclose(file);
    aorta_text_free(&text);
}

/* The sentence about the story; "": none. The caller frees it. */
static void said_of(const struct story *story, struct aorta_text *said, struct aorta_text *json) {
    char folder[FOLDER_PATH], path[64];
    struct aorta_machine machine;
    struct aorta_machine_summary summary;
    struct aorta_json writer;
    folder_make(folder, "machine");
    snprintf(path, sizeof path, "%s/machine.jsonl", folder);
    write_story(story, path);
    check_ok(aorta_machine_read(path, &machine));
    assert_int_equal(machine.count, 11);
    check_ok(aorta_machine_summarise(&machine, begin_ns + 2 * second_ns, begin_ns + 5 * second_ns, &summary));
    assert_int_equal(summary.readings, 4);
    assert_true(fabs(summary.seconds - 3) < 1e-9);
    aorta_text_puts(said, "");
    aorta_machine_disturbed(&summary, said);
    aorta_json_begin(&writer, json, 0);
    aorta_json_object(&writer);
    aorta_machine_json(&summary, &writer);
    aorta_json_object_end(&writer);
    aorta_arena_free(&machine.arena);
    folder_remove(folder);
}

static void check_said(const struct story *story, const char *expected, const char *in_json) {
    struct aorta_text said = {0}, json = {0};
    said_of(story, &said, &json);
    if (!*expected) assert_string_equal(said.data ? said.data : "", "");
    if (*expected && !strstr(said.data ? said.data : "", expected)) fail_msg("%s\nnot in: %s", expected, said.data);
    if (!strstr(json.data, in_json)) fail_msg("%s\nnot in: %s", in_json, json.data);
    aorta_text_free(&said);
    aorta_text_free(&json);
}

static void stolen_processors(void **state) {
    (void)state;
    check_said(&(struct story){.stolen = 0.12, .idle = 0.3, .own = 0.5, .mhz = 1980, .utilization = 1},
               "disturbed: 12% of processor time stolen (node7, 3 s); results may be off",
               "\"stolen_share\": 0.12, \"idle_share\": 0.3, \"own_share\": 0.5, \"others_share\": 0.08");
}

/* Other programs that take half of the machine disturb only if no processor is free. */
static void other_programs(void **state) {
    (void)state;
    check_said(&(struct story){.idle = 0.02, .own = 0.48, .mhz = 1980, .utilization = 1},
               "disturbed: other programs used 2.0 of 4 processors, none was free (", "\"others_share\": 0.5");
    check_said(&(struct story){.idle = 0.4, .own = 0.1, .mhz = 1980, .utilization = 1}, "", "\"disturbed\": null");
}

/* GPU 1 is the program's: one process of its own there, another that works and one that only holds memory. */
static void other_processes_on_the_gpu(void **state) {
    (void)state;
    const struct aorta_machine_process busy[] = {{10, true, 1e9, 0.9}, {4242, false, 2e9, 0.45}, {17, false, 3e8, 0.0}};
    check_said(
        &(struct story){.idle = 0.9, .own = 0.1, .processes = busy, .process_count = 3, .mhz = 1980, .utilization = 1},
        "disturbed: another process (4242) used GPU 1, up to 45% of its multiprocessors' time (node7",
        "\"other_processes\": [{\"pid\": 4242, \"gpu\": 1, \"sm_share\": 0.45, \"memory_bytes\": 2000000000.0}, "
        "{\"pid\": 17");
    check_said(
        &(struct story){
            .idle = 0.9, .own = 0.1, .processes = busy + 2, .process_count = 1, .mhz = 1980, .utilization = 1},
        "", "\"disturbed\": null");
    const struct aorta_machine_process unknown[] = {{10, true, 1e9, 0.9}, {17, false, 3e8, NAN}, {18, false, 3e8, NAN}};
    check_said(
        &(struct story){
            .idle = 0.9, .own = 0.1, .processes = unknown, .process_count = 3, .mhz = 1980, .utilization = 1},
        "disturbed: 2 other processes used GPU 1 (share unknown) (node7", "\"pid\": 18");
}

/* Heat is the machine's; the power limit is what a busy GPU works at. */
static void slow_clocks(void **state) {
    (void)state;
    const struct aorta_machine_process own = {10, true, 1e9, 0.9};
    const struct story hot = {.idle = 0.9,
                              .own = 0.1,
                              .processes = &own,
                              .process_count = 1,
                              .mhz = 1200,
                              .utilization = 1,
                              .limits = 1u << AORTA_CLOCK_HW_THERMAL};
    check_said(&hot, "disturbed: GPU 1 ran at 1200 of 1980 MHz (61%), slowed down by the hardware for heat",
               "\"gpu\": 1, \"clocks\": {\"readings\": 4");
    struct story capped = hot, idle = hot;
    capped.limits = 1u << AORTA_CLOCK_POWER_CAP;
    check_said(&capped, "", "\"disturbed\": null");
    idle.utilization = 0; /* its clock says nothing of the program */
    check_said(&idle, "", "\"clocks\": null");
}

/* ---- files ---- */

static void damaged_files(void **state) {
    (void)state;
    char folder[FOLDER_PATH], path[64];
    struct aorta_machine machine;
    folder_make(folder, "machine");
    snprintf(path, sizeof path, "%s/machine.jsonl", folder);
    static const struct {
        const char *text, *message;
    } cases[] = {{"{\"schema_version\": 1, \"at_ns\": 5}\n{\"at_ns\": 5}\n", "line 2: schema_version"},
                 {"{\"schema_version\": 9, \"at_ns\": 5}\n", "line 1: schema_version is 9; this program reads up to 1"},
                 {"{\"schema_version\": 1}\n", "line 1: at_ns"},
                 {"{\"schema_version\": 1, \"at_ns\": 5, \"gpus\": [{\"processes\": [7]}]}\n", "line 1: "},
                 {"no JSON\n", "line 1: "}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        FILE *file = fopen(path, "w");
        fputs(cases[i].text, file);
        fclose(file);
        check_fails(aorta_machine_read(path, &machine), AORTA_FORMAT, cases[i].message);
    }
    FILE *file = fopen(path, "w"); /* a kill cut the last line off; nothing is known but the moments */
    fputs("{\"schema_version\": 1, \"at_ns\": 5}\n{\"schema_version\": 1, \"at_ns\": 9}\n{\"schema_ver", file);
    fclose(file);
    struct aorta_machine_summary summary;
    struct aorta_text text = {0};
    check_ok(aorta_machine_read(path, &machine));
    assert_int_equal(machine.count, 2);
    check_ok(aorta_machine_summarise(&machine, 0, INT64_MAX, &summary));
    assert_true(isnan(summary.stolen_share) && isnan(summary.others_share) && !summary.gpus_known);
    assert_false(aorta_machine_disturbed(&summary, &text));
    aorta_arena_free(&machine.arena);
    folder_remove(folder);
}

/* ---- this machine ---- */

/* user 100, nice 1, system 20, idle 300, iowait 30, irq 2, softirq 3, stolen 44, guest 50 (in user already). */
static void a_made_up_proc(void **state) {
    (void)state;
    char folder[FOLDER_PATH], path[64];
    struct aorta_machine_reading reading;
    const double tick = 1.0 / (double)sysconf(_SC_CLK_TCK);
    folder_make(folder, "machine");
    aorta_machine_read_proc(folder, &reading);
    assert_true(isnan(reading.total_s) && isnan(reading.load));
    snprintf(path, sizeof path, "%s/stat", folder);
    FILE *file = fopen(path, "w");
    fputs("cpu  100 1 20 300 30 2 3 44 50 0\ncpu0 1 2 3\n", file);
    fclose(file);
    snprintf(path, sizeof path, "%s/loadavg", folder);
    file = fopen(path, "w");
    fputs("5.25 1.00 0.50 3/120 4711\n", file);
    fclose(file);
    aorta_machine_read_proc(folder, &reading);
    assert_true(fabs(reading.total_s - 500 * tick) < 1e-9 && fabs(reading.idle_s - 330 * tick) < 1e-9);
    assert_true(fabs(reading.stolen_s - 44 * tick) < 1e-9 && reading.load == 5.25);
    folder_remove(folder);
}

static void burn(double seconds) {
    while ((double)clock() / CLOCKS_PER_SEC < seconds) {
    }
}

/* The program waits; what it has started takes some 0.6 s of a processor. A stranger takes 0.3. */
static void a_program_and_a_stranger(void **state) {
    (void)state;
    char folder[FOLDER_PATH], path[64];
    struct aorta_machine machine;
    struct aorta_machine_summary summary;
    struct aorta_machine_watch *watch;
    folder_make(folder, "machine");
    snprintf(path, sizeof path, "%s/machine.jsonl", folder);
    pid_t stranger = fork();
    if (stranger == 0) {
        burn(0.3);
        _exit(0);
    }
    pid_t program = fork();
    if (program == 0) {
        if (fork() == 0) {
            burn(3);
            pause();
        }
        pause();
    }
    unsetenv("AORTA_LIBRARY_PATH");
    check_ok(aorta_machine_watch_open(path, program, true, &watch));
    check_ok(aorta_machine_watch_start(watch));
    waitpid(stranger, NULL, 0);
    int64_t pids[16];
    size_t count = 0;
    const double first_s = aorta_machine_tree(program, pids, 16, &count); /* not before the first reading */
    double own_s = first_s;
    const int64_t begin = aorta_clock_ns();
    /* Shares need readings that are a second apart. */
    while (own_s < first_s + 0.6 || count < 2 || aorta_clock_ns() < begin + second_ns * 6 / 5) {
        usleep(10000);
        own_s = aorta_machine_tree(program, pids, 16, &count);
        assert_true(!isnan(own_s) && aorta_clock_ns() < begin + 60 * second_ns);
    }
    assert_int_equal(count, 2);
    aorta_machine_watch_close(watch, NAN);
    kill((pid_t)pids[1], SIGKILL);
    kill(program, SIGKILL);
    waitpid(program, NULL, 0);
    check_ok(aorta_machine_read(path, &machine));
    check_ok(aorta_machine_summarise(&machine, 0, INT64_MAX, &summary));
    const double all_s = machine.readings[machine.count - 1].total_s - machine.readings[0].total_s;
    assert_true(summary.own_share * all_s >= 0.4 && summary.own_share <= 1);
    assert_true(summary.others_share >= 0 && summary.stolen_share >= 0 && summary.stolen_share <= 1);
    assert_true(summary.load > 0);
    assert_non_null(strstr(machine.gpu_reason, "libnvidia-ml.so.1"));
    aorta_arena_free(&machine.arena);
    folder_remove(folder);
}

/* Our own process and a stranger's on the fake GPU, whose clock is hot. */
static void a_gpu_with_two_processes(void **state) {
    (void)state;
    char folder[FOLDER_PATH], path[64], processes[64];
    struct aorta_machine machine;
    struct aorta_machine_summary summary;
    struct aorta_machine_watch *watch;
    struct aorta_text text = {0};
    folder_make(folder, "machine");
    snprintf(path, sizeof path, "%s/machine.jsonl", folder);
    setenv("AORTA_LIBRARY_PATH", FAKE_GPU, 1);
    pid_t stranger = fork();
    if (stranger == 0) pause();
    snprintf(processes, sizeof processes, "%d:512:80,%d:1024:45", (int)getpid(), (int)stranger);
    setenv("FAKE_NVML_PROCESSES", processes, 1);
    setenv("FAKE_NVML_CLOCK", "990", 1);
    setenv("FAKE_NVML_REASONS", "64", 1);
    check_ok(aorta_machine_watch_open(path, getpid(), false, &watch));
    aorta_machine_watch_close(watch, NAN);
    kill(stranger, SIGKILL);
    waitpid(stranger, NULL, 0);
    unsetenv("FAKE_NVML_PROCESSES");
    check_ok(aorta_machine_read(path, &machine));
    check_ok(aorta_machine_summarise(&machine, 0, INT64_MAX, &summary));
    /* A child of ours is our own by the tree; it is foreign only in another process's tree. */
    assert_int_equal(machine.readings[0].gpu_count, 2);
    assert_int_equal(machine.readings[0].gpus[0].process_count, 2);
    assert_true(machine.readings[0].gpus[0].processes[0].own && machine.readings[0].gpus[0].processes[1].own);
    assert_true(machine.readings[0].gpus[0].processes[1].sm_share == 0.45);
    assert_true(machine.readings[0].gpus[0].processes[1].memory_bytes == 1024.0 * 1048576);
    assert_true(aorta_machine_disturbed(&summary, &text));
    assert_non_null(strstr(text.data, "GPU 0 ran at 990 of 1980 MHz (50%), slowed down by the hardware for heat"));
    aorta_text_free(&text);
    aorta_arena_free(&machine.arena);
    folder_remove(folder);
}

/* Processes that were there before the program: 1, which exists here, and one that only the host knows. */
static void strangers_from_before(void **state) {
    (void)state;
    char folder[FOLDER_PATH], path[64];
    struct aorta_machine machine;
    struct aorta_machine_watch *watch;
    folder_make(folder, "machine");
    snprintf(path, sizeof path, "%s/machine.jsonl", folder);
    setenv("FAKE_NVML_PROCESSES", "4190001:512:80,1:1:", 1);
    pid_t program = fork();
    if (program == 0) pause();
    check_ok(aorta_machine_watch_open(path, program, true, &watch));
    setenv("FAKE_NVML_PROCESSES", "4190001:512:80,1:1:,4190002:64:5", 1); /* the program's, as the host names it */
    aorta_machine_watch_close(watch, 0.5);
    kill(program, SIGKILL);
    waitpid(program, NULL, 0);
    check_ok(aorta_machine_read(path, &machine));
    const struct aorta_machine_reading *last = &machine.readings[machine.count - 1];
    assert_true(last->own_s == 0.5);
    assert_int_equal(last->gpus[0].process_count, 3);
    assert_false(last->gpus[0].processes[0].own);
    assert_false(last->gpus[0].processes[1].own);
    assert_true(isnan(last->gpus[0].processes[1].sm_share));
    assert_true(last->gpus[0].processes[2].own);
    assert_int_equal(last->gpus[1].process_count, 0);
    unsetenv("FAKE_NVML_PROCESSES");
    aorta_arena_free(&machine.arena);
    folder_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stolen_processors),
        cmocka_unit_test(other_programs),
        cmocka_unit_test(other_processes_on_the_gpu),
        cmocka_unit_test(slow_clocks),
        cmocka_unit_test(damaged_files),
        cmocka_unit_test(a_made_up_proc),
        cmocka_unit_test(a_program_and_a_stranger),
        cmocka_unit_test(a_gpu_with_two_processes),
        cmocka_unit_test(strangers_from_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
