/* Finds files that repeat the work of others, such as a merged file in the folder of its parts. */
#ifndef AORTA_FORMATS_REPEATED_H
#define AORTA_FORMATS_REPEATED_H

#include "timeline/trace.h"

/* Drops traces, from place `from` of the list on, whose work is that of other files; what stays says so
 * (AORTA_REASON_REPEATED). A merged file goes if all its ranks have files of their own, else these files go. */
AORTA_MUST_USE aorta_status aorta_trace_drop_repeated(struct aorta_trace_list *list, size_t from);

#endif
