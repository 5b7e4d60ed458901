#include "report/whatif.h"
#include "report/phrases.h"
#include "report/schemas.h"

#include <math.h>
#include <string.h>

enum finding {
#define FINDING(name, kind, key, template) name,
#include "report/whatif.def"
#undef FINDING
};

#define COSTS "[; {collective} adds most: {more#} ms to the step there, mainly by {most_of_it}]"
static const struct aorta_found_row findings[] = {
#define FINDING(name, kind, key, template) [name] = {AORTA_FOUND_##kind, key, NULL, template},
#include "report/whatif.def"
#undef FINDING
};

static double share(int64_t part_ns, const struct aorta_whatif_result *result) {
    return result->path.length_ns > 0 ? (double)part_ns / (double)result->path.length_ns : 0;
}

static double gbytes_per_s(struct aorta_link link) {
    return link.ns_per_byte > 0 ? 1 / link.ns_per_byte : INFINITY;
}

static const struct aorta_whatif_row *last_row(const struct aorta_whatif_result *result) {
    return &result->rows[result->row_count - 1];
}

static bool crosses_nodes(const struct aorta_whatif_result *result) {
    return last_row(result)->ranks > result->resources.network.ranks_per_node;
}

static double measured_ns(const struct aorta_whatif_result *result) {
    return result->unrecorded.known ? result->unrecorded.recorded_ns : result->whatif->measured_ns;
}

/* NULL if no collective is exposed. */
static const char *collective_name(enum aorta_collective kind) {
    return kind == AORTA_COLLECTIVE_COUNT ? NULL : aorta_collective_name(kind);
}

/* The cause of a removal; NULL if it is not removed, or if it is a further place of the previous cause. */
static const char *removed_cause(uint32_t removed, int removal) {
    const char *cause = aorta_removal_cause((enum aorta_removal)removal);
    if (!(removed & aorta_removal_bit((enum aorta_removal)removal))) return NULL;
    return removal && strcmp(cause, aorta_removal_cause((enum aorta_removal)(removal - 1))) == 0 ? NULL : cause;
}

/* NULL: no collective limits the step. */
static const char *limited_by(const struct aorta_whatif_limit *limit) {
    if (limit->kind == AORTA_COLLECTIVE_COUNT) return NULL;
    return limit->latency ? "latency" : "bandwidth";
}

/* ---- facts ---- */

#define FIND(found, finding, ...)                                                                                      \
    aorta_found_add(found, findings, finding, (const struct aorta_found_fact[]){__VA_ARGS__, {0}})

static struct aorta_found_fact value(const char *key, double value, const char *unit) {
    return (struct aorta_found_fact){.key = key, .value = value, .unit = unit};
}

static struct aorta_found_fact text(const char *key, const char *text) {
    return (struct aorta_found_fact){.key = key, .value = NAN, .text = text};
}

static struct aorta_found_fact predicted(const char *key, double value, const char *unit, const char *ranks) {
    return (struct aorta_found_fact){.key = key, .value = value, .unit = unit, .place = ranks};
}

static const char *place_of(int ranks, struct aorta_found_list *found) {
    return aorta_arena_strdup(&found->arena, aorta_counted(ranks, "rank").text);
}

static void find_unchanged(const struct aorta_whatif_result *result, struct aorta_found_list *found) {
    FIND(found, UNCHANGED, value("ranks", result->whatif->collectives->ranks, NULL),
         value("replayed", result->replayed_ns / 1e6, "ms"));
    aorta_found_add(found, findings, CHANGES, NULL);
    if (!result->whatif->fit.samples) aorta_found_add(found, findings, NO_LINK, NULL);
}

static const double WIDE = 0.005; /* of the step */

