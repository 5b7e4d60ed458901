#include "hwq/limit.h"
#include "hwq/graph.h"
#include "hwq/iterations.h"
#include "hwq/kernels/kernels.h"

#include <math.h>
#include <string.h>

/* From these shares of an iteration on, queueing or the kernels limit. */
static const double by_queueing = 0.9, by_kernels = 0.7;
/* If stamped work takes this many times a timed iteration, the stamps dominate. */
static const double too_slow = 1.2;
static const size_t fewest_gaps = 10;
/* From this ratio of a gap to its kernel on, gaps limit. */
static const double by_gaps = 0.5;

/* ---- what ran ---- */

void aorta_hwq_busy_add(struct aorta_hwq_busy *busy, const struct aorta_hwq_spans *spans) {
    if (spans->unstamped || !spans->count) return;
    for (size_t i = 0; i < spans->count; i++) {
        const struct aorta_span *span = &spans->items[i];
        if (span->kind == AORTA_SPAN_HOST) continue;
        busy->marked = busy->marked || span->marked;
        aorta_hwq_samples_add(&busy->kernel, (double)(span->end_ns - span->start_ns), &busy->memory);
    }
    const struct aorta_span_times times = aorta_spans_measure(spans->items, spans->count, &busy->memory);
    if (times.span_ns > 0)
        aorta_hwq_samples_add(&busy->idle, (double)times.idle_ns / (double)times.span_ns, &busy->memory);
    aorta_hwq_samples_add(&busy->busy, (double)times.busy_ns, &busy->memory);
    aorta_hwq_samples_add(&busy->host, (double)times.host_ns, &busy->memory);
    aorta_hwq_samples_add(&busy->sum, (double)times.sum_ns, &busy->memory);
}

/* ---- what limits ---- */

static bool is_own(const char *source) { /* not the probe's */
    return source && source[0] == 'w';
}

static double host_gap_share(const struct aorta_hwq_switch *gaps) {
    const size_t host = gaps->host.intra_samples + gaps->host.inter_samples;
    const size_t own =
        (is_own(gaps->intra_source) ? gaps->intra_samples : 0) + (is_own(gaps->inter_source) ? gaps->inter_samples : 0);
    return host ? (double)host / (double)(host + own) : NAN;
}

static enum aorta_hwq_finding find_cause(const struct aorta_hwq_limit *limit, const struct aorta_hwq_result *result,
                                         bool gate, bool marked) {
    const struct aorta_hwq_switch *gaps = &result->switch_latency;
    if (isnan(limit->busy_share)) return AORTA_HWQ_LIMIT_UNSTAMPED;
    const bool idle = limit->busy_share<by_kernels, host = limit->host_share> limit->waiting_share;
    if (idle && host) return AORTA_HWQ_LIMIT_HOST_WORK;
    if (!gate && limit->queueing_share >= by_queueing && (marked || limit->busy_share < by_queueing))
        return AORTA_HWQ_LIMIT_LAUNCHES;
    if (!gate && marked && limit->queueing_share > 0.5 && limit->busy_ms > too_slow * result->latency_ms.p50)
        return AORTA_HWQ_LIMIT_UNKNOWN;
    if (idle) return AORTA_HWQ_LIMIT_WAITING;
    if (gaps->intra_samples >= fewest_gaps && is_own(gaps->intra_source) &&
        gaps->intra_gap_ms >= by_gaps * limit->kernel_ms)
        return AORTA_HWQ_LIMIT_GAPS;
    return AORTA_HWQ_LIMIT_KERNELS;
}

