#include "replay/unrecorded.h"

#include "base/sort.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- constants that are not in the file ---- */

static const double HOP_NS = 200;      /* time for one operation to call another without a profiler, … */
static const double HOP_BEFORE = 0.75; /* … share of it before the inner one */
static const double LAUNCH_NS = 2200;  /* a call that launches, without CUPTI */
static const double MOST_NS = 5000;    /* maximum cost of CUPTI within one call; more is the call's own */
static const double OUTSIDE_NS = 300; /* cost of CUPTI outside the stamps of a launching call, on either side, and … */
static const double QUIET_NS = 100;   /* … of calls that enqueue nothing; at most the cost within a launch */
static const double ENTER_NS = 3000;  /* of the time before an operation in another one, the profiler's at most, */
static const double LEAVE_NS = 1000;  /* … and after it */
static const double FAST = 0.05;      /* the quantile that counts as the minimum of an interval */
static const double ALIKE = 1.5;      /* pairs within this factor of the lowest quartile have no work of their own */
static const double PACE = 1.6;       /* slowdown of the remaining time per share of stamps, … */
static const double PACE_SPREAD = 1.7; /* … and in addition per share by which equal intervals differ */
static const double PACE_CALLS = 0.2;  /* PACE if only calls were recorded */
static const double DISTURBS = 0.1;    /* minimum share of stamps at which a step's own spread counts in full */
static const double LEFT = 0.1;        /* minimum share of an interval that remains */
enum {
    IDLE_NS = 30000,    /* a thread that is silent for longer while another works is waiting for it */
    SLEEP_NS = 500000,  /* time of an interval beyond this is sleep, which is not slowed */
    WAIT_OWN_NS = 5000, /* as SLEEP_NS, for a call that waits for the device */
    FEWEST = 12,        /* minimum samples of a quantile */
    OUTLIER = 4,        /* intervals count as at most this many times the fastest */
    BLOCK = 64,         /* stamps */
};

/* A stamp. Small, as each event has two. */
struct stamp {
    int64_t time_ns;
    uint32_t length_ns; /* of the interval that it ends, at most 4.29 s; 0: the thread's first stamp */
    /* The events whose costs are in that interval (cost_of_stamps): */
    uint32_t left : 4;  /* enum aorta_stamped of the event that ended at its start; COUNT: none */
    uint32_t waits : 1; /* the interval is a wait for the device */
    uint32_t call : 1;  /* a call ended: `what` is its name */
    uint32_t what : 26; /* else enum aorta_stamped of an event that began; COUNT: none did */
};

/* The sum of interval lengths, and their sum if equal intervals took their usual minimum. One for the time before the
 * first step, and one per step. */
struct spread {
    double sum_ns, fast_ns;
    double pace; /* slowdown of the host there by the recording */
};

struct lane { /* stamps of one thread, ascending */
    struct stamp *stamps;
    size_t count;
    size_t near; /* position of the last query */
    /* Cost of recording before stamp `summed`, which is in step `step`; and before each block's first stamp. */
    double sum_ns, *sums;
    size_t summed, step;
};

struct aorta_recording_cost {
    struct aorta_arena memory;
    struct aorta_recording_costs found;
    int64_t *step_ns;       /* starts of the steps */
    struct spread *spreads; /* one more than there are steps */
    size_t step_count;
    struct lane *lanes; /* by thread of the trace */
    size_t lane_count;
    double *within_ns; /* of each text: CUPTI's part of a call of this name */
    struct aorta_recording_weight weight;
};

struct building {
    struct aorta_arena scratch;
    const struct aorta_trace *trace;
    struct aorta_stamped_events stamped;
    struct aorta_recording_cost *cost;
};

/* ---- cost of an event ---- */

/* An event with nothing but another one in it: the time before that, after it, and both. */
struct pair {
    uint64_t key;   /* enum aorta_stamped of both and, for operations, their names */
    uint32_t event; /* the outer one's row */
};

/* Pairs of equal events. */
struct pairs {
    const struct aorta_stamped_event *events;
    const struct pair *items;
    size_t count;
    double before_ns, after_ns, self_ns; /* at least */
};

static double before_of(const struct pairs *pairs, size_t i) {
    const struct aorta_stamped_event *outer = &pairs->events[pairs->items[i].event];
    return (double)(pairs->events[outer->only].start_ns - outer->start_ns);
}

