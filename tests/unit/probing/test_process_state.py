"""A process runs, is frozen, or is gone, also when nobody has noticed its end yet."""

from __future__ import annotations

import os
import signal
import subprocess

from indico_zodbrepl.host.fencing import freeze
from indico_zodbrepl.probing.process_state import FROZEN, state_of


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
