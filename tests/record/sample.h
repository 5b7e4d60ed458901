/* A small spool with every type of record, made by the writer. */
#ifndef AORTA_TESTS_INJECT_SAMPLE_H
#define AORTA_TESTS_INJECT_SAMPLE_H

#include "record/inject/inject.h"

enum { SAMPLE_WORK = 4 };

/* The file's bytes; the caller frees them. *ends gets the end offset of each record, 0 at the end. */
uint8_t *sample_make(size_t *length, size_t ends[32]);

#endif
