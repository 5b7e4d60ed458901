/* The trace file: its head, the names of processes and streams, and its end. */
#include "measure/kineto_write.h"
#include "base/clock.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { GATHERED_BYTES = 1 << 18 };

/* Kineto counts times from a multiple of a quarter (30.4368 days times 3), so that a double is exact to the
 * nanosecond. */
static const int64_t quarter_ns = INT64_C(7889238) * 1000000000;

int64_t aorta_kineto_clock_offset(void) {
    int64_t best = 0, shortest = INT64_MAX;
    for (int i = 0; i < 32; i++) {
        const int64_t before = aorta_clock_ns(), day = aorta_clock_day(), after = aorta_clock_ns();
        if (after - before >= shortest) continue;
        shortest = after - before;
        best = day - (before + shortest / 2);
    }
    return best;
}

aorta_status aorta_kineto_path(const char *directory, int rank, struct aorta_file_path *path) {
    char host[128] = "host";
    if (gethostname(host, sizeof host - 1) != 0) strcpy(host, "host");
    const struct aorta_file_path place = aorta_path_in(directory, "rank%d", rank);
    *path = aorta_path_in(place.text, "%s_%ld.%" PRId64 ".pt.trace.json", host, (long)getpid(), aorta_clock_day());
    return aorta_directory_make(place.text);
}

/* ---- events ---- */

static void begin_line(struct aorta_kineto *kineto) {
    aorta_text_puts(&kineto->text, kineto->begun ? ",\n  " : "\n  ");
    kineto->begun = true;
    aorta_json_begin(&kineto->json, &kineto->text, 0);
    aorta_json_object(&kineto->json);
}

static void write_time(struct aorta_kineto *kineto, int64_t time_ns) {
    aorta_json_key_microseconds(&kineto->json, "ts", time_ns + kineto->about.clock_offset_ns - kineto->base_ns);
    if (time_ns < kineto->first_ns) kineto->first_ns = time_ns;
    if (time_ns > kineto->last_ns) kineto->last_ns = time_ns;
}

void aorta_kineto_begin(struct aorta_kineto *kineto, const struct aorta_kineto_event *event) {
    struct aorta_json *json = &kineto->json;
    begin_line(kineto);
    aorta_json_key_string(json, "ph", event->phase);
    if (event->category) aorta_json_key_string(json, "cat", event->category);
    aorta_json_key_string(json, "name", event->name);
    aorta_json_key_int(json, "pid", event->process);
    aorta_json_key_int(json, "tid", event->thread);
    write_time(kineto, event->start_ns);
    if (event->phase[0] == 'X') {
        aorta_json_key_microseconds(json, "dur", event->end_ns - event->start_ns);
        if (event->end_ns > kineto->last_ns) kineto->last_ns = event->end_ns;
    }
    if (event->phase[0] == 'i') aorta_json_key_string(json, "s", "t");
    aorta_json_key_object(json, "args");
}

void aorta_kineto_begin_host(struct aorta_kineto *kineto, const char *category, const char *name, int64_t start_ns,
                             int64_t end_ns) {
    aorta_kineto_begin(kineto, &(struct aorta_kineto_event){.phase = "X",
                                                            .category = category,
                                                            .name = name,
                                                            .process = getpid(),
                                                            .thread = kineto->about.thread,
                                                            .start_ns = start_ns,
                                                            .end_ns = end_ns});
}

void aorta_kineto_end(struct aorta_kineto *kineto) {
    aorta_json_object_end(&kineto->json);
    aorta_json_object_end(&kineto->json);
}

void aorta_kineto_flow(struct aorta_kineto *kineto, bool at_launch, int64_t id, int64_t process, int64_t thread,
                       int64_t time_ns) {
    struct aorta_json *json = &kineto->json;
    begin_line(kineto);
    aorta_json_key_string(json, "ph", at_launch ? "s" : "f");
    aorta_json_key_int(json, "id", id);
    aorta_json_key_int(json, "pid", process);
    aorta_json_key_int(json, "tid", thread);
    write_time(kineto, time_ns);
    aorta_json_key_string(json, "cat", "ac2g");
    aorta_json_key_string(json, "name", "ac2g");
    if (!at_launch) aorta_json_key_string(json, "bp", "e");
    aorta_json_object_end(json);
}

