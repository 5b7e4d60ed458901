#include "report/gnuplot.h"
#include "base/clock.h"
#include "base/files.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void aorta_gnuplot_quote(struct aorta_text *script, const char *string) {
    aorta_text_puts(script, "'");
    for (const char *c = string; *c; c++) {
        char byte = *c == '\n' || *c == '\r' ? ' ' : *c;
        aorta_text_append(script, &byte, 1);
        if (byte == '\'') aorta_text_append(script, &byte, 1); /* doubled within single quotes */
    }
    aorta_text_puts(script, "'");
}

/* Files in memory and not pipes, so that a child that dies early cannot hang or kill the parent; each picture has its
 * own, so that none is taken for another. */
struct files {
    int script, errors; /* -1: none */
    int *pictures;
    size_t count;
};

static aorta_status spawn(const struct files *files, pid_t *child) {
    char *const argv[] = {"gnuplot", "-", NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_adddup2(&actions, files->script, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, files->errors, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, files->errors, STDERR_FILENO);
    for (size_t i = 0; i < files->count; i++) /* onto itself: stays open in the child */
        posix_spawn_file_actions_adddup2(&actions, files->pictures[i], files->pictures[i]);
    /* The caller may block or handle signals (a trainer does); the child must not inherit that. */
    sigset_t none, defaults;
    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    int error = posix_spawnp(child, "gnuplot", &actions, &attributes, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (error == ENOENT)
        return AORTA_ERROR(AORTA_UNSUPPORTED, "gnuplot is not installed, so no pictures are drawn: apt install "
                                              "gnuplot-nox");
    return error ? AORTA_ERROR(AORTA_IO, "cannot start gnuplot: %s", strerror(error)) : NULL;
}

static aorta_status explain_failure(int errors, int outcome) {
    char words[512] = "";
    const ssize_t length = pread(errors, words, sizeof words - 1, 0);
    words[length > 0 ? length : 0] = '\0';
    for (char *c = words; *c; c++)
        if (*c == '\n') *c = ' ';
    if (WIFSIGNALED(outcome)) return AORTA_ERROR(AORTA_IO, "gnuplot was ended by signal %d", WTERMSIG(outcome));
    return AORTA_ERROR(AORTA_IO, "gnuplot failed with exit status %d: %s", WEXITSTATUS(outcome), words);
}

/* A child that does not end in time is killed. */
static aorta_status wait_for(pid_t child, double limit_s, int *outcome) {
    static const struct timespec nap = {.tv_nsec = 2000000};
    const int64_t limit_ns = aorta_clock_ns() + (int64_t)(limit_s * 1e9);
    bool late = false;
    for (;;) {
        pid_t ended = waitpid(child, outcome, late ? 0 : WNOHANG);
        if (ended < 0 && errno != EINTR) return AORTA_ERROR(AORTA_IO, "cannot wait for gnuplot: %s", strerror(errno));
        if (ended > 0 && late) return AORTA_ERROR(AORTA_IO, "gnuplot did not end within %g s and was ended", limit_s);
        if (ended > 0) return NULL;
        late = aorta_clock_ns() > limit_ns;
        if (late) kill(child, SIGKILL);
        nanosleep(&nap, NULL);
    }
}

static aorta_status write_script(const struct aorta_picture *pictures, const struct files *files) {
    struct aorta_text script = {0};
    for (size_t i = 0; i < files->count; i++) {
        aorta_text_printf(&script, "set output '/dev/fd/%d'\n", files->pictures[i]);
        aorta_text_append(&script, pictures[i].script.data, pictures[i].script.length);
    }
    aorta_text_puts(&script, "set output\n");
    aorta_status status = aorta_text_check(&script);
    const int error = status ? 0 : aorta_write_all(files->script, script.data, script.length);
    aorta_text_free(&script);
    if (error || lseek(files->script, 0, SEEK_SET) < 0)
        return AORTA_ERROR(AORTA_IO, "cannot hand gnuplot its script: %s", strerror(error ? error : errno));
    return status;
}

static aorta_status run(const struct aorta_picture *pictures, double limit_s, const struct files *files) {
    AORTA_TRY(write_script(pictures, files));
    pid_t child = 0;
    AORTA_TRY(spawn(files, &child));
    int outcome = 0;
    AORTA_TRY(wait_for(child, limit_s, &outcome));
    return WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0 ? NULL : explain_failure(files->errors, outcome);
}

/* Where memory or a limit of files (ulimit -f) cuts a picture off, gnuplot does not say so: the last piece of a PNG is
 * IEND. */
static bool is_whole(const char *bytes, size_t length) {
    static const char end[] = "IEND\xae\x42\x60\x82";
    return length > sizeof end && memcmp(bytes + length - (sizeof end - 1), end, sizeof end - 1) == 0;
}

/* `failure`: of gnuplot, whose fault a missing picture is then. */
static aorta_status place(int picture, const char *path, const char *failure) {
    const off_t length = lseek(picture, 0, SEEK_END);
    char *bytes = length > 0 ? malloc((size_t)length) : NULL;
    aorta_status status = NULL;
    if (bytes && pread(picture, bytes, (size_t)length, 0) == length && is_whole(bytes, (size_t)length))
        status = aorta_file_replace(path, bytes, (size_t)length);
    else if (failure)
        status = AORTA_ERROR(AORTA_IO, "%s", failure);
    else
        status = AORTA_ERROR(AORTA_IO, "gnuplot made no whole picture: memory or files may be limited");
    free(bytes);
    return aorta_annotate(status, "%s", path);
}

static int file_in_memory(void) {
    return memfd_create("gnuplot", MFD_CLOEXEC);
}

static aorta_status open_files(size_t count, struct files *files) {
    *files = (struct files){file_in_memory(), file_in_memory(), calloc(count + 1, sizeof *files->pictures), 0};
    bool open = files->script >= 0 && files->errors >= 0 && files->pictures;
    while (open && files->count < count) {
        const int picture = file_in_memory();
        open = picture >= 0;
        if (open) files->pictures[files->count++] = picture;
    }
    return open ? NULL : AORTA_ERROR(AORTA_IO, "no file in memory for gnuplot: %s", strerror(errno));
}

static void close_files(const struct files *files) {
    if (files->script >= 0) close(files->script);
    if (files->errors >= 0) close(files->errors);
    for (size_t i = 0; i < files->count; i++) close(files->pictures[i]);
    free(files->pictures);
}

/* Puts the pictures to their paths. AORTA_IO names those that are missing, whether or not gnuplot said that it failed.
 */
static aorta_status place_all(const struct aorta_picture *pictures, const struct files *files, const char *failure,
                              struct aorta_text *drawn) {
    struct aorta_text missing = {0};
    for (size_t i = 0; i < files->count; i++) {
        aorta_status status = place(files->pictures[i], pictures[i].path, failure);
        if (status)
            aorta_text_printf(&missing, "%s%s", missing.length ? "; " : "", aorta_status_message(status));
        else if (drawn)
            aorta_text_printf(drawn, "%s\n", pictures[i].path);
        aorta_status_free(status);
    }
    aorta_status status = aorta_text_check(&missing);
    if (!status && missing.length) status = AORTA_ERROR(AORTA_IO, "%s", missing.data);
    aorta_text_free(&missing);
    return status;
}

aorta_status aorta_gnuplot_draw(const struct aorta_picture *pictures, size_t count, double limit_s,
                                struct aorta_text *drawn) {
    struct files files;
    for (size_t i = 0; i < count; i++) AORTA_TRY(aorta_text_check(&pictures[i].script));
    if (!count) return NULL;
    aorta_status status = open_files(count, &files);
    if (!status) status = run(pictures, limit_s, &files);
    if (!status || aorta_status_code(status) == AORTA_IO) {
        aorta_status failed = place_all(pictures, &files, status ? aorta_status_message(status) : NULL, drawn);
        aorta_status_free(status);
        status = failed;
    }
    close_files(&files);
    return status;
}
