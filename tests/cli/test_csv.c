/* --csv DIR of every command that prints tables: one file for each, which any reader of CSV takes. */
#include "base/files.h"
#include "check.h"
#include "place.h"
#include "trace/csv.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define WHOLE TRACE_DATA "/whole"
#define TWO_RANKS WHOLE "/fsdp2_rank0.json.gz " WHOLE "/fsdp2_rank1.json.gz"
#define TINY "tiny_kernel_stress --device cpu --chains 4 --iterations 5 -q "

static int run(const char *words) {
    char command[4096];
    snprintf(command, sizeof command, "%s %s >/dev/null 2>&1", AORTA_PROGRAM, words);
    const int status = system(command);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Every line has as many fields as the header has names. */
static size_t lines_of(const char *path) {
    struct aorta_csv *csv;
    size_t lines = 0;
    bool more = true;
    check_ok(aorta_csv_open(path, &csv));
    for (check_ok(aorta_csv_next(csv, &more)); more; lines++) check_ok(aorta_csv_next(csv, &more));
    aorta_csv_close(csv);
    return lines;
}

/* Removes the folder; how many files of CSV there were. */
static size_t count_files(const char *folder) {
    size_t files = 0;
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    for (const struct dirent *entry; (entry = readdir(directory));) {
        if (entry->d_name[0] == '.') continue;
        const struct aorta_file_path path = aorta_path_in(folder, "%s", entry->d_name);
        assert_string_equal(strrchr(entry->d_name, '.'), ".csv");
        (void)lines_of(path.text);
        unlink(path.text);
        files++;
    }
    closedir(directory);
    assert_int_equal(rmdir(folder), 0);
    return files;
}

static const struct {
    const char *words;
    size_t files;
    const char *file; /* one of them, */
    size_t lines;     /* and what it holds */
} commands[] = {
    {"trace analyze " TWO_RANKS, 22, "roofline_classes.csv", 10},
    {"trace analyze " TWO_RANKS, 22, "verdict.csv", 9},
    {"trace compare " WHOLE "/fsdp2_rank0.json.gz " WHOLE "/fsdp2_rank1.json.gz", 7, "timeline.csv", 14},
    {"whatif " TWO_RANKS " --ranks 2,8", 1, "steps.csv", 3},
    {"hwq run " TINY "--streams 2", 2, "results.csv", 1},
    {"hwq sweep " TINY "--streams 1,2", 2, "results.csv", 2},
    {"hwq run-priority P0 --device cpu --iterations 2 --warmup 1 --streams 1,2 -q --set hetero_kernels.size=16 "
     "large_gemm_only.size=16",
     2, "results.csv", 5},
    {"hwq map --device cpu --streams 3 --copy-mb 1", 2, "streams.csv", 6},
    {"hwq profile --trace " TRACE_DATA "/rocprof_results.json", 2, "gaps.csv", 8},
    {"sdma --device cpu --matrix-size 64 --copy-mb 1 --iterations 5", 1, "times.csv", 6},
};

/* Checks a sweep, its directory, and two sweeps. */
static void of_sweeps(void **state) {
    (void)state;
    static const char *const words[] = {
        "sweep --no-trace -o %s/a --grid level=1,2,3 --repeats 1 --no-baseline --csv %s/csv -- "
        "sh -c 'echo {\\\"step_ms\\\": {level}} > \"$AORTA_SWEEP_RESULT\"'",
        "sweep --read %s/a --csv %s/csv", "sweep --compare %s/a %s/a --csv %s/csv"};
    char place[] = "/tmp/aorta_csv_XXXXXX", command[1024], folder[64];
    assert_non_null(mkdtemp(place));
    snprintf(folder, sizeof folder, "%s/csv", place);
    for (int i = 0; i < 3; i++) {
        char path[128];
        snprintf(command, sizeof command, words[i], place, place, place);
        assert_int_equal(run(command), 0);
        snprintf(path, sizeof path, "%s/points.csv", folder);
        assert_int_equal(lines_of(path), i < 2 ? 3 : 4); /* of two: a line over all points */
        assert_int_equal(count_files(folder), 1);
    }
    snprintf(command, sizeof command, "rm -r %s", place);
    assert_int_equal(system(command), 0);
}

/* The sample of the original toolkit, of one rank: 15 figures of all ranks and of this one. */
static void of_runs(void **state) {
    (void)state;
    char place[] = "/tmp/aorta_csv_XXXXXX", words[1024], folder[64];
    assert_non_null(mkdtemp(place));
    snprintf(folder, sizeof folder, "%s/csv", place);
    snprintf(words, sizeof words, "report --log-dir " RUN_DATA "/original --no-pictures --output %s/out --csv %s",
             place, folder);
    assert_int_equal(run(words), 0);
    snprintf(words, sizeof words, "%s/figures.csv", folder);
    assert_int_equal(lines_of(words), 30);
    snprintf(words, sizeof words, "%s/collectives.csv", folder);
    assert_int_equal(lines_of(words), 2); /* all_gather and reduce_scatter */
    assert_int_equal(count_files(folder), 2);
    snprintf(words, sizeof words, "rm -r %s", place);
    assert_int_equal(system(words), 0);
}

static void every_command(void **state) {
    (void)state;
    char place[] = "/tmp/aorta_csv_XXXXXX", folder[64], words[2048], path[128];
    assert_non_null(mkdtemp(place));
    snprintf(folder, sizeof folder, "%s/made/for/it", place);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        snprintf(words, sizeof words, "%s --csv %s", commands[i].words, folder);
        assert_int_equal(run(words), 0);
        snprintf(path, sizeof path, "%s/%s", folder, commands[i].file);
        const size_t lines = lines_of(path);
        if (lines != commands[i].lines) fail_msg("%s: %zu lines in %s", commands[i].words, lines, commands[i].file);
        const size_t files = count_files(folder);
        if (files != commands[i].files) fail_msg("%s: %zu files", commands[i].words, files);
    }
    snprintf(words, sizeof words, "rm -r %s", place);
    assert_int_equal(system(words), 0);
}

