/* aorta hwq: one file per subcommand, one line here. */
#include "cli/hwq.h"

static const struct aorta_command subcommands[] = {
    {"list", "the workloads, and on how many streams they run", .run = aorta_cli_hwq_list},
    {"info", "one workload: what it is, its streams and options; without one: the environment",
     .run = aorta_cli_hwq_info},
    {"run", "runs a workload, measures it and explains the figures", .run = aorta_cli_hwq_run},
    {"sweep", "the same on several numbers of streams: how it scales", .run = aorta_cli_hwq_sweep},
    {"run-priority", "runs all workloads of a group: P0, P1, P2, P3 or all", .run = aorta_cli_hwq_run_priority},
    {"compare", "compares results, with confidence intervals; exit code 1 for a regression",
     .run = aorta_cli_hwq_compare},
    {"map", "which streams share a hardware queue", .run = aorta_cli_hwq_map},
    {"profile", "the hardware queues that a workload used, from a recording", .run = aorta_cli_hwq_profile},
    {0},
};

const struct aorta_command_group aorta_cli_hwq = {
    .name = "aorta hwq",
    .about = "How the hardware runs streams: its queues, the overhead of switches, and which work delays which.",
    .commands = subcommands,
};
