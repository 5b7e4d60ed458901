/* Keys are sorted by Thrust, which allocates its work space in each call, or by CUB in space that stays. ranking [space] */
#include "steps.h"
#include <cub/cub.cuh>
#include <thrust/device_vector.h>
#include <thrust/sort.h>

__global__ void shuffle(unsigned *keys, int n, unsigned seed)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        keys[i] = (i ^ seed) * 2654435761u;
}

int main(int argc, char **argv)
{
    const bool given = chosen(argc, argv, "space");
    const int n = 1 << 20;
    thrust::device_vector<unsigned> keys(n), sorted(n);
    unsigned *in = thrust::raw_pointer_cast(keys.data()), *out = thrust::raw_pointer_cast(sorted.data());
    size_t bytes = 0;
    void *space = nullptr;
    CHECK(cub::DeviceRadixSort::SortKeys(space, bytes, in, out, n));
    CHECK(cudaMalloc(&space, bytes));
    for (Steps steps(200); steps.next();)
        for (int i = 0; i < 20; i++) {
            shuffle<<<512, 256>>>(in, n, i);
            if (given)
                CHECK(cub::DeviceRadixSort::SortKeys(space, bytes, in, out, n));
            else
                thrust::sort(keys.begin(), keys.end());
        }
    CHECK(cudaDeviceSynchronize());
}
