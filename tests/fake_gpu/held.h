/* What the fake's context holds, as a driver's does: modules and events. Who gives a device up leaves them to the end
 * of the process, and the leak checker finds them here. Once the context is released it finds what was forgotten. */
#ifndef AORTA_TESTS_FAKE_GPU_HELD_H
#define AORTA_TESTS_FAKE_GPU_HELD_H

void fake_hold(void *thing);
void fake_let_go(const void *thing);
/* Forgets all that is still held: the context ends. */
void fake_held_end(void);

#endif
