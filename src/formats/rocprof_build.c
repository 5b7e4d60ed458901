/* Makes traces, one for each agent, of what rocprof.c collected. */
#include "base/array.h"
#include "base/sort.h"
#include "formats/rocprof.h"
#include "formats/rocprof_internal.h"
#include "timeline/builder.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the function behind an RCCL call does. Those that move nothing (ncclCommInitRank, …) are not here. */
static const struct {
    const char *name;
    enum aorta_collective kind;
    bool named;
} functions[] = {
    {"ncclAllReduce", AORTA_ALL_REDUCE, true}, {"ncclReduceScatter", AORTA_REDUCE_SCATTER, true},
    {"ncclAllGather", AORTA_ALL_GATHER, true}, {"ncclBroadcast", AORTA_BROADCAST, true},
    {"ncclBcast", AORTA_BROADCAST, true},      {"ncclAllToAll", AORTA_ALL_TO_ALL, true},
    {"ncclAlltoAll", AORTA_ALL_TO_ALL, true},  {"ncclAllToAllv", AORTA_ALL_TO_ALL, true},
    {"ncclReduce", AORTA_ALL_REDUCE, false},   {"ncclGather", AORTA_ALL_GATHER, false},
    {"ncclScatter", AORTA_ALL_GATHER, false},  {"ncclSend", AORTA_ALL_TO_ALL, false},
    {"ncclRecv", AORTA_ALL_TO_ALL, false},
};

/* ---- agents ---- */

/* The GPU behind a key: as the file describes it, or what the key itself says. */
static struct rocprof_agent agent_of(const struct aorta_rocprof *rocprof, int64_t key) {
    const struct rocprof_agent *agents = rocprof->agents.items;
    int64_t ordinal = 0;
    for (size_t i = 0; i < rocprof->agents.count; i++) {
        struct rocprof_agent agent = agents[i];
        if (agent.key == key) {
            if (agent.device < 0) agent.device = agent.gpu ? ordinal : key;
            return agent;
        }
        ordinal += agent.gpu;
    }
    return (struct rocprof_agent){.key = key, .device = key, .multiprocessors = -1};
}

/* Keys of the agents that worked, ascending. Work that names none belongs to the first. */
struct keys {
    int64_t *items;
    size_t count, capacity;
};

static aorta_status collect_keys(struct aorta_rocprof *rocprof, struct keys *keys) {
    struct rocprof_work *work = rocprof->work.items;
    *keys = (struct keys){0};
    int64_t last = -1;
    for (size_t i = 0; i < rocprof->work.count; i++) {
        if (work[i].agent < 0 || work[i].agent == last) continue;
        last = work[i].agent;
        size_t at = 0;
        while (at < keys->count && keys->items[at] < last) at++;
        if (at < keys->count && keys->items[at] == last) continue;
        AORTA_TRY(aorta_array_reserve(&keys->items, &keys->capacity, keys->count + 1, sizeof *keys->items, "devices"));
        memmove(keys->items + at + 1, keys->items + at, (keys->count++ - at) * sizeof *keys->items);
        keys->items[at] = last;
    }
    int64_t first = keys->count ? keys->items[0] : -1;
    for (size_t i = 0; i < rocprof->work.count; i++)
        if (work[i].agent < 0) work[i].agent = first;
    return NULL;
}

/* ---- one agent's trace ---- */

struct building {
    struct aorta_rocprof *rocprof;
    struct aorta_trace_builder *builder;
    struct rocprof_agent agent;
    int64_t *launches; /* correlation ids of this agent's work, ascending; NULL: it is the only agent */
    size_t launch_count;
    int64_t *graphs; /* correlation ids of launches of graphs, ascending */
    size_t graph_count, graph_capacity;
};

static uint32_t text(const struct building *b, const char *string) {
    return aorta_trace_builder_text(b->builder, string, strlen(string));
}

static const char *find_name(const struct rocprof_rows *rows, int64_t id) {
    const struct rocprof_name key = {.a = id};
    const struct rocprof_name *found =
        rows->count ? bsearch(&key, rows->items, rows->count, sizeof key, aorta_by_int64) : NULL;
    return found ? found->name : NULL;
}

static uint32_t name_of(const struct building *b, const struct rocprof_work *work) {
    const char *name = work->name ? work->name : find_name(&b->rocprof->symbols, work->kernel);
    if (name && *name) return text(b, name);
    char number[40];
    snprintf(number, sizeof number, "kernel %" PRId64, work->kernel);
    aorta_trace_builder_warn(b->builder, AORTA_REASON_UNKNOWN_NAME, work->offset);
    return text(b, number);
}

