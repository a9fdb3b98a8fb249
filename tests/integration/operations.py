"""Operations on real clusters, and control planes that are killed in the middle of one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from clusters import CLI_SECONDS, ClusterUnderTest

from indico_zodbrepl.cluster.layout import Layout, state_file
from indico_zodbrepl.failover import journal
from indico_zodbrepl.failover.operation import Operation

# Plans and executes as the command does, but kills itself when a step of this kind begins or
# has ended: "ACTION begun" or "ACTION done".
KILLED_AT = """
import os, signal, sys
path, home, what, action, progress, *sys.path = sys.argv[1:]
from pathlib import Path
from indico_zodbrepl.cluster import load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.failover import executor, survey
class Killer(executor.Observer):
    def step(self, running, index):
        step, record = running.plan.steps[index], running.records[index]
        if (step.action, record.progress) == (action, progress):
            os.kill(os.getpid(), signal.SIGKILL)
cluster, installation = load(Path(path), Path(home)), Installation(Path(home))
plan = getattr(survey, "survey_" + what)(cluster, installation, None, "a test")
assert hasattr(plan, "steps"), plan
executor.execute(cluster, installation, plan, Killer())
"""


def kill_in_the_middle(under_test: ClusterUnderTest, what: str, action: str,
                       progress: str) -> None:
    """Begin a ``switchover`` or ``failover``, whose process is killed at that moment."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED_AT, under_test.path, under_test.home, what, action,
         progress, *sys.path], capture_output=True, text=True, timeout=CLI_SECONDS, check=False,
        env={**os.environ, "ZODBREPL_HOME": str(under_test.home)})
    assert -signal.SIGKILL == done.returncode, done.stdout + done.stderr


def succeed(under_test: ClusterUnderTest, *arguments: str) -> str:
    """Run a command that has to succeed; its output."""
    done = under_test.cli(*arguments)
    assert 0 == done.returncode, done.stdout + done.stderr
    return done.stdout


def last_entry(under_test: ClusterUnderTest) -> Operation:
    """The newest entry of the journal."""
    return journal.read(under_test.cluster)[0][-1]


def what_a_plan_could_change(under_test: ClusterUnderTest) -> dict[Path, bytes]:
    """State files, epoch records, journal and operations: path to content."""
    cluster = under_test.cluster
    layout = Layout(cluster)
    paths = [*map(state_file, cluster.nodes), layout.epoch_record, layout.journal,
             *layout.operations.glob("*"), *(layout.var / "epochs").glob("*"),
             *layout.lost_tails.glob("**/*")]
    return {path: path.read_bytes() for path in paths if path.is_file()}
