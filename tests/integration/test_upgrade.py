"""The upgrade of this tool from release 0.1.0, and back, on one installation and its state.

Release 0.1.0 is the last commit whose setup.py names it.  It is installed from this clone's
history and downloads, so that nothing is fetched.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from clusters import ClusterUnderTest, wait_until
from zeo_client import commit, keys

from indico_zodbrepl import PROTOCOL, __version__
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import releases
from indico_zodbrepl.operations import store
from indico_zodbrepl.operations.planning import Request, prepare

CLONE = Path(__file__).parents[2]
OLD = "0.1.0"
SCHEMA = "src/indico_zodbrepl/cluster/schema.xml"
SECONDS = 600


class Installed:
    """A clone in a folder of its own, with the code of one commit at a time."""

    def __init__(self, home: Path, cluster: Path) -> None:
        self.home = home
        self.cluster = cluster

    def install(self, commit: str) -> None:
        """Check a commit out and set it up, as an operator does."""
        _run(["git", "checkout", "--quiet", commit], self.home)
        _run(["./bootstrap"], self.home)

    def run(self, *arguments: str, expected: int = 0) -> str:
        """Run ``bin/zodbrepl`` with the code that is installed now."""
        line = ["bin/zodbrepl", "-c", str(self.cluster), *arguments]
        return _run(line, self.home, expected)

    def type(self, command: str) -> None:
        """Run a line that a command has printed."""
        _run(["sh", "-c", command], self.home)

    def works_but_for_the_scheduler(self) -> bool:
        """Return True if only the scheduler is missing, which the first release did not run."""
        line = ["bin/zodbrepl", "-c", str(self.cluster), "status", "--json"]
        done = subprocess.run(
            line, cwd=self.home, env=_environment(), capture_output=True, text=True, check=False
        )
        warnings = json.loads(done.stdout)["warnings"]
        return ["Indico's scheduler is stopped"] == [each["text"] for each in warnings]

    def is_healthy(self) -> bool:
        line = ["bin/zodbrepl", "-c", str(self.cluster), "status"]
        return subprocess.run(line, cwd=self.home, env=_environment(), check=False).returncode == 0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterUnderTest]:
    """A ZRS pair with an Indico; its installation is still empty."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    made = ClusterUnderTest(folder, tmp_path / "home", indico=("indico1",))
    _leave_out_new_keys(made)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def installed(tmp_path: Path, cluster: ClusterUnderTest) -> Installed:
    old, home = _last_commit_of(OLD), tmp_path / "home"
    if old is None:
        pytest.skip(f"this clone's history does not hold release {OLD} (a shallow clone?)")
    if not (CLONE / "downloads").is_dir():
        pytest.skip("there is no folder of downloads to install release 0.1.0 from")
    _run(["git", "clone", "--quiet", "--no-checkout", str(CLONE), str(home)], tmp_path)
    shutil.copytree(CLONE / "downloads", home / "downloads")
    made = Installed(home, cluster.path)
    made.install(old)
    return made


@pytest.mark.exhaustive
def test_a_running_pair_is_upgraded_from_the_first_release_and_back_without_loss(
    cluster: ClusterUnderTest, installed: Installed
) -> None:
    new, old = _head(), _last_commit_of(OLD)
    assert old is not None
    installed.run("up")
    cluster.begin_indico()
    _acknowledge(cluster, "a", "old")
    wait_until(installed.is_healthy, "the first release is healthy")

    installed.install(new)
    cluster.scheduler = "indico1"
    cluster.write()
    before = _contents(cluster)
    wait_until(
        installed.works_but_for_the_scheduler, "status of the new release shows the old one healthy"
    )
    found = installed.run("upgrade", "--check", expected=ExitCode.UPGRADE_PENDING)
    assert f"`up` last ran   {OLD}" in found
    assert "node-a          0.1.0: to be restarted" in found
    assert "`up` starts these: scheduler; until then `status` says DEGRADED" in found
    assert before == _contents(cluster), "the check has changed a file"
    typed = [line.strip() for line in found.splitlines() if line.startswith("  ")]
    assert ["restart b", "switchover", "restart a", "restart indico1"] == [
        " ".join(line.split()[3:]) for line in typed[:4]
    ]
    for command in typed[:-1]:
        installed.type(command)
        wait_until(installed.works_but_for_the_scheduler, f"the cluster works after {command}")
    installed.type(typed[-1])
    wait_until(installed.is_healthy, "the scheduler runs too")
    log = (cluster.folder / "var/log/indico-indico1.log").read_text()
    assert "Traceback" not in log, "a master of one release has started a worker of the other"
    _acknowledge(cluster, "b", "new")
    found = installed.run("upgrade", "--check")
    assert "Nothing to do." in found
    assert f"node-b          {__version__}" in found

    installed.install(old)
    _leave_out_new_keys(cluster)
    for arguments in (("restart", "a"), ("switchover",), ("restart", "b"), ("restart", "indico1")):
        installed.run(*arguments)
        wait_until(installed.is_healthy, f"the cluster is healthy after {arguments}")
    installed.run("down")
    installed.run("up")
    wait_until(installed.is_healthy, "the first release is healthy again")
    _acknowledge(cluster, "a", "back")
    expected = {f"{prefix}{number}" for prefix in ("old", "new", "back") for number in range(50)}
    for node in "ab":
        wait_until(
            lambda node=node: expected <= set(keys(cluster, node)),  # type: ignore[misc]
            f"node {node} holds every acknowledged write",
        )
    entries = json.loads(installed.run("journal", "--json"))
    assert entries, "the first release reads the journal of the new one"
    installed.run("down")


