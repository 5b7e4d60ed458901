/* Recordings without shapes: what names, order and times say of attention, chains, layout and optimizers. Where a rule
 * with sizes computes from bytes, these compare kernels with each other, and what they find is an upper bound. */
#include "base/table.h"
#include "verdict/remedy_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double SMALL_NS = 4e3; /* what is shorter costs its launch, not its bytes */

bool aorta_remedy_unsized(struct remedy_model *model) {
    model->rough = !model->shapes && !model->own;
    return model->rough;
}

static uint32_t stream_of(const struct remedy_model *model, const struct leaf *leaf) {
    return model->trace->work[leaf->first_work].stream;
}

static bool follows(const struct remedy_model *model, size_t leaf, size_t before) {
    const struct leaf *a = &model->leaves[leaf], *b = &model->leaves[before];
    return aorta_leaves_together(a, b) && stream_of(model, a) == stream_of(model, b);
}

static bool moves(const struct leaf *leaf) {
    return leaf->kind == LEAF_STREAM || leaf->kind == LEAF_COPY;
}

static void claim_whole(struct remedy_model *model, size_t number) {
    aorta_remedy_claim(model, number, 0, model->leaves[number].kernels + model->leaves[number].fills);
}

/* ---- recomputation ---- */

/* So many kernels in the order of another thread are a part of the forward pass. */
enum { RUN = 8 };
static const double MOST_AGAIN = 0.6; /* of a thread's kernels: a backward pass computes more than the forward pass */

struct run {
    uint64_t hash; /* of the names and the step */
    size_t leaf;
};

static uint32_t name_of(const struct remedy_model *model, size_t leaf) {
    return model->trace->work[model->leaves[leaf].first_work].name;
}

static int by_hash(const void *left, const void *right) {
    const struct run *a = left, *b = right;
    if (a->hash != b->hash) return a->hash < b->hash ? -1 : 1;
    return (a->leaf > b->leaf) - (a->leaf < b->leaf);
}

