/* Many small arrays are copied to the device each step, one by one or as one. parcels [joined] */
#include "steps.h"

__global__ void use(float *out, const float *in, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        for (int k = 0; k < 200; k++)
            out[i] = out[i] * 0.9f + in[(i + k) % n];
}

int main(int argc, char **argv)
{
    const bool joined = chosen(argc, argv, "joined");
    const int arrays = 500, each = 1024, n = arrays * each;
    float *here, *there, *out;
    CHECK(cudaMallocHost(&here, n * sizeof(float)));
    CHECK(cudaMalloc(&there, n * sizeof(float)));
    CHECK(cudaMalloc(&out, n * sizeof(float)));
    memset(here, 0, n * sizeof(float));
    CHECK(cudaMemset(out, 0, n * sizeof(float)));
    for (Steps steps(150); steps.next();) {
        for (int i = 0; i < arrays && !joined; i++)
            CHECK(cudaMemcpyAsync(there + i * each, here + i * each, each * sizeof(float), cudaMemcpyHostToDevice));
        if (joined) CHECK(cudaMemcpyAsync(there, here, n * sizeof(float), cudaMemcpyHostToDevice));
        use<<<1056, 256>>>(out, there, n);
    }
    CHECK(cudaDeviceSynchronize());
}
