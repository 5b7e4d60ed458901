/* Functions and structs as rocprofiler-sdk 1.0's headers declare them. The client's declarations are under test, so
 * records are laid out here by offset. */
#include "fake_rocprofiler/fake_rocprofiler.h"
#include "fake_cupti/fake_cupti.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

enum {
    SUCCESS = 0,
    INVALID_ARGUMENT = 19,
    LOCKED = 16,
    COPY_RECORD = 10,
    DISPATCH_RECORD = 11,
    CODE_OBJECT = 10,
    HIP_STREAM = 20,
    DISPATCH_BYTES = 184,
    COPY_BYTES = 96,
    RECORDS = 4096
};

typedef struct {
    uint32_t category, kind;
    void *payload;
} header;

typedef struct { /* by value: 64 bytes */
    uint64_t context, thread, internal, external, ancestor;
    uint32_t kind, operation, phase, padding;
    void *payload;
} event_record;
_Static_assert(sizeof(event_record) == 64, "of AMD's header");

typedef struct {
    size_t size;
    int (*initialize)(void (*finalize)(void), void *data);
    void (*finalize)(void *data);
    void *data;
} tool_result;

typedef tool_result *configure_function(uint32_t version, const char *text, uint32_t priority, void *client);
typedef void records_function(uint64_t context, uint64_t buffer, header **headers, size_t count, void *data,
                              uint64_t dropped);
typedef void event_function(event_record record, uint64_t *data, void *user);
typedef int request_function(uint64_t thread, uint64_t context, uint32_t kind, int32_t operation, uint64_t internal,
                             uint64_t *external, void *user);

static struct {
    pthread_mutex_t lock;
    uint32_t major, minor, patch;
    char refused[64];
    uint32_t refusal;
    bool configuring, configured;
    uint64_t contexts, buffer_context;
    bool started[8];
    records_function *on_records;
    void *records_data;
    size_t watermark, used;
    uint8_t kinds[32]; /* buffered */
    event_function *on_code, *on_stream;
    uint64_t stream_context, code_context;
    request_function *on_request;
    uint8_t storage[RECORDS][DISPATCH_BYTES];
    header headers[RECORDS];
    size_t count;
    uint64_t lost, internal;
} sdk = {.lock = PTHREAD_MUTEX_INITIALIZER, .major = 1};

#define EXPORT __attribute__((visibility("default")))

static uint32_t refusal_of(const char *function) {
    return strcmp(sdk.refused, function) == 0 ? sdk.refusal : SUCCESS;
}

EXPORT uint32_t rocprofiler_get_version(uint32_t *major, uint32_t *minor, uint32_t *patch);
EXPORT uint32_t rocprofiler_get_timestamp(uint64_t *ns);
EXPORT const char *rocprofiler_get_status_string(uint32_t status);
EXPORT uint32_t rocprofiler_force_configure(configure_function *configure);
EXPORT uint32_t rocprofiler_create_context(uint64_t *context);
EXPORT uint32_t rocprofiler_start_context(uint64_t context);
EXPORT uint32_t rocprofiler_stop_context(uint64_t context);
EXPORT uint32_t rocprofiler_create_buffer(uint64_t context, size_t size, size_t watermark, uint32_t policy,
                                          records_function *callback, void *data, uint64_t *buffer);
EXPORT uint32_t rocprofiler_flush_buffer(uint64_t buffer);
EXPORT uint32_t rocprofiler_configure_buffer_tracing_service(uint64_t context, uint32_t kind, const int32_t *operations,
                                                             size_t count, uint64_t buffer);
EXPORT uint32_t rocprofiler_configure_callback_tracing_service(uint64_t context, uint32_t kind,
                                                               const int32_t *operations, size_t count,
                                                               event_function *callback, void *data);
EXPORT uint32_t rocprofiler_configure_external_correlation_id_request_service(uint64_t context, const uint32_t *kinds,
                                                                              size_t count, request_function *callback,
                                                                              void *data);