static void find_step(const struct aorta_whatif_result *result, struct aorta_found_list *found) {
    if (result->changes_nothing && result->row_count == 1) {
        find_unchanged(result, found);
        return;
    }
    const struct aorta_whatif_row *row = last_row(result);
    const char *place = place_of(row->ranks, found);
    const double before = result->replayed_ns, after = row->step.step_ns;
    /* The least gain of remedies is known only if nothing else changes. */
    const bool alone = result->remedies.set && result->row_count == 1 && result->only_remedies && after < before;
    const double longest = before - result->remedies.worth.least * (before - after);
    const bool wide = alone && longest - after >= WIDE * before;
    const char *gain = aorta_arena_printf(&found->arena, "%+.0f to %+.0f%%", 100 * (longest - before) / before,
                                          100 * (after - before) / before);
    FIND(found, wide ? STEP_RANGE : STEP, value("ranks", row->ranks, NULL), value("replayed", before / 1e6, "ms"),
         predicted("step", after / 1e6, "ms", place), predicted("longest", longest / 1e6, "ms", place),
         predicted("least_change", (longest - before) / before, "change", place),
         predicted("change", before > 0 ? (after - before) / before : NAN, "change", place),
         predicted("efficiency", result->row_count > 1 ? row->efficiency : NAN, "share", place),
         text("range", wide ? aorta_about_range(after / 1e6, longest / 1e6).text : NULL),
         text("gain", wide ? gain : NULL));
}

static void find_limit(const struct aorta_whatif_result *result, struct aorta_found_list *found) {
    const struct aorta_whatif_row *stop = result->stop;
    const char *place = place_of(stop->ranks, found), *name = collective_name(result->limit.kind);
    if (result->row_count < 2 || stop->ranks <= result->whatif->collectives->ranks) return;
    FIND(found, stop->efficiency < AORTA_WHATIF_SCALES ? STOPS : SCALES, value("ranks", stop->ranks, NULL),
         predicted("efficiency", stop->efficiency, "share", place), value("threshold", AORTA_WHATIF_SCALES, "share"),
         text("collective", name), predicted("more", name ? result->limit.more_ns / 1e6 : NAN, "ms", place),
         text("most_of_it", limited_by(&result->limit)));
}

/* Faster compute hides less communication. */
static void find_exposed(const struct aorta_whatif_result *result, struct aorta_found_list *found) {
    static const double MUCH = 0.05;
    const struct aorta_whatif_row *row = last_row(result);
    const char *place = place_of(row->ranks, found), *name = collective_name(result->exposed.kind);
    if (!name || !(result->exposed.exposed_ns > MUCH * row->step.step_ns)) return;
    FIND(found, EXPOSED, text("collective", name), predicted("exposed", result->exposed.exposed_ns / 1e6, "ms", place),
         predicted("step", row->step.step_ns / 1e6, "ms", place), value("ranks", row->ranks, NULL));
}

static void find_recorded(const struct aorta_whatif_result *result, struct aorta_found_list *found) {
    const struct aorta_unrecorded *unrecorded = &result->unrecorded;
    const uint32_t ranks = (uint32_t)result->whatif->collectives->ranks, recorded = result->whatif->graph->rank_count;
    FIND(found, RECORDED, value("ranks", ranks, NULL), value("recorded_ranks", recorded < ranks ? recorded : NAN, NULL),
         value("measured", measured_ns(result) / 1e6, "ms"), value("replayed", result->replayed_ns / 1e6, "ms"),
         value("shortest", unrecorded->known ? unrecorded->range_ns[0] / 1e6 : NAN, "ms"),
         value("longest", unrecorded->known ? unrecorded->range_ns[1] / 1e6 : NAN, "ms"));
}

