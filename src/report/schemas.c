#include "report/schemas.h"
#include "base/lines.h"
#include "base/result_table.h"
#include "measure/clocks.h"
#include "measure/machine.h"
#include "measure/metrics.h"
#include "report/summary.h"
#include "report/trace_tables.h"
#include "verdict/advice.h"
#include "verdict/causes.h"
#include "verdict/roofline.h"

#include <string.h>

/* What no rows write. */
static const char verdict[] =
    "{\"type\": [\"array\", \"null\"], \"items\": {\"type\": \"object\", \"required\": [\"cause\", \"cost_ms\", "
    "\"share\", "
    "\"rank\", \"facts\", \"shares_with\", \"evidence\", \"advice\"], \"properties\": {"
    "\"cause\": {\"type\": \"string\"}, \"collective\": {\"type\": \"string\"}, \"remedy\": {\"type\": \"string\"}, "
    "\"gain_ms\": {\"type\": [\"number\", \"null\"], \"description\": \"beyond the gains of all findings that gain "
    "more\"}, "
    "\"alone_ms\": {\"type\": [\"number\", \"null\"], \"description\": \"gain of this finding alone\"}, "
    "\"gain_share\": {\"type\": [\"number\", \"null\"]}, \"gain_range_ms\": {\"type\": \"array\", \"items\": "
    "{\"type\": "
    "[\"number\", \"null\"]}, \"minItems\": 2, \"maxItems\": 2}, \"at_best_ms\": {\"type\": \"number\", "
    "\"description\": "
    "\"upper bound of the gain where the recording cannot decide\"}, \"together_with\": {\"type\": \"string\"}, "
    "\"together_ms\": {\"type\": \"number\"}, \"cost_ms\": {\"type\": \"number\"}, \"share\": {\"type\": [\"number\", "
    "\"null\"]}, "
    "\"rank\": {\"type\": [\"integer\", \"null\"]}, \"evidence\": {\"type\": [\"string\", \"null\"]}, \"advice\": "
    "{\"type\": "
    "[\"string\", \"null\"]}, \"facts\": {\"type\": \"array\", \"items\": {\"type\": \"object\", \"required\": "
    "[\"key\", \"value\", "
    "\"unit\", \"place\"], \"properties\": {\"key\": {\"type\": \"string\"}, \"value\": {\"type\": [\"number\", "
    "\"null\"]}, "
    "\"unit\": {\"enum\": [\"\", \"ms\", \"us\", \"share\", \"GB/s\", \"GiB\"]}, \"text\": {\"type\": \"string\"}, "
    "\"place\": "
    "{\"type\": \"object\"}}}}, \"shares_with\": {\"type\": \"array\", \"items\": {\"type\": \"object\", \"required\": "
    "[\"cause\", "
    "\"ms\"]}}}}}";
static const char verdict_view[] =
    "{\"type\": \"object\", \"required\": [\"headline\", \"rows\", \"blocks\", \"minor\"], \"properties\": "
    "{\"headline\": "
    "{\"type\": \"string\"}, \"rows\": {\"type\": \"array\", \"items\": {\"type\": \"object\", \"required\": "
    "[\"name\", \"text\"]}}, "
    "\"blocks\": {\"type\": \"array\", \"items\": {\"type\": \"object\", \"required\": [\"finding\", \"cause\", "
    "\"name\", \"gains\", \"share\", "
    "\"figure\", \"suffix\", \"mark\", \"measured\", \"worst\", \"fix\"]}}, \"minor\": {\"type\": \"string\"}}}";
static const char replay[] =
    "{\"type\": \"object\", \"required\": [\"measured_ms\", \"replayed_ms\", \"unrecorded_ms\", \"inferred_share\", "
    "\"unexplained_share\", \"reason\"]}";

void aorta_schema_put(struct aorta_json *json, const char *key, const char *text) {
    aorta_json_key(json, key);
    aorta_json_text(json, text);
}

static void schema_object(struct aorta_json *json) {
    aorta_json_key_string(json, "type", "object");
    aorta_json_key_object(json, "properties");
}

