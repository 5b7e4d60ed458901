/* Command lines run in a directory of their own, with what they printed. */
#ifndef AORTA_TESTS_INJECT_SHELL_H
#define AORTA_TESTS_INJECT_SHELL_H

#include <stdbool.h>
#include <sys/types.h>

struct shell {
    char directory[64]; /* where it runs */
    int exit_code;
    char *output, *errors;
};

/* Fixtures of one test: *state is its shell. */
int shell_open(void **state);
int shell_close(void **state);
#define SHELL_TEST(function) cmocka_unit_test_setup_teardown(function, shell_open, shell_close)

/* In `words`, $A is aorta, $P the program of programs/program.c, $D the folder of recorded files,
 * $SCRIPTS that of scripts. */
void shell_run(struct shell *shell, const char *words);
pid_t shell_start(struct shell *shell, const char *words);
void shell_finish(struct shell *shell, pid_t pid);
/* Fails unless it ended with this code and printed these parts. */
void shell_expect(const struct shell *shell, int exit_code, const char *output, const char *errors);
bool shell_has(const struct shell *shell, const char *name);
char *shell_read(const struct shell *shell, const char *name); /* a file of its directory; the caller frees it */

#endif
