"""Rounds of faults to a primary and its follower while programs commit.

A program that is told of something prints it as a line of words; see `Reporter`.
"""
from __future__ import print_function

import os
import shutil
import tempfile

import py.path

from link_proxy import Proxy
from nodes import Node
from processes import FORKED, Processes


class Pair(object):
    """A primary and its follower behind a Proxy.

    Args:
        options: of both servers.
        delay: seconds that the link takes, each way.

    Attributes:
        primary, follower: Nodes; exchanged by a promotion.
    """

    def __init__(self, processes, folder, options=(), delay=0):
        self.processes = processes
        self.folder = folder
        self.primary = Node(processes, folder, 'a', listens=True, options=options)
        self.primary.start()
        self.proxy = Proxy(self.primary, delay)
        self.follower = Node(processes, folder, 'b', upstream=self.proxy, options=options)
        self.follower.start()
        self.primary.wait_for_followers()
        self.nodes = [self.primary, self.follower]

    def promote(self, epoch=4):
        new = self.follower
        answer = new.control(do='promote', epoch=epoch,
                             replicate_to='127.0.0.1:%d' % new.replication_port)
        assert answer['ok'], answer
        self.primary, self.follower = new, self.primary


class Reporter(object):
    """A program that prints lines of words until it is killed.

    Args:
        program: its path.
        arguments: its command line.
    """

    def __init__(self, processes, program, *arguments):
        program = os.path.splitext(os.path.abspath(program))[0] + '.py'
        self._process = processes.start(
            [FORKED, program] + [str(each) for each in arguments], 'reporter')

    def reports(self, kind):
        """Returns the words, without the first, of each complete line that begins with `kind`."""
        lines = self._process.output().split('\n')[:-1]
        return [line.split()[1:] for line in lines if line.split()[:1] == [kind]]

    def kill(self):
        self._process.kill()

    def wait(self):
        self._process.wait()


def report(kind, *words):
    """Prints a line for `Reporter.reports`, at once."""
    # A single call, so that no signal leaves half of it.
    os.write(1, ' '.join((kind,) + words) + '\n')


def rounds(count, run):
    """Yields the result of `run(processes, folder)` for each of `count` new folders."""
    for _ in range(count):
        folder = py.path.local(tempfile.mkdtemp(prefix='faults-'))
        processes = Processes(folder)
        try:
            found = run(processes, folder)
        finally:
            processes.close()
        shutil.rmtree(str(folder))  # it stays after a failure
        yield found
