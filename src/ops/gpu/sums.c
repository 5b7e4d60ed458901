/* Sums over the rows of a matrix on a GPU, in two stages; the second at once, or gathered for one launch. */
#include "ops/gpu/gpu.h"
#include "ops/gpu/workspace.h"
#include "ops/ops.h"

#include <pthread.h>
#include <stdlib.h>

/* The gathered sums of one stream. */
struct gathering {
    struct gathering *next;
    const struct aorta_stream *stream;
    bool on;
    int count; /* sums that wait; the partial sums of number i are in the stream's workspace i + 1 */
    struct aorta_gpu_column_sums sums[AORTA_FINISH_MOST];
};

struct gatherings {
    pthread_mutex_t lock; /* of the list; each entry is used only by the thread that queues on its stream */
    struct gathering *first;
};

static aorta_status gatherings_create(struct aorta_device *device, void **state) {
    (void)device;
    struct gatherings *gatherings = calloc(1, sizeof *gatherings);
    if (!gatherings) return AORTA_ERROR(AORTA_MEMORY, "no memory for the table of gathered sums");
    pthread_mutex_init(&gatherings->lock, NULL);
    *state = gatherings;
    return NULL;
}

static void gatherings_destroy(void *state) {
    struct gatherings *gatherings = state;
    while (gatherings->first) {
        struct gathering *gathering = gatherings->first;
        gatherings->first = gathering->next;
        free(gathering);
    }
    pthread_mutex_destroy(&gatherings->lock);
    free(gatherings);
}

static struct gathering *find_or_create(struct gatherings *gatherings, const struct aorta_stream *stream) {
    struct gathering *gathering = gatherings->first;
    while (gathering && gathering->stream != stream) gathering = gathering->next;
    if (gathering) return gathering;
    gathering = calloc(1, sizeof *gathering);
    if (!gathering) return NULL;
    gathering->stream = stream;
    gathering->next = gatherings->first;
    return gatherings->first = gathering;
}

static aorta_status of_stream(struct aorta_stream *stream, struct gathering **gathering) {
    static const char key;
    void *state;
    AORTA_TRY(
        aorta_device_attachment(aorta_stream_device(stream), &key, gatherings_create, gatherings_destroy, &state));
    struct gatherings *gatherings = state;
    pthread_mutex_lock(&gatherings->lock);
    *gathering = find_or_create(gatherings, stream);
    pthread_mutex_unlock(&gatherings->lock);
    return *gathering ? NULL : AORTA_ERROR(AORTA_MEMORY, "no memory for a stream's gathered sums");
}

static aorta_status launch(struct aorta_stream *stream, const struct aorta_gpu_column_sums *sums, int count) {
    struct aorta_gpu_column_finish_args args = {0};
    uint32_t end = 0;
    for (int i = 0; i < count; i++) {
        args.sums[i] = sums[i];
        args.ends[i] = end += aorta_ops_blocks(sums[i].columns, AORTA_FINISH_LANES);
    }
    const struct aorta_gpu_grid grid = {.blocks = {end}, .threads = {AORTA_FINISH_LANES, AORTA_FINISH_ROWS}};
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_column_finish, grid, &args, sizeof args);
}

static aorta_status launch_gathered(struct aorta_stream *stream, struct gathering *gathering) {
    const int count = gathering->count;
    gathering->count = 0;
    return count ? launch(stream, gathering->sums, count) : NULL;
}

/* A full table is launched when one more comes: so the last launch comes after all operations that are gathered. */
aorta_status aorta_ops_gpu_partial(struct aorta_stream *stream, size_t bytes, float **partial) {
    struct gathering *gathering;
    struct aorta_ops_workspace workspace;
    AORTA_TRY(of_stream(stream, &gathering));
    if (gathering->count == AORTA_FINISH_MOST) AORTA_TRY(launch_gathered(stream, gathering));
    AORTA_TRY(aorta_ops_workspace_apart(stream, gathering->on ? gathering->count + 1 : 0, bytes, &workspace));
    *partial = workspace.memory;
    return NULL;
}

/* Whether one launch may not make both: they add to the same memory. */
static bool meets(const struct gathering *gathering, const struct aorta_gpu_column_sums *sums) {
    for (int i = 0; i < gathering->count; i++)
        for (int own = 0; own < 3; own++)
            for (int other = 0; other < 3; other++)
                if (sums->sums[own] && sums->sums[own] == gathering->sums[i].sums[other]) return true;
    return false;
}

aorta_status aorta_ops_gpu_column_finish(struct aorta_stream *stream, const struct aorta_gpu_column_sums *sums) {
    struct gathering *gathering;
    AORTA_TRY(of_stream(stream, &gathering));
    if (!gathering->on) return launch(stream, sums, 1);
    if (meets(gathering, sums)) { /* its own partial sums stay where they are: nothing is asked for in between */
        AORTA_TRY(launch_gathered(stream, gathering));
        return launch(stream, sums, 1);
    }
    gathering->sums[gathering->count++] = *sums;
    return NULL;
}

aorta_status aorta_sums_gather(struct aorta_stream *stream) {
    if (!aorta_device_is_gpu(aorta_stream_device(stream))) return NULL;
    struct gathering *gathering;
    AORTA_TRY(of_stream(stream, &gathering));
    gathering->on = true;
    gathering->count = 0; /* left by an operation that failed */
    return NULL;
}

static aorta_status sums_finish_gpu(struct aorta_stream *stream, const void *none) {
    struct gathering *gathering;
    (void)none;
    AORTA_TRY(of_stream(stream, &gathering));
    gathering->on = false;
    return launch_gathered(stream, gathering);
}

/* Queued on GPUs only. */
static const struct aorta_kernel finish_kernel = {"sums_finish", NULL, sums_finish_gpu};

aorta_status aorta_sums_finish(struct aorta_stream *stream) {
    return aorta_device_is_gpu(aorta_stream_device(stream)) ? aorta_launch(stream, &finish_kernel, NULL, 0) : NULL;
}

/* ---- both stages ---- */

/* As many blocks as run at once, none with less than a few rows for each thread. */
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
