/* Inside the remedies: a recorded rank as operations, and the functions with which rules change them. For this folder
 * only. */
#ifndef AORTA_VERDICT_REMEDY_INTERNAL_H
#define AORTA_VERDICT_REMEDY_INTERNAL_H

#include "base/arena.h"
#include "trace/operation_inputs.h"
#include "verdict/remedies.h"

#include <string.h>

/* Bits of kernels, by their names. */
enum {
    AORTA_KERNEL_STREAMS = 1,    /* reads and writes its tensors once or twice: can be fused */
    AORTA_KERNEL_CONVERTS = 2,   /* from NCHW to NHWC or back */
    AORTA_KERNEL_PLAIN_FP32 = 4, /* products in fp32 without matrix units */
    AORTA_KERNEL_TF32 = 8,
    AORTA_KERNEL_FUSED_ATTENTION = 16,
    AORTA_KERNEL_HOST_COPY = 32, /* copy between host and device, or between devices */
    AORTA_KERNEL_CHANNELS_LAST = 64,
    AORTA_KERNEL_GENERATED = 128, /* by Triton */
    AORTA_KERNEL_PRODUCT = 256,
    AORTA_KERNEL_HALF = 512,       /* products in 16 bits */
    AORTA_KERNEL_UNALIGNED = 1024, /* products that load single elements */
    AORTA_KERNEL_FOREACH = 2048,
    AORTA_KERNEL_SOFTMAX = 4096, /* not its logarithm */
    AORTA_KERNEL_GROUP_NORM = 8192,
    AORTA_KERNEL_BATCH_NORM = 16384,
    AORTA_KERNEL_FP8 = 32768,    /* products in fp8 */
    AORTA_KERNEL_FP64 = 1 << 16, /* computes only in fp64 */
    AORTA_KERNEL_SORTS = 1 << 18,
    AORTA_KERNEL_PLANE_NORM = 1 << 17, /* PyTorch's own batch norm of NCHW */
    AORTA_KERNEL_UNFOLDS = 1 << 20,    /* PyTorch's own: copies windows to rows of a matrix, or sums the rows */
    AORTA_KERNEL_KNOWN_MEAN = 1 << 19, /* batch norm with a given mean: in inference, or its second kernel */
};

/* Bits of operations, by their names. */
enum {
    AORTA_OP_PRODUCT = 1,
    AORTA_OP_CONVOLUTION = 2,
    AORTA_OP_ATTENTION = 4,
    AORTA_OP_COPY = 8,
    AORTA_OP_TWO_PASSES = 16, /* its reduction spans the tensor: batch, group and instance norms */
    AORTA_OP_STAYS_FP32 = 32, /* autocast computes it in fp32 */
    AORTA_OP_OPTIMIZER = 64,
    AORTA_OP_LOSS = 128,
    AORTA_OP_BACKWARD = 256,      /* a node of autograd */
    AORTA_OP_EVALUATES = 512,     /* autograd's frame around a node */
    AORTA_OP_SMALL_OUTPUT = 2048, /* sums */
    AORTA_OP_IN_PLACE = 4096,
    AORTA_OP_FILLS = 8192,
    AORTA_OP_NORM = 16384,
    AORTA_OP_EMBEDDING_GRADIENT = 32768,
    AORTA_OP_INDEXES = 65536, /* sorts */
    AORTA_OP_DROPOUT = 1 << 17,
    AORTA_OP_FUSED_OPTIMIZER = 1 << 18,
    AORTA_OP_STACKS = 1 << 19,
    AORTA_OP_LOG_SOFTMAX = 1 << 20,
    AORTA_OP_SOFTMAX = 1 << 21,
    AORTA_OP_EMPTY = 1 << 22,
    AORTA_OP_DROPOUT_BACKWARD = 1 << 23,
    AORTA_OP_COMPILED = 1 << 24,        /* a graph of torch.compile */
    AORTA_OP_WHOLE_PRODUCT = 1 << 25,   /* a product as the program calls it */
    AORTA_OP_WHOLE_ATTENTION = 1 << 26, /* scaled_dot_product_attention, in any form */
};

