"""Load the demo's conferences, before Indico starts if only one process can open the storage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from indico_zodbrepl.backends import can
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.demo.comparison import Counts, compare, is_loaded
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import daemon, lifecycle
from indico_zodbrepl.host import secrets as indico_secrets
from indico_zodbrepl.host.indico_programs import Indico27
from indico_zodbrepl.host.secrets import Credentials

CONTRIBUTIONS = 5
CATEGORIES = 5

Progress = Callable[[str], None]


def fill(
    cluster: Cluster, installation: Installation, conferences: int, progress: Progress
) -> tuple[Credentials, Mapping[str, Counts]]:
    """Start the cluster with its first user and its events; keep existing data.

    Returns:
        The administrator, and the counts of each readable node.

    Raises:
        OperatorError: a step failed.
    """
    if can(cluster, "two-instances"):
        lifecycle.up(cluster, installation, progress)
        return _filled(cluster, installation, conferences, progress)
    if not daemon.is_running(cluster):
        lifecycle.up_storage(cluster, installation, progress)
        admin, found = _filled(cluster, installation, conferences, progress)
        lifecycle.up(cluster, installation, progress)
        return admin, found
    return _found(cluster, installation)


def load(indico: Indico27, conferences: int) -> None:
    """Load the demo's conferences.  Raises OperatorError."""
    indico.load(conferences, CONTRIBUTIONS, min(CATEGORIES, conferences))


def _filled(
    cluster: Cluster, installation: Installation, conferences: int, progress: Progress
) -> tuple[Credentials, Mapping[str, Counts]]:
    indico = Indico27(cluster, installation)
    file = indico_secrets.path_in(Layout(cluster).var)
    is_new = not file.exists()  # then the database was empty, or first_user raises
    admin = first_user(indico, file, progress)
    if is_new or not is_loaded(found := compare(cluster, indico)):
        load(indico, conferences)
        progress(f"{conferences} conferences with {CONTRIBUTIONS} contributions each loaded")
        found = compare(cluster, indico)
    if len(found) > 1:
        progress("all nodes hold the same: counted in the storage of each")
    return admin, found


def _found(
    cluster: Cluster,
    installation: Installation,
) -> tuple[Credentials, Mapping[str, Counts]]:
    """Return what an earlier demo loaded, if the running Indico locks the data."""
    file = indico_secrets.path_in(Layout(cluster).var)
    try:
        admin = indico_secrets.read(file)
    except FileNotFoundError:
        raise OperatorError(
            "the cluster is running and was not filled by the demo",
            f"there is no {file}; no other program can write while Indico has the database open",
            f"`{Commands.here(cluster).zodbrepl('down')}`, then run the demo again",
            ExitCode.REFUSED,
        ) from None
    return admin, compare(cluster, Indico27(cluster, installation))


def first_user(indico: Indico27, file: Path, progress: Progress) -> Credentials:
    """Return the administrator in ``file``; create one if neither file nor database has one.

    Raises OperatorError if the database has one but the file is missing: the demo would print a new
    password that does not work.
    """
    made = not file.exists()
    admin = indico_secrets.ensure(file)
    created = indico.first_run(file)["created"]
    if made and not created:
        file.unlink()
        raise OperatorError(
            "the password of Indico's first user is lost",
            f"the database has the user {admin.login}, but {file} is missing",
            f"put the file back from a backup, or move {file.parent.parent} away to start again",
        )
    progress(f"Indico's first user, {admin.login}, " + ("is made" if created else "is there"))
    return admin
