/* The end of building: rows sorted, and each piece of device work linked to its launch, shape and collective. Before
 * that, builders of parts of a file become one. */
#include "trace/builder_internal.h"

#include "base/sort.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- order ---- */

static AORTA_ORDER(by_start, struct trace_pending,
                   AORTA_UP(work.start_ns) AORTA_UP(work.end_ns) AORTA_UP(work.stream) AORTA_UP(offset));

static AORTA_ORDER(call_order, struct aorta_trace_call, AORTA_UP(start_ns) AORTA_UP(end_ns) AORTA_UP(correlation));

static AORTA_ORDER(annotation_order, struct aorta_trace_annotation,
                   AORTA_UP(start_ns) AORTA_DOWN(end_ns) AORTA_UP(name));

static int step_order(const void *left, const void *right) {
    const struct aorta_trace_step *a = left, *b = right;
    int64_t x = a->start_ns == INT64_MIN ? a->device_start_ns : a->start_ns;
    int64_t y = b->start_ns == INT64_MIN ? b->device_start_ns : b->start_ns;
    if (x != y) return x < y ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

void aorta_trace_rows_sort(struct trace_rows *rows, size_t size, int (*order)(const void *, const void *)) {
    aorta_sort_rows(rows->items, rows->count, size, order);
}

void aorta_trace_sort_work(struct aorta_trace_builder *builder) {
    aorta_trace_rows_sort(&builder->pending, sizeof(struct trace_pending), by_start);
}

/* ---- launches ---- */

/* Calls by correlation: the first of a known kind, else the first. */
struct call_index {
    struct aorta_table table;
    struct aorta_trace_call *calls;
    size_t repeated; /* calls with the correlation of an earlier call that had ended */
    bool external;   /* the numbers are Kineto's "External id" */
};

static uint64_t hash_of_call(const void *of, uint32_t number) {
    const struct call_index *index = of;
    return aorta_hash_add(0, index->calls[number].correlation);
}

static bool is_of_call(const void *of, uint32_t number, const void *key) {
    const struct call_index *index = of;
    const uint64_t *correlation = key;
    return index->calls[number].correlation == *correlation;
}

static uint32_t *call_slot(const struct call_index *index, uint64_t correlation) {
    return aorta_table_slot(&index->table, aorta_hash_add(0, correlation), is_of_call, index, &correlation);
}

/* Known kinds come first. */
static int precedence(const struct aorta_trace_call *call) {
    return aorta_trace_call_is_known(call) ? 0 : call->kind;
}

/* PyTorch with roctracer numbered launches and their work only by "External id"; operations are numbered separately. */
static bool is_external(const struct aorta_trace_builder *builder) {
    const struct trace_pending *pending = builder->pending.items;
    bool external = false;
    for (size_t i = 0; i < builder->pending.count; i++) {
        if (pending[i].work.correlation && !(pending[i].work.correlation & TRACE_EXTERNAL)) return false;
        external |= pending[i].work.correlation != 0;
    }
    return external;
}

static void keep_number(uint64_t *number, bool external) {
    *number = ((*number & TRACE_EXTERNAL) != 0) == external ? *number & ~TRACE_EXTERNAL : 0;
}

static void keep_numbers(struct aorta_trace_builder *builder, bool external) {
    struct trace_pending *pending = builder->pending.items;
    struct aorta_trace_call *calls = builder->calls.items;
    for (size_t i = 0; i < builder->pending.count; i++) keep_number(&pending[i].work.correlation, external);
    for (size_t i = 0; i < builder->calls.count; i++) keep_number(&calls[i].correlation, external);
}

static bool index_calls(struct call_index *index, const struct trace_rows *calls) {
    *index = (struct call_index){.calls = calls->items, .external = index->external};
    if (!aorta_table_reserve(&index->table, calls->count, hash_of_call, index)) return false;
    for (size_t i = 0; i < calls->count; i++) {
        const struct aorta_trace_call *call = &index->calls[i];
        if (!call->correlation) continue;
        uint32_t *slot = call_slot(index, call->correlation);
        const struct aorta_trace_call *first = *slot ? &index->calls[*slot - 1] : NULL;
        if (first && !precedence(first) && !precedence(call)) index->repeated += first->end_ns <= call->start_ns;
        if (!first || precedence(call) < precedence(first)) *slot = (uint32_t)i + 1;
    }
    return true;
}

static uint32_t find_call(const struct call_index *index, uint64_t correlation) {
    const uint32_t found = correlation ? *call_slot(index, correlation) : 0;
    return found ? found - 1 : AORTA_TRACE_NONE;
}

/* Pages of managed memory are moved without a call. */
static bool lacks_correlation(const struct aorta_trace_builder *builder, const struct aorta_trace_work *work) {
    return !work->correlation && aorta_trace_page_moved(builder->trace, work) == AORTA_COPIED_UNKNOWN;
}

static void link_launch(struct aorta_trace_builder *builder, const struct call_index *index,
                        struct trace_pending *pending) {
    struct aorta_trace_work *work = &pending->work;
    const uint32_t found = find_call(index, work->correlation);
    struct aorta_trace_call *call = found == AORTA_TRACE_NONE ? NULL : &index->calls[found];
    if (call && call->kind == TRACE_CALL_UNNAMED) call->kind = AORTA_CALL_OTHER; /* it launches, whatever its name */
    if (call && !aorta_trace_call_is_known(call)) call = NULL;
    work->call = call ? found : AORTA_TRACE_NONE;
    if (index->external && call) pending->operation = -1;
    if (index->external && !call) work->correlation = 0;
    if (lacks_correlation(builder, work)) {
        aorta_trace_builder_warn(builder, AORTA_REASON_NO_CORRELATION, pending->offset);
    } else if (work->correlation && !call) {
        if (!builder->trace->no_launches) aorta_trace_builder_warn(builder, AORTA_REASON_NO_LAUNCH, pending->offset);
    } else if (call) {
        work->graph |= call->kind == AORTA_CALL_GRAPH_LAUNCH;
    }
}

/* ---- waits for events and streams: the calls that ask for them, and what the file says about what is waited for ----
 */

void aorta_trace_builder_wait(struct aorta_trace_builder *builder, const struct aorta_trace_wait_facts *facts) {
    aorta_trace_rows_put(builder, &builder->wait_facts, facts, sizeof *facts);
}

static struct aorta_trace_wait wait_of(const struct call_index *index, const struct aorta_trace_wait_facts *facts) {
    const uint32_t asked = find_call(index, facts->correlation), recorded = find_call(index, facts->record_correlation);
    const bool waits = facts->stream == AORTA_TRACE_NONE && asked != AORTA_TRACE_NONE;
    return (struct aorta_trace_wait){
        .asked_ns = asked == AORTA_TRACE_NONE ? facts->start_ns : index->calls[asked].start_ns,
        .recorded_ns = recorded == AORTA_TRACE_NONE ? INT64_MIN : index->calls[recorded].start_ns,
        .stream = facts->stream,
        .on = facts->on,
        .call = waits && aorta_trace_call_is_known(&index->calls[asked]) ? asked : AORTA_TRACE_NONE,
    };
}

/* A call without facts: some stream waits for some event. */
static void link_waits(struct aorta_trace_builder *builder, const struct call_index *index) {
    struct aorta_trace *trace = builder->trace;
    struct trace_rows waits = {0};
    aorta_trace_rows_sort(&builder->wait_facts, sizeof(struct aorta_trace_wait_facts), aorta_by_uint64);
    const struct aorta_trace_wait_facts *facts = builder->wait_facts.items;
    for (size_t i = 0; i < builder->wait_facts.count; i++) {
        const struct aorta_trace_wait wait = wait_of(index, &facts[i]);
        if (wait.stream != AORTA_TRACE_NONE || wait.call != AORTA_TRACE_NONE)
            aorta_trace_rows_put(builder, &waits, &wait, sizeof wait);
    }
    AORTA_EACH (const struct aorta_trace_call, call, index->calls, builder->calls.count) {
        const struct aorta_trace_wait wait = {call->start_ns, INT64_MIN, AORTA_TRACE_NONE, AORTA_TRACE_NONE,
                                              AORTA_TRACE_NONE};
        if (call->kind == TRACE_CALL_EVENT_WAIT &&
            !(facts && bsearch(&call->correlation, facts, builder->wait_facts.count, sizeof *facts, aorta_by_uint64)))
            aorta_trace_rows_put(builder, &waits, &wait, sizeof wait);
    }
    trace->waits = waits.items;
    trace->wait_count = waits.count;
    if (waits.count) qsort(trace->waits, trace->wait_count, sizeof *trace->waits, aorta_by_int64);
}

/* ---- the calls that stay ---- */

/* Drops calls of unknown kind and renumbers the calls of work and waits. */
static void drop_calls(struct aorta_trace_builder *builder) {
    struct aorta_arena scratch = {0};
    struct aorta_trace_call *calls = builder->calls.items;
    struct trace_pending *pending = builder->pending.items;
    struct aorta_trace_wait *waits = builder->trace->waits;
    uint32_t *numbers = aorta_arena_raw(&scratch, builder->calls.count * sizeof *numbers);
    size_t used = 0;
    for (size_t i = 0; numbers && i < builder->calls.count; i++) {
        numbers[i] = (uint32_t)used;
        if (aorta_trace_call_is_known(&calls[i])) calls[used++] = calls[i];
    }
    for (size_t i = 0; numbers && i < builder->pending.count; i++)
        if (pending[i].work.call != AORTA_TRACE_NONE) pending[i].work.call = numbers[pending[i].work.call];
    for (size_t i = 0; numbers && i < builder->trace->wait_count; i++)
        if (waits[i].call != AORTA_TRACE_NONE) waits[i].call = numbers[waits[i].call];
    builder->calls.count = used;
    aorta_arena_end(&scratch, &builder->memory);
}

static void link_calls(struct aorta_trace_builder *builder) {
    struct call_index index = {.external = is_external(builder)};
    struct trace_pending *pending = builder->pending.items;
    aorta_trace_rows_sort(&builder->calls, sizeof(struct aorta_trace_call), call_order);
    keep_numbers(builder, index.external);
    builder->memory.failed |= !index_calls(&index, &builder->calls);
    if (index.external && index.repeated) { /* the numbers are those of operations: drop them all */
        keep_numbers(builder, true);
        index.repeated = 0;
    }
    if (!builder->memory.failed) {
        builder->trace->repeated = index.repeated;
        for (size_t i = 0; i < builder->pending.count; i++) link_launch(builder, &index, &pending[i]);
        link_waits(builder, &index);
        drop_calls(builder);
    }
    aorta_table_free(&index.table);
}

/* ---- device work ---- */

static bool same_work(const struct aorta_trace_work *a, const struct aorta_trace_work *b) {
    return a->start_ns == b->start_ns && a->end_ns == b->end_ns && a->name == b->name && a->stream == b->stream &&
           a->correlation && a->correlation == b->correlation && !a->graph;
}

/* Equal rows are neighbours, but for other work of the same times between them. */
static void drop_duplicates(struct aorta_trace_builder *builder) {
    struct trace_pending *rows = builder->pending.items;
    size_t count = 0;
    for (size_t i = 0; i < builder->pending.count; i++) {
        if (count && same_work(&rows[count - 1].work, &rows[i].work)) {
            aorta_trace_builder_warn(builder, AORTA_REASON_DUPLICATE, rows[i].offset);
            if (rows[count - 1].work.collective == AORTA_TRACE_NONE)
                rows[count - 1].work.collective = rows[i].work.collective;
            if (rows[count - 1].operation < 0) rows[count - 1].operation = rows[i].operation;
            continue;
        }
        rows[count++] = rows[i];
    }
    builder->pending.count = count;
}

int64_t *aorta_trace_times_new(size_t count, int64_t value, struct aorta_arena *memory) {
    int64_t *times = aorta_arena_raw(memory, count * sizeof *times);
    for (size_t i = 0; times && i < count; i++) times[i] = value;
    return times;
}

/* Counts work that starts before its launch even on the corrected clock. */
static void count_early(struct aorta_trace_builder *builder) {
    const struct trace_pending *rows = builder->pending.items;
    const struct aorta_trace_call *calls = builder->calls.items;
    for (size_t i = 0; i < builder->pending.count; i++)
        if (rows[i].work.call != AORTA_TRACE_NONE && rows[i].work.start_ns < calls[rows[i].work.call].start_ns)
            aorta_trace_builder_warn(builder, AORTA_REASON_LAUNCH_AFTER_START, rows[i].offset);
}

/* Branches of a graph may run at the same time. A copy within the host's memory is no work of the device. */
static bool may_overlap(const struct aorta_trace *trace, const struct aorta_trace_work *a,
                        const struct aorta_trace_work *b) {
    static const char within_host[] = "Memcpy HtoH";
    return (a->graph && a->correlation == b->correlation) ||
           aorta_begins(aorta_trace_text(trace, a->name), within_host) ||
           aorta_begins(aorta_trace_text(trace, b->name), within_host);
}

static void count_overlaps(struct aorta_trace_builder *builder) {
    struct aorta_arena scratch = {0};
    const struct aorta_trace_work **last = aorta_arena_alloc(&scratch, builder->streams.count * sizeof *last);
    const struct trace_pending *rows = builder->pending.items;
    for (size_t i = 0; last && i < builder->pending.count; i++) {
        const struct aorta_trace_work *work = &rows[i].work, **before = &last[work->stream];
        if (work->start_ns == work->end_ns)
            aorta_trace_builder_warn(builder, AORTA_REASON_ZERO_DURATION, rows[i].offset);
        if (*before && work->start_ns < (*before)->end_ns && !may_overlap(builder->trace, work, *before))
            aorta_trace_builder_warn(builder, AORTA_REASON_SAME_STREAM_OVERLAP, rows[i].offset);
        if (!*before || work->end_ns > (*before)->end_ns) *before = work;
    }
    aorta_arena_end(&scratch, &builder->memory);
}

/* ---- collectives ---- */

/* Nests the annotations of the backend, which marks each collective ("nccl:_all_gather_base"), or all remaining
 * ones. */
static struct aorta_nest_range *nest_annotations(const struct aorta_trace_builder *builder, bool of_backend,
                                                 size_t *count, struct aorta_arena *memory) {
    struct aorta_nest_range *nest = aorta_arena_raw(memory, builder->annotations.count * sizeof *nest);
    const struct aorta_trace_annotation *annotations = builder->annotations.items;
    *count = 0;
    for (size_t i = 0; nest && i < builder->annotations.count; i++) {
        const char *name = aorta_trace_text(builder->trace, annotations[i].name);
        if ((aorta_begins(name, "nccl:") || aorta_trace_is_gloo_range(name)) != of_backend) continue;
        nest[(*count)++] = (struct aorta_nest_range){annotations[i].start_ns, annotations[i].end_ns,
                                                     annotations[i].thread, (uint32_t)i, 0};
    }
    if (nest) aorta_nest_make(nest, *count);
    return nest;
}

/* Gives a collective kernel without facts those of the request around its launch. */
static void borrow_facts(struct aorta_trace_builder *builder, const struct aorta_nest_range *requests,
                         struct aorta_trace_work *work, const struct aorta_trace_call *call) {
    const uint32_t request =
        aorta_nest_find(requests, builder->requests.count, sizeof *requests, call->thread, call->start_ns);
    if (request == AORTA_NEST_NONE) return;
    const struct aorta_trace_collective *facts = builder->request_facts.items;
    work->collective = aorta_trace_add_facts(builder, &facts[requests[request].number]);
}

/* "send 0->1", "recv 1<-0": the other rank; -1: none. */
static int32_t peer_in(const char *name) {
    const char *to = strstr(name, "->"), *from = strstr(name, "<-"), *at = to ? to : from;
    if (!at || at[2] < '0' || at[2] > '9') return -1;
    const long number = strtol(at + 2, NULL, 10);
    return number <= INT32_MAX ? (int32_t)number : -1;
}

/* The backend's range around the launch names the collective: kernels of different collectives can have the same name.
 */
static void name_by_backend(struct aorta_trace_builder *builder, const struct trace_surroundings *around,
                            struct aorta_trace_work *work, const struct aorta_trace_call *call) {
    const uint32_t found =
        aorta_nest_find(around->backend, around->backend_count, sizeof *around->backend, call->thread, call->start_ns);
    if (found == AORTA_NEST_NONE) return;
    const struct aorta_trace_annotation *range = builder->annotations.items;
    range += around->backend[found].number;
    const char *name = strchr(aorta_trace_text(builder->trace, range->name), ':') + 1;
    struct aorta_trace_collective named = aorta_trace_unknown_collective;
    named.peer = peer_in(name);
    named.name = aorta_trace_builder_text(builder, name, strcspn(name, " "));
    aorta_trace_collective_complete(builder->trace, &named);
    struct aorta_trace_collective *facts = builder->collectives.items;
    if (work->collective != AORTA_TRACE_NONE) {
        facts += work->collective;
        facts->kind = named.named ? named.kind : facts->kind;
        facts->named |= named.named;
        if (facts->peer < 0) facts->peer = named.peer;
    } else {
        work->collective = aorta_trace_add_facts(builder, &named);
    }
}

static void classify_work(struct aorta_trace_builder *builder, struct trace_pending *row,
                          const struct trace_surroundings *around) {
    struct aorta_trace_work *work = &row->work;
    if (work->kind != AORTA_TRACE_KERNEL) return;
    struct aorta_kernel_kind kind = aorta_trace_kernel_kind(builder, work->name);
    work->class = (uint8_t)(work->collective != AORTA_TRACE_NONE ? AORTA_KERNEL_COLLECTIVE : kind.class);
    if (work->class != AORTA_KERNEL_COLLECTIVE) return;
    work->named = kind.named;
    work->by_name = (uint8_t)kind.collective;
    const struct aorta_trace_call *calls = builder->calls.items;
    const struct aorta_trace_call *call = work->call == AORTA_TRACE_NONE ? NULL : &calls[work->call];
    if (work->collective == AORTA_TRACE_NONE && call) borrow_facts(builder, around->requests, work, call);
    if (work->collective == AORTA_TRACE_NONE) {
        struct aorta_trace_collective own;
        if (work->operation != AORTA_TRACE_NONE && aorta_trace_collective_of_operation(builder, work->operation, &own))
            work->collective = aorta_trace_add_facts(builder, &own);
        else
            aorta_trace_builder_warn(builder, AORTA_REASON_NO_COLLECTIVE, row->offset);
        if (call) name_by_backend(builder, around, work, call);
    }
    if (work->collective == AORTA_TRACE_NONE) return;
    struct aorta_trace_collective *facts = builder->collectives.items;
    facts += work->collective;
    if (!facts->named && kind.named) {
        facts->kind = kind.collective;
        facts->named = true;
    }
    if (facts->annotation != AORTA_TRACE_NONE || !call) return;
    const uint32_t range = aorta_nest_find(around->annotations, around->annotation_count, sizeof *around->annotations,
                                           call->thread, call->start_ns);
    if (range != AORTA_NEST_NONE) facts->annotation = around->annotations[range].number;
}

static void link_collectives(struct aorta_trace_builder *builder) {
    struct aorta_arena scratch = {0};
    struct trace_surroundings around = {.requests =
                                            aorta_nest_of(builder->requests.items, builder->requests.count, &scratch)};
    struct trace_rows *const both[] = {&builder->pending, &builder->captured};
    around.annotations = nest_annotations(builder, false, &around.annotation_count, &scratch);
    around.backend = nest_annotations(builder, true, &around.backend_count, &scratch);
    builder->memory.failed |= !around.requests || !around.annotations || !around.backend;
    if (!builder->memory.failed) aorta_trace_take_copies(builder, &around);
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; !builder->memory.failed && i < both[k]->count; i++)
            classify_work(builder, (struct trace_pending *)both[k]->items + i, &around);
    aorta_arena_free(&scratch);
}