static double after_of(const struct pairs *pairs, size_t i) {
    const struct aorta_stamped_event *outer = &pairs->events[pairs->items[i].event];
    return (double)(outer->end_ns - pairs->events[outer->only].end_ns);
}

static uint64_t kinds_of(enum aorta_stamped outer, enum aorta_stamped inner) {
    return (uint64_t)outer << 60 | (uint64_t)inner << 56;
}

/* Reorders the values. */
static double fast_of(double *values, size_t count) {
    return aorta_nth_double(values, count, (size_t)((double)count * FAST));
}

static void measure_pairs(struct pairs *pairs, double *scratch) {
    for (size_t i = 0; i < pairs->count; i++) scratch[i] = before_of(pairs, i);
    pairs->before_ns = fast_of(scratch, pairs->count);
    for (size_t i = 0; i < pairs->count; i++) scratch[i] = after_of(pairs, i);
    pairs->after_ns = fast_of(scratch, pairs->count);
    for (size_t i = 0; i < pairs->count; i++) scratch[i] = before_of(pairs, i) + after_of(pairs, i);
    pairs->self_ns = fast_of(scratch, pairs->count);
}

static struct pair pair_of(const struct aorta_stamped_event *events, uint32_t row) {
    const struct aorta_stamped_event *outer = &events[row], *inner = &events[outer->only];
    const bool named = outer->stamped == AORTA_STAMPED_OPERATION && inner->stamped == AORTA_STAMPED_OPERATION;
    const uint64_t names = named ? (uint64_t)outer->name << 28 | inner->name : 0;
    return (struct pair){kinds_of(outer->stamped, inner->stamped) | names, row};
}

static bool is_pair(const struct aorta_stamped_event *events, size_t row) {
    const struct aorta_stamped_event *outer = &events[row];
    return !aorta_stamped_is_call(outer) && outer->only < AORTA_STAMPED_SEVERAL &&
           !aorta_stamped_is_call(&events[outer->only]);
}

static struct pair *find_pairs(const struct building *building, size_t *count, struct aorta_arena *memory) {
    const struct aorta_stamped_event *events = building->stamped.items;
    size_t limit = 0;
    for (size_t i = 0; i < building->stamped.count; i++) limit += is_pair(events, i);
    struct pair *pairs = aorta_arena_raw(memory, (limit + 1) * sizeof *pairs);
    for (size_t i = 0; pairs && i < building->stamped.count; i++)
        if (is_pair(events, i)) pairs[(*count)++] = pair_of(events, (uint32_t)i);
    if (*count) qsort(pairs, *count, sizeof *pairs, aorta_by_uint64);
    return pairs;
}

/* Makes groups of at least FEWEST pairs. */
static size_t group_pairs(const struct aorta_stamped_event *events, const struct pair *pairs, size_t count,
                          struct pairs *groups, double *scratch) {
    size_t group_count = 0;
    for (size_t first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && pairs[first].key == pairs[end].key;) end++;
        if (end - first < FEWEST) continue;
        groups[group_count] = (struct pairs){.events = events, .items = &pairs[first], .count = end - first};
        measure_pairs(&groups[group_count++], scratch);
    }
    return group_count;
}

static bool is_of(const struct pairs *group, enum aorta_stamped outer, enum aorta_stamped inner) {
    return group->items[0].key >> 56 == kinds_of(outer, inner) >> 56;
}

/* Adds to the spread of the step that contains the time. */
static void add_spread(const struct aorta_recording_cost *cost, int64_t time_ns, double value_ns, double fast_ns) {
    const size_t step = aorta_count_until(cost->step_ns, cost->step_count, sizeof *cost->step_ns, 0, time_ns);
    cost->spreads[step].sum_ns += fmin(value_ns, OUTLIER * fast_ns);
    cost->spreads[step].fast_ns += fast_ns;
}

static void add_spreads(const struct aorta_recording_cost *cost, const struct pairs *pairs) {
    for (size_t i = 0; i < pairs->count; i++)
        add_spread(cost, pairs->events[pairs->items[i].event].start_ns, before_of(pairs, i) + after_of(pairs, i),
                   pairs->self_ns);
}