void aorta_schema_list(const char *key, struct aorta_json *json) {
    aorta_json_key_object(json, key);
    aorta_json_key_string(json, "type", "array");
    aorta_json_key_object(json, "items");
    schema_object(json);
}

void aorta_schema_list_end(struct aorta_json *json) {
    aorta_json_object_end(json);
    aorta_json_object_end(json);
    aorta_json_object_end(json);
}

static void put_tables(struct aorta_json *json, const struct aorta_result_table *const *tables) {
    for (; *tables; tables++) {
        aorta_schema_list((*tables)->key, json);
        aorta_rows_schema((*tables)->rows, json);
        aorta_schema_list_end(json);
    }
}

static void put_verdict(struct aorta_json *json) {
    aorta_rows_schema_object("gemm_slowdown", aorta_trace_slowdown_rows, json);
    aorta_schema_put(json, "verdict", verdict);
    aorta_schema_put(json, "verdict_view", verdict_view);
    aorta_schema_put(json, "replay", replay);
    aorta_schema_put(json, "floor_ms", "{\"type\": [\"number\", \"null\"]}");
}

static void put_trace(struct aorta_json *json) {
    aorta_schema_list("ranks", json);
    aorta_rows_schema(aorta_trace_rank_rows, json);
    aorta_rows_schema_object("clock", aorta_trace_clock_rows, json);
    put_tables(json, aorta_rank_tables);
    put_tables(json, aorta_rank_tables_after);
    put_tables(json, aorta_by_tables);
    aorta_schema_list_end(json);
    put_tables(json, aorta_world_tables);
    put_verdict(json);
}

static void put_summary(struct aorta_json *json) {
    aorta_json_key_object(json, "labels");
    aorta_json_key_string(json, "type", "object");
    aorta_json_key_object(json, "additionalProperties");
    schema_object(json);
    aorta_rows_schema(aorta_summary_rows, json);
    aorta_rows_schema_object("records", aorta_summary_records_rows, json);
    aorta_rows_schema_object("recording_cost", aorta_recording_rows, json);
    put_verdict(json);
    aorta_json_object_end(json);
    aorta_json_object_end(json);
    aorta_json_object_end(json);
}

const struct aorta_schema aorta_report_schemas[] = {
    {"trace_analyze", "aorta trace analyze --json", put_trace},
    {"summary", "summary.json of aorta train and aorta report", put_summary},
    {"metrics", "a line of rank_RR_metrics.jsonl", aorta_metrics_schema},
    {0}};

void aorta_schema_write(const struct aorta_schema *schema, struct aorta_text *out) {
    struct aorta_json json;
    aorta_json_begin(&json, out, 1);
    aorta_json_object(&json);
    aorta_json_key_string(&json, "$schema", "https://json-schema.org/draft/2020-12/schema");
    aorta_json_key_string(&json, "title", schema->title);
    aorta_json_key_string(&json, "type", "object");
    aorta_json_key_array(&json, "required");
    aorta_json_string(&json, "schema_version");
    aorta_json_array_end(&json);
    aorta_json_key_object(&json, "properties");
    aorta_json_key_object(&json, "schema_version");
    aorta_json_key_string(&json, "type", "integer");
    aorta_json_object_end(&json);
    schema->put(&json);
    aorta_json_object_end(&json);
    aorta_json_object_end(&json);
    aorta_text_puts(out, "\n");
}

/* ---- docs/metrics-format.md: tables of the rows that write the files, and what goes for all of them ---- */

static const char introduction[] =
    "# Formats of the figures: JSONL and JSON\n"
    "\n"
    "This page lists the keys of every file that AORTA writes. [metrics.md](metrics.md) defines the figures.\n"
    "\n"
    "- `_ms` is milliseconds with up to six decimals, exact to the nanosecond. `_gbps` is 10⁹ bytes a "
    "second.\n"
    "- A value that was not measured is `null`, never 0. `null_reasons` in the same object, or `reason`, says "
    "why.\n"
    "- Every file has `schema_version` (1). Files are written under a temporary name and renamed; "
    "JSONL is flushed line by\n"
    "  line.\n"
    "- `aorta help formats --markdown` makes this page from the rows that write the files, `--schema NAME` the JSON\n"
    "  Schemas in `docs/schema`.\n"
    "- `--csv DIR` of every command that prints tables\n"
    "  writes each table as `KEY.csv` (RFC 4180). A name of the header line is the key, with the unit "
    "in brackets where the key\n"
    "  does not say it; `a.b` is `b` of the object `a`; what is `null` is empty.\n";

