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

/* Divisions of 64 bits would take longer than the memory: where nothing is counted as far as 2^31, `I` is int. */
DEVICE bool int_counts(int64_t count) {
    return count < (int64_t)1 << 30;
}

/* One element T of one of the nine neighbours of a pixel. */
template <typename T, typename I> DEVICE void copy_neighbour(const aorta_image &s, const T *x, T *y) {
    const I index = (I)thread_number(), channels = (I)(s.channels * (int64_t)sizeof(float) / (int64_t)sizeof(T));
    const I height = (I)s.height, width = (I)s.width, pixel = index / (9 * channels);
    if (pixel >= (I)s.images * height * width) return;
    const int at = (int)(index - pixel * 9 * channels), neighbour = at / (int)channels, c = at % (int)channels;
    const I row = pixel / width; /* of all images */
    const I h = row % height + neighbour / 3 - 1, w = pixel - row * width + neighbour % 3 - 1;
    T value = {};
    if (h >= 0 && h < height && w >= 0 && w < width) value = x[((row + neighbour / 3 - 1) * width + w) * channels + c];
    y[index] = value;
}

template <typename T> DEVICE void copy_neighbours(const aorta_image &s, const T *x, T *y) {
    if (int_counts(9 * s.images * s.height * s.width * s.channels))
        copy_neighbour<T, int>(s, x, y);
    else
        copy_neighbour<T, int64_t>(s, x, y);
}

KERNEL(AORTA_IMAGE_THREADS, image_columns, aorta_image_args) {
    if (a.shape.channels % 4 == 0 && aligned16(a.x) && aligned16(a.y))
        copy_neighbours(a.shape, (const bytes16 *)a.x, (bytes16 *)a.y);
    else
        copy_neighbours(a.shape, a.x, a.y);
}

/* A thread takes one channel of a pixel of the result. */
template <typename I> DEVICE void pool(const aorta_image_args &a) {
    const I index = (I)thread_number(), channels = (I)a.shape.channels, width = (I)a.shape.width / 2;
    const I pixel = index / channels, c = index % channels;
    if (pixel >= (I)a.shape.images * ((I)a.shape.height / 2) * width) return;
    const float *x = a.x + (int64_t)(pixel / width * 2 * (I)a.shape.width + pixel % width * 2) * channels + c;
    const float *below = x + a.shape.width * a.shape.channels;
    const float upper = x[0] > x[channels] ? x[0] : x[channels];
    const float lower = below[0] > below[channels] ? below[0] : below[channels];
    a.y[index] = upper > lower ? upper : lower;
}

KERNEL(AORTA_IMAGE_THREADS, image_pool, aorta_image_args) {
    if (int_counts(a.shape.images * a.shape.height * a.shape.width * a.shape.channels))
        pool<int>(a);
    else
        pool<int64_t>(a);
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
