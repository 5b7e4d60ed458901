/* From where to where a copy goes, as its name says. */
#ifndef AORTA_TRACE_COPIED_H
#define AORTA_TRACE_COPIED_H

enum aorta_copied {
    AORTA_COPIED_TO_DEVICE,
    AORTA_COPIED_TO_HOST,
    AORTA_COPIED_WITHIN,  /* the device */
    AORTA_COPIED_BETWEEN, /* devices; in a series also copies of an unknown direction */
    AORTA_COPIED_FILLED,
    AORTA_COPIED_COUNT,
    AORTA_COPIED_UNKNOWN = AORTA_COPIED_COUNT /* the name does not say */
};

/* Reads the names of CUPTI ("Memcpy HtoD"), Kineto ("Memcpy DtoH (Device -> Pinned)", also without the letters),
 * rocprofv3 and HIP. Never FILLED. */
enum aorta_copied aorta_copied_how(const char *name);

#endif