/* Marks the first kernel of each name, as its launch may load the kernel. */
static void mark_first(struct aorta_trace_builder *builder) {
    struct aorta_arena scratch = {0};
    struct trace_pending *rows = builder->pending.items;
    bool *seen = aorta_arena_alloc(&scratch, aorta_trace_text_count(builder->trace) * sizeof *seen);
    builder->memory.failed |= !seen;
    for (size_t i = 0; seen && i < builder->pending.count; i++) {
        struct aorta_trace_work *work = &rows[i].work;
        work->first = work->kind == AORTA_TRACE_KERNEL && !seen[work->name];
        seen[work->name] = true;
    }
    aorta_arena_free(&scratch);
}

/* Writes "gfx942" for a Tensile kernel with "…_ISA942_…" in its name. False if the name has no architecture. */
static bool find_isa(const char *name, char isa[8]) {
    const char *at = strncmp(name, "Cijk_", 5) == 0 ? strstr(name, "_ISA") : NULL;
    const size_t length = at ? strspn(at + 4, "0123456789abcdef") : 0;
    if (length < 3 || length > 4 || at[4] == '0') return false; /* 000: of any architecture */
    snprintf(isa, 8, "gfx%.*s", (int)length, at + 4);
    return true;
}

static bool is_named(const struct aorta_trace_builder *builder, int64_t device) {
    const struct aorta_trace_device *named = builder->devices.items;
    for (size_t i = 0; i < builder->devices.count; i++)
        if (named[i].id == device) return true;
    return false;
}

