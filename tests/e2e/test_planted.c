/* The verdict on causes that training.inject plants: named first, with the rank at fault, and what the step would gain.
 * The truth is the same run without the cause.
 *
 * What the steps consist of sleeps: kernels of 10 ms in each layer's pass on both ranks, about 85 ms a step. So figures
 * hardly depend on the machine, whose noise on top is a few milliseconds. */
#include "check.h"
#include "run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DEVICE "\"slow_rank:rank=0,ms=10,per=layer\",\"slow_rank:rank=1,ms=10,per=layer\""
#define SLOW_GATHERS "\"slow_collective:kind=all_gather,ms=9,every=1\""
#define NO_PREFETCH "fsdp.forward_prefetch=false fsdp.backward_prefetch=NONE"

enum { STEPS = 16, RANKS = 2, ATTEMPTS = 4, ANY_RANK = -2 };
static const double close_to = 0.2, nothing = 0.1; /* of the truth; of the step */

/* What a run says of itself. */
struct said {
    double step_ms;
    json_t *summary;
    const json_t *verdict; /* borrowed from it */
};

static struct said run_with(const char *planted, const char *words) {
    char line[1024];
    struct e2e_run run, report;
    snprintf(line, sizeof line,
             "'training.inject=[" DEVICE "%s%s]' training.max_steps=%d model.num_layers=4 dataset.num_samples=2000 %s",
             planted ? "," : "", planted ? planted : "", STEPS, words ? words : "");
    e2e_train_well(&run, RANKS, STEPS, line);
    struct said said = {.summary = e2e_report(&run, &report)};
    const json_t *label = e2e_get(said.summary, "labels.run");
    said.verdict = e2e_get(label, "verdict");
    said.step_ms = e2e_number(label, "replay.measured_ms");
    e2e_free(&report);
    e2e_free(&run);
    return said;
}

/* A cause, what its evidence says, the cause that saves the same time, and what the run without it is made of. */
struct planted {
    const char *cause, *planted, *words, *without, *words_without, *evidence, *shares;
    int rank; /* −1: none of them is named; ANY_RANK: not checked, as noise of the machine may name one */
};

static void describe(const struct said *said, double truth_ms, char *text, size_t size) {
    const json_t *first = json_array_get(said->verdict, 0), *rank = json_object_get(first, "rank");
    int length = snprintf(text, size, "lost %.1f of %.1f ms, first %s on rank %d with %.1f ms; all:", truth_ms,
                          said->step_ms, json_string_value(json_object_get(first, "cause")),
                          json_is_integer(rank) ? (int)json_integer_value(rank) : -1,
                          json_number_value(json_object_get(first, "gain_ms")));
    size_t i, j;
    const json_t *finding, *shared;
    json_array_foreach(said->verdict, i, finding) {
        length +=
            snprintf(text + length, size - length, " %s %.1f", json_string_value(json_object_get(finding, "cause")),
                     json_number_value(json_object_get(finding, "gain_ms")));
        json_array_foreach(json_object_get(finding, "shares_with"), j, shared) length +=
            snprintf(text + length, size - length, " (with %s)", json_string_value(json_object_get(shared, "cause")));
    }
}

/* The verdict names the cause: beside the first one, or as a finding of its own where noise of the machine lets fixing
 * it save a little more. */
static bool names(const json_t *verdict, const char *cause) {
    size_t i;
    const json_t *finding, *shared;
    json_array_foreach(json_object_get(json_array_get(verdict, 0), "shares_with"), i,
                       shared) if (strcmp(json_string_value(json_object_get(shared, "cause")), cause) == 0) return true;
    json_array_foreach(verdict, i, finding) if (strcmp(json_string_value(json_object_get(finding, "cause")), cause) ==
                                                0) return true;
    return false;
}

static bool is_right(const struct planted *row, const struct said *said, double truth_ms) {
    const json_t *first = json_array_get(said->verdict, 0), *rank = json_object_get(first, "rank");
    double gain_ms = json_number_value(json_object_get(first, "gain_ms"));
    const char *evidence = json_string_value(json_object_get(first, "evidence"));
    if (row->evidence && !strstr(evidence, row->evidence)) return false;
    if (row->shares && !names(said->verdict, row->shares)) return false;
    return strcmp(json_string_value(json_object_get(first, "cause")), row->cause) == 0 &&
           (row->rank == ANY_RANK || (row->rank < 0 ? json_is_null(rank) : json_integer_value(rank) == row->rank)) &&
           fabs(gain_ms - truth_ms) <= close_to * truth_ms;
}

/* Other work on the machine can stretch a run by more than the tolerance, so a row has several attempts. */
static void expect_first(const struct planted *row) {
    char text[2048] = "";
    for (int i = 0; i < ATTEMPTS; i++) {
        struct said with = run_with(row->planted, row->words), without = run_with(row->without, row->words_without);
        double truth_ms = with.step_ms - without.step_ms;
        bool right = is_right(row, &with, truth_ms);
        describe(&with, truth_ms, text, sizeof text);
        print_message("%s: %s\n", row->cause, text);
        json_decref(with.summary);
        json_decref(without.summary);
        if (right) return;
    }
    fail_msg("%s, planted by %s: %s", row->cause, row->planted, text);
}

