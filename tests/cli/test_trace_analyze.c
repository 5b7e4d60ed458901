/* aorta trace analyze as a user runs it: keys of its JSON, the page, mistakes. */
#include "base/lines.h"
#include "check.h"
#include "folder.h"
#include "place.h"
#include "report/page.h"
#include "trace/csv.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define WHOLE TRACE_DATA "/whole"
#define TWO_RANKS WHOLE "/fsdp2_rank0.json.gz " WHOLE "/fsdp2_rank1.json.gz"

enum { OUTPUT_BYTES = 1 << 20 };

static char *run_command(const char *subcommand, const char *words, int *exit_code) {
    char command[4096];
    snprintf(command, sizeof command, "%s trace %s %s 2>&1", AORTA_PROGRAM, subcommand, words);
    FILE *pipe = popen(command, "r");
    char *output = malloc(OUTPUT_BYTES);
    assert_non_null(pipe);
    assert_non_null(output);
    output[fread(output, 1, OUTPUT_BYTES - 1, pipe)] = '\0';
    int status = pclose(pipe);
    assert_true(WIFEXITED(status));
    *exit_code = WEXITSTATUS(status);
    return output;
}

static char *run(const char *words, int *exit_code) {
    return run_command("analyze", words, exit_code);
}

/* ---- what it prints ---- */

