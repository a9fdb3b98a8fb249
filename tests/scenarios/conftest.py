"""The sentences of the features, and what they do."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from pytest_bdd import given, parsers, then, when
from pytest_bdd.parser import Feature, Scenario, Step

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "harness"), str(HERE.parent / "integration")]

from clients import Reader  # noqa: E402
from clusters import CHAIN, PAIR, Roles, wait_until  # noqa: E402
from hosts import PRIVATE  # noqa: E402
from ledger import seen_in  # noqa: E402
from link import Link  # noqa: E402
from report import Row, keep, table  # noqa: E402
from visitors import INSTANCES, prepared  # noqa: E402
from world import World  # noqa: E402

from indico_zodbrepl.backends import backend_of  # noqa: E402
from indico_zodbrepl.errors import ExitCode, OperatorError  # noqa: E402
from indico_zodbrepl.probing.answers import Hold  # noqa: E402

ROWS = pytest.StashKey[list[Row]]()
NAMES = pytest.StashKey[tuple[str, str]]()
STEPS = pytest.StashKey[list[tuple[str, float]]]()
WORLD = pytest.StashKey[World]()
HUNG_AFTER = 5  # seconds; longer than a busy machine makes a process wait
NEO: Roles = {
    "m": ("master", None),
    "s1": ("storage", None),
    "s2": ("storage", None),
    "w": ("admin", None),
}
ROOM = 20_000  # bytes that still fit on a disk that is almost full


# What all scenarios have.


def pytest_configure(config: pytest.Config) -> None:
    config.stash[ROWS] = []


def pytest_bdd_before_scenario(
    request: pytest.FixtureRequest, feature: Feature, scenario: Scenario
) -> None:
    request.node.stash[NAMES] = feature.name or "", scenario.name


def pytest_bdd_before_step_call(request: pytest.FixtureRequest, step: Step) -> None:
    request.node.stash.setdefault(STEPS, []).append((f"{step.keyword} {step.name}", monotonic()))
    world = request.node.stash.get(WORLD, None)
    if world is not None and step.type == "when":
        world.disturbed = world.disturbed or monotonic()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report: pytest.TestReport = yield  # type: ignore[assignment]
    world = item.stash.get(WORLD, None)
    if call.when == "call" and world is not None:
        account = world.account if report.passed else world.__dict__.get("account")
        item.config.stash[ROWS].append(
            Row(
                world.feature,
                world.name,
                account,
                world.times,
                report.outcome,
                durations(item.stash[STEPS]),
                item.stash[STEPS][0][1],
            )
        )
    return report  # type: ignore[return-value]


def durations(begun: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """Seconds that each step took, from the moments at which they began."""
    ends = [moment for _, moment in begun[1:]] + [monotonic()]
    return [(name, end - moment) for (name, moment), end in zip(begun, ends, strict=True)]


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
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
    world.make_cluster(PAIR).start()


@given("a primary a, a relay b and a secondary c")
def chain(world: World) -> None:
    world.make_cluster(CHAIN).start()


@given("a primary a and a secondary b on the other side of a link", target_fixture="link")
def pair_with_a_link(world: World) -> Link:
    cluster = world.make_cluster(PAIR)
    link = cluster.link("b", "a")
    cluster.start()
    return link


@given(
    "a primary a that has to have a follower, and a secondary b on the other side of a link",
    target_fixture="link",
)
def pair_that_stays_together(world: World) -> Link:
    cluster = world.make_cluster(PAIR, engine=("min-followers 1",))
    link = cluster.link("b", "a")
    cluster.start()
    return link


@given(parsers.parse("{writers:d} writers and {readers:d} reader at work"))
@given(parsers.parse("{writers:d} writer and {readers:d} reader at work"))
def clients_at_work(world: World, writers: int, readers: int) -> None:
    world.start_clients(writers, readers)


@given("a primary a and secondaries b and c")
def star(world: World) -> None:
    world.make_cluster({**PAIR, "c": ("secondary", "a")}).start()


@given("PostgreSQL with a primary a and a secondary b")
def postgresql(world: World) -> None:
    engine(world, PAIR, backend="relstorage-postgresql")


@given("NEO with a master m, storages s1 and s2 of one copy each, and the NEO monitor w")
def neo(world: World) -> None:
    engine(
        world,
        NEO,
        backend="neo",
        engine=("<neo>", "  replicas 1", "  partitions 4", f"  hung-after {HUNG_AFTER}", "</neo>"),
    )


def engine(world: World, nodes: Roles, **backend: Any) -> None:
    """The cluster, up; the scenario is skipped where a program of the engine is missing."""
    made = world.make_cluster(nodes, **backend)
    try:
        backend_of(made.cluster).check(made.cluster, made.installation)
    except OperatorError as error:
        if error.exit_code is not ExitCode.NOT_INSTALLED:
            raise
        pytest.skip(f"{error.notice}; {error.hint}")
    made.up()


@given("a reader with a cache on disk", target_fixture="cached")
def cached_reader(world: World) -> Reader:
    """Its cache is kept when it ends, as a client's that names one."""
    began = monotonic()
    reader = world.start_cached_reader("cached-reader")
    reader.wait_for_successes(1, began)
    return reader


