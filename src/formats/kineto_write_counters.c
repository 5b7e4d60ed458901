/* What was read at the end of a step: memory and its allocations, the device's sensors. */
#include "device/memory_events.h"
#include "formats/kineto_write_internal.h"

#include <math.h>
#include <unistd.h>

static void begin_counter(struct aorta_kineto *k, const char *name, int64_t at_ns) {
    aorta_kineto_begin(k, &(struct aorta_kineto_event){
                              .phase = "C", .name = name, .process = k->about.device.index, .start_ns = at_ns});
}

/* What TensorBoard's memory view is made from. */
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

/* All of the device since it was opened: what a step uses was mostly allocated before the first one. */
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
