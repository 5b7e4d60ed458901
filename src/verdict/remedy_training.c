/* Recomputation, the optimizer, and gradients of tables and of picked rows. */
#include "base/sort.h"
#include "base/table.h"
#include "verdict/remedy_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- recomputation ---- */

void aorta_remedy_recompute(struct remedy_model *model) {
    AORTA_EACH (const struct leaf, leaf, model->leaves, model->leaf_count) {
        if (!leaf->recomputed) continue;
        aorta_remedy_claim(model, leaf, 0, aorta_leaf_work(leaf));
        if (!leaf->counted || leaf->op & AORTA_OP_IN_PLACE) continue;
        for (int j = 0; j < leaf->output_count; j++) /* outputs then stay in memory until the backward pass */
            model->row->memory_bytes += leaf->outputs[j].elements * leaf->outputs[j].bytes;
    }
}

/* ---- recomputation without operations ---- */

enum { RUN = 8 };                     /* kernels that two threads launch in the same order */
static const double MOST_AGAIN = 0.6; /* of a thread's kernels: a backward pass has more work than the forward pass */

struct run {
    uint64_t hash; /* of the names and the step */
    size_t leaf;
};

static AORTA_ORDER(by_hash, struct run, AORTA_UP(hash) AORTA_UP(leaf));

static size_t collect_runs(const struct remedy_model *model, struct run *runs) {
    size_t count = 0;
    for (size_t i = 0; i + RUN <= model->leaf_count; i++) {
        const struct leaf *first = &model->leaves[i];
        if (!first->step || !aorta_leaves_together(first, &model->leaves[i + RUN - 1])) continue;
        uint64_t hash = first->step;
        for (size_t j = i; j < i + RUN; j++)
            hash = aorta_hash_add(hash, model->trace->work[model->leaves[j].first_work].name);
        runs[count++] = (struct run){hash, i};
    }
    qsort(runs, count, sizeof *runs, by_hash);
    return count;
}

/* Runs that two threads launch in the same step. */
static void mark_runs(struct remedy_model *model, const struct run *runs, size_t count) {
    for (size_t i = 0, end; i < count; i = end) {
        bool threads = false;
        for (end = i; end < count && runs[end].hash == runs[i].hash; end++)
            threads |= model->leaves[runs[end].leaf].thread != model->leaves[runs[i].leaf].thread;
        for (size_t j = i; threads && j < end; j++)
            for (size_t k = 0; k < RUN; k++) model->leaves[runs[j].leaf + k].recomputed = true;
    }
}

static void unmark_stretches_without_products(struct remedy_model *model) {
    for (size_t i = 0, end; i < model->leaf_count; i = end) {
        bool product = false;
        for (end = i; end < model->leaf_count && model->leaves[end].recomputed; end++)
            product |= aorta_leaf_multiplies(&model->leaves[end]) || model->leaves[end].kind == LEAF_ATTENTION;
        for (size_t j = i; j < end; j++) model->leaves[j].recomputed = product;
        end += end == i;
    }
}

/* A thread that launches little else does not recompute: it runs the forward pass, or belongs to a server. */
static void unmark_threads(struct remedy_model *model, struct aorta_arena *memory) {
    struct of_thread {
        size_t marked, count;
    } *threads = aorta_arena_alloc(memory, (model->trace->thread_count + 1) * sizeof *threads);
    if (!threads) return;
    AORTA_EACH (const struct leaf, leaf, model->leaves, model->leaf_count) {
        if (leaf->thread == AORTA_TRACE_NONE || !leaf->step) continue;
        threads[leaf->thread].marked += leaf->recomputed;
        threads[leaf->thread].count++;
    }
    AORTA_EACH (struct leaf, leaf, model->leaves, model->leaf_count) {
        if (!leaf->recomputed) continue;
        const struct of_thread *own = leaf->thread == AORTA_TRACE_NONE ? NULL : &threads[leaf->thread];
        leaf->recomputed = own && (double)own->marked <= MOST_AGAIN * (double)own->count;
    }
}

/* Autograd launches the backward pass on its own thread. With checkpointing, this thread launches kernels of the
 * forward pass again, in the same order. */
void aorta_remedy_unsized_mark_recomputed(struct remedy_model *model) {
    struct aorta_arena scratch = {0};
    if (model->operations || model->own) return;
    struct run *runs = aorta_arena_raw(&scratch, (model->leaf_count + 1) * sizeof *runs);
    if (runs) {
        mark_runs(model, runs, collect_runs(model, runs));
        unmark_stretches_without_products(model);
        unmark_threads(model, &scratch);
    }
    aorta_arena_end(&scratch, model->memory);
}

/* ---- optimizer ---- */

static const double MULTI_TENSOR = 0.75; /* of the streaming rate */

