#include "measure/clocks.h"
#include "base/clock.h"
#include "base/thread.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double low_share = 0.97;
/* A limit for less of the time cannot explain a median. */
static const double little = 0.01;
/* Drivers update their counters only now and then, so shorter differences mean little. */
static const double shortest_ms = 200;

static const char unreported[] = "the driver does not report it of this device";

/* Text and meaning of each of the driver's limits. */
static const struct {
    const char *name, *words, *meaning;
} limits[AORTA_CLOCK_LIMITS] = {
    [AORTA_CLOCK_POWER_CAP] = {"power_cap", "at the power limit",
                               "kernels side by side share the power and slow down, so hiding communication gains less "
                               "than its exposed time"},
    [AORTA_CLOCK_SW_THERMAL] = {"sw_thermal", "slowed down by the driver for heat",
                                "better cooling gives the time back (nvidia-smi -q -d TEMPERATURE)"},
    [AORTA_CLOCK_HW_THERMAL] = {"hw_thermal", "slowed down by the hardware for heat",
                                "its cooling fails (nvidia-smi -q -d TEMPERATURE)"},
    [AORTA_CLOCK_POWER_BRAKE] = {"power_brake", "limited by the machine's power brake",
                                 "the machine's power supply is the limit, not the program"},
    [AORTA_CLOCK_HW_SLOWDOWN] = {"hw_slowdown", "slowed down by the hardware",
                                 "for heat, by the machine's power brake or for power drawn too fast (nvidia-smi -q -d "
                                 "PERFORMANCE)"},
    [AORTA_CLOCK_APPLICATIONS] = {"applications_clocks", "limited by applications clocks that somebody set",
                                  "nvidia-smi -q -d CLOCK shows them, nvidia-smi -rac resets them"},
    [AORTA_CLOCK_SYNC_BOOST] = {"sync_boost", "equal to the slowest device of its sync boost group",
                                "that device is the one to look at"},
    [AORTA_CLOCK_DISPLAY] = {"display", "limited by the display's clock setting",
                             "a device without a display has no such limit"},
    [AORTA_CLOCK_IDLE] = {"idle", "let down because little ran", "a busier device would be faster"},
};

void aorta_clock_limits_json(const struct aorta_device_metrics *values, struct aorta_json *json) {
    if (!values->clock_limits_known) {
        aorta_json_null(json);
        return;
    }
    aorta_json_array(json);
    for (int i = 0; i < AORTA_CLOCK_LIMITS; i++)
        if (values->clock_limits >> i & 1) aorta_json_string(json, limits[i].name);
    aorta_json_array_end(json);
}

#define AT(member) offsetof(struct aorta_device_metrics, member)
#define MISSING .reason = unreported

const struct aorta_row aorta_clock_metrics_rows[] = {
    {"sm_clock_mhz", AORTA_ROW_NUMBER, AT(sm_clock_mhz), "MHz", MISSING, .high = 1e6, .help = "now"},
    {"sm_clock_max_mhz", AORTA_ROW_NUMBER, AT(sm_clock_max_mhz), "MHz", MISSING, .high = 1e6,
     .help = "the highest there is"},
    {"power_w", AORTA_ROW_NUMBER, AT(power_w), "W", MISSING, .high = 1e6, .help = "drawn now"},
    {"power_limit_w", AORTA_ROW_NUMBER, AT(power_limit_w), "W", MISSING, .high = 1e6,
     .help = "the limit that is enforced"},
    {"power_capped_ms", AORTA_ROW_NUMBER, AT(power_capped_ms), "ms", MISSING, .high = 1e13,
     .help = "since the driver was loaded, at the power limit"},
    {"thermal_capped_ms", AORTA_ROW_NUMBER, AT(thermal_capped_ms), "ms", MISSING, .high = 1e13,
     .help = "since then, slowed down for the heat"},
    {0}};

#undef AT
#undef MISSING

/* An unknown limit, from a newer program, makes only the reading's limits unknown. */
aorta_status aorta_clock_limits_read(struct aorta_rows_reader *reader, const struct aorta_json_value *list,
                                     const char *where, struct aorta_device_metrics *values) {
    struct aorta_json_value item;
    const char *name = NULL;
    size_t count;
    values->clock_limits_known = list && *list->text == '[';
    if (!list || aorta_json_key_is(*list, "null")) return NULL;
    if (!values->clock_limits_known) return AORTA_ERROR(AORTA_FORMAT, "%s is not an array", where);
    AORTA_TRY(aorta_annotate(aorta_elements_count(reader->line, *list, &count), "%s", where));
    struct aorta_json_cursor cursor = aorta_json_elements(*list);
    for (size_t i = 0; aorta_json_next_element(&cursor, &item); i++) {
        if (!aorta_json_is_string(item)) return AORTA_ERROR(AORTA_FORMAT, "%s[%zu] is not a string", where, i);
        AORTA_TRY(aorta_rows_keep(reader, item, where, &name));
        int limit = 0;
        while (limit < AORTA_CLOCK_LIMITS && strcmp(limits[limit].name, name) != 0) limit++;
        if (limit == AORTA_CLOCK_LIMITS)
            values->clock_limits_known = false;
        else
            values->clock_limits |= 1U << limit;
    }
    return NULL;
}