/* The limit of the self time of operations that only call another operation; 0 without groups. `scratch`: `count`
 * doubles. */
static double passes_through(const struct pairs *groups, size_t count, double *scratch) {
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        if (is_of(&groups[i], AORTA_STAMPED_OPERATION, AORTA_STAMPED_OPERATION)) scratch[found++] = groups[i].self_ns;
    if (!found) return 0;
    aorta_sort_double(scratch, found);
    return ALIKE * scratch[found / 4];
}

static void calibrate_operations(const struct pairs *groups, size_t count, double *scratch,
                                 const struct aorta_recording_cost *spreads, struct aorta_stamp_cost *cost) {
    const double limit_ns = passes_through(groups, count, scratch);
    double weight = 0;
    *cost = (struct aorta_stamp_cost){0};
    AORTA_EACH (const struct pairs, group, groups, count) {
        if (!is_of(group, AORTA_STAMPED_OPERATION, AORTA_STAMPED_OPERATION) || group->self_ns > limit_ns) continue;
        cost->enter_ns += group->before_ns * (double)group->count;
        cost->leave_ns += group->after_ns * (double)group->count;
        weight += (double)group->count;
        add_spreads(spreads, group);
    }
    if (weight <= 0) return;
    cost->enter_ns = fmax(fmin(cost->enter_ns / weight - HOP_NS * HOP_BEFORE, ENTER_NS), 0);
    cost->leave_ns = fmax(fmin(cost->leave_ns / weight - HOP_NS * (1 - HOP_BEFORE), LEAVE_NS), 0);
}

static void calibrate_stamps(const struct pairs *groups, size_t count, double *scratch,
                             struct aorta_recording_cost *cost) {
    struct aorta_stamp_cost all, *stamp = cost->found.stamp;
    calibrate_operations(groups, count, scratch, cost, &all);
    for (int i = 0; i < AORTA_STAMPED_LAUNCH; i++) stamp[i] = all;
    for (size_t i = 0; i < count; i++) {
        if (is_of(&groups[i], AORTA_STAMPED_ENGINE, AORTA_STAMPED_NODE)) {
            const double enter_ns = fmax(fmin(groups[i].before_ns - HOP_NS, ENTER_NS), all.enter_ns);
            stamp[AORTA_STAMPED_ENGINE].enter_ns = stamp[AORTA_STAMPED_NODE].enter_ns = enter_ns;
            add_spreads(cost, &groups[i]);
        }
        if (is_of(&groups[i], AORTA_STAMPED_FUNCTION, AORTA_STAMPED_FUNCTION))
            stamp[AORTA_STAMPED_FUNCTION] =
                (struct aorta_stamp_cost){fmin(groups[i].before_ns, LEAVE_NS), fmin(groups[i].after_ns, LEAVE_NS)};
    }
}

/* ---- what CUPTI costs within a call ---- */

/* Calls of one name. */
struct calls {
    size_t first, count; /* range of lengths */
    double shortest_ns, fast_ns;
    uint8_t stamped; /* kind of the shortest call */
};

static double within_call(uint8_t stamped, const char *name, double fast_ns) {
    if (stamped != AORTA_STAMPED_LAUNCH || !strncmp(name, "hip", 3)) return fmin(fast_ns / 2, QUIET_NS);
    return fmin(fmax(fast_ns - LAUNCH_NS, 0), MOST_NS);
}

/* If launches show no cost within, CUPTI did not record, and calls cost nothing. */
static void calibrate_outside(struct building *building) {
    const double most_ns = building->cost->found.within_ns;
    const double launch_ns = fmin(most_ns, OUTSIDE_NS), quiet_ns = fmin(most_ns, QUIET_NS);
    struct aorta_stamp_cost *stamp = building->cost->found.stamp;
    stamp[AORTA_STAMPED_LAUNCH] = (struct aorta_stamp_cost){launch_ns, launch_ns};
    stamp[AORTA_STAMPED_WAIT] = stamp[AORTA_STAMPED_CALL] = (struct aorta_stamp_cost){quiet_ns, quiet_ns};
    const size_t texts = aorta_trace_text_count(building->trace);
    for (size_t i = 0; i < texts && !(most_ns > 0); i++) building->cost->within_ns[i] = 0;
}

