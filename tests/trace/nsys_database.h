/* The export of Nsight Systems that data/nsys.sql describes, and changed ones by statements. */
#ifndef AORTA_TESTS_NSYS_DATABASE_H
#define AORTA_TESTS_NSYS_DATABASE_H

#include "base/files.h"
#include "check.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <unistd.h>

static inline void run_statements(const char *path, const char *statements) {
    sqlite3 *db;
    char *message = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, statements, NULL, NULL, &message) != SQLITE_OK) fail_msg("%s", message);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static inline void make_nsys_database(const char *path) {
    char *statements;
    size_t length;
    check_ok(aorta_file_read(RECORDED "/nsys.sql", &statements, &length));
    unlink(path);
    run_statements(path, statements); /* aorta_file_read ends it with NUL */
    free(statements);
}

#endif
