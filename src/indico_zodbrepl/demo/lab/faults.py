"""Faults of the network between hosts, and the rules of nft(8) that make them.  No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

TABLE = "faults"
LINE = "-line"
"""Ends the name of the switch's port of a host whose frames pass through a slow line."""


@dataclass(frozen=True, order=True)
class Drop:
    """Frames that the switch drops without a sign.

    Attributes:
        sender: a host's name; empty for all.
        receiver: as ``sender``.
        percent: how many of them, at random.
        ports: only frames of TCP connections to these ports; empty for all frames.
    """

    sender: str
    receiver: str
    percent: int = 100
    ports: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not 0 < self.percent <= 100:
            raise ValueError(f"not a percentage of dropped frames: {self.percent}")

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules, for a chain that sees forwarded frames."""
        matches = [
            f'{key} {{ "{name}", "{name}{LINE}" }}'
            for key, name in (("iifname", self.sender), ("oifname", self.receiver))
            if name
        ]
        if self.percent < 100:
            matches.append(f"numgen random mod 100 < {self.percent}")
        if not self.ports:
            return (" ".join((*matches, "drop")),)
        ports = ", ".join(map(str, self.ports))
        # Frames to the listener, and those that it sends.
        return tuple(
            " ".join((*matches, f"ip protocol tcp tcp {end} {{ {ports} }}", "drop"))
            for end in ("dport", "sport")
        )


@dataclass(frozen=True)
class Speed:
    """A slow line to a host, in both directions.

    Attributes:
        delay_ms: by which each frame is late, so that a round trip takes twice as long.
        megabits: per second; 0 for no limit.
        jitter_ms: by which a frame may be later still, at random, so that others overtake it.
    """

    delay_ms: float = 0.0
    megabits: float = 0.0
    jitter_ms: float = 0.0

    def __post_init__(self) -> None:
        if min(self.delay_ms, self.megabits, self.jitter_ms) < 0:
            raise ValueError(f"a negative speed or delay: {self}")


def isolation(host: str) -> frozenset[Drop]:
    """Return the faults by which a host neither hears nor is heard."""
    return frozenset({Drop(host, ""), Drop("", host)})


def block(host: str, ports: Iterable[int]) -> frozenset[Drop]:
    """Return the faults by which no TCP connection between a host and others uses these ports."""
    blocked = tuple(sorted(ports))
    return frozenset({Drop(host, "", ports=blocked), Drop("", host, ports=blocked)})


def cut(one: str, other: str) -> frozenset[Drop]:
    """Return the faults by which two hosts don't hear each other."""
    return frozenset({Drop(one, other), Drop(other, one)})


def loss(host: str, percent: int) -> frozenset[Drop]:
    """Return the faults by which a host loses frames in both directions."""
    return frozenset({Drop(host, "", percent), Drop("", host, percent)})


def ruleset(drops: Iterable[Drop]) -> str:
    """Return what nft loads, in one transaction, in place of all earlier rules."""
    rules = "".join(f"    {rule}\n" for each in sorted(drops) for rule in each.rules)
    return f"""\
table bridge {TABLE}
delete table bridge {TABLE}
table bridge {TABLE} {{
  chain forwarded {{
    type filter hook forward priority 0; policy accept;
{rules}  }}
}}
"""