static const uint32_t AORTA_NAME_KNOWN = UINT32_C(1) << 31; /* the other bits of this name are set */

enum leaf_kind {
    LEAF_STREAM, /* pointwise operations, reductions, norms: can be fused with neighbours */
    LEAF_COPY,   /* of a tensor on the device: to another layout or type */
    LEAF_PRODUCT,
    LEAF_CONVOLUTION,
    LEAF_ATTENTION, /* fused */
    LEAF_OPTIMIZER,
    LEAF_GENERATED, /* by a compiler: already fused */
    LEAF_TRANSFER,  /* between host and device */
    LEAF_OTHER
};

/* Arithmetic of products. */
enum leaf_math { MATH_NONE, MATH_FP32, MATH_TF32, MATH_HALF, MATH_FP8, MATH_COUNT };

struct leaf_tensor {
    double elements;
    int bytes; /* of an element */
    enum aorta_arithmetic arithmetic;
};
enum { LEAF_OUTPUTS = 4 };

/* An operation with all kernels that it launched itself, or a single kernel if operations are unknown. The struct is
 * small, as there are almost as many leaves as kernels. */
struct leaf {
    uint32_t operation;             /* row of the trace's operations[]; NONE: unknown */
    uint32_t first_work, last_work; /* rows of the trace's work[]; next_work links aorta_leaf_work rows */
    uint32_t thread;
    uint32_t kernels, fills;               /* fills: copies and fills */
    uint32_t op, kernels_any, kernels_all; /* bits of its name; of any of its kernels; of all */
    uint32_t step;                         /* 1 + window of the rank; 0: none */
    enum leaf_kind kind : 8;
    enum leaf_math math : 8;
    bool counted; /* in a step that counts */
    bool gradient, recomputed, in_optimizer, in_loss, in_embedding, compiled;
    uint8_t output_count;
    const char *name, *kernel;         /* names of the operation and of its longest kernel */
    const struct aorta_inputs *inputs; /* never NULL */
    struct leaf_tensor *outputs;       /* in the model's memory */
    int64_t forward, backward;         /* autograd's number of it; of the operation whose gradient it computes; -1 */
    double ns, longest_ns, convert_ns;
    double flops, bytes; /* NaN: unknown */
    double largest;      /* elements of its largest tensor; 0: unknown */
};

struct remedy_model {
    const struct aorta_trace *trace;
    const struct aorta_trace_rank *rank;
    struct aorta_peaks peaks;
    double steps;
    struct leaf *leaves; /* by thread and start on the host */
    size_t leaf_count;
    struct aorta_remedies *remedies; /* result of the rules, which own this model */
    struct aorta_arena *memory;      /* owns the arrays */
    uint32_t *next_work;             /* by row of the trace's work[] */
    bool own;                        /* our own recorder measured the rank */
    struct aorta_inputs **inputs;    /* by row of the trace's inputs[] (own: shapes[]); NULL: not read yet */
    uint32_t *op_bits, *kernel_bits; /* by text */
    bool shapes, operations;         /* the file has shapes, operations */
    bool rates;                      /* the device's peaks are known */
    size_t *by_backward;             /* leaves of gradients, sorted by `backward` */
    size_t by_backward_count;

    /* Rates per ns: of the card, and those that this run reaches. */
    double peak[MATH_COUNT], best[MATH_COUNT];
    double stream, fused; /* bytes: of plain kernels, of generated kernels */

    /* Changes by previous remedies. */
    bool attention_fused, halved;

    bool rough; /* claims follow from names, as sizes are unknown */

    /* The ledger, by leaf. */
    double *now_ns;
    uint32_t *gone, *gone_before; /* removed kernels: now; before the present remedy */
    bool *stays;                  /* stays in fp32, even if products around it do not */
    uint8_t *added;               /* launches that are added before it */
    double *gained_ns;            /* by the present remedy */
    size_t *order;                /* scratch: numbers of leaves, for use within one function */
    struct aorta_remedy_row *row; /* of the present remedy */
};

