/* --device, as several commands have it. */
#ifndef AORTA_CLI_DEVICE_OPTION_H
#define AORTA_CLI_DEVICE_OPTION_H

#include "base/log.h"
#include "device/device.h"

/* What the help says about it. */
#define AORTA_CLI_DEVICE_HELP "auto (a GPU if there is one), cpu, cuda, cuda:1, hip:0, or the number of a GPU"

/* Opens what the words name: "auto", "cpu", "cuda", "hip", a kind with ":" and an index, or an index alone, which is
 * that of a GPU, and of the CPU device where there is no GPU. Without an index each rank of a host (local_rank) takes
 * its own, and the log warns where ranks share one. AORTA_USAGE for words that mean nothing, and for a device that is
 * not there. */
AORTA_MUST_USE aorta_status aorta_cli_open_device(const char *words, int local_rank, const struct aorta_log *log,
                                                  struct aorta_device **device);

#endif
