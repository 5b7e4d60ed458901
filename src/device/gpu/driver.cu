/* The driver's own kernels: timestamps, and the measuring of the clock. The structs are those of clock.h. */
#if defined(__HIP_PLATFORM_AMD__) || defined(__HIPCC_RTC__) || defined(__AMDGCN__)
static __device__ long long device_timer() {
#if __has_builtin(__builtin_readsteadycounter)
    return (long long)__builtin_readsteadycounter();
#else /* before clang 18 */
    return (long long)__builtin_amdgcn_s_memrealtime();
#endif
}
#else
static __device__ long long device_timer() {
    long long ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}
#endif

struct line { long long timer, host_ns; double ns_per_tick, slew_ns, slew_ticks; };
struct clock_page { volatile int current; int unused; volatile line lines[2]; };

struct stamp_args { const clock_page *clock; long long *slots[4]; };

/* For a reading before the start of the line, the line is extended backwards. */
static __device__ long long time_on(const line &l, long long timer) {
    double ticks = (double)(timer - l.timer), slewed = ticks < l.slew_ticks ? ticks / l.slew_ticks : 1.0;
    if (slewed < 0.0) slewed = 0.0;
    return l.host_ns + (long long)(ticks * l.ns_per_tick + slewed * l.slew_ns);
}

static __device__ line read_line(const volatile line &l) {
    line read = {l.timer, l.host_ns, l.ns_per_tick, l.slew_ns, l.slew_ticks};
    return read;
}

/* Both lines are loaded while the index of the current one is read. */
static __device__ long long time_at(const clock_page *clock, long long timer) {
    const int current = clock->current;
    const line first = read_line(clock->lines[0]), second = read_line(clock->lines[1]);
    return time_on(current ? second : first, timer);
}

/* The timer is read first, so that the following instructions do not count. */
extern "C" __global__ void aorta_stamp(stamp_args a) {
    long long now = device_timer(), time = time_at(a.clock, now);
    for (int i = 0; i < 4; i++) {
        if (a.slots[i]) *a.slots[i] = time;
    }
}

struct clock_set_args { clock_page *clock; line next; };

/* Writes the line that is not in use, then makes it the current one. */
extern "C" __global__ void aorta_clock_set(clock_set_args a) {
    int next = 1 - (a.clock->current & 1);
    volatile line *l = &a.clock->lines[next];
    l->timer = a.next.timer;
    l->host_ns = a.next.host_ns;
    l->ns_per_tick = a.next.ns_per_tick;
    l->slew_ns = a.next.slew_ns;
    l->slew_ticks = a.next.slew_ticks;
    __threadfence();
    a.clock->current = next;
}

struct mailbox { volatile int request, answer; long long tick; volatile long long timers[9]; };
struct clock_ping_args { mailbox *box; };

/* Answers the host's pings with the timer; ends on its own when the host sends no more. */
extern "C" __global__ void aorta_clock_ping(clock_ping_args a) {
    long long last = device_timer(), tick = 0;
    for (int i = 0, changes = 0; i < 4096 && changes < 16; i++) {
        long long now = device_timer();
        if (now == last) continue;
        if (tick == 0 || now - last < tick) tick = now - last;
        last = now;
        changes++;
    }
    a.box->tick = tick;
    for (int ping = 1; ping <= 8; ping++) {
        long long polls = 0;
        while (a.box->request >= 0 && a.box->request < ping && polls < 200000) polls++;
        if (a.box->request < ping) return;
        a.box->timers[ping] = device_timer();
        __threadfence_system();
        a.box->answer = ping;
    }
}
