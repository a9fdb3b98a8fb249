"""A storage started for benchmarks in a scratch folder, away from all real data."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from indico_zodbrepl.bench import processes27
from indico_zodbrepl.bench.sites.storages import IN_MEMORY, Storage
from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.places import Address
from indico_zodbrepl.cluster.shapes import REPLICATION_PORT, SHAPES, STORAGE_PORT
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host import daemon, lifecycle, ports, secrets
from indico_zodbrepl.host.indico_programs import Indico27
from indico_zodbrepl.host.interface import host_of
from indico_zodbrepl.host.supervisor import Supervisor
from indico_zodbrepl.probing.process_state import birth_of, leads_terminal, state_of
from indico_zodbrepl.probing.waiting import wait_while

Progress = Callable[[str], None]

FIRST_PORT = int(os.environ.get("ZODBREPL_TEST_PORTS", "21000"))
PORTS = range(FIRST_PORT, FIRST_PORT + 1500)
"""Ports below those that the kernel uses for outgoing connections."""

_IN_MEMORY_CONF = "<zodb main>\n  <mappingstorage>\n  </mappingstorage>\n</zodb>\n"


@dataclasses.dataclass(frozen=True)
class Amount:
    """The amount of data that the loader puts into a site with Indico."""

    conferences: int = 200
    contributions: int = 5
    categories: int = 5


class Site:
    """A running storage; ``close`` stops it and removes its folder.

    Attributes:
        folder: its own; other users can reach it.
        zodb_conf: opens the storage as Indico does.
        cluster: None for the in-memory storage.
        indico: number of Indico instances; at most one if only one process can open the database.
        elsewhere: the same storage below another parent folder, also running; stopped by ``Sites``.
        say: called with one line of progress.
    """

    def __init__(
        self,
        storage: Storage,
        folder: Path,
        installation: Installation,
        indico: int = 0,
        amount: Amount | None = None,
    ) -> None:
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
        """Start it, and fill it if it has Indico.

        Only the storage and Indico run afterwards, not the admin page.

        Raises:
            OperatorError: it does not start here; ``close`` must be called nevertheless.
        """
        if self.storage.name == IN_MEMORY:
            self.zodb_conf.write_text(_IN_MEMORY_CONF)
            return
        path = self.folder / CLUSTER_FILE
        path.write_text(self._cluster_file())
        self.cluster = cluster = load(path, self.installation.home)
        self.zodb_conf = Layout(cluster).zodb_conf
        if not self.indico:
            lifecycle.up_storage(cluster, self.installation, progress)
            return
        if self.storage.one_process:
            lifecycle.up_storage(cluster, self.installation, progress)
            self._fill()
            lifecycle.up_serving(cluster, self.installation, progress)
        else:
            lifecycle.up_serving(cluster, self.installation, progress)
            self._fill()

    def renew_indico(self) -> None:
        """Replace the processes of each Indico instance.  Raises OperatorError."""
        cluster = self.require_cluster()
        host = host_of(cluster, self.installation)
        for instance in cluster.indico:
            host.restart_instance(instance.name)

    def close(self) -> None:
        """Stop its programs and remove its folder.  Idempotent.

        Raises OperatorError (exit 1) if processes survive SIGKILL.
        """
        end(self.cluster, self.installation, self.folder)

    def run27(
        self,
        module: str,
        arguments: Sequence[str | Path] = (),
        *,
        cores: Sequence[int] = (),
        seconds: float = 600.0,
    ) -> dict[str, object]:
        """Run ``dataplane.benchmarks.MODULE`` on Python 2.7 and return its JSON result."""
        return processes27.run(
            self.installation, module, arguments, folder=self.folder, cores=cores, seconds=seconds
        )

    def pids(self) -> dict[str, int]:
        """Return the PIDs of the running supervised programs, by program."""
        if self.cluster is None:
            return {}
        return {
            name: state.pid
            for name, state in Supervisor(self.cluster).states().items()
            if state.pid
        }

    def require_cluster(self) -> Cluster:
        """Return its cluster; raise OperatorError for the in-memory storage."""
        if self.cluster is None:
            raise OperatorError(f"{self.storage.title}: there is no cluster")
        return self.cluster

    def _fill(self) -> None:
        cluster = self.require_cluster()
        indico = Indico27(cluster, self.installation)
        file = secrets.path_in(Layout(cluster).var)
        secrets.ensure(file)
        indico.first_run(file)
        indico.load(
            self.amount.conferences, self.amount.contributions, self.amount.categories, quiet=True
        )

    def _cluster_file(self) -> str:
        numbers = iter(free_ports(2 * len(self.storage.nodes) + self.indico + 1))
        keys = SHAPES[self.storage.backend].ports
        lines = [
            f"name bench-{self.storage.name}",
            f"backend {self.storage.backend}",
            f"var-directory {self.folder}/var",
            *self.storage.settings,
        ]
        for name, (role, upstream) in self.storage.nodes.items():
            lines += [
                f"<node {name}>",
                "  host 127.0.0.1",
                f"  role {role}",
                f"  data-directory {self.folder}/data/{name}",
                *(
                    f"  {key} {next(numbers)}"
                    for key in (STORAGE_PORT, REPLICATION_PORT)
                    if key in keys
                ),
                *([f"  upstream {upstream}"] if upstream else []),
                "</node>",
            ]
        for number in range(1, self.indico + 1):
            lines += [
                f"<indico i{number}>",
                "  host 127.0.0.1",
                f"  port {next(numbers)}",
                "  scheduler no",
                "</indico>",
            ]
        lines += ["<admin>", "  host 127.0.0.1", f"  port {next(numbers)}", "</admin>", ""]
        return "\n".join(lines)


def _unheard(what: str) -> None:
    del what


def _nowhere_else(parent: Path) -> Site:
    raise OperatorError(
        f"this cluster can't be had once more in {parent}",
        "it is no scratch cluster",
        "name storages with --storages",
    )


def scratch_folder(parent: Path | None, storage: Storage) -> Path:
    """Return a new folder that the users of all engines can reach.

    Args:
        parent: None for the system's temporary folder.

    Raises:
        OperatorError: exit 1, it cannot be created.
    """
    try:
        folder = Path(
            tempfile.mkdtemp(prefix=f"{PREFIX}{storage.name}-", dir=parent and parent.absolute())
        )
        try:
            folder.chmod(0o755)  # some engines run as another user
            note_owner(folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    except OSError as error:
        raise OperatorError(
            "there is no place for a scratch cluster",
            f"{error.filename or parent}: {error.strerror}",
            "name a writable folder with --data-directory",
        ) from error
    return folder


def free_ports(count: int) -> list[int]:
    """Return this number of free ports of 127.0.0.1."""
    start = random.randrange(len(PORTS))  # noqa: S311  # only to be apart from other runs
    candidates = itertools.chain(PORTS[start:], PORTS[:start])
    return list(
        itertools.islice(
            (port for port in candidates if ports.is_free(Address("127.0.0.1", port))), count
        )
    )


PREFIX = "zodbrepl-bench-"
CLUSTER_FILE = "cluster.conf"
OWNER = "owner.json"
DOWN_SECONDS = 60.0
KILL_SECONDS = 20.0
POLL_SECONDS = 0.05


def note_owner(folder: Path) -> None:
    """Record this process as the owner of a scratch folder."""
    (folder / OWNER).write_text(json.dumps({"pid": os.getpid(), "birth": birth_of(os.getpid())}))


def clear(parent: Path | None, home: Path, say: Callable[[str], None]) -> None:
    """Stop and remove scratch clusters whose owner is dead, and report each.

    Clusters of other users and of running benchmarks are left alone.

    Args:
        parent: None for the system's temporary folder.
        home: of the installation.

    Raises:
        OperatorError: exit 1, some processes do not stop.
    """
    for folder in sorted((parent or Path(tempfile.gettempdir())).glob(f"{PREFIX}*")):
        if _is_abandoned(folder):
            say(f"ending what a killed benchmark left in {folder}")
            end(_cluster_of(folder, home), Installation(home), folder)


def end(cluster: Cluster | None, installation: Installation, folder: Path) -> None:
    """Stop everything that runs in a scratch folder and remove the folder.  Idempotent.

    Processes that do not stop cleanly are killed: nobody needs their data.

    Raises:
        OperatorError: exit 1, some processes do not stop.
    """
    try:
        if cluster is not None and daemon.is_running(cluster):
            lifecycle.down(cluster, installation, seconds=DOWN_SECONDS)
    except OperatorError:  # programs that it could not stop are killed
        pass
    finally:
        _kill_all_in(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _is_abandoned(folder: Path) -> bool:
    try:
        if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
            return False
        owner = json.loads((folder / OWNER).read_text())
        return birth_of(int(owner["pid"])) != str(owner["birth"])
    except (OSError, ValueError, KeyError, TypeError):  # of another kind, or just being created
        return False


def _cluster_of(folder: Path, home: Path) -> Cluster | None:
    """Return the cluster in a folder; None if there is none yet."""
    try:
        return load(folder / CLUSTER_FILE, home)
    except OperatorError:
        return None


def _kill_all_in(folder: Path) -> None:
    def killed() -> list[int]:
        found = processes_in(folder)
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return found

    left = wait_while(killed, time.monotonic() + KILL_SECONDS, POLL_SECONDS)
    if left:
        raise OperatorError(
            "processes of a scratch cluster do not end",
            f"{', '.join(map(str, left))}, in {folder}",
            f"kill -9 {' '.join(map(str, left))}",
        )


def processes_in(folder: Path) -> list[int]:
    """Return the processes that run in a folder, as all programs of a cluster do.

    This process and interactive shells are excluded.
    """
    inside = folder.resolve()
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            where = Path(os.readlink(f"/proc/{name}/cwd").removesuffix(" (deleted)"))
        except (FileNotFoundError, PermissionError, ProcessLookupError):
            continue
        if where.is_relative_to(inside) and state_of(int(name)) and not leads_terminal(int(name)):
            found.append(int(name))
    return found
