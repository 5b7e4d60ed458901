/* Every key of the configuration has its effect, seen in what a run writes. A row holds one key: two runs that differ
 * in it, what is looked at, and how the two must compare. A key that no row names fails the last test. */
#include "check.h"
#include "run.h"

#include "train/options.h"

#include <math.h>
#include <stdlib.h>

/* ---- what is looked at: of rank 0, mostly in a step past the beginning ---- */

enum { STEADY = 4 };

static const json_t *steady(const struct e2e_run *run) {
    return e2e_line(run, 0, STEADY);
}

/* Counts ranges of the whole run: an input is copied in the step before its own, or, on a busy machine, when it has
 * arrived. */
static int count_in_all(const struct e2e_run *run, struct e2e_filter filter) {
    int count = 0;
    for (size_t step = 0; step < e2e_steps(run, 0); step++) count += e2e_count(e2e_line(run, 0, step), filter);
    return count;
}

static double count_of(const struct e2e_run *run, const char *function) {
    return e2e_count(steady(run), (struct e2e_filter){.function = function});
}

static double all_gathers(const struct e2e_run *run) {
    return count_of(run, "all_gather");
}

static double reduce_scatters(const struct e2e_run *run) {
    return count_of(run, "reduce_scatter");
}

/* Counts reductions of gradients, without the two small ones that carry norm and stop flag. */
static double all_reduces(const struct e2e_run *run) {
    const json_t *line = steady(run);
    return e2e_count(line, (struct e2e_filter){.function = "all_reduce"}) -
           e2e_count(line, (struct e2e_filter){.function = "all_reduce", .tag = "gradient norm"}) -
           e2e_count(line, (struct e2e_filter){.function = "all_reduce", .tag = "stop flag"});
}

static double bucket_copies(const struct e2e_run *run) {
    return count_of(run, "copy_into_bucket") + count_of(run, "copy_from_bucket");
}

static double clones(const struct e2e_run *run) {
    return count_of(run, "clone_bucket");
}

static double maps_of_used(const struct e2e_run *run) {
    return e2e_count(steady(run), (struct e2e_filter){.tag = "used parameters"});
}

static double first_maps_of_used(const struct e2e_run *run) {
    return e2e_count(e2e_line(run, 0, 0), (struct e2e_filter){.tag = "used parameters"});
}

static double forwards(const struct e2e_run *run) {
    return count_of(run, "embedding_forward");
}

static double gather_bytes(const struct e2e_run *run) {
    return e2e_number(e2e_range(steady(run), (struct e2e_filter){.function = "all_gather", .tag = "root"}, 0),
                      "metadata.bytes");
}

static double gather_group(const struct e2e_run *run) {
    return e2e_number(e2e_range(steady(run), (struct e2e_filter){.function = "all_gather"}, 0), "metadata.group_size");
}

static double input_bytes(const struct e2e_run *run) {
    const struct e2e_filter prefetch = {.function = "prefetch"};
    size_t step = 0;
    while (step + 1 < e2e_steps(run, 0) && !e2e_count(e2e_line(run, 0, step), prefetch)) step++;
    return e2e_number(e2e_range(e2e_line(run, 0, step), prefetch, 0), "metadata.bytes");
}

static double flops_of(const struct e2e_run *run, const char *tag) {
    struct e2e_filter filter = {.function = "linear_forward", .tag = tag};
    return e2e_number(e2e_range(steady(run), filter, 0), "metadata.flops");
}

static double dense_flops(const struct e2e_run *run) {
    return flops_of(run, "dense_projection");
}

static double embedding_flops(const struct e2e_run *run) {
    return flops_of(run, "embedding_projection");
}

static double mlp_flops(const struct e2e_run *run) {
    return flops_of(run, "encoder.layers.1.linear1");
}

static double mlp_products(const struct e2e_run *run) {
    return e2e_count(steady(run), (struct e2e_filter){.tag = "encoder.layers.1.linear1"});
}

/* Copies of outputs beside compute, and kernels on compute that wait for them. */
static double copies(const struct e2e_run *run) {
    return e2e_count(steady(run), (struct e2e_filter){"copy_output", NULL, "aux", "copy"});
}

