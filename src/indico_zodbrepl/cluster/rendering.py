"""Render the generated files that are the same for every backend, without I/O.

Paths need no further quoting: ``datatypes.absolute_path`` refuses the characters that are special
in these formats.
"""

from __future__ import annotations

import dataclasses
import shlex
import string
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from indico_zodbrepl.cluster.hosts import ClusterHost
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.cluster.programs import IndicoInstance, Watch
from indico_zodbrepl.errors import ExitCode

LOG_BYTES = 10 * 1024 * 1024
LOG_BACKUPS = 5


def supervisord_conf(
    cluster: Cluster, installation: Installation, programs: Iterable[Program], *, as_root: bool
) -> str:
    """Return supervisord's configuration.

    Args:
        programs: its programs; none starts automatically, because ``up`` starts them in order.
        as_root: True if root runs it; supervisord requires that to be stated.
    """
    layout = Layout(cluster)
    sections = [
        _section("unix_http_server", {"file": layout.supervisor_socket, "chmod": "0700"}),
        _section(
            "supervisord",
            {
                "identifier": f"zodbrepl-{cluster.name}",
                "directory": layout.var,
                "logfile": layout.supervisord_log,
                "logfile_maxbytes": LOG_BYTES,
                "logfile_backups": LOG_BACKUPS,
                "pidfile": layout.supervisord_pid,
                "childlogdir": layout.log,
                "umask": "077",
                **({"user": "root"} if as_root else {}),
            },
        ),
        _section(
            "rpcinterface:supervisor",
            {"supervisor.rpcinterface_factory": "supervisor.rpcinterface:make_main_rpcinterface"},
        ),
        _section("supervisorctl", {"serverurl": f"unix://{layout.supervisor_socket}"}),
        *(_program(program, installation, layout) for program in programs),
    ]
    return "\n".join(sections)


def indico_conf(cluster: Cluster, installation: Installation, instance: IndicoInstance) -> str:
    """Return Indico's configuration, which is Python."""
    layout = Layout(cluster)
    site = (
        ""
        if cluster.site_conf is None
        else (_template("site.conf").substitute(site_conf=cluster.site_conf))
    )
    return _template("indico.conf").substitute(
        url=cluster.public_url or instance.base_url,
        archive=layout.archive,
        mail=_template("no-mail.conf").template if cluster.mail is None else "",
        own=_own_settings(cluster),
        instance=instance.name,
        var=layout.var,
        assets=layout.assets,
        zodb_conf=layout.zodb_conf,
        files=cluster.files,
        htdocs=installation.htdocs,
        site=site,
    )


def _own_settings(cluster: Cluster) -> str:
    """Return the settings of the cluster file that override those of ``site-conf``."""
    parts = []
    if cluster.public_url is not None:
        parts.append(_template("public-url.conf").substitute(url=cluster.public_url))
    if cluster.archive_directory is not None:
        parts.append(_template("archive.conf").substitute(archive=cluster.archive_directory))
    mail = cluster.mail
    if mail is not None:
        login = "SmtpPassword = ''"
        if mail.password_file is not None:
            login = _template("mail-password.conf").substitute(file=mail.password_file).rstrip()
        parts.append(
            _template("mail.conf").substitute(
                server=(mail.server.host, mail.server.port),
                starttls="yes" if mail.starttls else "no",
                user=repr(mail.user or ""),
                password=login,
                support=mail.support,
                no_reply=mail.no_reply,
            )
        )
    return "".join(parts)


def logging_conf(cluster: Cluster, instance: IndicoInstance) -> str:
    """Return Indico's logging to rotating files; its default also mails every error."""
    return _template("logging.conf").substitute(
        log=Layout(cluster).log / instance.name, bytes=LOG_BYTES, backups=LOG_BACKUPS
    )


