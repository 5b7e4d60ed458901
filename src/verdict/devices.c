#include "verdict/devices.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NONE NAN
static const struct row {
    const char *words[2], *without;
    int major, minor, multiprocessors, gigabytes;
    struct aorta_peaks peaks;
} rows[] = {
#define DEVICE(name, source, word, other, without, major, minor, units, gigabytes, fp64, fp32, tf32, fp16, bf16, fp8,  \
               fp6, fp4, bandwidth)                                                                                    \
    {{word, other},                                                                                                    \
     without,                                                                                                          \
     major,                                                                                                            \
     minor,                                                                                                            \
     units,                                                                                                            \
     gigabytes,                                                                                                        \
     {name, source, NULL, "boost", {fp64, fp32, tf32, fp16, bf16, fp8, fp6, fp4}, bandwidth}},
#include "verdict/devices.def"
#undef DEVICE
};

/* Whether the name contains the word as a whole word, in any case. */
static bool has_word(const char *name, const char *word) {
    size_t length = strlen(word);
    if (!length) return false;
    for (const char *at = name; (at = strcasestr(at, word)); at++) {
        bool begins = at == name || !isalnum((unsigned char)at[-1]);
        if (begins && !isalnum((unsigned char)at[length])) return true;
    }
    return false;
}

/* `words`: separated by blanks. */
static bool has_any_word(const char *name, const char *words) {
    char word[16];
    for (; *words; words += strspn(words, " ")) {
        snprintf(word, sizeof word, "%.*s", (int)strcspn(words, " "), words);
        if (has_word(name, word)) return true;
        words += strlen(word);
    }
    return false;
}

/* The size in a name with "80GB"; -1: none. */
static int64_t bytes_in_name(const char *name) {
    for (const char *at = name; (at = strcasestr(at, "GB")); at++) {
        const char *digits = at;
        while (digits > name && isdigit((unsigned char)digits[-1])) digits--;
        if (digits < at) return strtoll(digits, NULL, 10) * 1000000000;
    }
    return -1;
}

/* Names that drivers use for all devices of an architecture. */
static bool is_generic(const char *name) {
    return strncmp(name, "gfx", 3) == 0 || strcmp(name, "AMD Radeon Graphics") == 0;
}

/* "gfx90a:sramecc+:xnack-" is 9, 0. */
static bool fits_architecture(const struct row *row, const struct aorta_device_facts *device) {
    if (strncmp(device->name, "gfx", 3) == 0) {
        const char *digits = device->name + 3;
        return digits[0] == '0' + row->major && digits[1] == '0' + row->minor && isalnum((unsigned char)digits[2]) &&
               (row->major != 9 || row->minor != 0 || digits[2] == 'a');
    }
    return device->major == row->major && device->minor == row->minor && device->multiprocessors > 0;
}

/* A device without a name can only be one of AMD's. All its other facts must be known. */
static bool fits_facts(const struct row *row, const struct aorta_device_facts *device) {
    return strncmp(row->peaks.device, "AMD", 3) == 0 && device->multiprocessors == row->multiprocessors &&
           device->major == row->major && device->minor == row->minor && device->memory_bytes > 0;
}

static bool fits_name(const struct row *row, const struct aorta_device_facts *device) {
    if (!device->name[0]) return fits_facts(row, device);
    if (is_generic(device->name)) return strncmp(row->peaks.device, "AMD", 3) == 0 && fits_architecture(row, device);
    return has_word(device->name, row->words[0]) && (!row->words[1][0] || has_word(device->name, row->words[1])) &&
           !has_any_word(device->name, row->without);
}

/* Drivers reserve some memory, and use other units than data sheets. */
static bool fits_memory(const struct row *row, int64_t bytes) {
    return bytes < 0 || (bytes > 0.9e9 * row->gigabytes && bytes < 1.12e9 * row->gigabytes);
}

static bool same_peaks(const struct aorta_peaks *a, const struct aorta_peaks *b) {
    return !memcmp(a->tflops, b->tflops, sizeof a->tflops) && a->gbytes_per_s == b->gbytes_per_s;
}

/* Sets the peaks. Returns the reason if they are unknown, else NULL. */
static const char *find(const struct aorta_device_facts *device, struct aorta_peaks *peaks) {
    const int64_t bytes = device->memory_bytes > 0 ? device->memory_bytes : bytes_in_name(device->name);
    const char *reason = "the device is not in the table";
    static const char several[] = "several devices have this name";
    const struct aorta_peaks *found = NULL;
    if (strcmp(device->name, "NVIDIA H100") == 0 && device->memory_bytes <= 0) return several;
    if (has_word(device->name, "MIG")) return "a part of the device (MIG): its share of the peaks is not known";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!fits_name(&rows[i], device)) continue;
        if (device->multiprocessors > 0 && device->multiprocessors != rows[i].multiprocessors) {
            reason = "another number of multiprocessors than the device of this name: a part of it, or another model";
            continue;
        }
        if (!fits_memory(&rows[i], bytes)) {
            reason = "another size of memory than the device of this name";
            continue;
        }
        if (found && !same_peaks(found, &rows[i].peaks)) return several;
        if (!found) found = &rows[i].peaks;
    }
    if (!found) return reason;
    *peaks = *found;
    return NULL;
}

