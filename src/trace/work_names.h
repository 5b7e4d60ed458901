/* What device work is called where the kernels' own names differ between libraries and vendors. */
#ifndef AORTA_TRACE_WORK_NAMES_H
#define AORTA_TRACE_WORK_NAMES_H

#include "trace/trace.h"

/* Of one trace; what a name says is found out once. */
struct aorta_work_names {
    const struct aorta_trace *trace;
    uint8_t *categories;     /* by text: of a kernel's name, + 1 */
    const char **operations; /* by text: as aorta_operation_alike has it; NULL: not asked yet */
};

/* False: no memory. In any case aorta_work_names_free. */
bool aorta_work_names_make(const struct aorta_trace *trace, struct aorta_work_names *names);
void aorta_work_names_free(struct aorta_work_names *names);

/* "gemm", "attention", … (categories.h); "collective", "copy", "fill". */
const char *aorta_work_category(struct aorta_work_names *names, const struct aorta_trace_work *work);
/* The innermost operation of the framework that launched it, as aorta_operation_alike has it; NULL: not recorded. */
const char *aorta_work_operation(struct aorta_work_names *names, const struct aorta_trace_work *work);

/* One name for operations that do the same by another library or form: "mm" of aten::mm, addmm and linear,
 * "convolution" of cudnn_convolution and miopen_convolution. Else the name as it is. */
const char *aorta_operation_alike(const char *operation);

#endif
