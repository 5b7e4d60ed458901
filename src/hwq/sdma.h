/* Copy time that copy engines hide (`aorta sdma`): a matrix product on one stream and an asynchronous copy on another
 * of high priority, each alone, one after the other, and together.
 *
 * Both are queued after a gate, a kernel that ends when the host has queued everything, so that launches do not count.
 * Times are device time from the end of the gate to a timestamp after the work. Timestamps are kernels, which a matrix
 * product can delay. So on GPUs the host polls an event for the end of a copy while the product runs, accurate to some
 * microseconds.
 *
 * The four kinds of runs alternate, so that a device that gets warm or is shared disturbs all equally. */
#ifndef AORTA_HWQ_SDMA_H
#define AORTA_HWQ_SDMA_H

#include "base/dtype.h"
#include "base/progress.h"
#include "base/statistics.h"
#include "device/device.h"
#include "hwq/findings.h"

enum aorta_sdma_direction {
    AORTA_SDMA_D2H,
    AORTA_SDMA_H2D,
    AORTA_SDMA_D2D,
    AORTA_SDMA_P2P,
    AORTA_SDMA_DIRECTION_COUNT
};

struct aorta_sdma_options {
    struct aorta_device *device;
    struct aorta_device *peer; /* p2p: another device of the same kind; NULL else */
    enum aorta_sdma_direction direction;
    enum aorta_dtype dtype; /* of the matrices: fp32, bf16, fp16 */
    int64_t matrix_size;
    size_t copy_bytes;
    int iterations, warmup;
    struct aorta_progress *progress; /* NULL: none */
};

enum aorta_sdma_mode {
    AORTA_SDMA_GEMM,
    AORTA_SDMA_COPY,
    AORTA_SDMA_SERIAL,
    AORTA_SDMA_TOGETHER,
    AORTA_SDMA_MODE_COUNT,
    /* The two parts of the last one. */
    AORTA_SDMA_GEMM_TOGETHER = AORTA_SDMA_MODE_COUNT,
    AORTA_SDMA_COPY_TOGETHER,
    AORTA_SDMA_TIME_COUNT
};

struct aorta_sdma {
    struct aorta_arena arena;
    struct aorta_sdma_options options;
    double *samples_ms[AORTA_SDMA_TIME_COUNT];         /* raw, [iterations] */
    struct aorta_summary times[AORTA_SDMA_TIME_COUNT]; /* of the samples, ms */
    bool polled;                                       /* the copy's time together comes from the host's polling */
    bool direct;                                       /* p2p: not through the host */
    size_t verified;   /* bytes of the copy that were compared after each kind of run; all equal */
    double gemm_error; /* largest error of the product's checked elements, relative to the allowed one */
    /* From medians. */
    double ideal_ms;       /* the longer of product and copy alone */
    double saved;          /* share of the time in turn */
    double share_of_ideal; /* ideal / together: 1 is perfect */
    double hidden;         /* share of the shorter one during the longer one: 1 is all */
    double gemm_tflops;
    double copy_alone_gbps, copy_together_gbps; /* 10^9 bytes/s */
    struct aorta_found_list found;
};

/* AORTA_DEVICE when the copied bytes or the product are wrong. */
AORTA_MUST_USE aorta_status aorta_sdma_run(const struct aorta_sdma_options *options, struct aorta_sdma *result);
void aorta_sdma_free(struct aorta_sdma *result);

void aorta_sdma_text(const struct aorta_sdma *result, struct aorta_text *text);
void aorta_sdma_json(const struct aorta_sdma *result, struct aorta_text *text);
void aorta_sdma_schema(struct aorta_json *json);
/* The times as a file of the folder. AORTA_IO, AORTA_MEMORY. */
extern const struct aorta_result_table *const aorta_sdma_tables[]; /* of the page; ends with NULL */
AORTA_MUST_USE aorta_status aorta_sdma_csv(const struct aorta_sdma *result, const char *folder);

/* Fills the figures and findings from the samples; device, iterations, direction, sizes and samples are given.
 * AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_sdma_evaluate(struct aorta_sdma *result);

#endif
