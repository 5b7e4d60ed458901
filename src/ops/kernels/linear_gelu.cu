/* A linear layer with GELU and dropout in one kernel, and in another the next layer's gradient with those of GELU and
 * dropout: values between product and GELU are not read back. For NVIDIA's Hopper and bf16.
 *
 * A block has a producer thread, which loads operands by TMA, and two consumer warpgroups, which process tiles of the
 * result in turn (ping-pong): while one multiplies, the other runs the epilogue of its last tile. Two blocks of a
 * cluster share their columns: each loads half of the weights by multicast for both. Instructions and layouts: PTX ISA,
 * wgmma and cp.async.bulk.tensor. */
#include "ops/kernels/portable.h"

#include "ops/kernels/arguments.h"
#include "ops/kernels/dropout.h"
#include "ops/kernels/gelu.h"

#if defined(AORTA_CUDA) && defined(__CUDA_ARCH_FEAT_SM90_ALL)

enum {
    ROWS = AORTA_FUSED_ROWS, /* of a tile */
    COLUMNS = AORTA_FUSED_COLUMNS,
    DEPTH = AORTA_FUSED_DEPTH,
    STAGES = AORTA_FUSED_STAGES,
    BLOCKS = 2,                                 /* of a cluster */
    BOX_BYTES = 64 * DEPTH * 2,                 /* 64 rows of 128 bytes */
    ROWS_BYTES = ROWS * DEPTH * 2,              /* of the layer's input for a tile */
    SHARE_BYTES = COLUMNS / BLOCKS * DEPTH * 2, /* of its weights, that each block loads */
    STAGE_BYTES = ROWS_BYTES + BLOCKS * SHARE_BYTES,
    SWIZZLE_BYTES = 8 * 128, /* eight rows, in which pieces of 16 bytes are swizzled */
    WARPGROUP = 128,         /* threads that multiply together */
    WARPS = WARPGROUP / 32,
    PIECES = COLUMNS / 8, /* of eight columns, in a tile */
    PARTS = 4,            /* of eight rows and four pieces, taken at once */
    PART_BYTES = 8 * 32 * 2,
    PRODUCER_REGISTERS = 24,
    CONSUMER_REGISTERS = 240,
};

/* Shared memory after the stages. */
struct fused_shared {
    uint64_t full[STAGES], empty[STAGES], turn[2];
    alignas(16) unsigned char transposed[2 * WARPS][PARTS * PART_BYTES];
    float sums[2][WARPS][COLUMNS];
};
static_assert(sizeof(fused_shared) + STAGES * STAGE_BYTES + SWIZZLE_BYTES <= AORTA_FUSED_SHARED,
              "shared memory of a block");

/* The addresses of these, in shared memory: computed once, as products leave few instructions for anything else. */
struct fused {
    uint32_t stages, full, empty, turn;
    fused_shared *shared;
};

/* ---- barriers, copies, products ---- */

DEVICE uint32_t shared_address(const void *pointer) {
    return (uint32_t)__cvta_generic_to_shared(pointer);
}
DEVICE void barrier_begin(uint32_t barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
DEVICE void barrier_arrive(uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/* Where the same barrier of a block of the cluster is. */
DEVICE uint32_t barrier_of(uint32_t barrier, uint32_t block) {
    uint32_t remote;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(barrier), "r"(block));
    return remote;
}
DEVICE void barrier_arrive_remote(uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}
DEVICE void barrier_expect(uint32_t barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
DEVICE void barrier_wait(uint32_t barrier, uint32_t parity) {
    uint32_t done;
    do {
        asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                     : "=r"(done)
                     : "r"(barrier), "r"(parity)
                     : "memory");
    } while (!done);
}
DEVICE void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}
DEVICE uint32_t cluster_rank() {
    uint32_t rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
DEVICE void warpgroup_barrier(int group) {
    asm volatile("bar.sync %0, %1;" ::"r"(1 + group), "r"((int)WARPGROUP) : "memory");
}

/* A box of a matrix into this block's memory, or into the same place of both. */
DEVICE void load_tile(uint32_t to, const aorta_gpu_tiles *tiles, int64_t column, int64_t row, uint32_t barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4}], [%2];" ::"r"(to),
                 "l"(tiles), "r"(barrier), "r"((int)column), "r"((int)row)
                 : "memory");
}
DEVICE void load_tile_multicast(uint32_t to, const aorta_gpu_tiles *tiles, int64_t column, int64_t row,
                                uint32_t barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%4, %5}], [%2], %3;" ::"r"(to),
                 "l"(tiles), "r"(barrier), "h"((uint16_t)3), "r"((int)column), "r"((int)row)
                 : "memory");
}

