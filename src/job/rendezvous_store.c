/* The store's thread in rank 0: answers the ranks' handshakes, stores values, notices lost ranks. */
#include "job/rendezvous_internal.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/thread.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define POLL_MS 50
#define NEWCOMERS 128           /* connections that have sent no handshake yet */
#define HANDSHAKE_NS 5000000000 /* a connection that has sent none by then is closed */
#define MOST_WAIT_S 1e9
#define LOST_LINGER_NS 3000000000
#define FAILED_LINGER_NS 1000000000 /* so that ranks that connect late get the reason of the failure */

/* A message that is being received. */
struct inbox {
    struct wire_message message;
    char value[AORTA_RENDEZVOUS_VALUE];
    size_t have;
};

struct peer {
    int fd;                /* -1: none */
    bool here, signed_off; /* has sent its handshake; has signed off */
    bool waiting;          /* for the key of inbox.message */
    bool ready;            /* by its last heartbeat */
    int64_t beat_ns;       /* when that came; at first, when all ranks were here */
    int64_t until_ns;      /* of the wait, or of the handshake */
    struct inbox inbox;
};

struct entry {
    struct entry *next;
    char key[AORTA_RENDEZVOUS_KEY];
    size_t bytes;
    char value[];
};

struct store {
    struct aorta_rendezvous_options options;
    char place[320];
    int listener;              /* -1 once all ranks are here */
    struct peer *peers;        /* [world_size], and after them */
    struct peer *newcomers;    /* [NEWCOMERS] */
    struct aorta_arena memory; /* of the entries */
    struct entry *entries;
    int64_t open_until_ns;
    int lost; /* the first lost rank; -1 */
    bool complete, failed;
    bool all_ready;               /* all ranks have been ready at once */
    enum aorta_code failure_code; /* when failed: the answer to all ranks */
    char failure[512];
    _Atomic int64_t ending_ns; /* when rank 0 began to end; 0: not yet */
    pthread_t thread;
};

bool wire_send(int fd, const struct wire_message *message, const void *value) {
    char buffer[sizeof *message + AORTA_RENDEZVOUS_VALUE];
    size_t length = sizeof *message + message->bytes;
    memcpy(buffer, message, sizeof *message);
    if (message->bytes) memcpy(buffer + sizeof *message, value, message->bytes);
    for (size_t sent = 0; sent < length;) {
        ssize_t count = send(fd, buffer + sent, length - sent, MSG_NOSIGNAL);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return false;
        sent += (size_t)count;
    }
    return true;
}

static void answer(struct peer *peer, enum wire_kind kind, int number, const void *value, size_t bytes) {
    const struct wire_message message = {.magic = WIRE_MAGIC, .kind = kind, .number = number, .bytes = (uint32_t)bytes};
    wire_send(peer->fd, &message, value); /* a lost rank is noticed when it is read from */
}

static void answer_failure(struct peer *peer, enum aorta_code code, const char *text) {
    answer(peer, WIRE_FAILED, (int)code, text, strlen(text) + 1);
}

static void disconnect(struct peer *peer) {
    if (peer->fd >= 0) close(peer->fd);
    *peer = (struct peer){.fd = -1};
}

/* ---- the rendezvous ---- */

/* The rendezvous has failed: all connected ranks learn why, and later ones too (take_hello). */
static void fail_rendezvous(struct store *store, enum aorta_code code, const char *text) {
    store->failed = true;
    store->failure_code = code;
    snprintf(store->failure, sizeof store->failure, "%s", text);
    for (int rank = 0; rank < store->options.world_size; rank++)
        if (store->peers[rank].fd >= 0) answer_failure(&store->peers[rank], code, text);
}

static void fail_missing(struct store *store) {
    char text[512];
    int length =
        snprintf(text, sizeof text, "these ranks of %d did not connect to %s within %g s:", store->options.world_size,
                 store->place, store->options.timeout_s);
    int named = 0, missing = 0;
    for (int rank = 0; rank < store->options.world_size; rank++) {
        if (store->peers[rank].here) continue;
        missing++;
        if (length > 440) continue;
        length += snprintf(text + length, sizeof text - (size_t)length, "%s %d", named++ ? "," : "", rank);
    }
    if (named < missing) snprintf(text + length, sizeof text - (size_t)length, " and %d more", missing - named);
    fail_rendezvous(store, AORTA_TIMEOUT, text);
}

/* The first difference between the handshake and this rendezvous; "" for none. */
static void examine(const struct store *store, const struct wire_handshake *handshake, char text[256]) {
    int size = store->options.world_size;
    text[0] = '\0';
    if (handshake->world_size != size) {
        snprintf(text, 256, "rank %d expects %d %s, rank 0 %d (WORLD_SIZE)", handshake->rank, handshake->world_size,
                 handshake->world_size == 1 ? "rank" : "ranks", size);
    } else if (handshake->rank < 0 || handshake->rank >= size) {
        snprintf(text, 256, "a process has rank %d of %d", handshake->rank, size);
    } else if (store->peers[handshake->rank].here) {
        snprintf(text, 256, "two processes have rank %d (RANK)", handshake->rank);
    }
}

