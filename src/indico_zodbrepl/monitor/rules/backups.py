"""Rules about scheduled backups: one is missing, too old, or has failed."""

from __future__ import annotations

from collections.abc import Iterator

from indico_zodbrepl.cluster.backup_schedule import is_late, unit
from indico_zodbrepl.monitor.backups import backup_status, folder
from indico_zodbrepl.monitor.host_status import BackupStatus
from indico_zodbrepl.monitor.rules.facts import Facts
from indico_zodbrepl.probing import times
from indico_zodbrepl.probing.answers import Alert, Level


def warnings(facts: Facts) -> Iterator[Alert]:
    found = backup_status(facts.cluster, facts.findings)
    if found is None:
        return
    if found.problem:
        yield Alert(
            Level.WARNING,
            "",
            "it is unknown how old the last backup is",
            f"The journal can't be read: {found.problem}.",
            "make it readable for the user of the cluster",
        )
    elif found.last is None:
        none = f"The journal has none in {folder(facts.cluster)}."
        yield _alert(facts, "there is no good backup", none, found)
    elif is_late(found.last, facts.findings.taken_at):
        made = f"The last good one was made {times.moment(found.last)}."
        yield _alert(facts, "the last good backup is more than a day old", made, found)
    elif found.failed is not None:
        made = f"The last good one was made {times.moment(found.last)}."
        yield _alert(facts, "the last backup failed", made, found)


def _alert(facts: Facts, text: str, made: str, found: BackupStatus) -> Alert:
    cluster = facts.cluster
    failed = ""
    if found.failed is not None:
        failed = (
            f" The last attempt failed {times.moment(found.failed)}: {found.error.rstrip('.')}."
        )
    service, timer = unit(cluster, "service"), unit(cluster, "timer")
    on = f" on host {cluster.backup_host}" if cluster.backup_host else ""
    return Alert(
        Level.WARNING,
        "",
        text,
        f"{made}{failed} The next one is due {times.moment(found.due)}.",
        f"make one now: `{facts.commands.zodbrepl('backup')}`; see if the timer is enabled, and "
        f"what it did{on}: `systemctl status {timer}` and `journalctl -u {service}`",
    )
