#include "measure/cupti_abi.h"
#include "record/inject/inject.h"
#include "trace/spool_format.h"

#include <string.h>

/* ---- devices: described once, at their first work ---- */

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
    if (!begins && !(m->flags & AORTA_CUPTI_MARKER_END)) return; /* an instant marker */
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
    {"cudaMalloc", {20}},
    {"cudaFree", {22}},
    {"cudaFreeHost", {26}},
    {"cudaHostAlloc", {27}},
    {"cudaMemcpy", {31, 215}},
    {"cudaMemcpy2D", {32, 216}},
    {"cudaMemcpyAsync", {41, 225}},
    {"cudaMemcpy2DAsync", {44, 228}},
    {"cudaMemset", {49, 233}},
    {"cudaMemset2D", {50, 234}},
    {"cudaMemsetAsync", {51, 235}},
    {"cudaMemset2DAsync", {52, 236}},
    {"cudaStreamSynchronize", {131, 239}},
    {"cudaEventSynchronize", {137}},
    {"cudaMemset3D", {142, 243}},
    {"cudaMemset3DAsync", {143, 244}},
    {"cudaMemcpy3D", {144, 245}},
    {"cudaMemcpy3DAsync", {145, 246}},
    {"cudaMemcpyPeer", {160}},
    {"cudaMemcpyPeerAsync", {161}},
    {"cudaMemcpy3DPeer", {162, 249}},
    {"cudaMemcpy3DPeerAsync", {163, 250}},
    {"cudaDeviceSynchronize", {165}},
    {"cudaStreamAddCallback", {197, 248}},
    {"cudaMallocManaged", {206}},
    {"cudaLaunchKernel", {211, 214}},
    {"cudaLaunchCooperativeKernel", {269, 270}},
    {"cudaLaunchCooperativeKernelMultiDevice", {272}},
    {"cudaLaunchHostFunc", {284, 285}},
    {"cudaGraphInstantiate", {310, 443}},
    {"cudaGraphLaunch", {311, 312}},
    {"cudaStreamBeginCapture", {315, 316}},
    {"cudaStreamEndCapture", {319, 320}},
    {"cudaGraphInstantiateWithFlags", {418}},
    {"cudaLaunchKernelExC", {430, 431}},
    {"cudaMemcpyBatchAsync", {482, 483, 509, 510}},
    {"cudaMemcpy3DBatchAsync", {484, 485, 511, 512}},
    {"cuCtxSynchronize", {17, 800}},
    {"cuModuleLoad", {18}},
    {"cuModuleLoadData", {19}},
    {"cuModuleLoadDataEx", {20}},
    {"cuModuleLoadFatBinary", {21}},
    {"cuModuleUnload", {22}},
    {"cuEventSynchronize", {121}},
    {"cuStreamSynchronize", {126, 440}},
    {"cuMemsetD8Async", {216, 428}},
    {"cuMemsetD16Async", {218, 429}},
    {"cuMemsetD32Async", {220, 430}},
    {"cuMemsetD2D8Async", {222, 431}},
    {"cuMemsetD2D16Async", {224, 432}},
    {"cuMemsetD2D32Async", {226, 433}},
    {"cuMemAlloc", {243}},
    {"cuMemFree", {245}},
    {"cuMemcpy", {248, 305, 408}},
    {"cuMemsetD8", {249, 411}},
    {"cuMemsetD16", {250, 412}},
    {"cuMemsetD32", {251, 413}},
    {"cuMemsetD2D8", {252, 414}},
    {"cuMemsetD2D16", {253, 415}},
    {"cuMemsetD2D32", {254, 416}},
    {"cuMemcpyHtoD", {276, 397}},
    {"cuMemcpyHtoDAsync", {277, 421}},
    {"cuMemcpyDtoH", {278, 398}},
    {"cuMemcpyDtoHAsync", {279, 422}},
    {"cuMemcpyDtoD", {280, 399}},
    {"cuMemcpyDtoDAsync", {281, 423}},
    {"cuMemcpy2D", {287, 405}},
    {"cuMemcpy2DAsync", {289, 424}},
    {"cuMemcpy3D", {290, 407}},
    {"cuMemcpy3DAsync", {291, 425}},
    {"cuMemcpyAsync", {306, 418}},
    {"cuLaunchKernel", {307, 442}},
    {"cuMemcpyPeer", {318, 409}},
    {"cuMemcpyPeerAsync", {319, 426}},
    {"cuMemcpy3DPeer", {320, 410}},
    {"cuMemcpy3DPeerAsync", {321, 427}},
    {"cuMemAllocManaged", {371}},
    {"cuLaunchCooperativeKernel", {477, 478}},
    {"cuLaunchCooperativeKernelMultiDevice", {480}},
    {"cuStreamBeginCapture", {495, 496, 539, 540}},
    {"cuStreamEndCapture", {497, 498}},
    {"cuGraphInstantiate", {513, 578}},
    {"cuGraphLaunch", {514, 515}},
    {"cuGraphInstantiateWithFlags", {643}},
    {"cuLaunchKernelEx", {652, 653}},
    {"cuLibraryLoadData", {678}},
    {"cuLibraryUnload", {680}},
    {"cuMemcpyBatchAsync", {776, 777, 796, 797}},
    {"cuMemcpy3DBatchAsync", {778, 779, 798, 799}},
};

const uint32_t aorta_inject_call_count = sizeof aorta_inject_calls / sizeof aorta_inject_calls[0];

const struct aorta_inject_call *aorta_inject_call_of(uint32_t kind, uint32_t id) {
    for (uint32_t i = 0; i < aorta_inject_call_count; i++) {
        const struct aorta_inject_call *call = &aorta_inject_calls[i];
        for (const uint16_t *own = call->ids; *own; own++)
            if (*own == id && (strncmp(call->name, "cuda", 4) == 0) == (kind == AORTA_CUPTI_KIND_RUNTIME)) return call;
    }
    return NULL;
}

uint32_t aorta_inject_call_part(const struct aorta_inject_call *call) {
    static const char *const launches[] = {"LaunchKernel", "LaunchCooperative", "GraphLaunch", "Memcpy", "Memset"};
    for (size_t i = 0; i < sizeof launches / sizeof *launches; i++)
        if (strstr(call->name, launches[i])) return AORTA_SPOOL_LAUNCHES;
    return AORTA_SPOOL_WAITS;
}
