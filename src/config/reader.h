/* Inside config: documents of libyaml, with messages that name the place. */
#ifndef AORTA_CONFIG_READER_H
#define AORTA_CONFIG_READER_H

#include "base/json.h"
#include "config/option.h"

#include <yaml.h>

/* Parses one document. `place` is the file's name or "--override a=b" and begins messages; `in_file` adds line and
 * column to it. End it with yaml_document_delete. */
AORTA_MUST_USE aorta_status aorta_yaml_load(const char *bytes, size_t length, const char *place, bool in_file,
                                            yaml_document_t *document);

/* Says where strict JSON is broken. */
AORTA_MUST_USE aorta_status aorta_json_check(const char *bytes, size_t length, const char *path);

/* The scalars of a scalar or of a list of scalars, in the arena. Returns false when the node is or holds something
 * else. */
bool aorta_yaml_scalars(yaml_document_t *document, const yaml_node_t *node, struct aorta_arena *arena,
                        struct aorta_scalar **scalars, size_t *count, bool *list);

/* Lists and maps in each other as JSON: plain words that are numbers, truth values or null become these. False when it
 * holds a tag, or a key that is no name. */
bool aorta_yaml_to_json(yaml_document_t *document, const yaml_node_t *node, struct aorta_json *json);

/* "eight", `"8"`, "a list", "a section" for messages, shortened, without control characters. */
void aorta_yaml_describe(yaml_document_t *document, const yaml_node_t *node, struct aorta_text *text);

/* At most 60 bytes of it, control characters as '?'. */
void aorta_text_shortened(struct aorta_text *text, const char *string);

#endif