uint32_t rocprofiler_get_version(uint32_t *major, uint32_t *minor, uint32_t *patch) {
    *major = sdk.major, *minor = sdk.minor, *patch = sdk.patch;
    return SUCCESS;
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec + FAKE_CLOCK_AHEAD_NS;
}

uint32_t rocprofiler_get_timestamp(uint64_t *ns) {
    *ns = now();
    return SUCCESS;
}

const char *rocprofiler_get_status_string(uint32_t status) {
    return status == LOCKED ? "ROCPROFILER_STATUS_ERROR_CONFIGURATION_LOCKED" : "ROCPROFILER_STATUS_ERROR";
}

uint32_t rocprofiler_force_configure(configure_function *configure) {
    if (refusal_of(__func__)) return refusal_of(__func__);
    if (sdk.configured) return LOCKED;
    struct {
        size_t size;
        const char *name;
        uint32_t handle;
    } client = {sizeof client, NULL, 1};
    sdk.configured = sdk.configuring = true;
    const tool_result *tool = configure(sdk.major * 10000 + sdk.minor * 100 + sdk.patch, "fake", 0, &client);
    if (tool && tool->size >= sizeof *tool && tool->initialize(NULL, tool->data)) sdk.on_records = NULL;
    sdk.configuring = false;
    return SUCCESS;
}

uint32_t rocprofiler_create_context(uint64_t *context) {
    if (!sdk.configuring) return LOCKED;
    *context = ++sdk.contexts;
    return refusal_of(__func__);
}

static bool is_context(uint64_t context) {
    return context > 0 && context <= sdk.contexts && context < sizeof sdk.started;
}

uint32_t rocprofiler_start_context(uint64_t context) {
    if (!is_context(context)) return INVALID_ARGUMENT;
    if (refusal_of(__func__)) return refusal_of(__func__);
    sdk.started[context] = true;
    return SUCCESS;
}

uint32_t rocprofiler_stop_context(uint64_t context) {
    if (!is_context(context)) return INVALID_ARGUMENT;
    sdk.started[context] = false;
    return SUCCESS;
}

uint32_t rocprofiler_create_buffer(uint64_t context, size_t size, size_t watermark, uint32_t policy,
                                   records_function *callback, void *data, uint64_t *buffer) {
    if (!sdk.configuring) return LOCKED;
    if (!is_context(context) || !callback || policy < 1 || policy > 2 || watermark > size) return INVALID_ARGUMENT;
    sdk.buffer_context = context;
    sdk.on_records = callback;
    sdk.records_data = data;
    sdk.watermark = watermark;
    *buffer = 7;
    return refusal_of(__func__);
}

uint32_t rocprofiler_configure_buffer_tracing_service(uint64_t context, uint32_t kind, const int32_t *operations,
                                                      size_t count, uint64_t buffer) {
    if (!sdk.configuring) return LOCKED;
    if (context != sdk.buffer_context || kind >= sizeof sdk.kinds || operations || count || buffer != 7)
        return INVALID_ARGUMENT;
    sdk.kinds[kind] = 1;
    return refusal_of(__func__);
}

uint32_t rocprofiler_configure_callback_tracing_service(uint64_t context, uint32_t kind, const int32_t *operations,
                                                        size_t count, event_function *callback, void *data) {
    if (!sdk.configuring) return LOCKED;
    if (!is_context(context) || !callback || (count && !operations) || data) return INVALID_ARGUMENT;
    if (kind == CODE_OBJECT) sdk.on_code = callback, sdk.code_context = context;
    if (kind == HIP_STREAM) sdk.on_stream = callback, sdk.stream_context = context;
    return refusal_of(__func__);
}

