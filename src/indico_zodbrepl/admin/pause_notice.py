"""The notice on every page while the automatic failover is paused."""

from __future__ import annotations

import dataclasses
import time

from indico_zodbrepl.admin.site import here


@dataclasses.dataclass(frozen=True)
class PauseNotice:
    """The pause of the automatic failover.

    Attributes:
        by, reason: as ``Pause``; empty if unknown.
        since: when it began, seconds since 1970; None if unknown.
        age: the same as seconds before now, whole minutes: a page is sent again when it changes.
    """

    by: str
    reason: str
    since: float | None
    age: float


def pause_notice() -> PauseNotice | None:
    """Return the notice; None unless the last snapshot says that the failover is paused."""
    taken = here().watcher.latest(patience=0.0)
    automation = None if taken is None else taken.snapshot.automation
    if automation is None or automation.paused is None:
        return None
    paused = automation.paused
    since = paused.began
    age = 0.0 if since is None else max(0.0, (time.time() - since) // 60 * 60)
    return PauseNotice(paused.by, paused.reason, since, age)
