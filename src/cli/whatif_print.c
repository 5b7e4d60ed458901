/* What aorta whatif prints: text and JSON. */
#include "base/compare.h"
#include "base/lines.h"
#include "base/result_table.h"
#include "cli/whatif.h"
#include "report/phrases.h"

#include <math.h>
#include <string.h>

enum { BAR = 40 };

static double share(int64_t part_ns, const struct whatif_page *page) {
    return page->path.length_ns > 0 ? (double)part_ns / (double)page->path.length_ns : 0;
}

static double gbytes_per_s(struct aorta_link link) {
    return link.ns_per_byte > 0 ? 1 / link.ns_per_byte : INFINITY;
}

static int most_ranks(const struct whatif_page *page) {
    return page->rows[page->row_count - 1].ranks;
}

static bool crosses_nodes(const struct whatif_page *page) {
    return most_ranks(page) > page->resources.network.ranks_per_node;
}

static double measured_ns(const struct whatif_page *page) {
    return page->unrecorded.known ? page->unrecorded.recorded_ns : page->whatif->measured_ns;
}

/* ---- assumptions ---- */

typedef void (*say)(void *user, const char *sentence);

static void say_text(struct aorta_text *text, say visit, void *user) {
    if (!text->failed) visit(user, text->data);
    aorta_text_free(text);
}

static void assume_scaling(const struct whatif_page *page, say visit, void *user) {
    if (page->row_count < 2) return;
    visit(user, "each rank has the batch that was recorded (weak scaling), and what a collective gathers or reduces "
                "keeps its size");
    visit(user, "added ranks are as punctual as the recorded ones");
    if (page->whatif->subgroups)
        visit(user, "groups of fewer ranks than the whole job keep their size and their links");
}

static void assume_links(const struct whatif_page *page, say visit, void *user) {
    struct aorta_text text = {0};
    const struct aorta_link_fit *fit = &page->whatif->fit;
    if (fit->samples && fit->one_size)
        visit(user, page->latency_given ? "the recorded collectives have one size: the recorded link's latency is the "
                                          "one that was given"
                                        : "the recorded collectives have one size, which shows no latency: that of the "
                                          "recorded link counts as 0");
    if (page->whatif->waits)
        visit(user, "no collective was recorded on several ranks: waiting for other ranks counts as transfer, and "
                    "the link is fitted to those that took least");
    if (page->bandwidth_given && (crosses_nodes(page) || !fit->samples))
        visit(user, "collectives reach the whole bandwidth that was given");
    if ((page->bandwidth_given || page->latency_given) && fit->samples && !crosses_nodes(page)) {
        aorta_text_printf(&text,
                          "--bandwidth and --latency change nothing: %d ranks are in one node of %d; "
                          "--ranks-per-node 1 makes every link one between nodes",
                          most_ranks(page), page->resources.network.ranks_per_node);
        say_text(&text, visit, user);
    }
    if (crosses_nodes(page) && !page->bandwidth_given)
        visit(user, "links between nodes have the recorded link's bandwidth; --bandwidth gives another");
    if (crosses_nodes(page) && !page->latency_given)
        visit(user, "links between nodes have the recorded link's latency; --latency gives another");
    if (page->whatif->collectives->count && (page->row_count > 1 || page->bandwidth_given || page->latency_given))
        visit(user, "collectives are rings, all_reduce and broadcast also trees, on two levels where they cross nodes; "
                    "links are not shared with other jobs");
}

/* Collectives without a model: they stay as recorded. */
static size_t count_unknown(const struct aorta_whatif_collectives *collectives) {
    size_t count = 0;
    for (uint32_t i = 0; i < collectives->count; i++) {
        const struct aorta_whatif_collective *one = &collectives->items[i];
        count += one->kind == AORTA_COLLECTIVE_OTHER || (one->bytes <= 0 && one->kind != AORTA_BARRIER);
    }
    return count;
}

