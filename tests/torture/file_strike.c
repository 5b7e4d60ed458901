/* Preloaded: a file system in which a call that changes files fails, as disks, quotas, network file systems and folders
 * without permission make them: FILE_STRIKE=symbol:nth:errno[:lasting] (tests/strike.h). A write that fails has written
 * half; close reports late what an earlier write lost, and closes. Calls on what is no regular file are none of these.
 */
#include "strike.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define OVER __attribute__((visibility("default")))

static struct strike strike;

static void read_environment(void) {
    strike_read(&strike, "FILE_STRIKE");
}

/* True, and errno: this call is to fail. */
static int fails(const char *name) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const int former = errno;
    pthread_once(&once, read_environment);
    pthread_mutex_lock(&lock);
    int code = strike_check(&strike, name);
    pthread_mutex_unlock(&lock);
    errno = code ? code : former;
    return code != 0;
}

static void *next(const char *name) {
    void *symbol = dlsym(RTLD_NEXT, name);
    if (!symbol) abort();
    return symbol;
}

/* A file that is open for writing. */
static int is_written(int fd) {
    struct stat info;
    const int former = errno;
    const int flags = fcntl(fd, F_GETFL);
    const int written = flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
    errno = former;
    return written;
}

/* The next function of this name, whose type is that of `own`. */
#define CALL(own, ...)                                                                                                 \
    __extension__({                                                                                                    \
        static __typeof__(own) *real;                                                                                  \
        if (!real) {                                                                                                   \
            void *symbol = next(#own);                                                                                 \
            memcpy(&real, &symbol, sizeof real);                                                                       \
        }                                                                                                              \
        real(__VA_ARGS__);                                                                                             \
    })

OVER int open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    const bool makes = flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE;
    mode_t mode = makes ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    if (makes && fails("open")) return -1;
    return CALL(open, path, flags, mode);
}

OVER ssize_t write(int fd, const void *bytes, size_t length) {
    if (!is_written(fd) || !fails("write")) return CALL(write, fd, bytes, length);
    const int code = errno;
    if (length > 1 && CALL(write, fd, bytes, length / 2) < 0) return -1;
    errno = code;
    return -1;
}

OVER ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) {
    if (is_written(fd) && fails("pwrite")) return -1;
    return CALL(pwrite, fd, bytes, length, at);
}

OVER int ftruncate(int fd, off_t length) {
    if (is_written(fd) && fails("ftruncate")) return -1;
    return CALL(ftruncate, fd, length);
}

OVER int fsync(int fd) {
    if (is_written(fd) && fails("fsync")) return -1;
    return CALL(fsync, fd);
}

OVER int close(int fd) {
    const int failing = is_written(fd) && fails("close");
    const int code = errno, result = CALL(close, fd);
    if (!failing) return result;
    errno = code;
    return -1;
}

OVER int rename(const char *from, const char *to) {
    return fails("rename") ? -1 : CALL(rename, from, to);
}

OVER int link(const char *from, const char *to) {
    return fails("link") ? -1 : CALL(link, from, to);
}

OVER int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
    return fails("link") ? -1 : CALL(linkat, from_folder, from, to_folder, to, flags);
}

OVER int unlink(const char *path) {
    return fails("unlink") ? -1 : CALL(unlink, path);
}

OVER int mkdir(const char *path, mode_t mode) {
    return fails("mkdir") ? -1 : CALL(mkdir, path, mode);
}
