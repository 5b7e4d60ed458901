/* Where a unit's parameters lie when they are whole and when they are split over the ranks of a shard group.
 *
 * Full memory: parameters one after the other, each contiguous and aligned to 16 elements. Split by rows (as FSDP2):
 * each parameter's rows are cut into chunks of ceil(rows / ranks), the last ones shorter or empty; a rank's shard is
 * its chunks one after the other, each in the room of a full one. Full memory has room for `ranks` full chunks of each
 * parameter, so that shards are gathered and reduced where they lie. Split flat (use_orig_params = false): full memory
 * as a whole is cut into equal pieces. What no parameter fills is padding, and holds zeros. */
#ifndef AORTA_TRAIN_LAYOUT_H
#define AORTA_TRAIN_LAYOUT_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { AORTA_LAYOUT_MAX_PARAMETERS = 12, AORTA_LAYOUT_ALIGNMENT = 16 };

struct aorta_layout_parameter {
    int64_t rows, columns;
    int64_t full_offset;  /* elements from the start of the unit's full memory */
    int64_t chunk_rows;   /* by rows: rows of a full chunk */
    int64_t shard_offset; /* by rows: elements from the start of a rank's shard */
};

struct aorta_layout {
    int ranks;
    bool flat;
    int count;     /* parameters */
    int64_t full;  /* elements of the full memory; flat: padded to ranks × shard */
    int64_t shard; /* elements of a shard */
    struct aorta_layout_parameter parameters[AORTA_LAYOUT_MAX_PARAMETERS];
};

/* `rows` and `columns` of each parameter by slot. One rank: always flat. */
struct aorta_layout aorta_layout_make(const int64_t *rows, const int64_t *columns, int count, int ranks, bool flat);

/* What travels between shards and full memory: `count` elements from shard_offset on of rank r's shard are those from
 * full_offset + r × count on in full memory, padding included. One for each parameter; flat: one. */
struct aorta_layout_piece {
    int64_t shard_offset, full_offset, count;
};
int aorta_layout_piece_count(const struct aorta_layout *layout);
struct aorta_layout_piece aorta_layout_piece(const struct aorta_layout *layout, int piece);

/* A run of elements that lies contiguously in one rank's shard and in the full memory. */
struct aorta_layout_run {
    int64_t shard_offset, full_offset, count;
};
/* Runs of one parameter in the shard of `rank`: at most one. false: this rank holds nothing of it. */
bool aorta_layout_run_of(const struct aorta_layout *layout, int parameter, int rank, struct aorta_layout_run *run);

#endif
