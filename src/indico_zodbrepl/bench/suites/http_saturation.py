"""Determine from the load of programs and machine what limited Indico's rate.  Pure."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping

CORE_IS_FULL = 0.85
"""Fraction of one core from which a process counts as saturated.  A worker runs Python in one
thread at a time, so it uses one core at most; so does a storage server.
"""

MACHINE_IS_FULL = 0.9
"""Fraction of all cores' time from which the machine counts as saturated."""

OTHERS_DISTURB = 0.25
"""Fraction of all cores' time that other programs may use before they are blamed."""

DISK_IS_WAITED_FOR = 0.1
"""Fraction of all cores' time spent waiting for disks that counts as saturation."""


class Saturated(enum.StrEnum):
    """The resource at its limit."""

    WORKER = "worker CPU"
    STORAGE = "storage server CPU"
    MACHINE = "all cores"
    OTHERS = "other programs"
    DISK = "storage wait, disk"
    WAIT = "storage wait"
    OTHER_WAIT = "other waits"
    FAILURES = "nothing, requests failed"
    NOTHING = "nothing"


@dataclasses.dataclass(frozen=True)
class Shares:
    """The load of everything during a trial.

    Attributes:
        workers, storage: of each program, as a fraction of one core.
        calls: average number of threads of each worker inside storage calls.
        generator: the load generator, as a fraction of one core.
        machine: all cores, all users; 1 means fully used.
        disk: fraction of all cores' time that was idle while waiting for a disk.
        cores: number of cores.
    """

    workers: Mapping[str, float]
    storage: Mapping[str, float]
    calls: Mapping[str, float]
    generator: float
    machine: float
    disk: float
    cores: int

    @property
    def others(self) -> float:
        """Return the fraction of all cores' time used by other programs."""
        own = sum(self.workers.values()) + sum(self.storage.values()) + self.generator
        return max(0.0, self.machine - own / self.cores)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The saturated resource, and a sentence with the evidence."""

    what: Saturated
    why: str


def verdict(shares: Shares, broken: str, *, failed: bool) -> Verdict:
    """Return what was saturated in a trial.

    The busiest worker or storage server counts if it reaches the limit of one core.  Next comes the
    machine.  Otherwise requests waited: for the storage, if a worker spent more time in storage
    calls than working.

    Args:
        broken: why the trial's rate missed the limit; '' if it did not.
        failed: True if requests failed.
    """
    if not broken:
        return Verdict(
            Saturated.NOTHING,
            "the highest rate that was tried held: the search ended "
            "before anything was at its limit",
        )
    kind, name, share = max(
        [(Saturated.WORKER, name, share) for name, share in shares.workers.items()]
        + [(Saturated.STORAGE, name, share) for name, share in shares.storage.items()],
        key=lambda each: each[2],
    )
    busy = (
        f"all {shares.cores} cores were busy {shares.machine:.0%} of the time: the load "
        f"generator {shares.generator / shares.cores:.0%}, programs that are not "
        f"measured {shares.others:.0%}"
    )
    if share >= CORE_IS_FULL:
        return Verdict(kind, f"{name} used {share:.0%} of one core; {busy}")
    if shares.machine >= MACHINE_IS_FULL:
        what = Saturated.OTHERS if shares.others >= OTHERS_DISTURB else Saturated.MACHINE
        return Verdict(what, f"{busy}; the busiest one measured, {name}, got {share:.0%} of a core")
    idle = f"the busiest one, {name}, used {share:.0%} of one core; {busy}"
    if shares.disk >= DISK_IS_WAITED_FOR:
        return Verdict(Saturated.DISK, f"{idle}; {shares.disk:.0%} waited for a disk")
    if failed:
        return Verdict(Saturated.FAILURES, f"{broken}; {idle}")
    return _waits(shares, idle)


def _waits(shares: Shares, idle: str) -> Verdict:
    name, waiting = max(shares.calls.items(), key=lambda each: each[1] - shares.workers[each[0]])
    seconds = (
        f"in a second {name} was {waiting:.2f} s in calls of the storage, over all threads, "
        f"and {shares.workers[name]:.2f} s at work"
    )
    if waiting > shares.workers[name]:
        return Verdict(Saturated.WAIT, f"{idle}; {seconds}")
    return Verdict(
        Saturated.OTHER_WAIT,
        f"{idle}; {seconds}: requests waited for something else, such as locks",
    )
