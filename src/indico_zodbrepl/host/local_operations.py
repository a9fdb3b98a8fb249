"""The lock of operations and their files on this host."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.local_data import LocalData
from indico_zodbrepl.host.operations_interface import Holder

if TYPE_CHECKING:
    from indico_zodbrepl.host.operations_interface import Index, Lock, Texts


class OwnLock:
    """The lock of operations that this process holds: only its end releases it."""

    def check(self) -> None:
        """Do nothing."""

    def announce_stop(self, node: str) -> None:
        """Do nothing: there is no automation."""


class LocalOperations(LocalData):
    """See ``operations_interface.OperationsHost``."""

    def lock_holder(self, host: str) -> Holder | None:
        self._refuse_other_host(host)
        from indico_zodbrepl.host import operation_lock

        return operation_lock.holder(self._cluster)

    def operations_index(self, host: str, known: str = "") -> Index:
        self._refuse_other_host(host)
        from indico_zodbrepl.host import operation_files

        return operation_files.index(self._cluster, known)

    def operations_texts(self, host: str, documents: Sequence[str], lines: Sequence[str]) -> Texts:
        self._refuse_other_host(host)
        from indico_zodbrepl.host import operation_files

        return operation_files.texts(self._cluster, documents, lines)

    def keep_operations(self, host: str, texts: Texts) -> None:
        self._refuse_other_host(host)
        from indico_zodbrepl.host import operation_files

        operation_files.keep(self._cluster, texts)

    @contextlib.contextmanager
    def hold_lock(self, *, preempting: bool = False) -> Iterator[Lock]:
        del preempting  # there is no automation on one host
        from indico_zodbrepl.host import operation_lock

        with operation_lock.held(self._cluster, Holder(os.getpid())):
            yield OwnLock()

    def lock_holders(self) -> list[Holder]:
        found = self.lock_holder("")
        return [] if found is None else [found]

    def likely_lock_holder(self, host: str = "") -> Holder | None:
        self._refuse_other_host(host)
        from indico_zodbrepl.host import operation_lock

        return operation_lock.likely_holder(self._cluster)

    def spread_operations(self, texts: Texts, *, majority: bool) -> None:
        del majority  # one host is one
        self.keep_operations("", texts)

    def catch_up(self) -> list[str]:
        return []

    def _refuse_other_host(self, host: str) -> None:
        if host not in ("", self._cluster.here):
            raise OperatorError(f"this is not host {host}", exit_code=ExitCode.REFUSED)
