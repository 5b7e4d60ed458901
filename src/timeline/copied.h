/* From where to where a copy goes, as its name says. */
#ifndef AORTA_TIMELINE_COPIED_H
#define AORTA_TIMELINE_COPIED_H

enum aorta_copied {
    AORTA_COPIED_TO_DEVICE,
    AORTA_COPIED_TO_HOST,
    AORTA_COPIED_WITHIN,  /* the device */
    AORTA_COPIED_BETWEEN, /* devices, or from where to where is not known */
    AORTA_COPIED_FILLED,
    AORTA_COPIED_COUNT
};

/* Of CUPTI's names ("Memcpy HtoD"), Kineto's ("Memcpy DtoH (Device -> Pinned)", also without the letters), rocprofv3's
 * and HIP's; never FILLED. */
enum aorta_copied aorta_copied_how(const char *name);

#endif
