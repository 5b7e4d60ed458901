/* The driver's own kernels: timestamps, also large ones, and the measuring of the clock. The structs repeat those of
 * driver.h. */
#include "device/gpu/driver.h"

/* The texts of both sources begin with it; a literal, so that they are constants. */
#define PRELUDE                                                                                                        \
    "#if defined(__HIP_PLATFORM_AMD__) || defined(__HIPCC_RTC__) || defined(__AMDGCN__)\n"                             \
    "static __device__ long long device_timer() {\n"                                                                   \
    "#if __has_builtin(__builtin_readsteadycounter)\n"                                                                 \
    "    return (long long)__builtin_readsteadycounter();\n"                                                           \
    "#else\n" /* before clang 18 */                                                                                    \
    "    return (long long)__builtin_amdgcn_s_memrealtime();\n"                                                        \
    "#endif\n"                                                                                                         \
    "}\n"                                                                                                              \
    "#else\n"                                                                                                          \
    "static __device__ long long device_timer() {\n"                                                                   \
    "    long long ns;\n"                                                                                              \
    "    asm volatile(\"mov.u64 %0, %%globaltimer;\" : \"=l\"(ns));\n"                                                 \
    "    return ns;\n"                                                                                                 \
    "}\n"                                                                                                              \
    "#endif\n"                                                                                                         \
    "\n"                                                                                                               \
    "struct line { long long timer, host_ns; double ns_per_tick, slew_ns, slew_ticks; };\n"                            \
    "struct clock_page { volatile int current; int unused; volatile line lines[2]; };\n"                               \
    "\n"                                                                                                               \
    "struct stamp_args { const clock_page *clock; long long *slots[4]; };\n"                                           \
    "\n"                                                                                                               \
    "/* A reading from before the line is taken as if the line had begun earlier. */\n"                                \
    "static __device__ long long time_on(const line &l, long long timer) {\n"                                          \
    "    double ticks = (double)(timer - l.timer), slewed = ticks < l.slew_ticks ? ticks / l.slew_ticks : 1.0;\n"      \
    "    if (slewed < 0.0) slewed = 0.0;\n"                                                                            \
    "    return l.host_ns + (long long)(ticks * l.ns_per_tick + slewed * l.slew_ns);\n"                                \
    "}\n"                                                                                                              \
    "\n"                                                                                                               \
    "static __device__ line read_line(const volatile line &l) {\n"                                                     \
    "    line read = {l.timer, l.host_ns, l.ns_per_tick, l.slew_ns, l.slew_ticks};\n"                                  \
    "    return read;\n"                                                                                               \
    "}\n"                                                                                                              \
    "\n"                                                                                                               \
    "/* Both lines are on their way while it is read which one holds. */\n"                                            \
    "static __device__ long long time_at(const clock_page *clock, long long timer) {\n"                                \
    "    const int current = clock->current;\n"                                                                        \
    "    const line first = read_line(clock->lines[0]), second = read_line(clock->lines[1]);\n"                        \
    "    return time_on(current ? second : first, timer);\n"                                                           \
    "}\n"                                                                                                              \
    "\n"                                                                                                               \
    "/* The timer is read first: what follows is not part of the time that is told. */\n"                              \
    "static __device__ void stamp(const stamp_args &a) {\n"                                                            \
    "    long long now = device_timer(), time = a.clock ? time_at(a.clock, now) : now;\n"                              \
    "    for (int i = 0; i < 4; i++) {\n"                                                                              \
    "        if (a.slots[i]) *a.slots[i] = time;\n"                                                                    \
    "    }\n"                                                                                                          \
    "}\n"                                                                                                              \
    "\n"