/* Compares in constant time, so that a token cannot be guessed byte by byte. */
static bool belongs(const struct store *store, const struct wire_handshake *handshake) {
    unsigned char differences = handshake->run != store->options.run;
    for (size_t i = 0; i < sizeof handshake->token; i++)
        differences |= (unsigned char)(handshake->token[i] ^ store->options.token[i]);
    return !differences;
}

static void take_hello(struct store *store, struct peer *newcomer) {
    const struct wire_message *message = &newcomer->inbox.message;
    struct wire_handshake handshake;
    if (message->kind != WIRE_HELLO || message->bytes != sizeof handshake) {
        disconnect(newcomer);
        return;
    }
    memcpy(&handshake, newcomer->inbox.value, sizeof handshake);
    if (!belongs(store, &handshake)) {
        answer(newcomer, WIRE_OTHER_RUN, 0, NULL, 0);
        disconnect(newcomer);
        return;
    }
    char text[256];
    examine(store, &handshake, text);
    if (!store->failed && text[0]) fail_rendezvous(store, AORTA_COMM, text);
    if (store->failed) {
        answer_failure(newcomer, store->failure_code, store->failure);
        disconnect(newcomer);
        return;
    }
    struct peer *peer = &store->peers[handshake.rank];
    *peer = *newcomer;
    *newcomer = (struct peer){.fd = -1};
    peer->here = true;
    peer->inbox.have = 0;
    answer(peer, WIRE_ACCEPTED, 0, NULL, 0);
}

static void check_complete(struct store *store) {
    if (store->complete || store->failed) return;
    for (int rank = 0; rank < store->options.world_size; rank++) {
        if (store->peers[rank].here) continue;
        if (aorta_clock_ns() > store->open_until_ns) fail_missing(store);
        return;
    }
    store->complete = true;
    close(store->listener);
    store->listener = -1;
    for (int i = 0; i < NEWCOMERS; i++) disconnect(&store->newcomers[i]);
    for (int rank = 0; rank < store->options.world_size; rank++) {
        store->peers[rank].beat_ns = aorta_clock_ns();
        answer(&store->peers[rank], WIRE_DONE, 0, NULL, 0);
    }
}

/* A host that loses its power or its network sends nothing: the connection is broken after some 20 s without an answer.
 */
static void notice_lost_hosts(int fd) {
    static const struct {
        int level, option, value;
    } settings[] = {{SOL_SOCKET, SO_KEEPALIVE, 1},
                    {IPPROTO_TCP, TCP_KEEPIDLE, 8},
                    {IPPROTO_TCP, TCP_KEEPINTVL, 3},
                    {IPPROTO_TCP, TCP_KEEPCNT, 4}};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        setsockopt(fd, settings[i].level, settings[i].option, &settings[i].value, sizeof settings[i].value);
}

/* Returns a free place, or that of the oldest connection: ranks send their handshake at once, so it is probably no
 * rank. */
static struct peer *place_for_newcomer(struct store *store) {
    struct peer *oldest = &store->newcomers[0];
    for (int i = 0; i < NEWCOMERS; i++) {
        if (store->newcomers[i].fd < 0) return &store->newcomers[i];
        if (store->newcomers[i].until_ns < oldest->until_ns) oldest = &store->newcomers[i];
    }
    return oldest;
}

static void accept_newcomer(struct store *store) {
    int fd = accept4(store->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) return;
    const struct timeval limit = {.tv_sec = 5};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    notice_lost_hosts(fd);
    struct peer *place = place_for_newcomer(store);
    disconnect(place);
    place->fd = fd;
    place->until_ns = aorta_clock_ns() + HANDSHAKE_NS;
}

/* ---- keys and values ---- */

static const struct entry *find(const struct store *store, const char *key) {
    const struct entry *entry = store->entries;
    while (entry && strcmp(entry->key, key) != 0) entry = entry->next;
    return entry;
}

static void set(struct store *store, struct peer *peer) {
    const struct wire_message *message = &peer->inbox.message;
    if (find(store, message->key)) {
        answer_failure(peer, AORTA_INTERNAL, "this key is set already");
        return;
    }
    struct entry *entry = aorta_arena_alloc(&store->memory, sizeof *entry + message->bytes);
    if (!entry) {
        answer_failure(peer, AORTA_MEMORY, "rank 0 has no memory for a key");
        return;
    }
    *entry = (struct entry){.next = store->entries, .bytes = message->bytes};
    memcpy(entry->key, message->key, sizeof entry->key);
    memcpy(entry->value, peer->inbox.value, message->bytes);
    store->entries = entry;
    answer(peer, WIRE_DONE, 0, NULL, 0);
}

