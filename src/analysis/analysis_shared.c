/* Collectives of all ranks: their process groups, who took part in the same one, who was waited for (align.h). */
#include "analysis/analysis_internal.h"
#include "base/array.h"
#include "trace/texts.h"

#include <stdlib.h>
#include <string.h>

/* ---- process groups of all ranks ---- */

/* Of name and ranks, in order of arrival; AORTA_TRACE_NONE when memory is exhausted. */
static uint32_t number_group(struct aorta_trace_texts *known, const char *name, const struct aorta_trace_group *group) {
    const size_t length = strlen(name) + 1, bytes = group->rank_count * sizeof *group->ranks;
    char *key = malloc(length + bytes);
    if (!key) return AORTA_TRACE_NONE;
    memcpy(key, name, length);
    if (bytes) memcpy(key + length, group->ranks, bytes);
    const uint32_t number = aorta_trace_texts_add(known, key, length + bytes);
    free(key);
    return number;
}

static aorta_status world_group(struct aorta_trace_analysis *analysis, struct aorta_trace_texts *known,
                                const struct aorta_trace *trace, const struct aorta_trace_group *group,
                                uint32_t *number) {
    const char *name = aorta_trace_text(trace, group->name);
    *number = number_group(known, name, group);
    if (*number == AORTA_TRACE_NONE) return AORTA_ERROR(AORTA_MEMORY, "no memory for a process group");
    if (*number < analysis->group_count) return NULL;
    AORTA_TRY(aorta_array_reserve(&analysis->groups, &analysis->group_capacity, analysis->group_count + 1,
                                  sizeof *analysis->groups, "process groups"));
    analysis->groups[analysis->group_count++] = (struct aorta_trace_world_group){
        .name = name,
        .description = aorta_trace_text(trace, group->description),
        .ranks = group->ranks,
        .rank_count = group->rank_count,
        .size = group->size >= 0    ? group->size
                : group->rank_count ? (int32_t)group->rank_count
                                    : -1,
    };
    return NULL;
}

/* ---- one rank's parts ---- */

/* What a rank's file says about its collectives, looked up once. */
struct facts {
    const struct aorta_trace *trace;
    uint32_t *groups; /* world group of each of the trace's */
};

static aorta_status facts_make(struct aorta_trace_analysis *analysis, struct aorta_trace_texts *known,
                               const struct aorta_trace *trace, struct facts *facts) {
    *facts = (struct facts){.trace = trace, .groups = malloc((trace->group_count + 1) * sizeof *facts->groups)};
    if (!facts->groups) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu process groups", trace->group_count);
    for (size_t i = 0; i < trace->group_count; i++)
        AORTA_TRY(world_group(analysis, known, trace, &trace->groups[i], &facts->groups[i]));
    return NULL;
}

static struct aorta_trace_part part_of(const struct aorta_trace_analysis *analysis, const struct facts *facts,
                                       const struct aorta_trace_work *work) {
    struct aorta_trace_part part = {.group = AORTA_TRACE_NONE,
                                    .collective = AORTA_TRACE_NONE,
                                    .kind = AORTA_COLLECTIVE_OTHER,
                                    .group_size = -1,
                                    .bytes = -1,
                                    .channels = -1,
                                    .dtype = AORTA_TRACE_NONE,
                                    .wait_ns = -1};
    const struct aorta_trace_collective *known =
        work->collective == AORTA_TRACE_NONE ? NULL : &facts->trace->collectives[work->collective];
    part.kind = aorta_trace_collective_kind(facts->trace, work);
    if (!known) return part;
    part.bytes = known->bytes;
    part.channels = known->blocks;
    part.dtype = known->dtype;
    part.group_size = known->group_size;
    if (known->group == AORTA_TRACE_NONE) return part;
    part.group = facts->groups[known->group];
    if (part.group_size < 0) part.group_size = analysis->groups[part.group].size;
    return part;
}

