
#include "base/intern.h"
#include "base/sort.h"
#include "trace/execution_trace.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const format_names[AORTA_TRACE_FORMAT_COUNT] = {
#define X(id, name) name,
    AORTA_TRACE_FORMAT_MAP(X)
#undef X
};

const struct aorta_trace_collective aorta_trace_unknown_collective = {
    .in_elements = -1,
    .out_elements = -1,
    .bytes = -1,
    .sequence = -1,
    .blocks = -1,
    .name = AORTA_TRACE_NONE,
    .dtype = AORTA_TRACE_NONE,
    .group = AORTA_TRACE_NONE,
    .communicator = AORTA_TRACE_NONE,
    .in_splits = AORTA_TRACE_NONE,
    .out_splits = AORTA_TRACE_NONE,
    .annotation = AORTA_TRACE_NONE,
    .group_size = -1,
    .peer = -1,
};

const char *aorta_trace_format_name(enum aorta_trace_format format) {
    return format_names[format];
}

const char *aorta_step_source_name(enum aorta_step_source source) {
    static const char *const names[AORTA_STEP_SOURCE_COUNT] = {"profiler",   "range",      "optimizer", "engine",
                                                               "repetition", "iterations", "recorder"};
    return names[source];
}

static const struct {
    const char *key, *text;
} reasons[] = {
#define REASON(id, key, text) {key, text},
#include "trace/reasons.def"
#undef REASON
};

const char *aorta_trace_reason_key(enum aorta_trace_reason reason) {
    return reasons[reason].key;
}

void aorta_trace_warnings_add(struct aorta_trace_warning *warnings, const struct aorta_trace_warning *more) {
    for (int i = 0; i < AORTA_REASON_COUNT; i++) {
        if (!warnings[i].count && more[i].count) warnings[i].offset = more[i].offset;
        warnings[i].count += more[i].count;
    }
}

void aorta_trace_warn_of_file(struct aorta_trace *trace, enum aorta_trace_reason reason, const char *path) {
    struct aorta_trace_warning *warning = &trace->warnings[reason];
    const uint32_t text = aorta_texts_add(trace->texts, path, strlen(path));
    warning->count++;
    warning->offset = -1;
    if (!warning->about && text != AORTA_TRACE_NONE) warning->about = aorta_trace_text(trace, text);
}

const char *aorta_trace_warning_text(const struct aorta_trace *trace, enum aorta_trace_reason reason) {
    return trace->warnings[reason].words ? trace->warnings[reason].words : reasons[reason].text;
}

const char *aorta_trace_text(const struct aorta_trace *trace, uint32_t text) {
    return text == AORTA_TRACE_NONE ? "" : trace->texts->entries[text].text;
}

size_t aorta_trace_text_count(const struct aorta_trace *trace) {
    return trace->texts->count;
}

bool aorta_trace_has_text(const struct aorta_trace *trace, const char *part) {
    for (size_t i = 0; i < aorta_trace_text_count(trace); i++)
        if (strstr(aorta_trace_text(trace, (uint32_t)i), part)) return true;
    return false;
}

int aorta_trace_rank_in_path(const char *path) {
    int number = -1;
    for (const char *at = path; (at = strcasestr(at, "rank")); at++) {
        const char *digits = at + strlen("rank");
        if (*digits == '_' || *digits == '-' || *digits == '=') digits++;
        size_t length = strspn(digits, "0123456789");
        if (length > 0 && length < 8) number = atoi(digits);
    }
    return number;
}

/* ---- devices ---- */

static bool are_alike(const struct aorta_trace *trace, const struct aorta_trace_device *a,
                      const struct aorta_trace_device *b) {
    const double memory = (double)a->memory_bytes / (double)b->memory_bytes; /* equal cards differ a little */
    return strcmp(aorta_trace_text(trace, a->name), aorta_trace_text(trace, b->name)) == 0 &&
           a->multiprocessors == b->multiprocessors && a->major == b->major && a->minor == b->minor && memory > 0.98 &&
           memory < 1.02;
}

