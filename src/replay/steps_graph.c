#include "replay/steps_graph.h"
#include "base/sort.h"

#include <stdlib.h>
#include <string.h>

enum {
    FEWEST_STEPS = 3,   /* the first only gives the lead of the host at its end */
    MOST_UNKNOWN = 10,  /* one launch in so many may be unknown */
    PAUSE_NS = 1000000, /* a launch that takes so long, and so many times as long as others, contains a pause */
    PAUSE_TIMES = 8,
};

/* While a recording is made. */
struct build {
    const struct aorta_replay_run *run;
    struct aorta_replay_steps *out;
    size_t *first, *last; /* of each rank: its steps[first .. last) */
    struct aorta_replay_host *hosts;
    struct aorta_replay_rank *ranks;
    struct aorta_replay_call **calls; /* owned; of each rank */
    struct aorta_replay_span **spans;
    struct aorta_replay_collective *collectives;
    uint32_t collective_count;
    const struct aorta_range_info **names; /* those of different work, in order */
    uint32_t name_count;
};

/* ---- which steps ---- */

static int rank_at(const struct build *build, size_t i) {
    return build->run->steps[i].iteration.rank;
}

static int64_t step_at(const struct build *build, size_t i) {
    return build->run->steps[i].iteration.step;
}

static void find_ranks(struct build *build) {
    for (size_t i = 0; i < build->run->count; i++) {
        if (i && rank_at(build, i) == rank_at(build, i - 1)) {
            build->last[build->out->rank_count - 1] = i + 1;
            continue;
        }
        build->out->ranks[build->out->rank_count] = rank_at(build, i);
        build->first[build->out->rank_count] = i;
        build->last[build->out->rank_count++] = i + 1;
    }
}

/* The steps [*from, *to) are those at the end of the run that all ranks have. */
static void common_steps(const struct build *build, size_t most, int64_t *from, int64_t *to) {
    *to = INT64_MAX;
    *from = INT64_MIN;
    for (size_t r = 0; r < build->out->rank_count; r++) {
        int64_t end = step_at(build, build->last[r] - 1) + 1;
        if (end < *to) *to = end;
    }
    for (size_t r = 0; r < build->out->rank_count; r++) {
        size_t i = build->last[r];
        while (i > build->first[r] && step_at(build, i - 1) >= *to) i--;
        int64_t begin = *to;
        for (; i > build->first[r] && step_at(build, i - 1) == begin - 1 && begin > *to - (int64_t)most; i--) begin--;
        if (begin > *from) *from = begin;
    }
}

static aorta_status choose_steps(struct build *build, size_t most) {
    int64_t from, to;
    find_ranks(build);
    common_steps(build, most, &from, &to);
    if (to - from < FEWEST_STEPS)
        return AORTA_ERROR(AORTA_UNSUPPORTED, "fewer than %d steps that follow each other were recorded", FEWEST_STEPS);
    for (size_t r = 0; r < build->out->rank_count; r++) {
        while (step_at(build, build->first[r]) < from) build->first[r]++;
        while (step_at(build, build->last[r] - 1) >= to) build->last[r]--;
    }
    return NULL;
}

/* ---- the same work on all ranks and in all steps ---- */

static int name_order(const void *left, const void *right) {
    const struct aorta_range_info *a = *(const struct aorta_range_info *const *)left;
    const struct aorta_range_info *b = *(const struct aorta_range_info *const *)right;
    int order = strcmp(a->function, b->function);
    return order ? order : strcmp(a->tag, b->tag);
}

static aorta_status collect_names(struct build *build) {
    size_t limit = 1, count = 0;
    for (size_t i = 0; i < build->run->count; i++) limit += build->run->steps[i].iteration.profile->range_count;
    build->names = malloc(limit * sizeof(*build->names));
    if (!build->names) return AORTA_ERROR(AORTA_MEMORY, "no memory for the names of %zu ranges", limit);
    for (size_t i = 0; i < build->run->count; i++) {
        const struct aorta_profile *profile = build->run->steps[i].iteration.profile;
        for (size_t j = 0; j < profile->range_count; j++) build->names[count++] = &profile->ranges[j].info;
    }
    if (count) qsort(build->names, count, sizeof(*build->names), name_order);
    for (size_t i = 0; i < count; i++)
        if (!i || name_order(&build->names[i], &build->names[build->name_count - 1]) != 0)
            build->names[build->name_count++] = build->names[i];
    return NULL;
}

