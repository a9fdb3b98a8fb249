"""The interface through which operations and monitoring reach the hosts of a cluster.

``host_of`` returns an implementation: ``LocalHost`` calls functions of this package in this
process; in a cluster of several hosts ``remote.router`` calls it for the nodes of this host, and
the agents of the other hosts for theirs.  No module outside this package opens a node's files,
sockets or processes in another way, and inside it a node's files are opened on its host only.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host.data_interface import DataHost
from indico_zodbrepl.host.exports_interface import ExportsHost
from indico_zodbrepl.host.operations_interface import OperationsHost

if TYPE_CHECKING:
    from indico_zodbrepl.cluster import Cluster, NodeState, Role
    from indico_zodbrepl.cluster.installation import Installation
    from indico_zodbrepl.host.candidacy import Candidacy
    from indico_zodbrepl.host.disks import Disk
    from indico_zodbrepl.host.epochs import EpochRecord
    from indico_zodbrepl.host.fencing import Fenced
    from indico_zodbrepl.host.forcing import Forcing
    from indico_zodbrepl.host.history import Condition, Lineage
    from indico_zodbrepl.host.last_seen import LastSeen
    from indico_zodbrepl.host.logs_interface import Logs
    from indico_zodbrepl.host.promise import Promise
    from indico_zodbrepl.host.remote.messages import Identity
    from indico_zodbrepl.host.role_changes import Changed
    from indico_zodbrepl.host.sights import Sighting
    from indico_zodbrepl.host.supervisor import ProgramState
    from indico_zodbrepl.host.writers import Silenced
    from indico_zodbrepl.probing.answers import Acknowledging

START_SECONDS = 60.0
STOP_SECONDS = 40.0
CHANGE_SECONDS = STOP_SECONDS + START_SECONDS
"""For a change of role: a server that can't change in place is stopped and started."""

AWAY_SECONDS = 0.5
"""For a program whose host's agent is silent: the host is probably off."""

SUPERVISOR_AWAY = "supervisord is not running"
"""The problem of a supervisord that does not exist; one that is frozen has another."""

Tell = Callable[[str], None]


class HostAwayError(OperatorError):
    """The agent of a host can't be reached, or stopped answering: the outcome is unknown."""


class AgentStoppedError(HostAwayError):
    """A host is up and refuses connections to its agent: its other programs may run."""


@dataclasses.dataclass(frozen=True)
class DryRun:
    """The result of a verb's checks.

    Attributes:
        found: the facts that were checked and are fine, one line each.
        does: what the verb would do, in this order, one line each; empty if there is nothing to do.
        problems: what would fail although the rest is done, one line each.
    """

    found: tuple[str, ...]
    does: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def ignore(_step: str) -> None:
    """Report the progress of a verb to nobody."""


