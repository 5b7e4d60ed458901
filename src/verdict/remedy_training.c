/* What training does beside its products: computes again, updates parameters, makes gradients of whole tables. */
#include "verdict/remedy_internal.h"

#include <math.h>
#include <string.h>

/* ---- recomputation ---- */

void aorta_remedy_recompute(struct remedy_model *model) {
    for (size_t i = 0; i < model->leaf_count; i++) {
        const struct leaf *leaf = &model->leaves[i];
        if (!leaf->recomputed) continue;
        aorta_remedy_claim(model, i, 0, aorta_leaf_work(leaf));
        if (!leaf->counted || leaf->op & AORTA_OP_IN_PLACE) continue;
        for (int j = 0; j < leaf->output_count; j++) /* which then stay until the backward pass */
            model->row->memory_bytes += leaf->outputs[j].elements * leaf->outputs[j].bytes;
    }
}

/* ---- optimizer ---- */

static const double MULTI_TENSOR = 0.75; /* of the streaming rate */

/* How often an operation reads or writes each element of the parameters. Files lack the sizes of long lists of tensors:
 * the number of elements then follows from the time of one pass. */
static const struct {
    const char *part;
    double passes;
} passes[] = {
    {"addcdiv", 4}, {"addcmul", 3}, {"lerp", 3}, {"sqrt", 2}, {"div", 2},  {"mul", 2},
    {"neg", 2},     {"add", 2.5},   {"sub", 3},  {"zero", 1}, {"copy", 2}, {NULL, 0},
};

static double passes_of(const struct leaf *leaf) {
    for (size_t i = 0; passes[i].part; i++)
        if (strstr(leaf->name, passes[i].part)) return passes[i].passes;
    return 0;
}

/* Elements that an operation updates, in fp32. */
static double updated(const struct remedy_model *model, const struct leaf *leaf) {
    const struct aorta_input *first = leaf->inputs->count ? &leaf->inputs->items[0] : NULL;
    const double counted = first && (first->tensor || first->list) ? aorta_remedy_elements(first) : 0;
    const double each = passes_of(leaf);
    if (counted > 1 || each <= 0) return counted > 1 ? counted : 0;
    return leaf->ns * MULTI_TENSOR * model->stream / (4 * each);
}

struct optimizer {
    double now_ns, divided, added, multiplied; /* elements that such operations update */
    bool fused;
    size_t leaves;
};

static struct optimizer find_optimizer(const struct remedy_model *model) {
    struct optimizer found = {0};
    for (size_t i = 0; i < model->leaf_count; i++) {
        const struct leaf *leaf = &model->leaves[i];
        if (leaf->kind != LEAF_OPTIMIZER) continue;
        found.leaves++;
        found.now_ns += model->now_ns[i];
        found.fused |= (leaf->op & AORTA_OP_FUSED_OPTIMIZER) != 0;
        if (strstr(leaf->name, "addcdiv"))
            found.divided += updated(model, leaf);
        else if (strstr(leaf->name, "add_") && !strstr(leaf->name, "index"))
            found.added += updated(model, leaf);
        else if (strstr(leaf->name, "mul_"))
            found.multiplied += updated(model, leaf);
    }
    return found;
}

/* Adam reads parameter, gradient and two moments and writes three of them; momentum has one moment. */
static double optimizer_ns(const struct remedy_model *model, const struct optimizer *found) {
    const bool momentum = found->divided <= 0 && found->multiplied > 0.25 * found->added;
    const double elements = found->divided > 0 ? found->divided : momentum ? found->added / 2 : found->added;
    const double each = found->divided > 0 ? 7 : momentum ? 5 : 3;
    return elements * 4 * each / (MULTI_TENSOR * model->stream);
}

void aorta_remedy_optimizer(struct remedy_model *model) {
    static const double WORTH = 0.8;
    if (!model->operations && aorta_remedy_unsized(model)) {
        aorta_remedy_unsized_optimizer(model);
        return;
    }
    const struct optimizer found = find_optimizer(model);
    const double ns = optimizer_ns(model, &found);
    if (!found.leaves || found.fused || !(ns > 0) || ns > WORTH * found.now_ns) return;
    bool first = true;
    for (size_t i = 0; i < model->leaf_count; i++) {
        const struct leaf *leaf = &model->leaves[i];
        if (leaf->kind != LEAF_OPTIMIZER) continue;
        /* The first operation of an optimizer step keeps one kernel. */
        const uint32_t stays = first || model->leaves[i - 1].kind != LEAF_OPTIMIZER;
        aorta_remedy_claim(model, i, model->now_ns[i] * ns / found.now_ns, aorta_leaf_work(leaf) - stays);
        first = false;
    }
}

