"""The monitor process from its start to its stop."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from indico_zodbrepl.backends import can
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.cluster.programs import Watch
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import ports, releases
from indico_zodbrepl.host.interface import host_of
from indico_zodbrepl.monitor.collect import look
from indico_zodbrepl.monitor.snapshot import Snapshot
from indico_zodbrepl.monitor.watcher import Watcher
from indico_zodbrepl.monitord import mail, stream, webhook
from indico_zodbrepl.monitord.events import Event, Kind, Weight
from indico_zodbrepl.monitord.loop import EventDetector
from indico_zodbrepl.monitord.notifiers import Notifier, Recipient
from indico_zodbrepl.monitord.outage_records import OutageJournal
from indico_zodbrepl.monitord.secret import read_secret
from indico_zodbrepl.monitord.service import create_server
from indico_zodbrepl.monitord.verifier import Verifier
from indico_zodbrepl.operations.model import Plan, Step

logger = logging.getLogger(__name__)

NOWHERE = Watch("", 0)
"""Defaults for a cluster file without a <watch> section: no recipients."""


def run(cluster: Cluster) -> None:
    """Monitor a cluster until SIGTERM or SIGINT; stop within a second of it.

    Raises:
        OperatorError: exit 2, a recipient's secret is unusable; exit 5, the port is taken;
            exit 8, another program watches this cluster already; exit 1, VAR/watch can't be
            used.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("waitress").setLevel(logging.WARNING)
    watch = cluster.watch or NOWHERE
    with _alone(cluster):
        releases.note(cluster, "watch")
        _watch(cluster, watch)


def plan(cluster: Cluster) -> tuple[Plan, tuple[str, ...]]:
    """Return the plan of ``run``, and what it does besides; change nothing.

    Raises as ``run``, except exit 8 and 1.
    """
    watch, layout = cluster.watch or NOWHERE, Layout(cluster)
    told = [f"send events to {each.name}" for each in recipients(cluster, watch)]
    endpoints = [each for each in cluster.endpoints() if each.kind == "watch"]
    ports.check_free(cluster, endpoints)
    served = [f"serve metrics at {watch.metrics_url}"] if watch.port else []
    does = [
        f"remember what is seen in {layout.watch}",
        *(["write each outage into the journal"] if _journals(cluster) else []),
        *told,
        *served,
    ]
    if can(cluster, "lineage"):
        does.append(
            "compare followers with the primary every three minutes, and write how far "
            "they are the same into their history files"
        )
    title = "Check the cluster each second until stopped"
    step = Step(cluster.name, {}, title=title, seconds=0.0, after_no_return=False)
    return Plan("watch", cluster.name, "", "", 0, (step,), None, ()), tuple(does)


def recipients(cluster: Cluster, watch: Watch) -> Iterator[Recipient]:
    """Yield the recipients of the cluster file.  Raise OperatorError (exit 2) for a bad secret."""
    if watch.webhook:
        if watch.webhook_secret_file:
            read_secret(watch.webhook_secret_file, webhook.PROVEN_BY)
        yield webhook.Webhook(cluster.name, watch.webhook, watch.webhook_secret_file)
    if watch.mail_server and watch.mail_from:
        login = None
        if watch.mail_user and watch.mail_password_file:
            read_secret(watch.mail_password_file, mail.PROVEN_BY)
            login = watch.mail_user, watch.mail_password_file
        yield mail.Mail(
            cluster.name,
            watch.mail_server,
            watch.mail_from,
            watch.mail_to,
            encryption=watch.mail_encryption,
            login=login,
        )


def _watch(cluster: Cluster, watch: Watch) -> None:
    console = Console(highlight=False)
    detector = EventDetector(cluster, watch, lambda event: stream.show(console, event))
    for recipient in recipients(cluster, watch):
        detector.notifiers.append(Notifier(recipient, detector.lost))
    if _journals(cluster):
        detector.journal = Notifier(OutageJournal(cluster), detector.lost)

    verifier = Verifier(host_of(cluster).verify, Commands.here(cluster))

    def take() -> Snapshot:
        findings, snapshot = look(cluster)
        compared = verifier.look(snapshot) if can(cluster, "lineage") else ()
        detector.see(findings, snapshot, compared)
        return snapshot

    server = create_server(cluster, watch, detector) if watch.port else None
    ended = threading.Event()
    with _signals(ended):
        detector.tell([_begins(cluster, watch)])
        for notifier in detector.every_notifier():
            notifier.start()
        if server is not None:
            threading.Thread(target=server.run, name="metrics", daemon=True).start()
        watcher = Watcher(take)
        watcher.start()
        ended.wait()
        watcher.end()
        detector.end()
    waiting = sum(notifier.undelivered() for notifier in detector.every_notifier())
    left = f"; {waiting} deliveries are still waiting" if waiting else ""
    stream.show(console, Event(time.time(), Kind.WATCH, Weight.NOTICE, "", f"monitor stops{left}"))
    if server is not None:
        server.close()


def _journals(cluster: Cluster) -> bool:
    """Return True if this monitor writes outages into the journal, which all hosts share.

    Another one may run in a terminal of another host.
    """
    return cluster.watch is None or cluster.is_here(cluster.watch)


def _begins(cluster: Cluster, watch: Watch) -> Event:
    metrics = f"; metrics are at {watch.metrics_url}" if watch.port else ""
    return Event(
        time.time(),
        Kind.WATCH,
        Weight.NOTICE,
        "",
        f"monitor of cluster {cluster.name} started{metrics}",
    )


@contextlib.contextmanager
def _signals(ended: threading.Event) -> Iterator[None]:
    """Set the event on SIGTERM and SIGINT while the block runs."""
    asked = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(each, lambda _number, _frame: ended.set()) for each in asked]
    try:
        yield
    finally:
        for each, handler in zip(asked, before, strict=True):
            signal.signal(each, handler)


@contextlib.contextmanager
def _alone(cluster: Cluster) -> Iterator[None]:
    """Hold VAR/watch: two programs would report everything twice and mix their files."""
    folder = Layout(cluster).watch
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (folder / "lock").open("a")
    except OSError as error:
        raise OperatorError(
            "the folder of the watching program can't be used", f"{folder}: {error.strerror}"
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _watched_already(cluster, folder / "lock") from None
        yield


def _watched_already(cluster: Cluster, lock: Path) -> OperatorError:
    log = Commands.here(cluster).path(Layout(cluster).program_log(Watch.program))
    return OperatorError(
        "the cluster is watched already",
        f"another process holds {lock}",
        f"see what it tells: tail -f {log}",
        ExitCode.REFUSED,
    )
