/* aorta whatif as a user runs it. */
#include "check.h"
#include "place.h"

#include <stdlib.h>
#include <sys/wait.h>

#define BOTH TRACE_DATA "/whole/fsdp2_rank0.json.gz " TRACE_DATA "/whole/fsdp2_rank1.json.gz "
#define WORDS " | tr -s '\\n ' ' '" /* as lines are wrapped */
#define DISPATCHES TRACE_DATA "/whole/rocprofv3_908.json.gz "
#define RESNET TRACE_DATA "/whole/mi300_resnet.json.gz "
#define ONE TRACE_DATA "/whole/mi250_minitoy.json.gz "

static const struct {
    const char *words;
    int exit_code;
    const char *output; /* a part of it */
} calls[] = {
    {"--help", 0, "--ranks-per-node N"},
    {TRACE_DATA "/whole/h100_qwen.json.gz --remedy fusion -q", 0, "step 35.1 -> 21 to 28 ms (-20 to -40%)\n"},
    {BOTH "--ranks 64 | grep -c '##'", 1, "0\n"}, /* no curve over ranks that nobody asked for */
    {BOTH " | tr -s '\n ' ' '", 0, "2 ranks: step 442 ms measured, 431 ms replayed without the profiler (363 to 512)"},
    {BOTH, 0, "       2      430.567"},
    {BOTH "--json", 0, "\"unrecorded_ms\": 430.5668"},
    {DISPATCHES "--json", 0, "\"unrecorded_ms\": null"},
    {BOTH "| tr -s ' '", 0, "\n 64 "}, /* a row for each number of ranks */
    {BOTH "| grep -c '###'", 1, "0\n"},
    {BOTH "--ranks 8,64", 0, "fitted to 162 collectives in 5 sizes"},
    {BOTH "--ranks 8,64", 0, "links between nodes have the recorded link's bandwidth"},
    {BOTH "--ranks 64 --bandwidth 400G --latency 5us", 0, "5 us, 50 GB/s between nodes of 8 ranks"},
    {BOTH "--ranks 64 --bandwidth 50GB/s --latency 5000ns", 0, "5 us, 50 GB/s between nodes of 8 ranks"},
    {BOTH "--ranks 16384", 0, "scaling stops at 16384 ranks"},
    {BOTH "--ranks 16384", 0, "  assumed     each rank has the batch that was recorded (weak scaling)"},
    {BOTH "| grep -A1 'of step before' | tr -s ' '", 0, " 2 430.567 134.291 100.0% 100.0%\n"},
    {BOTH "--bandwidth 100G", 0, "--bandwidth and --latency change nothing: 2 ranks are in one node of 8"},
    {BOTH "--compute 2x", 0, "kernels 2x as fast"},
    {BOTH "--compute 2x -q", 0, "On 2 ranks: step "},
    {BOTH "--copies 2x -q", 0, "ms (0%)\n"},
    {BOTH "--without host_launch", 0, "  without     host_launch: launches cost the host nothing"},
    {RESNET "--without exposed_collective" WORDS, 0, "recorded 1 of 8 ranks: step 18.8 ms measured"},
    {RESNET "--without exposed_collective" WORDS, 0,
     "the verdict gives this cause 11.7 ms: its range also covers slower"},
    {RESNET "--without exposed_collective --compute 2x | grep -c 'the verdict'", 1, "0\n"},
    {RESNET "--without exposed_collective --bandwidth 400G | grep -c 'the verdict'", 1, "0\n"},
    {BOTH "--without host_launch | grep -c 'the verdict gives'", 1, "0\n"}, /* they agree */
    {BOTH "--without host_pause --json | grep -c '^ *\"host_pause\"'", 0, "1\n"},
    {BOTH "--without host_pause --json | grep -c '\"text\": \"host_pause\"'", 0, "1\n"},
    {BOTH "--ranks 8 --json", 0, "\"recorded_ranks\": 2"},
    {BOTH "--ranks 8 --json", 0, "\"exposed_comm_ms\": "},
    {ONE, 0, "  recorded    1 rank: step 9.18 ms measured, "},
    {ONE "-q | tr -d '0-9.'", 0, "On  rank: step  ms; no change was named\n"},
    {ONE, 0, "  try         --without CAUSE, --remedy KEY or --compute 2x"},
    {ONE "--compute 2x -q", 0, " -> "},
    {ONE "--ranks 8", 2, "no collectives were recorded"},
    {DISPATCHES "--ranks 8", 2, "the recording does not say how large its collectives are"},
    {DISPATCHES "--compute 2x" WORDS, 0, "collectives, whose kind or size is not recorded, take as long as before"},
    {DISPATCHES WORDS, 0, "results are rough"},
    {BOTH "--ranks 8,x", 2, "--ranks 8,x: give whole numbers from 1 to 1000000, as 8,64,1024"},
    {BOTH "--ranks 0", 2, "--ranks 0: give"},
    {BOTH "--ranks 8,", 2, "--ranks 8,: give"},
    {BOTH "--ranks ''", 2, "--ranks : give"},
    {BOTH "--ranks 99999999999999999999", 2, "give whole numbers"},
    {BOTH "--bandwidth 400", 2, "--bandwidth 400: give Gbit/s as 400G, or bytes as 50GB/s"},
    {BOTH "--bandwidth nanG", 2, "--bandwidth nanG: give"},
    {BOTH "--latency 5", 2, "--latency 5: give a time with its unit, as 5us or 800ns"},
    {BOTH "--latency -5us", 2, "--latency -5us: give"},
    {BOTH "--ranks 1000000 --latency 1e200s", 2, "more than a hundred years"},
    {BOTH "--ranks 64 --bandwidth 1e-300G --latency 1ns", 2, "more than a hundred years"},
    {BOTH "--compute 1e-30x", 2, "more than a hundred years"},
    {BOTH "--compute 1e300x", 0, "kernels"},
    {BOTH "--latency 1e305s", 2, "--latency 1e305s: give"},
    {BOTH "--copies 0.5x", 0, "copies 0.5x as fast"},
    {BOTH "--copies 0", 2, "--copies 0: give a factor above 0"},
    {BOTH "--compute 0x", 2, "--compute 0x: give a factor above 0, as 2x or 0.5x"},
    {BOTH "--compute fast", 2, "--compute fast: give"},
    {BOTH "--ranks-per-node 0", 2, "--ranks-per-node"},
    {BOTH "--without fusion", 2, "--without fusion: this cause makes kernels slower; use --remedy fusion"},
    {BOTH "--without hst_launch", 2,
     "no such cause to remove (did you mean host_launch?); one of host_launch, host_sync"},
    {BOTH "--remedy fusion", 0, "  with        fusion: chains of pointwise kernels and reductions as one pass"},
    {BOTH "--remedy precision --remedy attention --json", 0, "\"precision=bf16\""},
    {BOTH "--remedy fusion --ranks 64", 0, "  saved       0.059 ms of kernels per step, 29 launches disappear"},
    {DISPATCHES "--remedy fusion -q", 0, "On 1 rank: step 48 -> 47.6 ms (-0.8%)"},
    {BOTH "--remedy fusion --json", 0, "\"kernels_saved_ms\": 0.059"},
    {DISPATCHES "--remedy fusion", 0, "  saved       1.15 ms of kernels per step, 277 launches disappear"},
    {DISPATCHES "--remedy casts=copies --remedy fusion | tr -s '\n ' ' '", 0,
     "undoes (not known: the recording has no operations) fusion: "},
    {DISPATCHES "--remedy casts=copies --json | tr -d '\n '", 0, "\"remedies_lacking\":[\"casts=copies\"]"},
    {BOTH "--remedy precision=bf16 --remedy fusion --ranks 64", 0, "  exposed     all_gather, "},
    {BOTH "--remedy fussion", 2,
     "--remedy fussion: no such remedy (did you mean fusion?); one of recompute, attention"},
    {"", 2, "name a trace or the directory of a run; usage"},
    {"/nowhere.json", 2, "cannot open /nowhere.json"},
};