static const struct aorta_trace_device *row_of(const struct aorta_trace *trace, int64_t id) {
    for (size_t i = 0; i < trace->device_count; i++)
        if (trace->devices[i].id == id) return &trace->devices[i];
    return NULL;
}

/* Some versions of ROCm leave the name empty. */
static bool is_amd(const struct aorta_trace *trace) {
    const char *name = trace->device_count ? aorta_trace_text(trace, trace->devices[0].name) : "NVIDIA";
    return trace->devices && trace->devices[0].name != AORTA_TRACE_NONE && (!name[0] || strstr(name, "AMD"));
}

const struct aorta_trace_device *aorta_trace_device_of(const struct aorta_trace *trace, int32_t device) {
    const struct aorta_trace_device *found = NULL;
    int64_t lowest = device, highest = device;
    if (!is_amd(trace)) return row_of(trace, device);
    for (size_t i = 0; i < trace->stream_count; i++) {
        if (trace->streams[i].device < lowest) lowest = trace->streams[i].device;
        if (trace->streams[i].device > highest) highest = trace->streams[i].device;
    }
    for (size_t i = 0; i < trace->device_count; i++) {
        const int64_t shift = device - trace->devices[i].id;
        if (shift < 0 || !row_of(trace, lowest - shift) || !row_of(trace, highest - shift)) continue;
        if (found && !are_alike(trace, found, &trace->devices[i])) return NULL;
        found = &trace->devices[i];
    }
    return found;
}

int32_t aorta_trace_multiprocessors(const struct aorta_trace *trace, int32_t device) {
    const struct aorta_trace_device *known = aorta_trace_device_of(trace, device);
    return known && known->multiprocessors > 0 ? known->multiprocessors : -1;
}

double aorta_trace_flops(const struct aorta_trace *trace, uint32_t shape) {
    if (shape == AORTA_TRACE_NONE) return NAN;
    const struct aorta_product *row = &trace->shapes[shape].product;
    if (row->m < 0 || row->n < 0 || row->k < 0) return NAN;
    return 2.0 * (double)(row->batch > 0 ? row->batch : 1) * (double)row->m * (double)row->n * (double)row->k;
}

int64_t aorta_trace_device_ahead(const struct aorta_trace *trace, int32_t device) {
    for (size_t i = 0; i < trace->clock_count; i++)
        if (trace->clocks[i].device == device) return trace->clocks[i].ahead_ns;
    return 0;
}

void aorta_trace_free(struct aorta_trace *trace) {
    if (!trace) return;
    for (size_t i = 0; i < trace->group_count; i++) free(trace->groups[i].ranks);
    if (trace->texts) aorta_texts_free(trace->texts);
    free(trace->texts);
    for (size_t i = 0; trace->measured && i < trace->step_count; i++) free(trace->measured[i].work);
    free(trace->measured);
    if (trace->owned) trace->release(trace->owned);
    void *const arrays[] = {
        trace->work,       trace->calls,   trace->callers,     trace->waits,    trace->annotations,
        trace->functions,  trace->frames,  trace->allocations, trace->steps,    trace->streams,
        trace->queues,     trace->threads, trace->collectives, trace->groups,   trace->shapes,
        trace->operations, trace->inputs,  trace->graphs,      trace->captured, trace->captured_places,
        trace->devices,    trace->clocks,  trace->path,        trace->unpacked, trace};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) free(arrays[i]);
}

bool aorta_trace_call_waits(const struct aorta_trace *trace, const struct aorta_trace_call *call) {
    if (call->kind == AORTA_CALL_SYNC) return true;
    const char *name = aorta_trace_text(trace, call->name);
    if (strstr(name, "Async")) return false;
    return call->kind == AORTA_CALL_COPY || (call->kind == AORTA_CALL_MEMORY && strstr(name, "Free"));
}