@given(
    "Indico on a primary a and a secondary b on the other side of a link, with users at work",
    target_fixture="link",
)
def indico_with_a_link(world: World) -> Link:
    cluster = world.make_cluster(PAIR, INSTANCES)
    link = cluster.link("b", "a")
    cluster.up()
    world.welcome(prepared(cluster))
    return link


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


@when("the link is cut")
def cut(link: Link) -> None:
    link.cut()


@when("the link is mended")
def mend(link: Link) -> None:
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


@when(parsers.parse("the disk of node {node} disappears and its server is killed"))
def lose_disk(world: World, node: str) -> None:
    world.cluster.lose_disk(node)
    world.cluster.signal(node, signal.SIGKILL)


@when(parsers.parse("the disk of node {node} is back and supervisor starts its server"))
@when(parsers.parse("the host of node {node} comes back by itself"))
def bring_back(world: World, node: str) -> None:
    world.cluster.bring_back(node)


@when(parsers.parse("the server of node {node} dies for good"))
def die(world: World, node: str) -> None:
    world.cluster.die(node)


@when(parsers.parse("the server of node {node} freezes"))
def freeze(world: World, node: str) -> None:
    world.cluster.freeze(node)


@when(parsers.parse("storage {node} hangs"))
def hang(world: World, node: str) -> None:
    world.hung = world.cluster.pid_of(f"node-{node}")
    freeze(world, node)


@when(parsers.parse("node {node} sends nothing more and each writer commits {count:d} times more"))
def stall_senders(world: World, node: str, count: int) -> None:
    world.cluster.stall_senders(node)
    world.wait_for_writers(monotonic(), count)


@when(parsers.parse("the host of node {node} is lost"))
def lose_host(world: World, node: str) -> None:
    world.cluster.die(node)
    world.cluster.lose_disk(node)


@when(parsers.parse("the host of node {node} is lost and the link is cut"))
def lose_host_and_link(world: World, link: Link, node: str) -> None:
    lose_host(world, node)
    link.cut()


@when(parsers.parse("the link stalls and each writer commits {count:d} times more"))
def stall(world: World, link: Link, count: int) -> None:
    link.stall()
    world.wait_for_writers(monotonic(), count)


@when("the link stalls while users save")
def stall_under_users(world: World, link: Link) -> None:
    assert world.visitors
    link.stall()
    world.visitors.wait_for_conferences(monotonic())


@when("the reader with the cache has seen that and is killed")
def kill_cached_reader(world: World, cached: Reader) -> None:
    written = monotonic()
    cached.wait_for_successes(2, written)
    cached.kill()
    world.readers.remove(cached)


@when("the reader with the cache starts again")
def start_cached_reader(world: World) -> None:
    world.start_cached_reader("cached-reader")


@when(parsers.parse("the operator fails over to {node}"))
def fail_over(world: World, node: str) -> None:
    world.run("failover", node, "--reason", world.name)
    world.settled = monotonic()


@when(parsers.parse("the operator switches over to {node}"))
def switch_over(world: World, node: str) -> None:
    world.run("switchover", node)


@when(parsers.parse("a failover to {node} is killed at its point of no return"))
def kill_failover(world: World, node: str) -> None:
    command = world.cluster.command("failover", node, "--reason", world.name)
    try:
        wait_until(
            lambda: world.cluster.has_begun("promote") or command.poll() is not None,
            "the promotion has begun",
        )
    finally:
        command.kill()
        output, _ = command.communicate()
    assert command.returncode == -signal.SIGKILL, output


@when("the operator resumes it")
def resume(world: World) -> None:
    world.run("resume")
    world.settled = monotonic()


@when(parsers.parse("the operator lets node {node} rejoin"))
def rejoin(world: World, node: str) -> None:
    world.run("rejoin", node)


@when(parsers.parse("the operator lets node {node} follow {upstream}"))
def follow(world: World, node: str, upstream: str) -> None:
    world.run(
        "node",
        "follow",
        node,
        "--upstream",
        upstream,
        "--epoch",
        str(world.cluster.state(upstream)["epoch"]),
    )


@when("the cluster is down, and has gone through an unguarded failover from a to b and back")
def merge_silently(world: World) -> None:
    """As one would with zc.zrs and two configuration files; no record of epochs exists yet."""
    world.wait_until_equal(["a", "b"])
    world.cluster.down()
    world.cluster.merge_silently("a", "b", world.writers[0].name)


# Then


@then(parsers.parse("the data files of {one} and {other} end with the same transaction"))
def same_last(world: World, one: str, other: str) -> None:
    """Which is all that zc.zrs and its monitor compare."""
    assert world.cluster.last_in_file(one) == world.cluster.last_in_file(other)


