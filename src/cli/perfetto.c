#include "cli/perfetto.h"
#include "base/files.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

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

aorta_status aorta_perfetto_show(const char *path) {
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
