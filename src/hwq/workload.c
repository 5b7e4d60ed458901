/* The table of workloads, their inputs, and the comparison of their outputs. */
#include "hwq/workload.h"
#include "ops/ops.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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

const char *aorta_hwq_role(const struct aorta_hwq *hwq, int stream) {
    const struct aorta_hwq_workload *workload = hwq->workload;
    int count = 0;
    if (workload->role) return workload->role(hwq, stream);
    while (workload->roles && workload->roles[count]) count++;
    return count ? workload->roles[stream % count] : NULL;
}

enum aorta_priority aorta_hwq_priority(const struct aorta_hwq *hwq, int stream) {
    return hwq->workload->priority ? hwq->workload->priority(hwq, stream) : AORTA_PRIORITY_NORMAL;
}

/* Distance of the word to the name, or to the name's beginning of equal length. SIZE_MAX if both are far. */
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
    return AORTA_ERROR(AORTA_USAGE, "unknown workload \"%s\"; aorta hwq list shows them all%s%s%s", word,
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

aorta_status aorta_hwq_transfer(struct aorta_hwq *hwq, void *to, const void *from, size_t bytes) {
    AORTA_TRY(aorta_copy(hwq->streams[0], to, from, bytes));
    return aorta_stream_synchronize(hwq->streams[0]);
}

aorta_status aorta_hwq_values(struct aorta_hwq *hwq, uint64_t id, int64_t first, int64_t count, float scale,
                              float *values) {
    const struct aorta_random random = {.seed = hwq->seed, .stream = id, .domain = AORTA_RANDOM_DATA};
    if (!hwq->table) {
        hwq->table = aorta_arena_raw(hwq->arena, sizeof *hwq->table);
        if (!hwq->table) return AORTA_ERROR(AORTA_MEMORY, "no host memory for the inputs of a workload");
        aorta_normal_table_fill(hwq->table);
    }
    for (int64_t done = 0; done < count;) {
        const int64_t at = (first + done) % AORTA_HWQ_PERIOD;
        const int64_t piece = count - done < AORTA_HWQ_PERIOD - at ? count - done : AORTA_HWQ_PERIOD - at;
        aorta_random_normal(&random, hwq->table, (uint64_t)at, (size_t)piece, values + done);
        done += piece;
    }
    for (int64_t i = 0; i < count; i++) values[i] *= scale;
    return NULL;
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
    AORTA_TRY(aorta_hwq_values(hwq, id, 0, count, scale, values));
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

void aorta_hwq_compare(struct aorta_hwq_check *check, double got, double expected, double allowed, const char *format,
                       ...) {
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

struct reader {
    const char *text, *at;
    int world_size;
    struct aorta_hwq_group_list *list;
};

static aorta_status wrong(const struct reader *reader, const char *what) {
    return AORTA_ERROR(AORTA_USAGE,
                       "--process-groups \"%s\": %s at character %td; groups are written as in \"[0,1],[2,3]\"",
                       reader->text, what, reader->at - reader->text + 1);
}

static void skip_spaces(struct reader *reader) {
    while (isspace((unsigned char)*reader->at)) reader->at++;
}

static bool take(struct reader *reader, char wanted) {
    skip_spaces(reader);
    if (*reader->at != wanted) return false;
    reader->at++;
    return true;
}

/* Adds a rank to the group that is being read, the last one of the list. */
static aorta_status read_rank(struct reader *reader) {
    struct aorta_hwq_group_list *list = reader->list;
    int *end_of_group = &list->first[list->groups + 1];
    char *end;
    skip_spaces(reader);
    if (!isdigit((unsigned char)*reader->at)) return wrong(reader, "a rank is missing");
    errno = 0;
    const long value = strtol(reader->at, &end, 10);
    if (errno || value >= reader->world_size)
        return AORTA_ERROR(AORTA_USAGE, "--process-groups \"%s\": there is no rank %ld; this job has ranks 0 to %d",
                           reader->text, value, reader->world_size - 1);
    if (aorta_hwq_group_has(list, list->groups, (int)value))
        return AORTA_ERROR(AORTA_USAGE, "--process-groups \"%s\": rank %ld is listed twice in one group", reader->text,
                           value);
    if (*end_of_group == AORTA_HWQ_MOST_MEMBERS) return wrong(reader, "more than 4096 ranks are listed");
    list->ranks[(*end_of_group)++] = (int)value;
    reader->at = end;
    return NULL;
}

static aorta_status read_group(struct reader *reader) {
    struct aorta_hwq_group_list *list = reader->list;
    if (list->groups == AORTA_HWQ_MOST_GROUPS) return wrong(reader, "a 65th group begins");
    if (!take(reader, '[')) return wrong(reader, "\"[\" is missing");
    list->first[list->groups + 1] = list->first[list->groups];
    do AORTA_TRY(read_rank(reader));
    while (take(reader, ','));
    if (!take(reader, ']')) return wrong(reader, "\",\" or \"]\" is missing");
    list->groups++;
    return NULL;
}

aorta_status aorta_hwq_groups_parse(const char *text, int world_size, struct aorta_hwq_group_list *list) {
    struct reader reader = {.text = text, .at = text, .world_size = world_size, .list = list};
    list->groups = list->first[0] = 0;
    do AORTA_TRY(read_group(&reader));
    while (take(&reader, ','));
    skip_spaces(&reader);
    return *reader.at ? wrong(&reader, "\",\" or the end is missing") : NULL;
}

int aorta_hwq_group_size(const struct aorta_hwq_group_list *list, int group) {
    return list->first[group + 1] - list->first[group];
}

bool aorta_hwq_group_has(const struct aorta_hwq_group_list *list, int group, int rank) {
    for (int i = list->first[group]; i < list->first[group + 1]; i++)
        if (list->ranks[i] == rank) return true;
    return false;
}

aorta_status aorta_hwq_size_parse(const char *option, const char *text, int64_t *bytes) {
    static const char *const endings[][4] = {{"", "B"}, {"K", "KB", "KiB"}, {"M", "MB", "MiB"}, {"G", "GB", "GiB"}};
    char *end;
    errno = 0;
    const double number = strtod(text, &end);
    for (int power = 0; power < 4 && end != text && !errno; power++)
        for (int i = 0; i < 4 && endings[power][i]; i++) {
            if (strcasecmp(end, endings[power][i]) != 0) continue;
            const double size = number * (double)((int64_t)1 << (10 * power));
            if (!(size >= 1.0 && size <= 0x1p45)) continue;
            *bytes = (int64_t)size;
            return NULL;
        }
    return AORTA_ERROR(AORTA_USAGE, "--%s \"%s\": a number of bytes is expected, as in 65536, 64K, 128M or 1G", option,
                       text);
}

aorta_status aorta_hwq_shape_parse(const char *option, const char *text, int64_t shape[3]) {
    const char *at = text;
    int count = 0;
    for (; count < 3; count++) {
        char *end;
        errno = 0;
        shape[count] = strtoll(at, &end, 10);
        if (errno || end == at || shape[count] < 1 || shape[count] > 1 << 20) break;
        at = end;
        if (*at != ',') {
            count++;
            break;
        }
        at++;
    }
    if (*at || (count != 1 && count != 3))
        return AORTA_ERROR(AORTA_USAGE,
                           "--%s \"%s\": one size or three, M,N,K, from 1 to %d are expected, as in 4096 or "
                           "4096,1024,8192",
                           option, text, 1 << 20);
    if (count == 1) shape[1] = shape[2] = shape[0];
    return NULL;
}
