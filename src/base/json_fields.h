/* The members of one JSON object of a metrics line, found by their key. Nothing is copied: values point into the line,
 * which is read once (base/json_value.h). A tree of the line took most of a report's time. */
#ifndef AORTA_BASE_JSON_FIELDS_H
#define AORTA_BASE_JSON_FIELDS_H

#include "base/json_value.h"
#include "base/status.h"

#define AORTA_FIELDS_MOST 128

struct aorta_fields {
    struct {
        struct aorta_json_value key, value;
    } items[AORTA_FIELDS_MOST];
    size_t count;
};

/* The value that a line is, without what surrounds it. AORTA_FORMAT, with the byte: it does not end, or something
 * follows. An empty line is one that does not end. */
AORTA_MUST_USE aorta_status aorta_line_value(const char *line, size_t length, struct aorta_json_value *value);

/* AORTA_FORMAT, with the byte from `line` on: no object, a malformed member (its value, too, but not values inside it),
 * a key twice, more members than AORTA_FIELDS_MOST. */
AORTA_MUST_USE aorta_status aorta_fields_read(const char *line, struct aorta_json_value object,
                                              struct aorta_fields *fields);
/* NULL: there is none of this key. */
const struct aorta_json_value *aorta_fields_get(const struct aorta_fields *fields, const char *key);

/* An array's elements, each well-formed as a member is. AORTA_FORMAT as above. */
AORTA_MUST_USE aorta_status aorta_elements_count(const char *line, struct aorta_json_value array, size_t *count);

/* Python writes NaN and Infinity where a number is none; both are numbers here. */
bool aorta_value_is_number(struct aorta_json_value value);
double aorta_value_number(struct aorta_json_value number);

#endif
