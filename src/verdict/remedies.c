#include "verdict/remedies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { ANY = -1, SHOWN = 2 }; /* remedies named in one line of advice */

/* Stands for a setting that makes a remedy pointless: collectives are not those of NCCL or RCCL between ranks. */
static const char between_gpus[] = "";

/* Stand for a value where the best is not known, only where to look for it. */
static const char larger[] = "a larger", smaller[] = "a smaller", another[] = "another";

static const char not_compute[] = "a stream that is not compute's";

/* One row per remedy, best first within a cause. The key may be a variable of the environment. `unless`: settings
 * any of which makes the remedy pointless ("key=value", or "key!=value"; blanks between them). */
static const struct remedy {
    enum aorta_cause cause;
    int kind; /* enum aorta_collective, or ANY */
    const char *key, *value, *unless, *text;
} remedies[] = {
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, ANY, "distributed.enable_overlap", "true", NULL,
     "let collectives run beside compute"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_ALL_GATHER, "fsdp.forward_prefetch", "true", NULL,
     "gather the next layer beside this one"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_ALL_GATHER, "fsdp.backward_prefetch", "BACKWARD_PRE",
     "fsdp.sharding_strategy=shard_grad_op", "gather for backward before it is needed"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_ALL_GATHER, "fsdp.use_orig_params", "false", between_gpus,
     "a layer travels as one piece, not as one for each parameter"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_ALL_GATHER, "fsdp.symmetric_memory", "true", between_gpus,
     "NCCL reaches the other GPUs' memory itself; with fsdp.use_orig_params=false"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_ALL_GATHER, "fsdp.sharding_strategy", "shard_grad_op", NULL,
     "gather once a step, for more memory"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_ALL_GATHER, "training.batch_size", larger, NULL, "more compute per gather"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_REDUCE_SCATTER, "fsdp.use_orig_params", "false", between_gpus,
     "a layer travels as one piece, not as one for each parameter"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_REDUCE_SCATTER, "fsdp.symmetric_memory", "true", between_gpus,
     "NCCL reaches the other GPUs' memory itself; with fsdp.use_orig_params=false"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_REDUCE_SCATTER, "distributed.overlap_reduce_scatter", "false",
     "distributed.mode=fsdp", "training does not need it: it is there to load the links"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_REDUCE_SCATTER, "training.batch_size", larger, NULL,
     "more compute per reduction"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_REDUCE_SCATTER, "fsdp.sharding_strategy", "hybrid_shard", NULL,
     "reduce within a node first; with fsdp.hybrid_shard_gpus_per_node"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_ALL_REDUCE, "distributed.bucket_cap_mb", smaller, "distributed.mode=fsdp",
     "smaller buckets start earlier"},
    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_ALL_REDUCE, "training.gradient_accumulation", larger,
     "fsdp.sharding_strategy=hybrid_shard", "reduce less often"}, /* which reduces in each micro-batch */
    {AORTA_CAUSE_HOST_LAUNCH, ANY, "compile.enabled", "true", NULL, "replay the step as one graph"},
    {AORTA_CAUSE_HOST_LAUNCH, ANY, "training.batch_size", larger, NULL, "more work for each launch"},
    {AORTA_CAUSE_LAUNCH_LATENCY, ANY, "compile.enabled", "true", "device.kind=cpu",
     "operations of a graph start sooner"},
    {AORTA_CAUSE_LAUNCH_LATENCY, ANY, "training.batch_size", larger, "device.kind=cpu", "fewer, larger operations"},
    {AORTA_CAUSE_CONTENTION, ANY, "NCCL_MAX_CTAS", smaller, between_gpus,
     "fewer channels leave multiprocessors to GEMMs; weigh it against the time hidden"},
    {AORTA_CAUSE_DATA_WAIT, ANY, "dataloader.num_workers", larger, NULL, "make batches further ahead"},
    {AORTA_CAUSE_COPY, ANY, "distributed.gradient_as_bucket_view", "true",
     "distributed.mode=fsdp distributed.gradient_as_bucket_view!=false", "gradients are made where they are reduced"},
    {AORTA_CAUSE_COPY, ANY, "distributed.overlap_clone_for_reduce_scatter", "false",
     "distributed.mode=fsdp distributed.overlap_reduce_scatter!=true", "no clones of buckets"},
    {AORTA_CAUSE_COPY, ANY, "workload.async_wait", "false", "workload.async_wait!=true",
     "training does not need it: it is there to copy beside compute"},
    {AORTA_CAUSE_COPY, ANY, "dataloader.pin_memory", "true", NULL, "copy batches beside the step before"},
    {AORTA_CAUSE_COPY, ANY, "streams.assignment.prefetch", another, "compile.enabled=true",
     "a role whose stream has less to do copies the input sooner"},
    {AORTA_CAUSE_SERIALIZED_STREAMS, ANY, "streams.count", "4", "streams.count=2 streams.count=3",
     "give each role a stream of its own"},
    {AORTA_CAUSE_SERIALIZED_STREAMS, AORTA_ALL_GATHER, "streams.assignment.all_gather", "aux",
     "streams.assignment.all_gather!=compute", not_compute},
    {AORTA_CAUSE_SERIALIZED_STREAMS, AORTA_REDUCE_SCATTER, "streams.assignment.reduce_scatter", "reducescatter",
     "streams.assignment.reduce_scatter!=compute", not_compute},
    {AORTA_CAUSE_SERIALIZED_STREAMS, AORTA_ALL_REDUCE, "streams.assignment.all_reduce", "allreduce",
     "streams.assignment.all_reduce!=compute", not_compute},
    {AORTA_CAUSE_SERIALIZED_STREAMS, AORTA_ALL_REDUCE, "streams.assignment.optimizer", "aux",
     "streams.assignment.optimizer!=compute", not_compute},
    {AORTA_CAUSE_COMPUTE, ANY, "compile.enabled", "true", NULL, "replay the step as one graph"},
    {AORTA_CAUSE_COMPUTE, ANY, "training.mixed_precision", "bf16", "device.kind=cpu training.mixed_precision=fp16",
     "arithmetic in 16 bits"},
};

