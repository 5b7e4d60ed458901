/* Collects the records of rocprofv3's files, and makes traces of them, one for each agent. */
#include "trace/rocprof.h"
#include "base/intern.h"
#include "base/sort.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Calls of the host, and markers: of their records what is needed, as they are many. */
struct call {
    int64_t start_ns, end_ns, correlation, thread;
    const char *name;        /* NULL: by `operation` */
    int32_t kind, operation; /* -1: not known */
    uint8_t domain;          /* enum aorta_rocprof_domain */
};

struct name { /* as aorta_rocprof_add_name has it */
    int64_t first, second;
    const char *name;
};

/* A growing array. */
struct rows {
    void *items;
    size_t count, capacity;
};

struct aorta_rocprof {
    enum aorta_trace_format format;
    const char *path;
    const struct aorta_trace_options *options;
    int64_t process;
    int32_t rank, world;
    int64_t events;
    bool failed;      /* memory ran out */
    struct rows work; /* records, whose names are interned; NULL: by `kernel` */
    struct rows calls, agents, names[AORTA_ROCPROF_NAMED];
    bool sorted[AORTA_ROCPROF_NAMED];                  /* the names are sorted and unique */
    int64_t first_dispatch, last_dispatch, dispatches; /* lowest and highest number; count of numbered ones */
    struct aorta_texts strings;
    struct aorta_trace_warning warnings[AORTA_REASON_COUNT];
};

const struct aorta_rocprof_record aorta_rocprof_nothing = {
    .start_ns = INT64_MIN,
    .end_ns = INT64_MIN,
    .correlation = -1,
    .thread = -1,
    .kind = -1,
    .operation = -1,
    .kernel = -1,
    .dispatch = -1,
    .agent = -1,
    .queue = -1,
    .stream = -1,
    .source = -1,
    .destination = -1,
    .bytes = -1,
    .offset = -1,
};

aorta_status aorta_rocprof_create(enum aorta_trace_format format, const char *path,
                                  const struct aorta_trace_options *options, struct aorta_rocprof **rocprof) {
    struct aorta_rocprof *made = calloc(1, sizeof *made);
    if (!made) return AORTA_ERROR(AORTA_MEMORY, "%s: no memory to read it", path);
    made->path = path;
    made->format = format;
    made->options = options;
    made->process = -1;
    made->rank = made->world = -1;
    *rocprof = made;
    return NULL;
}

static void add(struct aorta_rocprof *rocprof, struct rows *rows, const void *row, size_t size) {
    rocprof->failed |= !aorta_array_append(&rows->items, &rows->capacity, &rows->count, row, size);
}

static const char *keep(struct aorta_rocprof *rocprof, const char *text, size_t length) {
    const char *interned = aorta_intern_slice(&rocprof->strings, text, strnlen(text, length));
    rocprof->failed |= !interned;
    return interned;
}

void aorta_rocprof_process(struct aorta_rocprof *rocprof, int64_t process) {
    rocprof->process = process;
}

void aorta_rocprof_rank(struct aorta_rocprof *rocprof, int32_t rank, int32_t world) {
    rocprof->rank = rank;
    rocprof->world = world;
}

void aorta_rocprof_warn(struct aorta_rocprof *rocprof, enum aorta_trace_reason reason, int64_t offset) {
    aorta_trace_warn(rocprof->warnings, reason, offset);
}

/* ---- what records refer to ---- */

void aorta_rocprof_add_agent(struct aorta_rocprof *rocprof, const struct aorta_rocprof_agent *agent) {
    struct aorta_rocprof_agent row = *agent;
    if (agent->name) row.name = keep(rocprof, agent->name, strlen(agent->name));
    add(rocprof, &rocprof->agents, &row, sizeof row);
}

void aorta_rocprof_add_name(struct aorta_rocprof *rocprof, enum aorta_rocprof_named of, int64_t first, int64_t second,
                            const char *name, size_t length) {
    const struct name row = {first, second, keep(rocprof, name, length)};
    add(rocprof, &rocprof->names[of], &row, sizeof row);
    rocprof->sorted[of] = false;
}

