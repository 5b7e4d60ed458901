/* One instruction set's functions as a table. */
#include "ops/cpu/cpu.h"
#include "ops/cpu/entries.h"

#define AORTA_ISA_STRING(isa) #isa
#define AORTA_ISA_TEXT(isa) AORTA_ISA_STRING(isa)

const struct aorta_cpu_ops AORTA_ISA_NAME(cpu_ops) = {
    .isa = AORTA_ISA_TEXT(AORTA_ISA),
    .attention_forward = AORTA_ISA_NAME(attention_forward),
    .attention_backward = AORTA_ISA_NAME(attention_backward),
    .norm_forward = AORTA_ISA_NAME(norm_forward),
    .norm_backward = AORTA_ISA_NAME(norm_backward),
    .gelu_forward = AORTA_ISA_NAME(gelu_forward),
    .gelu_backward = AORTA_ISA_NAME(gelu_backward),
    .embedding_forward = AORTA_ISA_NAME(embedding_forward),
    .embedding_backward = AORTA_ISA_NAME(embedding_backward),
    .square_sum = AORTA_ISA_NAME(square_sum),
    .adamw = AORTA_ISA_NAME(adamw),
    .cast = AORTA_ISA_NAME(cast),
    .fill = AORTA_ISA_NAME(fill),
    .add = AORTA_ISA_NAME(add),
    .bias_rows = AORTA_ISA_NAME(bias_rows),
    .column_sums = AORTA_ISA_NAME(column_sums),
    .relu = AORTA_ISA_NAME(relu),
    .to_float = AORTA_ISA_NAME(to_float),
    .from_float = AORTA_ISA_NAME(from_float),
    .philox = AORTA_ISA_NAME(philox),
};