static const char *value_of(const struct aorta_settings *settings, const char *key) {
    for (size_t i = 0; i < settings->count; i++)
        if (strcmp(settings->items[i].key, key) == 0) return settings->items[i].value;
    return NULL;
}

static bool in_force(const struct aorta_settings *settings, const char *key, const char *value) {
    const char *now = value_of(settings, key);
    return now && strcasecmp(now, value) == 0;
}

/* ddp reads none of the keys of fsdp. */
static bool is_unread(const struct aorta_settings *settings, const char *key) {
    return strncmp(key, "fsdp.", 5) == 0 && in_force(settings, "distributed.mode", "ddp");
}

/* Any of these settings, as remedies have them. */
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

static bool pointless(const struct aorta_settings *settings, bool simulated, const struct remedy *remedy) {
    const char *unless = remedy->unless;
    if (is_unread(settings, remedy->key)) return true;
    if (!unless) return false;
    if (unless == between_gpus) return simulated || in_force(settings, "device.kind", "cpu");
    return any_in_force(settings, unless);
}

static bool concerns(const struct remedy *remedy, const struct aorta_finding *finding) {
    return remedy->cause == finding->cause && (remedy->kind == ANY || remedy->kind == (int)finding->collective);
}

static bool is_direction(const char *value) {
    return value == larger || value == smaller || value == another;
}

static void add(struct aorta_text *text, const struct remedy *remedy, const struct aorta_settings *settings) {
    if (text->length) aorta_text_puts(text, "; or ");
    if (!is_direction(remedy->value)) {
        aorta_text_printf(text, "%s=%s (%s)", remedy->key, remedy->value, remedy->text);
        return;
    }
    const char *now = value_of(settings, remedy->key);
    aorta_text_printf(text, "%s %s%s%s (%s)", remedy->value, remedy->key, now ? ", now " : "", now ? now : "",
                      remedy->text);
}

static aorta_status advise(struct aorta_finding *finding, const struct aorta_settings *settings, bool simulated) {
    struct aorta_text text = {0};
    bool known = false;
    int shown = 0;
    for (size_t i = 0; i < sizeof remedies / sizeof *remedies && shown < SHOWN; i++) {
        const struct remedy *remedy = &remedies[i];
        if (!concerns(remedy, finding) || pointless(settings, simulated, remedy)) continue;
        known = true;
        if (in_force(settings, remedy->key, remedy->value)) continue;
        add(&text, remedy, settings);
        shown++;
    }
    if (known && !shown)
        aorta_text_puts(&text, "every key that helps is set already: more work per rank, or a faster one");
    AORTA_TRY(aorta_text_check(&text));
    if (!text.length) return NULL;
    free(finding->advice);
    finding->advice = text.data;
    return NULL;
}

aorta_status aorta_verdict_advise(struct aorta_verdict *verdict, const struct aorta_settings *settings) {
    for (size_t i = 0; i < verdict->finding_count; i++)
        AORTA_TRY(advise(&verdict->findings[i], settings, verdict->simulated));
    return NULL;
}
