/* SQLite files that are made to hang the reader, to take its memory, or to run what they bring along. */
#include "trace/nsys_database.h"
#include "trace/open.h"

#include "base/text.h"
#include "folder.h"

static char folder[FOLDER_PATH], path[FOLDER_PATH + 16];

enum { LONGEST_S = 20 }; /* to read a file: minutes, or no end, where a limit is missing */

static int make_folder(void **state) {
    (void)state;
    folder_make(folder, "sqlite");
    snprintf(path, sizeof path, "%s/a.sqlite", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    return folder_remove(folder);
}

static void make(const char *statements) {
    unlink(path);
    alarm(0);
    run_statements(path, statements);
    alarm(LONGEST_S);
}

static void check_refused(const char *says) {
    struct aorta_trace_list list = {0};
    check_fails(aorta_trace_open(path, NULL, &list), AORTA_FORMAT, says);
    assert_int_equal(list.count, 0);
}

#define NAMES "CREATE TABLE StringIds (id INTEGER, value TEXT); INSERT INTO StringIds VALUES (1, 'k');"
#define KERNELS                                                                                                        \
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, globalPid, correlationId, demangledName);"         \
    "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2, 0, 16777216, 1, 1);"
#define ENDLESS "WITH RECURSIVE t (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM t) SELECT i AS "
#define ROWS "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT %d) "

static void views_are_not_run(void **state) {
    (void)state;
    static const char *const files[] = {
        NAMES KERNELS "CREATE VIEW TARGET_INFO_SESSION_START_TIME AS " ENDLESS "utcEpochNs FROM t WHERE i < 0",
        NAMES KERNELS "CREATE VIEW NVTX_EVENTS AS " ENDLESS "start, 5 AS end, 'r' AS text FROM t",
        "CREATE TABLE rocpd_kernel_dispatch_a (start, end, event_id);"
        "INSERT INTO rocpd_kernel_dispatch_a VALUES (1, 2, 1);"
        "CREATE VIEW rocpd_event_a AS " ENDLESS "id, 1 AS stack_id FROM t",
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        make(files[i]);
        check_refused("is a view, not a table");
    }
    make(NAMES KERNELS "CREATE VIEW MPI_RANKS AS " ENDLESS "rank, 16777217 AS globalTid FROM t;"
                       "PRAGMA writable_schema = 1; UPDATE sqlite_master SET type = 'table' WHERE type = 'view'");
    check_refused("MPI_RANKS");
}

static void views_of_other_names_do_no_harm(void **state) {
    (void)state;
    struct aorta_trace_list list = {0};
    make(NAMES KERNELS "CREATE VIEW kernels AS " ENDLESS "start FROM t; CREATE TABLE other (a, b AS (a || a));"
                       "CREATE TRIGGER added AFTER INSERT ON StringIds BEGIN DELETE FROM StringIds; END");
    check_ok(aorta_trace_open(path, NULL, &list));
    assert_int_equal(list.items[0]->work_count, 1);
    aorta_trace_list_free(&list);
}

static void computed_columns_are_refused(void **state) {
    (void)state;
    make(KERNELS "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT AS (printf('%.16000000c', 'x') || id));"
                 "INSERT INTO StringIds (id) VALUES (1), (2), (3)");
    check_refused("table StringIds: column value is computed");
}

static void modules_are_not_loaded(void **state) {
    (void)state;
    sqlite3 *db;
    unlink(path);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    const bool made = sqlite3_exec(db, "CREATE VIRTUAL TABLE StringIds USING fts5 (id, value);" KERNELS, NULL, NULL,
                                   NULL) == SQLITE_OK;
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    if (!made) skip();
    check_refused("StringIds");
}

