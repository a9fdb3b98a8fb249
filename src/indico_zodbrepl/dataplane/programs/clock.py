"""The clock of timers: it keeps its pace while the system clock is set back or forward.

Python 2.7 has no `time.monotonic`, and its own waits (`Event.wait(seconds)`,
`Queue.get(timeout=seconds)`) follow the system clock: if it is set back by an
hour, they last an hour longer.  Use `monotonic` for deadlines, intervals and
durations, and `time.time` for time stamps only.  A process calls `install`
first.  `boottime` is for moments that processes of one host agree on.
"""
from __future__ import absolute_import

import ctypes
import os
import Queue
import threading
import time

# of linux/time.h
_CLOCK_MONOTONIC = 1
_CLOCK_BOOTTIME = 7


class _Timespec(ctypes.Structure):
    _fields_ = (('seconds', ctypes.c_long), ('nanoseconds', ctypes.c_long))


_clock_gettime = ctypes.CDLL(None, use_errno=True).clock_gettime
_clock_gettime.argtypes = ctypes.c_int, ctypes.POINTER(_Timespec)


def _read(clock):
    moment = _Timespec()
    if _clock_gettime(clock, ctypes.byref(moment)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return moment.seconds + moment.nanoseconds * 1e-9


# A wait that began with the system clock may end with this one.
_BEGINNING = time.time() - _read(_CLOCK_MONOTONIC)


def monotonic():
    """Return seconds since 1970 by a clock that starts with this process and never jumps."""
    return _BEGINNING + _read(_CLOCK_MONOTONIC)


def boottime():
    """Return seconds since the host's start, with those in which it was suspended."""
    return _read(_CLOCK_BOOTTIME)


class MonotonicTime(object):
    """A substitute for the module `time` in a library that only measures and waits with it."""

    gmtime = staticmethod(time.gmtime)
    sleep = staticmethod(time.sleep)
    time = staticmethod(monotonic)  # the last one, because it hides the module


def install():
    """Make all waits in this process independent of the system clock; may be repeated."""
    threading._time = Queue._time = monotonic