/* ---- from readings ---- */

/* The share of time that a counter advanced between its first and last reading. NAN if it does not exist, or the time
 * is too short. */
static double counted_share(const struct aorta_clock_sample *samples, size_t count, bool heat, double *counted_ms) {
    const struct aorta_clock_sample *first = NULL, *last = NULL;
    double from = NAN, to = NAN;
    for (size_t i = 0; i < count; i++) {
        double now = heat ? samples[i].values->thermal_capped_ms : samples[i].values->power_capped_ms;
        if (isnan(now)) continue;
        if (!first) first = &samples[i], from = now;
        last = &samples[i], to = now;
    }
    double passed_ms = first ? (double)(last->at_ns - first->at_ns) / 1e6 : 0;
    if (passed_ms < shortest_ms || to < from) return NAN;
    *counted_ms = passed_ms;
    double share = (to - from) / passed_ms;
    return share > 1 ? 1 : share; /* both are read one after the other */
}

static void count_limits(struct aorta_clocks *clocks, const struct aorta_device_metrics *values) {
    if (!values->clock_limits_known) return;
    clocks->limit_readings++;
    for (int i = 0; i < AORTA_CLOCK_LIMITS; i++) clocks->limited[i] += values->clock_limits >> i & 1;
}

static void take_sample(struct aorta_clocks *clocks, const struct aorta_device_metrics *values, double *mhz,
                        double *watts) {
    if (!isnan(values->sm_clock_max_mhz)) clocks->max_mhz = values->sm_clock_max_mhz;
    if (!isnan(values->power_limit_w)) clocks->power_limit_w = values->power_limit_w;
    if (isnan(values->sm_clock_mhz)) return;
    if (!clocks->readings) clocks->first_mhz = values->sm_clock_mhz;
    clocks->last_mhz = values->sm_clock_mhz;
    watts[clocks->readings] = values->power_w;
    mhz[clocks->readings++] = values->sm_clock_mhz;
    count_limits(clocks, values);
}

aorta_status aorta_clocks_make(const struct aorta_clock_sample *samples, size_t count, struct aorta_clocks *clocks) {
    *clocks = (struct aorta_clocks){
        .first_mhz = NAN, .last_mhz = NAN, .max_mhz = NAN, .power_w = NAN, .power_limit_w = NAN, .counted_ms = NAN};
    double *values = calloc(2 * count + 1, sizeof *values);
    if (!values) return AORTA_ERROR(AORTA_MEMORY, "no host memory for %zu readings of the clock", count);
    for (size_t i = 0; i < count; i++)
        if (samples[i].working) take_sample(clocks, samples[i].values, values, values + count);
    clocks->mhz = aorta_summarise(values, clocks->readings);
    clocks->power_w = aorta_summarise(values + count, clocks->readings).p50;
    free(values);
    clocks->thermal_share = counted_share(samples, count, true, &clocks->counted_ms);
    clocks->power_share = counted_share(samples, count, false, &clocks->counted_ms);
    if (isnan(clocks->max_mhz)) clocks->max_reason = unreported;
    if (isnan(clocks->power_w)) clocks->power_reason = unreported;
    if (isnan(clocks->power_limit_w)) clocks->power_limit_reason = unreported;
    if (isnan(clocks->counted_ms))
        clocks->counted_reason = "the driver does not count, or there is less than 0.2 s between the readings";
    if (clocks->readings) return NULL;
    const char *reason = count ? samples[count - 1].values->reason : "";
    snprintf(clocks->reason, sizeof clocks->reason, "%s",
             *reason ? reason : "the clock was not read while measured work ran");
    return NULL;
}

double aorta_clocks_share(const struct aorta_clocks *clocks) {
    return clocks->mhz.p50 / clocks->max_mhz;
}

bool aorta_clocks_low(const struct aorta_clocks *clocks) {
    return aorta_clocks_share(clocks) < low_share;
}

/* ---- what limits ---- */

