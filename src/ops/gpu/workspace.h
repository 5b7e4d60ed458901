/* Scratch memory of the operations, one piece for each stream: operations on a stream run one after the other, so all
 * of them can use the same. It is allocated before the first capture and is never moved, as graphs hold its address.
 */
#ifndef AORTA_OPS_GPU_WORKSPACE_H
#define AORTA_OPS_GPU_WORKSPACE_H

#include "device/gpu.h"
#include "ops/kernels/arguments.h"

#define AORTA_WORKSPACE_BYTES ((size_t)32 << 20) /* what products by the library are given */

struct aorta_ops_workspace {
    void *memory;
    size_t bytes;
    struct aorta_gpu_fault *fault; /* pinned: where kernels report a failure */
};

/* The stream's workspace, of at least `bytes`. Inside a capture it must exist
 * already, large enough (AORTA_DEVICE otherwise). It is the device's, and lives as long. */
AORTA_MUST_USE aorta_status aorta_ops_workspace(struct aorta_stream *stream, size_t bytes,
                                                struct aorta_ops_workspace *workspace);
/* Takes a fault that kernels reported, if any; they may report again afterwards. */
bool aorta_ops_take_fault(struct aorta_gpu_fault *fault, struct aorta_gpu_fault *met);
/* Another of the stream's, by its number: 0 is the one above. Its contents outlast the next operation. */
AORTA_MUST_USE aorta_status aorta_ops_workspace_apart(struct aorta_stream *stream, int number, size_t bytes,
                                                      struct aorta_ops_workspace *workspace);

#endif
