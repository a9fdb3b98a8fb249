"""A system clock that a test changes while processes run.

A library that is loaded before the C library adds an offset to the wall clock of
a process.  The monotonic clock stays as it is, as when the date of a host is set.
"""
import mmap
import os
import struct
import subprocess

_LIBRARY = r'''
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long *offset;

__attribute__((constructor)) static void begin(void)
{
    int file = open(CLOCK_OFFSET, O_RDONLY);
    void *map = mmap(NULL, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
    if (map == MAP_FAILED)
        abort();
    offset = map;
    close(file);
}

static long shift(void) { return offset ? *offset : 0; }

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int result = syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += shift();
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    int result = syscall(SYS_gettimeofday, now, zone);
    if (result == 0 && now)
        now->tv_sec += shift();
    return result;
}

time_t time(time_t *now)
{
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (now)
        *now = found.tv_sec;
    return found.tv_sec;
}
'''


class ChangedClock(object):
    """The wall clock of the processes that are started with its `environment`.

    Args:
        folder: of the library.
        seen: path of that folder in the processes' mount namespace, if it is another.
    """

    def __init__(self, folder, seen=None):
        folder = str(folder)
        if not os.path.isdir(folder):
            os.makedirs(folder)
        seen = seen or folder
        source, library, offset = (
            os.path.join(folder, name) for name in ('clock.c', 'clock.so', 'offset'))
        with open(source, 'w') as text:
            text.write(_LIBRARY)
        with open(offset, 'wb') as number:
            number.write(struct.pack('@l', 0))
        subprocess.check_call(
            ['cc', '-shared', '-fPIC', '-O1', '-DCLOCK_OFFSET="%s/offset"' % seen,
             '-o', library, source])
        self.environment = {'LD_PRELOAD': os.path.join(seen, 'clock.so')}
        descriptor = os.open(offset, os.O_RDWR)
        self._offset = mmap.mmap(descriptor, struct.calcsize('@l'))
        os.close(descriptor)

    def put(self, seconds):
        """Shows the time of the host, plus this many seconds, from now on."""
        self._offset[:] = struct.pack('@l', seconds)
