#include "analysis/memory.h"
#include "analysis/phases.h"

#include "base/intern.h"
#include "base/sort.h"

#include <stdlib.h>
#include <string.h>

const char *aorta_memory_use_name(int use) {
    static const char *const names[] = {"parameters", "gradients", "optimizer", "activations",
                                        "workspace",  "before",    "other"};
    return names[use];
}

struct span {
    int64_t start_ns, end_ns;
    bool backward;
};

struct making {
    const struct aorta_trace_rank *rank;
    const struct aorta_trace *trace;
    struct aorta_memory *memory;
    struct aorta_arena scratch;
    struct aorta_keys addresses;
    uint32_t *last; /* latest block of each address, + 1, as addresses are reused */
    struct span *passes, *optimizers;
    size_t pass_count, optimizer_count;
    int64_t before_bytes; /* when the recording began */
    bool adam;
};

/* ---- selection of allocations ---- */

/* Whether all allocations count: AMD's tools and PyTorch number devices differently, so if none matches and the file
 * has work of one device, all are of that device. */
static bool takes_any(const struct aorta_trace_rank *rank) {
    const struct aorta_trace *trace = rank->trace;
    for (size_t i = 0; i < trace->allocation_count; i++)
        if (trace->allocations[i].device == rank->device) return false;
    for (size_t i = 0; i < trace->work_count; i++)
        if (trace->work[i].device != rank->device) return false;
    return true;
}

/* ---- blocks ---- */

/* The entry of the address in `last`; NULL if memory is exhausted. */
static uint32_t *last_at(struct making *making, uint64_t address) {
    const uint32_t number = aorta_keys_add(&making->addresses, (int64_t)address, 0, 0, &making->scratch);
    return making->scratch.failed ? NULL : &making->last[number];
}

static void add_block(struct aorta_memory *memory, const struct aorta_memory_block *block) {
    if (memory->blocks) memory->blocks[memory->block_count++] = *block;
}

static void allocate(struct making *making, uint32_t row) {
    const struct aorta_trace_allocation *allocation = &making->trace->allocations[row];
    const struct aorta_memory_block block = {.from_ns = allocation->at_ns,
                                             .to_ns = INT64_MAX,
                                             .bytes = allocation->bytes,
                                             .allocation = row,
                                             .use = AORTA_MEMORY_OTHER};
    uint32_t *last = last_at(making, allocation->address);
    if (!last) return;
    add_block(making->memory, &block);
    *last = (uint32_t)making->memory->block_count;
}

static void release(struct making *making, const struct aorta_trace_allocation *freed) {
    const uint32_t *last = last_at(making, freed->address);
    struct aorta_memory_block *before = last && *last ? &making->memory->blocks[*last - 1] : NULL;
    if (before && before->to_ns == INT64_MAX) {
        before->to_ns = freed->at_ns;
        return;
    }
    const struct aorta_memory_block block = {INT64_MIN, freed->at_ns, -freed->bytes, AORTA_TRACE_NONE,
                                             AORTA_MEMORY_BEFORE};
    add_block(making->memory, &block);
}

static void make_blocks(struct making *making) {
    const struct aorta_trace *trace = making->trace;
    const bool any = takes_any(making->rank);
    bool first = true;
    for (size_t i = 0; i < trace->allocation_count; i++) {
        const struct aorta_trace_allocation *allocation = &trace->allocations[i];
        if (!(any || allocation->device == making->rank->device) || !allocation->bytes) continue;
        if (first && allocation->allocated >= 0) making->before_bytes = allocation->allocated - allocation->bytes;
        first = false;
        if (allocation->bytes > 0)
            allocate(making, (uint32_t)i);
        else
            release(making, allocation);
    }
}

/* ---- passes ---- */

/* Whether no other operation encloses this one. */
static bool is_outermost(const struct aorta_trace *trace, const struct aorta_trace_operation *operation) {
    if (operation->range) return false;
    for (uint32_t at = operation->parent; at != AORTA_TRACE_NONE; at = trace->operations[at].parent)
        if (!trace->operations[at].range) return false;
    return true;
}

