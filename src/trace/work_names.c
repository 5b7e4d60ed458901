#include "trace/work_names.h"

#include <stdlib.h>
#include <string.h>

bool aorta_work_names_make(const struct aorta_trace *trace, struct aorta_work_names *names) {
    const size_t count = aorta_trace_text_count(trace) + 1;
    *names = (struct aorta_work_names){trace, calloc(count, sizeof *names->categories),
                                       calloc(count, sizeof *names->operations)};
    return names->categories && names->operations;
}

void aorta_work_names_free(struct aorta_work_names *names) {
    free(names->categories);
    free(names->operations);
    *names = (struct aorta_work_names){0};
}

/* ---- categories ---- */

static enum aorta_category category_by_name(struct aorta_work_names *names, uint32_t name) {
    uint8_t *known = &names->categories[name];
    if (!*known) *known = (uint8_t)(aorta_kernel_category(aorta_trace_text(names->trace, name)) + 1);
    return (enum aorta_category)(*known - 1);
}

const char *aorta_work_category(struct aorta_work_names *names, const struct aorta_trace_work *work) {
    if (work->kind == AORTA_TRACE_COPY) return "copy";
    if (work->kind == AORTA_TRACE_FILL) return "fill";
    if (aorta_trace_is_collective(work)) return "collective";
    enum aorta_category category = category_by_name(names, work->name);
    if (work->shape == AORTA_TRACE_NONE) return aorta_category_name(category);
    const enum aorta_work_class class = names->trace->shapes[work->shape].amount.class;
    if (category == AORTA_CATEGORY_OTHER || (category == AORTA_CATEGORY_GEMM && class == AORTA_WORK_CONVOLUTION))
        category = aorta_category_of_class(class);
    return aorta_category_name(category);
}

/* ---- operations ---- */

const char *aorta_operation_alike(const char *operation) {
    static const char *const alike[][2] = {
        {"aten::mm", "mm"},
        {"aten::addmm", "mm"},
        {"aten::linear", "mm"},
        {"aten::matmul", "mm"},
        {"aten::_addmm_activation", "mm"},
        {"aten::bmm", "bmm"},
        {"aten::baddbmm", "bmm"},
        {"aten::convolution", "convolution"},
        {"aten::_convolution", "convolution"},
        {"aten::cudnn_convolution", "convolution"},
        {"aten::miopen_convolution", "convolution"},
        {"aten::convolution_backward", "convolution backward"},
        {"aten::cudnn_batch_norm", "batch norm"},
        {"aten::miopen_batch_norm", "batch norm"},
        {"aten::native_batch_norm", "batch norm"},
        {"aten::cudnn_batch_norm_backward", "batch norm backward"},
        {"aten::miopen_batch_norm_backward", "batch norm backward"},
        {"aten::native_batch_norm_backward", "batch norm backward"},
        {"aten::_flash_attention_forward", "attention"},
        {"aten::_efficient_attention_forward", "attention"},
        {"aten::_cudnn_attention_forward", "attention"},
        {"flash_attn::_flash_attn_forward", "attention"},
        {"aten::_flash_attention_backward", "attention backward"},
        {"aten::_efficient_attention_backward", "attention backward"},
        {"aten::_cudnn_attention_backward", "attention backward"},
        {"flash_attn::_flash_attn_backward", "attention backward"},
    };
    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++)
        if (!strcmp(operation, alike[i][0])) return alike[i][1];
    return operation;
}

const char *aorta_work_operation(struct aorta_work_names *names, const struct aorta_trace_work *work) {
    const struct aorta_trace_operation *operations = names->trace->operations;
    uint32_t at = work->operation;
    while (at != AORTA_TRACE_NONE && operations[at].range) at = operations[at].parent;
    if (at == AORTA_TRACE_NONE) return NULL;
    const char **known = &names->operations[operations[at].name];
    if (!*known) *known = aorta_operation_alike(aorta_trace_text(names->trace, operations[at].name));
    return *known;
}