/* Matrix descriptor of an operand in shared memory, the lower half: parts of 64 elements of its own dimension `part`
 * bytes apart, where that dimension is the fast one. Counts in 16 bytes, so that adding moves on. */
DEVICE uint32_t descriptor(uint32_t address, uint32_t part) {
    return (address & 0x3FFFFu) >> 4 | part >> 4 << 16; /* the bits above these are the block's number in its cluster */
}
enum { DESCRIPTOR_UPPER = SWIZZLE_BYTES >> 4 | 1 << 30 }; /* from eight rows to the next; 128-byte swizzle */
DEVICE void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
DEVICE void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int LEFT> DEVICE void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}
#define FOUR(c, i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define SIXTEEN(c, i) FOUR(c, i), FOUR(c, i + 4), FOUR(c, i + 8), FOUR(c, i + 12)
/* c [64, 256] = or += a·b, sixteen deep; ACROSS: the columns of b are its fast dimension. */
template <int ACROSS> DEVICE void multiply(float c[128], uint32_t a, uint32_t b, int add) {
    asm volatile("{\n.reg .pred p;\n.reg .b64 a, b;\nsetp.ne.b32 p, %130, 0;\n"
                 "mov.b64 a, {%128, %132};\nmov.b64 b, {%129, %132};\n"
                 "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
                 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
                 "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
                 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
                 "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
                 "a, b, p, 1, 1, 0, %131;\n}"
                 : SIXTEEN(c, 0), SIXTEEN(c, 16), SIXTEEN(c, 32), SIXTEEN(c, 48), SIXTEEN(c, 64), SIXTEEN(c, 80),
                   SIXTEEN(c, 96), SIXTEEN(c, 112)
                 : "r"(a), "r"(b), "r"(add), "n"(ACROSS), "n"((int)DESCRIPTOR_UPPER));
}
#undef FOUR
#undef SIXTEEN

/* ---- which tiles, and in which order ---- */

/* A cluster takes pairs of tiles below each other; the groups of its blocks take these in turn. Columns change first,
 * so that the rows of a few tiles and all weights are in the L2 cache. */
struct schedule {
    int64_t columns, count; /* pairs side by side, and in all */
    int stages;             /* of a tile */
};
DEVICE schedule schedule_of(const aorta_gpu_linear_gelu_args &a) {
    schedule s;
    s.columns = divide_up(a.out, COLUMNS);
    s.count = s.columns * divide_up(a.rows, BLOCKS * ROWS);
    s.stages = (int)divide_up(a.in, DEPTH);
    return s;
}
struct place {
    int64_t row, column;
};
DEVICE place place_of(const schedule &s, int64_t pair) {
    return place{(pair / s.columns * BLOCKS + cluster_rank()) * ROWS, pair % s.columns * COLUMNS};
}
DEVICE int64_t cluster_index() {
    return blockIdx.x / BLOCKS;
}
DEVICE int64_t cluster_count() {
    return gridDim.x / BLOCKS;
}

/* ---- producer: operands ---- */

