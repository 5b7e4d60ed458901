/* The machine between two moments, and whether it disturbed a program. */
#include "base/compare.h"
#include "measure/machine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Share of stolen time from which a machine counts as disturbed. An idle cloud machine has up to a tenth of it. */
static const double stolen_much = 0.01;
/* Other programs disturb only if few processors are free. */
static const double others_much = 0.1, idle_little = 0.1;
/* Below this share a process on a GPU only uses memory. */
static const double sm_much = 0.02;
/* Share of readings or time from which a clock limit not caused by the program counts. */
static const double limited_much = 0.1;

/* Shares over less time are inaccurate, as processor time is counted in hundredths of a second. */
static const double shortest_s = 1;

/* ---- figures ---- */

static bool is_on(const struct aorta_machine_gpu *gpu, bool own) {
    for (size_t i = 0; i < gpu->process_count; i++)
        if (gpu->processes[i].own == own) return true;
    return false;
}

/* The readings from the last before `from_ns` to the first after `until_ns`. */
static void around(const struct aorta_machine *machine, int64_t from_ns, int64_t until_ns, size_t *first, size_t *end) {
    *first = 0;
    *end = machine->count;
    for (size_t i = 0; i < machine->count; i++)
        if (machine->readings[i].at_ns <= from_ns) *first = i;
    for (size_t i = machine->count; i-- > 0;)
        if (machine->readings[i].at_ns >= until_ns) *end = i + 1;
    if (*end < *first + 2 && machine->count >= 2) { /* the interval is after the last reading, or before the first */
        *first = *end >= 2 ? *end - 2 : 0;
        *end = *first + 2;
    }
}

static void sum_processors(const struct aorta_machine_reading *first, const struct aorta_machine_reading *last,
                           struct aorta_machine_summary *summary) {
    const double total_s = last->total_s - first->total_s;
    summary->seconds = (double)(last->at_ns - first->at_ns) / 1e9;
    if (!(total_s > 0) || summary->seconds < shortest_s) return;
    summary->stolen_share = (last->stolen_s - first->stolen_s) / total_s;
    summary->idle_share = (last->idle_s - first->idle_s) / total_s;
    summary->own_share = (last->own_s - first->own_s) / total_s;
    const double others = 1 - summary->stolen_share - summary->idle_share - summary->own_share;
    summary->others_share = others < 0 ? 0 : others; /* ticks are coarse; NaN stays */
}

static double larger(double a, double b) {
    return isnan(a) || b > a ? b : a;
}

static void add_other(struct aorta_machine_summary *summary, size_t gpu, const struct aorta_machine_process *process) {
    for (size_t i = 0; i < summary->other_count; i++) {
        struct aorta_machine_other *other = &summary->others[i];
        if (other->pid != process->pid || other->gpu != gpu) continue;
        other->sm_share = larger(other->sm_share, process->sm_share);
        other->memory_bytes = larger(other->memory_bytes, process->memory_bytes);
        return;
    }
    if (summary->other_count == AORTA_MACHINE_OTHERS_MOST) return;
    summary->others[summary->other_count++] =
        (struct aorta_machine_other){process->pid, gpu, process->sm_share, process->memory_bytes};
}

/* Whether the program was seen on the GPU. If it was seen on no GPU, as when process ids are of another namespace, all
 * GPUs count. */
static bool counts(const struct aorta_machine_reading *readings, size_t count, size_t gpu) {
    bool any = false;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < readings[i].gpu_count; j++) {
            const bool used = is_on(&readings[i].gpus[j], true);
            if (used && j == gpu) return true;
            any |= used;
        }
    return !any;
}

static aorta_status take_clocks(const struct aorta_machine_reading *readings, size_t count, size_t gpu,
                                struct aorta_clocks *clocks) {
    struct aorta_clock_sample *samples = calloc(count + 1, sizeof *samples);
    if (!samples) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu readings", count);
    size_t filled = 0;
    for (size_t i = 0; i < count; i++) {
        if (gpu >= readings[i].gpu_count) continue;
        const struct aorta_device_metrics *metrics = &readings[i].gpus[gpu].metrics;
        samples[filled++] = (struct aorta_clock_sample){metrics, readings[i].at_ns, !(metrics->utilization <= 0)};
    }
    aorta_status status = aorta_clocks_make(samples, filled, clocks);
    free(samples);
    return status;
}

static aorta_status look_at_gpu(const struct aorta_machine_reading *readings, size_t count, size_t gpu,
                                struct aorta_machine_summary *summary) {
    struct aorta_clocks clocks;
    for (size_t i = 0; i < count; i++) {
        if (gpu >= readings[i].gpu_count) continue;
        const struct aorta_machine_gpu *at = &readings[i].gpus[gpu];
        summary->gpus_known |= at->processes_known;
        for (size_t j = 0; j < at->process_count; j++)
            if (!at->processes[j].own) add_other(summary, gpu, &at->processes[j]);
    }
    AORTA_TRY(take_clocks(readings, count, gpu, &clocks));
    const double share = aorta_clocks_share(&clocks), lowest = aorta_clocks_share(&summary->clocks);
    if (!isnan(lowest) && !(share < lowest)) return NULL;
    summary->clocks = clocks;
    summary->slow_gpu = gpu;
    return NULL;
}