static double waits_for_copies(const struct e2e_run *run) {
    return e2e_count(steady(run), (struct e2e_filter){"await_copy", NULL, "compute", "compute"});
}

static double bytes_of_copies(const struct e2e_run *run) {
    return e2e_number(e2e_range(steady(run), (struct e2e_filter){.function = "copy_output"}, 0), "metadata.bytes");
}

/* Work beside the model's. */
static double products_beside(const struct e2e_run *run) {
    return count_of(run, "lightweight_products");
}

static double statistics_beside(const struct e2e_run *run) {
    return count_of(run, "batch_statistics");
}

static double flops_beside(const struct e2e_run *run) {
    return e2e_number(e2e_range(steady(run), (struct e2e_filter){.function = "lightweight_products"}, 0),
                      "metadata.flops");
}

static double injected_all_reduces(const struct e2e_run *run) {
    return e2e_count(steady(run), (struct e2e_filter){.function = "all_reduce", .tag = "inject_allreduce_copies"});
}

static double copies_to_host(const struct e2e_run *run) {
    return count_of(run, "copy_to_host");
}

static double batch(const struct e2e_run *run) {
    return e2e_number(steady(run), "samples_per_s") * e2e_number(steady(run), "step_ms") / 1e3;
}

static double steps(const struct e2e_run *run) {
    return (double)e2e_steps(run, 0);
}

static double loss(const struct e2e_run *run) {
    return e2e_mean_loss(run, STEADY);
}

static double first_loss(const struct e2e_run *run) {
    return e2e_mean_loss(run, 0);
}

static double first_norm(const struct e2e_run *run) {
    return e2e_number(e2e_line(run, 0, 0), "grad_norm");
}

static double peak(const struct e2e_run *run) {
    return e2e_number(steady(run), "memory.peak_bytes");
}

static double pinned(const struct e2e_run *run) {
    return e2e_number(steady(run), "memory.pinned_bytes");
}

/* The sum and the least of several steps, as a busy machine may spoil one. */
static double overlap_of(const struct e2e_run *run, size_t step) {
    return e2e_number(e2e_line(run, 0, step), "profile.overlap.overlap_ms.compute_comm");
}

static double overlap_ms(const struct e2e_run *run) {
    double sum = 0;
    for (size_t i = STEADY; i < e2e_steps(run, 0); i++) sum += overlap_of(run, i);
    return sum;
}

static double least_overlap_ms(const struct e2e_run *run) {
    double least = INFINITY;
    for (size_t i = STEADY; i < e2e_steps(run, 0); i++) least = fmin(least, overlap_of(run, i));
    return least;
}

static double queues(const struct e2e_run *run) {
    bool seen[16] = {false};
    double count = 0;
    for (size_t i = 0; i < json_array_size(e2e_ranges(steady(run))); i++) {
        size_t queue = (size_t)e2e_number(json_array_get(e2e_ranges(steady(run)), i), "metadata.queue");
        count += !seen[queue];
        seen[queue] = true;
    }
    return count;
}

static double drawn(const struct e2e_run *run) {
    return e2e_count(steady(run), (struct e2e_filter){.function = "draw_batch"});
}

static double said(const struct e2e_run *run, const char *part) {
    double count = 0;
    for (const char *at = run->output; (at = strstr(at, part)); at++) count++;
    return count;
}

static double lines_said(const struct e2e_run *run) {
    return said(run, "\n");
}

static double steps_said(const struct e2e_run *run) {
    return said(run, "loss ");
}

static double captures_said(const struct e2e_run *run) {
    return said(run, "captured the step");
}

static double notes_of_gloo(const struct e2e_run *run) {
    return said(run, "gloo");
}

/* A replayed step is launched as a whole: one time for all its ranges but the copy of the next input. */
static double launches(const struct e2e_run *run) {
    const json_t *ranges = e2e_ranges(steady(run));
    double last = NAN, count = 0;
    for (size_t i = 0; i < json_array_size(ranges); i++) {
        const json_t *range = json_array_get(ranges, i);
        if (strcmp(json_string_value(e2e_get(range, "tag")), "input") == 0) continue;
        count += e2e_enqueue_ms(range) != last;
        last = e2e_enqueue_ms(range);
    }
    return count;
}

