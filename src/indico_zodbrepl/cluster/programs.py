"""The programs that supervisor runs for a cluster, apart from the storage's own."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from ..errors import ExitCode
from .installation import Installation
from .layout import Layout
from .model import Cluster, IndicoInstance, Watch

# Supervisor counts an exit within this time as a failed start, whatever its code.
START_SECONDS = 1

# Threads of an Indico instance: its health check answers while a request waits.
INDICO_THREADS = 4
# How long a worker that is to end may go on with its requests.
INDICO_GRACE_SECONDS = 10


@dataclasses.dataclass(frozen=True)
class Program:
    """A supervised program.

    Attributes:
        stop_seconds: how long it may take to end after the signal before it is killed.
        final_exits: exit codes after which it is not started again: asked to end, or
            an operator has to do something first.
        environment: variables besides those that all programs get.
        stop_signal: what asks it to end, without SIG.
    """

    name: str
    command: tuple[str, ...]
    directory: Path
    stop_seconds: int
    final_exits: tuple[int, ...] = (0, ExitCode.BAD_CONFIG)
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    stop_signal: str = "TERM"


def zodbrepl_command(cluster: Cluster, installation: Installation,
                     *arguments: str) -> tuple[str, ...]:
    """The command that runs ``zodbrepl`` with a cluster's file."""
    return (str(installation.zodbrepl), "-c", str(cluster.source), *arguments)


def indico_program(cluster: Cluster, installation: Installation,
                   instance: IndicoInstance) -> Program:
    """The gunicorn process of an Indico instance: one worker, a few threads."""
    layout = Layout(cluster)
    return Program(
        name=instance.program,
        command=(str(installation.python27), "-m", "gunicorn.app.wsgiapp",
                 "--config", "python:indico_zodbrepl.dataplane.gunicorn_conf",
                 "--name", instance.program, "--bind", str(instance.address),
                 "--workers", "1", "--worker-class", "gthread",
                 "--threads", str(INDICO_THREADS), "--timeout", "120",
                 "--graceful-timeout", str(INDICO_GRACE_SECONDS),
                 "--worker-tmp-dir", str(layout.run),
                 "indico_zodbrepl.dataplane.app:application"),
        directory=layout.indico,
        stop_seconds=15,
        environment={"INDICO_CONF": str(layout.indico_conf(instance)),
                     "ZODBREPL_INSTANCE": instance.name,
                     "ZODBREPL_BENCH_SECRET": str(layout.bench_secret),
                     "ZODBREPL_EPOCH_RECORD": str(layout.instance_epoch_record(instance))})


def watch_program(cluster: Cluster, installation: Installation, watch: Watch) -> Program:
    """The program that watches the cluster."""
    return Program(name=watch.program,
                   command=zodbrepl_command(cluster, installation, "watch"),
                   directory=Layout(cluster).var, stop_seconds=5,
                   final_exits=(0, ExitCode.BAD_CONFIG, ExitCode.PORT_TAKEN))


def admin_program(cluster: Cluster, installation: Installation) -> Program:
    """The admin page."""
    return Program(name=cluster.admin.program,
                   command=zodbrepl_command(cluster, installation, "admin"),
                   directory=Layout(cluster).var, stop_seconds=5,
                   final_exits=(0, ExitCode.BAD_CONFIG, ExitCode.PORT_TAKEN))
