/* The machine's processors and a program's processes by Linux. */
#include "measure/machine.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/thread.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static double tick_s(void) {
    return 1.0 / (double)sysconf(_SC_CLK_TCK);
}

/* cpu USER NICE SYSTEM IDLE IOWAIT IRQ SOFTIRQ STEAL GUEST GUEST_NICE: guests are in user and nice already (proc(5)).
 */
static void read_times(const char *text, struct aorta_machine_reading *reading) {
    enum { IDLE = 3, IOWAIT = 4, STEAL = 7, COUNTED = 8 };
    unsigned long long ticks[COUNTED] = {0}, total = 0;
    if (strncmp(text, "cpu ", 4) != 0) return;
    const char *at = text + 4;
    for (int i = 0; i < COUNTED; i++) {
        char *end;
        ticks[i] = strtoull(at, &end, 10);
        if (end == at) return;
        total += ticks[i];
        at = end;
    }
    reading->total_s = (double)total * tick_s();
    reading->idle_s = (double)(ticks[IDLE] + ticks[IOWAIT]) * tick_s();
    reading->stolen_s = (double)ticks[STEAL] * tick_s();
}

void aorta_machine_read_proc(const char *root, struct aorta_machine_reading *reading) {
    char path[4096], text[512], *end;
    reading->load = reading->total_s = reading->idle_s = reading->stolen_s = NAN;
    snprintf(path, sizeof path, "%s/stat", root);
    aorta_file_peek(path, text, sizeof text);
    read_times(text, reading);
    snprintf(path, sizeof path, "%s/loadavg", root);
    aorta_file_peek(path, text, sizeof text);
    double load = strtod(text, &end);
    if (end != text) reading->load = load;
}

/* … UTIME STIME CUTIME CSTIME: fields 14 to 17. */
static bool times_of(long pid, double *seconds) {
    char text[1024];
    unsigned long long user, system;
    long long children_user, children_system;
    if (sscanf(aorta_process_stat(pid, text), " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %lld %lld", &user,
               &system, &children_user, &children_system) != 4)
        return false;
    *seconds = ((double)(user + system) + (double)(children_user + children_system)) * tick_s();
    return true;
}

/* Adds the children that a thread has started. */
static bool add_children_of(const char *path, int64_t *pids, size_t most, size_t *count) {
    char text[16384], *end;
    if (access(path, R_OK) != 0) return false;
    aorta_file_peek(path, text, sizeof text);
    for (const char *at = text;; at = end) {
        long long pid = strtoll(at, &end, 10);
        if (end == at) return true;
        if (*count < most) pids[(*count)++] = pid;
    }
}

/* False: this kernel does not list children. A process that has just ended has none. */
static bool add_children(int64_t pid, int64_t *pids, size_t most, size_t *count) {
    char path[64], children[384];
    snprintf(path, sizeof path, "/proc/%lld/task", (long long)pid);
    DIR *folder = opendir(path);
    bool listed = false, any = false;
    for (struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) {
        if (*entry->d_name == '.') continue;
        any = true;
        snprintf(children, sizeof children, "%s/%s/children", path, entry->d_name);
        listed |= add_children_of(children, pids, most, count);
    }
    if (folder) closedir(folder);
    return listed || !any;
}

double aorta_machine_tree(pid_t root, int64_t *pids, size_t most, size_t *count) {
    double sum = 0, seconds;
    bool listed = true;
    *count = 0;
    pids[(*count)++] = root;
    for (size_t i = 0; i < *count; i++) {
        if (times_of((long)pids[i], &seconds)) sum += seconds;
        listed &= add_children(pids[i], pids, most, count);
    }
    return listed ? sum : NAN;
}

/* ---- the file ---- */

