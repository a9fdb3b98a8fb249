"""The host interface for a cluster of several hosts: each call goes to the host that it is about.

A method about a node runs on the node's host: here in this process, elsewhere through the agent.
What a method needs of a second node it asks for itself, through the same interface.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar, cast

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster, NodeState
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.lookup import instance_named, node_named
from indico_zodbrepl.cluster.shapes import SHAPES
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import epochs, kept_promises, majority, peers, statistics
from indico_zodbrepl.host.data_interface import Backups
from indico_zodbrepl.host.epochs import EpochRecord
from indico_zodbrepl.host.exports_interface import RecoveryExport
from indico_zodbrepl.host.interface import DryRun, Host, HostAwayError, Tell, ignore
from indico_zodbrepl.host.last_seen import LastSeen
from indico_zodbrepl.host.local import LocalHost
from indico_zodbrepl.host.logs_interface import Logs
from indico_zodbrepl.host.operations_interface import Holder, Lock, Texts
from indico_zodbrepl.host.packing import Packed
from indico_zodbrepl.host.promise import Promise
from indico_zodbrepl.host.remote import all_hosts, codec, copies, etcd_lock, majority_lock
from indico_zodbrepl.host.remote.backups import SeveralBackups
from indico_zodbrepl.host.remote.client import AgentClient
from indico_zodbrepl.host.remote.identities import of_hosts
from indico_zodbrepl.host.remote.logs import SeveralLogs
from indico_zodbrepl.host.remote.messages import Identity
from indico_zodbrepl.host.remote.roles import only_reads
from indico_zodbrepl.host.statistics import Kept, Source
from indico_zodbrepl.host.supervisor import ANSWER_SECONDS, ProgramState

Value = TypeVar("Value")
LIST_SECONDS = 5.0
"""Seconds for other hosts to list their recovery exports."""
WRITE_SECONDS = 5.0
"""Seconds for a test file in the var directory of each host."""
ANSWER_SHARE = 0.7
"""Share of a time limit after which a host counts as silent."""


def several_hosts(cluster: Cluster, installation: Installation | None) -> Host:
    """Return the host interface of a cluster with host sections.

    Raises OperatorError (exit 8) on a machine that is none of its hosts.
    """
    if cluster.here is None:
        addresses = ", ".join(f"{host.name} {host.address}" for host in cluster.hosts)
        raise OperatorError(
            f"this machine is no host of cluster {cluster.name}",
            f"no interface of this machine has the address of a <host>: {addresses}",
            "type the command on one of them",
            ExitCode.REFUSED,
        )
    return cast(Host, SeveralHosts(cluster, installation))


class SeveralHosts:
    """See ``interface.Host``; those that are not defined here are about one node or one host."""

    def __init__(self, cluster: Cluster, installation: Installation | None) -> None:
        self._cluster = cluster
        self._local = LocalHost(cluster, installation)
        self._signatures = codec.signatures()

    def __getattr__(self, method: str) -> Callable[..., Any]:
        signature = self._signatures.get(method)
        if signature is None:
            raise AttributeError(method)

        def call(*values: object, **named: object) -> Any:
            arguments = signature.bind(values, named)
            return self._call(self._host_of(method, arguments), method, arguments)

        return call

    def _host_of(self, method: str, arguments: Mapping[str, object]) -> str:
        """Return the name of the host on which a method about one node or one host runs."""
        if isinstance(arguments.get("host"), str):
            return str(arguments["host"])
        for key in ("wanted", "new"):
            state = arguments.get(key)
            if isinstance(state, NodeState) and "name" not in arguments:
                return self._host_of_node(state.node)
        name = arguments.get("name")
        if not isinstance(name, str):
            raise TypeError(f"{method} is not about one node or one host")
        return self._host_of_node(name)

    def _host_of_node(self, name: str) -> str:
        return str(node_named(self._cluster, name).on)

    def _call(self, host: str, method: str, arguments: Mapping[str, object]) -> Any:
        if host == self._cluster.here:
            self._refuse_lockless(method)
            target, own = codec.part_of(cast(Host, self._local), method)
            return getattr(target, own)(**arguments)
        callback = self._signatures[method].callback
        sent = {name: value for name, value in arguments.items() if name != callback}
        progress = arguments.get(callback) if callback else None
        client = AgentClient(self._cluster, self._cluster.host(host))
        return client.call(method, sent, cast("Callable[[Any], None] | None", progress))

    def _refuse_lockless(self, method: str) -> None:
        """Refuse a change on this host as an agent does for the operation of this process."""
        if self._cluster.automatic and not only_reads(method):
            etcd_lock.refuse_lockless(self._cluster, method)

    def _everywhere(
        self, method: str, arguments: Mapping[str, object], seconds: float
    ) -> dict[str, Any]:
        """Call a method on all hosts at once; return the results or errors, by host."""
        names = [host.name for host in self._cluster.hosts]
        return of_hosts(names, lambda host: self._call(host, method, arguments), seconds)

    # Hosts

    def identity(self, host: str) -> Identity:
        if host == self._cluster.here:
            return self._local.identity(host)
        return AgentClient(self._cluster, self._cluster.host(host)).identity()

    def agreed_promise(self, epoch: int) -> Promise | None:
        return kept_promises.known(self._cluster, cast(Host, self), epoch)

    # Records of the epoch: each host has one

    def keepers(self) -> tuple[str, ...]:
        return epochs.keepers(self._cluster)

    def record(self, keeper: str) -> EpochRecord | None:
        return cast(
            "EpochRecord | None", self._call(self._keeper(keeper), "record", {"keeper": keeper})
        )

    def raise_record(self, keeper: str, record: EpochRecord) -> bool:
        arguments = {"keeper": keeper, "record": record}
        return bool(self._call(self._keeper(keeper), "raise_record", arguments))

    def newest_record(self) -> EpochRecord | None:
        return epochs.newest(self._cluster)

    def highest_recorded(self) -> int:
        return epochs.highest(self._cluster)

    def last_seen(self) -> LastSeen | None:
        watch = self._cluster.watch
        if watch is None:
            return None
        return cast("LastSeen | None", self._call(str(watch.on), "last_seen", {}))

    def _keeper(self, keeper: str) -> str:
        return next(
            host.name for host in self._cluster.hosts if epochs.keeper_of(host.name) == keeper
        )

    # Operations

    def hold_lock(self, *, preempting: bool = False) -> AbstractContextManager[Lock]:
        if self._cluster.automatic:
            return etcd_lock.held(self._cluster, preempting=preempting)
        return majority_lock.held(self._cluster)

    def lock_holders(self) -> list[Holder]:
        return copies.lock_holders(self._cluster, cast(Host, self))

    def likely_lock_holder(self, host: str = "") -> Holder | None:
        if host in ("", self._cluster.here):
            return self._local.likely_lock_holder()
        return copies.lock_holder(self._cluster, cast(Host, self), host)

    def spread_operations(self, texts: Texts, *, majority: bool) -> None:
        copies.spread(self._cluster, cast(Host, self), texts, majority=majority)

    def catch_up(self) -> list[str]:
        return copies.catch_up(self._cluster, cast(Host, self))

    # Recovery exports

    def every_export(self, wanted: str = "") -> list[RecoveryExport]:
        own = self._local.exports("", wanted)
        if wanted and own:
            return own
        others = [host.name for host in self._cluster.hosts if host.name != self._cluster.here]
        ask = cast(Host, self).exports
        answers = of_hosts(others, lambda host: ask(host, wanted), LIST_SECONDS).values()
        each = own + [one for answer in answers if isinstance(answer, list) for one in answer]
        return sorted(each, key=lambda export: export.at, reverse=True)

    def packed_export(self, export: RecoveryExport) -> Iterator[bytes]:
        if export.host in ("", self._cluster.here):
            return self._local.packed_export(export)
        client = AgentClient(self._cluster, self._cluster.host(export.host))
        return client.download(f"/exports/{export.name}")

    def logs(self) -> Logs:
        return cast(Logs, SeveralLogs(self._cluster, self._call))

    # Verbs

    def dry_run(self, verb: str, name: str, **arguments: object) -> DryRun:
        if verb in ("up", "down"):
            if verb == "up":
                self.refuse_unfinished_conversion()
            upstreams = self._upstreams() if verb == "down" else {}
            return all_hosts.dry_run(self._cluster, self._call, verb, upstreams)
        host = (
            str(instance_named(self._cluster, name).on)
            if verb == "restart_instance"
            else self._host_of_node(name)
        )
        asked = {"verb": verb, "name": name, **arguments}
        return cast(DryRun, self._call(host, "dry_run", asked))

    def up(self, *, progress: Tell = ignore) -> list[str]:
        self.refuse_unfinished_conversion()
        return all_hosts.start(self._cluster, self._call, progress)

    def down(self, *, progress: Tell = ignore) -> list[str]:
        return all_hosts.stop(self._cluster, self._call, self._upstreams(), progress)

    def _upstreams(self) -> dict[str, str | None]:
        """Return the upstream of each node; by the cluster file where its state is unknown."""
        nodes = {node.name: node.upstream for node in self._cluster.nodes}
        states = peers.of_nodes(self._cluster, nodes, self.state)
        return nodes | {name: each.upstream for name, each in states.items()}

    def restart_instance(self, name: str, **options: object) -> None:
        host = str(instance_named(self._cluster, name).on)
        self._call(host, "restart_instance", {"name": name, **options})

    # Programs

    def programs(self, seconds: float = ANSWER_SECONDS) -> Mapping[str, ProgramState]:
        # A silent host must not delay what the others answer beyond the caller's limit.
        limit = seconds * ANSWER_SHARE
        found = self._everywhere("programs", {"seconds": limit}, limit)
        states: dict[str, ProgramState] = {}
        for host, answer in found.items():
            if isinstance(answer, OperatorError):
                names = dataclasses.replace(self._cluster, here=host).program_names()
                why = f"{answer.notice}: {answer.detail}"
                states |= {name: ProgramState(name, "UNREACHABLE", None, why) for name in names}
            else:
                states |= answer
        return states

    def start_program(self, program: str) -> bool:
        host = self._host_of_program(program)
        return bool(self._call(host, "start_program", {"program": program}))

    def _host_of_program(self, program: str) -> str:
        for host in self._cluster.hosts:
            if program in dataclasses.replace(self._cluster, here=host.name).program_names():
                return host.name
        raise OperatorError(
            f"no host of cluster {self._cluster.name} runs a program {program}",
            exit_code=ExitCode.BAD_CONFIG,
        )

    # What every host has of its own: this host's

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._signatures})

    def control_disk(self) -> Any:
        return self._local.control_disk()

    def why_control_unwritable(self) -> str:
        own = self._local.why_control_unwritable()
        if own:
            return own
        found = self._everywhere("why_control_unwritable", {}, WRITE_SECONDS)
        refuse_minority(found)
        return few_writable({host: _told(answer) for host, answer in found.items()})

    def refuse_unfinished_conversion(self) -> None:
        # A host that does not answer refuses its own start.
        found = self._everywhere("refuse_unfinished_conversion", {}, LIST_SECONDS)
        for host, answer in found.items():
            if isinstance(answer, OperatorError) and not isinstance(answer, HostAwayError):
                raise all_hosts.several_failed({host: answer})

    def backups(self) -> Backups:
        return cast(Backups, SeveralBackups(self._cluster, self._call))

    def pack(
        self, name: str, conf: Path, days: float, on_progress: Callable[[float], None]
    ) -> Packed:
        host = self._host_of_node(name) if name else self._home()
        arguments = {"name": name, "conf": conf, "days": days, "on_progress": on_progress}
        return cast(Packed, self._call(host, "pack", arguments))

    def _home(self) -> str:
        """Return a host on which the whole storage can be opened."""
        is_file = backend_of(self._cluster).data_file(self._cluster.nodes[0]) is not None
        shape = SHAPES.get(self._cluster.backend)
        if is_file or (shape is not None and shape.one_host):
            return str(self._cluster.nodes[0].on)
        return str(self._cluster.here)

    def database(self, name: str | None) -> Source:
        node = statistics.chosen(self._cluster, name)
        is_file = node is not None and backend_of(self._cluster).data_file(node) is not None
        host = str(node.on) if node is not None and (name or is_file) else self._home()
        asked = node.name if node is not None and is_file else name
        return cast(Source, self._call(host, "database", {"name": asked}))

    def statistics(self, where: Source, top: int, **options: Any) -> dict[str, Any]:
        host = self._home() if where.node is None else self._host_of_node(where.node)
        arguments = {"where": where, "top": top, **options}
        return cast("dict[str, Any]", self._call(host, "statistics", arguments))

    def keep_statistics(self, kept: Kept) -> None:
        self._call(str(self._cluster.admin.on), "keep_statistics", {"kept": kept})


def refuse_minority(found: Mapping[str, object]) -> None:
    """Raise OperatorError (REFUSED) if fewer hosts than a majority answer.

    Args:
        found: the answers of all hosts, or their errors.
    """
    away = [each for each in found.values() if isinstance(each, HostAwayError)]
    needed = majority.quorum(len(found))
    if len(found) - len(away) >= needed:
        return
    raise OperatorError(
        f"only {len(found) - len(away)} of {len(found)} hosts answer, and {needed} are a "
        "majority; nothing was changed",
        "\n".join(map(_told, away)),
        "bring the other hosts back, or repair the network; if they are lost for good: "
        "docs/how-to/automatic-failover.md",
        ExitCode.REFUSED,
    )


def few_writable(found: Mapping[str, str]) -> str:
    """Return why fewer hosts than a majority can write, by why each can't; empty if enough can."""
    unfit = {host: why for host, why in found.items() if why}
    needed = majority.quorum(len(found))
    if len(found) - len(unfit) >= needed:
        return ""
    said = "; ".join(f"host {host}: {why}" for host, why in unfit.items())
    return f"{said}; {needed} of {len(found)} hosts must be able to"


def _told(answer: object) -> str:
    if isinstance(answer, OperatorError):
        return f"{answer.notice}: {answer.detail}" if answer.detail else answer.notice
    return str(answer)
