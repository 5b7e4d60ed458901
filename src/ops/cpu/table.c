/* One instruction set's functions as a table. */
#include "ops/cpu/entries.h"

#define AORTA_ISA_STRING(isa) #isa
#define AORTA_ISA_TEXT(isa) AORTA_ISA_STRING(isa)

const struct aorta_cpu_ops AORTA_ISA_NAME(cpu_ops) = {
    .isa = AORTA_ISA_TEXT(AORTA_ISA),
#define LOOP(name) .name = AORTA_ISA_NAME(name),
#include "ops/kernels.def"
    .bias_rows = AORTA_ISA_NAME(bias_rows),
    .column_sums = AORTA_ISA_NAME(column_sums),
    .relu = AORTA_ISA_NAME(relu),
    .to_float = AORTA_ISA_NAME(to_float),
    .from_float = AORTA_ISA_NAME(from_float),
    .philox = AORTA_ISA_NAME(philox),
};