/* If the file names no device, the name of a kernel made for one architecture does. */
static void name_devices(struct aorta_trace_builder *builder) {
    enum { MOST = 64 };
    const struct trace_pending *rows = builder->pending.items;
    const size_t count = builder->pending.count;
    char isa[8];
    size_t at = 0;
    if (builder->devices.count || builder->trace->format != AORTA_TRACE_KINETO) return;
    while (at < count && !find_isa(aorta_trace_text(builder->trace, rows[at].work.name), isa)) at++;
    for (size_t i = 0; at < count && i < count && builder->devices.count < MOST; i++) {
        const struct aorta_trace_device device = {.id = rows[i].work.device,
                                                  .name = aorta_trace_builder_text(builder, isa, strlen(isa)),
                                                  .memory_bytes = -1,
                                                  .multiprocessors = -1,
                                                  .major = -1,
                                                  .minor = -1};
        if (!is_named(builder, device.id)) aorta_trace_builder_device(builder, &device);
    }
}

/* Drops steps of single devices if the host marks steps. */
static void choose_steps(struct aorta_trace_builder *builder) {
    struct aorta_trace_step *steps = builder->steps.items;
    size_t used = 0;
    bool by_host = false;
    for (size_t i = 0; i < builder->steps.count; i++) by_host |= steps[i].start_ns != INT64_MIN;
    for (size_t i = 0; i < builder->steps.count; i++)
        if (!by_host || !steps[i].of_device) steps[used++] = steps[i];
    builder->steps.count = used;
}