static void assume(const struct whatif_page *page, say visit, void *user) {
    struct aorta_text text = {0};
    size_t unknown = count_unknown(page->whatif->collectives);
    assume_scaling(page, visit, user);
    assume_links(page, visit, user);
    if (unknown) {
        aorta_text_printf(&text, "%zu of %u collectives, whose kind or size is not recorded, take as long as before",
                          unknown, page->whatif->collectives->count);
        say_text(&text, visit, user);
    }
    if (page->resources.compute < 1 || page->resources.compute > 1)
        visit(user, "all kernels gain the same factor; the host and its launches take as long as before");
    static const double matters = 0.0005, rough = 0.1;
    const double unexplained = share(page->path.unexplained_ns, page), inferred = share(page->path.inferred_ns, page);
    if (unexplained < matters && inferred < matters) return;
    aorta_text_printf(&text,
                      "%.1f%% of the critical path is unexplained, and %.1f%% depends on order inferred from times; "
                      "both stay as recorded",
                      100 * unexplained, 100 * inferred);
    if (unexplained > rough) aorta_text_puts(&text, "; results are rough");
    say_text(&text, visit, user);
}

/* ---- text ---- */

/* "On 64 ranks: step 57.7 -> 26.3 ms (-55%), efficiency 22%" */
static void text_headline(const struct whatif_page *page, struct aorta_text *out) {
    const struct whatif_row *row = &page->rows[page->row_count - 1];
    aorta_text_printf(out, "On %s: ", aorta_counted(row->ranks, "rank").text);
    const struct aorta_compared step = {.figure = "step",
                                        .unit = "ms",
                                        .of = {.value = {page->replayed_ns / 1e6, row->step.step_ns / 1e6},
                                               .delta = (row->step.step_ns - page->replayed_ns) / 1e6}};
    aorta_compared_values(&step, false, out);
    if (page->row_count > 1) aorta_text_printf(out, ", efficiency %.0f%%", 100 * row->efficiency);
    aorta_text_puts(out, "\n");
}

static void text_recorded(const struct whatif_page *page, struct aorta_text *out) {
    const struct aorta_unrecorded *unrecorded = &page->unrecorded;
    aorta_text_printf(out, "%s: step %s ms measured, %s ms replayed",
                      aorta_counted(page->whatif->collectives->ranks, "rank").text,
                      aorta_measured(measured_ns(page) / 1e6).text, aorta_measured(page->replayed_ns / 1e6).text);
    if (unrecorded->known)
        aorta_text_printf(out, " without the profiler (%s to %s)", aorta_brief(unrecorded->range_ns[0] / 1e6).text,
                          aorta_brief(unrecorded->range_ns[1] / 1e6).text);
}

static void text_link(const struct whatif_page *page, struct aorta_text *out) {
    const struct aorta_link_fit *fit = &page->whatif->fit;
    const struct aorta_link link = fit->samples ? fit->link : page->resources.network.within;
    if (!fit->samples && !page->bandwidth_given) return;
    aorta_text_printf(out, "%s us, %s GB/s", aorta_brief(link.latency_ns / 1e3).text,
                      aorta_brief(gbytes_per_s(link)).text);
    if (fit->samples)
        aorta_text_printf(out, ", fitted to %zu collectives in %s (median error %.0f%%)", fit->samples,
                          aorta_counted((long long)fit->sizes, "size").text, 100 * fit->error);
    else
        aorta_text_puts(out, ", as given");
}

static void text_nodes(const struct whatif_page *page, struct aorta_text *out) {
    const struct aorta_network *network = &page->resources.network;
    if (!page->whatif->fit.samples || !crosses_nodes(page)) return;
    aorta_text_printf(out, "%s us, %s GB/s between nodes of %s", aorta_brief(network->between.latency_ns / 1e3).text,
                      aorta_brief(gbytes_per_s(network->between)).text,
                      aorta_counted(network->ranks_per_node, "rank").text);
}

