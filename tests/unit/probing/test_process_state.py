"""A process runs, is frozen, or is gone, also when nobody has noticed its end yet."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from indico_zodbrepl.host.fencing import freeze
from indico_zodbrepl.probing.process_state import CGROUPS, FROZEN, is_stopped, state_of
from indico_zodbrepl.probing.waiting import wait_until

PATIENCE = 20.0
FREEZERS = {
    "v1": (CGROUPS / "freezer", "freezer.state", "FROZEN", "THAWED"),
    "v2": (CGROUPS, "cgroup.freeze", "1", "0"),
    "v2 beside v1": (CGROUPS / "unified", "cgroup.freeze", "1", "0"),
}


def test_a_process_runs_is_frozen_and_is_gone() -> None:
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            assert state_of(process.pid) not in FROZEN | {""}
            freeze([process.pid])
            assert state_of(process.pid) in FROZEN
        finally:
            process.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not state_of(process.pid), "a zombie is no process that runs"
    assert not state_of(process.pid)


@contextlib.contextmanager
def new_cgroup(root: Path, file: str) -> Iterator[Path]:
    """Create a cgroup; skip the test where the machine has no such freezer or forbids it."""
    folder = root / f"zodbrepl-test-{uuid.uuid4().hex}"
    if not root.is_dir():
        pytest.skip(f"{root} does not exist")
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made in {root}: {error.strerror}")
    try:
        if not (folder / file).exists():
            pytest.skip(f"{root} has no {file}")
        yield folder
    finally:
        folder.rmdir()


@pytest.mark.parametrize("kind", FREEZERS)
def test_a_process_in_a_frozen_cgroup_is_stopped(kind: str) -> None:
    root, file, frozen, thawed = FREEZERS[kind]
    with new_cgroup(root, file) as folder, subprocess.Popen(["sleep", "600"]) as process:

        def becomes(stopped: bool) -> bool:
            deadline = time.monotonic() + PATIENCE
            return wait_until(lambda: is_stopped(process.pid) is stopped, deadline)

        try:
            (folder / "cgroup.procs").write_text(str(process.pid))
            assert becomes(stopped=False)
            (folder / file).write_text(frozen)
            assert becomes(stopped=True)
            assert state_of(process.pid) not in FROZEN, "/proc/PID/stat does not tell"
            (folder / file).write_text(thawed)
            assert becomes(stopped=False)
        finally:
            (folder / file).write_text(thawed)
            process.kill()
            process.wait()
