#include "workspace.h"
#include "base/files.h"
#include "check.h"
#include "folder.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

struct workspace workspace_make(void) {
    struct workspace workspace;
    folder_make(workspace.path, "report");
    return workspace;
}

void workspace_remove(struct workspace *workspace) {
    assert_int_equal(folder_remove(workspace->path), 0);
}

void workspace_write(const struct workspace *workspace, const char *name, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", workspace->path, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

char *workspace_read(const struct workspace *workspace, const char *name) {
    char path[512], *text = NULL;
    size_t length = 0;
    snprintf(path, sizeof path, "%s/%s", workspace->path, name);
    check_ok(aorta_file_read(path, &text, &length));
    return text;
}

bool workspace_has(const struct workspace *workspace, const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", workspace->path, name);
    return access(path, R_OK) == 0;
}

static void write_step(struct aorta_metrics_writer *writer, int rank, int world_size, int step, int64_t compute_ns) {
    int64_t t = 1000000000000 + step * (compute_ns + 40000000), length = compute_ns + step % 5 * 10000;
    struct aorta_range ranges[] = {
        {.info = {.tag = "embedding", .function = "linear_forward", .role = AORTA_ROLE_COMPUTE, .layer = -1},
         .start_ns = t,
         .end_ns = t + 1000000,
         .enqueue_ns = t - 5000},
        {.info = {.tag = "encoder.layers.0",
                  .function = "all_gather",
                  .role = AORTA_ROLE_AUX,
                  .kind = AORTA_RANGE_COLLECTIVE,
                  .collective = AORTA_ALL_GATHER,
                  .group_size = world_size,
                  .group_stride = 2,
                  .bytes = 4096},
         .start_ns = t + 500000,
         .end_ns = t + 2000000,
         .enqueue_ns = t,
         .stream = 1},
        {.info = {.tag = "encoder.layers.0", .function = "linear_forward", .role = AORTA_ROLE_COMPUTE, .flops = 5e8},
         .start_ns = t + 2000123,
         .end_ns = t + 2000123 + length,
         .enqueue_ns = t + 1000},
    };
    struct aorta_profile profile = {
        .index = step, .start_ns = t, .end_ns = ranges[2].end_ns, .ranges = ranges, .range_count = 3};
    const int64_t before_ns = t - 40000000 + 2000123 + (step - 1) % 5 * 10000;
    check_ok(aorta_overlap_compute(&profile, step ? before_ns : INT64_MIN));
    struct aorta_step_metrics metrics = {.rank = rank,
                                         .world_size = world_size,
                                         .step = step,
                                         .global_step = step,
                                         .loss = 0.7 - 0.001 * step,
                                         .grad_norm = 1,
                                         .lr = 1e-4,
                                         .samples_per_s = 100,
                                         .data_wait_ms = 0.25,
                                         .step_ms = NAN,
                                         .loss_scale = NAN,
                                         .device = "cpu",
                                         .profile = &profile};
    check_ok(aorta_metrics_write(writer, &metrics));
    profile.ranges = NULL; /* of no heap */
    aorta_profile_free(&profile);
}

void workspace_run(const struct workspace *workspace, int rank, int world_size, int steps, int64_t compute_ns) {
    struct aorta_metrics_writer *writer = NULL;
    check_ok(aorta_metrics_open(workspace->path, rank, &writer));
    for (int step = 0; step < steps; step++) write_step(writer, rank, world_size, step, compute_ns);
    check_ok(aorta_metrics_close(writer));
}