static void test_slow_rank(void **state) {
    (void)state;
    expect_first(&(struct planted){.cause = "straggler", .planted = "\"slow_rank:rank=1,ms=90\"", .rank = 1});
}

static void test_slow_loader(void **state) {
    (void)state;
    expect_first(&(struct planted){.cause = "data_wait", .planted = "\"slow_loader:ms=200\"", .rank = -1});
}

static void test_slow_loader_of_a_rank_captured(void **state) {
    (void)state;
    expect_first(&(struct planted){.cause = "data_wait",
                                   .planted = "\"slow_loader:ms=200,rank=0\"",
                                   .words = "compile.enabled=true",
                                   .words_without = "compile.enabled=true",
                                   .rank = 0});
}

static void test_host_pause(void **state) {
    (void)state;
    expect_first(&(struct planted){.cause = "host_pause",
                                   .planted = "\"host_pause:ms=200,rank=1\"",
                                   .evidence = " before embedding_forward (embedding), after adamw_step (layers)",
                                   .rank = 1});
}

static void test_host_pause_captured(void **state) {
    (void)state;
    expect_first(&(struct planted){.cause = "host_pause",
                                   .planted = "\"host_pause:ms=200\"",
                                   .words = "compile.enabled=true",
                                   .words_without = "compile.enabled=true",
                                   .rank = -1});
}

/* The same work of the host, hidden behind the device in the run without: it comes first, as a pause behind a wait. */
static void test_sync(void **state) {
    (void)state;
    expect_first(&(struct planted){.cause = "host_pause",
                                   .shares = "host_sync",
                                   .planted = "\"host_pause:ms=50\",\"sync:per=step\"",
                                   .without = "\"host_pause:ms=50\"",
                                   .rank = -1});
}

static void test_slow_collective(void **state) {
    (void)state;
    expect_first(&(struct planted){
        .cause = "slow_collective", .planted = "\"slow_collective:kind=reduce_scatter,ms=40\"", .rank = -1});
}

static void test_missing_prefetch(void **state) {
    (void)state;
    expect_first(&(struct planted){.cause = "exposed_collective",
                                   .planted = SLOW_GATHERS,
                                   .words = NO_PREFETCH,
                                   .without = SLOW_GATHERS,
                                   .rank = ANY_RANK});
}

static double largest_share(const json_t *verdict) {
    double largest = 0;
    for (size_t i = 0; i < json_array_size(verdict); i++)
        largest = fmax(largest, json_number_value(json_object_get(json_array_get(verdict, i), "gain_share")));
    return largest;
}

/* A pause that the device hides is no loss either. */
static void test_nothing_is_claimed_without(void **state) {
    (void)state;
    static const char *const harmless[] = {NULL, "\"host_pause:ms=20\""};
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++) {
        double share = 1;
        for (int attempt = 0; share > nothing && attempt < ATTEMPTS; attempt++) {
            struct said said = run_with(harmless[i], NULL);
            share = largest_share(said.verdict);
            json_decref(said.summary);
        }
        if (share > nothing) fail_msg("%s: a cause gains %.0f%%", harmless[i] ? harmless[i] : "nothing", 100 * share);
    }
}

static void test_losses_stay(void **state) {
    (void)state;
    static const char all[] =
        "'training.inject=[\"slow_rank:rank=1,ms=3\",\"host_pause:ms=2\",\"slow_loader:ms=2\",\"sync:per=layer\","
        "\"slow_collective:kind=all_gather,ms=2\",\"allocation:mib=4\",\"copy:mib=1\"]'";
    struct e2e_run plain, planted;
    e2e_train_well(&plain, RANKS, 6, "");
    e2e_train_well(&planted, RANKS, 6, all);
    for (int rank = 0; rank < RANKS; rank++)
        for (size_t step = 0; step < 6; step++)
            if (e2e_number(e2e_line(&plain, rank, step), "loss") != e2e_number(e2e_line(&planted, rank, step), "loss"))
                fail_msg("rank %d, step %zu: another loss", rank, step);
    e2e_free(&planted);
    e2e_free(&plain);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slow_rank),
        cmocka_unit_test(test_slow_loader),
        cmocka_unit_test(test_slow_loader_of_a_rank_captured),
        cmocka_unit_test(test_host_pause),
        cmocka_unit_test(test_host_pause_captured),
        cmocka_unit_test(test_sync),
        cmocka_unit_test(test_slow_collective),
        cmocka_unit_test(test_missing_prefetch),
        cmocka_unit_test(test_nothing_is_claimed_without),
        cmocka_unit_test(test_losses_stay),
    };
    return cmocka_run_group_tests(tests, e2e_open, e2e_close);
}
