/* aorta trace merge: many ranks' traces as one, on one clock. */
#include "base/files.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/cli.h"
#include "replay/critical_path.h"
#include "report/merge.h"
#include "report/summary.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* Opens a trace in Perfetto's user interface, a page whose policy allows it to read from 127.0.0.1:9001 only. */

/* The page's security policy names this port. */
enum { PORT = 9001, REQUEST_BYTES = 8192, REQUEST_S = 5 };
#define PAGE "https://ui.perfetto.dev"

/* The file's name as a part of an address. */
static void write_name(const char *path, struct aorta_text *out) {
    const char *slash = strrchr(path, '/');
    for (const char *at = slash ? slash + 1 : path; *at; at++)
        aorta_text_printf(out, isalnum((unsigned char)*at) || strchr("._-", *at) ? "%c" : "%%%02X", (unsigned char)*at);
}

static aorta_status listen_on(int *result) {
    const struct sockaddr_in here = {
        .sin_family = AF_INET, .sin_port = htons(PORT), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int one = 1, file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (file >= 0) setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (file >= 0 && !bind(file, (const struct sockaddr *)&here, sizeof here) && !listen(file, 8)) {
        *result = file;
        return NULL;
    }
    const int error = errno;
    if (file >= 0) close(file);
    return AORTA_ERROR(AORTA_IO, "--perfetto: 127.0.0.1:%d: %s; Perfetto reads from this port only", PORT,
                       strerror(error));
}

/* The first line of a request and what follows, up to the empty line. */
static bool read_request(int client, char request[REQUEST_BYTES]) {
    const struct timeval most = {.tv_sec = REQUEST_S};
    size_t length = 0;
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &(struct timeval){.tv_sec = 60}, sizeof most);
    while (length < REQUEST_BYTES - 1) {
        const ssize_t got = recv(client, request + length, REQUEST_BYTES - 1 - length, 0);
        if (got <= 0) return false;
        length += (size_t)got;
        request[length] = '\0';
        if (strstr(request, "\r\n\r\n")) return true;
    }
    return false;
}

static bool send_text(int client, const struct aorta_text *text) {
    size_t sent = 0;
    while (!text->failed && sent < text->length) {
        const ssize_t step = send(client, text->data + sent, text->length - sent, MSG_NOSIGNAL);
        if (step <= 0) return false;
        sent += (size_t)step;
    }
    return !text->failed;
}

static bool send_file(int client, int file, off_t size) {
    off_t at = 0;
    while (at < size)
        if (sendfile(client, file, &at, (size_t)(size - at)) <= 0) return false;
    return true;
}

static bool begins(const char *request, const char *method, const char *name) {
    const size_t length = strlen(method), name_length = strlen(name);
    return strncmp(request, method, length) == 0 && strncmp(request + length, name, name_length) == 0 &&
           request[length + name_length] == ' ';
}

/* Whether the whole file went out. A browser asks first whether a page may read from this machine (OPTIONS). */
static bool answer(int client, const char *name, int file, off_t size) {
    char request[REQUEST_BYTES];
    struct aorta_text head = {0};
    if (!read_request(client, request)) return false;
    const bool wanted = begins(request, "GET /", name), asks = begins(request, "OPTIONS /", name);
    aorta_text_printf(
        &head,
        "HTTP/1.1 %s\r\nAccess-Control-Allow-Origin: " PAGE
        "\r\nAccess-Control-Allow-Private-Network: true\r\nCache-Control: no-store\r\nConnection: close\r\n"
        "Content-Type: application/octet-stream\r\nContent-Length: %lld\r\n\r\n",
        wanted ? "200 OK"
        : asks ? "204 No Content"
               : "404 Not Found",
        wanted ? (long long)size : 0);
    const bool whole = send_text(client, &head) && wanted && send_file(client, file, size);
    aorta_text_free(&head);
    return whole;
}

static aorta_status serve(int server, const char *name, int file, off_t size) {
    fprintf(stderr,
            "open  " PAGE "/#!/?url=http://127.0.0.1:%d/%s\n"
            "(waits for the browser; from another machine first: ssh -L %d:127.0.0.1:%d this-machine)\n",
            PORT, name, PORT, PORT);
    for (bool whole = false; !whole;) {
        const int client = accept4(server, NULL, NULL, SOCK_CLOEXEC);
        if (client < 0 && errno != EINTR && errno != ECONNABORTED)
            return AORTA_ERROR(AORTA_IO, "--perfetto: %s", strerror(errno));
        if (client < 0) continue;
        whole = answer(client, name, file, size);
        shutdown(client, SHUT_WR);
        close(client);
    }
    return NULL;
}

static aorta_status show_in_perfetto(const char *path) {
    struct aorta_text name = {0};
    struct stat info;
    int server = -1;
    const int file = aorta_file_open_regular(path);
    if (file < 0 || fstat(file, &info)) {
        const int error = errno;
        if (file >= 0) close(file);
        return AORTA_ERROR(AORTA_IO, "--perfetto: %s: %s", path, strerror(error));
    }
    write_name(path, &name);
    aorta_status status = aorta_text_check(&name);
    if (!status) status = listen_on(&server);
    if (!status) status = serve(server, name.data ? name.data : "", file, info.st_size);
    if (server >= 0) close(server);
    aorta_text_free(&name);
    close(file);
    return status;
}

