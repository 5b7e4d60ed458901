/* From records of the device to a profile, and from there to the ranges they belong to. */
#include "measure/kernels.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST_STAMPS = 8 }; /* by which the clocks of both views are compared */

/* ---- the kernel view ---- */

static int records_by_start(const void *left, const void *right, void *records) {
    const struct aorta_trace_record *a = (const struct aorta_trace_record *)records + *(const size_t *)left;
    const struct aorta_trace_record *b = (const struct aorta_trace_record *)records + *(const size_t *)right;
    if (a->start_ns != b->start_ns) return a->start_ns < b->start_ns ? -1 : 1;
    return (a->correlation > b->correlation) - (a->correlation < b->correlation);
}

static int times_ascending(const void *left, const void *right) {
    const int64_t *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

/* Where this program queues such work, unless a range says otherwise. */
static enum aorta_role usual_role(const struct aorta_range_info *info) {
    if (info->kind == AORTA_RANGE_COMPUTE) return AORTA_ROLE_COMPUTE;
    if (info->kind == AORTA_RANGE_COPY) return AORTA_ROLE_AUX;
    if (info->collective == AORTA_ALL_REDUCE) return AORTA_ROLE_ALLREDUCE;
    return info->collective == AORTA_REDUCE_SCATTER ? AORTA_ROLE_REDUCESCATTER : AORTA_ROLE_AUX;
}

static struct aorta_range range_of(const struct aorta_trace_record *record, struct aorta_kernel_kind kind) {
    struct aorta_range range = {
        .info = {.tag = record->name, .function = record->name, .layer = -1},
        .start_ns = record->start_ns,
        .end_ns = record->end_ns,
        .enqueue_ns = INT64_MIN,
        .owner = -1,
    };
    if (record->kind != AORTA_TRACE_KERNEL) {
        range.info.kind = AORTA_RANGE_COPY;
        range.info.bytes = record->bytes;
    } else if (kind.class == AORTA_KERNEL_COLLECTIVE) {
        range.info.kind = AORTA_RANGE_COLLECTIVE;
        /* A name that does not tell (RCCL's generic kernel) goes as an all-reduce until a range says more. */
        range.info.collective = kind.named ? kind.collective : AORTA_ALL_REDUCE;
    }
    range.info.role = usual_role(&range.info);
    return range;
}

/* A step has thousands of kernels of a few dozen names, each kept once: names are told apart by their address. */
enum { CACHE_NAMES = 256 };
struct names {
    const struct aorta_kernel_patterns *patterns; /* may be NULL */
    const char *name[CACHE_NAMES];
    struct aorta_kernel_kind kind[CACHE_NAMES];
};

static struct aorta_kernel_kind kind_of(struct names *names, const char *name) {
    size_t at = ((uintptr_t)name >> 4) % CACHE_NAMES;
    if (names->name[at] == name) return names->kind[at];
    names->name[at] = name;
    return names->kind[at] = aorta_kernel_classify(name, names->patterns);
}

/* Numbers of the library's streams in order of first use. */
struct streams {
    uint32_t *ids;
    int count;
};

static int stream_number(struct streams *streams, uint32_t id) {
    int at = 0;
    while (at < streams->count && streams->ids[at] != id) at++;
    if (at == streams->count) streams->ids[streams->count++] = id;
    return at;
}

/* What is kept while records are read. */
struct reading {
    struct names names;
    struct streams streams;
    int64_t *witnesses; /* when they began */
    size_t witness_count;
};

/* The time of those that only wait is no cost. */
static void note_measuring(struct aorta_kernel_facts *facts, const struct aorta_trace_record *record,
                           enum aorta_kernel_class class, struct reading *reading) {
    if (class == AORTA_KERNEL_WITNESS) reading->witnesses[reading->witness_count++] = record->start_ns;
    if (class == AORTA_KERNEL_WITNESS || class == AORTA_KERNEL_GATE) return;
    facts->stamp_count++;
    facts->stamp_ns += record->end_ns - record->start_ns;
    if (class == AORTA_KERNEL_STAMP) facts->stamps[facts->stamps_kept++] = record->start_ns;
}

/* A witness writes a time when it begins, too; how much later differs from stamps', so they stand in for these only. */
static void complete_stamps(struct aorta_kernel_facts *facts, const struct reading *reading) {
    const bool few = facts->stamps_kept < LEAST_STAMPS;
    for (size_t i = 0; few && i < reading->witness_count; i++)
        facts->stamps[facts->stamps_kept++] = reading->witnesses[i];
    qsort(facts->stamps, (size_t)facts->stamps_kept, sizeof(int64_t), times_ascending);
}

static void add_record(const struct aorta_trace_record *records, size_t index, struct reading *reading,
                       struct aorta_profile *profile) {
    const struct aorta_trace_record *record = &records[index];
    struct aorta_kernel_kind kind = {.class = AORTA_KERNEL_COMPUTE};
    if (record->kind == AORTA_TRACE_KERNEL) kind = kind_of(&reading->names, record->name);
    if (aorta_kernel_only_measures(kind.class)) {
        note_measuring(&profile->kernels, record, kind.class, reading);
        return;
    }
    struct aorta_range *range = &profile->ranges[profile->range_count++];
    *range = range_of(record, kind);
    range->record = index;
    range->stream = stream_number(&reading->streams, record->stream);
    if (profile->range_count == 1 || range->start_ns < profile->start_ns) profile->start_ns = range->start_ns;
    if (profile->range_count == 1 || range->end_ns > profile->end_ns) profile->end_ns = range->end_ns;
}

/* The ranks run the collectives of one group in one order, so counting pairs them. */
static void number_collectives(struct aorta_profile *profile) {
    for (size_t i = 0; i < profile->range_count; i++) {
        struct aorta_range *range = &profile->ranges[i];
        const struct aorta_range_info *info = &range->info;
        range->sequence = 0;
        for (size_t j = i; info->kind == AORTA_RANGE_COLLECTIVE && j-- > 0;) {
            const struct aorta_range_info *other = &profile->ranges[j].info;
            if (other->kind != info->kind || other->collective != info->collective || other->role != info->role ||
                other->group_size != info->group_size || other->group != info->group ||
                other->group_stride != info->group_stride)
                continue;
            range->sequence = profile->ranges[j].sequence + 1;
            break;
        }
    }
}

aorta_status aorta_kernels_profile(const struct aorta_trace_record *records, size_t count,
                                   const struct aorta_kernel_patterns *patterns, struct aorta_profile *profile) {
    *profile = (struct aorta_profile){.source = AORTA_SOURCE_KERNEL};
    size_t *sorted = malloc((count + 1) * sizeof *sorted);
    struct reading reading = {.names = {.patterns = patterns},
                              .streams = {.ids = malloc((count + 1) * sizeof *reading.streams.ids)},
                              .witnesses = malloc((count + 1) * sizeof *reading.witnesses)};
    profile->ranges = malloc((count + 1) * sizeof *profile->ranges);
    profile->host = malloc(sizeof *profile->host);
    profile->markers = malloc(sizeof *profile->markers);
    profile->kernels.stamps = malloc((count + 1) * sizeof *profile->kernels.stamps);
    aorta_status status = NULL;
    if (!sorted || !reading.streams.ids || !reading.witnesses || !profile->ranges || !profile->host ||
        !profile->markers || !profile->kernels.stamps)
        status = AORTA_ERROR(AORTA_MEMORY, "no memory for the view of %zu kernels", count);
    if (!status && count) {
        for (size_t i = 0; i < count; i++) sorted[i] = i;
        qsort_r(sorted, count, sizeof *sorted, records_by_start, (void *)(uintptr_t)records);
        for (size_t i = 0; i < count; i++) add_record(records, sorted[i], &reading, profile);
        complete_stamps(&profile->kernels, &reading);
        number_collectives(profile);
    }
    free(sorted);
    free(reading.streams.ids);
    free(reading.witnesses);
    if (status) aorta_profile_free(profile);
    return status;
}

/* ---- one clock for both views ---- */

enum {
    CLOCK_SAMPLES = 32,      /* stamp kernels looked at, spread over the iteration */
    CLOCK_REACH_NS = 100000, /* the clocks are apart by less; both rest on CLOCK_MONOTONIC */
    CLOCK_FIT_NS = 1000,     /* pairs that belong together agree to this */
};

/* The recorder's stamps, ascending. */
static size_t recorded_stamps(const struct aorta_profile *ranges, int64_t *times) {
    size_t count = 0;
    for (size_t i = 0; i < ranges->range_count; i++) {
        times[count++] = ranges->ranges[i].start_ns;
        times[count++] = ranges->ranges[i].end_ns;
        if (ranges->ranges[i].room && ranges->ranges[i].reached_ns != INT64_MIN)
            times[count++] = ranges->ranges[i].reached_ns;
    }
    for (size_t i = 0; i < ranges->marker_count; i++) times[count++] = ranges->markers[i].time_ns;
    qsort(times, count, sizeof *times, times_ascending);
    size_t kept = 0; /* one kernel writes several where there is nothing in between */
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || times[i] != times[kept - 1]) times[kept++] = times[i];
    return kept;
}