static uint32_t name_of(const struct build *build, const struct aorta_range *range) {
    const struct aorta_range_info *info = &range->info;
    const struct aorta_range_info **found =
        bsearch(&info, build->names, build->name_count, sizeof(*build->names), name_order);
    return found ? (uint32_t)(found - build->names) : 0;
}

/* ---- the host ---- */

static int call_order(const void *left, const void *right) {
    const struct aorta_replay_call *a = left, *b = right;
    if (a->start_ns != b->start_ns) return a->start_ns < b->start_ns ? -1 : 1;
    return (a->end_ns < b->end_ns) - (a->end_ns > b->end_ns);
}

/* Of a graph's kernels the launch is one; those of what is launched beside it lie between them. */
static bool has_call(const struct aorta_replay_call *calls, uint32_t count, int64_t start_ns) {
    enum { BESIDE = 4 };
    for (uint32_t i = 0; i < BESIDE && i < count; i++)
        if (calls[count - 1 - i].start_ns == start_ns) return true;
    return false;
}

/* A launch lasts until the host comes to the next one or turns to waiting; a graph is one launch. */
static uint32_t add_launches(const struct build *build, const struct aorta_profile *profile,
                             struct aorta_replay_call *calls) {
    uint32_t count = 0;
    for (size_t i = 0; i < profile->range_count; i++) {
        int64_t start_ns = profile->ranges[i].enqueue_ns;
        if (start_ns == INT64_MIN || has_call(calls, count, start_ns)) continue;
        calls[count++] = (struct aorta_replay_call){
            start_ns, aorta_range_launched_by(profile, i), 0, name_of(build, &profile->ranges[i]), AORTA_REPLAY_LAUNCH,
            0};
    }
    return count;
}

static const uint8_t waits[AORTA_HOST_KIND_COUNT] = {[AORTA_HOST_DATA_WAIT] = AORTA_REPLAY_DATA,
                                                     [AORTA_HOST_SYNC] = AORTA_REPLAY_SYNC,
                                                     [AORTA_HOST_ALLOCATION] = AORTA_REPLAY_MEMORY};

/* Their names come after those of work. */
static uint32_t add_waits(const struct build *build, const struct aorta_profile *profile,
                          struct aorta_replay_call *calls) {
    for (size_t i = 0; i < profile->host_count; i++) {
        const struct aorta_host_range *host = &profile->host[i];
        calls[i] = (struct aorta_replay_call){
            host->start_ns, host->end_ns, 0, build->name_count + host->kind, waits[host->kind], 0};
    }
    return (uint32_t)profile->host_count;
}

