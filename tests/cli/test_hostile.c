/* Every command that prints what files hold gets names that would clear the screen, change colours, or forge a line. */
#include "check.h"
#include "place.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* In JSON and in a YAML key: ESC, CSI as one character, a newline, and a mark that turns the direction of writing. */
#define NAME "\\u001b[2J\\u009b31m\\nVerdict: all is well\\u202e"
#define KERNEL(stream, at)                                                                                             \
    "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"" NAME "\", \"pid\": 0, \"tid\": " stream ", \"ts\": " at        \
    ", \"dur\": 10, \"args\": {\"device\": 0, \"stream\": " stream ", \"correlation\": " at "}}"
#define TRACE(rank)                                                                                                    \
    "{\"schemaVersion\": 1, \"deviceProperties\": [{\"id\": 0, \"name\": \"" NAME "\"}], "                             \
    "\"distributedInfo\": {\"rank\": " rank                                                                            \
    ", \"world_size\": 2}, \"traceEvents\": [" KERNEL("7", "100") ", " KERNEL("7", "120") ", " KERNEL("8", "125") "]}"
#define RESULT                                                                                                         \
    "{\"workload_name\": \"" NAME "\", \"stream_count\": 1, \"environment\": {\"" NAME "\": \"" NAME                   \
    "\"}, \"iteration_times_ms\": [1.0, 1.1, 1.2, 1.0, 1.1, 1.2, 1.0, 1.1, 1.2, 1.1]}"
#define TRAIN                                                                                                          \
    "train --quiet --no-report --override training.output_dir=run training.max_steps=4 training.batch_size=2 "         \
    "dataset.num_samples=64 dataset.vocab_size=64 model.num_layers=1 model.model_dim=16 model.num_heads=2 "            \
    "model.mlp_hidden_dim=16 "                                                                                         \
    "model.vocab_size=64 model.embedding_dim=8 > train.log 2>&1"

static const struct {
    const char *name, *text;
} files[] = {
    {"one/rank0.json", TRACE("0")},
    {"one/rank1.json", TRACE("1")},
    {"r.json", RESULT},
    {"bad.json", "{\"traceEvents\": [{\"ph\": \"X\", \"" NAME "\": }]}"},
    {"c.yaml", "\"" NAME "\": 1\n"},
};

static const struct {
    const char *words;
    int exit_code;         /* -1: any */
    const char *temporary; /* TMPDIR; NULL: /tmp */
} calls[] = {
    {"trace analyze one", 0, NULL},
    {"trace analyze one --json", 0, NULL},
    {"trace analyze bad.json", 1, NULL},
    {"trace compare one/rank0.json one/rank1.json", 0, NULL},
    {"trace merge one -o all.json", -1, NULL},
    {"trace merge bad.json -o all.json", 1, NULL},
    {"hwq compare --baseline r.json --test r.json", 0, NULL},
    {"hwq compare --baseline r.json --test r.json --json", 0, NULL},
    {"report --log-dir run", 0, NULL},
    {"report --log-dir run --json", 0, NULL},
    {"train --config c.yaml", 2, NULL},
    {"train --override \"$(printf '\\033[2J=1')\"", 2, NULL},
    {"trace analyze named", 2, NULL},
    {"trace analyze \"$(printf 'gone\\nVerdict: all is well')\"", 2, NULL},
    {"trace analyze one.tar", 1, "/nowhere\nVerdict: all is well"},
    {"trace run -- true", 1, "/nowhere\nVerdict: all is well"},
    {"launch -n 2 -- true", 1, "/nowhere\nVerdict: all is well"},
};

static void expect_printable(const char *words, const char *output) {
    for (const unsigned char *c = (const unsigned char *)output; *c; c++) {
        bool wrong = (*c < 0x20 && *c != '\n') || *c == 0x7f || (*c == 0xc2 && c[1] < 0xa0) ||
                     (*c == 0xe2 && c[1] == 0x80 && c[2] == 0xae);
        if (wrong) fail_msg("aorta %s prints the byte 0x%02x:\n%s", words, *c, output);
    }
    if (strstr(output, "\nVerdict: all is well")) fail_msg("aorta %s prints a forged line:\n%s", words, output);
}