static const struct {
    const char *words;
    int exit_code;
    const char *output; /* a part of it */
} calls[] = {
    {"--help", 0, "Usage: aorta trace analyze FILE|DIR"},
    {"", 2, "name a trace; usage: aorta trace analyze"},
    {"/nowhere.json", 2, "cannot open /nowhere.json: No such file"},
    {TRACE_DATA "/../../lint", 2, "contains no trace"},
    {WHOLE "/h100_qwen.json.gz --gpus-per-node 0", 2, "expected an integer of at least 1\n"},
    {WHOLE "/h100_qwen.json.gz --step 5", 2, "--step 5: no such step; there is only 6"},
    {WHOLE "/h100_qwen.json.gz --step 6 --step 999", 2, "--step 999: no such step; there is only 6"},
    {WHOLE "/h100_qwen.json.gz --step 998 --step 6 --step 999", 2, "--step 998, 999: no such step; there is only 6"},
    {WHOLE "/h100_qwen.json.gz --step all --step 999", 2, "--step 999: no such step; there is only 6"},
    {WHOLE "/h100_qwen.json.gz --step 6", 0, "Chosen steps, ms\nrank "},
    {WHOLE "/h100_qwen.json.gz", 0, "Whole recording, ms\nrank "},
    {WHOLE "/h100_qwen.json.gz --step six", 2, "--step: found \"six\"; expected a step's number or all"},
    {WHOLE "/fsdp2_rank0.json.gz --step all", 2, "marks no steps"},
    {WHOLE "/fsdp2_rank0.json.gz --step-range '('", 2, "--step-range: \"(\" is not a regular expression"},
    {WHOLE "/fsdp2_rank0.json.gz --step-range ^none$", 2,
     "fsdp2_rank0.json.gz has such a name; --by annotation lists them"},
    {TWO_RANKS " --step-range ^none$", 2, "fsdp2_rank0.json.gz or of another trace has such a name; --by annotation"},
    {WHOLE "/fsdp2_rank0.json.gz --comm-pattern '('", 2, "--comm-pattern: \"(\" is not a regular expression"},
    {WHOLE "/fsdp2_rank0.json.gz " WHOLE "/mi300_resnet.json.gz", 2, "are both of rank 0"},
    {WHOLE "/fsdp2_rank0.json.gz --html /proc/x/page.html", 2, "--html: the directory /proc/x cannot be made"},
    {WHOLE "/fsdp2_rank0.json.gz --csv " WHOLE "/h100_qwen.json.gz", 2, "is a file, not a directory; choose another"},
    {WHOLE "/fsdp2_rank0.json.gz --csv ''", 2, "--csv: the name of the directory is empty"},
    {WHOLE "/fsdp2_rank0.json.gz --jsn", 2, "did you mean --json?"},
    {WHOLE "/fsdp2_rank0.json.gz", 0, "0   439.774    14.904    10.231     4.242"},
    {WHOLE "/fsdp2_rank0.json.gz " WHOLE "/fsdp2_rank1.json.gz", 0, "rank 0 came last"},
    {WHOLE "/fsdp2_rank0.json.gz " WHOLE "/fsdp2_rank1.json.gz", 0,
     "Verdict: late kernel launches: 431 -> 194 ms in all if fixed (-55%)\n"},
    {WHOLE "/h100_qwen.json.gz", 0, "Verdict: unfused pointwise kernels: 35.1 -> 21 to 28 ms per step"},
    {TRACE_DATA "/h100_qwen.json --by memory", 0,
     "1003.1 MB, 1.709 ms before the first work, of 2629.8 MB that the allocator holds\n  allocated before the "
     "recording"},
    {"--help >/dev/null; echo '{\"traceEvents\": []}' | " AORTA_PROGRAM " trace analyze - 2>&1 | grep -c recover; true",
     0, "0\n"},
    {"--help >/dev/null; head -c 5000 " WHOLE "/h100_qwen.json.gz | " AORTA_PROGRAM " trace analyze -", 1,
     "; --recover takes the events before it\n"},
    {WHOLE "/h100_qwen.json.gz --whole", 0, "basis      whole recording of 1 rank"},
    {WHOLE "/h100_qwen.json.gz --whole --step 6", 2, "--whole ignores steps: give it without --step\n"},
    {WHOLE "/fsdp2_rank0.json.gz --by kernels", 2, "--by: found \"kernels\"; expected one of op, shape, module"},
    {WHOLE "/fsdp2_rank0.json.gz --by kernels", 2, "path, arrival; did you mean kernel\n"},
    {WHOLE "/fsdp2_rank0.json.gz --by op --top 0", 2, "--top"},
    {TWO_RANKS, 0, "\nWhole recording, ms, rank 1 (the busiest)\n  count  total ms  of work "},
    {TWO_RANKS, 0, "  … and 78 more (--by kernel)\n"},
    {WHOLE "/h100_qwen.json.gz", 0, "\n  168.0     8.855    27.8%     31.87     84.72  sm90_"},
    {WHOLE "/h100_qwen.json.gz --by kernel --top 1", 0,
     "By kernel, per step, ms\n  count        ms  of work    p50 us    p95 us  kernel or copy\n"
     "  168.0     8.855    27.8%     31.87     84.72  sm90_"},
    {TWO_RANKS " --by kernel --top 5", 0, "  … and 78 more (--top 83, --json)\n"},
    {TWO_RANKS " --by category --top 1", 0, "By category, ms\n  count         ms  of work   mean us  category\n"},
    {WHOLE "/fsdp2_rank0.json.gz --by category --top 1", 0, "     81      4.242    28.5%     52.37  collective"},
    {WHOLE "/fsdp2_rank0.json.gz --by category --top 1", 0, "… and 13 more (--top 14, --json)"},
    {WHOLE "/fsdp2_rank0.json.gz --by module", 0, "By module: the file has no modules"},
    {WHOLE "/fsdp2_rank0.json.gz --by category --json", 0, "\"by_category\": ["},
    {WHOLE "/fsdp2_rank0.json.gz --by time --top 2", 0,
     "Over time\n  from ms  compute    comm  overlap    idle launches  queued"},
    {WHOLE "/fsdp2_rank0.json.gz --by stream --json", 0, "\"queue_full_ms\": 0"},
    {WHOLE "/fsdp2_rank0.json.gz --by sequence", 0, "Kernel sequences that repeat: the file has no operations"},
    {WHOLE "/rocprofv3_908.json.gz --by stream", 0, "Queues of streams: no work has its launch in the file"},
    {WHOLE "/fsdp2_rank0.json.gz --phase decode", 2, "--phase needs --by, for instance --by op"},
    {WHOLE "/fsdp2_rank0.json.gz --by op --phase decoding", 2, "--phase: found \"decoding\"; expected one of forward"},
    {WHOLE "/fsdp2_rank0.json.gz --by kernel --phase decode", 0, "By kernel: no work is of this phase"},
    {WHOLE "/fsdp2_rank0.json.gz --by time --phase decode", 2, "--by time is of all work: give it without --phase"},
    {WHOLE "/fsdp2_rank0.json.gz --within x", 2, "--within needs --by, for instance --by op"},
    {WHOLE "/fsdp2_rank0.json.gz --by kernel --by path --within x", 2, "--by path is of all work"},
    {WHOLE "/fsdp2_rank0.json.gz --by kernel --within '('", 2, "--within: \"(\" is not a regular expression"},
    {WHOLE "/h100_qwen.json.gz --by kernel --within 'aten::silu'", 0, "work within \"aten::silu\" alone\n"},
    {WHOLE "/h100_qwen.json.gz --by kernel --within 'aten::silu' --json", 0, "\"within\": \"aten::silu\""},
    {WHOLE "/h100_qwen.json.gz --by kernel --within 'aten::nothing'", 0, "no work is within what --within matches"},
    {WHOLE "/fsdp2_rank0.json.gz --by op --json", 0, "\"by_op_reason\": \"the file has no operations"},
    {WHOLE "/h100_qwen.json.gz --comm-pattern flash_fwd", 0, "collective "},
    {TRACE_DATA "/../../report/data/original", 0, "  backward\n"}, /* not "backward (epoch0_step2_backward)" */
    {WHOLE "/rocprofv3_908.json.gz --whole", 0, "% of the time is unexplained gaps"},
    {WHOLE "/rocprofv3_908.json.gz", 0, "  basis      48 steps of 1 rank after 1 of warm-up"}, /* optimizer: 50 times */
};