/* Backward passes are runs of autograd's operations without an operation of a forward pass between them. */
static void find_passes(struct making *making) {
    const struct aorta_trace *trace = making->trace;
    struct span *all = aorta_arena_raw(&making->scratch, trace->operation_count * sizeof *all);
    size_t count = 0;
    bool open = false;
    for (size_t i = 0; all && i < trace->operation_count; i++) {
        const struct aorta_trace_operation *operation = &trace->operations[i];
        if (!is_outermost(trace, operation)) continue;
        const bool backward = operation->gradient || aorta_begins(aorta_trace_text(trace, operation->name),
                                                                  "autograd::engine::evaluate_function");
        if (backward || operation->sequence >= 0)
            all[count++] = (struct span){operation->start_ns, operation->end_ns, backward};
    }
    if (count) qsort(all, count, sizeof *all, aorta_by_int64);
    making->passes = all; /* in place: there are at most as many passes */
    for (size_t i = 0; i < count; i++) {
        struct span *last = making->pass_count ? &all[making->pass_count - 1] : NULL;
        if (!all[i].backward)
            open = false;
        else if (!open)
            all[making->pass_count++] = all[i];
        else if (last && all[i].end_ns > last->end_ns)
            last->end_ns = all[i].end_ns;
        open |= all[i].backward;
    }
}

static void find_optimizers(struct making *making) {
    const struct aorta_trace *trace = making->trace;
    making->optimizers = aorta_arena_raw(&making->scratch, trace->annotation_count * sizeof *making->optimizers);
    for (size_t i = 0; making->optimizers && i < trace->annotation_count; i++) {
        const struct aorta_trace_annotation *range = &trace->annotations[i];
        const char *name = aorta_trace_text(trace, range->name);
        if (!aorta_begins(name, "Optimizer.step")) continue;
        making->optimizers[making->optimizer_count++] = (struct span){range->start_ns, range->end_ns, false};
        making->adam |= strstr(name, "Adam") != NULL;
    }
}

/* ---- uses ---- */

/* The first span that ends after the time. */
static const struct span *next_of(const struct span *spans, size_t count, int64_t time_ns) {
    const size_t place = aorta_count_until(spans, count, sizeof *spans, offsetof(struct span, end_ns), time_ns);
    return place < count ? &spans[place] : NULL;
}

static enum aorta_memory_use use_of(const struct making *making, const struct aorta_memory_block *block) {
    const struct span *optimizer = next_of(making->optimizers, making->optimizer_count, block->from_ns);
    const struct span *pass = next_of(making->passes, making->pass_count, block->from_ns);
    if (optimizer && optimizer->start_ns <= block->from_ns)
        return block->to_ns > optimizer->end_ns ? AORTA_MEMORY_OPTIMIZER : AORTA_MEMORY_WORKSPACE;
    if (pass && pass->start_ns <= block->from_ns)
        return block->to_ns > pass->end_ns ? AORTA_MEMORY_GRADIENTS : AORTA_MEMORY_WORKSPACE;
    if (pass) return block->to_ns > pass->start_ns ? AORTA_MEMORY_ACTIVATIONS : AORTA_MEMORY_WORKSPACE;
    return block->to_ns == INT64_MAX ? AORTA_MEMORY_OTHER : AORTA_MEMORY_WORKSPACE;
}

/* ---- changes over time ---- */

struct change {
    int64_t at_ns, bytes; /* at equal times, memory is freed before it is allocated */
    uint8_t use;
};

static struct change *make_changes(const struct aorta_memory *memory, size_t *count, struct aorta_arena *arena) {
    struct change *changes = aorta_arena_raw(arena, 2 * memory->block_count * sizeof *changes);
    *count = 0;
    for (size_t i = 0; changes && i < memory->block_count; i++) {
        const struct aorta_memory_block *block = &memory->blocks[i];
        changes[(*count)++] = (struct change){block->from_ns, block->bytes, block->use};
        if (block->to_ns != INT64_MAX) changes[(*count)++] = (struct change){block->to_ns, -block->bytes, block->use};
    }
    if (*count) qsort(changes, *count, sizeof *changes, aorta_by_int64_pair);
    return changes;
}