static int ascending(const void *left, const void *right) {
    const int64_t *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

/* Where the host did something else after a launch, the launch seems to last until the next one. */
static aorta_status end_long_launches(struct aorta_replay_call *calls, uint32_t count) {
    int64_t *times_ns = malloc(((size_t)count + 1) * sizeof *times_ns), usual_ns;
    uint32_t used = 0;
    if (!times_ns) return AORTA_ERROR(AORTA_MEMORY, "no memory for the times of %u launches", count);
    for (uint32_t i = 0; i < count; i++)
        if (calls[i].kind == AORTA_REPLAY_LAUNCH && calls[i].end_ns > calls[i].start_ns)
            times_ns[used++] = calls[i].end_ns - calls[i].start_ns;
    if (used) qsort(times_ns, used, sizeof *times_ns, ascending);
    usual_ns = used ? times_ns[used / 2] : 0;
    free(times_ns);
    for (uint32_t i = 0; i < count; i++) {
        int64_t ns = calls[i].end_ns - calls[i].start_ns;
        if (calls[i].kind == AORTA_REPLAY_LAUNCH && ns >= PAUSE_NS && ns > PAUSE_TIMES * usual_ns)
            calls[i].end_ns = calls[i].start_ns + usual_ns;
    }
    return NULL;
}

/* The array has one more, which is NULL. */
static aorta_status name_launches(struct build *build, size_t rank) {
    const struct aorta_replay_host *host = &build->hosts[rank];
    const struct aorta_range_info **launched = calloc((size_t)host->call_count + 1, sizeof(*launched));
    build->out->launched[rank] = launched;
    if (!launched) return AORTA_ERROR(AORTA_MEMORY, "no memory for the names of %u calls", host->call_count);
    for (uint32_t i = host->call_count; i-- > 0;)
        launched[i] = host->calls[i].name < build->name_count ? build->names[host->calls[i].name] : launched[i + 1];
    return NULL;
}

static aorta_status add_calls(struct build *build, size_t rank) {
    size_t limit = 1;
    for (size_t i = build->first[rank]; i < build->last[rank]; i++) {
        const struct aorta_profile *profile = build->run->steps[i].iteration.profile;
        limit += profile->range_count + profile->host_count;
    }
    struct aorta_replay_call *calls = malloc(limit * sizeof *calls);
    build->calls[rank] = calls;
    if (!calls) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu calls", limit);
    uint32_t count = 0;
    for (size_t i = build->first[rank]; i < build->last[rank]; i++) {
        count += add_launches(build, build->run->steps[i].iteration.profile, calls + count);
        count += add_waits(build, build->run->steps[i].iteration.profile, calls + count);
    }
    AORTA_TRY(end_long_launches(calls, count));
    qsort(calls, count, sizeof *calls, call_order);
    build->hosts[rank] = (struct aorta_replay_host){calls, count, 1, (uint32_t)rank};
    return name_launches(build, rank);
}

/* The launch that starts at this time. */
static uint32_t launch_at(const struct build *build, size_t rank, int64_t time_ns) {
    const struct aorta_replay_host *host = &build->hosts[rank];
    uint32_t low = 0, high = host->call_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (host->calls[middle].start_ns < time_ns)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < host->call_count && host->calls[low].start_ns == time_ns; low++)
        if (host->calls[low].kind == AORTA_REPLAY_LAUNCH) return low;
    return AORTA_GRAPH_NONE;
}

/* ---- the device ---- */

struct placed {
    const struct aorta_range *range;
    const struct aorta_arrival *arrival;
    size_t step;
};

static int placed_order(const void *left, const void *right) {
    const struct aorta_range *a = ((const struct placed *)left)->range, *b = ((const struct placed *)right)->range;
    if (a->start_ns != b->start_ns) return a->start_ns < b->start_ns ? -1 : 1;
    return (a->end_ns > b->end_ns) - (a->end_ns < b->end_ns);
}

static void add_collective(struct build *build, const struct placed *placed, struct aorta_replay_span *span) {
    const struct aorta_arrival *arrival = placed->arrival;
    if (!arrival->complete || placed->range->info.group_size < 2) return;
    struct aorta_replay_collective *collective = &build->collectives[arrival->number];
    int64_t best_ns = aorta_transfers_best_if_slow(build->run->transfers, placed->range, arrival);
    if (!collective->parts++) collective->best_ns = collective->piece_ns = -1;
    if (best_ns > 0 && (collective->best_ns < 0 || best_ns < collective->best_ns)) collective->best_ns = best_ns;
    span->collective = arrival->number;
}

static const uint8_t kinds[] = {[AORTA_RANGE_COMPUTE] = AORTA_REPLAY_KERNEL,
                                [AORTA_RANGE_COLLECTIVE] = AORTA_REPLAY_COLLECTIVE,
                                [AORTA_RANGE_COPY] = AORTA_REPLAY_TRANSFER};

