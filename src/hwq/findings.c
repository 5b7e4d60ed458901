#include "hwq/findings.h"

#define DRIFT "iterations become "
#define QUARTERS ": {first_quarter} in the first quarter, {last_quarter} in the last ({drift})"
#define TOGETHER "time of the product {product_change}, of the copy {copy_change}"
#define PART "{streams:stream} of {priority} priority: {queues:queue}[, up to {most_streams} streams on one]"
#define LARGEST "{workload} on {streams:stream} {before} -> {after} ({change})"
#define PEAK "{workload}: highest throughput with {peak_streams:stream}, {throughput}; throughput per stream "
#define USED "Queues: {streams:stream} used "
#define BUSY ", busy {busy%} of {span}"
const struct aorta_found_row aorta_hwq_finding_rows[] = {
#define FINDING(name, kind, key, advice, template) [AORTA_HWQ_##name] = {AORTA_FOUND_##kind, key, advice, template},
#include "hwq/findings.def"
#undef FINDING
};