static void calls_answer(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        int exit_code;
        char *output = run(calls[i].words, &exit_code);
        if (exit_code != calls[i].exit_code || !strstr(output, calls[i].output))
            fail_msg("%s: exit %d, expected %d with \"%s\", got:\n%.2000s", calls[i].words, exit_code,
                     calls[i].exit_code, calls[i].output, output);
        free(output);
    }
}

/* A screenful: the verdict is at most 100 columns wide, and has at most eight causes, each with a fix. */
static void the_answer_is_short_and_whole(void **state) {
    (void)state;
    static const char *const words[] = {WHOLE "/fsdp2_rank0.json.gz " WHOLE "/fsdp2_rank1.json.gz",
                                        WHOLE "/h100_qwen.json.gz", WHOLE "/mi300_resnet.json.gz",
                                        WHOLE "/rocprofv3_908.json.gz"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        int exit_code, lines = 0, verdict = 0, causes = 0, advice = 0;
        char *output = run(words[i], &exit_code);
        assert_int_equal(exit_code, 0);
        for (const char *line = output; *line; line++, lines++) {
            size_t bytes = strcspn(line, "\n");
            char copy[8192];
            assert_true(bytes < sizeof copy);
            snprintf(copy, sizeof copy, "%.*s", (int)bytes, line);
            if (verdict || strncmp(copy, "Verdict:", 8) == 0) verdict++;
            if (verdict && bytes > 16 && copy[16] == '%' && strspn(copy + 2, " #.") >= 10) causes++;
            if (strncmp(copy, "      fix ", 10) == 0) advice++;
            if (verdict && aorta_columns(copy) > 100)
                fail_msg("%s: %d columns: %s", words[i], aorta_columns(copy), copy);
            line += bytes;
        }
        assert_in_range(causes, 1, 8);
        assert_int_equal(advice, causes); /* each has one */
        assert_in_range(verdict, 4, 30);
        assert_in_range(lines, 10, 56);
        free(output);
    }
}

/* The costs of causes are of the step that the headline, the figures and the replay speak of: the one without its
 * recording. The first of two steps is longer than the second, which alone is replayed. */
static void costs_add_up_to_the_step_without_recording(void **state) {
    (void)state;
    int exit_code;
    double sum_ms = 0;
    char *output = run(WHOLE "/fsdp2_rank0.json.gz --json", &exit_code);
    json_t *root = json_loads(output, 0, NULL);
    assert_non_null(root);
    const json_t *verdict = json_object_get(root, "verdict");
    for (size_t i = 0; i < json_array_size(verdict); i++)
        sum_ms += json_number_value(json_object_get(json_array_get(verdict, i), "cost_ms"));
    sum_ms += json_number_value(json_object_get(json_object_get(root, "verdict_folded"), "cost_ms"));
    const double unrecorded_ms = json_number_value(json_object_get(json_object_get(root, "replay"), "unrecorded_ms"));
    assert_true(unrecorded_ms < json_number_value(json_object_get(root, "judged_ms_mean")) - 1);
    assert_float_equal(sum_ms, unrecorded_ms, 1e-3);
    json_decref(root);
    free(output);
}

