/* A device's clock during work, its ratio to the maximum, and what limits it. Definitions: docs/metrics.md. */
#ifndef AORTA_MEASURE_CLOCKS_H
#define AORTA_MEASURE_CLOCKS_H

#include "base/result_table.h"
#include "base/statistics.h"
#include "base/status.h"
#include "device/device.h"
#include "device/inventory.h"

/* Reads a device's temperature, power, clocks, load and memory (device/inventory.h) during the work, on its own thread:
 * a reading takes from ten microseconds to some milliseconds, which must not delay the next step's launch. Readings
 * that take longer than 0.2 ms are made less often, since the driver is shared. */

/* A reading of the device by the management library. */
struct aorta_device_reading {
    bool wanted;                        /* false: its key is omitted */
    struct aorta_device_metrics values; /* all NaN: the key is null, with `values.reason` */
    double age_ms;                      /* time since its end */
    double read_ms;                     /* duration */
    int64_t at_ns;                      /* host time at which it was complete */
};

struct aorta_sampler;

/* `at_once`: takes the first reading, which opens the library, before it returns; else the thread takes it. `rarely`:
 * number of requests per reading if readings take long. Close the sampler before the device. */
AORTA_MUST_USE aorta_status aorta_sampler_open(struct aorta_device *device, bool at_once, int64_t rarely,
                                               struct aorta_sampler **sampler);
void aorta_sampler_close(struct aorta_sampler *sampler); /* NULL is fine */
/* If readings take long, AORTA_ASK_IF_QUICK counts only towards `rarely`. */
enum aorta_ask { AORTA_ASK_IF_QUICK, AORTA_ASK_ALWAYS };
/* Asks for a reading that begins from now on; returns at once. */
void aorta_sampler_ask(struct aorta_sampler *sampler, enum aorta_ask ask);
/* Waits for the requested reading, half a second at most. */
void aorta_sampler_drain(struct aorta_sampler *sampler);
/* The last complete reading, with `wanted` set. at_ns is 0 if there is none. */
struct aorta_device_reading aorta_sampler_latest(struct aorta_sampler *sampler);

/* The names of the limits, an array; null where they are not known. */
void aorta_clock_limits_json(const struct aorta_device_metrics *values, struct aorta_json *json);

/* The members of struct aorta_device_metrics that readings of clocks store in files, in addition to the array of
 * limits. */
extern const struct aorta_row aorta_clock_metrics_rows[];
/* Reads that array. NULL (no such key) and null mean unknown limits. `where` names the array in AORTA_FORMAT. */
AORTA_MUST_USE aorta_status aorta_clock_limits_read(struct aorta_rows_reader *reader,
                                                    const struct aorta_json_value *list, const char *where,
                                                    struct aorta_device_metrics *values);

/* One reading of a device. Borrowed. */
struct aorta_clock_sample {
    const struct aorta_device_metrics *values;
    int64_t at_ns; /* host time */
    bool working;  /* else only the driver's counters say something of the work */
};

/* Clocks of one device. NaN: not known. */
struct aorta_clocks {
    size_t readings;          /* of the clock, while the device worked */
    struct aorta_summary mhz; /* of those */
    double first_mhz, last_mhz;
    double max_mhz, power_w, power_limit_w; /* power: the median */
    size_t limit_readings;                  /* that report the clock's limits */
    size_t limited[AORTA_CLOCK_LIMITS];     /* of those, by each limit */
    double power_share, thermal_share;      /* of the time, by the driver's counters */
    double counted_ms;                      /* time covered by the counters */
    char reason[192];                       /* why there is no reading; else empty */
    const char *max_reason, *power_reason, *power_limit_reason, *counted_reason; /* why each is NaN; else NULL */
};

/* Samples in the order of time. */
AORTA_MUST_USE aorta_status aorta_clocks_make(const struct aorta_clock_sample *samples, size_t count,
                                              struct aorta_clocks *clocks);

/* Median over maximum. */
double aorta_clocks_share(const struct aorta_clocks *clocks);
/* The median is far below the maximum (97%), which matters to a comparison of runs. */
bool aorta_clocks_low(const struct aorta_clocks *clocks);

/* It is low, and most of the time for the power. */
bool aorta_clocks_at_power_limit(const struct aorta_clocks *clocks);

/* "1545 of 1980 MHz (78%)" */
void aorta_clocks_figures(const struct aorta_clocks *clocks, struct aorta_text *out);
/* Writes the main limit without a full stop: "at the power limit (698 of 700 W) 96% of the time". False, and nothing
 * is written, if it is unknown. */
bool aorta_clocks_why(const struct aorta_clocks *clocks, struct aorta_text *out);
/* The cause and its meaning, in any case. */
void aorta_clocks_cause(const struct aorta_clocks *clocks, struct aorta_text *out);

/* The figures and the cause: "1545 of 1980 MHz (78%): at the power limit ...". */
void aorta_clocks_sentence(const struct aorta_clocks *clocks, struct aorta_text *out);

/* Writes the object "clocks". Without readings it is null, and "clocks_reason" has the reason. */
void aorta_clocks_json(const struct aorta_clocks *clocks, struct aorta_json *json);
/* Rows and table of limits of that object, for the docs. */
extern const struct aorta_row aorta_clocks_member_rows[];
extern const struct aorta_result_table aorta_clocks_limits;

#endif