template <bool BACKWARD> DEVICE void produce(const aorta_gpu_linear_gelu_args &a, const fused &f) {
    const schedule s = schedule_of(a);
    const uint32_t rank = cluster_rank();
    uint32_t stage = 0, parity = 1;
    for (int64_t pair = cluster_index(); pair < s.count; pair += cluster_count()) {
        const place at = place_of(s, pair);
        const int64_t column = at.column + rank * (COLUMNS / BLOCKS);
        for (int i = 0; i < s.stages; i++) {
            const uint32_t rows = f.stages + stage * STAGE_BYTES, weights = rows + ROWS_BYTES + rank * SHARE_BYTES;
            const uint32_t full = f.full + stage * 8;
            barrier_wait(f.empty + stage * 8, parity);
            barrier_expect(full, STAGE_BYTES);
            load_tile(rows, &a.x_tiles, i * DEPTH, at.row, full);
            if (BACKWARD)
                for (int box = 0; box < SHARE_BYTES / BOX_BYTES; box++)
                    load_tile_multicast(weights + box * BOX_BYTES, &a.weight_tiles, column + box * 64, i * DEPTH, full);
            else
                load_tile_multicast(weights, &a.weight_tiles, i * DEPTH, column, full);
            if (++stage == STAGES) stage = 0, parity ^= 1;
        }
    }
}

/* ---- consumers: products ---- */

struct pipeline {
    uint32_t stage, parity;
};
DEVICE void advance(pipeline &p, int by) {
    const uint32_t stage = p.stage + by;
    p.parity ^= stage / STAGES & 1;
    p.stage = stage % STAGES;
}
/* Both blocks may fill a stage again once the groups of both have read it. `empty`: for each of the first threads of a
 * warp, the stages' barriers of one block; 0 for the other threads. */
DEVICE void release(uint32_t empty, uint32_t stage) {
    if (empty) barrier_arrive_remote(empty + stage * 8);
}

template <bool BACKWARD> DEVICE void multiply_stage(float c[128], const fused &f, const pipeline &p, bool first) {
    const uint32_t rows = descriptor(f.stages, 16) + p.stage * (STAGE_BYTES / 16);
    const uint32_t weights =
        descriptor(f.stages + ROWS_BYTES, BACKWARD ? BOX_BYTES : 16) + p.stage * (STAGE_BYTES / 16);
    barrier_wait(f.full + p.stage * 8, p.parity);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < DEPTH / 16; k++)
        multiply<BACKWARD>(c, rows + k * 2, weights + k * (BACKWARD ? 2 * SWIZZLE_BYTES / 16 : 2), k > 0 || !first);
    wgmma_commit();
}

template <bool BACKWARD>
DEVICE void multiply_tile(float c[128], const fused &f, uint32_t empty, pipeline &p, int count) {
    multiply_stage<BACKWARD>(c, f, p, true);
    for (int i = 1; i < count; i++) {
        const uint32_t last = p.stage;
        if (++p.stage == STAGES) p.stage = 0, p.parity ^= 1;
        multiply_stage<BACKWARD>(c, f, p, false);
        wgmma_wait<1>();
        release(empty, last);
    }
    wgmma_wait<0>();
    release(empty, p.stage);
    advance(p, 1);
}

/* ---- consumers: the epilogue of a tile ---- */

/* One thread's part of a tile: it holds two columns of each piece in two rows, and works on the eight columns of a
 * piece in one of eight rows, which are one block of random numbers. Parts 0 and 1 are rows 0 … 7 and 8 … 15 of its
 * warp in four pieces, parts 2 and 3 those rows of the next four pieces. */
struct elements {
    const aorta_gpu_linear_gelu_args *a;
    fused_shared *shared;
    dropout drop;
    int group, warp, lane;
};

/* Word g of a thread is from row lane / 4 of piece g, as a product leaves it; now each thread has piece lane % 4. */
DEVICE void transpose(const elements &e, const uint32_t word[PARTS][4], bytes16 out[PARTS]) {
    const uint32_t base = shared_address(e.shared->transposed[e.group * WARPS + e.warp]);
    const uint32_t piece = e.lane / 8, row = e.lane % 8, mine = e.lane % 4, my_row = e.lane / 4;
    const uint32_t from = base + (piece * 8 + (row ^ piece * 2)) * 16,
                   to = base + (mine * 8 + (my_row ^ mine * 2)) * 16;
    group_sync(); /* the previous transposed values have been read */
#pragma unroll
    for (int part = 0; part < PARTS; part++)
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(from + part * PART_BYTES),
                     "r"(word[part][0]), "r"(word[part][1]), "r"(word[part][2]), "r"(word[part][3])
                     : "memory");
    group_sync();