static double length_of(const struct aorta_stamped_event *event) {
    return (double)(event->end_ns - event->start_ns);
}

static size_t count_calls(const struct building *building, size_t texts, struct calls *names) {
    size_t first = 0;
    AORTA_EACH (const struct aorta_stamped_event, event, building->stamped.items, building->stamped.count) {
        if (!aorta_stamped_is_call(event)) continue;
        struct calls *calls = &names[event->name];
        if (!calls->count++ || length_of(event) < calls->shortest_ns) {
            calls->shortest_ns = length_of(event);
            calls->stamped = event->stamped;
        }
    }
    for (size_t i = 0; i < texts; i++) {
        names[i].first = first;
        first += names[i].count;
        names[i].count = 0; /* counted again in measure_calls */
    }
    return first;
}

/* Finds the recording cost within calls, per name, from the fastest calls of that name. */
static void measure_calls(struct building *building, size_t texts, struct calls *names, double *lengths) {
    double launches = 0, within_ns = 0;
    AORTA_EACH (const struct aorta_stamped_event, event, building->stamped.items, building->stamped.count)
        if (aorta_stamped_is_call(event))
            lengths[names[event->name].first + names[event->name].count++] = length_of(event);
    for (size_t i = 0; i < texts; i++) {
        struct calls *calls = &names[i];
        if (!calls->count) continue;
        calls->fast_ns = fast_of(lengths + calls->first, calls->count);
        building->cost->within_ns[i] =
            within_call(calls->stamped, aorta_trace_text(building->trace, (uint32_t)i), calls->fast_ns);
        if (calls->stamped != AORTA_STAMPED_LAUNCH) continue;
        within_ns += building->cost->within_ns[i] * (double)calls->count;
        launches += (double)calls->count;
    }
    if (launches > 0) building->cost->found.within_ns = within_ns / launches;
    AORTA_EACH (const struct aorta_stamped_event, event, building->stamped.items, building->stamped.count) {
        const struct calls *calls = aorta_stamped_is_call(event) ? &names[event->name] : NULL;
        if (calls && calls->stamped == AORTA_STAMPED_LAUNCH && calls->count >= FEWEST)
            add_spread(building->cost, event->start_ns, length_of(event), calls->fast_ns);
    }
    calibrate_outside(building);
}

static void calibrate_calls(struct building *building) {
    const size_t texts = aorta_trace_text_count(building->trace);
    struct aorta_arena memory = {0};
    struct calls *names = aorta_arena_alloc(&memory, (texts + 1) * sizeof *names);
    const size_t calls = names ? count_calls(building, texts, names) : 0;
    double *lengths = aorta_arena_raw(&memory, (calls + 1) * sizeof *lengths);
    building->cost->within_ns =
        aorta_arena_alloc(&building->cost->memory, (texts + 1) * sizeof *building->cost->within_ns);
    if (names && lengths && building->cost->within_ns) measure_calls(building, texts, names, lengths);
    aorta_arena_end(&memory, &building->scratch);
}

static void calibrate_pairs(struct building *building) {
    struct aorta_arena memory = {0};
    size_t count = 0;
    const struct pair *pairs = find_pairs(building, &count, &memory);
    struct pairs *groups = aorta_arena_alloc(&memory, (count / FEWEST + 1) * sizeof *groups);
    double *scratch = aorta_arena_raw(&memory, (count + 1) * sizeof *scratch);
    const size_t found = memory.failed ? 0 : group_pairs(building->stamped.items, pairs, count, groups, scratch);
    if (!memory.failed) calibrate_stamps(groups, found, scratch, building->cost);
    aorta_arena_end(&memory, &building->scratch);
}

/* ---- a thread's stamps ---- */

/* State of a thread while its events are processed. */
struct walk {
    struct aorta_arena *scratch;
    struct lane *lane;
    struct aorta_stamped_event *open; /* events that have not ended, outermost first */
    size_t depth, capacity;
    uint8_t left; /* kind of the event that ended at the previous stamp; COUNT if none did */
};

/* The interval's length, at most UINT32_MAX. */
static uint32_t length_until(int64_t from_ns, int64_t to_ns) {
    return to_ns - from_ns < UINT32_MAX ? (uint32_t)(to_ns - from_ns) : UINT32_MAX;
}

