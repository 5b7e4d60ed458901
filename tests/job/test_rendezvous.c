/* The rendezvous over TCP: ranks that connect late, with wrong settings or never, or die. Each rank is a process. */
#include "check.h"

#include "base/clock.h"
#include "job/rendezvous_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_RANKS 5

struct outcome {
    enum aorta_code code;
    char message[600];
    double seconds;
    bool finished;
};

typedef aorta_status rank_function(struct aorta_rendezvous_options *options);

struct job {
    struct aorta_rendezvous_options options[MOST_RANKS]; /* of each process; those of real ranks by default */
    rank_function *functions[MOST_RANKS];
    int processes;
    struct outcome *outcomes; /* shared with the children */
};

static int bind_at(int port, bool to_listen) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
    if (bind(fd, (struct sockaddr *)&address, sizeof address) || (to_listen && listen(fd, 8))) {
        close(fd);
        return -1;
    }
    return fd;
}

static int port_of(int fd) {
    struct sockaddr_in address = {0};
    socklen_t length = sizeof address;
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    return ntohs(address.sin_port);
}

static int free_port(void) {
    int fd = bind_at(0, false);
    assert_true(fd >= 0);
    int port = port_of(fd);
    close(fd);
    return port;
}

static struct job job_of(int ranks, rank_function *function, double timeout_s) {
    struct job job = {.processes = ranks};
    int port = free_port();
    for (int rank = 0; rank < ranks; rank++) {
        job.options[rank] = (struct aorta_rendezvous_options){
            .address = "127.0.0.1", .port = port, .rank = rank, .world_size = ranks, .run = 17, .timeout_s = timeout_s};
        job.functions[rank] = function;
    }
    job.outcomes =
        mmap(NULL, MOST_RANKS * sizeof *job.outcomes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(job.outcomes != MAP_FAILED);
    return job;
}

static _Noreturn void be_process(struct job *job, int i) {
    struct outcome *outcome = &job->outcomes[i];
    int64_t start_ns = aorta_clock_ns();
    aorta_status status = job->functions[i](&job->options[i]);
    outcome->seconds = (double)(aorta_clock_ns() - start_ns) * 1e-9;
    outcome->code = aorta_status_code(status);
    snprintf(outcome->message, sizeof outcome->message, "%s", aorta_status_message(status));
    outcome->finished = true;
    aorta_status_free(status);
    _exit(0);
}

static void run(struct job *job) {
    pid_t children[MOST_RANKS];
    for (int i = 0; i < job->processes; i++) {
        children[i] = fork();
        if (children[i] == 0) be_process(job, i);
    }
    for (int i = 0; i < job->processes; i++) waitpid(children[i], NULL, 0);
}

static void expect(struct job *job, int process, enum aorta_code code, const char *part) {
    const struct outcome *outcome = &job->outcomes[process];
    if (outcome->finished && outcome->code == code && strstr(outcome->message, part)) return;
    fail_msg("process %d: expected code %d with \"%s\", got %s%d: %s", process, code, part,
             outcome->finished ? "" : "(not finished) ", outcome->code, outcome->message);
}

static void expect_all(struct job *job, enum aorta_code code, const char *part) {
    for (int i = 0; i < job->processes; i++) expect(job, i, code, part);
}

static void end(struct job *job) {
    munmap(job->outcomes, MOST_RANKS * sizeof *job->outcomes);
}

/* ---- actions of a rank ---- */

/* Every rank sends every other a number, in two rounds. */
static aorta_status exchange(struct aorta_rendezvous_options *options) {
    struct aorta_rendezvous *r;
    AORTA_TRY(aorta_rendezvous_open(options, &r));
    for (int round = 0; round < 2; round++) {
        char key[AORTA_RENDEZVOUS_KEY];
        int64_t value = 1000 * round + options->rank;
        snprintf(key, sizeof key, "round %d/%d", round, options->rank);
        AORTA_TRY(aorta_rendezvous_set(r, key, &value, sizeof value));
        for (int rank = 0; rank < options->world_size; rank++) {
            snprintf(key, sizeof key, "round %d/%d", round, rank);
            AORTA_TRY(aorta_rendezvous_get(r, key, &value, sizeof value, options->timeout_s));
            if (value != 1000 * round + rank) return AORTA_ERROR(AORTA_INTERNAL, "%s is %lld", key, (long long)value);
        }
    }
    int lost = aorta_rendezvous_lost(r);
    aorta_rendezvous_close(r);
    return lost < 0 ? NULL : AORTA_ERROR(AORTA_INTERNAL, "rank %d was taken for lost", lost);
}

static aorta_status exchange_late(struct aorta_rendezvous_options *options) {
    usleep(400000);
    return exchange(options);
}

static aorta_status only_open(struct aorta_rendezvous_options *options) {
    struct aorta_rendezvous *r;
    AORTA_TRY(aorta_rendezvous_open(options, &r));
    aorta_rendezvous_close(r);
    return NULL;
}

static aorta_status open_and_die(struct aorta_rendezvous_options *options) {
    struct aorta_rendezvous *r;
    AORTA_TRY(aorta_rendezvous_open(options, &r));
    usleep(200000);
    _exit(9);
}

/* Waits for a key that nobody sets, as for a rank that dies. */
static aorta_status wait_in_vain(struct aorta_rendezvous_options *options) {
    struct aorta_rendezvous *r;
    AORTA_TRY(aorta_rendezvous_open(options, &r));
    int nothing;
    aorta_status status = aorta_rendezvous_get(r, "never", &nothing, sizeof nothing, options->timeout_s);
    int lost = aorta_rendezvous_lost(r);
    aorta_rendezvous_close(r);
    return aorta_annotate(status, "lost %d", lost);
}

/* Rank 0 leaves at once; the other ranks must be able to go on until they leave, too. */
static aorta_status leave_in_turn(struct aorta_rendezvous_options *options) {
    struct aorta_rendezvous *r;
    AORTA_TRY(aorta_rendezvous_open(options, &r));
    for (int i = 0; i < 5 * options->rank; i++) {
        usleep(50000);
        int lost = aorta_rendezvous_lost(r);
        if (lost >= 0) return AORTA_ERROR(AORTA_INTERNAL, "rank %d was taken for lost", lost);
    }
    aorta_rendezvous_close(r);
    return NULL;
}

/* The last rank is ready 0.3 s later than the other ranks. */
static aorta_status beat_until_ready(struct aorta_rendezvous_options *options) {
    struct aorta_rendezvous *r;
    int others = AORTA_RENDEZVOUS_WAITS;
    AORTA_TRY(aorta_rendezvous_open(options, &r));
    const int64_t ready_ns = aorta_clock_ns() + (options->rank == options->world_size - 1 ? 300000000 : 0);
    while (others == AORTA_RENDEZVOUS_WAITS) {
        usleep(5000);
        AORTA_TRY(aorta_rendezvous_beat(r, aorta_clock_ns() >= ready_ns, &others));
    }
    aorta_rendezvous_close(r);
    return others == AORTA_RENDEZVOUS_READY ? NULL : AORTA_ERROR(AORTA_INTERNAL, "rank %d is silent", others);
}

/* Rank 1 lives, and sends no heartbeat. */
static aorta_status beat_without_rank_1(struct aorta_rendezvous_options *options) {
    struct aorta_rendezvous *r;
    int others = AORTA_RENDEZVOUS_WAITS;
    AORTA_TRY(aorta_rendezvous_open(options, &r));
    for (int i = 0; i < 400 && others == AORTA_RENDEZVOUS_WAITS; i++) {
        usleep(5000);
        if (options->rank != 1) AORTA_TRY(aorta_rendezvous_beat(r, true, &others));
    }
    aorta_rendezvous_close(r);
    return AORTA_ERROR(AORTA_TIMEOUT, "others: %d", others);
}

/* ---- tests ---- */

static void test_all_meet(void **state) {
    (void)state;
    for (int ranks = 1; ranks <= 4; ranks++) {
        struct job job = job_of(ranks, exchange, 20);
        run(&job);
        expect_all(&job, AORTA_OK, "");
        end(&job);
    }
}

static void test_late(void **state) {
    (void)state;
    for (int late = 0; late < 3; late++) {
        struct job job = job_of(3, exchange, 20);
        job.functions[late] = exchange_late;
        run(&job);
        expect_all(&job, AORTA_OK, "");
        assert_true(job.outcomes[(late + 1) % 3].seconds > 0.35); /* it was waited for */
        end(&job);
    }
}

static void test_names_and_ipv6(void **state) {
    (void)state;
    static const char *const addresses[] = {"localhost", "::1"};
    for (size_t a = 0; a < 2; a++) {
        int probe = socket(AF_INET6, SOCK_STREAM, 0);
        struct sockaddr_in6 loopback = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
        bool has_ipv6 = probe >= 0 && bind(probe, (struct sockaddr *)&loopback, sizeof loopback) == 0;
        if (probe >= 0) close(probe);
        if (a == 1 && !has_ipv6) {
            print_message("no IPv6 on this machine: ::1 was not tried\n");
            continue;
        }
        struct job job = job_of(2, exchange, 20);
        for (int rank = 0; rank < 2; rank++) job.options[rank].address = addresses[a];
        run(&job);
        expect_all(&job, AORTA_OK, "");
        end(&job);
    }
}

static _Noreturn void serve_web(int listener) {
    static const char text[] = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\n"
                               "Content-Length: 50\r\n\r\nThis is a server of another kind altogether, alas.";
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        if (send(fd, text, sizeof text, MSG_NOSIGNAL) > 0) usleep(1000);
        close(fd);
    }
}