static double steps_without_waiting(const struct e2e_run *run) {
    double count = 0;
    for (size_t i = 0; i < e2e_steps(run, 0); i++) count += e2e_number(e2e_line(run, 0, i), "data_wait_ms") == 0;
    return count;
}

/* ---- rows ---- */

enum relation {
    SAME,    /* to 1e-6 */
    DIFFERS, /* by more than that */
    LESS,    /* the first less than the second */
    TWICE,   /* the second is twice the first */
    EXACT,   /* both are as the row says */
};

#define DDP "distributed.mode=ddp distributed.bucket_cap_mb=0.004 "
#define TWO "training.batch_size=2 training.gradient_accumulation=2 "

/* 3 layers and the root unit: 2·3 + 1 gathers, 3 + 2 reductions. */
#define STRESS "training.inject_allreduce_copies=true"
#define LIGHT "training.additional_compute_streams=1 training.lightweight_op_size=16"

static const struct row {
    const char *key;
    int ranks;
    const char *common, *first, *second; /* words of both runs, and of each */
    double (*look)(const struct e2e_run *run);
    enum relation relation;
    double expected[2];
} rows[] = {
    {"logging.level",
     1,
     "compile.enabled=true",
     "logging.level=WARNING",
     "logging.level=INFO",
     captures_said,
     EXACT,
     {0, 2}},
    {"logging.level", 1, "", "logging.level=WARNING", "", lines_said, LESS, {0}},
    {"logging.level", 1, "", "logging.level=WARNING", "logging.level=ERROR", lines_said, EXACT, {0, 0}},

    {"training.epochs",
     1,
     "dataset.num_samples=24 training.max_steps=null",
     "",
     "training.epochs=2",
     steps,
     EXACT,
     {6, 12}},
    {"training.batch_size", 1, "", "", "training.batch_size=8", batch, EXACT, {4, 8}},
    {"training.batch_size", 1, "", "", "training.batch_size=8", dense_flops, TWICE, {0}},
    {"training.gradient_accumulation", 2, "", "", TWO, forwards, EXACT, {1, 2}},
    {"training.gradient_accumulation", 2, "", "", TWO, reduce_scatters, EXACT, {5, 10}},
    {"training.gradient_accumulation", 2, "", "", TWO, batch, EXACT, {4, 4}},
    {"training.gradient_accumulation", 2, DDP, "", TWO, all_reduces, SAME, {0}}, /* no_sync */
    {"training.max_steps", 1, "", "training.max_steps=5", "training.max_steps=9", steps, EXACT, {5, 9}},
    {"training.max_steps", 1, "dataset.num_samples=29", "", "training.max_steps=null", steps, EXACT, {6, 7}},
    {"training.grad_clip_norm",
     1,
     "",
     "training.grad_clip_norm=0.02",
     "training.grad_clip_norm=null",
     loss,
     DIFFERS,
     {0}},
    {"training.grad_clip_norm",
     1,
     "",
     "training.grad_clip_norm=0.02",
     "training.grad_clip_norm=0",
     first_norm,
     SAME,
     {0}},
    {"training.log_interval",
     1,
     "training.max_steps=8",
     "training.log_interval=1",
     "training.log_interval=4",
     steps_said,
     EXACT,
     {8, 2}},
    {"training.seed", 1, "", "training.seed=1", "training.seed=2", first_loss, DIFFERS, {0}},
    {"training.seed", 1, "", "", "training.seed=0", loss, SAME, {0}},
    {"training.mixed_precision", 2, "", "training.mixed_precision=bf16", "", gather_bytes, TWICE, {0}},
    {"training.mixed_precision", 2, "", "training.mixed_precision=fp16", "", gather_bytes, TWICE, {0}},

    {"training.inject_allreduce_copies", 2, "", "", STRESS, injected_all_reduces, EXACT, {0, 3}},
    {"training.inject_allreduce_copies", 2, "", "", STRESS, copies_to_host, EXACT, {0, 1}},
    {"training.inject_allreduce_copies", 2, "", "", STRESS, loss, SAME, {0}},
    {"training.allreduce_stress_level",
     2,
     STRESS,
     "",
     "training.allreduce_stress_level=2",
     injected_all_reduces,
     EXACT,
     {3, 6}},
    {"training.additional_compute_streams",
     1,
     LIGHT,
     "",
     "training.additional_compute_streams=3",
     products_beside,
     EXACT,
     {3, 9}},
    {"training.additional_compute_streams",
     1,
     LIGHT,
     "",
     "training.additional_compute_streams=3",
     queues,
     EXACT,
     {4, 6}},
    {"training.additional_compute_streams", 1, "", "", LIGHT, loss, SAME, {0}},
    {"training.lightweight_ops_per_stream",
     1,
     LIGHT,
     "",
     "training.lightweight_ops_per_stream=6",
     flops_beside,
     TWICE,
     {0}},
    {"training.lightweight_op_size",
     1,
     LIGHT,
     "",
     "training.lightweight_op_size=32",
     flops_beside,
     EXACT,
     {3 * 2 * 16 * 16 * 16, 3 * 2 * 32 * 32 * 32}},
    {"training.lightweight_op_waves", 1, LIGHT, "", "training.lightweight_op_waves=1", products_beside, EXACT, {3, 1}},
    {"training.lightweight_op_waves", 1, LIGHT, "", "training.lightweight_op_waves=4", products_beside, EXACT, {3, 3}},
    {"training.use_useful_lightweight_ops",
     1,
     LIGHT,
     "",
     "training.use_useful_lightweight_ops=true",
     statistics_beside,
     EXACT,
     {0, 3}},

    {"optimizer.name", 1, "", "", "optimizer.name=adamw", loss, SAME, {0}},
    {"optimizer.name", 1, "", "", "optimizer.name=shampoo", loss, DIFFERS, {0}},
    {"optimizer.name", 2, DDP, "", "optimizer.name=shampoo", all_gathers, EXACT, {0, 1}},
    {"optimizer.precondition_frequency",
     1,
     "optimizer.name=shampoo",
     "",
     "optimizer.precondition_frequency=1",
     loss,
     DIFFERS,
     {0}},

    {"dataset.num_samples",
     1,
     "training.max_steps=null",
     "dataset.num_samples=20",
     "dataset.num_samples=43",
     steps,
     EXACT,
     {5, 10}},
    {"dataset.sequence_length", 1, "", "", "dataset.sequence_length=14", dense_flops, TWICE, {0}},
    {"dataset.sparse_features", 1, "", "", "dataset.sparse_features=8", input_bytes, LESS, {0}},
    {"dataset.seed", 1, "", "dataset.seed=1", "dataset.seed=2", first_loss, DIFFERS, {0}},
    {"dataset.vocab_size", 1, "", "dataset.vocab_size=3", "", first_loss, DIFFERS, {0}},

    {"model.vocab_size", 2, "", "", "model.vocab_size=202", gather_bytes, LESS, {0}},
    {"model.embedding_dim", 1, "", "", "model.embedding_dim=40", embedding_flops, TWICE, {0}},
    {"model.num_dense_features",
     1,
     "",
     "",
     "model.num_dense_features=6 dataset.num_dense_features=6",
     dense_flops,
     TWICE,
     {0}},
    {"dataset.num_dense_features",
     1,
     "",
     "",
     "model.num_dense_features=6 dataset.num_dense_features=6",
     input_bytes,
     LESS,
     {0}},
    {"model.dense_dim", 1, "", "", "model.dense_dim=20 dataset.dense_dim=20", dense_flops, TWICE, {0}},
    {"dataset.dense_dim", 1, "", "", "model.dense_dim=20 dataset.dense_dim=20", input_bytes, LESS, {0}},
    {"model.model_dim", 1, "", "", "model.model_dim=48", dense_flops, TWICE, {0}},
    {"model.mlp_hidden_dim", 1, "", "", "model.mlp_hidden_dim=80", mlp_flops, TWICE, {0}},
    {"model.num_heads", 1, "", "", "model.num_heads=6", first_loss, DIFFERS, {0}},
    {"model.num_layers", 1, "", "", "model.num_layers=2", all_gathers, EXACT, {7, 5}},
    {"model.dropout", 1, "", "", "model.dropout=0.2", first_loss, DIFFERS, {0}},

    {"fsdp.sharding_strategy", 2, "", "", "fsdp.sharding_strategy=shard_grad_op", all_gathers, EXACT, {7, 4}},
    {"fsdp.sharding_strategy", 2, "", "", "fsdp.sharding_strategy=no_shard", all_gathers, EXACT, {7, 0}},
    {"fsdp.sharding_strategy", 2, "", "", "fsdp.sharding_strategy=no_shard", all_reduces, EXACT, {0, 4}},
    {"fsdp.sharding_strategy", 2, "model.num_layers=12", "", "fsdp.sharding_strategy=no_shard", peak, LESS, {0}},
    {"fsdp.sharding_strategy", 2, "", "", "fsdp.sharding_strategy=shard_grad_op", peak, LESS, {0}},
    {"fsdp.hybrid_shard_gpus_per_node",
     4,
     "training.batch_size=2 fsdp.sharding_strategy=hybrid_shard",
     "fsdp.hybrid_shard_gpus_per_node=2",
     "fsdp.hybrid_shard_gpus_per_node=4",
     all_reduces,
     EXACT,
     {4, 0}},
    {"fsdp.hybrid_shard_gpus_per_node",
     4,
     "training.batch_size=2 fsdp.sharding_strategy=hybrid_shard",
     "fsdp.hybrid_shard_gpus_per_node=2",
     "fsdp.hybrid_shard_gpus_per_node=4",
     gather_group,
     EXACT,
     {2, 4}},
    /* By rows only rows travel; flat, the padding between parameters too. */
    {"fsdp.use_orig_params", 2, "", "", "fsdp.use_orig_params=false", gather_bytes, LESS, {0}},
    {"fsdp.use_orig_params", 2, "", "", "fsdp.use_orig_params=false", loss, SAME, {0}},
    /* 6 gathers of layers in each micro-batch, and of the root unit one for both or one for each. */
    {"fsdp.forward_prefetch", 2, TWO, "", "fsdp.forward_prefetch=false", all_gathers, EXACT, {13, 14}},
    {"fsdp.forward_prefetch", 2, TWO, "", "distributed.enable_overlap=false", all_gathers, EXACT, {13, 14}},
    {"fsdp.limit_all_gathers", 2, "", "", "fsdp.limit_all_gathers=false", peak, LESS, {0}},
    {"fsdp.param_init_device", 2, "model.vocab_size=400000", "", "fsdp.param_init_device=cuda", peak, LESS, {0}},
    {"fsdp.param_init_device", 2, "", "fsdp.param_init_device=meta", "", loss, SAME, {0}},
    {"fsdp.param_init_device", 2, "", "fsdp.param_init_device=cuda", "", loss, SAME, {0}},

    {"distributed.mode", 2, "", "", "distributed.mode=ddp", all_gathers, EXACT, {7, 0}},
    {"distributed.backend", 2, "", "", "distributed.backend=gloo", notes_of_gloo, EXACT, {0, 1}},
    {"distributed.backend", 2, "", "distributed.backend=mpi", "distributed.backend=gloo", loss, SAME, {0}},
    {"distributed.bucket_cap_mb",
     2,
     "distributed.mode=ddp",
     "",
     "distributed.bucket_cap_mb=0.004",
     all_reduces,
     LESS,
     {0}},
    {"distributed.gradient_as_bucket_view",
     2,
     "distributed.mode=ddp",
     "",
     "distributed.gradient_as_bucket_view=false",
     bucket_copies,
     EXACT,
     {0, 2}},
    {"distributed.find_unused_parameters",
     2,
     "distributed.mode=ddp",
     "",
     "distributed.find_unused_parameters=true",
     maps_of_used,
     EXACT,
     {0, 1}},
    {"distributed.static_graph",
     2,
     "distributed.mode=ddp distributed.find_unused_parameters=true",
     "",
     "distributed.static_graph=true",
     maps_of_used,
     EXACT,
     {1, 0}},
    {"distributed.static_graph",
     2,
     "distributed.mode=ddp distributed.find_unused_parameters=true",
     "",
     "distributed.static_graph=true",
     first_maps_of_used,
     EXACT,
     {1, 1}},
    {"distributed.enable_overlap",
     2,
     "training.max_steps=14",
     "distributed.enable_overlap=false",
     "",
     overlap_ms,
     LESS,
     {0}},
    {"distributed.enable_overlap",
     2,
     "training.max_steps=14",
     "distributed.enable_overlap=false",
     "streams.count=1",
     least_overlap_ms,
     EXACT,
     {0, 0}},
    {"distributed.overlap_reduce_scatter",
     2,
     "distributed.mode=ddp",
     "",
     "distributed.overlap_reduce_scatter=true",
     reduce_scatters,
     EXACT,
     {0, 1}},
    {"distributed.overlap_clone_for_reduce_scatter",
     2,
     "distributed.mode=ddp distributed.overlap_reduce_scatter=true",
     "",
     "distributed.overlap_clone_for_reduce_scatter=true",
     clones,
     EXACT,
     {0, 1}},

    {"compile.enabled", 1, "", "compile.enabled=true", "", launches, LESS, {0}},
    {"compile.enabled", 2, "", "compile.enabled=true", "", launches, LESS, {0}},
    {"compile.backend",
     1,
     "compile.enabled=true",
     "compile.backend=graph",
     "compile.backend=inductor",
     launches,
     EXACT,
     {1, 1}},
    {"compile.backend",
     1,
     "compile.enabled=true",
     "compile.backend=graph",
     "compile.backend=fused",
     launches,
     LESS,
     {0}},
    {"compile.backend",
     1,
     "compile.enabled=true",
     "compile.backend=graph",
     "compile.backend=aot_eager",
     launches,
     LESS,
     {0}},
    {"compile.mode",
     1,
     "compile.enabled=true",
     "compile.mode=reduce-overhead",
     "compile.mode=max-autotune",
     launches,
     EXACT,
     {1, 1}},
    {"compile.fullgraph", 2, "compile.enabled=true", "compile.fullgraph=true", "", launches, EXACT, {1, 1}},
    {"compile.dynamic",
     1,
     "compile.enabled=true",
     "compile.dynamic=true",
     "compile.dynamic=null",
     launches,
     EXACT,
     {1, 1}},
    {"compile.options",
     1,
     "compile.enabled=true",
     "'compile.options={max_autotune: true}'",
     "compile.options=null",
     launches,
     EXACT,
     {1, 1}},

    {"dataloader.num_workers",
     1,
     "training.max_steps=40",
     "dataloader.num_workers=0",
     "dataloader.num_workers=4",
     steps_without_waiting,
     LESS,
     {0}},
    {"dataloader.num_workers", 1, "", "dataloader.num_workers=0", "dataloader.num_workers=4", loss, SAME, {0}},
    {"dataloader.device", 1, "", "dataloader.device=host", "dataloader.device=device", drawn, EXACT, {0, 1}},
    {"dataloader.device", 1, "", "dataloader.device=host", "dataloader.device=device", loss, SAME, {0}},
    {"dataloader.pin_memory", 1, "", "dataloader.pin_memory=false", "", pinned, LESS, {0}},
    {"dataloader.prefetch_factor", 1, "", "", "dataloader.prefetch_factor=5", pinned, LESS, {0}},

    {"streams.count", 1, "", "streams.count=1", "streams.count=2", queues, EXACT, {1, 2}},
    {"streams.count", 2, DDP, "streams.count=3", "", queues, EXACT, {3, 3}}, /* DDP has no reduce-scatter */
    {"streams.count",
     4,
     "training.batch_size=2 fsdp.sharding_strategy=hybrid_shard fsdp.hybrid_shard_gpus_per_node=2",
     "streams.count=3",
     "",
     queues,
     EXACT,
     {3, 4}},

    {"workload.gemm_chunks", 1, "", "", "workload.gemm_chunks=4", mlp_products, EXACT, {3, 12}},
    {"workload.gemm_chunks", 1, "", "", "workload.gemm_chunks=28", mlp_products, EXACT, {3, 84}}, /* row by row */
    {"workload.gemm_chunks", 1, "", "", "workload.gemm_chunks=1024", mlp_products, EXACT, {3, 84}},
    {"workload.gemm_chunks", 2, "", "", "workload.gemm_chunks=3", loss, SAME, {0}},
    {"workload.gemm_chunks", 2, DDP, "", "workload.gemm_chunks=3 compile.enabled=true", loss, SAME, {0}},

    {"workload.async_wait", 1, "", "", "workload.async_wait=true", copies, EXACT, {0, 3}},
    {"workload.async_wait", 1, "", "", "workload.async_wait=true", waits_for_copies, EXACT, {0, 3}},
    {"workload.async_wait", 1, "", "", "workload.async_wait=true", peak, LESS, {0}},
    {"workload.async_wait", 1, "", "", "workload.async_wait=true", loss, SAME, {0}},
    {"workload.async_wait",
     1,
     "workload.async_wait=true",
     "",
     "training.mixed_precision=bf16",
     bytes_of_copies,
     EXACT,
     {4 * 7 * 24 * 4, 4 * 7 * 24 * 2}},
    {"workload.async_wait", 2, "", "", "workload.async_wait=true " TWO, copies, EXACT, {0, 6}},
    {"workload.async_wait", 2, TWO, "", "workload.async_wait=true streams.count=1", loss, SAME, {0}},
    {"workload.async_wait", 2, "compile.enabled=true", "", "workload.async_wait=true", loss, SAME, {0}},
    {"workload.async_wait", 2, "compile.enabled=true", "", "workload.async_wait=true", waits_for_copies, EXACT, {0, 3}},
    {"workload.async_wait", 2, DDP TWO, "", "workload.async_wait=true compile.enabled=true", loss, SAME, {0}},

    {"device.kind", 1, "", "device.kind=cpu", "device.kind=auto", loss, SAME, {0}},
    {"device.index", 1, "", "device.index=0", "", loss, SAME, {0}},
};

