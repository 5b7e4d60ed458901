/* Agreement of ranks without MPI, and their common end. Each rank is a thread; they meet at rank 0's port.
 *
 *     rank        0            1            2
 *     open        world        world        world            instance 1 on all
 *     share       7 ------->   7            7                world: rank 0's bytes reach all
 *     split       {0, 2}       {1}          {0, 2}           each names its own list
 *     share       40           11           40               group {0, 2}: rank 0's; group {1}: its own
 *     split       {0, 1}       {0, 2}       none             0 and 1 disagree: an error on both; 2 takes no part
 *
 *     leave       ready        ready        0.3 s later      no rank has left before rank 2 is ready */
#include "check.h"

#include "base/clock.h"
#include "base/thread.h"
#include "job/control.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

enum { RANKS = 3, LATE_MS = 300 };

struct rank {
    struct aorta_ranks ranks;
    aorta_status (*run)(struct rank *rank);
    pthread_t thread;
    aorta_status status;
    int64_t shared, shared_in_group; /* received */
    aorta_status disagreement;
    int64_t ready_ns, left_ns;
};

static int free_port(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, length), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    close(fd);
    return ntohs(address.sin_port);
}

static void *run_rank(void *user) {
    struct rank *rank = user;
    rank->status = rank->run(rank);
    return NULL;
}

static void run_all(struct rank ranks[RANKS], aorta_status (*run)(struct rank *rank)) {
    const int port = free_port();
    for (int i = 0; i < RANKS; i++) {
        ranks[i] = (struct rank){
            .ranks = {.rank = i, .world_size = RANKS, .master_address = "127.0.0.1", .master_port = port}, .run = run};
        assert_int_equal(aorta_thread_start(&ranks[i].thread, run_rank, &ranks[i]), 0);
    }
    for (int i = 0; i < RANKS; i++) pthread_join(ranks[i].thread, NULL);
    for (int i = 0; i < RANKS; i++) check_ok(ranks[i].status);
}

static aorta_status agree(struct rank *rank) {
    static const int outer[] = {0, 2}, middle[] = {1}, wrong[2][2] = {{0, 1}, {0, 2}};
    const int me = rank->ranks.rank;
    const struct aorta_control_options options = {.ranks = rank->ranks, .timeout_s = 20, .instance = 1};
    struct aorta_control *world, *group, *none;
    AORTA_TRY(aorta_control_open(&options, &world));
    rank->shared = me == 0 ? 7 : 0;
    AORTA_TRY(aorta_control_share(world, &rank->shared, sizeof rank->shared));

    AORTA_TRY(aorta_control_split(world, me == 1 ? middle : outer, me == 1 ? 1 : 2, &group));
    rank->shared_in_group = 40 - 29 * me; /* 40, 11, -18 */
    AORTA_TRY(aorta_control_share(group, &rank->shared_in_group, sizeof rank->shared_in_group));

    rank->disagreement = aorta_control_split(world, wrong[me % 2], me == 2 ? 0 : 2, &none);
    if (none) return AORTA_ERROR(AORTA_INTERNAL, "a group was made");
    aorta_control_close(group);
    aorta_control_close(world);
    return NULL;
}

static void ranks_agree_on_groups(void **state) {
    (void)state;
    struct rank ranks[RANKS];
    static const int64_t in_group[RANKS] = {40, 11, 40};
    run_all(ranks, agree);
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(ranks[i].shared, 7);
        assert_int_equal(ranks[i].shared_in_group, in_group[i]);
    }
    check_fails(ranks[0].disagreement, AORTA_USAGE, "rank 1 passed another list of ranks than rank 0");
    check_fails(ranks[1].disagreement, AORTA_USAGE, "rank 0 passed another list of ranks than rank 1");
    check_ok(ranks[2].disagreement);
}

static aorta_status leave_together(struct rank *rank) {
    const struct aorta_leave_options options = {.met = &rank->ranks, .timeout_s = 20};
    struct aorta_leave *leave;
    AORTA_TRY(aorta_leave_begin(&options, &leave));
    if (rank->ranks.rank == RANKS - 1) usleep(1000 * LATE_MS);
    rank->ready_ns = aorta_clock_ns();
    AORTA_TRY(aorta_leave_end(leave));
    rank->left_ns = aorta_clock_ns();
    return NULL;
}

static void nobody_leaves_before_all_are_ready(void **state) {
    (void)state;
    struct rank ranks[RANKS];
    run_all(ranks, leave_together);
    for (int i = 0; i < RANKS; i++) assert_true(ranks[i].left_ns >= ranks[RANKS - 1].ready_ns);
}

/* One rank has nobody to agree with, or to wait for. */
static void one_rank_is_alone(void **state) {
    (void)state;
    const struct aorta_ranks alone = {.world_size = 1, .local_world_size = 1};
    const struct aorta_control_options options = {.ranks = alone, .timeout_s = 1};
    struct aorta_control *world, *group;
    struct aorta_leave *leave;
    int64_t value = 3;
    check_ok(aorta_control_open(&options, &world));
    check_ok(aorta_control_split(world, &(int){0}, 1, &group));
    check_ok(aorta_control_share(group, &value, sizeof value));
    assert_int_equal(value, 3);
    assert_int_equal(aorta_control_lost(world), -1);
    aorta_control_close(group);
    aorta_control_close(world);
    check_ok(aorta_leave_begin(&(struct aorta_leave_options){.met = &alone, .timeout_s = 1}, &leave));
    assert_null(leave);
    check_ok(aorta_leave_end(leave));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_agree_on_groups),
        cmocka_unit_test(nobody_leaves_before_all_are_ready),
        cmocka_unit_test(one_rank_is_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