/* Somebody else answers at the first port, and not in our language; the second is taken and silent. */
static void test_taken_ports(void **state) {
    (void)state;
    struct job job = job_of(3, exchange, 20);
    int web = bind_at(job.options[0].port, true), reserved = bind_at(job.options[0].port + 1, false);
    assert_true(web >= 0);
    pid_t server = fork();
    if (server == 0) serve_web(web);
    run(&job);
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    expect_all(&job, AORTA_OK, "");
    close(web);
    if (reserved >= 0) close(reserved);
    end(&job);
}

/* All ports of a rendezvous, which processes of other tests then neither take nor give back meanwhile. A port
 * without a listener refuses connections. */
static bool take_ports(int first, bool to_listen, int *fds) {
    for (int taken = 0; taken < AORTA_RENDEZVOUS_PORTS; taken++) {
        fds[taken] = bind_at(first + taken, to_listen);
        if (fds[taken] >= 0) continue;
        while (taken) close(fds[--taken]);
        return false;
    }
    return true;
}

static void test_no_free_port(void **state) {
    (void)state;
    struct job job = job_of(1, only_open, 2);
    int fds[AORTA_RENDEZVOUS_PORTS];
    while (!take_ports(job.options[0].port, true, fds)) job.options[0].port = free_port();
    run(&job);
    expect(&job, 0, AORTA_COMM, "Address already in use; set MASTER_PORT to a free port");
    for (int i = 0; i < AORTA_RENDEZVOUS_PORTS; i++) close(fds[i]);
    end(&job);
}