/* NULL if there is none (yet). */
static const char *find_name(struct aorta_rocprof *rocprof, enum aorta_rocprof_named of, int64_t first,
                             int64_t second) {
    struct rows *rows = &rocprof->names[of];
    const struct name key = {first, second, NULL};
    if (!rocprof->sorted[of])
        rows->count = aorta_sort_unique(rows->items, rows->count, sizeof key, aorta_by_int64_pair);
    rocprof->sorted[of] = true;
    const struct name *found =
        rows->count ? bsearch(&key, rows->items, rows->count, sizeof key, aorta_by_int64_pair) : NULL;
    return found ? found->name : NULL;
}

/* ---- records ---- */

bool aorta_rocprof_domain_of(const char *kind, size_t length, enum aorta_rocprof_domain *domain) {
    static const struct {
        const char *prefix;
        enum aorta_rocprof_domain domain;
    } prefixes[] = {
        {"KERNEL_DISPATCH", AORTA_ROCPROF_DISPATCH},
        {"MEMORY_COPY", AORTA_ROCPROF_COPY},
        {"HIP_", AORTA_ROCPROF_HIP},
        {"HSA_", AORTA_ROCPROF_HSA},
        {"RCCL_", AORTA_ROCPROF_RCCL},
        {"MARKER_", AORTA_ROCPROF_MARKER},
    };
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        size_t prefix = strlen(prefixes[i].prefix);
        if (length < prefix || strncasecmp(kind, prefixes[i].prefix, prefix) != 0) continue;
        *domain = prefixes[i].domain;
        return true;
    }
    return false;
}

static void add_call(struct aorta_rocprof *rocprof, const struct aorta_rocprof_record *record) {
    const struct call row = {
        .start_ns = record->start_ns,
        .end_ns = record->end_ns,
        .correlation = record->correlation,
        .thread = record->thread,
        .name = record->name ? keep(rocprof, record->name, record->name_length) : NULL,
        .kind = (int32_t)record->kind,
        .operation = (int32_t)record->operation,
        .domain = (uint8_t)record->domain,
    };
    add(rocprof, &rocprof->calls, &row, sizeof row);
}

/* The agent of a copy: its GPU, or the source between two GPUs. */
static int64_t copying_agent(const char *direction, const struct aorta_rocprof_record *record) {
    if (record->agent >= 0) return record->agent;
    bool to_device = direction && strstr(direction, "HOST_TO_DEVICE");
    return to_device ? record->destination : record->source;
}

/* "MEMORY_COPY_HOST_TO_DEVICE" (or older "HOST_TO_DEVICE") as "copy host to device". */
static const char *copy_name(struct aorta_rocprof *rocprof, const char *operation) {
    static const char prefix[] = "MEMORY_COPY_";
    char name[64] = "copy ";
    if (!operation || strlen(operation) > 40) return keep(rocprof, "copy", 4);
    if (aorta_begins(operation, prefix)) operation += sizeof prefix - 1;
    size_t length = strlen(name);
    for (const char *c = operation; *c; c++) {
        char lower = *c >= 'A' && *c <= 'Z' ? (char)(*c - 'A' + 'a') : *c;
        name[length++] = lower == '_' ? ' ' : lower;
    }
    return keep(rocprof, name, length);
}

static void count_dispatch(struct aorta_rocprof *rocprof, int64_t number) {
    if (!rocprof->dispatches || number < rocprof->first_dispatch) rocprof->first_dispatch = number;
    if (!rocprof->dispatches || number > rocprof->last_dispatch) rocprof->last_dispatch = number;
    rocprof->dispatches++;
}

static void add_work(struct aorta_rocprof *rocprof, const struct aorta_rocprof_record *record) {
    const bool copy = record->domain == AORTA_ROCPROF_COPY;
    struct aorta_rocprof_record row = *record;
    if (row.name) row.name = keep(rocprof, record->name, record->name_length);
    if (copy && !row.name) row.name = find_name(rocprof, AORTA_ROCPROF_OPERATIONS, record->kind, record->operation);
    /* Copies within the host concern no device. */
    if (copy && row.name && strstr(row.name, "HOST_TO_HOST")) return;
    if (copy) {
        row.agent = copying_agent(row.name, record);
        row.name = copy_name(rocprof, row.name);
    } else {
        if (row.stream < 0) row.stream = row.queue;
        if (row.dispatch >= 0) count_dispatch(rocprof, row.dispatch);
    }
    add(rocprof, &rocprof->work, &row, sizeof row);
}