struct merge_arguments {
    const char *output;
    struct aorta_string_list patterns;
    bool recover, tracks, perfetto, quiet;
};

#define AT(field) offsetof(struct merge_arguments, field)
static const struct aorta_option rows[] = {
    {"output", AORTA_OPTION_STRING, AT(output), "null", .letter = 'o', .argument = "FILE", .required = true,
     .path = AORTA_PATH_FILE, .help = "the file to write; packed with gzip if its name ends in .gz"},
    {"tracks", AORTA_OPTION_BOOL, AT(tracks), "false",
     .help = "add each rank's part of the critical path, and counters of overlap, queue length, "
             "bandwidth and memory"},
    {"perfetto", AORTA_OPTION_BOOL, AT(perfetto), "false",
     .help = "print a link that opens the file in Perfetto, and wait until a browser on this machine "
             "follows it; the file goes only to that browser"},
    AORTA_CLI_QUIET_OPTION(AT(quiet)),
    AORTA_CLI_RECOVER_OPTION(AT(recover)),
    AORTA_CLI_PATTERNS_OPTION(AT(patterns)),
};

static const struct aorta_cli_syntax syntax = {
    .usage =
        "aorta trace merge RANK_FILE|DIR … -o FILE [--tracks] [--perfetto] [-q] [--recover] [--comm-pattern REGEX …]",
    .about = "Makes one trace of several ranks, with a process for each, for Perfetto and "
             "chrome://tracing. The ranks' clocks are aligned on the ends of shared collectives. Prints "
             "each rank's shift and residual, and which rank was late.",
    AORTA_CLI_OPTIONS(rows),
    .operands = true,
    .reads_operands = true,
};

/* Counters of each rank, and the path. */
static aorta_status make_tracks(const struct aorta_trace_analysis *analysis, struct aorta_critical_path *path,
                                struct aorta_arena *memory, struct aorta_merge_tracks *tracks) {
    struct aorta_counters *counters = aorta_arena_alloc(memory, analysis->rank_count * sizeof *counters);
    for (size_t i = 0; counters && i < analysis->rank_count; i++)
        aorta_counters_make(&analysis->ranks[i], memory, &counters[i]);
    AORTA_TRY(aorta_arena_check(memory, "the counters of the ranks"));
    tracks->counters = counters;
    tracks->count = analysis->rank_count;
    return aorta_critical_path_make(analysis, path);
}

/* Merges the traces and adds tracks of their analysis. */
static aorta_status merge_with_tracks(struct aorta_cli_line *line, const struct merge_arguments *arguments,
                                      const struct aorta_trace_options *options, struct aorta_text *report) {
    const char *const *paths = (const char *const *)line->operands;
    const struct aorta_trace_analysis_options whole = {0};
    const struct aorta_log log = {.level = AORTA_LOG_INFO, .rank = -1};
    struct aorta_recorded recorded;
    struct aorta_critical_path path = {0};
    struct aorta_merge_tracks tracks = {.traces = &recorded.traces, .path = &path};
    aorta_status status = aorta_recorded_open(paths, (size_t)line->operand_count, options, &whole, &log, &recorded);
    if (!status && recorded.is_run)
        status = AORTA_ERROR(AORTA_USAGE, "--tracks is for traces; %s is a run: name its traces (DIR/torch_profiler)",
                             paths[0]);
    if (!status) status = make_tracks(&recorded.analysis, &path, &line->arena, &tracks);
    if (!status)
        status = aorta_trace_merge(paths, (size_t)line->operand_count, arguments->output, options, &tracks,
                                   arguments->quiet, report);
    if (!status && path.reason && !arguments->quiet) aorta_text_printf(report, "no critical path: %s\n", path.reason);
    aorta_critical_path_free(&path);
    aorta_recorded_free(&recorded);
    return status;
}

static aorta_status merge(struct aorta_cli_line *line, void *values) {
    const struct merge_arguments *arguments = values;
    if (line->operand_count == 0) return AORTA_ERROR(AORTA_USAGE, "no files to merge; give the trace of each rank");
    if (arguments->perfetto && aorta_file_is_direct(arguments->output))
        return AORTA_ERROR(AORTA_USAGE, "--perfetto needs a file: --output %s is none", arguments->output);
    AORTA_TRY(aorta_file_prepare(arguments->output, "--output"));
    AORTA_TRY(aorta_cli_comm_patterns(line, &arguments->patterns));
    const struct aorta_trace_options options = {
        .recover = arguments->recover, .guarded = true, .patterns = line->patterns};
    struct aorta_text report = {0};
    aorta_status status = arguments->tracks
                              ? merge_with_tracks(line, arguments, &options, &report)
                              : aorta_trace_merge((const char *const *)line->operands, (size_t)line->operand_count,
                                                  arguments->output, &options, NULL, arguments->quiet, &report);
    status = aorta_cli_name_recover(status, arguments->recover);
    if (!status) status = aorta_cli_print(&report, arguments->output, false);
    if (!status && arguments->perfetto) status = show_in_perfetto(arguments->output);
    aorta_text_free(&report);
    return status;
}

const struct aorta_cli_entry aorta_cli_trace_merge = {&syntax, merge, .size = sizeof(struct merge_arguments)};