#pragma unroll
    for (int part = 0; part < PARTS; part++)
        asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(out[part].word[0]), "=r"(out[part].word[1]), "=r"(out[part].word[2]),
                       "=r"(out[part].word[3])
                     : "r"(to + part * PART_BYTES)
                     : "memory");
}

/* The elements of eight pieces, with the bias of their columns: two for each piece of the tile. */
template <bool BACKWARD>
DEVICE void take_pieces(const elements &e, const float c[128], const uint32_t bias[PIECES], int piece,
                        bytes16 out[PARTS]) {
    uint32_t word[PARTS][4];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        float left = 0.0f, right = 0.0f;
        if (!BACKWARD) unpack(bias[piece + i], &left, &right, bf16());
#pragma unroll
        for (int row = 0; row < 2; row++) {
            const float *pair = &c[(piece + i) * 4 + row * 2];
            word[i / 4 * 2 + row][i % 4] =
                BACKWARD ? pack(pair[0], pair[1], bf16()) : pack(pair[0] + left, pair[1] + right, bf16());
        }
    }
    transpose(e, word, out);
}
DEVICE void read_bias(const elements &e, const place &at, uint32_t bias[PIECES]) {
#pragma unroll
    for (int piece = 0; piece < PIECES; piece++) {
        const int64_t column = at.column + piece * 8 + e.lane % 4 * 2;
        bias[piece] = column < e.a->out ? *(const uint32_t *)((const bf16 *)e.a->bias + column) : 0;
    }
}

DEVICE void store16(void *to, const bytes16 &part, bool inside) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %5, 0;\n@p st.global.v4.u32 [%0], {%1, %2, %3, %4};\n}" ::"l"(to),
                 "r"(part.word[0]), "r"(part.word[1]), "r"(part.word[2]), "r"(part.word[3]), "r"((int)inside)
                 : "memory");
}
/* Zeros outside. */
DEVICE bytes16 load16(const void *from, bool inside) {
    bytes16 part;
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %5, 0;\nmov.b32 %0, 0;\nmov.b32 %1, 0;\nmov.b32 %2, 0;\nmov.b32 %3, 0;\n"
        "@p ld.global.v4.u32 {%0, %1, %2, %3}, [%4];\n}"
        : "=&r"(part.word[0]), "=&r"(part.word[1]), "=&r"(part.word[2]), "=&r"(part.word[3])
        : "l"(from), "r"((int)inside)
        : "memory");
    return part;
}

/* Where a thread's elements of a tile are: those of part 0 of the first pieces, and from one row of eight to the next.
 */
struct patch {
    int64_t first, below;
    int rows, columns; /* how many exist from there on */
};
DEVICE patch patch_of(const elements &e, const place &at) {
    const int64_t row = at.row + e.warp * 16 + e.lane / 4, column = at.column + e.lane % 4 * 8;
    patch p;
    p.first = row * e.a->out + column;
    p.below = 8 * e.a->out;
    p.rows = within(row, e.a->rows, ROWS);
    p.columns = within(column, e.a->out, COLUMNS);
    return p;
}
DEVICE int64_t element_of(const patch &p, int piece, int part) {
    return p.first + part % 2 * p.below + (piece + part / 2 * 4) * 8;
}
DEVICE bool exists(const patch &p, int piece, int part) {
    return part % 2 * 8 < p.rows && (piece + part / 2 * 4) * 8 < p.columns;
}

DEVICE void read_ahead(const elements &e, const patch &p, int piece, bytes16 slope[PARTS]) {
#pragma unroll
    for (int part = 0; part < PARTS; part++)
        slope[part] = load16((const bf16 *)e.a->slope + element_of(p, piece, part), exists(p, piece, part));
}

