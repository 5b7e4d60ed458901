/* Element types of device buffers. Names as in PyTorch ("float32") and in short ("fp32"). */
#ifndef AORTA_BASE_DTYPE_H
#define AORTA_BASE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>

enum aorta_dtype { AORTA_F32, AORTA_F16, AORTA_BF16, AORTA_I64, AORTA_I32, AORTA_U8, AORTA_DTYPE_COUNT };

size_t aorta_dtype_size(enum aorta_dtype dtype);          /* bytes of one element */
const char *aorta_dtype_name(enum aorta_dtype dtype);     /* "fp32", "fp16", "bf16", "int64", "int32", "uint8" */
const char *aorta_dtype_cxx_name(enum aorta_dtype dtype); /* as in PyTorch's traces: "float", "c10::Half", … */

/* Accepts every customary name ("fp32", "float32", "float", "f32", …); false when the name is none of them. */
bool aorta_dtype_parse(const char *name, enum aorta_dtype *dtype);

#endif
