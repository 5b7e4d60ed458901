#include "config/reader.h"
#include "base/files.h"
#include "base/printable.h"

#include <jansson.h>
#include <string.h>

enum { LARGEST_TREE = 1 << 20 }; /* aliases can make a small file a large tree */

/* ---- parsing ---- */

static void name_place(struct aorta_text *text, const char *place, bool in_file, yaml_mark_t mark) {
    aorta_text_puts(text, place);
    if (in_file) aorta_text_printf(text, ":%zu:%zu", mark.line + 1, mark.column + 1);
}

static aorta_status yaml_problem(const yaml_parser_t *parser, const char *bytes, size_t length, const char *place,
                                 bool in_file) {
    if (parser->error == YAML_MEMORY_ERROR) return AORTA_ERROR(AORTA_MEMORY, "%s: out of memory", place);
    struct aorta_text text = {0};
    if (parser->error == YAML_READER_ERROR) { /* raised before there are lines */
        aorta_text_printf(&text, "%s: byte %zu: not valid YAML: %s; save the file as UTF-8", place,
                          parser->problem_offset, parser->problem);
        return aorta_text_error(&text, AORTA_CONFIG);
    }
    name_place(&text, place, in_file, parser->problem_mark);
    aorta_text_printf(&text, ": not valid YAML: %s", parser->problem);
    if (parser->context) {
        aorta_text_printf(&text, " (%s", parser->context);
        if (in_file) aorta_text_printf(&text, " that began on line %zu", parser->context_mark.line + 1);
        aorta_text_puts(&text, ")");
    }
    size_t offset = parser->problem_mark.index;
    if (offset < length && bytes[offset] == '\t') aorta_text_puts(&text, "; indent with spaces, not with tabs");
    return aorta_text_error(&text, AORTA_CONFIG);
}

/* Refuses content after a second "---", which would be ignored silently. */
static aorta_status expect_end(yaml_parser_t *parser, const char *bytes, size_t length, const char *place,
                               bool in_file) {
    yaml_document_t rest;
    if (!yaml_parser_load(parser, &rest)) return yaml_problem(parser, bytes, length, place, in_file);
    yaml_mark_t mark = rest.start_mark;
    bool more = yaml_document_get_root_node(&rest) != NULL;
    yaml_document_delete(&rest);
    if (!more) return NULL;
    struct aorta_text text = {0};
    name_place(&text, place, in_file, mark);
    aorta_text_puts(&text, ": a second document begins here; a configuration is one document, without further \"---\"");
    return aorta_text_error(&text, AORTA_CONFIG);
}

static bool has_anchor(const yaml_event_t *event) {
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return event->data.scalar.anchor;
    case YAML_SEQUENCE_START_EVENT:
        return event->data.sequence_start.anchor;
    case YAML_MAPPING_START_EVENT:
        return event->data.mapping_start.anchor;
    default:
        return false;
    }
}

/* libyaml's time grows with the square of the depth and of the number of anchors, so both are limited. Parsing events
 * is cheap.
 */
static aorta_status check_extent(const char *bytes, size_t length, const char *place, bool in_file) {
    enum { DEEPEST = 64, MOST_ANCHORS = 100 };
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser)) return AORTA_ERROR(AORTA_MEMORY, "%s: out of memory", place);
    yaml_parser_set_input_string(&parser, (const unsigned char *)bytes, length);
    aorta_status status = NULL;
    yaml_event_t event;
    yaml_event_type_t type = YAML_NO_EVENT;
    /* Ignores errors, which the real parsing reports. */
    for (int depth = 0, anchors = 0; !status && type != YAML_STREAM_END_EVENT && yaml_parser_parse(&parser, &event);) {
        type = event.type;
        depth += type == YAML_SEQUENCE_START_EVENT || type == YAML_MAPPING_START_EVENT;
        depth -= type == YAML_SEQUENCE_END_EVENT || type == YAML_MAPPING_END_EVENT;
        anchors += has_anchor(&event);
        if (depth > DEEPEST || anchors > MOST_ANCHORS) {
            struct aorta_text text = {0};
            name_place(&text, place, in_file, event.start_mark);
            if (depth > DEEPEST)
                aorta_text_printf(&text, ": brackets and sections are more than %d deep", DEEPEST);
            else
                aorta_text_printf(&text, ": there are more than %d anchors (&name)", MOST_ANCHORS);
            status = aorta_text_error(&text, AORTA_CONFIG);
        }
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    return status;
}