static struct aorta_replay_span span_of(struct build *build, size_t rank, const struct placed *placed) {
    const struct aorta_range *range = placed->range;
    struct aorta_replay_span span = {
        .start_ns = range->start_ns,
        .end_ns = range->end_ns,
        .alone_ns = -1,
        .stream = (uint32_t)range->stream,
        .queue = AORTA_GRAPH_NONE,
        .communicator = AORTA_GRAPH_NONE,
        .launch = range->enqueue_ns == INT64_MIN ? AORTA_GRAPH_NONE : launch_at(build, rank, range->enqueue_ns),
        .name = name_of(build, range),
        .collective = AORTA_GRAPH_NONE,
        .step = (uint32_t)placed->step,
        .kind = kinds[range->info.kind],
    };
    double lost = aorta_shapes_lost(build->run->shapes, range);
    if (lost > 0) span.alone_ns = span.end_ns - span.start_ns - (int64_t)(lost * (double)(span.end_ns - span.start_ns));
    if (range->info.kind != AORTA_RANGE_COLLECTIVE) return span;
    span.role = range->info.collective == AORTA_ALL_GATHER ? AORTA_REPLAY_GATHER
                : range->info.collective == AORTA_ALL_REDUCE || range->info.collective == AORTA_REDUCE_SCATTER
                    ? AORTA_REPLAY_REDUCE
                    : AORTA_REPLAY_OTHER;
    add_collective(build, placed, &span);
    return span;
}

/* Ranges of the chosen steps, by start. */
static aorta_status place_ranges(struct build *build, size_t rank, struct placed **placed, size_t *count) {
    size_t limit = 1, unknown = 0;
    for (size_t i = build->first[rank]; i < build->last[rank]; i++)
        limit += build->run->steps[i].iteration.profile->range_count;
    *placed = malloc(limit * sizeof **placed);
    if (!*placed) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu ranges", limit);
    for (size_t i = build->first[rank]; i < build->last[rank]; i++) {
        const struct aorta_rank_step *step = &build->run->steps[i];
        for (size_t j = 0; j < step->iteration.profile->range_count; j++) {
            const struct aorta_range *range = &step->iteration.profile->ranges[j];
            unknown += range->enqueue_ns == INT64_MIN;
            (*placed)[(*count)++] = (struct placed){range, &step->arrivals[j], i - build->first[rank]};
        }
    }
    qsort(*placed, *count, sizeof **placed, placed_order);
    if (unknown > *count / MOST_UNKNOWN)
        return AORTA_ERROR(AORTA_UNSUPPORTED, "the launches of %zu of %zu operations were not recorded", unknown,
                           *count);
    return NULL;
}

/* Measured is from the end of the first step to that of the last. */
static void set_bounds(struct build *build, size_t rank) {
    struct aorta_graph_rank *bounds = &build->ranks[rank].bounds;
    const struct aorta_profile *first = build->run->steps[build->first[rank]].iteration.profile;
    bounds->start_ns = first->start_ns - 1;
    bounds->from_ns = first->end_ns;
    bounds->end_ns = build->run->steps[build->last[rank] - 1].iteration.profile->end_ns;
    bounds->steps = (uint32_t)(build->last[rank] - build->first[rank] - 1);
}

/* The streams get the numbers 0, 1, …, in the order of those that the file gave them, whatever these are: arrays are
 * sized by them. */
static aorta_status number_streams(struct aorta_replay_span *spans, size_t count, uint32_t *streams) {
    int64_t *numbers = malloc((count + 1) * sizeof *numbers);
    *streams = 0;
    if (!numbers) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu numbers", count);
    for (size_t i = 0; i < count; i++) numbers[i] = spans[i].stream;
    aorta_sort_int64(numbers, count);
    for (size_t i = 0; i < count; i++)
        if (!i || numbers[i] != numbers[*streams - 1]) numbers[(*streams)++] = numbers[i];
    for (size_t i = 0; i < count; i++) {
        const int64_t number = spans[i].stream;
        const int64_t *found = bsearch(&number, numbers, *streams, sizeof *numbers, aorta_by_int64);
        spans[i].stream = (uint32_t)(found - numbers);
    }
    free(numbers);
    return NULL;
}