static bool is_among(const int64_t *sorted, size_t count, int64_t number) {
    return count && bsearch(&number, sorted, count, sizeof number, aorta_by_int64);
}

static void add_work(const struct building *b, const struct rocprof_work *work) {
    int64_t device = b->agent.device;
    bool has_queue = work->queue >= 0;
    if (work->stream < 0) aorta_trace_builder_warn(b->builder, AORTA_REASON_NO_STREAM, work->offset);
    const struct aorta_trace_work row = {
        .start_ns = work->start_ns,
        .end_ns = work->end_ns,
        .bytes = work->bytes,
        .correlation = work->correlation > 0 ? (uint64_t)work->correlation : 0,
        .name = name_of(b, work),
        .stream = aorta_trace_builder_stream(b->builder, device, -1, work->stream),
        .queue =
            has_queue ? aorta_trace_builder_queue(b->builder, device, work->queue, AORTA_TRACE_NONE) : AORTA_TRACE_NONE,
        .call = AORTA_TRACE_NONE,
        .collective = AORTA_TRACE_NONE,
        .shape = AORTA_TRACE_NONE,
        .device = (int32_t)device,
        .kind = work->kind,
        .graph = is_among(b->graphs, b->graph_count, work->correlation),
    };
    aorta_trace_builder_work(b->builder, &row, -1, NULL, work->offset);
    int64_t blocks[3], threads[3];
    for (int axis = 0; axis < 3; axis++) {
        blocks[axis] = work->blocks[axis];
        threads[axis] = work->threads[axis];
    }
    if (work->kind == AORTA_TRACE_KERNEL) aorta_trace_builder_geometry(b->builder, blocks, threads);
}

static const char *call_name(struct aorta_rocprof *rocprof, const struct rocprof_call *call) {
    return call->name ? call->name : aorta_rocprof_operation(rocprof, call->kind, call->operation);
}

static aorta_status collect_graphs(struct building *b) {
    const struct rocprof_call *calls = b->rocprof->calls.items;
    for (size_t i = 0; i < b->rocprof->calls.count; i++) {
        const char *name = call_name(b->rocprof, &calls[i]);
        if (!name || strncmp(name, "hipGraphLaunch", 14) != 0) continue;
        AORTA_TRY(aorta_array_reserve(&b->graphs, &b->graph_capacity, b->graph_count + 1, sizeof *b->graphs,
                                      "launches of graphs"));
        b->graphs[b->graph_count++] = calls[i].correlation;
    }
    aorta_sort_int64(b->graphs, b->graph_count);
    return NULL;
}

/* With several agents in a process, a launch belongs to the one whose work bears its id; waiting concerns all. */
static aorta_status collect_launches(struct building *b) {
    const struct rocprof_work *work = b->rocprof->work.items;
    b->launches = malloc((b->rocprof->work.count + 1) * sizeof *b->launches);
    if (!b->launches) return AORTA_ERROR(AORTA_MEMORY, "%s: no memory for its launches", b->rocprof->path);
    for (size_t i = 0; i < b->rocprof->work.count; i++)
        if (work[i].agent == b->agent.key) b->launches[b->launch_count++] = work[i].correlation;
    aorta_sort_int64(b->launches, b->launch_count);
    return NULL;
}

static bool concerns(const struct building *b, const char *name, int64_t correlation) {
    enum aorta_trace_call_kind kind;
    if (!b->launches) return true;
    if (aorta_trace_call_classify(name, &kind) && (kind == AORTA_CALL_SYNC || kind == AORTA_CALL_MEMORY)) return true;
    return is_among(b->launches, b->launch_count, correlation);
}

static void add_request(const struct building *b, const struct rocprof_call *call, const char *name, uint32_t thread) {
    struct aorta_trace_collective request = aorta_trace_unknown_collective;
    request.name = text(b, name);
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        if (strcmp(functions[i].name, name) != 0) continue;
        request.kind = functions[i].kind;
        request.named = functions[i].named;
        aorta_trace_builder_request(b->builder, call->start_ns, call->end_ns, thread, &request);
        return;
    }
}

static void add_marker(const struct building *b, const struct rocprof_call *call, uint32_t thread) {
    const char *message = find_name(&b->rocprof->messages, call->correlation);
    if (!message) message = call->name;
    if (!message || call->end_ns <= call->start_ns) return; /* a mark, not a range */
    const struct aorta_trace_annotation annotation = {
        .start_ns = call->start_ns, .end_ns = call->end_ns, .name = text(b, message), .thread = thread};
    aorta_trace_builder_annotation(b->builder, &annotation);
}

