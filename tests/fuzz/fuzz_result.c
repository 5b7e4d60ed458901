/* Any two texts as result files of `aorta hwq`: errors that name the file, or a comparison whose decisions add up and
 * whose JSON is valid. A byte 0 lies between the two. */
#include "fuzz.h"
#include "hwq/compare.h"

static bool open_result(const char *path, struct aorta_hwq_measurements *measurements) {
    aorta_status status = aorta_hwq_measurements_open(path, measurements);
    if (!status) {
        fuzz_require(measurements->count > 0);
        return true;
    }
    fuzz_require(aorta_status_code(status) == AORTA_USAGE && strstr(aorta_status_message(status), path) != NULL);
    aorta_status_free(status);
    return false;
}

static void check_pairs(const struct aorta_hwq_comparison *comparison) {
    size_t decided = 0;
    for (int i = 0; i < AORTA_HWQ_CHANGE_COUNT; i++) decided += comparison->changes[i];
    fuzz_require(decided == comparison->pair_count);
    for (size_t i = 0; i < comparison->pair_count; i++) {
        const struct aorta_hwq_compared *pair = &comparison->pairs[i];
        fuzz_require(pair->p50.value[0] > 0 && pair->p50.value[1] > 0);
        fuzz_require(pair->reason || pair->equal || pair->p50.low <= pair->p50.high);
        fuzz_require(!strcmp(pair->baseline->workload, pair->test->workload));
    }
}

static void compare(const struct aorta_hwq_measurements *baseline, const struct aorta_hwq_measurements *test) {
    static const struct aorta_hwq_comparison_options options = {.threshold = 0.05, .between_runs = 0.005};
    struct aorta_hwq_comparison comparison;
    aorta_status status = aorta_hwq_comparison_make(baseline, test, &options, &comparison);
    if (status) {
        fuzz_require(aorta_status_code(status) == AORTA_USAGE);
        aorta_status_free(status);
        return;
    }
    struct aorta_text text = {0}, document = {0};
    check_pairs(&comparison);
    aorta_hwq_comparison_text(&comparison, &text);
    aorta_hwq_comparison_json(&comparison, &document);
    fuzz_require_json(document.data);
    aorta_text_free(&text);
    aorta_text_free(&document);
    aorta_hwq_comparison_free(&comparison);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const struct fuzz_halves halves = fuzz_split(data, size);
    struct aorta_hwq_measurements baseline, test;
    char first[FUZZ_PATH], second[FUZZ_PATH];
    fuzz_path(first, "a.json");
    fuzz_path(second, "b.json");
    fuzz_write(first, halves.first.data, halves.first.size);
    fuzz_write(second, halves.second.size ? halves.second.data : halves.first.data,
               halves.second.size ? halves.second.size : halves.first.size);
    const bool readable[] = {open_result(first, &baseline), open_result(second, &test)};
    if (readable[0] && readable[1]) compare(&baseline, &test);
    if (readable[0]) aorta_hwq_measurements_close(&baseline);
    if (readable[1]) aorta_hwq_measurements_close(&test);
    unlink(first);
    unlink(second);
    return 0;
}
