/* Runs one kernel over a grid. */
#ifndef AORTA_TESTS_OPS_EMULATOR_RUN_H
#define AORTA_TESTS_OPS_EMULATOR_RUN_H

#ifdef __cplusplus
extern "C" {
#endif
void emulated_run(void (*function)(const void *args), const void *args, const unsigned blocks[3],
                  const unsigned threads[3]);
#ifdef __cplusplus
}
#endif

#endif