static void the_first_of_equal_ids_counts(void **state) {
    (void)state;
    char statements[1200];
    struct aorta_trace_list list = {0};
    snprintf(
        statements, sizeof statements,
        "CREATE TABLE StringIds (id INTEGER, value TEXT);" ROWS "INSERT INTO StringIds SELECT 1, 'k' || i FROM n;"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, globalPid, correlationId, demangledName);" ROWS
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT 10 * i, 10 * i + 5, 0, 16777216, 7, 1 FROM n",
        20000, 20000);
    make(statements);
    check_ok(aorta_trace_open(path, NULL, &list));
    assert_int_equal(list.items[0]->work_count, 20000);
    assert_string_equal(aorta_trace_text(list.items[0], list.items[0]->work[19999].name), "k1");
    aorta_trace_list_free(&list);
}

/* The file has a column's default once, and SQLite returns it for every row. */
static void values_are_no_longer_than_the_file(void **state) {
    (void)state;
    struct aorta_text statements = {0};
    aorta_text_printf(&statements,
                      NAMES "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start);" ROWS
                            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT i FROM n;",
                      100000);
    aorta_text_puts(&statements, "CREATE TABLE NVTX_EVENTS (start);"
                                 "INSERT INTO NVTX_EVENTS SELECT start FROM CUPTI_ACTIVITY_KIND_KERNEL;"
                                 "ALTER TABLE NVTX_EVENTS ADD COLUMN text TEXT DEFAULT '");
    for (int i = 0; i < 1 << 16; i++) aorta_text_puts(&statements, "0123456789abcdef");
    aorta_text_puts(&statements, "'");
    check_ok(aorta_text_check(&statements));
    make(statements.data);
    aorta_text_free(&statements);
    check_refused("values are longer than the file");
}

static void put_big_endian(unsigned char *at, uint32_t value) {
    for (int i = 0; i < 4; i++) at[i] = (unsigned char)(value >> 8 * (3 - i));
}

enum { PAGE = 512 };

/* An inner page of a table, all of whose children are one page. */
static void make_inner_page(unsigned char *page, uint32_t child) {
    enum { INNER = 5, HEAD = 12, CELL = 5, CELLS = (PAGE - HEAD) / (2 + CELL), FIRST = PAGE - CELLS * CELL };
    memset(page, 0, PAGE);
    page[0] = INNER;
    page[4] = CELLS;
    page[5] = FIRST >> 8;
    page[6] = FIRST & 0xff;
    put_big_endian(page + 8, child);
    for (int i = 0; i < CELLS; i++) {
        const int at = FIRST + i * CELL;
        page[HEAD + 2 * i] = (unsigned char)(at >> 8);
        page[HEAD + 2 * i + 1] = at & 0xff;
        put_big_endian(page + at, child);
        page[at + 4] = 1;
    }
}

/* Four inner pages above the one page of the table: 71 to the power of four times its rows. */
static void rows_are_no_more_than_the_file_has(void **state) {
    (void)state;
    enum { INNER_PAGES = 4 };
    char *bytes;
    size_t length;
    make("PRAGMA page_size = 512;" NAMES KERNELS);
    check_ok(aorta_file_read(path, &bytes, &length));
    unsigned char *longer = calloc(1, length + INNER_PAGES * PAGE);
    assert_non_null(longer);
    memcpy(longer, bytes, length);
    free(bytes);
    const uint32_t pages = (uint32_t)(length / PAGE);
    unsigned char *last = longer + length - PAGE; /* the table's */
    memcpy(last + INNER_PAGES * PAGE, last, PAGE);
    for (uint32_t i = 0; i < INNER_PAGES; i++) make_inner_page(last + i * PAGE, pages + 1 + i);
    put_big_endian(longer + 28, pages + INNER_PAGES);
    check_ok(aorta_file_replace(path, (const char *)longer, length + INNER_PAGES * PAGE));
    free(longer);
    check_refused("table CUPTI_ACTIVITY_KIND_KERNEL");
}

