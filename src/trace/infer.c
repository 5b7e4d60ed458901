#include "trace/infer.h"

#include "base/sort.h"

#include <stdlib.h>

enum {
    FEWEST_KERNELS = 4, /* of a step; a loop of fewer needs … */
    FEWEST_SHORT = 20,  /* … at least as many steps as this; */
    MOST_AFTER = 8,     /* with so many other kernels after it, it is the end of a recording */
    CANDIDATES = 16,
    SAMPLES = 16,        /* steps whose idle times are compared */
    LAYER = 64,          /* maximum kernels of a layer; a longer loop is a step */
    LAYER_OF_PASS = 128, /* this maximum if other kernels separate passes of equally many layers */
    LATEST = 512,        /* repetitions that are tested for layers */
    LONG_NS = 20000      /* durations of kernels this long depend on their data */
};
static const double REGULAR_SHARE = 0.5; /* of the work between the first and the last step that must repeat */
static const double LEAST_SHARE = 0.05;  /* of the recording; low, as a start-up can be long */
static const double EQUAL_SHARE = 0.95;  /* of the kernels of two steps */
/* Minimum share of the recording for a loop of few kernels: at the end of the recording, and elsewhere. */
static const double SHORT_SHARE = 0.01, SHORT_WITHIN = 0.25;
/* For steps of different lengths: the minimum share of steps that are about as long as the median and do what their
 * neighbours do, and the minimum share of kernels that two neighbours then have in common. */
static const double REGULAR_UNEVEN = 0.8, ALIKE_SHARE = 0.8;

/* The kernels of the stream of compute, in order. */
struct sequence {
    const struct aorta_trace *trace;
    uint32_t *rows; /* of work[] */
    size_t count;
    uint32_t *starts; /* by name: index of its first position in `positions`; ends with the total */
    uint32_t *positions;
    size_t name_count;
};

/* A kernel that may run once a step. */
struct anchor {
    uint32_t name;
    uint32_t first; /* position of its first kernel */
    size_t period;  /* kernels from one to the next, mostly */
    size_t covered; /* kernels in steps of just that length */
};

struct steps {
    uint32_t *begins; /* positions in the sequence where steps begin, and the end of the last step */
    size_t count;     /* of begins */
};

/* ---- the sequence ---- */

static uint32_t compute_stream(const struct aorta_trace *trace, size_t *counts) {
    uint32_t best = AORTA_TRACE_NONE;
    AORTA_EACH (const struct aorta_trace_work, work, trace->work, trace->work_count) {
        if (work->kind != AORTA_TRACE_KERNEL || aorta_trace_is_collective(work)) continue;
        counts[work->stream]++;
        if (best == AORTA_TRACE_NONE || counts[work->stream] > counts[best]) best = work->stream;
    }
    return best;
}

static void sort_by_name(struct sequence *sequence) {
    uint32_t *starts = sequence->starts;
    const struct aorta_trace_work *work = sequence->trace->work;
    for (size_t i = 0; i < sequence->count; i++) starts[work[sequence->rows[i]].name + 1]++;
    for (size_t i = 0; i < sequence->name_count; i++) starts[i + 1] += starts[i];
    for (size_t i = sequence->count; i-- > 0;) { /* backwards: each name's place moves down to its beginning */
        uint32_t name = work[sequence->rows[i]].name;
        sequence->positions[--starts[name + 1]] = (uint32_t)i;
    }
    for (size_t i = 0; i < sequence->name_count; i++) starts[i] = starts[i + 1];
    starts[sequence->name_count] = (uint32_t)sequence->count;
}

