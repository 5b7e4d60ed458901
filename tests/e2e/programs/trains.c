/* A job that trains several times: aorta launch -n N -- e2e_trains FOLDER. Starting and ending Open MPI takes several
 * times as long as a run of some steps.
 *
 * Each rank reads lines "DIRECTORY WORDS" from the pipe FOLDER/rank.R, does `aorta WORDS` ($RANK in them is its number
 * where there are several) with its output in DIRECTORY/output, and writes a byte into the pipe FOLDER/done. After a
 * failure it ends with its exit code, at the end of the lines with 0. */
#include "cli/cli.h"
#include "comm/comm.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wordexp.h>

/* The ranks part at the end of the job, not of a run. The linker's --wrap makes the names. */
// NOLINTBEGIN(bugprone-reserved-identifier)
aorta_status __wrap_aorta_comm_leave_begin(const struct aorta_ranks *met, double timeout_s, struct aorta_leave **leave);
aorta_status __wrap_aorta_comm_leave_begin(const struct aorta_ranks *met, double timeout_s,
                                           struct aorta_leave **leave) {
    (void)met, (void)timeout_s;
    *leave = NULL;
    return NULL;
}
// NOLINTEND(bugprone-reserved-identifier)

static int open_in(const char *folder, const char *name, int flags) {
    char path[400];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int file = open(path, flags | O_CLOEXEC, 0600);
    if (file >= 0) return file;
    perror(path);
    exit(94);
}

static int run(char *line) {
    wordexp_t words;
    const char *directory = strsep(&line, " ");
    int output = open_in(directory, "output", O_CREAT | O_WRONLY | O_APPEND);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    close(output);
    if (wordexp(line, &words, WRDE_NOCMD)) {
        fprintf(stderr, "not words: %s\n", line);
        return 94;
    }
    int exit_code = aorta_cli_run((int)words.we_wordc, words.we_wordv);
    wordfree(&words);
    return exit_code;
}

int main(int argc, char **argv) {
    struct aorta_ranks ranks;
    char name[32], *line = NULL;
    size_t capacity = 0;
    if (argc != 2 || aorta_ranks_detect(&ranks)) return 94;
    snprintf(name, sizeof name, "rank.%d", ranks.rank);
    FILE *lines = fdopen(open_in(argv[1], name, O_RDONLY), "r");
    int done = open_in(argv[1], "done", O_WRONLY);
    for (ssize_t length; (length = getline(&line, &capacity, lines)) > 0;) {
        line[length - 1] = '\0';
        int exit_code = run(line);
        if (exit_code) return exit_code;
        if (write(done, "", 1) != 1) return 94;
    }
    free(line);
    fclose(lines);
    close(done);
    return aorta_comm_shutdown(&ranks, 60) ? 94 : 0;
}