/* A profiler that records a window may also write work launched in the previous window:
 *
 *   host                                     [calls of this window ...
 *   GPU    |of the last window|   nothing      |of this window ...
 *
 * Such work has no launch and ends before the first host event. The pause after it is longer than its own duration. */
static void drop_earlier(struct aorta_trace_builder *builder) {
    enum { LEAST_NS = 10000000 };
    struct trace_pending *pending = builder->pending.items;
    const struct aorta_trace_call *calls = builder->calls.items;
    const struct aorta_trace_annotation *ranges = builder->annotations.items;
    const struct aorta_trace_operation *runs = builder->runs.items;
    int64_t host_ns = builder->calls.count ? calls[0].start_ns : INT64_MIN, end_ns = INT64_MIN;
    size_t earlier = 0;
    if (builder->annotations.count && ranges[0].start_ns < host_ns) host_ns = ranges[0].start_ns;
    for (size_t i = 0; i < builder->runs.count; i++)
        if (runs[i].start_ns < host_ns) host_ns = runs[i].start_ns;
    for (; earlier < builder->pending.count && pending[earlier].work.start_ns < host_ns; earlier++) {
        if (pending[earlier].work.call != AORTA_TRACE_NONE) return;
        if (pending[earlier].work.end_ns > end_ns) end_ns = pending[earlier].work.end_ns;
    }
    if (!earlier || earlier == builder->pending.count || builder->trace->no_launches) return;
    if (host_ns - end_ns < LEAST_NS) return;
    if (host_ns - end_ns < end_ns - pending[0].work.start_ns) return;
    for (size_t i = 0; i < earlier; i++) {
        struct aorta_trace_warning *warnings = builder->trace->warnings;
        warnings[AORTA_REASON_NO_LAUNCH].count -= pending[i].work.correlation != 0;
        warnings[AORTA_REASON_NO_CORRELATION].count -= lacks_correlation(builder, &pending[i].work);
        aorta_trace_builder_warn(builder, AORTA_REASON_EARLIER, pending[i].offset);
    }
    builder->pending.count -= earlier;
    memmove(pending, pending + earlier, builder->pending.count * sizeof *pending);
}

