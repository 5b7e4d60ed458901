/* The standard output. A page is one write: under `aorta launch` several ranks write to one place, and a page written
 * in pieces would have lines of other ranks in it. */
#include "base/files.h"
#include "base/lines.h"
#include "base/printable.h"
#include "cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static aorta_status failure(int error) {
    return AORTA_ERROR(AORTA_IO, "cannot write to the standard output: %s", strerror(error));
}

/* Bytes of the escape that begins here; 0: there is none. */
static size_t color_length(const char *at) {
    for (size_t i = 0; i < AORTA_COLOR_COUNT; i++)
        if (strncmp(at, aorta_escapes[i], strlen(aorta_escapes[i])) == 0) return strlen(aorta_escapes[i]);
    return 0;
}

/* Everything but these escapes is made printable. */
static void clean_around_colors(char *text) {
    for (char *at = text; *at;) {
        const size_t color = color_length(at);
        if (color) {
            at += color;
            continue;
        }
        char *end = at + 1;
        while (*end && !color_length(end)) end++;
        aorta_make_printable(at, (size_t)(end - at), true);
        at = end;
    }
}

aorta_status aorta_cli_print(struct aorta_text *text, const char *output, bool color) {
    const bool taken = output && aorta_file_is_standard_output(output);
    aorta_status status = aorta_text_check(text);
    if (!status && text->length && color) clean_around_colors(text->data);
    if (!status && text->length && !color) aorta_make_printable(text->data, text->length, true);
    if (!status && !taken && fflush(stdout)) status = failure(errno);
    const int error = status ? 0 : aorta_write_all(taken ? STDERR_FILENO : STDOUT_FILENO, text->data, text->length);
    aorta_text_free(text);
    return error && !taken ? failure(error) : status; /* nobody can be asked to read why the standard error failed */
}

static bool wants_color(const char *when, FILE *stream) {
    const char *term = getenv("TERM"), *none = getenv("NO_COLOR");
    if (strcmp(when, "auto") != 0) return strcmp(when, "always") == 0;
    return isatty(fileno(stream)) && !(none && *none) && term && strcmp(term, "dumb") != 0;
}

struct aorta_verdict_style aorta_cli_style(const struct aorta_cli_line *line, FILE *stream) {
    return (struct aorta_verdict_style){.width = aorta_terminal_width(stream),
                                        .color = wants_color(line->color, stream),
                                        .view = {.full_names = line->full_names}};
}

aorta_status aorta_cli_page_prepare(const char *path) {
    if (!path) return NULL;
    if (!aorta_page_available()) return AORTA_ERROR(AORTA_UNSUPPORTED, "--html %s: %s", path, aorta_page_missing());
    return aorta_file_prepare(path, "--html");
}

aorta_status aorta_cli_outputs_prepare(const struct aorta_cli_outputs *to) {
    AORTA_TRY(aorta_cli_page_prepare(to->html));
    return aorta_cli_csv_prepare(to->csv);
}

aorta_status aorta_cli_show(const struct aorta_cli_outputs *to, const char *output, struct aorta_page_results page,
                            struct aorta_text *text, struct aorta_text *json, aorta_status status) {
    page.results = json;
    if (!status) status = aorta_status_join(aorta_text_check(text), aorta_text_check(json));
    const bool taken = output && aorta_file_is_standard_output(output);
    if (!status && output) status = aorta_file_replace(output, json->data, json->length);
    if (!status && to->html) status = aorta_page_write(&page, to->html);
    if (!status) status = aorta_cli_print(to->json ? json : text, taken ? output : to->html, false);
    aorta_text_free(text);
    aorta_text_free(json);
    return status;
}

static void no_death(int number) {
    (void)number;
}

void aorta_cli_outlive(int signal) {
    sigaction(signal, &(struct sigaction){.sa_handler = no_death, .sa_flags = SA_RESTART}, NULL);
}

aorta_status aorta_cli_finish_output(void) {
    return fflush(stdout) == 0 && !ferror(stdout) ? NULL : failure(errno);
}

const char *const aorta_cli_csv_files[] = {"*.csv", NULL};

aorta_status aorta_cli_csv_prepare(const char *folder) {
    return folder ? aorta_directory_check_writable(folder, "--csv") : NULL;
}