static struct sequence make_sequence(const struct aorta_trace *trace, struct aorta_arena *memory) {
    struct sequence sequence = {.trace = trace, .name_count = aorta_trace_text_count(trace)};
    size_t *counts = aorta_arena_alloc(memory, trace->stream_count * sizeof *counts);
    uint32_t stream = counts ? compute_stream(trace, counts) : AORTA_TRACE_NONE;
    size_t count = stream == AORTA_TRACE_NONE ? 0 : counts[stream];
    sequence.rows = aorta_arena_raw(memory, count * sizeof *sequence.rows);
    sequence.positions = aorta_arena_raw(memory, count * sizeof *sequence.positions);
    sequence.starts = aorta_arena_alloc(memory, (sequence.name_count + 2) * sizeof *sequence.starts);
    if (memory->failed) return sequence;
    for (size_t i = 0; i < trace->work_count && count; i++) {
        const struct aorta_trace_work *work = &trace->work[i];
        if (work->kind != AORTA_TRACE_KERNEL || work->stream != stream || aorta_trace_is_collective(work)) continue;
        sequence.rows[sequence.count++] = (uint32_t)i;
    }
    sort_by_name(&sequence);
    return sequence;
}

static const struct aorta_trace_work *work_at(const struct sequence *sequence, size_t position) {
    return &sequence->trace->work[sequence->rows[position]];
}

static uint32_t name_at(const struct sequence *sequence, size_t position) {
    return work_at(sequence, position)->name;
}

static size_t count_of(const struct sequence *sequence, uint32_t name) {
    return sequence->starts[name + 1] - sequence->starts[name];
}

/* ---- anchors ---- */

/* The distance between consecutive kernels of a name that covers most of the recording, and how many kernels it
 * covers. */
static struct anchor measure(const struct sequence *sequence, uint32_t name, uint32_t *gaps) {
    const uint32_t *positions = sequence->positions + sequence->starts[name];
    size_t count = count_of(sequence, name);
    struct anchor anchor = {.name = name};
    if (count <= AORTA_FEWEST_STEPS) return anchor;
    anchor.first = positions[0];
    for (size_t i = 0; i + 1 < count; i++) gaps[i] = positions[i + 1] - positions[i];
    qsort(gaps, count - 1, sizeof *gaps, aorta_by_uint32);
    for (size_t i = 0, run = 0; i + 1 < count; i++) {
        run = i && gaps[i] == gaps[i - 1] ? run + 1 : 1;
        if (run < AORTA_FEWEST_STEPS || run * gaps[i] <= anchor.covered) continue;
        anchor.covered = run * gaps[i];
        anchor.period = gaps[i];
    }
    return anchor;
}

/* Whether most steps between the first and the last regular one are regular, and equal kernel by kernel. */
static bool repeats(const struct sequence *sequence, const struct anchor *anchor) {
    const uint32_t *positions = sequence->positions + sequence->starts[anchor->name];
    size_t count = count_of(sequence, anchor->name), compared = 0, equal = 0, first = SIZE_MAX, last = 0;
    for (size_t i = 0; i + 1 < count; i++) {
        if (positions[i + 1] - positions[i] != anchor->period) continue;
        for (size_t j = 0; first != SIZE_MAX && j < anchor->period; j++, compared++)
            equal += name_at(sequence, last + j) == name_at(sequence, positions[i] + j);
        if (first == SIZE_MAX) first = positions[i];
        last = positions[i];
    }
    if (!compared || (double)equal < EQUAL_SHARE * (double)compared) return false;
    return (double)anchor->covered >= REGULAR_SHARE * (double)(last + anchor->period - first);
}

/* The largest coverage first; of equal ones the shorter period, then the earlier kernel. */
static AORTA_ORDER(by_coverage, struct anchor, AORTA_DOWN(covered) AORTA_UP(period) AORTA_UP(first));

/* The anchor with the most of the recording in equal steps; anchors[] holds all names, best first. */
static bool choose(const struct sequence *sequence, struct anchor *anchors, struct anchor *chosen) {
    qsort(anchors, sequence->name_count, sizeof *anchors, by_coverage);
    for (size_t i = 0, tried = 0; tried < CANDIDATES && i < sequence->name_count; i++) {
        const struct anchor *anchor = &anchors[i];
        if ((double)anchor->covered < LEAST_SHARE * (double)sequence->count) return false;
        if (anchor->period < FEWEST_KERNELS) continue;
        tried++;
        if (!repeats(sequence, anchor)) continue;
        *chosen = *anchor;
        return true;
    }
    return false;
}