struct cause {
    enum aorta_clock_limit limit; /* AORTA_CLOCK_LIMITS: unknown */
    double share;                 /* of the time or of the readings; NaN: neither says */
    bool counted;                 /* of the time */
};

/* The driver's counter for this limit, or NAN. One counter covers both thermal limits; it is attributed to the limit
 * with more readings. */
static double counter_of(const struct aorta_clocks *clocks, enum aorta_clock_limit limit) {
    if (limit == AORTA_CLOCK_POWER_CAP) return clocks->power_share;
    enum aorta_clock_limit heat = clocks->limited[AORTA_CLOCK_HW_THERMAL] > clocks->limited[AORTA_CLOCK_SW_THERMAL]
                                      ? AORTA_CLOCK_HW_THERMAL
                                      : AORTA_CLOCK_SW_THERMAL;
    return limit == heat ? clocks->thermal_share : NAN;
}

/* Uses the counter's share of time rather than the share of readings, unless the counter is 0 although readings have
 * the limit. */
static struct cause cause_of(const struct aorta_clocks *clocks, enum aorta_clock_limit limit) {
    struct cause cause = {limit, counter_of(clocks, limit), true};
    if (cause.share > 0 || (!isnan(cause.share) && !clocks->limited[limit])) return cause;
    return (struct cause){
        limit, clocks->limit_readings ? (double)clocks->limited[limit] / (double)clocks->limit_readings : NAN, false};
}

static struct cause main_cause(const struct aorta_clocks *clocks) {
    struct cause main = {AORTA_CLOCK_LIMITS, little, false};
    for (int i = 0; i < AORTA_CLOCK_LIMITS; i++) {
        struct cause cause = cause_of(clocks, (enum aorta_clock_limit)i);
        if (cause.share > main.share) main = cause;
    }
    return main;
}

bool aorta_clocks_at_power_limit(const struct aorta_clocks *clocks) {
    const struct cause cause = main_cause(clocks);
    return aorta_clocks_low(clocks) && cause.limit == AORTA_CLOCK_POWER_CAP && cause.share > 0.5;
}

/* ---- in words ---- */

void aorta_clocks_figures(const struct aorta_clocks *clocks, struct aorta_text *out) {
    aorta_text_printf(out, "%.0f of %.0f MHz (%.0f%%)", clocks->mhz.p50, clocks->max_mhz,
                      100 * aorta_clocks_share(clocks));
}

/* Drivers report power as a mean of up to a second, which for a short run includes time before the run. So a value far
 * from the limit is not shown. */
static void say_power(const struct aorta_clocks *clocks, struct aorta_text *out) {
    if (clocks->power_w >= 0.9 * clocks->power_limit_w)
        aorta_text_printf(out, " (%.0f of %.0f W)", clocks->power_w, clocks->power_limit_w);
    else if (clocks->power_limit_w > 0)
        aorta_text_printf(out, " (%.0f W)", clocks->power_limit_w);
}

bool aorta_clocks_why(const struct aorta_clocks *clocks, struct aorta_text *out) {
    const struct cause cause = main_cause(clocks);
    if (cause.limit == AORTA_CLOCK_LIMITS) return false;
    aorta_text_puts(out, limits[cause.limit].words);
    if (cause.limit == AORTA_CLOCK_POWER_CAP) say_power(clocks, out);
    if (cause.counted)
        aorta_text_printf(out, " %.0f%% of the time", 100 * cause.share);
    else
        aorta_text_printf(out, " in %zu of %zu readings", clocks->limited[cause.limit], clocks->limit_readings);
    return true;
}

void aorta_clocks_cause(const struct aorta_clocks *clocks, struct aorta_text *out) {
    if (aorta_clocks_why(clocks, out))
        aorta_text_printf(out, ": %s", limits[main_cause(clocks).limit].meaning);
    else if (clocks->limit_readings)
        aorta_text_puts(out, "the driver names no reason: the clock may be locked (nvidia-smi -q -d CLOCK shows it, "
                             "nvidia-smi -rgc resets it)");
    else
        aorta_text_puts(out, "the driver does not report why");
}

void aorta_clocks_sentence(const struct aorta_clocks *clocks, struct aorta_text *out) {
    aorta_clocks_figures(clocks, out);
    aorta_text_puts(out, ": ");
    aorta_clocks_cause(clocks, out);
}

/* ---- as JSON ---- */

/* Each limit of the clock, and how much of the time, or of the readings. */
struct limit_values {
    const char *limit, *of;
    double share;
};