static size_t collect_runs(const struct remedy_model *model, struct run *runs) {
    size_t count = 0;
    for (size_t i = 0; i + RUN <= model->leaf_count; i++) {
        const struct leaf *first = &model->leaves[i];
        if (!first->step || !aorta_leaves_together(first, &model->leaves[i + RUN - 1])) continue;
        uint64_t hash = first->step;
        for (size_t j = i; j < i + RUN; j++) hash = aorta_hash_add(hash, name_of(model, j));
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

static bool computes(const struct leaf *leaf) {
    return leaf->kind == LEAF_PRODUCT || leaf->kind == LEAF_CONVOLUTION || leaf->kind == LEAF_ATTENTION;
}

static void unmark_stretches_without_products(struct remedy_model *model) {
    for (size_t i = 0, end; i < model->leaf_count; i = end) {
        bool product = false;
        for (end = i; end < model->leaf_count && model->leaves[end].recomputed; end++)
            product |= computes(&model->leaves[end]);
        for (size_t j = i; j < end; j++) model->leaves[j].recomputed = product;
        end += end == i;
    }
}

/* A thread that launches little else does not recompute: it has the forward pass, or is one of a server's. */
static void unmark_threads(struct remedy_model *model, struct aorta_arena *memory) {
    struct of_thread {
        size_t marked, count;
    } *threads = aorta_arena_alloc(memory, (model->trace->thread_count + 1) * sizeof *threads);
    if (!threads) return;
    for (size_t i = 0; i < model->leaf_count; i++) {
        const struct leaf *leaf = &model->leaves[i];
        if (leaf->thread == AORTA_TRACE_NONE || !leaf->step) continue;
        threads[leaf->thread].marked += leaf->recomputed;
        threads[leaf->thread].count++;
    }
    for (size_t i = 0; i < model->leaf_count; i++) {
        struct leaf *leaf = &model->leaves[i];
        if (!leaf->recomputed) continue;
        const struct of_thread *own = leaf->thread == AORTA_TRACE_NONE ? NULL : &threads[leaf->thread];
        leaf->recomputed = own && (double)own->marked <= MOST_AGAIN * (double)own->count;
    }
}

/* Autograd launches the backward pass on a thread of its own. The forward pass's kernels, in their order, are there a
 * second time where activations are checkpointed. */
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

/* ---- attention ---- */

/* The softmax of attention scores, or its gradient. */
static bool is_softmax(const struct leaf *leaf) {
    return leaf->op ? (leaf->op & AORTA_OP_SOFTMAX) != 0 : (leaf->kernels_any & AORTA_KERNEL_SOFTMAX) != 0;
}

/* The next batched product in 16 bits, with nothing between but what moves; SIZE_MAX: none. Where operations are not
 * known any product may be batched. In fp32 fused attention gains little. */
static size_t product_beside(const struct remedy_model *model, size_t soft, int step) {
    enum { REACH = 14 };
    for (size_t i = soft, far = 0; far < REACH; far++) {
        if (step < 0 ? i == 0 : i + 1 >= model->leaf_count) break;
        const size_t next = step < 0 ? i - 1 : i + 1;
        const struct leaf *leaf = &model->leaves[next];
        if (!follows(model, next, i)) break;
        if (leaf->kind == LEAF_PRODUCT) {
            const bool batched = leaf->operation == AORTA_TRACE_NONE || strstr(leaf->name, "bmm");
            return batched && leaf->math == MATH_HALF ? next : SIZE_MAX;
        }
        if (!moves(leaf) && leaf->ns > SMALL_NS) break;
        i = next;
    }
    return SIZE_MAX;
}

/* The products keep their time, though a fused kernel computes them faster, too. */
void aorta_remedy_unsized_attention(struct remedy_model *model) {
    for (size_t i = 0; i < model->leaf_count; i++) {
        if (!is_softmax(&model->leaves[i]) || !moves(&model->leaves[i])) continue;
        const size_t before = product_beside(model, i, -1), after = product_beside(model, i, 1);
        if (before == SIZE_MAX || after == SIZE_MAX) continue;
        for (size_t j = before + 1; j < after; j++) claim_whole(model, j);
    }
}

/* ---- layout ---- */

/* PyTorch's group norm would copy its input there and back, which takes about as long as its own kernels twice. */
void aorta_remedy_unsized_layout(struct remedy_model *model) {
    double converting_ns = 0, copies_ns = 0;
    for (size_t i = 0; i < model->leaf_count; i++) {
        const struct leaf *leaf = &model->leaves[i];
        converting_ns += leaf->convert_ns;
        if (leaf->kernels_any & AORTA_KERNEL_GROUP_NORM) copies_ns += 2 * leaf->ns;
    }
    for (size_t i = 0; i < model->leaf_count && converting_ns > copies_ns; i++) {
        const struct leaf *leaf = &model->leaves[i];
        const bool alone = leaf->convert_ns >= leaf->ns;
        if (leaf->convert_ns > 0)
            aorta_remedy_claim(model, i, model->now_ns[i] - leaf->convert_ns, alone ? leaf->kernels : 0);
    }
}

/* ---- optimizer ---- */

static bool divides(const struct leaf *leaf) {
    return strstr(leaf->kernel, "addcdiv") || (strstr(leaf->kernel, "PointwiseOp") && strstr(leaf->kernel, "divides"));
}

/* Where operations are not known: kernels over lists of tensors, and what a loop launches for each parameter, which
 * ends by adding a quotient (Adam). Norms of gradients are none. */
void aorta_remedy_unsized_mark_optimizer(struct remedy_model *model) {
    enum { EACH = 8 };
    if (model->operations || model->own) return;
    for (size_t i = 0; i < model->leaf_count; i++) {
        struct leaf *leaf = &model->leaves[i];
        if (leaf->kernels_any & AORTA_KERNEL_FOREACH && !strstr(leaf->kernel, "Norm")) leaf->kind = LEAF_OPTIMIZER;
        if (leaf->kind != LEAF_STREAM || !strstr(leaf->kernel, "addcdiv")) continue;
        for (size_t j = 0; j < EACH && j <= i && model->leaves[i - j].kind == LEAF_STREAM; j++)
            if (follows(model, i - j, i)) model->leaves[i - j].kind = LEAF_OPTIMIZER;
    }
}

/* Adam once over its tensors takes seven passes, of which the kernel that adds the quotient takes four. Momentum and
 * SGD have none to compare with. */
void aorta_remedy_unsized_optimizer(struct remedy_model *model) {
    static const double PASSES = 7.0 / 4, WORTH = 0.8;
    double now_ns = 0, quotient_ns = 0;
    for (size_t i = 0; i < model->leaf_count; i++) {
        const struct leaf *leaf = &model->leaves[i];
        if (leaf->kind != LEAF_OPTIMIZER) continue;
        if (strstr(leaf->kernel, "Fused")) return;
        now_ns += model->now_ns[i];
        quotient_ns += divides(leaf) ? model->now_ns[i] : 0;
    }
    const double left = PASSES * quotient_ns / now_ns;
    if (!(quotient_ns > 0) || left > WORTH) return;
    for (size_t i = 0; i < model->leaf_count; i++) {
        const struct leaf *leaf = &model->leaves[i];
        if (leaf->kind != LEAF_OPTIMIZER) continue;
        const uint32_t stays = i == 0 || model->leaves[i - 1].kind != LEAF_OPTIMIZER;
        aorta_remedy_claim(model, i, model->now_ns[i] * left, aorta_leaf_work(leaf) - stays);
    }
}

/* ---- chains ---- */

enum { LONGEST_CHAIN = 64 };

struct chain {
    size_t leaves[LONGEST_CHAIN];
    size_t count;
    bool overflown; /* a loop over parameters rather than a part of a model */
};

/* One pass takes at least as long as the longest kernel of its size moves bytes, at the rate of generated kernels, and
 * longer where a batch norm reads its input twice. What takes much less time is of another size. */
static void claim_chain(struct remedy_model *model, struct chain *chain) {
    static const double ONE_SIZE = 0.2, READ_TWICE = 0.75;
    double longest_ns = 0, now_ns = 0;
    size_t count = 0;
    uint32_t kernels = 0;
    for (size_t i = 0; i < chain->count; i++) longest_ns = fmax(longest_ns, model->now_ns[chain->leaves[i]]);
    for (size_t i = 0; i < chain->count; i++) {
        const double ns = model->now_ns[chain->leaves[i]];
        if (ns < ONE_SIZE * longest_ns) continue;
        kernels |= model->leaves[chain->leaves[i]].kernels_any;
        chain->leaves[count++] = chain->leaves[i];
        now_ns += ns;
    }
    const double rate = kernels & AORTA_KERNEL_BATCH_NORM ? READ_TWICE : 1;
    const double left_ns = longest_ns * model->stream / (rate * model->fused);
    for (size_t i = 0; i < count && count > 1 && left_ns < now_ns && !chain->overflown; i++) {
        const struct leaf *leaf = &model->leaves[chain->leaves[i]];
        aorta_remedy_claim(model, chain->leaves[i], model->now_ns[chain->leaves[i]] * left_ns / now_ns,
                           aorta_leaf_work(leaf) - (i == 0));
    }
    *chain = (struct chain){.count = 0};
}

void aorta_remedy_unsized_fusion(struct remedy_model *model) {
    struct chain chain = {.count = 0};
    for (size_t i = 0; i < model->leaf_count; i++) {
        const struct leaf *leaf = &model->leaves[i];
        if (i > 0 && !follows(model, i, i - 1)) claim_chain(model, &chain);
        if (model->now_ns[i] <= 0) continue;
        if (!moves(leaf) && (leaf->ns > SMALL_NS || leaf->kind == LEAF_PRODUCT)) claim_chain(model, &chain);
        if (!moves(leaf) || leaf->ns <= SMALL_NS) continue;
        chain.overflown |= chain.count == LONGEST_CHAIN;
        if (!chain.overflown) chain.leaves[chain.count++] = i;
    }
    claim_chain(model, &chain);
}
