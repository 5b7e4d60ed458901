#include "measure/cupti_abi.h"
#include "record/inject/inject.h"
#include "trace/spool_format.h"

#include <string.h>

/* ---- devices: asked of the driver once, when work of one is first seen ---- */

static int attribute(int device, int which) {
    int value = -1;
    void *symbol = aorta_inject_driver_symbol("cuDeviceGetAttribute");
    int (*get)(int *value, int attribute, int device);
    memcpy(&get, &symbol, sizeof get);
    return get && get(&value, which, device) == 0 ? value : -1;
}

static void describe_device(struct aorta_inject_records *records, struct aorta_spool *spool, uint32_t id) {
    enum { MULTIPROCESSORS = 16, MAJOR = 75, MINOR = 76 }; /* CUdevice_attribute */
    if (id >= AORTA_INJECT_DEVICES || records->known_devices[id]) return;
    records->known_devices[id] = 1;
    void *get_symbol = aorta_inject_driver_symbol("cuDeviceGet");
    void *name_symbol = aorta_inject_driver_symbol("cuDeviceGetName");
    void *memory_symbol = aorta_inject_driver_symbol("cuDeviceTotalMem_v2");
    int (*get)(int *device, int ordinal);
    int (*get_name)(char *name, int length, int device);
    int (*get_memory)(size_t * bytes, int device);
    memcpy(&get, &get_symbol, sizeof get);
    memcpy(&get_name, &name_symbol, sizeof get_name);
    memcpy(&get_memory, &memory_symbol, sizeof get_memory);
    int device = 0;
    char name[256] = "";
    size_t bytes = 0;
    if (!get || get(&device, (int)id) != 0) return;
    bool named = get_name && get_name(name, sizeof name, device) == 0;
    bool sized = get_memory && get_memory(&bytes, device) == 0;
    struct aorta_spool_device record = {
        .id = id,
        .name = aorta_inject_name(&records->names, spool, named ? name : NULL),
        .multiprocessors = attribute(device, MULTIPROCESSORS),
        .major = attribute(device, MAJOR),
        .minor = attribute(device, MINOR),
        .memory_bytes = sized ? (int64_t)bytes : -1,
    };
    aorta_spool_put(spool, AORTA_SPOOL_DEVICE, 0, &record, sizeof record);
}

/* ---- one function for each kind ---- */

static void put_kernel(struct aorta_inject_records *records, struct aorta_spool *spool,
                       const struct aorta_activity_record *kernel) {
    struct aorta_spool_kernel record = {
        .start_ns = kernel->start_ns,
        .end_ns = kernel->end_ns,
        .correlation = kernel->correlation,
        .name = aorta_inject_name(&records->names, spool, kernel->name),
        .device = kernel->device,
        .context = kernel->context,
        .stream = kernel->stream,
        .channel = kernel->channel,
        .graph = kernel->graph,
        .grid = {kernel->grid[0], kernel->grid[1], kernel->grid[2]},
        .block = {kernel->block[0], kernel->block[1], kernel->block[2]},
    };
    aorta_spool_put(spool, AORTA_SPOOL_KERNEL, kernel->channel_type, &record, sizeof record);
}

static void put_transfer(struct aorta_spool *spool, const struct aorta_activity_record *transfer) {
    struct aorta_spool_transfer record = {
        .start_ns = transfer->start_ns,
        .end_ns = transfer->end_ns,
        .bytes = transfer->bytes,
        .correlation = transfer->correlation,
        .device = transfer->device,
        .context = transfer->context,
        .stream = transfer->stream,
        .graph = transfer->graph,
    };
    const bool copy = transfer->kind == AORTA_TRACE_COPY;
    aorta_spool_put(spool, copy ? AORTA_SPOOL_COPY : AORTA_SPOOL_FILL, transfer->copy_kind, &record, sizeof record);
}

static void put_work(struct aorta_inject_records *records, struct aorta_spool *spool,
                     const struct aorta_activity_record *work) {
    if (!aorta_cupti_is_finished(work)) {
        records->unfinished++;
        return;
    }
    describe_device(records, spool, work->device);
    if (work->kind == AORTA_TRACE_KERNEL)
        put_kernel(records, spool, work);
    else
        put_transfer(spool, work);
}

