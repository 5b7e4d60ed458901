/* Lists of texts (base/text.h), for tests. */
#ifndef AORTA_TESTS_LISTED_H
#define AORTA_TESTS_LISTED_H

#include "base/text.h"

/* Makes each text of the list a line. */
static inline void listed_lines(struct aorta_text *list) {
    for (size_t i = 0; i < list->length; i++)
        if (!list->data[i]) list->data[i] = '\n';
}

#endif