static void test_missing_ranks(void **state) {
    (void)state;
    struct job job = job_of(4, only_open, 1);
    job.processes = 2;
    job.options[1].rank = 2;
    run(&job);
    expect_all(&job, AORTA_TIMEOUT, "these ranks of 4 did not connect to 127.0.0.1:");
    expect_all(&job, AORTA_TIMEOUT, "within 1 s: 1, 3");
    assert_true(job.outcomes[0].seconds < 5);
    end(&job);
}

static void test_no_master(void **state) {
    (void)state;
    struct job job = job_of(2, only_open, 1);
    int fds[AORTA_RENDEZVOUS_PORTS];
    job.processes = 1;
    job.options[0].rank = 1;
    while (!take_ports(job.options[0].port, false, fds)) job.options[0].port = free_port();
    run(&job);
    expect(&job, 0, AORTA_TIMEOUT, "rank 1 found no rank 0 of this run at 127.0.0.1, ports");
    expect(&job, 0, AORTA_TIMEOUT, "within 1 s: Connection refused");
    for (int i = 0; i < AORTA_RENDEZVOUS_PORTS; i++) close(fds[i]);
    end(&job);
}

static void test_wrong_size(void **state) {
    (void)state;
    struct job job = job_of(3, only_open, 20);
    job.options[1].world_size = 5;
    job.processes = 2;
    run(&job);
    expect_all(&job, AORTA_COMM, "rank 1 expects 5 ranks, rank 0 3 (WORLD_SIZE)");
    end(&job);
}

