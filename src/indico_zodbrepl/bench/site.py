"""A storage brought up for benchmarks in a scratch folder; nobody's data is near it."""

from __future__ import annotations

import dataclasses
import itertools
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from ..cluster import Cluster, load
from ..cluster.installation import Installation
from ..cluster.layout import Layout
from ..cluster.model import Address
from ..cluster.shapes import REPLICATION_PORT, SHAPES, STORAGE_PORT
from ..errors import OperatorError
from ..node import credentials, lifecycle, ports
from ..node.indico_programs import Indico27
from ..node.supervisor import Supervisor
from . import leftovers, program27
from .storages import IN_MEMORY, Storage

Progress = Callable[[str], None]

FIRST_PORT = int(os.environ.get("ZODBREPL_TEST_PORTS", "21000"))
PORTS = range(FIRST_PORT, FIRST_PORT + 1500)
"""Below those that the kernel gives to outgoing connections."""

_IN_MEMORY_CONF = "<zodb main>\n  <mappingstorage>\n  </mappingstorage>\n</zodb>\n"


@dataclasses.dataclass(frozen=True)
class Amount:
    """How much the loader puts into a site with Indico."""

    conferences: int = 200
    contributions: int = 5
    categories: int = 5


class Site:
    """One storage that runs; ``close`` ends what was started and removes the folder.

    Attributes:
        folder: its own; other users can reach it.
        zodb_conf: opens the storage as Indico does.
        cluster: None for the storage in memory.
        indico: how many Indico instances it was brought up with: one at most where only one
            process can have the database open.
        elsewhere: the same storage in a folder of another parent, up as well; of a site from
            ``Sites``, which ends it.
        say: called with what goes on, one line.
    """

    def __init__(self, storage: Storage, folder: Path, installation: Installation,
                 indico: int = 0, amount: Amount | None = None) -> None:
        self.storage = storage
        self.folder = folder
        self.installation = installation
        self.indico = min(indico, 1) if storage.one_process else indico
        self.amount = amount or Amount()
        self.cluster: Cluster | None = None
        self.elsewhere: Callable[[Path], Site] = _nowhere_else
        self.say: Progress = _unheard
        self.zodb_conf = folder / "zodb.conf"

    def up(self, progress: Progress) -> None:
        """Bring it up, and fill it where it has Indico.

        Nothing but the storage and Indico runs then: the admin page is ended again.

        Raises:
            OperatorError: it can't be brought up here; ``close`` has to be called nevertheless.
        """
        if self.storage.name == IN_MEMORY:
            self.zodb_conf.write_text(_IN_MEMORY_CONF)
            return
        path = self.folder / leftovers.CLUSTER_FILE
        path.write_text(self._cluster_file())
        self.cluster = cluster = load(path, self.installation.home)
        self.zodb_conf = Layout(cluster).zodb_conf
        if not self.indico:
            lifecycle.up_storage(cluster, self.installation, progress)
            return
        if self.storage.one_process:
            lifecycle.up_storage(cluster, self.installation, progress)
            self._fill()
            lifecycle.up(cluster, self.installation, progress)
        else:
            lifecycle.up(cluster, self.installation, progress)
            self._fill()
        Supervisor(cluster).stop(cluster.admin.program)

    def close(self) -> None:
        """End what runs of it, and remove its folder; may be repeated.

        Raises OperatorError (exit 1) when processes do not end even if they are killed.
        """
        leftovers.end(self.cluster, self.folder)

    def run27(self, module: str, arguments: Sequence[str | Path] = (), *,
              cores: Sequence[int] = (), seconds: float = 600.0) -> dict[str, object]:
        """Run ``dataplane.benchmarks.MODULE`` on Python 2.7; the JSON object that it prints.

        See ``program27.run``.
        """
        return program27.run(self.installation, module, arguments, folder=self.folder,
                             cores=cores, seconds=seconds)

    def pids(self) -> dict[str, int]:
        """Process ids of the supervised programs that run, by program."""
        if self.cluster is None:
            return {}
        return {name: state.pid for name, state in Supervisor(self.cluster).states().items()
                if state.pid}

    def require_cluster(self) -> Cluster:
        """Its cluster.  Raises OperatorError for the storage in memory, which has none."""
        if self.cluster is None:
            raise OperatorError(f"{self.storage.title}: there is no cluster")
        return self.cluster

    def _fill(self) -> None:
        cluster = self.require_cluster()
        indico = Indico27(cluster, self.installation)
        file = credentials.path_in(Layout(cluster).var)
        credentials.ensure(file)
        indico.first_run(file)
        indico.load(self.amount.conferences, self.amount.contributions, self.amount.categories,
                    quiet=True)

    def _cluster_file(self) -> str:
        numbers = iter(free_ports(2 * len(self.storage.nodes) + self.indico + 1))
        keys = SHAPES[self.storage.backend].ports
        lines = [f"name bench-{self.storage.name}", f"backend {self.storage.backend}",
                 f"var-directory {self.folder}/var", *self.storage.settings]
        for name, (role, upstream) in self.storage.nodes.items():
            lines += [f"<node {name}>", "  host 127.0.0.1", f"  role {role}",
                      f"  data-directory {self.folder}/data/{name}",
                      *(f"  {key} {next(numbers)}" for key in (STORAGE_PORT, REPLICATION_PORT)
                        if key in keys),
                      *([f"  upstream {upstream}"] if upstream else []), "</node>"]
        for number in range(1, self.indico + 1):
            lines += [f"<indico i{number}>", "  host 127.0.0.1", f"  port {next(numbers)}",
                      "</indico>"]
        lines += ["<admin>", "  host 127.0.0.1", f"  port {next(numbers)}", "</admin>", ""]
        return "\n".join(lines)


def _unheard(what: str) -> None:
    del what


def _nowhere_else(parent: Path) -> Site:
    raise OperatorError(f"this cluster can't be had once more in {parent}",
                        "it is no scratch cluster", "name storages with --storages")


def scratch_folder(parent: Path | None, storage: Storage) -> Path:
    """A new folder for a site that the users of all engines can reach.

    Args:
        parent: where; None: the system's folder for temporary files.

    Raises:
        OperatorError: exit 1, it can't be made.
    """
    try:
        folder = Path(tempfile.mkdtemp(prefix=f"{leftovers.PREFIX}{storage.name}-",
                                       dir=parent and parent.absolute()))
        try:
            folder.chmod(0o755)  # some engines run as another user
            leftovers.note_owner(folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    except OSError as error:
        raise OperatorError("there is no place for a scratch cluster",
                            f"{error.filename or parent}: {error.strerror}",
                            "name a writable folder with --data-directory") from error
    return folder


def free_ports(count: int) -> list[int]:
    """So many ports of 127.0.0.1 that nobody listens on now."""
    start = random.randrange(len(PORTS))  # noqa: S311  # only to be apart from other runs
    candidates = itertools.chain(PORTS[start:], PORTS[:start])
    return list(itertools.islice(
        (port for port in candidates if ports.is_free(Address("127.0.0.1", port))), count))
