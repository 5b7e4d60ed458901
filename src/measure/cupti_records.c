#include "measure/cupti_records.h"

static const char *copy_name(uint8_t kind) {
    static const char *const kinds[] = {
        "copy",
        "copy host to device",
        "copy device to host",
        "copy host to array",
        "copy array to host",
        "copy array to array",
        "copy array to device",
        "copy device to array",
        "copy device to device",
        "copy host to host",
        "copy peer to peer",
    };
    return kinds[kind < sizeof kinds / sizeof kinds[0] ? kind : 0];
}

static struct aorta_activity_record from_kernel(const struct aorta_cupti_kernel *k) {
    return (struct aorta_activity_record){
        .kind = AORTA_TRACE_KERNEL,
        .name = k->name,
        .start_ns = (int64_t)k->start,
        .end_ns = (int64_t)k->end,
        .stream = k->stream,
        .device = k->device,
        .context = k->context,
        .correlation = k->correlation,
        .graph = k->graph,
        .graph_node = k->graph_node,
        .grid = {(uint32_t)k->grid[0], (uint32_t)k->grid[1], (uint32_t)k->grid[2]},
        .block = {(uint32_t)k->block[0], (uint32_t)k->block[1], (uint32_t)k->block[2]},
        .registers = k->registers_per_thread,
        .shared_bytes = (uint32_t)(k->static_shared + k->dynamic_shared),
        .channel = k->channel,
        .channel_type = k->channel_type,
    };
}

static struct aorta_activity_record from_transfer(enum aorta_trace_kind kind, const char *name, uint8_t copy_kind,
                                                  struct aorta_cupti_transfer t) {
    return (struct aorta_activity_record){
        .kind = kind,
        .name = name,
        .start_ns = (int64_t)t.start,
        .end_ns = (int64_t)t.end,
        .stream = t.stream,
        .device = t.device,
        .context = t.context,
        .correlation = t.correlation,
        .graph = t.graph,
        .graph_node = t.graph_node,
        .bytes = (int64_t)t.bytes,
        .copy_kind = copy_kind,
        .channel = t.channel,
        .channel_type = t.channel_type,
    };
}

bool aorta_cupti_decode(const struct aorta_cupti_activity *activity, struct aorta_activity_record *record) {
    const void *bytes = activity;
    const struct aorta_cupti_memcpy *copy = bytes;
    const struct aorta_cupti_memcpy_peer *peer = bytes;
    const struct aorta_cupti_memset *fill = bytes;
    switch (activity->kind) {
    case AORTA_CUPTI_KIND_KERNEL:
    case AORTA_CUPTI_KIND_CONCURRENT_KERNEL:
        *record = from_kernel(bytes);
        return true;
    case AORTA_CUPTI_KIND_MEMCPY:
        *record =
            from_transfer(AORTA_TRACE_COPY, copy_name(copy->copy_kind), copy->copy_kind, AORTA_CUPTI_TRANSFER(copy));
        return true;
    case AORTA_CUPTI_KIND_MEMCPY_PEER:
        *record =
            from_transfer(AORTA_TRACE_COPY, copy_name(peer->copy_kind), peer->copy_kind, AORTA_CUPTI_TRANSFER(peer));
        return true;
    case AORTA_CUPTI_KIND_MEMSET:
        *record = from_transfer(AORTA_TRACE_FILL, "fill", 0, AORTA_CUPTI_TRANSFER(fill));
        return true;
    }
    return false;
}

bool aorta_cupti_is_finished(const struct aorta_activity_record *record) {
    return record->start_ns > 0 && record->end_ns >= record->start_ns;
}