bool aorta_trace_call_launches(const struct aorta_trace_call *call) {
    return call->kind == AORTA_CALL_LAUNCH || call->kind == AORTA_CALL_GRAPH_LAUNCH || call->kind == AORTA_CALL_COPY ||
           call->kind == AORTA_CALL_FILL || call->kind == AORTA_CALL_OTHER;
}

enum aorta_copied aorta_trace_page_moved(const struct aorta_trace *trace, const struct aorta_trace_work *work) {
    if (work->kind != AORTA_TRACE_COPY || work->call != AORTA_TRACE_NONE) return AORTA_COPIED_UNKNOWN;
    const char *name = aorta_trace_text(trace, work->name);
    return strstr(name, "Unified") ? aorta_copied_how(name) : AORTA_COPIED_UNKNOWN;
}

enum { BLOCKED_NS = 1000000, NEAR_NS = 100000, NEAR_PART = 50, LOADED_NS = 50000, LOADED_PART = 50 };

/* The shortest launch that may have blocked. For a kernel's first launch, which may load it, it depends on the length
 * of the recording. */
static int64_t blocked_ns(const struct aorta_trace *trace, const struct aorta_trace_work *work) {
    if (!work->first) return BLOCKED_NS;
    const int64_t part_ns = (trace->work[trace->work_count - 1].start_ns - trace->work[0].start_ns) / LOADED_PART;
    return part_ns > BLOCKED_NS ? BLOCKED_NS : part_ns > LOADED_NS ? part_ns : LOADED_NS;
}

bool aorta_trace_launch_blocks(const struct aorta_trace *trace, const struct aorta_trace_work *work) {
    if (work->call == AORTA_TRACE_NONE || work->kind != AORTA_TRACE_KERNEL) return false;
    const struct aorta_trace_call *call = &trace->calls[work->call];
    const int64_t lasted_ns = call->end_ns - call->start_ns, until_ns = work->start_ns - call->start_ns;
    if (call->kind != AORTA_CALL_LAUNCH || lasted_ns < blocked_ns(trace, work) || 2 * until_ns < lasted_ns)
        return false;
    if (work->first) return until_ns <= 2 * lasted_ns; /* it is loaded */
    return until_ns <= lasted_ns + (lasted_ns / NEAR_PART > NEAR_NS ? lasted_ns / NEAR_PART : NEAR_NS);
}

int64_t aorta_trace_launched_ns(const struct aorta_trace *trace, const struct aorta_trace_work *work) {
    if (work->call == AORTA_TRACE_NONE) return INT64_MIN;
    const struct aorta_trace_call *call = &trace->calls[work->call];
    if (!aorta_trace_launch_blocks(trace, work)) return call->start_ns;
    return call->end_ns < work->start_ns ? call->end_ns : work->start_ns;
}

bool aorta_trace_has_operations(const struct aorta_trace *trace) {
    for (size_t i = 0; i < trace->operation_count; i++)
        if (!trace->operations[i].range) return true;
    return false;
}

bool *aorta_trace_launching_threads(const struct aorta_trace *trace, struct aorta_arena *memory) {
    bool *launching = aorta_arena_alloc(memory, trace->thread_count);
    for (size_t i = 0; launching && i < trace->call_count; i++)
        if (aorta_trace_call_launches(&trace->calls[i])) launching[trace->calls[i].thread] = true;
    return launching;
}

static bool copies_to_host(const struct aorta_trace *trace, const struct aorta_trace_work *work) {
    return work->kind == AORTA_TRACE_COPY &&
           aorta_copied_how(aorta_trace_text(trace, work->name)) == AORTA_COPIED_TO_HOST;
}

bool aorta_trace_is_value(const struct aorta_trace *trace, const struct aorta_trace_work *work) {
    return work->bytes >= 0 && work->bytes <= AORTA_VALUE_BYTES && copies_to_host(trace, work);
}

