#include "simulator.h"

#include "replay/replay.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES = 64, UNKNOWN = -1 };

int sim_add(struct sim *sim, int rank, struct sim_op op) {
    struct sim_program *program = &sim->ranks[rank];
    if (program->count == program->capacity) {
        program->capacity = program->capacity ? 2 * program->capacity : 256;
        program->ops = realloc(program->ops, (size_t)program->capacity * sizeof *program->ops);
        assert(program->ops);
    }
    program->ops[program->count] = op;
    return program->count++;
}

void sim_free(struct sim *sim) {
    for (int r = 0; r < SIM_RANKS; r++) {
        free(sim->ranks[r].ops);
        free(sim->start[r]);
        free(sim->end[r]);
        free(sim->call_start[r]);
        free(sim->call_end[r]);
    }
    memset(sim, 0, sizeof *sim);
}

void sim_copy(const struct sim *from, struct sim *to) {
    *to = (struct sim){.rank_count = from->rank_count, .one_queue = from->one_queue, .recorded = from->recorded};
    for (int r = 0; r < from->rank_count; r++)
        for (int i = 0; i < from->ranks[r].count; i++) sim_add(to, r, from->ranks[r].ops[i]);
}

/* ---- running ---- */

static bool has_span(const struct sim_op *op) {
    return op->kind == SIM_KERNEL || op->kind == SIM_EXTRA || op->kind == SIM_COPY || op->kind == SIM_COPY_SYNC ||
           op->kind == SIM_COLLECTIVE;
}