static void add_stamp(struct walk *walk, int64_t time_ns, struct stamp stamp) {
    struct lane *lane = walk->lane;
    stamp.time_ns = time_ns;
    stamp.length_ns = lane->count ? length_until(lane->stamps[lane->count - 1].time_ns, time_ns) : 0;
    stamp.left = walk->left & 15;
    lane->stamps[lane->count++] = stamp;
}

static void begin_event(struct walk *walk, const struct aorta_stamped_event *event) {
    if (!aorta_arena_append(walk->scratch, &walk->open, &walk->capacity, &walk->depth, event, sizeof *event)) return;
    add_stamp(walk, event->start_ns, (struct stamp){.what = event->stamped});
    walk->left = AORTA_STAMPED_COUNT;
}

static void end_event(struct walk *walk) {
    const struct aorta_stamped_event *event = &walk->open[--walk->depth];
    const bool call = aorta_stamped_is_call(event);
    add_stamp(walk, event->end_ns,
              (struct stamp){.waits = event->stamped == AORTA_STAMPED_WAIT,
                             .call = call,
                             .what = (call ? event->name : (uint32_t)AORTA_STAMPED_COUNT) & AORTA_STAMPED_TEXTS});
    walk->left = event->stamped;
}

static void fill_lane(const struct aorta_stamped_event *events, size_t count, struct lane *lane,
                      struct aorta_arena *scratch) {
    struct walk walk = {.scratch = scratch, .lane = lane, .left = AORTA_STAMPED_COUNT};
    for (size_t i = 0; i < count; i++) {
        struct aorta_stamped_event event;
        memcpy(&event, &events[i], sizeof event); /* stamps may overwrite it */
        while (walk.depth && walk.open[walk.depth - 1].end_ns <= event.start_ns) end_event(&walk);
        begin_event(&walk, &event);
    }
    while (walk.depth) end_event(&walk);
}

/* Cost of recording within the interval, before weighting. */
static double cost_of_stamps(const struct aorta_recording_cost *cost, const struct stamp *stamp) {
    const struct aorta_stamp_cost *of = cost->found.stamp;
    const double left_ns = stamp->left < AORTA_STAMPED_COUNT ? of[stamp->left].leave_ns : 0;
    if (stamp->call) return left_ns + cost->within_ns[stamp->what];
    return left_ns + (stamp->what < AORTA_STAMPED_COUNT ? of[stamp->what].enter_ns : 0);
}

/* The first stamp at or after the time; the number of stamps if there is none. Queries come almost in order of time.
 */
static size_t stamp_from(struct lane *lane, int64_t time_ns) {
    size_t at = lane->near;
    while (at < lane->count && lane->stamps[at].time_ns < time_ns) at++;
    while (at > 0 && lane->stamps[at - 1].time_ns >= time_ns) at--;
    return lane->near = at;
}

/* A thread without stamps while another thread works waits for it. Its own time begins at that thread's last stamp. */
static void find_waits(struct aorta_recording_cost *cost, size_t number) {
    struct lane *lane = &cost->lanes[number];
    for (size_t i = 1; i < lane->count; i++) {
        struct stamp *stamp = &lane->stamps[i];
        if (stamp->length_ns < IDLE_NS) continue;
        for (size_t j = 0; j < cost->lane_count; j++) {
            struct lane *other = &cost->lanes[j];
            const size_t after = j == number ? 0 : stamp_from(other, stamp->time_ns);
            if (after && other->stamps[after - 1].time_ns > stamp->time_ns - stamp->length_ns)
                stamp->length_ns = length_until(other->stamps[after - 1].time_ns, stamp->time_ns);
        }
    }
}

static int64_t busy_of(const struct stamp *stamp) {
    const int64_t most_ns = stamp->waits ? WAIT_OWN_NS : SLEEP_NS;
    return stamp->length_ns < most_ns ? stamp->length_ns : most_ns;
}

