#include "measure/cupti_abi.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *aorta_copy_words(uint8_t kind) {
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
        *record = from_transfer(AORTA_TRACE_COPY, aorta_copy_words(copy->copy_kind), copy->copy_kind,
                                AORTA_CUPTI_TRANSFER(copy));
        return true;
    case AORTA_CUPTI_KIND_MEMCPY_PEER:
        *record = from_transfer(AORTA_TRACE_COPY, aorta_copy_words(peer->copy_kind), peer->copy_kind,
                                AORTA_CUPTI_TRANSFER(peer));
        return true;
    case AORTA_CUPTI_KIND_MEMSET:
        *record = from_transfer(AORTA_TRACE_FILL, "fill", 0, AORTA_CUPTI_TRANSFER(fill));
        return true;
    }
    return false;
}

const uint32_t aorta_cupti_kinds[AORTA_CUPTI_KIND_COUNT] = {AORTA_CUPTI_KIND_CONCURRENT_KERNEL, AORTA_CUPTI_KIND_MEMCPY,
                                                            AORTA_CUPTI_KIND_MEMCPY_PEER, AORTA_CUPTI_KIND_MEMSET};

bool aorta_cupti_is_finished(const struct aorta_activity_record *record) {
    return record->start_ns > 0 && record->end_ns >= record->start_ns;
}

/* ---- buffers of records ---- */

void aorta_cupti_buffers_init(struct aorta_cupti_buffers *buffers, size_t bytes, int limit) {
    memset(buffers, 0, sizeof *buffers);
    buffers->bytes = bytes;
    buffers->limit = limit;
    pthread_mutex_init(&buffers->lock, NULL);
    buffers->filled_end = &buffers->filled;
}

static void free_list(struct aorta_cupti_buffer *list) {
    while (list) {
        struct aorta_cupti_buffer *next = list->next;
        free(list);
        list = next;
    }
}

void aorta_cupti_buffers_free(struct aorta_cupti_buffers *buffers) {
    free_list(buffers->empty);
    free_list(buffers->filled);
    pthread_mutex_destroy(&buffers->lock);
}

static struct aorta_cupti_buffer *pop_filled(struct aorta_cupti_buffers *buffers) {
    struct aorta_cupti_buffer *buffer = buffers->filled;
    if (!buffer) return NULL;
    buffers->filled = buffer->next;
    if (!buffers->filled) buffers->filled_end = &buffers->filled;
    return buffer;
}

/* An empty one, or the oldest filled one when all are full, or NULL. */
static struct aorta_cupti_buffer *lend(struct aorta_cupti_buffers *buffers, bool *overwritten) {
    *overwritten = false;
    pthread_mutex_lock(&buffers->lock);
    struct aorta_cupti_buffer *buffer = buffers->empty;
    if (buffer)
        buffers->empty = buffer->next;
    else if (buffers->made < buffers->limit && (buffer = malloc(sizeof *buffer + buffers->bytes)))
        buffers->made++;
    else
        *overwritten = (buffer = pop_filled(buffers)) != NULL;
    buffers->lent += buffer != NULL;
    pthread_mutex_unlock(&buffers->lock);
    return buffer;
}

uint8_t *aorta_cupti_buffers_lend(struct aorta_cupti_buffers *buffers, const struct aorta_cupti_api *api,
                                  _Atomic int64_t *lost) {
    bool overwritten;
    struct aorta_cupti_buffer *buffer = lend(buffers, &overwritten);
    struct aorta_cupti_activity *record = NULL;
    while (overwritten && api->next_record(buffer->bytes, buffer->valid, &record) == AORTA_CUPTI_SUCCESS)
        atomic_fetch_add(lost, 1);
    return buffer ? buffer->bytes : NULL;
}