aorta_status aorta_yaml_load(const char *bytes, size_t length, const char *place, bool in_file,
                             yaml_document_t *document) {
    AORTA_TRY(check_extent(bytes, length, place, in_file));
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser)) return AORTA_ERROR(AORTA_MEMORY, "%s: out of memory", place);
    yaml_parser_set_input_string(&parser, (const unsigned char *)bytes, length);
    aorta_status status = NULL;
    if (!yaml_parser_load(&parser, document)) {
        status = yaml_problem(&parser, bytes, length, place, in_file);
    } else {
        if (yaml_document_get_root_node(document)) status = expect_end(&parser, bytes, length, place, in_file);
        if (status) yaml_document_delete(document);
    }
    yaml_parser_delete(&parser);
    return status;
}

aorta_status aorta_json_check(const char *bytes, size_t length, const char *path) {
    const size_t mark = aorta_utf8_mark(bytes, length);
    json_error_t error;
    json_t *root = json_loadb(bytes + mark, length - mark, JSON_DECODE_ANY, &error);
    if (!root)
        return AORTA_ERROR(AORTA_CONFIG, "%s:%d:%d: not valid JSON: %s", path, error.line, error.column, error.text);
    json_decref(root);
    return NULL;
}

/* ---- nodes ---- */

static bool read_scalar(const yaml_node_t *node, struct aorta_arena *arena, struct aorta_scalar *scalar) {
    if (node->type != YAML_SCALAR_NODE) return false;
    if (strcmp((const char *)node->tag, YAML_STR_TAG) != 0) return false; /* "!!int 8": nothing here needs tags */
    const char *text = (const char *)node->data.scalar.value;
    if (strlen(text) != node->data.scalar.length) return false; /* holds a NUL */
    scalar->text = aorta_arena_strdup(arena, text);
    scalar->quoted = node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    return scalar->text != NULL;
}

bool aorta_yaml_scalars(yaml_document_t *document, const yaml_node_t *node, struct aorta_arena *arena,
                        struct aorta_scalar **scalars, size_t *count, bool *list) {
    if (node->type == YAML_MAPPING_NODE) return false;
    *list = node->type == YAML_SEQUENCE_NODE;
    const yaml_node_item_t *items = node->data.sequence.items.start;
    *count = *list ? (size_t)(node->data.sequence.items.top - items) : 1;
    *scalars = aorta_arena_alloc(arena, *count * sizeof **scalars);
    if (!*scalars) return false;
    if (!*list) return read_scalar(node, arena, *scalars);
    for (size_t i = 0; i < *count; i++)
        if (!read_scalar(yaml_document_get_node(document, items[i]), arena, &(*scalars)[i])) return false;
    return true;
}

static bool scalar_to_json(const yaml_node_t *node, struct aorta_json *json) {
    const char *text = (const char *)node->data.scalar.value;
    int64_t integer;
    double number;
    bool truth;
    if (strcmp((const char *)node->tag, YAML_STR_TAG) != 0 || strlen(text) != node->data.scalar.length) return false;
    const bool plain = node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE; /* quoted scalars are text */
    if (plain && aorta_scalar_is_null(text))
        aorta_json_null(json);
    else if (plain && aorta_scalar_int(text, &integer))
        aorta_json_int(json, integer);
    else if (plain && aorta_scalar_double(text, &number))
        aorta_json_double(json, number);
    else if (plain && aorta_scalar_bool(text, &truth))
        aorta_json_bool(json, truth);
    else
        aorta_json_string(json, text);
    return true;
}