void aorta_trace_builder_link(struct aorta_trace_builder *builder) {
    aorta_trace_sort_work(builder);
    aorta_trace_rows_sort(&builder->annotations, sizeof(struct aorta_trace_annotation), annotation_order);
    choose_steps(builder);
    aorta_trace_rows_sort(&builder->steps, sizeof(struct aorta_trace_step), step_order);
    aorta_trace_add_host_collectives(builder);
    link_calls(builder);
    if (builder->memory.failed) return;
    aorta_trace_set_clocks(builder);
    count_early(builder);
    drop_duplicates(builder);
    drop_earlier(builder);
    aorta_trace_cut_impossible(builder);
    aorta_trace_find_captures(builder);
    aorta_trace_link_shapes(builder);
    aorta_trace_link_operations(builder);
    aorta_trace_add_host_work(builder);
    aorta_trace_sort_work(builder);
    aorta_trace_link_callers(builder);
    link_collectives(builder);
    mark_first(builder);
    name_devices(builder);
    count_overlaps(builder);
}

/* ---- parts that were read in parallel are joined: their rows are appended in order, and their numbers of texts,
 * streams, threads, … become those of the whole. These are numbered in order of arrival, so the result equals that of
 * one builder ---- */

/* Kinds of rows without a map: their numbers shift by the number of such rows in the whole. */
enum shift { SHIFT_COLLECTIVES = TRACE_MAP_COUNT, SHIFT_REQUESTS, SHIFT_RUNS, NUMBER_KINDS };

