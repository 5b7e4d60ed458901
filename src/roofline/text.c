/* The roofline in words. */
#include "base/statistics.h"
#include "roofline/roofline_internal.h"

#include <math.h>

enum { PARTS_SHOWN = 3 };
static const double SHOWN = 0.05;   /* of the step: smaller parts are not named */
static const double MOST = 1.05;    /* … and of larger ones no share */
static const double COVERED = 0.95; /* of a part's time: below, the share is named; */
static const double RATED = 0.2;    /* and below this the rate is not, as it would be that of a few */

static const struct {
    const char *one, *many;
} plain_names[AORTA_WORK_CLASS_COUNT] = {
    {"GEMM", "GEMMs"},
    {"kernel of convolutions", "kernels of convolutions"},
    {"attention kernel", "attention kernels"},
    {"pointwise kernel", "pointwise kernels"},
    {"reduction", "reductions"},
    {"other kernel", "other kernels"},
};

bool aorta_roofline_share_rated(double covered) {
    return covered >= RATED;
}

bool aorta_roofline_rated(const struct aorta_roofline_class *class) {
    return aorta_roofline_share_rated(aorta_roofline_covered(class));
}

static void say_rate(const struct aorta_roofline_class *class, bool memory, struct aorta_text *out) {
    if (memory)
        aorta_text_printf(out, "%s GB/s", aorta_brief(aorta_roofline_gbytes_per_s(class)).text);
    else if (aorta_roofline_tflops(class) < 1)
        aorta_text_printf(out, "%s GFLOP/s", aorta_brief(1e3 * aorta_roofline_tflops(class)).text);
    else
        aorta_text_printf(out, "%s TFLOP/s", aorta_brief(aorta_roofline_tflops(class)).text);
    if (!memory && class->arithmetic != AORTA_ARITHMETIC_UNKNOWN)
        aorta_text_printf(out, " in %s", aorta_arithmetic_name(class->arithmetic));
}

/* Where the peaks are not known: products and their like by arithmetic, the rest by bytes. */
static bool is_about_memory(const struct aorta_roofline_class *class) {
    const enum aorta_bound bound = aorta_roofline_bound(class);
    return bound == AORTA_BOUND_NOT_KNOWN ? !(class->flops > 0) : bound == AORTA_BOUND_MEMORY;
}

/* Pointwise kernels that memory holds back, or that are too short to fill the device, are better one than many. */
static void say_fuse(const struct aorta_roofline_class *class, double share, struct aorta_text *out) {
    static const double fills = 0.4, short_us = 10;
    const double us = (double)class->ns / 1e3 / (double)class->kernels;
    if (share > fills)
        aorta_text_puts(out, ", bound by memory: fuse them");
    else if (us < short_us)
        aorta_text_printf(out, ", %s us each: fuse them", aorta_brief(us).text);
}

static void say_bound(const struct aorta_roofline *roofline, enum aorta_work_class number, struct aorta_text *out) {
    const struct aorta_roofline_class *class = &roofline->classes[number];
    const bool memory = is_about_memory(class);
    const double share = aorta_roofline_share(class);
    const bool rate = !isnan(memory ? aorta_roofline_gbytes_per_s(class) : aorta_roofline_tflops(class));
    if (!rate && isnan(share)) return;
    aorta_text_puts(out, " at ");
    if (roofline->lower_bound) aorta_text_puts(out, "at least ");
    if (!isnan(share)) aorta_text_printf(out, "%.0f%% of %s", 100 * share, memory ? "the memory's bandwidth" : "peak");
    if (rate && !isnan(share)) aorta_text_puts(out, " (");
    if (rate) say_rate(class, memory, out);
    if (rate && !isnan(share)) aorta_text_puts(out, ")");
    if (share > 1)
        aorta_text_puts(out,
                        memory ? ", more than memory delivers: a cache does" : ", so in another type than recorded");
    else if (number == AORTA_WORK_POINTWISE)
        say_fuse(class, share, out);
}

/* What the shares are of. */
struct whole {
    double ns; /* of all steps */
    const char *words;
};

static void say_class(const struct aorta_roofline *roofline, enum aorta_work_class number, const struct whole *whole,
                      bool first, struct aorta_text *out) {
    const struct aorta_roofline_class *class = &roofline->classes[number];
    const double count = (double)class->kernels / (double)roofline->steps, covered = aorta_roofline_covered(class);
    const double rounded = round(count) > 1 ? round(count) : 1;
    const double share = (double)class->ns / whole->ns;
    if (share <= MOST) {
        aorta_text_printf(out, "%s%.0f%%", first ? "" : "; ", 100 * share);
        if (first) aorta_text_printf(out, " of %s", whole->words);
        aorta_text_puts(out, " is");
    } else /* kernels of several streams side by side, or of steps unlike those that the whole is of */
        aorta_text_printf(out, "%s%s ms are", first ? "" : "; ",
                          aorta_brief((double)class->ns / 1e6 / (double)roofline->steps).text);
    aorta_text_printf(out, " %.0f %s", rounded, rounded > 1 ? plain_names[number].many : plain_names[number].one);
    if (!class->covered_ns) {
        if (number != AORTA_WORK_OTHER) aorta_text_puts(out, " of unknown shapes");
        return;
    }
    if (!aorta_roofline_rated(class)) {
        aorta_text_puts(out, " of mostly unknown shapes");
        return;
    }
    say_bound(roofline, number, out);
    if (covered < COVERED) aorta_text_printf(out, " (shapes known of %.0f%% of their time)", 100 * covered);
}

/* Classes by their time, largest first. Returns how many deserve to be named. */
static int order_classes(const struct aorta_roofline *roofline, double whole_ns,
                         enum aorta_work_class order[AORTA_WORK_CLASS_COUNT]) {
    int count = 0;
    for (int i = 0; i < AORTA_WORK_CLASS_COUNT; i++) {
        int place = count;
        if ((double)roofline->classes[i].ns < SHOWN * whole_ns || !roofline->classes[i].ns) continue;
        for (; place > 0 && roofline->classes[order[place - 1]].ns < roofline->classes[i].ns; place--)
            order[place] = order[place - 1];
        order[place] = (enum aorta_work_class)i;
        count++;
    }
    return count < PARTS_SHOWN ? count : PARTS_SHOWN;
}

bool aorta_roofline_say(const struct aorta_roofline *roofline, double whole_ms, const char *words,
                        struct aorta_text *out) {
    enum aorta_work_class order[AORTA_WORK_CLASS_COUNT];
    const struct whole whole = {1e6 * whole_ms * (double)roofline->steps, words};
    const int count = whole.ns > 0 ? order_classes(roofline, whole.ns, order) : 0;
    bool any = false;
    for (int i = 0; i < count; i++) any |= roofline->classes[order[i]].covered_ns > 0;
    for (int i = 0; any && i < count; i++) say_class(roofline, order[i], &whole, i == 0, out);
    return any;
}

void aorta_roofline_say_mfu(const struct aorta_roofline *roofline, struct aorta_text *out) {
    double covered;
    const double mfu = aorta_roofline_mfu(roofline, &covered);
    if (isnan(mfu) || (!isnan(covered) && !aorta_roofline_share_rated(covered))) return;
    aorta_text_printf(out, "; MFU %s%.3g%%", covered < COVERED || roofline->lower_bound ? "at least " : "", 100 * mfu);
}
