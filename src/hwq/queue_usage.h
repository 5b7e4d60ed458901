/* Queues of a device (hwq/spans.h) as text and as JSON (aorta hwq profile). */
#ifndef AORTA_HWQ_QUEUE_USAGE_H
#define AORTA_HWQ_QUEUE_USAGE_H

#include "base/json.h"
#include "hwq/spans.h"

/* `queue_name`: the source's word for a queue ("channel", "queue"). */
void aorta_queue_usage_text(const struct aorta_queue_usage *queues, const char *queue_name, struct aorta_text *text);
/* An object. */
void aorta_queue_usage_json(const struct aorta_queue_usage *queues, struct aorta_json *json);

/* As CSV: queues.csv, a line for each queue, and gaps.csv, of all recordings one after the other. */
struct aorta_queue_usage_of { /* borrowed */
    const char *path;
    int64_t rank, device;
    const struct aorta_queue_usage *usage;
};
struct aorta_queue_usage_csv { /* zero-initialise */
    struct aorta_text queues, gaps;
};
void aorta_queue_usage_csv_add(struct aorta_queue_usage_csv *csv, const struct aorta_queue_usage_of *of);
/* Frees it; writes nothing where the folder is NULL. AORTA_IO, AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_queue_usage_csv_write(struct aorta_queue_usage_csv *csv, const char *folder);

#endif
