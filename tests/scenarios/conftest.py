"""The sentences of the features, and what they do."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_bdd import given, parsers, then, when
from pytest_bdd.parser import Feature, Scenario

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "harness"), str(HERE.parent / "integration")]

from clusters import CHAIN, PAIR, wait_until  # noqa: E402
from link import Link  # noqa: E402
from report import Row, keep, table  # noqa: E402
from world import World  # noqa: E402

ROWS = pytest.StashKey[list[Row]]()
NAMES = pytest.StashKey[tuple[str, str]]()
WORLD = pytest.StashKey[World]()
ROOM = 20_000  # bytes that still fit on a disk that is almost full


# What all scenarios have.

def pytest_configure(config: pytest.Config) -> None:
    config.stash[ROWS] = []


def pytest_bdd_before_scenario(request: pytest.FixtureRequest, feature: Feature,
                               scenario: Scenario) -> None:
    request.node.stash[NAMES] = feature.name or "", scenario.name


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]
                              ) -> Iterator[None]:
    report: pytest.TestReport = yield  # type: ignore[assignment]
    world = item.stash.get(WORLD, None)
    if call.when == "call" and world is not None:
        account = world.account if report.passed else world.__dict__.get("account")
        item.config.stash[ROWS].append(
            Row(world.feature, world.name, account, world.times, report.outcome))
    return report  # type: ignore[return-value]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter,
                            config: pytest.Config) -> None:
    rows = config.stash[ROWS]
    if rows:
        terminalreporter.write_line(table(rows))
        home = Path(os.environ.get("ZODBREPL_HOME", HERE.parents[1]))
        terminalreporter.write_line(f"kept in {keep(rows, home / 'var/scenarios')}")


@pytest.fixture(scope="session")
def home() -> Path:
    """The installation: $ZODBREPL_HOME, else the folder of the clone."""
    return Path(os.environ.get("ZODBREPL_HOME", HERE.parents[1])).absolute()


@pytest.fixture
def world(tmp_path: Path, home: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    made = World(tmp_path, home, *request.node.stash[NAMES])
    request.node.stash[WORLD] = made
    try:
        yield made
    finally:
        made.close()


# Given

@given("a primary a and a secondary b")
def pair(world: World) -> None:
    world.make_cluster(PAIR).up()


@given("a primary a, a relay b and a secondary c")
def chain(world: World) -> None:
    world.make_cluster(CHAIN).up()


@given("a primary a and a secondary b on the other side of a link", target_fixture="link")
def pair_with_a_link(world: World) -> Link:
    cluster = world.make_cluster(PAIR)
    link = cluster.link("b", "a")
    cluster.up()
    return link


@given(parsers.parse("{writers:d} writers and {readers:d} reader at work"))
@given(parsers.parse("{writers:d} writer and {readers:d} reader at work"))
def clients_at_work(world: World, writers: int, readers: int) -> None:
    world.start_clients(writers, readers)


# When

@when(parsers.parse("the server of node {node} is killed"))
def kill(world: World, node: str) -> None:
    world.cluster.signal(node, signal.SIGKILL)


@when("everything is killed at once, supervisord too")
def kill_everything(world: World) -> None:
    world.cluster.kill_everything()


@when("the cluster is brought up again")
def up_again(world: World) -> None:
    world.run("up")


@when(parsers.parse("the link is cut for {seconds:d} seconds"))
def cut_for_a_while(link: Link, seconds: int) -> None:
    link.cut()
    time.sleep(seconds)
    link.mend()


@when(parsers.parse("the disk of node {node} is full for {seconds:d} seconds"))
def fill_disk(world: World, node: str, seconds: int) -> None:
    """The kernel lets no file of the server grow further, as on a disk that is full."""
    server = world.cluster.pid_of(f"node-{node}")
    before = resource.prlimit(server, resource.RLIMIT_FSIZE)
    limit = world.cluster.data_fs(node).stat().st_size + ROOM
    resource.prlimit(server, resource.RLIMIT_FSIZE, (limit, before[1]))
    primary = world.cluster.data_fs(world.primary())
    wait_until(lambda: primary.stat().st_size > limit, f"node {node} lacks room")
    time.sleep(seconds)
    assert world.cluster.data_fs(node).stat().st_size <= limit
    if world.cluster.pid_of(f"node-{node}") == server:
        resource.prlimit(server, resource.RLIMIT_FSIZE, before)


# Then

@then("all clients succeed again")
def all_succeed(world: World) -> None:
    world.wait_for_clients(time.monotonic())


@then("the writers succeed all the while")
def writers_went_on(world: World) -> None:
    world.wait_for_writers(time.monotonic())


@then(parsers.parse("nodes {nodes} come to hold the same"))
def hold_the_same(world: World, nodes: str) -> None:
    world.wait_until_equal(nodes.replace(",", "").replace(" and", "").split())


@then("nothing that was acknowledged is missing")
def nothing_missing(world: World) -> None:
    assert frozenset() == world.account.missing
    assert world.account.acknowledged > 0


@then("whatever was acknowledged is there or was exported")
def nothing_unaccounted(world: World) -> None:
    assert frozenset() == world.account.unaccounted
    assert world.account.acknowledged > 0


@then("nobody read what is not there")
def no_phantom(world: World) -> None:
    assert frozenset() == world.account.phantom


@then("there was one writable primary at most at any moment")
def never_two_primaries(world: World) -> None:
    assert [] == world.sampler.double_primaries()
    assert world.sampler.primaries()
