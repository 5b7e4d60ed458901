/* Images, channels last. */
#include "ops/kernels/portable.h"

#include "ops/kernels/arguments.h"
#include "ops/kernels/element.h"

DEVICE int64_t thread_number() {
    return (int64_t)blockIdx.x * AORTA_IMAGE_THREADS + threadIdx.x;
}

/* A thread takes a pixel. */
KERNEL(AORTA_IMAGE_THREADS, image_prepare, aorta_image_args) {
    const int64_t pixel = thread_number(), area = a.shape.height * a.shape.width, n = pixel / area;
    if (n >= a.shape.images) return;
    const int64_t within_image = pixel % area, w = within_image % a.shape.width;
    const int64_t from = a.flips[n] ? within_image - w + a.shape.width - 1 - w : within_image;
    const int channels = (int)a.shape.channels;
    for (int c = 0; c < channels; c++)
        a.y[pixel * channels + c] = (a.x[(n * channels + c) * area + from] - a.mean[c]) / a.deviation[c];
}

/* `count` channels of one of the nine neighbours of a pixel. */
template <typename T> DEVICE void copy_neighbour(const aorta_image &s, const T *x, T *y, int64_t index) {
    const int64_t channels = s.channels * (int64_t)sizeof(float) / (int64_t)sizeof(T), pixel = index / (9 * channels);
    if (pixel >= s.images * s.height * s.width) return;
    const int at = (int)(index - pixel * 9 * channels), neighbour = at / (int)channels, c = at % (int)channels;
    const int64_t row = pixel / s.width; /* of all images */
    const int h = (int)(row % s.height) + neighbour / 3 - 1, w = (int)(pixel - row * s.width) + neighbour % 3 - 1;
    T value = {};
    if (h >= 0 && h < s.height && w >= 0 && w < s.width)
        value = x[((row + neighbour / 3 - 1) * s.width + w) * channels + c];
    y[index] = value;
}

KERNEL(AORTA_IMAGE_THREADS, image_columns, aorta_image_args) {
    if (a.shape.channels % 4 == 0 && aligned16(a.x) && aligned16(a.y))
        copy_neighbour(a.shape, (const bytes16 *)a.x, (bytes16 *)a.y, thread_number());
    else
        copy_neighbour(a.shape, a.x, a.y, thread_number());
}

/* A thread takes one channel of a pixel of the result. */
KERNEL(AORTA_IMAGE_THREADS, image_pool, aorta_image_args) {
    const int64_t index = thread_number(), channels = a.shape.channels, width = a.shape.width / 2;
    const int64_t pixel = index / channels, c = index % channels;
    if (pixel >= a.shape.images * (a.shape.height / 2) * width) return;
    const float *x = a.x + (pixel / width * 2 * a.shape.width + pixel % width * 2) * channels + c;
    const float *below = x + a.shape.width * channels;
    const float upper = x[0] > x[channels] ? x[0] : x[channels];
    const float lower = below[0] > below[channels] ? below[0] : below[channels];
    a.y[index] = upper > lower ? upper : lower;
}

/* Grid: channels, images; 32 channels side by side, AORTA_IMAGE_THREADS / 32 pixels at a time. */
KERNEL(AORTA_IMAGE_THREADS, image_mean, aorta_image_args) {
    enum { ROWS = AORTA_IMAGE_THREADS / 32 };
    __shared__ float sums[ROWS][32];
    const int lane = (int)(threadIdx.x % 32), row = (int)(threadIdx.x / 32);
    const int64_t channels = a.shape.channels, c = (int64_t)blockIdx.x * 32 + lane;
    const int64_t pixels = a.shape.height * a.shape.width;
    float sum = 0.0f;
    for (int64_t p = row; p < pixels && c < channels; p += ROWS) sum += a.x[(blockIdx.y * pixels + p) * channels + c];
    sums[row][lane] = sum;
    __syncthreads();
    if (row > 0 || c >= channels) return;
    for (int i = 1; i < ROWS; i++) sum += sums[i][lane];
    a.y[blockIdx.y * channels + c] = sum / (float)pixels;
}