static int64_t later(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* The op before this one with a span that must end first: on its stream, or on any where all share a queue. */
static int before_on_stream(const struct sim *sim, int rank, int op) {
    const struct sim_op *ops = sim->ranks[rank].ops;
    for (int i = op - 1; i >= 0; i--)
        if (has_span(&ops[i]) && (sim->one_queue || ops[i].stream == ops[op].stream)) return i;
    return SIM_NONE;
}

static bool begin_span(struct sim *sim, int rank, int op) {
    const struct sim_op *one = &sim->ranks[rank].ops[op];
    if (!has_span(one) || sim->start[rank][op] != UNKNOWN || sim->call_start[rank][op] == UNKNOWN) return false;
    int64_t start_ns = sim->call_start[rank][op] + SIM_LATENCY;
    int needs[] = {before_on_stream(sim, rank, op), one->after};
    for (int i = 0; i < 2; i++) {
        if (needs[i] == SIM_NONE) continue;
        if (sim->end[rank][needs[i]] == UNKNOWN) return false;
        start_ns = later(start_ns, sim->end[rank][needs[i]] + SIM_GAP);
    }
    sim->start[rank][op] = start_ns;
    return true;
}

static int nth_collective(const struct sim *sim, int rank, int n) {
    const struct sim_program *program = &sim->ranks[rank];
    for (int i = 0; i < program->count; i++)
        if (program->ops[i].kind == SIM_COLLECTIVE && n-- == 0) return i;
    return SIM_NONE;
}

static int count_collectives(const struct sim *sim, int rank, int until) {
    int count = 0;
    for (int i = 0; i < until; i++) count += sim->ranks[rank].ops[i].kind == SIM_COLLECTIVE;
    return count;
}

static bool end_span(struct sim *sim, int rank, int op) {
    const struct sim_op *one = &sim->ranks[rank].ops[op];
    if (sim->start[rank][op] == UNKNOWN || sim->end[rank][op] != UNKNOWN) return false;
    int64_t from_ns = sim->start[rank][op];
    if (one->kind == SIM_COLLECTIVE) {
        int n = count_collectives(sim, rank, op);
        for (int r = 0; r < sim->rank_count; r++) {
            int64_t other_ns = sim->start[r][nth_collective(sim, r, n)];
            if (other_ns == UNKNOWN) return false;
            from_ns = later(from_ns, other_ns);
        }
    }
    sim->end[rank][op] = from_ns + (one->gone ? 0 : one->ns);
    return true;
}

/* When the call may return, for what it waits for; UNKNOWN: that is not over. */
static int64_t waited_until(const struct sim *sim, int rank, int op) {
    const struct sim_op *ops = sim->ranks[rank].ops;
    int64_t until_ns = 0;
    int in_flight = 0;
    for (int i = op; i >= 0; i--) {
        bool waits = ops[op].kind == SIM_SYNC || (ops[op].kind == SIM_COPY_SYNC && i == op);
        if (!has_span(&ops[i])) continue;
        if (waits && sim->end[rank][i] == UNKNOWN) return UNKNOWN;
        if (waits) until_ns = later(until_ns, sim->end[rank][i] + SIM_RETURN);
        if (has_span(&ops[op]) && in_flight++ == SIM_QUEUE) {
            if (sim->start[rank][i] == UNKNOWN) return UNKNOWN;
            until_ns = later(until_ns, sim->start[rank][i]);
        }
    }
    return until_ns;
}

static int64_t own_time(const struct sim_op *op) {
    if (op->gone && (op->kind == SIM_SYNC || op->kind == SIM_OWN || op->kind == SIM_DATA || op->kind == SIM_ALLOCATE))
        return 0;
    if (has_span(op)) return op->kind == SIM_COPY_SYNC ? SIM_WAIT : SIM_LAUNCH;
    return op->kind == SIM_SYNC ? SIM_WAIT : op->ns;
}

/* `free_launches`: launches of spans cost the host nothing. */
static bool run_host(struct sim *sim, int rank, int *at, int64_t *now_ns, bool free_launches) {
    const struct sim_program *program = &sim->ranks[rank];
    bool moved = false;
    for (; *at < program->count; ++*at, moved = true) {
        const struct sim_op *op = &program->ops[*at];
        sim->call_start[rank][*at] = *now_ns;
        begin_span(sim, rank, *at);
        end_span(sim, rank, *at);
        bool waits = !op->gone && (op->kind == SIM_SYNC || op->kind == SIM_COPY_SYNC || has_span(op));
        int64_t until_ns = waits && !(free_launches && op->kind != SIM_SYNC && op->kind != SIM_COPY_SYNC)
                               ? waited_until(sim, rank, *at)
                               : 0;
        if (until_ns == UNKNOWN) return moved;
        *now_ns = later(*now_ns + (free_launches && has_span(op) ? 0 : own_time(op)), until_ns);
        sim->call_end[rank][*at] = *now_ns;
    }
    return moved;
}

static bool run_device(struct sim *sim, int rank) {
    bool moved = false;
    for (int i = 0; i < sim->ranks[rank].count; i++) {
        moved |= begin_span(sim, rank, i);
        moved |= end_span(sim, rank, i);
    }
    return moved;
}

static int64_t *unknown(int count) {
    int64_t *values = malloc(((size_t)count + 1) * sizeof *values);
    assert(values);
    for (int i = 0; i < count; i++) values[i] = UNKNOWN;
    return values;
}

static void run(struct sim *sim, bool free_launches) {
    int at[SIM_RANKS] = {0};
    int64_t now_ns[SIM_RANKS] = {0};
    for (int r = 0; r < sim->rank_count; r++) {
        int64_t **columns[] = {&sim->start[r], &sim->end[r], &sim->call_start[r], &sim->call_end[r]};
        for (int i = 0; i < 4; i++) {
            free(*columns[i]);
            *columns[i] = unknown(sim->ranks[r].count);
        }
    }
    for (bool moved = true; moved;) {
        moved = false;
        for (int r = 0; r < sim->rank_count; r++) {
            moved |= run_host(sim, r, &at[r], &now_ns[r], free_launches);
            moved |= run_device(sim, r);
        }
    }
    for (int r = 0; r < sim->rank_count; r++) {
        sim->end_ns[r] = 0;
        assert(at[r] == sim->ranks[r].count);
        for (int i = 0; i < sim->ranks[r].count; i++) sim->end_ns[r] = later(sim->end_ns[r], sim->end[r][i]);
    }
}

void sim_run(struct sim *sim) {
    bool free_launches = false;
    for (int r = 0; r < sim->rank_count; r++)
        for (int i = 0; i < sim->ranks[r].count; i++)
            free_launches |= has_span(&sim->ranks[r].ops[i]) && sim->ranks[r].ops[i].step < 0;
    run(sim, free_launches);
}

/* ---- removing ---- */

/* A step below 0 marks a program whose launches cost nothing (sim_run). */
static void remove_launches(struct sim_op *op) {
    if (op->kind == SIM_OWN) op->gone = true;
    if (has_span(op)) op->step = -1 - op->step;
}

static void remove_from(struct sim_op *op, uint32_t removal, int64_t pause_becomes_ns) {
    switch (removal) {
    case AORTA_WITHOUT_HOST_LAUNCH:
        remove_launches(op);
        break;
    case AORTA_WITHOUT_HOST_SYNC:
        op->gone |= op->kind == SIM_SYNC;
        break;
    case AORTA_WITHOUT_DATA_WAIT:
        op->gone |= op->kind == SIM_DATA;
        break;
    case AORTA_WITHOUT_ALLOCATION:
        op->gone |= op->kind == SIM_ALLOCATE;
        break;
    case AORTA_WITHOUT_COPY:
        op->gone |= op->kind == SIM_COPY || op->kind == SIM_COPY_SYNC;
        break;
    case AORTA_WITHOUT_STRAGGLER:
        op->gone |= op->kind == SIM_EXTRA;
        break;
    case AORTA_WITHOUT_HOST_PAUSE:
        if (op->kind == SIM_PAUSE) op->ns = pause_becomes_ns;
        break;
    case AORTA_WITHOUT_SLOW_COLLECTIVE:
        if (op->kind == SIM_COLLECTIVE && op->best_ns) op->ns = op->best_ns;
        break;
    case AORTA_WITHOUT_CONTENTION:
        if (op->kind == SIM_KERNEL && op->best_ns) op->ns = op->best_ns;
        break;
    default:
        assert(!"other programs show what this removal gives");
    }
}

void sim_remove(struct sim *sim, uint32_t removal, int64_t pause_becomes_ns) {
    if (removal == AORTA_WITHOUT_SERIALIZED_STREAMS) sim->one_queue = false;
    for (int r = 0; r < sim->rank_count && removal != AORTA_WITHOUT_SERIALIZED_STREAMS; r++)
        for (int i = 0; i < sim->ranks[r].count; i++) remove_from(&sim->ranks[r].ops[i], removal, pause_becomes_ns);
}

/* ---- recording ---- */

static bool has_call(const struct sim_op *op) {
    return op->kind != SIM_OWN && op->kind != SIM_PAUSE;
}

static uint8_t call_kind(const struct sim_op *op) {
    switch (op->kind) {
    case SIM_COPY:
    case SIM_COPY_SYNC:
        return AORTA_REPLAY_COPY;
    case SIM_SYNC:
        return AORTA_REPLAY_SYNC_DEVICE;
    case SIM_ALLOCATE:
        return AORTA_REPLAY_MEMORY;
    case SIM_DATA:
        return AORTA_REPLAY_DATA;
    default:
        return AORTA_REPLAY_LAUNCH;
    }
}

static uint8_t span_kind(const struct sim_op *op) {
    if (op->kind == SIM_COLLECTIVE) return AORTA_REPLAY_COLLECTIVE;
    return op->kind == SIM_COPY || op->kind == SIM_COPY_SYNC ? AORTA_REPLAY_TRANSFER : AORTA_REPLAY_KERNEL;
}

/* Calls are the host's; spans lie by their start. */
struct spans {
    struct aorta_replay_span *rows;
    int *op, *row; /* of each span, its op; of each op, its span */
    uint32_t count;
};

static const int64_t *sort_by;
static int by_start(const void *left, const void *right) {
    int a = *(const int *)left, b = *(const int *)right;
    if (sort_by[a] != sort_by[b]) return sort_by[a] < sort_by[b] ? -1 : 1;
    return (a > b) - (a < b);
}

static void record_calls(const struct sim *sim, int rank, struct aorta_replay_rank *recorded, uint32_t *call_of) {
    const struct sim_program *program = &sim->ranks[rank];
    struct aorta_replay_call *calls = calloc((size_t)program->count + 1, sizeof *calls);
    uint32_t count = 0, threads = 1;
    assert(calls);
    for (int i = 0; i < program->count; i++) {
        const struct sim_op *op = &program->ops[i];
        call_of[i] = AORTA_GRAPH_NONE;
        if (!has_call(op)) continue;
        call_of[i] = count;
        if ((uint32_t)op->thread >= threads) threads = (uint32_t)op->thread + 1;
        calls[count] = (struct aorta_replay_call){.start_ns = sim->call_start[rank][i],
                                                  .end_ns = sim->call_end[rank][i],
                                                  .row = count,
                                                  .thread = (uint32_t)op->thread,
                                                  .name = (uint32_t)op->place,
                                                  .kind = call_kind(op)};
        count++;
    }
    recorded->calls = calls;
    recorded->call_count = count;
    recorded->thread_count = threads;
}

static struct aorta_replay_span span_of(const struct sim *sim, int rank, int op, uint32_t call) {
    const struct sim_op *one = &sim->ranks[rank].ops[op];
    bool collective = one->kind == SIM_COLLECTIVE;
    return (struct aorta_replay_span){
        .start_ns = sim->start[rank][op],
        .end_ns = sim->end[rank][op],
        .alone_ns = one->kind == SIM_KERNEL && one->best_ns ? one->best_ns : -1,
        .stream = (uint32_t)one->stream,
        .queue = sim->one_queue ? 0 : AORTA_GRAPH_NONE,
        .communicator = AORTA_GRAPH_NONE,
        .launch = call,
        .name = one->kind == SIM_EXTRA ? NAMES - 1 : (uint32_t)one->name,
        .collective = collective ? (uint32_t)count_collectives(sim, rank, op) : AORTA_GRAPH_NONE,
        .step = (uint32_t)one->step,
        .kind = span_kind(one),
        .role = (uint8_t)one->role,
    };
}

static void record_rank(const struct sim *sim, int rank, struct sim_recording *out) {
    const struct sim_program *program = &sim->ranks[rank];
    size_t limit = (size_t)program->count + 2;
    uint32_t *call_of = calloc(limit, sizeof *call_of), *first = calloc(limit, sizeof *first);
    uint32_t *waits = calloc(limit, sizeof *waits);
    struct spans spans = {calloc(limit, sizeof *spans.rows), calloc(limit, sizeof(int)), calloc(limit, sizeof(int)), 0};
    assert(call_of && first && waits && spans.rows && spans.op && spans.row);
    struct aorta_replay_rank *recorded = &out->ranks[rank];
    record_calls(sim, rank, recorded, call_of);
    for (int i = 0; i < program->count; i++)
        if (has_span(&program->ops[i])) spans.op[spans.count++] = i;
    sort_by = sim->start[rank];
    qsort(spans.op, spans.count, sizeof *spans.op, by_start);
    for (uint32_t i = 0; i < spans.count; i++) spans.row[spans.op[i]] = (int)i;
    for (uint32_t i = 0; i < spans.count; i++) {
        int op = spans.op[i], after = program->ops[op].after;
        spans.rows[i] = span_of(sim, rank, op, call_of[op]);
        spans.rows[i].row = i;
        first[i + 1] = first[i];
        if (after != SIM_NONE) waits[first[i + 1]++] = (uint32_t)spans.row[after];
    }
    recorded->spans = spans.rows;
    recorded->span_count = spans.count;
    recorded->stream_count = SIM_STREAMS;
    recorded->host = (uint32_t)rank;
    recorded->first_wait = sim->recorded ? first : NULL;
    recorded->waits = sim->recorded ? waits : NULL;
    recorded->bounds = (struct aorta_graph_rank){.end_ns = sim->end_ns[rank], .steps = 1};
    if (!sim->recorded) {
        free(first);
        free(waits);
    }
    free(call_of);
    free(spans.op);
    free(spans.row);
}

void sim_record(const struct sim *sim, struct sim_recording *out) {
    *out = (struct sim_recording){0};
    uint32_t collectives = (uint32_t)count_collectives(sim, 0, sim->ranks[0].count);
    out->collectives = calloc(collectives + 1, sizeof *out->collectives);
    assert(out->collectives);
    for (uint32_t i = 0; i < collectives; i++) {
        const struct sim_op *op = &sim->ranks[0].ops[nth_collective(sim, 0, (int)i)];
        out->collectives[i] =
            (struct aorta_collective_times){(uint32_t)sim->rank_count, op->best_ns ? op->best_ns : -1, -1};
    }
    for (int r = 0; r < sim->rank_count; r++) record_rank(sim, r, out);
    out->recording = (struct aorta_recording){.ranks = out->ranks,
                                              .collectives = out->collectives,
                                              .rank_count = (uint32_t)sim->rank_count,
                                              .collective_count = collectives,
                                              .name_count = NAMES,
                                              .native = sim->native};
}

void sim_recording_free(struct sim_recording *recording) {
    for (int r = 0; r < SIM_RANKS; r++) {
        free((void *)recording->ranks[r].calls);
        free((void *)recording->ranks[r].spans);
        free((void *)recording->ranks[r].first_wait);
        free((void *)recording->ranks[r].waits);
    }
    free(recording->collectives);
    *recording = (struct sim_recording){0};
}