/* Tables have their scope above, and names in their last column: short ones, or those of the file. */
static void names_are_short_or_whole(void **state) {
    (void)state;
    static const char whole[] =
        "  void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, "
        "cutlass::bfloat16_t, pytorch_flash::Flash_kernel_traits<64, 128, 128, 4, cutlass::bfloat16_t> >, false, true, "
        "false, false, false, true, false>(pytorch_flash::Flash_fwd_params)\n";
    for (int full = 0; full < 2; full++) {
        const char *const expected[] = {"\nPer step, ms\n", "  kernels and copies\n",
                                        full ? whole : "  flash_fwd_kernel\n",
                                        "   max us  calls that wait for the GPU\n"};
        int exit_code;
        char *output = run(full ? "--full-names " WHOLE "/h100_qwen.json.gz" : WHOLE "/h100_qwen.json.gz", &exit_code);
        assert_int_equal(exit_code, 0);
        for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
            if (!strstr(output, expected[i])) fail_msg("no \"%s\" in:\n%s", expected[i], output);
        assert_int_equal(strstr(output, "…\n") == NULL, full);
        free(output);
    }
}

/* No terminal reads this: escapes are there only where they are asked for. */
static void color_is_asked_for(void **state) {
    (void)state;
    static const struct {
        const char *words;
        bool color;
    } rows[] = {{"", false}, {"--color auto ", false}, {"--color never --all ", false}, {"--color always ", true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char words[256];
        int exit_code;
        snprintf(words, sizeof words, "%s%s", rows[i].words, WHOLE "/h100_qwen.json.gz");
        char *output = run(words, &exit_code);
        assert_int_equal(exit_code, 0);
        assert_int_equal(strstr(output, "\033[1mVerdict: ") != NULL, rows[i].color);
        assert_int_equal(strchr(output, '\033') != NULL, rows[i].color);
        free(output);
    }
}

/* ---- JSON ---- */

static json_t *run_json(const char *words) {
    int exit_code;
    char *output = run(words, &exit_code);
    json_error_t error;
    json_t *root = json_loads(output, 0, &error);
    assert_int_equal(exit_code, 0);
    if (!root) fail_msg("%s: %s at byte %d", words, error.text, error.position);
    free(output);
    return root;
}

static double number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

static void rank_keys_are_there(void **state) {
    (void)state;
    static const char *const numbers[] = {
        "rank",       "span_ms",         "busy_ms",       "compute_ms",           "comm_ms", "memcpy_ms", "idle_ms",
        "overlap_ms", "exposed_comm_ms", "overlap_ratio", "compute_overlap_ratio"};
    static const char *const arrays[] = {"kernels", "collectives", "streams", "queues"};
    json_t *root = run_json("--json " WHOLE "/mi300_resnet.json.gz");
    assert_int_equal(number(root, "schema_version"), 2);
    const json_t *rank = json_array_get(json_object_get(root, "ranks"), 0);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) number(rank, numbers[i]);
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        assert_true(json_array_size(json_object_get(rank, arrays[i])) > 0);
    const json_t *kernel = json_array_get(json_object_get(rank, "kernels"), 0);
    static const char *const columns[] = {"count", "total_ms", "mean_ms", "p50_ms", "p95_ms", "share"};
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) number(kernel, columns[i]);
    size_t at;
    const json_t *finding;
    double total = 0;
    json_array_foreach(json_object_get(root, "verdict"), at, finding) {
        assert_true(json_is_string(json_object_get(finding, "cause")));
        assert_true(json_string_length(json_object_get(finding, "evidence")) > 0);
        assert_true(json_string_length(json_object_get(finding, "advice")) > 0);
        total += number(finding, "cost_ms");
    }
    double step = number(root, "judged_ms_mean");
    /* the other parts of the page show the same step */
    assert_true(number(root, "step_busy_ms") > 0 && number(root, "step_busy_ms") < step);
    assert_float_equal(number(root, "step_overlap_ratio"),
                       1 - number(root, "step_exposed_comm_ms") / number(root, "step_comm_ms"), 1e-6);
    assert_true(total > step - 1e-6 && total < step + 1e-6);
    json_decref(root);
}

/* Where nothing communicates there is no ratio: null, and why. */
/* A kernel that only the user's pattern finds is of the kind that its name says. */
static void own_collectives_have_their_kind(void **state) {
    (void)state;
    char path[] = "/tmp/aorta_own_kernel_XXXXXX", words[128];
    FILE *out = fdopen(mkstemp(path), "w");
    assert_non_null(out);
    fputs("[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"my_allreduce_kernel\",\"ts\":1,\"dur\":1,"
          "\"args\":{\"stream\":1}}]",
          out);
    fclose(out);
    snprintf(words, sizeof words, "--json --comm-pattern my_ %s", path);
    json_t *root = run_json(words);
    const json_t *rank = json_array_get(json_object_get(root, "ranks"), 0);
    const json_t *row = json_array_get(json_object_get(rank, "collectives"), 0);
    assert_string_equal(json_string_value(json_object_get(row, "kind")), "all_reduce");
    json_decref(root);
    remove(path);
}

