/* Files of named tensors (https://github.com/huggingface/safetensors, "Format"): 8 bytes little-endian header length, a
 * JSON header {name: {dtype, shape, data_offsets}}, then the data. Offsets count from the end of the header. */
#ifndef AORTA_TRAIN_WEIGHTS_H
#define AORTA_TRAIN_WEIGHTS_H

#include "base/dtype.h"
#include "base/status.h"
#include "train/data.h"
#include "train/strategy.h"

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

/* ---- weights of a model ---- */

/* Start values of all parameters: from training.init_from, else drawn from training.seed. Rank 0's are broadcast where
 * fsdp.sync_module_states says so (with param_init_device meta there is nothing to broadcast: every rank draws its own
 * shard alone). AORTA_CONFIG names a tensor that is missing from the file or has another shape. */
AORTA_MUST_USE aorta_status aorta_weights_initialise(const struct aorta_train_context *context,
                                                     struct aorta_strategy *strategy);

bool aorta_dump_wanted(const struct aorta_train_options *options, int64_t step);
/* <dump_dir>/params_SSSS.safetensors and grads_SSSS.safetensors, by rank 0; called by all ranks, between steps or
 * between gradients and optimizer. Gradients are those of the mean over ranks, unscaled and unclipped. */
AORTA_MUST_USE aorta_status aorta_dump_parameters(const struct aorta_train_context *context,
                                                  struct aorta_strategy *strategy, int64_t step);
AORTA_MUST_USE aorta_status aorta_dump_gradients(const struct aorta_train_context *context,
                                                 struct aorta_strategy *strategy, int64_t step);
/* <dump_dir>/batch_SSSS_rankRR.safetensors from the input in host memory. */
AORTA_MUST_USE aorta_status aorta_dump_batch(const struct aorta_train_context *context,
                                             const struct aorta_batch_layout *layout, const void *input, int64_t step);

#endif
