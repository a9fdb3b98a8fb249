"""The keys of a cluster in etcd, and their records.

A record is a JSON object with a format number.  Fields that this release does not know are ignored,
so a newer release may add some; a record of a newer format is refused.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

import msgspec

from indico_zodbrepl import __version__
from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.etcd.client import LIMIT, Entry, Etcd, Guard, GuardError
from indico_zodbrepl.etcd.following import Change, Following
from indico_zodbrepl.etcd.problems import EtcdError, ForeignKeysError
from indico_zodbrepl.probing import typed_json

FORMAT = 1
ROOT = "/zodbrepl"


@dataclasses.dataclass(frozen=True)
class Owner:
    """The cluster that the keys belong to, as two clusters can have the same name.

    Attributes:
        id: the content of ``Layout.cluster_id`` on its hosts.
        hosts: names and addresses of its hosts when the key was written, for people.
    """

    id: str
    hosts: str = ""


@dataclasses.dataclass(frozen=True)
class Leader:
    """The node that holds the primary's role.

    Attributes:
        counter: raised by each renewal; the key is free when it did not change for the lease.
        released: True if the holder gave the role up.
        since: ISO 8601 in UTC, of the take-over.
        why: reason of the take-over.
    """

    node: str
    host: str
    epoch: int
    counter: int
    released: bool = False
    since: str = ""
    why: str = ""


@dataclasses.dataclass(frozen=True)
class Sync:
    """The acknowledgements that commits have needed since ``since``; read before a promotion.

    Attributes:
        alone: True if the primary may acknowledge commits that no secondary has.
        members: nodes that can acknowledge.
    """

    epoch: int
    count: int
    level: str
    alone: bool = False
    members: tuple[str, ...] = ()
    since: str = ""


@dataclasses.dataclass(frozen=True)
class Member:
    """A node as its host reports it.

    Attributes:
        tid: its last transaction in hexadecimal.
        condition: of its history; empty if it is clean.
        lease_left: seconds; None if it has no lease.
        problem: why it could not become the primary; empty if it could.
        doubt: why its data prove nothing about acknowledged commits; empty if they do.
        full: True if its disk is full.
        at: ISO 8601 in UTC, by the clock of its host.
    """

    node: str
    host: str
    epoch: int
    tid: str | None = None
    condition: str = ""
    role: str = ""
    lease_left: float | None = None
    problem: str = ""
    at: str = ""
    doubt: str = ""
    full: bool = False


@dataclasses.dataclass(frozen=True)
class Paused:
    """The automation takes no decisions."""

    by: str
    reason: str
    since: str


@dataclasses.dataclass(frozen=True)
class Operation:
    """The holder of the lock of operations; the lock is free as the leader's key is.

    Attributes:
        identifier: of the holder; empty if nobody holds the lock.
        stops: the node whose server the holder stops on purpose; empty if none.
    """

    who: str
    host: str
    pid: int
    identifier: str
    counter: int
    stops: str = ""


@dataclasses.dataclass(frozen=True)
class Config:
    """The digest of the cluster file that the automation runs with."""

    digest: str


T = TypeVar("T")
U = TypeVar("U")
UPDATES = 10
"""Attempts to change a record that others write too."""


@dataclasses.dataclass(frozen=True)
class Key(Generic[T]):
    """A key and the type of its record."""

    name: str
    kind: type[T]

    def decode(self, entry: Entry) -> Stored[T]:
        """Return the record of an entry.

        Raises OperatorError: exit 9, its format is newer; exit 1, it can't be read.
        """
        return Stored(self, decode(entry, self.kind), entry)


@dataclasses.dataclass(frozen=True)
class Stored(Generic[T]):
    """A record as it was read."""

    key: Key[T]
    record: T
    entry: Entry


@dataclasses.dataclass(frozen=True)
class Written(Generic[T]):
    """The outcome of a conditional write.

    Attributes:
        done: True if it counts.
        stored: the key after it; None if there is no such key.
    """

    done: bool
    stored: Stored[T] | None


class Keys:
    """The names of a cluster's keys."""

    def __init__(self, cluster: Cluster) -> None:
        self.prefix = f"{ROOT}/{cluster.name}/"
        self.owner = Key(self.prefix + "cluster", Owner)
        self.hosts = ", ".join(f"{host.name} ({host.address})" for host in cluster.hosts)
        self.leader = Key(self.prefix + "leader", Leader)
        self.sync = Key(self.prefix + "sync", Sync)
        self.paused = Key(self.prefix + "paused", Paused)
        self.operation = Key(self.prefix + "operation", Operation)
        self.config = Key(self.prefix + "config", Config)
        self.members = self.prefix + "members/"

    def member(self, node: str) -> Key[Member]:
        return Key(self.members + node, Member)


