/* Shifts the wall clock of Redis and of `qiang` by the offset in a file, so that a test can step it.
 *
 * Loaded by LD_PRELOAD. QIANG_CLOCK_OFFSET names a file with the offset in nanoseconds in its first eight bytes.
 * Sentinels keep the true clock: after a step they do nothing for 30 s, by design. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static const volatile int64_t *offset;
static int (*real_clock_gettime)(clockid_t, struct timespec *);

static int is_sentinel(void) {
    char line[4096];
    int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    ssize_t length = read(file, line, sizeof line);
    close(file);
    return length > 0 && memmem(line, (size_t)length, "--sentinel", 10) != NULL;
}

__attribute__((constructor)) static void attach(void) {
    const char *path = getenv("QIANG_CLOCK_OFFSET");
    const char *name = program_invocation_short_name;
    int is_ours = strcmp(name, "qiang") == 0 || strcmp(name, "redis-server") == 0;
    if (path == NULL || !is_ours || is_sentinel()) return;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    void *at = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (at != MAP_FAILED) offset = at;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    if (real_clock_gettime == NULL) {
        real_clock_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    }
    int failed = real_clock_gettime(clock, time);
    if (failed == 0 && offset != NULL && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t nanoseconds = time->tv_sec * SECOND + time->tv_nsec + *offset;
        time->tv_sec = nanoseconds / SECOND;
        time->tv_nsec = nanoseconds % SECOND;
    }
    return failed;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *place) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return (time_t)-1;
    if (place != NULL) *place = now.tv_sec;
    return now.tv_sec;
}
