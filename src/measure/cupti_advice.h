/* The fix for a refusal of CUPTI. */
#ifndef AORTA_MEASURE_CUPTI_ADVICE_H
#define AORTA_MEASURE_CUPTI_ADVICE_H

#include <stdint.h>

const char *aorta_cupti_advice(uint32_t result); /* NULL: nothing is known to help */

#endif
