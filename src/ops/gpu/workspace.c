#include "ops/gpu/workspace.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_BYTES = 1 << 20 }; /* so that most operations find one there */

/* One per stream and number and, when more was needed, per size: graphs may still use the smaller one. */
struct piece {
    const struct aorta_stream *stream;
    int number;
    struct aorta_ops_workspace workspace;
    struct piece *next;
};

struct workspaces {
    struct aorta_device *device;
    pthread_mutex_t lock;
    struct piece *pieces; /* newest first */
};

static aorta_status workspaces_create(struct aorta_device *device, void **state) {
    struct workspaces *workspaces = calloc(1, sizeof *workspaces);
    if (!workspaces) return AORTA_ERROR(AORTA_MEMORY, "no memory for the table of workspaces");
    workspaces->device = device;
    pthread_mutex_init(&workspaces->lock, NULL);
    *state = workspaces;
    return NULL;
}

static void piece_destroy(struct aorta_device *device, struct piece *piece) {
    aorta_device_free(device, piece->workspace.memory);
    aorta_pinned_free(device, piece->workspace.fault);
    free(piece);
}

static void workspaces_destroy(void *state) {
    struct workspaces *workspaces = state;
    while (workspaces->pieces) {
        struct piece *piece = workspaces->pieces;
        workspaces->pieces = piece->next;
        piece_destroy(workspaces->device, piece);
    }
    pthread_mutex_destroy(&workspaces->lock);
    free(workspaces);
}

static aorta_status piece_create(struct aorta_device *device, const struct aorta_stream *stream, int number,
                                 size_t bytes, struct piece **created) {
    struct piece *piece = calloc(1, sizeof *piece);
    if (!piece) return AORTA_ERROR(AORTA_MEMORY, "no memory for a workspace's description");
    piece->stream = stream;
    piece->number = number;
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

static bool serves(const struct piece *piece, const struct aorta_stream *stream, int number, size_t bytes) {
    return piece->stream == stream && piece->number == number && piece->workspace.bytes >= bytes;
}

static aorta_status find_or_create(struct workspaces *workspaces, const struct aorta_stream *stream, int number,
                                   size_t bytes, struct aorta_ops_workspace *workspace) {
    struct piece *piece = workspaces->pieces;
    while (piece && !serves(piece, stream, number, bytes)) piece = piece->next;
    if (!piece) {
        if (aorta_stream_capturing(stream))
            return AORTA_ERROR(AORTA_DEVICE,
                               "stream %s has no workspace of %zu bytes, and none can be allocated inside a capture: "
                               "run the operation once before, or call aorta_ops_prepare",
                               aorta_stream_name(stream), bytes);
        AORTA_TRY(piece_create(workspaces->device, stream, number, bytes, &piece));
        piece->next = workspaces->pieces;
        workspaces->pieces = piece;
    }
    *workspace = piece->workspace;
    return NULL;
}

aorta_status aorta_ops_workspace(struct aorta_stream *stream, size_t bytes, struct aorta_ops_workspace *workspace) {
    return aorta_ops_workspace_apart(stream, 0, bytes, workspace);
}

aorta_status aorta_ops_workspace_apart(struct aorta_stream *stream, int number, size_t bytes,
                                       struct aorta_ops_workspace *workspace) {
    static const char key;
    void *state;
    AORTA_TRY(
        aorta_device_attachment(aorta_stream_device(stream), &key, workspaces_create, workspaces_destroy, &state));
    struct workspaces *workspaces = state;
    pthread_mutex_lock(&workspaces->lock);
    aorta_status status =
        find_or_create(workspaces, stream, number, bytes < LEAST_BYTES ? LEAST_BYTES : bytes, workspace);
    pthread_mutex_unlock(&workspaces->lock);
    return status;
}

bool aorta_ops_take_fault(struct aorta_gpu_fault *fault, struct aorta_gpu_fault *met) {
    if (!__atomic_load_n(&fault->found, __ATOMIC_ACQUIRE)) return false;
    *met = *fault;
    fault->found = 0;
    __atomic_store_n(&fault->claimed, 0, __ATOMIC_RELEASE);
    return true;
}
