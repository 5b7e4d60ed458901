/* Any bytes as a CSV trace: an error that names the file, or a trace whose rows are in order; with recovery nothing is
 * refused that was taken without. */
#include "formats/open.h"
#include "formats/reader.h"
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static aorta_status read_it(const char *path, bool recover, struct aorta_trace_list *list) {
    const struct aorta_trace_options options = {.recover = recover};
    aorta_status status = aorta_trace_reader_csv.read(path, &options, list);
    if (status && !strstr(aorta_status_message(status), path)) abort();
    for (size_t i = 0; i < list->count; i++) {
        const struct aorta_trace *trace = list->items[i];
        for (size_t w = 0; w < trace->work_count; w++) {
            const struct aorta_trace_work *work = &trace->work[w];
            if (work->end_ns < work->start_ns || work->stream >= trace->stream_count) abort();
            if (w && work->start_ns < trace->work[w - 1].start_ns) abort();
        }
    }
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/aorta_fuzz_%d.csv", (int)getpid());
    FILE *out = fopen(path, "wb");
    if (!out || fwrite(data, 1, size, out) != size || fclose(out) != 0) abort();
    struct aorta_trace_list whole = {0}, recovered = {0};
    aorta_status first = read_it(path, false, &whole), second = read_it(path, true, &recovered);
    unlink(path);
    if (!first && (second || whole.count != recovered.count)) abort();
    for (size_t i = 0; !first && i < whole.count; i++)
        if (whole.items[i]->work_count != recovered.items[i]->work_count) abort();
    aorta_status_free(first);
    aorta_status_free(second);
    aorta_trace_list_free(&whole);
    aorta_trace_list_free(&recovered);
    return 0;
}