struct aorta_hwq_limit aorta_hwq_limit_find(const struct aorta_hwq_busy *busy, const struct aorta_hwq_result *result,
                                            bool gate) {
    const struct aorta_summary host = aorta_summarise(result->host_launch_ms, result->iteration_count);
    const double p50 = result->latency_ms.p50, ran = aorta_hwq_samples_median(&busy->busy);
    struct aorta_hwq_limit limit = {.busy_ms = 1e-6 * ran,
                                    .host_ms = 1e-6 * aorta_hwq_samples_median(&busy->host),
                                    .queueing_share = fmin(host.p50 / p50, 1.0),
                                    .at_once = aorta_hwq_samples_median(&busy->sum) / ran,
                                    .kernel_ms = 1e-6 * aorta_summarise(busy->kernel.items, busy->kernel.count).mean};
    /* Takes the lower waiting share of stamped and timed iterations, as stamps or chance only make it larger. */
    limit.waiting_share =
        fmin(aorta_hwq_samples_median(&busy->idle), fmax(1.0 - (limit.busy_ms + limit.host_ms) / p50, 0.0));
    limit.host_share = (1.0 - limit.waiting_share) * limit.host_ms / (limit.busy_ms + limit.host_ms);
    limit.busy_share = 1.0 - limit.waiting_share - limit.host_share;
    limit.host_gap_share = host_gap_share(&result->switch_latency);
    limit.by = find_cause(&limit, result, gate, busy->marked);
    limit.key = aorta_hwq_finding_rows[limit.by].key;
    limit.without_ms = p50 * (1.0 - (limit.by == AORTA_HWQ_LIMIT_WAITING     ? limit.waiting_share
                                     : limit.by == AORTA_HWQ_LIMIT_HOST_WORK ? limit.host_share
                                                                             : NAN));
    return limit;
}

/* ---- clocks and drift ---- */

void aorta_hwq_find_low_clocks(struct aorta_hwq_result *result) {
    if (aorta_clocks_low(&result->clocks)) aorta_hwq_result_finding(result, AORTA_HWQ_LOW_CLOCK);
}

/* The clock may have fallen before the first sample, so a low or limited clock counts, too. */
static enum aorta_hwq_finding why_slower(const struct aorta_clocks *clocks) {
    struct aorta_text why = {0};
    const bool several = clocks->readings > 1, limited = clocks->readings && aorta_clocks_why(clocks, &why);
    aorta_text_free(&why);
    if (several && clocks->last_mhz < 0.99 * clocks->first_mhz) return AORTA_HWQ_SLOWER_AS_CLOCK_FELL;
    if (limited) return AORTA_HWQ_SLOWER_AS_LIMITED;
    if (aorta_clocks_low(clocks)) return AORTA_HWQ_SLOWER_AT_LOW_CLOCK;
    return several ? AORTA_HWQ_SLOWER_AT_STEADY_CLOCK : AORTA_HWQ_SLOWER;
}

void aorta_hwq_find_drift(struct aorta_hwq_result *result) {
    enum { FEWEST = 20 };
    const size_t quarter = result->iteration_count / 4;
    if (result->iteration_count < FEWEST) return;
    const double first = aorta_summarise(result->iteration_times_ms, quarter).p50;
    const double last = aorta_summarise(result->iteration_times_ms + result->iteration_count - quarter, quarter).p50;
    result->first_quarter_ms = first;
    result->last_quarter_ms = last;
    if (fabs(last / first - 1.0) >= 0.05)
        aorta_hwq_result_finding(result, last > first ? why_slower(&result->clocks) : AORTA_HWQ_FASTER);
}

/* ---- JSON ---- */

#define ROW(key, member, unit, words)                                                                                  \
    { (key), AORTA_ROW_NUMBER, offsetof(struct aorta_hwq_limit, member), (unit), .help = (words) }
const struct aorta_row aorta_hwq_limit_rows[] = {
    ROW("busy_ms", busy_ms, "ms", "something runs on any stream"),
    ROW("busy_share", busy_share, "share", "the same as a share of the median iteration"),
    ROW("host_work_ms", host_ms, "ms", "only a call of the host runs"),
    ROW("host_work_share", host_share, "share", "the same as a share"),
    ROW("waiting_share", waiting_share, "share", "nothing runs"),
    ROW("host_queueing_share", queueing_share, "share", "the host queues work"),
    ROW("streams_at_once", at_once, NULL, "streams that run something while any does"),
    ROW("kernel_mean_ms", kernel_ms, "ms", "a kernel"),
    ROW("iteration_without_ms", without_ms, "ms", "the iteration without its limit, of host work or waiting"),
    ROW("host_gap_share", host_gap_share, "share", "gaps in which a stream waits for the host"),
    {0}};