void aorta_rocprof_add(struct aorta_rocprof *rocprof, const struct aorta_rocprof_record *record) {
    rocprof->events++;
    const bool work = record->domain == AORTA_ROCPROF_DISPATCH || record->domain == AORTA_ROCPROF_COPY;
    if (!aorta_trace_times_fit(record->start_ns, record->end_ns)) { /* missing ones are INT64_MIN */
        aorta_rocprof_warn(rocprof, work ? AORTA_REASON_BAD_EVENT : AORTA_REASON_ODD_VALUE, record->offset);
        return;
    }
    if (work)
        add_work(rocprof, record);
    else
        add_call(rocprof, record);
}

/* Functions of RCCL that communicate; ncclCommInitRank etc. do not. */
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

/* Sorts the agents; the first of a key counts. A GPU of unknown number gets its place among the GPUs. */
static void sort_agents(struct aorta_rocprof *rocprof) {
    struct aorta_rocprof_agent *agents = rocprof->agents.items;
    int64_t ordinal = 0;
    rocprof->agents.count = aorta_sort_unique(agents, rocprof->agents.count, sizeof *agents, aorta_by_int64);
    for (size_t i = 0; i < rocprof->agents.count; i++) {
        if (agents[i].device < 0) agents[i].device = agents[i].gpu ? ordinal : agents[i].key;
        ordinal += agents[i].gpu;
    }
}

/* The agent of a key; if the file does not describe it, its key is its number. */
static struct aorta_rocprof_agent agent_of(const struct aorta_rocprof *rocprof, int64_t key) {
    const struct rows *agents = &rocprof->agents;
    const struct aorta_rocprof_agent *found =
        agents->count ? bsearch(&key, agents->items, agents->count, sizeof *found, aorta_by_int64) : NULL;
    return found ? *found : (struct aorta_rocprof_agent){.key = key, .device = key, .multiprocessors = -1};
}

/* ---- one trace for each agent with work ---- */

struct part {
    int64_t key; /* of the agent */
    struct aorta_rocprof_agent agent;
    struct aorta_trace_builder *builder;
};

/* A call whose work ran on this part. */
struct launch {
    int64_t correlation, part;
};

struct building {
    struct aorta_rocprof *rocprof;
    struct part *parts; /* ascending by key */
    size_t part_count, part_capacity;
    struct launch *launches; /* sorted and unique; only with several parts */
    size_t launch_count;
    int64_t copies; /* of host rows, for devices beyond the first DEVICES of a process */
    struct aorta_arena arena;
};
enum { DEVICES = 64, MOST_COPIES = 1 << 20 };

static void add_part(struct building *b, int64_t key) {
    const struct part part = {.key = key};
    aorta_arena_append(&b->arena, &b->parts, &b->part_capacity, &b->part_count, &part, sizeof part);
}

/* Work without an agent belongs to the first part. Without any work there is one part. */
static void find_parts(struct building *b) {
    struct aorta_rocprof_record *work = b->rocprof->work.items;
    const size_t count = b->rocprof->work.count;
    for (size_t i = 0; i < count; i++)
        if (work[i].agent >= 0 && (!b->part_count || b->parts[b->part_count - 1].key != work[i].agent))
            add_part(b, work[i].agent);
    if (!b->part_count) add_part(b, -1);
    b->part_count = aorta_sort_unique(b->parts, b->part_count, sizeof *b->parts, aorta_by_int64);
    for (size_t i = 0; b->part_count && i < count; i++)
        if (work[i].agent < 0) work[i].agent = b->parts[0].key;
}

static int64_t part_of(const struct building *b, int64_t key) {
    return (int64_t)aorta_count_before(b->parts, b->part_count, sizeof *b->parts, offsetof(struct part, key), key);
}

static uint32_t text(const struct part *part, const char *string) {
    return aorta_trace_builder_text(part->builder, string, strlen(string));
}

static uint32_t name_of(const struct building *b, const struct part *part, const struct aorta_rocprof_record *work) {
    const char *name = work->name ? work->name : find_name(b->rocprof, AORTA_ROCPROF_KERNELS, work->kernel, 0);
    if (name && *name) return text(part, name);
    char number[40];
    snprintf(number, sizeof number, "kernel %" PRId64, work->kernel);
    aorta_trace_builder_warn(part->builder, AORTA_REASON_UNKNOWN_NAME, work->offset);
    return text(part, number);
}

