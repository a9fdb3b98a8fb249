"""Prints the pauses that Retries decides upon for given errors at given seconds of a request."""
import json

from ZEO.Exceptions import ClientDisconnected
from ZODB.POSException import ConflictError, POSKeyError, ReadConflictError, ReadOnlyError

from indico.core.db.retries import Retries


def pauses(*errors):
    """Takes pairs of seconds since the start and error."""
    now = [1000.0]
    retries = Retries(clock=lambda: now[0], chance=lambda: 1.0)
    decided = []
    for seconds, error in errors:
        now[0] = 1000.0 + seconds
        decided.append(retries.pause(error))
    return decided


print json.dumps({
    'conflicts': pauses(*[(0, ConflictError())] * 10),
    'read conflict': pauses((0, ReadConflictError())),
    'missing object': pauses((0, POSKeyError('\0' * 8))),
    'conflict after a long time': pauses((1, ConflictError()), (1000, ConflictError())),
    'conflicts of long tries': pauses(*[(25 * number, ConflictError()) for number in range(1, 5)]),
    'missing objects': pauses(*[(0, POSKeyError('\0' * 8))] * 3),
    'read-only': pauses((0, ReadOnlyError())),
    'disconnected soon': pauses((0, ClientDisconnected()), (3.9, ClientDisconnected())),
    'disconnected for long': pauses(*[(0, ClientDisconnected())] * 8),
    'disconnected late': pauses((4, ClientDisconnected())),
    'disconnected, then read-only': pauses((0, ClientDisconnected()), (0.3, ReadOnlyError())),
})