/* hwq compare takes results, of which it exits with 1 where the machine was slower. */
static void comparison(void **state) {
    (void)state;
    char place[] = "/tmp/aorta_csv_XXXXXX", words[1024], folder[64];
    assert_non_null(mkdtemp(place));
    snprintf(words, sizeof words, "hwq sweep " TINY "--streams 1,2 -o %s/a.json", place);
    assert_int_equal(run(words), 0);
    snprintf(folder, sizeof folder, "%s/csv", place);
    snprintf(words, sizeof words, "hwq compare --baseline %s/a.json --test %s/a.json --csv %s", place, place, folder);
    assert_int_equal(run(words), 0);
    snprintf(words, sizeof words, "%s/pairs.csv", folder);
    assert_int_equal(lines_of(words), 2);
    assert_int_equal(count_files(folder), 1);
    snprintf(words, sizeof words, "rm -r %s", place);
    assert_int_equal(system(words), 0);
}

/* A path that is no folder stays as it is, and is found before anything runs. */
static void no_folder(void **state) {
    (void)state;
    char path[] = "/tmp/aorta_csv_XXXXXX", words[2048];
    const int file = mkstemp(path);
    struct stat info;
    assert_true(file >= 0);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        snprintf(words, sizeof words, "%s --csv %s", commands[i].words, path);
        assert_int_equal(run(words), 2);
        snprintf(words, sizeof words, "%s --csv %s/below", commands[i].words, path);
        assert_int_equal(run(words), 2);
    }
    assert_int_equal(fstat(file, &info), 0);
    assert_true(S_ISREG(info.st_mode) && info.st_size == 0);
    close(file);
    unlink(path);
}

/* Commands without tables of figures: what they print is a list, a program's own output, or files. `train` and
 * `launch`: the tables of a run are those of `report`. */
static const char *const without[] = {"info",     "train",    "launch",      "help",
                                      "hwq list", "hwq info", "trace merge", "trace watch"};

/* The names in a list of commands, "  NAME  what it does". */
static size_t names_of(const char *words, char names[][32], size_t most) {
    char command[256], line[512];
    bool listed = false;
    size_t count = 0;
    snprintf(command, sizeof command, "%s %s --help", AORTA_PROGRAM, words);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    while (fgets(line, sizeof line, pipe)) {
        if (strcmp(line, "Commands:\n") == 0) listed = true;
        if (line[0] == '\n') listed = false;
        if (listed && count < most && sscanf(line, "  %31s ", names[count]) == 1 &&
            strcmp(names[count], "Commands:") != 0)
            count++;
    }
    assert_int_equal(pclose(pipe), 0);
    return count;
}

static bool has_option(const char *words) {
    char command[256];
    snprintf(command, sizeof command, "%s %s --help | grep -q -e --csv", AORTA_PROGRAM, words);
    return system(command) == 0;
}

static void check_command(const char *name) {
    bool left_out = false;
    for (size_t i = 0; i < sizeof without / sizeof *without; i++) left_out |= !strcmp(without[i], name);
    if (has_option(name) == left_out) fail_msg("aorta %s: %s --csv", name, left_out ? "has" : "has no");
}

/* A new command has --csv, or is named above. */
static void all_commands_have_it(void **state) {
    (void)state;
    char names[32][32], below[32][32];
    const size_t count = names_of("", names, 32);
    assert_true(count >= 10);
    for (size_t i = 0; i < count; i++) {
        const size_t inner = names_of(names[i], below, 32);
        if (!inner) check_command(names[i]);
        for (size_t j = 0; j < inner; j++) {
            char name[72];
            snprintf(name, sizeof name, "%s %s", names[i], below[j]);
            check_command(name);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_command), cmocka_unit_test(comparison), cmocka_unit_test(of_runs),
        cmocka_unit_test(of_sweeps),     cmocka_unit_test(no_folder),  cmocka_unit_test(all_commands_have_it),
    };
    return cmocka_run_group_tests(tests, place_enter, place_leave);
}