/* ---- embeddings ---- */

struct tables {
    double elements; /* of the gradients that are written whole */
    double touched;  /* elements of the rows that were looked up, each index counted */
    double gradients;
};

static bool is_whole_gradient(const struct leaf *leaf) {
    return leaf->op & AORTA_OP_EMBEDDING_GRADIENT && strstr(leaf->name, "dense_backward");
}

/* Elements of the rows whose gradients come in; NaN: sizes are not known. */
static double gradient_elements(const struct leaf *leaf) {
    const struct aorta_input *gradients = aorta_remedy_tensor(leaf, 0);
    return gradients ? aorta_remedy_elements(gradients) : NAN;
}

/* Elements that the forward pass can have read and written meanwhile; 0: it looks up nothing. */
static double looked_up(const struct remedy_model *model, const struct leaf *leaf) {
    const bool looks_up = strstr(leaf->name, "index_select") || strstr(leaf->name, "embedding");
    return looks_up && !leaf->gradient ? leaf->ns * model->stream / (2 * 4) : 0;
}

static double filled_elements(const struct remedy_model *model, const struct leaf *leaf) {
    return leaf->output_count ? leaf->outputs[0].elements : leaf->ns * model->stream / 4;
}

static struct tables find_tables(const struct remedy_model *model) {
    struct tables all = {0};
    double all_looked_up = 0;
    for (size_t i = 0; i < model->leaf_count; i++) {
        const struct leaf *leaf = &model->leaves[i];
        if (leaf->in_embedding && leaf->op & AORTA_OP_FILLS) all.elements += filled_elements(model, leaf);
        all_looked_up += looked_up(model, leaf);
        if (!is_whole_gradient(leaf)) continue;
        all.touched += gradient_elements(leaf);
        all.gradients++;
    }
    if (isnan(all.touched)) all.touched = all_looked_up;
    return all;
}

/* Rows are gathered, and scattered into the table by the update: three times their bytes each, and a start. */
static double rows_ns(const struct remedy_model *model, double elements, double tables) {
    static const double START_NS = 7e3;
    return 3 * 4 * elements / model->stream + tables * START_NS;
}

void aorta_remedy_embedding(struct remedy_model *model) {
    static const double SMALLEST = 1e6, RARE = 0.25;
    (void)aorta_remedy_unsized(model);
    const struct tables tables = find_tables(model);
    if (tables.elements < SMALLEST || tables.touched > RARE * tables.elements) return;
    const struct optimizer found = find_optimizer(model);
    if (found.fused || found.divided > 0) return; /* Adam moves every row, whether looked up or not */
    const double all = fmax(found.added, tables.elements);
    const double share = tables.elements / all, left_ns = rows_ns(model, tables.touched, tables.gradients);
    for (size_t i = 0; i < model->leaf_count; i++) {
        const struct leaf *leaf = &model->leaves[i];
        if (leaf->in_embedding && leaf->op & AORTA_OP_FILLS) {
            aorta_remedy_claim(model, i, 0, aorta_leaf_work(leaf));
        } else if (is_whole_gradient(leaf)) {
            const double known = gradient_elements(leaf);
            const double elements = isnan(known) ? tables.touched / tables.gradients : known;
            aorta_remedy_claim(model, i, rows_ns(model, elements, 1), leaf->kernels - 1);
        } else if (leaf->kind == LEAF_OPTIMIZER && found.now_ns > 0) {
            aorta_remedy_claim(model, i, model->now_ns[i] * (1 - share + fmin(share, left_ns / found.now_ns)), 0);
        }
    }
}

/* ---- indexing ---- */

void aorta_remedy_indexing(struct remedy_model *model) {
    static const double SLOW = 0.25, REACHED = 0.5; /* of the streaming rate */
    for (size_t i = 0; i < model->leaf_count; i++) {
        const struct leaf *leaf = &model->leaves[i];
        const uint32_t such = AORTA_OP_INDEXES | AORTA_OP_DROPOUT | AORTA_OP_DROPOUT_BACKWARD;
        if (!(leaf->op & such) || !(leaf->bytes > 1e6) || leaf->in_optimizer) continue;
        if (leaf->bytes / leaf->ns < SLOW * model->stream)
            aorta_remedy_claim(model, i, leaf->bytes / (REACHED * model->stream),
                               leaf->kernels > 1 ? leaf->kernels - 1 : 0);
    }
}