static size_t first_from(const int64_t *times, size_t count, int64_t from_ns) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (times[middle] < from_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* How far apart a stamp kernel's begin and a recorded stamp are, for every pair that may belong together. */
struct differences {
    int64_t *items;
    size_t count, capacity;
};

static aorta_status add_differences(struct differences *differences, int64_t stamp_ns, const int64_t *times,
                                    size_t count) {
    for (size_t i = first_from(times, count, stamp_ns - CLOCK_REACH_NS);
         i < count && times[i] <= stamp_ns + CLOCK_REACH_NS; i++) {
        if (differences->count == differences->capacity) {
            size_t capacity = differences->capacity ? 2 * differences->capacity : 1024;
            int64_t *items = realloc(differences->items, capacity * sizeof *items);
            if (!items) return AORTA_ERROR(AORTA_MEMORY, "no memory to compare clocks");
            differences->items = items;
            differences->capacity = capacity;
        }
        differences->items[differences->count++] = times[i] - stamp_ns;
    }
    return NULL;
}

/* The middle of the densest stretch of CLOCK_FIT_NS; 0 when fewer pairs than `enough` lie in it. */
static int64_t densest(struct differences *differences, size_t enough) {
    size_t best = 0, best_first = 0;
    if (differences->count) qsort(differences->items, differences->count, sizeof(int64_t), times_ascending);
    for (size_t first = 0, end = 0; first < differences->count; first++) {
        while (end < differences->count && differences->items[end] - differences->items[first] <= CLOCK_FIT_NS) end++;
        if (end - first <= best) continue;
        best = end - first;
        best_first = first;
    }
    return best >= enough ? differences->items[best_first + best / 2] : 0;
}

/* A stamp is written as its kernel begins, so that stamp kernels and recorded stamps are one sequence on two clocks.
 * Pairs that belong together all differ by the same, other pairs by anything. */
static aorta_status measure_clock(const struct aorta_profile *kernels, const struct aorta_profile *ranges,
                                  int64_t *offset_ns) {
    *offset_ns = 0;
    size_t stamps = (size_t)kernels->kernels.stamps_kept;
    if (stamps < LEAST_STAMPS) return NULL;
    int64_t *times = malloc((3 * ranges->range_count + ranges->marker_count + 1) * sizeof *times);
    if (!times) return AORTA_ERROR(AORTA_MEMORY, "no memory to compare the clocks of %zu ranges", ranges->range_count);
    size_t time_count = recorded_stamps(ranges, times);
    size_t samples = stamps < CLOCK_SAMPLES ? stamps : CLOCK_SAMPLES;
    struct differences differences = {0};
    aorta_status status = NULL;
    for (size_t i = 0; !status && i < samples; i++)
        status = add_differences(&differences, kernels->kernels.stamps[i * stamps / samples], times, time_count);
    if (!status) *offset_ns = densest(&differences, samples * 2 / 3);
    free(differences.items);
    free(times);
    return status;
}

static void shift_clock(struct aorta_profile *kernels, int64_t offset_ns) {
    for (size_t i = 0; i < kernels->range_count; i++) {
        kernels->ranges[i].start_ns += offset_ns;
        kernels->ranges[i].end_ns += offset_ns;
    }
    for (int64_t i = 0; i < kernels->kernels.stamps_kept; i++) kernels->kernels.stamps[i] += offset_ns;
    kernels->start_ns += offset_ns;
    kernels->end_ns += offset_ns;
    kernels->kernels.clock_offset_ns += offset_ns;
}

/* ---- which range a kernel belongs to ---- */

enum { ACTIVE_LIMIT = 64, STREAM_LIMIT = 64, NO_RANGE = -1 };

/* One kernel and the ranges that were open in its middle. */
struct sight {
    int64_t middle_ns;
    size_t kernel;
    bool named; /* a collective whose name tells which */
};

struct attribution {
    struct aorta_profile *kernels;
    const struct aorta_profile *ranges;
    struct sight *sights;        /* by middle */
    size_t *by_start;            /* ranges */
    size_t active[ACTIVE_LIMIT]; /* ranges open now */
    size_t active_count;
    int *range_of; /* per kernel; NO_RANGE: not certain */
    /* What kernels with one possible range say about the library's streams, and what follows: the recorder's number of
     * each, -1 where they disagree (kernels of a graph may all carry the number of the stream it was launched on). */
    int votes[STREAM_LIMIT][STREAM_LIMIT];
    int stream_of[STREAM_LIMIT];
};

static int sights_by_middle(const void *left, const void *right) {
    const struct sight *a = left, *b = right;
    if (a->middle_ns != b->middle_ns) return a->middle_ns < b->middle_ns ? -1 : 1;
    return (a->kernel > b->kernel) - (a->kernel < b->kernel);
}

static int ranges_by_start(const void *left, const void *right, void *ranges) {
    const struct aorta_range *a = (const struct aorta_range *)ranges + *(const size_t *)left;
    const struct aorta_range *b = (const struct aorta_range *)ranges + *(const size_t *)right;
    if (a->start_ns != b->start_ns) return a->start_ns < b->start_ns ? -1 : 1;
    return (a > b) - (a < b);
}

/* Whether the range's operation can have run this kernel. */
static bool suits(const struct aorta_range_info *kernel, bool named, const struct aorta_range_info *range) {
    if (kernel->kind != AORTA_RANGE_COLLECTIVE) return true; /* collectives and copies have helpers, too */
    if (range->kind != AORTA_RANGE_COLLECTIVE) return false;
    if (!named || kernel->collective == range->collective) return true;
    return range->collective == AORTA_BARRIER || range->collective == AORTA_ALL_TO_ALL; /* made of others */
}

static bool on_stream(const struct attribution *a, const struct aorta_range *kernel, const struct aorta_range *range) {
    if (kernel->stream >= STREAM_LIMIT || a->stream_of[kernel->stream] < 0) return true;
    return a->stream_of[kernel->stream] == range->stream;
}

/* A collective of one rank is a copy, whose end is the range's: so much later a stamp tells it at most. */
enum { COPY_END_NS = 5000 };

/* The collective of one rank that ends with this copy; of several, the one whose beginning is nearest to the copy's. */
static int copied_by(const struct attribution *a, const struct aorta_range *kernel) {
    int chosen = NO_RANGE;
    int64_t nearest_ns = INT64_MAX;
    if (kernel->info.kind != AORTA_RANGE_COPY) return NO_RANGE;
    for (size_t i = 0; i < a->active_count; i++) {
        const struct aorta_range *range = &a->ranges->ranges[a->active[i]];
        const int64_t apart_ns = llabs(range->start_ns - kernel->start_ns);
        if (range->info.kind != AORTA_RANGE_COLLECTIVE || range->info.group_size != 1) continue;
        if (llabs(range->end_ns - kernel->end_ns) > COPY_END_NS || apart_ns >= nearest_ns) continue;
        nearest_ns = apart_ns;
        chosen = (int)a->active[i];
    }
    return chosen;
}

/* The range that a kernel belongs to if only one stream comes into question: among the open ones of its own class, or
 * of any class where there is none; the innermost. */
static int choose_range(const struct attribution *a, const struct sight *sight) {
    const struct aorta_range *kernel = &a->kernels->ranges[sight->kernel];
    for (int same_class = 1; same_class >= 0; same_class--) {
        int chosen = NO_RANGE;
        bool several_streams = false;
        for (size_t i = 0; i < a->active_count; i++) {
            const struct aorta_range *range = &a->ranges->ranges[a->active[i]];
            if (same_class && range->info.kind != kernel->info.kind) continue;
            if (!suits(&kernel->info, sight->named, &range->info) || !on_stream(a, kernel, range)) continue;
            const struct aorta_range *best = chosen < 0 ? NULL : &a->ranges->ranges[chosen];
            several_streams |= best && best->stream != range->stream;
            if (!best || range->end_ns - range->start_ns < best->end_ns - best->start_ns) chosen = (int)a->active[i];
        }
        if (several_streams) return copied_by(a, kernel);
        if (chosen >= 0) return chosen;
    }
    return NO_RANGE;
}

static void close_ranges(struct attribution *a, int64_t now_ns) {
    size_t kept = 0;
    for (size_t i = 0; i < a->active_count; i++)
        if (a->ranges->ranges[a->active[i]].end_ns >= now_ns) a->active[kept++] = a->active[i];
    a->active_count = kept;
}

/* Goes through the kernels in order of time with the ranges that are open meanwhile. */
static void sweep(struct attribution *a) {
    size_t next = 0;
    a->active_count = 0;
    for (size_t i = 0; i < a->kernels->range_count; i++) {
        int64_t now = a->sights[i].middle_ns;
        close_ranges(a, now);
        for (; next < a->ranges->range_count && a->ranges->ranges[a->by_start[next]].start_ns <= now; next++) {
            if (a->ranges->ranges[a->by_start[next]].end_ns < now) continue;
            if (a->active_count < ACTIVE_LIMIT) a->active[a->active_count++] = a->by_start[next];
        }
        a->range_of[a->sights[i].kernel] = choose_range(a, &a->sights[i]);
    }
}

static void learn_streams(struct attribution *a) {
    for (size_t i = 0; i < a->kernels->range_count; i++) {
        int stream = a->kernels->ranges[i].stream, range = a->range_of[i];
        if (range < 0 || stream >= STREAM_LIMIT || a->ranges->ranges[range].stream >= STREAM_LIMIT) continue;
        a->votes[stream][a->ranges->ranges[range].stream]++;
    }
    for (int stream = 0; stream < STREAM_LIMIT; stream++) {
        int sum = 0, best = 0;
        for (int other = 0; other < STREAM_LIMIT; other++) {
            sum += a->votes[stream][other];
            if (a->votes[stream][other] > a->votes[stream][best]) best = other;
        }
        a->stream_of[stream] = sum >= 3 && a->votes[stream][best] * 20 >= sum * 19 ? best : -1;
    }
}

static void prepare(struct attribution *a) {
    struct names names = {0};
    for (size_t i = 0; i < a->kernels->range_count; i++) {
        const struct aorta_range *kernel = &a->kernels->ranges[i];
        a->sights[i] = (struct sight){.middle_ns = kernel->start_ns + (kernel->end_ns - kernel->start_ns) / 2,
                                      .kernel = i,
                                      .named = kind_of(&names, kernel->info.tag).named};
    }
    qsort(a->sights, a->kernels->range_count, sizeof *a->sights, sights_by_middle);
    for (size_t i = 0; i < a->ranges->range_count; i++) a->by_start[i] = i;
    qsort_r(a->by_start, a->ranges->range_count, sizeof *a->by_start, ranges_by_start, a->ranges->ranges);
    for (int i = 0; i < STREAM_LIMIT; i++) a->stream_of[i] = -1;
}

/* ---- what follows for the kernels ---- */

/* The kernels of one range. */
struct share {
    int kernels, seen; /* in all; those that have their launch time already */
    int collectives;   /* collective kernels */
    int parts, handed; /* kernels that make up the collective; those that have their bytes already */
    int longest;       /* kernel that the range's arithmetic is put down to */
};

/* Where a collective was made of copies alone (one rank, or copy engines), or stands simulated, they are it. */
static bool becomes_collective(const struct aorta_range *kernel, const struct aorta_range *range,
                               const struct share *share) {
    if (range->info.kind != AORTA_RANGE_COLLECTIVE) return false;
    if (kernel->info.kind == AORTA_RANGE_COLLECTIVE || range->info.simulated) return true;
    return kernel->info.kind == AORTA_RANGE_COPY && share->collectives == 0;
}

static void count_shares(const struct attribution *a, struct share *shares) {
    for (size_t i = 0; i < a->ranges->range_count; i++) shares[i].longest = -1;
    for (size_t i = 0; i < a->kernels->range_count; i++) {
        if (a->range_of[i] < 0) continue;
        shares[a->range_of[i]].kernels++;
        shares[a->range_of[i]].collectives += a->kernels->ranges[i].info.kind == AORTA_RANGE_COLLECTIVE;
    }
    for (size_t i = 0; i < a->kernels->range_count; i++) {
        if (a->range_of[i] < 0) continue;
        const struct aorta_range *kernel = &a->kernels->ranges[i];
        struct share *share = &shares[a->range_of[i]];
        share->parts += becomes_collective(kernel, &a->ranges->ranges[a->range_of[i]], share);
        const struct aorta_range *longest = share->longest < 0 ? NULL : &a->kernels->ranges[share->longest];
        if (!longest || kernel->end_ns - kernel->start_ns > longest->end_ns - longest->start_ns)
            share->longest = (int)i;
    }
}

/* The range's bytes, in equal parts that add up to them. */
static int64_t next_part(int64_t bytes, struct share *share) {
    int parts = share->parts > 0 ? share->parts : 1;
    int64_t before = bytes * share->handed / parts;
    share->handed++;
    return bytes * share->handed / parts - before;
}

/* Launch times are known of ranges. The kernels of one are taken to be launched at even distances until the next. */
static int64_t launch_time(const struct aorta_profile *ranges, size_t range, struct share *share) {
    int64_t from = ranges->ranges[range].enqueue_ns;
    if (from == INT64_MIN) return from;
    return from + (aorta_range_launched_by(ranges, range) - from) / share->kernels * share->seen++;
}

static void inherit(struct aorta_range *kernel, const struct aorta_range *range, struct share *share, bool longest) {
    bool collective = becomes_collective(kernel, range, share);
    struct aorta_range_info info = range->info;
    info.tag = kernel->info.tag;
    info.within = range->info.tag;
    info.kind = collective ? AORTA_RANGE_COLLECTIVE : kernel->info.kind;
    info.bytes = collective ? next_part(range->info.bytes, share) : kernel->info.bytes;
    info.flops = longest && info.kind == AORTA_RANGE_COMPUTE ? range->info.flops : 0;
    if (!collective) {
        info.collective = (enum aorta_collective)0;
        info.group_size = info.group = info.group_stride = 0;
        info.simulated = false;
    }
    kernel->info = info;
    kernel->stream = range->stream;
}

/* The launch that all ranges have in common, when they came from one graph; else INT64_MIN. */
static int64_t common_launch(const struct aorta_profile *ranges) {
    for (size_t i = 1; i < ranges->range_count; i++)
        if (ranges->ranges[i].enqueue_ns != ranges->ranges[0].enqueue_ns) return INT64_MIN;
    return ranges->range_count ? ranges->ranges[0].enqueue_ns : INT64_MIN;
}

static void apply(struct attribution *a, struct share *shares) {
    int64_t launch_ns = common_launch(a->ranges);
    count_shares(a, shares);
    for (size_t i = 0; i < a->kernels->range_count; i++) {
        struct aorta_range *kernel = &a->kernels->ranges[i];
        int range = a->range_of[i];
        if (range >= 0) {
            inherit(kernel, &a->ranges->ranges[range], &shares[range], shares[range].longest == (int)i);
            kernel->enqueue_ns = launch_time(a->ranges, (size_t)range, &shares[range]);
            kernel->owner = range;
            a->kernels->kernels.attributed++;
            continue;
        }
        kernel->enqueue_ns = launch_ns;
        /* Streams that no range knows keep numbers of their own, behind the recorder's. */
        bool known = kernel->stream < STREAM_LIMIT && a->stream_of[kernel->stream] >= 0;
        kernel->stream = known ? a->stream_of[kernel->stream] : STREAM_LIMIT + kernel->stream;
    }
}

static aorta_status copy_surroundings(struct aorta_profile *kernels, const struct aorta_profile *ranges) {
    struct aorta_host_range *host = malloc((ranges->host_count + 1) * sizeof *host);
    struct aorta_marker *markers = malloc((ranges->marker_count + 1) * sizeof *markers);
    if (!host || !markers) {
        free(host);
        free(markers);
        return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu host ranges", ranges->host_count);
    }
    if (ranges->host_count) memcpy(host, ranges->host, ranges->host_count * sizeof *host);
    if (ranges->marker_count) memcpy(markers, ranges->markers, ranges->marker_count * sizeof *markers);
    free(kernels->host);
    free(kernels->markers);
    kernels->host = host;
    kernels->host_count = ranges->host_count;
    kernels->markers = markers;
    kernels->marker_count = ranges->marker_count;
    kernels->index = ranges->index;
    return NULL;
}

aorta_status aorta_kernels_attribute(struct aorta_profile *kernels, const struct aorta_profile *ranges) {
    int64_t offset_ns;
    AORTA_TRY(copy_surroundings(kernels, ranges));
    AORTA_TRY(measure_clock(kernels, ranges, &offset_ns));
    if (kernels->range_count) shift_clock(kernels, offset_ns);
    struct attribution *a = calloc(1, sizeof *a);
    struct share *shares = calloc(ranges->range_count + 1, sizeof *shares);
    aorta_status status = NULL;
    if (a) {
        a->kernels = kernels;
        a->ranges = ranges;
        a->sights = malloc((kernels->range_count + 1) * sizeof *a->sights);
        a->by_start = malloc((ranges->range_count + 1) * sizeof *a->by_start);
        a->range_of = malloc((kernels->range_count + 1) * sizeof *a->range_of);
    }
    if (!a || !shares || !a->sights || !a->by_start || !a->range_of)
        status = AORTA_ERROR(AORTA_MEMORY, "no memory to attribute %zu kernels", kernels->range_count);
    if (!status) {
        prepare(a);
        sweep(a);
        learn_streams(a);
        sweep(a);
        apply(a, shares);
        number_collectives(kernels);
    }
    if (a) {
        free(a->sights);
        free(a->by_start);
        free(a->range_of);
    }
    free(a);
    free(shares);
    return status;
}