/* ---- where a step begins ---- */

static bool optimizes_at(const struct sequence *sequence, size_t position) {
    return aorta_kernel_is_of_optimizer(aorta_trace_text(sequence->trace, name_at(sequence, position)));
}

/* The position after the optimizer kernel with the longest run of non-optimizer kernels after it; `period` if there is
 * no optimizer kernel. */
static size_t behind_optimizer(const struct sequence *sequence, size_t first, size_t period) {
    size_t best = period, longest = 0;
    for (size_t i = 0; i < period; i++) {
        if (!optimizes_at(sequence, first + i)) continue;
        size_t run = 0;
        while (run < period && !optimizes_at(sequence, first + (i + 1 + run) % period)) run++;
        if (run <= longest) continue;
        longest = run;
        best = (i + 1) % period;
    }
    return best;
}

/* The position with the longest idle time before it, summed over some steps. */
static size_t behind_idle(const struct sequence *sequence, const uint32_t *begins, size_t steps, size_t period) {
    size_t best = 0;
    int64_t longest_ns = -1;
    for (size_t i = 0; i < period; i++) {
        int64_t idle_ns = 0;
        for (size_t j = 0; j < steps && j < SAMPLES; j++) {
            size_t at = begins[j] + i;
            if (at) idle_ns += work_at(sequence, at)->start_ns - work_at(sequence, at - 1)->end_ns;
        }
        if (idle_ns <= longest_ns) continue;
        longest_ns = idle_ns;
        best = i;
    }
    return best;
}

/* ---- steps ---- */

/* Collects the positions `shift` kernels after the anchor's, unless the distance to a neighbour is too short for a
 * step. */
static void collect(const struct sequence *sequence, const struct anchor *anchor, size_t shift, struct steps *steps) {
    const uint32_t *positions = sequence->positions + sequence->starts[anchor->name];
    size_t count = count_of(sequence, anchor->name);
    for (size_t i = 0; i < count; i++) {
        size_t at = positions[i] + shift;
        if (i + 1 < count && at >= positions[i + 1] && shift) continue; /* too short to hold the beginning */
        /* A name may come twice in a step. */
        if (steps->count && 2 * (at - steps->begins[steps->count - 1]) < anchor->period) continue;
        if (at < sequence->count) steps->begins[steps->count++] = (uint32_t)at;
    }
}

static bool is_step(size_t period, size_t length) {
    return 2 * length >= period && 2 * length <= 3 * period;
}

static int64_t launch_of(const struct aorta_trace *trace, const struct aorta_trace_work *work) {
    return work->call == AORTA_TRACE_NONE ? work->start_ns : trace->calls[work->call].start_ns;
}

static int64_t launched_ns(const struct sequence *sequence, size_t position) {
    return launch_of(sequence->trace, work_at(sequence, position));
}

/* The first collective, copy to the device or fill launched between the previous kernel and this one, else this kernel:
 * a pipeline stage first receives, and a step may first copy its input or clear its output. Fills before a copy of
 * results belong to the previous step. */
static const struct aorta_trace_work *first_of_step(const struct sequence *sequence, size_t position) {
    const struct aorta_trace *trace = sequence->trace;
    const struct aorta_trace_work *first = work_at(sequence, position);
    const size_t before = position ? sequence->rows[position - 1] : 0;
    const int64_t after_ns = position ? launched_ns(sequence, position - 1) : INT64_MAX;
    bool fills = true;
    for (size_t i = sequence->rows[position]; i-- > before;) {
        const struct aorta_trace_work *work = &trace->work[i];
        const bool copy = work->kind == AORTA_TRACE_COPY, fill = fills && work->kind == AORTA_TRACE_FILL;
        const bool input = copy && aorta_copied_how(aorta_trace_text(trace, work->name)) == AORTA_COPIED_TO_DEVICE;
        fills &= !copy || input;
        if (work->call == AORTA_TRACE_NONE || !(input || fill || aorta_trace_is_collective(work))) continue;
        const int64_t launch_ns = trace->calls[work->call].start_ns;
        if (launch_ns > after_ns && launch_ns < launch_of(trace, first)) first = work;
    }
    return first;
}