static void what_is_not_known_is_null(void **state) {
    (void)state;
    json_t *root = run_json("--json " WHOLE "/h100_qwen.json.gz");
    const json_t *rank = json_array_get(json_object_get(root, "ranks"), 0);
    assert_true(json_is_null(json_object_get(rank, "overlap_ratio")));
    assert_true(json_is_string(json_object_get(json_object_get(rank, "null_reasons"), "overlap_ratio")));
    json_decref(root);
}

static void ranks_of_a_folder_are_found(void **state) {
    (void)state;
    char folder[FOLDER_PATH], command[4096];
    folder_make(folder, "analyze");
    snprintf(command, sizeof command,
             "mkdir -p %s/rank10 %s/rank2 && cp " WHOLE "/fsdp2_rank0.json.gz %s/rank2/t.json.gz && cp " WHOLE
             "/fsdp2_rank1.json.gz %s/rank10/t.json.gz && echo '{\"a\": 1}' > %s/other.json",
             folder, folder, folder, folder, folder);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command, "--json %s", folder);
    json_t *root = run_json(command);
    assert_int_equal(json_array_size(json_object_get(root, "ranks")), 2);
    assert_int_equal(json_array_size(json_object_get(root, "shared_collectives")), 81);
    json_decref(root);
    assert_int_equal(folder_remove(folder), 0);
}

/* A file cut in its middle is an error that says where; --recover takes what stands before. */
static void broken_files_are_named_or_recovered(void **state) {
    (void)state;
    char path[] = "/tmp/aorta-analyze-XXXXXX", words[256];
    int exit_code, file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    char command[1024];
    snprintf(command, sizeof command, "gzip -dc " WHOLE "/h100_qwen.json.gz | head -c 300000 > %s", path);
    assert_int_equal(system(command), 0);
    char *output = run(path, &exit_code);
    assert_int_equal(exit_code, 1);
    assert_non_null(strstr(output, path));
    assert_non_null(strstr(output, "byte"));
    free(output);
    snprintf(words, sizeof words, "--recover %s", path);
    output = run(words, &exit_code);
    assert_int_equal(exit_code, 0);
    assert_non_null(strstr(output, "\n  note     "));
    assert_non_null(strstr(output, "the file ends early"));
    free(output);
    snprintf(command, sizeof command,
             "printf '{\"traceEvents\": [{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::mm\", \"ts\": 1, "
             "\"dur\": 5, \"pid\": 1, \"tid\": 1}, {\"ph\": ' > %s",
             path);
    assert_int_equal(system(command), 0);
    output = run(words, &exit_code);
    assert_non_null(strstr(output, "Verdict: unknown: the file ends before any work of a GPU"));
    free(output);
    remove(path);
}

/* ---- the page ---- */

static char *read_all(const char *path) {
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    char *text = malloc(8 * OUTPUT_BYTES);
    assert_non_null(text);
    text[fread(text, 1, 8 * OUTPUT_BYTES - 1, file)] = '\0';
    fclose(file);
    return text;
}

/* The data of the page that a subcommand makes of these files, whose policy forbids every request. NULL: this build has
 * no pages, and says so. */
static json_t *page_of(const char *subcommand, const char *files) {
    static const char mark[] = "id=\"data\">", policy[] = "content=\"default-src 'none';";
    char path[] = "/tmp/aorta-analyze-XXXXXX", words[1024];
    int exit_code, file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    snprintf(words, sizeof words, "--html %s %s", path, files);
    char *output = run_command(subcommand, words, &exit_code);
    assert_int_equal(exit_code, !aorta_page_available());
    if (exit_code) assert_non_null(strstr(output, "this build writes no pages"));
    free(output);
    json_t *root = NULL;
    char *page = read_all(path);
    if (!exit_code) {
        assert_non_null(strstr(page, policy));
        assert_null(strstr(page, "<link"));
        char *figures = strstr(page, mark);
        assert_non_null(figures);
        figures += strlen(mark);
        *strstr(figures, "</script>") = '\0';
        assert_null(strchr(figures, '<'));
        root = json_loads(figures, 0, NULL);
        assert_non_null(root);
    }
    free(page);
    remove(path);
    return root;
}

