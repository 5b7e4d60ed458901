/* Ranks and steps of several traces: the rank of each, steps from repetition or from ranges of the program, steps
 * joined from layers, and equal numbers in all traces. */
#include "base/sort.h"
#include "trace/infer.h"
#include "trace/ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { UNKNOWN = -1 };

/* From the first start to the last end, as time of day. False if that is unknown. */
static bool find_extent(const struct aorta_trace *trace, int64_t *from_ns, int64_t *to_ns) {
    if (trace->base_ns == INT64_MIN || !trace->work_count) return false;
    int64_t last_ns = INT64_MIN;
    for (size_t i = 0; i < trace->work_count; i++)
        if (trace->work[i].end_ns > last_ns) last_ns = trace->work[i].end_ns;
    return !__builtin_add_overflow(trace->work[0].start_ns, trace->base_ns, from_ns) &&
           !__builtin_add_overflow(last_ns, trace->base_ns, to_ns);
}

/* Whether both say the time of day, and were recorded at the same time. */
static bool overlap_in_time(const struct aorta_trace *a, const struct aorta_trace *b) {
    int64_t from[2], to[2];
    return find_extent(a, &from[0], &to[0]) && find_extent(b, &from[1], &to[1]) && from[0] < to[1] && from[1] < to[0];
}

static bool shares_file(const struct aorta_trace_list *list, size_t trace) {
    const char *path = list->items[trace]->path;
    return (trace && !strcmp(list->items[trace - 1]->path, path)) ||
           (trace + 1 < list->count && !strcmp(list->items[trace + 1]->path, path));
}

static bool is_named(const struct aorta_trace_list *list, size_t trace) {
    return list->items[trace]->rank < 0;
}

/* Whether two file names have the same rank although they were recorded at the same time. */
static bool are_of_hosts(const struct aorta_trace_list *list, const int *ranks) {
    for (size_t i = 0; i < list->count; i++)
        for (size_t j = 0; j < i; j++)
            if (ranks[i] != UNKNOWN && ranks[i] == ranks[j] && is_named(list, i) && is_named(list, j) &&
                overlap_in_time(list->items[i], list->items[j]))
                return true;
    return false;
}

int *aorta_trace_ranks_known(const struct aorta_trace_list *list, struct aorta_arena *memory) {
    int *ranks = aorta_arena_alloc(memory, list->count * sizeof *ranks);
    for (size_t i = 0; ranks && i < list->count; i++) {
        const struct aorta_trace *trace = list->items[i];
        ranks[i] = !is_named(list, i)     ? trace->rank
                   : shares_file(list, i) ? UNKNOWN
                                          : aorta_trace_rank_in_path(trace->path);
    }
    const bool hosts = ranks && are_of_hosts(list, ranks);
    for (size_t i = 0; hosts && i < list->count; i++)
        if (is_named(list, i)) ranks[i] = UNKNOWN;
    return ranks;
}

/* Cycles of a profile schedule: one file each, of the same rank, with steps that continue those of the previous
 * file. */

/* Whether one program wrote both: same folder, process and devices. */
static bool are_of_one_run(const struct aorta_trace *a, const struct aorta_trace *b) {
    const char *slash = strrchr(a->path, '/'), *other = strrchr(b->path, '/');
    const size_t folder = slash ? (size_t)(slash - a->path) : 0;
    if (folder != (other ? (size_t)(other - b->path) : 0) || strncmp(a->path, b->path, folder) != 0) return false;
    if (a->world != b->world || a->process != b->process || a->device_count != b->device_count) return false;
    for (size_t i = 0; i < a->device_count; i++)
        if (strcmp(aorta_trace_text(a, a->devices[i].name), aorta_trace_text(b, b->devices[i].name)) != 0) return false;
    return true;
}

/* Only steps marked by a profiler count: files with the same numbers are then of two runs, or of two unnamed ranks. */
static bool is_before(const struct aorta_trace *a, const struct aorta_trace *b) {
    const int rank = a->rank >= 0 ? a->rank : aorta_trace_rank_in_path(a->path);
    const int other = b->rank >= 0 ? b->rank : aorta_trace_rank_in_path(b->path);
    if (rank != other || a->format != b->format || !are_of_one_run(a, b)) return false;
    if (!a->step_count || !b->step_count) return false;
    if (a->steps_by != AORTA_STEPS_MARKED || b->steps_by != AORTA_STEPS_MARKED) return false;
    if (overlap_in_time(a, b)) return false; /* of two hosts, where processes have the same numbers */
    return a->steps[a->step_count - 1].number < b->steps[0].number;
}