static void find_links(const struct aorta_whatif_result *result, struct aorta_found_list *found) {
    const struct aorta_link_fit *fit = &result->whatif->fit;
    const struct aorta_network *network = &result->resources.network;
    const struct aorta_link link = fit->samples ? fit->link : network->within;
    const struct aorta_found_fact latency = value("latency", link.latency_ns / 1e3, "us"),
                                  bandwidth = value("bandwidth", gbytes_per_s(link), "GB/s");
    if (fit->samples)
        FIND(found, LINK, latency, bandwidth, value("collectives", (double)fit->samples, NULL),
             value("sizes", (double)fit->sizes, NULL), value("error", fit->error, "share"));
    else if (result->bandwidth_given)
        FIND(found, LINK_GIVEN, latency, bandwidth);
    if (!fit->samples || !crosses_nodes(result)) return;
    FIND(found, NODES, predicted("latency", network->between.latency_ns / 1e3, "us", "between nodes"),
         predicted("bandwidth", gbytes_per_s(network->between), "GB/s", "between nodes"),
         value("ranks_per_node", network->ranks_per_node, NULL));
}

static void find_changes(const struct aorta_whatif_result *result, struct aorta_found_list *found) {
    const struct aorta_whatif_resources *resources = &result->resources;
    const struct aorta_remedies_worth *worth = &result->remedies.worth;
    if (resources->compute != 1) FIND(found, SPEED, text("what", "kernels"), value("factor", resources->compute, "x"));
    if (resources->copies != 1) FIND(found, SPEED, text("what", "copies"), value("factor", resources->copies, "x"));
    for (int i = 0; i < AORTA_REMOVAL_COUNT; i++) {
        const char *cause = removed_cause(resources->removed, i);
        if (!cause) continue;
        FIND(found, WITHOUT, text("cause", cause), text("meaning", aorta_removal_description((enum aorta_removal)i)));
    }
    for (int i = 0; i < AORTA_REMEDY_COUNT; i++) {
        const struct aorta_remedy_rule *rule = &aorta_remedy_rules[i];
        if (!(result->remedies.set & aorta_remedy_bit((enum aorta_remedy)i))) continue;
        FIND(found, WITH, text("remedy", rule->key), text("bound", rule->upper ? "at most" : NULL),
             text("change", rule->change), text("lacks", rule->needs == AORTA_NEEDS_SHAPES ? worth->lacks : NULL));
    }
    if (result->remedies.set && worth->unknown)
        FIND(found, SAVED_UNKNOWN, text("reason", worth->unknown));
    else if (result->remedies.set)
        FIND(found, SAVED, value("kernels", worth->mean.saved_ns / 1e6, "ms"),
             value("launches_gone", worth->mean.gone > 0 ? worth->mean.gone : NAN, NULL),
             value("launches_added", worth->mean.added > 0 ? worth->mean.added : NAN, NULL));
}

/* ---- assumptions ---- */

static void assume(struct aorta_found_list *found, bool holds, enum finding finding) {
    if (holds) aorta_found_add(found, findings, finding, NULL);
}

static void assume_links(const struct aorta_whatif_result *result, struct aorta_found_list *found) {
    const struct aorta_link_fit *fit = &result->whatif->fit;
    const bool crosses = crosses_nodes(result), bandwidth = result->bandwidth_given, latency = result->latency_given;
    if (fit->samples) assume(found, fit->one_size, latency ? ONE_SIZE_GIVEN : ONE_SIZE);
    assume(found, result->whatif->waits, WAITS);
    assume(found, bandwidth && (crosses || !fit->samples), WHOLE_BANDWIDTH);
    if ((bandwidth || latency) && fit->samples && !crosses)
        FIND(found, ONE_NODE, value("ranks", last_row(result)->ranks, NULL),
             value("ranks_per_node", result->resources.network.ranks_per_node, NULL));
    assume(found, crosses && !bandwidth, RECORDED_BANDWIDTH);
    assume(found, crosses && !latency, RECORDED_LATENCY);
    assume(found, result->whatif->collectives->count && (result->row_count > 1 || bandwidth || latency), ALGORITHMS);
}

/* Collectives without a model: they stay as recorded. */
static size_t count_unknown(const struct aorta_whatif_collectives *collectives) {
    size_t count = 0;
    AORTA_EACH (const struct aorta_whatif_collective, one, collectives->items, collectives->count)
        count += one->kind == AORTA_COLLECTIVE_OTHER || (one->bytes <= 0 && one->kind != AORTA_BARRIER);
    return count;
}

