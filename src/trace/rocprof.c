/* Collects the records of rocprofv3's files; rocprof_build.c makes traces of them. */
#include "trace/rocprof.h"
#include "base/array.h"
#include "trace/builder.h"
#include "trace/open.h"
#include "trace/rocprof_internal.h"

#include <stdlib.h>
#include <string.h>

const struct aorta_rocprof_record aorta_rocprof_nothing = {
    .start_ns = INT64_MIN,
    .end_ns = INT64_MIN,
    .correlation = -1,
    .thread = -1,
    .kind = -1,
    .operation = -1,
    .kernel = -1,
    .dispatch = -1,
    .agent = -1,
    .queue = -1,
    .stream = -1,
    .source = -1,
    .destination = -1,
    .bytes = -1,
    .offset = -1,
};

aorta_status aorta_rocprof_create(enum aorta_trace_format format, const char *path,
                                  const struct aorta_trace_options *options, struct aorta_rocprof **rocprof) {
    struct aorta_rocprof *made = calloc(1, sizeof *made);
    if (made) made->path = strdup(path);
    if (!made || !made->path) {
        free(made);
        return AORTA_ERROR(AORTA_MEMORY, "%s: no memory to read it", path);
    }
    made->format = format;
    made->options = options;
    made->process = -1;
    made->rank = made->world = -1;
    *rocprof = made;
    return NULL;
}

void aorta_rocprof_destroy(struct aorta_rocprof *rocprof) {
    if (!rocprof) return;
    struct rocprof_rows *const rows[] = {&rocprof->work,       &rocprof->calls,    &rocprof->agents,  &rocprof->symbols,
                                         &rocprof->operations, &rocprof->messages, &rocprof->launched};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) free(rows[i]->items);
    aorta_intern_free(&rocprof->strings);
    free(rocprof->path);
    free(rocprof);
}

/* Memory for one more, zeroed; NULL (and `failed`) when memory is exhausted. */
static void *push(struct aorta_rocprof *rocprof, struct rocprof_rows *rows, size_t size) {
    if (!aorta_array_fit(&rows->items, &rows->capacity, rows->count + 1, size)) {
        rocprof->failed = true;
        return NULL;
    }
    void *row = (char *)rows->items + rows->count++ * size;
    memset(row, 0, size);
    return row;
}

static const char *keep(struct aorta_rocprof *rocprof, const char *text, size_t length) {
    char *copy = strndup(text, length);
    const char *interned = copy ? aorta_intern(&rocprof->strings, copy) : NULL;
    if (!interned) rocprof->failed = true;
    free(copy);
    return interned;
}

void aorta_rocprof_process(struct aorta_rocprof *rocprof, int64_t process) {
    rocprof->process = process;
}

void aorta_rocprof_rank(struct aorta_rocprof *rocprof, int32_t rank, int32_t world) {
    rocprof->rank = rank;
    rocprof->world = world;
}

void aorta_rocprof_warn(struct aorta_rocprof *rocprof, enum aorta_trace_reason reason, int64_t offset) {
    struct aorta_trace_warning *warning = &rocprof->warnings[reason];
    if (!warning->count++) warning->offset = offset;
}

/* ---- what records refer to ---- */

void aorta_rocprof_add_agent(struct aorta_rocprof *rocprof, const struct aorta_rocprof_agent *agent) {
    struct rocprof_agent *row = push(rocprof, &rocprof->agents, sizeof *row);
    if (!row) return;
    row->key = agent->key;
    row->device = agent->device;
    row->gpu = agent->gpu;
    row->multiprocessors = agent->multiprocessors;
    if (agent->name) row->name = keep(rocprof, agent->name, strlen(agent->name));
}

static void add_name(struct aorta_rocprof *rocprof, struct rocprof_rows *rows, int64_t a, int64_t b, const char *name,
                     size_t length) {
    struct rocprof_name *row = push(rocprof, rows, sizeof *row);
    if (row) *row = (struct rocprof_name){a, b, keep(rocprof, name, length)};
}

void aorta_rocprof_add_symbol(struct aorta_rocprof *rocprof, int64_t kernel, const char *name, size_t length) {
    add_name(rocprof, &rocprof->symbols, kernel, 0, name, length);
}

void aorta_rocprof_add_operation(struct aorta_rocprof *rocprof, int64_t kind, int64_t operation, const char *name,
                                 size_t length) {
    add_name(rocprof, &rocprof->operations, kind, operation, name, length);
    rocprof->operations_sorted = false;
}

