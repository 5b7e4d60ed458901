/* Waits for events and streams: the calls that ask for them, and what the file says about what is waited for. */
#include "trace/builder_internal.h"

#include <stdlib.h>

void aorta_trace_builder_wait(struct aorta_trace_builder *builder, const struct aorta_trace_wait_facts *facts) {
    struct aorta_trace_wait_facts *row = aorta_trace_rows_add(builder, &builder->wait_facts, sizeof *row);
    if (row) *row = *facts;
}

/* ---- calls by their correlation ---- */

struct asked {
    uint64_t correlation;
    int64_t start_ns;
    uint32_t call; /* row of calls[]; NONE */
};

static int asked_order(const void *left, const void *right) {
    const struct asked *a = left, *b = right;
    return (a->correlation > b->correlation) - (a->correlation < b->correlation);
}

struct index {
    struct asked *items;
    size_t count;
};

static void add_calls(struct index *index, const struct trace_rows *rows, bool known) {
    const struct aorta_trace_call *calls = rows->items;
    for (size_t i = 0; i < rows->count; i++)
        index->items[index->count++] =
            (struct asked){calls[i].correlation, calls[i].start_ns, known ? (uint32_t)i : AORTA_TRACE_NONE};
}

static bool make_index(const struct aorta_trace_builder *builder, struct index *index) {
    size_t limit = builder->calls.count + builder->other_calls.count + builder->event_waits.count;
    index->items = malloc((limit + 1) * sizeof *index->items);
    if (!index->items) return false;
    add_calls(index, &builder->calls, true);
    add_calls(index, &builder->other_calls, false);
    add_calls(index, &builder->event_waits, false);
    if (index->count) qsort(index->items, index->count, sizeof *index->items, asked_order);
    return true;
}

/* Not 0, which many share. */
static const struct asked *find_call(const struct index *index, uint64_t correlation) {
    const struct asked key = {.correlation = correlation};
    if (!correlation || !index->count) return NULL;
    return bsearch(&key, index->items, index->count, sizeof key, asked_order);
}

/* ---- what is known of each wait ---- */

static int by_correlation(const void *left, const void *right) {
    const struct aorta_trace_wait_facts *a = left, *b = right;
    return (a->correlation > b->correlation) - (a->correlation < b->correlation);
}

static int wait_order(const void *left, const void *right) {
    const struct aorta_trace_wait *a = left, *b = right;
    return (a->asked_ns > b->asked_ns) - (a->asked_ns < b->asked_ns);
}

static struct aorta_trace_wait wait_of(const struct index *index, const struct aorta_trace_wait_facts *facts) {
    const struct asked *asked = find_call(index, facts->correlation);
    const struct asked *recorded = find_call(index, facts->record_correlation);
    return (struct aorta_trace_wait){
        .asked_ns = asked ? asked->start_ns : facts->start_ns,
        .recorded_ns = recorded ? recorded->start_ns : INT64_MIN,
        .stream = facts->stream,
        .on = facts->on,
        .call = facts->stream == AORTA_TRACE_NONE && asked ? asked->call : AORTA_TRACE_NONE,
    };
}

/* Calls without facts: some stream waits for some event. */
static void add_unknown(const struct aorta_trace_builder *builder, struct aorta_trace *trace) {
    const struct aorta_trace_call *calls = builder->event_waits.items;
    for (size_t i = 0; i < builder->event_waits.count; i++) {
        const struct aorta_trace_wait_facts key = {.correlation = calls[i].correlation};
        if (builder->wait_facts.count && bsearch(&key, builder->wait_facts.items, builder->wait_facts.count,
                                                 sizeof(struct aorta_trace_wait_facts), by_correlation))
            continue;
        trace->waits[trace->wait_count++] = (struct aorta_trace_wait){calls[i].start_ns, INT64_MIN, AORTA_TRACE_NONE,
                                                                      AORTA_TRACE_NONE, AORTA_TRACE_NONE};
    }
}

static bool add_known(const struct aorta_trace_builder *builder, struct aorta_trace *trace) {
    struct index index = {0};
    if (!make_index(builder, &index)) return false;
    const struct aorta_trace_wait_facts *facts = builder->wait_facts.items;
    for (size_t i = 0; i < builder->wait_facts.count; i++) {
        struct aorta_trace_wait wait = wait_of(&index, &facts[i]);
        if (wait.stream != AORTA_TRACE_NONE || wait.call != AORTA_TRACE_NONE) trace->waits[trace->wait_count++] = wait;
    }
    free(index.items);
    return true;
}

void aorta_trace_link_waits(struct aorta_trace_builder *builder) {
    struct aorta_trace *trace = builder->trace;
    size_t limit = builder->event_waits.count + builder->wait_facts.count;
    if (!limit) return;
    trace->waits = malloc(limit * sizeof *trace->waits);
    aorta_trace_rows_sort(&builder->wait_facts, sizeof(struct aorta_trace_wait_facts), by_correlation);
    if (!trace->waits || (builder->wait_facts.count && !add_known(builder, trace))) {
        builder->failed = true;
        return;
    }
    add_unknown(builder, trace);
    qsort(trace->waits, trace->wait_count, sizeof *trace->waits, wait_order);
}
