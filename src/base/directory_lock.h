/* One job at a time writes into a directory. The lock is the system's (flock) on the file ".aorta.lock", which names
 * its holder; it ends with the process, however that ends. File systems without locks have none, and no error.
 * A program that the holder runs is part of its job, and takes no lock. */
#ifndef AORTA_BASE_DIRECTORY_LOCK_H
#define AORTA_BASE_DIRECTORY_LOCK_H

#include "base/status.h"

struct aorta_directory_lock;
/* Makes the directory where it does not exist. AORTA_CONFIG names `key` and the holder; AORTA_IO; AORTA_MEMORY. *lock
 * is NULL where the file system has no locks, or a parent has this one. */
AORTA_MUST_USE aorta_status aorta_directory_lock(const char *directory, const char *key,
                                                 struct aorta_directory_lock **lock);
/* Removes the file, and a directory that was made for it and is still empty. NULL is fine. */
void aorta_directory_unlock(struct aorta_directory_lock *lock);

#endif