static void the_page_stands_alone(void **state) {
    (void)state;
    json_t *root = page_of("analyze", TWO_RANKS);
    if (!root) return;
    assert_string_equal(json_string_value(json_object_get(root, "kind")), "recordings");
    const json_t *recording = json_array_get(json_object_get(root, "recordings"), 0);
    assert_int_equal(json_array_size(json_object_get(json_object_get(recording, "results"), "ranks")), 2);
    assert_true(json_array_size(json_object_get(json_object_get(recording, "timeline"), "lanes")) > 4);
    json_decref(root);
}

/* Operations as a tree: softmax with 10 us in what it calls, relu with 5 us. */
static void the_page_has_a_flame_view(void **state) {
    (void)state;
    static const char events[] =
        "{\"traceEvents\":["
        "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::softmax\",\"pid\":1,\"tid\":1,\"ts\":0,\"dur\":9,\"args\":{}"
        "},"
        "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::_softmax\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":7,\"args\":{"
        "}},"
        "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":1,\"tid\":1,\"ts\":2,\"dur\":1,"
        "\"args\":{\"correlation\":1}},"
        "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::relu\",\"pid\":1,\"tid\":1,\"ts\":20,\"dur\":9,\"args\":{}},"
        "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":1,\"tid\":1,\"ts\":22,\"dur\":1,"
        "\"args\":{\"correlation\":2}},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,\"tid\":7,\"ts\":30,\"dur\":10,"
        "\"args\":{\"stream\":7,\"correlation\":1}},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"r\",\"pid\":0,\"tid\":7,\"ts\":40,\"dur\":5,"
        "\"args\":{\"stream\":7,\"correlation\":2}}]}";
    static const struct {
        int parent;
        const char *name;
        double within_ms, itself_ms;
    } expected[] = {{-1, "all work", 0.015, 0},
                    {0, "aten::softmax", 0.010, 0},
                    {1, "aten::_softmax", 0.010, 0.010},
                    {0, "aten::relu", 0.005, 0.005}};
    char path[] = "/tmp/aorta-flame-XXXXXX.json";
    const int file = mkstemps(path, 5);
    assert_true(file >= 0);
    assert_int_equal(write(file, events, sizeof events - 1), sizeof events - 1);
    close(file);
    json_t *root = page_of("analyze", path);
    remove(path);
    if (!root) return;
    const json_t *flame = json_object_get(json_array_get(json_object_get(root, "recordings"), 0), "flame");
    assert_int_equal(json_array_size(flame), sizeof expected / sizeof *expected);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const json_t *node = json_array_get(flame, i);
        assert_int_equal(json_integer_value(json_array_get(node, 0)), expected[i].parent);
        assert_string_equal(json_string_value(json_array_get(node, 1)), expected[i].name);
        assert_float_equal(json_number_value(json_array_get(node, 2)), expected[i].within_ms, 1e-9);
        assert_float_equal(json_number_value(json_array_get(node, 3)), expected[i].itself_ms, 1e-9);
    }
    json_decref(root);
}

/* The gain of a block is within its range, and is the figure that the terminal shows. Causes have the verdict's names.
 */
static void blocks_have_the_gain_that_is_shown(void **state) {
    (void)state;
    json_t *root = page_of("analyze", TWO_RANKS);
    if (!root) return;
    const json_t *names = json_object_get(root, "causes");
    assert_string_equal(json_string_value(json_object_get(names, "host_launch")), "late kernel launches");
    assert_string_equal(json_string_value(json_object_get(names, "exposed_collective")), "exposed collectives");
    assert_string_equal(json_string_value(json_object_get(names, "straggler")), "straggler");
    assert_string_equal(json_string_value(json_object_get(names, "unknown")), "unexplained gaps");
    const json_t *results = json_object_get(json_array_get(json_object_get(root, "recordings"), 0), "results");
    const json_t *blocks = json_object_get(json_object_get(results, "verdict_view"), "blocks");
    assert_true(json_array_size(blocks) > 1);
    for (size_t i = 0; i < json_array_size(blocks); i++) {
        const json_t *block = json_array_get(blocks, i), *range = json_object_get(block, "gain_range_ms");
        const double gain = json_number_value(json_object_get(block, "gain_ms"));
        assert_true(json_number_value(json_array_get(range, 0)) <= gain);
        assert_true(json_number_value(json_array_get(range, 1)) >= gain);
        const char *figure = json_string_value(json_object_get(block, "figure")), *last = strrchr(figure, ' ');
        assert_float_equal(strtod(last ? last : figure, NULL), gain, 0.05 * gain);
    }
    json_decref(root);
}

