"""The overview: the situation, the next safe step, what runs, the picture, the last hour."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import engines
import five
import logins
import pytest
import situations
import states
from flask.testing import FlaskClient
from situations import PRIMARY_KILLED, SECONDARY_KILLED, program, server

from indico_zodbrepl.admin.app import create_app
from indico_zodbrepl.admin.overview_model import Overviews
from indico_zodbrepl.admin.pages.overview import TAKEN
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.cluster.programs import Watch
from indico_zodbrepl.host.disks import Disk
from indico_zodbrepl.monitor.snapshot import Snapshot
from indico_zodbrepl.monitor.watcher import STALE_AFTER, TimestampedSnapshot, Watcher
from indico_zodbrepl.monitord.recorded import Reader

Serve = Callable[[Cluster, Callable[[], Snapshot]], FlaskClient]


def words(page: str) -> str:
    return " ".join(re.sub("<[^>]*>", " ", re.sub("</?time[^>]*>", "", page)).split())


def part(page: str, identifier: str) -> str:
    """The element of a page that is refreshed under that id; elements of its kind are not nested
    in it."""
    found = re.search(rf'<(section|div) id="{identifier}".*?</\1>', page, re.DOTALL)
    assert found is not None, identifier
    return found.group()


class Given(Watcher):
    """Has the snapshot that it was given last, of any age."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(lambda: snapshot)
        self._numbers = itertools.count(1)
        self.give(snapshot)

    def give(self, snapshot: Snapshot, age: float = 0.1) -> None:
        self.sighting = TimestampedSnapshot(snapshot, age, next(self._numbers))

    def latest(self, patience: float = 0.0) -> TimestampedSnapshot:  # noqa: ARG002 - it is there at once
        return self.sighting


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return dataclasses.replace(situations.cluster(), var_directory=tmp_path)


def client_for(cluster: Cluster, watcher: Watcher) -> FlaskClient:
    logins.give_accounts(cluster)
    client = create_app(cluster, watcher, situations.HOME).test_client()
    client.environ_base["HTTP_HOST"] = "127.0.0.1:8100"
    return logins.log_in(client)


def overview(page_of: Serve, cluster: Cluster, **situation: Any) -> str:
    return page_of(cluster, lambda: situations.snapshot(cluster, **situation)).get("/").text


@pytest.mark.parametrize(
    ("situation", "told"),
    [
        (situations.HEALTHY, "b has every transaction of a."),
        (states.LAGGING, "b is 98.0 s behind (127 transactions)."),
        (SECONDARY_KILLED, "The lag of b is unknown."),
        (PRIMARY_KILLED, "The lag of b is unknown."),
    ],
)
def test_below_the_sentence_is_how_far_the_others_are_behind(
    page_of: Serve, cluster: Cluster, situation: dict[str, Any], told: str
) -> None:
    assert told in words(part(overview(page_of, cluster, **situation), "situation"))


def test_a_clock_that_is_behind_does_not_hide_missing_transactions(
    page_of: Serve, cluster: Cluster
) -> None:
    late = {**states.LAGGING, "taken_at": situations.TID_TIME - 60}
    shown = words(part(overview(page_of, cluster, **late), "situation"))
    assert "b is 0.0 s behind (127 transactions)." in shown


def test_a_follower_without_lag_has_none_and_an_unknown_lag_is_unknown(tmp_path: Path) -> None:
    of = five.cluster(tmp_path)
    seen = five.snapshot(of, c=five.late(of, "c", 12), d=five.FROZEN)
    page = client_for(of, Given(seen)).get("/").text
    cells = [words(each) for each in re.findall(r'data-label="Lag">(.*?)</td>', page, re.DOTALL)]
    assert [
        "\N{EN DASH} not a follower",
        "none",
        "72.0 s 36 transactions",
        "unknown",
        "none",
    ] == cells
    drawn = re.findall(r'<text class="lag[^>]*>([^<]*)<', page)
    assert {"72.0 s", "broken"} == set(drawn)


def test_process_numbers_are_on_the_page_of_their_node_alone(tmp_path: Path) -> None:
    of = five.cluster(tmp_path)
    client = client_for(of, Given(five.snapshot(of, d=five.FROZEN)))
    page = client.get("/").text
    assert "program node-d is RUNNING (uptime 0:01:00)" in page
    assert "pid 100" not in page
    assert "pid 100" in client.get("/node/a").text


