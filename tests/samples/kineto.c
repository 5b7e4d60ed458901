#include "samples/kineto.h"

#include "check.h"
#include "trace/open.h"

#include <stdlib.h>
#include <unistd.h>

void sample_kineto_begin(struct sample_kineto *sample, int rank, int world) {
    *sample = (struct sample_kineto){.process = 9};
    aorta_text_printf(&sample->text,
                      "{\"deviceProperties\": [{\"id\": 0, \"name\": \"NVIDIA H200\", \"numSms\": 132}], "
                      "\"distributedInfo\": {\"rank\": %d, "
                      "\"world_size\": %d}, \"traceEvents\": [{}",
                      rank, world);
}

void sample_kineto_event(struct sample_kineto *sample, const char *category, const char *name, int thread,
                         double start_us, double length_us, const char *args) {
    aorta_text_printf(&sample->text,
                      ",\n{\"ph\": \"X\", \"cat\": \"%s\", \"name\": \"%s\", \"pid\": %d, \"tid\": %d, \"ts\": %.3f, "
                      "\"dur\": %.3f, \"args\": {%s}}",
                      category, name, sample->process, thread, start_us, length_us, args);
}

void sample_kineto_kernel(struct sample_kineto *sample, const char *name, int stream, double launch_us, double start_us,
                          double length_us, const char *args) {
    char all[1024];
    sample->correlation++;
    snprintf(all, sizeof all, "\"correlation\": %u", sample->correlation);
    sample_kineto_event(sample, "cuda_runtime", "cudaLaunchKernel", 1, launch_us, 2, all);
    snprintf(all, sizeof all, "\"device\": 0, \"stream\": %d, \"correlation\": %u%s%s", stream, sample->correlation,
             *args ? ", " : "", args);
    sample_kineto_event(sample, "kernel", name, stream, start_us, length_us, all);
}

void sample_kineto_open(struct sample_kineto *sample, struct aorta_trace_list *list) {
    char path[] = "/tmp/aorta_sample_XXXXXX";
    aorta_text_puts(&sample->text, "]}\n");
    check_ok(aorta_text_check(&sample->text));
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, sample->text.data, sample->text.length), (ssize_t)sample->text.length);
    close(file);
    check_ok(aorta_trace_open(path, NULL, list));
    unlink(path);
    aorta_text_free(&sample->text);
}