static void add_call(const struct building *b, const struct rocprof_call *call) {
    const char *name = call_name(b->rocprof, call);
    uint32_t thread = aorta_trace_builder_thread(b->builder, b->rocprof->process, call->thread);
    if (call->domain == AORTA_ROCPROF_MARKER) {
        add_marker(b, call, thread);
        return;
    }
    if (!name) name = "unknown call";
    if (call->domain == AORTA_ROCPROF_RCCL) add_request(b, call, name, thread);
    if (!concerns(b, name, call->correlation)) return;
    const struct aorta_trace_call row = {
        .start_ns = call->start_ns,
        .end_ns = call->end_ns,
        .correlation = call->correlation > 0 ? (uint64_t)call->correlation : 0,
        .name = text(b, name),
        .thread = thread,
    };
    aorta_trace_builder_call(b->builder, &row);
}

static void fill(const struct building *b, bool first, int64_t bytes) {
    struct aorta_rocprof *rocprof = b->rocprof;
    struct aorta_trace *head = aorta_trace_builder_head(b->builder);
    bool only = !b->launches; /* else the process has several devices, and its rank is none of theirs */
    head->rank = only ? rocprof->rank : -1;
    head->world = only ? rocprof->world : -1;
    head->process = rocprof->process;
    head->bytes_read = first ? bytes : 0;
    const struct rocprof_work *work = rocprof->work.items;
    for (size_t i = 0; i < rocprof->work.count; i++)
        if (work[i].agent == b->agent.key) add_work(b, &work[i]);
    const struct rocprof_call *calls = rocprof->calls.items;
    for (size_t i = 0; i < rocprof->calls.count; i++) add_call(b, &calls[i]);
    if (b->agent.device >= 0) {
        const struct aorta_trace_device device = {
            .id = b->agent.device,
            .name = b->agent.name ? text(b, b->agent.name) : AORTA_TRACE_NONE,
            .memory_bytes = -1,
            .multiprocessors = b->agent.multiprocessors,
            .major = -1,
            .minor = -1,
        };
        aorta_trace_builder_device(b->builder, &device);
    }
    if (!first) return;
    head->events = rocprof->events;
    for (int reason = 0; reason < AORTA_REASON_COUNT; reason++)
        for (int64_t i = 0; i < rocprof->warnings[reason].count; i++)
            aorta_trace_builder_warn(b->builder, (enum aorta_trace_reason)reason, rocprof->warnings[reason].offset);
}

static aorta_status build_one(struct aorta_rocprof *rocprof, const struct keys *keys, size_t index, int64_t bytes,
                              struct aorta_trace_list *list) {
    struct building b = {.rocprof = rocprof, .agent = agent_of(rocprof, keys->count ? keys->items[index] : -1)};
    aorta_status status = collect_graphs(&b);
    if (!status && keys->count > 1) status = collect_launches(&b);
    if (!status) status = aorta_trace_builder_create(rocprof->format, rocprof->path, rocprof->options, &b.builder);
    struct aorta_trace *trace = NULL;
    if (!status) {
        fill(&b, index == 0, bytes);
        status = aorta_trace_builder_finish(b.builder, &trace);
    }
    if (!status) status = aorta_trace_list_add(list, trace);
    free(b.launches);
    free(b.graphs);
    return status;
}

aorta_status aorta_rocprof_finish(struct aorta_rocprof *rocprof, int64_t bytes, struct aorta_trace_list *list) {
    struct keys keys = {0};
    aorta_status status = NULL;
    if (rocprof->failed) status = AORTA_ERROR(AORTA_MEMORY, "%s: no memory for its records", rocprof->path);
    if (!status) status = collect_keys(rocprof, &keys);
    if (!status) {
        /* Arrays that stayed empty are NULL, which qsort must not get. */
        struct rocprof_rows *agents = &rocprof->agents, *symbols = &rocprof->symbols, *messages = &rocprof->messages;
        if (agents->count) qsort(agents->items, agents->count, sizeof(struct rocprof_agent), aorta_by_int64);
        if (symbols->count) qsort(symbols->items, symbols->count, sizeof(struct rocprof_name), aorta_by_int64);
        if (messages->count) qsort(messages->items, messages->count, sizeof(struct rocprof_name), aorta_by_int64);
    }
    size_t traces = keys.count ? keys.count : 1;
    for (size_t i = 0; i < traces && !status; i++) status = build_one(rocprof, &keys, i, bytes, list);
    free(keys.items);
    aorta_rocprof_destroy(rocprof);
    return status;
}
