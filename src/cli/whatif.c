/* aorta whatif: the recorded step with other resources. */
#include "report/whatif.h"
#include "base/sort.h"
#include "cli/cli.h"
#include "report/summary.h"
#include "verdict/causes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct whatif_arguments {
    const char *ranks, *bandwidth, *latency, *compute, *copies, *step_range;
    struct aorta_string_list without, remedies;
    int64_t ranks_per_node;
    struct aorta_cli_outputs to;
    bool quiet;
};

#define AT(field) offsetof(struct whatif_arguments, field)
static const struct aorta_range_limits at_least_one = {.min = 1, .max = 1e6};
static const struct aorta_option rows[] = {
    {"ranks", AORTA_OPTION_STRING, AT(ranks), "null", .argument = "N,N,…",
     .help = "numbers of ranks: 8,64,1024; default: as recorded; without any change also 2 to 64 times as many"},
    {"bandwidth", AORTA_OPTION_STRING, AT(bandwidth), "null", .argument = "B",
     .help = "bandwidth of each rank's link to other nodes, per direction: 400G (Gbit/s) or 50GB/s; "
             "default: as recorded"},
    {"latency", AORTA_OPTION_STRING, AT(latency), "null", .argument = "T",
     .help = "latency of a message to another node: 5us, 800ns; default: as recorded"},
    {"ranks-per-node", AORTA_OPTION_INT, AT(ranks_per_node), "8", .limits = &at_least_one, .argument = "N",
     .help = "ranks per node, which use the recorded link; 1: all links are between nodes"},
    {"compute", AORTA_OPTION_STRING, AT(compute), "1x", .argument = "X",
     .help = "speed of the kernels against the recording: 2x, 0.5x"},
    {"copies", AORTA_OPTION_STRING, AT(copies), "1x", .argument = "X",
     .help = "speed of copies between host and device against the recording: 2x, 0.5x"},
    {"without", AORTA_OPTION_STRING_LIST, AT(without), "null", .argument = "CAUSE",
     .help = "without this cause of the verdict (host_launch, host_sync, …); repeat it for several"},
    {"remedy", AORTA_OPTION_STRING_LIST, AT(remedies), "null", .argument = "KEY[=VALUE]",
     .help = "with this remedy of compute (precision=bf16, attention, fusion, …; docs/remedies.md); repeat it for "
             "several"},
    {"step-range", AORTA_OPTION_STRING, AT(step_range), "null", .argument = "REGEX",
     .help = "a step begins with each range of a trace whose name matches, as in aorta trace analyze"},
    AORTA_CLI_CSV_OPTION(AT(to.csv)),
    {"html", AORTA_OPTION_STRING, AT(to.html), "null", .argument = "OUT", .path = AORTA_PATH_FILE,
     .help = "write a page for a browser to this file"},
    {"json", AORTA_OPTION_BOOL, AT(to.json), "false", .help = "print all figures as JSON"},
    AORTA_CLI_QUIET_OPTION(AT(quiet)),
};

static const struct aorta_cli_syntax syntax = {
    .usage = "aorta whatif FILE|DIR|RUN [--ranks 8,64,1024] [--bandwidth 400G] [--latency 5us] [--ranks-per-node 8] "
             "[--compute 2x] [--copies 2x] [--without CAUSE …] [--remedy KEY[=VALUE] …] [--html OUT] [--csv DIR] "
             "[--json|-q]",
    .about = "Predicts the recorded step with other resources by replaying it: more ranks, other links, "
             "faster kernels, or without a cause. Takes traces as aorta trace analyze does, or the "
             "directory of a run of aorta train. Prints what it assumes.",
    AORTA_CLI_OPTIONS(rows),
    .operands = true,
    .reads_operands = true,
};

/* The parsed options. */
struct request {
    const struct whatif_arguments *arguments;
    struct aorta_arena *arena; /* the command line's */
    int *ranks;
    size_t rank_count;
    double ns_per_byte, latency_ns; /* negative: not given */
    double compute, copies;
    uint32_t removed;
    uint32_t remedies; /* bits */
};

/* ---- values ---- */

struct unit {
    const char *name;
    double factor;
};

/* Reads a positive number with its unit. False if it is none. */
static bool read_quantity(const char *text, const struct unit *units, double *value) {
    char *end;
    double number = strtod(text, &end);
    if (end == text || !isfinite(number) || number <= 0) return false;
    for (; units->name; units++) {
        if (strcmp(end, units->name) != 0) continue;
        *value = number * units->factor;
        return isfinite(*value) && *value > 0;
    }
    return false;
}