void aorta_peaks_find(const struct aorta_device_facts *device, struct aorta_peaks *peaks) {
    *peaks = (struct aorta_peaks){.gbytes_per_s = NAN};
    for (int i = 0; i < AORTA_ARITHMETIC_COUNT; i++) peaks->tflops[i] = NAN;
    peaks->reason = device->name ? find(device, peaks) : "the recording does not name its device";
}

/* ---- of a rank ---- */

/* The peaks were measured in a few runs before the first step, which another process may have slowed down. Rates that
 * the run's own operations reached are possible, too. Short operations and data that fits into a cache do not count. */
static void raise_peaks(const struct aorta_profile *profile, struct aorta_peaks *peaks) {
    static const int64_t long_ns = 100000, large_bytes = 8 << 20;
    AORTA_EACH (const struct aorta_range, range, profile->ranges, profile->range_count) {
        const enum aorta_arithmetic arithmetic = aorta_arithmetic_of(range->info.dtype);
        const double ns = (double)(range->end_ns - range->start_ns);
        if (range->info.kind != AORTA_RANGE_COMPUTE || range->end_ns - range->start_ns < long_ns) continue;
        if (arithmetic != AORTA_ARITHMETIC_UNKNOWN && range->info.flops > 0)
            peaks->tflops[arithmetic] = fmax(peaks->tflops[arithmetic], range->info.flops / ns / 1e3);
        if (range->info.bytes >= large_bytes)
            peaks->gbytes_per_s = fmax(peaks->gbytes_per_s, (double)range->info.bytes / ns);
    }
}

/* Takes the highest measured rates of all ranks, since their devices are of one model. */
static void take_measured(const struct aorta_trace_analysis *analysis, const struct aorta_trace_device *device,
                          struct aorta_peaks *peaks) {
    peaks->device = "this device";
    peaks->source = "measured: the fastest product and the fastest move of much data, of the run and of a product of "
                    "512 x 512 x 512 and a copy of 32 MiB before its first step";
    peaks->reason = NULL;
    memcpy(peaks->tflops, device->peaks.tflops, sizeof peaks->tflops);
    peaks->gbytes_per_s = device->peaks.gbytes_per_s;
    for (size_t i = 0; i < analysis->rank_count; i++) {
        const struct aorta_trace *trace = analysis->ranks[i].trace;
        for (size_t j = 0; trace->measured && j < trace->step_count; j++)
            raise_peaks(trace->measured[j].profile, peaks);
    }
}

static const struct aorta_trace_device *device_of(const struct aorta_trace_rank *rank) {
    const struct aorta_trace_device *device = aorta_trace_device_of(rank->trace, rank->device);
    return device && (device->name != AORTA_TRACE_NONE || device->measured) ? device : NULL;
}

void aorta_rank_peaks(const struct aorta_trace_analysis *analysis, size_t rank, struct aorta_peaks *peaks) {
    const struct aorta_trace *trace = analysis->ranks[rank].trace;
    const struct aorta_trace_device *device = device_of(&analysis->ranks[rank]);
    struct aorta_device_facts facts = {.memory_bytes = -1, .multiprocessors = -1, .major = -1, .minor = -1};
    if (device)
        facts =
            (struct aorta_device_facts){device->name == AORTA_TRACE_NONE ? NULL : aorta_trace_text(trace, device->name),
                                        device->memory_bytes, device->multiprocessors, device->major, device->minor};
    if (facts.name && device->isa && strcmp(facts.name, "AMD Radeon Graphics") == 0) facts.name = device->isa;
    aorta_peaks_find(&facts, peaks);
    if (device && device->measured) take_measured(analysis, device, peaks);
}

const char *aorta_rank_device_name(const struct aorta_trace_analysis *analysis, size_t rank,
                                   const struct aorta_peaks *peaks, struct aorta_arena *memory) {
    const struct aorta_trace_device *device = device_of(&analysis->ranks[rank]);
    if (!device || device->name == AORTA_TRACE_NONE) return NULL;
    const char *name = aorta_trace_text(analysis->ranks[rank].trace, device->name);
    if (!name[0] && peaks->device) name = peaks->device; /* empty in some versions of ROCm */
    if (!name[0] && device->multiprocessors > 0 && device->memory_bytes > 0)
        return aorta_arena_printf(memory, "%d compute units, %.0f GB", device->multiprocessors,
                                  (double)device->memory_bytes / 1e9);
    return aorta_arena_strdup(memory, name);
}