static const struct aorta_gpu_source source = {
    "driver.cu",
    PRELUDE "extern \"C\" __global__ void aorta_stamp(stamp_args a) { stamp(a); }\n"
            "\n"
            "/* Readings for aorta_told. */\n"
            "struct times { volatile unsigned long long *begun, *ended; };\n"
            "\n"
            "extern \"C\" __global__ void aorta_stamp_reading(times a) { *a.begun = device_timer(); }\n"
            "\n"
            "/* Started when a kernel has begun; goes on when it has ended. */\n"
            "extern \"C\" __global__ void aorta_witness(times a) {\n"
            "    *a.begun = device_timer();\n"
            "#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900\n"
            "    asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n"
            "#endif\n"
            "    *a.ended = device_timer();\n"
            "}\n"
            "\n"
            "struct told_row { long long *slot; const volatile unsigned long long *reading; };\n"
            "struct told_args { const clock_page *clock; long long count; told_row rows[192]; };\n"
            "\n"
            "extern \"C\" __global__ void aorta_told(told_args a) {\n"
            "    int i = threadIdx.x;\n"
            "    if (i < a.count) *a.rows[i].slot = time_at(a.clock, (long long)*a.rows[i].reading);\n"
            "}\n"
            "\n"
            "struct clock_set_args { clock_page *clock; line next; };\n"
            "\n"
            "/* The line that nobody reads is written, then made the one that holds. */\n"
            "extern \"C\" __global__ void aorta_clock_set(clock_set_args a) {\n"
            "    int next = 1 - (a.clock->current & 1);\n"
            "    volatile line *l = &a.clock->lines[next];\n"
            "    l->timer = a.next.timer;\n"
            "    l->host_ns = a.next.host_ns;\n"
            "    l->ns_per_tick = a.next.ns_per_tick;\n"
            "    l->slew_ns = a.next.slew_ns;\n"
            "    l->slew_ticks = a.next.slew_ticks;\n"
            "    __threadfence();\n"
            "    a.clock->current = next;\n"
            "}\n"
            "\n"
            "struct mailbox { volatile int request, answer; long long tick; volatile long long timers[9]; };\n"
            "struct clock_ping_args { mailbox *box; };\n"
            "\n"
            "/* Answers the host's pings with the timer; ends by itself when the host stays away. */\n"
            "extern \"C\" __global__ void aorta_clock_ping(clock_ping_args a) {\n"
            "    long long last = device_timer(), tick = 0;\n"
            "    for (int i = 0, changes = 0; i < 4096 && changes < 16; i++) {\n"
            "        long long now = device_timer();\n"
            "        if (now == last) continue;\n"
            "        if (tick == 0 || now - last < tick) tick = now - last;\n"
            "        last = now;\n"
            "        changes++;\n"
            "    }\n"
            "    a.box->tick = tick;\n"
            "    for (int ping = 1; ping <= 8; ping++) {\n"
            "        long long polls = 0;\n"
            "        while (a.box->request >= 0 && a.box->request < ping && polls < 200000) polls++;\n"
            "        if (a.box->request < ping) return;\n"
            "        a.box->timers[ping] = device_timer();\n"
            "        __threadfence_system();\n"
            "        a.box->answer = ping;\n"
            "    }\n"
            "}\n",
};

/* ---- stamps that take room ---- */

/* ROW(registers, values): compilers give a kernel one of these numbers of registers a thread, and this one when so many
 * values have to be held at once. */
#define ROOM_SIZES(ROW)                                                                                                \
    ROW(32, 16)                                                                                                        \
    ROW(40, 32)                                                                                                        \
    ROW(48, 40) ROW(56, 48) ROW(64, 56) ROW(72, 64) ROW(80, 72) ROW(96, 88) ROW(128, 120) ROW(168, 160) ROW(255, 240)

#define KERNEL_TEXT(registers, values)                                                                                 \
    "extern \"C\" __global__ void aorta_stamp_room_" #registers "(room_args a) { room<" #values ">(a); }\n"
#define KERNEL_ENTRY(registers, values) {&room_source, "aorta_stamp_room_" #registers},

static const struct aorta_gpu_source room_source = {
    "room.cu",
    PRELUDE "struct room_args { stamp_args stamp; volatile unsigned *never; };\n"
            "\n"
            "/* All values are read before the first one is written, so each needs a register meanwhile. */\n"
            "template <int COUNT> static __device__ void hold(volatile unsigned *memory) {\n"
            "    unsigned held[COUNT];\n"
            "#pragma unroll\n"
            "    for (int i = 0; i < COUNT; i++) held[i] = memory[i];\n"
            "#pragma unroll\n"
            "    for (int i = 0; i < COUNT; i++) memory[i] = held[COUNT - 1 - i];\n"
            "}\n"
            "\n"
            "/* A kernel takes its registers from the start, also for what it never does. */\n"
            "template <int COUNT> static __device__ void room(const room_args &a) {\n"
            "    if (blockIdx.x == 0 && threadIdx.x == 0) stamp(a.stamp);\n"
            "    if (a.never) hold<COUNT>(a.never);\n"
            "}\n"
            "\n"
    /* clang-format off */
    ROOM_SIZES(KERNEL_TEXT)
    /* clang-format on */
};

const struct aorta_gpu_entry aorta_gpu_room_stamps[GPU_ROOM_STAMPS] = {ROOM_SIZES(KERNEL_ENTRY)};

const struct aorta_gpu_entry aorta_gpu_stamp = {&source, "aorta_stamp"};
const struct aorta_gpu_entry aorta_gpu_stamp_reading = {&source, "aorta_stamp_reading"};
const struct aorta_gpu_entry aorta_gpu_witness = {&source, "aorta_witness"};
const struct aorta_gpu_entry aorta_gpu_told = {&source, "aorta_told"};
const struct aorta_gpu_entry aorta_gpu_clock_set = {&source, "aorta_clock_set"};
const struct aorta_gpu_entry aorta_gpu_clock_ping = {&source, "aorta_clock_ping"};
