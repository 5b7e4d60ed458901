/* Any bytes as an XSpace of XLA: an error that names the file, or a trace whose rows are in order; with recovery
 * nothing is refused that was taken without. */
#include "fuzz.h"
#include "reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_reader(&aorta_trace_reader_xplane, "x.xplane.pb", data, size);
    return 0;
}