static void statistics_of_the_file_are_not_used(void **state) {
    (void)state;
    struct aorta_trace_list list = {0};
    make(NAMES KERNELS "CREATE INDEX i ON StringIds (id); ANALYZE;"
                       "UPDATE sqlite_stat1 SET stat = '9000000000000000000 1'");
    check_ok(aorta_trace_open(path, NULL, &list));
    assert_string_equal(aorta_trace_text(list.items[0], list.items[0]->work[0].name), "k");
    aorta_trace_list_free(&list);
}

/* ---- many ---- */

static void many_processes_take_linear_time(void **state) {
    (void)state;
    enum { PROCESSES = 2000 };
    struct aorta_text statements = {0};
    struct aorta_trace_list list = {0};
    aorta_text_puts(&statements, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN;");
    for (int i = 0; i < PROCESSES; i++)
        aorta_text_printf(&statements,
                          "CREATE TABLE rocpd_kernel_dispatch_%d (start, end, event_id, kernel_id, agent_id);"
                          "CREATE TABLE rocpd_event_%d (id, stack_id); CREATE TABLE rocpd_string_%d (id, string);"
                          "CREATE TABLE rocpd_info_agent_%d (id, type, name, product_name, extdata);"
                          "INSERT INTO rocpd_kernel_dispatch_%d VALUES (1, 2, 1, 1, 0);",
                          i, i, i, i, i);
    aorta_text_puts(&statements, "COMMIT");
    check_ok(aorta_text_check(&statements));
    make(statements.data);
    aorta_text_free(&statements);
    check_ok(aorta_trace_open(path, NULL, &list));
    assert_int_equal(list.count, PROCESSES);
    aorta_trace_list_free(&list);
}

static void many_devices_take_linear_time(void **state) {
    (void)state;
    enum { DEVICES = 1024, ROWS_OF_EACH = 200 };
    char statements[1200];
    struct aorta_trace_list list = {0};
    snprintf(statements, sizeof statements,
             NAMES "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, globalPid, correlationId, "
                   "demangledName);" ROWS "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT 10 * i, 10 * i + 5, i %% %d, "
                   "16777216, i, 1 FROM n;"
                   "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, correlationId, nameId);"
                   "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME SELECT start - 5, start, 16777217, correlationId, 1 FROM "
                   "CUPTI_ACTIVITY_KIND_KERNEL",
             DEVICES * ROWS_OF_EACH, DEVICES);
    make(statements);
    check_ok(aorta_trace_open(path, NULL, &list));
    assert_int_equal(list.count, DEVICES);
    for (size_t i = 0; i < DEVICES; i++) assert_int_equal(list.items[i]->work_count, ROWS_OF_EACH);
    aorta_trace_list_free(&list);
}

/* A range belongs to every device of its process: so many of both would be a product of them. */
static void what_is_for_all_devices_has_a_limit(void **state) {
    (void)state;
    char statements[1200];
    snprintf(statements, sizeof statements,
             NAMES "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, globalPid);" ROWS
                   "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT 1, 2, i, 16777216 FROM n;"
                   "CREATE TABLE NVTX_EVENTS (start, end, globalTid, text);" ROWS
                   "INSERT INTO NVTX_EVENTS SELECT i, i + 1, 16777217, 'r' FROM n",
             4000, 100000);
    make(statements);
    check_refused("too many calls and ranges for work on so many devices");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_are_not_run),
        cmocka_unit_test(views_of_other_names_do_no_harm),
        cmocka_unit_test(computed_columns_are_refused),
        cmocka_unit_test(modules_are_not_loaded),
        cmocka_unit_test(the_first_of_equal_ids_counts),
        cmocka_unit_test(values_are_no_longer_than_the_file),
        cmocka_unit_test(rows_are_no_more_than_the_file_has),
        cmocka_unit_test(statistics_of_the_file_are_not_used),
        cmocka_unit_test(many_processes_take_linear_time),
        cmocka_unit_test(many_devices_take_linear_time),
        cmocka_unit_test(what_is_for_all_devices_has_a_limit),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
