/* Collectives of all ranks: their process groups, who took part in the same one, who was waited for (align.h). */
#include "analysis/analysis_internal.h"
#include "trace/texts.h"

#include <stdlib.h>
#include <string.h>

/* ---- process groups of all ranks ---- */

/* Of name and ranks, in order of arrival; AORTA_TRACE_NONE when memory is exhausted. */
static uint32_t number_group(struct aorta_trace_texts *known, const char *name, const struct aorta_trace_group *group) {
    const size_t length = strlen(name) + 1, bytes = group->rank_count * sizeof *group->ranks;
    char *key = aorta_arena_alloc(&known->arena, length + bytes);
    if (!key) return AORTA_TRACE_NONE;
    memcpy(key, name, length);
    if (bytes) memcpy(key + length, group->ranks, bytes);
    return aorta_trace_texts_add(known, key, length + bytes);
}

static uint32_t world_group(struct aorta_trace_analysis *analysis, struct aorta_trace_texts *known,
                            const struct aorta_trace *trace, const struct aorta_trace_group *group) {
    const char *name = aorta_trace_text(trace, group->name);
    const uint32_t number = number_group(known, name, group);
    if (number < analysis->group_count) return number;
    struct aorta_trace_world_group *groups = aorta_arena_grow(
        &analysis->memory, analysis->groups, analysis->group_count, &analysis->group_capacity, sizeof *groups);
    analysis->memory.failed |= number == AORTA_TRACE_NONE;
    if (analysis->memory.failed) return AORTA_TRACE_NONE;
    analysis->groups = groups;
    groups[analysis->group_count++] = (struct aorta_trace_world_group){
        .name = name,
        .description = aorta_trace_text(trace, group->description),
        .ranks = group->ranks,
        .rank_count = group->rank_count,
        .size = group->size >= 0    ? group->size
                : group->rank_count ? (int32_t)group->rank_count
                                    : -1,
    };
    return number;
}

/* ---- one rank's parts ---- */

/* `groups`: world group of each of the trace's. */
static struct aorta_trace_part part_of(const struct aorta_trace_analysis *analysis, const struct aorta_trace *trace,
                                       const uint32_t *groups, const struct aorta_trace_work *work) {
    struct aorta_trace_part part = {.group = AORTA_TRACE_NONE,
                                    .collective = AORTA_TRACE_NONE,
                                    .kind = AORTA_COLLECTIVE_OTHER,
                                    .group_size = -1,
                                    .bytes = -1,
                                    .channels = -1,
                                    .dtype = AORTA_TRACE_NONE,
                                    .wait_ns = -1};
    const struct aorta_trace_collective *known =
        work->collective == AORTA_TRACE_NONE ? NULL : &trace->collectives[work->collective];
    part.kind = aorta_trace_collective_kind(trace, work);
    if (!known) return part;
    part.bytes = known->bytes;
    part.channels = known->blocks;
    part.dtype = known->dtype;
    part.group_size = known->group_size;
    if (known->group == AORTA_TRACE_NONE) return part;
    part.group = groups[known->group];
    if (part.group_size < 0) part.group_size = analysis->groups[part.group].size;
    return part;
}

static size_t count_collectives(const struct aorta_trace_rank *rank) {
    size_t count = 0;
    for (size_t i = 0; i < rank->work_count; i++) count += aorta_trace_is_collective(&rank->work[i]);
    return count;
}

static void collect_parts(struct aorta_trace_analysis *analysis, struct aorta_trace_texts *known, size_t rank,
                          struct aorta_trace_parts *parts) {
    const struct aorta_trace_rank *one = &analysis->ranks[rank];
    struct aorta_arena scratch = {0};
    uint32_t *groups = aorta_arena_raw(&scratch, one->trace->group_count * sizeof *groups);
    const struct aorta_trace_step_map map = aorta_trace_step_map_make(one, &scratch);
    for (size_t i = 0; groups && i < one->trace->group_count; i++)
        groups[i] = world_group(analysis, known, one->trace, &one->trace->groups[i]);
    scratch.failed |= analysis->memory.failed;
    for (size_t i = 0; groups && !scratch.failed && i < one->work_count; i++) {
        if (!aorta_trace_is_collective(&one->work[i])) continue;
        struct aorta_trace_part *part = &parts->items[parts->count++];
        *part = part_of(analysis, one->trace, groups, &one->work[i]);
        part->work = (uint32_t)i;
        part->rank = (uint32_t)rank;
        part->step = one->windows[aorta_trace_window_of(&map, &one->work[i])].number;
    }
    aorta_arena_end(&scratch, &analysis->memory);
}

