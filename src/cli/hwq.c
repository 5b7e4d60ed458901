/* aorta hwq: one file per subcommand, one line here. */
#include "cli/hwq.h"

static const struct aorta_command subcommands[] = {
    {"list", "the workloads, and on how many streams they run", aorta_cli_hwq_list},
    {"info", "one workload: what it is, its streams and options", aorta_cli_hwq_info},
    {"run", "runs a workload, measures it and explains the figures", aorta_cli_hwq_run},
    {"sweep", "the same on several numbers of streams: how it scales", aorta_cli_hwq_sweep},
    {"run-priority", "runs all workloads of a group: P0, P1, P2, P3 or all", aorta_cli_hwq_run_priority},
    {"compare", "compares results, with confidence intervals; exit code 1 for a regression", aorta_cli_hwq_compare},
    {"map", "which streams share a hardware queue", aorta_cli_hwq_map},
    {"profile", "the hardware queues that a workload used, from a recording", aorta_cli_hwq_profile},
    {0},
};

static const struct aorta_command_group group = {
    .name = "aorta hwq",
    .about = "How the hardware runs streams: its queues, the overhead of switches, and which work delays which.",
    .commands = subcommands,
};

aorta_status aorta_cli_hwq(int argc, char **argv) {
    return aorta_cli_group_run(&group, argc, argv);
}
