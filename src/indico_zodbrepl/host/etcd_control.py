"""The etcd member of a host as a program: start it, use changed files, check its folder."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from indico_zodbrepl.cluster.files import write_atomically
from indico_zodbrepl.cluster.hosts import Etcd
from indico_zodbrepl.cluster.layout import Layout, authorities_file
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.cluster.rendering import Program
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.etcd import member
from indico_zodbrepl.etcd.connection import etcd_of, identity, store_of
from indico_zodbrepl.etcd.problems import EtcdAwayError, EtcdCertificateError, EtcdError
from indico_zodbrepl.host import certificates, etcd_trust, programs
from indico_zodbrepl.host.interface import Tell, ignore
from indico_zodbrepl.host.locking import exclusive
from indico_zodbrepl.host.supervisor import Supervisor
from indico_zodbrepl.probing.waiting import wait_until

COMMAND = "etcd"
PACKAGE = "etcd-server"
STOP_SECONDS = 10
RESTART_SECONDS = 30.0
ANSWER_SECONDS = 1.0
FOUND_SECONDS = 2.0
NAME = Etcd.program

# Supervisor starts the member again after any exit. It must not begin without the data that it had:
# two such members would found another cluster of etcd, without the keys. On one line, and no blank
# before a semicolon, for supervisor.
_START = (
    'if [ -e "$0" ] && [ ! -e "$1" ] && [ ! -e "$2" ]; then '
    'echo "the data of etcd on this host is lost: $0 says that $1 existed" >&2; exit 1; fi; '
    'shift 2; exec "$@"'
)


def program(cluster: Cluster) -> Program:
    """Return the program of this host's member."""
    layout = Layout(cluster)
    return Program(
        name=NAME,
        command=(
            *("/bin/sh", "-c", _START),
            *(str(layout.etcd_founded), str(_data(cluster)), str(layout.etcd_joins)),
            *(str(find() or COMMAND), "--config-file", str(layout.etcd_conf)),
        ),
        directory=layout.var,
        stop_seconds=STOP_SECONDS,
        final_exits=(),
    )


def config(cluster: Cluster) -> str:
    """Return the configuration of this host's member, which depends on ``Layout.etcd_joins``."""
    return member.config(cluster, joins=Layout(cluster).etcd_joins.exists())


def check(cluster: Cluster) -> None:
    """Check that the member of this host can start.

    Raises OperatorError: exit 4, etcd is missing; exit 8, the host's certificate can't be used, or
    the keys in etcd are of another cluster.  Lost data of the member stop that alone; see
    ``start``.
    """
    if cluster.automatic and cluster.here is not None:
        identity(cluster)
        if cluster.etcd is not None and not cluster.etcd.is_ours:
            _check_existing(cluster)
    if not member.runs_here(cluster):
        return
    check_installed()
    host = cluster.host(cluster.here or "")
    certificates.check_host(Layout(cluster).tls, host, datetime.datetime.now(datetime.UTC))


def _check_existing(cluster: Cluster) -> None:
    """Raise OperatorError (exit 8) if an existing etcd answers, but this cluster can't use it."""
    store = store_of(cluster)
    with contextlib.suppress(EtcdAwayError):  # its members may start later
        entry = store.etcd.get(store.keys.owner.name, FOUND_SECONDS)
        store.refuse_foreign([] if entry is None else [entry])


def check_installed() -> None:
    """Raise OperatorError (exit 4) if etcd is missing."""
    if find() is None:
        raise OperatorError(
            "etcd, which decides which node leads, is not installed",
            f"no {COMMAND} in PATH",
            f"as root: apt-get install {PACKAGE}; if its own service starts: "
            "systemctl disable --now etcd",
            ExitCode.NOT_INSTALLED,
        )


def has_data(cluster: Cluster) -> bool:
    """Return True if the member of this host has been started before, and has its data."""
    return _data(cluster).exists()


def _data(cluster: Cluster) -> Path:
    return member.data_directory(cluster) / "member"


def find() -> Path | None:
    """Return the path of etcd; None if it is not installed."""
    return programs.find(COMMAND, ("/usr/bin",))