static void text_speeds(const struct whatif_page *page, struct aorta_text *out) {
    const double kernels = page->resources.compute, copies = page->resources.copies;
    if (kernels != 1) aorta_text_printf(out, "kernels %sx as fast", aorta_brief(kernels).text);
    if (copies != 1) aorta_text_printf(out, "%scopies %sx as fast", out->length ? ", " : "", aorta_brief(copies).text);
}

static void put_causes(const struct whatif_page *page, struct aorta_text *out) {
    struct aorta_text text = {0};
    const char *last = "";
    for (int i = 0; i < AORTA_REMOVAL_COUNT; i++) {
        const char *cause = aorta_removal_cause((enum aorta_removal)i);
        if (!(page->resources.removed & aorta_removal_bit((enum aorta_removal)i)) || strcmp(cause, last) == 0) continue;
        aorta_text_printf(&text, "%s: %s", cause, aorta_removal_description((enum aorta_removal)i));
        aorta_text_fact(out, *last ? "" : "without", &text);
        last = cause;
    }
    aorta_text_free(&text);
}

/* Unknown gains of a remedy take no time off the step, and the text says so. */
static void put_remedies(const struct whatif_page *page, struct aorta_text *out) {
    const struct aorta_remedies_worth *worth = &page->remedies.worth;
    struct aorta_text text = {0};
    const char *head = "with";
    for (int i = 0; i < AORTA_REMEDY_COUNT; i++) {
        if (!(page->remedies.set & aorta_remedy_bit((enum aorta_remedy)i))) continue;
        aorta_text_printf(&text, "%s%s: %s", aorta_remedy_key((enum aorta_remedy)i),
                          aorta_remedy_is_upper((enum aorta_remedy)i) ? " (at most)" : "",
                          aorta_remedy_change((enum aorta_remedy)i));
        if (worth->lacks[i]) aorta_text_printf(&text, " (not known: the recording has no %s)", worth->lacks[i]);
        aorta_text_fact(out, head, &text);
        head = "";
    }
    aorta_text_free(&text);
}

static void text_saved(const struct whatif_page *page, struct aorta_text *out) {
    const struct aorta_remedies_worth *worth = &page->remedies.worth;
    if (!page->remedies.set) return;
    if (worth->unknown) {
        aorta_text_printf(out, "not known: %s", worth->unknown);
        return;
    }
    aorta_text_printf(out, "%s ms of kernels per step", aorta_brief(worth->mean.saved_ns / 1e6).text);
    if (worth->mean.gone > 0) aorta_text_printf(out, ", %.0f launches disappear", worth->mean.gone);
    if (worth->mean.added > 0) aorta_text_printf(out, ", casts add %.0f", worth->mean.added);
}

/* ---- the steps ---- */

struct step_values {
    int64_t ranks;
    double step_ns, comm_ns, exposed_ns, efficiency, of_replayed;
    bool asked;
};

#define AT(member) offsetof(struct step_values, member)
static const struct aorta_row step_rows[] = {
    {"ranks", AORTA_ROW_INT, AT(ranks), .heading = "ranks", .help = "ranks of the job"},
    {"step_ms", AORTA_ROW_MEAN_NS, AT(step_ns), .heading = "step ms", .help = "of one step"},
    {"comm_ms", AORTA_ROW_MEAN_NS, AT(comm_ns), .heading = "communication ms", .help = "collectives run"},
    {"exposed_comm_ms", AORTA_ROW_MEAN_NS, AT(exposed_ns), .heading = "exposed ms", .help = "with no compute beside"},
    {"efficiency", AORTA_ROW_NUMBER, AT(efficiency), "share", .heading = "efficiency",
     .help = "of the recorded step, of this one"},
    {"of_replayed", AORTA_ROW_NUMBER, AT(of_replayed), "share", .shown_only = true, .help = "step / replayed step"},
    {"asked", AORTA_ROW_BOOL, AT(asked), .help = "of `--ranks`; all other rows draw the curve"},
    {0}};
#undef AT

