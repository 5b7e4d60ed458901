#include "stacks.h"

#include <cstdint>

#if defined(__x86_64__)

/* Registers that a called function must preserve (System V ABI for x86-64, section 3.2.1) are pushed on the old stack
 * and popped from the new one. */
extern "C" void emulated_swap(void ***from, void **to);
__asm__(R"(
.pushsection .text
.type emulated_swap, @function
emulated_swap:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size emulated_swap, .-emulated_swap
.popsection
)");

void place_begin(place &self, char *stack, std::size_t bytes, void (*function)()) {
    enum { REGISTERS = 6 };
    std::uintptr_t end = reinterpret_cast<std::uintptr_t>(stack + bytes) / 16 * 16;
    self.top = reinterpret_cast<void **>(end) - (REGISTERS + 2); // these, `function`, and nobody to return to
    for (int i = 0; i < REGISTERS + 2; i++) self.top[i] = nullptr;
    self.top[REGISTERS] = reinterpret_cast<void *>(function);
}

void place_swap(place &from, place &to) {
    emulated_swap(&from.top, to.top);
}

#else

#include <cstdlib>

void place_begin(place &self, char *stack, std::size_t bytes, void (*function)()) {
    if (getcontext(&self.context) != 0) std::abort();
    self.context.uc_stack.ss_sp = stack;
    self.context.uc_stack.ss_size = bytes;
    self.context.uc_link = nullptr;
    makecontext(&self.context, function, 0);
}

void place_swap(place &from, place &to) {
    swapcontext(&from.context, &to.context);
}

#endif