static void put_call(struct aorta_inject_records *records, struct aorta_spool *spool,
                     const struct aorta_cupti_call *c) {
    const struct aorta_inject_call *call =
        aorta_inject_call_of(c->kind, c->id); /* CUPTI before 12.5 records all calls or none */
    if (!call || !(aorta_inject_call_part(call) & records->parts) || !c->start || c->end < c->start) return;
    struct aorta_spool_call record = {
        .start_ns = (int64_t)c->start,
        .end_ns = (int64_t)c->end,
        .correlation = c->correlation,
        .name = aorta_inject_name(&records->names, spool, call->name),
        .thread = c->thread,
    };
    aorta_spool_put(spool, AORTA_SPOOL_CALL, 0, &record, sizeof record);
}

static void put_marker(struct aorta_inject_records *records, struct aorta_spool *spool,
                       const struct aorta_cupti_marker *m) {
    enum { THREAD = 2 }; /* CUPTI_ACTIVITY_OBJECT_THREAD: object[1] is the thread's number */
    bool begins = m->flags & AORTA_CUPTI_MARKER_START;
    if (!begins && !(m->flags & AORTA_CUPTI_MARKER_END)) return; /* a moment, no range */
    struct aorta_spool_mark record = {
        .time_ns = (int64_t)m->timestamp,
        .id = m->id,
        .name = begins ? aorta_inject_name(&records->names, spool, m->name) : 0,
        .thread = m->object_kind == THREAD ? m->object[1] : 0,
    };
    aorta_spool_put(spool, AORTA_SPOOL_MARK, begins ? 1 : 2, &record, sizeof record);
}

void aorta_inject_record(struct aorta_inject_records *records, struct aorta_spool *spool,
                         const struct aorta_cupti_activity *activity) {
    const void *bytes = activity;
    struct aorta_activity_record work;
    if (aorta_cupti_decode(activity, &work))
        put_work(records, spool, &work);
    else if (activity->kind == AORTA_CUPTI_KIND_RUNTIME || activity->kind == AORTA_CUPTI_KIND_DRIVER)
        put_call(records, spool, bytes);
    else if (activity->kind == AORTA_CUPTI_KIND_MARKER)
        put_marker(records, spool, bytes);
}

/* A call has several numbers: one for each version of its signature, and one for programs compiled with a default
 * stream per thread. */
