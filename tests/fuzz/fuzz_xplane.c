/* Any bytes as an XSpace of XLA: an error that names the file, or a trace whose rows are in order; with recovery
 * nothing is refused that was taken without. */
#include "fuzz.h"
#include "reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[FUZZ_PATH];
    struct aorta_trace_list whole = {0}, recovered = {0};
    fuzz_path(path, "x.xplane.pb");
    fuzz_write(path, data, size);
    (void)aorta_trace_reader_xplane.recognises((const char *)data, size < 4096 ? size : 4096);
    aorta_status first = fuzz_read(&aorta_trace_reader_xplane, path, false, &whole),
                 second = fuzz_read(&aorta_trace_reader_xplane, path, true, &recovered);
    unlink(path);
    if (!first && second) abort();
    aorta_status_free(first);
    aorta_status_free(second);
    aorta_trace_list_free(&whole);
    aorta_trace_list_free(&recovered);
    return 0;
}
