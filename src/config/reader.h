/* Internal to config: parses YAML with libyaml; errors name the place. */
#ifndef AORTA_CONFIG_READER_H
#define AORTA_CONFIG_READER_H

#include "base/json.h"
#include "config/option.h"

#include <yaml.h>

/* Parses one document. `place` is the file's name or "--override a=b" and begins messages; `in_file` adds line and
 * column to it. End it with yaml_document_delete. */
AORTA_MUST_USE aorta_status aorta_yaml_load(const char *bytes, size_t length, const char *place, bool in_file,
                                            yaml_document_t *document);

/* Checks strict JSON. The error names the place. */
AORTA_MUST_USE aorta_status aorta_json_check(const char *bytes, size_t length, const char *path);

/* Reads a scalar or a list of scalars into the arena. Returns false if the node is or contains anything else. */
bool aorta_yaml_scalars(yaml_document_t *document, const yaml_node_t *node, struct aorta_arena *arena,
                        struct aorta_scalar **scalars, size_t *count, bool *list);

/* Writes nested lists and maps as JSON; unquoted numbers, booleans and null become JSON's. False if the node has a
 * tag, or a key that is no name. */
bool aorta_yaml_to_json(yaml_document_t *document, const yaml_node_t *node, struct aorta_json *json);

/* "eight", `"8"`, "a list", "a section" for messages, shortened, without control characters. */
void aorta_yaml_describe(yaml_document_t *document, const yaml_node_t *node, struct aorta_text *text);

/* At most 60 bytes of it, control characters as '?'. */
void aorta_text_shortened(struct aorta_text *text, const char *string);

#endif
