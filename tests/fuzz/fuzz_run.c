/* Any two texts as the metrics of two ranks: an error that names the directory, or a run with its verdict, whose text
 * can be made and whose summary is JSON. A byte 0 lies between the two; the first byte chooses the warm-up. */
#include "fuzz.h"
#include "report/summary.h"
#include "report/verdict_text.h"

#include <sys/stat.h>

static void check_verdict(const struct aorta_recorded *labelled) {
    const struct aorta_verdict *verdict = &labelled->verdict;
    struct aorta_text text = {0};
    for (size_t i = 0; i < verdict->rank_count; i++)
        for (int cause = 0; cause < AORTA_CAUSE_COUNT; cause++) fuzz_require(verdict->ranks[i].cause_ns[cause] >= 0);
    aorta_verdict_text(verdict, NULL, &text);
    fuzz_require(!text.failed);
    aorta_text_free(&text);
}

static aorta_status report(const char *directory, int warmup) {
    const struct aorta_log log = {.level = AORTA_LOG_ERROR, .rank = -1};
    struct aorta_recorded labelled;
    const struct aorta_trace_analysis_options options = {.warmup_given = warmup >= 0,
                                                         .warmup = warmup >= 0 ? (size_t)warmup : 0};
    AORTA_TRY(aorta_recorded_run(directory, "run", 0, &options, &log, &labelled));
    if (labelled.has_verdict) check_verdict(&labelled);
    struct aorta_text summary = {0};
    aorta_status status = aorta_summary_write(&labelled, 1, NULL, NULL, &summary);
    if (!status) fuzz_require_json(summary.data);
    aorta_text_free(&summary);
    aorta_recorded_free(&labelled);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size) return 0;
    const struct fuzz_halves halves = fuzz_split(data + 1, size - 1);
    char directory[FUZZ_PATH], first[FUZZ_PATH + 32], second[FUZZ_PATH + 32];
    fuzz_path(directory, "run");
    snprintf(first, sizeof first, "%s/rank_00_metrics.jsonl", directory);
    snprintf(second, sizeof second, "%s/rank_01_metrics.jsonl", directory);
    mkdir(directory, 0777);
    fuzz_write(first, halves.first.data, halves.first.size);
    if (halves.second.size) fuzz_write(second, halves.second.data, halves.second.size);
    aorta_status status = report(directory, data[0] % 4 - 1);
    if (status && !strstr(aorta_status_message(status), directory)) {
        fprintf(stderr, "the directory is not named: %s\n", aorta_status_message(status));
        abort();
    }
    aorta_status_free(status);
    unlink(first);
    unlink(second);
    rmdir(directory);
    return 0;
}