static size_t count_collectives(const struct aorta_trace_rank *rank) {
    size_t count = 0;
    for (size_t i = 0; i < rank->work_count; i++) count += aorta_trace_is_collective(&rank->work[i]);
    return count;
}

static aorta_status collect_parts(struct aorta_trace_analysis *analysis, struct aorta_trace_texts *known, size_t rank,
                                  struct aorta_trace_parts *parts) {
    const struct aorta_trace_rank *one = &analysis->ranks[rank];
    struct facts facts = {0};
    struct aorta_trace_step_map map = {0};
    aorta_status status = facts_make(analysis, known, one->trace, &facts);
    if (!status) status = aorta_trace_step_map_make(one, &map);
    for (size_t i = 0; !status && i < one->work_count; i++) {
        if (!aorta_trace_is_collective(&one->work[i])) continue;
        struct aorta_trace_part *part = &parts->items[parts->count++];
        *part = part_of(analysis, &facts, &one->work[i]);
        part->work = (uint32_t)i;
        part->rank = (uint32_t)rank;
        part->step = one->windows[aorta_trace_window_of(&map, &one->work[i])].number;
    }
    free(facts.groups);
    aorta_trace_step_map_free(&map);
    return status;
}

/* ---- the same collective on other ranks ---- */

/* The rank's row of each row of its trace's work[]; NONE: it is not the rank's, or of no chosen step. NULL: the rank
 * has all of it. */
static aorta_status rows_of_trace(const struct aorta_trace_rank *rank, uint32_t **rows) {
    *rows = NULL;
    if (!rank->owned) return NULL;
    *rows = malloc((rank->trace->work_count + 1) * sizeof **rows);
    if (!*rows) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu kernels", rank->trace->work_count);
    for (size_t i = 0; i < rank->trace->work_count; i++) (*rows)[i] = AORTA_TRACE_NONE;
    for (size_t i = rank->work_count; i-- > 0;) (*rows)[rank->source[i]] = (uint32_t)i; /* of a cut kernel: its start */
    return NULL;
}

static int part_search(const void *key, const void *item) {
    const uint32_t *work = key;
    const struct aorta_trace_part *part = item;
    return (*work > part->work) - (*work < part->work);
}

struct aorta_trace_part *aorta_trace_part_of(struct aorta_trace_part *parts, size_t count, uint32_t work) {
    return count ? bsearch(&work, parts, count, sizeof *parts, part_search) : NULL;
}

static struct aorta_trace_part *find_part(const struct aorta_trace_parts *parts, size_t rank, uint32_t work) {
    return aorta_trace_part_of(parts->items + parts->first[rank], parts->first[rank + 1] - parts->first[rank], work);
}

static void link_part(struct aorta_trace_analysis *analysis, struct aorta_trace_part *part, size_t shared) {
    const struct aorta_align_shared *found = &analysis->alignment.shared[shared];
    struct aorta_shared_collective *collective = &analysis->shared_collectives[shared];
    part->collective = (uint32_t)shared;
    collective->group = part->group;
    collective->step = part->step;
    collective->kind = part->kind;
    /* Where the file does not say how many ranks take part (recorded programs): all that were given. */
    const size_t size = found->pair ? 2 : part->group_size > 0 ? (size_t)part->group_size : analysis->rank_count;
    collective->complete = size == found->part_count;
    collective->chosen = true;
}

static aorta_status link_parts(struct aorta_trace_analysis *analysis, struct aorta_trace_parts *parts) {
    const struct aorta_alignment *alignment = &analysis->alignment;
    uint32_t **rows = calloc(analysis->rank_count + 1, sizeof(*rows));
    analysis->shared_collectives = calloc(alignment->shared_count + 1, sizeof *analysis->shared_collectives);
    aorta_status status = NULL;
    if (!rows || !analysis->shared_collectives)
        status = AORTA_ERROR(AORTA_MEMORY, "no memory for %zu collectives", alignment->shared_count);
    for (size_t i = 0; !status && i < analysis->rank_count; i++) status = rows_of_trace(&analysis->ranks[i], &rows[i]);
    for (size_t i = 0; !status && i < alignment->shared_count; i++) {
        for (size_t j = 0; j < alignment->shared[i].part_count; j++) {
            const struct aorta_align_part *one = &alignment->shared[i].parts[j];
            uint32_t row = rows[one->rank] ? rows[one->rank][one->first] : one->first;
            struct aorta_trace_part *part = find_part(parts, one->rank, row);
            if (part) link_part(analysis, part, i);
        }
    }
    for (size_t i = 0; rows && i < analysis->rank_count; i++) free(rows[i]);
    free(rows);
    return status;
}

