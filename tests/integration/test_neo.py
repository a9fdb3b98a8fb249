"""A cluster of NEO with Indico on it: what is particular to NEO.

All tests of this module share the cluster; each leaves it whole.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import programs27
import pytest
import requests
from clusters import PATIENCE, ClusterUnderTest, Roles, running, settles_at, wait_until
from indico_browser import IndicoBrowser
from indico_load import create_event
from storage_writer import Writer

from indico_zodbrepl.backends.neo import config, report
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.host import secrets, supervisor
from indico_zodbrepl.host.indico_programs import Indico27
from indico_zodbrepl.monitor import Snapshot, State, take_snapshot
from indico_zodbrepl.monitor.node_status import Mark, NodeStatus
from indico_zodbrepl.probing.wire import ProbeError

HUNG_AFTER = 5  # seconds; longer than a busy machine makes a process wait
NODES: Roles = {
    "m1": ("master", None),
    "m2": ("master", None),
    "s1": ("storage", None),
    "s2": ("storage", None),
    "w": ("admin", None),
}
ENGINE = ("<neo>", "  replicas 1", "  partitions 4", f"  hung-after {HUNG_AFTER}", "</neo>")
# Of each look at the cluster; a busy machine may be slow.
LOOK_SECONDS = 10.0

# Runs on Python 2.7: the numbers that the writer's database holds.
READER = """
import os, sys, ZODB, ZODB.config
db = ZODB.DB(ZODB.config.storageFromURL(sys.argv[1]))
os.write(1, ' '.join(map(str, db.open().root()['numbers'].keys())))
os._exit(0)
"""

# Runs on Python 2.7: a category that holds events.
CATEGORY = """
import os, sys, ZODB, ZODB.config
db = ZODB.DB(ZODB.config.storageFromURL(sys.argv[1]))
conference = next(iter(db.open().root()['conferences'].values()))
os.write(1, conference.getOwner().getId())
os._exit(0)
"""


@pytest.fixture(scope="module")
def neo(tmp_path_factory: pytest.TempPathFactory, home: Path) -> Iterator[ClusterUnderTest]:
    """Two masters, two storages with a copy each, the NEO monitor and two Indico instances."""
    folder = tmp_path_factory.mktemp("neo")
    with running(
        ClusterUnderTest(folder, home, NODES, ("one", "two"), backend="neo", engine=ENGINE)
    ) as under_test:
        file = secrets.path_in(Layout(under_test.cluster).var)
        secrets.ensure(file)
        indico = Indico27(under_test.cluster, under_test.installation)
        indico.first_run(file)
        indico.load(2, 1, 1)
        yield under_test


@pytest.fixture
def whole(neo: ClusterUnderTest) -> ClusterUnderTest:
    wait_until_whole(neo)
    return neo


def look(neo: ClusterUnderTest) -> Snapshot:
    return take_snapshot(neo.cluster, LOOK_SECONDS)


def status_of(neo: ClusterUnderTest, node: str) -> NodeStatus:
    return next(each for each in look(neo).nodes if each.name == node)


def known(neo: ClusterUnderTest) -> report.Known:
    return report.ask(neo.cluster, time.monotonic() + PATIENCE)


def wait_until_whole(neo: ClusterUnderTest) -> None:
    """Wait until both copies are up to date, Indico writes, and the state is healthy."""

    def whole() -> bool:
        try:
            found = known(neo)
        except ProbeError:
            return False  # it has just been started, or was frozen
        return found.table is not None and found.table.up_to_date == 2 and found.writable

    wait_until(whole, "both copies are up to date")
    settles_at(State.HEALTHY, lambda: look(neo).state)


def leader(neo: ClusterUnderTest) -> str:
    wait_until(lambda: look(neo).primary is not None, "a master leads")
    return look(neo).primary or ""


def python27(neo: ClusterUnderTest, program: str) -> str:
    layout = Layout(neo.cluster)
    conf = str(layout.indico_conf(neo.cluster.indico[0]))
    return programs27.output_of(
        neo.installation.python27,
        program,
        layout.zodb_conf,
        seconds=PATIENCE,
        environ={**os.environ, "INDICO_CONF": conf},
    )


def numbers(neo: ClusterUnderTest) -> set[int]:
    return set(map(int, python27(neo, READER).split()))


def browsers(neo: ClusterUnderTest) -> list[IndicoBrowser]:
    admin = secrets.read(secrets.path_in(Layout(neo.cluster).var))
    found = [IndicoBrowser(each.base_url) for each in neo.cluster.indico]
    for each in found:
        each.log_in(admin.login, admin.password)
    return found


def test_both_instances_serve_pages_and_see_what_the_other_one_saves(
    whole: ClusterUnderTest,
) -> None:
    one, two = browsers(whole)
    category = python27(whole, CATEGORY)
    for writer, reader in ((one, two), (two, one)):
        title = f"by way of {writer.base_url}"
        shows_soon(reader, create_event(writer, category, title), title)
        assert reader.get("/").status_code == requests.codes.ok


def shows_soon(reader: IndicoBrowser, event: str, title: str) -> None:
    """An instance shows an event; a request may come before it has read the master's notice."""
    wait_until(
        lambda: title in reader.get(f"/event/{event}/").text, f"{reader.base_url} shows {title}"
    )