def make_directory(cluster: Cluster) -> None:
    """Create the member's folder, which only its owner can read.  Raises OSError."""
    folder = member.data_directory(cluster)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)


def start(
    cluster: Cluster,
    stage: programs.Stage,
    missing: Collection[str],
    deadline: float,
    progress: Tell,
) -> programs.Started:
    """Start the member, or restart it if it runs with former files; wait until it listens.

    It may lack a majority then: the members of other hosts start at other times.  One whose data is
    lost is not started, and is among the failures.

    Args:
        stage: its stage; empty without a member.
        missing: programs that do not run.

    Raises OperatorError as ``programs.start``.
    """
    if not stage:
        return programs.Started([], {})
    starts = NAME in missing
    with left_alone(cluster, deadline, progress) if starts else contextlib.nullcontext():
        if starts:
            refusal = _amnesia(cluster)
            if refusal is not None:
                return programs.Started([], {NAME: refusal})
            etcd_trust.write(cluster)
            _write(
                Layout(cluster).etcd_conf, config(cluster)
            )  # it may be replaced since ``up`` did
        elif restart_if_outdated(cluster, deadline, progress):
            progress(f"{NAME} has been restarted with its new files")
        done = programs.start(cluster, stage, missing, deadline, progress)
        if NAME not in done.failures:
            _record(cluster)
            if has_data(cluster):
                settle(cluster)
    if NAME in done.failures and has_data(cluster) and _is_removed(cluster):
        done.failures[NAME] = OperatorError(
            "etcd does not start: the member of this host was removed from the cluster of etcd",
            f"the other members do not know {member.data_directory(cluster)} as one of theirs",
            "bin/zodbrepl etcd replace",
            ExitCode.REFUSED,
        )
    return done


def settle(cluster: Cluster) -> None:
    """Record that the member has data; supervisor must not let it join again without them."""
    Layout(cluster).etcd_joins.unlink(missing_ok=True)
    _write(Layout(cluster).etcd_conf, config(cluster))
    _write(Layout(cluster).etcd_founded, "")


def _amnesia(cluster: Cluster) -> OperatorError | None:
    """Return why the member may not start without data; None if it may, or has data.

    A member that has been started before would forget what it has agreed to.  Etcd refuses that as
    well, but for a member that was replaced once it does not.
    """
    if has_data(cluster) or Layout(cluster).etcd_joins.exists():
        return None
    founded = Layout(cluster).etcd_founded
    if founded.exists():
        return OperatorError(
            "the data of etcd on this host is lost",
            f"{member.data_directory(cluster)} is empty, and {founded} says that it was not; a "
            "member that starts without its data could forget what it has agreed to",
            "while the other members run: bin/zodbrepl etcd replace; or restore the folder",
            ExitCode.REFUSED,
        )
    try:
        listed = listed_by_others(cluster, FOUND_SECONDS)
    except EtcdError:
        return None  # no other member runs, so that nothing is founded before they do
    if listed is not None and not listed.get("clientURLs"):
        return None  # it has never run: a member publishes them at its first start
    return OperatorError(
        "etcd does not start: the cluster of etcd exists, and the member of this host has no data",
        f"{member.data_directory(cluster)} is empty",
        "bin/zodbrepl etcd replace; or restore the folder",
        ExitCode.REFUSED,
    )


def _is_removed(cluster: Cluster) -> bool:
    """Return True if the others have no member of this host, or one that has never run."""
    try:
        listed = listed_by_others(cluster, FOUND_SECONDS)
    except EtcdError:
        return False
    return listed is None or not listed.get("clientURLs")


def listed_by_others(cluster: Cluster, seconds: float) -> Mapping[str, Any] | None:
    """Return this host's member as another one lists it; None if it does not.

    One that has never run has no ``clientURLs``.  Raises EtcdError if none answers.
    """
    own = member.peer_url(cluster, cluster.host(cluster.here or ""))
    members = ask_others(cluster, "cluster/member/list", {}, seconds).get("members", ())
    return next((each for each in members if own in each.get("peerURLs", ())), None)