static bool map_to_json(yaml_document_t *document, const yaml_node_t *node, struct aorta_json *json) {
    aorta_json_object(json);
    for (const yaml_node_pair_t *pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top; pair++) {
        const yaml_node_t *key = yaml_document_get_node(document, pair->key);
        if (key->type != YAML_SCALAR_NODE) return false;
        aorta_json_key(json, (const char *)key->data.scalar.value);
        if (!aorta_yaml_to_json(document, yaml_document_get_node(document, pair->value), json)) return false;
    }
    aorta_json_object_end(json);
    return true;
}

/* No deeper than check_extent allows; but an alias within its own list or map has no end. */
bool aorta_yaml_to_json(yaml_document_t *document, const yaml_node_t *node, struct aorta_json *json) {
    enum { DEEPEST = 64 };
    if (node->type == YAML_SCALAR_NODE) return scalar_to_json(node, json);
    if (json->depth > DEEPEST || json->out->length > LARGEST_TREE || json->out->failed) return false;
    if (node->type == YAML_MAPPING_NODE) return map_to_json(document, node, json);
    aorta_json_array(json);
    const yaml_node_item_t *items = node->data.sequence.items.start;
    for (const yaml_node_item_t *item = items; item < node->data.sequence.items.top; item++)
        if (!aorta_yaml_to_json(document, yaml_document_get_node(document, *item), json)) return false;
    aorta_json_array_end(json);
    return true;
}

void aorta_text_shortened(struct aorta_text *text, const char *string) {
    enum { SHOWN = 60 };
    size_t length = strlen(string), shown = length;
    if (shown > SHOWN) {
        shown = SHOWN;
        while (shown > 0 && ((unsigned char)string[shown] & 0xC0) == 0x80) shown--; /* not within a UTF-8 character */
    }
    aorta_text_append(text, string, shown);
    if (!text->failed) aorta_make_printable(text->data + text->length - shown, shown, false);
    if (shown < length) aorta_text_puts(text, "…");
}

static void describe_scalar(const yaml_node_t *node, struct aorta_text *text) {
    const char *value = (const char *)node->data.scalar.value;
    if (strcmp((const char *)node->tag, YAML_STR_TAG) != 0) {
        aorta_text_printf(text, "the tag ");
        aorta_text_shortened(text, (const char *)node->tag);
        return;
    }
    if (strlen(value) != node->data.scalar.length) {
        aorta_text_puts(text, "text that holds a NUL character");
        return;
    }
    bool quoted = node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    if (!quoted && !*value) {
        aorta_text_puts(text, "nothing (null)");
        return;
    }
    aorta_text_puts(text, quoted ? "the text \"" : "");
    aorta_text_shortened(text, value);
    aorta_text_puts(text, quoted ? "\"" : "");
}

void aorta_yaml_describe(yaml_document_t *document, const yaml_node_t *node, struct aorta_text *text) {
    if (node->type == YAML_SCALAR_NODE) {
        describe_scalar(node, text);
    } else if (node->type == YAML_MAPPING_NODE) {
        aorta_text_puts(text, "a section");
    } else {
        enum { SHOWN = 4 };
        const yaml_node_item_t *items = node->data.sequence.items.start;
        size_t count = (size_t)(node->data.sequence.items.top - items);
        aorta_text_puts(text, "[");
        for (size_t i = 0; i < count && i < SHOWN; i++) {
            const yaml_node_t *item = yaml_document_get_node(document, items[i]);
            aorta_text_puts(text, i ? ", " : "");
            if (item->type == YAML_SCALAR_NODE)
                describe_scalar(item, text);
            else
                aorta_text_puts(text, item->type == YAML_MAPPING_NODE ? "{…}" : "[…]");
        }
        aorta_text_puts(text, count > SHOWN ? ", …]" : "]");
    }
}
