/* Advice, and variables of the recorded environment that explain a finding. */
#include "verdict/advice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char aorta_advice_larger[] = "a larger", aorta_advice_smaller[] = "a smaller", aorta_advice_another[] = "another";

static const char no_gpu_links[] = "";

enum {
    TORCH = AORTA_PROGRAM_TORCH,
    COMPILED = AORTA_PROGRAM_COMPILED,
    SERVING = AORTA_PROGRAM_SERVING,
    XLA = AORTA_PROGRAM_XLA,
    CUPY = AORTA_PROGRAM_CUPY,
    TRITON = AORTA_PROGRAM_TRITON,
    DIRECTIVES = AORTA_PROGRAM_DIRECTIVES,
    NATIVE = AORTA_PROGRAM_NATIVE | DIRECTIVES,
    OURS = AORTA_PROGRAM_OURS,
    SPARSE = AORTA_PROGRAM_SPARSE,
    PYTORCH = TORCH | COMPILED | SERVING | TRITON,
    OTHERS = PYTORCH | XLA | CUPY | NATIVE, /* programs that are not ours */
    ANY = OTHERS | OURS | SPARSE
};

/* Members that several rows share. */
#define LARGER_BATCH .key = "ModelSelectionConfig.batch_size", .value = aorta_advice_larger
#define PIPELINED                                                                                                      \
    .key = "PipelineConfig.pipeline", .value = "sparse",                                                               \
    .unless = "PipelineConfig.pipeline=fused PipelineConfig.pipeline=semi PipelineConfig.pipeline=prefetch"

static const char keep_on_gpu[] =
    "keep the data on the GPU: weights, optimizer states and activations without offloading";
static const char whole_sequence[] =
    "nn.LSTM or nn.GRU over the whole sequence (cuDNN, MIOpen) instead of a cell for each time step";

static const char grouped_experts[] =
    "one grouped product for all experts: torch._grouped_mm (transformers: experts_implementation=\"grouped_mm\")";

static const char process_per_device[] =
    "one process for each GPU: DistributedDataParallel (DDP) with torchrun instead of DataParallel";

static const char during_backward[] =
    "reduce gradients during the backward pass: DistributedDataParallel (DDP), fully_shard (FSDP2)";
static const char in_hooks[] =
    "or by hand: register_post_accumulate_grad_hook with all_reduce(async_op=True), wait before the optimizer";

static const char capture_step[] = "capture the step: torch.compile(mode=\"reduce-overhead\") or torch.cuda.graph";

static const struct aorta_advice_row rows[] = {
#define ADVICE(cause, ...) {AORTA_CAUSE_##cause, __VA_ARGS__},
#include "verdict/advice.def"
#undef ADVICE
};

const struct aorta_advice_row *aorta_advice_rows(size_t *count) {
    *count = sizeof rows / sizeof rows[0];
    return rows;
}

static bool in_force(const struct aorta_settings *settings, const char *key, const char *value) {
    const char *now = aorta_settings_value(settings, key);
    return now && strcasecmp(now, value) == 0;
}

/* DDP ignores the keys of FSDP. */
static bool is_unread(const struct aorta_settings *settings, const char *key) {
    return strncmp(key, "fsdp.", 5) == 0 && in_force(settings, "distributed.mode", "ddp");
}

/* `list`: as in the rows' `unless`. */
static bool any_in_force(const struct aorta_settings *settings, const char *list) {
    char copy[128], *rest = NULL;
    snprintf(copy, sizeof copy, "%s", list);
    for (char *one = strtok_r(copy, " ", &rest); one; one = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(one, '=');
        const bool other = equals[-1] == '!';
        equals[other ? -1 : 0] = '\0';
        if (!is_unread(settings, one) && in_force(settings, one, equals + 1) != other) return true;
    }
    return false;
}

static bool pointless(const struct aorta_settings *settings, bool simulated, const struct aorta_advice_row *row) {
    if (is_unread(settings, row->key)) return true;
    if (!row->unless) return false;
    if (row->unless == no_gpu_links) return simulated || in_force(settings, "device.kind", "cpu");
    return any_in_force(settings, row->unless);
}

static bool has(const struct aorta_finding *finding, enum aorta_fact_key key) {
    return key == AORTA_FACT_NONE || aorta_facts_has(&finding->facts, key);
}

static bool concerns(const struct aorta_advice_row *row, unsigned program, const struct aorta_finding *finding) {
    return row->cause == finding->cause && row->programs & program &&
           (!row->collective || row->collective == 1 + (int)finding->collective) &&
           (!row->remedy || (finding->remedy && strcmp(row->remedy, finding->remedy) == 0)) &&
           has(finding, row->when[0]) && has(finding, row->when[1]);
}

static bool is_direction(const char *value) {
    return value == aorta_advice_larger || value == aorta_advice_smaller || value == aorta_advice_another;
}

static void add_fix(struct aorta_finding *finding, const struct aorta_advice_row *row,
                    const struct aorta_settings *settings) {
    const char *now = row->key && is_direction(row->value) ? aorta_settings_value(settings, row->key) : NULL;
    finding->fixes[finding->fix_count++] = (struct aorta_fix){row, aorta_facts_text(&finding->facts, now)};
}

static void advise(const struct aorta_verdict *verdict, struct aorta_finding *finding, unsigned program,
                   const struct aorta_settings *settings) {
    bool fits = false; /* a row with a key applies, whether the key is set already or not */
    finding->fix_count = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && finding->fix_count < AORTA_FIXES; i++) {
        const struct aorta_advice_row *row = &rows[i];
        if (!concerns(row, program, finding)) continue;
        if (!row->key) {
            if (!fits) add_fix(finding, row, settings);
            break;
        }
        if (!settings || !settings->count || pointless(settings, verdict->simulated, row)) continue;
        fits = true;
        if (!in_force(settings, row->key, row->value)) add_fix(finding, row, settings);
    }
    finding->all_set = fits && !finding->fix_count;
}

aorta_status aorta_advise(struct aorta_verdict *verdict, const struct aorta_settings *settings) {
    unsigned program = verdict->program ? verdict->program : (unsigned)(verdict->recorded ? NATIVE : OURS);
    if (!verdict->recorded && settings && aorta_settings_value(settings, "PipelineConfig.pipeline")) program = SPARSE;
    bool failed = false;
    for (size_t i = 0; i < verdict->finding_count; i++) {
        advise(verdict, &verdict->findings[i], program, settings);
        failed |= verdict->findings[i].facts.arena->failed;
    }
    return failed ? AORTA_ERROR(AORTA_MEMORY, "no memory for the verdict") : NULL;
}

/* ---- the environment ---- */

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

void aorta_verdict_environment(struct aorta_verdict *verdict, const struct aorta_settings *environment) {
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        char key[64], setting[256];
        snprintf(key, sizeof key, "environment.%s", words[i].variable);
        const char *value = aorta_settings_value(environment, key);
        struct aorta_finding *finding = aorta_verdict_find(verdict, words[i].cause);
        if (!value || !finding || (words[i].value && strcmp(value, words[i].value) != 0)) continue;
        snprintf(setting, sizeof setting, "%s=%s", words[i].variable, value);
        aorta_facts_set_named(&finding->facts, AORTA_FACT_ENVIRONMENT, 1, setting)->text = words[i].text;
    }
}
