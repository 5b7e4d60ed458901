/* Recordings that are evaluated window by window, while the program runs: `aorta trace run --every`, `trace watch`. */
#include "base/files.h"
#include "check.h"
#include "shell.h"

#include <dirent.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void nap(int ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* The lines of a file of windows; the caller ends the array. */
static json_t *read_lines(const struct shell *shell, const char *name) {
    char *text = shell_read(shell, name);
    json_t *lines = json_array();
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        json_error_t error;
        json_t *object = json_loads(line, 0, &error);
        if (!object) fail_msg("no JSON: %s: %s", error.text, line);
        json_array_append_new(lines, object);
    }
    free(text);
    return lines;
}

static double number(const json_t *line, const char *key) {
    return json_number_value(json_object_get(line, key));
}

/* Windows of 2 s; the steps of 10 ms take 13 from second 5 on, as rank 1 is late by 3 ms:
 *
 *   |  2  |  4  |  6  |  8  |  10
 *   | 10  | 10  |10/13| 13  | 13      the first whole window with it is the second one after the change */
static void a_planted_change_is_named_within_two_windows(void **state) {
    struct shell *shell = *state;
    shell_run(shell, "LIVE_RANKS=2 LIVE_LATE=1 LIVE_CHANGE=7 $A trace run --every 2 --json-lines w.jsonl "
                     "--prometheus w.prom --tensorboard board -- $P live-ranks 13; ls board");
    shell_expect(shell, 0, "", "rank 1 is late by ");
    shell_expect(shell, 0, "", "a step takes 13 ms (before: 10)");
    shell_expect(shell, 0, "events.out.tfevents.", "");
    json_t *lines = read_lines(shell, "w.jsonl");
    size_t changed = 0, first_slow = 0;
    for (size_t i = 0; i < json_array_size(lines); i++) {
        const json_t *line = json_array_get(lines, i);
        const char *change = json_string_value(json_object_get(line, "change"));
        if (!first_slow && number(line, "step_ms") > 10.1) first_slow = i;
        if (!changed && change && strstr(change, "rank 1 is late by")) changed = i;
        assert_true(number(line, "lost_records") == 0);
        assert_true(number(line, "steps") < 210); /* of this window alone */
    }
    assert_true(json_array_size(lines) >= 5 && first_slow >= 2);
    assert_true(changed >= first_slow && changed <= first_slow + 1);
    const json_t *last = json_array_get(lines, json_array_size(lines) - 2);
    assert_true(number(last, "step_p50_ms") == 13 && number(last, "ranks") == 2);
    json_decref(lines);
    char *gauges = shell_read(shell, "w.prom");
    assert_non_null(strstr(gauges, "\naorta_ranks 2\n"));
    free(gauges);
}

static size_t spools_in(const char *directory) {
    size_t count = 0;
    DIR *folder = opendir(directory);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        if (strncmp(entry->d_name, "window-", 7) == 0) count += spools_in(path);
        if (strstr(entry->d_name, ".spool")) count++;
    }
    if (folder) closedir(folder);
    return count;
}

/* The folder holds the window that is written, the one before and the one that is evaluated; one or two more where a
 * machine is so slow that evaluating takes longer than a window. */
static void windows_are_let_go(void **state) {
    struct shell *shell = *state;
    char directory[256];
    size_t most = 0;
    pid_t pid = shell_start(shell, "$A trace run --every 1 -o rec -- $P live 9");
    snprintf(directory, sizeof directory, "%s/rec", shell->directory);
    for (int i = 0; i < 90; i++, nap(100)) {
        const size_t count = spools_in(directory);
        if (count > most) most = count;
    }
    shell_finish(shell, pid);
    shell_expect(shell, 0, "", "Verdict: ");
    assert_in_range(most, 1, 5);
    assert_int_equal(spools_in(directory), 1); /* the last one stays in a directory of the user's */
    shell_run(shell, "$A trace analyze -q rec/window-*");
    shell_expect(shell, 0, "Verdict: ", "");
}

/* The answer alone: headlines and changes, without tables, notes and windows that are as before. */
static void a_quiet_watch_prints_headlines(void **state) {
    struct shell *shell = *state;
    shell_run(shell,
              "$A trace run -q --every 1 -o w -- $P live 5 2>run; $A trace run --every 1 --into v -- $P live 5 && "
              "$A trace watch -q --once v 2>watch; grep -vc 'Verdict: \\|: since ' run watch; cat run watch >&2");
    shell_expect(shell, 0, "run:0\nwatch:0\n", "aorta trace run: ");
    shell_expect(shell, 0, "", "aorta trace watch: ");
}

