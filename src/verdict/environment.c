/* Variables of the recorded environment that explain a finding. */
#include "verdict/advice.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *variable, *value; /* NULL: any */
    enum aorta_cause cause;
    const char *text;
} words[] = {
    {"CUDA_DEVICE_MAX_CONNECTIONS", "1", AORTA_CAUSE_EXPOSED_COLLECTIVE,
     "all streams share one hardware queue, so collectives and compute start in launch order"},
    {"CUDA_DEVICE_MAX_CONNECTIONS", "1", AORTA_CAUSE_SERIALIZED_STREAMS, "all streams share one hardware queue"},
    {"GPU_MAX_HW_QUEUES", "1", AORTA_CAUSE_EXPOSED_COLLECTIVE, "all streams share one hardware queue"},
    {"GPU_MAX_HW_QUEUES", "1", AORTA_CAUSE_SERIALIZED_STREAMS, "all streams share one hardware queue"},
    {"CUDA_LAUNCH_BLOCKING", "1", AORTA_CAUSE_HOST_LAUNCH, "the host waits for each kernel"},
    {"CUDA_LAUNCH_BLOCKING", "1", AORTA_CAUSE_HOST_SYNC, "the host waits for each kernel"},
    {"NCCL_P2P_DISABLE", "1", AORTA_CAUSE_EXPOSED_COLLECTIVE, "GPUs of a host exchange through its memory"},
    {"NCCL_P2P_DISABLE", "1", AORTA_CAUSE_SLOW_COLLECTIVE, "GPUs of a host exchange through its memory"},
    {"NCCL_SHM_DISABLE", "1", AORTA_CAUSE_EXPOSED_COLLECTIVE, "ranks of a host exchange over its network"},
    {"NCCL_MAX_CTAS", NULL, AORTA_CAUSE_EXPOSED_COLLECTIVE, "limits the channels of a collective"},
    {"NCCL_MAX_NCHANNELS", NULL, AORTA_CAUSE_EXPOSED_COLLECTIVE, "limits the channels of a collective"},
    {"NCCL_MAX_CTAS", NULL, AORTA_CAUSE_CONTENTION, "limits the channels of a collective"},
    {"NCCL_MIN_CTAS", NULL, AORTA_CAUSE_CONTENTION, "each channel takes a multiprocessor from compute"},
    {"NCCL_MIN_NCHANNELS", NULL, AORTA_CAUSE_CONTENTION, "each channel takes a multiprocessor from compute"},
    {"NCCL_ALGO", NULL, AORTA_CAUSE_SLOW_COLLECTIVE, "overrides NCCL's choice"},
    {"NCCL_PROTO", NULL, AORTA_CAUSE_SLOW_COLLECTIVE, "overrides NCCL's choice"},
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

void aorta_verdict_environment(struct aorta_verdict *verdict, const struct aorta_settings *environment) {
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *value = value_of(environment, words[i].variable);
        struct aorta_finding *finding = aorta_verdict_find(verdict, words[i].cause);
        if (!value || !finding || (words[i].value && strcmp(value, words[i].value) != 0)) continue;
        char setting[256];
        snprintf(setting, sizeof setting, "%s=%s", words[i].variable, value);
        struct aorta_fact *fact = aorta_facts_set(&finding->facts, AORTA_FACT_ENVIRONMENT, 1);
        fact->text = words[i].text;
        fact->place.name = aorta_facts_text(&finding->facts, setting);
    }
}
