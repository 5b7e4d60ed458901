/* What libFuzzer calls, and replay.c in builds without it: returns 0, or aborts when a check failed. */
#ifndef AORTA_TESTS_FUZZ_FUZZ_H
#define AORTA_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
