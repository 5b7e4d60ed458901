#include "recording.h"

#include "check.h"
#include "folder.h"
#include "record/inject/settings.h"

#include <stdlib.h>
#include <unistd.h>

void recording_open(struct recording *recording) {
    *recording = (struct recording){0};
    folder_make(recording->directory, "inject");
}

void recording_close(struct recording *recording) {
    aorta_trace_run_record_free(&recording->record);
    folder_remove(recording->directory);
}

void recording_run(struct recording *recording, const char *scenario, int number,
                   const struct aorta_trace_run_variable *more) {
    char program[] = PROGRAM, name[64], code[16];
    struct aorta_trace_run_variable variables[12] = {
        {"CUDA_INJECTION64_PATH", INJECT},
        {AORTA_INJECT_DIRECTORY, recording->directory},
        {"LD_LIBRARY_PATH", FAKE_CUDA_FOLDER},
        {"FAKE_CUPTI", FAKE_CUPTI_FILE},
        {AORTA_INJECT_FLUSH, "50"},
        {"ASAN_OPTIONS", "handle_segv=0"}, /* so that signals are signals */
        {"TSAN_OPTIONS", "handle_segv=0"}};
    size_t count = 7;
    for (; more && more->name; more++) variables[count++] = *more;
    snprintf(name, sizeof name, "%s", scenario);
    snprintf(code, sizeof code, "%d", number);
    char *command[] = {program, name, code, NULL};
    const struct aorta_trace_run_options options = {.command = command,
                                                    .variables = variables,
                                                    .variable_count = count,
                                                    .output_to_error = true,
                                                    .spools = recording->directory};
    check_ok(aorta_trace_run_program(&options, &recording->result));
    check_ok(aorta_trace_run_read(recording->directory, NULL, &recording->record));
}

struct recorded recorded_of(const struct aorta_trace *trace) {
    struct recorded sums = {.calls = (int)trace->call_count, .steps = (int)trace->step_count};
    for (size_t i = 0; i < trace->work_count; i++) {
        const struct aorta_trace_work *work = &trace->work[i];
        bool collective = aorta_trace_is_collective(work);
        int64_t length_us = (work->end_ns - work->start_ns) / 1000;
        sums.copies += work->kind == AORTA_TRACE_COPY;
        sums.fills += work->kind == AORTA_TRACE_FILL;
        if (work->kind != AORTA_TRACE_KERNEL) continue;
        sums.kernels += !collective;
        sums.collectives += collective;
        *(collective ? &sums.comm_us : &sums.compute_us) += length_us;
    }
    return sums;
}
