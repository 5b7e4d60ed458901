/* Products of small matrices in shared memory, made by 32 threads together.
 *
 * The result has 16 rows; a thread holds four elements of every eight columns: of rows lane / 4 and lane / 4 + 8 the
 * columns 2·(lane % 4) and the next one. This is the layout of NVIDIA's tensor cores (PTX ISA, mma.m16n8k16). The
 * plain version, for fp32 and for other GPUs, uses it, too. */
#ifndef AORTA_KERNELS_MATRIX_H
#define AORTA_KERNELS_MATRIX_H

#include "ops/kernels/element.h"

template <int COLUMNS> struct product { float part[COLUMNS / 8][4]; };

DEVICE int lane_index() {
    return (int)(threadIdx.x % 32);
}
/* Row (0 … 7, or 8 … 15 for the last two) and column of part i among its eight columns. */
DEVICE int part_row(int i) {
    return lane_index() / 4 + i / 2 * 8;
}
DEVICE int part_column(int i) {
    return lane_index() % 4 * 2 + i % 2;
}

template <int COLUMNS> DEVICE void clear(product<COLUMNS> &c) {
#pragma unroll
    for (int n = 0; n < COLUMNS / 8; n++)
        for (int i = 0; i < 4; i++) c.part[n][i] = 0.0f;
}

/* c += a·b, where element (k, n) of b is at k·b_row + n·b_column. */
template <int DEPTH, int COLUMNS, typename T>
DEVICE void plain_product(product<COLUMNS> &c, const T *a, int a_stride, const T *b, int b_row, int b_column) {
    const T *row = a + part_row(0) * a_stride, *lower = row + 8 * a_stride, *columns = b + part_column(0) * b_column;
#pragma unroll 4
    for (int k = 0; k < DEPTH; k++) {
        const float left = to_float(row[k]), below = to_float(lower[k]);
#pragma unroll
        for (int n = 0; n < COLUMNS / 8; n++) {
            const float right = to_float(columns[k * b_row + n * 8 * b_column]);
            const float next = to_float(columns[k * b_row + (n * 8 + 1) * b_column]);
            c.part[n][0] += left * right;
            c.part[n][1] += left * next;
            c.part[n][2] += below * right;
            c.part[n][3] += below * next;
        }
    }
}

/* ---- tensor cores for the 16-bit types: NVIDIA, and the emulator, which follows the PTX ISA ---- */

#ifdef AORTA_CUDA
/* Four 8×8 pieces at once: thread i gives the address of row i % 8 of piece i / 8, and gets the elements of row lane /
 * 4 and columns 2·(lane % 4) and the next of each piece; transposed, rows and columns change places. */
DEVICE void load_pieces(uint32_t piece[4], const void *address) {
    const uint32_t shared = (uint32_t)__cvta_generic_to_shared(address);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(piece[0]), "=r"(piece[1]), "=r"(piece[2]), "=r"(piece[3])
                 : "r"(shared)
                 : "memory");
}
DEVICE void load_pieces_transposed(uint32_t piece[4], const void *address) {
    const uint32_t shared = (uint32_t)__cvta_generic_to_shared(address);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(piece[0]), "=r"(piece[1]), "=r"(piece[2]), "=r"(piece[3])
                 : "r"(shared)
                 : "memory");
}
DEVICE void tensor_product(float c[4], const uint32_t a[4], const uint32_t b[2], bf16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
DEVICE void tensor_product(float c[4], const uint32_t a[4], const uint32_t b[2], fp16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
/* All ones in the halves of a word that have their top bit set. */
DEVICE uint32_t halves_by_sign(uint32_t word) {
    uint32_t halves;
    asm("prmt.b32 %0, %1, 0, 0xBB99;" : "=r"(halves) : "r"(word));
    return halves;
}
/* Whether it is true for any of the 32 threads. */
DEVICE bool group_any(bool mine) {
    return __any_sync(0xFFFFFFFFu, mine);
}
/* 16 bytes into shared memory while the thread goes on; zeros, and nothing is read, unless `inside`. */
DEVICE void copy_begin(void *to, const void *from, bool inside) {
    const uint32_t shared = (uint32_t)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from), "r"(inside ? 16 : 0)
                 : "memory");
}
/* This thread's copies have ended. */
DEVICE void copies_wait() {
    asm volatile("cp.async.wait_all;" ::: "memory");
}
#elif defined(AORTA_EMULATOR)
DEVICE uint32_t halves_by_sign(uint32_t word) {
    return (word >> 15 & 0x10001u) * 0xFFFFu;
}
DEVICE bool group_any(bool mine) {
    uint32_t any = mine;
    for (int mask = 1; mask < 32; mask *= 2) any |= shuffle_xor(any, mask);
    return any != 0;
}
#endif

