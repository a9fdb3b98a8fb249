"""What the programs of the hosts use, so that a run shows if that grows without end."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator, Mapping

from services import PROGRAMS
from stage import Stage

# Runs on a host: by program, a list of [kilobytes of memory, threads, open files, sockets].
PROBE = """
import glob, json, os, re, sys
found = {}
for folder in glob.glob("/proc/[0-9]*"):
    try:
        command = open(folder + "/cmdline", "rb").read().replace(b"\\0", b" ").decode().strip()
        status = open(folder + "/status").read() + open(folder + "/smaps_rollup").read()
        files = [os.readlink(each) for each in glob.glob(folder + "/fd/*")]
    except OSError:
        continue
    for name, pattern in json.loads(sys.argv[1]).items():
        values = dict(re.findall(r"(?m)^(Pss|Threads):\\s+(\\d+)", status))
        if re.search(pattern, command) and "Pss" in values:
            sockets = sum(each.startswith("socket:") for each in files)
            found.setdefault(name, []).append(
                [int(values["Pss"]), int(values["Threads"]), len(files), sockets])
print(json.dumps(found))
"""


@dataclasses.dataclass(frozen=True)
class Usage:
    """What all processes of one program on one host use.

    Attributes:
        memory: kilobytes of physical memory; what its processes share counts once.
    """

    processes: int = 0
    memory: int = 0
    threads: int = 0
    files: int = 0
    sockets: int = 0


ALLOWED: Mapping[str, tuple[float, int]] = {
    "processes": (2.0, 3),
    "memory": (2.0, 100_000),
    "threads": (1.5, 25),  # pools keep those that they needed at once
    "files": (2.0, 100),
    "sockets": (1.5, 30),
}
"""A factor and an addition to what a program used on any host before: roles move between them."""
ALLOWED_OF: Mapping[tuple[str, str], tuple[float, int]] = {
    # Go never ends a thread, and has one for each call that waits for a disk: 11 became 47.
    ("etcd", "threads"): (1.5, 100),
}
"""The same, by program, where that differs."""
Measured = Mapping[str, Mapping[str, Usage]]
"""By host and program."""


def measure(stage: Stage) -> Measured:
    """Return what each program uses on each host."""
    found = {}
    for host in stage.lab:
        done = host.run(sys.executable, "-I", "-S", "-c", PROBE, json.dumps(PROGRAMS))
        found[host.name] = {
            name: Usage(len(each), *(sum(column) for column in zip(*each, strict=True)))
            for name, each in json.loads(done.stdout).items()
        }
    return found


def grown(before: Measured, after: Measured) -> Iterator[str]:
    """Yield what is used more than is allowed, one line each.  Pure."""
    for host, programs in sorted(after.items()):
        for program, usage in sorted(programs.items()):
            known = [each.get(program, Usage()) for each in before.values()]
            for what, usual in ALLOWED.items():
                factor, addition = ALLOWED_OF.get((program, what), usual)
                most = max(getattr(each, what) for each in known)
                present = getattr(usage, what)
                if present > factor * most + addition:
                    yield f"{host}: {program} uses {present} {what}, {most} at the beginning"