def indico_directories(cluster: Cluster, instance: IndicoInstance) -> tuple[Path, ...]:
    """Return the folders that an instance's configuration expects to exist."""
    layout = Layout(cluster)
    return (
        layout.log / instance.name,
        layout.indico / "cache",
        layout.archive,
        layout.assets,
        layout.indico / "tmp" / instance.name,
    )


def _template(name: str) -> string.Template:
    template = Path(__file__).parent / "templates" / name
    return string.Template(template.read_text("utf-8"))


def _program(program: Program, installation: Installation, layout: Layout) -> str:
    environment = {
        "ZODBREPL_HOME": str(installation.home),
        "PYTHONUNBUFFERED": "1",
        **program.environment,
    }
    return _section(
        f"program:{program.name}",
        {
            "command": shlex.join(program.command),
            "directory": program.directory,
            "environment": ",".join(f'{key}="{value}"' for key, value in environment.items()),
            "autostart": "false",
            "autorestart": "unexpected",
            "exitcodes": ",".join(str(int(code)) for code in program.final_exits),
            "startsecs": START_SECONDS,
            "startretries": START_RETRIES if program.final_exits else ENDLESS_RETRIES,
            "stopsignal": program.stop_signal,
            "stopwaitsecs": program.stop_seconds,
            "killasgroup": "true",
            "redirect_stderr": "true",
            "stdout_logfile": layout.program_log(program.name),
            "stdout_logfile_maxbytes": LOG_BYTES,
            "stdout_logfile_backups": LOG_BACKUPS,
        },
    )


def _section(name: str, values: Mapping[str, object]) -> str:
    lines = (f"{key} = {str(value).replace('%', '%%')}" for key, value in values.items())
    return "\n".join([f"[{name}]", *lines, ""])


# Supervisor counts an exit within this time as a failed start, whatever its code.
START_SECONDS = 1
START_RETRIES = 3
# A full disk may last for hours. Supervisor's pause grows by a second with each try.
ENDLESS_RETRIES = 100_000

# Threads of an Indico instance: its health check answers while a request waits.
INDICO_THREADS = 4
# Seconds that requests may take to finish when an instance is stopped.
INDICO_GRACE_SECONDS = 10
# Seconds that requests may take to finish when a new worker has taken over.
INDICO_DRAIN_SECONDS = 30
# Seconds for the scheduler to stop; of these its tasks have 10.
SCHEDULER_STOP_SECONDS = 15


@dataclasses.dataclass(frozen=True)
class Program:
    """A supervised program.

    Attributes:
        stop_seconds: time to stop after the signal before it is killed.
        final_exits: exit codes after which it is not restarted: a requested stop, or a problem that
            an operator must solve first.  Without any, it is also started again and again if it
            fails soon after each start.
        environment: variables in addition to the common ones.
        stop_signal: the signal that stops it, without SIG.
    """

    name: str
    command: tuple[str, ...]
    directory: Path
    stop_seconds: int
    final_exits: tuple[int, ...] = (0, ExitCode.BAD_CONFIG)
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    stop_signal: str = "TERM"


def zodbrepl_command(
    cluster: Cluster, installation: Installation, *arguments: str
) -> tuple[str, ...]:
    """Return the command that runs ``zodbrepl`` with a cluster's file."""
    return (str(installation.zodbrepl), "-c", str(cluster.source), *arguments)