void aorta_cupti_buffers_return(struct aorta_cupti_buffers *buffers, uint8_t *bytes, size_t valid) {
    struct aorta_cupti_buffer *buffer = (void *)(bytes - offsetof(struct aorta_cupti_buffer, bytes));
    buffer->valid = valid;
    pthread_mutex_lock(&buffers->lock);
    buffers->lent--;
    if (valid) {
        buffer->next = NULL;
        *buffers->filled_end = buffer;
        buffers->filled_end = &buffer->next;
    }
    pthread_mutex_unlock(&buffers->lock);
    if (!valid) aorta_cupti_buffers_recycle(buffers, buffer);
}

struct aorta_cupti_buffer *aorta_cupti_buffers_take(struct aorta_cupti_buffers *buffers) {
    pthread_mutex_lock(&buffers->lock);
    struct aorta_cupti_buffer *buffer = pop_filled(buffers);
    pthread_mutex_unlock(&buffers->lock);
    return buffer;
}

void aorta_cupti_buffers_recycle(struct aorta_cupti_buffers *buffers, struct aorta_cupti_buffer *buffer) {
    pthread_mutex_lock(&buffers->lock);
    buffer->next = buffers->empty;
    buffers->empty = buffer;
    pthread_mutex_unlock(&buffers->lock);
}

int aorta_cupti_buffers_lent(struct aorta_cupti_buffers *buffers) {
    pthread_mutex_lock(&buffers->lock);
    int lent = buffers->lent;
    pthread_mutex_unlock(&buffers->lock);
    return lent;
}

/* ---- words ---- */

struct aorta_cupti_version aorta_cupti_version(uint32_t version) {
    struct aorta_cupti_version name;
    if (version >= 100000) /* since CUDA 13 the number is major, minor, patch */
        snprintf(name.text, sizeof name.text, "CUPTI %u.%u.%u", version / 10000, version / 100 % 100, version % 100);
    else
        snprintf(name.text, sizeof name.text, "CUPTI 12 (interface %u)", version);
    return name;
}

const char *aorta_cupti_reason(const struct aorta_cupti_api *api, uint32_t result) {
    const char *reason = NULL;
    return api->result_string(result, &reason) == AORTA_CUPTI_SUCCESS && reason ? reason : "unknown result";
}

static const struct {
    uint32_t result;
    const char *advice;
} advices[] = {
    {AORTA_CUPTI_INSUFFICIENT_PRIVILEGES,
     "the driver lets only administrators profile. Run as root or with CAP_SYS_ADMIN (docker: --cap-add=SYS_ADMIN), or "
     "load the nvidia module with NVreg_RestrictProfilingToAdminUsers=0"},
    {AORTA_CUPTI_MULTIPLE_SUBSCRIBERS,
     "another profiler has CUPTI in this process. Run without Nsight Systems, Nsight Compute, DCGM profiling or what "
     "CUDA_INJECTION64_PATH injects, or without --kernel-timing"},
    {AORTA_CUPTI_OLD_PROFILER_API, "the old cudaProfiler interface is in use in this process; end that first"},
    {AORTA_CUPTI_NOT_COMPATIBLE,
     "it does not suit this driver or another tracer; use the CUPTI of the driver's CUDA version"},
    {AORTA_CUPTI_NOT_INITIALIZED, "it could not initialize; use the CUPTI of the driver's CUDA version"},
    {AORTA_CUPTI_VIRTUALIZED, "this virtual GPU does not allow tracing"},
    {AORTA_CUPTI_VIRTUALIZED_PRIVILEGES,
     "this virtual GPU does not allow tracing; its host must allow profiling for this machine (vGPU plugin parameter "
     "enable_profiling)"},
    {AORTA_CUPTI_CONFIDENTIAL_COMPUTING, "this GPU runs in confidential computing mode, which does not allow tracing"},
    {AORTA_CUPTI_MIG_DEVICE, "this slice of a GPU (MIG) does not allow tracing"},
    {AORTA_CUPTI_WSL_DEVICE, "tracing is not available under WSL with this driver"},
};

const char *aorta_cupti_advice(uint32_t result) {
    for (size_t i = 0; i < sizeof advices / sizeof advices[0]; i++)
        if (advices[i].result == result) return advices[i].advice;
    return NULL;
}
