/* What aorta train does after its last step: the report, and leaving the other ranks. A signal that ends it there says
 * what is done and what is not. */
#ifndef AORTA_CLI_TRAIN_FINISH_H
#define AORTA_CLI_TRAIN_FINISH_H

#include "base/log.h"
#include "job/ranks.h"

#include <stdbool.h>

struct aorta_train_finish {
    const char *directory; /* of the run's files */
    const struct aorta_log *log;
    const struct aorta_ranks *ranks;
    double timeout_s;
    bool rank_0, report; /* this rank says what happens; it makes the report */
    bool quiet;          /* of the report, the answer alone */
};

/* From now on SIGINT and SIGTERM wait in this thread, and those that it starts, for who asks for them. A broken pipe is
 * an error of its write. To be called before the first step. */
void aorta_train_finish_prepare(void);
/* The report's failure. Where the ranks cannot leave one another, says so and ends the process. */
AORTA_MUST_USE aorta_status aorta_train_finish(const struct aorta_train_finish *finish);

#endif
