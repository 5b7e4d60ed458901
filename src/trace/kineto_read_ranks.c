/* Merged files: several ranks in one file, each with correlations, operations and devices of its own. A rank is known
 * - by the name of its process, "rank 3", which has that number (our own merge),
 * - by a label before the number of the process, "[TP03] 59814" (SGLang),
 * - by the argument `rank` of the events that name its processes (TraceLens). */
#include "base/arena.h"
#include "base/array.h"
#include "base/sort.h"
#include "trace/kineto_read_internal.h"
#include "trace/xplane.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct aorta_trace_builder *aorta_trace_kineto_take_rank(struct trace_kineto *kineto, size_t rank) {
    if (rank >= kineto->rank_count) return NULL;
    struct aorta_trace_builder *builder = kineto->ranks[rank].builder;
    kineto->ranks[rank].builder = NULL;
    return builder;
}

void aorta_trace_kineto_ranks_free(struct trace_kineto *kineto) {
    for (size_t i = 0; i < kineto->rank_count; i++) {
        aorta_trace_builder_destroy(kineto->ranks[i].builder);
        free(kineto->ranks[i].label);
    }
    free(kineto->ranks);
    free(kineto->processes);
}

size_t aorta_trace_kineto_rank_of(const struct trace_kineto *kineto, int64_t process) {
    for (size_t i = 0; i < kineto->process_count; i++)
        if (kineto->processes[i].process == process) return kineto->processes[i].rank;
    return NO_RANK;
}

struct aorta_trace_builder *aorta_trace_kineto_builder_of(const struct trace_kineto *kineto, int64_t process) {
    const size_t rank = aorta_trace_kineto_rank_of(kineto, process);
    return rank < kineto->rank_count ? kineto->ranks[rank].builder : kineto->whole;
}

aorta_status aorta_trace_kineto_find_rank(struct trace_kineto *kineto, const char *label, size_t length, size_t *rank) {
    for (*rank = 0; *rank < kineto->rank_count; ++*rank) {
        const char *known = kineto->ranks[*rank].label;
        if (strlen(known) == length && !memcmp(known, label, length)) return NULL;
    }
    AORTA_TRY(aorta_array_reserve(&kineto->ranks, &kineto->rank_capacity, kineto->rank_count + 1, sizeof *kineto->ranks,
                                  "ranks of a merged trace"));
    struct kineto_rank made = {.label = strndup(label, length)};
    if (!made.label) return AORTA_ERROR(AORTA_MEMORY, "no memory for the ranks of a merged trace");
    aorta_status status = aorta_trace_builder_create(AORTA_TRACE_KINETO, aorta_json_stream_name(kineto->stream),
                                                     kineto->options, &made.builder);
    if (status)
        free(made.label);
    else
        kineto->ranks[kineto->rank_count++] = made;
    return status;
}

/* ---- by processes ---- */

static aorta_status add_process(struct trace_kineto *kineto, struct kineto_process process) {
    AORTA_TRY(aorta_array_reserve(&kineto->processes, &kineto->process_capacity, kineto->process_count + 1,
                                  sizeof process, "processes of a merged trace"));
    kineto->processes[kineto->process_count++] = process;
    return NULL;
}

aorta_status aorta_trace_kineto_name_process(struct trace_kineto *kineto, int64_t process, const char *name,
                                             struct aorta_json_value rank) {
    char label[32];
    int64_t number;
    snprintf(label, sizeof label, "rank %" PRId64, process);
    const bool own = process >= 0 && process <= INT32_MAX && !strcmp(name, label);
    const bool said = !own && aorta_json_get_int(rank, &number) && number >= 0 && number <= INT32_MAX;
    if ((!own && !said) || aorta_trace_kineto_builder_of(kineto, process) != kineto->whole) return NULL;
    if (said) snprintf(label, sizeof label, "rank %" PRId64, number);
    struct kineto_process added = {.process = process};
    AORTA_TRY(aorta_trace_kineto_find_rank(kineto, label, strlen(label), &added.rank));
    kineto->ranks[added.rank].own |= own;
    return add_process(kineto, added);
}

/* ---- by labels ---- */

size_t aorta_trace_kineto_label(struct aorta_json_value process) {
    if (!aorta_json_is_string(process)) return 0;
    const char *begin = process.text + 1, *space = memrchr(begin, ' ', process.length - 2);
    for (const char *at = begin; space && at < space; at++)
        if (*at >= '0' && *at <= '9') return (size_t)(space - begin);
    return 0;
}

aorta_status aorta_trace_kineto_choose_rank(struct trace_kineto *kineto, struct kineto_event *event) {
    struct aorta_json_value *process = &event->field[FIELD_PROCESS];
    kineto->builder = kineto->whole;
    const size_t length = aorta_trace_kineto_label(*process);
    if (length) {
        size_t rank;
        AORTA_TRY(aorta_trace_kineto_find_rank(kineto, process->text + 1, length, &rank));
        kineto->builder = kineto->ranks[rank].builder;
        *process = (struct aorta_json_value){process->text + length + 2, process->length - length - 3};
    } else if (kineto->by_place && kineto->rank_count) {
        kineto->builder = kineto->ranks[kineto->rank_count - 1].builder;
    } else if (kineto->process_count) {
        kineto->builder = aorta_trace_kineto_builder_of(kineto, aorta_trace_kineto_id(*process));
    }
    return NULL;
}

/* ---- numbers ---- */

/* Number of digits, bounded because a damaged label may have many. */
static int digits_at(const char *at) {
    int number = 0;
    for (; *at >= '0' && *at <= '9' && number < 10000; at++) number = 10 * number + (*at - '0');
    return number;
}

