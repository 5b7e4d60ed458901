/* Files first, then the terminal: where nothing can be printed, each command ends with exit code 1, and its files are
 * whole. */
#include "base/files.h"
#include "check.h"
#include "place.h"
#include "report/page.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ZERO TRACE_DATA "/fsdp2_rank0.json"
#define ONE TRACE_DATA "/fsdp2_rank1.json"
#define TRAIN                                                                                                          \
    "train --override training.output_dir=%s training.max_steps=4 training.batch_size=2 dataset.num_samples=64 "       \
    "dataset.vocab_size=64 model.num_layers=1 model.model_dim=16 model.num_heads=2 model.mlp_hidden_dim=16 "           \
    "model.vocab_size=64 model.embedding_dim=8"

static const struct {
    const char *words, *file, *part; /* "out" in the words and the file: a new one for each try */
    bool page;                       /* it needs a build with pages */
} commands[] = {
    {"trace merge " ZERO " " ONE " -o out.json", "out.json", "\"traceEvents\"", false},
    {"trace analyze " ZERO " --html out.html", "out.html", "</html>", true},
    {"trace analyze " ZERO " --markdown -o out.json", "out.json", "\"schema_version\"", false},
    {"trace analyze " ZERO " --json --csv out", "out/collectives.csv", "all_gather", false},
    {"trace compare " ZERO " " ONE " --markdown --csv out", "out/categories.csv", "collective", false},
    {"trace compare " ZERO " " ONE " --html out.html", "out.html", "</html>", true},
    {"trace run --tool cuda --json -o out -- true", "out/analysis.json", "\"schema_version\"", false},
    {"whatif " ZERO " " ONE " --html out.html", "out.html", "</html>", true},
    {"hwq run tiny_kernel_stress -d cpu -i 3 -w 0 -o out.json", "out.json", "\"iteration_times_ms\"", false},
    {"hwq sweep tiny_kernel_stress -d cpu -s 1,2 -i 3 -w 0 -o out.json", "out.json", "\"analysis\"", false},
    {"hwq run-priority P2 -d cpu -s 4 -i 1 -w 0 -o out", "out/graph_subgraphs_streams4.json", "\"latency_ms\"", false},
    {"hwq run-priority P3 -d cpu -s 4 -i 1 -w 0 -o out", "out/run_priority.json", "\"facts\"", false},
    {"hwq map -d cpu --streams 2 --copy-streams 0 --comm-streams 0 --copy-mb 0 -o out.json", "out.json",
     "\"queue_count\"", false},
    {"hwq compare -b h.json -t h.json --html out.html", "out.html", "</html>", true},
    {"sdma -d cpu --matrix-size 64 --copy-mb 1 --iterations 2 --html out.html", "out.html", "</html>", true},
    {"report --log-dir run -o out", "out/summary.json", "\"labels\"", false},
    {"sweep -o out --env X=1 --no-baseline --repeats 1 --no-trace -- sh -c 'echo {\\\"step_ms\\\": 5} "
     ">$AORTA_SWEEP_RESULT'",
     "out/sweep.json", "\"best\"", false},
    {"sweep --read swept --html out.html", "out.html", "</html>", true},
};

/* Exit code with this behind the command. */
static int run(const char *words, const char *behind) {
    char command[2048];
    snprintf(command, sizeof command, "rm -rf out out.json out.html; { %s %s; } 2>errors %s", AORTA_PROGRAM, words,
             behind);
    const int status = system(command);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void check_file(size_t i, const char *behind) {
    char *bytes;
    size_t length;
    aorta_status status = aorta_file_read(commands[i].file, &bytes, &length);
    if (status) fail_msg("aorta %s %s: %s", commands[i].words, behind, aorta_status_message(status));
    if (!strstr(bytes, commands[i].part)) fail_msg("aorta %s %s: no %s", commands[i].words, behind, commands[i].part);
    free(bytes);
}

static void test_files_come_first(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (commands[i].page && !aorta_page_available()) continue;
        int code = run(commands[i].words, ">/dev/full");
        const int expected = strncmp(commands[i].words, "trace run", 9) ? 1 : 0; /* there it is the program's */
        if (code != expected) fail_msg("aorta %s >/dev/full: exit code %d", commands[i].words, code);
        check_file(i, ">/dev/full");
        (void)run(commands[i].words, "| true"); /* the shell's code is true's */
        check_file(i, "| true");
    }
}

