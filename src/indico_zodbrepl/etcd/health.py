"""The health of an etcd cluster: its members, their leader, their majority, its quota."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.etcd.client import Etcd
from indico_zodbrepl.etcd.problems import EtcdAwayError
from indico_zodbrepl.probing.race import all_at_once

BEHIND_ENTRIES = 1000
"""Entries of the log by which a member may be behind the others."""
SLOW_SECONDS = 0.1
"""An answer from a healthy member on the same network takes a few milliseconds."""


@dataclasses.dataclass(frozen=True)
class MemberHealth:
    """A member as it reports itself.

    Attributes:
        url: for clients.
        problem: why it does not serve; empty if it does.
        member: its number; empty if it does not answer.
        leader: number of the member that it follows; empty if it knows none.
        cluster: number of its cluster; members of one cluster have the same.
        index: last entry of the log that it has applied.
        bytes: size of its database.
        full: True if the quota is used up.
        seconds: how long it took to answer.
        votes: False if it is a learner, which counts for no majority.
    """

    url: str
    problem: str = ""
    member: str = ""
    leader: str = ""
    cluster: str = ""
    index: int = 0
    bytes: int = 0
    full: bool = False
    seconds: float = 0.0
    votes: bool = True

    @property
    def leads(self) -> bool:
        return bool(self.member) and self.member == self.leader


@dataclasses.dataclass(frozen=True)
class Health:
    """The members in the order of the endpoints."""

    members: tuple[MemberHealth, ...]

    @property
    def serving(self) -> tuple[MemberHealth, ...]:
        """Return the members that know a leader."""
        return tuple(each for each in self.members if not each.problem)

    @property
    def leader(self) -> MemberHealth | None:
        """Return the member that leads; None if none of those that answer does."""
        return next((each for each in self.serving if each.leads), None)

    @property
    def needed(self) -> int:
        """Return the number of voting members that are a majority."""
        return sum(each.votes for each in self.members) // 2 + 1

    @property
    def has_majority(self) -> bool:
        return sum(each.votes for each in self.serving) >= self.needed

    @property
    def most_run(self) -> bool:
        """Return True if a majority of the members answers, whether they know a leader or not."""
        return sum(each.votes and bool(each.member) for each in self.members) >= self.needed

    @property
    def full(self) -> bool:
        return any(each.full for each in self.members)

    @property
    def behind(self) -> tuple[MemberHealth, ...]:
        """Return the members that lack many entries of the log."""
        newest = max((each.index for each in self.serving), default=0)
        return tuple(each for each in self.serving if newest - each.index > BEHIND_ENTRIES)

    @property
    def slow(self) -> tuple[MemberHealth, ...]:
        return tuple(each for each in self.serving if each.seconds > SLOW_SECONDS)

    @property
    def strangers(self) -> tuple[MemberHealth, ...]:
        """Return the members of another cluster than the first one that serves."""
        own = next((each.cluster for each in self.serving), "")
        return tuple(each for each in self.serving if each.cluster != own)


def ask(etcd: Etcd, seconds: float) -> Health:
    """Ask all members at once; a member that does not answer in time has a problem."""
    found: dict[str, MemberHealth] = {}
    urls = etcd.transport.endpoints

    def one(url: str) -> None:
        began = time.monotonic()
        try:
            content = etcd.transport.ask(url, "maintenance/status", {}, seconds).content
        except EtcdAwayError as error:
            found[url] = MemberHealth(url, error.detail.removeprefix(f"{url}: "))
        except OperatorError as error:
            found[url] = MemberHealth(url, error.detail or error.notice)
        else:
            found[url] = understood(url, content, time.monotonic() - began)

    all_at_once([partial(one, url) for url in urls])
    return Health(tuple(found[url] for url in urls))


def understood(url: str, content: Mapping[str, Any], seconds: float) -> MemberHealth:
    """Return what a member has answered."""
    header = content.get("header", {})
    errors = [str(each) for each in content.get("errors", ())]
    leader = str(content.get("leader", ""))
    return MemberHealth(
        url,
        "" if leader not in ("", "0") else "it knows no leader",
        str(header.get("member_id", "")),
        "" if leader == "0" else leader,
        str(header.get("cluster_id", "")),
        int(content.get("raftAppliedIndex", content.get("raftIndex", 0))),
        int(content.get("dbSize", 0)),
        any("NOSPACE" in each for each in errors),
        seconds,
        not content.get("isLearner", False),
    )
