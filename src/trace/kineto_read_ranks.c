/* Merged files: several ranks in one file, each with correlations, operations and devices of its own. A rank is known
 * - by the name of its process, "rank 3", which has that number (our own merge),
 * - by a label before the number of the process, "[TP03] 59814" (SGLang),
 * - by the argument `rank` of the events that name its processes (TraceLens).
 * And what a file says besides its events. */
#include "base/arena.h"
#include "base/sort.h"
#include "trace/kineto_read.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t NO_RANK = SIZE_MAX;

static size_t rank_of(const struct trace_kineto *kineto, int64_t process) {
    for (size_t i = 0; i < kineto->process_count; i++)
        if (kineto->processes[i].process == process) return kineto->processes[i].rank;
    return NO_RANK;
}

static struct aorta_trace_builder *builder_of(const struct trace_kineto *kineto, int64_t process) {
    const size_t rank = rank_of(kineto, process);
    return rank < kineto->rank_count ? kineto->ranks[rank].builder : kineto->whole;
}

/* The rank with this label, which is made if it is new. NO_RANK if memory is exhausted. */
static size_t find_rank(struct trace_kineto *kineto, const char *label, size_t length) {
    for (size_t i = 0; i < kineto->rank_count; i++) {
        const char *known = kineto->ranks[i].label;
        if (strlen(known) == length && !memcmp(known, label, length)) return i;
    }
    struct kineto_rank made = {.label = aorta_arena_printf(&kineto->memory, "%.*s", (int)length, label)};
    aorta_status status = aorta_trace_builder_create(AORTA_TRACE_KINETO, aorta_json_stream_name(kineto->stream),
                                                     kineto->options, &made.builder);
    kineto->memory.failed |= status != NULL;
    aorta_status_free(status);
    if (aorta_arena_append(&kineto->memory, &kineto->ranks, &kineto->rank_capacity, &kineto->rank_count, &made,
                           sizeof made))
        return kineto->rank_count - 1;
    aorta_trace_builder_destroy(made.builder);
    return NO_RANK;
}

/* ---- by processes ---- */

static void add_process(struct trace_kineto *kineto, struct kineto_process process) {
    aorta_arena_append(&kineto->memory, &kineto->processes, &kineto->process_capacity, &kineto->process_count, &process,
                       sizeof process);
}

void aorta_trace_kineto_name_process(struct trace_kineto *kineto, int64_t process, const char *name,
                                     struct aorta_json_value rank) {
    char label[32];
    int64_t number;
    snprintf(label, sizeof label, "rank %" PRId64, process);
    const bool own = process >= 0 && process <= INT32_MAX && !strcmp(name, label);
    const bool said = !own && aorta_json_get_int(rank, &number) && number >= 0 && number <= INT32_MAX;
    if ((!own && !said) || builder_of(kineto, process) != kineto->whole) return;
    if (said) snprintf(label, sizeof label, "rank %" PRId64, number);
    const size_t found = find_rank(kineto, label, strlen(label));
    if (found != NO_RANK) kineto->ranks[found].own |= own;
    add_process(kineto, (struct kineto_process){process, found});
}

/* ---- by labels ---- */

size_t aorta_trace_kineto_label(struct aorta_json_value process) {
    if (!aorta_json_is_string(process)) return 0;
    const char *begin = process.text + 1, *space = memrchr(begin, ' ', process.length - 2);
    for (const char *at = begin; space && at < space; at++)
        if (*at >= '0' && *at <= '9') return (size_t)(space - begin);
    return 0;
}

void aorta_trace_kineto_choose_rank(struct trace_kineto *kineto, struct kineto_event *event) {
    struct aorta_json_value *process = &event->field[FIELD_PROCESS];
    kineto->builder = kineto->whole;
    const size_t length = aorta_trace_kineto_label(*process);
    if (length) {
        const size_t rank = find_rank(kineto, process->text + 1, length);
        if (rank != NO_RANK) kineto->builder = kineto->ranks[rank].builder;
        *process = (struct aorta_json_value){process->text + length + 2, process->length - length - 3};
    } else if (kineto->by_place && kineto->rank_count) {
        kineto->builder = kineto->ranks[kineto->rank_count - 1].builder;
    } else if (kineto->process_count) {
        kineto->builder = builder_of(kineto, aorta_trace_kineto_number(*process));
    }
}

/* ---- numbers ---- */

/* The number at a text, bounded because a damaged label may have many digits. */
static int digits_at(const char *at) {
    int number = 0;
    for (; *at >= '0' && *at <= '9' && number < 10000; at++) number = 10 * number + (*at - '0');
    return number;
}