/* How often an operation reads or writes each element. Files lack the sizes of long lists of tensors. The number of
 * elements then follows from the time per pass. */
static const struct {
    const char *part;
    double passes;
} passes[] = {
    {"ListAlpha", 3}, {"addcdiv", 4}, {"addcmul", 3}, {"lerp", 3}, {"sqrt", 2}, {"div", 2}, {"mul", 2},
    {"neg", 2},       {"add", 2.5},   {"sub", 3},     {"zero", 1}, {"copy", 2}, {NULL, 0},
};

static double passes_of(const struct leaf *leaf) {
    for (size_t i = 0; passes[i].part; i++)
        if (strstr(leaf->name, passes[i].part)) return passes[i].passes;
    return 0;
}

/* Elements that an operation updates, in fp32. */
static double updated(const struct remedy_model *model, const struct leaf *leaf) {
    const struct aorta_input *first = leaf->inputs->count && model->rates ? &leaf->inputs->items[0] : NULL;
    const double counted = first && (first->tensor || first->list) ? aorta_remedy_elements(first) : 0;
    const double each = passes_of(leaf);
    if (counted > 1 || each <= 0) return counted > 1 ? counted : 0;
    return leaf->ns * MULTI_TENSOR * model->stream / (4 * each);
}

struct optimizer {
    double now_ns, divided, added, multiplied; /* the last three: elements that such operations update */
    bool fused;
    size_t leaves;
};

static bool divides(const struct leaf *leaf) {
    return strstr(leaf->kernel, "addcdiv") || (strstr(leaf->kernel, "PointwiseOp") && strstr(leaf->kernel, "divides"));
}

/* A fused optimizer has one kernel per group of parameters. In Adam over lists each group has a quotient. Else a row of
 * neighbouring operations is one group. */
static bool keeps_kernel(const struct remedy_model *model, const struct leaf *leaf, bool adam) {
    const struct leaf *before = leaf > model->leaves ? leaf - 1 : NULL;
    if (adam && leaf->kernels_any & AORTA_KERNEL_FOREACH) return divides(leaf) && !(before && divides(before));
    return !before || before->kind != LEAF_OPTIMIZER;
}

static struct optimizer find_optimizer(const struct remedy_model *model) {
    struct optimizer found = {0};
    AORTA_EACH (const struct leaf, leaf, model->leaves, model->leaf_count) {
        if (leaf->kind != LEAF_OPTIMIZER) continue;
        found.leaves++;
        found.now_ns += aorta_leaf_now_ns(model, leaf);
        found.fused |= leaf->op & AORTA_OP_FUSED_OPTIMIZER || strstr(leaf->kernel, "Fused");
        if (strstr(leaf->name, "addcdiv") || divides(leaf))
            found.divided += updated(model, leaf);
        else if ((strstr(leaf->name, "add_") && !strstr(leaf->name, "index")) || strstr(leaf->name, "ListAlpha"))
            found.added += updated(model, leaf);
        else if (strstr(leaf->name, "mul_"))
            found.multiplied += updated(model, leaf);
    }
    return found;
}

/* Adam reads parameter, gradient and two moments, and writes all but the gradient. Momentum has one moment. */
static double optimizer_ns(const struct remedy_model *model, const struct optimizer *found) {
    const bool momentum = found->divided <= 0 && found->multiplied > 0.25 * found->added;
    const double elements = found->divided > 0 ? found->divided : momentum ? found->added / 2 : found->added;
    const double each = found->divided > 0 ? 7 : momentum ? 5 : 3;
    return elements * 4 * each / (MULTI_TENSOR * model->stream);
}

/* If operations are unknown, the optimizer is: kernels over lists of tensors, without norms of gradients and FSDP's
 * copies before gathers; and the kernels of a loop over parameters that ends with the sum of a quotient (Adam). */
void aorta_remedy_unsized_mark_optimizer(struct remedy_model *model) {
    enum { EACH = 8 };
    if (model->operations || model->own) return;
    for (size_t i = 0; i < model->leaf_count; i++) {
        struct leaf *leaf = &model->leaves[i];
        const bool other = strstr(leaf->kernel, "Norm") || strstr(leaf->kernel, "Copy");
        if (leaf->kernels_any & AORTA_KERNEL_FOREACH && !other) leaf->kind = LEAF_OPTIMIZER;
        if (leaf->kind != LEAF_STREAM || !strstr(leaf->kernel, "addcdiv")) continue;
        for (size_t j = 0; j < EACH && j <= i && model->leaves[i - j].kind == LEAF_STREAM; j++)
            if (aorta_leaf_follows(model, i - j, i)) model->leaves[i - j].kind = LEAF_OPTIMIZER;
    }
}

/* Fused Adam needs seven passes over its tensors. The kernel that adds the quotient needs four. Momentum and SGD have
 * no such kernel. */
