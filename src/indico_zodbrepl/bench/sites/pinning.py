"""Pin a site's primary and its followers to separate CPU cores.

On a machine with few cores, followers otherwise compete with the primary.  In a real cluster they
run on machines of their own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from indico_zodbrepl.bench import machine
from indico_zodbrepl.bench.sites import replication_nodes
from indico_zodbrepl.bench.sites.site import Site
from indico_zodbrepl.bench.suite import Option, Settings
from indico_zodbrepl.errors import OperatorError

OPTION = Option(
    "pinned",
    "yes: primary and writers on one core, followers on the others",
    "no",
    choices=("yes", "no"),
)
"""For suites that can be measured so; cases then have the parameter of its name."""


@dataclasses.dataclass(frozen=True)
class Cores:
    """Numbers of CPU cores.

    Attributes:
        primary: one core for the primary, Indico and all writers.
        followers: all other cores, for the followers and their observers.
    """

    primary: tuple[int, ...]
    followers: tuple[int, ...]


def cores() -> Cores:
    """Return how the cores available to this process are divided.

    Raises:
        OperatorError: exit 1, there is only one.
    """
    first, *others = sorted(os.sched_getaffinity(0))
    if not others:
        raise OperatorError(
            "followers can't have a core of their own",
            "this process may use one core only",
            "measure without pinning, or on a machine with two cores or more",
        )
    return Cores((first,), tuple(others))


def parameters(settings: Settings) -> dict[str, str]:
    """Return the case parameters that record pinning."""
    return {OPTION.name: "yes"} if settings.options[OPTION.name] == "yes" else {}


@contextlib.contextmanager
def pinned(site: Site, settings: Settings) -> Iterator[Cores | None]:
    """Context: pin a site if the settings ask for it; yield its cores, or None.

    Raises OperatorError, as ``pin``.
    """
    if not parameters(settings):
        yield None
        return
    try:
        yield pin(site)
    finally:
        release(site)


@contextlib.contextmanager
def on(numbers: Sequence[int]) -> Iterator[None]:
    """Context: programs started by this thread run on these cores; on all if there are none.

    They keep these cores afterwards.
    """
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, numbers or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def pin(site: Site, writers: Sequence[int] = ()) -> Cores:
    """Move the followers' programs to other cores than the rest of a site.

    Everything else, including the leading master and Indico, shares the primary's core.  Later
    children and threads inherit the core.  Idempotent.

    Args:
        writers: PIDs whose processes and descendants belong on the primary's core.

    Raises:
        OperatorError: exit 1, there is only one core, or a process belongs to another user.
    """
    shared = cores()
    following = replication_nodes.follower_programs(site)
    pids = site.pids()
    _keep([pid for name, pid in pids.items() if name in following], shared.followers)
    _keep([*(pid for name, pid in pids.items() if name not in following), *writers], shared.primary)
    return shared


def release(site: Site) -> None:
    """Allow a site's programs to use all cores again."""
    _keep(site.pids().values(), tuple(os.sched_getaffinity(0)))


def _keep(pids: Iterable[int], numbers: Sequence[int]) -> None:
    wanted = list(pids)
    done: set[int] = set()
    # A new thread may have been started by one that was not pinned yet.
    while left := _threads(machine.family(wanted, machine.present())) - done:
        for thread in left:
            try:
                os.sched_setaffinity(thread, numbers)
            except ProcessLookupError:
                pass
            except PermissionError as error:
                raise OperatorError(
                    "a process can't be kept on a core",
                    f"process {thread} belongs to somebody else",
                    "measure as the user who runs the servers",
                ) from error
        done |= left


def _threads(pids: Iterable[int]) -> set[int]:
    found = set()
    for pid in pids:
        try:
            found |= {int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir()}
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found
