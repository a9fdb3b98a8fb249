"""All files that are generated for a cluster on this host."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster, IndicoInstance, rendering
from indico_zodbrepl.cluster.files import differs
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.rendering import (
    Program,
    admin_program,
    automation_program,
    indico_program,
    scheduler_program,
    watch_program,
)
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.etcd import member
from indico_zodbrepl.host import archive, blob_cache, etcd_control, state, tunnel, tunnel_control


def programs(cluster: Cluster, installation: Installation) -> list[Program]:
    """Return the supervised programs of this host in start order."""
    backend, here, watch = backend_of(cluster), cluster.local, cluster.watch
    return [
        *([tunnel_control.program(cluster)] if tunnel.runs_here(cluster) else []),
        *([etcd_control.program(cluster)] if member.runs_here(cluster) else []),
        *(
            [automation_program(cluster, installation, cluster.host(cluster.here))]
            if cluster.here and cluster.automates(cluster.here)
            else []
        ),
        *(
            program
            for node in here.nodes
            for program in backend.programs(cluster, installation, node)
        ),
        *(indico_program(cluster, installation, instance) for instance in here.indico),
        *(
            scheduler_program(cluster, installation, instance)
            for instance in here.indico
            if instance.scheduler
        ),
        *([admin_program(cluster, installation)] if cluster.is_here(cluster.admin) else []),
        *(
            [watch_program(cluster, installation, watch)]
            if watch and cluster.is_here(watch)
            else []
        ),
    ]


def cluster_files(cluster: Cluster, installation: Installation) -> Mapping[Path, str]:
    """Return the files that ``up`` writes: path to content."""
    layout = Layout(cluster)
    files = {
        layout.supervisord_conf: rendering.supervisord_conf(
            cluster, installation, programs(cluster, installation), as_root=os.geteuid() == 0
        )
    }
    files.update(backend_of(cluster).client_files(cluster))
    if tunnel.runs_here(cluster):
        files[layout.tunnel_conf] = tunnel.config(cluster)
    if member.runs_here(cluster):
        files[layout.etcd_conf] = etcd_control.config(cluster)
    for instance in configured(cluster):
        files[layout.indico_conf(instance)] = rendering.indico_conf(cluster, installation, instance)
        files[layout.logging_conf(instance)] = rendering.logging_conf(cluster, instance)
    return files


def configured(cluster: Cluster) -> list[IndicoInstance]:
    """Return what has an indico.conf here: the instances, and the schedulers beside them.

    Every host has the one of the first instance, for programs that fill the database.
    """
    here = cluster.local.indico
    first = (each for each in cluster.indico[:1] if each not in here)
    return [*here, *first, *(each.of_scheduler for each in here if each.scheduler)]


def to_restart(
    cluster: Cluster, files: Mapping[Path, str], running: Collection[str]
) -> list[IndicoInstance]:
    """Return the running instances of this host whose files on disk differ from ``files``.

    They keep the former settings until they restart.
    """
    layout = Layout(cluster)
    return [
        instance
        for instance in cluster.local.indico
        if instance.program in running
        and any(
            path in files and differs(path, files[path])
            for path in (layout.indico_conf(instance), layout.zodb_conf)
        )
    ]


def node_files(cluster: Cluster) -> Mapping[Path, str]:
    """Return the files that nodes write when they start in their present state: path to content."""
    backend = backend_of(cluster)
    return {
        path: text
        for node in cluster.local.nodes
        for path, text in backend.node_files(cluster, state.current(cluster, node)).items()
    }


def make_directories(cluster: Cluster) -> None:
    """Create the folders that ``up`` and the programs need.

    Only the owner can read secrets, sessions, uploads, the nodes' data, and logs, which contain
    whole requests to Indico.

    Raises OperatorError (exit 8) if that fails.
    """
    try:
        _make_directories(cluster)
    except OSError as error:
        raise OperatorError(
            "var-directory can't be used",
            f"{error.filename} ({cluster.where(None, key='var-directory')}): {error.strerror}",
            "is it another user's? then run this as that user",
            ExitCode.REFUSED,
        ) from error


def _make_directories(cluster: Cluster) -> None:
    layout = Layout(cluster)
    for folder in (layout.var, layout.etc):
        folder.mkdir(parents=True, exist_ok=True)
    for private in (layout.secrets, layout.run, layout.log, layout.indico, layout.watch):
        private.mkdir(mode=0o700, exist_ok=True)
        private.chmod(0o700)
    # An existing one keeps its mode: an administrator may have opened it to a group.
    layout.archive.parent.mkdir(parents=True, exist_ok=True)
    layout.archive.mkdir(mode=0o700, exist_ok=True)
    if member.runs_here(cluster):
        etcd_control.make_directory(cluster)
    archive.mark(cluster)
    blob_cache.empty_after_boot(cluster)
    for instance in configured(cluster):
        for folder in rendering.indico_directories(cluster, instance):
            folder.mkdir(parents=True, exist_ok=True)
