/* The objects of the fake's context: modules and events. While the context lives, the leak checker finds them here,
 * also those of a device that was given up. Once the context is released it reports those that were forgotten. */
#ifndef AORTA_TESTS_FAKE_GPU_OBJECTS_H
#define AORTA_TESTS_FAKE_GPU_OBJECTS_H

void fake_hold(void *thing);
void fake_let_go(const void *thing);
/* Forgets all objects: the context ends. */
void fake_objects_end(void);

#endif
