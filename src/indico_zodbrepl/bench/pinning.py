"""Keeps a site's primary and its followers on cores of their own.

On a machine of few cores the followers otherwise take from the primary what they need; in a real
cluster they have machines of their own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ..errors import OperatorError
from . import processes, replication_nodes
from .site import Site
from .suite import Option, Settings

OPTION = Option("pinned", "yes: primary and writers on one core, followers on the others", "no",
                choices=("yes", "no"))
"""For suites that can be measured so; cases then have the parameter of its name."""


@dataclasses.dataclass(frozen=True)
class Cores:
    """Numbers of cores.

    Attributes:
        primary: of the primary, of Indico and of whatever writes; one core.
        followers: of the followers and of whatever looks at them; all others.
    """

    primary: tuple[int, ...]
    followers: tuple[int, ...]


def cores() -> Cores:
    """How the cores that this process may use are shared out.

    Raises:
        OperatorError: exit 1, there is only one.
    """
    first, *others = sorted(os.sched_getaffinity(0))
    if not others:
        raise OperatorError("followers can't have a core of their own",
                            "this process may use one core only",
                            "measure without pinning, or on a machine with two cores or more")
    return Cores((first,), tuple(others))


def parameters(settings: Settings) -> dict[str, str]:
    """What the parameters of a case have when the suite is measured so."""
    return {OPTION.name: "yes"} if settings.options[OPTION.name] == "yes" else {}


@contextlib.contextmanager
def pinned(site: Site, settings: Settings) -> Iterator[Cores | None]:
    """Within, a site is pinned if the settings say so; else all may use all cores: None.

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
    """Within, programs that this thread starts use these cores only; all of them if there are none.

    They stay there afterwards.
    """
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, numbers or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def pin(site: Site, writers: Sequence[int] = ()) -> Cores:
    """Give the followers' programs other cores than all else of a site.

    Everything that is not a follower's goes to the primary's core: the primary, what leads,
    Indico.  Processes and threads that these start later stay with them.  May be repeated.

    Args:
        writers: ids of processes that belong to the primary's core, with their descendants.

    Raises:
        OperatorError: exit 1, there is only one core, or a process is somebody else's.
    """
    shared = cores()
    following = replication_nodes.follower_programs(site)
    pids = site.pids()
    _keep([pid for name, pid in pids.items() if name in following], shared.followers)
    _keep([*(pid for name, pid in pids.items() if name not in following), *writers],
          shared.primary)
    return shared


def release(site: Site) -> None:
    """Let a site's programs use all cores again."""
    _keep(site.pids().values(), tuple(os.sched_getaffinity(0)))


def _keep(pids: Iterable[int], numbers: Sequence[int]) -> None:
    wanted = list(pids)
    done: set[int] = set()
    # A thread that was not there yet may have been started by one that was not pinned yet.
    while left := _threads(processes.family(wanted, processes.present())) - done:
        for thread in left:
            try:
                os.sched_setaffinity(thread, numbers)
            except ProcessLookupError:
                pass
            except PermissionError as error:
                raise OperatorError("a process can't be kept on a core",
                                    f"process {thread} belongs to somebody else",
                                    "measure as the user who runs the servers") from error
        done |= left


def _threads(pids: Iterable[int]) -> set[int]:
    found = set()
    for pid in pids:
        try:
            found |= {int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir()}
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found