aorta_status aorta_machine_summarise(const struct aorta_machine *machine, int64_t from_ns, int64_t until_ns,
                                     struct aorta_machine_summary *summary) {
    size_t first, end, gpus = 0;
    *summary = (struct aorta_machine_summary){.machine = machine,
                                              .seconds = NAN,
                                              .load = NAN,
                                              .stolen_share = NAN,
                                              .idle_share = NAN,
                                              .own_share = NAN,
                                              .others_share = NAN};
    AORTA_TRY(aorta_clocks_make(NULL, 0, &summary->clocks));
    around(machine, from_ns, until_ns, &first, &end);
    summary->readings = end - first;
    if (end - first < 2) return NULL;
    const struct aorta_machine_reading *readings = machine->readings + first;
    sum_processors(readings, &machine->readings[end - 1], summary);
    summary->load = machine->readings[end - 1].load;
    for (size_t i = 0; i < end - first; i++)
        if (readings[i].gpu_count > gpus) gpus = readings[i].gpu_count;
    for (size_t i = 0; i < gpus; i++)
        if (counts(readings, end - first, i)) AORTA_TRY(look_at_gpu(readings, end - first, i, summary));
    return NULL;
}

/* ---- the sentence ---- */

struct said {
    struct aorta_text *out;
    int count;
};

static void next(struct said *said) {
    aorta_text_puts(said->out, said->count++ ? "; " : "disturbed: ");
}

static void say_processors(const struct aorta_machine_summary *summary, struct said *said) {
    const double processors = summary->machine->processors;
    if (summary->stolen_share >= stolen_much) {
        next(said);
        aorta_text_printf(said->out, "%.*f%% of processor time stolen", summary->stolen_share < 0.1 ? 1 : 0,
                          100 * summary->stolen_share);
    }
    if (summary->others_share >= others_much && summary->idle_share <= idle_little) {
        next(said);
        aorta_text_printf(said->out, "other programs used %.1f of %.0f processors, none was free",
                          summary->others_share * processors, processors);
    }
}

/* Number of processes with unknown share on the same GPU as item `first`. 0 if an earlier item already counted them. */
static size_t count_unknown(const struct aorta_machine_summary *summary, size_t first) {
    size_t count = 0;
    for (size_t i = 0; i < summary->other_count; i++) {
        const struct aorta_machine_other *other = &summary->others[i];
        if (!isnan(other->sm_share) || other->gpu != summary->others[first].gpu) continue;
        if (i < first) return 0;
        count++;
    }
    return count;
}

static void say_others(const struct aorta_machine_summary *summary, struct said *said) {
    for (size_t i = 0; i < summary->other_count; i++) {
        const struct aorta_machine_other *other = &summary->others[i];
        const size_t unknown = isnan(other->sm_share) ? count_unknown(summary, i) : 1;
        if (!unknown || other->sm_share < sm_much) continue;
        next(said);
        if (unknown > 1)
            aorta_text_printf(said->out, "%zu other processes used GPU %zu", unknown, other->gpu);
        else
            aorta_text_printf(said->out, "another process (%lld) used GPU %zu", (long long)other->pid, other->gpu);
        if (!isnan(other->sm_share))
            aorta_text_printf(said->out, ", up to %.0f%% of its multiprocessors' time", 100 * other->sm_share);
        else
            aorta_text_puts(said->out, " (share unknown)");
    }
}

/* Whether the machine and not the program causes the limit. A power limit is normal on a busy device. */
static bool is_machines(const struct aorta_clocks *clocks) {
    static const enum aorta_clock_limit machines[] = {AORTA_CLOCK_SW_THERMAL, AORTA_CLOCK_HW_THERMAL,
                                                      AORTA_CLOCK_POWER_BRAKE, AORTA_CLOCK_HW_SLOWDOWN};
    if (clocks->thermal_share >= limited_much) return true;
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++)
        if (clocks->limit_readings &&
            (double)clocks->limited[machines[i]] >= limited_much * (double)clocks->limit_readings)
            return true;
    return false;
}

static void say_clocks(const struct aorta_machine_summary *summary, struct said *said) {
    if (!aorta_clocks_low(&summary->clocks) || !is_machines(&summary->clocks)) return;
    next(said);
    aorta_text_printf(said->out, "GPU %zu ran at ", summary->slow_gpu);
    aorta_clocks_figures(&summary->clocks, said->out);
    aorta_text_puts(said->out, ", ");
    aorta_clocks_why(&summary->clocks, said->out);
}