/* The number after the key in a label, "[TP03-DP01]"; 0 if there is none. */
static int number_behind(const char *label, const char *key) {
    const char *at = strstr(label, key);
    return at ? digits_at(at + strlen(key)) : 0;
}

static int last_number(const char *label) {
    int number = 0;
    for (const char *at = label; *at; at++)
        if (*at >= '0' && *at <= '9' && (at == label || at[-1] < '0' || at[-1] > '9')) number = digits_at(at);
    return number;
}

static int number_of(const char *label) {
    return strstr(label, "TP") ? number_behind(label, "TP") : last_number(label);
}

/* Orders ranks by pipeline stage, then model copy, then tensor-parallel rank. */
static int64_t place_of(const char *label) {
    const int64_t most = 100000;
    return (number_behind(label, "PP") * most + number_behind(label, "DP")) * most + number_behind(label, "TP");
}

static bool are_distinct(const struct trace_kineto *kineto) {
    for (size_t i = 0; i < kineto->rank_count; i++)
        for (size_t j = 0; j < i; j++)
            if (number_of(kineto->ranks[i].label) == number_of(kineto->ranks[j].label)) return false;
    return true;
}

/* The number of ranks before this one. */
static int ordinal_of(const struct trace_kineto *kineto, size_t rank) {
    int before = 0;
    const int64_t own = place_of(kineto->ranks[rank].label);
    for (size_t i = 0; i < kineto->rank_count; i++) {
        const int64_t place = place_of(kineto->ranks[i].label);
        before += place < own || (place == own && i < rank);
    }
    return before;
}

static void add_devices(const struct aorta_trace *whole, struct aorta_trace_builder *builder) {
    for (size_t i = 0; i < whole->device_count; i++) {
        struct aorta_trace_device device = whole->devices[i];
        const char *name = aorta_trace_text(whole, device.name);
        if (device.name != AORTA_TRACE_NONE) device.name = aorta_trace_builder_text(builder, name, strlen(name));
        aorta_trace_builder_device(builder, &device);
    }
}

void aorta_trace_kineto_number_ranks(struct trace_kineto *kineto, const struct aorta_trace *whole) {
    const bool distinct = are_distinct(kineto);
    for (size_t i = 0; i < kineto->rank_count; i++) {
        struct kineto_rank *rank = &kineto->ranks[i];
        struct aorta_trace *head = aorta_trace_builder_head(rank->builder);
        head->rank = kineto->mixed ? -1 : distinct ? number_of(rank->label) : ordinal_of(kineto, i);
        if (rank->own) continue;
        head->world = whole->world;
        add_devices(whole, rank->builder);
    }
}

/* Files with events of several processes, but without labels, are read again, and the processes become ranks: - by
 * place, if each process's events are together in the file,
 *     | host 593  device 0  "Record Window End" | host 594  device 0  "Record Window End" |
 * - by launches otherwise: work belongs to the process that launched it. */

static const size_t WORK = SIZE_MAX - 1, LATER = SIZE_MAX - 1;
enum { MOST_RANKS = 4096, FEW = 10 /* one of FEW is noise */ };

struct numbered { /* a launch, or its work */
    uint64_t number;
    int64_t at_ns;
    size_t rank; /* of a launch; WORK */
};

struct owner { /* of a device */
    int64_t device;
    size_t rank, own, all; /* work launched by this rank; all work with a known launch */
};

struct kineto_mixed {
    size_t marks;    /* before the current section */
    int64_t process; /* of the current section */
    struct numbered *numbered;
    struct owner *owners;
    size_t count, owner_count;
};

/* ---- by launches ---- */

/* Launches come before the work with their number. */
static AORTA_ORDER(by_number, struct numbered,
                   AORTA_UP(number) AORTA_BY((a->rank == WORK) - (b->rank == WORK)) AORTA_UP(at_ns));

static size_t find_number(const struct kineto_mixed *mixed, uint64_t number, size_t rank) {
    const struct numbered key = {number, INT64_MIN, rank};
    return aorta_count_below(mixed->numbered, mixed->count, sizeof key, &key, by_number);
}

/* The rank that launched work with this number: the only rank that had launched it before, or the last one if launches
 * and work alternate. NO_RANK if unknown. */
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
    AORTA_EACH (const struct aorta_trace_call, call, whole->calls, whole->call_count) {
        const size_t rank = rank_of(kineto, whole->threads[call->thread].process);
        if (rank != NO_RANK && call->correlation && aorta_trace_call_launches(call))
            *at++ = (struct numbered){call->correlation, call->start_ns, rank};
    }
    for (size_t i = 0; i < whole->work_count; i++)
        if (whole->work[i].correlation)
            *at++ = (struct numbered){whole->work[i].correlation, whole->work[i].start_ns, WORK};
    kineto->mixed->count = (size_t)(at - kineto->mixed->numbered);
    qsort(kineto->mixed->numbered, kineto->mixed->count, sizeof *at, by_number);
}