/* GB/s of 10^9 bytes. Network people count bits. */
static const struct unit bandwidths[] = {
    {"G", 0.125},    {"Gbit/s", 0.125},    {"Gb/s", 0.125},    {"Gbps", 0.125},
    {"M", 0.000125}, {"Mbit/s", 0.000125}, {"Mb/s", 0.000125}, {"Mbps", 0.000125},
    {"T", 125},      {"Tbit/s", 125},      {"Tb/s", 125},      {"Tbps", 125},
    {"GB/s", 1},     {"MB/s", 0.001},      {"TB/s", 1000},     {0},
};
static const struct unit latencies[] = {{"ns", 1}, {"us", 1e3}, {"µs", 1e3}, {"ms", 1e6}, {"s", 1e9}, {0}};
static const struct unit factors[] = {{"x", 1}, {"", 1}, {0}};

static aorta_status read_resources(struct request *request) {
    const struct whatif_arguments *arguments = request->arguments;
    double gbps;
    request->ns_per_byte = request->latency_ns = -1;
    if (arguments->bandwidth && !read_quantity(arguments->bandwidth, bandwidths, &gbps))
        return AORTA_ERROR(AORTA_USAGE, "--bandwidth %s: give Gbit/s as 400G, or bytes as 50GB/s",
                           arguments->bandwidth);
    if (arguments->bandwidth) request->ns_per_byte = 1 / gbps;
    if (arguments->latency && !read_quantity(arguments->latency, latencies, &request->latency_ns))
        return AORTA_ERROR(AORTA_USAGE, "--latency %s: give a time with its unit, as 5us or 800ns", arguments->latency);
    if (!read_quantity(arguments->compute, factors, &request->compute))
        return AORTA_ERROR(AORTA_USAGE, "--compute %s: give a factor above 0, as 2x or 0.5x", arguments->compute);
    if (!read_quantity(arguments->copies, factors, &request->copies))
        return AORTA_ERROR(AORTA_USAGE, "--copies %s: give a factor above 0, as 2x or 0.5x", arguments->copies);
    return NULL;
}

static aorta_status read_ranks(const char *text, struct request *request) {
    size_t limit = 1;
    for (const char *c = text; c && *c; c++) limit += *c == ',';
    request->ranks = aorta_arena_alloc(request->arena, limit * sizeof *request->ranks);
    AORTA_TRY(aorta_arena_check(request->arena, "the numbers of ranks"));
    for (const char *at = text; at; at = *at ? at + 1 : NULL) {
        char *end;
        long ranks = *at >= '0' && *at <= '9' ? strtol(at, &end, 10) : 0;
        if (ranks < 1 || ranks > (long)at_least_one.max || (*end && *end != ','))
            return AORTA_ERROR(AORTA_USAGE, "--ranks %s: give whole numbers from 1 to 1000000, as 8,64,1024", text);
        request->ranks[request->rank_count++] = (int)ranks;
        at = end;
    }
    aorta_sort_rows(request->ranks, request->rank_count, sizeof *request->ranks, aorta_by_int32);
    return NULL;
}

/* The error for `--OPTION name`, where `name` is no known `what`. */
static aorta_status unknown_name(const char *option, const char *what, const char *name, const char *const *known,
                                 size_t count) {
    struct aorta_text text = {0};
    const char *nearest = aorta_nearest(name, known, count);
    aorta_text_printf(&text, "--%s %s: no such %s", option, name, what);
    if (nearest) aorta_text_printf(&text, " (did you mean %s?)", nearest);
    aorta_text_puts(&text, "; one of ");
    aorta_text_words(&text, known, count);
    return aorta_text_error(&text, AORTA_USAGE);
}

static aorta_status read_cause(const char *name, struct request *request) {
    const char *known[AORTA_REMOVAL_COUNT];
    uint32_t removed = 0;
    size_t count = 0;
    for (int i = 0; i < AORTA_REMOVAL_COUNT; i++) {
        const char *cause = aorta_removal_cause((enum aorta_removal)i);
        if (strcmp(cause, name) == 0) removed |= aorta_removal_bit((enum aorta_removal)i);
        if (count && strcmp(known[count - 1], cause) == 0) continue; /* places of one cause follow each other */
        known[count++] = cause;
    }
    request->removed |= removed;
    if (removed) return NULL;
    if (aorta_remedy_find(name))
        return AORTA_ERROR(AORTA_USAGE, "--without %s: this cause makes kernels slower; use --remedy %s", name, name);
    return unknown_name("without", "cause to remove", name, known, count);
}