/* Makes the steps between the beginnings. */
static void fill(const struct sequence *sequence, size_t period, const struct steps *steps, struct aorta_arena *memory,
                 struct aorta_found_steps *found) {
    struct aorta_trace_step *rows = found->steps = aorta_found_steps_new(steps->count, memory);
    size_t count = 0;
    for (size_t i = 0; rows && i + 1 < steps->count; i++) {
        size_t from = steps->begins[i], to = steps->begins[i + 1];
        if (!is_step(period, to - from)) continue;
        const struct aorta_trace_work *first = first_of_step(sequence, from), *next = first_of_step(sequence, to);
        int64_t start_ns = launch_of(sequence->trace, first), end_ns = launch_of(sequence->trace, next);
        if (end_ns <= start_ns || (count && start_ns < rows[count - 1].end_ns)) continue; /* of one launch */
        rows[count++] = (struct aorta_trace_step){.number = (int64_t)i,
                                                  .start_ns = start_ns,
                                                  .end_ns = end_ns,
                                                  .device_start_ns = first->start_ns,
                                                  .device_end_ns = next->start_ns};
    }
    found->count = count;
}

/* ---- steps of several layers ---- */

static bool has_optimizer(const struct sequence *sequence, size_t first, size_t period) {
    for (size_t i = first; i < first + period && i < sequence->count; i++)
        if (optimizes_at(sequence, i)) return true;
    return false;
}

/* The index of the next beginning whose distance to the one after it differs from the period. */
static size_t next_irregular(const struct steps *steps, size_t place, size_t period) {
    while (place + 1 < steps->count && steps->begins[place + 1] - steps->begins[place] == period) place++;
    return place;
}

/* Layers of forward passes are no steps. They show as other kernels between passes of equally many layers:
 *
 *     layer | layer | layer | head, embedding, layer | layer | layer | head, embedding, layer …
 *
 * Keeps only the beginnings of passes and returns their period; returns the anchor's period if the beginnings are
 * steps. */
static size_t keep_passes(const struct sequence *sequence, const struct anchor *anchor, struct steps *steps) {
    enum { FEWEST_LAYERS = 3 };
    const size_t period = anchor->period, first = next_irregular(steps, 0, period);
    const size_t layers = next_irregular(steps, first + 1, period) - first;
    if (period > LAYER_OF_PASS || layers < FEWEST_LAYERS || has_optimizer(sequence, steps->begins[0], period))
        return period;
    size_t passes = 0, place = first, length = 0;
    for (; place + 1 < steps->count; place = next_irregular(steps, place + 1, period), passes++) {
        const size_t stretch = steps->begins[place + 1] - steps->begins[place];
        if (place != first + passes * layers || (passes && stretch != length)) return period;
        length = stretch;
    }
    if (passes + 1 < AORTA_FEWEST_STEPS || place > first + passes * layers) return period;
    size_t count = 0;
    for (place = (first + 1) % layers; place < steps->count; place += layers)
        steps->begins[count++] = steps->begins[place];
    steps->count = count;
    return (layers - 1) * period + length;
}

/* Layers differ from steps in launch intervals, as the host does more between steps, and in the durations of long
 * kernels. */
static void find_layers(const struct sequence *sequence, const struct steps *steps, size_t period,
                        struct aorta_arena *memory, struct aorta_layers *layers) {
    int64_t intervals[LATEST], lengths[LATEST];
    const size_t from = steps->count > LATEST ? steps->count - LATEST : 1, count = steps->count - from;
    if (period > LAYER || steps->count <= from || has_optimizer(sequence, steps->begins[0], period)) return;
    for (size_t position = 0; position < period; position++) {
        int64_t total_ns = 0;
        for (size_t i = 0; i < count; i++) {
            size_t at = steps->begins[from + i] + position;
            if (at >= sequence->count) at = sequence->count - 1;
            intervals[i] = launched_ns(sequence, at) - launched_ns(sequence, at - 1);
            lengths[i] = work_at(sequence, at)->end_ns - work_at(sequence, at)->start_ns;
            total_ns += lengths[i];
        }
        aorta_layers_find(intervals, count, memory, layers);
        if (total_ns >= LONG_NS * (int64_t)count) aorta_layers_find(lengths, count, memory, layers);
    }
    if (layers->period) layers->first = (layers->first + (int64_t)from) % (int64_t)layers->period;
}