/* Backwards, as the launches of the first work may not be in the recording. */
static void take_launches(struct trace_kineto *kineto, const struct aorta_trace *whole) {
    struct kineto_mixed *mixed = kineto->mixed;
    const size_t most = whole->call_count + whole->work_count;
    mixed->numbered = aorta_arena_alloc(&kineto->memory, most * sizeof *mixed->numbered);
    mixed->owners = aorta_arena_alloc(&kineto->memory, whole->stream_count * sizeof *mixed->owners);
    if (kineto->memory.failed) return;
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
        device = aorta_trace_kineto_number(event->field[FIELD_PROCESS]);
    const struct owner *owner = owner_of(kineto->mixed, device);
    if (owner && owner->all - owner->own <= owner->all / FEW) return owner->rank;
    if (!aorta_json_get_int(event->argument[ARGUMENT_CORRELATION], &number) || number <= 0) return NO_RANK;
    return launcher_of(kineto->mixed, (uint64_t)number, event->start_ns);
}

/* ---- by place ---- */

/* A section begins with the first event of another process, or after the profiler's mark at the end of the previous
 * section. If there are more sections than processes, the events are not in order, and later ones get no rank. */
static void enter_section(struct trace_kineto *kineto, int64_t process) {
    struct kineto_mixed *mixed = kineto->mixed;
    const size_t most = kineto->process_count > kineto->marks ? kineto->process_count : kineto->marks + 1;
    const bool same = kineto->rank_count && mixed->process == process && mixed->marks == kineto->marks;
    char label[32];
    if (same || rank_of(kineto, process) == NO_RANK) return;
    mixed->process = process;
    mixed->marks = kineto->marks;
    kineto->disordered |= kineto->rank_count == most;
    snprintf(label, sizeof label, "section %zu", kineto->rank_count);
    if (!kineto->disordered) find_rank(kineto, label, strlen(label));
}

/* ---- the file ---- */

void aorta_trace_kineto_place(struct trace_kineto *kineto, const struct kineto_event *event, bool of_device) {
    size_t rank = NO_RANK;
    if (kineto->by_place && !of_device) enter_section(kineto, aorta_trace_kineto_number(event->field[FIELD_PROCESS]));
    if (kineto->by_place)
        rank = kineto->disordered ? NO_RANK : kineto->rank_count - 1;
    else if (of_device)
        rank = rank_by_launch(kineto, event);
    else
        return; /* by its process */
    kineto->builder = rank < kineto->rank_count ? kineto->ranks[rank].builder : kineto->whole;
}

/* Adds the processes whose threads launch. By place, a rank is made only when its section begins. */
static void add_processes(struct trace_kineto *kineto, const struct aorta_trace *whole) {
    const bool *launching = aorta_trace_launching_threads(whole, &kineto->memory);
    for (size_t i = 0; launching && i < whole->thread_count; i++) {
        struct kineto_process added = {.process = whole->threads[i].process, .rank = LATER};
        char label[32];
        if (!launching[i] || rank_of(kineto, added.process) != NO_RANK) continue;
        snprintf(label, sizeof label, "process %zu", kineto->process_count);
        if (!kineto->by_place) added.rank = find_rank(kineto, label, strlen(label));
        add_process(kineto, added);
    }
}

void aorta_trace_kineto_separate(struct trace_kineto *kineto, const struct aorta_trace *whole, bool by_place) {
    kineto->by_place = by_place;
    kineto->mixed = aorta_arena_alloc(&kineto->memory, sizeof *kineto->mixed);
    if (!kineto->mixed || whole->processes > MOST_RANKS) return;
    add_processes(kineto, whole);
    if (!by_place) take_launches(kineto, whole);
}

void aorta_trace_kineto_count_processes(struct trace_kineto *kineto, struct aorta_trace *trace) {
    if (trace->own || trace->format != AORTA_TRACE_KINETO) return;
    const bool *launching = aorta_trace_launching_threads(trace, &kineto->memory);
    for (size_t i = 0; launching && i < trace->thread_count; i++) {
        size_t before = 0;
        while (before < i && !(launching[before] && trace->threads[before].process == trace->threads[i].process))
            before++;
        trace->processes += launching[i] && before == i;
    }
    if (trace->processes == 1 && trace->repeated > trace->call_count / FEW) trace->processes = 2;
    if (!kineto->rank_count && trace->processes < kineto->marks) trace->processes = kineto->marks;
}

/* ---- what a file says besides its events: devices, ranks, the base of its times ---- */

