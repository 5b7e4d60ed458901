/* From CUPTI's records of device work to ours: for the tracer and for the library in other people's programs. */
#ifndef AORTA_MEASURE_CUPTI_RECORDS_H
#define AORTA_MEASURE_CUPTI_RECORDS_H

#include "measure/cupti_abi.h"
#include "measure/tracer.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* False: it is no device work. The name of a kernel is CUPTI's, and lives as long as the activity's buffer. */
bool aorta_cupti_decode(const struct aorta_cupti_activity *activity, struct aorta_activity_record *record);
/* False: it was given out before it had ended, and its times are none. */
bool aorta_cupti_is_finished(const struct aorta_activity_record *record);

/* ---- buffers of records ----
 * The buffers that CUPTI fills: pooled, recycled, bounded. Callbacks of CUPTI's own threads only move them from list
 * to list. */

struct aorta_cupti_buffer {
    struct aorta_cupti_buffer *next;
    size_t valid; /* bytes that hold records */
    _Alignas(16) uint8_t bytes[];
};

struct aorta_cupti_buffers {
    pthread_mutex_t lock;
    size_t bytes; /* of each */
    int limit;    /* so many are made at most */
    struct aorta_cupti_buffer *empty;
    struct aorta_cupti_buffer *filled, **filled_end; /* oldest first */
    int made, lent;                                  /* in all; with CUPTI now */
};

void aorta_cupti_buffers_init(struct aorta_cupti_buffers *buffers, size_t bytes, int limit);
/* Buffers still lent to CUPTI are left to it: it may write into them. */
void aorta_cupti_buffers_free(struct aorta_cupti_buffers *buffers);

/* An empty buffer, or the oldest filled one when all are full (*overwritten: its records are lost; count them before
 * CUPTI writes), or NULL. */
struct aorta_cupti_buffer *aorta_cupti_buffers_lend(struct aorta_cupti_buffers *buffers, bool *overwritten);
void aorta_cupti_buffers_return(struct aorta_cupti_buffers *buffers, uint8_t *bytes, size_t valid);
struct aorta_cupti_buffer *aorta_cupti_buffers_take(struct aorta_cupti_buffers *buffers); /* oldest filled, or NULL */
int aorta_cupti_buffers_lent(struct aorta_cupti_buffers *buffers);
void aorta_cupti_buffers_recycle(struct aorta_cupti_buffers *buffers, struct aorta_cupti_buffer *buffer);

/* ---- advice ---- */

const char *aorta_cupti_advice(uint32_t result); /* NULL: nothing is known to help */

#endif