/* Runs are cached: many rows share one. */
static struct cached_run {
    int ranks;
    char words[256];
    struct e2e_run run;
    struct cached_run *next;
} * cache;

static const struct e2e_run *run_of(int ranks, const char *common, const char *own) {
    char words[256];
    assert_true(snprintf(words, sizeof words, "%s %s", common, own) < (int)sizeof words);
    for (const struct cached_run *k = cache; k; k = k->next)
        if (k->ranks == ranks && strcmp(k->words, words) == 0) return &k->run;
    struct cached_run *made = calloc(1, sizeof *made);
    assert_non_null(made);
    made->ranks = ranks, made->next = cache, cache = made;
    memcpy(made->words, words, sizeof words);
    e2e_train_well(&made->run, ranks, 0, words);
    return &made->run;
}

static int free_runs(void **state) {
    while (cache) {
        struct cached_run *next = cache->next;
        e2e_free(&cache->run);
        free(cache);
        cache = next;
    }
    return e2e_close(state);
}

static bool holds(const struct row *row, double a, double b) {
    bool same = fabs(a - b) <= 1e-6 * fabs(a);
    switch (row->relation) {
    case SAME:
        return same;
    case DIFFERS:
        return !same;
    case LESS:
        return a < b;
    case TWICE:
        return fabs(2 * a - b) <= 0.02 * b; /* padding */
    case EXACT:
        return fabs(a - row->expected[0]) < 1e-3 && fabs(b - row->expected[1]) < 1e-3;
    }
    return false;
}

