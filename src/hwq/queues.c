#include "hwq/queues.h"
#include "base/interval.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Numbers become places 0 … count − 1 of a sorted list. */
struct places {
    int64_t *ids;
    size_t count;
};

struct analysis {
    const struct aorta_queue_work *work;
    size_t count;
    struct aorta_queues *queues;
    struct places streams, lanes; /* lanes: queues */
    size_t *stream_of, *lane_of;  /* of each work; SIZE_MAX: queue not known */
    double *gaps;                 /* scratch, [count] */
};

static aorta_status no_memory(size_t count) {
    return AORTA_ERROR(AORTA_MEMORY, "no memory to sort %zu kernels by their queues", count);
}

/* ---- places ---- */

static int by_id(const void *left, const void *right) {
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

static void make_distinct(struct places *places) {
    size_t count = 0;
    qsort(places->ids, places->count, sizeof *places->ids, by_id);
    for (size_t i = 0; i < places->count; i++)
        if (i == 0 || places->ids[i] != places->ids[count - 1]) places->ids[count++] = places->ids[i];
    places->count = count;
}

static size_t place_of(const struct places *places, int64_t id) {
    const int64_t *found = bsearch(&id, places->ids, places->count, sizeof id, by_id);
    return (size_t)(found - places->ids);
}

static void place(struct analysis *analysis) {
    for (size_t i = 0; i < analysis->count; i++) {
        analysis->streams.ids[analysis->streams.count++] = analysis->work[i].stream;
        if (analysis->work[i].queued) analysis->lanes.ids[analysis->lanes.count++] = analysis->work[i].queue;
    }
    make_distinct(&analysis->streams);
    make_distinct(&analysis->lanes);
    for (size_t i = 0; i < analysis->count; i++) {
        const struct aorta_queue_work *work = &analysis->work[i];
        analysis->stream_of[i] = place_of(&analysis->streams, work->stream);
        analysis->lane_of[i] = work->queued ? place_of(&analysis->lanes, work->queue) : SIZE_MAX;
    }
}

/* ---- gaps ---- */

struct gap_list {
    double *items;
    size_t count, overlapping;
};

static void add_gap(struct gap_list *list, int64_t gap_ns) {
    if (gap_ns < 0)
        list->overlapping++;
    else
        list->items[list->count++] = (double)gap_ns;
}

static struct aorta_queue_gap summarise(const struct gap_list *list) {
    return (struct aorta_queue_gap){aorta_summarise(list->items, list->count), list->overlapping};
}

/* From kernel to kernel of the same stream. */
static aorta_status find_intra(struct analysis *analysis) {
    struct gap_list list = {.items = analysis->gaps};
    size_t *last = malloc((analysis->streams.count + 1) * sizeof *last);
    if (!last) return no_memory(analysis->count);
    for (size_t i = 0; i < analysis->streams.count; i++) last[i] = SIZE_MAX;
    for (size_t i = 0; i < analysis->count; i++) {
        if (!analysis->work[i].kernel) continue;
        size_t *before = &last[analysis->stream_of[i]];
        if (*before != SIZE_MAX) add_gap(&list, analysis->work[i].start_ns - analysis->work[*before].end_ns);
        *before = i;
    }
    free(last);
    analysis->queues->intra = summarise(&list);
    return NULL;
}

struct ending {
    int64_t end_ns;
    size_t index;
};

static int by_end(const void *left, const void *right) {
    const struct ending *a = left, *b = right;
    return a->end_ns != b->end_ns ? (a->end_ns > b->end_ns) - (a->end_ns < b->end_ns)
                                  : (a->index > b->index) - (a->index < b->index);
}

/* Ends are passed in their order while starts are: the one passed last is the latest before a start. A kernel too short
 * for the clock may have passed itself. */
static aorta_status find_inter(struct analysis *analysis) {
    struct gap_list list = {.items = analysis->gaps};
    struct ending *ends = malloc((analysis->count + 1) * sizeof *ends);
    size_t count = 0, passed = 0;
    if (!ends) return no_memory(analysis->count);
    for (size_t i = 0; i < analysis->count; i++)
        if (analysis->work[i].kernel) ends[count++] = (struct ending){analysis->work[i].end_ns, i};
    qsort(ends, count, sizeof *ends, by_end);
    for (size_t i = 0; i < analysis->count; i++) {
        const struct aorta_queue_work *work = &analysis->work[i];
        if (!work->kernel) continue;
        while (passed < count && ends[passed].end_ns <= work->start_ns) passed++;
        size_t last = passed;
        if (last && ends[last - 1].index == i) last--;
        size_t before = last ? ends[last - 1].index : i;
        if (analysis->stream_of[before] != analysis->stream_of[i])
            add_gap(&list, work->start_ns - ends[last - 1].end_ns);
    }
    free(ends);
    analysis->queues->inter = summarise(&list);
    return NULL;
}

/* From kernel to kernel of the same queue; `lane` SIZE_MAX: of every queue. `same`: of the same stream. */
static aorta_status find_steps(struct analysis *analysis, size_t lane, bool same, struct aorta_queue_gap *gap) {
    struct gap_list list = {.items = analysis->gaps};
    size_t *last = malloc((analysis->lanes.count + 1) * sizeof *last);
    if (!last) return no_memory(analysis->count);
    for (size_t i = 0; i < analysis->lanes.count; i++) last[i] = SIZE_MAX;
    for (size_t i = 0; i < analysis->count; i++) {
        size_t at = analysis->lane_of[i];
        if (!analysis->work[i].kernel || at == SIZE_MAX || (lane != SIZE_MAX && at != lane)) continue;
        size_t before = last[at];
        if (before != SIZE_MAX && (analysis->stream_of[before] == analysis->stream_of[i]) == same)
            add_gap(&list, analysis->work[i].start_ns - analysis->work[before].end_ns);
        last[at] = i;
    }
    free(last);
    *gap = summarise(&list);
    return NULL;
}

/* ---- unions ---- */

static aorta_status measure_union(const struct analysis *analysis, size_t lane, int64_t *length_ns) {
    struct aorta_intervals set = {0};
    aorta_status status = NULL;
    for (size_t i = 0; i < analysis->count && !status; i++) {
        if (lane == SIZE_MAX || analysis->lane_of[i] == lane)
            status = aorta_intervals_add(&set, analysis->work[i].start_ns, analysis->work[i].end_ns);
    }
    *length_ns = status ? 0 : aorta_intervals_length(&set);
    aorta_intervals_free(&set);
    return status;
}

static aorta_status measure_whole(struct analysis *analysis) {
    struct aorta_queues *queues = analysis->queues;
    struct aorta_intervals set = {0};
    int64_t sum_ns = 0, last_ns = INT64_MIN;
    aorta_status status = measure_union(analysis, SIZE_MAX, &queues->busy_ns);
    for (size_t i = 0; i < analysis->count && !status; i++) {
        const struct aorta_queue_work *work = &analysis->work[i];
        if (work->end_ns > last_ns) last_ns = work->end_ns;
        if (!work->kernel) continue;
        sum_ns += work->end_ns - work->start_ns;
        status = aorta_intervals_add(&set, work->start_ns, work->end_ns);
    }
    int64_t kernels_ns = aorta_intervals_length(&set);
    queues->parallel = kernels_ns > 0 ? (double)sum_ns / (double)kernels_ns : NAN;
    queues->span_ns = analysis->count ? last_ns - analysis->work[0].start_ns : 0;
    aorta_intervals_free(&set);
    return status;
}

/* ---- queues and streams ---- */

static int most_kernels_first(const void *left, const void *right) {
    const struct aorta_queue *a = left, *b = right;
    if (a->kernels != b->kernels) return a->kernels < b->kernels ? 1 : -1;
    return (a->id > b->id) - (a->id < b->id);
}

/* Which stream used which queue: a table, a byte each. */
static aorta_status count_users(struct analysis *analysis) {
    size_t lanes = analysis->lanes.count, streams = analysis->streams.count;
    unsigned char *uses = calloc(lanes * streams + 1, 1);
    if (!uses) return no_memory(analysis->count);
    for (size_t i = 0; i < analysis->count; i++)
        if (analysis->lane_of[i] != SIZE_MAX) uses[analysis->lane_of[i] * streams + analysis->stream_of[i]] = 1;
    for (size_t stream = 0; stream < streams; stream++) {
        size_t used = 0;
        for (size_t lane = 0; lane < lanes; lane++) {
            used += uses[lane * streams + stream];
            analysis->queues->items[lane].streams += uses[lane * streams + stream];
        }
        analysis->queues->streams_on_several += used > 1;
    }
    free(uses);
    return NULL;
}

static void count_work(struct analysis *analysis) {
    struct aorta_queues *queues = analysis->queues;
    for (size_t i = 0; i < analysis->count; i++) {
        bool kernel = analysis->work[i].kernel;
        queues->kernels += kernel;
        queues->transfers += !kernel;
        if (analysis->lane_of[i] == SIZE_MAX) {
            queues->unqueued += kernel;
            continue;
        }
        struct aorta_queue *queue = &queues->items[analysis->lane_of[i]];
        queue->kernels += kernel;
        queue->transfers += !kernel;
    }
}

static aorta_status describe_queue(struct analysis *analysis, size_t lane) {
    struct aorta_queue *queue = &analysis->queues->items[lane];
    queue->id = analysis->lanes.ids[lane];
    AORTA_TRY(measure_union(analysis, lane, &queue->busy_ns));
    AORTA_TRY(find_steps(analysis, lane, true, &queue->stay));
    AORTA_TRY(find_steps(analysis, lane, false, &queue->go));
    queue->changes = queue->go.ns.count + queue->go.overlapping;
    return NULL;
}

static aorta_status describe(struct analysis *analysis) {
    struct aorta_queues *queues = analysis->queues;
    place(analysis);
    queues->count = analysis->lanes.count;
    queues->stream_count = analysis->streams.count;
    queues->items = aorta_arena_alloc(&queues->arena, (queues->count + 1) * sizeof *queues->items);
    if (!queues->items) return no_memory(analysis->count);
    count_work(analysis);
    AORTA_TRY(count_users(analysis));
    for (size_t lane = 0; lane < queues->count; lane++) AORTA_TRY(describe_queue(analysis, lane));
    qsort(queues->items, queues->count, sizeof *queues->items, most_kernels_first);
    AORTA_TRY(measure_whole(analysis));
    AORTA_TRY(find_intra(analysis));
    AORTA_TRY(find_inter(analysis));
    AORTA_TRY(find_steps(analysis, SIZE_MAX, true, &queues->stay));
    return find_steps(analysis, SIZE_MAX, false, &queues->go);
}

static int by_start(const void *left, const void *right) {
    const struct aorta_queue_work *a = left, *b = right;
    if (a->start_ns != b->start_ns) return a->start_ns < b->start_ns ? -1 : 1;
    return (a->end_ns > b->end_ns) - (a->end_ns < b->end_ns);
}

aorta_status aorta_queues_analyse(struct aorta_queue_work *work, size_t count, struct aorta_queues *queues) {
    *queues = (struct aorta_queues){0};
    if (count) qsort(work, count, sizeof *work, by_start);
    struct analysis analysis = {.work = work, .count = count, .queues = queues};
    analysis.streams.ids = calloc(count + 1, sizeof *analysis.streams.ids);
    analysis.lanes.ids = calloc(count + 1, sizeof *analysis.lanes.ids);
    analysis.stream_of = calloc(count + 1, sizeof *analysis.stream_of);
    analysis.lane_of = calloc(count + 1, sizeof *analysis.lane_of);
    analysis.gaps = calloc(count + 1, sizeof *analysis.gaps);
    aorta_status status = NULL;
    if (!analysis.streams.ids || !analysis.lanes.ids || !analysis.stream_of || !analysis.lane_of || !analysis.gaps)
        status = no_memory(count);
    else
        status = describe(&analysis);
    free(analysis.streams.ids);
    free(analysis.lanes.ids);
    free(analysis.stream_of);
    free(analysis.lane_of);
    free(analysis.gaps);
    if (status) aorta_queues_free(queues);
    return status;
}

void aorta_queues_free(struct aorta_queues *queues) {
    aorta_arena_free(&queues->arena);
    *queues = (struct aorta_queues){0};
}
