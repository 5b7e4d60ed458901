/* Particles in small groups, a kernel for each group and substep; launched one by one, or as a graph. particles [graph] */
#include "steps.h"

__global__ void move(float4 *at, float4 *speed, int n, float dt)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 x = at[i], v = speed[i];
    v.x -= x.x * dt, v.y -= x.y * dt, v.z -= x.z * dt;
    x.x += v.x * dt, x.y += v.y * dt, x.z += v.z * dt;
    at[i] = x, speed[i] = v;
}

static void advance(float4 *at, float4 *speed, int groups, int n, cudaStream_t stream)
{
    for (int substep = 0; substep < 20; substep++)
        for (int group = 0; group < groups; group++)
            move<<<n / 256, 256, 0, stream>>>(at + group * n, speed + group * n, n, 1e-3f);
}

int main(int argc, char **argv)
{
    const int groups = 20, n = 4096;
    float4 *at, *speed;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMalloc(&at, groups * n * sizeof *at));
    CHECK(cudaMalloc(&speed, groups * n * sizeof *speed));
    CHECK(cudaMemset(at, 0, groups * n * sizeof *at));
    CHECK(cudaMemset(speed, 0, groups * n * sizeof *speed));
    cudaGraphExec_t recorded = nullptr;
    if (chosen(argc, argv, "graph")) {
        cudaGraph_t graph;
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
        advance(at, speed, groups, n, stream);
        CHECK(cudaStreamEndCapture(stream, &graph));
        CHECK(cudaGraphInstantiate(&recorded, graph, 0));
    }
    for (Steps steps(400); steps.next();)
        if (recorded)
            CHECK(cudaGraphLaunch(recorded, stream));
        else
            advance(at, speed, groups, n, stream);
    CHECK(cudaDeviceSynchronize());
}