static void make_steps(const struct sequence *sequence, const struct anchor *anchor, struct aorta_arena *memory,
                       struct aorta_found_steps *found) {
    size_t count = count_of(sequence, anchor->name);
    const uint32_t *positions = sequence->positions + sequence->starts[anchor->name];
    struct steps steps = {.begins = aorta_arena_alloc(memory, count * sizeof *steps.begins)};
    if (memory->failed) return;
    size_t regular = 0; /* the number of regular steps, whose beginnings are stored */
    for (size_t i = 0; i + 1 < count; i++)
        if (positions[i + 1] - positions[i] == anchor->period) steps.begins[regular++] = positions[i];
    size_t shift = behind_optimizer(sequence, steps.begins[0], anchor->period);
    if (shift == anchor->period) shift = behind_idle(sequence, steps.begins, regular, anchor->period);
    collect(sequence, anchor, shift, &steps);
    find_layers(sequence, &steps, anchor->period, memory, &found->layers);
    const size_t period = found->layers.period ? anchor->period : keep_passes(sequence, anchor, &steps);
    fill(sequence, period, &steps, memory, found);
}

/* ---- loops of few kernels ---- */

/* Kernels from `begin` to `end`, each with the name of the one `period` places before. */
struct loop {
    size_t begin, end, period;
};

/* Stores the longest loop of this period if it is longer than *best and ends at most `behind` kernels before the
 * end. */
static void find_loops_of(const struct sequence *sequence, size_t period, size_t behind, struct loop *best) {
    for (size_t at = period, run = 0; at <= sequence->count; at++) {
        if (at < sequence->count && name_at(sequence, at) == name_at(sequence, at - period)) {
            run++;
            continue;
        }
        const size_t length = run ? (run / period + 1) * period : 0;
        run = 0;
        if (length < FEWEST_SHORT * period || length <= best->end - best->begin) continue;
        if (at + behind >= sequence->count) *best = (struct loop){at - length, at, period};
    }
}

static struct loop find_loop(const struct sequence *sequence, size_t behind, double share) {
    struct loop best = {0};
    for (size_t period = 1; period < FEWEST_KERNELS; period++) find_loops_of(sequence, period, behind, &best);
    if ((double)(best.end - best.begin) < share * (double)sequence->count) best.period = 0;
    return best;
}

static void make_short_steps(const struct sequence *sequence, struct loop loop, struct aorta_arena *memory,
                             struct aorta_found_steps *found) {
    size_t count = 0;
    if (!loop.period) return;
    const size_t limit = (loop.end - loop.begin) / loop.period;
    struct steps steps = {.begins = aorta_arena_alloc(memory, (limit + 1) * sizeof *steps.begins)};
    if (memory->failed) return;
    for (size_t at = loop.begin; count < limit; at += loop.period) steps.begins[count++] = (uint32_t)at;
    /* the idle time before the first one follows other work */
    const size_t shift = behind_idle(sequence, steps.begins + 1, count - 1, loop.period);
    for (size_t i = 0; i < count; i++) steps.begins[i] += (uint32_t)shift;
    while (count && steps.begins[count - 1] >= sequence->count) count--;
    steps.count = count;
    fill(sequence, loop.period, &steps, memory, found);
    find_layers(sequence, &steps, loop.period, memory, &found->layers);
}

/* ---- steps of different lengths, as for sequences of different lengths ---- */

/* Sets for each name the kind of its kernel, which does not depend on the input's size: the category of matrix
 * products, convolutions and attention, else the name without template arguments. */