static enum aorta_line fill_step(const void *of, size_t index, void *values) {
    if (index >= ((const struct whatif_page *)of)->row_count) return AORTA_LINE_END;
    const struct whatif_page *page = of;
    const struct whatif_row *row = &page->rows[index];
    *(struct step_values *)values = (struct step_values){.ranks = row->ranks,
                                                         .step_ns = row->step.step_ns,
                                                         .comm_ns = row->step.comm_ns,
                                                         .exposed_ns = row->step.exposed_ns,
                                                         .efficiency = row->efficiency,
                                                         .of_replayed = row->step.step_ns / page->replayed_ns,
                                                         .asked = row->asked};
    return AORTA_LINE;
}

static enum aorta_line fill_asked(const void *of, size_t index, void *values) {
    if (index >= ((const struct whatif_page *)of)->row_count) return AORTA_LINE_END;
    return ((const struct whatif_page *)of)->rows[index].asked ? fill_step(of, index, values) : AORTA_LINE_SKIP;
}

static const struct aorta_result_table steps = {"steps",
                                                "Steps",
                                                .help = "the step on so many ranks",
                                                .rows = step_rows,
                                                .size = sizeof(struct step_values),
                                                .fill = fill_step};
static const struct aorta_column asked_columns[] = {{"ranks", "ranks", .width = 8},
                                                    {"step_ms", "step ms", 12, .decimals = 3},
                                                    {"exposed_comm_ms", "exposed ms", 12, .decimals = 3},
                                                    {"efficiency", "efficiency", 11, .decimals = 1},
                                                    {"of_replayed", "of replayed", 13, .decimals = 1},
                                                    {0}};
static const struct aorta_result_table asked_steps = {"steps", .rows = step_rows, .size = sizeof(struct step_values),
                                                      .fill = fill_asked, .columns = asked_columns};

const struct aorta_result_table *const whatif_tables[] = {&steps, NULL};

aorta_status whatif_csv(const struct whatif_page *page, const char *folder) {
    return aorta_table_csv(&steps, page, folder);
}

/* The curve between the numbers that the table has. */
static void text_curve(const struct whatif_page *page, struct aorta_text *out) {
    size_t asked = 0;
    for (size_t i = 0; i < page->row_count; i++) asked += page->rows[i].asked;
    if (asked == page->row_count) return;
    aorta_text_puts(out, "\nEfficiency by ranks\n");
    for (size_t i = 0; i < page->row_count; i++) {
        double efficiency = page->rows[i].efficiency;
        int length = efficiency >= 1 ? BAR : (int)lround(efficiency * BAR);
        aorta_text_printf(out, "%8d  %-*.*s %3.0f%%\n", page->rows[i].ranks, BAR, length,
                          "########################################", 100 * efficiency);
    }
}

static void text_limit(const struct whatif_page *page, struct aorta_text *out) {
    const struct whatif_row *stop = page->stop;
    if (page->row_count < 2 || stop->ranks <= page->whatif->collectives->ranks) return;
    if (stop->efficiency < WHATIF_SCALES)
        aorta_text_printf(out, "scaling stops at %d ranks: efficiency is %.0f%%, below %.0f%% for the first time",
                          stop->ranks, 100 * stop->efficiency, 100 * WHATIF_SCALES);
    else
        aorta_text_printf(out, "efficiency stays at %.0f%% or more up to %d ranks", 100 * WHATIF_SCALES, stop->ranks);
    if (page->limit.kind != AORTA_COLLECTIVE_COUNT)
        aorta_text_printf(out, "; %s costs most there: %s ms more of the step than recorded, most of it by %s",
                          aorta_collective_name(page->limit.kind), aorta_brief(page->limit.more_ns / 1e6).text,
                          page->limit.latency ? "latency" : "bandwidth");
}

/* Faster compute hides less communication. */
static void text_exposed(const struct whatif_page *page, struct aorta_text *out) {
    static const double MUCH = 0.05;
    const struct whatif_row *last = &page->rows[page->row_count - 1];
    if (page->exposed.kind == AORTA_COLLECTIVE_COUNT || !(page->exposed.exposed_ns > MUCH * last->step.step_ns)) return;
    aorta_text_printf(out, "%s, %s of %s ms on %s", aorta_collective_name(page->exposed.kind),
                      aorta_brief(page->exposed.exposed_ns / 1e6).text, aorta_brief(last->step.step_ns / 1e6).text,
                      aorta_counted(last->ranks, "rank").text);
}

