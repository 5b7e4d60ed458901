/* The driver's own kernels, of driver.cu. */
#include "device/gpu/clock.h"

extern const struct aorta_gpu_source aorta_source_driver;

const struct aorta_gpu_entry aorta_gpu_stamp = {&aorta_source_driver, "aorta_stamp"};
const struct aorta_gpu_entry aorta_gpu_clock_set = {&aorta_source_driver, "aorta_clock_set"};
const struct aorta_gpu_entry aorta_gpu_clock_ping = {&aorta_source_driver, "aorta_clock_ping"};
