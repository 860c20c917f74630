/* A clock that stands still, for every program that is started with it (LD_PRELOAD).

   It stands at GOLDENS_CLOCK, seconds since 1970; a program may set the variable anew. A file that
   was written since GOLDENS_BEGAN, seconds by the kernel's clock, was written now: files that were
   given their times keep them. The monotonic clocks run as ever, for whoever waits. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long long stated(const char *name)
{
    const char *text = getenv(name);
    return text ? atoll(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *at)
{
    if ((clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) && stated("GOLDENS_CLOCK")) {
        at->tv_sec = stated("GOLDENS_CLOCK");
        at->tv_nsec = 0;
        return 0;
    }
    return syscall(SYS_clock_gettime, clock, at);
}

int gettimeofday(struct timeval *restrict at, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at)
        *at = now.tv_sec;
    return now.tv_sec;
}

#define MOVED(seconds, nanoseconds)                                       \
    if (stated("GOLDENS_BEGAN") && (seconds) >= stated("GOLDENS_BEGAN")) { \
        (seconds) = stated("GOLDENS_CLOCK");                              \
        (nanoseconds) = 0;                                                \
    }

static int moved(int result, struct stat *of)
{
    if (result == 0) {
        MOVED(of->st_atim.tv_sec, of->st_atim.tv_nsec)
        MOVED(of->st_mtim.tv_sec, of->st_mtim.tv_nsec)
        MOVED(of->st_ctim.tv_sec, of->st_ctim.tv_nsec)
    }
    return result;
}

/* The forms for large files are the same functions on 64-bit machines. */
#define FOUND(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int stat(const char *restrict path, struct stat *restrict of)
{
    return moved(FOUND(stat)(path, of), of);
}

int lstat(const char *restrict path, struct stat *restrict of)
{
    return moved(FOUND(lstat)(path, of), of);
}

int fstat(int file, struct stat *of)
{
    return moved(FOUND(fstat)(file, of), of);
}

int fstatat(int directory, const char *restrict path, struct stat *restrict of, int how)
{
    return moved(FOUND(fstatat)(directory, path, of, how), of);
}

int stat64(const char *restrict path, struct stat64 *restrict of)
{
    return stat(path, (struct stat *)of);
}

int lstat64(const char *restrict path, struct stat64 *restrict of)
{
    return lstat(path, (struct stat *)of);
}

int fstat64(int file, struct stat64 *of)
{
    return fstat(file, (struct stat *)of);
}

int fstatat64(int directory, const char *restrict path, struct stat64 *restrict of, int how)
{
    return fstatat(directory, path, (struct stat *)of, how);
}

int statx(int directory, const char *restrict path, int how, unsigned mask,
          struct statx *restrict of)
{
    int result = FOUND(statx)(directory, path, how, mask, of);
    if (result == 0) {
        MOVED(of->stx_atime.tv_sec, of->stx_atime.tv_nsec)
        MOVED(of->stx_mtime.tv_sec, of->stx_mtime.tv_nsec)
        MOVED(of->stx_ctime.tv_sec, of->stx_ctime.tv_nsec)
        MOVED(of->stx_btime.tv_sec, of->stx_btime.tv_nsec)
    }
    return result;
}
