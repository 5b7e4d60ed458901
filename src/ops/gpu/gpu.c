/* Every GPU kernel of the operations as a table, their launch, and which are compiled ahead. */
#include "ops/gpu/gpu.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(AORTA_F32 == 0 && AORTA_F16 == 1 && AORTA_BF16 == 2, "entries of a typed kernel are in this order");

/* Defined by the files that cmake/embed.cmake makes of kernels/. */
#define SOURCE(source) extern const struct aorta_gpu_source aorta_source_##source;
#include "ops/kernels.def"

const struct aorta_gpu_source *const aorta_ops_sources[AORTA_OPS_SOURCE_COUNT] = {
#define SOURCE(source) &aorta_source_##source,
#include "ops/kernels.def"
};

const struct aorta_gpu_entry aorta_ops_entries[AORTA_ENTRY_COUNT] = {
#define PLAIN(source, name) {&aorta_source_##source, #name},
#define TYPED(source, name)                                                                                            \
    {&aorta_source_##source, #name "_fp32"}, {&aorta_source_##source, #name "_fp16"},                                  \
        {&aorta_source_##source, #name "_bf16"},
#define APART(source, name)                                                                                            \
    {&aorta_source_##source##_fp32, #name "_fp32"}, {&aorta_source_##source##_fp16, #name "_fp16"},                    \
        {&aorta_source_##source##_bf16, #name "_bf16"},
#include "ops/kernels.def"
};

aorta_status aorta_ops_gpu_run(struct aorta_stream *stream, enum aorta_ops_entry entry, struct aorta_gpu_grid grid,
                               const void *args, size_t bytes) {
    return aorta_gpu_launch(stream, &aorta_ops_entries[entry], grid, args, bytes);
}

aorta_status aorta_ops_gpu_run_typed(struct aorta_stream *stream, enum aorta_ops_entry entry, enum aorta_dtype dtype,
                                     struct aorta_gpu_grid grid, const void *args, size_t bytes) {
    return aorta_gpu_launch(stream, &aorta_ops_entries[(int)entry + (int)dtype], grid, args, bytes);
}

static const struct aorta_gpu_source *source_of(enum aorta_ops_entry entry, enum aorta_dtype dtype) {
    return aorta_ops_entries[(int)entry + (int)dtype].source;
}

void aorta_ops_expect_transformer(struct aorta_device *device, enum aorta_dtype dtype, int64_t head_dim) {
    if (!aorta_device_is_gpu(device)) return;
    const struct aorta_gpu_source *const sources[] = {
        source_of(AORTA_ENTRY_norm_forward, dtype), source_of(AORTA_ENTRY_embedding_forward, dtype),
        source_of(AORTA_ENTRY_gelu_forward, dtype), source_of(AORTA_ENTRY_bce, dtype),
        aorta_ops_gpu_attention_source(dtype, head_dim)};
    const size_t count = sizeof sources / sizeof *sources;
    aorta_gpu_expect(device, sources, sources[count - 1] ? count : count - 1); /* NULL: refused later */
}

struct aorta_ops_limits aorta_ops_limits(const struct aorta_device *device) {
    if (!aorta_device_is_gpu(device)) return (struct aorta_ops_limits){INT64_MAX, INT64_MAX};
    return (struct aorta_ops_limits){aorta_ops_gpu_most_head_dim(), aorta_ops_gpu_most_norm_row()};
}

/* ---- scratch memory ---- */

enum { LEAST_BYTES = 1 << 20 }; /* so that the first piece fits most operations */

/* One per stream. If an operation needs more, a larger piece is added, as graphs may still use the smaller one. */
struct piece {
    const struct aorta_stream *stream;
    struct aorta_ops_workspace workspace;
    struct piece *next;
};

/* Scratch memory of a device. */
struct scratch {
    struct aorta_device *device;
    pthread_mutex_t lock; /* of the list */
    struct piece *pieces; /* newest first */
};

static aorta_status scratch_create(struct aorta_device *device, void **state) {
    struct scratch *scratch = calloc(1, sizeof *scratch);
    if (!scratch) return AORTA_ERROR(AORTA_MEMORY, "no memory for the table of workspaces");
    scratch->device = device;
    pthread_mutex_init(&scratch->lock, NULL);
    *state = scratch;
    return NULL;
}

static void piece_destroy(struct aorta_device *device, struct piece *piece) {
    aorta_device_free(device, piece->workspace.memory);
    aorta_pinned_free(device, piece->workspace.fault);
    free(piece);
}

static void scratch_destroy(void *state) {
    struct scratch *scratch = state;
    while (scratch->pieces) {
        struct piece *piece = scratch->pieces;
        scratch->pieces = piece->next;
        piece_destroy(scratch->device, piece);
    }
    pthread_mutex_destroy(&scratch->lock);
    free(scratch);
}

/* Returns the scratch memory locked; the caller unlocks it. */
static aorta_status scratch_of(struct aorta_stream *stream, struct scratch **scratch) {
    static const char key;
    void *state;
    AORTA_TRY(aorta_device_attachment(aorta_stream_device(stream), &key, scratch_create, scratch_destroy, &state));
    *scratch = state;
    pthread_mutex_lock(&(*scratch)->lock);
    return NULL;
}

static aorta_status piece_create(struct aorta_device *device, const struct aorta_stream *stream, size_t bytes,
                                 struct piece **created) {
    struct piece *piece = calloc(1, sizeof *piece);
    if (!piece) return AORTA_ERROR(AORTA_MEMORY, "no memory for a workspace's description");
    piece->stream = stream;
    piece->workspace.bytes = bytes;
    void *fault = NULL;
    aorta_status status = aorta_device_alloc(device, bytes, "workspace of operations", &piece->workspace.memory);
    if (!status) status = aorta_pinned_alloc(device, sizeof *piece->workspace.fault, "faults of operations", &fault);
    if (status) {
        piece_destroy(device, piece);
        return status;
    }
    piece->workspace.fault = fault;
    memset(fault, 0, sizeof *piece->workspace.fault);
    *created = piece;
    return NULL;
}

static bool serves(const struct piece *piece, const struct aorta_stream *stream, size_t bytes) {
    return piece->stream == stream && piece->workspace.bytes >= bytes;
}

static aorta_status find_or_create(struct scratch *scratch, const struct aorta_stream *stream, size_t bytes,
                                   struct aorta_ops_workspace *workspace) {
    struct piece *piece = scratch->pieces;
    while (piece && !serves(piece, stream, bytes)) piece = piece->next;
    if (!piece) {
        if (aorta_stream_capturing(stream))
            return AORTA_ERROR(AORTA_DEVICE,
                               "stream %s has no workspace of %zu bytes, and none can be allocated inside a capture: "
                               "run the operation once before, or call aorta_ops_prepare",
                               aorta_stream_name(stream), bytes);
        AORTA_TRY(piece_create(scratch->device, stream, bytes, &piece));
        piece->next = scratch->pieces;
        scratch->pieces = piece;
    }
    *workspace = piece->workspace;
    return NULL;
}

aorta_status aorta_ops_workspace(struct aorta_stream *stream, size_t bytes, struct aorta_ops_workspace *workspace) {
    struct scratch *scratch;
    AORTA_TRY(scratch_of(stream, &scratch));
    aorta_status status = find_or_create(scratch, stream, bytes < LEAST_BYTES ? LEAST_BYTES : bytes, workspace);
    pthread_mutex_unlock(&scratch->lock);
    return status;
}

bool aorta_ops_take_fault(struct aorta_gpu_fault *fault, struct aorta_gpu_fault *met) {
    if (!__atomic_load_n(&fault->found, __ATOMIC_ACQUIRE)) return false;
    *met = *fault;
    fault->found = 0;
    __atomic_store_n(&fault->claimed, 0, __ATOMIC_RELEASE);
    return true;
}

/* ---- column sums ---- */

aorta_status aorta_ops_gpu_partial(struct aorta_stream *stream, size_t bytes, float **partial) {
    struct aorta_ops_workspace workspace;
    AORTA_TRY(aorta_ops_workspace(stream, bytes, &workspace));
    *partial = workspace.memory;
    return NULL;
}

aorta_status aorta_ops_gpu_column_finish(struct aorta_stream *stream, const struct aorta_gpu_column_sums *sums) {
    const struct aorta_gpu_grid grid = {.blocks = {aorta_ops_blocks(sums->columns, AORTA_FINISH_LANES)},
                                        .threads = {AORTA_FINISH_LANES, AORTA_FINISH_ROWS}};
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_column_finish, grid, sums, sizeof *sums);
}

/* Uses as many blocks as run at once, but fewer if a thread would have less than a few rows. */
struct aorta_ops_columns aorta_ops_gpu_share_columns(struct aorta_device *device, int64_t rows, int64_t columns) {
    enum { LEAST_ROWS = 4 * AORTA_COLUMN_ROWS };
    const struct aorta_gpu_properties *gpu = aorta_gpu_get_properties(device);
    const uint32_t across = aorta_ops_blocks(columns, (int64_t)AORTA_COLUMN_LANES * 8);
    const int64_t wanted = AORTA_COLUMN_RESIDENT * (int64_t)gpu->multiprocessors / across;
    int64_t per_split = wanted > 1 ? (rows + wanted - 1) / wanted : rows;
    if (per_split < LEAST_ROWS) per_split = LEAST_ROWS;
    const uint32_t splits = aorta_ops_blocks(rows, per_split);
    return (struct aorta_ops_columns){
        .rows_per_split = per_split,
        .splits = splits,
        .partial_bytes = (size_t)(splits * columns) * sizeof(float),
        .grid = {.blocks = {splits > 0 ? across : 0, splits}, .threads = {AORTA_COLUMN_LANES, AORTA_COLUMN_ROWS}}};
}

aorta_status aorta_ops_gpu_column_sums(struct aorta_stream *stream, enum aorta_dtype dtype, const void *dy,
                                       const struct aorta_gpu_column_sums *wanted) {
    const struct aorta_ops_columns share =
        aorta_ops_gpu_share_columns(aorta_stream_device(stream), wanted->rows, wanted->columns);
    struct aorta_gpu_column_args first = {
        .x = dy, .rows = wanted->rows, .columns = wanted->columns, .rows_per_split = share.rows_per_split};
    AORTA_TRY(aorta_ops_gpu_partial(stream, share.partial_bytes, &first.partial));
    AORTA_TRY(aorta_ops_gpu_run_typed(stream, AORTA_ENTRY_column_sums, dtype, share.grid, &first, sizeof first));
    struct aorta_gpu_column_sums second = *wanted;
    second.partial = first.partial, second.rows = share.splits, second.split = wanted->columns;
    return aorta_ops_gpu_column_finish(stream, &second);
}