/* Recordings side by side: what changed, and verdict, figures and timeline of each. */
static void recordings_have_a_page(void **state) {
    (void)state;
    json_t *root = page_of("compare", TWO_RANKS);
    if (!root) return;
    const json_t *test = json_array_get(json_object_get(json_object_get(root, "comparison"), "tests"), 0);
    const json_t *recordings = json_object_get(root, "recordings");
    assert_string_equal(json_string_value(json_object_get(root, "kind")), "recordings");
    assert_non_null(
        strstr(json_string_value(json_object_get(test, "largest_change")), ": recording 440 -> 443 ms (+0.8%)"));
    assert_int_equal(json_array_size(recordings), 2);
    for (size_t i = 0; i < 2; i++) {
        const json_t *recording = json_array_get(recordings, i);
        const json_t *results = json_object_get(recording, "results");
        const json_t *view = json_object_get(results, "verdict_view");
        assert_non_null(json_string_value(json_object_get(view, "headline")));
        assert_int_equal(json_array_size(json_object_get(results, "ranks")), 1);
        assert_true(json_array_size(json_object_get(json_object_get(recording, "timeline"), "lanes")) > 2);
    }
    json_decref(root);
}

/* ---- CSV ---- */

static size_t csv_lines(const char *folder, const char *key) {
    char path[256];
    struct aorta_csv *csv;
    size_t lines = 0;
    bool more = true;
    snprintf(path, sizeof path, "%s/%s.csv", folder, key);
    check_ok(aorta_csv_open(path, &csv)); /* each line has as many fields as the header has names */
    for (check_ok(aorta_csv_next(csv, &more)); more; lines++) check_ok(aorta_csv_next(csv, &more));
    aorta_csv_close(csv);
    unlink(path);
    return lines;
}

/* 64 bytes are allocated and freed within an operation; 1000 are there when the recording begins. */
static void memory_says_what_it_was_for(void **state) {
    (void)state;
    static const char memory[] =
        "{\"ph\":\"i\",\"cat\":\"cpu_instant_event\",\"name\":\"[memory]\",\"pid\":1,\"tid\":1,"
        "\"ts\":%d,\"args\":{\"Total Reserved\":4096,\"Total Allocated\":%d,\"Bytes\":%d,"
        "\"Device Id\":0,\"Device Type\":1,\"Addr\":1}},";
    char path[] = "/tmp/aorta_memory_XXXXXX.json", words[64];
    FILE *out = fdopen(mkstemps(path, 5), "w");
    int exit_code;
    assert_non_null(out);
    fputs("{\"traceEvents\":[", out);
    fprintf(out, memory, 20, 1064, 64);
    fprintf(out, memory, 60, 1000, -64);
    fputs("{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::relu\",\"pid\":1,\"tid\":1,\"ts\":10,\"dur\":80},"
          "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"relu\",\"pid\":0,\"tid\":7,\"ts\":30,\"dur\":20,"
          "\"args\":{\"device\":0,\"stream\":7}}]}",
          out);
    fclose(out);
    snprintf(words, sizeof words, "--by memory %s", path);
    char *output = run(words, &exit_code);
    assert_int_equal(exit_code, 0);
    assert_non_null(strstr(output, "allocated before the recording\n"));
    assert_non_null(strstr(output, "  workspace (freed soon), aten::relu\n"));
    free(output);
    unlink(path);
}