static const char reading[] =
    "\n"
    "A reader skips an incomplete last line (of a killed run) with a warning. Any other malformed line is an error\n"
    "with file, line and byte.\n";

static const char of_summary[] = "## `summary.json`: `aorta train`, `aorta report`\n"
                                 "\n"
                                 "`labels.NAME` describes one run:\n"
                                 "\n";

/* Beside the rows. */
static const char more_of_summary[] =
    "| `missing_ranks[]` |  | whose files are not there |\n"
    "| `FIGURE` |  | `step_ms`, `span_ms`, `compute_ms`, `comm_ms`, `memcpy_ms`, `overlap_ms`, "
    "`compute_allreduce_ms`, `compute_reducescatter_ms` (compute beside these), `exposed_comm_ms`, `idle_ms`, "
    "`lead_ms`, `data_wait_ms`, `overlap_ratio`, "
    "`compute_overlap_ratio`, `samples_per_s`, each an object as below, over all measured iterations of all ranks; the "
    "mean of `samples_per_s` is all samples over all time |\n"
    "| `common_clock`, `compute_is_upper_bound` |  | of the verdict |\n"
    "| `gemm_slowdown` |  | as in `aorta trace analyze --json` below |\n"
    "| `verdict[]` |  | `cause`, `gain_ms`, `gain_share`, `cost_ms`, `share`, `rank`, `evidence`, "
    "`advice`; `collective` where there is one; eight rows at most, the sum of the rest in "
    "`verdict_folded{rows, cost_ms, share}` |\n"
    "| `replay`, `floor_ms` |  | as in `aorta trace analyze --json` below |\n"
    "| `clocks`, or `clocks_reason` |  | of the rank with the lowest clock |\n"
    "| `ranks[]` |  | per rank: `rank`, `iterations`, `causes_ms` (every cause), `step_ms_samples[]`, the "
    "figures, [`roofline`](#roofline), `clocks` |\n";

static const char of_labels[] =
    "\n"
    "`environment` of a label: the keys of `environment.json` with dots between them (`host.name`, `software.driver`, "
    "`environment.NCCL_PROTO`).\n"
    "\n"
    "`comparison`, with `--reference` and `--candidate` ([rule](metrics.md#comparison)): `reference`, `candidate`,\n"
    "`reference_runs`, `candidate_runs`, `differences[{key, reference, candidate}]` (of configuration, environment "
    "and\n"
    "clocks), `test`, `significance_level`, `step_change`, `largest_change` and `between_runs` (sentences: of the "
    "step, of what\n"
    "differs most, and of what equal runs differ by), and for each figure `metrics.NAME`:\n"
    "\n"
    "| key | content |\n"
    "| --- | --- |\n"
    "| `reference`, `candidate` | means over runs |\n"
    "| `delta`, `delta_percent` | candidate − reference |\n"
    "| `ci` | 95% interval of `delta` |\n"
    "| `p_value`, `significant` | two-sided; `significant` below 0.05 |\n"
    "| `higher_is_better` | |\n"
    "| `change` | `better`, `worse`, `within the noise` or `not known`; of times of steps with other work `longer`, "
    "`shorter` |\n"
    "| `between_runs_percent`, `repeats` | what equal runs differ by, of `reference`; how many repeats say so (0: "
    "assumed) |\n"
    "| `wanted_iterations`, `wanted_runs` | steps of each run, or else runs of each label, that would decide; `null`: "
    "not known |\n"
    "| `reason` | why there is no p-value |\n";