/* From the first step on, because earlier time has no launches; the whole trace if it has no steps. */
static void measure_share(struct aorta_recording_cost *cost, const struct aorta_trace *trace) {
    double stamps_ns = 0, busy_ns = 0;
    for (size_t i = 0; i < cost->lane_count; i++) {
        AORTA_EACH (const struct stamp, stamp, cost->lanes[i].stamps, cost->lanes[i].count) {
            if (trace->step_count && stamp->time_ns < trace->steps[0].start_ns) continue;
            const double own_ns = (double)busy_of(stamp);
            busy_ns += own_ns;
            stamps_ns += fmin(cost_of_stamps(cost, stamp), own_ns);
        }
    }
    cost->found.share = busy_ns > 0 ? stamps_ns / busy_ns : 0;
}

static double spread_of(const struct spread *spread) {
    return spread->fast_ns > 0 ? spread->sum_ns / spread->fast_ns : 1;
}

/* Sets the pace of each step. The step with the least spread gives the base pace. A step with more spread is slower in
 * proportion. The cheaper the recording, the less this counts, because load on the machine can cause spread, too. Where
 * stamps cost nothing, nothing is slower. If only calls were recorded, extra spread comes from the machine and would
 * also occur without the recording. */
static void measure_pace(struct aorta_recording_cost *cost, bool operations) {
    struct aorta_recording_costs *found = &cost->found;
    const double counts = operations ? fmin(found->share / DISTURBS, 1) : 0;
    found->spread = 0;
    for (size_t i = cost->step_count ? 1 : 0; i <= cost->step_count; i++) {
        const double own = spread_of(&cost->spreads[i]);
        if (found->spread <= 0 || own < found->spread) found->spread = own;
    }
    found->pace = 1 + found->share * (operations ? PACE + PACE_SPREAD * (found->spread - 1) : PACE_CALLS);
    for (size_t i = 0; i <= cost->step_count; i++) {
        const double more = fmax(spread_of(&cost->spreads[i]) / found->spread, 1);
        cost->spreads[i].pace = found->pace * (1 + counts * (more - 1));
    }
}

/* Replaces each event by two stamps in the same memory. */
static void fill_lanes(struct building *building) {
    struct aorta_recording_cost *cost = building->cost;
    struct aorta_stamped_events *stamped = &building->stamped;
    struct stamp *const stamps = (void *)stamped->items;
    _Static_assert(2 * sizeof *stamps <= sizeof *stamped->items, "two stamps in the place of an event");
    cost->lane_count = building->trace->thread_count;
    cost->lanes = aorta_arena_alloc(&cost->memory, (cost->lane_count + 1) * sizeof *cost->lanes);
    for (size_t i = 0, first = 0; cost->lanes && i < cost->lane_count; first = stamped->ends[i++]) {
        struct lane *lane = &cost->lanes[i];
        const size_t count = stamped->ends[i] - first;
        lane->stamps = stamps + 2 * first;
        lane->sums = aorta_arena_raw(&cost->memory, (2 * count / BLOCK + 1) * sizeof *lane->sums);
        fill_lane(stamped->items + first, count, lane, &building->scratch);
    }
    building->scratch.failed |= cost->memory.failed;
    if (!cost->lanes || building->scratch.failed) return;
    for (size_t i = 0; i < cost->lane_count; i++) find_waits(cost, i);
    measure_share(cost, building->trace);
    measure_pace(cost, building->trace->operation_count > 0);
}

/* ---- all of it ---- */

static void make_steps(const struct aorta_trace *trace, struct aorta_recording_cost *cost) {
    cost->step_ns = aorta_arena_alloc(&cost->memory, (trace->step_count + 1) * sizeof *cost->step_ns);
    cost->spreads = aorta_arena_alloc(&cost->memory, (trace->step_count + 1) * sizeof *cost->spreads);
    for (size_t i = 0; cost->step_ns && i < trace->step_count; i++)
        if (trace->steps[i].start_ns != INT64_MIN) cost->step_ns[cost->step_count++] = trace->steps[i].start_ns;
}

static aorta_status make(struct building *building) {
    struct aorta_recording_cost *cost = building->cost;
    if (aorta_trace_text_count(building->trace) > AORTA_STAMPED_TEXTS)
        return AORTA_ERROR(AORTA_UNSUPPORTED, "%s has too many names", building->trace->path);
    building->stamped = aorta_stamped_events_make(building->trace, &cost->memory, &building->scratch);
    make_steps(building->trace, cost);
    building->scratch.failed |= cost->memory.failed;
    AORTA_TRY(aorta_arena_check(&building->scratch, "the events of the host"));
    if (!building->stamped.count)
        return AORTA_ERROR(AORTA_UNSUPPORTED, "%s has nothing of the host", building->trace->path);
    calibrate_pairs(building);
    calibrate_calls(building);
    fill_lanes(building);
    return aorta_arena_check(&building->scratch, "what recording cost");
}