static int64_t member_int(struct trace_kineto *kineto, struct aorta_json_value object, const char *name) {
    return aorta_trace_kineto_int(kineto, aorta_json_find(object, name), aorta_json_stream_offset(kineto->stream));
}

static int32_t member_small(struct trace_kineto *kineto, struct aorta_json_value object, const char *name) {
    return aorta_trace_kineto_small(kineto, aorta_json_find(object, name), aorta_json_stream_offset(kineto->stream));
}

static void read_devices(struct trace_kineto *kineto, struct aorta_json_value list) {
    struct aorta_json_cursor cursor = aorta_json_elements(list);
    struct aorta_json_value object;
    while (aorta_json_next_element(&cursor, &object)) {
        const struct aorta_trace_device device = {
            .id = member_int(kineto, object, "id"),
            .name = aorta_trace_kineto_text(kineto, aorta_json_find(object, "name")),
            .memory_bytes = member_int(kineto, object, "totalGlobalMem"),
            .multiprocessors = member_small(kineto, object, "numSms"),
            .major = member_small(kineto, object, "computeMajor"),
            .minor = member_small(kineto, object, "computeMinor"),
        };
        aorta_trace_builder_device(kineto->builder, &device);
    }
}

static void read_distributed(struct trace_kineto *kineto, struct aorta_json_value object) {
    struct aorta_trace *head = aorta_trace_builder_head(kineto->builder);
    head->rank = member_small(kineto, object, "rank");
    head->world = member_small(kineto, object, "world_size");
    head->backend = aorta_trace_kineto_text(kineto, aorta_json_find(object, "backend"));
    head->library = aorta_trace_kineto_text(kineto, aorta_json_find(object, "nccl_version"));
}

/* Reads the facts of our own writer; only `true` counts. */
static void read_own(struct trace_kineto *kineto, struct aorta_json_value object) {
    const struct aorta_json_value apart = aorta_json_find(object, "steps_apart");
    aorta_trace_builder_head(kineto->builder)->own = true;
    if (aorta_json_key_is(apart, "true")) aorta_trace_builder_head(kineto->builder)->steps_by = AORTA_STEPS_APART;
}

/* The format of a file that our merge read, as the cost of recording depends on it. */
static void read_format(struct trace_kineto *kineto, struct aorta_json_value name) {
    for (int i = 0; i < AORTA_TRACE_FORMAT_COUNT; i++)
        if (aorta_json_text_is(name, aorta_trace_format_name((enum aorta_trace_format)i)))
            aorta_trace_builder_head(kineto->builder)->format = (enum aorta_trace_format)i;
}

/* Reads devices and groups of the ranks' own files. */
static void read_ranks(struct trace_kineto *kineto, struct aorta_json_value list) {
    struct aorta_json_cursor cursor = aorta_json_elements(list);
    struct aorta_json_value object;
    while (aorta_json_next_element(&cursor, &object)) {
        const struct aorta_json_value head = aorta_json_find(object, "head");
        kineto->builder = builder_of(kineto, member_int(kineto, object, "rank"));
        if (kineto->builder == kineto->whole) continue;
        read_format(kineto, aorta_json_find(object, "format"));
        if (!head.length) continue;
        const struct aorta_json_value devices = aorta_json_find(head, "deviceProperties");
        const struct aorta_json_value distributed = aorta_json_find(head, "distributedInfo");
        if (devices.length) read_devices(kineto, devices);
        if (distributed.length) read_distributed(kineto, distributed);
    }
    kineto->builder = kineto->whole;
}

static void read_base(struct trace_kineto *kineto, struct aorta_json_value value) {
    int64_t base_ns;
    if (aorta_json_get_int(value, &base_ns)) aorta_trace_builder_head(kineto->builder)->base_ns = base_ns;
}

aorta_status aorta_trace_kineto_member(struct trace_kineto *kineto, struct aorta_json_value key) {
    static const struct {
        const char *name;
        void (*read)(struct trace_kineto *kineto, struct aorta_json_value value);
    } members[] = {{"deviceProperties", read_devices},
                   {"distributedInfo", read_distributed},
                   {"baseTimeNanoseconds", read_base},
                   {"aorta", read_own},
                   {"ranks", read_ranks}};
    struct aorta_json_value value;
    size_t i = 0;
    while (i < sizeof members / sizeof *members && !aorta_json_key_is(key, members[i].name)) i++;
    if (i == sizeof members / sizeof *members) return aorta_json_stream_skip(kineto->stream);
    AORTA_TRY(aorta_json_stream_value(kineto->stream, &value));
    kineto->builder = kineto->whole;
    members[i].read(kineto, value);
    return NULL;
}