static aorta_status align_ranks(struct aorta_trace_analysis *analysis) {
    struct aorta_align_rank *ranks = calloc(analysis->rank_count + 1, sizeof *ranks);
    if (!ranks) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu ranks", analysis->rank_count);
    for (size_t i = 0; i < analysis->rank_count; i++)
        ranks[i] =
            (struct aorta_align_rank){analysis->ranks[i].rank, analysis->ranks[i].trace, analysis->ranks[i].device};
    const enum aorta_align_clocks clocks = !analysis->measured      ? AORTA_CLOCKS_OF_TRACES
                                           : analysis->common_clock ? AORTA_CLOCKS_ONE
                                                                    : AORTA_CLOCKS_OF_STEPS;
    aorta_status status = aorta_align(ranks, analysis->rank_count, clocks, &analysis->alignment);
    free(ranks);
    return status;
}

aorta_status aorta_trace_parts_make(struct aorta_trace_analysis *analysis, struct aorta_trace_parts *parts) {
    size_t limit = 0;
    for (size_t i = 0; i < analysis->rank_count; i++) limit += count_collectives(&analysis->ranks[i]);
    parts->items = malloc((limit + 1) * sizeof *parts->items);
    parts->first = calloc(analysis->rank_count + 1, sizeof *parts->first);
    if (!parts->items || !parts->first) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu collectives", limit);
    struct aorta_trace_texts known = {0}; /* groups, by what number_group makes of them */
    aorta_status status = NULL;
    for (size_t i = 0; i < analysis->rank_count && !status; i++) {
        status = collect_parts(analysis, &known, i, parts);
        parts->first[i + 1] = parts->count;
    }
    aorta_trace_texts_free(&known);
    AORTA_TRY(status);
    AORTA_TRY(align_ranks(analysis));
    return link_parts(analysis, parts);
}

void aorta_trace_parts_free(struct aorta_trace_parts *parts) {
    free(parts->items);
    free(parts->first);
}

/* ---- who came last ---- */

/* How long this kernel ran before the last rank had started the same collective. */
static int64_t wait_of(const struct aorta_trace_analysis *analysis, const struct aorta_trace_part *part) {
    const struct aorta_align_shared *shared = &analysis->alignment.shared[part->collective];
    const struct aorta_trace_work *work = &analysis->ranks[part->rank].work[part->work];
    int64_t last_ns = INT64_MIN;
    for (size_t i = 0; i < shared->part_count; i++)
        if (shared->parts[i].start_ns > last_ns) last_ns = shared->parts[i].start_ns;
    int64_t length_ns = work->end_ns - work->start_ns;
    int64_t wait_ns = last_ns + analysis->alignment.clocks[part->rank].shift_ns - work->start_ns;
    return wait_ns < 0 ? 0 : wait_ns > length_ns ? length_ns : wait_ns;
}

void aorta_trace_shared_finish(struct aorta_trace_analysis *analysis, struct aorta_trace_parts *parts) {
    for (size_t i = 0; i < parts->count; i++) {
        struct aorta_trace_part *part = &parts->items[i];
        if (part->collective == AORTA_TRACE_NONE) continue;
        analysis->shared_collectives[part->collective].exposed_ns += part->blamed_ns;
        if (analysis->shared_collectives[part->collective].complete) part->wait_ns = wait_of(analysis, part);
    }
}