static void test_one_rank_twice(void **state) {
    (void)state;
    struct job job = job_of(4, only_open, 20);
    job.processes = 3;
    job.options[2].rank = 1;
    run(&job);
    int twice = 0;
    for (int i = 0; i < 3; i++) twice += strstr(job.outcomes[i].message, "two processes have rank 1") != NULL;
    assert_int_equal(twice, 3);
    end(&job);
}

/* Two runs at the same port: the ranks of each find their own. */
static void test_two_runs(void **state) {
    (void)state;
    struct job job = job_of(4, exchange, 20);
    for (int i = 0; i < 4; i++) {
        job.options[i].world_size = 2;
        job.options[i].rank = i / 2;
        job.options[i].run = (uint64_t)(100 + i % 2);
    }
    run(&job);
    expect_all(&job, AORTA_OK, "");
    end(&job);
    struct job lonely = job_of(2, only_open, 1);
    lonely.options[1].run = 99;
    run(&lonely);
    expect(&lonely, 0, AORTA_TIMEOUT, "did not connect");
    expect(&lonely, 1, AORTA_TIMEOUT, "rank 1 found no rank 0 of this run");
    end(&lonely);
}

/* A process that has guessed everything but the token finds nobody, and disturbs nobody. */
static void test_token(void **state) {
    (void)state;
    struct job job = job_of(3, exchange, 20);
    for (int i = 0; i < 2; i++) {
        job.options[i].world_size = 2;
        strcpy(job.options[i].token, "6e1f");
    }
    job.options[2] = job.options[1];
    job.options[2].timeout_s = 0.5;
    job.options[2].token[3] = 'e';
    job.functions[2] = only_open;
    run(&job);
    expect(&job, 0, AORTA_OK, "");
    expect(&job, 1, AORTA_OK, "");
    expect(&job, 2, AORTA_TIMEOUT, "rank 1 found no rank 0 of this run");
    end(&job);
}

static void test_dead_rank(void **state) {
    (void)state;
    for (int dead = 0; dead < 3; dead++) {
        struct job job = job_of(3, wait_in_vain, 20);
        job.functions[dead] = open_and_die;
        run(&job);
        char text[64];
        for (int rank = 0; rank < 3; rank++) {
            if (rank == dead) continue;
            snprintf(text, sizeof text, "lost %d", dead);
            expect(&job, rank, AORTA_COMM, text);
            expect(&job, rank, AORTA_COMM, dead ? "is gone: its process has ended" : "rank 0 at 127.0.0.1:");
            assert_true(job.outcomes[rank].seconds < 10);
        }
        end(&job);
    }
}

static void test_a_key_nobody_sets(void **state) {
    (void)state;
    struct job job = job_of(2, wait_in_vain, 0.5);
    run(&job);
    expect_all(&job, AORTA_TIMEOUT, "never: rendezvous: it was not set in time");
    end(&job);
}

static void test_leaving(void **state) {
    (void)state;
    struct job job = job_of(3, leave_in_turn, 20);
    run(&job);
    expect_all(&job, AORTA_OK, "");
    assert_true(job.outcomes[0].seconds > 0.45);
    end(&job);
}

static void test_heartbeats(void **state) {
    (void)state;
    struct job job = job_of(3, beat_until_ready, 20);
    run(&job);
    expect_all(&job, AORTA_OK, "");
    for (int rank = 0; rank < 3; rank++) assert_true(job.outcomes[rank].seconds > 0.29);
    end(&job);
    job = job_of(2, beat_without_rank_1, 0.5);
    run(&job);
    expect(&job, 0, AORTA_TIMEOUT, "others: 1");
    end(&job);
}

/* Noise from the network does not disturb the rendezvous. */
static aorta_status exchange_among_noise(struct aorta_rendezvous_options *options) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)options->port)};
    for (int i = 0; i < 50; i++) {
        usleep(5000);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        char noise[200];
        memset(noise, i * 5, sizeof noise);
        if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0 && i % 3) {
            if (send(fd, noise, (size_t)i * 4 + 1, MSG_NOSIGNAL) < 0) usleep(100);
        }
        close(fd);
    }
    return exchange(options);
}