size_t aorta_trace_later_cycles(const struct aorta_trace_list *list, size_t trace) {
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++) count += is_before(list->items[trace], list->items[i]);
    return count;
}

size_t aorta_trace_take_last_cycle(struct aorta_trace_list *list) {
    size_t cycles = 1, used = 0;
    /* Every trace that is dropped has a later one that stays. */
    for (size_t i = 0; i < list->count; i++) {
        const size_t behind = aorta_trace_later_cycles(list, i);
        if (behind + 1 > cycles) cycles = behind + 1;
        list->items[i]->earlier = behind > 0;
    }
    for (size_t i = 0; i < list->count; i++) {
        struct aorta_trace *trace = list->items[i];
        if (trace->earlier)
            aorta_trace_free(trace);
        else
            list->items[used++] = trace;
    }
    list->count = used;
    return cycles;
}

/* ---- separate runs ---- */

static bool is_of_a_job(const struct aorta_trace *trace) {
    if (trace->rank >= 0 || trace->world > 1 || aorta_trace_rank_in_path(trace->path) >= 0) return true;
    if (trace->collective_count) return true;
    for (size_t i = 0; i < trace->work_count; i++)
        if (aorta_trace_is_collective(&trace->work[i])) return true;
    return false;
}

struct when {
    const struct aorta_trace *trace;
    int64_t from_ns, to_ns;
    bool timed, job;
};

/* Old exports of nsys have no time of day. Traces that begin in the same nanosecond have artificial times. Neither
 * shows that two traces are of one job. A
 * rank may record later than the other ranks of its job, but not by an hour. */
static bool are_apart(const struct when *a, const struct when *b) {
    if ((a->job && b->job) || strcmp(a->trace->path, b->trace->path) == 0) return false;
    if (!a->timed || !b->timed) return !a->job && !b->job;
    const double between_ns = fmax((double)a->from_ns - (double)b->to_ns, (double)b->from_ns - (double)a->to_ns);
    return between_ns > (a->job || b->job ? 3600e9 : 0) || (a->from_ns == b->from_ns && !a->job && !b->job);
}

bool aorta_trace_find_separate(const struct aorta_trace_list *list, const struct aorta_trace *found[2]) {
    struct when former = {0};
    for (size_t i = 0; i < list->count; i++) {
        struct when now = {.trace = list->items[i], .job = is_of_a_job(list->items[i])};
        now.timed = find_extent(now.trace, &now.from_ns, &now.to_ns);
        if (!now.timed && (now.job || now.trace->format != AORTA_TRACE_NSYS)) continue;
        found[0] = former.trace;
        found[1] = now.trace;
        if (former.trace && are_apart(&former, &now)) return true;
        former = now;
    }
    return false;
}

/* ---- ranks of spools ---- */

static int by_rank(const void *a, const void *b) {
    const struct aorta_trace *x = *(struct aorta_trace *const *)a, *y = *(struct aorta_trace *const *)b;
    if ((x->rank < 0) != (y->rank < 0)) return x->rank < 0 ? 1 : -1;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    if (x->rank >= 0 && x->work_count != y->work_count) return x->work_count > y->work_count ? -1 : 1;
    if (!x->work_count || !y->work_count) return (x->work_count < y->work_count) - (x->work_count > y->work_count);
    if (x->work[0].device != y->work[0].device) return x->work[0].device < y->work[0].device ? -1 : 1;
    return (x->work[0].start_ns > y->work[0].start_ns) - (x->work[0].start_ns < y->work[0].start_ns);
}

void aorta_spool_number_ranks(struct aorta_trace_list *list) {
    int32_t next = 0, former = -1;
    size_t count = 0;
    struct aorta_trace **spools = calloc(list->count + 1, sizeof *spools);
    if (!spools) return; /* ranks stay as they are; callers check for duplicates */
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i]->rank >= next) next = list->items[i]->rank + 1;
        if (list->items[i]->format == AORTA_TRACE_SPOOL) spools[count++] = list->items[i];
    }
    qsort(spools, count, sizeof *spools, by_rank);
    for (size_t i = 0; i < count; i++) {
        int32_t named = spools[i]->rank;
        if (named < 0 || named == former) spools[i]->rank = next++;
        former = named;
    }
    free(spools);
}