static const char of_trace[] =
    "## `aorta trace analyze --json`\n"
    "\n"
    "`schema_version`, `ranks[]`, `shared_collectives[]`, `kernel_differences[]`, `gemm_slowdown`, "
    "`judged` (what was analysed: steps or the whole\n"
    "recording), `warmup_steps` (left out of it), `judged_ms_mean`, `step_ms_p10`, `step_ms_p90`, `step_busy_ms`, "
    "`step_comm_ms`,\n"
    "`step_exposed_comm_ms`, `step_overlap_ratio` (means of the same over all ranks), `verdict[]` "
    "(with `gain_ms`, `gain_share`; `null` "
    "where no replay "
    "can be trusted; eight rows at most),\n"
    "`verdict_folded{rows, cost_ms, share}` (the sum of the rest, where there is one),\n"
    "`replay{measured_ms, replayed_ms, unrecorded_ms, unrecorded_range_ms[2], unrecorded_reason, "
    "inferred_share,\n"
    "unexplained_share, reason, left_ms{compute, compute_alone, …}}`, `floor_ms`,\n"
    "`ranks_missing` (ranks of the largest process group whose files were not given), `ranks_outside` "
    "(left out, as they ran\n"
    "in none of the steps that they mark), `remark` (a note beside the\n"
    "causes, or `null`), [`machine`](#machine-and-machinejsonl).\n";

static const char of_roofline[] =
    "## `roofline`\n"
    "\n"
    "Of each rank of `aorta trace analyze --json` and of `summary.json`; definitions: "
    "[metrics.md](metrics.md#roofline).\n"
    "\n"
    "`device`: its name in the recording, or `null`; `peaks`, or `null` with `peaks_reason`; `classes.NAME` of those "
    "that ran;\n"
    "`largest_losses[]`. `--csv` has the last two as `roofline_classes.csv` and `largest_losses.csv`.\n";

static const char of_machine[] = "\n"
                                 "## `machine`, and `machine*.jsonl`\n"
                                 "\n"
                                 "`machine.jsonl` of `aorta trace run -o` and `machine_RR.jsonl` of `aorta train` (by "
                                 "the first rank of each host) have "
                                 "a line a second:\n"
                                 "`schema_version`, `host`, `processors` and\n\n";

static const char of_machine_summary[] =
    "\n"
    "`machine` of `aorta trace analyze --json` and `summary.json` is what they say of the steps analysed (of a run: of "
    "all): "
    "`host`, `readings`, `seconds`,\n"
    "`processors`, `load`, `stolen_share`, `idle_share`, `own_share`, `others_share` (of all processors' time; `null`: "
    "`shares_reason`), `other_processes[]`\n"
    "(`pid`, `gpu`, `sm_share`, `memory_bytes`; `null`: `other_processes_reason`), `gpu` and its `clocks` (the lowest "
    "of "
    "those that the program used), `disturbed`\n"
    "(the sentence, or `null`). `null` with `machine_reason` where there is no such file.\n";

static const char of_others[] =
    "## `aorta trace compare --json`\n"
    "\n"
    "`schema_version`, `per` (step or recording), `threshold`, `base` and `tests[]` (`label`; `path` and "
    "`ranks` of the first recording; `steps` of all;\n`recordings[]` of the side with `path`, `ranks`, `steps`; a "
    "test\n"
    "also `differences[]` from the base, `largest_change` and `bandwidth_change`, sentences, and of its step "
    "`between_runs_percent`, "
    "`repeats`, `wanted_iterations`, "
    "`wanted_runs`), and rows in\n"
    "`timeline[]`, `categories[]`, `operations[]`, `subtrees[]`, `kernels[]`, `gemms[]`, `collectives[]`: `name`, "
    "`base` and "
    "`tests[]`. A side has "
    "`ms`, `present`,\n"
    "`count`, `mean_us`, of subtrees that differ `below` (the operations that did the work); a row's test also "
    "`change_ms`, `percent`, `ci_ms` (95%), `p` and, where there "
    "is none, `p_reason`.\n"
    "\n"
    "## `aorta hwq … --json`\n"
    "\n"
    "[hwq.md](hwq.md) describes the files of `aorta hwq` and [`aorta "
    "sdma`](hwq.md#copies-during-products-aorta-sdma),\n"
    "[whatif.md](whatif.md) those of `aorta whatif`, [sweep.md](sweep.md) those of `aorta sweep`.\n";