static void test_noise(void **state) {
    (void)state;
    struct job job = job_of(2, exchange, 20);
    job.functions[1] = exchange_among_noise;
    run(&job);
    expect_all(&job, AORTA_OK, "");
    end(&job);
}

/* Connections that stay open and silent, more than the store has places for, take none from a rank. */
static aorta_status exchange_among_silence(struct aorta_rendezvous_options *options) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)options->port)};
    enum { SILENT = 400 };
    int silent[SILENT];
    usleep(300000); /* rank 0 listens */
    for (int i = 0; i < SILENT; i++) {
        silent[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(silent[i], (struct sockaddr *)&address, sizeof address)) usleep(100);
    }
    aorta_status status = exchange(options);
    for (int i = 0; i < SILENT; i++) close(silent[i]);
    return status;
}

static void test_silence(void **state) {
    (void)state;
    struct job job = job_of(2, exchange, 4);
    job.functions[1] = exchange_among_silence;
    run(&job);
    expect_all(&job, AORTA_OK, "");
    end(&job);
}

/* Until the ranks have met, and longer than they wait for each other: connections that close at once, and as many as
 * the store has places for three times over that send a join's beginning, a byte at a time. */
enum { FLOODED = 3, TIMEOUT_S = 20, FLOOD_S = TIMEOUT_S + 10, SLOW = 400 };
static atomic_int *met; /* ranks, in memory that all processes share */

static aorta_status exchange_in_flood(struct aorta_rendezvous_options *options) {
    if (options->rank) usleep(400000);
    aorta_status status = exchange(options);
    if (!status) atomic_fetch_add(met, 1);
    return status;
}

static aorta_status flood(struct aorta_rendezvous_options *options) {
    const struct wire_message hello = {.magic = WIRE_MAGIC, .kind = WIRE_HELLO, .bytes = sizeof(struct wire_handshake)};
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)options->port)};
    const int64_t until_ns = aorta_clock_ns() + FLOOD_S * INT64_C(1000000000);
    int slow[SLOW];
    size_t sent[SLOW] = {0};
    for (int i = 0; i < SLOW; i++) slow[i] = -1;
    for (int i = 0; atomic_load(met) < FLOODED && aorta_clock_ns() < until_ns; i = (i + 1) % SLOW) {
        const int hasty = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (connect(hasty, (const struct sockaddr *)&address, sizeof address) && errno == ECONNREFUSED) usleep(10000);
        close(hasty);
        if (slow[i] < 0) {
            slow[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
            sent[i] = 0;
            (void)!connect(slow[i], (const struct sockaddr *)&address, sizeof address);
        } else if (send(slow[i], (const char *)&hello + sent[i], 1, MSG_NOSIGNAL) == 1 && sent[i] + 1 < sizeof hello) {
            sent[i]++;
        } else if (errno != EAGAIN) {
            close(slow[i]);
            slow[i] = -1;
        }
    }
    for (int i = 0; i < SLOW; i++) close(slow[i]);
    return NULL;
}

static void test_flood(void **state) {
    (void)state;
    met = mmap(NULL, sizeof *met, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(met != MAP_FAILED);
    struct job job = job_of(5, exchange_in_flood, TIMEOUT_S);
    for (int i = 0; i < 5; i++) job.options[i].world_size = FLOODED;
    job.functions[3] = job.functions[4] = flood;
    run(&job);
    expect_all(&job, AORTA_OK, "");
    assert_int_equal(atomic_load(met), FLOODED);
    end(&job);
    munmap((void *)met, sizeof *met);
}

/* ---- a join's own bytes, sent again by another process that has read them ---- */

enum { JOIN = sizeof(struct wire_message) + sizeof(struct wire_handshake) };
static char recorded[JOIN];

/* The bytes that rank 1 sends to the process at rank 0's place. */
static void record_join(const struct aorta_rendezvous_options *options) {
    const int listener = bind_at(0, true);
    assert_true(listener >= 0);
    const pid_t rank = fork();
    if (rank == 0) {
        struct aorta_rendezvous_options here = *options;
        here.port = port_of(listener);
        aorta_status_free(only_open(&here));
        _exit(0);
    }
    const int fd = accept(listener, NULL, NULL);
    assert_int_equal(recv(fd, recorded, JOIN, MSG_WAITALL), JOIN);
    kill(rank, SIGKILL);
    waitpid(rank, NULL, 0);
    close(fd);
    close(listener);
}

/* Sends them to rank 0 until it has answered; the connection stays open. */
static int replay(int port) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
    const int64_t until_ns = aorta_clock_ns() + 10000000000;
    while (aorta_clock_ns() < until_ns) {
        const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        char answer;
        if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
            send(fd, recorded, JOIN, MSG_NOSIGNAL) == JOIN && recv(fd, &answer, 1, 0) == 1)
            return fd;
        close(fd);
        usleep(20000);
    }
    return -1;
}