/* Explains why the verdict of the same recording may have another gain. */
static void find_verdict(const struct aorta_whatif_result *result, struct aorta_found_list *found) {
    static const double ALIKE = 0.02; /* of the step */
    const double gain_ms = (result->replayed_ns - last_row(result)->step.step_ns) / 1e6, *verdict = result->verdict_ms;
    if (!(verdict[1] > 0) || result->row_count > 1) return;
    if (fabs(verdict[1] - gain_ms) + fabs(verdict[0] - gain_ms) < ALIKE * result->replayed_ns / 1e6) return;
    FIND(found, VERDICT, value("least_gain", verdict[0] < verdict[1] ? verdict[0] : NAN, "ms"),
         value("most_gain", verdict[1], "ms"));
}

static void find_assumptions(const struct aorta_whatif_result *result, struct aorta_found_list *found) {
    static const double matters = 0.0005, rough = 0.1;
    const struct aorta_whatif_collectives *collectives = result->whatif->collectives;
    const size_t unknown = count_unknown(collectives);
    const double unexplained = share(result->path.unexplained_ns, result);
    const double inferred = share(result->path.inferred_ns, result);
    find_verdict(result, found);
    assume(found, result->row_count > 1, WEAK_SCALING);
    assume(found, result->row_count > 1, PUNCTUAL);
    assume(found, result->row_count > 1 && result->whatif->subgroups, SUBGROUPS);
    assume_links(result, found);
    if (unknown)
        FIND(found, UNKNOWN_COLLECTIVES, value("unknown", (double)unknown, NULL),
             value("collectives", collectives->count, NULL));
    assume(found, result->resources.compute != 1, ALL_KERNELS);
    if (unexplained >= matters)
        FIND(found, unexplained > rough ? ROUGH : UNEXPLAINED, value("unexplained", unexplained, "share"));
    if (inferred >= matters) FIND(found, INFERRED, value("inferred", inferred, "share"));
}

struct aorta_found_list aorta_whatif_find(const struct aorta_whatif_result *result) {
    struct aorta_found_list found = {0};
    find_step(result, &found);
    find_limit(result, &found);
    find_exposed(result, &found);
    find_recorded(result, &found);
    find_links(result, &found);
    find_changes(result, &found);
    find_assumptions(result, &found);
    return found;
}

/* ---- the steps ---- */

struct step_values {
    struct aorta_whatif_row row;
    double of_replayed;
};

#define AT(member) offsetof(struct step_values, member)
static const struct aorta_row step_rows[] = {
    {"ranks", AORTA_ROW_INT32, AT(row.ranks), .heading = "ranks", .help = "ranks of the job"},
    {"step_ms", AORTA_ROW_MEAN_NS, AT(row.step.step_ns), .heading = "step ms", .help = "of one step"},
    {"comm_ms", AORTA_ROW_MEAN_NS, AT(row.step.comm_ns), .heading = "communication ms",
     .help = "while collectives run"},
    {"exposed_comm_ms", AORTA_ROW_MEAN_NS, AT(row.step.exposed_ns), .heading = "exposed ms",
     .help = "without compute at the same time"},
    {"efficiency", AORTA_ROW_NUMBER, AT(row.efficiency), "share", .heading = "efficiency",
     .help = "step on the recorded ranks / this step"},
    {"of_replayed", AORTA_ROW_NUMBER, AT(of_replayed), "share", .shown_only = true, .help = "step / replayed step"},
    {"asked", AORTA_ROW_BOOL, AT(row.asked), .help = "of `--ranks`; all other rows draw the curve"},
    {0}};
#undef AT

static enum aorta_line fill_step(const void *of, size_t index, void *values) {
    if (index >= ((const struct aorta_whatif_result *)of)->row_count) return AORTA_LINE_END;
    const struct aorta_whatif_result *result = of;
    const struct aorta_whatif_row *row = &result->rows[index];
    *(struct step_values *)values = (struct step_values){*row, row->step.step_ns / result->replayed_ns};
    return AORTA_LINE;
}