def test_of_several_the_furthest_behind_is_told_first(tmp_path: Path) -> None:
    of = five.cluster(tmp_path)
    seen = five.snapshot(of, b=five.late(of, "b", 12), c=five.cut_off(of, "c"), d=five.FROZEN)
    text = words(part(client_for(of, Given(seen)).get("/").text, "situation"))
    assert (
        "e has every transaction of a. c is 150.0 s behind (270 transactions). b is 72.0 s "
        "behind (36 transactions). The lag of d is unknown."
    ) in text


@pytest.mark.parametrize("situation", engines.SITUATIONS.values(), ids=engines.SITUATIONS)
def test_where_nobody_follows_nobody_is_behind(
    client_of: Callable[[engines.Situation], FlaskClient], situation: engines.Situation
) -> None:
    text = words(part(client_of(situation).get("/").text, "situation"))
    follows = any(node.assigned_role.follows for node in situation.snapshot.nodes)
    assert follows == ("every transaction of" in text or "behind" in text or "The lag of" in text)


@pytest.mark.parametrize(
    ("situation", "step"),
    [
        (PRIMARY_KILLED, "/operations/restart?node=a"),
        (states.DIVERGED, "/operations/rejoin?node=a"),
        (states.FENCED, "/operations/rejoin?node=a"),
        (SECONDARY_KILLED, "/operations/restart?node=b"),
    ],
)
def test_the_next_safe_step_is_a_link_to_its_plan(
    page_of: Serve, cluster: Cluster, situation: dict[str, Any], step: str
) -> None:
    shown = part(overview(page_of, cluster, **situation), "situation")
    assert f'<a id="next-step" class="button" href="{step}">' in shown
    assert "The next safe step." in shown


def test_a_step_that_may_lose_data_is_suggested_in_red_and_never_called_safe(
    page_of: Serve, cluster: Cluster
) -> None:
    given_up = {**PRIMARY_KILLED, "programs": {"node-a": program("node-a", "FATAL")}}
    client = page_of(cluster, lambda: situations.snapshot(cluster, **given_up))
    shown = part(client.get("/").text, "situation")
    failover = "/operations/failover?node=b"
    assert f'<a id="next-step" class="button risky" href="{failover}">' in shown
    assert '<strong class="risk">Suggested; may lose data.</strong>' in shown
    listed = client.get("/operations").text
    assert re.search(r'<li class="urgent risky">\s*<p class="level">', listed)
    assert "Suggested; may lose data." in words(listed)
    node = client.get("/node/b").text
    assert 'class="button risky"' in node
    for page in (shown, listed, node):
        assert "safe step" not in page


def test_a_failover_that_is_not_suggested_may_lose_data_too(
    page_of: Serve, cluster: Cluster
) -> None:
    client = page_of(cluster, lambda: situations.snapshot(cluster, **PRIMARY_KILLED))
    listed = words(client.get("/operations").text)
    assert "May lose data. Fail over to b" in listed
    assert "The next safe step. Start node a" in listed


def test_a_fenced_primary_is_neither_marked_as_in_order_nor_called_writable(
    page_of: Serve, cluster: Cluster
) -> None:
    page = overview(page_of, cluster, **states.FENCED)
    row = re.search(r'id="link-a".*?</tr>', part(page, "nodes"), re.DOTALL)
    assert row is not None
    assert "writes refused" in row.group()
    assert "writable" not in row.group()
    assert 'class="mark bad"' in row.group()


@pytest.mark.parametrize("name", states.STATES)
def test_the_tables_mark_each_member_as_the_drawing_does_and_one_legend_explains_both(
    page_of: Serve, cluster: Cluster, name: str
) -> None:
    page = overview(page_of, cluster, **states.STATES[name])
    drawn = re.findall(r'<g class="box box-(\w+)', page.partition('class="topology tall"')[0])
    marks = re.findall(r'class="mark (\w+)"', part(page, "nodes") + part(page, "indico"))
    words = {"good": "good", "warning": "odd", "critical": "bad", "unreachable": "bad"}
    assert 4 == len(drawn)
    assert sorted(words[each] for each in drawn) == sorted(marks)
    assert 1 == len(re.findall(r'class="[^"]*\blegend\b', page))


def test_when_all_is_well_there_is_no_next_step(page_of: Serve, cluster: Cluster) -> None:
    assert "next-step" not in overview(page_of, cluster)


def test_a_viewer_is_told_why_he_may_not_begin_it(
    make_client: Any, viewer: Callable[[FlaskClient], FlaskClient]
) -> None:
    client = make_client(**PRIMARY_KILLED)
    assert "Only operators can begin operations" not in client.get("/").text
    assert "Only operators can begin operations" in part(viewer(client).get("/").text, "situation")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("operation running", "Failover to b is running Step 3 of 9"),
        (
            "operation failed",
            "Failover to b is open: it has not ended, and no process executes it Step 3 of 9",
        ),
    ],
)
@pytest.mark.parametrize("path", ["/", "/node/a"])
def test_an_open_operation_is_a_banner_with_its_step(
    cluster: Cluster, name: str, told: str, path: str
) -> None:
    with states.operation_in(cluster, name) as seen:
        banner = part(client_for(cluster, Given(seen)).get(path).text, "banner")
    assert told in words(banner)
    assert 'href="/operations/current"' in banner
    assert "by alice (admin page)" in words(banner)