static aorta_status exchange_behind_a_replay(struct aorta_rendezvous_options *options) {
    const int stranger = replay(options->port);
    if (stranger < 0) return AORTA_ERROR(AORTA_INTERNAL, "rank 0 did not answer");
    aorta_status status = exchange(options);
    close(stranger);
    return status;
}

static aorta_status exchange_before_a_replay(struct aorta_rendezvous_options *options) {
    struct aorta_rendezvous *r;
    AORTA_TRY(aorta_rendezvous_open(options, &r));
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)options->port)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool reached = options->rank && connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
    close(fd);
    usleep(100000);
    aorta_rendezvous_close(r);
    return reached ? AORTA_ERROR(AORTA_INTERNAL, "the port is still open") : NULL;
}

static struct job replayed_job(rank_function *second) {
    struct job job = job_of(2, exchange, 20);
    job.functions[1] = second;
    for (int rank = 0; rank < 2; rank++) strcpy(job.options[rank].token, "6e1f");
    return job;
}

/* Once rank 0 has joined itself, all have, and nobody listens any more. A slow one still listens, and sees both. */
static void expect_stranger(struct job *job) {
    static const char both[] = "two processes have rank 1";
    if (strstr(job->outcomes[0].message, both)) {
        expect_all(job, AORTA_COMM, both);
        return;
    }
    expect(job, 0, AORTA_COMM, "rank 1 is gone"); /* once the stranger is */
    expect(job, 1, AORTA_TIMEOUT, "rank 1 found no rank 0 of this run");
}

/* In its own job it replaces rank 1: both ranks report that they have not met, and end. (A process that can read the
 * network can do this, docs/reliability.md.) In another job (its run or its token differs) it changes nothing. Once all
 * have joined no port is open. */
static void test_replayed_join(void **state) {
    (void)state;
    struct job job = replayed_job(exchange_behind_a_replay);
    record_join(&job.options[1]);
    job.options[1].timeout_s = 0.5;
    run(&job);
    expect_stranger(&job);
    assert_true(job.outcomes[0].seconds < 10 && job.outcomes[1].seconds < 10);
    end(&job);
    for (int other = 0; other < 2; other++) {
        job = replayed_job(exchange_behind_a_replay);
        for (int rank = 0; rank < 2; rank++)
            if (other)
                strcpy(job.options[rank].token, "6e1e");
            else
                job.options[rank].run++;
        run(&job);
        expect_all(&job, AORTA_OK, "");
        end(&job);
    }
    job = replayed_job(exchange_before_a_replay);
    job.functions[0] = exchange_before_a_replay;
    run(&job);
    expect_all(&job, AORTA_OK, "");
    end(&job);
}