#if defined(AORTA_CUDA) || defined(AORTA_EMULATOR)
/* c += a·b, or with ROWS a·bᵀ. */
template <int DEPTH, bool ROWS, int COLUMNS, typename T>
DEVICE void tensor_products(product<COLUMNS> &c, const T *a, int a_stride, const T *b, int b_stride) {
    const int lane = lane_index();
    a += lane % 16 * a_stride + lane / 16 * 8;
    b += ROWS ? (lane % 8 + lane / 16 * 8) * b_stride + lane / 8 % 2 * 8 : lane % 16 * b_stride + lane / 16 * 8;
#pragma unroll
    for (int k = 0; k < DEPTH; k += 16) {
        uint32_t left[4], right[4];
        load_pieces(left, a + k);
#pragma unroll
        for (int n = 0; n < COLUMNS / 8; n += 2) {
            if (ROWS)
                load_pieces(right, b + n * 8 * b_stride + k);
            else
                load_pieces_transposed(right, b + k * b_stride + n * 8);
            tensor_product(c.part[n], left, right, T());
            tensor_product(c.part[n + 1], left, right + 2, T());
        }
    }
}

/* The products with the left side in registers, as load_pieces or a product leaves it. */
template <int DEPTH> struct left_side { uint32_t piece[DEPTH / 16][4]; };

template <int DEPTH, typename T> DEVICE void load_left(left_side<DEPTH> &a, const T *rows, int stride) {
    rows += lane_index() % 16 * stride + lane_index() / 16 * 8;
#pragma unroll
    for (int k = 0; k < DEPTH / 16; k++) load_pieces(a.piece[k], rows + k * 16);
}
/* c [16, 16] += a·bᵀ: b [16, DEPTH]. */
template <int DEPTH, typename T>
DEVICE void add_left_of_rows(product<16> &c, const left_side<DEPTH> &a, const T *b, int stride) {
    const int lane = lane_index();
    b += (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8;
#pragma unroll
    for (int k = 0; k < DEPTH / 16; k++) {
        uint32_t right[4];
        load_pieces(right, b + k * 16);
        tensor_product(c.part[0], a.piece[k], right, T());
        tensor_product(c.part[1], a.piece[k], right + 2, T());
    }
}
/* c += a·b: a [16, 16], b [16, COLUMNS]. */
template <int COLUMNS, typename T>
DEVICE void add_left(product<COLUMNS> &c, const uint32_t a[4], const T *b, int stride) {
    b += lane_index() % 16 * stride + lane_index() / 16 * 8;
#pragma unroll
    for (int n = 0; n < COLUMNS / 8; n += 2) {
        uint32_t right[4];
        load_pieces_transposed(right, b + n * 8);
        tensor_product(c.part[n], a, right, T());
        tensor_product(c.part[n + 1], a, right + 2, T());
    }
}
/* A product [16, 16] in the type of the elements, as the left side of the next. */
template <typename T> DEVICE void pack_product(uint32_t a[4], const product<16> &c, T type) {
#pragma unroll
    for (int i = 0; i < 4; i++) a[i] = pack(c.part[i / 2][i % 2 * 2], c.part[i / 2][i % 2 * 2 + 1], type);
}

template <typename T> constexpr bool has_tensor_products = sizeof(T) == 2;
#else
template <typename T> constexpr bool has_tensor_products = false;
template <int DEPTH, bool ROWS, int COLUMNS, typename T>
DEVICE void tensor_products(product<COLUMNS> &c, const T *a, int a_stride, const T *b, int b_stride);
#endif

/* c += a·bᵀ: a [16, DEPTH] and b [COLUMNS, DEPTH], rows `a_stride` and `b_stride` elements apart. */
template <int DEPTH, int COLUMNS, typename T>
DEVICE void add_product_of_rows(product<COLUMNS> &c, const T *a, int a_stride, const T *b, int b_stride) {
    if constexpr (has_tensor_products<T>)
        tensor_products<DEPTH, true>(c, a, a_stride, b, b_stride);
    else
        plain_product<DEPTH>(c, a, a_stride, b, 1, b_stride);
}

/* c += a·b: a [16, DEPTH], b [DEPTH, COLUMNS]. */
template <int DEPTH, int COLUMNS, typename T>
DEVICE void add_product(product<COLUMNS> &c, const T *a, int a_stride, const T *b, int b_stride) {
    if constexpr (has_tensor_products<T>)
        tensor_products<DEPTH, false>(c, a, a_stride, b, b_stride);
    else
        plain_product<DEPTH>(c, a, a_stride, b, b_stride, 1);
}

#endif
