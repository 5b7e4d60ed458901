/* What stamps cannot see of a kernel depends on what runs beside it: it is measured where the workload runs. */
#ifndef AORTA_HWQ_BESIDE_H
#define AORTA_HWQ_BESIDE_H

#include "hwq/book.h"
#include "hwq/pass.h"

/* Keeps iterations of the workload (as `plan` has it, behind a gate) with a chain beside it on a stream of its own,
 * whose number is the workload's count of streams: kernels that stamp themselves, and empty operations between kernels
 * that mark. Only those are of use. Nothing on 64 streams: there is no number left. Streams idle. */
AORTA_MUST_USE aorta_status aorta_hwq_beside_run(struct aorta_hwq *hwq, const struct aorta_hwq_plan *plan,
                                                 struct aorta_hwq_book *book);

#endif
