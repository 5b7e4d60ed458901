#include "sample.h"

#include "base/files.h"
#include "check.h"

#include <glob.h>
#include <stdlib.h>
#include <unistd.h>

static void put_text(struct aorta_spool *spool, uint32_t id, const char *text) {
    size_t length = strlen(text);
    struct aorta_spool_text record = {.id = id, .length = (uint32_t)length};
    aorta_spool_put_texts(spool, AORTA_SPOOL_TEXT, &record, sizeof record, &text, &length, 1);
}

static void put_process(struct aorta_spool *spool) {
    const char *const texts[] = {"python train.py", "/lib/libcupti.so.13", "node7"};
    const size_t lengths[] = {15, 19, 5};
    struct aorta_spool_process process = {.pid = 4711,
                                          .rank = 3,
                                          .world = 8,
                                          .local_rank = 3,
                                          .local_world = 8,
                                          .cupti = 130001,
                                          .driver = 13000,
                                          .start_ns = 900,
                                          .command_length = 15,
                                          .library_length = 19,
                                          .host_length = 5};
    aorta_spool_put_texts(spool, AORTA_SPOOL_PROCESS, &process, sizeof process, texts, lengths, 3);
}

static void put_work(struct aorta_spool *spool) {
    struct aorta_spool_kernel kernel = {.start_ns = 1000,
                                        .end_ns = 2000,
                                        .correlation = 1,
                                        .name = 1,
                                        .context = 1,
                                        .stream = 7,
                                        .channel = 8,
                                        .grid = {4, 1, 1},
                                        .block = {128, 1, 1}};
    aorta_spool_put(spool, AORTA_SPOOL_KERNEL, 1, &kernel, sizeof kernel);
    kernel.start_ns += 500, kernel.end_ns += 500, kernel.correlation = 2, kernel.name = 2, kernel.stream = 20;
    kernel.graph = 5;
    aorta_spool_put(spool, AORTA_SPOOL_KERNEL, 1, &kernel, sizeof kernel);
    struct aorta_spool_transfer transfer = {
        .start_ns = 2600, .end_ns = 2700, .bytes = 64, .correlation = 3, .context = 1, .stream = 7};
    aorta_spool_put(spool, AORTA_SPOOL_COPY, 2, &transfer, sizeof transfer);
    transfer.start_ns = 2800, transfer.end_ns = 2900, transfer.correlation = 4;
    aorta_spool_put(spool, AORTA_SPOOL_FILL, 0, &transfer, sizeof transfer);
}

static void put_host(struct aorta_spool *spool) {
    struct aorta_spool_call call = {.start_ns = 900, .end_ns = 950, .correlation = 1, .name = 3, .thread = 12};
    struct aorta_spool_mark mark = {.time_ns = 850, .id = 9, .name = 4, .thread = 12};
    struct aorta_spool_device device = {
        .id = 0, .name = 5, .multiprocessors = 132, .major = 9, .minor = 0, .memory_bytes = 80};
    aorta_spool_put(spool, AORTA_SPOOL_DEVICE, 0, &device, sizeof device);
    aorta_spool_put(spool, AORTA_SPOOL_CALL, 0, &call, sizeof call);
    aorta_spool_put(spool, AORTA_SPOOL_MARK, 1, &mark, sizeof mark);
    mark.time_ns = 3000;
    aorta_spool_put(spool, AORTA_SPOOL_MARK, 2, &mark, sizeof mark);
    struct aorta_spool_record newer[2] = {{0}}; /* of a type that this version does not know */
    aorta_spool_put(spool, (enum aorta_spool_type)99, 0, newer, sizeof newer);
    aorta_spool_note(spool, 3100, "a note of %d", 42);
}

/* A graph of one launch, which runs nothing. */
static void put_capture(struct aorta_spool *spool) {
    static const uint32_t names[] = {6, 3, 7};
    put_text(spool, 6, "cudaStreamBeginCapture");
    put_text(spool, 7, "cudaStreamEndCapture");
    for (uint32_t i = 0; i < 3; i++) {
        struct aorta_spool_call call = {.start_ns = 3200 + 10 * (int64_t)i,
                                        .end_ns = 3205 + 10 * (int64_t)i,
                                        .correlation = 50 + i,
                                        .name = names[i],
                                        .thread = 12};
        aorta_spool_put(spool, AORTA_SPOOL_CALL, 0, &call, sizeof call);
    }
}

static void find_ends(const uint8_t *bytes, size_t length, size_t ends[32]) {
    size_t at = sizeof(struct aorta_spool_head), count = 0;
    while (at < length) {
        uint32_t size;
        memcpy(&size, bytes + at, sizeof size);
        ends[count++] = at += size;
    }
    ends[count] = 0;
}

uint8_t *sample_make(size_t *length, size_t ends[32]) {
    static const char *const texts[] = {"gemm", "ncclDevKernel_AllGather", "cudaLaunchKernel", "ProfilerStep#5",
                                        "H100"};
    char directory[] = "/tmp/aorta_sample_XXXXXX", pattern[64];
    struct aorta_spool *spool = calloc(1, sizeof *spool);
    assert_non_null(spool);
    assert_non_null(mkdtemp(directory));
    assert_int_equal(aorta_spool_open(spool, directory, 1 << 20), 0);
    put_process(spool);
    for (uint32_t i = 0; i < sizeof texts / sizeof *texts; i++) put_text(spool, i + 1, texts[i]);
    put_work(spool);
    put_host(spool);
    put_capture(spool);
    spool->head.lost = 17;
    aorta_spool_set_state(spool, AORTA_SPOOL_ENDED, 0);
    aorta_spool_close(spool);
    free(spool);

    glob_t found;
    char *bytes;
    snprintf(pattern, sizeof pattern, "%s/*" AORTA_SPOOL_SUFFIX, directory);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    check_ok(aorta_file_read(found.gl_pathv[0], &bytes, length));
    unlink(found.gl_pathv[0]);
    globfree(&found);
    rmdir(directory);
    find_ends((const uint8_t *)bytes, *length, ends);
    return (uint8_t *)bytes;
}
