/* Each of many small kernels finds its parameters in constant memory, which the host sets before it, or among its
 * arguments. symbols [arguments] */
#include "steps.h"

struct Parameters {
    float factor, offset;
    int shift;
};
__constant__ Parameters constant;

__device__ void work(float *field, int n, const Parameters &p)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        field[i] = field[(i + p.shift) % n] * p.factor + p.offset;
}

__global__ void by_constant(float *field, int n)
{
    work(field, n, constant);
}

__global__ void by_argument(float *field, int n, Parameters p)
{
    work(field, n, p);
}

int main(int argc, char **argv)
{
    const bool arguments = chosen(argc, argv, "arguments");
    const int n = 1 << 20;
    float *field;
    CHECK(cudaMalloc(&field, n * sizeof(float)));
    CHECK(cudaMemset(field, 0, n * sizeof(float)));
    for (Steps steps(100); steps.next();)
        for (int i = 0; i < 100; i++) {
            const Parameters p = {0.99f, (float)i, i};
            if (arguments) {
                by_argument<<<264, 256>>>(field, n, p);
                continue;
            }
            CHECK(cudaMemcpyToSymbol(constant, &p, sizeof p));
            by_constant<<<264, 256>>>(field, n);
        }
    CHECK(cudaDeviceSynchronize());
}