static aorta_status read_remedy(const char *name, struct request *request) {
    const char *known[AORTA_REMEDY_COUNT];
    const uint32_t found = aorta_remedy_find(name);
    for (int i = 0; i < AORTA_REMEDY_COUNT; i++) known[i] = aorta_remedy_rules[i].key;
    request->remedies |= found;
    return found ? NULL : unknown_name("remedy", "remedy", name, known, AORTA_REMEDY_COUNT);
}

static aorta_status read_request(struct request *request) {
    const struct whatif_arguments *arguments = request->arguments;
    AORTA_TRY(read_resources(request));
    AORTA_TRY(read_ranks(arguments->ranks, request));
    for (size_t i = 0; i < arguments->without.count; i++) AORTA_TRY(read_cause(arguments->without.items[i], request));
    for (size_t i = 0; i < arguments->remedies.count; i++)
        AORTA_TRY(read_remedy(arguments->remedies.items[i], request));
    return NULL;
}

/* ---- which resources can be replayed ---- */

static bool changes_links(const struct aorta_whatif *whatif, const struct request *request) {
    for (size_t i = 0; i < request->rank_count; i++)
        if (request->ranks[i] != whatif->collectives->ranks) return true;
    return request->ns_per_byte >= 0 || request->latency_ns >= 0;
}

static bool knows_sizes(const struct aorta_whatif_collectives *collectives) {
    for (uint32_t i = 0; i < collectives->count; i++)
        if (collectives->items[i].bytes > 0) return true;
    return false;
}

/* If no link was recorded, the given link is used for all. This is possible only for a recording of one rank. */
static aorta_status check_link(struct aorta_whatif *whatif, const struct request *request) {
    if (whatif->fit.samples || !changes_links(whatif, request)) return NULL;
    if (!whatif->collectives->count)
        return AORTA_ERROR(AORTA_USAGE,
                           "--ranks, --bandwidth, --latency: no collectives were recorded, so nothing is known of what "
                           "ranks exchange; record a step of at least 2 ranks");
    if (whatif->collectives->ranks > 1 || !knows_sizes(whatif->collectives))
        return AORTA_ERROR(AORTA_USAGE,
                           "--ranks, --bandwidth, --latency: the recording does not say how large its collectives are; "
                           "record sizes (PyTorch: record_shapes=True), or leave the options out");
    if (request->ns_per_byte < 0 || request->latency_ns < 0)
        return AORTA_ERROR(AORTA_USAGE,
                           "--ranks: one rank was recorded, which uses no link; give the link with --bandwidth and "
                           "--latency, as --bandwidth 400G --latency 5us");
    struct aorta_link given = {request->latency_ns, request->ns_per_byte};
    whatif->recorded.within = whatif->recorded.between = given;
    return NULL;
}

static struct aorta_whatif_resources resources_of(const struct aorta_whatif *whatif, const struct request *request) {
    struct aorta_whatif_resources resources = {.ranks = whatif->collectives->ranks,
                                               .network = whatif->recorded,
                                               .compute = request->compute,
                                               .copies = request->copies,
                                               .removed = request->removed};
    if (request->ns_per_byte >= 0) resources.network.between.ns_per_byte = request->ns_per_byte;
    if (request->latency_ns >= 0) resources.network.between.latency_ns = request->latency_ns;
    return resources;
}

/* ---- replays ---- */

/* Whether no resource is slower than recorded, so that the step cannot be longer. The replay could show a longer step,
 * as it counts from the end of the previous step, which also becomes earlier. */
static bool nothing_is_slower(const struct aorta_whatif_result *result, int ranks) {
    return ranks == result->whatif->collectives->ranks && !result->bandwidth_given && !result->latency_given &&
           result->resources.compute >= 1 && result->resources.copies >= 1;
}

static aorta_status add_row(struct aorta_whatif_result *result, int ranks, bool asked) {
    struct aorta_whatif_row row = {.ranks = ranks, .asked = asked};
    struct aorta_whatif_resources resources = result->resources;
    resources.ranks = ranks;
    size_t place = result->row_count;
    for (size_t i = 0; i < result->row_count; i++) {
        result->rows[i].asked |= result->rows[i].ranks == ranks && asked;
        if (result->rows[i].ranks == ranks) return NULL;
    }
    AORTA_TRY(aorta_whatif_run(result->whatif, &resources, &row.step));
    if (nothing_is_slower(result, ranks)) row.step.step_ns = fmin(row.step.step_ns, result->replayed_ns);
    for (; place && result->rows[place - 1].ranks > ranks; place--) result->rows[place] = result->rows[place - 1];
    result->rows[place] = row;
    result->row_count++;
    return NULL;
}

