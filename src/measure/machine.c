/* The file of a machine's readings: its lines, written and read. */
#include "base/array.h"
#include "base/files.h"
#include "measure/machine_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINES_MOST = 1 << 26 }; /* bytes: a day of readings of eight GPUs is a fifth of it */

void aorta_machine_reading_free(struct aorta_machine_reading *reading) {
    for (size_t i = 0; i < reading->gpu_count; i++) free(reading->gpus[i].processes);
    free(reading->gpus);
    *reading = (struct aorta_machine_reading){0};
}

/* ---- rows ---- */

#define AT(member) offsetof(struct aorta_machine_reading, member)
#define NO_PROC .reason = "/proc does not say it"

const struct aorta_row aorta_machine_rows[] = {
    {"at_ns", AORTA_ROW_INT, AT(at_ns), "ns", .required = true, .high = 9e18, .help = "since 1970"},
    {"load", AORTA_ROW_NUMBER, AT(load), NO_PROC, .high = 1e9, .help = "threads that run or want to, mean of a minute"},
    {"processor_s", AORTA_ROW_NUMBER, AT(total_s), "s", 2, NO_PROC, .high = 1e15,
     .help = "time of all processors together, since the machine started"},
    {"idle_s", AORTA_ROW_NUMBER, AT(idle_s), "s", 2, NO_PROC, .high = 1e15,
     .help = "of it with nothing to run, or waiting for disks"},
    {"stolen_s", AORTA_ROW_NUMBER, AT(stolen_s), "s", 2, NO_PROC, .high = 1e15,
     .help = "of it taken by the hypervisor for other machines"},
    {"own_s", AORTA_ROW_NUMBER, AT(own_s), "s", 2, .reason = "/proc does not list the program's children", .high = 1e15,
     .help = "of it taken by the recorded program and its child processes"},
    {0}};

#undef AT
#define AT(member) offsetof(struct aorta_machine_process, member)
#define NO_DRIVER .reason = "the driver does not report it"

static const struct aorta_row process_rows[] = {
    {"pid", AORTA_ROW_INT, AT(pid), .required = true, .high = 9e18, .help = "of a process that computes on the GPU"},
    {"own", AORTA_ROW_BOOL, AT(own), .help = "it is of the recorded program"},
    {"memory_bytes", AORTA_ROW_NUMBER, AT(memory_bytes), "bytes", NO_DRIVER, .high = 1e18, .help = "of the GPU's"},
    {"sm_share", AORTA_ROW_NUMBER, AT(sm_share), "share", NO_DRIVER, .high = 1,
     .help = "of the multiprocessors' time, the most since the reading before"},
    {0}};
#undef AT

void aorta_machine_markdown(struct aorta_text *out) {
    aorta_rows_markdown(aorta_machine_rows, out);
    aorta_text_puts(
        out, "\n`gpus[]`, of each GPU, with `utilization` and `limited_by[]`; `null` where no library serves:\n\n");
    aorta_rows_markdown(aorta_clock_metrics_rows, out);
    aorta_text_puts(out, "\nand its `processes[]`:\n\n");
    aorta_rows_markdown(process_rows, out);
}

/* ---- writing ---- */