/* Thread blocks of a dispatch, whose grid is counted in threads; none when its sizes make no sense. */
static void put_geometry(const struct part *part, const struct aorta_rocprof_record *work) {
    int64_t blocks[3];
    for (int axis = 0; axis < 3; axis++) {
        const int64_t group = work->group[axis], grid = work->grid[axis];
        if (group <= 0 || grid <= 0 || group > INT32_MAX || grid > INT32_MAX) return;
        blocks[axis] = (grid - 1) / group + 1;
    }
    aorta_trace_builder_geometry(part->builder, blocks, work->group);
}

static void put_work(const struct building *b, const struct part *part, const struct aorta_rocprof_record *work) {
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
        .device = (int32_t)device,
        .kind = work->domain == AORTA_ROCPROF_COPY ? AORTA_TRACE_COPY : AORTA_TRACE_KERNEL,
    };
    aorta_trace_builder_work(part->builder, &row, -1, NULL, work->offset);
    if (work->domain == AORTA_ROCPROF_DISPATCH) put_geometry(part, work);
}

static const char *call_name(struct aorta_rocprof *rocprof, const struct call *call) {
    return call->name ? call->name : find_name(rocprof, AORTA_ROCPROF_OPERATIONS, call->kind, call->operation);
}

static void collect_launches(struct building *b) {
    const struct aorta_rocprof_record *work = b->rocprof->work.items;
    const size_t count = b->part_count < 2 ? 0 : b->rocprof->work.count;
    b->launches = aorta_arena_raw(&b->arena, count * sizeof *b->launches);
    for (size_t i = 0; b->launches && i < count; i++)
        b->launches[b->launch_count++] = (struct launch){work[i].correlation, part_of(b, work[i].agent)};
    b->launch_count = aorta_sort_unique(b->launches, b->launch_count, sizeof *b->launches, aorta_by_int64_pair);
}