static void nothing_foreign_is_printed_raw(void **state) {
    (void)state;
    static char output[1 << 18];
    char command[1024];
    assert_int_equal(system("mkdir one named"), 0);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        FILE *file = fopen(files[i].name, "we");
        assert_non_null(file);
        fputs(files[i].text, file);
        assert_int_equal(fclose(file), 0);
    }
    assert_int_equal(system("cp one/rank0.json \"$(printf 'named/x\\nVerdict: all is well.json')\""), 0);
    assert_int_equal(system("tar cf one.tar one"), 0);
    /* The lines of a run, with another name for each operation. */
    snprintf(command, sizeof command, "%s %s && sed -i 's/\"tag\": *\"[^\"]*\"/\"tag\": \"%s\"/g' run/*.jsonl",
             AORTA_PROGRAM, TRAIN, "\\\\u001b[2J\\\\u009b31m\\\\nVerdict: all is well\\\\u202e");
    if (system(command) != 0) fail_msg("%s", command);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        snprintf(command, sizeof command, "%s %s 2>&1", AORTA_PROGRAM, calls[i].words);
        assert_int_equal(setenv("TMPDIR", calls[i].temporary ? calls[i].temporary : "/tmp", 1), 0);
        FILE *pipe = popen(command, "r");
        assert_non_null(pipe);
        output[fread(output, 1, sizeof output - 1, pipe)] = '\0';
        int status = pclose(pipe);
        assert_true(WIFEXITED(status));
        assert_true(output[0]);
        if (calls[i].exit_code >= 0 && WEXITSTATUS(status) != calls[i].exit_code)
            fail_msg("aorta %s: exit %d:\n%s", calls[i].words, WEXITSTATUS(status), output);
        expect_printable(calls[i].words, output);
        if (getenv("VERBOSE")) print_message("aorta %s: %d\n%s\n", calls[i].words, WEXITSTATUS(status), output);
    }
    assert_int_equal(unsetenv("TMPDIR"), 0);
}

/* Exit code of the words, and the MiB that they took at most. */
static int run_within(const char *words, long *most) {
    struct rusage usage;
    int status;
    const pid_t child = fork();
    if (child == 0) {
        const struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        char command[512];
        snprintf(command, sizeof command, "exec %s %s >output 2>&1", AORTA_PROGRAM, words);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(126);
    }
    assert_int_equal(wait4(child, &status, 0, &usage), child);
    *most = usage.ru_maxrss >> 10;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Numbers of a file size no memory: streams of any number are as good as streams 0, 1, … */
static void numbers_take_no_memory(void **state) {
    (void)state;
    static const char *const numbers[] = {"2147483647", "-2147483648", "1000000000"};
    static const char *const words[] = {"report --log-dir run --no-pictures", "whatif run --compute 2x"};
    char command[1024];
    snprintf(command, sizeof command, "%s %s && cp -r run good", AORTA_PROGRAM, TRAIN);
    assert_int_equal(system(command), 0);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        snprintf(command, sizeof command,
                 "sed 's/\"queue\": *[0-9]*/\"queue\": %s/' good/rank_00_metrics.jsonl "
                 ">run/rank_00_metrics.jsonl && grep -q '\"queue\": %s' run/*.jsonl",
                 numbers[i], numbers[i]);
        assert_int_equal(system(command), 0);
        for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
            long most;
            const int code = run_within(words[w], &most);
            if (code > 1 || most > 800) fail_msg("queue %s: %s: exit %d, %ld MiB", numbers[i], words[w], code, most);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_foreign_is_printed_raw, place_enter, place_leave),
        cmocka_unit_test_setup_teardown(numbers_take_no_memory, place_enter, place_leave)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