/* ---- leaves (remedy_leaves.c) ---- */
void aorta_remedy_leaves(struct remedy_model *model, const struct aorta_trace_analysis *analysis);
/* Bits of a name, found once per text. (remedy_names.c) */
uint32_t aorta_remedy_op_bits(struct remedy_model *model, uint32_t text);
uint32_t aorta_remedy_kernel_bits(struct remedy_model *model, uint32_t text);

static inline bool aorta_leaf_adds(const struct leaf *leaf) {
    return !strcmp(leaf->name, "aten::add") || !strcmp(leaf->name, "aten::add_");
}
static inline bool aorta_leaf_multiplies(const struct leaf *leaf) {
    return leaf->kind == LEAF_PRODUCT || leaf->kind == LEAF_CONVOLUTION;
}

static inline bool aorta_leaf_moves(const struct leaf *leaf) {
    return leaf->kind == LEAF_STREAM || leaf->kind == LEAF_COPY;
}

static inline size_t aorta_leaf_number(const struct remedy_model *model, const struct leaf *leaf) {
    return (size_t)(leaf - model->leaves);
}

/* The leaf's time after the previous remedies. */
static inline double aorta_leaf_now_ns(const struct remedy_model *model, const struct leaf *leaf) {
    return model->now_ns[aorta_leaf_number(model, leaf)];
}

/* The number of linked rows of work. Walks end after it, as the last row has no end mark. */
static inline uint32_t aorta_leaf_work(const struct leaf *leaf) {
    return leaf->kernels + leaf->fills;
}

/* Orders by name and inputs; 0: both are equal. (remedies.c) */
int aorta_remedy_compare(const struct remedy_model *model, size_t left, size_t right);
void aorta_remedy_order_alike(const struct remedy_model *model, size_t *leaves, size_t count); /* … then by number */

/* Both leaves belong to the same thread and step. */
static inline bool aorta_leaves_together(const struct leaf *a, const struct leaf *b) {
    return a->thread == b->thread && a->step == b->step;
}

/* ---- tensors ---- */
struct aorta_inputs *aorta_remedy_read_inputs(struct remedy_model *model, const struct aorta_trace_inputs *texts);
/* The inputs of an operation. Never NULL. */
const struct aorta_inputs *aorta_remedy_inputs_of(struct remedy_model *model,
                                                  const struct aorta_trace_operation *operation);
double aorta_remedy_elements(const struct aorta_input *input); /* without axes of stride 0 */
double aorta_remedy_bytes(const struct aorta_input *input);
const struct aorta_input *aorta_remedy_tensor(const struct leaf *leaf, int number); /* from 0; NULL: unknown */
/* A matrix of a product (0 or 1), or input and weight of a convolution; NULL: unknown. */
const struct aorta_input *aorta_remedy_matrix(const struct leaf *leaf, int which);
/* All rows begin at multiples of 16 bytes: as recorded, or with elements of `bytes` bytes. */
bool aorta_remedy_aligned(const struct leaf *leaf);
bool aorta_remedy_aligned_with(const struct leaf *leaf, int bytes);

/* ---- gradients ---- */
/* Sets the places [at, end) of by_backward[] with gradients of operations `from` to `to` that run after leaf `after`.
 */
void aorta_remedy_backward(const struct remedy_model *model, int64_t from, int64_t to, size_t after, size_t *at,
                           size_t *end);

/* ---- attention ---- */
/* The time of fused attention in 16 bits; NaN: unknown. */
double aorta_remedy_attention_ns(const struct remedy_model *model, const struct leaf *leaf);
/* Marks the parts of unfused attention that stay in fp32: operations after the softmax, sums with a bias, and all of
 * scaled_dot_product_attention that is unfused in every type, as it has a bias for each head. */
