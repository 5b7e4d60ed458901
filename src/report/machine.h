/* What the machine did beside a recording, from the files that lie with it (measure/machine.h). */
#ifndef AORTA_REPORT_MACHINE_H
#define AORTA_REPORT_MACHINE_H

#include "analysis/analysis.h"
#include "measure/machine.h"
#include "verdict/verdict.h"

struct aorta_recorded_machine {
    bool known; /* there is a file */
    struct aorta_machine machine;
    struct aorta_machine_summary summary; /* of that */
};

/* Of several hosts the first one that was disturbed, else the first. `path`: a recording, in whose folder the files
 * lie, or that folder. Of an analysis whose times are known as those of day (NULL: none) only the steps analysed count.
 * The caller ends *machine, also after a failure: AORTA_FORMAT names a file that is damaged. */
AORTA_MUST_USE aorta_status aorta_recorded_machine_read(const char *path, const struct aorta_trace_analysis *analysis,
                                                        struct aorta_recorded_machine *machine);
void aorta_recorded_machine_free(struct aorta_recorded_machine *machine);

/* Reports it to the verdict; nothing where nothing is known. */
AORTA_MUST_USE aorta_status aorta_recorded_machine_report(const struct aorta_recorded_machine *machine,
                                                          struct aorta_verdict *verdict);
/* Key and value of "machine": an object, or null and its reason. */
void aorta_recorded_machine_json(const struct aorta_recorded_machine *machine, struct aorta_json *json);

#endif
