/* Whether the gaps that a workload stamped itself are those that a recording of the same run shows (`aorta hwq profile
 * --agreement`).
 *
 * Both sides count the same pairs of operations of the same iterations (match.h); which operation follows which is
 * decided once, by the stamps. Left is what a stamp cannot see: a kernel has begun a little before its first
 * instruction reads the timer, and ends a little after the last one did. A stamped gap is longer by both. They are
 * measured on the harness's own kernels in the same run and recording, beside iterations of the workload (beside.h), as
 * they are longer where other kernels run, apart for kernels that stamp themselves and for those that mark, and taken
 * off the workload's stamps; the workload's own recorded kernels and gaps have no part in that. Both figures are told,
 * as stamped and with these taken off. */
#ifndef AORTA_HWQ_AGREEMENT_H
#define AORTA_HWQ_AGREEMENT_H

#include "base/json.h"
#include "hwq/match.h"

enum aorta_hwq_pair_kind { AORTA_HWQ_INTRA, AORTA_HWQ_INTER, AORTA_HWQ_PAIR_KINDS };

/* Gaps of one kind. */
struct aorta_hwq_agreed {
    size_t count;
    double stamped_us, corrected_us, recorded_us; /* medians; NaN without pairs */
    double off_p50_us, off_p90_us;                /* of each pair: |corrected − recorded| */
    double stamped_off, corrected_off;            /* median difference of a pair over the median recorded gap */
    int worst_stream; /* whose pairs differ most, corrected, of those with 30 or more; -1: there is none */
    double worst_off;
    bool stamped_within, corrected_within; /* 10%, or one tick of the timer where that is more; also the worst stream */
    const char *reason;                    /* static: why it is not judged; NULL: it is */
};

/* By how much stamps of one kind of operation lie behind the recording's start and end, ns. Only differences mean
 * something: the starts of kernels that stamp themselves are 0. */
struct aorta_hwq_offset {
    double start_ns, end_ns; /* NaN without samples */
    size_t samples;
};

struct aorta_hwq_agreement {
    size_t iterations; /* of the workload, compared */
    struct aorta_hwq_agreed kinds[AORTA_HWQ_PAIR_KINDS];
    bool beside; /* measured beside the workload; else (64 streams) on the probe, alone */
    struct aorta_hwq_offset self, marked;
    double tick_ns; /* of the stamps: all are multiples of it */
};

extern const double aorta_hwq_agreement_limit; /* 0.1 */

/* Sorts `kernels`: all of one device. AORTA_UNSUPPORTED, with the reason, when pairs cannot be told apart. */
AORTA_MUST_USE aorta_status aorta_hwq_agree(const struct aorta_hwq_book *book, struct aorta_hwq_recorded *kernels,
                                            size_t count, struct aorta_hwq_agreement *agreement);
bool aorta_hwq_agrees(
    const struct aorta_hwq_agreement *agreement); /* corrected, every kind that is judged; one at least */
void aorta_hwq_agreement_text(const struct aorta_hwq_agreement *agreement, struct aorta_text *text);
void aorta_hwq_agreement_json(const struct aorta_hwq_agreement *agreement, struct aorta_json *json); /* an object */

#endif
