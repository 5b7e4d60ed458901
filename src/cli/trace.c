/* aorta trace: one file per subcommand, one line here. */
#include "cli/cli.h"

static const struct aorta_command subcommands[] = {
    {"analyze", "figures of ranks, kernels, collectives and gaps, and the verdict", .run = aorta_cli_trace_analyze},
    {"compare", "recordings side by side: what takes longer or shorter, and whether it is noise",
     .run = aorta_cli_trace_compare},
    {"merge", "one trace of many ranks' traces, on one clock, for Perfetto and chrome://tracing",
     .run = aorta_cli_trace_merge},
    {"run", "runs an unmodified program, records its GPUs, and analyses the recording", .run = aorta_cli_trace_run},
    {"watch", "evaluates what `trace run --into` records on several nodes, while it runs",
     .run = aorta_cli_trace_watch},
    {0},
};

const struct aorta_command_group aorta_cli_trace = {
    .name = "aorta trace",
    .about = "Reads traces of PyTorch (Kineto), rocprofv3 and AORTA, and says what limits the program.",
    .commands = subcommands,
};

aorta_status aorta_cli_comm_patterns(const struct aorta_string_list *list, struct aorta_kernel_patterns **patterns) {
    for (size_t i = 0; i < list->count; i++)
        AORTA_TRY(aorta_annotate(aorta_kernel_patterns_add(patterns, list->items[i]), "--comm-pattern"));
    return NULL;
}