uint32_t rocprofiler_configure_external_correlation_id_request_service(uint64_t context, const uint32_t *kinds,
                                                                       size_t count, request_function *callback,
                                                                       void *data) {
    if (!sdk.configuring) return LOCKED;
    if (!is_context(context) || !kinds || count != 2 || !callback || data) return INVALID_ARGUMENT;
    sdk.on_request = callback;
    return refusal_of(__func__);
}

/* With the lock. */
static void hand_out(void) {
    header *headers[RECORDS];
    for (size_t i = 0; i < sdk.count; i++) headers[i] = &sdk.headers[i];
    if (sdk.on_records && (sdk.count || sdk.lost))
        sdk.on_records(sdk.buffer_context, 7, headers, sdk.count, sdk.records_data, sdk.lost);
    sdk.count = sdk.used = 0;
    sdk.lost = 0;
}

uint32_t rocprofiler_flush_buffer(uint64_t buffer) {
    if (buffer != 7) return INVALID_ARGUMENT;
    if (refusal_of(__func__)) return refusal_of(__func__);
    pthread_mutex_lock(&sdk.lock);
    hand_out();
    pthread_mutex_unlock(&sdk.lock);
    return SUCCESS;
}

/* ---- for the test ---- */

static void set_version(uint32_t major, uint32_t minor, uint32_t patch) {
    sdk.major = major, sdk.minor = minor, sdk.patch = patch;
}

static void refuse(const char *function, uint32_t status) {
    size_t length = function ? strlen(function) : 0;
    if (length >= sizeof sdk.refused) length = sizeof sdk.refused - 1;
    memcpy(sdk.refused, function ? function : "", length);
    sdk.refused[length] = '\0';
    sdk.refusal = status;
}

static void load(uint64_t kernel, const char *name) {
    struct {
        uint64_t size, kernel, object;
        const char *name;
        uint64_t rest[8];
    } symbol = {sizeof symbol, kernel, 1, name, {0}};
    uint64_t between = 0;
    const event_record record = {
        .context = sdk.code_context, .kind = CODE_OBJECT, .operation = 2, .phase = 1, .payload = &symbol};
    if (sdk.on_code && sdk.started[sdk.code_context]) sdk.on_code(record, &between, NULL);
}

static void send_stream(uint64_t stream, uint32_t phase) {
    struct {
        uint64_t size, stream, value;
    } data = {sizeof data, stream, 0};
    uint64_t between = 0;
    const event_record record = {
        .context = sdk.stream_context, .kind = HIP_STREAM, .operation = 3, .phase = phase, .payload = &data};
    if (sdk.on_stream && sdk.started[sdk.stream_context]) sdk.on_stream(record, &between, NULL);
}

static void enter(uint64_t stream) {
    send_stream(stream, 1);
}

static void leave(void) {
    send_stream(0, 2);
}

static int running(void) {
    return is_context(sdk.buffer_context) && sdk.started[sdk.buffer_context] && sdk.on_records;
}

static uint64_t launch(void) {
    uint64_t external = 0;
    if (!running() || !sdk.on_request) return 0;
    pthread_mutex_lock(&sdk.lock);
    const uint64_t internal = ++sdk.internal;
    pthread_mutex_unlock(&sdk.lock);
    return sdk.on_request(1, sdk.buffer_context, DISPATCH_RECORD, 1, internal, &external, NULL) ? 0 : external;
}

static void put64(uint8_t *record, size_t offset, uint64_t value) {
    memcpy(record + offset, &value, sizeof value);
}

static void put32(uint8_t *record, size_t offset, uint32_t value) {
    memcpy(record + offset, &value, sizeof value);
}