static enum aorta_line fill_asked(const void *of, size_t index, void *values) {
    if (index >= ((const struct aorta_whatif_result *)of)->row_count) return AORTA_LINE_END;
    return ((const struct aorta_whatif_result *)of)->rows[index].asked ? fill_step(of, index, values) : AORTA_LINE_SKIP;
}

static AORTA_TABLE(steps, "steps", "Steps", "the step on each number of ranks",
                   AORTA_LINES(step_rows, struct step_values, fill_step));
static const struct aorta_column asked_columns[] = {{"ranks", "ranks", .width = 8},
                                                    {"step_ms", "step ms", 12, .decimals = 3},
                                                    {"exposed_comm_ms", "exposed ms", 12, .decimals = 3},
                                                    {"efficiency", "efficiency", 11, .decimals = 1},
                                                    {"of_replayed", "of step before", 16, .decimals = 1},
                                                    {0}};
static AORTA_TABLE(asked_steps, "steps", AORTA_LINES(step_rows, struct step_values, fill_asked),
                   .columns = asked_columns);

AORTA_TABLES(aorta_whatif_tables, &steps);

/* ---- text ---- */

void aorta_whatif_text(const struct aorta_whatif_result *result, const struct aorta_found_list *found,
                       struct aorta_text *out) {
    aorta_found_text(found, out);
    aorta_text_puts(out, "\n");
    aorta_table_text(&asked_steps, result, &(struct aorta_table_view){.most = SIZE_MAX}, out);
    aorta_text_puts(out, "\n");
    aorta_found_notes_text(found, out);
}

/* ---- JSON ---- */

struct link_values {
    double latency_us, gbytes_per_s;
};

struct json_values {
    int recorded_ranks;
    double measured_ns, replayed_ns, unrecorded_ns, inferred, unexplained;
    const char *unrecorded_reason;
    struct {
        int ranks;
        bool scales;
        const char *collective, *by;
        double more_ns;
    } limit;
    struct {
        double saved_ns, gone, added;
        const char *unknown;
    } worth;
    struct {
        const char *collective;
        double ns;
        int ranks;
    } exposed;
};

#define AT(member) offsetof(struct link_values, member)
static const struct aorta_row link_rows[] = {
    {"latency_us", AORTA_ROW_NUMBER, AT(latency_us), "us", .help = "of a message"},
    {"bandwidth_gbytes_per_s", AORTA_ROW_NUMBER, AT(gbytes_per_s), "GB/s", .help = "of a rank, per direction"},
    {0}};
#undef AT
#define AT(member) offsetof(struct aorta_link_fit, member)
static const struct aorta_row fit_rows[] = {
    {"collectives", AORTA_ROW_INT, AT(samples), .help = "collectives that the link is fitted to"},
    {"sizes", AORTA_ROW_INT, AT(sizes), .help = "different kinds and sizes of these collectives"},
    {"error", AORTA_ROW_NUMBER, AT(error), "share", .help = "median over the sizes"},
    {0}};
#undef AT
#define AT(member) offsetof(struct aorta_whatif_resources, member)
static const struct aorta_row resource_rows[] = {
    {"ranks_per_node", AORTA_ROW_INT32, AT(network.ranks_per_node), .help = "ranks with the recorded link"},
    {"compute", AORTA_ROW_NUMBER, AT(compute), .help = "speed of kernels"},
    {"copies", AORTA_ROW_NUMBER, AT(copies), .help = "speed of copies"},
    {0}};
#undef AT
static const struct aorta_row documented_resources[] = {
    {NULL, AORTA_ROW_PART, 0, .part = resource_rows}, {"between_nodes", AORTA_ROW_PART, 0, .part = link_rows}, {0}};
