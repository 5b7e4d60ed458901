/* Queues of a device (timeline/spans.h) as text and as JSON (aorta hwq profile). */
#ifndef AORTA_HWQ_QUEUE_USAGE_H
#define AORTA_HWQ_QUEUE_USAGE_H

#include "base/json.h"
#include "timeline/spans.h"

/* `queue_name`: the source's word for a queue ("channel", "queue"). */
void aorta_queue_usage_text(const struct aorta_queue_usage *queues, const char *queue_name, struct aorta_text *text);
/* An object. */
void aorta_queue_usage_json(const struct aorta_queue_usage *queues, struct aorta_json *json);

#endif