def test_the_page_about_going_back_names_each_key_that_the_first_release_does_not_know() -> None:
    old = _last_commit_of(OLD)
    if old is None:
        pytest.skip(f"this clone's history does not hold release {OLD} (a shallow clone?)")
    known = _keys(_run(["git", "show", f"{old}:{SCHEMA}"], CLONE))
    now = _keys((CLONE / SCHEMA).read_text())
    new = {key for part in known for key in now[part] - known[part]}
    assert "workers" in new
    page = (CLONE / "docs/how-to/upgrade.md").read_text().partition("## Go back")[2]
    changes = (CLONE / "CHANGELOG.md").read_text()
    for text in (page, changes):
        assert [] == sorted(key for key in new if not re.search(rf"\b{key}\b", text))


def _keys(schema: str) -> dict[str, set[str]]:
    """Return the keys and sections of each part of the cluster file; "" is the whole file."""
    root = ElementTree.fromstring(schema)  # noqa: S314 - our own file
    parts = {str(each.get("name")): each for each in root.iter("sectiontype")}
    return {
        name: {
            each.get("type") or str(each.get("name"))
            for each in part
            if each.tag in {"key", "multikey", "section", "multisection"}
        }
        for name, part in {"": root, **parts}.items()
    }


def _leave_out_new_keys(cluster: ClusterUnderTest) -> None:
    """Write the cluster file as release 0.1.0 knows it; there, no scheduler is supervised."""
    lines = cluster.path.read_text().splitlines(keepends=True)
    cluster.path.write_text("".join(line for line in lines if "scheduler" not in line))


def _acknowledge(cluster: ClusterUnderTest, node: str, prefix: str) -> None:
    """Commit 50 keys, each of which the server confirms."""
    assert len(commit(cluster, node, prefix, 50)) == 50


def _contents(cluster: ClusterUnderTest) -> dict[Path, bytes]:
    """Return the state files, without those that running programs replace."""
    var = cluster.folder / "var"
    return {
        path: path.read_bytes()
        for path in (*var.glob("*.json"), *var.glob("node/*/*.json"), *var.glob("etc/*"))
        if path.is_file()
    }


def _last_commit_of(release: str) -> str | None:
    """Return the last commit whose setup.py names a release; None if the history has none."""
    for change in _run(["git", "log", "--format=%H", "--", "setup.py"], CLONE).split():
        parents = _run(["git", "log", "-1", "--format=%P", change], CLONE).split()
        for each in (*parents[:1], change):
            if f"version='{release}'" in _run(["git", "show", f"{each}:setup.py"], CLONE):
                return each
    return None


def _head() -> str:
    return _run(["git", "rev-parse", "HEAD"], CLONE).strip()


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "ZODBREPL_HOME"}


def _run(command: list[str], folder: Path, expected: int = 0) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env=_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    if command[0] != "git":
        print(f"$ {' '.join(command)}\n{done.stdout}{done.stderr}[exit {done.returncode}]")
    assert done.returncode == expected, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_roles_are_not_changed_while_a_server_speaks_another_protocol(
    shared: ClusterUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releases, "PROTOCOL", PROTOCOL + 1)
    for operation in releases.CHANGES_ROLES:
        with pytest.raises(OperatorError) as caught:
            releases.refuse_mixed(shared.cluster, operation)
        assert caught.value.exit_code is ExitCode.REFUSED
        assert f"b runs release {__version__} (protocol {PROTOCOL})" in caught.value.detail
    with pytest.raises(OperatorError, match="another release"):
        prepare(shared.cluster, shared.installation, Request("switchover", "b"))
    releases.refuse_mixed(shared.cluster, "restart")


def test_a_cluster_that_this_release_started_needs_nothing(shared: ClusterUnderTest) -> None:
    done = shared.cli("upgrade", "--check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"admin           {__version__}" in done.stdout
    assert "Nothing to do." in done.stdout


def test_an_upgrade_waits_for_the_end_of_an_operation(shared: ClusterUnderTest) -> None:
    with store.alone(shared.cluster):
        done = shared.cli("upgrade", "--check")
    assert done.returncode == ExitCode.REFUSED
    assert "another operation is running" in done.stderr
