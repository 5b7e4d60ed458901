/* Makes the emulated GPU of tests/ops look like AMD's: the linker (--wrap) redirects queries of the device here. */
#include "device/device.h"

/* NOLINTBEGIN(bugprone-reserved-identifier): so ld's --wrap calls them. */
const struct aorta_device_info *__real_aorta_device_get_info(const struct aorta_device *device);
const struct aorta_device_info *__wrap_aorta_device_get_info(const struct aorta_device *device);
/* NOLINTEND(bugprone-reserved-identifier) */

const struct aorta_device_info *__wrap_aorta_device_get_info(const struct aorta_device *device) {
    static _Thread_local struct aorta_device_info info;
    info = *__real_aorta_device_get_info(device);
    info.kind = AORTA_DEVICE_HIP;
    return &info;
}
