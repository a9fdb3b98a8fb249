"""The storage server, with a clock at the two phases of each commit; Python 2.7.

usage: timed_server.py RESULT ARGUMENTS...

ARGUMENTS are those of the server.  When it has ended, RESULT has the seconds of each part of the
commits together, as JSON.  One client after another holds the commit lock, from the beginning of
its vote to the end of its finish.
"""
import json
import os
import sys

from indico_zodbrepl.dataplane.programs.clock import monotonic
from indico_zodbrepl.dataplane.server import main as server
from indico_zodbrepl.dataplane.server.storage_server import NodeZEOStorage


PAUSE = 0.5  # seconds


class Times(object):
    """The parts of all commits since the last pause, before which clients were still starting.

    Attributes:
        commits: their number.
        vote, finish: seconds in which the server did the phase.
        client: seconds from the end of a vote until the client's order to finish had come.
        free: seconds in which nobody held the lock.
        cpu: seconds of CPU that the server used.
    """

    def __init__(self):
        self._finished = 0.0
        self._reset()

    def _reset(self):
        self.commits = 0
        self.vote = self.client = self.finish = self.free = self.cpu = 0.0
        self._cpu_before = used()

    def voted(self, began, ended):
        if began > self._finished + PAUSE:
            self._reset()
        else:
            self.free += began - self._finished
        self.vote += ended - began
        self._voted = ended

    def finished(self, began, ended):
        self.client += began - self._voted
        self.finish += ended - began
        self.commits += 1
        self.cpu = used() - self._cpu_before
        self._finished = ended


def used():
    """Return the seconds of CPU that this process has used."""
    return sum(os.times()[:2])


def timed(function, tell):
    def call(*arguments):
        began = monotonic()
        result = function(*arguments)
        tell(began, monotonic())
        return result
    return call


def main(result, arguments):
    times = Times()
    NodeZEOStorage._vote = timed(NodeZEOStorage._vote.__func__, times.voted)
    NodeZEOStorage.tpc_finish = timed(NodeZEOStorage.tpc_finish.__func__, times.finished)
    status = server.main(arguments)
    parts = ('commits', 'vote', 'client', 'finish', 'free', 'cpu')
    with open(result, 'w') as opened:
        json.dump(dict((part, getattr(times, part)) for part in parts), opened)
    return status


if __name__ == '__main__':
    # As the server itself: an unfinished pack is not waited for.
    os._exit(main(sys.argv[1], sys.argv[2:]))
