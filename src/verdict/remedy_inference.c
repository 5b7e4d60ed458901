/* What inference moves again and again although it does not change: weights that are cast, and a cache of keys and
 * values that is copied for each token. */
#include "verdict/remedy_internal.h"

#include <math.h>
#include <string.h>

static bool multiplies(const struct leaf *leaf) {
    return leaf->kind == LEAF_PRODUCT || leaf->kind == LEAF_CONVOLUTION;
}

/* ---- weights ---- */

/* PyTorch has kernels of these names for a copy from fp32 to 16 bits. */
static bool narrows(const struct leaf *leaf) {
    return strstr(leaf->kernel, "float16_copy_kernel") != NULL;
}

/* Under autocast each product in 16 bits casts its weights, as autocast keeps them for gradients only. Otherwise
 * only norms cast, which are fewer. */
void aorta_remedy_weights(struct remedy_model *model) {
    static const double EACH = 0.8;
    size_t products = 0, casts = 0;
    if (model->own || model->rank->trains) return;
    for (size_t i = 0; i < model->leaf_count; i++) {
        const struct leaf *leaf = &model->leaves[i];
        products += multiplies(leaf) && (leaf->math == MATH_HALF || leaf->kernels_any & AORTA_KERNEL_HALF);
        casts += narrows(leaf);
    }
    if (!products || (double)casts < EACH * (double)products) return;
    (void)aorta_remedy_unsized(model);
    for (size_t i = 0; i < model->leaf_count; i++)
        if (narrows(&model->leaves[i])) aorta_remedy_claim(model, i, 0, aorta_leaf_work(&model->leaves[i]));
}

/* ---- a cache that grows ---- */

static bool concatenates(const struct leaf *leaf) {
    return strstr(leaf->kernel, "CatArrayBatchedCopy") != NULL;
}

/* Attention to one token reads the keys and values once, which their copies do, too. All other copies in front of
 * attention take less: it reads more than one of them. */
void aorta_remedy_cache(struct remedy_model *model) {
    enum { REACH = 12 };
    static const double OF_ATTENTION = 0.8, ALIKE = 0.1, NEW_TOKEN_NS = 3000;
    if (model->own) return;
    (void)aorta_remedy_unsized(model);
    for (size_t i = 0; i < model->leaf_count; i++) {
        const struct leaf *attention = &model->leaves[i];
        size_t found[2], count = 0;
        if (!(attention->kernels_any & AORTA_KERNEL_FUSED_ATTENTION)) continue;
        for (size_t j = i;
             j-- > 0 && i - j <= REACH && count < 2 && aorta_leaves_together(attention, &model->leaves[j]);)
            if (concatenates(&model->leaves[j]) && model->leaves[j].ns >= OF_ATTENTION * attention->ns)
                found[count++] = j;
        if (count < 2) continue;
        const double keys_ns = model->leaves[found[1]].ns, values_ns = model->leaves[found[0]].ns;
        if (fabs(keys_ns - values_ns) > ALIKE * fmax(keys_ns, values_ns)) continue;
        for (int k = 0; k < 2; k++) aorta_remedy_claim(model, found[k], NEW_TOKEN_NS, 0);
    }
}