/* What writes no file says that it could not print, and no more. */
static void test_nothing_can_be_printed(void **state) {
    (void)state;
    static const char *const printing[] = {"help",
                                           "help config",
                                           "help formats",
                                           "--version",
                                           "info",
                                           "info --json",
                                           "hwq list",
                                           "hwq info moe",
                                           "trace watch --help",
                                           "trace compare --help",
                                           "trace compare " ZERO " " ONE " --json",
                                           "whatif " ZERO " " ONE,
                                           "trace run --dry-run -- true",
                                           "trace analyze " ZERO " --by op"};
    for (size_t i = 0; i < sizeof printing / sizeof *printing; i++) {
        char *errors;
        size_t length;
        const int code = run(printing[i], ">/dev/full");
        check_ok(aorta_file_read("errors", &errors, &length));
        if (code != 1 || !strstr(errors, "aorta: cannot write to the standard output: No space left on device\n"))
            fail_msg("aorta %s >/dev/full: exit code %d: %s", printing[i], code, errors);
        free(errors);
    }
}

/* ---- temporary files ---- */

enum { MOST_NAMES = 64 };

struct seen {
    char names[MOST_NAMES][NAME_MAX + 1];
    int count, open; /* `open`: files that not only their owner can read */
};

/* What a command makes in TMPDIR, by the mask of modes that hides nothing. */
static void see_temporaries(const char *words, struct seen *seen) {
    char events[4096] __attribute__((aligned(__alignof__(struct inotify_event)))), command[2048], path[512];
    const int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    assert_true(watch >= 0 && inotify_add_watch(watch, "temporary", IN_CREATE | IN_MOVED_TO) >= 0);
    snprintf(
        command, sizeof command,
        "umask 0; rm -rf out; TMPDIR=$PWD/temporary OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 %s %s "
        ">said 2>&1",
        AORTA_PROGRAM, words);
    const pid_t pid = fork();
    if (pid == 0) _exit(system(command) != 0);
    int status = 0;
    for (bool over = false; !over;) {
        over = waitpid(pid, &status, WNOHANG) == pid;
        const ssize_t length = read(watch, events, sizeof events);
        for (char *at = events; length > 0 && at < events + length;) {
            const struct inotify_event *event = (const void *)at;
            struct stat info;
            snprintf(path, sizeof path, "temporary/%s", event->name);
            at += sizeof *event + event->len;
            if (!strncmp(event->name, "tsan.", 5)) continue; /* of the sanitizer */
            if (seen->count < MOST_NAMES) strcpy(seen->names[seen->count++], event->name);
            if (lstat(path, &info) == 0 && (info.st_mode & 077)) seen->open++;
        }
        if (!over) usleep(500);
    }
    close(watch);
    if (status) fail_msg("aorta %s failed", words);
    if (rmdir("temporary") || mkdir("temporary", 0700)) fail_msg("aorta %s: something is left in TMPDIR", words);
}

/* They are their owner's alone, have another name each time, and are gone afterwards. */
static void test_temporary_files(void **state) {
    (void)state;
    static const struct {
        const char *words;
        bool any;
    } makers[] = {
        {"launch -n 2 -- " AORTA_PROGRAM " hwq run comms_compute_overlap --mm-dim 64 --comm-size 64K -i 2 -w 0", true},
        {"trace analyze packed.tar", true},
        {"trace run --tool cuda -- true", true},
        {"report --log-dir run -o out", false},
        {"sweep -o out --env X=1 --no-baseline --repeats 1 -- sh -c 'echo {\\\"step_ms\\\": 5} "
         ">$AORTA_SWEEP_RESULT'",
         false}};
    assert_int_equal(system("tar -cf packed.tar -C " TRACE_DATA " fsdp2_rank0.json"), 0);
    assert_int_equal(mkdir("temporary", 0700), 0);
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        struct seen first = {0}, again = {0};
        see_temporaries(makers[i].words, &first);
        see_temporaries(makers[i].words, &again);
        assert_int_equal(first.open + again.open, 0);
        assert_int_equal(first.count > 0, makers[i].any);
        for (int a = 0; a < first.count; a++)
            for (int b = 0; b < again.count; b++) assert_string_not_equal(first.names[a], again.names[b]);
    }
    assert_int_equal(rmdir("temporary"), 0);
}

/* ---- pictures ---- */