static void test_rows(void **state) {
    (void)state;
    int failures = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        double a = row->look(run_of(row->ranks, row->common, row->first));
        double b = row->look(run_of(row->ranks, row->common, row->second));
        if (holds(row, a, b)) continue;
        print_error("row %zu, %s: %d ranks, %s: \"%s\" gives %.9g, \"%s\" gives %.9g\n", i, row->key, row->ranks,
                    row->common, row->first, a, row->second, b);
        failures++;
    }
    assert_int_equal(failures, 0);
}

/* streams.assignment: whose stream the ranges are on. */
static void test_assignment(void **state) {
    (void)state;
    static const struct {
        const char *key, *common, *function, *tag, *usual, *other;
    } moves[] = {
        {"all_gather", "", "all_gather", NULL, "aux", "reducescatter"},
        {"reduce_scatter", "", "reduce_scatter", NULL, "reducescatter", "compute"},
        {"all_reduce", "distributed.mode=ddp", "all_reduce", "bucket 0", "allreduce", "reducescatter"},
        {"prefetch", "", "prefetch", NULL, "aux", "allreduce"},
        {"optimizer", "", "square_sum", NULL, "aux", "reducescatter"},
        {"optimizer", "", "adamw_step", "root", "aux", "reducescatter"},
        {"optimizer", "", "adamw_step", "layers", "compute", "reducescatter"}, /* off the gathers' stream */
        {"optimizer", "fsdp.forward_prefetch=false", "adamw_step", NULL, "aux", "reducescatter"},
    };
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++) {
        char words[128];
        snprintf(words, sizeof words, "streams.assignment.%s=%s", moves[i].key, moves[i].other);
        struct e2e_filter usual = {moves[i].function, moves[i].tag, moves[i].usual, NULL}, other = usual;
        other.stream = moves[i].other;
        const struct e2e_run *before = run_of(2, moves[i].common, ""), *after = run_of(2, moves[i].common, words);
        int count = count_in_all(before, usual);
        if (count == 0 || count_in_all(before, other) != 0 || count_in_all(after, other) != count ||
            count_in_all(after, usual) != 0)
            fail_msg("%s: ranges stay where they were", words);
    }
}

