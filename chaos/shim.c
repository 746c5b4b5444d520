/* Loaded in front of the C library: file operations below one directory fail or are slow, and the time of day is off.
 *
 * What it does is read at every call from a file that is mapped into memory (CHAOS_SHIM names it), so the harness can
 * change it while the process runs. See chaos/shim.py for the layout. A failing write writes nothing, or half. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct control {
    volatile int64_t clock_offset_ns;
    volatile uint32_t per_mille; /* of the calls fail */
    volatile uint32_t error;
    volatile uint32_t failed;   /* how many calls failed so far */
    volatile uint32_t ns_a_byte; /* that a write takes longer */
    char directory[512];
};

static struct control *control;
static uint64_t random_state = 88172645463325252ULL;

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("CHAOS_SHIM");
    if (name == NULL) return;
    int fd = open(name, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *found = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (found != MAP_FAILED) control = found;
    random_state ^= (uint64_t)getpid() << 32;
}

static uint32_t dice(void) {
    uint64_t x = __atomic_load_n(&random_state, __ATOMIC_RELAXED);
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    __atomic_store_n(&random_state, x, __ATOMIC_RELAXED);
    return (uint32_t)(x >> 16);
}

static int below(const char *path) {
    size_t length = strlen(control->directory);
    return length && strncmp(path, control->directory, length) == 0 && (path[length] == '/' || path[length] == 0);
}

static int is_quiet(void) { return control == NULL || (control->per_mille == 0 && control->ns_a_byte == 0); }

/* Sets errno and returns 1 where the call has to fail. */
static int falls(const char *path, size_t size) {
    if (!below(path)) return 0;
    if (control->ns_a_byte) {
        int kept = errno;
        uint64_t ns = (uint64_t)control->ns_a_byte * size;
        struct timespec pause = {(time_t)(ns / 1000000000ULL), (long)(ns % 1000000000ULL)};
        nanosleep(&pause, NULL);
        errno = kept;
    }
    if (dice() % 1000 >= control->per_mille) return 0;
    __atomic_fetch_add(&control->failed, 1, __ATOMIC_RELAXED);
    errno = (int)control->error;
    return 1;
}

static int fd_falls(int fd, size_t size) {
    if (is_quiet() || fd <= 2) return 0;
    char link[64], path[PATH_MAX];
    int kept = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    errno = kept;
    if (length <= 0) return 0;
    path[length] = 0;
    return falls(path, size);
}

static int path_falls(const char *path) {
    if (is_quiet() || path == NULL) return 0;
    if (path[0] == '/') return falls(path, 0);
    char full[PATH_MAX];
    int kept = errno;
    char *here = getcwd(full, sizeof full / 2);
    errno = kept;
    if (here == NULL || strlen(path) >= sizeof full / 2) return 0;
    strcat(full, "/");
    strcat(full, path);
    return falls(full, 0);
}

#define REAL(result, name, ...)                                  \
    static result (*real)(__VA_ARGS__);                          \
    if (real == NULL) real = (result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

ssize_t write(int fd, const void *data, size_t size) {
    REAL(ssize_t, "write", int, const void *, size_t);
    if (fd_falls(fd, size)) return size > 1 && dice() % 4 == 0 ? real(fd, data, size / 2) : -1;
    return real(fd, data, size);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(ssize_t, "writev", int, const struct iovec *, int);
    size_t size = 0;
    for (int k = 0; k < count; k++) size += parts[k].iov_len;
    return fd_falls(fd, size) ? -1 : real(fd, parts, count);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    REAL(ssize_t, "pwrite", int, const void *, size_t, off_t);
    return fd_falls(fd, size) ? -1 : real(fd, data, size, at);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    REAL(ssize_t, "pwrite64", int, const void *, size_t, off64_t);
    return fd_falls(fd, size) ? -1 : real(fd, data, size, at);
}

int fsync(int fd) {
    REAL(int, "fsync", int);
    return fd_falls(fd, 0) ? -1 : real(fd);
}

int fdatasync(int fd) {
    REAL(int, "fdatasync", int);
    return fd_falls(fd, 0) ? -1 : real(fd);
}

int rename(const char *from, const char *to) {
    REAL(int, "rename", const char *, const char *);
    return path_falls(to) ? -1 : real(from, to);
}

int link(const char *from, const char *to) {
    REAL(int, "link", const char *, const char *);
    return path_falls(to) ? -1 : real(from, to);
}

int renameat(int from_at, const char *from, int to_at, const char *to) {
    REAL(int, "renameat", int, const char *, int, const char *);
    int falling = to_at == AT_FDCWD || to[0] == '/' ? path_falls(to) : fd_falls(to_at, 0);
    return falling ? -1 : real(from_at, from, to_at, to);
}

int linkat(int from_at, const char *from, int to_at, const char *to, int flags) {
    REAL(int, "linkat", int, const char *, int, const char *, int);
    int falling = to_at == AT_FDCWD || to[0] == '/' ? path_falls(to) : fd_falls(to_at, 0);
    return falling ? -1 : real(from_at, from, to_at, to, flags);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && control != NULL && clock == CLOCK_REALTIME && control->clock_offset_ns) {
        int64_t ns = now->tv_nsec + control->clock_offset_ns % 1000000000LL;
        now->tv_sec += control->clock_offset_ns / 1000000000LL;
        if (ns < 0) ns += 1000000000LL, now->tv_sec--;
        if (ns >= 1000000000LL) ns -= 1000000000LL, now->tv_sec++;
        now->tv_nsec = ns;
    }
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec found;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &found)) return -1;
    now->tv_sec = found.tv_sec;
    now->tv_usec = found.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *where) {
    struct timespec found;
    if (clock_gettime(CLOCK_REALTIME, &found)) return (time_t)-1;
    if (where != NULL) *where = found.tv_sec;
    return found.tv_sec;
}
