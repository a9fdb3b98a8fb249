"""Operations on real clusters, and control planes that are killed in the middle of one."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
from pathlib import Path

import commands
from clusters import CLI_SECONDS, ClusterUnderTest

from indico_zodbrepl.cluster.layout import Layout, state_file
from indico_zodbrepl.operations import journal
from indico_zodbrepl.operations.operation import Operation
from indico_zodbrepl.operations.outages import OUTAGE

# Plans and executes as the command does, but kills itself at a moment of a step: as it has begun
# or is done, or just before its n-th effect on the world, files and other processes.  Without
# a moment it counts the effects of each step, and prints them at its end.
KILLED_AT = """
import json, os, signal, sys, threading, time
path, home, what, subject, moment = sys.argv[1:]
from pathlib import Path
from indico_zodbrepl.cluster import load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.operations import executor, model as actions, planning as requests
from indico_zodbrepl.operations.execution import Observer
action, when = json.loads(moment) or (None, None)
EFFECTS = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.kill", "shutil.rmtree",
           "subprocess.Popen", "socket.connect")
def die():
    os.kill(os.getpid(), signal.SIGKILL)
def kill(pid, number):
    sys.audit("os.kill", pid, number)  # newer Pythons alone tell of it themselves
    original_kill(pid, number)
original_kill, os.kill = os.kill, kill
now, effects = None, {}
def hook(event, arguments):
    if now is None or event not in EFFECTS:
        return
    effects[now] = effects.get(now, 0) + 1
    if now == action and effects[now] == when:
        original_kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hook)
class Killer(Observer):
    def step(self, running, index):
        global now
        step, record = running.plan.steps[index], running.records[index]
        now = step.action if record.progress == "begun" else None
        if (step.action, record.progress) == (action, when):
            original_kill(os.getpid(), signal.SIGKILL)
cluster, installation = load(Path(path), Path(home)), Installation(Path(home))
plan = requests.prepare(cluster, installation, requests.Request(what, subject or None, "a test"))
assert hasattr(plan, "steps"), plan
executor.execute(cluster, installation, plan, Killer())
print(json.dumps([[step.action, effects.get(step.action, 0)] for step in plan.steps]))
"""


def kill_in_the_middle(
    under_test: ClusterUnderTest, what: str, action: str, when: str | int, subject: str = ""
) -> None:
    """Begin an operation whose process is killed at a moment of a step.

    Args:
        what: as in ``requests.Request``.
        action: of the step.
        when: ``begun``, ``done``, or the number of the step's effect that does not happen any
            more, from 1 on.
        subject: the node it is about; by default the one that the planner chooses.
    """
    assert is_killed(under_test, what, action, when, subject), "there was no such moment"


def is_killed(
    under_test: ClusterUnderTest, what: str, action: str, when: str | int, subject: str = ""
) -> bool:
    """As ``kill_in_the_middle``; False when it had no such moment, and so came to its end."""
    done = _carry_out(under_test, what, [action, when], subject)
    assert done.returncode in (0, -signal.SIGKILL), (done.returncode, done.stdout, done.stderr)
    return done.returncode != 0


def count_effects(
    under_test: ClusterUnderTest, what: str, subject: str = ""
) -> list[tuple[str, int]]:
    """Carry an operation out, and count what each step does to files and other processes."""
    done = _carry_out(under_test, what, None, subject)
    assert 0 == done.returncode, done.stdout + done.stderr
    return [(action, count) for action, count in json.loads(done.stdout)]


def _carry_out(
    under_test: ClusterUnderTest, what: str, moment: list[str | int] | None, subject: str
) -> subprocess.CompletedProcess[str]:
    return commands.run_program(
        KILLED_AT,
        [str(under_test.path), str(under_test.home), what, subject, json.dumps(moment)],
        under_test.home,
        seconds=CLI_SECONDS,
    )


def succeed(under_test: ClusterUnderTest, *arguments: str) -> str:
    """Run a command that has to succeed; its output."""
    done = under_test.cli(*arguments)
    assert 0 == done.returncode, f"{done.stdout}{done.stderr}"
    return done.stdout


def last_entry(under_test: ClusterUnderTest) -> Operation:
    """The newest operation of the journal; a monitor may write entries for outages after it."""
    entries, _notices = journal.read(under_test.cluster)
    return [each for each in entries if each.plan.operation != OUTAGE][-1]


def senders(pids: list[int]) -> list[int]:
    """Those of a PostgreSQL server's processes that send its log to standbys."""
    found = []
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if b"walsender" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


def what_a_plan_could_change(under_test: ClusterUnderTest) -> dict[Path, bytes]:
    """State files, epoch records, journal and operations: path to content."""
    cluster = under_test.cluster
    layout = Layout(cluster)
    paths = [
        *map(state_file, cluster.nodes),
        layout.epoch_record,
        layout.journal,
        *layout.operations.glob("*"),
        *(layout.var / "epochs").glob("*"),
        *layout.lost_tails.glob("**/*"),
    ]
    return {path: path.read_bytes() for path in paths if path.is_file()}