/* Two names are taken by folders: the other pictures are drawn, both names are reported, the figures are printed. */
static void test_missing_pictures_are_named(void **state) {
    (void)state;
    if (system("gnuplot --version >/dev/null 2>&1")) skip();
    char *output;
    size_t length;
    assert_int_equal(system("mkdir -p pictures/run_timeline.png pictures/overlap_ratio.png"), 0);
    const int status = system(AORTA_PROGRAM " report --log-dir run -o pictures >said 2>&1");
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    check_ok(aorta_file_read("said", &output, &length));
    static const char *const parts[] = {
        "pictures are missing: ", "pictures/run_timeline.png: ", "pictures/overlap_ratio.png: ", "Verdict: ",
        "pictures/overlap_breakdown.png\n"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(output, parts[i])) fail_msg("no \"%s\" in:\n%s", parts[i], output);
    free(output);
    assert_int_equal(access("pictures/overlap_breakdown.png", R_OK), 0);
    assert_int_equal(access("pictures/summary.json", R_OK), 0);
}

/* ---- folders of other kinds ---- */

static void expect(const char *words, int expected, const char *part) {
    char command[1024], *output;
    size_t length;
    snprintf(command, sizeof command, "%s %s >said 2>&1", AORTA_PROGRAM, words);
    const int status = system(command);
    check_ok(aorta_file_read("said", &output, &length));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != expected || !strstr(output, part))
        fail_msg("aorta %s: status %x, or no \"%s\" in:\n%s", words, (unsigned)status, part, output);
    free(output);
}

/* A folder has one page: that of what made it. */
static void test_pages_of_others_stay(void **state) {
    (void)state;
    char words[512];
    expect("report --log-dir run -o reported --no-pictures", 0, "Verdict: ");
    expect("sweep -o run --env X=1 --no-trace -- true", 2,
           "--output: run holds a training run (rank_00_metrics.jsonl), whose page would be replaced; name another");
    expect("sweep -o reported --env X=1 --no-trace -- true", 2, "holds a report (summary.json)");
    expect("report --log-dir run -o swept", 2, "--output: swept holds a sweep (trials.jsonl)");
    snprintf(words, sizeof words, TRAIN, "swept");
    expect(words, 2, "training.output_dir: swept holds a sweep (trials.jsonl)");
    assert_int_equal(system("cp -r run other"), 0);
    expect("report --log-dir run -o other", 2, "--output: other holds a training run");
    expect("report --log-dir run --log-dir other -o other", 2, "--output: other holds a training run");
    expect("report --log-dir run -o ./run/. --no-pictures", 0, "Verdict: ");
    expect("report --log-dir run --log-dir other -o reported --no-pictures", 0, "Verdict: ");
}

/* As long as a sweep runs its folder is its own; what it has can be read. */
static void test_running_sweep(void **state) {
    (void)state;
    char words[512];
    const pid_t sweep = fork();
    if (sweep == 0)
        execl("/bin/sh", "sh", "-c",
              "exec " AORTA_PROGRAM " sweep -o running --env X=1,2 --no-baseline --repeats 1 --no-trace -- sh -c "
              "'[ $X = 1 ] || until [ -e go ]; do sleep 0.1; done; echo {\\\"step_ms\\\": 5} >$AORTA_SWEEP_RESULT' "
              ">running.log 2>&1",
              (char *)NULL);
    for (int i = 0; i < 600 && system("test -s running/trials.jsonl"); i++) usleep(100000);
    expect("sweep --read running --html running/trials.jsonl", 2, "is one of the files to read");
    expect("sweep --read running --csv running", 0, "1 done");
    expect("sweep -o running --env X=1 --no-trace -- true", 2, "another job writes into running: process ");
    expect("sweep -o running --resume --env X=1,2 --no-trace -- true", 2, "another job writes into running: process ");
    expect("report --log-dir run -o running", 2, "--output: running holds a sweep (trials.jsonl)");
    snprintf(words, sizeof words, TRAIN, "running");
    expect(words, 2, "training.output_dir: running holds a sweep (trials.jsonl)");
    int status = -1;
    assert_int_equal(system(": >go"), 0);
    assert_int_equal(waitpid(sweep, &status, 0), sweep);
    if (status) fail_msg("the sweep ended with %x", (unsigned)status);
    expect("sweep --read running", 0, "2 done");
}

/* Threads have as little. With 16 KiB, in which the environment lies too, it is chance whether the loader itself has
 * enough. */