def indico_program(
    cluster: Cluster, installation: Installation, instance: IndicoInstance
) -> Program:
    """Return the gunicorn program of an Indico instance: its workers have a few threads each."""
    layout = Layout(cluster)
    return Program(
        name=instance.program,
        command=(
            str(installation.python27),
            "-m",
            "gunicorn.app.wsgiapp",
            "--config",
            "python:indico_zodbrepl.dataplane.indico.gunicorn_conf",
            "--name",
            instance.program,
            "--bind",
            str(instance.address),
            "--workers",
            str(instance.workers),
            "--worker-class",
            "indico_zodbrepl.dataplane.indico.worker.DrainingWorker",
            "--threads",
            str(INDICO_THREADS),
            "--timeout",
            "120",
            "--graceful-timeout",
            str(INDICO_GRACE_SECONDS),
            "--worker-tmp-dir",
            str(layout.run),
            "indico_zodbrepl.dataplane.indico.app:application",
        ),
        directory=layout.indico,
        stop_seconds=15,
        environment={
            "INDICO_CONF": str(layout.indico_conf(instance)),
            "ZODBREPL_INSTANCE": instance.name,
            "ZODBREPL_WORKERS": str(instance.workers),
            "ZODBREPL_DRAIN_SECONDS": str(INDICO_DRAIN_SECONDS),
            "ZODBREPL_BENCH_SECRET": str(layout.bench_secret),
            "ZODBREPL_EPOCH_RECORD": str(layout.instance_epoch_record(instance)),
            **_leader(cluster),
        },
    )


def scheduler_program(
    cluster: Cluster, installation: Installation, instance: IndicoInstance
) -> Program:
    """Return the program of Indico's scheduler, which runs beside an instance."""
    layout = Layout(cluster)
    return Program(
        name=instance.scheduler_program,
        command=(
            str(installation.python27),
            "-m",
            "indico_zodbrepl.dataplane.indico.scheduler",
            "--lock",
            str(layout.scheduler_lock),
            *_standby(cluster, instance),
        ),
        directory=layout.indico,
        stop_seconds=SCHEDULER_STOP_SECONDS,
        final_exits=(0, ExitCode.BAD_CONFIG, ExitCode.REFUSED),
        environment={
            "INDICO_CONF": str(layout.indico_conf(instance.of_scheduler)),
            "ZODBREPL_EPOCH_RECORD": str(layout.instance_epoch_record(instance)),
            **_leader(cluster),
        },
    )


def _leader(cluster: Cluster) -> Mapping[str, str]:
    """Return the variable with the path of the leader's file, where an automation writes it."""
    return {"ZODBREPL_LEADER": str(Layout(cluster).leader_file)} if cluster.automatic else {}


def _standby(cluster: Cluster, instance: IndicoInstance) -> Iterator[str]:
    """Yield the options of a scheduler that takes over from those of other hosts."""
    if instance.on is None:
        return
    yield from ("--host", instance.on, "--takeover", f"{cluster.scheduler_takeover:g}")
    yield from ("--tls", str(Layout(cluster).tls))
    for host in cluster.hosts:
        if host.name != instance.on:
            yield from ("--peer", f"{host.name}={host.agent_address}")
    for node in cluster.nodes:
        if node.storage_port is not None:
            yield from ("--node", f"{node.name}={node.storage_address}")


def automation_program(cluster: Cluster, installation: Installation, host: ClusterHost) -> Program:
    """Return the program of a host that elects the leader.

    `up` starts it again when nodes were added or removed: it asks all of them.
    """
    return Program(
        name=host.automation,
        command=zodbrepl_command(cluster, installation, "automation"),
        directory=Layout(cluster).var,
        stop_seconds=5,
        final_exits=(0, ExitCode.BAD_CONFIG),
        environment={"ZODBREPL_NODES": " ".join(sorted(node.name for node in cluster.nodes))},
    )


def watch_program(cluster: Cluster, installation: Installation, watch: Watch) -> Program:
    """Return the monitor's program."""
    return Program(
        name=watch.program,
        command=zodbrepl_command(cluster, installation, "watch"),
        directory=Layout(cluster).var,
        stop_seconds=5,
        final_exits=(0, ExitCode.BAD_CONFIG, ExitCode.PORT_TAKEN),
    )


def admin_program(cluster: Cluster, installation: Installation) -> Program:
    """Return the admin page's program."""
    return Program(
        name=cluster.admin.program,
        command=zodbrepl_command(cluster, installation, "admin"),
        directory=Layout(cluster).var,
        stop_seconds=5,
        final_exits=(0, ExitCode.BAD_CONFIG, ExitCode.PORT_TAKEN),
    )
