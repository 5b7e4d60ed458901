/* The launches of a step as a graph, which is captured and instantiated in each step, or once. recaptured [once] */
#include "steps.h"

__global__ void relax(float *x, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0 && i < n - 1) x[i] = 0.5f * x[i] + 0.25f * (x[i - 1] + x[i + 1]);
}

static cudaGraphExec_t capture(float *x, int n, cudaStream_t stream)
{
    cudaGraph_t graph;
    cudaGraphExec_t made;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < 300; i++)
        relax<<<n / 256, 256, 0, stream>>>(x, n);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&made, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    return made;
}

int main(int argc, char **argv)
{
    const bool once = chosen(argc, argv, "once");
    const int n = 1 << 18;
    float *x;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMalloc(&x, n * sizeof(float)));
    CHECK(cudaMemset(x, 0, n * sizeof(float)));
    cudaGraphExec_t graph = capture(x, n, stream);
    for (Steps steps(200); steps.next();) {
        if (!once) {
            CHECK(cudaGraphExecDestroy(graph));
            graph = capture(x, n, stream);
        }
        CHECK(cudaGraphLaunch(graph, stream));
        if (!once) CHECK(cudaStreamSynchronize(stream));
    }
    CHECK(cudaDeviceSynchronize());
}
