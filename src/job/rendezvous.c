/* A rank's side of the rendezvous: it finds rank 0 and asks its store. */
#include "job/rendezvous_internal.h"

#include "base/clock.h"
#include "base/table.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define RETRY_NS 50000000
#define ACCEPT_S 5.0 /* a store answers a handshake at once; nothing else does */
#define GRACE_S 5.0  /* the store answers first, with the missing ranks */
#define CONNECT_MS 2000

struct aorta_rendezvous {
    int fd, rank;
    double timeout_s;
    char place[320]; /* for messages: "node7:29501" */
    int lost;        /* as known here */
    pthread_mutex_t turn;
    struct store *store; /* rank 0 */
};

/* ---- place and run ---- */

static const char *get(const char *name) {
    const char *value = getenv(name);
    return value ? value : "";
}

aorta_status aorta_rendezvous_find(const struct aorta_ranks *ranks, uint64_t instance, double timeout_s,
                                   struct aorta_rendezvous_options *options) {
    static const char *const run_variables[] = {"AORTA_STATE_DIR", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT",
                                                "SLURM_JOB_ID", "SLURM_STEP_ID"};
    if (!ranks->master_address[0] || !ranks->master_port) {
        return AORTA_ERROR(AORTA_USAGE,
                           "rank %d of %d: %s is not set, and without MPI the ranks meet there: start them with `aorta "
                           "launch`, `torchrun` or `mpirun`, or set MASTER_ADDR and MASTER_PORT to rank 0's host and a "
                           "free port of it",
                           ranks->rank, ranks->world_size, ranks->master_address[0] ? "MASTER_PORT" : "MASTER_ADDR");
    }
    uint64_t run = instance;
    for (size_t i = 0; i < sizeof run_variables / sizeof *run_variables; i++) {
        const char *value = get(run_variables[i]);
        run = aorta_hash_add(run, aorta_hash_bytes(value, strlen(value)));
    }
    const char *token = get("AORTA_RUN_TOKEN");
    if (strlen(token) >= sizeof options->token)
        return AORTA_ERROR(AORTA_USAGE, "environment: AORTA_RUN_TOKEN has %zu characters; at most %zu are allowed",
                           strlen(token), sizeof options->token - 1);
    bool agent = !strcmp(get("TORCHELASTIC_USE_AGENT_STORE"), "True");
    *options = (struct aorta_rendezvous_options){.address = ranks->master_address,
                                                 .port = ranks->master_port + agent,
                                                 .rank = ranks->rank,
                                                 .world_size = ranks->world_size,
                                                 .run = run,
                                                 .timeout_s = timeout_s};
    memcpy(options->token, token, strlen(token));
    return NULL;
}

/* After port 65535 it continues at 1024, the first port that needs no privileges. */
static int port_at(const struct aorta_rendezvous_options *options, int i) {
    int port = options->port + i;
    return port <= 65535 ? port : port - 65535 + 1023;
}

static aorta_status resolve(const struct aorta_rendezvous_options *options, int flags, const char *address,
                            struct addrinfo **list) {
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
    int error = getaddrinfo(address, "1", &hints, list);
    if (!error) return NULL;
    return AORTA_ERROR(AORTA_COMM, "MASTER_ADDR %s: %s (rank %d)", options->address,
                       error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error), options->rank);
}

static void set_port(struct sockaddr *address, int port) {
    if (address->sa_family == AF_INET6)
        ((struct sockaddr_in6 *)address)->sin6_port = htons((uint16_t)port);
    else
        ((struct sockaddr_in *)address)->sin_port = htons((uint16_t)port);
}

/* ---- rank 0: listening ---- */

/* A listening socket at this address and port; -1 and errno. */
static int listen_at(const struct addrinfo *address, int port) {
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    set_port(address->ai_addr, port);
    if (bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, 256) == 0) return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static int listen_somewhere(const struct aorta_rendezvous_options *options, const struct addrinfo *list, int *port) {
    for (int i = 0; i < AORTA_RENDEZVOUS_PORTS; i++) {
        *port = port_at(options, i);
        for (const struct addrinfo *address = list; address; address = address->ai_next) {
            int fd = listen_at(address, *port);
            if (fd >= 0) return fd;
        }
    }
    return -1;
}

/* At MASTER_ADDR itself, so that a loopback address is not served to the network. If that name is
 * not an address of this host (address translation, containers), it listens on all addresses. */