def test_the_status_tells_who_leads_and_how_many_copies_there_are(whole: ClusterUnderTest) -> None:
    name = leader(whole)
    other = "m2" if name == "m1" else "m1"
    # A busy machine's master may answer too late for a single look.
    wait_until(lambda: status_of(whole, other).leads is False, "the other master tells its part")
    first, second = status_of(whole, name), status_of(whole, other)
    assert (first.writable_primary, first.leads) == (True, True)
    assert not second.writable_primary
    facts = {fact.label: fact.value for fact in first.facts}
    assert facts["cluster state"] == "RUNNING"
    assert facts["copies"] == "2 of 2 up to date, of each of 4 partitions"
    wait_until(
        lambda: (
            len({node.last_tid for node in look(whole).nodes if node.name in ("s1", "s2", name)})
            == 1
        ),
        "all are said to have the same last transaction",
    )


def test_the_health_check_of_an_instance_names_the_leading_master(whole: ClusterUnderTest) -> None:
    answer = requests.get(whole.cluster.indico[0].health_url, timeout=PATIENCE).json()
    leading = whole.cluster.node(leader(whole)).storage_address
    assert (answer["connected"], answer["writable"], answer["server"]) == (True, True, str(leading))


def test_no_acknowledged_write_is_lost_when_a_storage_and_then_the_master_are_killed(
    whole: ClusterUnderTest,
) -> None:
    with Writer(whole) as writer:
        for node in ("s1", leader(whole)):
            os.kill(whole.pid_of(f"node-{node}"), signal.SIGKILL)
            writer.goes_on()
            wait_until_whole(whole)
            writer.goes_on()
    assert len(writer.acknowledged) > 80  # four times 20
    assert not set(writer.acknowledged) - numbers(whole)


def test_a_hung_storage_is_ended_and_the_service_goes_on(whole: ClusterUnderTest) -> None:
    """The writer's own limit is longer than the NEO monitor's: it waits for the NEO monitor."""
    pid = whole.pid_of("node-s2")
    with Writer(whole) as writer:
        os.kill(pid, signal.SIGSTOP)
        writer.goes_on()
        wait_until(
            lambda: (
                supervisor.program_states(whole.cluster, PATIENCE)["node-s2"].pid not in (None, pid)
            ),
            "supervisor started it again",
        )
        writer.goes_on()
    assert not set(writer.acknowledged) - numbers(whole)
    wait_until_whole(whole)
    deeds = [(each.what, each.address) for each in known(whole).deeds]
    address = str(whole.cluster.node("s2").storage_address)
    assert [("kill-storage", address), ("kill-process", address)] == deeds[-2:]
    texts = [alert.text for alert in look(whole).warnings]
    assert "the NEO monitor ended storage s2" in texts


def test_a_hung_leading_master_is_ended_and_the_other_one_leads(whole: ClusterUnderTest) -> None:
    name = leader(whole)
    pid = whole.pid_of(f"node-{name}")
    with Writer(whole) as writer:
        os.kill(pid, signal.SIGSTOP)
        writer.goes_on()
    assert not set(writer.acknowledged) - numbers(whole)
    wait_until_whole(whole)
    assert ("kill-process", str(whole.cluster.node(name).storage_address)) in [
        (each.what, each.address) for each in known(whole).deeds
    ]


def test_a_frozen_neo_monitor_is_reported_and_the_service_goes_on(whole: ClusterUnderTest) -> None:
    pid = whole.pid_of("node-w")
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(lambda: status_of(whole, "w").mark is Mark.UNREACHABLE, "it is told")
        with Writer(whole) as writer:
            writer.goes_on()
        assert not set(writer.acknowledged) - numbers(whole)
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_restart_brings_everything_back_and_empty_disks_are_no_new_cluster(
    whole: ClusterUnderTest,
) -> None:
    """As after a power failure, when no disk was mounted at first."""
    assert json.loads(config.founded(whole.cluster).read_text())["cluster"] == "test"
    expected = numbers(whole)
    whole.down()
    # A storage that was ended has its last transactions in the file beside the database.
    files = [
        path
        for name in ("s1", "s2")
        for path in whole.cluster.node(name).data_directory.glob("neo.sqlite*")
    ]
    for path in files:
        path.rename(path.with_name(f"kept.{path.name}"))
    done = whole.cli("up")
    assert done.returncode != 0
    assert "all storages are empty, and the cluster is not new" in done.stdout + done.stderr
    whole.down()
    for name in ("s1", "s2"):
        for begun in whole.cluster.node(name).data_directory.glob("neo.sqlite*"):
            begun.unlink()
    for path in files:
        path.with_name(f"kept.{path.name}").rename(path)
    whole.start()
    wait_until_whole(whole)
    assert expected == numbers(whole)
    assert browsers(whole)[0].get("/").status_code == requests.codes.ok