void aorta_hwq_limit_json(const struct aorta_hwq_result *result, struct aorta_json *json) {
    struct aorta_text text = {0};
    (void)aorta_hwq_finding_text(result, result->limit.by, &text);
    aorta_json_object(json);
    aorta_json_key_string(json, "by", result->limit.key);
    aorta_json_key_string(json, "text", text.data);
    aorta_rows_json(aorta_hwq_limit_rows, &result->limit, 0, json);
    aorta_json_object_end(json);
    aorta_text_free(&text);
}

void aorta_hwq_samples_add(struct aorta_hwq_samples *samples, double value, struct aorta_arena *memory) {
    aorta_arena_append(memory, &samples->items, &samples->capacity, &samples->count, &value, sizeof value);
}

double aorta_hwq_samples_median(const struct aorta_hwq_samples *samples) {
    return aorta_summarise(samples->items, samples->count).p50;
}

/* ---- one iteration ---- */

struct iteration {
    struct aorta_hwq_gaps *gaps;
    struct aorta_span *work; /* without calls of the host */
    int64_t *call_ends;
    size_t work_count, call_count;
};

static bool is_caused_by_host(const struct iteration *iteration, const struct aorta_span *before,
                              const struct aorta_span *after) {
    if (after->launch_ns > before->end_ns) return true;
    for (size_t i = 0; i < iteration->call_count; i++)
        if (iteration->call_ends[i] > before->end_ns && iteration->call_ends[i] <= after->start_ns) return true;
    return false;
}

static void add_gap(void *user, const struct aorta_span *before, const struct aorta_span *after) {
    const struct iteration *iteration = user;
    struct aorta_hwq_gaps *gaps = iteration->gaps;
    const bool host = is_caused_by_host(iteration, before, after);
    struct aorta_hwq_samples *intra = host ? &gaps->host_intra : &gaps->intra;
    struct aorta_hwq_samples *inter = host ? &gaps->host_inter : &gaps->inter;
    aorta_hwq_samples_add(before->stream == after->stream ? intra : inter, (double)(after->start_ns - before->end_ns),
                          &gaps->memory);
}

static void split_spans(struct iteration *iteration, const struct aorta_hwq_spans *spans) {
    for (size_t i = 0; i < spans->count; i++)
        if (spans->items[i].kind == AORTA_SPAN_HOST)
            iteration->call_ends[iteration->call_count++] = spans->items[i].end_ns;
        else
            iteration->work[iteration->work_count++] = spans->items[i];
}

void aorta_hwq_gaps_add(struct aorta_hwq_gaps *gaps, const struct aorta_hwq_spans *spans) {
    struct aorta_arena scratch = {0};
    struct iteration iteration = {.gaps = gaps};
    iteration.work = aorta_arena_raw(&scratch, spans->count * sizeof *iteration.work);
    iteration.call_ends = aorta_arena_raw(&scratch, spans->count * sizeof *iteration.call_ends);
    if (!scratch.failed) split_spans(&iteration, spans);
    aorta_gaps_on_streams(iteration.work, iteration.work_count, add_gap, &iteration, &scratch);
    aorta_gaps_between_streams(iteration.work, iteration.work_count, add_gap, &iteration, &scratch);
    aorta_arena_end(&scratch, &gaps->memory);
}

/* ---- the probe ----
 * Tiny kernels in a row on one stream, then a chain in which each kernel waits by an event for the
 * previous one on the previous stream. Both run after a gate. The difference of their gaps is the overhead of a switch.
 */

enum { LINKS = 64, ROUNDS = 8, ELEMENTS = 256 };

struct probe {
    const struct aorta_hwq *hwq; /* of the workload: without the stream that is added to a single one */
    int stream_count;
    struct aorta_hwq_stamps_file *file; /* may be NULL */
    struct aorta_arena memory;          /* of the samples */
    struct aorta_hwq_samples intra, inter, same, across;
    struct aorta_hwq_samples pairs[AORTA_HWQ_MAX_STREAMS]; /* by the second stream */
};

static const struct hwq_kind link_kind = {.name = "aorta_hwq_multiply_add", .span = AORTA_SPAN_KERNEL};

