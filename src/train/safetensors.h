/* Files of named tensors (https://github.com/huggingface/safetensors, "Format"): 8 bytes little-endian header length, a
 * JSON header {name: {dtype, shape, data_offsets}}, then the data. Offsets count from the end of the header. */
#ifndef AORTA_TRAIN_SAFETENSORS_H
#define AORTA_TRAIN_SAFETENSORS_H

#include "base/dtype.h"
#include "base/status.h"

#include <stdint.h>

enum { AORTA_TENSOR_MAX_DIMENSIONS = 4 };

struct aorta_tensor {
    const char *name;
    enum aorta_dtype dtype; /* fp32 or int64 */
    int dimensions;
    int64_t shape[AORTA_TENSOR_MAX_DIMENSIONS];
    const void *data; /* row-major host memory; of a file that was read: at any address, so copy before use */
};

int64_t aorta_tensor_elements(const struct aorta_tensor *tensor);

/* Replaces the file as a whole. AORTA_IO names path and reason. */
AORTA_MUST_USE aorta_status aorta_safetensors_write(const char *path, const struct aorta_tensor *tensors, size_t count);

/* A file in memory; names and data live as long as it. */
struct aorta_safetensors {
    struct aorta_tensor *tensors;
    size_t count;
    void *header; /* jansson's object, which owns the names */
    char *bytes;
};

/* AORTA_IO when unreadable; AORTA_FORMAT names the tensor and the problem (offsets outside the file, a size that does
 * not fit the shape, an element type other than F32 and I64). */
AORTA_MUST_USE aorta_status aorta_safetensors_read(const char *path, struct aorta_safetensors *file);
const struct aorta_tensor *aorta_safetensors_find(const struct aorta_safetensors *file, const char *name);
void aorta_safetensors_free(struct aorta_safetensors *file);

#endif