@then(parsers.parse("the cluster does not come up, as node {node} refuses to start"))
def up_refuses(world: World, node: str) -> None:
    done = world.cluster.cli("up")
    assert done.returncode != 0, done.stdout
    refuses_to_start(world, node)


@then(parsers.parse("node {node} refuses to start"))
def refuses_to_start(world: World, node: str) -> None:
    """A server that was killed is EXITED, too, until supervisor starts it again."""
    log = world.cluster.layout.program_log(f"node-{node}")
    wait_until(
        lambda: (
            world.cluster.program(node) == "EXITED"
            and bool(re.search(rf"NOTICE: node {node} (refuses|can't)", log.read_text()))
        ),
        f"node {node} has refused",
    )


@then(parsers.parse("status tells that node {node} has diverged"))
def told_diverged(world: World, node: str) -> None:
    wait_until(
        lambda: "diverged" in world.cluster.cli("status").stdout, f"status tells of node {node}"
    )


@when(parsers.parse("the operator clones the primary to node {node}"))
def clone(world: World, node: str) -> None:
    world.run("clone", node, "--reason", "an empty disk")


@then(parsers.parse("the journal tells after which transaction everything is out of reach"))
def told_where_the_loss_begins(world: World) -> None:
    assert world.declared_losses()


@then("the journal tells that transactions were lost")
def journal_tells(world: World) -> None:
    [entry] = [
        each
        for each in json.loads(world.run("journal", "--json"))
        if each["operation"] == "failover"
    ]
    assert entry["plan"]["loss"], entry


@then(parsers.parse("what only node {node} had was exported"))
def exported_private(world: World, node: str) -> None:
    assert (world.writers[0].name, PRIVATE) in world.exported(), node


@then("transactions are missing that the reader with the cache had seen")
def something_missing(world: World, cached: Reader) -> None:
    """Otherwise the scenario would prove nothing."""
    assert seen_in(cached.sights()) & world.account.missing


@then("nothing is missing but what the journal tells")
def only_what_is_told(world: World) -> None:
    """And those are really missing: otherwise the scenario would prove nothing."""
    assert world.account.told
    assert world.account.told == world.account.missing


@then("transactions are missing")
def missing(world: World) -> None:
    """Otherwise the scenario would prove nothing."""
    assert world.account.missing


@then(parsers.parse("the NEO monitor kills storage {node} and supervisor starts it again"))
def killed_by_the_neo_monitor(world: World, node: str) -> None:
    wait_until(lambda: not Path(f"/proc/{world.hung}").exists(), f"{node} was killed")
    wait_until(
        lambda: (
            world.cluster.program(node) == "RUNNING"
            and world.cluster.pid_of(f"node-{node}") != world.hung
        ),
        f"{node} runs again",
    )


@then("status comes to say that all is well")
def healthy(world: World) -> None:
    wait_until(lambda: world.cluster.cli("status").returncode == 0, "all is well")


@then(parsers.parse("node {node} comes to refuse writes, and the reader goes on"))
def refuses_writes(world: World, node: str) -> None:
    def held() -> bool:
        answer = world.sampler.ask(world.cluster.cluster.node(node))
        return bool(answer and answer.replication and answer.replication.held is Hold.FOLLOWERS)

    wait_until(held, f"node {node} refuses writes")
    since = monotonic()
    world.wait_for_readers(since)
    for writer in world.writers:
        later = [each for each in writer.attempts() if each.began >= since]
        assert later
        assert not any(each.acknowledged for each in later)


@then("the reader succeeds again")
def readers_succeed(world: World) -> None:
    world.wait_for_readers(monotonic())


@then("all clients succeed again")
def all_succeed(world: World) -> None:
    world.wait_for_clients(monotonic())


@then("the writers succeed all the while")
def writers_went_on(world: World) -> None:
    world.wait_for_writers(monotonic())


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


@then("whatever was acknowledged is there or is listed by its title")
def listed_by_title(world: World) -> None:
    """In what an operator reads, for conferences; contributions are listed with their event."""
    nothing_unaccounted(world)
    listed = "".join(
        path.read_text() for path in world.cluster.layout.var.glob("lost-tails/*/tail.json")
    )
    conferences = {title for title, _ in world.account.missing if title.startswith("form")}
    assert conferences
    assert set() == {title for title in conferences if title not in listed}


@then("users were told either that it is saved or that it is not")
def told_plainly(world: World) -> None:
    assert world.visitors
    assert [] == world.visitors.unexpected()


@then("nobody read what is not there")
def no_phantom(world: World) -> None:
    assert frozenset() == world.account.phantom


@then("there was one writable primary at most at any moment")
def never_two_primaries(world: World) -> None:
    assert [] == world.sampler.double_primaries()
    assert world.sampler.primaries()