static void add_table(const struct aorta_result_table *table, struct aorta_text *out) {
    aorta_text_printf(out, "\n`%s[]`: %s.\n\n", table->key, table->help);
    aorta_rows_markdown(table->rows, out);
}

static void add_part(const char *heading, const struct aorta_row *rows, struct aorta_text *out) {
    aorta_text_printf(out, "\n%s:\n\n", heading);
    aorta_rows_markdown(rows, out);
}

static void add_summary(struct aorta_text *out) {
    aorta_text_puts(out, of_summary);
    aorta_rows_markdown(aorta_summary_rows, out);
    aorta_text_puts(out, more_of_summary);
    add_table(&aorta_summary_coverage, out);
    add_part("Each figure", aorta_summary_statistics_rows, out);
    add_part("`collectives.KIND`, means per recorded iteration and rank", aorta_summary_collective_rows, out);
    add_part("`records`, where figures are of kernels", aorta_summary_records_rows, out);
    add_part("`recording_cost`, with `profiling.record_every`", aorta_recording_rows, out);
    add_part("`clocks`, with `text` (a sentence, or `null`)", aorta_clocks_member_rows, out);
    add_table(&aorta_clocks_limits, out);
    aorta_text_puts(out, of_labels);
}

static void add_trace(struct aorta_text *out) {
    aorta_text_puts(out, of_trace);
    add_part("`gemm_slowdown`", aorta_trace_slowdown_rows, out);
    add_part("Each of `ranks[]`", aorta_trace_rank_rows, out);
    add_part("With several ranks `clock`", aorta_trace_clock_rows, out);
    aorta_text_puts(
        out, "\nBeside these a rank has `idle_causes_ms` as its steps have it, `steps_by` (what says where steps "
             "begin: `profiler`,\n`range` (`--step-range`), `optimizer`, `engine`, `repetition`; `null`: no "
             "steps), [`roofline`](#roofline) and these tables,\neach a file of `--csv` with the rank in "
             "front.\n");
    for (size_t i = 0; aorta_rank_tables[i]; i++) add_table(aorta_rank_tables[i], out);
    for (size_t i = 0; aorta_rank_tables_after[i]; i++) add_table(aorta_rank_tables_after[i], out);
    aorta_text_puts(
        out, "\nTables of `--by`, made when they are asked for; a page has `by_op`, `by_annotation`, `by_category`, "
             "`by_phase`, "
             "`by_sequence`, `by_time`,\n`by_stream`, `by_memory`, `by_path` without asking. Where one distinguishes "
             "nothing apart, "
             "`KEY_reason` says why. `by_of` has `phase` and `within` where `--phase` or `--within` chose the "
             "work:\n");
    for (size_t i = 0; aorta_by_tables[i]; i++) add_table(aorta_by_tables[i], out);
    aorta_text_puts(out, "\nBeside `by_memory[]` a rank has `memory_peak`:\n\n");
    aorta_rows_markdown(trace_memory_peak_rows, out);
    aorta_text_puts(out, "\nTables of all ranks:\n");
    for (size_t i = 0; aorta_world_tables[i]; i++) add_table(aorta_world_tables[i], out);
    aorta_text_puts(out, "\n");
}

static void add_roofline(struct aorta_text *out) {
    aorta_text_puts(out, of_roofline);
    aorta_text_puts(out, "\n");
    aorta_rows_markdown(aorta_roofline_head_rows, out);
    add_part("`peaks`", aorta_roofline_peak_rows, out);
    add_part("`classes.NAME`, of `gemm`, `convolution`, `attention`, `pointwise`, `reduction`, `other`",
             aorta_roofline_class_rows, out);
    add_table(aorta_roofline_tables[1], out);
}

void aorta_formats_page(struct aorta_text *out) {
    aorta_text_puts(out, introduction);
    aorta_text_puts(out, "\n## `rank_RR_metrics.jsonl`: one line per iteration and rank\n");
    aorta_metrics_markdown(out);
    aorta_text_puts(out, reading);
    add_summary(out);
    aorta_text_puts(out, "\n");
    add_trace(out);
    add_roofline(out);
    aorta_text_puts(out, of_machine);
    aorta_machine_markdown(out);
    aorta_text_puts(out, of_machine_summary);
    aorta_text_puts(out, "\n");
    aorta_text_puts(out, of_others);
}

