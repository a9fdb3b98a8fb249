"""The host interface for a cluster whose nodes are all on this host.

A verb imports what it runs: ``status`` needs none of it.  Its options and their defaults are those
of the function that it calls.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from indico_zodbrepl.backends import native_of
from indico_zodbrepl.cluster import NodeState
from indico_zodbrepl.cluster.addresses import is_of_this_machine
from indico_zodbrepl.cluster.layout import Layout, state_file
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import disks, epochs, guarded, history, state, supervisor
from indico_zodbrepl.host.interface import Tell, host_of, ignore
from indico_zodbrepl.host.local_exports import LocalExports
from indico_zodbrepl.host.supervisor import Supervisor
from indico_zodbrepl.probing.process_state import state_of

if TYPE_CHECKING:
    from indico_zodbrepl.host.candidacy import Candidacy
    from indico_zodbrepl.host.disks import Disk
    from indico_zodbrepl.host.epochs import EpochRecord
    from indico_zodbrepl.host.fencing import Fenced
    from indico_zodbrepl.host.forcing import Forcing
    from indico_zodbrepl.host.history import Condition, Lineage
    from indico_zodbrepl.host.interface import DryRun
    from indico_zodbrepl.host.last_seen import LastSeen
    from indico_zodbrepl.host.logs_interface import Logs
    from indico_zodbrepl.host.promise import Promise
    from indico_zodbrepl.host.remote.messages import Identity
    from indico_zodbrepl.host.role_changes import Changed
    from indico_zodbrepl.host.sights import Sighting
    from indico_zodbrepl.host.supervisor import ProgramState
    from indico_zodbrepl.host.writers import Silenced
    from indico_zodbrepl.probing.answers import Acknowledging

NOT_OF_A_NODE = frozenset({"up", "down", "restart_instance", "stop_stage"})
"""Verbs whose name is the cluster's, a host's or an Indico instance's."""


