/* Switches between stacks. ucontext asks the system for the signal mask at each switch, which took most of the
 * emulator's time; it is used only on processors other than x86-64. */
#ifndef AORTA_TESTS_OPS_EMULATOR_STACKS_H
#define AORTA_TESTS_OPS_EMULATOR_STACKS_H

#include <cstddef>

#if defined(__x86_64__)
struct place { // a suspended fiber: its stack, with its registers on top
    void **top;
};
#else
#include <ucontext.h>
struct place {
    ucontext_t context;
};
#endif

/* The first swap to `self` calls `function`, which never returns, on a stack of `bytes`. */
void place_begin(place &self, char *stack, std::size_t bytes, void (*function)());
/* Goes on at `to`; returns when somebody swaps to `from`. */
void place_swap(place &from, place &to);

#endif
