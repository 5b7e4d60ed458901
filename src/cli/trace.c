/* aorta trace: one file per subcommand, one line here. */
#include "cli/cli.h"

static const struct aorta_command subcommands[] = {
    {"analyze", "figures of ranks, kernels, collectives and gaps, and the verdict", aorta_cli_trace_analyze},
    {"compare", "recordings side by side: what takes longer or shorter, and whether it is noise",
     aorta_cli_trace_compare},
    {"merge", "one trace of many ranks' traces, on one clock, for Perfetto and chrome://tracing",
     aorta_cli_trace_merge},
    {"run", "runs an unmodified program, records its GPUs, and analyses the recording", aorta_cli_trace_run},
    {0},
};

static const struct aorta_command_group group = {
    .name = "aorta trace",
    .about = "Reads traces of PyTorch (Kineto), rocprofv3 and AORTA, and says what limits the program.",
    .commands = subcommands,
};

aorta_status aorta_cli_trace(int argc, char **argv) {
    return aorta_cli_group_run(&group, argc, argv);
}

aorta_status aorta_cli_comm_patterns(const struct aorta_string_list *list, struct aorta_kernel_patterns **patterns) {
    for (size_t i = 0; i < list->count; i++)
        AORTA_TRY(aorta_annotate(aorta_kernel_patterns_add(patterns, list->items[i]), "--comm-pattern"));
    return NULL;
}