static void answer_lost(const struct store *store, struct peer *peer) {
    char text[128];
    snprintf(text, sizeof text, "rank %d is gone: its process has ended or its host cannot be reached", store->lost);
    answer_failure(peer, AORTA_COMM, text);
}

/* Answers a waiting GET once its key is set, a rank is lost, or the time is over. */
static void serve_wait(struct store *store, struct peer *peer) {
    if (!peer->waiting) return;
    const struct entry *entry = find(store, peer->inbox.message.key);
    bool over = aorta_clock_ns() > peer->until_ns;
    if (!entry && store->lost < 0 && !over) return;
    peer->waiting = false;
    peer->inbox.have = 0;
    if (entry)
        answer(peer, WIRE_DONE, 0, entry->value, entry->bytes);
    else if (store->lost >= 0)
        answer_lost(store, peer);
    else
        answer_failure(peer, AORTA_TIMEOUT, "it was not set in time");
}

/* The state of all ranks, as aorta_rendezvous_beat gives it. */
static int state_of(struct store *store) {
    const int64_t oldest_ns = aorta_clock_ns() - (int64_t)(store->options.timeout_s * 1e9);
    int state = AORTA_RENDEZVOUS_READY;
    for (int rank = 0; rank < store->options.world_size && !store->all_ready; rank++) {
        const struct peer *peer = &store->peers[rank];
        if (peer->ready) continue;
        if (peer->beat_ns < oldest_ns) return rank;
        state = AORTA_RENDEZVOUS_WAITS;
    }
    store->all_ready = state == AORTA_RENDEZVOUS_READY;
    return state;
}

static void take_beat(struct store *store, struct peer *peer) {
    peer->ready = peer->inbox.message.number;
    peer->beat_ns = aorta_clock_ns();
    if (store->lost >= 0)
        answer_lost(store, peer);
    else
        answer(peer, WIRE_DONE, state_of(store), NULL, 0);
}

static void serve(struct store *store, struct peer *peer) {
    const struct wire_message *message = &peer->inbox.message;
    if (message->kind == WIRE_GET) {
        /* A limit that is no number or too large is no wait. */
        const double wait_s = message->timeout_s > 0 && message->timeout_s < MOST_WAIT_S ? message->timeout_s : 0;
        peer->waiting = true;
        peer->until_ns = aorta_clock_ns() + (int64_t)(wait_s * 1e9);
        return; /* its message stays until it is answered */
    }
    if (message->kind == WIRE_SET) set(store, peer);
    if (message->kind == WIRE_PING) answer(peer, WIRE_DONE, store->lost, NULL, 0);
    if (message->kind == WIRE_BEAT) take_beat(store, peer);
    if (message->kind == WIRE_BYE) peer->signed_off = true;
    peer->inbox.have = 0;
}

/* ---- reading ---- */

enum progress { PROGRESS_MORE, PROGRESS_WHOLE, PROGRESS_END };