static void put_fact(const struct whatif_page *page, const char *name,
                     void (*put)(const struct whatif_page *page, struct aorta_text *out), struct aorta_text *out) {
    struct aorta_text text = {0};
    put(page, &text);
    aorta_text_fact(out, name, &text);
    aorta_text_free(&text);
}

struct assumed {
    struct aorta_text *out;
    const char *name; /* of the next fact */
};

static void say_assumed(void *user, const char *sentence) {
    struct assumed *assumed = user;
    struct aorta_text text = {0};
    aorta_text_puts(&text, sentence);
    aorta_text_fact(assumed->out, assumed->name, &text);
    aorta_text_free(&text);
    assumed->name = "";
}

void whatif_text(const struct whatif_page *page, bool answer, struct aorta_text *out) {
    struct assumed assumed = {out, "assumed"};
    text_headline(page, out);
    if (answer) return;
    put_fact(page, "limit", text_limit, out);
    put_fact(page, "exposed", text_exposed, out);
    put_fact(page, "recorded", text_recorded, out);
    put_fact(page, "link", text_link, out);
    put_fact(page, "nodes", text_nodes, out);
    put_fact(page, "speed", text_speeds, out);
    put_causes(page, out);
    put_remedies(page, out);
    put_fact(page, "saved", text_saved, out);
    aorta_text_puts(out, "\n");
    aorta_table_text(&asked_steps, page, &(struct aorta_table_view){.most = SIZE_MAX}, out);
    text_curve(page, out);
    aorta_text_puts(out, "\n");
    assume(page, say_assumed, &assumed);
}

/* ---- JSON ---- */

static void say_json(void *user, const char *sentence) {
    aorta_json_string(user, sentence);
}

static void json_remedies(const struct whatif_page *page, struct aorta_json *json) {
    if (!page->remedies.set) return;
    aorta_json_key_array(json, "remedies");
    for (int i = 0; i < AORTA_REMEDY_COUNT; i++)
        if (page->remedies.set & aorta_remedy_bit((enum aorta_remedy)i))
            aorta_json_string(json, aorta_remedy_key((enum aorta_remedy)i));
    aorta_json_array_end(json);
    const struct aorta_remedies_worth *worth = &page->remedies.worth;
    aorta_json_key_double(json, "kernels_saved_ms", worth->unknown ? NAN : worth->mean.saved_ns / 1e6);
    if (worth->unknown) aorta_json_key_string(json, "kernels_saved_reason", worth->unknown);
    aorta_json_key_double(json, "launches_gone", worth->mean.gone);
    aorta_json_key_double(json, "launches_added", worth->mean.added);
    aorta_json_key_array(json, "remedies_lacking");
    for (int i = 0; i < AORTA_REMEDY_COUNT; i++)
        if (page->remedies.set & aorta_remedy_bit((enum aorta_remedy)i) && worth->lacks[i])
            aorta_json_string(json, aorta_remedy_key((enum aorta_remedy)i));
    aorta_json_array_end(json);
    const bool exposed = page->exposed.kind != AORTA_COLLECTIVE_COUNT;
    aorta_json_key_object(json, "most_exposed");
    aorta_json_key_string(json, "collective", exposed ? aorta_collective_name(page->exposed.kind) : NULL);
    aorta_json_key_double(json, "ms", page->exposed.exposed_ns / 1e6);
    aorta_json_key_int(json, "ranks", page->rows[page->row_count - 1].ranks);
    aorta_json_object_end(json);
}