static const struct aorta_whatif_row *row_of(const struct aorta_whatif_result *result, int ranks) {
    for (size_t i = 0; i < result->row_count; i++)
        if (result->rows[i].ranks == ranks) return &result->rows[i];
    return NULL;
}

static aorta_status find_stop(struct aorta_whatif_result *result) {
    const int recorded = result->whatif->collectives->ranks;
    const double base_ns = row_of(result, recorded)->step.step_ns;
    for (size_t i = 0; i < result->row_count; i++) {
        struct aorta_whatif_row *row = &result->rows[i];
        row->efficiency = row->step.step_ns > 0 ? base_ns / row->step.step_ns : NAN;
        bool stops = row->ranks > recorded && row->efficiency < AORTA_WHATIF_SCALES;
        if (!result->stop && (stops || i + 1 == result->row_count)) result->stop = row;
    }
    struct aorta_whatif_resources resources = result->resources;
    resources.ranks = result->stop->ranks;
    return aorta_whatif_find_limit(result->whatif, &resources, &result->limit);
}

static aorta_status fill(struct aorta_whatif_result *result, const struct request *request) {
    const int recorded = result->whatif->collectives->ranks;
    const struct aorta_whatif_resources unchanged = {
        .ranks = recorded, .network = result->whatif->recorded, .compute = 1, .copies = 1};
    struct aorta_whatif_step step;
    AORTA_TRY(aorta_whatif_run(result->whatif, &unchanged, &step));
    result->replayed_ns = result->remedies.set ? result->remedies.worth.before_ns : step.step_ns;
    int most = request->rank_count ? request->ranks[request->rank_count - 1] : recorded;
    const bool curve = result->changes_nothing && !request->rank_count && result->whatif->fit.samples && recorded > 1;
    if (curve) most = 64 * recorded + 1; /* what would more ranks bring? */
    AORTA_TRY(add_row(result, recorded, true));
    for (size_t i = 0; i < request->rank_count; i++) AORTA_TRY(add_row(result, request->ranks[i], true));
    for (int64_t ranks = 2 * (int64_t)recorded; ranks < most; ranks *= 2)
        AORTA_TRY(add_row(result, (int)ranks, !request->rank_count));
    struct aorta_whatif_resources resources = result->resources;
    resources.ranks = result->rows[result->row_count - 1].ranks;
    result->exposed.kind = AORTA_COLLECTIVE_COUNT;
    if (result->remedies.set) AORTA_TRY(aorta_whatif_find_exposed(result->whatif, &resources, &result->exposed));
    return find_stop(result);
}

static aorta_status print(const struct aorta_whatif_result *result, const struct whatif_arguments *arguments) {
    const struct aorta_page_results shown = {.kind = "whatif", .title = "AORTA: whatif", .tables = aorta_whatif_tables};
    struct aorta_found_list found = aorta_whatif_find(result);
    struct aorta_text text = {0}, json = {0};
    aorta_whatif_json(result, &found, &json);
    if (arguments->quiet)
        aorta_found_answer_text(&found, &text);
    else
        aorta_whatif_text(result, &found, &text);
    aorta_status status = aorta_arena_check(&found.arena, "what was found");
    aorta_found_free(&found);
    if (!status && arguments->to.csv) status = aorta_table_csv(aorta_whatif_tables[0], result, arguments->to.csv);
    return aorta_cli_show(&arguments->to, NULL, shown, &text, &json, status);
}

/* The verdict's gain of the cause, where one is left out. Last, as the verdict frees ranges. */
static aorta_status take_gain(struct aorta_recorded *recorded, const struct request *request, double gain_ms[2]) {
    const struct aorta_string_list *causes = &request->arguments->without;
    if (causes->count != 1) return NULL;
    AORTA_TRY(aorta_recorded_evaluate(recorded));
    for (size_t i = recorded->verdict.finding_count; i-- > 0;) {
        const struct aorta_finding *finding = &recorded->verdict.findings[i];
        if (strcmp(aorta_cause_row(finding->cause)->key, causes->items[0]) != 0 || !aorta_finding_gains(finding))
            continue;
        if (!aorta_finding_is_range(finding, gain_ms)) gain_ms[0] = gain_ms[1] = aorta_finding_shown_ms(finding);
    }
    return NULL;
}