bool *aorta_trace_reading_calls(const struct aorta_trace *trace, bool values, struct aorta_arena *memory) {
    bool *reads = aorta_arena_alloc(memory, trace->call_count);
    for (size_t i = 0; reads && i < trace->work_count; i++) {
        const struct aorta_trace_work *work = &trace->work[i];
        if (work->call != AORTA_TRACE_NONE &&
            (values ? aorta_trace_is_value(trace, work) : copies_to_host(trace, work)))
            reads[work->call] = true;
    }
    return reads;
}

aorta_status aorta_trace_list_add(struct aorta_trace_list *list, struct aorta_trace *trace) {
    if (aorta_array_append(&list->items, &list->capacity, &list->count, &trace, sizeof trace)) return NULL;
    aorta_trace_free(trace);
    return AORTA_ERROR(AORTA_MEMORY, "no memory for a list of %zu traces", list->count + 1);
}

void aorta_trace_list_free(struct aorta_trace_list *list) {
    for (size_t i = 0; i < list->count; i++) aorta_trace_free(list->items[i]);
    free(list->items);
    if (list->unpacked) aorta_temporary_remove(list->unpacked);
    free(list->unpacked);
    if (list->executed) aorta_execution_traces_free(list->executed);
    *list = (struct aorta_trace_list){0};
}

/* If more is missing than recorded, the missing work may outweigh every cause. */
static const double MOST_MISSING = 0.5;

double aorta_trace_missing_share(const struct aorta_trace *trace) {
    const struct aorta_trace_coverage *coverage = &trace->coverage;
    const double dispatches = (double)(coverage->dispatches + coverage->lost);
    /* Work counts as recorded even if its launch is not in the file, as in a part of a recording. */
    const double known = (double)coverage->unanswered + (double)(trace->host_only ? 0 : trace->work_count);
    const double launched = known > 0 ? (double)coverage->unanswered / known : 0;
    const double numbered = dispatches > 0 ? (double)coverage->lost / dispatches : 0;
    return launched > numbered ? launched : numbered;
}

bool aorta_trace_is_too_thin(const struct aorta_trace *trace) {
    return aorta_trace_missing_share(trace) > MOST_MISSING || (trace->coverage.failed && !trace->coverage.launches);
}

/* ---- errors of calls ---- */

struct aorta_cuda_error aorta_cuda_error(int64_t number) {
    static const struct {
        int number;
        const char *name;
    } rows[] = {
#define ERROR(number, name) {number, "cudaError" name},
#include "trace/cuda_errors.def"
#undef ERROR
    };
    struct aorta_cuda_error error;
    snprintf(error.text, sizeof error.text, "error %lld", (long long)number);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].number == number) snprintf(error.text, sizeof error.text, "%s", rows[i].name);
    return error;
}

bool aorta_cuda_call_failed(int64_t result, enum aorta_trace_call_kind kind) {
    enum { UNLOADING = 4, NO_CONTEXT = 201, NOT_READY = 600, PEER_ALREADY = 704, CONTEXT_GONE = 709 };
    if (result == NO_CONTEXT && kind == AORTA_CALL_SYNC) return false; /* at the end of the program */
    return result != 0 && result != UNLOADING && result != NOT_READY && result != PEER_ALREADY &&
           result != CONTEXT_GONE;
}

/* ---- nested ranges ---- */

AORTA_ORDER(aorta_nest_order, struct aorta_nest_range, AORTA_UP(thread) AORTA_UP(start_ns) AORTA_DOWN(end_ns));

/* The first members of an item. */
static inline struct aorta_nest_range range_at(const void *items, size_t index, size_t size) {
    struct aorta_nest_range range;
    memcpy(&range, (const char *)items + index * size, sizeof range);
    return range;
}

/* Ranges of one thread should not overlap without nesting. If they do, the parent is the nearest earlier range that
 * ends after this one's start. */