static void test_small_stack(void **state) {
    (void)state;
    for (int limit = 32; limit < 256; limit *= 2) {
        char command[512], expected[256], *output;
        size_t length;
        snprintf(command, sizeof command, "env -i sh -c 'ulimit -s %d; exec " AORTA_PROGRAM " info' >said 2>&1", limit);
        const int status = system(command);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 2);
        check_ok(aorta_file_read("said", &output, &length));
        snprintf(expected, sizeof expected,
                 "aorta: the stack is limited to %d KiB, and at least 256 are needed: ulimit -s 8192\n", limit);
        assert_string_equal(output, expected);
        free(output);
    }
    static const char *const served[] = {"info", "trace analyze " ZERO, "hwq run tiny_kernel_stress -d cpu -i 3 -w 0"};
    for (size_t i = 0; i < sizeof served / sizeof *served; i++) {
        char command[512];
        snprintf(command, sizeof command, "(ulimit -s 256; exec %s %s) >said 2>&1", AORTA_PROGRAM, served[i]);
        if (system(command)) fail_msg("with a stack of 256 KiB: %s", served[i]);
    }
}

/* -q prints the answer alone: line 1 of what the command prints without it. */
static void test_quiet(void **state) {
    (void)state;
    static const struct {
        const char *command, *answer;
    } rows[] = {
        {"trace analyze " ZERO, "Verdict: "},
        {"trace compare " ZERO " " ZERO, "fsdp2_rank0"},
        {"whatif " ZERO " --ranks 2", "On 2 ranks: step "},
        {"report --no-pictures -o reported run", "Verdict: "},
        {"sweep --read swept", "Best of 1 point: "},
        {"hwq compare -b h.json -t h.json", "h.json equals h.json: "},
        {"hwq run tiny_kernel_stress -d cpu -i 3 -w 0", "tiny_kernel_stress: "},
        {"hwq sweep tiny_kernel_stress -d cpu -i 3 -w 0 --streams 1,2", "tiny_kernel_stress: highest throughput with "},
        {"hwq map -d cpu --streams 2 --copy-streams 0 --comm-streams 0 --copy-mb 1", "Queues: no two of 2 streams"},
        {"hwq run-priority P3 -d cpu -i 2 -w 0 --streams 2,4", " ran well"},
        {"hwq run-priority P3 -d cpu -i 2 -w 0 --streams 4", " ran well"},
        {"hwq profile --trace " ZERO, "Queues: 4 streams used an unknown number of queues, busy "},
        {"sdma -d cpu --matrix-size 64 --copy-mb 1 --iterations 3", "verlap"}, /* on a busy host it is "not known" */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char command[512], *output;
        size_t length;
        snprintf(command, sizeof command, AORTA_PROGRAM " %s -q >said 2>said.errors", rows[i].command);
        if (system(command) || system("test -s said.errors") == 0) fail_msg("%s", command);
        check_ok(aorta_file_read("said", &output, &length));
        const char *end = strchr(output, '\n');
        if (end && strncmp(end, "\n  ", 3) == 0 && end[3] != ' ') end = strchr(end + 1, '\n'); /* a long line goes on */
        if (!strstr(output, rows[i].answer) || !end || end[1]) fail_msg("%s printed:\n%s", command, output);
        free(output);
    }
    assert_int_equal(system("test $(wc -l <train.log) -le 2 && grep -q Verdict: train.log && test -s run/index.html"),
                     0);
}

/* ---- the folder ---- */

static int enter(void **state) {
    char command[1024];
    if (place_enter(state)) return 1;
    snprintf(command, sizeof command, AORTA_PROGRAM " " TRAIN " -q >train.log 2>&1", "run");
    if (system(command)) return 1;
    if (system(AORTA_PROGRAM " hwq run tiny_kernel_stress -d cpu -i 3 -w 0 -q -o h.json")) return 1;
    return system(AORTA_PROGRAM " sweep -o swept --env X=1 --no-baseline --repeats 1 --no-trace -- sh -c 'echo "
                                "{\\\"step_ms\\\": 5} >$AORTA_SWEEP_RESULT' >sweep.log 2>&1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_come_first),     cmocka_unit_test(test_nothing_can_be_printed),
        cmocka_unit_test(test_temporary_files),      cmocka_unit_test(test_missing_pictures_are_named),
        cmocka_unit_test(test_pages_of_others_stay), cmocka_unit_test(test_running_sweep),
        cmocka_unit_test(test_small_stack),          cmocka_unit_test(test_quiet)};
    return cmocka_run_group_tests(tests, enter, place_leave);
}
