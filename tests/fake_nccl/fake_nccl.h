/* An NCCL without GPUs, for the fake libcuda of tests/fake_gpu: its collectives run as host calls on the fake streams,
 * in stream order, over shared memory between the processes of one host, and wait for their peers as NCCL's kernels do.
 * It answers "in progress" wherever NCCL may. With FAKE_NCCL_NO_WINDOWS it registers none, as NCCL where GPUs do not
 * reach each other. FAKE_NCCL_STRIKE (tests/strike.h) has a call fail. Tests point AORTA_LIBRARY_PATH at the folders of
 * both. */
#ifndef AORTA_TESTS_FAKE_NCCL_H
#define AORTA_TESTS_FAKE_NCCL_H

/* A test's control of it: found by dlsym under the name fake_nccl_control. */
struct fake_nccl_control {
    /* Call number `nth` (from 1, counted from now) of `symbol` returns `code` and does nothing. NULL: none. */
    void (*refuse)(const char *symbol, int nth, int code);
    /* The result of ncclCommGetAsyncError for every communicator from now on; 0: the real one. */
    void (*set_async_error)(int code);
    int (*aborted)(void); /* communicators so far */
    int (*kernels)(void); /* queued so far: one for a collective, one for a group of them */
    int (*windows)(void); /* registered now */
};

#endif