class Store:
    """The records of a cluster in etcd; any thread may call.

    A write counts only while the key ``cluster`` names this cluster, or nobody: then it is written
    first.  Methods take limits and raise errors as those of ``Etcd``, OperatorError as
    ``Key.decode``, and ForeignKeysError if the keys belong to another cluster.

    Args:
        identity: returns the identity of the cluster; raises OperatorError if it is unknown.
    """

    def __init__(self, etcd: Etcd, keys: Keys, identity: Callable[[], str]) -> None:
        self.etcd = etcd
        self.keys = keys
        self._identity = identity
        self._guard: Guard | None = None

    def own(self, limit: float = LIMIT) -> None:
        """Make sure that the keys belong to this cluster; take them if they belong to nobody."""
        value = self._owner()
        outcome = self.etcd.create(self.keys.owner.name, value, limit)
        if not outcome.done:
            self._refuse_other(outcome.entry)

    def refuse_foreign(self, entries: Iterable[Entry]) -> None:
        """Raise ForeignKeysError if the key ``cluster`` is among these and names another one."""
        for entry in entries:
            if entry.key == self.keys.owner.name:
                self._refuse_other(entry)

    def read(self, key: Key[T], limit: float = LIMIT) -> Stored[T] | None:
        """Return the record of a key; None if there is none."""
        entry = self.etcd.get(key.name, limit)
        return None if entry is None else key.decode(entry)

    def create(self, key: Key[T], record: T, limit: float = LIMIT) -> Written[T]:
        """Write a record if its key does not exist."""
        outcome = self._guarded(
            lambda guard: self.etcd.create(key.name, encode(record), limit, guard), limit
        )
        return Written(outcome.done, None if outcome.entry is None else key.decode(outcome.entry))

    def swap(self, stored: Stored[T], record: T, limit: float = LIMIT) -> Written[T]:
        """Replace a record that has not changed since it was read.

        The new one must differ from every other that may be written, as by its counter.
        """
        outcome = self._guarded(
            lambda guard: self.etcd.swap(stored.entry, encode(record), limit, guard), limit
        )
        entry = outcome.entry
        return Written(outcome.done, None if entry is None else stored.key.decode(entry))

    def update(
        self, key: Key[T], change: Callable[[T | None], T | None], limit: float = LIMIT
    ) -> T | None:
        """Replace a record unless somebody else writes it meanwhile; then look again.

        A write that is late, because its process or a member of etcd was frozen, changes nothing.

        Args:
            change: takes the present record, or None without one, and returns the new one, or None
                to write nothing.

        Returns the record that was written, or None.  Raises OperatorError
        (exit 1) if others write all the time.
        """
        for _attempt in range(UPDATES):
            stored = self.read(key, limit)
            wanted = change(None if stored is None else stored.record)
            if wanted is None:
                return None
            if stored is None:
                written = self.create(key, wanted, limit)
            else:
                written = self.swap(stored, wanted, limit)
            if written.done:
                return wanted
        raise EtcdError(
            "a record in etcd can't be changed", f"others have changed {key.name} {UPDATES} times"
        )

    def put(self, key: Key[T], record: T, limit: float = LIMIT) -> None:
        """Write a record whatever the key has."""
        self._guarded(lambda guard: self.etcd.put(key.name, encode(record), limit, guard), limit)

    def delete(self, stored: Stored[T], limit: float = LIMIT) -> bool:
        """Delete a record that has not changed since it was read; return False if it has."""
        return self._guarded(lambda guard: self.etcd.delete(stored.entry, limit, guard), limit)

    def _guarded(self, write: Callable[[Guard], U], limit: float) -> U:
        """Write on the condition that the keys belong to this cluster."""
        if self._guard is None:
            self._guard = Guard(self.keys.owner.name, self._owner())
        while True:
            try:
                return write(self._guard)
            except GuardError as error:
                self._refuse_other(error.present)
                if error.present is None:
                    self.own(limit)
                else:  # this cluster wrote it, with other hosts
                    self._guard = Guard(self.keys.owner.name, error.present.value)

    def _owner(self) -> bytes:
        return encode(Owner(self._identity(), self.keys.hosts))

    def _refuse_other(self, entry: Entry | None) -> None:
        """Raise ForeignKeysError if the key ``cluster`` names another cluster."""
        if entry is not None:
            found = self.keys.owner.decode(entry).record
            if found.id != self._identity():
                raise ForeignKeysError(self.keys.prefix, found.hosts)

    def members(self, limit: float = LIMIT) -> Mapping[str, Member]:
        """Return what each node's host has reported last, by the node's name."""
        found = {}
        for entry in self.etcd.list(self.keys.members, limit).entries:
            found[entry.key.removeprefix(self.keys.members)] = decode(entry, Member)
        return found

    def follow(self) -> Following:
        """Return the changes of all keys of the cluster, beginning with their present state."""
        return Following(self.etcd, self.keys.prefix)


def stored_of(change: Change, key: Key[T]) -> Stored[T] | None:
    """Return the record of a change of a key; None if it was deleted.  Raises as ``Key.decode``."""
    return None if change.entry is None else key.decode(change.entry)


def encode(record: object) -> bytes:
    """Return a record as JSON."""
    return json.dumps({"format": FORMAT, **_fields(record)}, separators=(",", ":")).encode()


def decode(entry: Entry, kind: type[T]) -> T:
    """Return a record.  Raises as ``Key.decode``."""
    try:
        number = typed_json.decode(entry.value, _Head).format
        if number <= FORMAT:
            return typed_json.decode(entry.value, kind)
    except msgspec.MsgspecError as error:
        raise OperatorError(
            "a key in etcd can't be read",
            f"{entry.key}: {error}",
            "which other program writes it? see docs/how-to/etcd.md",
        ) from error
    raise OperatorError(
        "a key in etcd was written by a newer release of zodbrepl",
        f"{entry.key}: format {number}; release {__version__} knows formats up to {FORMAT}",
        "upgrade this host: docs/how-to/upgrade.md",
        ExitCode.NEWER_STATE,
    )


@dataclasses.dataclass(frozen=True)
class _Head:
    format: int = 1


def _fields(record: object) -> dict[str, object]:
    if not dataclasses.is_dataclass(record) or isinstance(record, type):
        raise TypeError(f"{record!r} is no record")
    return dataclasses.asdict(record)
