#include "trace/csv.h"
#include "base/text.h"
#include "trace/source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { CHUNK = 1 << 16, MOST_COLUMNS = 256, LONGEST_ROW = 1 << 24 };

struct aorta_csv {
    struct aorta_source *source;
    const char *path;
    char chunk[CHUNK];
    size_t at, length; /* within the chunk */
    int64_t passed;    /* bytes of the chunks before */
    int64_t row_offset;
    struct aorta_text row;       /* the fields of the current row, each with its NUL */
    size_t starts[MOST_COLUMNS]; /* of the fields within it */
    int count;
    struct aorta_text names; /* the first row, stored in the same way */
    size_t name_starts[MOST_COLUMNS];
    int columns;
    bool truncated;
};

static aorta_status broken(const struct aorta_csv *csv, const char *what) {
    return AORTA_ERROR(AORTA_FORMAT, "%s: byte %lld: %s", csv->path, (long long)csv->row_offset, what);
}

/* ---- letters ---- */

/* The next letter without taking it, EOF at the end. */
static aorta_status peek(struct aorta_csv *csv, int *letter) {
    if (csv->at == csv->length) {
        csv->passed += (int64_t)csv->length;
        csv->at = csv->length = 0;
        aorta_status status = aorta_source_read(csv->source, csv->chunk, CHUNK, &csv->length);
        if (status) {
            csv->truncated = aorta_source_truncated(csv->source);
            return status;
        }
    }
    *letter = csv->at < csv->length ? (unsigned char)csv->chunk[csv->at] : EOF;
    return NULL;
}

static bool ends_field(int letter) {
    return letter == ',' || letter == '\n' || letter == '\r' || letter == EOF;
}

/* ---- rows ---- */

static void append(struct aorta_csv *csv, int letter) {
    const char byte = (char)letter;
    aorta_text_append(&csv->row, &byte, 1);
}

/* From after the opening quote up to and including the closing one. */
static aorta_status read_quoted(struct aorta_csv *csv) {
    int letter;
    for (;;) {
        AORTA_TRY(peek(csv, &letter));
        if (letter == EOF) {
            csv->truncated = true;
            return broken(csv, "the file ends within the quotes of a field in the row that begins here");
        }
        csv->at++;
        if (letter == '"') {
            AORTA_TRY(peek(csv, &letter));
            if (ends_field(letter)) return NULL;
            append(csv, '"');
            if (letter == '"') csv->at++;
            continue;
        }
        append(csv, letter);
        if (csv->row.length > LONGEST_ROW) return broken(csv, "a row of more than 16 MiB: quotes that do not close?");
    }
}

/* One field and the comma or line end after it; *last: the field ends the row. */
static aorta_status read_field(struct aorta_csv *csv, bool *last) {
    int letter;
    if (csv->count == MOST_COLUMNS) return broken(csv, "a row of more than 256 fields");
    csv->starts[csv->count++] = csv->row.length;
    AORTA_TRY(peek(csv, &letter));
    if (letter == '"') {
        csv->at++;
        AORTA_TRY(read_quoted(csv));
        AORTA_TRY(peek(csv, &letter));
    }
    while (!ends_field(letter)) {
        append(csv, letter);
        csv->at++;
        if (csv->row.length > LONGEST_ROW) return broken(csv, "a row of more than 16 MiB");
        AORTA_TRY(peek(csv, &letter));
    }
    append(csv, '\0');
    if (letter != EOF) csv->at++;
    if (letter == '\r') {
        AORTA_TRY(peek(csv, &letter));
        if (letter == '\n') csv->at++;
    }
    *last = letter != ',';
    return aorta_text_check(&csv->row);
}

static aorta_status read_row(struct aorta_csv *csv, bool *more) {
    int letter;
    AORTA_TRY(peek(csv, &letter));
    while (letter == '\n' || letter == '\r') {
        csv->at++;
        AORTA_TRY(peek(csv, &letter));
    }
    csv->row_offset = aorta_csv_bytes(csv);
    csv->count = 0;
    aorta_text_clear(&csv->row);
    *more = letter != EOF;
    for (bool last = !*more; !last;) AORTA_TRY(read_field(csv, &last));
    return NULL;
}

aorta_status aorta_csv_next(struct aorta_csv *csv, bool *more) {
    AORTA_TRY(read_row(csv, more));
    if (!*more || csv->count == csv->columns) return NULL;
    int letter;
    AORTA_TRY(peek(csv, &letter));
    if (letter == EOF && csv->count < csv->columns) {
        csv->truncated = true;
        return broken(csv, "the file ends in the middle of the row that begins here");
    }
    return AORTA_ERROR(AORTA_FORMAT, "%s: byte %lld: a row of %d fields under a header of %d names", csv->path,
                       (long long)csv->row_offset, csv->count, csv->columns);
}

/* ---- the file ---- */

aorta_status aorta_csv_open(const char *path, struct aorta_csv **out) {
    struct aorta_csv *csv = calloc(1, sizeof *csv);
    if (!csv) return AORTA_ERROR(AORTA_MEMORY, "%s: no memory to read it", path);
    csv->path = path;
    aorta_status status = aorta_source_open(path, &csv->source);
    bool more = false;
    if (!status) status = read_row(csv, &more);
    if (!status && !more) status = broken(csv, "an empty file");
    if (status) {
        aorta_csv_close(csv);
        return status;
    }
    csv->names = csv->row;
    csv->row = (struct aorta_text){0};
    memcpy(csv->name_starts, csv->starts, sizeof csv->starts);
    csv->columns = csv->count;
    *out = csv;
    return NULL;
}

void aorta_csv_close(struct aorta_csv *csv) {
    if (!csv) return;
    aorta_source_close(csv->source);
    aorta_text_free(&csv->row);
    aorta_text_free(&csv->names);
    free(csv);
}

int aorta_csv_column(const struct aorta_csv *csv, const char *name) {
    for (int i = 0; i < csv->columns; i++)
        if (strcasecmp(csv->names.data + csv->name_starts[i], name) == 0) return i;
    return -1;
}

const char *aorta_csv_text(const struct aorta_csv *csv, int column) {
    return column < 0 || column >= csv->count ? "" : csv->row.data + csv->starts[column];
}

bool aorta_csv_int(const struct aorta_csv *csv, int column, int64_t *number) {
    const char *text = aorta_csv_text(csv, column);
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno) return false;
    *number = value;
    return true;
}

int64_t aorta_csv_offset(const struct aorta_csv *csv) {
    return csv->row_offset;
}
int64_t aorta_csv_bytes(const struct aorta_csv *csv) {
    return csv->passed + (int64_t)csv->at;
}
bool aorta_csv_truncated(const struct aorta_csv *csv) {
    return csv->truncated;
}
