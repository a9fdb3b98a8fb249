"""Requirements files with exact versions and the SHA-256 of every file."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from indico_zodbrepl.errors import ExitCode, OperatorError

_PIN = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[A-Za-z0-9.!+_-]+)"
    r"(?P<hashes>(\s+--hash=sha256:[0-9a-f]{64})+)\s*$"
)


@dataclass(frozen=True)
class Pin:
    """A release and the SHA-256 (hex) of each file that may be installed or built."""

    name: str
    version: str
    hashes: frozenset[str]

    @property
    def key(self) -> tuple[str, str]:
        """Return the normalised name and the version."""
        return normal_name(self.name), self.version

    def __str__(self) -> str:
        return f"{self.name}=={self.version}"


def normal_name(name: str) -> str:
    """Return a project's name as package indexes normalise it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_pins(path: Path) -> tuple[Pin, ...]:
    """Return the pins of a requirements file.

    Raises:
        OperatorError: a line is not an exact pin with hashes, or a project is pinned twice.
    """
    return parse_pins(path.read_text(), str(path))


def parse_pins(text: str, source: str) -> tuple[Pin, ...]:
    """Return the pins of a requirements file's text.

    Args:
        source: name of the file, for messages.

    Raises:
        OperatorError: as ``read_pins``.
    """
    pins: dict[str, Pin] = {}
    for number, line in _logical_lines(text):
        match = _PIN.match(line)
        if not match:
            raise OperatorError(
                "a requirement is not an exact pin with hashes",
                f"{source}:{number}: {line[:100]}",
                "write name==version --hash=sha256:...; `pip hash FILE` prints the hash of a file",
                ExitCode.BAD_CONFIG,
            )
        name = normal_name(match["name"])
        if name in pins:
            raise OperatorError(
                "a project is pinned twice",
                f"{source}:{number}: {match['name']}",
                "keep one of the lines",
                ExitCode.BAD_CONFIG,
            )
        pins[name] = Pin(
            match["name"],
            match["version"],
            frozenset(re.findall(r"sha256:([0-9a-f]{64})", match["hashes"])),
        )
    return tuple(pins.values())


def digest_of_pins(pins: Iterable[Pin]) -> str:
    """Return one SHA-256 over all pins, in hex."""
    lines = sorted(f"{pin} {' '.join(sorted(pin.hashes))}" for pin in pins)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _logical_lines(text: str) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    pending = ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("#"):
            continue
        if line.endswith("\\"):
            pending += line[:-1]
            continue
        if (pending + line).strip():
            found.append((number, (pending + line).strip()))
        pending = ""
    if pending.strip():
        found.append((len(text.splitlines()), pending.strip()))
    return found