static aorta_status sizes_and_keys(struct aorta_rendezvous_options *options) {
    struct aorta_rendezvous *r;
    AORTA_TRY(aorta_rendezvous_open(options, &r));
    static char large[AORTA_RENDEZVOUS_VALUE], back[AORTA_RENDEZVOUS_VALUE], long_key[AORTA_RENDEZVOUS_KEY + 1];
    memset(large, 'x', sizeof large);
    memset(long_key, 'k', sizeof long_key - 1);
    check_ok(aorta_rendezvous_set(r, "large", large, sizeof large));
    check_ok(aorta_rendezvous_get(r, "large", back, sizeof back, 1));
    assert_memory_equal(large, back, sizeof large);
    check_fails(aorta_rendezvous_get(r, "large", back, 12, 1), AORTA_COMM, "large has 4096 bytes, 12 were expected");
    check_fails(aorta_rendezvous_set(r, "large", large, 1), AORTA_INTERNAL, "set already");
    check_fails(aorta_rendezvous_set(r, long_key, large, 1), AORTA_INTERNAL, "too long");
    aorta_rendezvous_close(r);
    return NULL;
}

static void test_values(void **state) {
    (void)state;
    struct job job = job_of(1, sizes_and_keys, 5);
    check_ok(sizes_and_keys(&job.options[0]));
    end(&job);
}

static void test_place(void **state) {
    (void)state;
    struct aorta_ranks ranks = {.rank = 1, .world_size = 2, .master_address = "node7", .master_port = 29500};
    struct aorta_rendezvous_options plain, agent, again, restarted;
    unsetenv("TORCHELASTIC_USE_AGENT_STORE");
    check_ok(aorta_rendezvous_find(&ranks, 1, 3, &plain));
    assert_int_equal(plain.port, 29500);
    assert_string_equal(plain.address, "node7");
    setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
    setenv("TORCHELASTIC_RUN_ID", "xyz", 1);
    check_ok(aorta_rendezvous_find(&ranks, 1, 3, &agent));
    assert_int_equal(agent.port, 29501);
    assert_true(agent.run != plain.run);
    check_ok(aorta_rendezvous_find(&ranks, 2, 3, &again));
    setenv("TORCHELASTIC_RESTART_COUNT", "1", 1);
    check_ok(aorta_rendezvous_find(&ranks, 1, 3, &restarted));
    assert_true(again.run != agent.run && restarted.run != agent.run);
    assert_string_equal(agent.token, "");
    setenv("AORTA_RUN_TOKEN", "secret", 1);
    check_ok(aorta_rendezvous_find(&ranks, 1, 3, &again));
    assert_string_equal(again.token, "secret");
    char longest[80] = "";
    memset(longest, 'x', 64);
    setenv("AORTA_RUN_TOKEN", longest, 1);
    check_fails(aorta_rendezvous_find(&ranks, 1, 3, &plain), AORTA_USAGE,
                "AORTA_RUN_TOKEN has 64 characters; at most 63");
    unsetenv("AORTA_RUN_TOKEN");
    ranks.master_port = 0;
    check_fails(aorta_rendezvous_find(&ranks, 1, 3, &plain), AORTA_USAGE, "MASTER_PORT is not set");
    ranks.master_address[0] = '\0';
    check_fails(aorta_rendezvous_find(&ranks, 1, 3, &plain), AORTA_USAGE, "MASTER_ADDR is not set");
}

static void test_unknown_host(void **state) {
    (void)state;
    struct job job = job_of(2, only_open, 1);
    for (int rank = 0; rank < 2; rank++) job.options[rank].address = "no-such-host.invalid";
    run(&job);
    expect_all(&job, AORTA_COMM, "MASTER_ADDR no-such-host.invalid: ");
    end(&job);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_meet),       cmocka_unit_test(test_late),
        cmocka_unit_test(test_names_and_ipv6), cmocka_unit_test(test_taken_ports),
        cmocka_unit_test(test_no_free_port),   cmocka_unit_test(test_missing_ranks),
        cmocka_unit_test(test_no_master),      cmocka_unit_test(test_wrong_size),
        cmocka_unit_test(test_one_rank_twice), cmocka_unit_test(test_two_runs),
        cmocka_unit_test(test_dead_rank),      cmocka_unit_test(test_a_key_nobody_sets),
        cmocka_unit_test(test_leaving),        cmocka_unit_test(test_noise),
        cmocka_unit_test(test_silence),        cmocka_unit_test(test_values),
        cmocka_unit_test(test_flood),          cmocka_unit_test(test_place),
        cmocka_unit_test(test_unknown_host),   cmocka_unit_test(test_token),
        cmocka_unit_test(test_replayed_join),  cmocka_unit_test(test_heartbeats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