void aorta_rocprof_add_message(struct aorta_rocprof *rocprof, int64_t correlation, const char *text, size_t length) {
    add_name(rocprof, &rocprof->messages, correlation, 0, text, length);
}

static int by_number(const void *left, const void *right) {
    const struct rocprof_name *a = left, *b = right;
    if (a->a != b->a) return a->a < b->a ? -1 : 1;
    return (a->b > b->b) - (a->b < b->b);
}

const char *aorta_rocprof_operation(struct aorta_rocprof *rocprof, int64_t kind, int64_t operation) {
    struct rocprof_rows *rows = &rocprof->operations;
    if (rows->count == 0) return NULL;
    if (!rocprof->operations_sorted) qsort(rows->items, rows->count, sizeof(struct rocprof_name), by_number);
    rocprof->operations_sorted = true;
    const struct rocprof_name key = {kind, operation, NULL};
    const struct rocprof_name *found = bsearch(&key, rows->items, rows->count, sizeof key, by_number);
    return found ? found->name : NULL;
}

/* ---- records ---- */

bool aorta_rocprof_domain_of(const char *kind, size_t length, enum aorta_rocprof_domain *domain) {
    static const struct {
        const char *prefix;
        enum aorta_rocprof_domain domain;
    } prefixes[] = {
        {"KERNEL_DISPATCH", AORTA_ROCPROF_DISPATCH},
        {"MEMORY_COPY", AORTA_ROCPROF_COPY},
        {"HIP_", AORTA_ROCPROF_HIP},
        {"HSA_", AORTA_ROCPROF_HSA},
        {"RCCL_", AORTA_ROCPROF_RCCL},
        {"MARKER_", AORTA_ROCPROF_MARKER},
    };
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        size_t prefix = strlen(prefixes[i].prefix);
        if (length < prefix || memcmp(kind, prefixes[i].prefix, prefix) != 0) continue;
        *domain = prefixes[i].domain;
        return true;
    }
    return false;
}

/* One bit for each correlation id that device work bears. Ids count from 1; absurd ones are not remembered. */
enum { HIGHEST_ID = 1 << 30 };

static void remember_launch(struct aorta_rocprof *rocprof, int64_t correlation) {
    if (correlation < 0 || correlation > HIGHEST_ID) return;
    size_t byte = (size_t)correlation / 8;
    struct rocprof_rows *bits = &rocprof->launched;
    rocprof->failed |= !aorta_array_extend(&bits->items, &bits->count, byte + 1, 1);
    if (rocprof->failed) return;
    ((unsigned char *)bits->items)[byte] |= (unsigned char)(1 << correlation % 8);
}

static bool launched_work(const struct aorta_rocprof *rocprof, int64_t correlation) {
    size_t byte = (size_t)correlation / 8;
    if (correlation < 0 || byte >= rocprof->launched.count) return correlation > HIGHEST_ID;
    return ((const unsigned char *)rocprof->launched.items)[byte] >> correlation % 8 & 1;
}

/* Files list device work first, so that most calls (hipGetDevice, hipSetDevice, …) can be dropped as they come. */
static bool matters(const struct aorta_rocprof *rocprof, const char *name, int64_t correlation) {
    enum aorta_trace_call_kind kind;
    if (!name || rocprof->work.count == 0) return true;
    return aorta_trace_call_classify(name, &kind) || launched_work(rocprof, correlation);
}

static void add_call(struct aorta_rocprof *rocprof, enum aorta_rocprof_domain domain,
                     const struct aorta_rocprof_record *record) {
    const char *name = record->name ? keep(rocprof, record->name, record->name_length)
                                    : aorta_rocprof_operation(rocprof, record->kind, record->operation);
    bool runtime = domain == AORTA_ROCPROF_HIP || domain == AORTA_ROCPROF_HSA;
    if (runtime && !matters(rocprof, name, record->correlation)) return;
    struct rocprof_call *row = push(rocprof, &rocprof->calls, sizeof *row);
    if (!row) return;
    *row = (struct rocprof_call){
        .start_ns = record->start_ns,
        .end_ns = record->end_ns,
        .correlation = record->correlation,
        .thread = record->thread,
        .name = name,
        .kind = (int32_t)record->kind,
        .operation = (int32_t)record->operation,
        .domain = (uint8_t)domain,
    };
}