class LocalHost(LocalExports):
    """See ``interface.Host``."""

    # Hosts

    def identity(self, host: str) -> Identity:  # noqa: ARG002 - it is this host
        from indico_zodbrepl.host.remote.messages import identity_of

        return identity_of(self._cluster)

    def sight(self, host: str, name: str) -> Sighting:  # noqa: ARG002 - it is this host
        from indico_zodbrepl.host import sights

        return sights.look(self._cluster, name)

    def logs(self) -> Logs:
        from indico_zodbrepl.host.local_logs import LocalLogs

        return LocalLogs(self._cluster)

    # State of a node

    def state(self, name: str) -> NodeState:
        return state.current(self._cluster, self._node(name))

    def saved_state(self, name: str) -> NodeState | None:
        node = self._node(name)
        return state.current(self._cluster, node) if state_file(node).exists() else None

    def write_state(self, new: NodeState) -> None:
        state.write(self._node(new.node), new)

    def prepare(self, name: str) -> NodeState:
        from indico_zodbrepl.host import run

        return run.prepare(self._cluster, self._node(name))

    def check_folder(self, name: str) -> None:
        from indico_zodbrepl.host import run

        run.check_folder(self._cluster, self._node(name))

    def free_bytes(self, name: str) -> int:
        from indico_zodbrepl.host import run

        return shutil.disk_usage(run.nearest(self._node(name).data_directory)).free

    def disk(self, name: str) -> Disk | None:
        return disks.disk_of(self._node(name).data_directory)

    def control_disk(self) -> Disk | None:
        return disks.disk_of(self._cluster.var_directory)

    def why_unwritable(self, name: str) -> str:
        from indico_zodbrepl.host import run

        return disks.why_unwritable(run.nearest(self._node(name).data_directory))

    def why_control_unwritable(self) -> str:
        from indico_zodbrepl.host import run

        return disks.why_unwritable(run.nearest(self._cluster.var_directory))

    # History of a node

    def history(self, name: str) -> Lineage | None:
        return history.read(self._node(name))

    def write_history(self, name: str, lineage: Lineage) -> None:
        history.write(self._node(name), lineage)

    def mark(self, name: str, epoch: int, condition: Condition, detail: str) -> None:
        history.mark(self._node(name), epoch, condition, detail)

    def promise(self, name: str) -> Promise | None:
        from indico_zodbrepl.host import promise

        return promise.read(self._node(name))

    def kept_promise(self, host: str) -> Promise | None:  # noqa: ARG002 - it is this host
        from indico_zodbrepl.host import kept_promises

        return kept_promises.read(self._cluster)

    def agreed_promise(self, epoch: int) -> Promise | None:  # noqa: ARG002 - see ``promise``
        return None

    def keep_promise(self, host: str, found: Promise) -> None:  # noqa: ARG002 - it is this host
        from indico_zodbrepl.host import kept_promises

        kept_promises.write(self._cluster, found)

    # Records of the epoch

    def keepers(self) -> tuple[str, ...]:
        return epochs.keepers(self._cluster)

    def record(self, keeper: str) -> EpochRecord | None:
        return epochs.read(self._cluster, epochs.paths(self._cluster)[keeper])

    def raise_record(self, keeper: str, record: EpochRecord) -> bool:
        return epochs.raise_record(self._cluster, epochs.paths(self._cluster)[keeper], record)

    def last_seen(self) -> LastSeen | None:
        from indico_zodbrepl.host import last_seen

        return last_seen.read(self._cluster)

    def newest_record(self) -> EpochRecord | None:
        return epochs.newest(self._cluster)

    def highest_recorded(self) -> int:
        return epochs.highest(self._cluster)

    def highest_epoch(self, name: str, own: int) -> int:
        from indico_zodbrepl.host import precheck

        return precheck.highest_epoch(self._cluster, name, own)[0]

    # Start-up checks

    def admit_follower(self, wanted: NodeState) -> list[str]:
        from indico_zodbrepl.host import following

        return following.admit_follower(self._cluster, self._installation, wanted)

    def refuse_unfinished_conversion(self) -> None:
        state.refuse_unfinished(self._cluster)

    # Verbs

    def dry_run(self, verb: str, name: str, **arguments: object) -> DryRun:
        from indico_zodbrepl.host import verbs

        if verb not in NOT_OF_A_NODE:
            self._refuse_elsewhere(name)
        return verbs.DRY_RUNS[verb](self._cluster, self._installation, name, **arguments)

    def up(self, *, progress: Tell = ignore) -> list[str]:
        from indico_zodbrepl.host import lifecycle

        return lifecycle.up(self._cluster, self._installation, progress)

    def down(self, *, progress: Tell = ignore) -> list[str]:
        from indico_zodbrepl.host import lifecycle

        return lifecycle.down(self._cluster, self._installation, progress)

    def stop_stage(self, host: str, names: Sequence[str], **options: Any) -> list[str]:
        self._refuse_other_host(host)
        from indico_zodbrepl.host import stopping

        return stopping.stop_stage(self._cluster, self._installation, names, **options)

    def start_node(self, name: str, **options: Any) -> bool:
        self._refuse_elsewhere(name)
        from indico_zodbrepl.host import verbs

        return verbs.start_node(self._cluster, self._installation, name, **options)

    def stop_node(self, name: str, **options: Any) -> bool:
        self._refuse_elsewhere(name)
        from indico_zodbrepl.host import verbs

        return verbs.stop_node(self._cluster, name, **options)

    def restart_node(self, name: str, **options: Any) -> None:
        self._refuse_elsewhere(name)
        from indico_zodbrepl.host import starts

        starts.restart_node(self._cluster, self._installation, name, **options)

    def fence(self, name: str) -> Fenced:
        self._refuse_elsewhere(name)
        from indico_zodbrepl.host import verbs

        return verbs.fence(self._cluster, name)

    def assign(self, name: str, **state: Any) -> NodeState:
        self._refuse_elsewhere(name)
        from indico_zodbrepl.host import verbs

        return verbs.assign(self._cluster, name, **state)

    def promote(self, name: str, **options: Any) -> Changed:
        self._refuse_elsewhere(name)
        from indico_zodbrepl.host import verbs

        return verbs.promote(self._cluster, self._installation, name, **options)

    def report_promotion(self, name: str, epoch: int, reason: str = "") -> list[str]:
        from indico_zodbrepl.host import roles

        return roles.report_promotion(self._cluster, name, epoch, reason)

    def follow(self, name: str, **options: Any) -> Changed:
        self._refuse_elsewhere(name)
        from indico_zodbrepl.host import verbs

        return verbs.follow(self._cluster, self._installation, name, **options)

    def log_end(self, name: str) -> str:
        self._refuse_elsewhere(name)
        return native_of(self._cluster).log_end(self._cluster, self._node(name))

    def prove(self, name: str, primary: str, seconds: float) -> str:
        deadline = time.monotonic() + seconds
        end = host_of(self._cluster, self._installation).log_end(primary)
        return native_of(self._cluster).prove(
            self._cluster, self._node(name), self._node(primary), end, deadline
        )

    def candidacy(self, name: str, epoch: int, seconds: float) -> Candidacy:
        self._refuse_elsewhere(name)
        from indico_zodbrepl.host import candidacy

        node = self._node(name)
        return candidacy.candidacy(self._cluster, self._installation, node, epoch, seconds)

    def redirect(self, name: str, wanted: NodeState) -> None:
        from indico_zodbrepl.host import engine_control

        engine_control.redirect(self._cluster, self._node(name), wanted)

    def silence(self, name: str, epoch: int, proven: int | None = None) -> Silenced:
        self._refuse_elsewhere(name)
        from indico_zodbrepl.host import writers

        return writers.silence(self._cluster, name, epoch, proven)

    def pause_writes(self, name: str, seconds: float) -> str:
        self._refuse_elsewhere(name)
        from indico_zodbrepl.host import verbs

        return verbs.pause_writes(self._cluster, name, seconds)

    def resume_writes(self, name: str) -> None:
        self._refuse_elsewhere(name)
        from indico_zodbrepl.host import verbs

        verbs.resume_writes(self._cluster, name)

    def synchronous(self, name: str) -> Acknowledging:
        self._refuse_elsewhere(name)
        from indico_zodbrepl.host import acknowledging

        return acknowledging.synchronous(self._cluster, name)

    def change_synchronous(self, name: str, **changes: Any) -> Acknowledging:
        self._refuse_elsewhere(name)
        from indico_zodbrepl.host import acknowledging

        return acknowledging.change(self._cluster, name, **changes)

    def force_start(self, name: str, **options: Any) -> Forcing:
        self._refuse_elsewhere(name)
        from indico_zodbrepl.host import verbs

        return verbs.force_start(self._cluster, self._installation, name, **options)

    def restart_instance(self, name: str, **options: Any) -> None:
        from indico_zodbrepl.host import verbs

        verbs.restart_instance(self._cluster, name, **options)

    def _refuse_elsewhere(self, name: str) -> None:
        """Raise OperatorError (exit 8) for a node of another machine.

        A server is found by its port: the one on this machine would be stopped in its place.
        """
        node = self._node(name)
        if not node.managed:  # its verbs refuse it, wherever it is
            return
        if self._cluster.hosts:
            if not self._cluster.is_here(node):
                raise OperatorError(
                    f"node {name} is not on this host",
                    f"{self._cluster.where('node', name, 'host')}: it is on host {node.on}",
                    exit_code=ExitCode.REFUSED,
                )
            return
        try:
            here = is_of_this_machine(node.host)
        except OSError as error:
            detail = f"{node.host} does not resolve: {error.strerror}"
        else:
            detail = f"no interface of this machine has the address {node.host}"
            if here:
                return
        raise OperatorError(
            f"node {name} is not on this machine",
            f"{self._cluster.where('node', name, 'host')}: {detail}",
            f"type this on {node.host}",
            ExitCode.REFUSED,
        )

    # Programs

    def programs(self, seconds: float = supervisor.ANSWER_SECONDS) -> Mapping[str, ProgramState]:
        return supervisor.program_states(self._cluster, seconds)

    def supervisor_is_away(self, name: str) -> bool:
        self._node(name)
        return supervisor.is_away(self._cluster)

    def start_program(self, program: str) -> bool:
        return Supervisor(self._cluster).start(program)

    def last_refusal(self, name: str) -> OperatorError | None:
        return supervisor.last_refusal(Layout(self._cluster).program_log(self._node(name).program))

    def process_state(self, name: str, pid: int) -> str:
        self._node(name)
        return state_of(guarded.server_of(pid))

    def is_of_cluster(self, name: str, pid: int) -> bool:
        self._node(name)
        from indico_zodbrepl.host import ports

        return ports.works_for(self._cluster, pid)