static aorta_status listen_as_master(const struct aorta_rendezvous_options *options, int *listener, int *port) {
    struct addrinfo *list;
    AORTA_TRY(resolve(options, 0, options->address, &list));
    *listener = listen_somewhere(options, list, port);
    int error = errno;
    freeaddrinfo(list);
    if (*listener < 0 && error == EADDRNOTAVAIL) {
        AORTA_TRY(resolve(options, AI_PASSIVE, NULL, &list));
        *listener = listen_somewhere(options, list, port);
        error = errno;
        freeaddrinfo(list);
    }
    if (*listener >= 0) return NULL;
    return AORTA_ERROR(AORTA_COMM,
                       "rank 0 cannot listen at %s, ports %d to %d (from MASTER_PORT on): %s; set MASTER_PORT to a "
                       "free port",
                       options->address, port_at(options, 0), port_at(options, AORTA_RENDEZVOUS_PORTS - 1),
                       strerror(error));
}

/* ---- messages ---- */

/* Reads exactly `bytes` before `until_ns`; false: the other side has gone, or the time is over (errno ETIMEDOUT). */
static bool receive(int fd, void *to, size_t bytes, int64_t until_ns) {
    for (size_t have = 0; have < bytes;) {
        int64_t left_ms = (until_ns - aorta_clock_ns()) / 1000000;
        struct pollfd waiting = {.fd = fd, .events = POLLIN};
        errno = ETIMEDOUT;
        if (left_ms < 0) return false;
        int ready = poll(&waiting, 1, left_ms > 1000 ? 1000 : (int)left_ms + 1);
        if (ready < 0 && errno != EINTR) return false;
        if (ready <= 0) continue;
        ssize_t count = recv(fd, (char *)to + have, bytes - have, 0);
        if (count == 0) errno = ECONNRESET;
        if (count <= 0) return false;
        have += (size_t)count;
    }
    return true;
}

/* An answer, its value cut to AORTA_RENDEZVOUS_VALUE; false as above, or EPROTO when this is no store. */
static bool receive_answer(int fd, struct wire_message *answer, char value[AORTA_RENDEZVOUS_VALUE], int64_t until_ns) {
    if (!receive(fd, answer, sizeof *answer, until_ns)) return false;
    errno = EPROTO;
    if (answer->magic != WIRE_MAGIC || answer->bytes > AORTA_RENDEZVOUS_VALUE) return false;
    return receive(fd, value, answer->bytes, until_ns);
}

static int64_t deadline(double seconds) {
    return aorta_clock_ns() + (int64_t)(seconds * 1e9);
}

static aorta_status as_status(const struct wire_message *answer, const char *value) {
    bool known = answer->number > AORTA_OK && answer->number < AORTA_CODE_COUNT;
    return AORTA_ERROR(known ? (enum aorta_code)answer->number : AORTA_COMM, "rendezvous: %.*s", (int)answer->bytes,
                       value);
}

/* ---- rendezvous ---- */

enum outcome { OUTCOME_ACCEPTED, OUTCOME_TRY_ON, OUTCOME_FAILED };

/* Sends this rank's handshake. */
static enum outcome send_hello(int fd, const struct aorta_rendezvous_options *options, char reason[128],
                               aorta_status *status) {
    struct wire_handshake handshake = {options->rank, options->world_size, options->run, ""};
    const struct wire_message hello = {.magic = WIRE_MAGIC, .kind = WIRE_HELLO, .bytes = sizeof handshake};
    struct wire_message answer;
    char value[AORTA_RENDEZVOUS_VALUE];
    memcpy(handshake.token, options->token, sizeof handshake.token);
    snprintf(reason, 128, "another program listens there");
    if (!wire_send(fd, &hello, &handshake)) return OUTCOME_TRY_ON;
    if (!receive_answer(fd, &answer, value, deadline(ACCEPT_S))) return OUTCOME_TRY_ON;
    if (answer.kind == WIRE_ACCEPTED) return OUTCOME_ACCEPTED;
    if (answer.kind == WIRE_OTHER_RUN) {
        snprintf(reason, 128, "the ranks of another run meet there (another job, or another AORTA_RUN_TOKEN)");
        return OUTCOME_TRY_ON;
    }
    if (answer.kind != WIRE_FAILED) return OUTCOME_TRY_ON;
    *status = as_status(&answer, value);
    return OUTCOME_FAILED;
}

/* Within the range of local ports a socket can connect to itself while no process listens (TCP's simultaneous open). */
static bool meets_itself(int fd) {
    struct sockaddr_storage own = {0}, other = {0};
    socklen_t own_length = sizeof own, other_length = sizeof other;
    if (getsockname(fd, (struct sockaddr *)&own, &own_length)) return false;
    if (getpeername(fd, (struct sockaddr *)&other, &other_length)) return false;
    return own_length == other_length && !memcmp(&own, &other, own_length);
}

