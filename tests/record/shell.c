#include "shell.h"

#include "base/files.h"
#include "check.h"
#include "folder.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Words need no quotes then, whatever the path of the source and of the build. */
static int link_hidden(const struct shell *shell, const char *name, const char *target) {
    char path[128];
    snprintf(path, sizeof path, "%s/.links%s", shell->directory, name);
    return target ? symlink(target, path) : mkdir(path, 0700);
}

int shell_open(void **state) {
    struct shell *shell = calloc(1, sizeof *shell);
    folder_make(shell->directory, "command");
    *state = shell;
    return link_hidden(shell, "", NULL) || link_hidden(shell, "/aorta", AORTA_PROGRAM) ||
           link_hidden(shell, "/program", PROGRAM) || link_hidden(shell, "/data", RECORDED_FILES);
}

int shell_close(void **state) {
    struct shell *shell = *state;
    folder_remove(shell->directory);
    free(shell->output);
    free(shell->errors);
    free(shell);
    return 0;
}

pid_t shell_start(struct shell *shell, const char *words) {
    char *script;
    if (asprintf(&script,
                 "cd %s; exec >output 2>errors; A=$PWD/.links/aorta P=$PWD/.links/program D=$PWD/.links/data; %s",
                 shell->directory, words) < 0)
        fail();
    pid_t pid = fork();
    if (pid == 0) {
        unsetenv("RANK");
        unsetenv("WORLD_SIZE");
        unsetenv("LOCAL_RANK");
        setenv("LD_LIBRARY_PATH", FAKE_CUDA_FOLDER, 1);
        setenv("FAKE_CUPTI", FAKE_CUPTI_FILE, 1);
        setenv("SCRIPTS", SCRIPTS, 1);
        execl("/bin/sh", "sh", "-c", script, (char *)NULL);
        _exit(90);
    }
    free(script);
    return pid;
}

char *shell_read(const struct shell *shell, const char *name) {
    size_t length;
    char *text;
    check_ok(aorta_file_read(aorta_path_in(shell->directory, "%s", name).text, &text, &length));
    return text;
}

void shell_finish(struct shell *shell, pid_t pid) {
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    free(shell->output);
    free(shell->errors);
    shell->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    shell->output = shell_read(shell, "output");
    shell->errors = shell_read(shell, "errors");
}

void shell_run(struct shell *shell, const char *words) {
    shell_finish(shell, shell_start(shell, words));
}

void shell_expect(const struct shell *shell, int exit_code, const char *output, const char *errors) {
    if (shell->exit_code == exit_code && strstr(shell->output, output) && strstr(shell->errors, errors)) return;
    fail_msg("exit %d, expected %d with \"%s\" and \"%s\"; output: %s; errors: %s", shell->exit_code, exit_code, output,
             errors, shell->output, shell->errors);
}

bool shell_has(const struct shell *shell, const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", shell->directory, name);
    return access(path, F_OK) == 0;
}