static aorta_status add_spans(struct build *build, size_t rank) {
    struct placed *placed = NULL;
    size_t count = 0;
    aorta_status status = place_ranges(build, rank, &placed, &count);
    struct aorta_replay_span *spans = status ? NULL : malloc((count + 1) * sizeof *spans);
    const struct aorta_range **ranges = status ? NULL : malloc((count + 1) * sizeof(*ranges));
    build->spans[rank] = spans;
    build->out->ranges[rank] = ranges;
    if (!status && (!spans || !ranges)) status = AORTA_ERROR(AORTA_MEMORY, "no memory for %zu spans", count);
    uint32_t streams = 0;
    for (size_t i = 0; !status && i < count; i++) {
        spans[i] = span_of(build, rank, &placed[i]);
        ranges[i] = placed[i].range;
    }
    free(placed);
    if (!status) status = number_streams(spans, count, &streams);
    if (status) return status;
    build->ranks[rank] = (struct aorta_replay_rank){
        .spans = spans, .span_count = (uint32_t)count, .stream_count = streams, .host = (uint32_t)rank};
    set_bounds(build, rank);
    return NULL;
}

/* ---- all of it ---- */

static aorta_status count_collectives(struct build *build) {
    for (size_t i = 0; i < build->run->count; i++) {
        const struct aorta_rank_step *step = &build->run->steps[i];
        for (size_t j = 0; j < step->iteration.profile->range_count; j++)
            if (step->arrivals[j].number >= build->collective_count)
                build->collective_count = step->arrivals[j].number + 1;
    }
    build->collectives = calloc(build->collective_count + 1, sizeof *build->collectives);
    return build->collectives ? NULL
                              : AORTA_ERROR(AORTA_MEMORY, "no memory for %u collectives", build->collective_count);
}

static aorta_status build_ranks(struct build *build, size_t most) {
    AORTA_TRY(choose_steps(build, most));
    AORTA_TRY(collect_names(build));
    AORTA_TRY(count_collectives(build));
    for (size_t r = 0; r < build->out->rank_count; r++) {
        AORTA_TRY(add_calls(build, r));
        AORTA_TRY(add_spans(build, r));
    }
    const struct aorta_recording recording = {.hosts = build->hosts,
                                              .ranks = build->ranks,
                                              .collectives = build->collectives,
                                              .host_count = (uint32_t)build->out->rank_count,
                                              .rank_count = (uint32_t)build->out->rank_count,
                                              .collective_count = build->collective_count,
                                              .name_count = build->name_count};
    return aorta_graph_make(&recording, &build->out->graph);
}

static void build_free(struct build *build) {
    for (size_t r = 0; r < build->out->rank_count; r++) {
        if (build->calls) free(build->calls[r]);
        if (build->spans) free(build->spans[r]);
    }
    free(build->first);
    free(build->last);
    free(build->hosts);
    free(build->ranks);
    free(build->calls);
    free(build->spans);
    free(build->collectives);
    free(build->names);
}

aorta_status aorta_replay_steps_make(const struct aorta_replay_run *run, size_t most,
                                     struct aorta_replay_steps *built) {
    size_t limit = run->count + 1; /* ranks at most */
    *built = (struct aorta_replay_steps){.ranks = calloc(limit, sizeof *built->ranks),
                                         .ranges = calloc(limit, sizeof(*built->ranges)),
                                         .launched = calloc(limit, sizeof(*built->launched))};
    struct build build = {.run = run,
                          .out = built,
                          .first = calloc(limit, sizeof *build.first),
                          .last = calloc(limit, sizeof *build.last),
                          .hosts = calloc(limit, sizeof *build.hosts),
                          .ranks = calloc(limit, sizeof *build.ranks),
                          .calls = calloc(limit, sizeof(*build.calls)),
                          .spans = calloc(limit, sizeof(*build.spans))};
    bool made = built->ranks && built->ranges && built->launched && build.first && build.last && build.hosts &&
                build.ranks && build.calls && build.spans;
    aorta_status status =
        made ? build_ranks(&build, most) : AORTA_ERROR(AORTA_MEMORY, "no memory for %zu steps", limit);
    build_free(&build);
    if (status) aorta_replay_steps_free(built);
    return status;
}

void aorta_replay_steps_free(struct aorta_replay_steps *built) {
    for (size_t r = 0; built->ranges && r < built->rank_count; r++) free(built->ranges[r]);
    for (size_t r = 0; built->launched && r < built->rank_count; r++) free(built->launched[r]);
    free(built->ranges);
    free(built->launched);
    free(built->ranks);
    aorta_graph_free(&built->graph);
    *built = (struct aorta_replay_steps){0};
}
