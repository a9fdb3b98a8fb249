"""Start a NEO cluster, and give it orders, through a Python 2.7 program."""

from __future__ import annotations

import datetime
import json
import subprocess
import time

from indico_zodbrepl.backends.interfaces import Progress
from indico_zodbrepl.backends.neo import config
from indico_zodbrepl.cluster import Cluster, Role
from indico_zodbrepl.cluster.files import write_atomically
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import ExitCode, OperatorError

# Seconds for a query to the cluster, in addition to the waiting time of an order.
ANSWER_SECONDS = 5.0
_EXITS = {3: ExitCode.NOT_RUNNING, 4: ExitCode.TIMED_OUT}


def found(
    cluster: Cluster, installation: Installation, progress: Progress, deadline: float
) -> None:
    """Start a new cluster once all its storages are connected; wait until it runs.

    Only the host of the first storage starts it; the others wait.  From then on, a cluster whose
    storages are all empty does not count as new.
    """
    marker = config.founded(cluster)
    storages = [
        part
        for node in config.of_role(cluster, Role.STORAGE)
        for part in ("--storage", str(node.storage_address))
    ]
    progress("waiting for the cluster of NEO")
    answer = order(
        cluster,
        installation,
        deadline,
        "start",
        *storages,
        *([] if _founds_here(cluster) else ["--only-wait"]),
        *(["--has-data"] if marker.exists() else []),
        waits=True,
    )
    if answer.get("started"):
        progress("the new NEO cluster has started")
    if not marker.exists():
        began = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        write_atomically(marker, json.dumps({"cluster": cluster.name, "founded": began}) + "\n")


def _founds_here(cluster: Cluster) -> bool:
    return cluster.is_here(next(config.of_role(cluster, Role.STORAGE)))


def order(
    cluster: Cluster,
    installation: Installation,
    deadline: float,
    *arguments: str,
    waits: bool = False,
) -> dict[str, object]:
    """Give an order to the cluster and return the answer.

    Args:
        deadline: a moment of ``time.monotonic``.
        waits: True if the order has a ``--wait``, which must end in time.

    Raises:
        OperatorError: exit 1 refused or failed, 6 no admin node, 7 not in time.
    """
    admin = config.admin_here(cluster) or next(config.of_role(cluster, Role.ADMIN))
    left = max(1.0, deadline - time.monotonic())
    command = [
        str(installation.python27),
        "-m",
        "indico_zodbrepl.dataplane.neo.admin",
        "--admin",
        str(admin.storage_address),
        *arguments,
    ]
    if waits:
        command += ["--wait", f"{max(1.0, left - ANSWER_SECONDS):.1f}"]
    try:
        done = subprocess.run(
            command,
            text=True,
            capture_output=True,
            check=False,
            env=installation.environment27(),
            stdin=subprocess.DEVNULL,
            timeout=left + ANSWER_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise OperatorError(
            f"the cluster of NEO did not answer: {arguments[0]}",
            "within the time there was",
            exit_code=ExitCode.TIMED_OUT,
        ) from None
    if done.returncode != 0:
        raise OperatorError(
            f"the cluster of NEO did not do it: {arguments[0]}",
            done.stderr.strip()[-2000:],
            exit_code=_EXITS.get(done.returncode, ExitCode.FAILED),
        )
    answer = json.loads(done.stdout)
    return answer if isinstance(answer, dict) else {}