static void put_request(const struct building *b, const struct part *part, const struct call *call) {
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

static void put_marker(const struct building *b, const struct part *part, const struct call *call) {
    const char *message = find_name(b->rocprof, AORTA_ROCPROF_MESSAGES, call->correlation, 0);
    if (!message) message = call->name;
    if (!message || call->end_ns <= call->start_ns) return; /* a mark, not a range */
    const uint32_t thread = aorta_trace_builder_thread(part->builder, b->rocprof->process, call->thread);
    aorta_trace_builder_marked(
        part->builder, message,
        (struct aorta_trace_annotation){.start_ns = call->start_ns, .end_ns = call->end_ns, .thread = thread});
}

static void put_call(const struct building *b, const struct part *part, const struct call *call) {
    const char *name = call_name(b->rocprof, call);
    const struct aorta_trace_call row = {
        .start_ns = call->start_ns,
        .end_ns = call->end_ns,
        .correlation = call->correlation > 0 ? (uint64_t)call->correlation : 0,
        .name = text(part, name ? name : "unknown call"),
        .thread = aorta_trace_builder_thread(part->builder, b->rocprof->process, call->thread),
    };
    aorta_trace_builder_any_call(part->builder, &row);
}

/* Dispatches are numbered without gaps in a process, over all its devices. */
static void count_lost(const struct building *b, struct aorta_trace *head) {
    const struct aorta_rocprof *rocprof = b->rocprof;
    int64_t lost = 0;
    if (rocprof->dispatches) lost = rocprof->last_dispatch - rocprof->first_dispatch + 1 - rocprof->dispatches;
    head->coverage.dispatches = rocprof->dispatches;
    head->coverage.lost = lost > 0 ? lost : 0; /* merged processes have numbers twice */
}

typedef void put(const struct building *b, const struct part *part, const struct call *call);

static void put_to_all(struct building *b, const struct call *call, put *put_one) {
    for (size_t i = 0; i < b->part_count && b->copies <= MOST_COPIES; i++) {
        put_one(b, &b->parts[i], call);
        b->copies += i >= DEVICES;
    }
}

/* With several agents in a process, a launch belongs to the agents whose work has its id; waits concern all. */
static void add_host(struct building *b, const struct call *call) {
    enum aorta_trace_call_kind kind;
    if (call->domain == AORTA_ROCPROF_MARKER) {
        put_to_all(b, call, put_marker);
        return;
    }
    if (call->domain == AORTA_ROCPROF_RCCL) put_to_all(b, call, put_request);
    const char *name = call_name(b->rocprof, call);
    if (b->part_count == 1 ||
        (name && aorta_trace_call_classify(name, &kind) && (kind == AORTA_CALL_SYNC || kind == AORTA_CALL_MEMORY))) {
        put_to_all(b, call, put_call);
        return;
    }
    const size_t first = aorta_count_before(b->launches, b->launch_count, sizeof *b->launches, 0, call->correlation);
    for (size_t i = first; i < b->launch_count && b->launches[i].correlation == call->correlation; i++) {
        if (b->copies > MOST_COPIES) return;
        put_call(b, &b->parts[b->launches[i].part], call);
        b->copies += i - first >= DEVICES;
    }
}

static void add_device(const struct part *part) {
    const int64_t multiprocessors = part->agent.multiprocessors;
    const struct aorta_trace_device device = {
        .id = part->agent.device,
        .name = part->agent.name ? text(part, part->agent.name) : AORTA_TRACE_NONE,
        .memory_bytes = -1,
        .multiprocessors = multiprocessors >= 0 && multiprocessors < INT32_MAX ? (int32_t)multiprocessors : -1,
        .major = -1,
        .minor = -1,
    };
    if (part->agent.device >= 0) aorta_trace_builder_device(part->builder, &device);
}

static aorta_status create_parts(struct building *b) {
    const struct aorta_rocprof *rocprof = b->rocprof;
    const bool only = b->part_count == 1; /* with several devices in a process, its rank is of no single device */
    AORTA_EACH (struct part, part, b->parts, b->part_count) {
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
    const struct aorta_rocprof_record *work = b->rocprof->work.items;
    const struct call *calls = b->rocprof->calls.items;
    for (size_t i = 0; i < b->rocprof->work.count; i++) put_work(b, &b->parts[part_of(b, work[i].agent)], &work[i]);
    for (size_t i = 0; i < b->rocprof->calls.count; i++) add_host(b, &calls[i]);
    if (b->copies > MOST_COPIES)
        return AORTA_ERROR(AORTA_FORMAT,
                           "%s: too many calls and markers for work on so many devices: each of %zu would "
                           "get them; export fewer devices",
                           b->rocprof->path, b->part_count);
    for (size_t i = 0; i < b->part_count; i++) add_device(&b->parts[i]);
    struct aorta_trace *head = aorta_trace_builder_head(b->parts[0].builder);
    head->bytes_read = bytes;
    head->events = b->rocprof->events;
    head->warnings[AORTA_REASON_LOST_DISPATCHES].count = head->coverage.lost;
    aorta_trace_warnings_add(head->warnings, b->rocprof->warnings);
    return NULL;
}

static aorta_status finish_parts(struct building *b, struct aorta_trace_list *list) {
    for (size_t i = 0; i < b->part_count; i++) {
        struct aorta_trace_builder *builder = b->parts[i].builder;
        b->parts[i].builder = NULL;
        AORTA_TRY(aorta_trace_builder_finish_into(builder, list));
    }
    return NULL;
}

static aorta_status build(struct building *b, int64_t bytes, struct aorta_trace_list *list) {
    sort_agents(b->rocprof);
    find_parts(b);
    collect_launches(b);
    if (b->rocprof->failed || b->arena.failed)
        return AORTA_ERROR(AORTA_MEMORY, "%s: no memory for its records", b->rocprof->path);
    AORTA_TRY(create_parts(b));
    AORTA_TRY(fill(b, bytes));
    return finish_parts(b, list);
}

aorta_status aorta_rocprof_finish(struct aorta_rocprof *rocprof, aorta_status status, int64_t bytes,
                                  struct aorta_trace_list *list) {
    struct building b = {.rocprof = rocprof};
    if (!status) status = build(&b, bytes, list);
    for (size_t i = 0; i < b.part_count; i++) aorta_trace_builder_destroy(b.parts[i].builder);
    aorta_arena_free(&b.arena);
    free(rocprof->work.items);
    free(rocprof->calls.items);
    free(rocprof->agents.items);
    for (int i = 0; i < AORTA_ROCPROF_NAMED; i++) free(rocprof->names[i].items);
    aorta_texts_free(&rocprof->strings);
    free(rocprof);
    return status;
}
