/* aorta trace: one file per subcommand, one line here. */
#include "cli/cli.h"

static const struct aorta_command subcommands[] = {
    {"analyze", "says what limits a recorded program", .run = aorta_cli_trace_analyze},
    {"compare", "says what changed between recordings, and whether it is noise", .run = aorta_cli_trace_compare},
    {"merge", "makes one trace of many ranks, on one clock, for Perfetto", .run = aorta_cli_trace_merge},
    {"run", "records an unmodified program and analyzes the recording", .run = aorta_cli_trace_run},
    {"watch", "evaluates the windows of `trace run --into` while the program runs", .run = aorta_cli_trace_watch},
    {0},
};

const struct aorta_command_group aorta_cli_trace = {
    .name = "aorta trace",
    .about = "Records programs and analyzes traces of PyTorch, JAX, rocprofv3, Nsight Systems and AORTA.",
    .commands = subcommands,
};

aorta_status aorta_cli_comm_patterns(const struct aorta_string_list *list, struct aorta_kernel_patterns **patterns) {
    for (size_t i = 0; i < list->count; i++)
        AORTA_TRY(aorta_annotate(aorta_kernel_patterns_add(patterns, list->items[i]), "--comm-pattern"));
    return NULL;
}
