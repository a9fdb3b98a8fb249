"""The page that explains each error by its NOTICE: docs/reference/troubleshooting.md."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import notices

from indico_zodbrepl.errors import ExitCode

PACKAGE = Path(__file__).resolve().parent.parent / "src/indico_zodbrepl"

HEAD = """\
# Troubleshooting: errors by text and exit code

Search this page for the words of the NOTICE line. `*` stands for a name, path or number. The HINT
that your command printed is more exact than the one here, because it knows your cluster. *See
DETAIL* means that only the message itself has the reason.

Three commands help with any error:

    bin/zodbrepl status             # what is wrong now, and the next step
    bin/zodbrepl journal            # what was done, by whom, and how it ended
    tail -n 50 var/log/PROGRAM.log  # such as node-a, indico-one, admin, watch

For the loss of a disk, a host or data, begin with [disaster
recovery](../how-to/disaster-recovery.md). A message that consists of a file's name and an error of
the operating system, such as `No space left on device`, is not listed.

`tools/reference` generates this page from the code.

## Exit codes
"""

STATUS = """\
`bin/zodbrepl status` has [exit codes of its own](commands.md#exit-codes-of-binzodbrepl), those of
monitoring plug-ins: 0 healthy, 1 degraded, 2 critical or down, 3 unknown.
"""

TODO = {
    ExitCode.OK: "nothing",
    ExitCode.FAILED: "read DETAIL; follow HINT; retry",
    ExitCode.BAD_CONFIG: "correct the command or the cluster file; `bin/zodbrepl check` names the "
    "line",
    ExitCode.NOT_INSTALLED: "run the command of HINT, then retry",
    ExitCode.PORT_TAKEN: "stop the program that has the port, or choose another port",
    ExitCode.NOT_RUNNING: "start it: `bin/zodbrepl up`",
    ExitCode.TIMED_OUT: "check `bin/zodbrepl status` first, because the step may have been done; "
    "then retry",
    ExitCode.REFUSED: "do not force it; read which fact is against it, and follow HINT",
    ExitCode.NEWER_STATE: "use the newer release; see [upgrade](../how-to/upgrade.md)",
    ExitCode.UNSUITABLE: "cure what each line AGAINST names; see [install]"
    "(../how-to/production.md#2-install)",
    ExitCode.UPGRADE_PENDING: "follow its steps; see [upgrade](../how-to/upgrade.md)",
    ExitCode.INTERRUPTED: "`bin/zodbrepl status` reports an open operation; `bin/zodbrepl resume` "
    "continues it",
}


class Subject(NamedTuple):
    """A section of the page.

    Attributes:
        title: its heading.
        text: one or two sentences for all of its errors.
        see: link to the page that explains more.
        modules: beginnings of the modules whose errors belong here.
    """

    title: str
    text: str
    see: str
    modules: tuple[str, ...]


SUBJECTS = (
    Subject(
        "A node refuses to start or to follow",
        "The start-up check protects the data. Never delete a data directory or a state file to "
        "get past it.",
        "[rejoin and clone](../how-to/rejoin.md)",
        (
            "host/completeness",
            "host/epochs",
            "host/following",
            "host/forcing",
            "host/history",
            "host/precheck",
            "host/state",
            "backends/one_copy",
        ),
    ),
    Subject(
        "Programs do not start or stop",
        "The last lines of the program's log have the reason.",
        "[restart](../how-to/restart.md)",
        (
            "host/daemon",
            "host/generated",
            "host/lifecycle",
            "host/locking",
            "host/orphans",
            "host/ports",
            "host/programs",
            "host/readiness",
            "host/run",
            "host/supervisor",
            "cluster/files",
        ),
    ),
    Subject(
        "The command line and the cluster file",
        "Nothing was changed.",
        "[cluster.conf](cluster-conf.md), [commands](commands.md)",
        (
            "backends/__init__",
            "cli/backups",
            "cli/data",
            "cluster/loader",
            "cluster/lookup",
            "operations/planning",
            "operations/restart_facts",
        ),
    ),
    Subject(
        "Switchover and failover",
        "A refusal changes nothing. The dry run shows every fact.",
        "[fail over](../how-to/fail-over.md), [switch over](../how-to/switch-over.md)",
        (
            "host/fencing",
            "host/roles",
            "host/server_control",
            "host/verbs",
            "host/writers",
            "operations/consensus_failover",
            "operations/consensus_steps",
            "operations/facts",
            "operations/failover",
            "operations/failover_steps",
            "operations/roles",
            "operations/switchover",
            "operations/checks",
        ),
    ),
    Subject(
        "Rejoin, clone and recover",
        "The data that a node had before is kept until the operation is done.",
        "[rejoin and clone](../how-to/rejoin.md), [recover](../how-to/recover.md)",
        (
            "cli/operate",
            "host/replacing",
            "host/sql_export",
            "operations/clone",
            "operations/exports",
            "operations/clone_facts",
            "operations/consensus_rejoin",
            "operations/native_rejoin",
            "operations/recover",
            "operations/rejoin",
        ),
    ),
    Subject(
        "Operations, their journal and their progress",
        "An operation that stopped stays open until it is resumed, undone or abandoned.",
        "[fail over](../how-to/fail-over.md#when-it-is-interrupted)",
        ("cli/running", "operations/"),
    ),
    Subject(
        "Backup and restore",
        "A backup that failed leaves older backups as they were.",
        "[back up and restore](../how-to/backup.md)",
        ("host/backup", "host/restoring", "operations/backup", "operations/restore"),
    ),
    Subject(
        "Restart",
        "A refusal stops nothing.",
        "[restart](../how-to/restart.md)",
        ("operations/restart",),
    ),
    Subject(
        "Convert, pack and statistics",
        "The source of a conversion is never changed.",
        "[convert](../how-to/convert.md), [statistics](../how-to/statistics.md)",
        ("convert/", "host/packing", "host/statistics", "operations/pack"),
    ),
    Subject(
        "The admin page and the monitor",
        "The cluster works without them.",
        "[access to the admin page](../how-to/admin-page-access.md), "
        "[monitoring](../how-to/monitor.md)",
        ("admin/", "cli/admin", "monitord/"),
    ),
    Subject(
        "PostgreSQL, MariaDB and RelStorage",
        "The log of the node's server has the engine's own message.",
        "[PostgreSQL](../how-to/install-postgresql.md), [MariaDB](../how-to/install-mariadb.md)",
        (
            "backends/mariadb",
            "backends/native_replication",
            "backends/oracle",
            "backends/passwords",
            "backends/postgresql",
            "backends/relstorage",
        ),
    ),
    Subject("NEO", "", "[NEO](../how-to/install-neo.md)", ("backends/neo",)),
    Subject("SQLite", "", "[SQLite](../how-to/install-sqlite.md)", ("backends/sqlite",)),
    Subject(
        "Several hosts",
        "Each host has its own certificate, issued by the host where `hosts init` ran.",
        "[three machines](../how-to/three-machines.md), "
        "[several hosts](../explanation/several-hosts.md)",
        (
            "host/authority",
            "host/bundle",
            "host/certificates",
            "host/cluster_file",
            "host/remote/",
            "host/renewal",
            "host/ssh",
            "host/tls",
            "host/tunnel",
            "operations/hosts",
        ),
    ),
    Subject(
        "Installation",
        "Run the command again after the repair; it continues.",
        "[develop](../how-to/develop.md)",
        ("cluster/installation", "setup/"),
    ),
    Subject(
        "Demo and first data",
        "",
        "[tutorial](../tutorial.md)",
        ("demo/", "host/indico_programs", "host/secrets"),
    ),
    Subject(
        "Benchmarks",
        "A benchmark in scratch clusters never touches your cluster.",
        "[benchmarks](../how-to/benchmark.md)",
        ("bench/", "cli/bench"),
    ),
    Subject("Other commands", "", "[commands](commands.md)", ("",)),
)


def subject_of(module: str) -> Subject:
    """Return the section of a module's errors: that with the longest fitting beginning."""
    fitting = [
        (len(start), -number)
        for number, subject in enumerate(SUBJECTS)
        for start in subject.modules
        if module.startswith(start)
    ]
    return SUBJECTS[-max(fitting)[1]]


def page() -> str:
    """Return the page."""
    sections: dict[Subject, list[notices.Notice]] = defaultdict(list)
    for notice in merged(notices.collect(PACKAGE)):
        sections[subject_of(notice.module)].append(notice)
    rows = [(str(int(code)), code.meaning, TODO.get(code, "follow HINT")) for code in ExitCode]
    parts = [HEAD, _table(("code", "meaning", "what to do"), rows), STATUS]
    for subject in SUBJECTS:
        if found := sections[subject]:
            more = f"More: {subject.see}."
            found.sort(key=lambda notice: re.sub(r"^\W+", "", notice.notice).lower())
            parts += [
                f"## {subject.title}\n",
                f"{subject.text} {more}\n".lstrip(),
                _table(
                    ("NOTICE", "exit code", "DETAIL", "HINT"),
                    [_row(notice) for notice in found],
                ),
            ]
    return "\n".join(parts)


def merged(found: Iterable[notices.Notice]) -> list[notices.Notice]:
    """Return each NOTICE once; modules that share one have one row, in the first one's section."""
    same: dict[str, list[notices.Notice]] = defaultdict(list)
    for notice in found:
        same[notice.notice].append(notice)
    return [
        first[0]._replace(
            details=tuple(dict.fromkeys(text for one in first for text in one.details)),
            hints=tuple(dict.fromkeys(text for one in first for text in one.hints)),
            codes=frozenset().union(*(one.codes for one in first)),
        )
        for first in same.values()
    ]


def _row(notice: notices.Notice) -> tuple[str, ...]:
    fence = "``" if "`" in notice.notice else "`"
    return (
        f"{fence}{_cell(notice.notice)}{fence}",
        ", ".join(str(int(code)) for code in sorted(notice.codes)) or "of the cause",
        _prose(notice.details),
        _prose(notice.hints) or "*see DETAIL*",
    )


def _prose(texts: Iterable[str]) -> str:
    return "; or: ".join(_escaped(_cell(text)) for text in texts)


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip().replace("|", "\\|")


def _escaped(text: str) -> str:
    """Escape Markdown outside of code."""
    parts = text.split("`")
    return "`".join(
        part if number % 2 else re.sub(r"([*_<])", r"\\\1", part)
        for number, part in enumerate(parts)
    )


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
