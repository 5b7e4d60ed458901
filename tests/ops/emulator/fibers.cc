/* Threads of a block as fibers: each runs until it waits or ends; when all have, those whose wait is over go on. */
#include "emulator.h"
#include "run.h"
#include "stacks.h"

#include <cstdio>
#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

struct emulated_index threadIdx, blockIdx, blockDim, gridDim;

namespace {

enum { MOST_THREADS = 1024, GROUP = 32, STACK_BYTES = 256 * 1024 };
enum state { READY, WAITS_FOR_GROUP, WAITS_FOR_BLOCK, DONE };

struct fiber {
    place at;
    state now;
    bool second; // which of the two rows of `shuffled` and `fragments` is next
    emulated_index index;
    char *stack;
};

fiber fibers[MOST_THREADS];
uint32_t shuffled[2][MOST_THREADS];
float fragments[2][MOST_THREADS][12];
const void *addresses[MOST_THREADS];
place scheduler;
int count, current;
void (*entry)(const void *args);
const void *entry_args;

/* The address sanitizer has to know whose stack is in use. */
#if defined(__SANITIZE_ADDRESS__)
const void *scheduler_stack;
size_t scheduler_bytes;
void *scheduler_fake;
void leave(void **fake, const void *stack, size_t bytes) {
    __sanitizer_start_switch_fiber(fake, stack, bytes);
}
void enter(void *fake, const void **stack, size_t *bytes) {
    __sanitizer_finish_switch_fiber(fake, stack, bytes);
}
#else
const void *scheduler_stack;
size_t scheduler_bytes;
void *scheduler_fake;
void leave(void **, const void *, size_t) {}
void enter(void *, const void **, size_t *) {}
#endif

void fail(const char *what) {
    std::fprintf(stderr, "emulator: %s\n", what);
    std::abort();
}

void fiber_main() {
    enter(nullptr, &scheduler_stack, &scheduler_bytes);
    entry(entry_args);
    fibers[current].now = DONE;
    leave(nullptr, scheduler_stack, scheduler_bytes);
    place_swap(fibers[current].at, scheduler);
}

void wait_for(state what) {
    fiber &self = fibers[current];
    self.now = what;
    void *fake = nullptr;
    leave(&fake, scheduler_stack, scheduler_bytes);
    place_swap(self.at, scheduler);
    enter(fake, &scheduler_stack, &scheduler_bytes);
}

void run_ready() {
    for (int i = 0; i < count; i++) {
        if (fibers[i].now != READY) continue;
        current = i;
        threadIdx = fibers[i].index;
        leave(&scheduler_fake, fibers[i].stack, STACK_BYTES);
        place_swap(scheduler, fibers[i].at);
        enter(scheduler_fake, nullptr, nullptr);
    }
}

/* Makes ready what waited for `what` among [first, last), if all that still run there do; false when none waits. */
bool release(int first, int last, state what) {
    int waiting = 0, other = 0;
    for (int i = first; i < last; i++) {
        waiting += fibers[i].now == what;
        other += fibers[i].now != what && fibers[i].now != DONE;
    }
    if (waiting == 0 || other > 0) return false;
    for (int i = first; i < last; i++)
        if (fibers[i].now == what) fibers[i].now = READY;
    return true;
}

bool all_done() {
    for (int i = 0; i < count; i++)
        if (fibers[i].now != DONE) return false;
    return true;
}

void begin(fiber &self, unsigned number) {
    if (!self.stack) self.stack = static_cast<char *>(std::malloc(STACK_BYTES));
    if (!self.stack) fail("no memory for stacks");
    place_begin(self.at, self.stack, STACK_BYTES, fiber_main);
    self.second = false;
    self.index =
        emulated_index{number % blockDim.x, number / blockDim.x % blockDim.y, number / blockDim.x / blockDim.y};
    self.now = READY;
}

void run_block() {
    for (int i = 0; i < count; i++) begin(fibers[i], static_cast<unsigned>(i));
    for (;;) {
        run_ready();
        if (all_done()) return;
        bool released = false;
        for (int first = 0; first < count; first += GROUP)
            released = release(first, first + GROUP < count ? first + GROUP : count, WAITS_FOR_GROUP) || released;
        if (!released && !release(0, count, WAITS_FOR_BLOCK))
            fail("some threads wait for the whole block, and threads of one of their groups for the group");
    }
}

/* A thread may reach the next exchange while other threads still read this one, so two rows alternate. */
int next_row() {
    fiber &self = fibers[current];
    self.second = !self.second;
    return self.second;
}

} // namespace

void emulated_block_barrier(void) {
    wait_for(WAITS_FOR_BLOCK);
}

void emulated_group_barrier(void) {
    wait_for(WAITS_FOR_GROUP);
}

uint32_t emulated_shuffle(uint32_t value, int mask) {
    const int self = current;
    uint32_t *row = shuffled[next_row()];
    row[self] = value;
    wait_for(WAITS_FOR_GROUP);
    return row[self ^ mask];
}

void emulated_load_pieces(uint32_t piece[4], const void *address, int transposed) {
    const int self = current, first = self / GROUP * GROUP, lane = self % GROUP;
    addresses[self] = address;
    wait_for(WAITS_FOR_GROUP);
    for (int j = 0; j < 4; j++) {
        uint16_t half[2];
        for (int i = 0; i < 2; i++) {
            const int row = transposed ? lane % 4 * 2 + i : lane / 4, column = transposed ? lane / 4 : lane % 4 * 2 + i;
            half[i] = static_cast<const uint16_t *>(addresses[first + j * 8 + row])[column];
        }
        piece[j] = half[0] | static_cast<uint32_t>(half[1]) << 16;
    }
    wait_for(WAITS_FOR_GROUP);
}

const float (*emulated_fragments(const float own[12]))[12] {
    const int self = current;
    float(*row)[12] = fragments[next_row()];
    for (int i = 0; i < 12; i++) row[self][i] = own[i];
    wait_for(WAITS_FOR_GROUP);
    return row + self / GROUP * GROUP;
}

void emulated_run(void (*function)(const void *args), const void *args, const unsigned blocks[3],
                  const unsigned threads[3]) {
    gridDim = emulated_index{blocks[0], blocks[1], blocks[2]};
    blockDim = emulated_index{threads[0], threads[1], threads[2]};
    count = static_cast<int>(threads[0] * threads[1] * threads[2]);
    if (count > MOST_THREADS) fail("more than 1024 threads in a block");
    entry = function;
    entry_args = args;
    for (blockIdx.z = 0; blockIdx.z < gridDim.z; blockIdx.z++)
        for (blockIdx.y = 0; blockIdx.y < gridDim.y; blockIdx.y++)
            for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++) run_block();
}
