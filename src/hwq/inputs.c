/* Inputs of workloads, and the comparison of their outputs. */
#include "base/random.h"
#include "hwq/objects.h"
#include "ops/ops.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

aorta_status aorta_hwq_upload(struct aorta_hwq *hwq, void *to, const void *from, size_t bytes) {
    AORTA_TRY(aorta_copy(hwq->streams[0], to, from, bytes));
    return aorta_stream_synchronize(hwq->streams[0]);
}

aorta_status aorta_hwq_download(struct aorta_hwq *hwq, void *to, const void *from, size_t bytes) {
    AORTA_TRY(aorta_copy(hwq->streams[0], to, from, bytes));
    return aorta_stream_synchronize(hwq->streams[0]);
}

static aorta_status period_values(const struct aorta_hwq *hwq, uint64_t id, int64_t first, int64_t count, float scale,
                                  float *values) {
    const struct aorta_random random = {.seed = hwq->seed, .stream = id, .domain = AORTA_RANDOM_DATA};
    const struct aorta_normal_table *table = aorta_hwq_objects_table(hwq);
    if (!table) return AORTA_ERROR(AORTA_MEMORY, "no host memory for the inputs of a workload");
    for (int64_t done = 0; done < count;) {
        const int64_t at = (first + done) % AORTA_HWQ_PERIOD;
        const int64_t piece = count - done < AORTA_HWQ_PERIOD - at ? count - done : AORTA_HWQ_PERIOD - at;
        aorta_random_normal(&random, table, (uint64_t)at, (size_t)piece, values + done);
        done += piece;
    }
    for (int64_t i = 0; i < count; i++) values[i] *= scale;
    return NULL;
}

aorta_status aorta_hwq_values(const struct aorta_hwq *hwq, uint64_t id, int64_t first, int64_t count, float scale,
                              float *values) {
    return period_values(hwq, id, first, count, scale, values);
}

/* One period comes from the host; the device appends copies of it, whole periods at a time. */
static aorta_status repeat(struct aorta_stream *stream, char *memory, size_t element, int64_t count) {
    for (int64_t done = AORTA_HWQ_PERIOD; done < count;) {
        const int64_t piece = count - done < done ? count - done : done;
        AORTA_TRY(aorta_copy(stream, memory + (size_t)done * element, memory, (size_t)piece * element));
        done += piece;
    }
    return NULL;
}

static aorta_status fill_period(struct aorta_hwq *hwq, struct aorta_stream *stream, uint64_t id, enum aorta_dtype dtype,
                                int64_t count, float scale, void *memory, float *values) {
    AORTA_TRY(period_values(hwq, id, 0, count, scale, values));
    if (dtype == AORTA_F32) {
        AORTA_TRY(aorta_copy(stream, memory, values, (size_t)count * sizeof(float)));
        return aorta_stream_synchronize(stream); /* the values end here */
    }
    void *exact;
    AORTA_TRY(aorta_device_alloc(hwq->device, (size_t)count * sizeof(float), "inputs in fp32", &exact));
    aorta_status status = aorta_copy(stream, exact, values, (size_t)count * sizeof(float));
    if (!status) status = aorta_cast(stream, memory, dtype, exact, AORTA_F32, count, 1.0f);
    status = aorta_status_join(status, aorta_stream_synchronize(stream));
    aorta_device_free(hwq->device, exact);
    return status;
}

aorta_status aorta_hwq_fill(struct aorta_hwq *hwq, int stream, uint64_t id, enum aorta_dtype dtype, int64_t count,
                            float scale, void *memory) {
    const int64_t first = count < AORTA_HWQ_PERIOD ? count : AORTA_HWQ_PERIOD;
    if (!count) return NULL;
    float *values = malloc((size_t)first * sizeof *values);
    if (!values) return AORTA_ERROR(AORTA_MEMORY, "no host memory for the inputs of a workload");
    aorta_status status = fill_period(hwq, hwq->streams[stream], id, dtype, first, scale, memory, values);
    free(values);
    if (status) return status;
    return repeat(hwq->streams[stream], memory, aorta_dtype_size(dtype), count);
}

void aorta_hwq_compare(struct aorta_hwq_check *check, double got, double expected, double absolute, double relative,
                       const char *format, ...) {
    const double allowed = absolute + relative * fabs(expected);
    double error = fabs(got - expected) / allowed;
    if (got == expected && isfinite(got)) error = 0.0; /* a sum of zeros allows no error */
    if (isnan(error)) error = INFINITY;
    if (check->compared++ && error <= check->worst) return;
    check->worst = error;
    check->got = got;
    check->expected = expected;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(check->what, sizeof check->what, format, arguments);
    va_end(arguments);
}