static int connect_error(int fd, const struct addrinfo *address) {
    int error = connect(fd, address->ai_addr, address->ai_addrlen) ? errno : 0;
    if (error == EINPROGRESS) {
        struct pollfd waiting = {.fd = fd, .events = POLLOUT};
        socklen_t length = sizeof error;
        if (poll(&waiting, 1, CONNECT_MS) <= 0) return ETIMEDOUT;
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
    }
    return !error && meets_itself(fd) ? ECONNREFUSED : error;
}

/* A connect that gives up after a while; -1 and errno. */
static int connect_to(const struct addrinfo *address, int port) {
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    set_port(address->ai_addr, port);
    int error = connect_error(fd, address);
    if (error) {
        close(fd);
        errno = error;
        return -1;
    }
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    return fd;
}

/* Tries every address and port once. */
static enum outcome try_all(const struct aorta_rendezvous_options *options, const struct addrinfo *list,
                            struct aorta_rendezvous *r, char reason[128], aorta_status *status) {
    for (int i = 0; i < AORTA_RENDEZVOUS_PORTS; i++) {
        int port = port_at(options, i);
        for (const struct addrinfo *address = list; address; address = address->ai_next) {
            r->fd = connect_to(address, port);
            if (r->fd < 0) {
                if (!reason[0]) snprintf(reason, 128, "%s", strerror(errno));
                continue;
            }
            snprintf(r->place, sizeof r->place, "%s:%d", options->address, port);
            enum outcome outcome = send_hello(r->fd, options, reason, status);
            if (outcome != OUTCOME_TRY_ON) return outcome;
            close(r->fd);
            r->fd = -1;
        }
    }
    return OUTCOME_TRY_ON;
}

static aorta_status find_master(const struct aorta_rendezvous_options *options, struct aorta_rendezvous *r) {
    struct addrinfo *list;
    AORTA_TRY(resolve(options, 0, options->address, &list));
    const int64_t until_ns = deadline(options->timeout_s);
    aorta_status status = NULL;
    char reason[128] = "";
    enum outcome outcome;
    while ((outcome = try_all(options, list, r, reason, &status)) == OUTCOME_TRY_ON && aorta_clock_ns() < until_ns)
        nanosleep(&(struct timespec){.tv_nsec = RETRY_NS}, NULL);
    freeaddrinfo(list);
    if (outcome != OUTCOME_TRY_ON) return status;
    return AORTA_ERROR(AORTA_TIMEOUT,
                       "rendezvous: rank %d found no rank 0 of this run at %s, ports %d to %d (from MASTER_PORT on), "
                       "within %g s: %s",
                       options->rank, options->address, port_at(options, 0),
                       port_at(options, AORTA_RENDEZVOUS_PORTS - 1), options->timeout_s, reason);
}

static aorta_status be_master(const struct aorta_rendezvous_options *options, struct aorta_rendezvous *r) {
    int listener, port;
    AORTA_TRY(listen_as_master(options, &listener, &port));
    snprintf(r->place, sizeof r->place, "%s:%d", options->address, port);
    AORTA_TRY(store_start(options, listener, r->place, &r->fd, &r->store));
    char reason[128];
    aorta_status status = NULL;
    enum outcome outcome = send_hello(r->fd, options, reason, &status);
    if (outcome != OUTCOME_TRY_ON) return status;
    return AORTA_ERROR(AORTA_INTERNAL, "rendezvous: rank 0's own store does not answer");
}

static aorta_status await_all(const struct aorta_rendezvous_options *options, struct aorta_rendezvous *r) {
    struct wire_message answer;
    char value[AORTA_RENDEZVOUS_VALUE];
    if (!receive_answer(r->fd, &answer, value, deadline(options->timeout_s + GRACE_S))) {
        return AORTA_ERROR(errno == ETIMEDOUT ? AORTA_TIMEOUT : AORTA_COMM,
                           "rendezvous: rank 0 at %s went away while rank %d waited for the other ranks: %s", r->place,
                           options->rank, strerror(errno));
    }
    return answer.kind == WIRE_DONE ? NULL : as_status(&answer, value);
}