/* ---- periods ---- */

enum {
    LONGEST = 64, /* period */
    FEWEST = 4    /* steps that show it */
};
/* One of 3 million random series is as regular. A recording has a few hundred, each tested with 63 periods. */
static const double LEAST_STRENGTH = 5;
static const double AS_STRONG = 0.9; /* a multiple of a period is as strong as the period */
static const double MOST_TIES = 0.9; /* share of the variance; coarse clocks cause artificial periods */

struct value {
    int64_t value, place;
};

/* Ranks centered at 0; equal values share a rank. Returns the share of the variance lost to ties. */
static double rank(struct value *values, size_t count, double *ranks) {
    const double middle = (double)(count - 1) / 2, n = (double)count;
    double ties = 0;
    qsort(values, count, sizeof *values, aorta_by_int64_pair);
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && values[end].value == values[i].value;) end++;
        const double equal = (double)(end - i);
        for (size_t j = i; j < end; j++) ranks[values[j].place] = (double)(i + end - 1) / 2 - middle;
        ties += equal * equal * equal - equal;
    }
    return ties / (n * n * n - n);
}

/* A sum of squares with `freedom` degrees of freedom, in standard deviations (Wilson and Hilferty's cube root). */
static double deviations(double squares, double freedom) {
    const double spread = 2 / (9 * freedom);
    return (cbrt(squares / freedom) - (1 - spread)) / sqrt(spread);
}

/* The evidence for a period. */
struct tried {
    struct aorta_layers layers;
    double squares; /* with period - 1 degrees of freedom */
};

static struct tried try_period(const double *ranks, size_t count, size_t period, double ties) {
    const double n = (double)count;
    double squares = 0, highest = -INFINITY;
    struct aorta_layers found = {.period = period};
    for (size_t phase = 0; phase < period; phase++) {
        double sum = 0, members = 0;
        for (size_t i = phase; i < count; i += period, members++) sum += ranks[i];
        squares += sum * sum / members;
        if (sum / members <= highest) continue;
        highest = sum / members;
        found.first = (int64_t)phase;
    }
    squares *= 12 / (n * (n + 1) * (1 - ties));
    found.strength = deviations(squares, (double)(period - 1));
    return (struct tried){found, squares};
}

/* The shortest divisor of the period that explains as much: what the whole period explains in addition is not
 * significant. */
static size_t shortest(const struct tried *tried, size_t period) {
    for (size_t part = 3; 2 * part <= period; part++) {
        if (period % part || tried[part].layers.strength < LEAST_STRENGTH) continue;
        const double beyond = tried[period].squares - tried[part].squares;
        if (deviations(beyond, (double)(period - part)) < LEAST_STRENGTH) return part;
    }
    return period;
}

static void find(const double *ranks, size_t count, double ties, struct aorta_layers *best) {
    struct tried tried[LONGEST + 1];
    double strongest = LEAST_STRENGTH;
    size_t end = 2, chosen = 2;
    for (; end <= LONGEST && end * FEWEST <= count; end++) {
        tried[end] = try_period(ranks, count, end, ties);
        if (tried[end].layers.strength > strongest) strongest = tried[end].layers.strength;
    }
    while (chosen < end && tried[chosen].layers.strength < AS_STRONG * strongest) chosen++;
    if (chosen <= 2 || chosen >= end) return;
    chosen = shortest(tried, chosen);
    if (tried[chosen].layers.strength > best->strength) *best = tried[chosen].layers;
}

void aorta_layers_find(const int64_t *values, size_t count, struct aorta_arena *memory, struct aorta_layers *best) {
    if (count < FEWEST * 2) return;
    struct aorta_arena scratch = {0};
    struct value *sorted = aorta_arena_raw(&scratch, count * sizeof *sorted);
    double *ranks = aorta_arena_raw(&scratch, count * sizeof *ranks);
    for (size_t i = 0; ranks && i < count; i++) sorted[i] = (struct value){values[i], (int64_t)i};
    const double ties = ranks ? rank(sorted, count, ranks) : 1;
    if (ranks && ties < MOST_TIES) find(ranks, count, ties, best);
    aorta_arena_end(&scratch, memory);
}