void aorta_nest_parents(void *items, size_t count, size_t size) {
    for (size_t i = 0; i < count; i++) {
        const struct aorta_nest_range own = range_at(items, i, size);
        uint32_t parent = i && range_at(items, i - 1, size).thread == own.thread ? (uint32_t)i - 1 : AORTA_NEST_NONE;
        while (parent != AORTA_NEST_NONE && range_at(items, parent, size).end_ns < own.start_ns)
            parent = range_at(items, parent, size).parent;
        memcpy((char *)items + i * size + offsetof(struct aorta_nest_range, parent), &parent, sizeof parent);
    }
}

void aorta_nest_make(struct aorta_nest_range *ranges, size_t count) {
    aorta_sort_rows(ranges, count, sizeof *ranges, aorta_nest_order);
    aorta_nest_parents(ranges, count, sizeof *ranges);
}

uint32_t aorta_nest_find(const void *items, size_t count, size_t size, uint32_t thread, int64_t time_ns) {
    size_t low = 0, high = count; /* ranges before `low` begin at or before the time */
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const struct aorta_nest_range range = range_at(items, middle, size);
        if (range.thread < thread || (range.thread == thread && range.start_ns <= time_ns))
            low = middle + 1;
        else
            high = middle;
    }
    if (!low || range_at(items, low - 1, size).thread != thread) return AORTA_NEST_NONE;
    uint32_t found = (uint32_t)low - 1;
    while (found != AORTA_NEST_NONE && range_at(items, found, size).end_ns < time_ns)
        found = range_at(items, found, size).parent;
    return found;
}

struct aorta_nest_range *aorta_nest_of(const struct aorta_trace_annotation *frames, size_t count,
                                       struct aorta_arena *memory) {
    struct aorta_nest_range *nest = aorta_arena_raw(memory, count * sizeof *nest);
    for (size_t i = 0; nest && i < count; i++)
        nest[i] = (struct aorta_nest_range){frames[i].start_ns, frames[i].end_ns, frames[i].thread, frames[i].name, 0};
    if (nest) aorta_nest_make(nest, count);
    return nest;
}

/* ---- frameworks ---- */

/* XLA names its fusions after what they compute ("loop_add_fusion_3", "input_reduce_fusion", "wrapped_add"). */
static bool is_xla(const char *name) {
    static const char *const begin[] = {"loop_", "input_", "gemm_fusion", "triton_softmax"};
    if (strstr(name, "stream_executor::gpu") || strstr(name, "xla::gpu") || aorta_begins(name, "__cublas$") ||
        aorta_begins(name, "__cudnn$") || aorta_begins(name, "wrapped_"))
        return true;
    for (size_t i = 0; i < sizeof begin / sizeof *begin; i++)
        if (aorta_begins(name, begin[i]) && strstr(name, "fusion")) return true;
    return false;
}

static enum aorta_framework framework_of(const char *name) {
    if (is_xla(name)) return AORTA_FRAMEWORK_XLA;
    if (aorta_begins(name, "cupy_")) return AORTA_FRAMEWORK_CUPY;
    /* Pointwise, reductions, persistent reductions, and templates of matrix products. */
    if (aorta_begins(name, "triton_poi_fused") || aorta_begins(name, "triton_red_fused") ||
        aorta_begins(name, "triton_per_fused") || aorta_begins(name, "triton_tem_fused"))
        return AORTA_FRAMEWORK_COMPILED;
    const bool torch = aorta_begins(name, "aten::") || aorta_begins(name, "c10d::") || aorta_begins(name, "gloo:") ||
                       strstr(name, "at::native") || strstr(name, "2at6native") || strstr(name, "torch/");
    return torch ? AORTA_FRAMEWORK_TORCH : AORTA_FRAMEWORK_OTHER;
}

/* A loop of OpenACC is named after its function and line: "solve_42_gpu", "solve_42_gpu__red". */
static bool is_openacc(const char *name) {
    for (const char *at = name; (at = strchr(at, '_')); at++) {
        const size_t digits = strspn(at + 1, "0123456789");
        if (digits && aorta_begins(at + 1 + digits, "_gpu")) return true;
    }
    return aorta_begins(name, "__pgi_");
}