static void sort_kinds(const struct sequence *sequence, uint32_t *kinds) {
    for (uint32_t i = 0; i < sequence->name_count; i++) {
        const char *name = count_of(sequence, i) ? aorta_trace_text(sequence->trace, i) : "";
        const enum aorta_category category = aorta_kernel_category(name);
        kinds[i] = (uint32_t)category;
        if (category <= AORTA_CATEGORY_ATTENTION) continue;
        uint32_t hash = 2166136261u; /* FNV-1a */
        for (const char *at = name; *at && *at != '<'; at++) hash = (hash ^ (unsigned char)*at) * 16777619u;
        kinds[i] = hash | 1u << 31;
    }
}

/* The share of kernels, by kind, that two consecutive stretches have in common. `scratch` has space for both. */
static double likeness(const struct sequence *sequence, const uint32_t *kinds, const uint32_t *begins,
                       uint32_t *scratch) {
    const size_t left = begins[1] - begins[0], right = begins[2] - begins[1];
    size_t common = 0;
    for (size_t i = 0; i < left + right; i++) scratch[i] = kinds[name_at(sequence, begins[0] + i)];
    qsort(scratch, left, sizeof *scratch, aorta_by_uint32);
    qsort(scratch + left, right, sizeof *scratch, aorta_by_uint32);
    for (size_t i = 0, j = left; i < left && j < left + right;)
        if (scratch[i] == scratch[j])
            common++, i++, j++;
        else if (scratch[i] < scratch[j])
            i++;
        else
            j++;
    return (double)common / (double)(left > right ? left : right);
}

/* Whether most stretches between the beginnings are about as long as the median, they cover most of the recording, and
 * neighbours do the same work. */
static bool are_steps(const struct sequence *sequence, const uint32_t *kinds, const struct steps *steps,
                      uint32_t *scratch, size_t *median) {
    const size_t gaps = steps->count - 1;
    size_t regular = 0, alike = 0;
    if (steps->count <= AORTA_FEWEST_STEPS + 1) return false;
    for (size_t i = 0; i < gaps; i++) scratch[i] = steps->begins[i + 1] - steps->begins[i];
    qsort(scratch, gaps, sizeof *scratch, aorta_by_uint32);
    *median = scratch[gaps / 2];
    if (*median < FEWEST_KERNELS) return false;
    for (size_t i = 0; i < gaps; i++) regular += is_step(*median, scratch[i]);
    if ((double)regular < REGULAR_UNEVEN * (double)gaps) return false;
    if ((double)(steps->begins[gaps] - steps->begins[0]) < REGULAR_SHARE * (double)sequence->count) return false;
    for (size_t i = 0; i + 1 < gaps; i++) alike += likeness(sequence, kinds, steps->begins + i, scratch) >= ALIKE_SHARE;
    return (double)alike >= REGULAR_UNEVEN * (double)(gaps - 1);
}

/* After each run of the optimizer's kernels. */
static void begin_behind_optimizer(const struct sequence *sequence, struct steps *steps) {
    bool within = false;
    steps->count = 0;
    for (size_t i = 0; i < sequence->count; i++) {
        const bool now = optimizes_at(sequence, i);
        if (within && !now) steps->begins[steps->count++] = (uint32_t)i;
        within = now;
    }
}

/* Begins a step at each kernel of a name. Returns the total idle time before them. */
static int64_t begin_at(const struct sequence *sequence, uint32_t name, struct steps *steps) {
    int64_t idle_ns = 0;
    const uint32_t *positions = sequence->positions + sequence->starts[name];
    steps->count = count_of(sequence, name);
    for (size_t i = 0; i < steps->count; i++) {
        steps->begins[i] = positions[i];
        if (positions[i])
            idle_ns += work_at(sequence, positions[i])->start_ns - work_at(sequence, positions[i] - 1)->end_ns;
    }
    return idle_ns;
}