static void apply(const struct change *change, struct aorta_memory_part *now) {
    now->bytes += change->bytes;
    now->use[change->use] += change->bytes;
}

/* The gradients that exist at once at most. */
static int64_t most_gradients(struct making *making) {
    size_t count;
    int64_t bytes = 0, most = 0;
    const struct change *changes = make_changes(making->memory, &count, &making->scratch);
    for (size_t i = 0; i < count; i++) {
        if (changes[i].use != AORTA_MEMORY_GRADIENTS) continue;
        bytes += changes[i].bytes;
        if (bytes > most) most = bytes;
    }
    return most;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Adds memory from before the recording that is never freed, as up to three blocks. */
static void split_before(struct making *making) {
    struct aorta_memory *memory = making->memory;
    int64_t rest = making->before_bytes;
    for (size_t i = 0; i < memory->block_count; i++)
        if (memory->blocks[i].from_ns == INT64_MIN) rest -= memory->blocks[i].bytes;
    if (rest <= 0) return;
    const int64_t parameters = least(rest, most_gradients(making));
    const int64_t optimizer = making->adam ? least(rest - parameters, 2 * parameters) : 0;
    const int64_t parts[][2] = {{parameters, AORTA_MEMORY_PARAMETERS},
                                {optimizer, AORTA_MEMORY_OPTIMIZER},
                                {rest - parameters - optimizer, AORTA_MEMORY_BEFORE}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const struct aorta_memory_block block = {INT64_MIN, INT64_MAX, parts[i][0], AORTA_TRACE_NONE,
                                                 (uint8_t)parts[i][1]};
        if (block.bytes > 0) add_block(memory, &block);
    }
}

static void find_peak(struct making *making) {
    struct aorta_memory *memory = making->memory;
    size_t count;
    struct aorta_memory_part now = {0};
    const struct change *changes = make_changes(memory, &count, &making->scratch);
    for (size_t i = 0; i < count; i++) {
        apply(&changes[i], &now);
        if (now.bytes <= memory->peak_bytes) continue;
        memory->peak_bytes = now.bytes;
        memory->peak_ns = changes[i].at_ns;
        memcpy(memory->peak_use, now.use, sizeof now.use);
    }
    memory->peak_reserved = -1;
    for (size_t i = 0; i < making->trace->allocation_count; i++)
        if (making->trace->allocations[i].at_ns == memory->peak_ns)
            memory->peak_reserved = making->trace->allocations[i].reserved;
}

/* ---- rows at the peak ---- */

struct places {
    const struct aorta_trace *trace;
    struct aorta_nest_range *functions;
    struct aorta_forwards forwards;
};

static void place_of(const struct places *places, const struct aorta_trace_allocation *allocation,
                     struct aorta_memory_row *row) {
    const struct aorta_trace *trace = places->trace;
    uint32_t thread = allocation->thread;
    int64_t at_ns = allocation->at_ns;
    uint32_t operation =
        aorta_nest_find(trace->operations, trace->operation_count, sizeof *trace->operations, thread, at_ns);
    const struct aorta_trace_operation *forward =
        aorta_forward_of(&places->forwards, trace, operation == AORTA_NEST_NONE ? AORTA_TRACE_NONE : operation);
    while (operation != AORTA_NEST_NONE && trace->operations[operation].range)
        operation = trace->operations[operation].parent;
    if (operation != AORTA_NEST_NONE) row->operation = trace->operations[operation].name;
    if (forward) {
        thread = forward->thread;
        at_ns = forward->start_ns;
    }
    uint32_t frame =
        aorta_nest_find(places->functions, trace->function_count, sizeof *places->functions, thread, at_ns);
    for (; frame != AORTA_NEST_NONE; frame = places->functions[frame].parent) {
        const uint32_t name = places->functions[frame].number;
        uint32_t *of = aorta_module_name(aorta_trace_text(trace, name)) ? &row->module : &row->function;
        if (*of == AORTA_TRACE_NONE) *of = name;
    }
}

static AORTA_ORDER(by_place, struct aorta_memory_row,
                   AORTA_UP(use) AORTA_UP(operation) AORTA_UP(function) AORTA_UP(module));

static AORTA_ORDER(largest_first, struct aorta_memory_row, AORTA_DOWN(bytes) AORTA_THEN(by_place));

static void join_rows(struct aorta_memory *memory) {
    size_t rows = 0;
    if (memory->count) qsort(memory->rows, memory->count, sizeof *memory->rows, by_place);
    for (size_t i = 0; i < memory->count; i++) {
        if (rows && !by_place(&memory->rows[rows - 1], &memory->rows[i])) {
            memory->rows[rows - 1].bytes += memory->rows[i].bytes;
            memory->rows[rows - 1].blocks += memory->rows[i].blocks;
        } else {
            memory->rows[rows++] = memory->rows[i];
        }
    }
    memory->count = rows;
    if (rows) qsort(memory->rows, rows, sizeof *memory->rows, largest_first);
}

static void make_rows(struct making *making, struct aorta_arena *arena) {
    struct aorta_memory *memory = making->memory;
    const struct aorta_trace *trace = making->trace;
    const struct places places = {trace, aorta_nest_of(trace->functions, trace->function_count, &making->scratch),
                                  aorta_forwards_make(trace, &making->scratch)};
    memory->rows = aorta_arena_raw(arena, memory->block_count * sizeof *memory->rows);
    if (making->scratch.failed || !memory->rows) return;
    AORTA_EACH (const struct aorta_memory_block, block, memory->blocks, memory->block_count) {
        if (block->from_ns > memory->peak_ns || block->to_ns <= memory->peak_ns) continue;
        struct aorta_memory_row *row = &memory->rows[memory->count++];
        *row = (struct aorta_memory_row){.use = (enum aorta_memory_use)block->use,
                                         .operation = AORTA_TRACE_NONE,
                                         .function = AORTA_TRACE_NONE,
                                         .module = AORTA_TRACE_NONE,
                                         .bytes = block->bytes,
                                         .blocks = 1};
        if (block->allocation != AORTA_TRACE_NONE) place_of(&places, &trace->allocations[block->allocation], row);
    }
    join_rows(memory);
}

/* ---- all of it ---- */

void aorta_memory_make(const struct aorta_trace_rank *rank, struct aorta_arena *arena, struct aorta_memory *memory) {
    enum { BEFORE = 3 }; /* blocks that split_before adds */
    struct making making = {.rank = rank, .trace = rank->trace, .memory = memory};
    *memory = (struct aorta_memory){.peak_ns = INT64_MIN};
    memory->blocks = aorta_arena_raw(arena, (rank->trace->allocation_count + BEFORE) * sizeof *memory->blocks);
    making.last = aorta_arena_alloc(&making.scratch, rank->trace->allocation_count * sizeof *making.last);
    if (memory->blocks && making.last) {
        make_blocks(&making);
        find_passes(&making);
        find_optimizers(&making);
        for (size_t i = 0; i < memory->block_count; i++)
            if (memory->blocks[i].from_ns != INT64_MIN)
                memory->blocks[i].use = (uint8_t)use_of(&making, &memory->blocks[i]);
        split_before(&making);
        find_peak(&making);
        make_rows(&making, arena);
    }
    if (!memory->block_count) memory->reason = "the file has no allocations (torch.profiler: profile_memory=True)";
    aorta_keys_free(&making.addresses);
    aorta_arena_end(&making.scratch, arena);
}

void aorta_memory_over(const struct aorta_memory *memory, const int64_t *bounds, size_t count,
                       struct aorta_arena *arena, struct aorta_memory_part *parts) {
    size_t change_count, at = 0;
    struct aorta_memory_part now = {0};
    struct aorta_arena scratch = {0};
    const struct change *changes = make_changes(memory, &change_count, &scratch);
    for (size_t i = 0; i < count; i++) {
        for (; at < change_count && changes[at].at_ns < bounds[i]; at++) apply(&changes[at], &now);
        parts[i] = now;
        for (; at < change_count && changes[at].at_ns < bounds[i + 1]; at++) {
            apply(&changes[at], &now);
            if (now.bytes > parts[i].bytes) parts[i] = now;
        }
    }
    aorta_arena_end(&scratch, arena);
}
