/* Variables of the recorded environment that explain a row. */
#include "verdict/advice.h"

#include <stdlib.h>
#include <string.h>

/* Of a cause's largest row; "%s" stands for the value. */
static const struct {
    const char *variable, *value; /* NULL: any */
    enum aorta_cause cause;
    const char *text;
} words[] = {
    {"CUDA_DEVICE_MAX_CONNECTIONS", "1", AORTA_CAUSE_EXPOSED_COLLECTIVE,
     "all streams share one hardware queue, so that collectives and compute begin in the order of their launches: "
     "without the variable they need not"},
    {"CUDA_DEVICE_MAX_CONNECTIONS", "1", AORTA_CAUSE_SERIALIZED_STREAMS, "all streams share one hardware queue"},
    {"GPU_MAX_HW_QUEUES", "1", AORTA_CAUSE_EXPOSED_COLLECTIVE, "all streams share one hardware queue"},
    {"GPU_MAX_HW_QUEUES", "1", AORTA_CAUSE_SERIALIZED_STREAMS, "all streams share one hardware queue"},
    {"CUDA_LAUNCH_BLOCKING", "1", AORTA_CAUSE_HOST_LAUNCH, "the host waits for each kernel"},
    {"CUDA_LAUNCH_BLOCKING", "1", AORTA_CAUSE_HOST_SYNC, "the host waits for each kernel"},
    {"NCCL_P2P_DISABLE", "1", AORTA_CAUSE_EXPOSED_COLLECTIVE, "GPUs of a host exchange through its memory"},
    {"NCCL_P2P_DISABLE", "1", AORTA_CAUSE_SLOW_COLLECTIVE, "GPUs of a host exchange through its memory"},
    {"NCCL_SHM_DISABLE", "1", AORTA_CAUSE_EXPOSED_COLLECTIVE, "ranks of a host exchange over its network"},
    {"NCCL_MAX_CTAS", NULL, AORTA_CAUSE_EXPOSED_COLLECTIVE, "which limits the channels of a collective"},
    {"NCCL_MAX_NCHANNELS", NULL, AORTA_CAUSE_EXPOSED_COLLECTIVE, "which limits the channels of a collective"},
    {"NCCL_MAX_CTAS", NULL, AORTA_CAUSE_CONTENTION, "which limits the channels of a collective"},
    {"NCCL_MIN_CTAS", NULL, AORTA_CAUSE_CONTENTION, "each channel takes a multiprocessor from compute"},
    {"NCCL_MIN_NCHANNELS", NULL, AORTA_CAUSE_CONTENTION, "each channel takes a multiprocessor from compute"},
    {"NCCL_ALGO", NULL, AORTA_CAUSE_SLOW_COLLECTIVE, "which takes the choice from NCCL"},
    {"NCCL_PROTO", NULL, AORTA_CAUSE_SLOW_COLLECTIVE, "which takes the choice from NCCL"},
};

static const char *value_of(const struct aorta_settings *environment, const char *variable) {
    static const char section[] = "environment.";
    for (size_t i = 0; i < environment->count; i++) {
        const char *key = environment->items[i].key;
        if (strncmp(key, section, strlen(section)) == 0 && strcmp(key + strlen(section), variable) == 0)
            return environment->items[i].value;
    }
    return NULL;
}

static struct aorta_finding *largest(struct aorta_verdict *verdict, enum aorta_cause cause) {
    struct aorta_finding *found = NULL;
    for (size_t i = 0; i < verdict->finding_count; i++) {
        struct aorta_finding *finding = &verdict->findings[i];
        if (finding->cause == cause && (!found || finding->cost_ms > found->cost_ms)) found = finding;
    }
    return found;
}

aorta_status aorta_verdict_environment(struct aorta_verdict *verdict, const struct aorta_settings *environment) {
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *value = value_of(environment, words[i].variable);
        struct aorta_finding *finding = largest(verdict, words[i].cause);
        if (!value || !finding || !finding->evidence || (words[i].value && strcmp(value, words[i].value) != 0))
            continue;
        struct aorta_text text = {0};
        aorta_text_printf(&text, "%s; %s=%s was set: %s", finding->evidence, words[i].variable, value, words[i].text);
        AORTA_TRY(aorta_text_take(&text, &finding->evidence));
    }
    return NULL;
}