/* Whether the text begins with one of the words. */
static bool begins_with_one(const char *text, const char *words) {
    for (size_t length; *words; words += length + (words[length] == ' ')) {
        length = strcspn(words, " ");
        if (strncmp(text, words, length) == 0) return true;
    }
    return false;
}

/* Whether a name is as plain as Triton's, which are Python's. Excludes prefixes of libraries' kernels, and "_Z", which
 * begins a mangled C++ name. */
static bool is_plain(const char *name) {
    static const char libraries[] =
        "nvjet cutlass sm ampere turing volta cudnn gemm Cijk nccl rccl MIOpen miopen igemm mi dgrad Memcpy Memset "
        "__amd_ fmha flash maxwell _Z Custom_Cijk batched_transpose transpose_ SubTensorOp OpTensor Op1dTensor "
        "Op2dTensor Op3dTensor Op4dTensor Op5dTensor mlo naive_conv Im2 Col2Im gcnAsm gridwise_ nvkernel_ "
        "__omp_offloading julia_";
    if (begins_with_one(name, libraries)) return false;
    if (is_openacc(name)) return false;
    return *name && strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == strlen(name);
}

/* Whether a kernel may be Triton's: it launches by the driver's interface, libraries and PyTorch by the runtime's. If
 * the launch is not recorded, only the name counts. */
static bool may_be_tritons(const struct aorta_trace *trace, const struct aorta_trace_work *work) {
    if (!is_plain(aorta_trace_text(trace, work->name))) return false;
    if (work->call == AORTA_TRACE_NONE) return true;
    const char *call = aorta_trace_text(trace, trace->calls[work->call].name);
    return aorta_begins(call, "cuLaunch") || aorta_begins(call, "hipModuleLaunch");
}

static bool is_triton(const struct aorta_trace *trace) {
    enum { LOOKED_AT = 20000 };
    size_t kernels = 0, such = 0;
    for (size_t i = 0; i < trace->work_count && kernels < LOOKED_AT; i++) {
        if (trace->work[i].kind != AORTA_TRACE_KERNEL) continue;
        kernels++;
        such += may_be_tritons(trace, &trace->work[i]);
    }
    return 10 * such > 3 * kernels;
}

static bool has_directives(const struct aorta_trace *trace) {
    for (size_t i = 0; i < trace->work_count; i++) {
        const char *name = aorta_trace_text(trace, trace->work[i].name);
        if (trace->work[i].kind == AORTA_TRACE_KERNEL &&
            (is_openacc(name) || aorta_begins(name, "nvkernel_") || aorta_begins(name, "__omp_offloading")))
            return true;
    }
    return false;
}

bool aorta_framework_is_torch(enum aorta_framework framework) {
    return framework == AORTA_FRAMEWORK_TRITON || framework == AORTA_FRAMEWORK_COMPILED ||
           framework == AORTA_FRAMEWORK_TORCH;
}

enum aorta_framework aorta_trace_framework(const struct aorta_trace *trace) {
    if (trace->format == AORTA_TRACE_XPLANE) return AORTA_FRAMEWORK_XLA;
    bool torch = false;
    for (size_t i = 0; i < aorta_trace_text_count(trace); i++) {
        const enum aorta_framework framework = framework_of(aorta_trace_text(trace, (uint32_t)i));
        if (framework && framework != AORTA_FRAMEWORK_TORCH) return framework;
        torch |= framework == AORTA_FRAMEWORK_TORCH;
    }
    if (is_triton(trace)) return AORTA_FRAMEWORK_TRITON;
    if (torch) return AORTA_FRAMEWORK_TORCH;
    return has_directives(trace) ? AORTA_FRAMEWORK_DIRECTIVES : AORTA_FRAMEWORK_OTHER;
}