/* The random numbers of all parts at once, so that none waits for another. */
DEVICE void draw(const elements &e, const patch &p, int piece, philox samples[PARTS]) {
#pragma unroll
    for (int part = 0; part < PARTS; part++)
        samples[part] = dropout_counter(e.drop, (uint64_t)element_of(p, piece, part) / 8);
    uint32_t key0 = e.drop.key0, key1 = e.drop.key1;
#pragma unroll
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
#pragma unroll
        for (int part = 0; part < PARTS; part++) samples[part] = philox_round(samples[part], key0, key1);
        philox_next_key(&key0, &key1);
    }
}

/* Half of the sums here, of threads `mask` apart: `upper` takes the second half. */
template <int COUNT> DEVICE void share_sums(float sum[COUNT], int mask, bool upper) {
#pragma unroll
    for (int i = 0; i < COUNT / 2; i++) {
        const float give = upper ? sum[i] : sum[i + COUNT / 2], take = upper ? sum[i + COUNT / 2] : sum[i];
        sum[i] = take + shuffle_xor(give, mask);
    }
}
/* The sums of eight columns over a warp's rows, into its row of the group's sums. */
DEVICE void sum_rows(const elements &e, float sum[8], int piece) {
    const int row = e.lane / 4;
    share_sums<8>(sum, 16, row & 4);
    share_sums<4>(sum, 8, row & 2);
    share_sums<2>(sum, 4, row & 1);
    e.shared->sums[e.group][e.warp][(piece + e.lane % 4) * 8 + row] = sum[0];
}
DEVICE void store_sums(const elements &e, const place &at) {
    for (int i = e.warp * 32 + e.lane; i < COLUMNS; i += WARPGROUP) {
        if (at.row >= e.a->rows || at.column + i >= e.a->out) return;
        float sum = 0.0f;
        for (int w = 0; w < WARPS; w++) sum += e.shared->sums[e.group][w][i];
        e.a->partial[at.row / ROWS * e.a->out + at.column + i] = sum;
    }
}

template <bool DROPOUT>
DEVICE void epilogue_forward(const elements &e, const float c[128], const patch &p, const uint32_t bias[PIECES]) {
#pragma unroll
    for (int piece = 0; piece < PIECES; piece += PARTS * 2) {
        bytes16 h[PARTS];
        philox samples[PARTS];
        take_pieces<false>(e, c, bias, piece, h);
        if (DROPOUT) draw(e, p, piece, samples);
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
            float x[8], value[8], slope[8];
            open_words(&h[part], x, bf16());

#pragma unroll
            for (int i = 0; i < 8; i++) gelu_at<bf16>(x[i], &value[i], &slope[i]);
            if (DROPOUT) dropout_apply_block(e.drop, samples[part], value);
            if (DROPOUT) dropout_apply_block(e.drop, samples[part], slope);
            const int64_t at = element_of(p, piece, part);
            const bool inside = exists(p, piece, part);
            store16((bf16 *)e.a->slope + at, pack_words(slope, bf16()), inside);
            store16((bf16 *)e.a->y + at, pack_words(value, bf16()), inside);
        }
    }
}

/* slope: of the first pieces. */
DEVICE void epilogue_backward(const elements &e, const float c[128], const patch &p, bytes16 slope[PARTS]) {
#pragma unroll
    for (int piece = 0; piece < PIECES; piece += PARTS * 2) {
        bytes16 product[PARTS];
        float value[PARTS][8];
        take_pieces<true>(e, c, nullptr, piece, product);
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
            float factor[8];
            open_words(&product[part], value[part], bf16());
            open_words(&slope[part], factor, bf16());
#pragma unroll
            for (int i = 0; i < 8; i++) value[part][i] *= factor[i];
            store16((bf16 *)e.a->y + element_of(p, piece, part), pack_words(value[part], bf16()),
                    exists(p, piece, part));
        }
        if (piece + PARTS * 2 < PIECES) read_ahead(e, p, piece + PARTS * 2, slope);
#pragma unroll
        for (int set = 0; set < 2; set++) {
            float sum[8];
#pragma unroll
            for (int i = 0; i < 8; i++) sum[i] = value[2 * set][i] + value[2 * set + 1][i];
            sum_rows(e, sum, piece + 4 * set);
        }
    }
}