static void unsized_optimizer(struct remedy_model *model) {
    static const double PASSES = 7.0 / 4, WORTH = 0.8;
    double now_ns = 0, quotient_ns = 0;
    AORTA_EACH (const struct leaf, leaf, model->leaves, model->leaf_count) {
        if (leaf->kind != LEAF_OPTIMIZER) continue;
        if (strstr(leaf->kernel, "Fused")) return;
        now_ns += aorta_leaf_now_ns(model, leaf);
        quotient_ns += divides(leaf) ? aorta_leaf_now_ns(model, leaf) : 0;
    }
    const double left = PASSES * quotient_ns / now_ns;
    if (!(quotient_ns > 0) || left > WORTH) return;
    AORTA_EACH (const struct leaf, leaf, model->leaves, model->leaf_count) {
        if (leaf->kind != LEAF_OPTIMIZER) continue;
        aorta_remedy_claim(model, leaf, aorta_leaf_now_ns(model, leaf) * left,
                           aorta_leaf_work(leaf) - keeps_kernel(model, leaf, true));
    }
}

void aorta_remedy_optimizer(struct remedy_model *model) {
    static const double WORTH = 0.8;
    if (!model->operations && aorta_remedy_unsized(model)) {
        unsized_optimizer(model);
        return;
    }
    const struct optimizer found = find_optimizer(model);
    const double ns = optimizer_ns(model, &found);
    if (!found.leaves || found.fused || !(ns > 0) || ns > WORTH * found.now_ns) return;
    AORTA_EACH (const struct leaf, leaf, model->leaves, model->leaf_count) {
        if (leaf->kind == LEAF_OPTIMIZER)
            aorta_remedy_claim(model, leaf, aorta_leaf_now_ns(model, leaf) * ns / found.now_ns,
                               aorta_leaf_work(leaf) - keeps_kernel(model, leaf, found.divided > 0));
    }
}

/* ---- embeddings ---- */

struct tables {
    double elements; /* of gradients of whole tables */
    double touched;  /* elements of looked-up rows, repeated rows included */
    double gradients;
};

static bool is_whole_gradient(const struct leaf *leaf) {
    if (leaf->operation != AORTA_TRACE_NONE)
        return leaf->op & AORTA_OP_EMBEDDING_GRADIENT && strstr(leaf->name, "dense_backward");
    return strstr(leaf->kernel, "compute_grad_weight") || strstr(leaf->kernel, "embedding_backward_feature");
}

/* Elements of the incoming gradients of rows; NaN: unknown. */
static double gradient_elements(const struct leaf *leaf) {
    const struct aorta_input *gradients = aorta_remedy_tensor(leaf, 0);
    return gradients ? aorta_remedy_elements(gradients) : NAN;
}

bool aorta_remedy_looks_up(const struct leaf *leaf) {
    static const char *const parts[] = {"index_select", "embedding", "gather_kernel", "indexSelect", NULL};
    if (aorta_has_any(leaf->name, parts)) return true;
    return !strcmp(leaf->name, "aten::gather") && strstr(leaf->kernel, "gather_kernel"); /* of index_select */
}

/* Elements that the forward pass looks up, by its time and rate; 0: no look-up. */
static double looked_up(const struct remedy_model *model, const struct leaf *leaf) {
    return aorta_remedy_looks_up(leaf) && !leaf->gradient ? leaf->ns * model->stream / (2 * 4) : 0;
}

/* Without operations: fills of a whole table's gradient with zeros come shortly before the sum of the looked-up rows.
 */
void aorta_remedy_unsized_mark_tables(struct remedy_model *model) {
    enum { NEAR = 16 };
    if (model->operations || model->own) return;
    for (size_t i = 0; i < model->leaf_count; i++) {
        if (!is_whole_gradient(&model->leaves[i])) continue;
        for (size_t j = i; j && i - j < NEAR && aorta_leaf_follows(model, j - 1, i); j--) {
            struct leaf *fill = &model->leaves[j - 1];
            if (!strstr(fill->kernel, "FillFunctor") || fill->ns < AORTA_SMALL_NS) continue;
            fill->in_embedding = true;
            fill->op |= AORTA_OP_FILLS;
        }
    }
}

static struct tables find_tables(const struct remedy_model *model) {
    struct tables all = {0};
    double all_looked_up = 0;
    AORTA_EACH (const struct leaf, leaf, model->leaves, model->leaf_count) {
        if (leaf->in_embedding && leaf->op & AORTA_OP_FILLS)
            all.elements += leaf->output_count ? leaf->outputs[0].elements : leaf->ns * model->stream / 4;
        all_looked_up += looked_up(model, leaf);
        if (!is_whole_gradient(leaf)) continue;
        all.touched += gradient_elements(leaf);
        all.gradients++;
    }
    if (isnan(all.touched)) all.touched = all_looked_up;
    return all;
}

