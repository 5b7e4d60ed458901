#include "report/schemas.h"
#include "measure/clocks.h"
#include "measure/metrics.h"
#include "report/recording.h"
#include "report/summary.h"
#include "report/trace_tables_internal.h"
#include "verdict/roofline.h"

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

void aorta_schema_object(struct aorta_json *json) {
    aorta_json_key_string(json, "type", "object");
    aorta_json_key_object(json, "properties");
}

void aorta_schema_list(const char *key, struct aorta_json *json) {
    aorta_json_key_object(json, key);
    aorta_json_key_string(json, "type", "array");
    aorta_json_key_object(json, "items");
    aorta_schema_object(json);
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
    aorta_schema_object(json);
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