enum { LINES_MOST = 1 << 26 }; /* bytes: a day of readings of eight GPUs is a fifth of it */

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
    if (gpu->processes_known) {
        aorta_rows_array("processes", process_rows, gpu->processes, gpu->process_count, sizeof *gpu->processes, 0,
                         json);
        return;
    }
    aorta_json_key_null(json, "processes");
    aorta_reasons_add(reasons, "processes", "the driver does not list them");
}

static void write_gpu(const struct aorta_machine_gpu *gpu, struct aorta_json *json) {
    struct aorta_reasons reasons = {0};
    aorta_json_object(json);
    aorta_rows_members(aorta_clock_metrics_rows, &gpu->metrics, 0, json, &reasons);
    aorta_json_key_double(json, "utilization", gpu->metrics.utilization);
    aorta_json_key(json, "limited_by");
    aorta_clock_limits_json(&gpu->metrics, json);
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
                                   struct aorta_arena *arena, struct aorta_machine_gpu *gpu) {
    struct aorta_json_value item;
    size_t count;
    gpu->processes_known = list && *list->text == '[';
    if (!gpu->processes_known) return NULL;
    AORTA_TRY(aorta_annotate(aorta_elements_count(reader->line, *list, &count), "processes"));
    gpu->processes = aorta_arena_alloc(arena, count * sizeof *gpu->processes);
    struct aorta_json_cursor cursor = aorta_json_elements(*list);
    while (gpu->processes && gpu->process_count < count && aorta_json_next_element(&cursor, &item)) {
        struct aorta_machine_process *process = &gpu->processes[gpu->process_count++];
        struct aorta_fields fields;
        process->memory_bytes = process->sm_share = NAN;
        AORTA_TRY(aorta_fields_read(reader->line, item, &fields));
        AORTA_TRY(aorta_rows_read(reader, &fields, "gpus[].processes[].", process_rows, process));
    }
    return NULL;
}

static aorta_status read_gpu(struct aorta_rows_reader *reader, struct aorta_json_value value, struct aorta_arena *arena,
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
    return read_processes(reader, aorta_fields_get(&fields, "processes"), arena, gpu);
}

static aorta_status read_gpus(struct aorta_rows_reader *reader, const struct aorta_json_value *list,
                              struct aorta_arena *arena, struct aorta_machine_reading *reading) {
    struct aorta_json_value item;
    size_t count;
    if (!list || *list->text != '[') return NULL;
    AORTA_TRY(aorta_annotate(aorta_elements_count(reader->line, *list, &count), "gpus"));
    reading->gpus = aorta_arena_alloc(arena, count * sizeof *reading->gpus);
    struct aorta_json_cursor cursor = aorta_json_elements(*list);
    while (reading->gpus && reading->gpu_count < count && aorta_json_next_element(&cursor, &item))
        AORTA_TRY(read_gpu(reader, item, arena, &reading->gpus[reading->gpu_count++]));
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
    machine->host = aorta_arena_strdup(&machine->arena, head.host);
    snprintf(machine->gpu_reason, sizeof machine->gpu_reason, "%s", head.gpu_reason);
    return NULL;
}

static aorta_status read_line(struct aorta_rows_reader *reader, size_t length, struct aorta_machine *machine) {
    struct aorta_json_value value;
    struct aorta_fields line;
    AORTA_TRY(aorta_line_value(reader->line, length, &value));
    AORTA_TRY(aorta_fields_read(reader->line, value, &line));
    AORTA_TRY(read_head(reader, &line, machine));
    const struct aorta_machine_reading unknown = {
        .load = NAN, .total_s = NAN, .idle_s = NAN, .stolen_s = NAN, .own_s = NAN};
    struct aorta_machine_reading *reading = aorta_arena_append(&machine->arena, &machine->readings, &machine->capacity,
                                                               &machine->count, &unknown, sizeof unknown);
    if (!reading) return NULL;
    AORTA_TRY(aorta_rows_read(reader, &line, "", aorta_machine_rows, reading));
    return read_gpus(reader, aorta_fields_get(&line, "gpus"), &machine->arena, reading);
}