#define AT(member) offsetof(struct json_values, member)
static const struct aorta_row recording_rows[] = {
    {"recorded_ranks", AORTA_ROW_INT32, AT(recorded_ranks), .help = "of the largest group"},
    {"measured_ms", AORTA_ROW_MEAN_NS, AT(measured_ns), .help = "the recorded step"},
    {"unrecorded_ms", AORTA_ROW_MEAN_NS, AT(unrecorded_ns), .help = "the step without the profiler"},
    {"unrecorded_reason", AORTA_ROW_TEXT, AT(unrecorded_reason), .help = "why that is not known"},
    {"replayed_ms", AORTA_ROW_MEAN_NS, AT(replayed_ns), .help = "the step with nothing changed"},
    {"inferred_share", AORTA_ROW_NUMBER, AT(inferred), "share", .help = "of the critical path, by inferred order"},
    {"unexplained_share", AORTA_ROW_NUMBER, AT(unexplained), "share", .help = "of the critical path"},
    {0}};
static const struct aorta_row limit_rows[] = {
    {"ranks", AORTA_ROW_INT32, AT(limit.ranks), .help = "first number with an efficiency below 80%, else the largest"},
    {"scales", AORTA_ROW_BOOL, AT(limit.scales), .help = "the efficiency is 80% or more on all"},
    {"collective", AORTA_ROW_TEXT, AT(limit.collective), .help = "the kind that adds most to the step there"},
    {"more_ms", AORTA_ROW_MEAN_NS, AT(limit.more_ns), .help = "time that this kind adds to the step"},
    {"by", AORTA_ROW_TEXT, AT(limit.by), .help = "latency or bandwidth"},
    {0}};
static const struct aorta_row worth_rows[] = {
    {"kernels_saved_ms", AORTA_ROW_MEAN_NS, AT(worth.saved_ns), .help = "by the remedies, per step"},
    {"kernels_saved_reason", AORTA_ROW_TEXT, AT(worth.unknown), .help = "why that is not known", .omit = true},
    {"launches_gone", AORTA_ROW_NUMBER, AT(worth.gone), .help = "per step"},
    {"launches_added", AORTA_ROW_NUMBER, AT(worth.added), .help = "casts, per step"},
    {0}};
static const struct aorta_row exposed_rows[] = {
    {"collective", AORTA_ROW_TEXT, AT(exposed.collective), .help = "the kind that is exposed most"},
    {"ms", AORTA_ROW_MEAN_NS, AT(exposed.ns), .help = "exposed per step"},
    {"ranks", AORTA_ROW_INT32, AT(exposed.ranks), .help = "ranks of this prediction"},
    {0}};
#undef AT

static struct json_values values_of(const struct aorta_whatif_result *result) {
    const struct aorta_unrecorded *unrecorded = &result->unrecorded;
    const struct aorta_remedies_worth *worth = &result->remedies.worth;
    return (struct json_values){
        .recorded_ranks = result->whatif->collectives->ranks,
        .measured_ns = measured_ns(result),
        .replayed_ns = result->replayed_ns,
        .unrecorded_ns = unrecorded->known ? unrecorded->step_ns : NAN,
        .unrecorded_reason = unrecorded->reason,
        .inferred = share(result->path.inferred_ns, result),
        .unexplained = share(result->path.unexplained_ns, result),
        .limit = {result->stop->ranks, result->stop->efficiency >= AORTA_WHATIF_SCALES,
                  collective_name(result->limit.kind), limited_by(&result->limit), result->limit.more_ns},
        .worth = {worth->unknown ? NAN : worth->mean.saved_ns, worth->mean.gone, worth->mean.added, worth->unknown},
        .exposed = {collective_name(result->exposed.kind), result->exposed.exposed_ns, last_row(result)->ranks}};
}

static void write_causes(uint32_t removed, struct aorta_json *json) {
    aorta_json_key_array(json, "without");
    for (int i = 0; i < AORTA_REMOVAL_COUNT; i++) {
        const char *cause = removed_cause(removed, i);
        if (cause) aorta_json_string(json, cause);
    }
    aorta_json_array_end(json);
}

