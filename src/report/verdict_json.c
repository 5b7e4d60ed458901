/* The verdict as JSON; docs/metrics-format.md lists the keys. */
#include "report/phrases.h"
#include "report/verdict_text.h"

#include <limits.h>
#include <math.h>

enum { ROWS_MOST = 8 };

/* ---- as a table for CSV ---- */

struct finding_values {
    const char *cause, *collective;
    struct aorta_finding of;
};

#define AT(member) offsetof(struct finding_values, member)
static const struct aorta_row finding_rows[] = {
    {"cause", AORTA_ROW_TEXT, AT(cause), .help = "its key"},
    {"collective", AORTA_ROW_TEXT, AT(collective), .help = "of causes by kind"},
    {"remedy", AORTA_ROW_TEXT, AT(of.remedy), .help = "of compute; remedies of one cause are alternatives"},
    {"gain_ms", AORTA_ROW_NUMBER, AT(of.gain_ms), .help = "how much shorter a step is if this is fixed"},
    {"gain_low_ms", AORTA_ROW_NUMBER, AT(of.gain_range_ms[0]), .help = "lower end of the gain"},
    {"gain_high_ms", AORTA_ROW_NUMBER, AT(of.gain_range_ms[1]), .help = "upper end of the gain"},
    {"alone_ms", AORTA_ROW_NUMBER, AT(of.alone_ms), .help = "the gain without any other fix"},
    {"cost_ms", AORTA_ROW_NUMBER, AT(of.cost_ms), .help = "its time of a step"},
    {"share", AORTA_ROW_NUMBER, AT(of.share), .help = "cost as a share of the step"},
    {"rank", AORTA_ROW_INT32, AT(of.rank), .help = "that it is about"},
    {0}};
#undef AT

static bool knows_gain(const struct aorta_verdict *verdict, const struct aorta_finding *finding) {
    return verdict->replay.known && !aorta_facts_has(&finding->facts, AORTA_FACT_GAIN_UNKNOWN);
}

static enum aorta_line fill_finding(const void *of, size_t index, void *values) {
    const struct aorta_verdict *verdict = of;
    struct finding_values *line = values;
    if (index >= verdict->finding_count) return AORTA_LINE_END;
    line->of = verdict->findings[index];
    line->cause = aorta_cause_name(line->of.cause);
    if (aorta_cause_has_kind(line->of.cause)) line->collective = aorta_collective_name(line->of.collective);
    if (line->of.rank < 0) line->of.rank = INT_MIN; /* of no rank */
    line->of.gain_ms = aorta_finding_shown_ms(&verdict->findings[index]);
    aorta_finding_shown_range(&verdict->findings[index], line->of.gain_range_ms);
    if (line->of.at_best_ms > 0) line->of.alone_ms = line->of.gain_ms;
    if (!knows_gain(verdict, &line->of))
        line->of.gain_ms = line->of.gain_range_ms[0] = line->of.gain_range_ms[1] = line->of.alone_ms = NAN;
    return AORTA_LINE;
}

AORTA_TABLE(aorta_verdict_table, "verdict", "Verdict", AORTA_LINES(finding_rows, struct finding_values, fill_finding));

/* ---- as JSON ---- */

static void put_string(struct aorta_json *json, const char *key, const char *value) {
    if (value) aorta_json_key_string(json, key, value);
}

static void write_place(const char *key, const struct aorta_fact_place *place, struct aorta_json *json) {
    aorta_json_key_object(json, key);
    put_string(json, "name", place->name);
    put_string(json, "after", place->after);
    put_string(json, "shape", place->shape);
    put_string(json, "host", place->host);
    if (place->count > 0) aorta_json_key_double(json, "count", place->count);
    if (place->rank >= 0) aorta_json_key_int(json, "rank", place->rank);
    if (place->step != INT64_MIN) aorta_json_key_int(json, "step", place->step);
    if (place->stream != INT64_MIN) aorta_json_key_int(json, "stream", place->stream);
    aorta_json_object_end(json);
}

