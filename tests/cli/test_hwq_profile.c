/* aorta hwq profile under a rocprofv3 that writes what the test planted: the command that is built, and what is read
 * back. */
#include "check.h"
#include "folder.h"
#include "place.h"

#include <jansson.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[FOLDER_PATH], output[65536];

static void write_file(const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

/* Writes down its arguments and copies what was planted to where a real one writes. It does not start the workload. */
static const char tool[] = "#!/bin/sh\n"
                           "[ \"$1\" = --help ] && { echo '--output-format {csv,json}'; exit; }\n"
                           "echo \"$*\" >\"$PLANTED/arguments\"\n"
                           "while [ \"$1\" != -- ]; do [ \"$1\" = -d ] && folder=$2; shift; done\n"
                           "mkdir -p \"$folder/host\" && cp \"$PLANTED\"/1_* \"$folder/host/\"\n"
                           "exit ${STATUS:-0}\n";

static int open_folder(void **state) {
    if (place_enter(state)) return 1;
    folder_make(folder, "profile");
    write_file("rocprofv3", tool);
    char path[128], variable[4096];
    snprintf(path, sizeof path, "%s/rocprofv3", folder);
    snprintf(variable, sizeof variable, "%s:%s", folder, getenv("PATH"));
    setenv("PATH", variable, 1);
    setenv("PLANTED", folder, 1);
    return chmod(path, 0755);
}

static int remove_folder(void **state) {
    return place_leave(state) || folder_remove(folder);
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

/* Iterations after gates: two kernels on stream 1, 2 us apart, then one on stream 2, 5 us later; and stamps of the
 * driver between, which count for nothing. */
static void plant(void) {
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
}

static void queues_of_a_run(void **state) {
    (void)state;
    plant();
    expect("--device hip tiny_kernel_stress --streams 2 --iterations 10", 0, "streams used 2 queues, busy ");
    assert_non_null(strstr(output, "queue 3              20        0        1"));
    assert_non_null(strstr(output, "  left out    20 kernels of the harness itself"));
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
    plant();
    snprintf(words, sizeof words, "moe --device hip -s 4 --output=%s/recording --iterations 3", folder);
    snprintf(message, sizeof message, "\nRecording: %s/recording\n", folder);
    expect(words, 0, message);
    assert_non_null(strstr(output, "streams used 2 queues, busy "));
    snprintf(words, sizeof words, "--device hip --output %s/recording moe", folder);
    snprintf(message, sizeof message,
             "--output %s/recording: holds the recording of another run (host/1_kernel_trace.csv); remove it", folder);
    expect(words, 2, message);
}

static void json_of_a_run(void **state) {
    (void)state;
    plant();
    assert_int_equal(run("--device hip --json moe 2>/dev/null"), 0);
    json_t *root = json_loads(output, 0, NULL), *recording = json_array_get(json_object_get(root, "recordings"), 0);
    if (!root) fail_msg("no JSON: %s", output);
    const json_t *profile = json_object_get(recording, "profile"), *gaps = json_object_get(profile, "gaps");
    const json_t *intra = json_object_get(gaps, "intra_stream"), *inter = json_object_get(gaps, "inter_stream");
    assert_int_equal(json_integer_value(json_object_get(profile, "queue_count")), 2);
    assert_int_equal(json_integer_value(json_object_get(recording, "kernels_left_out")), 20);
    assert_int_equal(json_integer_value(json_object_get(profile, "kernels")), 30);
    assert_int_equal(json_integer_value(json_object_get(intra, "samples")), 10 + 9 + 9); /* and between iterations */
    assert_true(json_number_value(json_object_get(inter, "p50_ns")) == 5000);
    assert_non_null(strstr(json_string_value(json_object_get(recording, "headline")), "streams used 2 queues, busy "));
    assert_true(json_array_size(json_object_get(recording, "facts")) > 0);
    json_decref(root);
}

static void recordings_are_read(void **state) {
    (void)state;
    static const char *const files[] = {"rocprof_results.json", "rocprof_3.db", "rocprof_kernel_trace.csv"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char words[512];
        snprintf(words, sizeof words, "--trace %s/%s", TRACE_DATA, files[i]);
        expect(words, 0, "30 kernels and 3 transfers (copies and fills)");
        assert_non_null(strstr(output, "Queues: 4 streams used 3 queues, busy "));
        assert_non_null(strstr(output, "queue 19             15        0        1"));
    }
    expect("--trace " TRACE_DATA "/fsdp2_rank0.json", 0, "does not say which queue");
    expect("--trace " TRACE_DATA "/rocprof_results.json -q", 0, "Queues: ");
    assert_null(strstr(output, "gaps, us"));
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
    expect("--trace " TRACE_DATA "/rocprof_results.json moe", 2,
           "--trace reads a recording; it takes no workload (\"moe\")");
    setenv("STATUS", "7", 1);
    plant();
    expect("--device hip moe", 1, "the workload ended with exit code 7");
    unsetenv("STATUS");
    expect("--device hip --dry-run moe --streams 4", 0, "hwq run moe --streams 4 --device hip");
    expect("moe -q --streams 4 -dhip --dry-run", 0, "hwq run moe --streams 4 --device hip --quiet");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queues_of_a_run), cmocka_unit_test(a_directory_is_used_once),
        cmocka_unit_test(json_of_a_run),   cmocka_unit_test(recordings_are_read),
        cmocka_unit_test(mistakes),
    };
    return cmocka_run_group_tests(tests, open_folder, remove_folder);
}
