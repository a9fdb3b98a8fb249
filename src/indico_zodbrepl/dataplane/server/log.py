"""Logging of the storage server to standard error, each line with its time."""
from __future__ import absolute_import

import logging
import re
import sys

from ZODB.POSException import ReadOnlyError

from indico_zodbrepl.dataplane.programs.clock import monotonic

FORMAT = '%(asctime)s %(levelname)s %(name)s: %(message)s'

# These log every connection, probe and reconnect at INFO; what operators need
# of it is logged by the server itself.
CHATTY = ('ZEO.asyncio', 'zc.zrs.secondary', 'zc.zrs.reactor')

WAITING = 'zodbrepl.waiting'  # the logger of clients that wait to commit

_NUMBER = re.compile(r'\d+')


class RepeatFilter(object):
    """A log filter that passes a repeated record only once in a while.

    Records count as equal if they differ in numbers only (ports, times).  The
    next one that passes says how many were left out.

    Args:
        prefix: of the names of the loggers that it filters.
        interval: seconds.
        clock: returns the time in seconds.
    """

    def __init__(self, prefix, interval=60.0, clock=monotonic):
        self._prefix = prefix
        self._interval = interval
        self._clock = clock
        self._seen = {}

    def filter(self, record):
        if not record.name.startswith(self._prefix):
            return True
        message = record.getMessage()
        error = record.exc_info[0] if record.exc_info else None
        key = record.name, record.levelno, _NUMBER.sub('#', message), error
        now = self._clock()
        passed, left_out = self._seen.get(key, (None, 0))
        if passed is not None and now - passed < self._interval:
            self._seen[key] = passed, left_out + 1
            return False
        self._seen[key] = now, 0
        if left_out:
            record.msg = '%s (%d more like this before)' % (message, left_out)
            record.args = ()
        return True


class RefusalFilter(object):
    """A log filter for ZEO's tracebacks about clients of a read-only server.

    Clients with read-only fallback ask a secondary twice a second whether it
    has become writable while the primary is away; a refusal is no error.
    """

    def filter(self, record):
        error = record.exc_info[1] if record.exc_info else None
        return not (record.name == 'ZEO.asyncio.server' and
                    isinstance(error, ReadOnlyError) and 'register' in record.args)


def log_to_stderr():
    """Set up the root logger of this process."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(FORMAT))
    handler.addFilter(RepeatFilter('zc.zrs'))
    handler.addFilter(RepeatFilter(WAITING))
    handler.addFilter(RefusalFilter())
    root = logging.getLogger()
    root.setLevel(logging.INFO)
    root.addHandler(handler)
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)