#define AT(member) offsetof(struct limit_values, member)
static const struct aorta_row limit_rows[] = {
    {"limit", AORTA_ROW_TEXT, AT(limit), .help = "what limits the clock"},
    {"share", AORTA_ROW_NUMBER, AT(share), "share", 4, .help = "how much of it"},
    {"of", AORTA_ROW_TEXT, AT(of), .help = "`time`, by the driver's counters, or `readings`"},
    {0}};
#undef AT

static enum aorta_line fill_limit(const void *of, size_t index, void *values) {
    if (index >= AORTA_CLOCK_LIMITS) return AORTA_LINE_END;
    const struct cause cause = cause_of(of, (enum aorta_clock_limit)index);
    *(struct limit_values *)values =
        (struct limit_values){limits[index].name, cause.counted ? "time" : "readings", cause.share};
    return cause.share > 0 ? AORTA_LINE : AORTA_LINE_SKIP;
}

AORTA_TABLE(aorta_clocks_limits, "limited_by", .help = "why the clock was no higher",
            AORTA_LINES(limit_rows, struct limit_values, fill_limit));

static void write_text(const struct aorta_clocks *clocks, struct aorta_json *json) {
    struct aorta_text text = {0};
    if (aorta_clocks_low(clocks)) aorta_clocks_sentence(clocks, &text);
    aorta_json_key_string(json, "text", text.data); /* null if the clock is not low */
    aorta_text_end(&text, json->out);
}

#define AT(member) offsetof(struct aorta_summary, member)
static const struct aorta_row mhz_rows[] = {{"p50", AORTA_ROW_NUMBER, AT(p50), "MHz", .help = "the median"},
                                            {"min", AORTA_ROW_NUMBER, AT(min), "MHz", .help = "the lowest"},
                                            {"max", AORTA_ROW_NUMBER, AT(max), "MHz", .help = "the highest"},
                                            {0}};
#undef AT
#define AT(member) offsetof(struct aorta_clocks, member)
const struct aorta_row aorta_clocks_member_rows[] = {
    {"readings", AORTA_ROW_NATURAL, AT(readings), .help = "while the device worked"},
    {"sm_clock_mhz", AORTA_ROW_PART, AT(mhz), .part = mhz_rows},
    {"sm_clock_max_mhz", AORTA_ROW_NUMBER, AT(max_mhz), "MHz", .help = "the highest that the device reaches"},
    {"sm_clock_max_reason", AORTA_ROW_TEXT, AT(max_reason), .help = "why it is null", .omit = true},
    {"power_w", AORTA_ROW_NUMBER, AT(power_w), "W", .help = "the median"},
    {"power_reason", AORTA_ROW_TEXT, AT(power_reason), .help = "why it is null", .omit = true},
    {"power_limit_w", AORTA_ROW_NUMBER, AT(power_limit_w), "W", .help = "of the board"},
    {"power_limit_reason", AORTA_ROW_TEXT, AT(power_limit_reason), .help = "why it is null", .omit = true},
    {"counted_ms", AORTA_ROW_NUMBER, AT(counted_ms), "ms", .help = "that the driver's counters cover"},
    {"counted_reason", AORTA_ROW_TEXT, AT(counted_reason), .help = "why it is null", .omit = true},
    {0}};

void aorta_clocks_json(const struct aorta_clocks *clocks, struct aorta_json *json) {
    if (!clocks->readings) {
        aorta_json_key_null(json, "clocks");
        aorta_json_key_string(json, "clocks_reason", clocks->reason);
        return;
    }
    aorta_json_key_object(json, "clocks");
    aorta_rows_json(aorta_clocks_member_rows, clocks, 0, json);
    if (clocks->limit_readings || !isnan(clocks->counted_ms)) {
        aorta_table_json(&aorta_clocks_limits, clocks, json);
    } else {
        aorta_json_key_null(json, "limited_by");
        aorta_json_key_string(json, "limited_by_reason", "the driver does not report why a clock is low");
    }
    write_text(clocks, json);
    aorta_json_object_end(json);
}

static const int64_t long_ns = 200000, settle_ns = 500000000;

struct aorta_sampler {
    struct aorta_device *device;
    int64_t rarely;
    bool running; /* there is a thread */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct aorta_device_metrics last;
    int64_t last_ns, took_ns; /* end and duration of the last reading */
    int64_t asked;            /* since then */
    bool wanted, reading, ending;
    bool silent; /* the device reports nothing: the thread has ended, or was not needed */
};

