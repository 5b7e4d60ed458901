/* Makes a profile of the device's records, and assigns its kernels to ranges. */
#include "base/array.h"
#include "base/sort.h"
#include "measure/tracer.h"

#include <stdlib.h>
#include <string.h>

/* ---- the kernel view ---- */

static int records_by_start(const void *left, const void *right, void *records) {
    const struct aorta_activity_record *a = (const struct aorta_activity_record *)records + *(const size_t *)left;
    const struct aorta_activity_record *b = (const struct aorta_activity_record *)records + *(const size_t *)right;
    if (a->start_ns != b->start_ns) return a->start_ns < b->start_ns ? -1 : 1;
    return (a->correlation > b->correlation) - (a->correlation < b->correlation);
}

static struct aorta_range range_of(const struct aorta_activity_record *record, struct aorta_kernel_kind kind) {
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
        /* The name of RCCL's generic kernel does not show the kind, but its range may have it. */
        range.info.collective = kind.named ? kind.collective : AORTA_COLLECTIVE_OTHER;
    }
    range.info.role = aorta_usual_role(range.info.kind, range.info.collective);
    return range;
}

/* A step has thousands of kernels of a few dozen names, each stored once: names are compared by their address. */
enum { CACHE_NAMES = 256 };
struct names {
    const char *name[CACHE_NAMES];
    struct aorta_kernel_kind kind[CACHE_NAMES];
};