void aorta_machine_look(pid_t root, struct aorta_machine_reading *reading) {
    enum { MOST = 4096 };
    int64_t *pids = malloc(MOST * sizeof *pids);
    size_t count;
    *reading = (struct aorta_machine_reading){0};
    aorta_machine_read_proc("/proc", reading);
    reading->own_s = pids ? aorta_machine_tree(root, pids, MOST, &count) : NAN;
    free(pids);
}

double aorta_machine_pressure_between(const struct aorta_machine_reading *first,
                                      const struct aorta_machine_reading *last) {
    static const double least_s = 0.2; /* ticks are hundredths */
    const double total_s = last->total_s - first->total_s, idle = (last->idle_s - first->idle_s) / total_s;
    const double taken = 1 - idle - (last->own_s - first->own_s) / total_s;
    if (total_s >= least_s && !isnan(taken)) return aorta_pressure_of(taken * (1 - idle));
    const double processors = (double)sysconf(_SC_NPROCESSORS_ONLN);
    return isnan(last->load) ? NAN : aorta_pressure_of(1 - processors / fmax(processors, last->load));
}

double aorta_machine_pressure(const struct aorta_machine_summary *summary) {
    const double taken = summary->others_share + summary->stolen_share;
    return isnan(taken) ? NAN : aorta_pressure_of(taken * (1 - summary->idle_share));
}

bool aorta_machine_disturbed(const struct aorta_machine_summary *summary, struct aorta_text *out) {
    struct said said = {.out = out};
    say_processors(summary, &said);
    say_others(summary, &said);
    say_clocks(summary, &said);
    if (!said.count) return false;
    if (*summary->machine->host) aorta_text_printf(out, " (%s, %.0f s)", summary->machine->host, summary->seconds);
    aorta_text_puts(out, "; results may be off; rerun on an idle machine");
    return true;
}

/* ---- JSON ---- */

#define AT(member) offsetof(struct aorta_machine_other, member)
static const struct aorta_row other_rows[] = {
    {"pid", AORTA_ROW_INT, AT(pid), .help = "of a process of another program"},
    {"gpu", AORTA_ROW_INT, AT(gpu), .help = "that it uses"},
    {"sm_share", AORTA_ROW_NUMBER, AT(sm_share), "share", .help = "of its multiprocessors' time, at most"},
    {"memory_bytes", AORTA_ROW_NUMBER, AT(memory_bytes), "bytes", .help = "of its memory, at most"},
    {0}};

static void write_others(const struct aorta_machine_summary *summary, struct aorta_json *json) {
    const char *why = summary->machine->gpu_reason;
    if (summary->gpus_known) {
        aorta_rows_array("other_processes", other_rows, summary->others, summary->other_count, sizeof *summary->others,
                         0, json);
        return;
    }
    aorta_json_key_null(json, "other_processes");
    aorta_json_key_string(json, "other_processes_reason",
                          *why ? why : "the driver does not list the processes on a GPU");
}

void aorta_machine_json(const struct aorta_machine_summary *summary, struct aorta_json *json) {
    struct aorta_text text = {0};
    aorta_json_key_object(json, "machine");
    aorta_json_key_string(json, "host", summary->machine->host);
    aorta_json_key_int(json, "readings", (int64_t)summary->readings);
    aorta_json_key_fixed(json, "seconds", summary->seconds, 3);
    aorta_json_key_int(json, "processors", summary->machine->processors);
    aorta_json_key_double(json, "load", summary->load);
    aorta_json_key_fixed(json, "stolen_share", summary->stolen_share, 4);
    aorta_json_key_fixed(json, "idle_share", summary->idle_share, 4);
    aorta_json_key_fixed(json, "own_share", summary->own_share, 4);
    aorta_json_key_fixed(json, "others_share", summary->others_share, 4);
    if (summary->readings < 2)
        aorta_json_key_string(json, "shares_reason", "there are not two readings");
    else if (summary->seconds < shortest_s)
        aorta_json_key_string(json, "shares_reason", "less than a second between the readings");
    else if (isnan(summary->others_share))
        aorta_json_key_string(json, "shares_reason", "/proc does not say what null would be");
    write_others(summary, json);
    if (summary->clocks.readings || !*summary->machine->gpu_reason) {
        aorta_json_key_int(json, "gpu", (int64_t)summary->slow_gpu);
        aorta_clocks_json(&summary->clocks, json);
    } else {
        aorta_json_key_null(json, "clocks");
        aorta_json_key_string(json, "clocks_reason", summary->machine->gpu_reason);
    }
    const bool disturbed = aorta_machine_disturbed(summary, &text);
    aorta_json_key_string(json, "disturbed", disturbed ? text.data : NULL);
    aorta_text_end(&text, json->out);
    aorta_json_object_end(json);
}