struct appending {
    struct aorta_trace_builder *whole, *part;
    uint32_t shift[NUMBER_KINDS];
};

static uint32_t number_of(const struct appending *a, int kind, uint32_t number) {
    if (number == AORTA_TRACE_NONE) return AORTA_TRACE_NONE;
    return kind < TRACE_MAP_COUNT ? ((const uint32_t *)a->part->maps[kind].items)[number] : number + a->shift[kind];
}

static void add_number(struct appending *a, enum trace_map kind, uint32_t number) {
    aorta_trace_rows_put(a->whole, &a->part->maps[kind], &number, sizeof number);
}

static void map_texts(struct appending *a) {
    const struct aorta_texts *texts = a->part->trace->texts;
    for (size_t i = a->part->maps[TRACE_MAP_TEXT].count; i < texts->count && !a->whole->memory.failed; i++)
        add_number(a, TRACE_MAP_TEXT,
                   aorta_trace_builder_text(a->whole, texts->entries[i].raw, texts->entries[i].length));
}

static void map_keys(struct appending *a, enum trace_map kind, const struct aorta_keys *from, struct aorta_keys *to) {
    for (size_t i = a->part->maps[kind].count; i < from->count && !a->whole->memory.failed; i++) {
        const int64_t *key = from->items[i];
        const int64_t last = kind == TRACE_MAP_QUEUE ? number_of(a, TRACE_MAP_TEXT, (uint32_t)key[2]) : key[2];
        add_number(a, kind, aorta_keys_add(to, key[0], key[1], last, &a->whole->memory));
    }
}

