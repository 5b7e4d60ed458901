/* Device clocks that are ahead of the host's. Work cannot start before the call that launches it, so a record that does
 * shows how far its device's clock is ahead at least: by its lead. Profilers convert device times to the host's clock,
 * and the conversion is off by microseconds, sometimes by far more.
 *
 * All times of the device move by the largest lead. Elsewhere the clock may be less ahead (it drifts), and work then
 * seems to start that much later than it did; but no work starts before its launch, which nothing would explain. A
 * launch of a graph counts once, by the first of its work. */
#include "trace/builder_internal.h"

#include "base/sort.h"

#include <string.h>

/* Records can be damaged. So a lead counts if other calls have at least half of it: a few for a lead as of a
 * conversion, most calls of the device for a larger one, as where clocks have nothing in common. Times in whole
 * microseconds can lead by one. */
enum { ROUNDING_NS = 1000, CONVERSION_NS = 1000000, FEWEST_CALLS = 3 };

struct lead {
    int64_t ns; /* below 0: the work started after its launch */
    int32_t device;
};

static int by_device(const void *left, const void *right) {
    const struct lead *a = left, *b = right;
    if (a->device != b->device) return a->device < b->device ? -1 : 1;
    return (a->ns < b->ns) - (a->ns > b->ns);
}

/* One for each call that launched work. The work is in order of time. */
static struct lead *find_leads(const struct aorta_trace_builder *builder, size_t *count, struct aorta_arena *memory) {
    const struct trace_pending *rows = builder->pending.items;
    const struct aorta_trace_call *calls = builder->calls.items;
    bool *seen = aorta_arena_alloc(memory, builder->calls.count * sizeof *seen);
    struct lead *leads = aorta_arena_raw(memory, builder->calls.count * sizeof *leads);
    *count = 0;
    for (size_t i = 0; !memory->failed && i < builder->pending.count; i++) {
        const struct aorta_trace_work *work = &rows[i].work;
        if (work->call == AORTA_TRACE_NONE || seen[work->call]) continue;
        seen[work->call] = true;
        leads[(*count)++] = (struct lead){calls[work->call].start_ns - work->start_ns, work->device};
    }
    if (*count) aorta_sort_rows(leads, *count, sizeof *leads, by_device);
    return leads;
}

/* The largest that counts, of one device, largest first; 0: none. */
static int64_t largest_lead(const struct lead *leads, size_t count) {
    for (size_t i = 0, half = 0; i < count && leads[i].ns > ROUNDING_NS; i++) {
        while (half < count && leads[half].ns >= leads[i].ns / 2) half++;
        const size_t most = count / 2 + 1;
        const size_t needed = leads[i].ns <= CONVERSION_NS || most < FEWEST_CALLS ? FEWEST_CALLS : most;
        if (half >= needed) return leads[i].ns;
    }
    return 0;
}

/* Whether all times of the device remain times when they are moved. */
static bool can_move(const struct aorta_trace_builder *builder, struct aorta_device_clock clock) {
    const struct trace_pending *rows = builder->pending.items;
    for (size_t i = 0; i < builder->pending.count; i++)
        if (rows[i].work.device == clock.device && rows[i].work.end_ns > INT64_MAX / 2 - clock.ahead_ns) return false;
    return true;
}

static int64_t ahead_of(const struct aorta_trace_builder *builder, int32_t device) {
    const struct aorta_device_clock *clocks = builder->clocks.items;
    for (size_t i = 0; i < builder->clocks.count; i++)
        if (clocks[i].device == device) return clocks[i].ahead_ns;
    return 0;
}

/* What the file says of a step's time on all devices moves by what all of them moved. */
static void move_steps(struct aorta_trace_builder *builder, int64_t least_ns) {
    struct aorta_trace_step *steps = builder->steps.items;
    for (size_t i = 0; i < builder->steps.count; i++) {
        const int64_t ns = steps[i].of_device ? ahead_of(builder, steps[i].device) : least_ns;
        if (steps[i].device_start_ns == INT64_MIN || steps[i].device_end_ns > INT64_MAX / 2 - ns) continue;
        steps[i].device_start_ns += ns;
        steps[i].device_end_ns += ns;
    }
}

static void move_work(struct aorta_trace_builder *builder) {
    struct trace_pending *rows = builder->pending.items;
    int64_t least_ns = INT64_MAX;
    for (size_t i = 0; i < builder->pending.count; i++) {
        const int64_t ahead_ns = ahead_of(builder, rows[i].work.device);
        rows[i].work.start_ns += ahead_ns;
        rows[i].work.end_ns += ahead_ns;
        if (ahead_ns < least_ns) least_ns = ahead_ns;
    }
    move_steps(builder, least_ns);
}

void aorta_trace_set_clocks(struct aorta_trace_builder *builder) {
    struct aorta_arena scratch = {0};
    size_t count, same;
    /* Launches that a writer made up do not count, nor do those of our own captured steps and calls that share a
     * number. */
    if (builder->trace->own || builder->trace->format == AORTA_TRACE_METRICS || builder->trace->repeated) return;
    const struct lead *leads = find_leads(builder, &count, &scratch);
    for (size_t i = 0; !scratch.failed && i < count; i += same) {
        for (same = 1; i + same < count && leads[i + same].device == leads[i].device;) same++;
        const struct aorta_device_clock clock = {leads[i].device, largest_lead(leads + i, same)};
        if (clock.ahead_ns && can_move(builder, clock))
            aorta_trace_rows_put(builder, &builder->clocks, &clock, sizeof clock);
    }
    aorta_arena_end(&scratch, &builder->memory);
    if (!builder->clocks.count || builder->memory.failed) return;
    move_work(builder);
    aorta_trace_sort_work(builder);
}