/* Each kernel reads the result of the previous one, and so waits for it. */
static void add_link(struct hwq_graph *g, int stream, struct hwq_tensor values) {
    float *x = hwq_floats(values);
    const struct aorta_hwq_multiply_add args = {.x = x, .y = x, .count = ELEMENTS, .factor = 0.5f, .addend = 1.0f};
    const struct hwq_operation o = {.kind = &link_kind, .stream = stream, .in = {values}, .out = {values}};
    hwq_append_kernel(g, &o, &aorta_hwq_kernel_multiply_add, &args, sizeof args);
}

static void build(struct hwq_graph *g) {
    const struct hwq_tensor values = hwq_constant(g, AORTA_F32, ELEMENTS, NULL, "the probe's values");
    for (int i = 0; i < LINKS; i++) add_link(g, 0, values);
    for (int i = 1; i <= LINKS; i++) add_link(g, i % g->hwq->stream_count, values);
}

/* A switch to stream `to` from the previous stream. */
static void add_switch(struct probe *probe, int to, double gap) {
    const int from = (to + probe->stream_count - 1) % probe->stream_count;
    const bool same =
        probe->hwq->stream_count == 1 || aorta_hwq_priority(probe->hwq, from) == aorta_hwq_priority(probe->hwq, to);
    aorta_hwq_samples_add(same ? &probe->same : &probe->across, gap, &probe->memory);
    aorta_hwq_samples_add(&probe->pairs[to], gap, &probe->memory);
    aorta_hwq_samples_add(&probe->inter, gap, &probe->memory);
}

/* Spans are in the order of launches. */
static aorta_status add_spans(void *user, const struct aorta_hwq_spans *spans) {
    struct probe *probe = user;
    if (spans->unstamped)
        return AORTA_ERROR(AORTA_DEVICE, "%zu of %d kernels left no stamp", spans->unstamped, 2 * LINKS);
    if (probe->file) AORTA_TRY(aorta_hwq_stamps_file_add(probe->file, "probe", spans));
    for (size_t i = 1; i < 2 * LINKS; i++) {
        const double gap = (double)(spans->items[i].start_ns - spans->items[i - 1].end_ns);
        if (i < LINKS) aorta_hwq_samples_add(&probe->intra, gap, &probe->memory);
        if (i > LINKS) add_switch(probe, spans->items[i].stream, gap); /* i == LINKS: between the two parts */
    }
    return aorta_arena_check(&probe->memory, "samples");
}

static aorta_status measure(struct aorta_hwq *hwq, struct probe *probe) {
    struct hwq_graph *g;
    AORTA_TRY(hwq_graph_create(hwq, NULL, &g));
    build(g);
    aorta_status status = hwq_graph_finish(g);
    if (!status) status = aorta_stream_synchronize(hwq->streams[0]); /* the values are ready */
    const struct aorta_hwq_plan plan = {.gate = true, .iterations = ROUNDS, .g = g};
    if (!status) status = aorta_hwq_stamp_iterations(&plan, add_spans, probe);
    hwq_graph_destroy(g);
    return status;
}

static struct aorta_hwq_switches switches(const struct aorta_hwq_samples *samples, double intra_ms) {
    const double gap_ms = 1e-6 * aorta_hwq_samples_median(samples);
    return (struct aorta_hwq_switches){gap_ms, gap_ms - intra_ms, samples->count};
}

static struct aorta_hwq_probe medians(const struct probe *probe) {
    struct aorta_hwq_probe found = {.intra_ms = 1e-6 * aorta_hwq_samples_median(&probe->intra),
                                    .quickest = {.gap_ms = NAN},
                                    .slowest = {.gap_ms = NAN}};
    found.all = switches(&probe->inter, found.intra_ms);
    found.same_priority = switches(&probe->same, found.intra_ms);
    found.across_priorities = switches(&probe->across, found.intra_ms);
    found.chosen = found.same_priority.samples ? found.same_priority : found.across_priorities;
    for (int to = 0; to < probe->stream_count; to++) {
        const int from = (to + probe->stream_count - 1) % probe->stream_count;
        const struct aorta_hwq_pair pair = {from, to, 1e-6 * aorta_hwq_samples_median(&probe->pairs[to])};
        if (isnan(pair.gap_ms)) continue;
        if (!(found.quickest.gap_ms <= pair.gap_ms)) found.quickest = pair;
        if (!(found.slowest.gap_ms >= pair.gap_ms)) found.slowest = pair;
    }
    return found;
}