static enum progress receive(struct peer *peer) {
    struct inbox *inbox = &peer->inbox;
    size_t want = sizeof inbox->message;
    if (inbox->have >= want) want += inbox->message.bytes;
    char *to = inbox->have < sizeof inbox->message ? (char *)&inbox->message + inbox->have
                                                   : inbox->value + (inbox->have - sizeof inbox->message);
    ssize_t count = recv(peer->fd, to, want - inbox->have, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return PROGRESS_MORE;
    if (count <= 0) return PROGRESS_END;
    inbox->have += (size_t)count;
    if (inbox->have < sizeof inbox->message) return PROGRESS_MORE;
    const struct wire_message *message = &inbox->message;
    if (message->magic != WIRE_MAGIC || message->bytes > sizeof inbox->value) return PROGRESS_END;
    if (message->key[sizeof message->key - 1]) return PROGRESS_END;
    return inbox->have == sizeof *message + message->bytes ? PROGRESS_WHOLE : PROGRESS_MORE;
}

static void read_peer(struct store *store, int rank) {
    struct peer *peer = &store->peers[rank];
    enum progress progress = receive(peer);
    if (progress == PROGRESS_WHOLE) serve(store, peer);
    if (progress != PROGRESS_END) return;
    if (store->complete && !peer->signed_off && store->lost < 0) store->lost = rank;
    disconnect(peer); /* before all are connected it may connect again */
}

static void read_newcomer(struct store *store, struct peer *newcomer) {
    enum progress progress = receive(newcomer);
    if (progress == PROGRESS_WHOLE) take_hello(store, newcomer);
    if (progress == PROGRESS_END) disconnect(newcomer);
}

/* ---- the thread ---- */

static bool over(const struct store *store) {
    int64_t ending_ns = atomic_load(&store->ending_ns);
    if (!ending_ns) return false;
    if (store->failed) return aorta_clock_ns() > ending_ns + FAILED_LINGER_NS;
    int64_t limit_ns = (int64_t)(store->options.timeout_s * 1e9);
    if (store->lost >= 0 && limit_ns > LOST_LINGER_NS) limit_ns = LOST_LINGER_NS;
    bool any = false;
    for (int rank = 0; rank < store->options.world_size; rank++)
        any = any || (store->peers[rank].fd >= 0 && !store->peers[rank].signed_off);
    return !any || aorta_clock_ns() > ending_ns + limit_ns;
}

/* All sockets in one list: the listener, the ranks, the newcomers. poll skips those that are -1. */
static void poll_all(struct store *store, struct pollfd *polls) {
    const int size = store->options.world_size;
    polls[0] = (struct pollfd){.fd = store->listener, .events = POLLIN};
    for (int i = 0; i < size + NEWCOMERS; i++) {
        const struct peer *peer = &store->peers[i];
        /* A rank that waits for a key sends nothing, but its end is noticed. */
        polls[1 + i] = (struct pollfd){.fd = peer->fd, .events = peer->waiting ? POLLRDHUP : POLLIN};
    }
    poll(polls, 1 + (nfds_t)size + NEWCOMERS, POLL_MS);
    for (int i = 0; i < size; i++) {
        struct peer *peer = &store->peers[i];
        if (!polls[1 + i].revents || peer->fd < 0) continue;
        if (peer->waiting) { /* POLLRDHUP: the rank has closed its connection */
            peer->waiting = false;
            peer->inbox.have = 0;
        }
        read_peer(store, i);
    }
    int64_t now_ns = aorta_clock_ns();
    for (int i = 0; i < NEWCOMERS; i++) {
        struct peer *newcomer = &store->newcomers[i];
        if (newcomer->fd >= 0 && polls[1 + size + i].revents) read_newcomer(store, newcomer);
        if (newcomer->fd >= 0 && now_ns > newcomer->until_ns) disconnect(newcomer);
    }
    if (store->listener >= 0 && polls[0].revents) accept_newcomer(store);
}

static void *run(void *argument) {
    struct store *store = argument;
    struct pollfd *polls = calloc(1 + (size_t)store->options.world_size + NEWCOMERS, sizeof *polls);
    while (polls && !over(store)) {
        poll_all(store, polls);
        check_complete(store);
        for (int rank = 0; rank < store->options.world_size; rank++) serve_wait(store, &store->peers[rank]);
    }
    free(polls);
    /* Waiting ranks notice the closed connections, also after a lack of memory. */
    for (int rank = 0; rank < store->options.world_size; rank++) disconnect(&store->peers[rank]);
    return NULL;
}

/* ---- beginning and end ---- */

static void release(struct store *store) {
    for (int i = 0; i < store->options.world_size + NEWCOMERS; i++) disconnect(&store->peers[i]);
    if (store->listener >= 0) close(store->listener);
    aorta_arena_free(&store->memory);
    free(store->peers);
    free(store);
}

aorta_status store_start(const struct aorta_rendezvous_options *options, int listener, const char *place, int *own,
                         struct store **store) {
    int ends[2];
    const int places = options->world_size + NEWCOMERS;
    struct store *made = calloc(1, sizeof *made);
    struct peer *peers = calloc((size_t)places, sizeof *peers);
    if (!made || !peers) {
        free(made);
        free(peers);
        close(listener);
        return AORTA_ERROR(AORTA_MEMORY, "out of memory for the rendezvous of %d ranks", options->world_size);
    }
    for (int i = 0; i < places; i++) peers[i].fd = -1;
    *made = (struct store){.options = *options,
                           .listener = listener,
                           .peers = peers,
                           .newcomers = peers + options->world_size,
                           .open_until_ns = aorta_clock_ns() + (int64_t)(options->timeout_s * 1e9),
                           .lost = -1};
    snprintf(made->place, sizeof made->place, "%s", place);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) {
        aorta_status status = AORTA_ERROR(AORTA_IO, "rendezvous: socketpair: %s", strerror(errno));
        release(made);
        return status;
    }
    made->newcomers[0] = (struct peer){.fd = ends[0], .until_ns = INT64_MAX};
    int error = aorta_thread_start(&made->thread, run, made);
    if (error) {
        close(ends[1]);
        release(made);
        return AORTA_ERROR(AORTA_IO, "rendezvous: no thread: %s", strerror(error));
    }
    *own = ends[1];
    *store = made;
    return NULL;
}

void store_end(struct store *store) {
    atomic_store(&store->ending_ns, aorta_clock_ns());
    pthread_join(store->thread, NULL);
    release(store);
}