static void take_reading(struct aorta_sampler *sampler) {
    pthread_mutex_lock(&sampler->lock);
    sampler->wanted = false;
    sampler->reading = true;
    sampler->asked = 0;
    pthread_mutex_unlock(&sampler->lock);
    int64_t start_ns = aorta_clock_ns();
    struct aorta_device_metrics metrics = aorta_device_measure(sampler->device);
    int64_t end_ns = aorta_clock_ns();
    pthread_mutex_lock(&sampler->lock);
    sampler->last = metrics;
    sampler->last_ns = end_ns;
    sampler->took_ns = end_ns - start_ns;
    sampler->reading = false;
    sampler->silent = !aorta_device_measured(&metrics);
    pthread_cond_broadcast(&sampler->changed);
    pthread_mutex_unlock(&sampler->lock);
}

static bool wait_for_work(struct aorta_sampler *sampler) {
    pthread_mutex_lock(&sampler->lock);
    while (!sampler->wanted && !sampler->ending) pthread_cond_wait(&sampler->changed, &sampler->lock);
    bool ending = sampler->ending;
    pthread_mutex_unlock(&sampler->lock);
    return !ending;
}

/* The first reading also opens the library. The second measures how long a reading takes. */
static void take_first_readings(struct aorta_sampler *sampler) {
    take_reading(sampler);
    if (!sampler->silent) take_reading(sampler);
}

static void *work(void *user) {
    struct aorta_sampler *sampler = user;
    pthread_setname_np(pthread_self(), "metrics");
    if (!sampler->last_ns) take_first_readings(sampler);
    while (!sampler->silent && wait_for_work(sampler)) take_reading(sampler);
    return NULL;
}

aorta_status aorta_sampler_open(struct aorta_device *device, bool at_once, int64_t rarely, struct aorta_sampler **out) {
    *out = NULL;
    struct aorta_sampler *sampler = calloc(1, sizeof *sampler);
    if (!sampler) return AORTA_ERROR(AORTA_MEMORY, "no host memory for the device's metrics");
    sampler->device = device, sampler->rarely = rarely;
    pthread_mutex_init(&sampler->lock, NULL);
    aorta_cond_init(&sampler->changed);
    if (at_once) take_first_readings(sampler);
    bool needed = !sampler->silent; /* read before the thread starts, which may change `silent` */
    sampler->wanted = !at_once;
    int error = needed ? aorta_thread_start(&sampler->thread, work, sampler) : 0;
    sampler->running = needed && !error;
    if (error) {
        aorta_sampler_close(sampler);
        return AORTA_ERROR(AORTA_DEVICE, "the thread that reads the device's metrics cannot be started: %s",
                           strerror(error));
    }
    *out = sampler;
    return NULL;
}

void aorta_sampler_close(struct aorta_sampler *sampler) {
    if (!sampler) return;
    if (sampler->running) {
        pthread_mutex_lock(&sampler->lock);
        sampler->ending = true;
        pthread_cond_broadcast(&sampler->changed);
        pthread_mutex_unlock(&sampler->lock);
        pthread_join(sampler->thread, NULL);
    }
    pthread_cond_destroy(&sampler->changed);
    pthread_mutex_destroy(&sampler->lock);
    free(sampler);
}

void aorta_sampler_ask(struct aorta_sampler *sampler, enum aorta_ask ask) {
    if (!sampler->running) return;
    pthread_mutex_lock(&sampler->lock);
    sampler->asked++;
    if (ask == AORTA_ASK_ALWAYS || sampler->took_ns <= long_ns || sampler->asked >= sampler->rarely) {
        sampler->wanted = true;
        pthread_cond_broadcast(&sampler->changed);
    }
    pthread_mutex_unlock(&sampler->lock);
}

void aorta_sampler_drain(struct aorta_sampler *sampler) {
    const int64_t until_ns = aorta_clock_ns() + settle_ns;
    int timed_out = 0;
    if (!sampler->running) return;
    pthread_mutex_lock(&sampler->lock);
    while (!timed_out && !sampler->silent && (sampler->wanted || sampler->reading))
        timed_out = aorta_cond_wait_until(&sampler->changed, &sampler->lock, until_ns);
    pthread_mutex_unlock(&sampler->lock);
}

struct aorta_device_reading aorta_sampler_latest(struct aorta_sampler *sampler) {
    pthread_mutex_lock(&sampler->lock);
    struct aorta_device_reading reading = {.wanted = true,
                                           .values = sampler->last,
                                           .age_ms = (double)(aorta_clock_ns() - sampler->last_ns) / 1e6,
                                           .read_ms = (double)sampler->took_ns / 1e6,
                                           .at_ns = sampler->last_ns};
    pthread_mutex_unlock(&sampler->lock);
    return reading;
}