static aorta_status read_lines(const char *path, const char *bytes, struct aorta_machine *machine) {
    struct aorta_texts strings = {0};
    struct aorta_rows_reader reader = {.strings = &strings};
    aorta_status status = NULL;
    long long number = 1;
    for (const char *end; !status && (end = strchr(bytes, '\n')) != NULL; bytes = end + 1, number++) {
        reader.line = bytes;
        status = aorta_annotate(read_line(&reader, (size_t)(end - bytes), machine), "%s: line %lld", path, number);
    }
    aorta_text_free(&reader.scratch);
    aorta_texts_free(&strings);
    return status;
}

aorta_status aorta_machine_read(const char *path, struct aorta_machine *machine) {
    char *bytes;
    size_t length;
    *machine = (struct aorta_machine){0};
    AORTA_TRY(aorta_file_read_regular(path, LINES_MOST, &bytes, &length));
    aorta_status status = read_lines(path, bytes, machine);
    free(bytes);
    if (!status) status = aorta_arena_check(&machine->arena, "the readings of a machine");
    if (status) aorta_arena_free(&machine->arena);
    return status;
}

/* ---- taking readings ---- */

enum { OWN_MOST = 4096 }; /* most processes of the program */
static const int64_t period_ns = 1000000000;

struct aorta_machine_watch {
    int file; /* -1: it failed */
    pid_t root;
    struct aorta_machine_head head;
    struct aorta_gpus *gpus; /* NULL: none */
    int64_t looked_ns;       /* monotonic */
    double own_s;            /* the most so far: the time of a process that ends unwaited for disappears */
    struct aorta_arena arena;
    int64_t *before; /* processes on GPUs before the program began */
    size_t before_count;
    size_t own_count;
    int64_t own[OWN_MOST];
    struct aorta_repeated thread;
};