def ask_others(
    cluster: Cluster, path: str, body: Mapping[str, object], seconds: float
) -> Mapping[str, Any]:
    """Return the answer of the first member of another host.  Raises EtcdError."""
    transport = etcd_of(cluster).transport
    others = [host for host in cluster.hosts if host.name != cluster.here]
    reasons: list[str] = []
    for host in others:
        try:
            url = member.client_url(cluster, host)
            return transport.ask(url, path, body, seconds / len(others)).content
        except (EtcdAwayError, EtcdCertificateError) as error:
            reasons.append(error.detail)
    raise EtcdAwayError(reasons, seconds, unknown=True)


def restart_if_outdated(cluster: Cluster, deadline: float, progress: Tell = ignore) -> bool:
    """Restart the running member if its files have changed; return True if it did.

    A changed cluster file is left to ``up``, which writes those files.  The member reads its own
    certificate again for each connection, but the authorities only when it starts.  ``up`` and
    the agent of this host may call it at the same time: one of them restarts the member.

    Raises OperatorError: exit 7, it does not stop before the deadline; exit 8, its files can't be
    used.
    """
    if not is_outdated(cluster):
        return False
    with left_alone(cluster, deadline, progress):
        if not is_outdated(cluster) or not programs.running(cluster, [NAME]):
            return False
        _restart(cluster, deadline)
        return True


@contextlib.contextmanager
def left_alone(cluster: Cluster, deadline: float, progress: Tell = ignore) -> Iterator[None]:
    """Keep others on this host from starting or replacing its member meanwhile.

    Raises OperatorError: exit 7, one of them still does so at the deadline.
    """
    if not member.runs_here(cluster):
        yield
        return
    seconds = max(0.0, deadline - time.monotonic())
    with exclusive(Layout(cluster).etcd_lock, seconds, progress, f"start or replacement of {NAME}"):
        yield


def is_outdated(cluster: Cluster) -> bool:
    """Return True if the member was started with another configuration or other authorities."""
    try:
        return Layout(cluster).etcd_digest.read_text() != _digest(cluster)
    except FileNotFoundError:
        return True


def _restart(cluster: Cluster, deadline: float) -> None:
    """Stop and start the member; wait until it serves, so that hosts do so one after another."""
    etcd_trust.write(cluster)
    programs.end(cluster, [NAME], deadline)
    Supervisor(cluster).start(NAME)
    _record(cluster)
    wait_until(lambda: serves(cluster), min(deadline, time.monotonic() + RESTART_SECONDS))


def serves(cluster: Cluster) -> bool:
    """Return True if the member of this host is part of a majority."""
    own = member.client_url(cluster, cluster.host(cluster.here or ""))
    try:
        answer = etcd_of(cluster).transport.ask(own, "maintenance/status", {}, ANSWER_SECONDS)
    except OperatorError:
        return False
    return "leader" in answer.content


def _record(cluster: Cluster) -> None:
    _write(Layout(cluster).etcd_digest, _digest(cluster))


def _write(path: Path, text: str) -> None:
    try:
        write_atomically(path, text, 0o600)
    except OSError as error:
        raise certificates.unusable(path, error) from error


def _digest(cluster: Cluster) -> str:
    """Return a digest of the files that the member reads only when it starts.

    The configuration is the written one: a changed cluster file counts from the next ``up`` on,
    which writes it.  The state of the member's cluster is left out: it means nothing to a member
    that has data.
    """
    conf, trusted = Layout(cluster).etcd_conf, authorities_file(Layout(cluster).tls)
    try:
        values = json.loads(conf.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise OperatorError(
            "the configuration of etcd can't be read",
            f"{conf}: {getattr(error, 'strerror', None) or error}",
            "bin/zodbrepl up --this-host writes it again",
        ) from error
    values.pop(member.STATE, None)
    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode())
    try:
        digest.update(trusted.read_bytes())
    except OSError as error:
        raise certificates.unusable(trusted, error) from error
    return digest.hexdigest()