/* The number that follows the key in a label, "[TP03-DP01]"; 0: there is none. */
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

/* Stages of a pipeline hold copies of the model, and these are cut over ranks. */
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

/* How many come before it. */
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

/* The JSON that JAX and TensorFlow (XLA's profiler) write: events without a category, whose process and thread say what
 * they are. Work is what stands on a stream of a process "/device:GPU:0"; the same device's other rows repeat it by
 * module and operation. Source: xla/tsl/profiler/convert/trace_events_to_json.cc, and a file of JAX 0.8 on an H100. */

struct place {
    int64_t process, thread; /* thread -1: the process itself */
    int64_t number;          /* of the device, of the stream; -1: the host */
};
struct kineto_xla {
    struct place *places;
    size_t count, capacity;
};

void aorta_trace_kineto_xla_free(struct kineto_xla *xla) {
    if (xla) free(xla->places);
    free(xla);
}

static const struct place *find(const struct kineto_xla *xla, int64_t process, int64_t thread) {
    for (size_t i = 0; i < xla->count; i++)
        if (xla->places[i].process == process && xla->places[i].thread == thread) return &xla->places[i];
    return NULL;
}

static aorta_status add_place(struct trace_kineto *kineto, struct place place) {
    if (!kineto->xla) kineto->xla = calloc(1, sizeof *kineto->xla);
    struct kineto_xla *xla = kineto->xla;
    if (!xla || !aorta_array_fit(&xla->places, &xla->capacity, xla->count + 1, sizeof *xla->places))
        return AORTA_ERROR(AORTA_MEMORY, "no memory to read %s", aorta_json_stream_name(kineto->stream));
    xla->places[xla->count++] = place;
    return NULL;
}

/* A text of the file without its quotes. */
static struct aorta_proto text_of(struct aorta_json_value value) {
    if (value.length < 2 || value.text[0] != '"') return (struct aorta_proto){0};
    return (struct aorta_proto){value.text + 1, value.text + value.length - 1};
}

aorta_status aorta_trace_kineto_xla_process(struct trace_kineto *kineto, int64_t process,
                                            struct aorta_json_value name) {
    static const char host[] = "\"/host:CPU\"";
    const int64_t device = aorta_proto_number_after(text_of(name), "/device:GPU:");
    const bool is_host = name.length == sizeof host - 1 && !memcmp(name.text, host, sizeof host - 1);
    if (process < 0 || (device < 0 && !is_host)) return NULL;
    if (device >= 0) aorta_trace_builder_head(kineto->builder)->format = AORTA_TRACE_XLA;
    return add_place(kineto, (struct place){process, -1, device});
}

aorta_status aorta_trace_kineto_xla_thread(struct trace_kineto *kineto, int64_t process, int64_t thread,
                                           struct aorta_json_value name) {
    const int64_t stream = aorta_proto_number_after(text_of(name), "Stream #");
    if (!kineto->xla || process < 0 || thread < 0 || stream < 0 || !find(kineto->xla, process, -1)) return NULL;
    return add_place(kineto, (struct place){process, thread, stream});
}

/* ---- events ---- */

/* A launch's number is a text or a number of the file; 0: it has none. */
static uint64_t correlation_of(struct trace_kineto *kineto, const struct kineto_event *event) {
    if (!event->argument[ARGUMENT_CORRELATION].length) return 0;
    const int64_t correlation = aorta_trace_kineto_int(kineto, event->argument[ARGUMENT_CORRELATION], event->offset);
    return correlation > 0 ? (uint64_t)correlation : 0;
}

static struct aorta_xla_event event_of(struct trace_kineto *kineto, const struct kineto_event *event) {
    int64_t node, step;
    return (struct aorta_xla_event){
        .start_ns = event->start_ns,
        .end_ns = event->end_ns,
        .name = text_of(event->field[FIELD_NAME]),
        .text = aorta_trace_kineto_text(kineto, event->field[FIELD_NAME]),
        .correlation = correlation_of(kineto, event),
        .details = text_of(event->argument[ARGUMENT_DETAILS]),
        .hlo = text_of(event->argument[ARGUMENT_HLO]),
        .graph = aorta_json_get_int(event->argument[ARGUMENT_GRAPH_NODE], &node) && node > 0,
        .step = aorta_json_get_int(event->argument[ARGUMENT_STEP], &step) && step >= 0 ? step : -1,
        .offset = event->offset,
    };
}

void aorta_trace_kineto_xla_event(struct trace_kineto *kineto, const struct kineto_event *event) {
    int64_t process, thread;
    if (!aorta_json_get_int(event->field[FIELD_PROCESS], &process) ||
        !aorta_json_get_int(event->field[FIELD_THREAD], &thread))
        return;
    const struct place *of = find(kineto->xla, process, -1), *stream;
    if (!of) return;
    stream = of->number < 0 ? NULL : find(kineto->xla, process, thread);
    if (of->number >= 0 && !stream) return;
    const struct aorta_xla_event found = event_of(kineto, event);
    if (stream)
        aorta_xla_add_work(kineto->builder, &found, of->number, stream->number);
    else
        aorta_xla_add_host(kineto->builder, &found, aorta_trace_builder_thread(kineto->builder, process, thread));
}

/* Files with the events of several processes, without labels, are read again, and the processes become ranks:
 * - by place, where each process's events are together in the file,
 *     | host 593  device 0  "Record Window End" | host 594  device 0  "Record Window End" |
 * - by launches, where the order is another one: work is of the process that launched it. */

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
        AORTA_TRY(add_process(kineto, added));
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