static void write_remedies(const char *key, const struct aorta_whatif_remedies *remedies, bool lacking,
                           struct aorta_json *json) {
    aorta_json_key_array(json, key);
    for (int i = 0; i < AORTA_REMEDY_COUNT; i++)
        if (remedies->set & aorta_remedy_bit((enum aorta_remedy)i) &&
            (!lacking || (remedies->worth.lacks && aorta_remedy_rules[i].needs == AORTA_NEEDS_SHAPES)))
            aorta_json_string(json, aorta_remedy_rules[i].key);
    aorta_json_array_end(json);
}

static void write_link(const char *key, struct aorta_link link, struct aorta_json *json) {
    aorta_rows_object(key, link_rows, &(struct link_values){link.latency_ns / 1e3, gbytes_per_s(link)}, 0, json);
}

void aorta_whatif_json(const struct aorta_whatif_result *result, const struct aorta_found_list *found,
                       struct aorta_text *out) {
    const struct json_values values = values_of(result);
    const struct aorta_link_fit *fit = &result->whatif->fit;
    const struct aorta_unrecorded *unrecorded = &result->unrecorded;
    struct aorta_json json;
    aorta_json_output(&json, out, 2, 1);
    aorta_found_answer_json("headline", found, &json);
    aorta_rows_json(recording_rows, &values, 0, &json);
    aorta_json_key_range(&json, "unrecorded_range_ms", unrecorded->known ? unrecorded->range_ns[0] / 1e6 : NAN,
                         unrecorded->known ? unrecorded->range_ns[1] / 1e6 : NAN);
    if (fit->samples) write_link("recorded_link", fit->link, &json);
    if (fit->samples) aorta_rows_object("fit", fit_rows, fit, 0, &json);
    if (!fit->samples) aorta_json_key_null(&json, "recorded_link");
    aorta_json_key_object(&json, "resources");
    aorta_rows_json(resource_rows, &result->resources, 0, &json);
    write_link("between_nodes", result->resources.network.between, &json);
    write_causes(result->resources.removed, &json);
    aorta_json_object_end(&json);
    if (result->remedies.set) {
        write_remedies("remedies", &result->remedies, false, &json);
        aorta_rows_json(worth_rows, &values, 0, &json);
        write_remedies("remedies_lacking", &result->remedies, true, &json);
        aorta_rows_object("most_exposed", exposed_rows, &values, 0, &json);
    }
    aorta_table_json(&steps, result, &json);
    aorta_rows_object("limit", limit_rows, &values, 0, &json);
    aorta_found_sentences_json("assumptions", found, AORTA_FOUND_NOTE, &json);
    aorta_found_facts_json(found, &json);
    aorta_json_output_end(&json);
}

void aorta_whatif_schema(struct aorta_json *json) {
    static const char words[] = "{\"type\": \"array\", \"items\": {\"type\": \"string\"}}";
    aorta_schema_put(json, "headline", "{\"type\": \"string\"}");
    aorta_rows_schema(recording_rows, json);
    aorta_schema_put(json, "unrecorded_range_ms",
                     "{\"type\": \"array\", \"items\": {\"type\": [\"number\", \"null\"]}}");
    aorta_rows_schema_object("recorded_link", link_rows, json);
    aorta_rows_schema_object("fit", fit_rows, json);
    aorta_rows_schema_object("resources", documented_resources, json);
    aorta_schema_put(json, "remedies", words);
    aorta_rows_schema(worth_rows, json);
    aorta_schema_put(json, "remedies_lacking", words);
    aorta_rows_schema_object("most_exposed", exposed_rows, json);
    aorta_rows_schema_array("steps", step_rows, json);
    aorta_rows_schema_object("limit", limit_rows, json);
    aorta_schema_put(json, "assumptions", words);
    aorta_found_schema(json);
}