template <bool BACKWARD> DEVICE void consume(const aorta_gpu_linear_gelu_args &a, const fused &f, int group) {
    const schedule s = schedule_of(a);
    const int thread = (int)threadIdx.x % WARPGROUP;
    const elements e = {&a, f.shared, dropout_begin(a.dropout, a.rng), group, thread / 32, thread % 32};
    const uint32_t empty = e.lane < BLOCKS ? barrier_of(f.empty, e.lane) : 0, mine = f.turn + group * 8,
                   other = f.turn + (1 - group) * 8;
    pipeline line = {0, 0};
    uint32_t phase = group == 0; /* the first turn is group 0's: its barrier lets the phase before pass */
    advance(line, group * s.stages);
    for (int64_t pair = cluster_index() + group * cluster_count(); pair < s.count; pair += 2 * cluster_count()) {
        const place at = place_of(s, pair);
        const patch p = patch_of(e, at);
        float c[128];
        bytes16 slope[PARTS];
        uint32_t bias[PIECES];
        if (BACKWARD)
            read_ahead(e, p, 0, slope);
        else
            read_bias(e, at, bias);
        barrier_wait(mine, phase);
        phase ^= 1;
        multiply_tile<BACKWARD>(c, f, empty, line, s.stages);
        barrier_arrive(other);
        advance(line, s.stages);
        if (!BACKWARD) {
            if (e.drop.threshold)
                epilogue_forward<true>(e, c, p, bias);
            else
                epilogue_forward<false>(e, c, p, bias);
            continue;
        }
        warpgroup_barrier(e.group); /* the sums of the last tile have been read */
        epilogue_backward(e, c, p, slope);
        warpgroup_barrier(e.group);
        store_sums(e, at);
    }
}

template <bool BACKWARD> DEVICE void linear_gelu(const aorta_gpu_linear_gelu_args &a) {
    const uint32_t start = shared_address(dynamic_shared());
    fused f;
    f.stages = (start + SWIZZLE_BYTES - 1) / SWIZZLE_BYTES * SWIZZLE_BYTES;
    f.shared = (fused_shared *)((char *)dynamic_shared() + (f.stages - start) + STAGES * STAGE_BYTES);
    f.full = shared_address(f.shared->full);
    f.empty = shared_address(f.shared->empty);
    f.turn = shared_address(f.shared->turn);
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            barrier_begin(f.full + i * 8, 1);
            barrier_begin(f.empty + i * 8, BLOCKS * WARPS);
        }
        for (int i = 0; i < 2; i++) barrier_begin(f.turn + i * 8, WARPGROUP);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    cluster_sync();
    const int group =
        __shfl_sync(0xFFFFFFFFu, (int)threadIdx.x / WARPGROUP, 0) - 1; /* which the compiler sees to be uniform */
    if (group < 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"((int)PRODUCER_REGISTERS));
        if (threadIdx.x == 0) produce<BACKWARD>(a, f);
        group_sync();
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"((int)CONSUMER_REGISTERS));
        consume<BACKWARD>(a, f, group);
    }
    cluster_sync(); /* a block's memory stays until the other no longer writes there */
}

#define FUSED_KERNEL(name)                                                                                             \
    extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(AORTA_FUSED_THREADS, 1)                     \
        name(const __grid_constant__ aorta_gpu_linear_gelu_args a)
FUSED_KERNEL(linear_gelu_forward) {
    linear_gelu<false>(a);
}
FUSED_KERNEL(linear_gelu_backward) {
    linear_gelu<true>(a);
}

#else

KERNEL(AORTA_FUSED_THREADS, linear_gelu_forward, aorta_gpu_linear_gelu_args) {
    (void)a;
    fail_kernel();
}
KERNEL(AORTA_FUSED_THREADS, linear_gelu_backward, aorta_gpu_linear_gelu_args) {
    (void)a;
    fail_kernel();
}

#endif