/* Time to gather rows, and to add them to the table: three times their bytes, and a start per table. */
static double rows_ns(const struct remedy_model *model, double elements, double tables) {
    static const double START_NS = 7e3;
    return 3 * 4 * elements / model->stream + tables * START_NS;
}

void aorta_remedy_embedding(struct remedy_model *model) {
    static const double SMALLEST = 1e6, RARE = 0.25;
    model->rough = model->operations && !model->shapes;
    const struct tables tables = find_tables(model);
    if (tables.elements < SMALLEST || tables.touched > RARE * tables.elements) return;
    const struct optimizer found = find_optimizer(model);
    if (found.fused || found.divided > 0) return; /* Adam updates all rows, even those that were not looked up */
    const double all = fmax(found.added, tables.elements);
    const double share = tables.elements / all, left_ns = rows_ns(model, tables.touched, tables.gradients);
    AORTA_EACH (const struct leaf, leaf, model->leaves, model->leaf_count) {
        if (leaf->in_embedding && leaf->op & AORTA_OP_FILLS) {
            aorta_remedy_claim(model, leaf, 0, aorta_leaf_work(leaf));
        } else if (is_whole_gradient(leaf)) {
            const double known = gradient_elements(leaf);
            const double elements = isnan(known) ? tables.touched / tables.gradients : known;
            aorta_remedy_claim(model, leaf, rows_ns(model, elements, 1), leaf->kernels - 1);
        } else if (leaf->kind == LEAF_OPTIMIZER && found.now_ns > 0) {
            aorta_remedy_claim(model, leaf,
                               aorta_leaf_now_ns(model, leaf) * (1 - share + fmin(share, left_ns / found.now_ns)), 0);
        }
    }
}

/* ---- indexing ---- */

/* A sort moves values and indices several times. topk only reads the values a few times: at most a quarter of the
 * sort's time in a program that samples from 128256 scores on an H200. Sorts of an index before gradients of rows
 * belong to aorta_remedy_rows. */
static void unsized_sorts(struct remedy_model *model) {
    static const double SELECTS = 0.15;
    AORTA_EACH (const struct leaf, leaf, model->leaves, model->leaf_count)
        if (strstr(leaf->kernel, "indexing_backward") || strstr(leaf->kernel, "embedding_backward")) return;
    AORTA_EACH (const struct leaf, leaf, model->leaves, model->leaf_count)
        if (leaf->kernels_any & AORTA_KERNEL_SORTS && leaf->ns > AORTA_SMALL_NS)
            aorta_remedy_claim(model, leaf, SELECTS * aorta_leaf_now_ns(model, leaf), 0);
}

void aorta_remedy_indexing(struct remedy_model *model) {
    static const double SLOW = 0.25, REACHED = 0.5; /* of the streaming rate */
    const bool unsized = aorta_remedy_unsized(model);
    if (unsized) unsized_sorts(model);
    for (size_t i = 0; i < model->leaf_count && !unsized; i++) {
        const struct leaf *leaf = &model->leaves[i];
        const uint32_t such = AORTA_OP_INDEXES | AORTA_OP_DROPOUT | AORTA_OP_DROPOUT_BACKWARD;
        if (!(leaf->op & such) || !(leaf->bytes > 1e6) || leaf->in_optimizer) continue;
        if (leaf->bytes / leaf->ns < SLOW * model->stream)
            aorta_remedy_claim(model, leaf, leaf->bytes / (REACHED * model->stream),
                               leaf->kernels > 1 ? leaf->kernels - 1 : 0);
    }
}

/* ---- gradients of picked rows ---- */

/* table[index] reads rows at the rate of memory. Its gradient sorts the index, and adds rows with the same index one
 * after another. This takes far longer if few rows are picked often. */
void aorta_remedy_rows(struct remedy_model *model) {
    static const double SERIAL = 3, PARALLEL = 1.5; /* times the reading */
    double read_ns = 0;
    AORTA_EACH (const struct leaf, leaf, model->leaves, model->leaf_count)
        if (strstr(leaf->kernel, "gather_kernel") || strstr(leaf->kernel, "index_elementwise_kernel"))
            read_ns = fmax(read_ns, leaf->longest_ns);
    (void)aorta_remedy_unsized(model);
    for (size_t i = 0; i < model->leaf_count && read_ns > 0; i++) {
        const struct leaf *leaf = &model->leaves[i];
        if (strstr(leaf->kernel, "indexing_backward_kernel") && leaf->longest_ns > SERIAL * read_ns)
            aorta_remedy_claim(model, leaf, aorta_leaf_now_ns(model, leaf) - leaf->longest_ns + PARALLEL * read_ns, 0);
    }
}
