/* Opens a trace in Perfetto's user interface: a page that may read from 127.0.0.1:9001 and nowhere else. */
#ifndef AORTA_CLI_PERFETTO_H
#define AORTA_CLI_PERFETTO_H

#include "base/status.h"

/* Prints the link on the standard error, hands the file to the browser that follows it, once, and returns. A signal
 * ends the waiting. AORTA_IO: the file cannot be read, or the port is taken. */
AORTA_MUST_USE aorta_status aorta_perfetto_show(const char *path);

#endif
