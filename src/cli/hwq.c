/* aorta hwq: one file per subcommand, one line here. */
#include "cli/hwq.h"

static const struct aorta_command subcommands[] = {
    {"list", "lists the workloads and their numbers of streams", .run = aorta_cli_hwq_list},
    {"info", "describes a workload and its options; without one: the environment", .run = aorta_cli_hwq_info},
    {"run", "runs a workload, measures it and explains the figures", .run = aorta_cli_hwq_run, .named = true},
    {"sweep", "runs a workload on several numbers of streams: how it scales", .run = aorta_cli_hwq_sweep,
     .named = true},
    {"run-priority", "runs all workloads of a group: P0, P1, P2, P3 or all", .run = aorta_cli_hwq_run_priority},
    {"compare", "compares results, with confidence intervals; exit code 1 for a regression",
     .run = aorta_cli_hwq_compare},
    {"map", "finds which streams share a hardware queue", .run = aorta_cli_hwq_map},
    {"profile", "records which hardware queues a workload uses", .run = aorta_cli_hwq_profile},
    {0},
};

const struct aorta_command_group aorta_cli_hwq = {
    .name = "aorta hwq",
    .about = "Measures how the hardware runs streams: queues, switches, and which work delays which.",
    .commands = subcommands,
};
