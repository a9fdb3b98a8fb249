"""A laboratory of hosts: several of them on this machine, with a network that can fail.

Each host has its own processes, network, hostname, /tmp, /run and data.  All hosts see this
machine's programs, and their own data at the same path.  It works for root and, if the kernel
allows user namespaces, for an ordinary user.  Everything hangs on processes that end with the one
that made the lab, by whatever death; nothing is to be removed afterwards but the data.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

from indico_zodbrepl.demo.lab.host import Host
from indico_zodbrepl.demo.lab.network import Network
from indico_zodbrepl.demo.lab.requirements import require
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.locking import take


class Lab:
    """Hosts ``h1``, ``h2`` ... on a switch; a context manager that ends with all of it.

    Attributes:
        folder: as given.
        srv: the path at which each host sees its own data; outside it is the host's ``folder``.
        network: makes faults.

    Args:
        folder: an existing one for the data of the hosts, and for a lock: one lab at a time is in
            it.  An earlier lab's data is kept.
        count: how many hosts.
        shown: folders that hosts see as they are, also if they are in one that is empty there.
        srv: as the attribute; None for one in ``folder``.

    Raises:
        OperatorError: exit 4 or 11, it cannot work on this machine; exit 8, another lab is in the
            folder.
    """

    def __init__(
        self, folder: Path, count: int, shown: Sequence[Path] = (), *, srv: Path | None = None
    ) -> None:
        require()
        self.folder = folder.resolve()
        self.srv = srv.resolve() if srv else self.folder / "srv"
        with contextlib.ExitStack() as opened:
            opened.callback(os.close, _lock(self.folder))
            self._hosts: dict[str, Host] = {}
            opened.callback(self._forget_hosts)
            names = [f"h{number}" for number in range(1, count + 1)]
            self.network = Network(names, self.folder)
            opened.callback(self.network.namespaces.close)
            etc_hosts = self.folder / "hosts"
            known = {"localhost": "127.0.0.1"} | {n: self.network.address(n) for n in names}
            etc_hosts.write_text("".join(f"{known[name]} {name}\n" for name in known))
            for name in names:
                self._hosts[name] = Host(
                    name, self.folder, self.network, etc_hosts, shown, srv=self.srv
                )
                self._hosts[name].start()
            self._opened = opened.pop_all()

    def __getitem__(self, name: str) -> Host:
        return self._hosts[name]

    def __iter__(self) -> Iterator[Host]:
        return iter(self._hosts.values())

    def __len__(self) -> int:
        return len(self._hosts)

    def close(self) -> None:
        """End all hosts at once; their data is kept."""
        self._opened.close()

    def _forget_hosts(self) -> None:
        for host in self:
            host.forget()

    def __enter__(self) -> Lab:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.close()


def _lock(folder: Path) -> int:
    """Return the descriptor of the folder's lock; its closing releases it."""
    descriptor = os.open(folder / "lab.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if take(descriptor):
        return descriptor
    os.close(descriptor)
    raise OperatorError(
        "another lab is in this folder",
        str(folder),
        "stop it, or use another folder",
        ExitCode.REFUSED,
    )