/* Two recorders, as on two nodes, and a watch over the folder that they share; rank 2 of the second is killed. */
static void a_watch_evaluates_all_nodes_and_names_the_dead(void **state) {
    struct shell *shell = *state;
    shell_run(shell, "B=$(date +%s)000000000; export WORLD_SIZE=4;"
                     "for r in 0 1 3; do LIVE_BASE=$B RANK=$r $A trace run --every 1 --into w -- $P live 8 & done;"
                     "LIVE_BASE=$B RANK=2 LIVE_CHANGE=4 LIVE_DIES=2 $A trace run --every 1 --into w -- $P live 8 &"
                     "$A trace watch w --grace 2 --json-lines w.jsonl 2>watch; code=$?; wait; exit $code");
    shell_expect(shell, 0, "", "");
    char *words = shell_read(shell, "watch");
    if (!strstr(words, "aorta trace watch: rank 2, process ") || !strstr(words, "it was killed, or its node died"))
        fail_msg("nobody is named in: %s", words);
    assert_null(strstr(words, "rank 1, process")); /* the other ranks ended on their own */
    free(words);
    json_t *lines = read_lines(shell, "w.jsonl");
    int four = 0, three = 0;
    for (size_t i = 0; i < json_array_size(lines); i++) {
        four += number(json_array_get(lines, i), "ranks") == 4;
        three += number(json_array_get(lines, i), "ranks") == 3;
    }
    assert_true(four >= 2 && three >= 2);
    json_decref(lines);
    char directory[256];
    snprintf(directory, sizeof directory, "%s/w", shell->directory);
    assert_in_range(spools_in(directory), 1, 8);
}

