/* Tests of the program run in a folder of their own, where links lead to the program and to the data: what they type,
 * and how messages wrap, does not depend on the path of the source or of the build. */
#ifndef AORTA_TESTS_CLI_PLACE_H
#define AORTA_TESTS_CLI_PLACE_H

/* Fixtures of a group or of a test. */
int place_enter(void **state);
int place_leave(void **state);

#endif