class Host(DataHost, ExportsHost, OperationsHost, Protocol):
    """The nodes, Indico instances and programs of one cluster.

    ``name`` is always the name of a node.  All methods raise OperatorError.
    """

    # Hosts

    def identity(self, host: str) -> Identity:
        """Return what the agent of a host reports of itself; see ``remote.messages``."""

    def sight(self, host: str, name: str) -> Sighting:
        """Probe a node's server from another host; see ``sights.look``."""

    def logs(self) -> Logs:
        """Return the logs of the cluster's programs."""

    # State of a node

    def state(self, name: str) -> NodeState:
        """Return the state of the node's state file; of cluster.conf if there is none."""

    def saved_state(self, name: str) -> NodeState | None:
        """Return the state of the node's state file; None if there is none."""

    def write_state(self, new: NodeState) -> None:
        """Write a node's state file."""

    def prepare(self, name: str) -> NodeState:
        """Make the node's data directory and state file if they are missing; return the state."""

    def check_folder(self, name: str) -> None:
        """Raise OperatorError if ``prepare`` could not make the data directory."""

    def free_bytes(self, name: str) -> int:
        """Return the free disk space for the node's data directory."""

    def disk(self, name: str) -> Disk | None:
        """Return the disk of the node's data directory; None if it can't be asked."""

    def control_disk(self) -> Disk | None:
        """Return the disk of the cluster's var directory; None if it can't be asked."""

    def why_unwritable(self, name: str) -> str:
        """Return why the node's state can't be written, by writing a file; empty if it can."""

    def why_control_unwritable(self) -> str:
        """Return why the control host's journal and records can't be written; empty if they can."""

    # History of a node

    def history(self, name: str) -> Lineage | None:
        """Return what is known of the node's history; None if nothing is."""

    def write_history(self, name: str, lineage: Lineage) -> None:
        """Replace what is known of the node's history."""

    def mark(self, name: str, epoch: int, condition: Condition, detail: str) -> None:
        """Set the condition of the node's data."""

    def promise(self, name: str) -> Promise | None:
        """Return what the node last promised of its acknowledged commits; None if unknown."""

    def kept_promise(self, host: str) -> Promise | None:
        """Return the weak promise that a host has recorded; None if it has none."""

    def agreed_promise(self, epoch: int) -> Promise | None:
        """Return the promise of a primary by what a majority of the hosts has recorded."""

    def keep_promise(self, host: str, found: Promise) -> None:
        """Record a weak promise on a host; see ``kept_promises``."""

    # Records of the epoch

    def keepers(self) -> tuple[str, ...]:
        """Return the hosts that keep a record of the epoch, as messages name them."""

    def record(self, keeper: str) -> EpochRecord | None:
        """Return the record that a host keeps; None if it has none."""

    def raise_record(self, keeper: str, record: EpochRecord) -> bool:
        """Write the record that a host keeps; see ``epochs.raise_record``."""

    def last_seen(self) -> LastSeen | None:
        """Return the primary as the monitor process last saw it; None if it is unknown."""

    def newest_record(self) -> EpochRecord | None:
        """Return the record of the highest epoch; None if there is none or two contradict."""

    def highest_recorded(self) -> int:
        """Return the highest epoch of any record.

        Raises OperatorError (exit 8) if a record can't be read, or no majority of the hosts
        answers.
        """

    def highest_epoch(self, name: str, own: int) -> int:
        """Return the highest epoch that any source reports; ``own`` is the node's."""

    # Start-up checks

    def admit_follower(self, wanted: NodeState) -> list[str]:
        """Compare a follower's history with its upstream's before it starts; return remarks."""

    def refuse_unfinished_conversion(self) -> None:
        """Raise OperatorError (REFUSED) while a conversion into the cluster is unfinished."""

    # Verbs: one change of one node or Indico instance each, or of all; idempotent

    def dry_run(self, verb: str, name: str, **arguments: object) -> DryRun:
        """Make the checks of a verb, one of the methods below, and change nothing.

        Raises OperatorError as the verb does.
        """

    def up(self, *, progress: Tell = ...) -> list[str]:
        """Start what does not run; return the programs that were started."""

    def down(self, *, progress: Tell = ...) -> list[str]:
        """Stop all programs and supervisord; return the programs that were running."""

    def stop_stage(
        self, host: str, names: Sequence[str], *, progress: Tell = ..., seconds: float = ...
    ) -> list[str]:
        """Stop programs of a host at the same time; return those that were running.

        They may run under supervisord, or be left by one that was killed.
        """

    def start_node(self, name: str, *, progress: Tell = ..., seconds: float = ...) -> bool:
        """Start a node under supervisor; return False if it was running."""

    def stop_node(self, name: str, *, progress: Tell = ..., seconds: float = ...) -> bool:
        """Stop a node cleanly; return False if it was not running."""

    def restart_node(self, name: str, *, progress: Tell = ..., seconds: float = ...) -> None:
        """Stop a node if it is running, then start it."""

    def fence(self, name: str) -> Fenced:
        """Kill a node's server and prove that it is gone."""

    def assign(self, name: str, *, role: Role, upstream: str | None, epoch: int) -> NodeState:
        """Write the role that a node has from its next start on."""

    def promote(
        self,
        name: str,
        *,
        epoch: int,
        reason: str = "",
        proven: int | None = None,
        progress: Tell = ...,
        seconds: float = ...,
    ) -> Changed:
        """Make a node the primary of an epoch; see ``roles.promote``."""

    def report_promotion(self, name: str, epoch: int, reason: str = "") -> list[str]:
        """Report a new primary's epoch to all hosts; see ``roles.report_promotion``."""

    def follow(
        self,
        name: str,
        *,
        upstream: str,
        epoch: int,
        role: Role | None = None,
        progress: Tell = ...,
        seconds: float = ...,
    ) -> Changed:
        """Make a node follow another one; see ``roles.follow``."""

    def log_end(self, name: str) -> str:
        """Return where the log of a stopped database server ends."""

    def prove(self, name: str, primary: str, seconds: float) -> str:
        """Wait until a node has everything that a stopped primary had; return what was compared."""

    def candidacy(self, name: str, epoch: int, seconds: float) -> Candidacy:
        """Detach a follower and return what it has; see ``candidacy.candidacy``."""

    def redirect(self, name: str, wanted: NodeState) -> None:
        """Tell a running server its new upstream; see ``ServerControl.follow``."""

    def silence(self, name: str, epoch: int, proven: int | None = None) -> Silenced:
        """Make sure that a node accepts no commits in an epoch; see ``writers.silence``."""

    def pause_writes(self, name: str, seconds: float) -> str:
        """Pause the writes of a primary; return its last transaction."""

    def resume_writes(self, name: str) -> None:
        """Resume the writes of a primary."""

    def synchronous(self, name: str) -> Acknowledging:
        """Return how commits of a primary are acknowledged."""

    def change_synchronous(
        self,
        name: str,
        *,
        count: int | None = None,
        level: str | None = None,
        timeout: float | None = None,
        alone: str | None = None,
    ) -> Acknowledging:
        """Change how commits of a primary are acknowledged; see ``acknowledging.change``."""

    def force_start(
        self, name: str, *, reason: str, actor: str, progress: Tell = ..., seconds: float = ...
    ) -> Forcing:
        """Start a node as the primary of a new epoch without a source that confirms it."""

    def restart_instance(self, name: str, *, progress: Tell = ..., seconds: float = ...) -> None:
        """Replace the workers of an Indico instance."""

    # Programs

    def programs(self, seconds: float = ...) -> Mapping[str, ProgramState]:
        """Return the supervised programs by name; see ``supervisor.program_states``."""

    def supervisor_is_away(self, name: str) -> bool:
        """Return True if supervisord does not run on the node's host."""

    def start_program(self, program: str) -> bool:
        """Start a supervised program; return False if it was running."""

    def last_refusal(self, name: str) -> OperatorError | None:
        """Return why the node refused to start, by its log."""

    def process_state(self, name: str, pid: int) -> str:
        """Return the state of a process on the node's host; see ``process_state.state_of``."""

    def is_of_cluster(self, name: str, pid: int) -> bool:
        """Return True if a process on the node's host works in one of the cluster's folders."""