/* ---- several traces ---- */

static int64_t start_of(const struct aorta_trace_step *step) {
    return step->device_start_ns == INT64_MIN ? step->start_ns : step->device_start_ns;
}

static int64_t end_of(const struct aorta_trace_step *step) {
    return step->device_end_ns == INT64_MIN ? step->end_ns : step->device_end_ns;
}

static int64_t middle_of(const struct aorta_trace_step *step) {
    return start_of(step) + (end_of(step) - start_of(step)) / 2;
}

/* The offset between the steps' numbers and those of the first trace, from the two steps nearest in time, as one trace
 * may begin some steps earlier. False if no two steps are near each other. */
static bool find_shift(const struct aorta_found_steps *first, const struct aorta_found_steps *other, int64_t *shift) {
    int64_t least_ns = INT64_MAX, length_ns = 0;
    *shift = 0;
    for (size_t i = 0, j = 0; i < other->count; i++) {
        const int64_t at_ns = middle_of(&other->steps[i]);
        while (j + 1 < first->count &&
               llabs(middle_of(&first->steps[j + 1]) - at_ns) <= llabs(middle_of(&first->steps[j]) - at_ns))
            j++;
        const struct aorta_trace_step *met = &first->steps[j];
        if (llabs(middle_of(met) - at_ns) >= least_ns) continue;
        least_ns = llabs(middle_of(met) - at_ns);
        length_ns = end_of(met) - start_of(met);
        *shift = met->number - other->steps[i].number;
    }
    return least_ns <= length_ns + length_ns / 2;
}

/* Gives steps of each further trace the numbers of the first trace's steps at the same time. */
static bool agree(struct aorta_found_steps *found, size_t count) {
    const struct aorta_found_steps *first = NULL;
    for (size_t i = 0; i < count; i++) {
        int64_t shift;
        if (!found[i].count) continue;
        if (!first) {
            first = &found[i];
            continue;
        }
        if (!find_shift(first, &found[i], &shift)) return false;
        found[i].shift = shift;
        for (size_t j = 0; j < found[i].count; j++) found[i].steps[j].number += shift;
    }
    return true;
}

static bool all_of_one_length(const struct aorta_found_steps *found, size_t count) {
    size_t length = 0;
    for (size_t i = 0; i < count; i++) {
        if (length && found[i].count && found[i].count != length) return false;
        if (found[i].count) length = found[i].count;
    }
    return true;
}

static void give(struct aorta_trace_list *list, struct aorta_found_steps *found, enum aorta_step_source source) {
    for (size_t i = 0; i < list->count; i++) {
        struct aorta_trace *trace = list->items[i];
        if (!found[i].count) continue;
        free(trace->steps);
        trace->steps = found[i].steps;
        trace->step_count = found[i].count;
        trace->steps_by = source;
        found[i].steps = NULL;
    }
}

/* ---- layers ---- */

static bool is_whole(const struct aorta_found_steps *found, size_t at, const struct aorta_layers *layers) {
    const int64_t period = (int64_t)layers->period, number = found->steps[at].number;
    return (number - layers->first) % period == 0 && at + layers->period <= found->count &&
           found->steps[at + layers->period - 1].number == number + period - 1;
}

static bool has_whole(const struct aorta_found_steps *found, const struct aorta_layers *layers) {
    size_t count = 0;
    for (size_t i = 0; i < found->count; i++) count += is_whole(found, i, layers);
    return count >= AORTA_FEWEST_STEPS || !found->count;
}

static void join_layers_of(struct aorta_found_steps *found, const struct aorta_layers *layers) {
    size_t count = 0;
    for (size_t i = 0; i < found->count; i++) {
        if (!is_whole(found, i, layers)) continue;
        const struct aorta_trace_step *last = &found->steps[i + layers->period - 1];
        struct aorta_trace_step step = found->steps[i];
        step.number = (step.number - layers->first) / (int64_t)layers->period;
        step.end_ns = last->end_ns;
        step.device_end_ns = last->device_end_ns;
        found->steps[count++] = step;
    }
    found->count = count;
}