static void write_processes(const struct aorta_machine_gpu *gpu, struct aorta_json *json,
                            struct aorta_reasons *reasons) {
    aorta_json_key(json, "processes");
    if (!gpu->processes_known) {
        aorta_json_null(json);
        aorta_reasons_add(reasons, "processes", "the driver does not list them");
        return;
    }
    aorta_json_array(json);
    for (size_t i = 0; i < gpu->process_count; i++) {
        aorta_json_object(json);
        aorta_rows_json(process_rows, &gpu->processes[i], 0, json);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
}

static void write_gpu(const struct aorta_machine_gpu *gpu, struct aorta_json *json) {
    struct aorta_reasons reasons = {0};
    aorta_json_object(json);
    aorta_rows_members(aorta_clock_metrics_rows, &gpu->metrics, 0, json, &reasons);
    aorta_json_key_double(json, "utilization", gpu->metrics.utilization);
    aorta_json_key(json, "limited_by");
    if (gpu->metrics.clock_limits_known)
        aorta_clock_limits_json(gpu->metrics.clock_limits, json);
    else
        aorta_json_null(json);
    write_processes(gpu, json, &reasons);
    aorta_reasons_json(&reasons, json);
    aorta_json_object_end(json);
}

void aorta_machine_write(const struct aorta_machine_head *head, const struct aorta_machine_reading *reading,
                         struct aorta_text *out) {
    struct aorta_json json;
    struct aorta_reasons reasons = {0};
    aorta_json_begin(&json, out, 0);
    aorta_json_object(&json);
    aorta_json_key_int(&json, "schema_version", AORTA_MACHINE_SCHEMA);
    aorta_json_key_string(&json, "host", head->host);
    aorta_json_key_int(&json, "processors", head->processors);
    aorta_rows_members(aorta_machine_rows, reading, 0, &json, &reasons);
    aorta_json_key(&json, "gpus");
    if (*head->gpu_reason) {
        aorta_json_null(&json);
        aorta_reasons_add(&reasons, "gpus", head->gpu_reason);
    } else {
        aorta_json_array(&json);
        for (size_t i = 0; i < reading->gpu_count; i++) write_gpu(&reading->gpus[i], &json);
        aorta_json_array_end(&json);
    }
    aorta_reasons_json(&reasons, &json);
    aorta_json_object_end(&json);
    aorta_text_puts(out, "\n");
}

/* ---- reading ---- */

static aorta_status read_processes(struct aorta_rows_reader *reader, const struct aorta_json_value *list,
                                   struct aorta_machine_gpu *gpu) {
    struct aorta_json_value item;
    size_t count;
    gpu->processes_known = list && *list->text == '[';
    if (!gpu->processes_known) return NULL;
    AORTA_TRY(aorta_annotate(aorta_elements_count(reader->line, *list, &count), "processes"));
    gpu->processes = calloc(count + 1, sizeof *gpu->processes);
    if (!gpu->processes) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu processes", count);
    struct aorta_json_cursor cursor = aorta_json_elements(*list);
    while (gpu->process_count < count && aorta_json_next_element(&cursor, &item)) {
        struct aorta_machine_process *process = &gpu->processes[gpu->process_count++];
        struct aorta_fields fields;
        process->memory_bytes = process->sm_share = NAN;
        AORTA_TRY(aorta_fields_read(reader->line, item, &fields));
        AORTA_TRY(aorta_rows_read(reader, &fields, "gpus[].processes[].", process_rows, process));
    }
    return NULL;
}

static aorta_status read_gpu(struct aorta_rows_reader *reader, struct aorta_json_value value,
                             struct aorta_machine_gpu *gpu) {
    static const struct aorta_row use[] = {{.key = "utilization",
                                            .type = AORTA_ROW_NUMBER,
                                            .offset = offsetof(struct aorta_device_metrics, utilization),
                                            .high = 1},
                                           {0}};
    struct aorta_fields fields;
    gpu->metrics = aorta_device_unmeasured("");
    AORTA_TRY(aorta_fields_read(reader->line, value, &fields));
    AORTA_TRY(aorta_rows_read(reader, &fields, "gpus[].", aorta_clock_metrics_rows, &gpu->metrics));
    AORTA_TRY(aorta_rows_read(reader, &fields, "gpus[].", use, &gpu->metrics));
    AORTA_TRY(
        aorta_clock_limits_read(reader, aorta_fields_get(&fields, "limited_by"), "gpus[].limited_by", &gpu->metrics));
    return read_processes(reader, aorta_fields_get(&fields, "processes"), gpu);
}

static aorta_status read_gpus(struct aorta_rows_reader *reader, const struct aorta_json_value *list,
                              struct aorta_machine_reading *reading) {
    struct aorta_json_value item;
    size_t count;
    if (!list || *list->text != '[') return NULL;
    AORTA_TRY(aorta_annotate(aorta_elements_count(reader->line, *list, &count), "gpus"));
    reading->gpus = calloc(count + 1, sizeof *reading->gpus);
    if (!reading->gpus) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu GPUs", count);
    struct aorta_json_cursor cursor = aorta_json_elements(*list);
    while (reading->gpu_count < count && aorta_json_next_element(&cursor, &item))
        AORTA_TRY(read_gpu(reader, item, &reading->gpus[reading->gpu_count++]));
    return NULL;
}

/* Values that every line repeats; the first line's are stored. */
struct head_values {
    int64_t version, processors;
    const char *host, *gpu_reason;
};

static aorta_status read_head(struct aorta_rows_reader *reader, const struct aorta_fields *line,
                              struct aorta_machine *machine) {
#define AT(member) offsetof(struct head_values, member)
    static const struct aorta_row rows[] = {
        {.key = "schema_version", .type = AORTA_ROW_INT, .offset = AT(version), .required = true},
        {.key = "processors", .type = AORTA_ROW_INT, .offset = AT(processors), .low = 1, .high = 1e6},
        {.key = "host", .type = AORTA_ROW_TEXT, .offset = AT(host)},
        {0}};
    static const struct aorta_row reasons_rows[] = {{.key = "gpus", .type = AORTA_ROW_TEXT, .offset = AT(gpu_reason)},
                                                    {0}};
#undef AT
    struct head_values head = {.processors = 1, .host = "", .gpu_reason = ""};
    struct aorta_fields reasons;
    AORTA_TRY(aorta_rows_read(reader, line, "", rows, &head));
    if (head.version > AORTA_MACHINE_SCHEMA)
        return AORTA_ERROR(AORTA_FORMAT, "schema_version is %lld; this program reads up to %d", (long long)head.version,
                           AORTA_MACHINE_SCHEMA);
    AORTA_TRY(aorta_rows_read_object(reader, line, "null_reasons", &reasons));
    AORTA_TRY(aorta_rows_read(reader, &reasons, "null_reasons.", reasons_rows, &head));
    if (machine->host) return NULL;
    machine->processors = (int)head.processors;
    machine->host = strdup(head.host);
    snprintf(machine->gpu_reason, sizeof machine->gpu_reason, "%s", head.gpu_reason);
    return machine->host ? NULL : AORTA_ERROR(AORTA_MEMORY, "no memory for a host's name");
}

static aorta_status read_line(struct aorta_rows_reader *reader, size_t length, struct aorta_machine *machine) {
    struct aorta_json_value value;
    struct aorta_fields line;
    AORTA_TRY(aorta_line_value(reader->line, length, &value));
    AORTA_TRY(aorta_fields_read(reader->line, value, &line));
    AORTA_TRY(read_head(reader, &line, machine));
    AORTA_TRY(aorta_array_reserve(&machine->readings, &machine->capacity, machine->count + 1, sizeof *machine->readings,
                                  "readings of a machine"));
    struct aorta_machine_reading *reading = &machine->readings[machine->count++];
    *reading =
        (struct aorta_machine_reading){.load = NAN, .total_s = NAN, .idle_s = NAN, .stolen_s = NAN, .own_s = NAN};
    AORTA_TRY(aorta_rows_read(reader, &line, "", aorta_machine_rows, reading));
    return read_gpus(reader, aorta_fields_get(&line, "gpus"), reading);
}

static aorta_status read_lines(const char *path, const char *bytes, struct aorta_machine *machine) {
    struct aorta_intern strings = {0};
    struct aorta_rows_reader reader = {.strings = &strings};
    aorta_status status = NULL;
    long long number = 1;
    for (const char *end; !status && (end = strchr(bytes, '\n')) != NULL; bytes = end + 1, number++) {
        reader.line = bytes;
        status = aorta_annotate(read_line(&reader, (size_t)(end - bytes), machine), "%s: line %lld", path, number);
    }
    aorta_text_free(&reader.scratch);
    aorta_intern_free(&strings);
    return status;
}

aorta_status aorta_machine_read(const char *path, struct aorta_machine *machine) {
    char *bytes;
    size_t length;
    *machine = (struct aorta_machine){0};
    AORTA_TRY(aorta_file_read_regular(path, LINES_MOST, &bytes, &length));
    aorta_status status = read_lines(path, bytes, machine);
    free(bytes);
    if (status) aorta_machine_free(machine);
    return status;
}

void aorta_machine_free(struct aorta_machine *machine) {
    for (size_t i = 0; i < machine->count; i++) aorta_machine_reading_free(&machine->readings[i]);
    free(machine->readings);
    free(machine->host);
    *machine = (struct aorta_machine){0};
}
