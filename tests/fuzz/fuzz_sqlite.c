/* Any bytes as a SQLite trace, and any statements in one: an error that names the file, or a trace whose rows are in
 * order. The first byte says which: statements are a text that makes the database. */
#include "fuzz.h"
#include "reader.h"
#include "trace/open.h"

#include <sqlite3.h>

/* So that a statement does not run for minutes. */
static int enough(void *steps) {
    return --*(int *)steps < 0;
}

/* Nothing of the statements reaches another file. */
static int only_here(void *unused, int action, const char *a, const char *b, const char *c, const char *d) {
    (void)unused;
    (void)a;
    (void)b;
    (void)c;
    (void)d;
    return action == SQLITE_ATTACH || action == SQLITE_PRAGMA || action == SQLITE_FUNCTION ? SQLITE_DENY : SQLITE_OK;
}

static void make_database(const char *path, const uint8_t *data, size_t size) {
    sqlite3 *db;
    int steps = 50;
    char *text = strndup((const char *)data, size);
    unlink(path);
    if (!text || sqlite3_open(path, &db) != SQLITE_OK) abort();
    sqlite3_exec(db, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF", NULL, NULL, NULL);
    sqlite3_limit(db, SQLITE_LIMIT_LENGTH, 1 << 16);
    sqlite3_progress_handler(db, 1000, enough, &steps);
    sqlite3_set_authorizer(db, only_here, NULL);
    sqlite3_exec(db, text, NULL, NULL, NULL);
    sqlite3_close(db);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[FUZZ_PATH];
    if (!size) return 0;
    fuzz_path(path, "x.db");
    if (data[0] == 'S')
        fuzz_write(path, data, size); /* "SQLite format 3": a database as it is */
    else
        make_database(path, data + 1, size - 1);
    struct aorta_trace_list whole = {0}, recovered = {0};
    aorta_status first = fuzz_read(&aorta_trace_reader_sqlite, path, false, &whole),
                 second = fuzz_read(&aorta_trace_reader_sqlite, path, true, &recovered);
    unlink(path);
    if (!first && second) abort();
    aorta_status_free(first);
    aorta_status_free(second);
    aorta_trace_list_free(&whole);
    aorta_trace_list_free(&recovered);
    return 0;
}
