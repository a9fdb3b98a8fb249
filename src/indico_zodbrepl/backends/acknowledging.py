"""When a primary of PostgreSQL or MariaDB acknowledges commits: the decision, without I/O.

Both engines let a commit wait for followers, PostgreSQL for ever and MariaDB as long as it is told.
Neither refuses the next commits, nor records that it goes on alone before it does.  The process
that does both (``host.commit_keeper``) looks at the server and applies the state of ``next_state``.
The server shows the state to everybody, in the text of ``Shown``.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping

import msgspec

from indico_zodbrepl.cluster.model import Synchronous, WhenAlone
from indico_zodbrepl.probing import typed_json
from indico_zodbrepl.probing.answers import Acknowledging, AckState


@dataclasses.dataclass(frozen=True)
class CommitsLook:
    """A look at the commits of a primary.

    Attributes:
        confirming: the followers that have, and acknowledge, everything up to the last look, by
            name, each with its position in the log.
        waited: seconds that the oldest waiting commit has waited; 0 without one.
        waiting: commits that wait.
        position: of the primary's log now, for the next look.
    """

    confirming: Mapping[str, str]
    waited: float
    waiting: int
    position: str


@dataclasses.dataclass(frozen=True)
class Shown:
    """A state, as the server shows it.

    Attributes:
        entered: seconds since 1970.
    """

    state: AckState
    count: int
    level: str
    timeout: float
    alone: str
    entered: float


def next_state(
    state: AckState,
    lasts: float,
    look: CommitsLook,
    wanted: Synchronous,
    *,
    told: bool,
    when_told: bool,
) -> AckState:
    """Return the state of a primary after a look.

    Args:
        state: until now; OFF for a server that has just started.
        lasts: seconds in it.
        told: True if an order said that it is recorded elsewhere that the primary goes on alone; it
            counts only for one that asks.
        when_told: True if it goes on alone only after that.
    """
    if not wanted.count:
        return AckState.OFF
    is_late = look.waited >= wanted.timeout
    if len(look.confirming) >= wanted.count and not is_late:
        return AckState.SYNCHRONOUS
    waits = state is AckState.WAITING and lasts < wanted.timeout
    if not is_late and (waits or state in (AckState.OFF, AckState.SYNCHRONOUS)):
        return AckState.WAITING
    if wanted.alone is WhenAlone.REFUSE:
        return AckState.REFUSING
    if state is AckState.ALONE or not when_told:
        return AckState.ALONE
    return AckState.ALONE if told and state is AckState.ASKING else AckState.ASKING


def show(state: AckState, wanted: Synchronous, entered: float) -> str:
    """Return the text by which a server shows its state."""
    shown = Shown(
        state, wanted.count, wanted.level, wanted.timeout, wanted.alone, round(entered, 1)
    )
    return msgspec.json.encode(shown).decode()


def shown_in(text: str) -> Shown | None:
    """Return the state that a server shows; None if the text holds none."""
    try:
        return typed_json.decode(text.encode(), Shown)
    except msgspec.MsgspecError:
        return None


def answer(
    wanted: Synchronous, text: str, confirming: Mapping[str, str], waiting: int
) -> Acknowledging:
    """Return the monitor's answer about a primary.

    Args:
        text: by which the server shows its state; empty or unusable if nobody takes care of it,
            because the server is managed elsewhere, or was started without acknowledged commits.
        waiting: commits that are on its disk and not acknowledged.
    """
    shown = shown_in(text)
    if shown is None:
        state = AckState.OFF
        if wanted.count:
            enough = len(confirming) >= wanted.count
            state = AckState.SYNCHRONOUS if enough else AckState.WAITING
        shown = Shown(state, wanted.count, wanted.level, wanted.timeout, wanted.alone, time.time())
    return Acknowledging(
        shown.state,
        shown.count,
        shown.level,
        shown.timeout,
        shown.alone,
        None,
        waiting,
        confirming,
        max(0.0, time.time() - shown.entered),
    )