/* Chooses among names whose kernels could begin steps: the name with the most idle time before its kernels. */
static bool begin_uneven(const struct sequence *sequence, const uint32_t *kinds, uint32_t *scratch, struct steps *steps,
                         size_t *median) {
    int64_t longest_ns = -1;
    uint32_t best = 0;
    begin_behind_optimizer(sequence, steps);
    if (are_steps(sequence, kinds, steps, scratch, median)) return true;
    for (uint32_t name = 0; name < sequence->name_count; name++) {
        const size_t count = count_of(sequence, name);
        if (count <= AORTA_FEWEST_STEPS + 1 || count > sequence->count / FEWEST_KERNELS) continue;
        const int64_t idle_ns = begin_at(sequence, name, steps);
        if (idle_ns <= longest_ns || !are_steps(sequence, kinds, steps, scratch, median)) continue;
        longest_ns = idle_ns;
        best = name;
    }
    if (longest_ns < 0) return false;
    begin_at(sequence, best, steps);
    return are_steps(sequence, kinds, steps, scratch, median);
}

/* Makes steps of more kernels than `fewest`: an exactly repeating sequence may be a part of such a step. */
static void make_uneven_steps(const struct sequence *sequence, size_t fewest, struct aorta_arena *memory,
                              struct aorta_found_steps *found) {
    uint32_t *kinds = aorta_arena_alloc(memory, sequence->name_count * sizeof *kinds);
    uint32_t *scratch = aorta_arena_alloc(memory, sequence->count * sizeof *scratch);
    struct steps steps = {.begins = aorta_arena_alloc(memory, sequence->count * sizeof *steps.begins)};
    size_t median = 0;
    if (memory->failed) return;
    sort_kinds(sequence, kinds);
    if (begin_uneven(sequence, kinds, scratch, &steps, &median) && median > fewest)
        fill(sequence, median, &steps, memory, found);
}

/* A loop at the end of a recording is its purpose, even if other work repeats before it, as in autotuning. A loop
 * elsewhere, as before an evaluation, must be a large part of the recording. `regular` is NULL if no step of many
 * kernels repeats exactly. */
static void make_found(const struct sequence *sequence, const struct anchor *regular, struct aorta_arena *memory,
                       struct aorta_found_steps *found) {
    const bool most = regular && (double)regular->covered >= REGULAR_SHARE * (double)sequence->count;
    const struct loop at_end = regular ? (struct loop){0} : find_loop(sequence, MOST_AFTER, SHORT_SHARE);
    if (!at_end.period && !most) make_uneven_steps(sequence, regular ? 2 * regular->period : 0, memory, found);
    if (found->steps) return;
    if (regular)
        make_steps(sequence, regular, memory, found);
    else
        make_short_steps(sequence, at_end.period ? at_end : find_loop(sequence, SIZE_MAX / 2, SHORT_WITHIN), memory,
                         found);
}

/* Whether the steps are only a small part of the recording and not at its end, as those of one of many streams. */
static bool are_little(const struct aorta_trace *trace, const struct aorta_found_steps *found) {
    if (!found->count) return false;
    const int64_t end_ns = trace->work[trace->work_count - 1].end_ns;
    int64_t covered_ns = 0;
    for (size_t i = 0; i < found->count; i++)
        covered_ns += found->steps[i].device_end_ns - found->steps[i].device_start_ns;
    return end_ns - found->steps[found->count - 1].device_end_ns > covered_ns &&
           (double)covered_ns < LEAST_SHARE * (double)(end_ns - trace->work[0].start_ns);
}

void aorta_trace_find_repeated_steps(const struct aorta_trace *trace, struct aorta_arena *memory,
                                     struct aorta_found_steps *found) {
    struct anchor chosen;
    const struct sequence sequence = make_sequence(trace, memory);
    struct anchor *anchors = aorta_arena_raw(memory, sequence.name_count * sizeof *anchors);
    uint32_t *gaps = aorta_arena_raw(memory, sequence.count * sizeof *gaps);
    if (memory->failed) return;
    for (uint32_t name = 0; name < sequence.name_count; name++) anchors[name] = measure(&sequence, name, gaps);
    const bool any = choose(&sequence, anchors, &chosen);
    make_found(&sequence, any ? &chosen : NULL, memory, found);
    if (!memory->failed && are_little(trace, found)) found->count = 0;
}