static void lay_out(uint8_t *record, const struct fake_dispatch *work) {
    put64(record, 0, work->copy ? COPY_BYTES : DISPATCH_BYTES);
    put32(record, 8, work->copy ? COPY_RECORD : DISPATCH_RECORD);
    put32(record, 12, work->copy ? work->copy : 2);
    put64(record, 16, ++sdk.internal);
    put64(record, 24, work->external);
    put64(record, 32, 1);
    put64(record, 40, work->start);
    put64(record, 48, work->end);
    if (work->copy) {
        put64(record, 56, work->agent);
        put64(record, 64, work->agent + 1);
        put64(record, 72, work->bytes);
        return;
    }
    put64(record, 56, 72);
    put64(record, 64, work->agent);
    put64(record, 72, work->queue);
    put64(record, 80, work->kernel);
    put32(record, 100, work->group_bytes);
    for (size_t i = 0; i < 3; i++) {
        put32(record, 104 + 4 * i, work->workgroup[i]);
        put32(record, 116 + 4 * i, work->grid[i]);
    }
}

static void finish(const struct fake_dispatch *work) {
    const uint32_t kind = work->copy ? COPY_RECORD : DISPATCH_RECORD;
    if (!sdk.kinds[kind]) return;
    pthread_mutex_lock(&sdk.lock);
    if (sdk.count == RECORDS) hand_out();
    uint8_t *record = sdk.storage[sdk.count];
    memset(record, 0, DISPATCH_BYTES);
    lay_out(record, work);
    sdk.headers[sdk.count++] = (header){1, kind, record};
    sdk.used += DISPATCH_BYTES;
    if (sdk.used > sdk.watermark) hand_out();
    pthread_mutex_unlock(&sdk.lock);
}

static void lose(uint64_t count) {
    sdk.lost += count;
}

EXPORT const struct fake_rocprofiler *fake_rocprofiler(void) {
    static const struct fake_rocprofiler control = {set_version, refuse, load, enter,  leave,
                                                    launch,      finish, lose, running};
    return &control;
}

/* ---- for the fake GPU, which reports to a CUPTI ---- */

enum { KERNEL_NAMES = 256, LAUNCHES = 1 << 16 };
static char kernel_names[KERNEL_NAMES][64];
static uint64_t externals[LAUNCHES]; /* of launches, by number */
static uint32_t launch_number;

static uint64_t kernel_of(const char *name) {
    for (uint64_t i = 0; i < KERNEL_NAMES; i++) {
        if (strncmp(kernel_names[i], name, sizeof kernel_names[i] - 1) == 0 && kernel_names[i][0]) return i + 1;
        if (kernel_names[i][0]) continue;
        strncpy(kernel_names[i], name, sizeof kernel_names[i] - 1);
        load(i + 1, kernel_names[i]);
        return i + 1;
    }
    return 0;
}

static uint32_t gpu_call(uint32_t id) {
    if (id) return 0; /* a call of the driver, which launches nothing */
    const uint64_t external = launch();
    pthread_mutex_lock(&sdk.lock);
    const uint32_t number = ++launch_number;
    externals[number % LAUNCHES] = external;
    pthread_mutex_unlock(&sdk.lock);
    return number;
}

static void gpu_record(const struct fake_activity *activity) {
    struct fake_dispatch work = {.start = activity->start + FAKE_CLOCK_AHEAD_NS,
                                 .end = activity->end + FAKE_CLOCK_AHEAD_NS,
                                 .external = externals[activity->correlation % LAUNCHES],
                                 .agent = 2,
                                 .queue = 1,
                                 .workgroup = {64, 1, 1},
                                 .grid = {640, 1, 1},
                                 .copy = activity->kind == 1,
                                 .bytes = activity->bytes};
    pthread_mutex_lock(&sdk.lock);
    if (!work.copy) work.kernel = kernel_of(activity->kind == 2 ? "__amd_rocclr_fillBufferAligned" : activity->name);
    pthread_mutex_unlock(&sdk.lock);
    finish(&work);
}

static void gpu_node(uint64_t id, uint64_t original) {
    (void)id, (void)original;
}

EXPORT const struct fake_cupti *fake_cupti(void) {
    static const struct fake_cupti control = {
        .record = gpu_record, .enabled = running, .call = gpu_call, .node = gpu_node};
    return &control;
}