def this_host(cluster: Cluster, installation: Installation | None = None) -> Host:
    """Return the interface of this host alone, for what begins and ends with it.

    Args:
        installation: as of ``host_of``.
    """
    from indico_zodbrepl.host.local import LocalHost  # noqa: PLC0415 - it implements this module

    return LocalHost(cluster, installation)


def host_of(cluster: Cluster, installation: Installation | None = None) -> Host:
    """Return the host interface of a cluster.

    Args:
        installation: the installed programs; None for the installation of this process.

    Raises OperatorError (exit 8) on a machine that is no host of a cluster of several.
    """
    if cluster.hosts:
        from indico_zodbrepl.host.remote.router import several_hosts  # noqa: PLC0415 - as below

        return several_hosts(cluster, installation)
    return this_host(cluster, installation)


def prepare(cluster: Cluster) -> None:
    """Import what calls to other hosts need; call it before a limit of time counts.

    It takes long on a busy host, where hosts that answer were reported as silent otherwise.
    """
    if cluster.hosts and cluster.here is not None:
        host_of(cluster)


def answer_deadline(cluster: Cluster, on: str | None, deadline: float) -> float:
    """Return when an answer of a program on a host is too late, by ``time.monotonic``.

    Args:
        on: the host, as ``Node.on``.
        deadline: for a host that answers; a silent one has AWAY_SECONDS at most.
    """
    if on is not None and cluster.here not in (None, on):
        from indico_zodbrepl.host.remote.client import is_silent  # noqa: PLC0415 - as above

        if is_silent(cluster.host(on)):
            return min(deadline, time.monotonic() + AWAY_SECONDS)
    return deadline


def expect_away(cluster: Cluster) -> None:
    """Take over from this host's agent which hosts do not answer, so that no call waits for them.

    They are asked again in the background.  Without an answer of the agent nothing is expected.
    """
    if cluster.hosts and cluster.here is not None:
        from indico_zodbrepl.host.remote.client import expect_away as expect  # noqa: PLC0415 - as above

        expect(cluster)