/* Thread blocks of a dispatch, whose grid is counted in threads. All 0 when its sizes make no sense. */
static void add_geometry(const struct aorta_rocprof_record *record, struct rocprof_work *row) {
    for (int axis = 0; axis < 3; axis++) {
        int64_t group = record->group[axis], grid = record->grid[axis];
        if (group <= 0 || grid <= 0 || group > INT32_MAX || grid > INT32_MAX) return;
    }
    for (int axis = 0; axis < 3; axis++) {
        row->threads[axis] = (int32_t)record->group[axis];
        row->blocks[axis] = (int32_t)((record->grid[axis] - 1) / record->group[axis] + 1);
    }
}

/* The agent that makes a copy: the GPU of the two; between GPUs, the source. */
static int64_t copying_agent(const char *direction, const struct aorta_rocprof_record *record) {
    if (record->agent >= 0) return record->agent;
    bool to_device = direction && strstr(direction, "HOST_TO_DEVICE");
    return to_device ? record->destination : record->source;
}

/* "MEMORY_COPY_HOST_TO_DEVICE" (or older "HOST_TO_DEVICE") as "copy host to device". */
static const char *copy_name(struct aorta_rocprof *rocprof, const char *operation) {
    static const char prefix[] = "MEMORY_COPY_";
    char name[64] = "copy ";
    if (!operation || strlen(operation) > 40) return keep(rocprof, "copy", 4);
    if (strncmp(operation, prefix, sizeof prefix - 1) == 0) operation += sizeof prefix - 1;
    size_t length = strlen(name);
    for (const char *c = operation; *c; c++) {
        char lower = *c >= 'A' && *c <= 'Z' ? (char)(*c - 'A' + 'a') : *c;
        name[length++] = lower == '_' ? ' ' : lower;
    }
    return keep(rocprof, name, length);
}

static void count_dispatch(struct aorta_rocprof *rocprof, int64_t number) {
    if (!rocprof->dispatches || number < rocprof->first_dispatch) rocprof->first_dispatch = number;
    if (!rocprof->dispatches || number > rocprof->last_dispatch) rocprof->last_dispatch = number;
    rocprof->dispatches++;
}

static void add_work(struct aorta_rocprof *rocprof, enum aorta_rocprof_domain domain,
                     const struct aorta_rocprof_record *record) {
    bool copy = domain == AORTA_ROCPROF_COPY;
    const char *name = record->name ? keep(rocprof, record->name, record->name_length) : NULL;
    if (copy && !name) name = aorta_rocprof_operation(rocprof, record->kind, record->operation);
    /* Between two places of the host no device has a part in it. */
    if (copy && name && strstr(name, "HOST_TO_HOST")) return;
    struct rocprof_work *row = push(rocprof, &rocprof->work, sizeof *row);
    if (!row) return;
    *row = (struct rocprof_work){
        .start_ns = record->start_ns,
        .end_ns = record->end_ns,
        .correlation = record->correlation,
        .stream = record->stream < 0 && !copy ? record->queue : record->stream,
        .queue = record->queue,
        .bytes = record->bytes,
        .kernel = record->kernel,
        .agent = copy ? copying_agent(name, record) : record->agent,
        .offset = record->offset,
        .name = copy ? copy_name(rocprof, name) : name,
        .kind = copy ? AORTA_TRACE_COPY : AORTA_TRACE_KERNEL,
    };
    if (!copy) add_geometry(record, row);
    if (!copy && record->dispatch >= 0) count_dispatch(rocprof, record->dispatch);
    remember_launch(rocprof, record->correlation);
}

void aorta_rocprof_add(struct aorta_rocprof *rocprof, enum aorta_rocprof_domain domain,
                       const struct aorta_rocprof_record *record) {
    rocprof->events++;
    bool work = domain == AORTA_ROCPROF_DISPATCH || domain == AORTA_ROCPROF_COPY;
    if (!aorta_trace_times_fit(record->start_ns, record->end_ns)) { /* missing ones are INT64_MIN */
        aorta_rocprof_warn(rocprof, work ? AORTA_REASON_BAD_EVENT : AORTA_REASON_ODD_VALUE, record->offset);
        return;
    }
    if (work)
        add_work(rocprof, domain, record);
    else
        add_call(rocprof, domain, record);
}