/* ---- measurements of one iteration (profile.h) ---- */

const char *aorta_role_name(int role) {
    static const char *const names[AORTA_ROLE_COUNT] = {"compute", "allreduce", "reducescatter", "aux"};
    return (unsigned)role < AORTA_ROLE_COUNT ? names[role] : "unknown";
}

enum aorta_role aorta_usual_role(enum aorta_range_kind kind, enum aorta_collective collective) {
    if (kind == AORTA_RANGE_COMPUTE) return AORTA_ROLE_COMPUTE;
    if (kind == AORTA_RANGE_COPY) return AORTA_ROLE_AUX;
    if (collective == AORTA_ALL_REDUCE) return AORTA_ROLE_ALLREDUCE;
    return collective == AORTA_REDUCE_SCATTER ? AORTA_ROLE_REDUCESCATTER : AORTA_ROLE_AUX;
}

const char *aorta_profile_source_name(int source) {
    return source == AORTA_SOURCE_KERNEL ? "kernel" : "range";
}

const char *aorta_host_kind_name(int kind) {
    static const char *const names[AORTA_HOST_KIND_COUNT] = {"data_wait", "host_sync", "allocation"};
    return (unsigned)kind < AORTA_HOST_KIND_COUNT ? names[kind] : "unknown";
}

const char *aorta_range_dims_text(const struct aorta_range_info *info, char text[AORTA_RANGE_DIMS_TEXT]) {
    size_t at = 0;
    for (int i = 0; i < 2 && info->dims[i][0]; i++) {
        for (int j = 0; j < AORTA_RANGE_DIMS && info->dims[i][j]; j++)
            at += (size_t)snprintf(text + at, AORTA_RANGE_DIMS_TEXT - at, "%s%lld",
                                   j   ? ", "
                                   : i ? ", ["
                                       : "[[",
                                   (long long)info->dims[i][j]);
        text[at++] = ']';
    }
    if (at) text[at++] = ']';
    text[at] = '\0';
    return text;
}

/* Reads a shape from its bracket on and returns its end; NULL if it is malformed. */
static const char *parse_shape(const char *at, int32_t dims[AORTA_RANGE_DIMS]) {
    if (*at++ != '[') return NULL;
    for (int i = 0; i < AORTA_RANGE_DIMS; i++) {
        char *end;
        const long long size = strtoll(at, &end, 10);
        if (end == at || size < 1 || size > INT32_MAX) return NULL;
        dims[i] = (int32_t)size;
        if (*end == ']') return end + 1;
        if (*end != ',') return NULL;
        at = end + 1;
    }
    return NULL;
}

bool aorta_range_dims_parse(const char *text, struct aorta_range_info *info) {
    const char *at = text;
    memset(info->dims, 0, sizeof info->dims);
    if (*at++ != '[') return false;
    for (int i = 0; i < 2; i++) {
        at = parse_shape(at, info->dims[i]);
        if (!at) return false;
        if (*at == ']') return at[1] == '\0';
        if (*at++ != ',') return false;
        while (*at == ' ') at++;
    }
    return false;
}

void aorta_profile_free(struct aorta_profile *profile) {
    free(profile->ranges);
    free(profile->host);
    free(profile->markers);
    free(profile->overlap.segments);
    free(profile->overlap.exposed);
    memset(profile, 0, sizeof *profile);
}

int64_t aorta_range_launched_by(const struct aorta_profile *profile, size_t range) {
    int64_t from = profile->ranges[range].enqueue_ns;
    if (profile->ranges[range].graph) return from; /* one launch for all of it */
    int64_t until = range + 1 < profile->range_count ? profile->ranges[range + 1].enqueue_ns : from;
    for (size_t i = 0; i < profile->host_count; i++)
        if (profile->host[i].start_ns >= from && profile->host[i].start_ns < until) until = profile->host[i].start_ns;
    return until > from ? until : from;
}