const struct aorta_inject_call aorta_inject_calls[] = {
    {AORTA_CUPTI_KIND_RUNTIME, 20, "cudaMalloc"},
    {AORTA_CUPTI_KIND_RUNTIME, 22, "cudaFree"},
    {AORTA_CUPTI_KIND_RUNTIME, 26, "cudaFreeHost"},
    {AORTA_CUPTI_KIND_RUNTIME, 27, "cudaHostAlloc"},
    {AORTA_CUPTI_KIND_RUNTIME, 31, "cudaMemcpy"},
    {AORTA_CUPTI_KIND_RUNTIME, 32, "cudaMemcpy2D"},
    {AORTA_CUPTI_KIND_RUNTIME, 41, "cudaMemcpyAsync"},
    {AORTA_CUPTI_KIND_RUNTIME, 44, "cudaMemcpy2DAsync"},
    {AORTA_CUPTI_KIND_RUNTIME, 49, "cudaMemset"},
    {AORTA_CUPTI_KIND_RUNTIME, 50, "cudaMemset2D"},
    {AORTA_CUPTI_KIND_RUNTIME, 51, "cudaMemsetAsync"},
    {AORTA_CUPTI_KIND_RUNTIME, 52, "cudaMemset2DAsync"},
    {AORTA_CUPTI_KIND_RUNTIME, 131, "cudaStreamSynchronize"},
    {AORTA_CUPTI_KIND_RUNTIME, 137, "cudaEventSynchronize"},
    {AORTA_CUPTI_KIND_RUNTIME, 142, "cudaMemset3D"},
    {AORTA_CUPTI_KIND_RUNTIME, 143, "cudaMemset3DAsync"},
    {AORTA_CUPTI_KIND_RUNTIME, 144, "cudaMemcpy3D"},
    {AORTA_CUPTI_KIND_RUNTIME, 145, "cudaMemcpy3DAsync"},
    {AORTA_CUPTI_KIND_RUNTIME, 160, "cudaMemcpyPeer"},
    {AORTA_CUPTI_KIND_RUNTIME, 161, "cudaMemcpyPeerAsync"},
    {AORTA_CUPTI_KIND_RUNTIME, 162, "cudaMemcpy3DPeer"},
    {AORTA_CUPTI_KIND_RUNTIME, 163, "cudaMemcpy3DPeerAsync"},
    {AORTA_CUPTI_KIND_RUNTIME, 165, "cudaDeviceSynchronize"},
    {AORTA_CUPTI_KIND_RUNTIME, 211, "cudaLaunchKernel"},
    {AORTA_CUPTI_KIND_RUNTIME, 214, "cudaLaunchKernel"},
    {AORTA_CUPTI_KIND_RUNTIME, 215, "cudaMemcpy"},
    {AORTA_CUPTI_KIND_RUNTIME, 216, "cudaMemcpy2D"},
    {AORTA_CUPTI_KIND_RUNTIME, 225, "cudaMemcpyAsync"},
    {AORTA_CUPTI_KIND_RUNTIME, 228, "cudaMemcpy2DAsync"},
    {AORTA_CUPTI_KIND_RUNTIME, 233, "cudaMemset"},
    {AORTA_CUPTI_KIND_RUNTIME, 234, "cudaMemset2D"},
    {AORTA_CUPTI_KIND_RUNTIME, 235, "cudaMemsetAsync"},
    {AORTA_CUPTI_KIND_RUNTIME, 236, "cudaMemset2DAsync"},
    {AORTA_CUPTI_KIND_RUNTIME, 239, "cudaStreamSynchronize"},
    {AORTA_CUPTI_KIND_RUNTIME, 243, "cudaMemset3D"},
    {AORTA_CUPTI_KIND_RUNTIME, 244, "cudaMemset3DAsync"},
    {AORTA_CUPTI_KIND_RUNTIME, 245, "cudaMemcpy3D"},
    {AORTA_CUPTI_KIND_RUNTIME, 246, "cudaMemcpy3DAsync"},
    {AORTA_CUPTI_KIND_RUNTIME, 249, "cudaMemcpy3DPeer"},
    {AORTA_CUPTI_KIND_RUNTIME, 250, "cudaMemcpy3DPeerAsync"},
    {AORTA_CUPTI_KIND_RUNTIME, 269, "cudaLaunchCooperativeKernel"},
    {AORTA_CUPTI_KIND_RUNTIME, 270, "cudaLaunchCooperativeKernel"},
    {AORTA_CUPTI_KIND_RUNTIME, 272, "cudaLaunchCooperativeKernelMultiDevice"},
    {AORTA_CUPTI_KIND_RUNTIME, 311, "cudaGraphLaunch"},
    {AORTA_CUPTI_KIND_RUNTIME, 312, "cudaGraphLaunch"},
    {AORTA_CUPTI_KIND_RUNTIME, 430, "cudaLaunchKernelExC"},
    {AORTA_CUPTI_KIND_RUNTIME, 431, "cudaLaunchKernelExC"},
    {AORTA_CUPTI_KIND_RUNTIME, 482, "cudaMemcpyBatchAsync"},
    {AORTA_CUPTI_KIND_RUNTIME, 483, "cudaMemcpyBatchAsync"},
    {AORTA_CUPTI_KIND_RUNTIME, 484, "cudaMemcpy3DBatchAsync"},
    {AORTA_CUPTI_KIND_RUNTIME, 485, "cudaMemcpy3DBatchAsync"},
    {AORTA_CUPTI_KIND_RUNTIME, 509, "cudaMemcpyBatchAsync"},
    {AORTA_CUPTI_KIND_RUNTIME, 510, "cudaMemcpyBatchAsync"},
    {AORTA_CUPTI_KIND_RUNTIME, 511, "cudaMemcpy3DBatchAsync"},
    {AORTA_CUPTI_KIND_RUNTIME, 512, "cudaMemcpy3DBatchAsync"},
    {AORTA_CUPTI_KIND_DRIVER, 17, "cuCtxSynchronize"},
    {AORTA_CUPTI_KIND_DRIVER, 121, "cuEventSynchronize"},
    {AORTA_CUPTI_KIND_DRIVER, 126, "cuStreamSynchronize"},
    {AORTA_CUPTI_KIND_DRIVER, 216, "cuMemsetD8Async"},
    {AORTA_CUPTI_KIND_DRIVER, 218, "cuMemsetD16Async"},
    {AORTA_CUPTI_KIND_DRIVER, 220, "cuMemsetD32Async"},
    {AORTA_CUPTI_KIND_DRIVER, 222, "cuMemsetD2D8Async"},
    {AORTA_CUPTI_KIND_DRIVER, 224, "cuMemsetD2D16Async"},
    {AORTA_CUPTI_KIND_DRIVER, 226, "cuMemsetD2D32Async"},
    {AORTA_CUPTI_KIND_DRIVER, 243, "cuMemAlloc"},
    {AORTA_CUPTI_KIND_DRIVER, 245, "cuMemFree"},
    {AORTA_CUPTI_KIND_DRIVER, 248, "cuMemcpy"},
    {AORTA_CUPTI_KIND_DRIVER, 249, "cuMemsetD8"},
    {AORTA_CUPTI_KIND_DRIVER, 250, "cuMemsetD16"},
    {AORTA_CUPTI_KIND_DRIVER, 251, "cuMemsetD32"},
    {AORTA_CUPTI_KIND_DRIVER, 252, "cuMemsetD2D8"},
    {AORTA_CUPTI_KIND_DRIVER, 253, "cuMemsetD2D16"},
    {AORTA_CUPTI_KIND_DRIVER, 254, "cuMemsetD2D32"},
    {AORTA_CUPTI_KIND_DRIVER, 276, "cuMemcpyHtoD"},
    {AORTA_CUPTI_KIND_DRIVER, 277, "cuMemcpyHtoDAsync"},
    {AORTA_CUPTI_KIND_DRIVER, 278, "cuMemcpyDtoH"},
    {AORTA_CUPTI_KIND_DRIVER, 279, "cuMemcpyDtoHAsync"},
    {AORTA_CUPTI_KIND_DRIVER, 280, "cuMemcpyDtoD"},
    {AORTA_CUPTI_KIND_DRIVER, 281, "cuMemcpyDtoDAsync"},
    {AORTA_CUPTI_KIND_DRIVER, 287, "cuMemcpy2D"},
    {AORTA_CUPTI_KIND_DRIVER, 289, "cuMemcpy2DAsync"},
    {AORTA_CUPTI_KIND_DRIVER, 290, "cuMemcpy3D"},
    {AORTA_CUPTI_KIND_DRIVER, 291, "cuMemcpy3DAsync"},
    {AORTA_CUPTI_KIND_DRIVER, 305, "cuMemcpy"},
    {AORTA_CUPTI_KIND_DRIVER, 306, "cuMemcpyAsync"},
    {AORTA_CUPTI_KIND_DRIVER, 307, "cuLaunchKernel"},
    {AORTA_CUPTI_KIND_DRIVER, 318, "cuMemcpyPeer"},
    {AORTA_CUPTI_KIND_DRIVER, 319, "cuMemcpyPeerAsync"},
    {AORTA_CUPTI_KIND_DRIVER, 320, "cuMemcpy3DPeer"},
    {AORTA_CUPTI_KIND_DRIVER, 321, "cuMemcpy3DPeerAsync"},
    {AORTA_CUPTI_KIND_DRIVER, 397, "cuMemcpyHtoD"},
    {AORTA_CUPTI_KIND_DRIVER, 398, "cuMemcpyDtoH"},
    {AORTA_CUPTI_KIND_DRIVER, 399, "cuMemcpyDtoD"},
    {AORTA_CUPTI_KIND_DRIVER, 405, "cuMemcpy2D"},
    {AORTA_CUPTI_KIND_DRIVER, 407, "cuMemcpy3D"},
    {AORTA_CUPTI_KIND_DRIVER, 408, "cuMemcpy"},
    {AORTA_CUPTI_KIND_DRIVER, 409, "cuMemcpyPeer"},
    {AORTA_CUPTI_KIND_DRIVER, 410, "cuMemcpy3DPeer"},
    {AORTA_CUPTI_KIND_DRIVER, 411, "cuMemsetD8"},
    {AORTA_CUPTI_KIND_DRIVER, 412, "cuMemsetD16"},
    {AORTA_CUPTI_KIND_DRIVER, 413, "cuMemsetD32"},
    {AORTA_CUPTI_KIND_DRIVER, 414, "cuMemsetD2D8"},
    {AORTA_CUPTI_KIND_DRIVER, 415, "cuMemsetD2D16"},
    {AORTA_CUPTI_KIND_DRIVER, 416, "cuMemsetD2D32"},
    {AORTA_CUPTI_KIND_DRIVER, 418, "cuMemcpyAsync"},
    {AORTA_CUPTI_KIND_DRIVER, 421, "cuMemcpyHtoDAsync"},
    {AORTA_CUPTI_KIND_DRIVER, 422, "cuMemcpyDtoHAsync"},
    {AORTA_CUPTI_KIND_DRIVER, 423, "cuMemcpyDtoDAsync"},
    {AORTA_CUPTI_KIND_DRIVER, 424, "cuMemcpy2DAsync"},
    {AORTA_CUPTI_KIND_DRIVER, 425, "cuMemcpy3DAsync"},
    {AORTA_CUPTI_KIND_DRIVER, 426, "cuMemcpyPeerAsync"},
    {AORTA_CUPTI_KIND_DRIVER, 427, "cuMemcpy3DPeerAsync"},
    {AORTA_CUPTI_KIND_DRIVER, 428, "cuMemsetD8Async"},
    {AORTA_CUPTI_KIND_DRIVER, 429, "cuMemsetD16Async"},
    {AORTA_CUPTI_KIND_DRIVER, 430, "cuMemsetD32Async"},
    {AORTA_CUPTI_KIND_DRIVER, 431, "cuMemsetD2D8Async"},
    {AORTA_CUPTI_KIND_DRIVER, 432, "cuMemsetD2D16Async"},
    {AORTA_CUPTI_KIND_DRIVER, 433, "cuMemsetD2D32Async"},
    {AORTA_CUPTI_KIND_DRIVER, 440, "cuStreamSynchronize"},
    {AORTA_CUPTI_KIND_DRIVER, 442, "cuLaunchKernel"},
    {AORTA_CUPTI_KIND_DRIVER, 477, "cuLaunchCooperativeKernel"},
    {AORTA_CUPTI_KIND_DRIVER, 478, "cuLaunchCooperativeKernel"},
    {AORTA_CUPTI_KIND_DRIVER, 480, "cuLaunchCooperativeKernelMultiDevice"},
    {AORTA_CUPTI_KIND_DRIVER, 514, "cuGraphLaunch"},
    {AORTA_CUPTI_KIND_DRIVER, 515, "cuGraphLaunch"},
    {AORTA_CUPTI_KIND_DRIVER, 652, "cuLaunchKernelEx"},
    {AORTA_CUPTI_KIND_DRIVER, 653, "cuLaunchKernelEx"},
    {AORTA_CUPTI_KIND_DRIVER, 776, "cuMemcpyBatchAsync"},
    {AORTA_CUPTI_KIND_DRIVER, 777, "cuMemcpyBatchAsync"},
    {AORTA_CUPTI_KIND_DRIVER, 778, "cuMemcpy3DBatchAsync"},
    {AORTA_CUPTI_KIND_DRIVER, 779, "cuMemcpy3DBatchAsync"},
    {AORTA_CUPTI_KIND_DRIVER, 796, "cuMemcpyBatchAsync"},
    {AORTA_CUPTI_KIND_DRIVER, 797, "cuMemcpyBatchAsync"},
    {AORTA_CUPTI_KIND_DRIVER, 798, "cuMemcpy3DBatchAsync"},
    {AORTA_CUPTI_KIND_DRIVER, 799, "cuMemcpy3DBatchAsync"},
    {AORTA_CUPTI_KIND_DRIVER, 800, "cuCtxSynchronize"},
};

const uint32_t aorta_inject_call_count = sizeof aorta_inject_calls / sizeof aorta_inject_calls[0];

const struct aorta_inject_call *aorta_inject_call_of(uint32_t kind, uint32_t id) {
    for (uint32_t i = 0; i < aorta_inject_call_count; i++)
        if (aorta_inject_calls[i].kind == kind && aorta_inject_calls[i].id == id) return &aorta_inject_calls[i];
    return NULL;
}

uint32_t aorta_inject_call_part(const struct aorta_inject_call *call) {
    static const char *const launches[] = {"Launch", "Memcpy", "Memset"};
    for (size_t i = 0; i < sizeof launches / sizeof *launches; i++)
        if (strstr(call->name, launches[i])) return AORTA_SPOOL_LAUNCHES;
    return AORTA_SPOOL_WAITS;
}
