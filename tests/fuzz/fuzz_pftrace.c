/* Any bytes as rocprofv3's pftrace: an error that names the file, or traces whose rows are in order; with recovery
 * nothing is refused that was taken without. */
#include "fuzz.h"
#include "reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_reader(&aorta_trace_reader_pftrace, "x.pftrace", data, size);
    return 0;
}
