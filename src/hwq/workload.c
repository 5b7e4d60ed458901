/* The table of workloads, their inputs, and the comparison of their outputs. */
#include "hwq/workload.h"
#include "base/random.h"
#include "hwq/objects.h"
#include "ops/ops.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORKLOAD(name) extern const struct aorta_hwq_workload aorta_hwq_##name;
#include "hwq/workloads.def"
#undef WORKLOAD

const struct aorta_hwq_workload *const aorta_hwq_workloads[] = {
#define WORKLOAD(name) &aorta_hwq_##name,
#include "hwq/workloads.def"
#undef WORKLOAD
    NULL};

const char *aorta_hwq_group_name(enum aorta_hwq_group group) {
    static const char *const names[AORTA_HWQ_GROUP_COUNT] = {"P0", "P1", "P2", "P3"};
    return names[group];
}

const char *aorta_hwq_category_name(enum aorta_hwq_category category) {
    static const char *const names[AORTA_HWQ_CATEGORY_COUNT] = {"latency_sensitive", "distributed", "inference",
                                                                "pipeline"};
    return names[category];
}

const char *aorta_hwq_sensitivity_name(enum aorta_hwq_sensitivity level) {
    static const char *const names[AORTA_HWQ_SENSITIVITY_COUNT] = {"low", "medium", "high", "critical"};
    return names[level];
}

const char *aorta_hwq_role(const struct aorta_hwq *hwq, const struct aorta_hwq_workload *workload, int stream) {
    int count = 0;
    if (workload->role) return workload->role(hwq, stream);
    while (workload->roles && workload->roles[count]) count++;
    return count ? workload->roles[stream % count] : NULL;
}

/* The distance of the word to the name or to the name's beginning of that length; SIZE_MAX: neither is near. */
static size_t distance_of(const char *word, const char *name) {
    char beginning[64];
    const size_t whole = aorta_near_distance(word, name), length = strlen(word);
    if (length >= sizeof beginning || length >= strlen(name)) return whole;
    memcpy(beginning, name, length);
    beginning[length] = '\0';
    const size_t begun = aorta_near_distance(word, beginning);
    return begun < whole ? begun : whole;
}

static aorta_status unknown(const char *word) {
    const char *nearest = NULL;
    size_t least = SIZE_MAX;
    for (size_t i = 0; aorta_hwq_workloads[i]; i++) {
        const size_t distance = distance_of(word, aorta_hwq_workloads[i]->name);
        if (distance >= least) continue;
        least = distance;
        nearest = aorta_hwq_workloads[i]->name;
    }
    return AORTA_ERROR(AORTA_USAGE, "unknown workload \"%s\"%s%s%s; aorta hwq list shows them all", word,
                       nearest ? "; did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?" : "");
}

aorta_status aorta_hwq_find(const char *name, const struct aorta_hwq_workload **workload) {
    for (size_t i = 0; aorta_hwq_workloads[i]; i++) {
        if (strcmp(aorta_hwq_workloads[i]->name, name) != 0) continue;
        *workload = aorta_hwq_workloads[i];
        return NULL;
    }
    return unknown(name);
}

/* ---- inputs, and the comparison of outputs ---- */

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

/* The host sends one period; the device appends copies, whole periods at a time. */
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