static void calls_end_as_they_should(void **state) {
    (void)state;
    char output[1 << 15], command[2048];
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        snprintf(command, sizeof command, "%s whatif %s 2>&1", AORTA_PROGRAM, calls[i].words);
        FILE *pipe = popen(command, "r");
        assert_non_null(pipe);
        output[fread(output, 1, sizeof output - 1, pipe)] = '\0';
        int status = pclose(pipe);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != calls[i].exit_code || !strstr(output, calls[i].output))
            print_error("aorta whatif %s\nended with %d, expected %d and \"%s\":\n%s\n", calls[i].words,
                        WEXITSTATUS(status), calls[i].exit_code, calls[i].output, output);
        assert_int_equal(WEXITSTATUS(status), calls[i].exit_code);
        assert_non_null(strstr(output, calls[i].output));
    }
}

static void put_event(FILE *file, const char *category, const char *name, int at_us, int length_us, int number) {
    fprintf(file,
            ",\n{\"ph\": \"X\", \"cat\": \"%s\", \"name\": \"%s\", \"pid\": 1, \"tid\": 1, \"ts\": %d, \"dur\": %d, "
            "\"args\": {\"correlation\": %d, \"device\": 0, \"stream\": 7, \"bytes\": 8000000}}",
            category, name, at_us, length_us, number);
}

/* The host makes a batch for 10 of 12 ms, which the verdict calls waiting for data. */
static void stalls_before_the_input_are_waiting_for_data(void **state) {
    (void)state;
    static const char *const kernels[] = {"embedding", "norm", "gemm", "gelu", "gemm_backward", "loss"};
    enum { KERNELS = sizeof kernels / sizeof *kernels };
    char line[256] = "", mark[32];
    FILE *file = fopen("stalls.json", "w");
    assert_non_null(file);
    fputs("{\"traceEvents\": [{}", file);
    for (int step = 0, number = 0; step < 12; step++) {
        const int at_us = 1000 + 12000 * step;
        snprintf(mark, sizeof mark, "ProfilerStep#%d", step);
        put_event(file, "user_annotation", mark, at_us - 1, 11990, 0);
        put_event(file, "cuda_runtime", "cudaMemcpyAsync", at_us, 3, ++number);
        put_event(file, "gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", at_us + 5, 100, number);
        for (int i = 0; i < KERNELS; i++) {
            put_event(file, "cuda_runtime", "cudaLaunchKernel", at_us + 10 + 5 * i, 3, ++number);
            put_event(file, "kernel", kernels[i], at_us + 110 + 300 * i, 290, number);
        }
    }
    fputs("]}\n", file);
    fclose(file);
    FILE *pipe = popen(AORTA_PROGRAM " whatif stalls.json --without data_wait -q", "r");
    assert_non_null(pipe);
    assert_non_null(fgets(line, sizeof line, pipe));
    assert_int_equal(pclose(pipe), 0);
    if (!strstr(line, "(-8")) fail_msg("%s", line);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(calls_end_as_they_should),
                                       cmocka_unit_test(stalls_before_the_input_are_waiting_for_data)};
    return cmocka_run_group_tests(tests, place_enter, place_leave);
}