static bool is_own(const struct aorta_machine_watch *watch, int64_t pid) {
    for (size_t i = 0; i < watch->own_count; i++)
        if (watch->own[i] == pid) return true;
    for (size_t i = 0; i < watch->before_count; i++)
        if (watch->before[i] == pid) return false;
    /* In containers the driver may report process ids of another namespace. A process that does not exist here and
     * appeared after the program's start counts as the program's own. */
    return kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

static void read_gpu_now(struct aorta_machine_watch *watch, size_t index, struct aorta_arena *arena,
                         struct aorta_machine_gpu *gpu) {
    struct aorta_gpu_state state;
    aorta_gpus_read(watch->gpus, index, &state);
    *gpu = (struct aorta_machine_gpu){.metrics = state.metrics, .processes_known = state.processes_known};
    gpu->processes = aorta_arena_alloc(arena, state.process_count * sizeof *gpu->processes);
    for (; gpu->processes && gpu->process_count < state.process_count; gpu->process_count++) {
        const struct aorta_gpu_process *from = &state.processes[gpu->process_count];
        gpu->processes[gpu->process_count] =
            (struct aorta_machine_process){from->pid, is_own(watch, from->pid), from->memory_bytes, from->sm_share};
    }
}

static void write_line(struct aorta_machine_watch *watch, const struct aorta_machine_reading *reading) {
    struct aorta_text line = {0};
    aorta_machine_write(&watch->head, reading, &line);
    const bool whole = line.data && !line.failed;
    if (!whole || aorta_write_all(watch->file, line.data, line.length)) {
        close(watch->file);
        watch->file = -1;
    }
    aorta_text_free(&line);
}

/* Takes and writes a reading. Writes nothing if memory is exhausted. */
static void take(struct aorta_machine_watch *watch, double ended_s) {
    struct aorta_arena arena = {0};
    struct aorta_machine_reading reading = {.at_ns = aorta_clock_day()};
    watch->looked_ns = aorta_clock_ns();
    aorta_machine_read_proc("/proc", &reading);
    double own_s = isnan(ended_s) ? aorta_machine_tree(watch->root, watch->own, OWN_MOST, &watch->own_count) : ended_s;
    if (own_s > watch->own_s) watch->own_s = own_s;
    reading.own_s = isnan(own_s) ? NAN : watch->own_s;
    reading.gpus = aorta_arena_alloc(&arena, aorta_gpus_count(watch->gpus) * sizeof *reading.gpus);
    for (; reading.gpus && reading.gpu_count < aorta_gpus_count(watch->gpus); reading.gpu_count++)
        read_gpu_now(watch, reading.gpu_count, &arena, &reading.gpus[reading.gpu_count]);
    if (!arena.failed && watch->file >= 0) write_line(watch, &reading);
    aorta_arena_end(&arena, &watch->arena);
}

/* Stores the processes that are on a GPU before the program. */
static void note_who_is_there(struct aorta_machine_watch *watch) {
    const size_t count = aorta_gpus_count(watch->gpus);
    struct aorta_gpu_state state;
    watch->before = aorta_arena_alloc(&watch->arena, count * AORTA_GPU_PROCESSES_MOST * sizeof *watch->before);
    for (size_t i = 0; watch->before && i < count; i++) {
        aorta_gpus_read(watch->gpus, i, &state);
        for (size_t j = 0; j < state.process_count; j++) watch->before[watch->before_count++] = state.processes[j].pid;
    }
}

static void open_gpus(struct aorta_machine_watch *watch) {
    aorta_status status = aorta_gpus_open(&watch->gpus);
    if (status)
        snprintf(watch->head.gpu_reason, sizeof watch->head.gpu_reason,
                 "neither NVML (libnvidia-ml.so.1) nor ROCm SMI (librocm_smi64.so) serves here; aorta info says why");
    aorta_status_free(status);
}

aorta_status aorta_machine_watch_open(const char *path, pid_t root, bool fresh, struct aorta_machine_watch **out) {
    *out = NULL;
    struct aorta_machine_watch *watch = calloc(1, sizeof *watch);
    if (!watch) return AORTA_ERROR(AORTA_MEMORY, "no memory to watch the machine");
    watch->root = root;
    watch->head.processors = (int)sysconf(_SC_NPROCESSORS_ONLN);
    gethostname(watch->head.host, sizeof watch->head.host - 1);
    watch->file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    aorta_status status = watch->file < 0 ? AORTA_ERROR(AORTA_IO, "%s: %s", path, strerror(errno)) : NULL;
    if (!status) {
        open_gpus(watch);
        if (fresh) note_who_is_there(watch);
        take(watch, NAN);
        status = aorta_arena_check(&watch->arena, "the readings of a machine");
    }
    if (!status) {
        *out = watch;
        return NULL;
    }
    if (watch->file >= 0) close(watch->file);
    watch->file = -1;
    aorta_machine_watch_close(watch, NAN);
    return status;
}

void aorta_machine_watch_look(struct aorta_machine_watch *watch) {
    if (!watch || watch->file < 0 || aorta_clock_ns() - watch->looked_ns < period_ns) return;
    take(watch, NAN);
}

static void look_again(void *user) {
    aorta_machine_watch_look(user);
}

aorta_status aorta_machine_watch_start(struct aorta_machine_watch *watch) {
    const int error = aorta_repeat(&watch->thread, "machine", period_ns, look_again, watch);
    if (!error) return NULL;
    return AORTA_ERROR(AORTA_DEVICE, "the thread that watches the machine cannot be started: %s", strerror(error));
}

void aorta_machine_watch_close(struct aorta_machine_watch *watch, double ended_s) {
    if (!watch) return;
    aorta_repeat_end(&watch->thread);
    if (watch->file >= 0) take(watch, ended_s);
    if (watch->file >= 0) close(watch->file);
    aorta_gpus_close(watch->gpus);
    aorta_arena_free(&watch->arena);
    free(watch);
}
