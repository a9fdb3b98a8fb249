"""Storage servers by themselves, without supervisor: stock ones, and those of this project."""

from __future__ import annotations

import contextlib
import dataclasses
import subprocess
import time
from pathlib import Path

from clusters import wait_until

from indico_zodbrepl.bench.sites.site import free_ports
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.places import Address
from indico_zodbrepl.host import py27
from indico_zodbrepl.probing.probes import probe_server
from indico_zodbrepl.probing.wire import ProbeError

PROGRAMS = Path(__file__).resolve().parents[1] / "python27"
ANSWER_SECONDS = 5.0
END_SECONDS = 60.0

_CONFIG = """\
%import zc.zrs
<zeo>
  address 127.0.0.1:{port}
  invalidation-queue-size 1000
</zeo>
{storage}
"""
_FILE = "<filestorage {name}>\n  path {path}\n</filestorage>"
_CLIENT = """\
%import ZEO
<clientstorage>
  server 127.0.0.1:{port}
  wait-timeout 60
</clientstorage>
"""


@dataclasses.dataclass(frozen=True)
class Kind:
    """What serves a database.

    Attributes:
        name: as in tables.
        stock: True for ZEO's own server, and zc.zrs's replication.
        replicates: True if a primary of zc.zrs is around the data file.
        followers: number of secondaries.
    """

    name: str
    stock: bool
    replicates: bool = False
    followers: int = 0


KINDS = (
    Kind("ZEO", stock=True),
    Kind("zc.zrs alone", stock=True, replicates=True),
    Kind("zc.zrs, 1 secondary", stock=True, replicates=True, followers=1),
    Kind("own server", stock=False),
    Kind("ZRS alone", stock=False, replicates=True),
    Kind("ZRS, 1 secondary", stock=False, replicates=True, followers=1),
)
"""The first is what the others are compared with."""


class Servers:
    """A primary and its secondaries, which run from the beginning until ``close``.

    Args:
        folder: an empty one; data and logs go there.

    Attributes:
        zodb_conf: opens the primary's database.
    """

    def __init__(self, installation: Installation, kind: Kind, folder: Path) -> None:
        self.kind = kind
        self.zodb_conf = folder / "zodb.conf"
        self._installation = installation
        self._ended = contextlib.ExitStack()
        self._primary, feed = free_ports(2)
        self._secondaries = free_ports(kind.followers)
        self.zodb_conf.write_text(_CLIENT.format(port=self._primary))
        try:
            told = f"replicate-to 127.0.0.1:{feed}" if kind.replicates else ""
            self.pid = self._start(folder / "primary", self._primary, told)
            for number, port in enumerate(self._secondaries):
                self._start(
                    folder / f"secondary-{number}", port, f"replicate-from 127.0.0.1:{feed}"
                )
        except BaseException:
            self.close()
            raise

    def wait_until_equal(self) -> None:
        """Wait until each secondary has the last transaction of an idle primary."""
        wait_until(
            lambda: (
                {self._last_tid(self._primary)}
                >= {self._last_tid(each) for each in self._secondaries}
            ),
            f"{self.kind.name}: the secondaries have everything",
        )

    def close(self) -> None:
        self._ended.close()

    def _start(self, folder: Path, port: int, replication: str) -> int:
        folder.mkdir()
        data = _FILE.format(name="" if replication else "1", path=folder / "Data.fs")
        storage = f"<zrs 1>\n{replication}\n{data}\n</zrs>" if replication else data
        config = folder / "zeo.conf"
        config.write_text(_CONFIG.format(port=port, storage=storage))
        log = self._ended.enter_context((folder / "log").open("wb"))
        process = subprocess.Popen(
            [self._installation.python27, *self._program(folder.name), "-C", config],
            env=self._installation.environment27(),
            cwd=folder,
            stdout=log,
            stderr=log,
        )
        self._ended.callback(py27.end, process, END_SECONDS)
        wait_until(lambda: self._answers(port), f"{self.kind.name}: {folder.name} answers")
        return process.pid

    def _program(self, node: str) -> list[str | Path]:
        if self.kind.stock:
            return [PROGRAMS / "stock_server.py"]
        module = "indico_zodbrepl.dataplane.server.main"
        return ["-m", module, "--cluster", "controls", "--node", node, "--epoch", "1"]

    def _answers(self, port: int) -> bool:
        try:
            self._last_tid(port)
        except ProbeError:
            return False
        return True

    @staticmethod
    def _last_tid(port: int) -> int:
        deadline = time.monotonic() + ANSWER_SECONDS
        return probe_server(Address("127.0.0.1", port), deadline).last_tid