aorta_status aorta_kineto_flush(struct aorta_kineto *kineto, bool at_once) {
    if (!at_once && kineto->text.length < GATHERED_BYTES) return NULL;
    AORTA_TRY(aorta_text_check(&kineto->text));
    AORTA_TRY(aorta_file_append(kineto->file, kineto->text.data, kineto->text.length));
    aorta_text_clear(&kineto->text);
    return NULL;
}

aorta_status aorta_kineto_use_stream(struct aorta_kineto *kineto, int64_t id, enum aorta_role role) {
    unsigned roles = role < AORTA_ROLE_COUNT ? 1u << role : 0;
    for (size_t i = 0; i < kineto->stream_count; i++) {
        if (kineto->streams[i].id != id) continue;
        kineto->streams[i].roles |= roles;
        return NULL;
    }
    AORTA_TRY(aorta_array_reserve(&kineto->streams, &kineto->stream_capacity, kineto->stream_count + 1,
                                  sizeof *kineto->streams, "streams"));
    kineto->streams[kineto->stream_count++] = (struct aorta_kineto_stream){id, roles};
    return NULL;
}

void aorta_kineto_end_step(struct aorta_kineto *kineto, int64_t until_ns) {
    if (!kineto->step.open) return;
    char name[48];
    snprintf(name, sizeof name, "ProfilerStep#%" PRId64, kineto->step.number);
    int64_t end_ns = until_ns > kineto->step.end_ns ? until_ns : kineto->step.end_ns;
    aorta_kineto_begin_host(kineto, "user_annotation", name, kineto->step.start_ns, end_ns);
    aorta_json_key_int(&kineto->json, "External id", kineto->step.external);
    aorta_kineto_end(kineto);
    kineto->step.open = false;
}

/* ---- the head ---- */

static void write_device(struct aorta_kineto *kineto) {
    const struct aorta_device_info *device = &kineto->about.device;
    struct aorta_json *json = &kineto->json;
    aorta_json_key_array(json, "deviceProperties");
    aorta_json_object(json);
    aorta_json_key_int(json, "id", device->index);
    aorta_json_key_string(json, "name", device->name);
    aorta_json_key_int(json, "totalGlobalMem", (int64_t)device->memory_bytes);
    int version;
    if (sscanf(device->isa, "sm_%d", &version) == 1) {
        aorta_json_key_int(json, "computeMajor", version / 10);
        aorta_json_key_int(json, "computeMinor", version % 10);
    }
    aorta_json_key_int(json, "numSms", device->multiprocessors);
    aorta_json_object_end(json);
    aorta_json_array_end(json);
}

static void write_ranks(struct aorta_json *json, const struct aorta_kineto_group *group) {
    aorta_json_array(json);
    for (int i = 0; i < group->size; i++) aorta_json_int(json, group->first + i * group->stride);
    aorta_json_array_end(json);
}