static void write_facts(const struct aorta_finding *finding, struct aorta_json *json) {
    aorta_json_key_array(json, "facts");
    AORTA_EACH (const struct aorta_fact, fact, finding->facts.items, finding->facts.count) {
        aorta_json_object(json);
        aorta_json_key_string(json, "key", aorta_fact_rows[fact->key].key);
        aorta_json_key_double(json, "value", fact->value);
        aorta_json_key_string(json, "unit", aorta_unit_name(aorta_fact_rows[fact->key].unit));
        put_string(json, "text", fact->text);
        write_place("place", &fact->place, json);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
}

/* The place of the first fact that names one. */
static void write_origin(const struct aorta_finding *finding, struct aorta_json *json) {
    const struct aorta_facts *facts = &finding->facts;
    for (size_t i = 0; i < facts->count; i++)
        if (facts->items[i].place.name) {
            write_place("origin", &facts->items[i].place, json);
            return;
        }
}

static void write_shares(const struct aorta_finding *finding, struct aorta_json *json) {
    aorta_json_key_array(json, "shares_with");
    for (int i = 0; i < finding->share_count; i++) {
        aorta_json_object(json);
        aorta_json_key_string(json, "cause", aorta_cause_name(finding->shares[i].cause));
        aorta_json_key_double(json, "ms", finding->shares[i].ms);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
}

static void write_finding(const struct aorta_verdict *verdict, const struct aorta_finding *finding,
                          struct aorta_json *json) {
    aorta_json_object(json);
    aorta_json_key_string(json, "cause", aorta_cause_name(finding->cause));
    if (aorta_cause_has_kind(finding->cause))
        aorta_json_key_string(json, "collective", aorta_collective_name(finding->collective));
    if (verdict->replay.known || verdict->replay.reason) {
        const bool known = knows_gain(verdict, finding);
        aorta_json_key_double(json, "gain_ms", known ? finding->gain_ms : NAN);
        aorta_json_key_double(json, "gain_share", known ? finding->gain_share : NAN);
        aorta_json_key_range(json, "gain_range_ms", known ? finding->gain_range_ms[0] : NAN,
                             known ? finding->gain_range_ms[1] : NAN);
        aorta_json_key_double(json, "alone_ms", known ? finding->alone_ms : NAN);
    }
    if (finding->remedy) aorta_json_key_string(json, "remedy", finding->remedy);
    if (finding->remedy) aorta_json_key_double(json, "then_ms", finding->then_ms);
    aorta_json_key_double(json, "cost_ms", finding->cost_ms);
    aorta_json_key_double(json, "share", finding->share);
    aorta_json_key_natural(json, "rank", finding->rank);
    if (finding->at_best_ms > 0) aorta_json_key_double(json, "at_best_ms", finding->at_best_ms);
    if (finding->joint_ms > 0) {
        aorta_json_key_string(json, "together_with", aorta_cause_name(finding->partner));
        aorta_json_key_double(json, "together_ms", finding->joint_ms);
    }
    write_origin(finding, json);
    write_facts(finding, json);
    write_shares(finding, json);
    struct aorta_text evidence = {0}, advice = {0};
    aorta_finding_evidence(verdict, finding, &evidence);
    aorta_finding_advice(finding, &advice);
    aorta_json_key_sentence(json, "evidence", &evidence);
    aorta_json_key_sentence(json, "advice", &advice);
    aorta_json_object_end(json);
}

/* Whether the finding is beyond the rows that are listed: the first ones, and the largest cost. */
static bool is_folded(const struct aorta_verdict *verdict, size_t index) {
    if (verdict->finding_count <= ROWS_MOST) return false;
    const size_t costliest = (size_t)(aorta_verdict_costliest(verdict) - verdict->findings);
    return index != costliest && index >= (costliest < ROWS_MOST ? ROWS_MOST : ROWS_MOST - 1);
}

static void write_findings(const struct aorta_verdict *verdict, struct aorta_json *json) {
    int64_t folded = 0;
    double cost_ms = 0, share = 0;
    aorta_json_key_array(json, "verdict");
    for (size_t i = 0; i < verdict->finding_count; i++) {
        const struct aorta_finding *finding = &verdict->findings[i];
        if (!is_folded(verdict, i)) {
            write_finding(verdict, finding, json);
            continue;
        }
        folded++;
        cost_ms += finding->cost_ms;
        share += finding->share;
    }
    aorta_json_array_end(json);
    if (!folded) return;
    aorta_json_key_object(json, "verdict_folded");
    aorta_json_key_int(json, "rows", folded);
    aorta_json_key_double(json, "cost_ms", cost_ms);
    aorta_json_key_double(json, "share", share);
    aorta_json_object_end(json);
}

static void write_left(const struct aorta_verdict_left *left, struct aorta_json *json) {
    aorta_json_key_object(json, "left_ms");
    aorta_json_key_double(json, "compute", left->compute_ms);
    aorta_json_key_double(json, "compute_alone", left->alone_ms);
    for (int i = 0; i < AORTA_COLLECTIVE_COUNT; i++)
        if (left->collective_ms[i] > 0) aorta_json_key_double(json, aorta_collective_name(i), left->collective_ms[i]);
    aorta_json_key_double(json, "copies", left->copy_ms);
    aorta_json_key_double(json, "starts", left->starts_ms);
    aorta_json_key_double(json, "host", left->host_ms);
    aorta_json_key_double(json, "unexplained", left->unexplained_ms);
    aorta_json_object_end(json);
}

static void write_replay(const struct aorta_verdict *verdict, struct aorta_json *json) {
    const struct aorta_verdict_replay *replay = &verdict->replay;
    aorta_json_key_object(json, "replay");
    aorta_json_key_double(json, "measured_ms", replay->measured_ms);
    aorta_json_key_double(json, "replayed_ms", replay->replayed_ms);
    const bool unrecorded = replay->unrecorded_ms > 0;
    aorta_json_key_double(json, "unrecorded_ms", unrecorded ? replay->unrecorded_ms : NAN);
    aorta_json_key_range(json, "unrecorded_range_ms", unrecorded ? replay->unrecorded_range_ms[0] : NAN,
                         unrecorded ? replay->unrecorded_range_ms[1] : NAN);
    aorta_json_key_double(json, "inferred_share", replay->inferred_share);
    aorta_json_key_double(json, "unexplained_share", replay->unexplained_share);
    aorta_json_key_string(json, "unrecorded_reason", replay->unrecorded_reason);
    aorta_json_key_string(json, "reason", replay->reason);
    if (replay->known) write_left(&replay->left, json);
    aorta_json_object_end(json);
    aorta_json_key_double(json, "floor_ms", replay->known ? replay->floor_ms : NAN);
}

/* ---- the view ---- */

/* The finding's index in verdict[]; null if it is in verdict_folded. */
static void write_row(const struct aorta_verdict *verdict, const struct aorta_finding *finding,
                      struct aorta_json *json) {
    const size_t index = (size_t)(finding - verdict->findings);
    size_t row = 0;
    for (size_t i = 0; i < index; i++) row += !is_folded(verdict, i);
    aorta_json_key_natural(json, "finding", is_folded(verdict, index) ? -1 : (int64_t)row);
}

/* The gain that the figure shows. */
static void write_shown(const struct aorta_finding *finding, struct aorta_json *json) {
    double range_ms[2];
    aorta_finding_shown_range(finding, range_ms);
    aorta_json_key_double(json, "gain_ms", aorta_finding_shown_ms(finding));
    aorta_json_key_range(json, "gain_range_ms", range_ms[0], range_ms[1]);
}

static void write_block(const struct aorta_verdict *verdict, const struct aorta_view_block *block,
                        struct aorta_json *json) {
    aorta_json_object(json);
    write_row(verdict, block->finding, json);
    aorta_json_key_string(json, "cause", block->key);
    aorta_json_key_string(json, "name", block->name);
    aorta_json_key_bool(json, "gains", block->gains);
    aorta_json_key_double(json, "share", block->share);
    aorta_json_key_string(json, "figure", block->figure);
    if (block->gains) write_shown(block->finding, json);
    aorta_json_key_string(json, "suffix", block->suffix);
    aorta_json_key_string(json, "mark", block->mark);
    aorta_json_key_string(json, "measured", block->measured);
    aorta_json_key_string(json, "worst", block->worst);
    aorta_json_key_array(json, "fix");
    for (int i = 0; i < block->fix_count; i++) aorta_json_string(json, block->fix[i]);
    aorta_json_array_end(json);
    aorta_json_object_end(json);
}

static void write_view(const struct aorta_verdict *verdict, struct aorta_json *json) {
    struct aorta_verdict_view view;
    struct aorta_text text = {0};
    aorta_verdict_view_make(verdict, NULL, &view);
    aorta_json_key_object(json, "verdict_view");
    aorta_json_key_string(json, "headline", view.headline);
    aorta_json_key_array(json, "rows");
    for (int i = 0; i < view.row_count; i++) {
        aorta_json_object(json);
        aorta_json_key_string(json, "name", view.rows[i].name);
        aorta_json_key_string(json, "text", view.rows[i].text);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
    aorta_json_key_array(json, "blocks");
    for (int i = 0; i < view.block_count; i++) write_block(verdict, &view.blocks[i], json);
    aorta_json_array_end(json);
    aorta_json_key_string(json, "minor", view.minor);
    aorta_verdict_text(verdict, NULL, &text);
    aorta_json_key_sentence(json, "text", &text);
    aorta_json_object_end(json);
    aorta_text_arena_end(json->out, &view.arena);
}

void aorta_verdict_json(const struct aorta_verdict *verdict, struct aorta_json *json) {
    write_findings(verdict, json);
    write_view(verdict, json);
    write_replay(verdict, json);
}
