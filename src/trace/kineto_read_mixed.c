/* Files with the events of several processes, without labels, are read again, and the processes become ranks:
 * - by place, where each process's events are together in the file,
 *     | host 593  device 0  "Record Window End" | host 594  device 0  "Record Window End" |
 * - by launches, where the order is another one: work is of the process that launched it. */
#include "base/arena.h"
#include "base/array.h"
#include "base/sort.h"
#include "trace/kineto_read_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t WORK = NO_RANK - 1, LATER = NO_RANK - 1;
enum { MOST_RANKS = 4096, FEW = 10 /* one of so many is noise */ };

struct numbered { /* a launch, or its work */
    uint64_t number;
    int64_t at_ns;
    size_t rank; /* of a launch; WORK */
};

struct owner { /* of a device */
    int64_t device;
    size_t rank, own, all; /* work that this rank launched, of all whose launch is known */
};

struct kineto_mixed {
    size_t marks;    /* before the section at hand */
    int64_t process; /* of the section at hand */
    struct numbered *numbered;
    struct owner *owners;
    size_t count, owner_count;
    struct aorta_arena memory;
};

void aorta_trace_kineto_mixed_free(struct kineto_mixed *mixed) {
    if (mixed) aorta_arena_free(&mixed->memory);
    free(mixed);
}

/* ---- by launches ---- */

/* Launches come before the work with their number. */
static int by_number(const void *left, const void *right) {
    const struct numbered *a = left, *b = right;
    if (a->number != b->number) return aorta_order_uint64(a->number, b->number);
    const int order = (a->rank == WORK) - (b->rank == WORK);
    return order ? order : aorta_order_int64(a->at_ns, b->at_ns);
}

static size_t find_number(const struct kineto_mixed *mixed, uint64_t number, size_t rank) {
    const struct numbered key = {number, INT64_MIN, rank};
    return aorta_count_below(mixed->numbered, mixed->count, sizeof key, &key, by_number);
}

/* The rank that launched work with this number: the only one that had launched it before, or the last one where
 * launches and work alternate. */
static size_t launcher_of(const struct kineto_mixed *mixed, uint64_t number, int64_t start_ns) {
    if (!mixed->count) return NO_RANK;
    const struct numbered *launch = mixed->numbered + find_number(mixed, number, 0);
    const struct numbered *work = mixed->numbered + find_number(mixed, number, WORK);
    const size_t count = (size_t)(work - launch), end = find_number(mixed, number + 1, 0);
    bool only = count <= MOST_RANKS, alternate = only && work + count == mixed->numbered + end;
    size_t rank = NO_RANK;
    for (size_t i = 0; i < count && (only || alternate); i++, launch++, work++) {
        alternate = alternate && launch->at_ns <= work->at_ns && (i + 1 == count || work->at_ns < launch[1].at_ns);
        if (launch->at_ns > start_ns) continue;
        only &= rank == NO_RANK || rank == launch->rank;
        rank = launch->rank;
    }
    return only || alternate ? rank : NO_RANK;
}

static struct owner *owner_of(const struct kineto_mixed *mixed, int64_t device) {
    for (size_t i = 0; i < mixed->owner_count; i++)
        if (mixed->owners[i].device == device) return &mixed->owners[i];
    return NULL;
}

static void take_numbers(const struct trace_kineto *kineto, const struct aorta_trace *whole) {
    struct numbered *at = kineto->mixed->numbered;
    for (size_t i = 0; i < whole->call_count; i++) {
        const struct aorta_trace_call *call = &whole->calls[i];
        const size_t rank = aorta_trace_kineto_rank_of(kineto, whole->threads[call->thread].process);
        if (rank != NO_RANK && call->correlation && aorta_trace_call_launches(call))
            *at++ = (struct numbered){call->correlation, call->start_ns, rank};
    }
    for (size_t i = 0; i < whole->work_count; i++)
        if (whole->work[i].correlation)
            *at++ = (struct numbered){whole->work[i].correlation, whole->work[i].start_ns, WORK};
    kineto->mixed->count = (size_t)(at - kineto->mixed->numbered);
    qsort(kineto->mixed->numbered, kineto->mixed->count, sizeof *at, by_number);
}

/* From the end: the first launches may not be in the recording. */
static void take_launches(const struct trace_kineto *kineto, const struct aorta_trace *whole) {
    struct kineto_mixed *mixed = kineto->mixed;
    const size_t most = whole->call_count + whole->work_count;
    mixed->numbered = aorta_arena_alloc(&mixed->memory, most * sizeof *mixed->numbered);
    mixed->owners = aorta_arena_alloc(&mixed->memory, whole->stream_count * sizeof *mixed->owners);
    if (mixed->memory.failed) return;
    take_numbers(kineto, whole);
    for (size_t i = whole->work_count; i-- > 0;) {
        const struct aorta_trace_work *work = &whole->work[i];
        const size_t rank = launcher_of(mixed, work->correlation, work->start_ns);
        if (rank == NO_RANK) continue;
        struct owner *owner = owner_of(mixed, work->device);
        if (!owner) {
            owner = &mixed->owners[mixed->owner_count++];
            *owner = (struct owner){.device = work->device, .rank = rank};
        }
        owner->all++;
        owner->own += owner->rank == rank;
    }
}

