/* aorta hwq profile under a rocprofv3 that writes what the test planted: the command that is built, what is read back,
 * and the agreement of gaps. */
#include "check.h"
#include "cli/hwq_profile.h"

#include <jansson.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64], output[65536];

static void write_file(const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

/* Notes its arguments, copies what was planted to where a real one writes, and leaves the planted result where the
 * workload was told to. It does not start the workload. */
static const char tool[] = "#!/bin/sh\n"
                           "[ \"$1\" = --help ] && { echo '--output-format {csv,json}'; exit; }\n"
                           "echo \"$*\" >\"$PLANTED/arguments\"\n"
                           "while [ \"$1\" != -- ]; do [ \"$1\" = -d ] && folder=$2; shift; done\n"
                           "mkdir -p \"$folder/host\" && cp \"$PLANTED\"/1_* \"$folder/host/\"\n"
                           "while [ $# -gt 0 ]; do\n"
                           "  [ \"$1\" = --output ] && cp \"$PLANTED/result\" \"$2\"\n"
                           "  [ \"$1\" = --stamps ] && cp \"$PLANTED/stamps\" \"$2\"\n"
                           "  shift\n"
                           "done\n"
                           "exit ${STATUS:-0}\n";

static int open_folder(void **state) {
    (void)state;
    strcpy(folder, "/tmp/aorta_profile_XXXXXX");
    if (!mkdtemp(folder)) return -1;
    write_file("rocprofv3", tool);
    char path[128], variable[4096];
    snprintf(path, sizeof path, "%s/rocprofv3", folder);
    snprintf(variable, sizeof variable, "%s:%s", folder, getenv("PATH"));
    setenv("PATH", variable, 1);
    setenv("PLANTED", folder, 1);
    return chmod(path, 0755);
}

static int remove_folder(void **state) {
    (void)state;
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static int run(const char *words) {
    char command[1024];
    snprintf(command, sizeof command, "%s hwq profile %s 2>&1", AORTA_PROGRAM, words);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t length = fread(output, 1, sizeof output - 1, pipe);
    output[length] = '\0';
    int status = pclose(pipe);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void expect(const char *words, int exit_code, const char *part) {
    int found = run(words);
    if (found != exit_code || !strstr(output, part))
        fail_msg("aorta hwq profile %s: exit code %d, expected %d with \"%s\" in: %s", words, found, exit_code, part,
                 output);
}

/* Iterations behind gates: two kernels on stream 1, 2 us apart, then one on stream 2, 5 us later; and stamps of the
 * driver between, which count for nothing. */
static void plant(double intra_ms, double inter_ms, const char *inter_source) {
    struct lines {
        char text[65536];
        size_t length;
    } *csv = calloc(1, sizeof *csv);
    assert_non_null(csv);
    csv->length +=
        (size_t)sprintf(csv->text, "\"Kind\",\"Agent_Id\",\"Queue_Id\",\"Stream_Id\",\"Thread_Id\",\"Dispatch_Id\","
                                   "\"Kernel_Id\",\"Kernel_Name\",\"Correlation_Id\",\"Start_Timestamp\","
                                   "\"End_Timestamp\",\"LDS_Block_Size\",\"Scratch_Size\",\"VGPR_Count\","
                                   "\"Accum_VGPR_Count\",\"SGPR_Count\",\"Workgroup_Size_X\",\"Workgroup_Size_Y\","
                                   "\"Workgroup_Size_Z\",\"Grid_Size_X\",\"Grid_Size_Y\",\"Grid_Size_Z\"\n");
    static const struct {
        const char *name;
        int queue, stream, start, end;
    } kernels[] = {{"hwq_hold", 9, 9, 0, 50000},
                   {"hwq_chain", 3, 1, 51000, 60000},
                   {"aorta_stamp", 3, 1, 60500, 60900},
                   {"hwq_chain", 3, 1, 62000, 70000},
                   {"hwq_chain", 4, 2, 75000, 80000}};
    int number = 1;
    for (int iteration = 0; iteration < 10; iteration++) {
        for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++, number++) {
            long base = 1000000000L + 1000000L * iteration;
            csv->length += (size_t)sprintf(
                csv->text + csv->length,
                "\"KERNEL_DISPATCH\",\"Agent 2\",%d,%d,77,%d,%zu,\"%s\",%d,%ld,%ld,0,0,8,4,16,64,1,1,64,1,1\n",
                kernels[i].queue, kernels[i].stream, number, i + 1, kernels[i].name, number, base + kernels[i].start,
                base + kernels[i].end);
        }
    }
    write_file("1_kernel_trace.csv", csv->text);
    free(csv);
    char result[512];
    snprintf(
        result, sizeof result,
        "{\"workload_name\": \"x\", \"switch_latency\": {\"intra_stream_gap_ms\": %g, \"inter_stream_gap_ms\": %g, "
        "\"intra_stream_samples\": 10, \"inter_stream_samples\": 10, \"intra_source\": \"workload\", "
        "\"inter_source\": \"%s\"}}",
        intra_ms, inter_ms, inter_source);
    write_file("result", result);
}

/* What a run of iterations as above kept of its stamps, and its probe's: each kernel is seen from `head` ns behind its
 * start to its end; `late_ns` more on stream 2, and in the workload only. `first_gate`: of the workload. */
static void plant_stamps(int first_gate, long head, long late_ns) {
    char text[16384];
    int length = sprintf(text, "{\"kind\": \"hwq_stamps\", \"names\": [\"hwq_chain\"], \"iterations\": [");
    for (int i = 0; i < 10; i++)
        length += sprintf(text + length,
                          "%s{\"pass\": \"%s\", \"gate\": %d, \"stamps\": [[0, 0, 0, 0, 0, %ld], [0, 0, 0, 0, 11000, "
                          "%ld], [1, 0, 0, 0, %ld, %ld]]}",
                          i ? ", " : "", i < 5 ? "workload" : "probe", i + first_gate, 9000 - head, 19000 - head,
                          24000 + (i < 5 ? late_ns : 0), 29000 - head);
    sprintf(text + length, "]}\n");
    write_file("stamps", text);
}

static void queues_of_a_run(void **state) {
    (void)state;
    plant(0, 0, "workload");
    expect("--device hip tiny_kernel_stress --streams 2 --iterations 10", 0, "Hardware queues used: 2\n");
    assert_non_null(strstr(output, "queue 3              20        0        1"));
    assert_non_null(strstr(output, "Left out: 20 kernels of the harness itself"));
    char path[128], arguments[2048] = "";
    snprintf(path, sizeof path, "%s/arguments", folder);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(arguments, sizeof arguments, file));
    fclose(file);
    assert_non_null(strstr(arguments, "--kernel-trace"));
    assert_non_null(strstr(arguments, "hwq run tiny_kernel_stress --streams 2 --iterations 10 --device hip\n"));
}

static void a_directory_is_used_once(void **state) {
    (void)state;
    char words[256], message[256];
    plant(0, 0, "workload");
    snprintf(words, sizeof words, "--device hip --output %s/kept moe", folder);
    expect(words, 0, "Hardware queues used: 2\n");
    snprintf(message, sizeof message,
             "--output %s/kept: holds the recording of another run (host/1_kernel_trace.csv); remove it", folder);
    expect(words, 2, message);
}

static void json_of_a_run(void **state) {
    (void)state;
    plant(0.002, 0.005, "workload");
    plant_stamps(1, 600, 0);
    assert_int_equal(run("--device hip --json --agreement moe 2>/dev/null"), 0);
    json_t *root = json_loads(output, 0, NULL), *recording = json_array_get(json_object_get(root, "recordings"), 0);
    if (!root) fail_msg("no JSON: %s", output);
    const json_t *profile = json_object_get(recording, "profile"), *agreement = json_object_get(recording, "agreement");
    assert_int_equal(json_integer_value(json_object_get(profile, "queue_count")), 2);
    assert_int_equal(json_integer_value(json_object_get(agreement, "iterations")), 10);
    const json_t *intra = json_object_get(agreement, "intra_stream");
    assert_true(json_number_value(json_object_get(intra, "recorded_us")) == 2);
    assert_true(json_number_value(json_object_get(intra, "difference")) < 1e-9);
    const json_t *same = json_object_get(agreement, "same_pairs"), *inter = json_object_get(same, "inter_stream");
    assert_true(json_is_true(json_object_get(same, "within")));
    assert_int_equal(json_integer_value(json_object_get(same, "iterations")), 5);
    assert_int_equal(json_integer_value(json_object_get(inter, "pairs")), 5);
    assert_float_equal(json_number_value(json_object_get(inter, "stamped_us")), 5.6, 1e-9);
    assert_float_equal(json_number_value(json_object_get(inter, "corrected_us")), 5, 1e-9);
    assert_true(json_is_false(json_object_get(inter, "stamped_within")));
    assert_true(json_is_null(json_object_get(agreement, "same_pairs_reason")));
    json_decref(root);
}

static void agreement_of_gaps(void **state) {
    (void)state;
    plant(0.00215, 0.0048, "workload");
    plant_stamps(1, 600, 0);
    expect("--device hip --agreement tiny_kernel_stress", 0, "within 10 iterations behind gates");
    assert_non_null(strstr(output, "+7.5%"));
    assert_non_null(strstr(output, "-4.0%"));
    assert_non_null(strstr(output, "intra-stream   stamped    2.600 us (+30.0%)   without start and end    2.000 us "
                                   "(+0.0%)   recorded    2.000 us (5)"));
    assert_non_null(strstr(output, "stamping itself 0.600 us (15)\n  Within 10%: yes\n"));
    plant_stamps(1, 600, 800);
    expect("--device hip --agreement tiny_kernel_stress", 1,
           "inter-stream gaps of the same pairs are 16.0% apart: 5.800 us by the stamps, 5.000 us recorded");
}

/* Stamps that are not of this recording: what is left are the medians of all. */
static void agreement_without_pairs(void **state) {
    (void)state;
    plant(0.00215, 0.0048, "workload");
    plant_stamps(2, 600, 0);
    expect("--device hip --agreement tiny_kernel_stress", 0,
           "The same pairs cannot be told on both sides: gate 11 of the run is not in the recording");
    plant(0.00215, 0.0058, "workload");
    expect("--device hip --agreement tiny_kernel_stress", 1,
           "inter-stream gaps are 16.0% apart: 5.800 us stamped, 5.000 us recorded");
    plant(0.00215, 0.0058, "probe");
    expect("--device hip --agreement tiny_kernel_stress", 0, "not compared: the run took it from its own probe");
    write_file("stamps", "{}");
    expect("--device hip --agreement tiny_kernel_stress", 1, "stamps.json: not a file of stamps");
}

static void recordings_are_read(void **state) {
    (void)state;
    static const char *const files[] = {"rocprof_results.json", "rocprof_3.db", "rocprof_kernel_trace.csv"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char words[512];
        snprintf(words, sizeof words, "--trace %s/%s", TRACES, files[i]);
        expect(words, 0, "30 kernels and 3 copies and fills of 4 streams");
        assert_non_null(strstr(output, "Hardware queues used: 3"));
        assert_non_null(strstr(output, "queue 19             15        0        1"));
    }
    expect("--trace " TRACES "/fsdp2_rank0.json", 0, "does not say which queue");
}

static void mistakes(void **state) {
    (void)state;
    expect("", 2, "no workload; aorta hwq list shows them");
    expect("--device cpu moe", 2, "the CPU device has no hardware queues");
    setenv("CUDA_VISIBLE_DEVICES", "", 1); /* wherever this runs */
    setenv("HIP_VISIBLE_DEVICES", "", 1);
    expect("moe", 2, "--device auto: there is no GPU here, and the CPU device has no hardware queues");
    unsetenv("CUDA_VISIBLE_DEVICES");
    unsetenv("HIP_VISIBLE_DEVICES");
    expect("0", 2, "unknown workload \"0\"");
    expect("--device hip mo", 2, "did you mean \"moe\"");
    expect("--trace /nowhere", 2, "/nowhere");
    expect("--trace " TRACES "/rocprof_results.json moe", 2,
           "--trace reads a recording; it takes no workload (\"moe\")");
    expect("--trace " TRACES "/rocprof_results.json --agreement", 2, "--agreement needs a run");
    expect("--device hip moe --device cuda:1", 2,
           "the device is chosen before it, as in aorta hwq profile --device cuda:0 moe");
    expect("--device hip --agreement moe -o x.json", 2,
           "-o behind the workload: --agreement writes these files itself");
    expect("--device hip --agreement moe --stamps=x", 2, "--stamps=x behind the workload");
    setenv("STATUS", "7", 1);
    plant(0, 0, "workload");
    expect("--device hip moe", 1, "the workload ended with exit code 7");
    unsetenv("STATUS");
    expect("--device hip --dry-run moe --streams 4", 0, "hwq run moe --streams 4 --device hip");
}

/* All together agree, one stream does not: it is named. */
static void a_single_stream_is_named(void **state) {
    (void)state;
    const struct hwq_agreement agreement = {
        .matched = true,
        .same.kinds = {{.reason = "no stream has two operations"},
                       {.count = 200, .corrected_us = 2, .recorded_us = 2, .worst_stream = 5, .worst_off = -0.31}}};
    check_fails(hwq_agreement_judge(&agreement), AORTA_REGRESSION, "2.000 us recorded; on stream 5 31.0% apart");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queues_of_a_run),
        cmocka_unit_test(a_directory_is_used_once),
        cmocka_unit_test(json_of_a_run),
        cmocka_unit_test(agreement_of_gaps),
        cmocka_unit_test(agreement_without_pairs),
        cmocka_unit_test(recordings_are_read),
        cmocka_unit_test(mistakes),
        cmocka_unit_test(a_single_stream_is_named),
    };
    return cmocka_run_group_tests(tests, open_folder, remove_folder);
}
