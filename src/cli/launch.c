/* aorta launch: local ranks of any program. */
#include "job/launch.h"
#include "cli/cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GRACE_S 5.0

struct launch_values {
    int64_t ranks;
    double timeout_s;
    int mpi;
};

static const struct aorta_choice mpi_choices[] = {
    {"auto", AORTA_LAUNCH_MPI_AUTO}, {"always", AORTA_LAUNCH_MPI_ALWAYS}, {"never", AORTA_LAUNCH_MPI_NEVER}, {NULL, 0}};

#define AT(field) offsetof(struct launch_values, field)
static const struct aorta_option options[] = {
    {"ranks", AORTA_OPTION_INT, AT(ranks), "1", .limits = AORTA_LIMITS(1, 65536), .letter = 'n', .required = true,
     .help = "how many ranks to start on this host"},
    {"timeout-s", AORTA_OPTION_DOUBLE, AT(timeout_s), "0", .limits = AORTA_LIMITS(0, INFINITY), .argument = "SECONDS",
     .help = "end the job after this time; 0: never"},
    {"mpi", AORTA_OPTION_CHOICE, AT(mpi), "auto", .choices = mpi_choices, .argument = "auto|always|never",
     .help = "whether mpirun starts the ranks; collectives on host memory need it; auto: if there are "
             "several ranks and mpirun is installed"},
};

static const struct aorta_cli_syntax syntax = {
    .usage = "aorta launch -n N [--timeout-s SECONDS] [--mpi auto|always|never] -- COMMAND [ARGUMENT …]",
    .about = "Starts N local ranks of a command, each with RANK, WORLD_SIZE, LOCAL_RANK, "
             "LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT as torchrun sets them. SIGINT and SIGTERM "
             "are passed on. When a rank dies, the job ends, and a message names the rank, its exit "
             "status or signal, and its last operation.",
    AORTA_CLI_OPTIONS(options),
    .operands = true,
    .command = true,
    .footer = "Exit code: 0 when every rank ended with 0, else that of the rank that failed first (128 + signal when a "
              "signal ended it).",
};

/* Under this name the launcher starts itself, once per rank. */
static aorta_status run_rank(char **arguments, int *exit_code) {
    if (arguments[0] && !strcmp(arguments[0], "--")) arguments++;
    if (!arguments[0]) return AORTA_ERROR(AORTA_USAGE, "launch --rank-exec: no command");
    return aorta_launch_rank(arguments, exit_code);
}

static aorta_status end_with(int exit_code) {
    if (exit_code) exit(exit_code); /* a rank's own code, which no status could carry */
    return NULL;
}

static aorta_status run(struct aorta_cli_line *line, void *of) {
    const struct launch_values *values = of;
    char self[PATH_MAX];
    int exit_code = 0;
    AORTA_TRY(aorta_cli_self(self));
    const struct aorta_launch_options launch = {.ranks = (int)values->ranks,
                                                .timeout_s = values->timeout_s,
                                                .grace_s = GRACE_S,
                                                .mpi = (enum aorta_launch_mpi)values->mpi,
                                                .command = line->operands, /* the list ends with NULL */
                                                .self = self};
    if (line->operand_count) AORTA_TRY(aorta_cli_check_program(line->operands[0]));
    AORTA_TRY(aorta_launch_run(&launch, &exit_code));
    return end_with(exit_code);
}

aorta_status aorta_cli_launch(int argc, char **argv) {
    struct launch_values values = {0};
    int exit_code = 0;
    if (argc < 2 || strcmp(argv[1], "--rank-exec") != 0) return aorta_cli_command(&syntax, argc, argv, &values, run);
    AORTA_TRY(run_rank(argv + 2, &exit_code));
    return end_with(exit_code);
}
