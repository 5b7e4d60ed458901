/* Makes traces, one for each agent, of what rocprof.c collected. */
#include "base/array.h"
#include "base/sort.h"
#include "trace/builder.h"
#include "trace/rocprof.h"
#include "trace/rocprof_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What each function of RCCL does. Functions that move nothing (ncclCommInitRank, …) are not here. */
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

/* Sorts the agents; the first of a key counts. A GPU whose number is not known has that of its place among the GPUs. */
static void sort_agents(struct aorta_rocprof *rocprof) {
    struct rocprof_agent *agents = rocprof->agents.items;
    int64_t ordinal = 0;
    rocprof->agents.count = aorta_sort_unique(agents, rocprof->agents.count, sizeof *agents, aorta_by_int64);
    for (size_t i = 0; i < rocprof->agents.count; i++) {
        if (agents[i].device < 0) agents[i].device = agents[i].gpu ? ordinal : agents[i].key;
        ordinal += agents[i].gpu;
    }
}

/* The GPU behind a key: as the file describes it, or what the key itself says. */
static struct rocprof_agent agent_of(const struct aorta_rocprof *rocprof, int64_t key) {
    const struct rocprof_rows *agents = &rocprof->agents;
    const struct rocprof_agent *found =
        agents->count ? bsearch(&key, agents->items, agents->count, sizeof *found, aorta_by_int64) : NULL;
    return found ? *found : (struct rocprof_agent){.key = key, .device = key, .multiprocessors = -1};
}

/* ---- one trace for each agent that worked ---- */

struct part {
    int64_t key; /* of the agent */
    struct rocprof_agent agent;
    struct aorta_trace_builder *builder;
};

/* A call whose work ran on this part. */
struct launch {
    int64_t correlation;
    size_t part;
};

struct building {
    struct aorta_rocprof *rocprof;
    struct part *parts; /* ascending by key */
    size_t part_count, part_capacity;
    struct launch *launches; /* each once, ascending; of several parts */
    size_t launch_count;
    int64_t *graphs; /* correlation ids of launches of graphs, ascending */
    size_t graph_count, graph_capacity;
    int64_t copies; /* of rows of the host, to more devices than a process has */
};
enum { DEVICES = 64, MOST_COPIES = 1 << 20 };

static aorta_status add_part(struct building *b, int64_t key) {
    AORTA_TRY(aorta_array_reserve(&b->parts, &b->part_capacity, b->part_count + 1, sizeof *b->parts, "devices"));
    b->parts[b->part_count++] = (struct part){.key = key};
    return NULL;
}

/* Work that names no agent belongs to the first; without any work there is one part. */
static aorta_status find_parts(struct building *b) {
    struct rocprof_work *work = b->rocprof->work.items;
    const size_t count = b->rocprof->work.count;
    for (size_t i = 0; i < count; i++)
        if (work[i].agent >= 0 && (!b->part_count || b->parts[b->part_count - 1].key != work[i].agent))
            AORTA_TRY(add_part(b, work[i].agent));
    if (!b->part_count) AORTA_TRY(add_part(b, -1));
    b->part_count = aorta_sort_unique(b->parts, b->part_count, sizeof *b->parts, aorta_by_int64);
    for (size_t i = 0; i < count; i++)
        if (work[i].agent < 0) work[i].agent = b->parts[0].key;
    return NULL;
}

static size_t part_of(const struct building *b, int64_t key) {
    return aorta_count_before(b->parts, b->part_count, sizeof *b->parts, offsetof(struct part, key), key);
}

static uint32_t text(const struct part *part, const char *string) {
    return aorta_trace_builder_text(part->builder, string, strlen(string));
}

static void sort_names(struct rocprof_rows *rows) {
    rows->count = aorta_sort_unique(rows->items, rows->count, sizeof(struct rocprof_name), aorta_by_int64);
}

static const char *find_name(const struct rocprof_rows *rows, int64_t id) {
    const struct rocprof_name key = {.a = id};
    const struct rocprof_name *found =
        rows->count ? bsearch(&key, rows->items, rows->count, sizeof key, aorta_by_int64) : NULL;
    return found ? found->name : NULL;
}

static uint32_t name_of(const struct building *b, const struct part *part, const struct rocprof_work *work) {
    const char *name = work->name ? work->name : find_name(&b->rocprof->symbols, work->kernel);
    if (name && *name) return text(part, name);
    char number[40];
    snprintf(number, sizeof number, "kernel %" PRId64, work->kernel);
    aorta_trace_builder_warn(part->builder, AORTA_REASON_UNKNOWN_NAME, work->offset);
    return text(part, number);
}

static bool is_among(const int64_t *sorted, size_t count, int64_t number) {
    return count && bsearch(&number, sorted, count, sizeof number, aorta_by_int64);
}