aorta_status aorta_hwq_probe_run(struct aorta_hwq *given, struct aorta_hwq_stamps_file *file,
                                 struct aorta_hwq_probe *found) {
    struct aorta_hwq hwq = *given; /* a copy with its own objects, which end with the probe */
    struct probe probe = {.hwq = given, .file = file};
    struct aorta_stream *second = NULL;
    aorta_status status = NULL;
    hwq.owned = (struct aorta_owned){.device = hwq.device};
    if (hwq.stream_count == 1) {
        status = aorta_stream_create(hwq.device, "probe", aorta_hwq_priority(given, 0), &second);
        hwq.streams[1] = second;
        if (!status) hwq.stream_count = 2;
    }
    probe.stream_count = hwq.stream_count;
    if (!status) status = measure(&hwq, &probe);
    given->gates = hwq.gates;
    *found = medians(&probe);
    aorta_owned_free(&hwq.owned);
    aorta_stream_destroy(second);
    aorta_arena_free(&probe.memory);
    return aorta_annotate(status, "the overhead of a switch to another stream");
}

/* ---- facts ---- */

/* Facts of the result besides its figures, in addition to those of the limit. */
#define AT(member) offsetof(struct aorta_hwq_result, member)
static const struct aorta_row rows[] = {
    {"iteration", AORTA_ROW_NUMBER, AT(latency_ms.p50), .unit = "ms"},
    {"intra_stream_gap", AORTA_ROW_NUMBER, AT(switch_latency.intra_gap_ms), .unit = "ms"},
    {"first_quarter", AORTA_ROW_NUMBER, AT(first_quarter_ms), .unit = "ms"},
    {"last_quarter", AORTA_ROW_NUMBER, AT(last_quarter_ms), .unit = "ms"},
    {"clock_first", AORTA_ROW_NUMBER, AT(clocks.first_mhz), .unit = "MHz"},
    {"clock_last", AORTA_ROW_NUMBER, AT(clocks.last_mhz), .unit = "MHz"},
    {"clock_lowest", AORTA_ROW_NUMBER, AT(clocks.mhz.min), .unit = "MHz"},
    {0}};

static bool find_row(const struct aorta_row *row, const void *values, const char *word, size_t length,
                     struct aorta_found_fact *fact) {
    while (row->key && !aorta_found_word_is(word, length, row->key)) row++;
    if (!row->key) return false;
    *fact = hwq_value(row->key, NAN, row->unit);
    memcpy(&fact->value, (const char *)values + row->offset, sizeof fact->value);
    return true;
}

static bool find_fact(const struct aorta_hwq_result *result, const char *word, size_t length,
                      struct aorta_found_fact *fact) {
    *fact = (struct aorta_found_fact){.value = NAN};
    if (aorta_found_word_is(word, length, "streams"))
        *fact = hwq_count("streams", result->stream_count > 1 ? result->stream_count : NAN);
    else if (aorta_found_word_is(word, length, "drift"))
        *fact = hwq_value("drift", result->last_quarter_ms / result->first_quarter_ms - 1.0, "change");
    else if (!find_row(aorta_hwq_limit_rows, &result->limit, word, length, fact) &&
             !find_row(rows, result, word, length, fact)) {
        for (size_t i = 0; i < result->figure_count; i++) {
            const struct aorta_hwq_figure *figure = &result->figures[i];
            if (aorta_found_word_is(word, length, figure->name))
                *fact = (struct aorta_found_fact){figure->name, figure->value, figure->unit, NULL, figure->group};
        }
    }
    return isfinite(fact->value);
}

struct gathered {
    const struct aorta_hwq_result *result;
    struct aorta_found_fact facts[8]; /* ends with a NULL key */
    size_t count;
    struct aorta_arena texts;
};

