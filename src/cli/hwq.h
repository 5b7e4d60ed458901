/* The subcommands of aorta hwq, one file each. */
#ifndef AORTA_CLI_HWQ_H
#define AORTA_CLI_HWQ_H

#include "cli/cli.h"

aorta_status aorta_cli_hwq_compare(int argc, char **argv);
aorta_status aorta_cli_hwq_list(int argc, char **argv);
aorta_status aorta_cli_hwq_info(int argc, char **argv);
aorta_status aorta_cli_hwq_run(int argc, char **argv);
aorta_status aorta_cli_hwq_sweep(int argc, char **argv);
aorta_status aorta_cli_hwq_run_priority(int argc, char **argv);
aorta_status aorta_cli_hwq_map(int argc, char **argv);
aorta_status aorta_cli_hwq_profile(int argc, char **argv);

#endif
