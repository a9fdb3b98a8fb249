"""The generated files that are the same for every backend, as text; no I/O.

Paths need no quoting here beyond what is done: ``datatypes.absolute_path`` refuses
the characters that these formats treat in a special way.
"""

from __future__ import annotations

import importlib.resources
import shlex
import string
from collections.abc import Iterable, Mapping
from pathlib import Path

from .installation import Installation
from .layout import Layout
from .model import Cluster, IndicoInstance
from .programs import START_SECONDS, Program

LOG_BYTES = 10 * 1024 * 1024
LOG_BACKUPS = 5


def supervisord_conf(cluster: Cluster, installation: Installation,
                     programs: Iterable[Program], *, as_root: bool) -> str:
    """supervisord's configuration.

    Args:
        programs: what it runs; nothing starts by itself, ``up`` starts all in order.
        as_root: whether root runs it, which supervisord wants to be told.
    """
    layout = Layout(cluster)
    sections = [
        _section("unix_http_server", {"file": layout.supervisor_socket, "chmod": "0700"}),
        _section("supervisord", {
            "identifier": f"zodbrepl-{cluster.name}",
            "directory": layout.var,
            "logfile": layout.supervisord_log,
            "logfile_maxbytes": LOG_BYTES,
            "logfile_backups": LOG_BACKUPS,
            "pidfile": layout.supervisord_pid,
            "childlogdir": layout.log,
            "umask": "022",
            **({"user": "root"} if as_root else {}),
        }),
        _section("rpcinterface:supervisor", {
            "supervisor.rpcinterface_factory":
                "supervisor.rpcinterface:make_main_rpcinterface"}),
        _section("supervisorctl", {"serverurl": f"unix://{layout.supervisor_socket}"}),
        *(_program(program, installation, layout) for program in programs),
    ]
    return "\n".join(sections)


def indico_conf(cluster: Cluster, installation: Installation, instance: IndicoInstance) -> str:
    """Indico's own configuration, which is Python."""
    layout = Layout(cluster)
    site = "" if cluster.site_conf is None else (
        _template("site.conf").substitute(site_conf=cluster.site_conf))
    return _template("indico.conf").substitute(
        url=f"http://{instance.address}", instance=instance.name, var=layout.var,
        zodb_conf=layout.zodb_conf, htdocs=installation.htdocs, site=site)


def logging_conf(cluster: Cluster, instance: IndicoInstance) -> str:
    """Indico's logging: into files that rotate; its own default also mails every error."""
    return _template("logging.conf").substitute(
        log=Layout(cluster).log / instance.name, bytes=LOG_BYTES, backups=LOG_BACKUPS)


def indico_directories(cluster: Cluster, instance: IndicoInstance) -> tuple[Path, ...]:
    """The folders that an instance's configuration names and expects to find."""
    layout = Layout(cluster)
    return (layout.log / instance.name, layout.indico / "cache", layout.indico / "archive",
            layout.indico / "tmp" / "shared", layout.indico / "tmp" / instance.name)


def _template(name: str) -> string.Template:
    folder = importlib.resources.files(__package__) / "templates"
    return string.Template(folder.joinpath(name).read_text("utf-8"))


def _program(program: Program, installation: Installation, layout: Layout) -> str:
    environment = {"ZODBREPL_HOME": str(installation.home), "PYTHONUNBUFFERED": "1",
                   **program.environment}
    return _section(f"program:{program.name}", {
        "command": shlex.join(program.command),
        "directory": program.directory,
        "environment": ",".join(f'{key}="{value}"' for key, value in environment.items()),
        "autostart": "false",
        "autorestart": "unexpected",
        "exitcodes": ",".join(str(int(code)) for code in program.final_exits),
        "startsecs": START_SECONDS,
        "startretries": 3,
        "stopsignal": program.stop_signal,
        "stopwaitsecs": program.stop_seconds,
        "killasgroup": "true",
        "redirect_stderr": "true",
        "stdout_logfile": layout.program_log(program.name),
        "stdout_logfile_maxbytes": LOG_BYTES,
        "stdout_logfile_backups": LOG_BACKUPS,
    })


def _section(name: str, values: Mapping[str, object]) -> str:
    lines = (f"{key} = {str(value).replace('%', '%%')}" for key, value in values.items())
    return "\n".join([f"[{name}]", *lines, ""])