static void map_groups(struct appending *a) {
    const struct aorta_trace_group *groups = a->part->groups.items;
    for (size_t i = a->part->maps[TRACE_MAP_GROUP].count; i < a->part->groups.count && !a->whole->memory.failed; i++)
        add_number(a, TRACE_MAP_GROUP,
                   aorta_trace_builder_group(a->whole, number_of(a, TRACE_MAP_TEXT, groups[i].name),
                                             number_of(a, TRACE_MAP_TEXT, groups[i].description), groups[i].size,
                                             groups[i].ranks, groups[i].rank_count));
}

static void map_inputs(struct appending *a) {
    const struct aorta_trace_inputs *rows = a->part->inputs.items;
    for (size_t i = a->part->maps[TRACE_MAP_INPUTS].count; i < a->part->inputs.count && !a->whole->memory.failed; i++) {
        const struct aorta_trace_inputs inputs = {.dims = number_of(a, TRACE_MAP_TEXT, rows[i].dims),
                                                  .types = number_of(a, TRACE_MAP_TEXT, rows[i].types),
                                                  .strides = number_of(a, TRACE_MAP_TEXT, rows[i].strides),
                                                  .values = number_of(a, TRACE_MAP_TEXT, rows[i].values)};
        add_number(a, TRACE_MAP_INPUTS, aorta_trace_add_inputs_row(a->whole, &inputs));
    }
}

static void map_shapes(struct appending *a) {
    const struct aorta_trace_shape *rows = a->part->shapes.items;
    for (size_t i = a->part->maps[TRACE_MAP_SHAPE].count; i < a->part->shapes.count && !a->whole->memory.failed; i++) {
        struct aorta_trace_shape shape = rows[i];
        shape.op = number_of(a, TRACE_MAP_TEXT, shape.op);
        shape.dims = number_of(a, TRACE_MAP_TEXT, shape.dims);
        shape.types = number_of(a, TRACE_MAP_TEXT, shape.types);
        const uint32_t values = number_of(a, TRACE_MAP_TEXT, (uint32_t)a->part->shape_keys.items[i][2]);
        add_number(a, TRACE_MAP_SHAPE, aorta_trace_add_shape_row(a->whole, &shape, values));
    }
}

static void map_all(struct appending *a) {
    struct aorta_trace_builder *part = a->part, *whole = a->whole;
    map_texts(a);
    map_keys(a, TRACE_MAP_STREAM, &part->streams, &whole->streams);
    map_keys(a, TRACE_MAP_QUEUE, &part->queues, &whole->queues);
    map_keys(a, TRACE_MAP_THREAD, &part->threads, &whole->threads);
    map_groups(a);
    map_inputs(a);
    map_shapes(a);
    a->shift[SHIFT_COLLECTIVES] = (uint32_t)whole->collectives.count;
    a->shift[SHIFT_REQUESTS] = (uint32_t)whole->request_facts.count;
    a->shift[SHIFT_RUNS] = (uint32_t)whole->runs.count;
}

enum { NUMBERS = 6 };

/* An array of rows in order of arrival, and the members of a row that are numbers. */
struct kind_of_rows {
    size_t rows, size; /* the member of the builder */
    struct {
        size_t at;
        int kind;
    } numbers[NUMBERS]; /* ends at the first without a kind */
};

