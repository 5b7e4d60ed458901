/* An execution trace, then a byte 0, then a trace of torch.profiler that borrows its shapes: any bytes. */
#include "fuzz.h"
#include "json_memory.h"
#include "trace/execution_trace.h"
#include "trace/reader.h"

static struct aorta_json_stream *stream_of(const uint8_t *data, size_t size, const char *name) {
    struct aorta_json_stream *stream;
    aorta_status status = json_memory((const char *)data, size, 0, name, &stream);
    fuzz_require(!status);
    return stream;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const struct fuzz_halves halves = fuzz_split(data, size);
    struct aorta_trace_options options = {.recover = true};
    struct aorta_trace_list list = {0};
    struct aorta_json_stream *stream = stream_of(halves.first.data, halves.first.size, "et.json");
    aorta_status status = aorta_execution_traces_add(&options.executed, stream);
    (void)aorta_execution_trace_is((const char *)halves.first.data, halves.first.size);
    aorta_json_stream_close(stream);
    aorta_status_free(status);
    stream = stream_of(halves.second.data, halves.second.size, "rank0.json");
    aorta_status_free(aorta_trace_read_json(stream, &options, &list));
    aorta_json_stream_close(stream);
    if (options.executed && list.count) aorta_execution_traces_note_unused(options.executed, list.items[0]);
    aorta_trace_list_free(&list);
    if (options.executed) aorta_execution_traces_free(options.executed);
    return 0;
}
