/* Results as rows, like options (config/option.h). A row has a figure's name, place, unit, meaning, and the reason if
 * it is absent. The rows of a struct write its JSON, read it back and document it. Sentences stay in code. */
#ifndef AORTA_BASE_ROWS_H
#define AORTA_BASE_ROWS_H

#include "base/intern.h"
#include "base/json.h"
#include "base/json_value.h"

/* Times and whole numbers that are not known. */
#define AORTA_ROW_UNKNOWN INT64_MIN

enum aorta_row_type {                    /* stored as; unknown values are null */
                      AORTA_ROW_END,     /* ends a list of rows: {0} */
                      AORTA_ROW_TEXT,    /* const char *; NULL: not known */
                      AORTA_ROW_KERNEL,  /* the same: a kernel's name, which people see in its short form */
                      AORTA_ROW_LABEL,   /* the same: the first column of the text, and nothing in files; key NULL */
                      AORTA_ROW_BOOL,    /* bool */
                      AORTA_ROW_INT,     /* int64_t; AORTA_ROW_UNKNOWN */
                      AORTA_ROW_NATURAL, /* int64_t or size_t; negative: not known */
                      AORTA_ROW_INT32,   /* int or int32_t; INT_MIN */
                      AORTA_ROW_NS,      /* int64_t ns, in files ms with up to six decimals, which is exact;
                                            AORTA_ROW_UNKNOWN */
                      AORTA_ROW_TIME,    /* the same, on a clock: in files from an origin on */
                      AORTA_ROW_MEAN_NS, /* double ns, in files ms; NaN */
                      AORTA_ROW_NUMBER,  /* double; NaN */
                      AORTA_ROW_CHOICE,  /* an enum; `name` names its values 0 to `names` - 1 */
                      AORTA_ROW_PART,    /* a struct of the rows `part`: an object; key NULL: its members are listed in
                                            place */
};

struct aorta_row {
    const char *key;
    enum aorta_row_type type;
    size_t offset;
    const char *unit;    /* "ms", "bytes", "GB/s", "share" (0 to 1, people see percent); NULL: a count, a text */
    int decimals;        /* of a number in JSON, at most; 0: as many as read back equal */
    const char *heading; /* of the page's column; NULL: the page has none */
    const char *reason;  /* why it is null, under "null_reasons"; NULL: never null, or obvious */
    size_t reason_at;    /* offset of a const char * with that reason in the values; 0: none */
    const char *help;    /* for the docs */
    bool omit;           /* absent instead of null; a false one, too */
    bool required;       /* reading fails without it; else an absent or null value changes nothing */
    bool written_only;   /* not read */
    bool shown_only;     /* for the text of a table: not in files */
    double low, high;    /* reading: limits, both included; both 0: none */
    const struct aorta_row *part;
    const char *(*name)(int value);
    int names; /* of a choice: number of values; else: an array of this length, an object with these names */
};

/* A value as it is stored: texts and names of choices in `text`, whole numbers, times and flags in `whole`, all numbers
 * but flags in `number`. */
struct aorta_row_value {
    bool known;
    int64_t whole;
    double number;
    const char *text;
};
/* `index`: of an array (a row with `names`), else 0. */
struct aorta_row_value aorta_row_value(const struct aorta_row *row, const void *values, int index);
const char *aorta_row_unit(const struct aorta_row *row); /* in files; "" for counts and texts */

/* ---- JSON ---- */

/* The value alone. */
void aorta_row_json(const struct aorta_row *row, struct aorta_row_value value, int64_t origin_ns,
                    struct aorta_json *json);

/* Null values and their reasons, written after an object's other keys. Zero-initialise. */
enum { AORTA_REASONS_MOST = 32 };
struct aorta_reasons {
    struct {
        const char *key, *reason;
    } items[AORTA_REASONS_MOST];
    int count;
};
void aorta_reasons_add(struct aorta_reasons *reasons, const char *key, const char *reason);
void aorta_reasons_json(const struct aorta_reasons *reasons, struct aorta_json *json); /* nothing if there are none */

/* Keys and values of a struct. `origin_ns`: of times. */
void aorta_rows_members(const struct aorta_row *rows, const void *values, int64_t origin_ns, struct aorta_json *json,
                        struct aorta_reasons *reasons);
/* The rows and the reasons: a whole object. */
void aorta_rows_json(const struct aorta_row *rows, const void *values, int64_t origin_ns, struct aorta_json *json);
void aorta_rows_object(const char *key, const struct aorta_row *rows, const void *values, int64_t origin_ns,
                       struct aorta_json *json);
/* An array of objects under a key, from `count` structs of `size` bytes. */
void aorta_rows_array(const char *key, const struct aorta_row *rows, const void *items, size_t count, size_t size,
                      int64_t origin_ns, struct aorta_json *json);

/* ---- reading ---- */

struct aorta_rows_reader {
    const char *line;            /* containing the values: errors name the byte */
    struct aorta_texts *strings; /* where texts are stored */
    int64_t origin_ns;           /* added to times */
    struct aorta_text scratch;   /* aorta_text_free it in the end */
};

/* AORTA_FORMAT names `path` and key: absent though required, of another type, beyond the limits. */
AORTA_MUST_USE aorta_status aorta_rows_read(struct aorta_rows_reader *reader, const struct aorta_fields *object,
                                            const char *path, const struct aorta_row *rows, void *values);
/* The members of the object under a key; none if the key is missing or null. */
AORTA_MUST_USE aorta_status aorta_rows_read_object(const struct aorta_rows_reader *reader,
                                                   const struct aorta_fields *object, const char *key,
                                                   struct aorta_fields *members);
/* A string in UTF-8, stored; `key` names it in errors. */
AORTA_MUST_USE aorta_status aorta_rows_keep(struct aorta_rows_reader *reader, struct aorta_json_value value,
                                            const char *key, const char **text);

/* ---- docs ---- */

/* A table of Markdown: key, unit, content. */
void aorta_rows_markdown(const struct aorta_row *rows, struct aorta_text *out);
/* The members of "properties" in a JSON Schema: a type that may be null, the unit and the help as "description". */
void aorta_rows_schema(const struct aorta_row *rows, struct aorta_json *json);
/* A key with the schema of an object of these rows, or of an array of such objects. Other keys are allowed. */
void aorta_rows_schema_object(const char *key, const struct aorta_row *rows, struct aorta_json *json);
void aorta_rows_schema_array(const char *key, const struct aorta_row *rows, struct aorta_json *json);
/* The same, whose members the caller writes between begin and end. */
void aorta_schema_list(const char *key, struct aorta_json *json);
void aorta_schema_list_end(struct aorta_json *json);

#endif