/* In the verdict, stalls before copies of the input are waiting for data. */
static aorta_status add_stalls(struct aorta_recorded *recorded, struct request *request) {
    if (!(request->removed & aorta_removal_bit(AORTA_WITHOUT_DATA_WAIT))) return NULL;
    AORTA_TRY(aorta_recorded_evaluate(recorded));
    const struct aorta_finding *finding = aorta_verdict_find(&recorded->verdict, AORTA_CAUSE_DATA_WAIT);
    const bool stalls = finding && aorta_facts_has(&finding->facts, AORTA_FACT_PAUSE_INPUT);
    return stalls ? read_cause("host_pause", request) : NULL;
}

/* Fills the result's remedies, the cost of the recording and, with remedies, the step without them. */
static aorta_status replay(struct aorta_recorded *recorded, const struct aorta_graph *graph,
                           const struct aorta_whatif_collectives *collectives, struct request *request,
                           struct aorta_whatif *whatif, struct aorta_whatif_result *result) {
    enum { DOUBLINGS = 32 };
    const struct whatif_arguments *arguments = request->arguments;
    AORTA_TRY(add_stalls(recorded, request));
    AORTA_TRY(aorta_whatif_begin(graph, collectives, (int)arguments->ranks_per_node, request->latency_ns, whatif));
    AORTA_TRY(check_link(whatif, request));
    result->resources = resources_of(whatif, request);
    result->path = aorta_graph_critical(graph);
    result->bandwidth_given = request->ns_per_byte >= 0;
    result->latency_given = request->latency_ns >= 0;
    const bool resources =
        result->bandwidth_given || result->latency_given || request->compute != 1 || request->copies != 1;
    result->only_remedies = !resources && !request->removed;
    result->changes_nothing = result->only_remedies && !request->remedies;
    result->rows = aorta_arena_alloc(request->arena, (request->rank_count + DOUBLINGS) * sizeof *result->rows);
    AORTA_TRY(aorta_arena_check(request->arena, "the rows"));
    AORTA_TRY(fill(result, request));
    if (!resources && !request->remedies) AORTA_TRY(take_gain(recorded, request, result->verdict_ms));
    return print(result, arguments);
}

/* ---- what was recorded ---- */

static aorta_status replay_trace(struct aorta_recorded *recorded, struct request *request) {
    const struct aorta_trace_analysis *analysis = &recorded->analysis;
    struct aorta_trace_graph built;
    struct aorta_whatif_collectives collectives;
    struct aorta_whatif whatif;
    struct aorta_whatif_result result = {.whatif = &whatif, .remedies = {.set = request->remedies}};
    AORTA_TRY(aorta_trace_graph_make(analysis, &built));
    aorta_status status = aorta_whatif_of_trace(analysis, &built, &collectives);
    if (!status) {
        status = aorta_trace_graph_unrecord(&built, &result.unrecorded); /* as the verdict's gains */
        if (!status && result.remedies.set)
            status = aorta_verdict_apply_remedies(analysis, &built, result.remedies.set, &result.remedies.worth);
        if (!status) status = replay(recorded, &built.graph, &collectives, request, &whatif, &result);
        aorta_whatif_collectives_free(&collectives);
    }
    aorta_trace_graph_free(&built);
    return status;
}

static aorta_status open_recorded(struct aorta_cli_line *line, struct request *request) {
    const struct aorta_trace_options reading = {.guarded = true, .step_range = request->arguments->step_range};
    const struct aorta_log log = {.level = AORTA_LOG_INFO, .rank = -1};
    struct aorta_recorded recorded;
    aorta_status status = aorta_recorded_open((const char *const *)line->operands, (size_t)line->operand_count,
                                              &reading, NULL, &log, &recorded);
    if (!status) {
        status = replay_trace(&recorded, request);
        if (aorta_status_code(status) != AORTA_IO) /* of an output, which names itself */
            status = aorta_annotate(status, "%s", line->operands[0]);
    }
    aorta_recorded_free(&recorded);
    return status;
}

static aorta_status run(struct aorta_cli_line *line, void *values) {
    const struct whatif_arguments *arguments = values;
    if (!line->operand_count)
        return AORTA_ERROR(AORTA_USAGE, "name a trace or the directory of a run; usage: %s", syntax.usage);
    struct request request = {.arguments = arguments, .arena = &line->arena};
    AORTA_TRY(aorta_cli_outputs_prepare(&arguments->to));
    AORTA_TRY(read_request(&request));
    return open_recorded(line, &request);
}

const struct aorta_cli_entry aorta_cli_whatif = {&syntax, run, .size = sizeof(struct whatif_arguments),
                                                 .reads_recordings = true};
