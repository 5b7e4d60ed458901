/* cmocka with the headers it needs before it, and an assertion for statuses. */
#ifndef AORTA_TESTS_CHECK_H
#define AORTA_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the four above first */
#include <cmocka.h>

#include "base/status.h"

#include <stdio.h>
#include <string.h>

/* Fails the test with the status's message when it is one. */
static inline void check_ok_at(aorta_status status, const char *file, int line) {
    if (!status) return;
    print_error("%s:%d: unexpected failure: %s (code %d)\n", file, line, aorta_status_message(status),
                aorta_status_code(status));
    aorta_status_free(status);
    _fail(file, line);
}
#define check_ok(expression) check_ok_at((expression), __FILE__, __LINE__)

/* Fails unless the status has this code and its message contains `part`; frees it. */
static inline void check_fails_at(aorta_status status, enum aorta_code code, const char *name, const char *part,
                                  const char *file, int line) {
    if (!status || aorta_status_code(status) != code || !strstr(aorta_status_message(status), part)) {
        print_error("%s:%d: expected %s (%d) with \"%s\", got %d: %s\n", file, line, name, code, part,
                    aorta_status_code(status), aorta_status_message(status));
        aorta_status_free(status);
        _fail(file, line);
    }
    aorta_status_free(status);
}
#define check_fails(expression, code, part) check_fails_at((expression), (code), #code, (part), __FILE__, __LINE__)

#endif