/* Every array of objects in the JSON is a file, with a line for each object. */
static void tables_as_csv(void **state) {
    (void)state;
    static const char inputs[] = WHOLE "/fsdp2_rank0.json.gz " WHOLE "/fsdp2_rank1.json.gz";
    char folder[] = "/tmp/aorta_csv_XXXXXX", words[512];
    int exit_code;
    assert_non_null(mkdtemp(folder));
    snprintf(words, sizeof words, "%s --json --csv %s", inputs, folder);
    char *output = run(words, &exit_code);
    json_t *root = json_loads(output, 0, NULL);
    assert_int_equal(exit_code, 0);
    const json_t *first = json_array_get(json_object_get(root, "ranks"), 0);
    const json_t *second = json_array_get(json_object_get(root, "ranks"), 1);
    const char *key;
    json_t *value;
    size_t files = 0;
    json_object_foreach((json_t *)first, key, value) {
        if (!json_is_array(value)) continue;
        assert_int_equal(csv_lines(folder, key),
                         json_array_size(value) + json_array_size(json_object_get(second, key)));
        files++;
    }
    json_object_foreach(root, key, value) {
        if (!json_is_array(value)) continue;
        const size_t lines = csv_lines(folder, key);
        const json_t *folded = json_object_get(json_object_get(root, "verdict_folded"), "rows");
        assert_int_equal(lines, json_array_size(value) +
                                    (strcmp(key, "verdict") == 0 ? (size_t)json_integer_value(folded) : 0));
        files++;
    }
    const json_t *roofline = json_object_get(first, "roofline");
    assert_true(csv_lines(folder, "roofline_classes") >= json_object_size(json_object_get(roofline, "classes")));
    assert_true(csv_lines(folder, "largest_losses") >= json_array_size(json_object_get(roofline, "largest_losses")));
    assert_true(files >= 15);
    assert_int_equal(rmdir(folder), 0); /* there is no other file */
    json_decref(root);
    free(output);
}

/* Tables of equal width in each line, with a line of dashes below their heads. */
static void markdown_is_made_of_tables(void **state) {
    (void)state;
    int exit_code, rows = 0, columns = 0;
    char *output = run(WHOLE "/fsdp2_rank0.json.gz " WHOLE "/fsdp2_rank1.json.gz --markdown", &exit_code);
    assert_int_equal(exit_code, 0);
    assert_non_null(strstr(output, "**Verdict: "));
    assert_non_null(strstr(output, "\n| step | 431 ms without the profiler (363 to 512); 442 recorded; "));
    assert_non_null(strstr(output, "\n| share of step | gain alone | cause | measured | fix |\n"));
    assert_non_null(strstr(output, "\n| ---: | ---: | --- | --- | --- |\n| 55% | 237 ms | late kernel launches"));
    for (const char *line = output; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        int bars = 0;
        if (*line != '|') rows = 0; /* another table */
        if (*line != '|') continue;
        for (const char *at = line; *at && *at != '\n'; at++) bars += *at == '|' && (at == line || at[-1] != '\\');
        if (rows++) assert_int_equal(bars, columns);
        columns = bars;
    }
    assert_int_equal(columns, 6);
    free(output);
    output = run_command("compare", WHOLE "/fsdp2_rank0.json.gz " WHOLE "/fsdp2_rank1.json.gz --markdown", &exit_code);
    assert_int_equal(exit_code, 0);
    assert_non_null(strstr(output, "**not decided between fsdp2\\_rank0 and fsdp2\\_rank1 (the recordings do not mark "
                                   "their steps): recording 440 -&gt; 443 ms (+0.8%)**\n"));
    assert_non_null(strstr(output, "\n- opposite: idle: late kernel launches "));
    assert_non_null(strstr(output, " | fsdp2\\_rank0 | fsdp2\\_rank1 | change |\n| --- | ---: | ---: | ---: |\n"));
    assert_non_null(strstr(output, "</details>"));
    free(output);
    output = run(WHOLE "/h100_qwen.json.gz --markdown --json", &exit_code);
    assert_int_equal(exit_code, 2);
    free(output);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_as_csv),
        cmocka_unit_test(memory_says_what_it_was_for),
        cmocka_unit_test(calls_answer),
        cmocka_unit_test(the_answer_is_short_and_whole),
        cmocka_unit_test(markdown_is_made_of_tables),
        cmocka_unit_test(costs_add_up_to_the_step_without_recording),
        cmocka_unit_test(names_are_short_or_whole),
        cmocka_unit_test(color_is_asked_for),
        cmocka_unit_test(rank_keys_are_there),
        cmocka_unit_test(own_collectives_have_their_kind),
        cmocka_unit_test(what_is_not_known_is_null),
        cmocka_unit_test(ranks_of_a_folder_are_found),
        cmocka_unit_test(broken_files_are_named_or_recovered),
        cmocka_unit_test(the_page_stands_alone),
        cmocka_unit_test(the_page_has_a_flame_view),
        cmocka_unit_test(blocks_have_the_gain_that_is_shown),
        cmocka_unit_test(recordings_have_a_page),
    };
    return cmocka_run_group_tests(tests, place_enter, place_leave);
}