def test_a_failed_step_is_reported_with_its_error(cluster: Cluster) -> None:
    with states.operation_in(cluster, "operation failed") as seen:
        page = client_for(cluster, Given(seen)).get("/").text
    assert "node a&#39;s host does not answer" in part(page, "banner")
    assert "Resume the failover to b" in part(page, "situation")


def test_an_operation_whose_file_is_damaged_is_a_banner_too(cluster: Cluster) -> None:
    with states.operation_in(cluster, "operation failed") as seen:
        pass
    path = Layout(cluster).operation(seen.operations[0].identifier)
    path.write_text("{")
    broken = dataclasses.replace(
        seen, operations=(dataclasses.replace(seen.operations[0], damaged=True),)
    )
    page = client_for(cluster, Given(broken)).get("/").text
    assert "its file is unusable" in part(page, "banner").replace("can't", "can&#39;t")
    assert "Move the file of" in page


def test_without_an_operation_there_is_no_banner(page_of: Serve, cluster: Cluster) -> None:
    assert "" == words(part(overview(page_of, cluster), "banner"))


def test_what_is_old_says_so_and_does_not_look_healthy(cluster: Cluster) -> None:
    given = Given(situations.snapshot(cluster))
    client = client_for(cluster, given)
    given.give(given.sighting.snapshot, STALE_AFTER + 7)
    page = client.get("/").text
    assert "the last snapshot of the cluster is 12 s old" in part(page, "stale")
    assert "Unknown; at 11:07:07 UTC it was healthy" in words(part(page, "situation"))
    assert 'class="situation unknown"' in page


def test_the_picture_is_reported_in_words_too(page_of: Serve, cluster: Cluster) -> None:
    told = overview(page_of, cluster, **PRIMARY_KILLED)
    told = words(
        told[told.index('<ul class="spoken">') : told.index("</ul>", told.index("spoken"))]
    )
    for sentence in (
        "Node a: unreachable, assigned primary; nothing listens on 127.0.0.1:8111.",
        "Indico instance one: up, read-only.",
        "b follows a; link: broken.",
        "Indico instance two is connected to b; link: degraded.",
    ):
        assert sentence in told


def test_what_servers_say_is_escaped_in_the_picture_and_cut_to_its_box(
    page_of: Serve, cluster: Cluster
) -> None:
    wrong = dataclasses.replace(situations.REFUSED, detail="<b>" + "x" * 300)
    page = overview(page_of, cluster, servers={"a": wrong})
    assert "<b>" not in page
    drawn = part(page, "topology")
    assert all(len(text) < 60 for text in re.findall(r"<text[^>]*>([^<]*)</text>", drawn))


def test_a_follower_s_row_has_its_last_hour(tmp_path: Path) -> None:
    of = five.cluster(tmp_path)
    five.keep_an_hour(of)
    page = client_for(of, Given(five.snapshot(of))).get("/").text
    assert 4 == page.count('<svg class="spark"')
    text = words(part(page, "nodes"))
    assert "at most 40 s in the last hour, at 10:27 UTC" in text
    assert "none in the last hour; shaded: unknown" in text


def test_a_node_s_page_has_its_last_hour_and_what_can_be_done(tmp_path: Path) -> None:
    of = five.cluster(tmp_path)
    five.keep_an_hour(of)
    page = client_for(of, Given(five.snapshot(of))).get("/node/e").text
    text = words(part(page, "lag"))
    assert "At most 6.0 s in the last hour" in text
    assert "10 s 5.0 s 0 s 10:07 10:22 10:37 10:52 11:07" in text
    offers = part(page, "offers")
    assert 'href="/operations/switchover?node=e"' in offers
    assert "Rejoin node e Not possible now: Node e follows b already." in words(offers)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(5, ""), (60, "The monitor process has recorded no lag since 11:07:10 UTC.")],
)
def test_a_watching_program_that_keeps_nothing_any_more_is_reported(
    tmp_path: Path, seconds: int, told: str
) -> None:
    of = five.cluster(tmp_path)
    five.keep_an_hour(of)
    page = client_for(of, Given(five.snapshot(of, five.NOW + seconds))).get("/").text
    assert bool(told) == ("recorded no lag since" in page)
    assert told in words(page)


