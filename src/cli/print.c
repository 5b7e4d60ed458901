/* The standard output. A page is one write: under `aorta launch` several ranks write to one place, and the launcher of
 * MPI, which gives each of them a terminal, passes on what it reads; a page in pieces would have others' lines in it.
 */
#include "base/files.h"
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static aorta_status failure(int error) {
    return AORTA_ERROR(AORTA_IO, "cannot write to the standard output: %s", strerror(error));
}

aorta_status aorta_cli_print(const char *text) {
    if (fflush(stdout)) return failure(errno);
    int error = text ? aorta_write_all(STDOUT_FILENO, text, strlen(text)) : 0;
    return error ? failure(error) : NULL;
}

aorta_status aorta_cli_print_beside(const char *output, const char *text) {
    if (!output || !aorta_file_is_standard_output(output)) return aorta_cli_print(text);
    fputs(text, stderr);
    return NULL;
}

aorta_status aorta_cli_print_text(struct aorta_text *text) {
    aorta_status status = aorta_text_check(text);
    if (!status) status = aorta_cli_print(text->data);
    aorta_text_free(text);
    return status;
}

aorta_status aorta_cli_finish_output(void) {
    return fflush(stdout) == 0 && !ferror(stdout) ? NULL : failure(errno);
}