static size_t rank_by_launch(const struct trace_kineto *kineto, const struct kineto_event *event) {
    int64_t device, number;
    if (!aorta_json_get_int(event->argument[ARGUMENT_DEVICE], &device))
        device = aorta_trace_kineto_id(event->field[FIELD_PROCESS]);
    const struct owner *owner = owner_of(kineto->mixed, device);
    if (owner && owner->all - owner->own <= owner->all / FEW) return owner->rank;
    if (!aorta_json_get_int(event->argument[ARGUMENT_CORRELATION], &number) || number <= 0) return NO_RANK;
    return launcher_of(kineto->mixed, (uint64_t)number, event->start_ns);
}

/* ---- by place ---- */

/* A section begins with the first event of another process, or after the profiler's mark at the end of the section
 * before it. Where the events are in another order, events of the third section are of no rank. */
static aorta_status enter_section(struct trace_kineto *kineto, int64_t process) {
    struct kineto_mixed *mixed = kineto->mixed;
    const size_t most = kineto->process_count > kineto->marks ? kineto->process_count : kineto->marks + 1;
    const bool same = kineto->rank_count && mixed->process == process && mixed->marks == kineto->marks;
    char label[32];
    size_t rank;
    if (same || aorta_trace_kineto_rank_of(kineto, process) == NO_RANK) return NULL;
    mixed->process = process;
    mixed->marks = kineto->marks;
    kineto->disordered |= kineto->rank_count == most;
    snprintf(label, sizeof label, "section %zu", kineto->rank_count);
    return kineto->disordered ? NULL : aorta_trace_kineto_find_rank(kineto, label, strlen(label), &rank);
}

/* ---- the file ---- */

aorta_status aorta_trace_kineto_place(struct trace_kineto *kineto, const struct kineto_event *event, bool of_device) {
    size_t rank = NO_RANK;
    if (kineto->by_place && !of_device)
        AORTA_TRY(enter_section(kineto, aorta_trace_kineto_id(event->field[FIELD_PROCESS])));
    if (kineto->by_place)
        rank = kineto->disordered ? NO_RANK : kineto->rank_count - 1;
    else if (of_device)
        rank = rank_by_launch(kineto, event);
    else
        return NULL; /* by its process */
    kineto->builder = rank < kineto->rank_count ? kineto->ranks[rank].builder : kineto->whole;
    return NULL;
}

/* Processes whose threads launch; where the place decides, a rank is made when its section begins. */
static aorta_status add_processes(struct trace_kineto *kineto, const struct aorta_trace *whole) {
    const bool *launching = aorta_trace_launching_threads(whole, &kineto->mixed->memory);
    for (size_t i = 0; launching && i < whole->thread_count; i++) {
        struct kineto_process added = {.process = whole->threads[i].process, .rank = LATER};
        char label[32];
        if (!launching[i] || aorta_trace_kineto_rank_of(kineto, added.process) != NO_RANK) continue;
        snprintf(label, sizeof label, "process %zu", kineto->process_count);
        if (!kineto->by_place) AORTA_TRY(aorta_trace_kineto_find_rank(kineto, label, strlen(label), &added.rank));
        AORTA_TRY(aorta_array_reserve(&kineto->processes, &kineto->process_capacity, kineto->process_count + 1,
                                      sizeof added, "processes of a merged trace"));
        kineto->processes[kineto->process_count++] = added;
    }
    return NULL;
}

aorta_status aorta_trace_kineto_separate(struct trace_kineto *kineto, const struct aorta_trace *whole, bool by_place) {
    kineto->by_place = by_place;
    kineto->mixed = calloc(1, sizeof *kineto->mixed);
    if (!kineto->mixed) return AORTA_ERROR(AORTA_MEMORY, "no memory to separate the ranks of a trace");
    if (whole->processes > MOST_RANKS) return NULL;
    AORTA_TRY(add_processes(kineto, whole));
    if (!by_place) take_launches(kineto, whole);
    return aorta_arena_check(&kineto->mixed->memory, "the launches of a merged trace");
}

aorta_status aorta_trace_kineto_count_processes(const struct trace_kineto *kineto, struct aorta_trace *trace) {
    struct aorta_arena memory = {0};
    if (trace->own || trace->format != AORTA_TRACE_KINETO) return NULL;
    const bool *launching = aorta_trace_launching_threads(trace, &memory);
    for (size_t i = 0; launching && i < trace->thread_count; i++) {
        size_t before = 0;
        while (before < i && !(launching[before] && trace->threads[before].process == trace->threads[i].process))
            before++;
        trace->processes += launching[i] && before == i;
    }
    if (trace->processes == 1 && trace->repeated > trace->call_count / FEW) trace->processes = 2;
    if (!kineto->rank_count && trace->processes < kineto->marks) trace->processes = kineto->marks;
    aorta_status status = aorta_arena_check(&memory, "the processes of a trace");
    aorta_arena_free(&memory);
    return status;
}
