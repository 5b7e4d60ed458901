/* Any bytes as a CSV trace: an error that names the file, or a trace whose rows are in order; with recovery nothing is
 * refused that was taken without. */
#include "fuzz.h"
#include "reader.h"
#include "trace/open.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[FUZZ_PATH];
    fuzz_path(path, "x.csv");
    fuzz_write(path, data, size);
    struct aorta_trace_list whole = {0}, recovered = {0};
    aorta_status first = fuzz_read(&aorta_trace_reader_csv, path, false, &whole),
                 second = fuzz_read(&aorta_trace_reader_csv, path, true, &recovered);
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