/* ---- the same collective on other ranks ---- */

/* The rank's row of each row of its trace's work[]; NONE: it is not the rank's, or of no chosen step. NULL: the rank
 * has all of it. */
static uint32_t *rows_of_trace(const struct aorta_trace_rank *rank, struct aorta_arena *memory) {
    if (!rank->source) return NULL;
    uint32_t *rows = aorta_arena_raw(memory, rank->trace->work_count * sizeof *rows);
    for (size_t i = 0; rows && i < rank->trace->work_count; i++) rows[i] = AORTA_TRACE_NONE;
    for (size_t i = rank->work_count; rows && i-- > 0;)
        rows[rank->source[i]] = (uint32_t)i; /* of a cut kernel: its start */
    return rows;
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

static void link_parts(struct aorta_trace_analysis *analysis, struct aorta_trace_parts *parts) {
    const struct aorta_alignment *alignment = &analysis->alignment;
    struct aorta_arena scratch = {0};
    uint32_t **rows = aorta_arena_alloc(&scratch, analysis->rank_count * sizeof *rows);
    analysis->shared_collectives =
        aorta_arena_alloc(&analysis->memory, alignment->shared_count * sizeof *analysis->shared_collectives);
    for (size_t i = 0; rows && i < analysis->rank_count; i++) rows[i] = rows_of_trace(&analysis->ranks[i], &scratch);
    scratch.failed |= analysis->memory.failed;
    for (size_t i = 0; rows && !scratch.failed && i < alignment->shared_count; i++) {
        for (size_t j = 0; j < alignment->shared[i].part_count; j++) {
            const struct aorta_align_part *one = &alignment->shared[i].parts[j];
            uint32_t row = rows[one->rank] ? rows[one->rank][one->first] : one->first;
            struct aorta_trace_part *part = find_part(parts, one->rank, row);
            if (part) link_part(analysis, part, i);
        }
    }
    aorta_arena_end(&scratch, &analysis->memory);
}

static void align_ranks(struct aorta_trace_analysis *analysis) {
    struct aorta_arena scratch = {0};
    struct aorta_align_rank *ranks = aorta_arena_alloc(&scratch, analysis->rank_count * sizeof *ranks);
    const enum aorta_align_clocks clocks = !analysis->measured      ? AORTA_CLOCKS_OF_TRACES
                                           : analysis->common_clock ? AORTA_CLOCKS_ONE
                                                                    : AORTA_CLOCKS_OF_STEPS;
    for (size_t i = 0; ranks && i < analysis->rank_count; i++)
        ranks[i] =
            (struct aorta_align_rank){analysis->ranks[i].rank, analysis->ranks[i].trace, analysis->ranks[i].device};
    if (ranks) aorta_align(ranks, analysis->rank_count, clocks, &analysis->memory, &analysis->alignment);
    aorta_arena_end(&scratch, &analysis->memory);
}

void aorta_trace_parts_make(struct aorta_trace_analysis *analysis, struct aorta_trace_parts *parts,
                            struct aorta_arena *memory) {
    size_t limit = 0;
    for (size_t i = 0; i < analysis->rank_count; i++) limit += count_collectives(&analysis->ranks[i]);
    parts->items = aorta_arena_raw(memory, limit * sizeof *parts->items);
    parts->first = aorta_arena_alloc(memory, (analysis->rank_count + 1) * sizeof *parts->first);
    struct aorta_trace_texts known = {0}; /* groups, by what number_group makes of them */
    for (size_t i = 0; parts->first && i < analysis->rank_count; i++) {
        collect_parts(analysis, &known, i, parts);
        parts->first[i + 1] = parts->count;
    }
    aorta_trace_texts_free(&known);
    if (!parts->first || analysis->memory.failed) return;
    align_ranks(analysis);
    link_parts(analysis, parts);
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
