"""Records of weak promises on all hosts, for clusters without etcd.

Before a primary acknowledges commits with fewer secondaries than the cluster file says, or alone, a
majority of the hosts records it.  So a failover on either side of a divided network finds a host
that knows of it.
"""

from __future__ import annotations

import dataclasses
import json

from indico_zodbrepl.cluster import Cluster, formats
from indico_zodbrepl.cluster.files import write_atomically
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import majority
from indico_zodbrepl.host.interface import Host
from indico_zodbrepl.host.promise import Promise, parse
from indico_zodbrepl.host.remote.identities import of_hosts

NAME = "promise.json"
SECONDS = 5.0


def read(cluster: Cluster) -> Promise | None:
    """Return the record of this host; None if there is no usable one."""
    try:
        return parse(json.loads((Layout(cluster).var / NAME).read_text("utf-8")))
    except (OSError, ValueError):
        return None


def write(cluster: Cluster, found: Promise) -> None:
    """Replace the record of this host unless it is of a later epoch; it is on disk afterwards."""
    known = read(cluster)
    if known is not None and known.epoch > found.epoch:
        return
    path = Layout(cluster).var / NAME
    try:
        write_atomically(
            path, json.dumps({"format": formats.PROMISE.known, **dataclasses.asdict(found)}) + "\n"
        )
    except OSError as error:
        raise OperatorError(
            "the record of acknowledged commits can't be written",
            f"{path}: {error.strerror}",
            "make room there, then try again",
        ) from error


def spread(cluster: Cluster, host: Host, found: Promise) -> None:
    """Write the record on a majority of the hosts.

    Raises OperatorError (exit 7) if fewer can be reached.
    """
    names = [each.name for each in cluster.hosts]
    answers = of_hosts(names, lambda name: host.keep_promise(name, found), SECONDS)
    failed = {name: each for name, each in answers.items() if isinstance(each, OperatorError)}
    needed = majority.quorum(len(names))
    if len(names) - len(failed) < needed:
        raise OperatorError(
            "a majority of the hosts can't record that commits need fewer secondaries",
            "; ".join(
                f"host {name}: {each.detail or each.notice}" for name, each in failed.items()
            ),
            f"{needed} of {len(names)} hosts must have it: see bin/zodbrepl status",
            ExitCode.TIMED_OUT,
        )


def known(cluster: Cluster, host: Host, epoch: int) -> Promise | None:
    """Return what a primary of an epoch has promised by the records of a majority of the hosts.

    Hosts that missed the last change have an older record, so the weakest counts.  Without a record
    it is what the cluster file says.  None if too few hosts answer.
    """
    names = [each.name for each in cluster.hosts]
    answers = of_hosts(names, host.kept_promise, SECONDS)
    heard = [each for each in answers.values() if not isinstance(each, OperatorError)]
    if len(heard) < majority.quorum(len(names)):
        return None
    records = [each for each in heard if isinstance(each, Promise) and each.epoch == epoch]
    wanted = cluster.synchronous
    return min(
        records,
        key=lambda each: (each.is_kept, each.count),
        default=Promise(epoch, "synchronous", wanted.count, str(wanted.level)),
    )
