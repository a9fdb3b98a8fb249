"""Render the systemd units and the tmpfiles.d file that run a cluster as a service; no I/O.

The options are those of systemd.exec(5), systemd.service(5) and systemd.kill(5) of systemd 247,
which Debian 11 has.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Mapping
from pathlib import Path

from indico_zodbrepl.cluster import backup_schedule
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.errors import ExitCode

UNITS = Path("/etc/systemd/system")
TMPFILES = Path("/etc/tmpfiles.d")
LOGS = Path("/var/log/zodbrepl")

# Homes are hidden from the service unless the cluster or its programs are below one of them.
HOMES = (Path("/home"), Path("/root"), Path("/run/user"))

START_SECONDS = 300
"""More than ``up`` takes."""

STOP_SECONDS = 240
"""More than ``down`` takes; then systemd kills what is left."""

RESTART_SECONDS = 5
START_ATTEMPTS, ATTEMPTS_SECONDS = 5, 600

OPEN_FILES = 65536
"""Each connection of a client, and each file of a database, takes one."""

# A restart can't help: somebody has to change a file or to install something first.
FINAL_EXITS = (ExitCode.BAD_CONFIG, ExitCode.NOT_INSTALLED, ExitCode.NEWER_STATE)

HEADER = """\
# Written by: {command}
# Repeat that after an upgrade.  For changes of your own: systemctl edit {unit}
"""

SANDBOX = """\
# The folders that hold those of the cluster; what their permissions forbid stays forbidden.
UMask=0077
ProtectSystem=strict
ProtectHome={homes}
ReadWritePaths={writable}
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
ProtectProc=invisible
NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
RestrictSUIDSGID=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM

LimitNOFILE={files}
# A core dump would hold passwords and sessions.
LimitCORE=0
"""

UNIT = """\
{header}

[Unit]
Description=Indico on replicated ZODB storage: cluster {cluster}
Wants=network-online.target{agent}
After=network-online.target time-sync.target local-fs.target remote-fs.target{agent}
RequiresMountsFor={needed}
StartLimitBurst={attempts}
StartLimitIntervalSec={attempts_seconds}

[Service]
Type=notify
User={user}
Group={group}
WorkingDirectory={home}
ExecStart={zodbrepl} run
ExecStop={zodbrepl} down{here} --reason "the service stops"
TimeoutStartSec={start}
TimeoutStopSec={stop}
Restart=on-failure
RestartSec={restart}
RestartPreventExitStatus={final}
KillMode=control-group

{sandbox}
[Install]
WantedBy=multi-user.target
"""

# What it starts for commands of other hosts runs on when it is stopped or starts again.
AGENT_UNIT = """\
{header}

[Unit]
Description=Agent of this host for the other hosts of cluster {cluster}
Wants=network-online.target
After=network-online.target local-fs.target remote-fs.target
RequiresMountsFor={needed}
StartLimitIntervalSec=0

[Service]
Type=notify
User={user}
Group={group}
WorkingDirectory={home}
ExecStart={zodbrepl} agent
TimeoutStopSec={stop}
Restart=on-failure
RestartSec={restart}
KillMode=process

{sandbox}
[Install]
WantedBy=multi-user.target
"""

# Its start has no time limit, as of every oneshot service.
BACKUP_UNIT = """\
{header}

[Unit]
Description=Backup of cluster {cluster}
Wants=network-online.target{agent}
After=network-online.target time-sync.target local-fs.target remote-fs.target{agent} {unit}
RequiresMountsFor={needed}

[Service]
Type=oneshot
User={user}
Group={group}
WorkingDirectory={home}
ExecStart={zodbrepl} backup --reason schedule

{sandbox}"""

# Persistent: what was missed while the host was down is made up for at its next boot.
BACKUP_TIMER = """\
{header}

[Unit]
Description=Daily backup of cluster {cluster}

[Timer]
OnCalendar={calendar}
Persistent=true

[Install]
WantedBy=timers.target
"""

TMPFILES_CONF = """\
{header}

