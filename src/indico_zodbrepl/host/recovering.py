"""Run the data plane's programs of a recovery with an export of this host."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from indico_zodbrepl.cluster import Cluster, IndicoInstance, rendering
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.files import write_all
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import py27
from indico_zodbrepl.host.py27 import Argument, Program

MODULE = "indico_zodbrepl.dataplane.recover.program"
EVENT_MODULE = "indico_zodbrepl.dataplane.recover.event"
SECONDS = 3600.0
NOTHING = 5  # exit status: nothing that was picked can be made again
EXIT_CODES = {
    2: ExitCode.BAD_CONFIG,
    3: ExitCode.BAD_CONFIG,
    4: ExitCode.TIMED_OUT,
    NOTHING: ExitCode.REFUSED,
    6: ExitCode.NOT_RUNNING,
    7: ExitCode.NEWER_STATE,
}


def recover(
    cluster: Cluster, installation: Installation, folder: Path, words: Sequence[str]
) -> dict[str, Any]:
    """Run the program that compares an export with the database and applies transactions.

    Args:
        words: the command, then the arguments that follow the folder and the configuration.

    Raises:
        OperatorError: exit 2, it is no recovery export; exit 6, no storage server answers; as
            ``operations.recover.apply``.
    """
    program = dataclasses.replace(_program(cluster, MODULE), accepted=(0, NOTHING))
    command, *more = words
    return _run(installation, program, command, folder, zodb_conf(cluster), *more)


def recover_event(
    cluster: Cluster, installation: Installation, folder: Path, words: Sequence[str]
) -> dict[str, Any]:
    """Run the program that recovers an event through Indico's own model.

    Raises OperatorError as ``operations.recover.recover_event``.
    """
    instance = configured(cluster, installation)
    environment = {
        "INDICO_CONF": str(Layout(cluster).indico_conf(instance)),
        "ZODBREPL_INSTANCE": instance.name,
    }
    zodb_conf(cluster)
    program = _program(cluster, EVENT_MODULE)
    return _run(installation, program, folder, *words, environment=environment)


def _run(
    installation: Installation,
    program: Program,
    *arguments: Argument,
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    return py27.run(
        installation,
        program,
        *arguments,
        answer=dict[str, Any],
        seconds=SECONDS,
        environment=environment,
    )


def configured(cluster: Cluster, installation: Installation) -> IndicoInstance:
    """Return an Indico instance whose configuration is on this host.

    If none runs here, the configuration of one of another host is written.
    """
    if cluster.local.indico:
        return cluster.local.indico[0]
    instance, layout = cluster.indico[0], Layout(cluster)
    for folder in rendering.indico_directories(cluster, instance):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_all(
        {
            layout.indico_conf(instance): rendering.indico_conf(cluster, installation, instance),
            layout.logging_conf(instance): rendering.logging_conf(cluster, instance),
        }
    )
    return instance


def _program(cluster: Cluster, module: str) -> Program:
    hint = Commands.here(cluster).zodbrepl("status")
    return Program(module, "nothing was recovered", EXIT_CODES, hint=hint)


def zodb_conf(cluster: Cluster) -> Path:
    """Return the clients' storage configuration; raise OperatorError (exit 6) if `up` never ran."""
    conf = Layout(cluster).zodb_conf
    if not conf.exists():
        raise OperatorError(
            "the cluster is not up",
            f"{conf}: no such file",
            Commands.here(cluster).zodbrepl("up"),
            ExitCode.NOT_RUNNING,
        )
    return conf
