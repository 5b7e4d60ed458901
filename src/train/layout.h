/* The places of a unit's parameters when they are whole and when they are split over the ranks of a shard group.
 *
 * A unit is split in pieces; each is gathered and reduced as one. Full memory is its pieces one after the other, large
 * enough for every rank's share of each, so that shards are gathered and reduced in place; a rank's shard is its
 * shares. Parameters are contiguous in their piece, and aligned to 16 elements. Split by rows (as FSDP2): each
 * parameter is a piece, cut into chunks of ceil(rows / ranks) rows, the last ones shorter or empty. Split flat
 * (use_orig_params = false): all parameters are one piece, cut evenly. Padding holds zeros. */
#ifndef AORTA_TRAIN_LAYOUT_H
#define AORTA_TRAIN_LAYOUT_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { AORTA_LAYOUT_MAX_PARAMETERS = 12, AORTA_LAYOUT_ALIGNMENT = 16 };

struct aorta_layout_parameter {
    int64_t rows, columns;
    int64_t full_offset; /* elements from the start of the unit's full memory */
    int piece;
};

/* Rank r's share of a piece is the `count` elements from shard_offset on in its shard, and those from
 * full_offset + r × count on in full memory, padding included. */
struct aorta_layout_piece {
    int64_t shard_offset, full_offset, count;
    bool whole; /* no padding */
};

struct aorta_layout {
    int ranks;
    int count;     /* parameters */
    int64_t full;  /* elements of the full memory */
    int64_t shard; /* elements of a shard */
    int piece_count;
    struct aorta_layout_piece pieces[AORTA_LAYOUT_MAX_PARAMETERS];
    struct aorta_layout_parameter parameters[AORTA_LAYOUT_MAX_PARAMETERS];
};

/* `rows` and `columns` of each parameter by slot. One rank: always flat. */
struct aorta_layout aorta_layout_make(const int64_t *rows, const int64_t *columns, int count, int ranks, bool flat);

/* Elements that are contiguous in one rank's shard and in the full memory. */
struct aorta_layout_run {
    int64_t shard_offset, full_offset, count;
};
/* Runs of one parameter in the shard of `rank`: at most one. false: this rank holds nothing of it. */
bool aorta_layout_run_of(const struct aorta_layout *layout, int parameter, int rank, struct aorta_layout_run *run);

#endif
