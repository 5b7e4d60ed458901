/* Reading training.inject: causes of a rank, and errors that name the item and a correct form. */
#include "check.h"
#include "train/context.h"

#include <string.h>

static void load(const char *override, struct aorta_train_options *options) {
    check_ok(aorta_train_options_load(NULL, &override, 1, options));
}

static void test_nothing_by_default(void **state) {
    (void)state;
    struct aorta_train_options options;
    struct aorta_injected injected, none = {0};
    check_ok(aorta_train_options_load(NULL, NULL, 0, &options));
    check_ok(aorta_injections_read(&options, 0, &injected));
    assert_memory_equal(&injected, &none, sizeof none);
    aorta_train_options_free(&options);
}

static void test_each_rank_has_its_own(void **state) {
    (void)state;
    struct aorta_train_options options;
    struct aorta_injected injected;
    load("training.inject=[\"slow_rank:rank=1,ms=20\", \"slow_rank:rank=0,ms=1.5,per=layer\", \"slow_loader:ms=15\","
         " \"host_pause:ms=3,rank=0\", \"sync:per=step,rank=1\", \"slow_collective:kind=all_gather,ms=5\","
         " \"slow_collective:kind=all_reduce,ms=2,every=1\", \"allocation:mib=2\", \"copy:mib=0.5\"]",
         &options);
    check_ok(aorta_injections_read(&options, 0, &injected));
    assert_int_equal(injected.step_kernel_ns, 0);
    assert_int_equal(injected.layer_kernel_ns, 1500000);
    assert_int_equal(injected.pause_ns, 3000000);
    assert_int_equal(injected.loader_ns, 15000000);
    assert_false(injected.sync_step || injected.sync_layer);
    check_ok(aorta_injections_read(&options, 1, &injected));
    assert_int_equal(injected.step_kernel_ns, 20000000);
    assert_int_equal(injected.layer_kernel_ns, 0);
    assert_int_equal(injected.pause_ns, 0);
    assert_true(injected.sync_step && !injected.sync_layer);
    assert_int_equal(injected.collectives[AORTA_ALL_GATHER].longer_ns, 5000000);
    assert_int_equal(injected.collectives[AORTA_ALL_GATHER].every, 2);
    assert_int_equal(injected.collectives[AORTA_ALL_REDUCE].every, 1);
    assert_int_equal(injected.collectives[AORTA_REDUCE_SCATTER].longer_ns, 0);
    assert_int_equal(injected.memory_bytes, 2 << 20);
    assert_int_equal(injected.copy_bytes, 1 << 19);
    aorta_train_options_free(&options);
}

static void test_errors_say_what_is_right(void **state) {
    (void)state;
    static const struct {
        const char *item, *parts[3];
    } rows[] = {
        {"slow_rnk:ms=3", {"no cause is called \"slow_rnk\"", "slow_rank:rank=R,ms=N", "copy:mib=N"}},
        {"", {"no cause is called \"\"", "sync:per=step|layer", NULL}},
        {"slow_rank:ms=3", {"it needs \"rank\"", "slow_rank:rank=R,ms=N", NULL}},
        {"host_pause", {"it needs \"ms\"", NULL, NULL}},
        {"host_pause:", {"it does not take \"\"", NULL, NULL}},
        {"host_pause:ms=3,mib=2", {"it does not take \"mib\"", "host_pause:ms=N[,rank=R]", NULL}},
        {"host_pause:ms", {"no value in \"ms\"", NULL, NULL}},
        {"host_pause:ms=long", {"ms is \"long\"; it takes milliseconds from 0.001 to 60000", NULL, NULL}},
        {"host_pause:ms=-3", {"ms is \"-3\"", NULL, NULL}},
        {"slow_rank:rank=0.5,ms=3", {"rank is \"0.5\"; it takes a rank's number", NULL, NULL}},
        {"sync:per=batch", {"per is \"batch\"; it takes step or layer", NULL, NULL}},
        {"slow_collective:kind=broadcast,ms=3", {"kind is \"broadcast\"", "reduce_scatter", NULL}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char override[128];
        const char *words = override;
        struct aorta_train_options options;
        snprintf(override, sizeof override, "training.inject=[\"%s\"]", rows[i].item);
        aorta_status status = aorta_train_options_load(NULL, &words, 1, &options);
        assert_int_equal(aorta_status_code(status), AORTA_CONFIG);
        const char *message = aorta_status_message(status);
        assert_non_null(strstr(message, "training.inject: "));
        assert_non_null(strstr(message, rows[i].item));
        for (int part = 0; part < 3 && rows[i].parts[part]; part++)
            if (!strstr(message, rows[i].parts[part])) fail_msg("%s lacks %s", message, rows[i].parts[part]);
        aorta_status_free(status);
    }
}

static void test_what_cannot_be_planted(void **state) {
    (void)state;
    struct aorta_train_options options;
    const char *captured[] = {"training.inject=sync:per=layer", "compile.enabled=true"};
    aorta_status status = aorta_train_options_load(NULL, captured, 2, &options);
    assert_int_equal(aorta_status_code(status), AORTA_CONFIG);
    assert_non_null(strstr(aorta_status_message(status), "compile.enabled"));
    aorta_status_free(status);

    load("training.inject=\"slow_rank:rank=2,ms=1\"", &options);
    check_ok(aorta_injections_check(&options, 3));
    status = aorta_injections_check(&options, 2);
    assert_int_equal(aorta_status_code(status), AORTA_CONFIG);
    assert_non_null(strstr(aorta_status_message(status), "2 ranks"));
    aorta_status_free(status);
    aorta_train_options_free(&options);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_by_default),
        cmocka_unit_test(test_each_rank_has_its_own),
        cmocka_unit_test(test_errors_say_what_is_right),
        cmocka_unit_test(test_what_cannot_be_planted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
