/* Prints the verdict on recordings, their causes and the busiest kernels.
 *
 *     cc analyze.c $(pkg-config --cflags --libs aorta) -o analyze && ./analyze traces/ */
#include <aorta/aorta.h>

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    struct libaorta_analysis *analysis;
    struct libaorta_step step;
    char message[1024];
    if (libaorta_open((const char *const *)argv + 1, (size_t)argc - 1, NULL, &analysis, message, sizeof message)) {
        fprintf(stderr, "%s\n", message);
        return 1;
    }
    fputs(libaorta_verdict_text(analysis), stdout);
    libaorta_step(analysis, &step);
    printf("%zu ranks, %zu steps of %.3f ms", step.ranks, step.steps, step.step_ms);
    if (step.comm_ms > 0) printf(", %.0f%% of communication hidden", 100 * step.overlap_ratio);
    printf("\n");
    for (size_t i = 0; i < libaorta_cause_count(analysis); i++) {
        struct libaorta_cause cause;
        libaorta_cause(analysis, i, &cause);
        printf("%s%s%s: takes %.3f ms", cause.cause, cause.collective ? " " : "",
               cause.collective ? cause.collective : "", cause.cost_ms);
        if (cause.gain_ms >= 0) printf(", saves %.3f ms", cause.gain_ms); /* NaN: not known */
        printf("\n");
    }
    const char *kernels = libaorta_table_csv(analysis, "kernels");
    if (kernels) printf("%.*s\n", (int)strcspn(kernels, "\n"), kernels);
    libaorta_close(analysis);
    return 0;
}