/* The trace with the strongest evidence decides for all traces which layers form a step. */
static void join_layers(struct aorta_found_steps *found, size_t count) {
    struct aorta_layers best = {0};
    for (size_t i = 0; i < count; i++) {
        if (!found[i].count || found[i].layers.strength <= best.strength) continue;
        best = found[i].layers;
        best.first += found[i].shift;
    }
    if (!best.period) return;
    for (size_t i = 0; i < count; i++)
        if (!has_whole(&found[i], &best)) return;
    for (size_t i = 0; i < count; i++) join_layers_of(&found[i], &best);
}

struct aorta_trace_step *aorta_found_steps_new(size_t count, struct aorta_arena *memory) {
    struct aorta_trace_step *steps = calloc(count + 1, sizeof *steps);
    memory->failed |= !steps;
    return steps;
}

/* Frees those that no trace took, and the memory. */
static aorta_status found_steps_end(struct aorta_found_steps *found, size_t count, struct aorta_arena *memory) {
    aorta_status status = aorta_arena_check(memory, "the steps of the traces");
    for (size_t i = 0; found && i < count; i++) free(found[i].steps);
    aorta_arena_free(memory);
    return status;
}

aorta_status aorta_trace_infer_steps(struct aorta_trace_list *list) {
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i]->step_count) return NULL; /* marked steps count */
    struct aorta_arena memory = {0};
    struct aorta_found_steps *found = aorta_arena_alloc(&memory, list->count * sizeof *found);
    bool all = found != NULL;
    for (size_t i = 0; found && i < list->count; i++) {
        if (!list->items[i]->work_count) continue; /* without device work, as a launcher's */
        struct aorta_arena scratch = {0};
        aorta_trace_find_repeated_steps(list->items[i], &scratch, &found[i]);
        aorta_arena_end(&scratch, &memory);
        all = all && found[i].count >= AORTA_FEWEST_STEPS;
    }
    if (!memory.failed && all && agree(found, list->count)) {
        join_layers(found, list->count);
        give(list, found, AORTA_STEPS_BY_REPETITION);
    }
    return found_steps_end(found, list->count, &memory);
}

/* ---- steps from ranges of the program or its engine ---- */

/* A kind of ranges: which names, and whether a step begins with the range or after it. */
struct rule {
    enum aorta_step_source source;
    bool after;
    const char *prefix; /* of the names; NULL: names match a pattern instead */
};
static const struct rule rules[] = {
    {AORTA_STEPS_BY_OPTIMIZER, true, "Optimizer.step#"},
    {AORTA_STEPS_BY_ENGINE, false, "step["},    /* SGLang; the next kind of ranges may enclose them */
    {AORTA_STEPS_BY_ENGINE, false, "execute_"}, /* vLLM: execute_model, execute_context_1(…), execute_32_… */
};

/* ---- one trace ---- */

/* By text: whether it is the name of a range that marks steps. */
static bool *find_names(const struct aorta_trace *trace, const struct rule *rule,
                        const struct aorta_kernel_patterns *pattern, struct aorta_arena *memory) {
    bool *marks = aorta_arena_alloc(memory, aorta_trace_text_count(trace));
    bool *seen = aorta_arena_alloc(memory, aorta_trace_text_count(trace));
    for (size_t i = 0; seen && i < trace->annotation_count; i++) {
        uint32_t name = trace->annotations[i].name;
        if (seen[name]) continue;
        const char *text = aorta_trace_text(trace, name);
        seen[name] = true;
        marks[name] = pattern ? aorta_kernel_patterns_match(pattern, text) : aorta_begins(text, rule->prefix);
    }
    return marks;
}

/* Chooses one optimizer: the one that runs least often, and among these the last of a step. */
static void keep_one_name(const struct aorta_trace *trace, bool *marks) {
    size_t fewest = SIZE_MAX;
    uint32_t best = AORTA_TRACE_NONE;
    for (size_t i = 0; i < trace->annotation_count; i++) { /* in the order of their first ranges */
        uint32_t name = trace->annotations[i].name;
        size_t count = 0;
        if (!marks[name]) continue;
        for (size_t j = 0; j < trace->annotation_count; j++) count += trace->annotations[j].name == name;
        marks[name] = false;
        if (count > fewest) continue;
        fewest = count;
        best = name;
    }
    if (best != AORTA_TRACE_NONE) marks[best] = true;
}

