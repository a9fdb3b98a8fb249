"""A client of a cluster that a test asks now and then what it sees."""

from __future__ import annotations

import signal
import subprocess

from clusters import ClusterUnderTest

from indico_zodbrepl.cluster.layout import Layout

# Says what it sees of an object whenever it is told to; a line each.
SEES = """
import sys, time, transaction, ZODB, ZODB.config
connection = ZODB.DB(ZODB.config.storageFromURL(sys.argv[1])).open()
while sys.stdin.readline():
    seen = None
    while seen is None:
        try:
            transaction.begin()
            seen = connection.root()[sys.argv[2]]['is']
        except Exception as error:
            sys.stderr.write('%s: %s\\n' % (type(error).__name__, error))
            transaction.abort()
            time.sleep(0.1)
    sys.stdout.write(seen + '\\n')
    sys.stdout.flush()
"""


class Client:
    """A client that sees an object whenever it is asked to, and does nothing in between."""

    def __init__(self, pair: ClusterUnderTest, key: str) -> None:
        self._process = subprocess.Popen(
            [pair.installation.python27, "-c", SEES, Layout(pair.cluster).zodb_conf, key],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=pair.folder,
            env=pair.installation.environment27(),
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def sees(self) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()