static void json_unrecorded(struct aorta_json *json, const struct aorta_unrecorded *unrecorded) {
    aorta_json_key_double(json, "unrecorded_ms", unrecorded->known ? unrecorded->step_ns / 1e6 : NAN);
    aorta_json_key_array(json, "unrecorded_range_ms");
    for (int i = 0; i < 2; i++) aorta_json_double(json, unrecorded->known ? unrecorded->range_ns[i] / 1e6 : NAN);
    aorta_json_array_end(json);
    aorta_json_key_string(json, "unrecorded_reason", unrecorded->reason);
}

static void json_link(struct aorta_json *json, const char *key, struct aorta_link link) {
    aorta_json_key_object(json, key);
    aorta_json_key_double(json, "latency_us", link.latency_ns / 1e3);
    aorta_json_key_double(json, "bandwidth_gbytes_per_s", gbytes_per_s(link)); /* infinite: null */
    aorta_json_object_end(json);
}

static void json_fit(struct aorta_json *json, const struct aorta_link_fit *fit) {
    if (!fit->samples) {
        aorta_json_key_null(json, "recorded_link");
        return;
    }
    json_link(json, "recorded_link", fit->link);
    aorta_json_key_object(json, "fit");
    aorta_json_key_int(json, "collectives", (int64_t)fit->samples);
    aorta_json_key_int(json, "sizes", (int64_t)fit->sizes);
    aorta_json_key_double(json, "error", fit->error);
    aorta_json_object_end(json);
}

static void json_resources(struct aorta_json *json, const struct aorta_whatif_resources *resources) {
    const char *last = "";
    aorta_json_key_object(json, "resources");
    aorta_json_key_int(json, "ranks_per_node", resources->network.ranks_per_node);
    json_link(json, "between_nodes", resources->network.between);
    aorta_json_key_double(json, "compute", resources->compute);
    aorta_json_key_double(json, "copies", resources->copies);
    aorta_json_key_array(json, "without");
    for (int i = 0; i < AORTA_REMOVAL_COUNT; i++) {
        const char *cause = aorta_removal_cause((enum aorta_removal)i);
        if (!(resources->removed & aorta_removal_bit((enum aorta_removal)i)) || strcmp(cause, last) == 0) continue;
        last = cause;
        aorta_json_string(json, cause);
    }
    aorta_json_array_end(json);
    aorta_json_object_end(json);
}

static void json_limit(struct aorta_json *json, const struct whatif_page *page) {
    aorta_json_key_object(json, "limit");
    aorta_json_key_int(json, "ranks", page->stop->ranks);
    aorta_json_key_bool(json, "scales", page->stop->efficiency >= WHATIF_SCALES);
    bool known = page->limit.kind != AORTA_COLLECTIVE_COUNT;
    aorta_json_key_string(json, "collective", known ? aorta_collective_name(page->limit.kind) : NULL);
    aorta_json_key_double(json, "more_ms", page->limit.more_ns / 1e6);
    aorta_json_key_string(json, "by", known ? page->limit.latency ? "latency" : "bandwidth" : NULL);
    aorta_json_object_end(json);
}

void whatif_json(const struct whatif_page *page, struct aorta_text *out) {
    struct aorta_json json;
    aorta_json_begin(&json, out, 2);
    aorta_json_object(&json);
    aorta_json_key_int(&json, "schema_version", 1);
    aorta_json_key_int(&json, "recorded_ranks", page->whatif->collectives->ranks);
    aorta_json_key_double(&json, "measured_ms", measured_ns(page) / 1e6);
    json_unrecorded(&json, &page->unrecorded);
    aorta_json_key_double(&json, "replayed_ms", page->replayed_ns / 1e6);
    aorta_json_key_double(&json, "inferred_share", share(page->path.inferred_ns, page));
    aorta_json_key_double(&json, "unexplained_share", share(page->path.unexplained_ns, page));
    json_fit(&json, &page->whatif->fit);
    json_resources(&json, &page->resources);
    json_remedies(page, &json);
    aorta_table_json(&steps, page, &json);
    json_limit(&json, page);
    aorta_json_key_array(&json, "assumptions");
    assume(page, say_json, &json);
    aorta_json_array_end(&json);
    aorta_json_object_end(&json);
    aorta_text_puts(out, "\n");
}