d {var} 0700 {user} {group} -
d {logs} 0755 root root -
L {logs}/{cluster} - - - - {log}
"""


@dataclasses.dataclass(frozen=True)
class Account:
    """The user and the group that the service runs as, by name."""

    user: str
    group: str


@dataclasses.dataclass(frozen=True)
class Service:
    """A cluster as a service of this host."""

    cluster: Cluster
    installation: Installation

    @property
    def unit(self) -> str:
        """Return the name of the systemd unit."""
        return f"zodbrepl-{self.cluster.name}.service"

    @property
    def unit_file(self) -> Path:
        return UNITS / self.unit

    @property
    def agent_unit(self) -> str:
        """Return the name of the unit of this host's agent."""
        return f"zodbrepl-{self.cluster.name}-agent.service"

    @property
    def backup_unit(self) -> str:
        """Return the name of the unit that makes a scheduled backup."""
        return backup_schedule.unit(self.cluster, "service")

    @property
    def backup_timer(self) -> str:
        """Return the name of the timer that starts it."""
        return backup_schedule.unit(self.cluster, "timer")

    @property
    def schedule(self) -> tuple[datetime.time, Path] | None:
        """Return when this host makes the daily backup, and its folder; None if it makes none.

        The host that has the folder makes it, and no other one.
        """
        at, folder = self.cluster.backup_time, self.cluster.own_backup_directory
        return None if at is None or folder is None else (at, folder)

    @property
    def units(self) -> tuple[str, ...]:
        """Return the names of the units that run the cluster."""
        return (self.agent_unit, self.unit) if self.cluster.hosts else (self.unit,)

    @property
    def enabled(self) -> tuple[str, ...]:
        """Return the names of the units that an operator enables."""
        return (*self.units, self.backup_timer) if self.schedule else self.units

    @property
    def tmpfiles(self) -> Path:
        return TMPFILES / f"zodbrepl-{self.cluster.name}.conf"

    @property
    def folders(self) -> tuple[Path, ...]:
        """Return the folders of the cluster, without those inside of others."""
        cluster = self.cluster
        layout = Layout(cluster)
        found = [
            layout.var,
            *(node.data_directory for node in cluster.local.nodes if node.managed),
            layout.archive,
            *([cluster.own_backup_directory] if cluster.own_backup_directory else []),
        ]
        return outermost(found)

    @property
    def writable(self) -> tuple[Path, ...]:
        """Return what the service can write: the folders that hold those of the cluster.

        A folder that is named itself is fixed by systemd while the service runs: one that an
        operator moves away and makes anew would be read-only.
        """
        folders = [each if each.parent == Path("/") else each.parent for each in self.folders]
        if self.cluster.hosts:  # other hosts replace the cluster file
            folders.append(self.cluster.source.parent)
        return outermost(folders)

    def files(self, account: Account, command: str, programs: Iterable[Path]) -> Mapping[Path, str]:
        """Return the files to be written: path to content.

        Args:
            command: the one that writes them; it is named in each.
            programs: real paths of the programs outside the installation that it starts.
        """
        layout = Layout(self.cluster)
        zodbrepl = f"{_word(self.installation.zodbrepl)} -c {_word(self.cluster.source)}"
        header = HEADER.format(command=command, unit=self.unit).rstrip()
        used = [self.installation.home, self.cluster.source, *self.writable, *programs]
        hidden = not any(path.is_relative_to(each) for path in used for each in HOMES)
        sandbox = SANDBOX.format(
            homes="yes" if hidden else "read-only",
            # Without the folder of one node, or its disk, the others still serve.
            writable=" ".join(
                _word(each, "" if layout.var.is_relative_to(each) else "-")
                for each in self.writable
            ),
            files=OPEN_FILES,
        )
        several = bool(self.cluster.hosts)
        needed = (self.installation.home, self.cluster.source, layout.var)
        unit = UNIT.format(
            header=header,
            sandbox=sandbox,
            agent=f" {self.agent_unit}" if several else "",
            here=" --this-host" if several else "",
            cluster=self.cluster.name,
            needed=" ".join(map(_word, needed)),
            attempts=START_ATTEMPTS,
            attempts_seconds=ATTEMPTS_SECONDS,
            user=account.user,
            group=account.group,
            home=self.installation.home,
            zodbrepl=zodbrepl,
            start=START_SECONDS,
            stop=STOP_SECONDS,
            restart=RESTART_SECONDS,
            final=" ".join(str(int(code)) for code in FINAL_EXITS),
        )
        agent = AGENT_UNIT.format(
            header=HEADER.format(command=command, unit=self.agent_unit).rstrip(),
            sandbox=sandbox,
            cluster=self.cluster.name,
            needed=" ".join(map(_word, needed)),
            user=account.user,
            group=account.group,
            home=self.installation.home,
            zodbrepl=zodbrepl,
            stop=STOP_SECONDS,
            restart=RESTART_SECONDS,
        )
        tmpfiles = TMPFILES_CONF.format(
            header=header,
            var=_word(layout.var),
            user=account.user,
            group=account.group,
            logs=LOGS,
            cluster=self.cluster.name,
            log=layout.log,  # the rest of its line, also with blanks
        )
        files = {self.unit_file: unit}
        if several:
            files[UNITS / self.agent_unit] = agent
        if self.schedule is not None:
            at, folder = self.schedule
            files[UNITS / self.backup_unit] = BACKUP_UNIT.format(
                header=HEADER.format(command=command, unit=self.backup_unit).rstrip(),
                sandbox=sandbox,
                cluster=self.cluster.name,
                agent=f" {self.agent_unit}" if several else "",
                unit=self.unit,
                needed=" ".join(map(_word, (*needed, folder))),
                user=account.user,
                group=account.group,
                home=self.installation.home,
                zodbrepl=zodbrepl,
            )
            files[UNITS / self.backup_timer] = BACKUP_TIMER.format(
                header=HEADER.format(command=command, unit=self.backup_timer).rstrip(),
                cluster=self.cluster.name,
                calendar=backup_schedule.calendar(at),
            )
        return {**files, self.tmpfiles: tmpfiles}


def outermost(folders: Iterable[Path]) -> tuple[Path, ...]:
    """Return the folders that are inside of no other one, each once, in their order."""
    known = list(dict.fromkeys(folders))
    return tuple(
        each
        for each in known
        if not any(each != other and each.is_relative_to(other) for other in known)
    )


def _word(path: Path, prefix: str = "") -> str:
    """Return a path as a word of these files, which separate words by blanks."""
    word = f"{prefix}{path}"
    return f'"{word}"' if " " in word else word