static void add_work(const struct building *b, const struct part *part, const struct rocprof_work *work) {
    int64_t device = part->agent.device;
    bool has_queue = work->queue >= 0;
    if (work->stream < 0) aorta_trace_builder_warn(part->builder, AORTA_REASON_NO_STREAM, work->offset);
    const struct aorta_trace_work row = {
        .start_ns = work->start_ns,
        .end_ns = work->end_ns,
        .bytes = work->bytes,
        .correlation = work->correlation > 0 ? (uint64_t)work->correlation : 0,
        .name = name_of(b, part, work),
        .stream = aorta_trace_builder_stream(part->builder, device, -1, work->stream),
        .queue = has_queue ? aorta_trace_builder_queue(part->builder, device, work->queue, AORTA_TRACE_NONE)
                           : AORTA_TRACE_NONE,
        .call = AORTA_TRACE_NONE,
        .collective = AORTA_TRACE_NONE,
        .shape = AORTA_TRACE_NONE,
        .device = (int32_t)device,
        .kind = work->kind,
        .graph = is_among(b->graphs, b->graph_count, work->correlation),
    };
    aorta_trace_builder_work(part->builder, &row, -1, NULL, work->offset);
    int64_t blocks[3], threads[3];
    for (int axis = 0; axis < 3; axis++) {
        blocks[axis] = work->blocks[axis];
        threads[axis] = work->threads[axis];
    }
    if (work->kind == AORTA_TRACE_KERNEL) aorta_trace_builder_geometry(part->builder, blocks, threads);
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

static int by_launch(const void *left, const void *right) {
    const struct launch *a = left, *b = right;
    if (a->correlation != b->correlation) return aorta_order_int64(a->correlation, b->correlation);
    return (a->part > b->part) - (a->part < b->part);
}

static aorta_status collect_launches(struct building *b) {
    const struct rocprof_work *work = b->rocprof->work.items;
    const size_t count = b->rocprof->work.count;
    if (b->part_count < 2) return NULL;
    b->launches = malloc(count * sizeof *b->launches);
    if (!b->launches) return AORTA_ERROR(AORTA_MEMORY, "%s: no memory for its launches", b->rocprof->path);
    for (size_t i = 0; i < count; i++) b->launches[i] = (struct launch){work[i].correlation, part_of(b, work[i].agent)};
    b->launch_count = aorta_sort_unique(b->launches, count, sizeof *b->launches, by_launch);
    return NULL;
}

static void add_request(const struct building *b, const struct part *part, const struct rocprof_call *call) {
    const char *name = call_name(b->rocprof, call);
    for (size_t i = 0; name && i < sizeof functions / sizeof functions[0]; i++) {
        if (strcmp(functions[i].name, name) != 0) continue;
        struct aorta_trace_collective request = aorta_trace_unknown_collective;
        request.name = text(part, name);
        request.kind = functions[i].kind;
        request.named = functions[i].named;
        aorta_trace_builder_request(part->builder, call->start_ns, call->end_ns,
                                    aorta_trace_builder_thread(part->builder, b->rocprof->process, call->thread),
                                    &request);
        return;
    }
}

static void add_marker(const struct building *b, const struct part *part, const struct rocprof_call *call) {
    const char *message = find_name(&b->rocprof->messages, call->correlation);
    if (!message) message = call->name;
    if (!message || call->end_ns <= call->start_ns) return; /* a mark, not a range */
    const uint32_t thread = aorta_trace_builder_thread(part->builder, b->rocprof->process, call->thread);
    aorta_trace_builder_marked(
        part->builder, message,
        (struct aorta_trace_annotation){.start_ns = call->start_ns, .end_ns = call->end_ns, .thread = thread});
}

static void add_call(const struct building *b, const struct part *part, const struct rocprof_call *call) {
    const char *name = call_name(b->rocprof, call);
    const struct aorta_trace_call row = {
        .start_ns = call->start_ns,
        .end_ns = call->end_ns,
        .correlation = call->correlation > 0 ? (uint64_t)call->correlation : 0,
        .name = text(part, name ? name : "unknown call"),
        .thread = aorta_trace_builder_thread(part->builder, b->rocprof->process, call->thread),
    };
    aorta_trace_builder_call(part->builder, &row);
}

/* Dispatches are numbered without gaps in a process, over all its devices. */
static void count_lost(const struct building *b, struct aorta_trace *head) {
    const struct aorta_rocprof *rocprof = b->rocprof;
    int64_t lost = 0;
    if (rocprof->dispatches) lost = rocprof->last_dispatch - rocprof->first_dispatch + 1 - rocprof->dispatches;
    head->coverage.dispatches = rocprof->dispatches;
    head->coverage.lost = lost > 0 ? lost : 0; /* merged processes have numbers twice */
}

typedef void add_to(const struct building *b, const struct part *part, const struct rocprof_call *call);

static void add_to_all(struct building *b, const struct rocprof_call *call, add_to *add) {
    for (size_t i = 0; i < b->part_count && b->copies <= MOST_COPIES; i++) {
        add(b, &b->parts[i], call);
        b->copies += i >= DEVICES;
    }
}

/* With several agents in a process, a launch belongs to those whose work bears its id; waiting concerns all. */
static void add_host(struct building *b, const struct rocprof_call *call) {
    enum aorta_trace_call_kind kind;
    if (call->domain == AORTA_ROCPROF_MARKER) {
        add_to_all(b, call, add_marker);
        return;
    }
    if (call->domain == AORTA_ROCPROF_RCCL) add_to_all(b, call, add_request);
    const char *name = call_name(b->rocprof, call);
    if (b->part_count == 1 ||
        (name && aorta_trace_call_classify(name, &kind) && (kind == AORTA_CALL_SYNC || kind == AORTA_CALL_MEMORY))) {
        add_to_all(b, call, add_call);
        return;
    }
    const size_t first = aorta_count_before(b->launches, b->launch_count, sizeof *b->launches, 0, call->correlation);
    for (size_t i = first; i < b->launch_count && b->launches[i].correlation == call->correlation; i++) {
        if (b->copies > MOST_COPIES) return;
        add_call(b, &b->parts[b->launches[i].part], call);
        b->copies += i - first >= DEVICES;
    }
}

static void add_device(const struct part *part) {
    const struct aorta_trace_device device = {
        .id = part->agent.device,
        .name = part->agent.name ? text(part, part->agent.name) : AORTA_TRACE_NONE,
        .memory_bytes = -1,
        .multiprocessors = part->agent.multiprocessors,
        .major = -1,
        .minor = -1,
    };
    if (part->agent.device >= 0) aorta_trace_builder_device(part->builder, &device);
}

static void add_head(const struct aorta_rocprof *rocprof, const struct part *first, int64_t bytes) {
    struct aorta_trace *head = aorta_trace_builder_head(first->builder);
    head->bytes_read = bytes;
    head->events = rocprof->events;
    head->warnings[AORTA_REASON_LOST_DISPATCHES].count = head->coverage.lost;
    for (int reason = 0; reason < AORTA_REASON_COUNT; reason++)
        for (int64_t i = 0; i < rocprof->warnings[reason].count; i++)
            aorta_trace_builder_warn(first->builder, (enum aorta_trace_reason)reason, rocprof->warnings[reason].offset);
}

static aorta_status create_parts(struct building *b) {
    const struct aorta_rocprof *rocprof = b->rocprof;
    const bool only = b->part_count == 1; /* else the process has several devices, and its rank is none of theirs */
    for (size_t i = 0; i < b->part_count; i++) {
        struct part *part = &b->parts[i];
        part->agent = agent_of(rocprof, part->key);
        AORTA_TRY(aorta_trace_builder_create(rocprof->format, rocprof->path, rocprof->options, &part->builder));
        struct aorta_trace *head = aorta_trace_builder_head(part->builder);
        head->rank = only ? rocprof->rank : -1;
        head->world = only ? rocprof->world : -1;
        head->process = rocprof->process;
        count_lost(b, head);
    }
    return NULL;
}

static aorta_status fill(struct building *b, int64_t bytes) {
    const struct rocprof_work *work = b->rocprof->work.items;
    const struct rocprof_call *calls = b->rocprof->calls.items;
    for (size_t i = 0; i < b->rocprof->work.count; i++) add_work(b, &b->parts[part_of(b, work[i].agent)], &work[i]);
    for (size_t i = 0; i < b->rocprof->calls.count; i++) add_host(b, &calls[i]);
    if (b->copies > MOST_COPIES)
        return AORTA_ERROR(AORTA_FORMAT,
                           "%s: too many calls and markers for work on so many devices: each of %zu would "
                           "get them; export fewer devices",
                           b->rocprof->path, b->part_count);
    for (size_t i = 0; i < b->part_count; i++) add_device(&b->parts[i]);
    add_head(b->rocprof, &b->parts[0], bytes);
    return NULL;
}

static aorta_status finish_parts(struct building *b, struct aorta_trace_list *list) {
    for (size_t i = 0; i < b->part_count; i++) {
        struct aorta_trace_builder *builder = b->parts[i].builder;
        struct aorta_trace *trace = NULL;
        b->parts[i].builder = NULL;
        AORTA_TRY(aorta_trace_builder_finish(builder, &trace));
        AORTA_TRY(aorta_trace_list_add(list, trace));
    }
    return NULL;
}

static aorta_status build(struct building *b, int64_t bytes, struct aorta_trace_list *list) {
    if (b->rocprof->failed) return AORTA_ERROR(AORTA_MEMORY, "%s: no memory for its records", b->rocprof->path);
    sort_agents(b->rocprof);
    sort_names(&b->rocprof->symbols);
    sort_names(&b->rocprof->messages);
    AORTA_TRY(find_parts(b));
    AORTA_TRY(collect_graphs(b));
    AORTA_TRY(collect_launches(b));
    AORTA_TRY(create_parts(b));
    AORTA_TRY(fill(b, bytes));
    return finish_parts(b, list);
}

aorta_status aorta_rocprof_finish(struct aorta_rocprof *rocprof, int64_t bytes, struct aorta_trace_list *list) {
    struct building b = {.rocprof = rocprof};
    aorta_status status = build(&b, bytes, list);
    for (size_t i = 0; i < b.part_count; i++) aorta_trace_builder_destroy(b.parts[i].builder);
    free(b.parts);
    free(b.launches);
    free(b.graphs);
    aorta_rocprof_destroy(rocprof);
    return status;
}