aorta_status aorta_rendezvous_open(const struct aorta_rendezvous_options *options,
                                   struct aorta_rendezvous **rendezvous) {
    *rendezvous = NULL;
    struct aorta_rendezvous *made = calloc(1, sizeof *made);
    if (!made) return AORTA_ERROR(AORTA_MEMORY, "out of memory for the rendezvous");
    *made = (struct aorta_rendezvous){.fd = -1,
                                      .rank = options->rank,
                                      .timeout_s = options->timeout_s,
                                      .lost = -1,
                                      .turn = PTHREAD_MUTEX_INITIALIZER};
    aorta_status status = options->rank == 0 ? be_master(options, made) : find_master(options, made);
    if (!status) status = await_all(options, made);
    if (status) {
        aorta_rendezvous_close(made);
        return status;
    }
    *rendezvous = made;
    return NULL;
}

void aorta_rendezvous_close(struct aorta_rendezvous *rendezvous) {
    if (!rendezvous) return;
    if (rendezvous->fd >= 0) {
        const struct wire_message bye = {.magic = WIRE_MAGIC, .kind = WIRE_BYE};
        wire_send(rendezvous->fd, &bye, NULL);
        close(rendezvous->fd);
    }
    if (rendezvous->store) store_end(rendezvous->store);
    free(rendezvous);
}

/* ---- the store from outside ---- */

/* One question and its answer. A broken connection means that rank 0 is gone, or that this rank is late with it. */
static aorta_status ask(struct aorta_rendezvous *r, struct wire_message *question, const char *key, const void *value,
                        struct wire_message *answer, char *answer_value) {
    question->magic = WIRE_MAGIC;
    if (strlen(key) >= sizeof question->key || question->bytes > AORTA_RENDEZVOUS_VALUE)
        return AORTA_ERROR(AORTA_INTERNAL, "rendezvous: key \"%s\" or its %u bytes are too long", key, question->bytes);
    memcpy(question->key, key, strlen(key));
    pthread_mutex_lock(&r->turn);
    aorta_status status = NULL;
    if (r->lost == 0 || !wire_send(r->fd, question, value) ||
        !receive_answer(r->fd, answer, answer_value, deadline(question->timeout_s + GRACE_S))) {
        const bool silent = r->lost != 0 && errno == ETIMEDOUT;
        r->lost = 0;
        status = AORTA_ERROR(AORTA_COMM, "rendezvous: rank 0 at %s %s or its host cannot be reached", r->place,
                             silent ? "does not answer: its process is stopped" : "is gone: its process has ended");
    } else if (answer->kind == WIRE_FAILED) {
        status = as_status(answer, answer_value);
    }
    pthread_mutex_unlock(&r->turn);
    return status;
}

aorta_status aorta_rendezvous_set(struct aorta_rendezvous *rendezvous, const char *key, const void *value,
                                  size_t bytes) {
    struct wire_message question = {.kind = WIRE_SET, .bytes = (uint32_t)bytes, .timeout_s = rendezvous->timeout_s};
    struct wire_message answer;
    char ignored[AORTA_RENDEZVOUS_VALUE];
    return aorta_annotate(ask(rendezvous, &question, key, value, &answer, ignored), "%s", key);
}

aorta_status aorta_rendezvous_get(struct aorta_rendezvous *rendezvous, const char *key, void *value, size_t bytes,
                                  double timeout_s) {
    struct wire_message question = {.kind = WIRE_GET, .timeout_s = timeout_s}, answer;
    char found[AORTA_RENDEZVOUS_VALUE];
    aorta_status status = ask(rendezvous, &question, key, NULL, &answer, found);
    if (status) return aorta_annotate(status, "%s", key);
    if (answer.bytes != bytes) {
        return AORTA_ERROR(AORTA_COMM,
                           "rendezvous: %s has %u bytes, %zu were expected: do all ranks run the same "
                           "program?",
                           key, answer.bytes, bytes);
    }
    memcpy(value, found, bytes);
    return NULL;
}

aorta_status aorta_rendezvous_beat(struct aorta_rendezvous *rendezvous, bool ready, int *state) {
    struct wire_message question = {.kind = WIRE_BEAT, .number = ready, .timeout_s = rendezvous->timeout_s}, answer;
    char ignored[AORTA_RENDEZVOUS_VALUE];
    AORTA_TRY(ask(rendezvous, &question, "", NULL, &answer, ignored));
    *state = answer.number;
    return NULL;
}

int aorta_rendezvous_lost(struct aorta_rendezvous *rendezvous) {
    struct wire_message question = {.kind = WIRE_PING, .timeout_s = rendezvous->timeout_s}, answer;
    char ignored[AORTA_RENDEZVOUS_VALUE];
    aorta_status status = ask(rendezvous, &question, "", NULL, &answer, ignored);
    if (!status) return answer.number;
    aorta_status_free(status);
    return 0;
}
