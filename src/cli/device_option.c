#include "cli/device_option.h"
#include "device/gpu.h"

#include <stdlib.h>
#include <string.h>

static aorta_status meaningless(const char *words) {
    return AORTA_ERROR(AORTA_USAGE, "--device: found \"%s\"; expected %s", words, AORTA_CLI_DEVICE_HELP);
}

/* A missing device is a mistake in the command line, whatever the reason. */
static aorta_status as_usage(aorta_status status) {
    if (!status || aorta_status_code(status) != AORTA_UNSUPPORTED) return status;
    aorta_status usage =
        aorta_with_detail(AORTA_ERROR(AORTA_USAGE, "%s", aorta_status_message(status)), aorta_status_detail(status));
    aorta_status_free(status);
    return usage;
}

static aorta_status open_index(enum aorta_device_kind kind, int index, struct aorta_device **device) {
    int count = 1;
    if (kind != AORTA_DEVICE_CPU) AORTA_TRY(aorta_gpu_count(kind, &count));
    if (index >= count)
        return AORTA_ERROR(AORTA_USAGE, "there is no device %s:%d; there %s %d, counted from 0",
                           aorta_device_kind_name(kind), index, count == 1 ? "is" : "are", count);
    return aorta_device_open(kind, index, device);
}

/* A number alone. */
static aorta_status open_any(int index, struct aorta_device **device, struct aorta_device_warning *warning) {
    enum aorta_device_kind kind;
    int count;
    AORTA_TRY(aorta_device_best_kind(&kind, &count));
    AORTA_TRY(open_index(kind, index, device));
    if (kind == AORTA_DEVICE_CPU)
        snprintf(
            warning->text, sizeof warning->text,
            "--device %d: there is no GPU here, so this runs on the CPU device; aorta info says what was looked for",
            index);
    return NULL;
}

static bool read_index(const char *text, int *index) {
    if (!*text || strspn(text, "0123456789") != strlen(text) || strlen(text) > 4) return false;
    *index = atoi(text);
    return true;
}

static bool read_kind(const char *text, size_t length, enum aorta_device_kind *kind) {
    static const enum aorta_device_kind kinds[] = {AORTA_DEVICE_CPU, AORTA_DEVICE_CUDA, AORTA_DEVICE_HIP};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const char *name = aorta_device_kind_name(kinds[i]);
        if (strlen(name) != length || strncmp(name, text, length) != 0) continue;
        *kind = kinds[i];
        return true;
    }
    return false;
}

static aorta_status open_words(const char *words, int local_rank, struct aorta_device **device,
                               struct aorta_device_warning *warning) {
    int index;
    enum aorta_device_kind kind;
    if (strcmp(words, "auto") == 0) return aorta_device_open_best(local_rank, device, warning);
    if (read_index(words, &index)) return open_any(index, device, warning);
    size_t length = strcspn(words, ":");
    if (!read_kind(words, length, &kind)) return meaningless(words);
    if (!words[length]) return aorta_device_open_local(kind, local_rank, device, warning);
    if (!read_index(words + length + 1, &index)) return meaningless(words);
    return open_index(kind, index, device);
}

aorta_status aorta_cli_open_device(const char *words, int local_rank, const struct aorta_log *log,
                                   struct aorta_device **device) {
    struct aorta_device_warning warning = {{0}};
    *device = NULL;
    AORTA_TRY(as_usage(open_words(words, local_rank, device, &warning)));
    if (warning.text[0]) aorta_log(log, AORTA_LOG_WARNING, "%s", warning.text);
    return NULL;
}