def test_without_a_watching_program_that_is_why_there_is_no_hour(
    page_of: Serve, cluster: Cluster
) -> None:
    assert "has no &lt;watch&gt; section" in overview(page_of, cluster)
    watched = dataclasses.replace(cluster, watch=Watch("127.0.0.1", 8109))
    assert "No lag was recorded in the last hour." in overview(page_of, watched)


def test_a_tab_that_has_the_page_gets_only_the_time(cluster: Cluster) -> None:
    given = Given(situations.snapshot(cluster))
    client = client_for(cluster, given)
    tag = client.get("/").headers["ETag"]
    given.give(dataclasses.replace(given.sighting.snapshot, taken_at=five.NOW + 1, duration=0.5))
    answer = client.get("/", headers={"If-None-Match": tag})
    assert (304, b"", "2026-11-20T11:07:08Z") == (
        answer.status_code,
        answer.data,
        answer.headers[TAKEN],
    )


@pytest.mark.parametrize("path", ["/", "/node/b"])
def test_whatever_changes_is_sent(cluster: Cluster, path: str) -> None:
    healthy = situations.snapshot(cluster)
    given = Given(healthy)
    client = client_for(cluster, given)
    tag = client.get(path).headers["ETag"]
    behind = situations.snapshot(cluster, servers={"b": server("b", situations.TID - 1)})
    for name, snapshot, age in (
        ("a lag", states.snapshot(cluster, "lagging"), 0.1),
        ("its age", healthy, 30.0),
        ("a server", behind, 0.1),
    ):
        given.give(snapshot, age)
        assert 200 == client.get(path, headers={"If-None-Match": tag}).status_code, name
    given.give(healthy)
    again = client.get(path)
    assert 304 == client.get(path, headers={"If-None-Match": again.headers["ETag"]}).status_code


def test_a_log_that_grows_is_sent(cluster: Cluster) -> None:
    client = client_for(cluster, Given(situations.snapshot(cluster)))
    tag = client.get("/node/b").headers["ETag"]
    log = Layout(cluster).program_log("node-b")
    log.parent.mkdir(parents=True)
    log.write_text("it speaks\n")
    answer = client.get("/node/b", headers={"If-None-Match": tag})
    assert "it speaks" in answer.text


def test_another_person_is_sent_his_own_page(
    cluster: Cluster, viewer: Callable[[FlaskClient], FlaskClient]
) -> None:
    client = client_for(cluster, Given(situations.snapshot(cluster)))
    tag = client.get("/").headers["ETag"]
    assert 200 == viewer(client).get("/", headers={"If-None-Match": tag}).status_code


def test_what_is_the_same_for_all_requests_of_a_snapshot_is_made_once(
    cluster: Cluster, tmp_path: Path
) -> None:
    given = Given(situations.snapshot(cluster))
    overviews = Overviews(cluster, situations.HOME, Reader(tmp_path / "none"))
    first = overviews.of(given.sighting)
    given.give(given.sighting.snapshot, 3.0)
    second = overviews.of(given.sighting)
    assert first.wide is second.wide
    assert (0.1, 3.0) == (first.sighting.age, second.sighting.age)
    rendered = [
        overview.once("part", caller)
        for overview, caller in ((first, lambda: "made"), (second, lambda: "made again"))
    ]
    assert ["made", "made"] == rendered


def test_ten_tabs_cost_the_monitor_one_look(cluster: Cluster) -> None:
    looks = itertools.count()

    def look() -> Snapshot:
        next(looks)
        return situations.snapshot(cluster)

    watcher = Watcher(look, interval=3600)
    watcher.start()
    client = client_for(cluster, watcher)
    for _ in range(10):
        assert 200 == client.get("/").status_code
    watcher.end()
    assert 1 == next(looks)


def test_a_full_disk_is_shown_with_the_way_out(page_of: Serve, cluster: Cluster) -> None:
    disks = {"a": Disk(0, 20 << 30, 1), "b": Disk(15 << 30, 20 << 30, 2)}
    found = situations.snapshot(cluster, disks=disks, control_disk=disks["b"])
    client = page_of(cluster, lambda: found)
    page = client.get("/").text
    assert "Free space: a 0 bytes of 20.0 GiB ; b, var 15.0 GiB of 20.0 GiB ." in words(page)
    assert "the disk of node a is full" in words(part(page, "problems")).lower()
    assert "disk full" in part(page, "topology")
    assert "switch over to b" in words(page)
    node = words(client.get("/node/a").text)
    assert "Free space 0 bytes of 20.0 GiB" in node
