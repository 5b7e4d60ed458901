/* The parts of summary.json that readers of the original Python toolkit's look for: means over all iterations of all
 * ranks. Its overlap_ratio is a share of compute, where ours everywhere else is a share of communication. */
#include "report/summary.h"

#include <math.h>

struct means {
    int64_t count;
    double loss, overlap_ms, compute_ms, all_reduce_ms, reduce_scatter_ms;
};

static double ms_of(int64_t ns) {
    return (double)ns / 1e6;
}

static void add_step(const struct aorta_run_step *step, struct means *sums) {
    if (!step->profiled) return;
    sums->count++;
    sums->loss += step->loss;
    sums->overlap_ms += ms_of(step->overlap.overlap_ns);
    sums->compute_ms += ms_of(step->overlap.compute_ns);
    sums->all_reduce_ms += ms_of(step->overlap.kind[AORTA_ALL_REDUCE].overlap_ns);
    sums->reduce_scatter_ms += ms_of(step->overlap.kind[AORTA_REDUCE_SCATTER].overlap_ns);
}

static struct means means_of(const struct aorta_run *run) {
    struct means sums = {0};
    for (size_t i = 0; i < run->step_count; i++) add_step(&run->steps[i], &sums);
    return sums;
}

static struct means means_after_warmup(const struct aorta_labelled *labelled) {
    struct means sums = {0};
    for (size_t rank = 0; rank < labelled->run.rank_count; rank++) {
        size_t first = 0, count = aorta_measured_steps(labelled, rank, &first);
        for (size_t i = first; i < first + count; i++) add_step(&labelled->run.steps[i], &sums);
    }
    return sums;
}

static double ratio_of(const struct means *sums) {
    return sums->compute_ms > 0 ? sums->overlap_ms / sums->compute_ms : NAN;
}

/* A script that leaves the first iterations out has other means of the same files. */
static void write_warmup(const struct aorta_labelled *labelled, const struct means *all, struct aorta_json *json) {
    const struct means after = means_after_warmup(labelled);
    struct aorta_text text = {0};
    if (!after.count || after.count == all->count) return;
    aorta_text_printf(
        &text,
        "all %lld iterations of all ranks; without the warm-up, as in labels, %lld with a mean_compute_ms of "
        "%.2f and a mean_overlap_ms of %.2f",
        (long long)all->count, (long long)after.count, after.compute_ms / (double)after.count,
        after.overlap_ms / (double)after.count);
    aorta_json_key_string(json, "means_are_of", text.data);
    json->out->failed |= text.failed;
    aorta_text_free(&text);
}

static void write_dataset(const struct aorta_labelled *labelled, struct aorta_json *json) {
    const struct aorta_run *run = &labelled->run;
    const struct means sums = means_of(run);
    const double count = (double)sums.count;
    aorta_json_key_object(json, run->label);
    aorta_json_key_int(json, "count", sums.count);
    if (sums.count) {
        aorta_json_key_double(json, "mean_loss", sums.loss / count);
        aorta_json_key_double(json, "mean_overlap_ms", sums.overlap_ms / count);
        aorta_json_key_double(json, "mean_compute_ms", sums.compute_ms / count);
        aorta_json_key_double(json, "mean_allreduce_overlap_ms", sums.all_reduce_ms / count);
        aorta_json_key_double(json, "mean_reducescatter_overlap_ms", sums.reduce_scatter_ms / count);
        aorta_json_key_double(json, "overlap_ratio", ratio_of(&sums));
        aorta_json_key_string(json, "overlap_ratio_is", "overlap / compute; labels has it as compute_overlap_ratio");
        write_warmup(labelled, &sums, json);
    }
    aorta_json_object_end(json);
}

void aorta_summary_datasets(const struct aorta_labelled *runs, size_t count, struct aorta_json *json) {
    aorta_json_key_object(json, "datasets");
    for (size_t i = 0; i < count; i++) write_dataset(&runs[i], json);
    aorta_json_object_end(json);
}

void aorta_summary_ratios(const struct aorta_labelled *reference, const struct aorta_labelled *candidate,
                          struct aorta_json *json) {
    const struct means a = means_of(&reference->run), b = means_of(&candidate->run);
    aorta_json_key_double(json, "reference_overlap_ratio", ratio_of(&a));
    aorta_json_key_double(json, "candidate_overlap_ratio", ratio_of(&b));
    aorta_json_key_double(json, "ratio_delta", ratio_of(&b) - ratio_of(&a));
}
