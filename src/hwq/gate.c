#include "hwq/gate.h"
#include "device/gpu.h"
#include "hwq/kernels/hold.h"
#include "hwq/kernels/kernels.h"

#include <stdlib.h>

struct aorta_hwq_barrier {
    struct aorta_hwq *hwq;
    struct aorta_stream *stream;
    struct aorta_event *behind;
    struct aorta_hwq_gate *flags; /* pinned */
    int64_t limit_ticks;
};

aorta_status aorta_hwq_gate_create(struct aorta_hwq *hwq, struct aorta_hwq_barrier **gate) {
    struct aorta_hwq_barrier *made = calloc(1, sizeof *made);
    if (!made) return AORTA_ERROR(AORTA_MEMORY, "no host memory for the gate");
    const double ns_per_tick = aorta_device_is_gpu(hwq->device) ? aorta_gpu_ns_per_tick(hwq->device) : 1.0;
    made->hwq = hwq;
    made->limit_ticks = (int64_t)(AORTA_HWQ_GATE_LIMIT_S * 1e9 / ns_per_tick);
    aorta_status status = aorta_stream_create(hwq->device, "gate", AORTA_PRIORITY_HIGH, &made->stream);
    if (!status) status = aorta_event_create_untimed(hwq->device, &made->behind);
    if (!status) status = aorta_pinned_alloc(hwq->device, sizeof *made->flags, "the gate", (void **)&made->flags);
    if (status) {
        aorta_hwq_gate_destroy(made);
        return status;
    }
    *gate = made;
    return NULL;
}

void aorta_hwq_gate_destroy(struct aorta_hwq_barrier *gate) {
    if (!gate) return;
    if (gate->flags) aorta_hwq_gate_open(gate); /* on the way out of a failure it may be closed */
    aorta_stream_destroy(gate->stream);
    aorta_event_destroy(gate->behind);
    aorta_pinned_free(gate->hwq->device, gate->flags);
    free(gate);
}

aorta_status aorta_hwq_gate_close(struct aorta_hwq_barrier *gate) {
    __atomic_store_n(&gate->flags->gave_up, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&gate->flags->open, 0, __ATOMIC_RELEASE);
    const struct aorta_hwq_hold args = {.gate = gate->flags, .limit_ticks = gate->limit_ticks};
    AORTA_TRY(aorta_launch(gate->stream, &aorta_hwq_kernel_hold, &args, sizeof args));
    gate->hwq->gates++;
    AORTA_TRY(aorta_event_record(gate->behind, gate->stream));
    for (int s = 0; s < gate->hwq->stream_count; s++) AORTA_TRY(aorta_stream_wait(gate->hwq->streams[s], gate->behind));
    return NULL;
}

void aorta_hwq_gate_open(struct aorta_hwq_barrier *gate) {
    __atomic_store_n(&gate->flags->open, 1, __ATOMIC_RELEASE);
}

bool aorta_hwq_gate_held(const struct aorta_hwq_barrier *gate) {
    return !__atomic_load_n(&gate->flags->gave_up, __ATOMIC_ACQUIRE);
}