static void what_does_not_fit_windows_is_refused(void **state) {
    struct shell *shell = *state;
    static const struct {
        const char *words, *message;
    } rows[] = {
        {"--prometheus f", "--prometheus is for windows: give --every SECONDS too"},
        {"--every 0.5", "--every 0.5: a window lasts at least 1 second"},
        {"--every 2 --json", "--json-lines FILE has a line for each window"},
        {"--every 2 --into w --json-lines f", "--into leaves analyzing to `aorta trace watch DIR`"},
        {"--tool rocm --every 2", "--every is for CUDA"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char words[256];
        snprintf(words, sizeof words, "$A trace run %s -- $P normal", rows[i].words);
        shell_run(shell, words);
        shell_expect(shell, 2, "", rows[i].message);
    }
    shell_run(shell, "$A trace watch");
    shell_expect(shell, 2, "", "name one folder of windows");
    shell_run(shell, "$A trace run --every 1 -- $P without-cuda 7");
    shell_expect(shell, 7, "nothing to do with GPUs", "no GPU activity was recorded: no process of the program");
    shell_run(shell, "mkdir e && $A trace watch e --once");
    shell_expect(shell, 1, "", "aorta: e holds no window; aorta trace run --every SECONDS --into e writes them");
}

/* A shared folder: a pipe among the spools is not waited for, a link to a folder is neither followed nor emptied. */
static void a_watch_leaves_alone_what_is_not_its_own(void **state) {
    struct shell *shell = *state;
    shell_run(
        shell,
        "$A trace run --every 1 --into w -- $P live 3 && mkdir other && cp $(ls -d w/window-*|head -1)/*.spool "
        "other && ln -s $PWD/other w/window-1000-1000 && mkfifo $(ls -d w/window-1[0-9][0-9]*|head -1)/x.spool && "
        "timeout -k 1 20 $A trace watch w --once; code=$?; ls other; exit $code");
    shell_expect(shell, 0, ".spool", "Verdict: ");
}

static void a_folder_may_have_any_name(void **state) {
    struct shell *shell = *state;
    shell_run(shell, "$A trace run --every 1 --into 'w[1]*' -- $P live 3 && $A trace watch 'w[1]*' --once");
    shell_expect(shell, 0, "", "Verdict: ");
}

/* The folder is listed once, not once for each window. Names whose times cannot be are no windows. */
static void a_watch_of_many_windows_takes_linear_time(void **state) {
    struct shell *shell = *state;
    shell_run(shell,
              "mkdir w && (cd w && seq -f window-%.0f000-1000 100001 102000 | xargs mkdir) && "
              "mkdir w/window-9223372036854775807-1000 w/window-9223372036854775-9223372036854775807 "
              "w/window-9223372036855-1000 && "
              "timeout 60 $A trace watch w --once --json-lines w.jsonl 2>said; code=$?; wc -l <w.jsonl; exit $code");
    shell_expect(shell, 0, "2000\n", "");
}

/* A failed write is reported at once, and gives the exit code at the end; the other files are whole. */
static void a_watch_that_cannot_write_fails(void **state) {
    struct shell *shell = *state;
    shell_run(shell, "$A trace run --every 1 --into w -- $P live 3 && cp -r w v && cp -r w u && "
                     "{ $A trace watch w --once --json-lines /dev/full --prometheus w.prom; echo $?; "
                     "$A trace watch v --once --prometheus /dev/full --json-lines v.jsonl; echo $?; "
                     "$A trace watch u --once 2>/dev/full; echo $?; }");
    shell_expect(shell, 0, "1\n1\n1\n", "aorta: --json-lines /dev/full: No space left on device\n");
    shell_expect(shell, 0, "", "aorta: cannot write /dev/full: No space left on device\n");
    json_t *lines = read_lines(shell, "v.jsonl");
    assert_true(json_array_size(lines) >= 3);
    json_decref(lines);
    assert_true(shell_has(shell, "w.prom"));
}

/* Two signals end a watch at once, one after the window at hand. */
static void a_watch_ends_by_signals(void **state) {
    struct shell *shell = *state;
    for (int made = 0; made < 2; made++) { /* the program that makes the folder may start later */
        shell_run(shell, made ? "mkdir w; $A trace watch w & sleep 1; kill -TERM $!; wait $!"
                              : "$A trace watch x & sleep 1; kill -TERM $!; wait $!");
        shell_expect(shell, 0, "",
                     made ? "aorta trace watch: waiting for windows of aorta trace run --every SECONDS "
                            "--into w\n"
                          : "--into x\n");
    }
}

/* The job file for several nodes; srun is a stand-in that runs the command on two "nodes". */
static void a_job_of_slurm_is_watched(void **state) {
    struct shell *shell = *state;
    shell_run(shell, "mkdir bin && ln -s $A bin/aorta && cat >bin/srun <<'E'\n"
                     "#!/bin/sh\n"
                     "shift; export WORLD_SIZE=2 LIVE_BASE=$(date +%s)000000000\n"
                     "RANK=0 \"$@\" & RANK=1 \"$@\" & wait $!; code=$?; wait; exit $code\n"
                     "E\n"
                     "chmod +x bin/srun; export PATH=$PWD/bin:$PATH AORTA_EVERY=1 SLURM_JOB_ID=7;"
                     "\"$SCRIPTS/slurm/trace_run.sbatch\" $P live 4 && ls; \"$SCRIPTS/slurm/trace_run.sbatch\"");
    shell_expect(shell, 2, "aorta-windows-7.jsonl", "trace_run.sbatch: no program");
    shell_expect(shell, 2, "aorta-windows-7.prom", "aorta trace watch: ");
    json_t *lines = read_lines(shell, "aorta-windows-7.jsonl");
    int both = 0;
    for (size_t i = 0; i < json_array_size(lines); i++) both += number(json_array_get(lines, i), "ranks") == 2;
    assert_true(both >= 2);
    json_decref(lines);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SHELL_TEST(a_planted_change_is_named_within_two_windows),
        SHELL_TEST(windows_are_let_go),
        SHELL_TEST(a_quiet_watch_prints_headlines),
        SHELL_TEST(a_watch_evaluates_all_nodes_and_names_the_dead),
        SHELL_TEST(a_job_of_slurm_is_watched),
        SHELL_TEST(what_does_not_fit_windows_is_refused),
        SHELL_TEST(a_watch_leaves_alone_what_is_not_its_own),
        SHELL_TEST(a_folder_may_have_any_name),
        SHELL_TEST(a_watch_of_many_windows_takes_linear_time),
        SHELL_TEST(a_watch_that_cannot_write_fails),
        SHELL_TEST(a_watch_ends_by_signals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
