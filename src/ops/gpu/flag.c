/* Flags. */
#include "ops/gpu/gpu.h"

static const struct aorta_gpu_grid one_thread = {.blocks = {1}};

aorta_status aorta_ops_gpu_flag_raise(struct aorta_stream *stream, const void *args) {
    AORTA_TRY(aorta_ops_gpu_run(stream, AORTA_ENTRY_flag_raise, one_thread, args, sizeof(struct aorta_flag_args)));
    return aorta_gpu_flush(stream);
}

aorta_status aorta_ops_gpu_flag_await(struct aorta_stream *stream, const void *args) {
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_flag_await, one_thread, args, sizeof(struct aorta_flag_args));
}