/* ---- the keys that other tests hold ---- */

static const struct {
    const char *key, *where;
} elsewhere[] = {
    {"training.output_dir", "all: every run names its own, and tests read there"},
    {"training.dump_dir", "test_training.c"},
    {"training.dump_steps", "test_training.c"},
    {"training.init_from", "test_training.c"},
    {"training.inject", "test_planted.c"},
    {"optimizer.lr", "test_training.c"},
    {"optimizer.weight_decay", "test_training.c"},
    {"optimizer.betas", "test_training.c"},
    {"optimizer.eps", "test_training.c"},
    {"scheduler.warmup_steps", "test_training.c"},
    {"scheduler.total_steps", "test_training.c"},
    {"fsdp.sync_module_states", "test_training.c"},
    {"fsdp.backward_prefetch", "test_order.c"},
    {"fsdp.forward_prefetch", "test_order.c"},
    {"fsdp.symmetric_memory", "test_gpu.c"},
    {"distributed.timeout_s", "test_interrupt.c"},
    {"streams.priorities.", "test_order.c"},
    {"streams.high_priority", "test_order.c"},
    {"streams.assignment.", "test_assignment"},
    {"workload.occupancy_cap", "test_scenarios.c"},
    {"device.allow_tf32", "test_bad_input.c: refused on the CPU device; tests/gpu/scenarios.py on GPUs"},
    {"profiling.", "test_traces.c; with_stack: test_bad_input.c"},
};

static bool covered(const char *key) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].key, key) == 0) return true;
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++) {
        size_t length = strlen(elsewhere[i].key);
        bool group = elsewhere[i].key[length - 1] == '.';
        if (strncmp(elsewhere[i].key, key, group ? length : length + 1) == 0) return true;
    }
    return false;
}

static void test_every_key_is_covered(void **state) {
    (void)state;
    for (size_t i = 0; i < aorta_train_option_table.count; i++) {
        const char *key = aorta_train_option_table.rows[i].key;
        if (!covered(key)) fail_msg("no test holds the effect of %s", key);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_assignment),
        cmocka_unit_test(test_every_key_is_covered),
    };
    return cmocka_run_group_tests(tests, e2e_open, free_runs);
}