#define ROWS(member, type, ...)                                                                                        \
    {                                                                                                                  \
        offsetof(struct aorta_trace_builder, member), sizeof(type), {                                                  \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }
#define RANGES(member)                                                                                                 \
    ROWS(member, struct aorta_trace_annotation, {offsetof(struct aorta_trace_annotation, name), TRACE_MAP_TEXT},       \
         {offsetof(struct aorta_trace_annotation, thread), TRACE_MAP_THREAD})
#define FACTS(member)                                                                                                  \
    ROWS(member, struct aorta_trace_collective, {offsetof(struct aorta_trace_collective, name), TRACE_MAP_TEXT},       \
         {offsetof(struct aorta_trace_collective, dtype), TRACE_MAP_TEXT},                                             \
         {offsetof(struct aorta_trace_collective, group), TRACE_MAP_GROUP},                                            \
         {offsetof(struct aorta_trace_collective, communicator), TRACE_MAP_TEXT},                                      \
         {offsetof(struct aorta_trace_collective, in_splits), TRACE_MAP_TEXT},                                         \
         {offsetof(struct aorta_trace_collective, out_splits), TRACE_MAP_TEXT})

static const struct kind_of_rows arriving[] = {
    ROWS(pending, struct trace_pending, {offsetof(struct trace_pending, work.name), TRACE_MAP_TEXT},
         {offsetof(struct trace_pending, work.stream), TRACE_MAP_STREAM},
         {offsetof(struct trace_pending, work.queue), TRACE_MAP_QUEUE},
         {offsetof(struct trace_pending, work.collective), SHIFT_COLLECTIVES},
         {offsetof(struct trace_pending, work.geometry), TRACE_MAP_TEXT}),
    ROWS(calls, struct aorta_trace_call, {offsetof(struct aorta_trace_call, name), TRACE_MAP_TEXT},
         {offsetof(struct aorta_trace_call, thread), TRACE_MAP_THREAD}),
    RANGES(annotations),
    RANGES(functions),
    ROWS(operations, struct trace_operation, {offsetof(struct trace_operation, run), SHIFT_RUNS},
         {offsetof(struct trace_operation, shape), TRACE_MAP_SHAPE}),
    ROWS(runs, struct aorta_trace_operation, {offsetof(struct aorta_trace_operation, name), TRACE_MAP_TEXT},
         {offsetof(struct aorta_trace_operation, thread), TRACE_MAP_THREAD},
         {offsetof(struct aorta_trace_operation, inputs), TRACE_MAP_INPUTS}),
    ROWS(requests, struct aorta_trace_annotation, {offsetof(struct aorta_trace_annotation, name), SHIFT_REQUESTS},
         {offsetof(struct aorta_trace_annotation, thread), TRACE_MAP_THREAD}),
    ROWS(allocations, struct aorta_trace_allocation,
         {offsetof(struct aorta_trace_allocation, thread), TRACE_MAP_THREAD}),
    ROWS(wait_facts, struct aorta_trace_wait_facts, {offsetof(struct aorta_trace_wait_facts, stream), TRACE_MAP_STREAM},
         {offsetof(struct aorta_trace_wait_facts, on), TRACE_MAP_STREAM}),
    ROWS(capture_marks, struct trace_capture_mark, {offsetof(struct trace_capture_mark, thread), TRACE_MAP_THREAD}),
    ROWS(launches, struct trace_launch, {offsetof(struct trace_launch, kernel), TRACE_MAP_TEXT}),
    FACTS(collectives),
    FACTS(request_facts),
    ROWS(thread_names, uint32_t[2], {0, TRACE_MAP_THREAD}, {sizeof(uint32_t), TRACE_MAP_TEXT}),
};

static void renumber(const struct appending *a, const struct kind_of_rows *kind, char *rows, size_t count) {
    for (int n = 0; n < NUMBERS && kind->numbers[n].kind; n++) {
        char *at = rows + kind->numbers[n].at;
        for (size_t i = 0; i < count; i++, at += kind->size) {
            uint32_t number;
            memcpy(&number, at, sizeof number);
            number = number_of(a, kind->numbers[n].kind, number);
            memcpy(at, &number, sizeof number);
        }
    }
}

static void append_rows(struct appending *a, const struct kind_of_rows *kind) {
    struct trace_rows *from = (struct trace_rows *)((char *)a->part + kind->rows);
    struct trace_rows *to = (struct trace_rows *)((char *)a->whole + kind->rows);
    if (!from->count || a->whole->memory.failed) return;
    if (!aorta_array_fit(&to->items, &to->capacity, to->count + from->count, kind->size)) {
        a->whole->memory.failed = true;
        return;
    }
    char *added = (char *)to->items + to->count * kind->size;
    memcpy(added, from->items, from->count * kind->size);
    renumber(a, kind, added, from->count);
    to->count += from->count;
    from->count = 0;
}

static void append_frames(struct appending *a) {
    const struct aorta_trace_frame *frames = a->part->frames.items;
    for (size_t i = 0; i < a->part->frames.count; i++) {
        const struct aorta_trace_annotation frame = {frames[i].start_ns, frames[i].end_ns,
                                                     number_of(a, TRACE_MAP_TEXT, frames[i].name),
                                                     number_of(a, TRACE_MAP_THREAD, frames[i].thread)};
        aorta_trace_builder_frame(a->whole, &frame, (enum aorta_trace_frame_kind)frames[i].kind);
    }
    a->part->frames.count = 0;
}

static void append_head(struct appending *a) {
    struct aorta_trace *to = a->whole->trace, *from = a->part->trace;
    aorta_trace_warnings_add(to->warnings, from->warnings);
    for (int i = 0; i < AORTA_REASON_COUNT; i++) from->warnings[i] = (struct aorta_trace_warning){.offset = -1};
    if (to->process < 0) to->process = from->process;
    to->events += from->events;
    from->events = 0;
}

bool aorta_trace_builder_append(struct aorta_trace_builder *whole, struct aorta_trace_builder *part) {
    struct appending a = {.whole = whole, .part = part};
    if (aorta_trace_builder_captures(whole) != part->captures_before) return false;
    whole->memory.failed |= part->memory.failed;
    map_all(&a);
    if (whole->memory.failed) return true; /* finish reports it */
    for (size_t i = 0; i < sizeof arriving / sizeof *arriving; i++) append_rows(&a, &arriving[i]);
    append_frames(&a);
    append_head(&a);
    const struct aorta_trace_step *steps = part->steps.items;
    for (size_t i = 0; i < part->steps.count; i++) aorta_trace_add_step(whole, &steps[i]);
    return true;
}