/* Finds a fact that is a text. Returns false if the word names no such fact or it is unknown. */
static bool find_text(const struct aorta_hwq_result *result, const char *word, size_t length, const char **key,
                      struct aorta_text *text) {
    static const char *const keys[] = {"clock_limits", "clocks", "wrong_value"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (aorta_found_word_is(word, length, keys[i])) *key = keys[i];
    if (*key == keys[0]) return aorta_clocks_why(&result->clocks, text);
    if (*key == keys[1]) aorta_clocks_sentence(&result->clocks, text);
    if (*key == keys[2] && result->worst_at)
        aorta_text_printf(text, "%s is %.9g, expected %.9g", result->worst_at, result->worst_got,
                          result->worst_expected);
    return text->length;
}

static bool gather_word(const void *user, const char *word, size_t length, struct aorta_text *out) {
    struct gathered *all = (struct gathered *)user;
    struct aorta_found_fact fact = {0};
    struct aorta_text text = {0};
    const char *key = NULL;
    (void)out;
    if (find_text(all->result, word, length, &key, &text))
        fact = hwq_text(key, aorta_arena_strdup(&all->texts, text.data));
    aorta_text_free(&text);
    if (key ? !fact.text : !find_fact(all->result, word, length, &fact)) return false;
    all->facts[all->count++] = fact;
    return true;
}

/* Returns false if a fact that the finding needs is unknown. */
static bool gather(struct gathered *all, enum aorta_hwq_finding finding) {
    struct aorta_text none = {0};
    const bool known = aorta_text_template(&none, aorta_hwq_finding_rows[finding].template, gather_word, all);
    aorta_text_free(&none);
    return known;
}

bool aorta_hwq_finding_text(const struct aorta_hwq_result *result, enum aorta_hwq_finding finding,
                            struct aorta_text *out) {
    struct gathered all = {.result = result};
    const bool known = gather(&all, finding);
    if (known)
        aorta_found_sentence(&(struct aorta_found){.row = &aorta_hwq_finding_rows[finding], .facts = all.facts}, out);
    aorta_arena_free(&all.texts);
    return known;
}

void aorta_hwq_result_add(const struct aorta_hwq_result *result, enum aorta_hwq_finding finding,
                          struct aorta_found_list *found) {
    struct gathered all = {.result = result};
    if (gather(&all, finding)) aorta_hwq_add(found, finding, all.facts);
    aorta_arena_end(&all.texts, &found->arena);
}

void aorta_hwq_result_finding(struct aorta_hwq_result *result, enum aorta_hwq_finding finding) {
    aorta_hwq_result_add(result, finding, &result->found);
}

/* The first answer in the order of the table. */
enum aorta_hwq_finding aorta_hwq_answer(const struct aorta_hwq_result *result) {
    enum aorta_hwq_finding answer = AORTA_HWQ_FINDINGS;
    for (size_t i = 0; i < result->found.count; i++) {
        const enum aorta_hwq_finding finding = result->found.items[i].finding;
        if (aorta_hwq_finding_rows[finding].kind == AORTA_FOUND_ANSWER && finding < answer) answer = finding;
    }
    return answer < AORTA_HWQ_FINDINGS ? answer : result->limit.by;
}

void aorta_hwq_headline(const struct aorta_hwq_result *result, struct aorta_text *out) {
    const enum aorta_hwq_finding answer = aorta_hwq_answer(result);
    aorta_text_printf(out, "%s: ", result->workload_name);
    if (aorta_hwq_finding_rows[answer].kind == AORTA_FOUND_LIMIT)
        aorta_text_puts(out, aorta_hwq_finding_rows[answer].key ? "limited by " : "limit ");
    (void)aorta_hwq_finding_text(result, answer, out);
}

/* ---- JSON ---- */

void aorta_hwq_result_findings_json(const struct aorta_hwq_result *result, struct aorta_json *json) {
    struct aorta_text text = {0};
    aorta_hwq_headline(result, &text);
    aorta_json_key_sentence(json, "headline", &text);
    aorta_found_sentences_json("findings", &result->found, AORTA_FOUND_KINDS, json);
    aorta_found_facts_json(&result->found, json);
}