aorta_status aorta_recording_cost_make(const struct aorta_trace *trace, struct aorta_recording_cost **cost) {
    if (trace->format != AORTA_TRACE_KINETO && trace->format != AORTA_TRACE_SPOOL)
        return AORTA_ERROR(AORTA_UNSUPPORTED, "what recording %s cost is not known", trace->path);
    struct aorta_recording_cost *self = calloc(1, sizeof *self);
    if (!self) return AORTA_ERROR(AORTA_MEMORY, "no memory for what recording cost");
    struct building building = {.trace = trace, .cost = self};
    aorta_status status = make(&building);
    aorta_arena_free(&building.scratch);
    if (status) {
        aorta_recording_cost_free(self);
        return status;
    }
    *cost = self;
    return NULL;
}

void aorta_recording_cost_free(struct aorta_recording_cost *cost) {
    if (!cost) return;
    aorta_arena_free(&cost->memory);
    free(cost);
}

const struct aorta_recording_costs *aorta_recording_costs(const struct aorta_recording_cost *cost) {
    return &cost->found;
}

static double cost_at(const struct aorta_recording_cost *cost, struct lane *lane, size_t at) {
    const struct stamp *stamp = &lane->stamps[at];
    while (lane->step < cost->step_count && cost->step_ns[lane->step] <= stamp->time_ns) lane->step++;
    while (lane->step > 0 && cost->step_ns[lane->step - 1] > stamp->time_ns) lane->step--;
    const double scale = cost->weight.cost, pace = cost->spreads[lane->step].pace;
    const double busy_ns = (double)busy_of(stamp);
    const double rest_ns = fmax(busy_ns - scale * cost_of_stamps(cost, stamp), 0);
    return busy_ns - fmax(cost->weight.own * rest_ns / (1 + scale * (pace - 1)), LEFT * busy_ns);
}

void aorta_recording_cost_weigh(struct aorta_recording_cost *cost, struct aorta_recording_weight weight) {
    cost->weight = weight;
    for (size_t i = 0; i < cost->lane_count; i++) {
        cost->lanes[i].sum_ns = 0;
        cost->lanes[i].summed = 0;
    }
}

/* The cost of recording in the intervals that end before the stamp. */
static double sum_before(const struct aorta_recording_cost *cost, struct lane *lane, size_t at) {
    if (at < lane->summed) {
        lane->summed = at / BLOCK * BLOCK;
        lane->sum_ns = lane->sums[at / BLOCK];
    }
    for (; lane->summed < at; lane->summed++) {
        if (lane->summed % BLOCK == 0) lane->sums[lane->summed / BLOCK] = lane->sum_ns;
        lane->sum_ns += cost_at(cost, lane, lane->summed);
    }
    return lane->sum_ns;
}

/* The cost of recording until a time. An interval that contains the time counts in proportion. */
static double sum_until(const struct aorta_recording_cost *cost, struct lane *lane, int64_t time_ns) {
    const size_t at = stamp_from(lane, time_ns);
    if (at == lane->count) return sum_before(cost, lane, at);
    const struct stamp *stamp = &lane->stamps[at];
    if (time_ns == stamp->time_ns) return sum_before(cost, lane, at + 1);
    const double before_ns = sum_before(cost, lane, at);
    const int64_t after_ns = stamp->time_ns - stamp->length_ns;
    if (time_ns <= after_ns) return before_ns;
    const double part = (double)(time_ns - after_ns) / (double)stamp->length_ns;
    return before_ns + part * (before_ns + cost_at(cost, lane, at) - before_ns);
}

int64_t aorta_recording_cost_between(struct aorta_recording_cost *cost, uint32_t thread, int64_t from_ns,
                                     int64_t to_ns) {
    if (thread >= cost->lane_count || to_ns <= from_ns) return 0;
    struct lane *lane = &cost->lanes[thread];
    const double from = sum_until(cost, lane, from_ns);
    return (int64_t)(sum_until(cost, lane, to_ns) - from);
}
