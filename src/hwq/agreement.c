#include "hwq/agreement.h"
#include "hwq/gaps.h"

#include <math.h>
#include <stdlib.h>

const double aorta_hwq_agreement_limit = 0.10;

static aorta_status no_memory(size_t count) {
    return AORTA_ERROR(AORTA_MEMORY, "no host memory to compare %zu stamps", count);
}

/* ---- what stamps cannot see ---- */

enum { SELF, MARKED, OPERATIONS };

/* Means of single iterations: clocks of device and recording drift apart, but not within one. */
struct offsets {
    struct {
        struct aorta_hwq_samples starts, ends;
        size_t samples;
    } of[OPERATIONS];
};

static int by_value(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Of all but the twentieth at either end: stamps tick, so that a median would be off by half of that. Sorts them. */
static double middle_mean(double *values, size_t count) {
    const size_t cut = count / 20;
    double sum = 0.0;
    qsort(values, count, sizeof *values, by_value);
    for (size_t i = cut; i < count - cut; i++) sum += values[i];
    return count ? sum / (double)(count - 2 * cut) : NAN;
}

/* `stream`: only operations of this one; negative: all. */
static aorta_status add_means(struct offsets *offsets, const struct aorta_hwq_spans *spans, int stream,
                              const struct aorta_hwq_interval *found, double *scratch) {
    double starts[OPERATIONS], ends[OPERATIONS];
    for (int kind = 0; kind < OPERATIONS; kind++) {
        size_t count = 0;
        double *behind = scratch + spans->count;
        for (size_t i = 0; i < spans->count; i++) {
            const struct aorta_hwq_span *span = &spans->items[i];
            if (span->marked != (kind == MARKED) || (stream >= 0 && span->stream != stream)) continue;
            scratch[count] = (double)(span->start_ns - (found[i].start_ns - found[0].start_ns));
            behind[count++] = (double)(span->end_ns - (found[i].end_ns - found[0].start_ns));
        }
        starts[kind] = middle_mean(scratch, count);
        ends[kind] = middle_mean(behind, count);
        offsets->of[kind].samples += count;
        if (!count || isnan(starts[SELF])) continue;
        AORTA_TRY(aorta_hwq_samples_add(&offsets->of[kind].starts, starts[kind] - starts[SELF]));
        AORTA_TRY(aorta_hwq_samples_add(&offsets->of[kind].ends, ends[kind] - starts[SELF]));
    }
    return NULL;
}

/* The chain beside the workload has the stream behind all others. */
static int last_stream(const struct aorta_hwq_spans *spans) {
    int last = -1;
    for (size_t i = 0; i < spans->count; i++)
        if (spans->items[i].stream > last) last = spans->items[i].stream;
    return last;
}

static void take_offsets(struct offsets *offsets, struct aorta_hwq_agreement *agreement) {
    struct aorta_hwq_offset *const taken[OPERATIONS] = {&agreement->self, &agreement->marked};
    for (int kind = 0; kind < OPERATIONS; kind++) {
        *taken[kind] = (struct aorta_hwq_offset){.start_ns = aorta_hwq_samples_median(&offsets->of[kind].starts),
                                                 .end_ns = aorta_hwq_samples_median(&offsets->of[kind].ends),
                                                 .samples = offsets->of[kind].samples};
        aorta_hwq_samples_free(&offsets->of[kind].starts);
        aorta_hwq_samples_free(&offsets->of[kind].ends);
    }
}

/* ---- pairs ---- */

struct pairs {
    const struct aorta_hwq_spans *given; /* as stamped */
    struct aorta_hwq_spans corrected;    /* the same, without what stamps cannot see; decides who follows whom */
    const struct aorta_hwq_interval *found;
    struct {
        struct aorta_hwq_samples stamped, corrected, recorded, off; /* off: |corrected − recorded| */
        struct aorta_hwq_samples stamped_off, corrected_off;        /* minus the recorded one */
        struct aorta_hwq_samples of_stream[AORTA_HWQ_MAX_STREAMS];  /* corrected_off, by the second one's stream */
    } of[AORTA_HWQ_PAIR_KINDS];
};

static aorta_status add_pair(void *user, const struct aorta_hwq_span *before, const struct aorta_hwq_span *span) {
    struct pairs *pairs = user;
    const size_t first = (size_t)(before - pairs->corrected.items), second = (size_t)(span - pairs->corrected.items);
    const int kind = before->stream == span->stream ? AORTA_HWQ_INTRA : AORTA_HWQ_INTER;
    const double stamped = (double)(pairs->given->items[second].start_ns - pairs->given->items[first].end_ns);
    const double corrected = (double)(span->start_ns - before->end_ns);
    const double recorded = (double)(pairs->found[second].start_ns - pairs->found[first].end_ns);
    AORTA_TRY(aorta_hwq_samples_add(&pairs->of[kind].stamped, stamped));
    AORTA_TRY(aorta_hwq_samples_add(&pairs->of[kind].corrected, corrected));
    AORTA_TRY(aorta_hwq_samples_add(&pairs->of[kind].recorded, recorded));
    AORTA_TRY(aorta_hwq_samples_add(&pairs->of[kind].stamped_off, stamped - recorded));
    AORTA_TRY(aorta_hwq_samples_add(&pairs->of[kind].corrected_off, corrected - recorded));
    AORTA_TRY(aorta_hwq_samples_add(&pairs->of[kind].of_stream[span->stream], corrected - recorded));
    return aorta_hwq_samples_add(&pairs->of[kind].off, fabs(corrected - recorded));
}

static aorta_status add_iteration(struct pairs *pairs, const struct aorta_hwq_spans *spans,
                                  const struct aorta_hwq_interval *found, const struct aorta_hwq_agreement *agreement) {
    pairs->given = spans;
    pairs->found = found;
    pairs->corrected.count = 0;
    for (size_t i = 0; i < spans->count; i++) {
        struct aorta_hwq_span span = spans->items[i];
        const struct aorta_hwq_offset *offset = span.marked ? &agreement->marked : &agreement->self;
        if (!offset->samples)
            return AORTA_ERROR(AORTA_UNSUPPORTED,
                               "no operation of the kind of %s was run to measure what its "
                               "stamps cannot see",
                               span.name);
        span.start_ns -= llround(offset->start_ns);
        span.end_ns -= llround(offset->end_ns);
        AORTA_TRY(aorta_hwq_spans_add(&pairs->corrected, &span));
    }
    return aorta_hwq_pairs(&pairs->corrected, add_pair, pairs);
}

static double median_us(const struct aorta_hwq_samples *samples) {
    return 1e-3 * aorta_hwq_samples_median(samples);
}

static double share_of(double difference_us, double gap_us) {
    return gap_us > 0.0 ? difference_us / gap_us : NAN;
}

static bool is_within(double difference_us, double gap_us, double tick_us) {
    return fabs(difference_us) <= fmax(aorta_hwq_agreement_limit * fabs(gap_us), tick_us) + 1e-9;
}

enum { FEW_PAIRS = 30 };

static const char *reason_without(enum aorta_hwq_pair_kind kind) {
    return kind == AORTA_HWQ_INTRA ? "no stream has two operations" : "no operation follows one of another stream";
}

/* What is wrong on one stream only does not move the median of all; of a few pairs chance decides. Returns by how much
 * the worst one is off, us; 0 without any. */
static double find_worst_stream(const struct aorta_hwq_samples differences[AORTA_HWQ_MAX_STREAMS], int *stream) {
    double worst = 0.0;
    *stream = -1;
    for (int s = 0; s < AORTA_HWQ_MAX_STREAMS; s++) {
        if (differences[s].count < FEW_PAIRS) continue;
        const double off = median_us(&differences[s]);
        if (*stream >= 0 && fabs(off) <= fabs(worst)) continue;
        *stream = s;
        worst = off;
    }
    return worst;
}

/* A pair is read twice, so readings are compared pair by pair: the medians of the differences are judged. */
static void take_pairs(struct pairs *pairs, struct aorta_hwq_agreement *agreement) {
    for (int kind = 0; kind < AORTA_HWQ_PAIR_KINDS; kind++) {
        struct aorta_hwq_agreed *agreed = &agreement->kinds[kind];
        const struct aorta_summary off = aorta_summarise(pairs->of[kind].off.items, pairs->of[kind].off.count);
        const double tick_us = 1e-3 * agreement->tick_ns, gap_us = median_us(&pairs->of[kind].recorded);
        const double stamped_off_us = median_us(&pairs->of[kind].stamped_off);
        const double corrected_off_us = median_us(&pairs->of[kind].corrected_off);
        const double worst_off_us = find_worst_stream(pairs->of[kind].of_stream, &agreed->worst_stream);
        agreed->count = off.count;
        agreed->stamped_us = median_us(&pairs->of[kind].stamped);
        agreed->corrected_us = median_us(&pairs->of[kind].corrected);
        agreed->recorded_us = gap_us;
        agreed->off_p50_us = 1e-3 * off.p50;
        agreed->off_p90_us = 1e-3 * off.p90;
        agreed->stamped_off = share_of(stamped_off_us, gap_us);
        agreed->corrected_off = share_of(corrected_off_us, gap_us);
        agreed->worst_off = agreed->worst_stream < 0 ? NAN : share_of(worst_off_us, gap_us);
        agreed->reason = off.count ? NULL : reason_without(kind);
        agreed->stamped_within = !agreed->reason && is_within(stamped_off_us, gap_us, tick_us);
        agreed->corrected_within =
            !agreed->reason && is_within(corrected_off_us, gap_us, tick_us) && is_within(worst_off_us, gap_us, tick_us);
    }
}

static void free_pairs(struct pairs *pairs) {
    aorta_hwq_spans_free(&pairs->corrected);
    for (int kind = 0; kind < AORTA_HWQ_PAIR_KINDS; kind++) {
        aorta_hwq_samples_free(&pairs->of[kind].stamped);
        aorta_hwq_samples_free(&pairs->of[kind].corrected);
        aorta_hwq_samples_free(&pairs->of[kind].recorded);
        aorta_hwq_samples_free(&pairs->of[kind].stamped_off);
        aorta_hwq_samples_free(&pairs->of[kind].corrected_off);
        aorta_hwq_samples_free(&pairs->of[kind].off);
        for (int s = 0; s < AORTA_HWQ_MAX_STREAMS; s++) aorta_hwq_samples_free(&pairs->of[kind].of_stream[s]);
    }
}

/* ---- the whole ---- */

static int64_t common_divisor(int64_t a, int64_t b) {
    while (b) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a < 0 ? -a : a;
}

/* Where the file does not tell: every stamp of an iteration is counted from its first. */
static double tick_of(const struct aorta_hwq_book *book) {
    int64_t tick = 0;
    if (book->tick_ns) return (double)book->tick_ns;
    for (size_t i = 0; i < book->count; i++) {
        const struct aorta_hwq_spans *spans = &book->iterations[i].spans;
        for (size_t k = 0; k < spans->count && tick != 1; k++)
            tick = common_divisor(common_divisor(tick, spans->items[k].start_ns), spans->items[k].end_ns);
    }
    return (double)tick;
}

struct comparison {
    const struct aorta_hwq_book *book;
    const struct aorta_hwq_recorded *kernels;
    size_t count;
    struct aorta_hwq_interval *found; /* of the iteration with the most stamps */
    double *scratch;                  /* twice as many */
    struct offsets offsets;
    struct pairs pairs;
};

static aorta_status read_pass(struct comparison *comparison, enum aorta_hwq_pass pass,
                              struct aorta_hwq_agreement *agreement) {
    for (size_t i = 0; i < comparison->book->count; i++) {
        const struct aorta_hwq_iteration *iteration = &comparison->book->iterations[i];
        if (iteration->pass != pass) continue;
        AORTA_TRY(aorta_hwq_match(iteration, comparison->kernels, comparison->count, comparison->found));
        if (pass != AORTA_HWQ_PASS_WORKLOAD) {
            const int stream = pass == AORTA_HWQ_PASS_BESIDE ? last_stream(&iteration->spans) : -1;
            AORTA_TRY(
                add_means(&comparison->offsets, &iteration->spans, stream, comparison->found, comparison->scratch));
            continue;
        }
        AORTA_TRY(add_iteration(&comparison->pairs, &iteration->spans, comparison->found, agreement));
        agreement->iterations++;
    }
    return NULL;
}

static bool has_pass(const struct aorta_hwq_book *book, enum aorta_hwq_pass pass) {
    for (size_t i = 0; i < book->count; i++)
        if (book->iterations[i].pass == pass) return true;
    return false;
}

static aorta_status read_passes(struct comparison *comparison, struct aorta_hwq_agreement *agreement) {
    agreement->beside = has_pass(comparison->book, AORTA_HWQ_PASS_BESIDE);
    aorta_status status =
        read_pass(comparison, agreement->beside ? AORTA_HWQ_PASS_BESIDE : AORTA_HWQ_PASS_PROBE, agreement);
    take_offsets(&comparison->offsets, agreement);
    if (!status) status = read_pass(comparison, AORTA_HWQ_PASS_WORKLOAD, agreement);
    if (!status) take_pairs(&comparison->pairs, agreement);
    free_pairs(&comparison->pairs);
    return status;
}

aorta_status aorta_hwq_agree(const struct aorta_hwq_book *book, struct aorta_hwq_recorded *kernels, size_t count,
                             struct aorta_hwq_agreement *agreement) {
    *agreement = (struct aorta_hwq_agreement){.tick_ns = tick_of(book)};
    size_t most = 0;
    for (size_t i = 0; i < book->count; i++)
        if (book->iterations[i].spans.count > most) most = book->iterations[i].spans.count;
    if (!most) return AORTA_ERROR(AORTA_UNSUPPORTED, "the run stamped nothing");
    aorta_hwq_recorded_sort(kernels, count);
    struct comparison comparison = {.book = book, .kernels = kernels, .count = count};
    comparison.found = calloc(most, sizeof *comparison.found);
    comparison.scratch = calloc(2 * most, sizeof *comparison.scratch);
    aorta_status status =
        comparison.found && comparison.scratch ? read_passes(&comparison, agreement) : no_memory(most);
    free(comparison.found);
    free(comparison.scratch);
    return status;
}

bool aorta_hwq_agrees(const struct aorta_hwq_agreement *agreement) {
    size_t judged = 0;
    for (int kind = 0; kind < AORTA_HWQ_PAIR_KINDS; kind++) {
        if (agreement->kinds[kind].reason) continue;
        if (!agreement->kinds[kind].corrected_within) return false;
        judged++;
    }
    return judged > 0;
}

/* ---- words ---- */

static const char *const kind_words[AORTA_HWQ_PAIR_KINDS] = {"intra-stream", "inter-stream"};
static const char *const kind_keys[AORTA_HWQ_PAIR_KINDS] = {"intra_stream", "inter_stream"};

static void say_offset(const char *what, const struct aorta_hwq_offset *offset, struct aorta_text *text) {
    if (offset->samples)
        aorta_text_printf(text, "%s %.3f us (%zu)", what, 1e-3 * (offset->start_ns - offset->end_ns), offset->samples);
}

static void say_kind(const char *what, const struct aorta_hwq_agreed *agreed, struct aorta_text *text) {
    if (agreed->reason) {
        aorta_text_printf(text, "  %-14s not compared: %s\n", what, agreed->reason);
        return;
    }
    aorta_text_printf(
        text,
        "  %-14s stamped %8.3f us (%+.1f%%)   without start and end %8.3f us (%+.1f%%)   recorded %8.3f us "
        "(%zu)\n",
        what, agreed->stamped_us, 100 * agreed->stamped_off, agreed->corrected_us, 100 * agreed->corrected_off,
        agreed->recorded_us, agreed->count);
    aorta_text_printf(text, "  %-14s pair by pair %.3f us off (median), %.3f us (90%%)", "", agreed->off_p50_us,
                      agreed->off_p90_us);
    if (agreed->worst_stream >= 0)
        aorta_text_printf(text, "; stream %d, the worst, %+.1f%%", agreed->worst_stream, 100 * agreed->worst_off);
    aorta_text_printf(text, "; within 10%%: %s, as stamped %s\n", agreed->corrected_within ? "yes" : "no",
                      agreed->stamped_within ? "yes" : "no");
}

void aorta_hwq_agreement_text(const struct aorta_hwq_agreement *agreement, struct aorta_text *text) {
    aorta_text_printf(
        text,
        "The same pairs on both sides, in %zu iterations: medians, and of the differences; the timer ticks "
        "every %g ns\n",
        agreement->iterations, agreement->tick_ns);
    for (int kind = 0; kind < AORTA_HWQ_PAIR_KINDS; kind++) say_kind(kind_words[kind], &agreement->kinds[kind], text);
    aorta_text_printf(text, "  A kernel's start before its first stamp and its end behind the last, by %s: ",
                      agreement->beside ? "a chain beside the workload" : "the probe");
    say_offset("stamping itself", &agreement->self, text);
    say_offset(", marking others", &agreement->marked, text);
    aorta_text_printf(text, "\n  Within 10%%: %s\n", aorta_hwq_agrees(agreement) ? "yes" : "no");
}

static void write_offset(const char *key, const struct aorta_hwq_offset *offset, struct aorta_json *json) {
    aorta_json_key(json, key);
    aorta_json_object(json);
    aorta_json_key_double(json, "start_ns", offset->start_ns);
    aorta_json_key_double(json, "end_ns", offset->end_ns);
    aorta_json_key_int(json, "samples", (int64_t)offset->samples);
    aorta_json_object_end(json);
}

static void write_kind(const char *key, const struct aorta_hwq_agreed *agreed, struct aorta_json *json) {
    aorta_json_key(json, key);
    aorta_json_object(json);
    aorta_json_key_int(json, "pairs", (int64_t)agreed->count);
    aorta_json_key_double(json, "stamped_us", agreed->stamped_us);
    aorta_json_key_double(json, "corrected_us", agreed->corrected_us);
    aorta_json_key_double(json, "recorded_us", agreed->recorded_us);
    aorta_json_key_double(json, "stamped_difference", agreed->stamped_off);
    aorta_json_key_double(json, "corrected_difference", agreed->corrected_off);
    if (agreed->worst_stream >= 0)
        aorta_json_key_int(json, "worst_stream", agreed->worst_stream);
    else
        aorta_json_key_null(json, "worst_stream");
    aorta_json_key_double(json, "worst_stream_difference", agreed->worst_off);
    aorta_json_key_double(json, "pair_difference_p50_us", agreed->off_p50_us);
    aorta_json_key_double(json, "pair_difference_p90_us", agreed->off_p90_us);
    if (agreed->reason) {
        aorta_json_key_null(json, "stamped_within");
        aorta_json_key_null(json, "within");
    } else {
        aorta_json_key_bool(json, "stamped_within", agreed->stamped_within);
        aorta_json_key_bool(json, "within", agreed->corrected_within);
    }
    aorta_json_key_string(json, "reason", agreed->reason);
    aorta_json_object_end(json);
}

void aorta_hwq_agreement_json(const struct aorta_hwq_agreement *agreement, struct aorta_json *json) {
    aorta_json_object(json);
    aorta_json_key_int(json, "iterations", (int64_t)agreement->iterations);
    aorta_json_key_double(json, "limit", aorta_hwq_agreement_limit);
    aorta_json_key_double(json, "tick_ns", agreement->tick_ns);
    for (int kind = 0; kind < AORTA_HWQ_PAIR_KINDS; kind++) write_kind(kind_keys[kind], &agreement->kinds[kind], json);
    aorta_json_key_string(json, "offset_source", agreement->beside ? "beside" : "probe");
    write_offset("offset_self", &agreement->self, json);
    write_offset("offset_marked", &agreement->marked, json);
    aorta_json_key_bool(json, "within", aorta_hwq_agrees(agreement));
    aorta_json_object_end(json);
}
