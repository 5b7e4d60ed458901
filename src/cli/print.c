/* The standard output. A page is one write: under `aorta launch` several ranks write to one place, and the launcher of
 * MPI, which gives each of them a terminal, passes on what it reads; a page in pieces would have others' lines in it.
 */
#include "cli/cli.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static aorta_status failure(void) {
    return AORTA_ERROR(AORTA_IO, "cannot write to the standard output: %s", strerror(errno));
}

aorta_status aorta_cli_print(const char *text) {
    size_t left = text ? strlen(text) : 0;
    if (fflush(stdout)) return failure();
    while (left > 0) {
        ssize_t written = write(STDOUT_FILENO, text, left);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return failure();
        text += written;
        left -= (size_t)written;
    }
    return NULL;
}

aorta_status aorta_cli_finish_output(void) {
    return fflush(stdout) == 0 && !ferror(stdout) ? NULL : failure();
}
