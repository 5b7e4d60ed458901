/* Waiting without a lock: the word says whether anybody sleeps, so that opening an unwatched gate costs one exchange.
 * futex(2), and "Futexes Are Tricky" (Drepper, 2011), section 5. */
#include "device/cpu/cpu.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SHUT, SHUT_AND_WATCHED, OPEN };

void aorta_cpu_futex_sleep(_Atomic uint32_t *word, uint32_t value) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

void aorta_cpu_futex_wake(_Atomic uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void aorta_cpu_gate_shut(struct gate *gate) {
    atomic_store_explicit(&gate->state, SHUT, memory_order_relaxed);
}

void aorta_cpu_gate_open(struct gate *gate) {
    if (atomic_exchange_explicit(&gate->state, OPEN, memory_order_release) == SHUT_AND_WATCHED) {
        aorta_cpu_futex_wake(&gate->state);
    }
}

bool aorta_cpu_gate_is_open(struct gate *gate) {
    return atomic_load_explicit(&gate->state, memory_order_acquire) == OPEN;
}

void aorta_cpu_gate_wait(struct gate *gate) {
    while (!aorta_cpu_gate_is_open(gate)) {
        uint32_t shut = SHUT;
        if (!atomic_compare_exchange_strong(&gate->state, &shut, SHUT_AND_WATCHED) && shut == OPEN) continue;
        aorta_cpu_futex_sleep(&gate->state, SHUT_AND_WATCHED);
    }
}
