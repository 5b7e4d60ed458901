/* Spectra of many signals; cuFFT's plan is made in each step, or once. spectrum [once] */
#include "steps.h"
#include <cufft.h>

__global__ void power(float *out, const cufftComplex *in, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        out[i] = in[i].x * in[i].x + in[i].y * in[i].y;
}

int main(int argc, char **argv)
{
    const bool once = chosen(argc, argv, "once");
    const int length = 4096, batch = 4096, n = length * batch;
    cufftComplex *signal;
    float *out;
    cufftHandle plan;
    CHECK(cudaMalloc(&signal, n * sizeof *signal));
    CHECK(cudaMalloc(&out, n * sizeof *out));
    CHECK(cudaMemset(signal, 0, n * sizeof *signal));
    if (once) CHECK(cufftPlan1d(&plan, length, CUFFT_C2C, batch));
    for (Steps steps(150); steps.next();) {
        if (!once) CHECK(cufftPlan1d(&plan, length, CUFFT_C2C, batch));
        CHECK(cufftExecC2C(plan, signal, signal, CUFFT_FORWARD));
        power<<<1024, 256>>>(out, signal, n);
        CHECK(cufftExecC2C(plan, signal, signal, CUFFT_INVERSE));
        if (!once) CHECK(cufftDestroy(plan));
    }
    CHECK(cudaDeviceSynchronize());
}