/* Ranges within a marking range are ignored. A step ends where the next one begins. The last step ends with its range,
 * or is dropped if steps begin after ranges. */
static size_t fill_steps(const struct aorta_trace *trace, const bool *marks, bool after,
                         struct aorta_trace_step *steps) {
    size_t count = 0;
    int64_t until_ns = INT64_MIN;
    AORTA_EACH (const struct aorta_trace_annotation, range, trace->annotations, trace->annotation_count) {
        if (!marks[range->name] || range->start_ns < until_ns) continue;
        int64_t begin_ns = after ? range->end_ns : range->start_ns;
        until_ns = range->end_ns;
        if (count) steps[count - 1].end_ns = begin_ns;
        steps[count] = (struct aorta_trace_step){.number = (int64_t)count,
                                                 .start_ns = begin_ns,
                                                 .end_ns = range->end_ns,
                                                 .device_start_ns = INT64_MIN,
                                                 .device_end_ns = INT64_MIN};
        count++;
    }
    return after && count ? count - 1 : count;
}

static void find_marked(const struct aorta_trace *trace, const struct rule *rule,
                        const struct aorta_kernel_patterns *pattern, struct aorta_found_steps *found,
                        struct aorta_arena *memory) {
    bool *marks = find_names(trace, rule, pattern, memory);
    found->steps = aorta_found_steps_new(trace->annotation_count, memory);
    if (memory->failed) return;
    if (rule->source == AORTA_STEPS_BY_OPTIMIZER) keep_one_name(trace, marks);
    found->count = fill_steps(trace, marks, rule->after, found->steps);
}

/* ---- all traces ---- */

/* Applies one rule; *done is set if all traces with device work have steps now. If all ranks have equally many ranges,
 * their numbers agree without comparing clocks, as a program marks all of its steps. */
static aorta_status apply(struct aorta_trace_list *list, const struct rule *rule,
                          const struct aorta_kernel_patterns *pattern, bool *done) {
    struct aorta_arena memory = {0};
    struct aorta_found_steps *found = aorta_arena_alloc(&memory, list->count * sizeof *found);
    size_t with_work = 0, with_steps = 0;
    for (size_t i = 0; found && i < list->count; i++) {
        if (!list->items[i]->work_count) continue;
        find_marked(list->items[i], rule, pattern, &found[i], &memory);
        with_work++;
        with_steps += found[i].count > 0;
    }
    *done = !memory.failed && with_steps && with_steps == with_work;
    if (*done && !all_of_one_length(found, list->count)) (void)agree(found, list->count);
    if (*done) give(list, found, rule->source);
    return found_steps_end(found, list->count, &memory);
}

static aorta_status compile_range(const char *step_range, struct aorta_kernel_patterns **pattern) {
    return aorta_annotate(aorta_kernel_patterns_add(pattern, step_range), "--step-range");
}

aorta_status aorta_trace_check_step_range(const char *step_range) {
    struct aorta_kernel_patterns *pattern = NULL;
    aorta_status status = step_range ? compile_range(step_range, &pattern) : NULL;
    aorta_kernel_patterns_free(pattern);
    return status;
}

aorta_status aorta_trace_mark_steps(struct aorta_trace_list *list, const char *step_range) {
    bool done = false;
    if (step_range) {
        const struct rule rule = {.source = AORTA_STEPS_BY_RANGE};
        struct aorta_kernel_patterns *pattern = NULL;
        AORTA_TRY(compile_range(step_range, &pattern));
        aorta_status status = apply(list, &rule, pattern, &done);
        aorta_kernel_patterns_free(pattern);
        if (status || done) return status;
        return AORTA_ERROR(AORTA_USAGE, "--step-range %s: no range of %s%s has such a name; --by annotation lists them",
                           step_range, list->items[0]->path, list->count > 1 ? " or of another trace" : "");
    }
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i]->step_count) return NULL; /* marked steps count */
    for (size_t i = 0; !done && i < sizeof rules / sizeof *rules; i++) AORTA_TRY(apply(list, &rules[i], NULL, &done));
    return NULL;
}