static struct aorta_kernel_kind kind_of(struct names *names, const char *name) {
    size_t at = ((uintptr_t)name >> 4) % CACHE_NAMES;
    if (names->name[at] == name) return names->kind[at];
    names->name[at] = name;
    return names->kind[at] = aorta_kernel_classify(name, NULL);
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

/* State while records are read. */
struct reading {
    struct names names;
    struct streams streams;
    uint32_t last_stamp; /* launch of the timestamp launched last */
};

/* Gates only wait, so their time is no measuring cost. */
static void note_measuring(struct aorta_kernel_facts *facts, const struct aorta_activity_record *record,
                           enum aorta_kernel_class class, struct reading *reading) {
    if (class == AORTA_KERNEL_GATE) return;
    facts->stamp_count++;
    facts->stamp_ns += record->end_ns - record->start_ns;
    if (class != AORTA_KERNEL_STAMP) return;
    const bool first = facts->last_stamp_ns == INT64_MIN;
    if (!first && !aorta_launched_after(record->correlation, reading->last_stamp)) return;
    reading->last_stamp = record->correlation;
    facts->last_stamp_ns = record->start_ns;
}

/* Different launches. `numbers`: for one of each record. */
static int64_t count_launches(const struct aorta_activity_record *records, size_t count, uint32_t *numbers) {
    for (size_t i = 0; i < count; i++) numbers[i] = records[i].correlation;
    return (int64_t)aorta_sort_unique(numbers, count, sizeof *numbers, aorta_by_uint32);
}

static void add_record(const struct aorta_activity_record *records, size_t index, struct reading *reading,
                       struct aorta_profile *profile) {
    const struct aorta_activity_record *record = &records[index];
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

static bool same_group(const struct aorta_range_info *a, const struct aorta_range_info *b) {
    return a->kind == b->kind && a->collective == b->collective && a->role == b->role &&
           a->group_size == b->group_size && a->group == b->group && a->group_stride == b->group_stride;
}

/* All ranks run the collectives of a group in the same order, so equal numbers are the same collective. */
void aorta_number_collectives(struct aorta_range *ranges, size_t count) {
    for (size_t i = 0; i < count; i++) {
        size_t before = ranges[i].info.kind == AORTA_RANGE_COLLECTIVE ? i : 0;
        while (before && !same_group(&ranges[before - 1].info, &ranges[i].info)) before--;
        ranges[i].sequence = before ? ranges[before - 1].sequence + 1 : 0;
    }
}

aorta_status aorta_kernels_profile(const struct aorta_activity_record *records, size_t count,
                                   struct aorta_profile *profile) {
    *profile = (struct aorta_profile){.source = AORTA_SOURCE_KERNEL, .kernels.last_stamp_ns = INT64_MIN};
    size_t *sorted = malloc((count + 1) * sizeof *sorted);
    struct reading reading = {.streams.ids = malloc((count + 1) * sizeof *reading.streams.ids)};
    profile->ranges = malloc((count + 1) * sizeof *profile->ranges);
    aorta_status status = NULL;
    if (!sorted || !reading.streams.ids || !profile->ranges)
        status = AORTA_ERROR(AORTA_MEMORY, "no memory for the view of %zu kernels", count);
    if (!status && count) {
        for (size_t i = 0; i < count; i++) sorted[i] = i;
        qsort_r(sorted, count, sizeof *sorted, records_by_start, (void *)(uintptr_t)records);
        for (size_t i = 0; i < count; i++) add_record(records, sorted[i], &reading, profile);
        aorta_number_collectives(profile->ranges, profile->range_count);
        profile->kernels.launches = count_launches(records, count, reading.streams.ids);
    }
    free(sorted);
    free(reading.streams.ids);
    if (status) aorta_profile_free(profile);
    return status;
}

/* ---- one clock for timestamps and records ---- */

enum { CLOCK_REACH_NS = 100000 }; /* the clocks differ by less, as both are converted to CLOCK_MONOTONIC */

/* A timestamp is written as its kernel begins. */
static void shift_clock(struct aorta_profile *kernels, int64_t done_ns) {
    const int64_t stamp_ns = kernels->kernels.last_stamp_ns;
    if (stamp_ns == INT64_MIN || done_ns == INT64_MIN) return;
    const int64_t offset_ns = done_ns - stamp_ns;
    if (llabs(offset_ns) > CLOCK_REACH_NS) return;
    for (size_t i = 0; i < kernels->range_count; i++) {
        kernels->ranges[i].start_ns += offset_ns;
        kernels->ranges[i].end_ns += offset_ns;
    }
    kernels->start_ns += offset_ns;
    kernels->end_ns += offset_ns;
    kernels->kernels.last_stamp_ns += offset_ns;
    kernels->kernels.clock_offset_ns = offset_ns;
}

/* ---- which range a kernel belongs to ---- */

enum { STREAM_LIMIT = 64, NO_RANGE = -1, NOT_KNOWN = -1, SEVERAL = -2 };

struct join {
    struct aorta_profile *kernels, *ranges;
    const struct aorta_activity_record *records;
    const struct aorta_launches *launches;
    int *range_of;               /* per kernel */
    int stream_of[STREAM_LIMIT]; /* the recorder's number of each of the library's streams */
};

/* The innermost range that contains the launch, which is the last such range. */
static int launched_range(const struct join *join, uint32_t launch) {
    for (size_t i = join->ranges->range_count; launch && i-- > 0;) {
        const struct aorta_range_launches *range = &join->launches->ranges[i];
        if (aorta_launched_after(launch, range->after) && !aorta_launched_after(launch, range->until)) return (int)i;
    }
    return NO_RANGE;
}

static int find_range(const struct join *join, const struct aorta_activity_record *record) {
    const uint64_t at = record->label - join->launches->first_label; /* huge for a smaller label of another capture */
    if (record->label) return at < join->ranges->range_count ? (int)at : NO_RANGE;
    return record->graph_node ? NO_RANGE : launched_range(join, record->correlation);
}

/* A stream that is seen with several recorded streams is ambiguous: all kernels of a graph may have the stream of its
 * launch. */
static void learn_stream(struct join *join, int stream, int recorded) {
    if (stream >= STREAM_LIMIT) return;
    int *known = &join->stream_of[stream];
    *known = *known == NOT_KNOWN || *known == recorded ? recorded : SEVERAL;
}

/* A range lasts from its first kernel's start to its last one's end. */
static void extend_range(struct aorta_range *range, const struct aorta_range *kernel, bool first) {
    if (first || kernel->start_ns < range->start_ns) range->start_ns = kernel->start_ns;
    if (first || kernel->end_ns > range->end_ns) range->end_ns = kernel->end_ns;
}

/* ---- the kernels' collectives and launches ---- */

/* The kernels of one range. */
struct share {
    int kernels, seen; /* kernels in all; kernels whose launch time is set */
    int collectives;   /* collective kernels */
    int parts, handed; /* kernels that make up the collective; of these, kernels whose bytes are set */
    int longest;       /* kernel that the range's arithmetic is put down to */
    bool parted;       /* inner ranges have the arithmetic */
};

/* Whether the kernel counts as the range's collective. Copies do if the collective consists only of copies (one rank,
 * or copy engines) or is simulated. A spin kernel comes from training.inject. */
static bool becomes_collective(const struct aorta_range *kernel, const struct aorta_range *range,
                               const struct share *share) {
    if (range->info.kind != AORTA_RANGE_COLLECTIVE) return false;
    if (kernel->info.kind == AORTA_RANGE_COLLECTIVE || range->info.simulated) return true;
    if (strcmp(kernel->info.tag, "spin") == 0) return true;
    return kernel->info.kind == AORTA_RANGE_COPY && share->collectives == 0;
}

static void count_shares(const struct join *a, struct share *shares) {
    for (size_t i = 0; i < a->ranges->range_count; i++) shares[i].longest = -1;
    for (size_t i = 0; i < a->kernels->range_count; i++) {
        if (a->range_of[i] < 0) continue;
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

/* Only ranges have launch times. A range's kernels are assumed to be launched at equal intervals until the next range.
 */
static int64_t launch_time(const struct aorta_profile *ranges, size_t range, struct share *share) {
    int64_t from = ranges->ranges[range].enqueue_ns;
    if (from == INT64_MIN) return from;
    return from + (aorta_range_launched_by(ranges, range) - from) / share->kernels * share->seen++;
}

/* Launch time of a pass's kernel that belongs to no operation: the end of the previous operation's launch. */
static int64_t launch_beside_parts(const struct join *a, int pass, const struct aorta_activity_record *record) {
    const struct aorta_profile *ranges = a->ranges;
    int64_t launch_ns = ranges->ranges[pass].enqueue_ns;
    if (ranges->ranges[pass].graph) return launch_ns;
    for (size_t i = (size_t)pass + 1; i < ranges->range_count && ranges->ranges[i].enqueue_ns != INT64_MIN; i++) {
        if (!aorta_launched_after(record->correlation, a->launches->ranges[i].after)) break;
        if (ranges->ranges[i].owner == pass) launch_ns = aorta_range_launched_by(ranges, i);
    }
    return launch_ns;
}

/* The range itself, or the range around an inner range. */
static int outer_range(const struct aorta_profile *ranges, int range) {
    return ranges->ranges[range].info.inner ? ranges->ranges[range].owner : range;
}

static void take_operation(const struct aorta_profile *ranges, int range, struct aorta_range_info *info) {
    const struct aorta_range_info *outer = &ranges->ranges[outer_range(ranges, range)].info;
    info->within = outer->tag;
    if (!info->inner) return;
    info->operation = info->function;
    info->function = outer->function;
    info->number = range + 1;
    info->inner = false;
}

static void inherit(struct aorta_range *kernel, const struct aorta_profile *ranges, int number, struct share *share,
                    bool longest) {
    const struct aorta_range *range = &ranges->ranges[number];
    bool collective = becomes_collective(kernel, range, share);
    struct aorta_range_info info = range->info;
    take_operation(ranges, number, &info);
    info.tag = kernel->info.tag;
    info.kind = collective ? AORTA_RANGE_COLLECTIVE : kernel->info.kind;
    bool computes = longest && info.kind == AORTA_RANGE_COMPUTE && !share->parted;
    if (!computes) memset(info.dims, 0, sizeof info.dims);
    info.bytes = collective ? next_part(range->info.bytes, share) : computes ? range->info.bytes : kernel->info.bytes;
    info.flops = computes ? range->info.flops : 0;
    info.attention_flops = computes ? range->info.attention_flops : 0;
    info.attention_bytes = computes ? range->info.attention_bytes : 0;
    if (!collective) {
        info.collective = (enum aorta_collective)0;
        info.group_size = info.group = info.group_stride = 0;
        info.simulated = false;
    }
    kernel->info = info;
    kernel->stream = range->stream;
}

/* The launch of the step's graph, INT64_MIN without one: a step has at most one graph. It is also the launch of the
 * graph's kernels without a range. */
static int64_t graph_launch(const struct aorta_profile *ranges) {
    for (size_t i = 0; i < ranges->range_count; i++)
        if (ranges->ranges[i].graph) return ranges->ranges[i].enqueue_ns;
    return INT64_MIN;
}

/* Time of the next launch that has a range, usually microseconds later. It dates the few launches of a step that have
 * no range. INT64_MIN if none follows. */
static int64_t next_known_launch(const struct join *a, uint32_t correlation) {
    int64_t launch_ns = INT64_MIN;
    uint32_t nearest = UINT32_MAX / 2; /* numbers begin anew after the largest */
    for (size_t i = 0; i < a->kernels->range_count; i++) {
        const struct aorta_range *kernel = &a->kernels->ranges[i];
        const struct aorta_activity_record *record = &a->records[kernel->record];
        uint32_t distance = record->correlation - correlation;
        if (kernel->owner < 0 || record->graph_node || distance >= nearest) continue;
        nearest = distance;
        launch_ns = kernel->enqueue_ns;
    }
    return launch_ns;
}

static void date_launches(struct join *a) {
    const int64_t launch_ns = graph_launch(a->ranges);
    for (size_t i = 0; i < a->kernels->range_count; i++) {
        struct aorta_range *kernel = &a->kernels->ranges[i];
        const struct aorta_activity_record *record = &a->records[kernel->record];
        if (kernel->owner >= 0) continue;
        int64_t known_ns = record->graph_node ? launch_ns : next_known_launch(a, record->correlation);
        kernel->enqueue_ns = known_ns < kernel->start_ns ? known_ns : kernel->start_ns;
    }
}

static void apply(struct join *a, struct share *shares) {
    count_shares(a, shares);
    for (size_t i = 0; i < a->kernels->range_count; i++) {
        struct aorta_range *kernel = &a->kernels->ranges[i];
        int range = a->range_of[i];
        if (range >= 0) {
            inherit(kernel, a->ranges, range, &shares[range], shares[range].longest == (int)i);
            kernel->enqueue_ns = shares[range].parted ? launch_beside_parts(a, range, &a->records[kernel->record])
                                                      : launch_time(a->ranges, (size_t)range, &shares[range]);
            kernel->owner = outer_range(a->ranges, range);
            a->kernels->kernels.attributed++;
            continue;
        }
        /* Streams that no range knows keep numbers of their own, after the recorder's. */
        bool known = kernel->stream < STREAM_LIMIT && a->stream_of[kernel->stream] >= 0;
        kernel->stream = known ? a->stream_of[kernel->stream] : STREAM_LIMIT + kernel->stream;
    }
    date_launches(a);
}

static aorta_status copy_surroundings(struct aorta_profile *kernels, const struct aorta_profile *ranges) {
    kernels->index = ranges->index;
    kernels->host = aorta_array_copy(ranges->host, ranges->host_count, sizeof *ranges->host);
    kernels->markers = aorta_array_copy(ranges->markers, ranges->marker_count, sizeof *ranges->markers);
    if (!kernels->host || !kernels->markers)
        return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu host ranges", ranges->host_count);
    kernels->host_count = ranges->host_count;
    kernels->marker_count = ranges->marker_count;
    return NULL;
}

/* A marker's time_ns is the number of its first range until here. Markers whose range has no kernel are dropped. */
static void date_markers(struct join *join, const struct share *shares) {
    struct aorta_profile *ranges = join->ranges, *kernels = join->kernels;
    size_t left = 0;
    for (size_t i = 0; i < ranges->marker_count; i++) {
        struct aorta_marker marker = ranges->markers[i];
        const size_t range = (size_t)marker.time_ns;
        if (range >= ranges->range_count || !shares[range].kernels) continue;
        marker.time_ns = ranges->ranges[range].start_ns;
        ranges->markers[left] = kernels->markers[left] = marker;
        left++;
    }
    ranges->marker_count = kernels->marker_count = left;
}

/* Drops ranges without a kernel, where nothing ran or records were lost, and inner ranges, whose facts the kernels
 * have now. */
static void drop_empty_ranges(struct join *join, const struct share *shares) {
    struct aorta_profile *ranges = join->ranges;
    int *place = join->range_of; /* every kernel has its owner by now */
    size_t left = 0;
    for (size_t i = 0; i < ranges->range_count; i++) {
        place[i] = (int)left;
        if (!shares[i].kernels || join->ranges->ranges[i].info.inner) continue;
        const struct aorta_range *range = &ranges->ranges[i];
        if (!left || range->start_ns < ranges->start_ns) ranges->start_ns = range->start_ns;
        if (!left || range->end_ns > ranges->end_ns) ranges->end_ns = range->end_ns;
        ranges->ranges[left++] = *range;
    }
    ranges->range_count = left;
    for (size_t i = 0; i < join->kernels->range_count; i++) {
        struct aorta_range *kernel = &join->kernels->ranges[i];
        if (kernel->owner >= 0) kernel->owner = place[kernel->owner];
    }
}

static void find_owners(struct join *join, struct share *shares) {
    for (int i = 0; i < STREAM_LIMIT; i++) join->stream_of[i] = NOT_KNOWN;
    for (size_t i = 0; i < join->kernels->range_count; i++) {
        const struct aorta_range *kernel = &join->kernels->ranges[i];
        const int at = find_range(join, &join->records[kernel->record]);
        join->range_of[i] = at;
        if (at < 0) continue;
        const int outer = outer_range(join->ranges, at);
        extend_range(&join->ranges->ranges[outer], kernel, shares[outer].kernels == 0);
        learn_stream(join, kernel->stream, join->ranges->ranges[at].stream);
        shares[at].kernels++;
        if (outer == at) continue;
        shares[outer].kernels++;
        shares[outer].parted = true;
    }
}

aorta_status aorta_kernels_join(struct aorta_profile *kernels, const struct aorta_activity_record *records,
                                struct aorta_profile *ranges, const struct aorta_launches *launches, int64_t done_ns) {
    AORTA_TRY(copy_surroundings(kernels, ranges));
    shift_clock(kernels, done_ns);
    const size_t most = kernels->range_count > ranges->range_count ? kernels->range_count : ranges->range_count;
    struct join join = {.kernels = kernels, .ranges = ranges, .records = records, .launches = launches};
    struct share *shares = calloc(ranges->range_count + 1, sizeof *shares);
    join.range_of = malloc((most + 1) * sizeof *join.range_of);
    aorta_status status = NULL;
    if (shares && join.range_of) {
        find_owners(&join, shares);
        apply(&join, shares);
        date_markers(&join, shares);
        drop_empty_ranges(&join, shares);
        aorta_number_collectives(kernels->ranges, kernels->range_count);
    } else {
        status = AORTA_ERROR(AORTA_MEMORY, "no memory to join %zu kernels with their ranges", kernels->range_count);
    }
    free(join.range_of);
    free(shares);
    return status;
}