enum { LABEL = 14 };

static const struct {
    unsigned program;
    const char *name;
} programs[] = {{AORTA_PROGRAM_TORCH, "PyTorch"},   {AORTA_PROGRAM_SERVING, "vLLM, SGLang"},
                {AORTA_PROGRAM_XLA, "JAX"},         {AORTA_PROGRAM_CUPY, "CuPy"},
                {AORTA_PROGRAM_TRITON, "Triton"},   {AORTA_PROGRAM_NATIVE, "C, MPI"},
                {AORTA_PROGRAM_OURS, "aorta train"}};
enum { PROGRAMS = sizeof programs / sizeof *programs };

static void put(const char *label, const char *text, struct aorta_text *out) {
    aorta_text_printf(out, "  %-*s", LABEL, label);
    aorta_text_lines(out, text, &(struct aorta_lines){.width = 100, .taken = 2 + LABEL, .indent = 2 + LABEL});
}

static void put_row(const struct aorta_advice_row *row, struct aorta_text *out) {
    if (row->key && strchr(row->value, ' '))
        aorta_text_printf(out, "%s %s (", row->value, row->key);
    else if (row->key)
        aorta_text_printf(out, "%s=%s (", row->key, row->value);
    aorta_text_puts(out, row->text);
    if (row->key) aorta_text_puts(out, ")");
    if (row->also) aorta_text_printf(out, "; %s", row->also);
}

/* What the row is for: "all_to_all (sends and receives): ". */
static void put_condition(const struct aorta_advice_row *row, struct aorta_text *out) {
    if (row->collective) aorta_text_puts(out, aorta_collective_name((enum aorta_collective)(row->collective - 1)));
    if (row->remedy) aorta_text_puts(out, row->remedy);
    for (int i = 0; i < 2; i++) {
        const char *words = row->when[i] ? aorta_fact_words(row->when[i]) : NULL;
        if (words) aorta_text_printf(out, "%s(%s)", out->length ? " " : "", words);
    }
    if (out->length) aorta_text_puts(out, ": ");
}

/* Rows that an earlier program has had already are left out. */
static bool is_new(const struct aorta_advice_row *row, int program) {
    for (int i = 0; i < program; i++)
        if (row->programs & programs[i].program) return false;
    return true;
}

static void put_fixes(enum aorta_cause cause, struct aorta_text *out) {
    size_t count;
    const struct aorta_advice_row *rows = aorta_advice_rows(&count);
    for (int i = 0; i < PROGRAMS; i++) {
        const char *label = programs[i].name;
        for (size_t j = 0; j < count; j++) {
            struct aorta_text line = {0};
            if (rows[j].cause != cause || !(rows[j].programs & programs[i].program) || !is_new(&rows[j], i)) continue;
            put_condition(&rows[j], &line);
            put_row(&rows[j], &line);
            put(label, line.data ? line.data : "", out);
            out->failed |= line.failed;
            aorta_text_free(&line);
            label = "";
        }
    }
}

/* The template of the name without its options: "slow KIND (slow_collective)". */
static void put_name(const struct aorta_cause_row *row, struct aorta_text *out) {
    for (const char *at = row->name; *at;) {
        const size_t plain = strcspn(at, "[{");
        aorta_text_append(out, at, plain);
        at += plain;
        if (*at == '{') aorta_text_puts(out, "KIND");
        at += strcspn(at, *at == '[' ? "]" : "}");
        if (*at) at++;
    }
    aorta_text_printf(out, " (%s)\n\n", row->key);
}

void aorta_cause_help(enum aorta_cause cause, struct aorta_text *out) {
    const struct aorta_cause_row *row = aorta_cause_row(cause);
    put_name(row, out);
    put("meaning", row->means, out);
    put("measured", row->how, out);
    put("gain", row->gain, out);
    put("not when", row->unless, out);
    aorta_text_puts(out, "\nFixes:\n");
    put_fixes(cause, out);
}
