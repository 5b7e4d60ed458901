/* The table of CUDA's calls: every row is read by somebody, and its number is NVIDIA's, where the lists are installed.
 */
#include "base/files.h"
#include "check.h"
#include "measure/cupti_abi.h"
#include "record/inject/inject.h"
#include "trace/builder.h"
#include "trace/spool_format.h"

#include <stdlib.h>
#include <unistd.h>

/* What the host does in a stall, and where captures begin and end. */
static bool is_named_in_stalls(const char *name) {
    static const char *const parts[] = {"Capture", "Instantiate", "Module", "Library", "HostFunc", "Callback"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(name, parts[i])) return true;
    return false;
}

static void every_call_is_of_a_kind_that_counts(void **state) {
    (void)state;
    for (uint32_t i = 0; i < aorta_inject_call_count; i++) {
        enum aorta_trace_call_kind kind;
        const struct aorta_inject_call *call = &aorta_inject_calls[i];
        const bool stalls = is_named_in_stalls(call->name);
        if (aorta_trace_call_classify(call->name, &kind) == stalls)
            fail_msg("%s is recorded, and nobody reads it", call->name);
        bool waits = stalls || kind == AORTA_CALL_SYNC || kind == AORTA_CALL_MEMORY;
        assert_int_equal(aorta_inject_call_part(call), waits ? AORTA_SPOOL_WAITS : AORTA_SPOOL_LAUNCHES);
        const bool runtime = strncmp(call->name, "cuda", 4) == 0;
        assert_int_not_equal(call->ids[0], 0);
        for (const uint16_t *id = call->ids; *id; id++)
            if (aorta_inject_call_of(runtime ? AORTA_CUPTI_KIND_RUNTIME : AORTA_CUPTI_KIND_DRIVER, *id) != call)
                fail_msg("number %u is listed twice", *id);
    }
}

/* In NVIDIA's list: "PREFIXname_v7000 = 211,". */
static void check_row(const char *list, const char *prefix, const char *call, unsigned id) {
    char number[32], name[128] = "";
    snprintf(number, sizeof number, "= %u,", id);
    for (const char *at = list; (at = strstr(at, prefix)); at++) {
        const char *equals = strchr(at, '=');
        if (!equals || strncmp(equals, number, strlen(number)) != 0) continue;
        at += strlen(prefix);
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, " ="), at);
        break;
    }
    size_t length = strlen(call);
    bool same = strncmp(name, call, length) == 0 && (!name[length] || name[length] == '_');
    if (!same) fail_msg("number %u is %s with us and %s with NVIDIA", id, call, name);
}

static void numbers_are_those_of_nvidia(void **state) {
    (void)state;
    const char *home = getenv("CUDA_HOME");
    char *lists[2], path[512];
    for (int i = 0; i < 2; i++) {
        size_t length;
        snprintf(path, sizeof path, "%s/include/%s", home ? home : "/usr/local/cuda",
                 i ? "cupti_driver_cbid.h" : "cupti_runtime_cbid.h");
        if (access(path, R_OK) != 0) {
            print_message("skipped: no %s\n", path);
            skip();
        }
        check_ok(aorta_file_read(path, &lists[i], &length));
    }
    for (uint32_t i = 0; i < aorta_inject_call_count; i++) {
        const struct aorta_inject_call *call = &aorta_inject_calls[i];
        bool driver = strncmp(call->name, "cuda", 4) != 0;
        for (const uint16_t *id = call->ids; *id; id++)
            check_row(lists[driver], driver ? "CUPTI_DRIVER_TRACE_CBID_" : "CUPTI_RUNTIME_TRACE_CBID_", call->name,
                      *id);
    }
    free(lists[0]);
    free(lists[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_is_of_a_kind_that_counts),
        cmocka_unit_test(numbers_are_those_of_nvidia),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
