/* When a kernel has begun and ended, for who asks it in a capture (src/device/gpu/told.c). Not for the emulator, which
 * has no timer. Part of portable.h. */
#ifndef AORTA_KERNELS_TIMES_H
#define AORTA_KERNELS_TIMES_H

/* Second parameter of every kernel: device memory for readings of the timer; NULL: nobody asks. The layout is struct
 * gpu_times' of driver.h. */
struct kernel_times {
    unsigned long long *begun, *ended;
};

/* Blocks begin in the order of their numbers. */
DEVICE void tell_begin(const kernel_times &times) {
    if (!times.begun || blockIdx.x || blockIdx.y || blockIdx.z || threadIdx.x || threadIdx.y || threadIdx.z) return;
    *times.begun = (unsigned long long)device_timer();
}

/* Each block says when it is through, and the latest stays. Nobody waits for that, and as the timer only goes on,
 * nothing has to be put back before the kernel runs again. */
DEVICE void tell_end(const kernel_times &times) {
    if (!times.ended) return;
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0)
        atomicMax(times.ended, (unsigned long long)device_timer());
}

#endif