static void write_groups(struct aorta_kineto *kineto) {
    const struct aorta_kineto_about *about = &kineto->about;
    struct aorta_json *json = &kineto->json;
    aorta_json_key_object(json, "distributedInfo");
    aorta_json_key_string(json, "backend", about->backend);
    aorta_json_key_int(json, "rank", about->rank);
    aorta_json_key_int(json, "world_size", about->world_size);
    aorta_json_key_int(json, "pg_count", about->group_count);
    aorta_json_key_array(json, "pg_config");
    for (int i = 0; i < about->group_count; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        aorta_json_object(json);
        aorta_json_key_string(json, "pg_name", name);
        aorta_json_key_string(json, "pg_desc", i ? "undefined" : "default_pg");
        aorta_json_key_string(json, "backend_config", about->backend);
        aorta_json_key_int(json, "pg_size", about->groups[i].size);
        aorta_json_key(json, "ranks");
        write_ranks(json, &about->groups[i]);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
    aorta_json_object_end(json);
}

/* Keys that only this program writes. Other readers ignore them. */
static void write_own(struct aorta_kineto *kineto) {
    const struct aorta_kineto_about *about = &kineto->about;
    struct aorta_json *json = &kineto->json;
    aorta_json_key_object(json, "aorta");
    aorta_json_key_string(json, "device", aorta_device_kind_name(about->device.kind));
    aorta_json_key_string(json, "source",
                          aorta_profile_source_name(about->tracer ? AORTA_SOURCE_KERNEL : AORTA_SOURCE_RANGE));
    if (about->tracer) aorta_json_key_string(json, "tracer", about->tracer);
    aorta_json_key_bool(json, "simulated", about->simulated);
    if (about->steps_apart) aorta_json_key_bool(json, "steps_apart", true);
    aorta_json_key_int(json, "clock_offset_ns", about->clock_offset_ns - kineto->base_ns);
    aorta_json_object_end(json);
}

static void write_head(struct aorta_kineto *kineto) {
    const struct aorta_kineto_about *about = &kineto->about;
    struct aorta_json *json = &kineto->json;
    aorta_json_begin(json, &kineto->text, 2);
    aorta_json_object(json);
    aorta_json_key_int(json, "schemaVersion", 1);
    write_device(kineto);
    char id[40];
    snprintf(id, sizeof id, "%016" PRIX64 "%08X%08X", (uint64_t)(aorta_clock_ns() + about->clock_offset_ns),
             (unsigned)getpid(), (unsigned)about->rank);
    aorta_json_key_string(json, "trace_id", id);
    if (about->shapes) aorta_json_key_int(json, "record_shapes", 1);
    if (about->memory) aorta_json_key_int(json, "profile_memory", 1);
    if (about->flops) aorta_json_key_int(json, "with_flops", 1);
    if (about->backend) write_groups(kineto);
    write_own(kineto);
    aorta_json_key_string(json, "displayTimeUnit", "ms");
    aorta_json_key_int(json, "baseTimeNanoseconds", kineto->base_ns);
    aorta_json_key(json, "traceEvents");
    aorta_text_puts(&kineto->text, "[");
}

aorta_status aorta_kineto_open(const char *path, const struct aorta_kineto_about *about, struct aorta_kineto **out) {
    *out = NULL;
    struct aorta_kineto *kineto = calloc(1, sizeof *kineto);
    if (!kineto) return AORTA_ERROR(AORTA_MEMORY, "no memory to write %s", path);
    kineto->about = *about;
    if (!kineto->about.thread) kineto->about.thread = gettid();
    if (!kineto->about.clock_offset_ns) kineto->about.clock_offset_ns = aorta_kineto_clock_offset();
    int64_t now_ns = aorta_clock_ns() + kineto->about.clock_offset_ns;
    kineto->base_ns = now_ns / quarter_ns * quarter_ns;
    kineto->first_ns = INT64_MAX, kineto->last_ns = INT64_MIN;
    kineto->path = aorta_path_in("", "%s", path);
    aorta_status status = aorta_file_begin(path, &kineto->file);
    if (status) {
        aorta_kineto_abandon(kineto);
        return status;
    }
    write_head(kineto);
    *out = kineto;
    return NULL;
}

/* ---- the end ---- */

static void begin_name(struct aorta_kineto *kineto, const char *what, int64_t process, int64_t thread) {
    aorta_kineto_begin(
        kineto, &(struct aorta_kineto_event){
                    .phase = "M", .name = what, .process = process, .thread = thread, .start_ns = kineto->first_ns});
}

static void name_it(struct aorta_kineto *kineto, const char *what, int64_t process, int64_t thread, const char *key,
                    const char *value) {
    begin_name(kineto, what, process, thread);
    aorta_json_key_string(&kineto->json, key, value);
    aorta_kineto_end(kineto);
}

static void sort_it(struct aorta_kineto *kineto, const char *what, int64_t process, int64_t thread, int64_t index) {
    begin_name(kineto, what, process, thread);
    aorta_json_key_int(&kineto->json, "sort_index", index);
    aorta_kineto_end(kineto);
}

static void name_stream(struct aorta_kineto *kineto, const struct aorta_kineto_stream *stream) {
    char name[128];
    int length = snprintf(name, sizeof name, "stream %" PRId64, stream->id);
    for (int role = 0; role < AORTA_ROLE_COUNT; role++)
        if (stream->roles & (1u << role))
            length += snprintf(name + length, sizeof name - (size_t)length, " %s", aorta_role_name(role));
    for (size_t i = 0; i < kineto->about.name_count && (size_t)length < sizeof name; i++)
        if (kineto->about.names[i].stream == stream->id)
            length += snprintf(name + length, sizeof name - (size_t)length, " %s", kineto->about.names[i].name);
    if (stream->roles && stream->id >= AORTA_KINETO_GRAPH_STREAMS)
        snprintf(name + length, sizeof name - (size_t)length, ", in a graph");
    name_it(kineto, "thread_name", kineto->about.device.index, stream->id, "name", name);
    sort_it(kineto, "thread_sort_index", kineto->about.device.index, stream->id, stream->id);
}

static void write_names(struct aorta_kineto *kineto) {
    const struct aorta_kineto_about *about = &kineto->about;
    int64_t host = getpid(), device = about->device.index;
    char label[48], thread[64];
    snprintf(label, sizeof label, "%s %d", about->device.kind == AORTA_DEVICE_CPU ? "CPU device" : "GPU",
             about->device.index);
    snprintf(thread, sizeof thread, "thread %ld (aorta)", (long)about->thread);
    name_it(kineto, "process_name", host, 0, "name", "aorta");
    name_it(kineto, "process_labels", host, 0, "labels", "CPU");
    sort_it(kineto, "process_sort_index", host, 0, host);
    name_it(kineto, "thread_name", host, about->thread, "name", thread);
    sort_it(kineto, "thread_sort_index", host, about->thread, about->thread);
    name_it(kineto, "process_name", device, 0, "name", "aorta");
    name_it(kineto, "process_labels", device, 0, "labels", label);
    sort_it(kineto, "process_sort_index", device, 0, 5000000 + device);
    for (size_t i = 0; i < kineto->stream_count; i++) name_stream(kineto, &kineto->streams[i]);
}

static void write_instant(struct aorta_kineto *kineto, const char *name, const char *pid, const char *tid,
                          int64_t time_ns) {
    struct aorta_json *json = &kineto->json;
    begin_line(kineto);
    aorta_json_key_string(json, "name", name);
    aorta_json_key_string(json, "ph", "i");
    aorta_json_key_string(json, "s", "g");
    aorta_json_key_string(json, "pid", pid);
    aorta_json_key_string(json, "tid", tid);
    write_time(kineto, time_ns);
    aorta_json_object_end(json);
}

/* The span and the marks that Kineto puts around a recording, on tracks of their own. */
static void write_span(struct aorta_kineto *kineto) {
    struct aorta_json *json = &kineto->json;
    begin_line(kineto);
    aorta_json_key_string(json, "ph", "X");
    aorta_json_key_string(json, "cat", "Trace");
    write_time(kineto, kineto->first_ns);
    aorta_json_key_microseconds(json, "dur", kineto->last_ns - kineto->first_ns);
    aorta_json_key_string(json, "pid", "Spans");
    aorta_json_key_string(json, "tid", "PyTorch Profiler");
    aorta_json_key_string(json, "name", "PyTorch Profiler (0)");
    aorta_json_object_end(json);
    write_instant(kineto, "Iteration Start: PyTorch Profiler", "Traces", "Trace PyTorch Profiler", kineto->first_ns);
    write_instant(kineto, "Record Window End", "", "", kineto->last_ns);
}

static aorta_status write_tail(struct aorta_kineto *kineto) {
    aorta_kineto_end_step(kineto, INT64_MIN);
    if (kineto->begun) {
        write_names(kineto);
        write_span(kineto);
    }
    aorta_text_puts(&kineto->text, "\n  ],\n  ");
    aorta_json_begin(&kineto->json, &kineto->text, 0);
    aorta_json_key_string(&kineto->json, "traceName", kineto->path.text);
    aorta_text_puts(&kineto->text, "\n}\n");
    return aorta_kineto_flush(kineto, true);
}

static void free_all(struct aorta_kineto *kineto) {
    aorta_text_free(&kineto->text);
    free(kineto->streams);
    free(kineto);
}

aorta_status aorta_kineto_close(struct aorta_kineto *kineto) {
    if (!kineto) return NULL;
    aorta_status status = write_tail(kineto);
    if (status) {
        aorta_kineto_abandon(kineto);
        return status;
    }
    status = aorta_file_commit(kineto->file);
    free_all(kineto);
    return status;
}

void aorta_kineto_abandon(struct aorta_kineto *kineto) {
    if (!kineto) return;
    aorta_file_discard(kineto->file);
    free_all(kineto);
}

/* ---- memory and sensors at the end of a step ---- */

static void begin_counter(struct aorta_kineto *k, const char *name, int64_t at_ns) {
    aorta_kineto_begin(k, &(struct aorta_kineto_event){
                              .phase = "C", .name = name, .process = k->about.device.index, .start_ns = at_ns});
}

/* Writes an event for TensorBoard's memory view. */
static void write_memory_event(struct aorta_kineto *k, int64_t time_ns, int64_t bytes, uint64_t address,
                               uint64_t allocated, uint64_t reserved) {
    struct aorta_json *json = &k->json;
    const bool cpu = k->about.device.kind == AORTA_DEVICE_CPU;
    aorta_kineto_begin(k, &(struct aorta_kineto_event){.phase = "i",
                                                       .category = "cpu_instant_event",
                                                       .name = "[memory]",
                                                       .process = getpid(),
                                                       .thread = k->about.thread,
                                                       .start_ns = time_ns});
    aorta_json_key_int(json, "Total Reserved", (int64_t)reserved);
    aorta_json_key_int(json, "Total Allocated", (int64_t)allocated);
    aorta_json_key_int(json, "Bytes", bytes);
    aorta_json_key_int(json, "Addr", (int64_t)address);
    aorta_json_key_int(json, "Device Id", cpu ? -1 : k->about.device.index);
    aorta_json_key_int(json, "Device Type", cpu ? 0 : 1);
    aorta_kineto_end(k);
}

/* Writes all allocations since the device was opened, as most memory of a step was allocated before the first step. */
static aorta_status write_allocations(struct aorta_kineto *k) {
    struct aorta_memory_event events[64];
    size_t count;
    if (!k->about.allocations) return NULL;
    while ((count = aorta_device_memory_events(k->about.allocations, k->allocations, events,
                                               sizeof events / sizeof *events))) {
        for (size_t i = 0; i < count; i++)
            write_memory_event(k, events[i].time_ns, events[i].bytes, events[i].address, events[i].allocated,
                               events[i].reserved);
        k->allocations += count;
        AORTA_TRY(aorta_kineto_flush(k, false));
    }
    return NULL;
}

/* Counters for Perfetto, and the total at the end of the step where allocations are not known. */
static aorta_status write_memory(struct aorta_kineto *k, const struct aorta_memory_info *memory, int64_t at_ns) {
    struct aorta_json *json = &k->json;
    if (!memory || !k->about.memory) return NULL;
    AORTA_TRY(write_allocations(k));
    begin_counter(k, "device memory (bytes)", at_ns);
    aorta_json_key_int(json, "allocated", (int64_t)memory->allocated);
    aorta_json_key_int(json, "reserved", (int64_t)memory->reserved);
    aorta_kineto_end(k);
    begin_counter(k, "pinned memory (bytes)", at_ns);
    aorta_json_key_int(json, "pinned", (int64_t)memory->pinned);
    aorta_kineto_end(k);
    if (!k->about.allocations)
        write_memory_event(k, at_ns, (int64_t)(memory->allocated - k->allocated), 0, memory->allocated,
                           memory->reserved);
    k->allocated = memory->allocated;
    return NULL;
}

static void write_reading(struct aorta_kineto *k, const struct aorta_device_reading *reading, int64_t at_ns) {
    if (!reading || !reading->wanted) return;
    const struct {
        const char *name, *unit;
        double value;
    } rows[] = {
        {"temperature (C)", "temperature", reading->values.temperature_c},
        {"power (W)", "power", reading->values.power_w},
        {"SM clock (MHz)", "clock", reading->values.sm_clock_mhz},
        {"utilization", "utilization", reading->values.utilization},
        {"memory used (bytes)", "used", reading->values.memory_used_bytes},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!isfinite(rows[i].value)) continue; /* not measured: no point is drawn */
        begin_counter(k, rows[i].name, at_ns);
        aorta_json_key_double(&k->json, rows[i].unit, rows[i].value);
        aorta_kineto_end(k);
    }
}

aorta_status aorta_kineto_counters(struct aorta_kineto *k, const struct aorta_kineto_step *step, int64_t at_ns) {
    AORTA_TRY(write_memory(k, step->memory, at_ns));
    write_reading(k, step->device, at_ns);
    return NULL;
}
