/* Under torchrun on a machine without GPUs: collectives on host memory need MPI, which torchrun does not start. Rank 0
 * becomes `aorta launch` with the same command, and the other processes end well. */
#include "cli/cli.h"
#include "device/gpu.h"
#include "job/ranks.h"
#include "measure/tracer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool communicates(const char *command) {
    return strcmp(command, "train") == 0 || strcmp(command, "hwq") == 0;
}

static aorta_status become_launch(int ranks, int argc, char **argv) {
    char self[PATH_MAX], number[16];
    char launch[] = "launch", n[] = "-n", dashes[] = "--";
    AORTA_TRY(aorta_cli_self(self));
    char **command = calloc((size_t)argc + 6, sizeof *command);
    if (!command) return AORTA_ERROR(AORTA_MEMORY, "no memory for a command");
    snprintf(number, sizeof number, "%d", ranks);
    char *const first[] = {self, launch, n, number, dashes, self};
    memcpy(command, first, sizeof first);
    memcpy(command + 6, argv + 1, (size_t)argc * sizeof *command); /* with the NULL at the end */
    fprintf(
        stderr,
        "note: torchrun starts no MPI, which collectives on the CPU device need: its rank 0 starts the %d ranks again "
        "through aorta launch, the other ranks end\n",
        ranks);
    execv(self, command);
    aorta_status status = AORTA_ERROR(AORTA_IO, "%s: %s", self, strerror(errno));
    free(command);
    return status;
}

aorta_status aorta_cli_under_torchrun(int argc, char **argv, bool *done) {
    struct aorta_ranks ranks;
    enum aorta_device_kind kind;
    int count;
    *done = false;
    if (!getenv("TORCHELASTIC_RUN_ID") || !communicates(argv[1])) return NULL;
    AORTA_TRY(aorta_ranks_detect(&ranks));
    if (ranks.mpi || ranks.world_size == 1 || ranks.local_world_size != ranks.world_size) return NULL;
    aorta_tracer_prepare(); /* looking for devices begins HIP */
    AORTA_TRY(aorta_device_best_kind(&kind, &count));
    if (kind != AORTA_DEVICE_CPU) return NULL;
    *done = true;
    return ranks.rank == 0 ? become_launch(ranks.world_size, argc, argv) : NULL;
}