void aorta_remedy_mark_staying_attention(struct remedy_model *model);
void aorta_remedy_cast_attention(struct remedy_model *model); /* adds the time of casts around unfused attention */
/* Fuses attention in 16 bits: scaled_dot_product_attention that has no fused kernel for fp32, and attention that the
 * remedy for attention has fused. */
void aorta_remedy_attention_in_half(struct remedy_model *model);

/* ---- layouts ---- */
bool aorta_remedy_turns(const struct leaf *leaf); /* a copy to another layout */
/* The time of a norm in NHWC with `scale` times its bytes. */
double aorta_remedy_norm_ns(const struct remedy_model *model, const struct leaf *leaf, double scale);
/* The time of conversions to NHWC and back around a convolution on matrix units; 0: none needed. */
double aorta_remedy_converting_ns(const struct remedy_model *model, const struct leaf *leaf, double scale);

/* ---- runs of our own recorder (remedy_names.c) ---- */
/* Sets kind, name, inputs and amounts of a leaf with linked kernels. Returns its type. */
enum aorta_arithmetic aorta_remedy_describe_own(struct remedy_model *model, struct leaf *leaf);
void aorta_remedy_own_attention(struct remedy_model *model);
void aorta_remedy_own_gathers(const struct remedy_model *model, struct aorta_work_scale *scales);
/* Claims the time of a leaf that is no product in 16 bits. True: the leaf is a product that changes its type. */
bool aorta_remedy_own_bf16(struct remedy_model *model, const struct leaf *leaf);

/* ---- recordings without shapes ----
 * Rules use names, order and times of kernels, for recomputation, attention, chains, layouts and optimizers. Rules with
 * sizes compute times from bytes. Rules without sizes compare kernels with each other, which gives upper bounds. */

static const double AORTA_SMALL_NS = 4e3; /* the launch of a shorter kernel costs more than its bytes */
/* The recording has no shapes, or the device's rates are unknown. Claims are rough then. */
static inline bool aorta_remedy_unsized(struct remedy_model *model) {
    model->rough = (!model->shapes || !model->rates) && !model->own;
    return model->rough;
}
/* Both leaves belong to the same thread, step and stream. */
static inline bool aorta_leaf_follows(const struct remedy_model *model, size_t leaf, size_t before) {
    const struct leaf *a = &model->leaves[leaf], *b = &model->leaves[before];
    const struct aorta_trace_work *work = model->trace->work;
    return aorta_leaves_together(a, b) && work[a->first_work].stream == work[b->first_work].stream;
}
/* The time of a product or convolution in another type, from names alone. */
double aorta_remedy_product_by_name_ns(const struct leaf *leaf, enum leaf_math math);
void aorta_remedy_unsized_mark_optimizer(struct remedy_model *model);
void aorta_remedy_unsized_mark_recomputed(struct remedy_model *model);
void aorta_remedy_unsized_mark_tables(struct remedy_model *model);
bool aorta_remedy_looks_up(const struct leaf *leaf); /* looks up rows of a table, for example of a vocabulary */

/* ---- the ledger (remedies.c) ---- */
/* Sets the leaf's time to new_ns and removes `gone` of its kernels, if this is less than its time. */
void aorta_remedy_claim(struct remedy_model *model, const struct leaf *leaf, double new_ns, uint32_t gone);
/* Fuses leaves: `ns` is their new time together, if it is less, in proportion to their times. Only `stay` kernels of
 * the first leaf remain. */
void aorta_remedy_claim_together(struct remedy_model *model, const size_t *leaves, size_t count, double ns,
                                 uint32_t stay);
/* Adds a cost of the remedy to the leaf's time. */
void aorta_remedy_cost(struct remedy_model *model, const struct leaf *leaf, double more_ns);
double aorta_remedy_least(const struct remedy_model *model, double flops, enum leaf_math math, double bytes);

/* ---- rules ---- */
#define REMEDY(name, key, cause, rule, ...) void rule(struct remedy_model *model);
#include "verdict/remedies.def"
#undef REMEDY

#endif
