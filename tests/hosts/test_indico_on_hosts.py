"""Indico on two of three hosts, behind the load balancer of the example, as hosts are lost.

Users read and write all the time.  What was acknowledged to them is there in the end, once, and the
timed tasks are executed once.
"""

from __future__ import annotations

from typing import Any

import pytest
import requests
from balanced import INSTANCES, Balanced
from losses import bring_back, fail_over
from patience import wait_until
from three import later
from timed_tasks import TimedTasks
from users import Users

from indico_zodbrepl.demo.lab import Lab
from indico_zodbrepl.host import tunnel_control

pytestmark = pytest.mark.skipif(
    tunnel_control.find() is None, reason="haproxy is missing: apt-get install haproxy"
)

CATEGORY = "1"
"""The first one that the loader makes."""


@pytest.fixture(scope="module")
def site(shared_lab: Lab) -> Balanced:
    made = Balanced(shared_lab)
    made.start()
    amounts = ("--conferences", "5", "--contributions", "2", "--categories", "2")
    shared_lab["h3"].run(made.installation.bulkload, *amounts, environ=made.environment)
    return made


@pytest.fixture(scope="module")
def tasks(site: Balanced) -> TimedTasks:
    return TimedTasks(site)


def instance(site: Balanced, name: str) -> dict[str, Any]:
    """Return the status of an instance."""
    found: list[dict[str, Any]] = site.three.status("h3")["indico"]
    return next(each for each in found if each["name"] == name)


def test_the_loader_fills_the_database_from_a_host_without_an_instance(site: Balanced) -> None:
    loader, environ = site.installation.bulkload, site.environment
    assert "complete" in site.three.lab["h2"].run(loader, "verify", environ=environ).stdout


def test_a_session_uses_both_instances_and_sees_each_change_at_once(site: Balanced) -> None:
    user = site.logged_in()
    created = user.create_conference(CATEGORY, "First title")
    assert created.is_redirect
    event = created.headers["Location"].split("/event/")[1].split("/")[0]
    for title in ("Second title", "Third title"):
        before = [user.get(f"/event/{event}/").text for _ in INSTANCES]
        changed = user.call("event.main.changeTitle", conference=event, value=title)
        assert changed.json()["error"] is None
        after = [user.get(f"/event/{event}/").text for _ in INSTANCES]
        assert [False, False, True, True] == [title in page for page in (*before, *after)]
        assert set(INSTANCES) == set(site.served()[-2:])
    assert site.three.status("h3")["state"] == "healthy"


def test_hosts_need_no_common_folder_for_uploaded_files(site: Balanced) -> None:
    assert "archive-directory" not in site.three.zodbrepl("h3", "check").stdout
    assert "archive-directory" not in site.three.zodbrepl("h3", "status").stdout


def test_tasks_are_executed_once_although_two_hosts_run_a_scheduler(
    site: Balanced, tasks: TimedTasks
) -> None:
    states = [instance(site, name)["scheduler"]["state"] for name in INSTANCES]
    assert ["RUNNING", "RUNNING"] == states
    paths = [f"/once-{number}" for number in range(4)]
    tasks.enqueue("h3", paths)
    tasks.wait_for(paths)


def test_no_request_fails_during_a_switchover(site: Balanced) -> None:
    with Users(site, CATEGORY, "switchover-") as users:
        site.three.zodbrepl("h3", "switchover", "b")
        users.see_more()
    assert {requests.codes.ok} == set(users.pages)
    assert {} == users.refused
    users.account()


def test_another_host_takes_over_requests_and_tasks_when_a_host_is_lost(
    site: Balanced, tasks: TimedTasks
) -> None:
    three = site.three
    three.lead("b")
    tasks.move_to("h1")
    with Users(site, CATEGORY, "lost-") as users:
        tasks.enqueue("h2", ["/lost"], 3)
        three.lab["h1"].kill()
        users.see_more(5)
        tasks.wait_for(["/lost"])
        assert "h2" == tasks.status("h2")["hostname"]
        three.lab["h1"].start()
        three.agents(["h1"])
        three.zodbrepl("h1", "up")
        tasks.serve("h1")
        users.see_more()
    # Pages were asked for again at the other instance; what may have been saved was not sent twice.
    assert {requests.codes.ok} == set(users.pages)
    assert {requests.codes.bad_gateway} >= set(users.refused.values())
    users.account()


@pytest.mark.exhaustive
def test_an_isolated_primary_and_scheduler_do_nothing_that_others_do_again(
    site: Balanced, tasks: TimedTasks
) -> None:
    three = site.three
    three.lead("b")
    tasks.move_to("h2")
    with Users(site, CATEGORY, "isolated-") as users:
        tasks.enqueue("h2", ["/isolated"], 5)
        with users.replicated():
            three.lab.network.isolate("h2")
        fail_over(three, "h3")
        users.see_more()
        three.lab.network.heal()

        def is_at_the_new_primary() -> bool:
            return bool(instance(site, "two")["server_node"] == three.status("h3")["primary"])

        assert wait_until(is_at_the_new_primary, later())
        users.see_more()
        bring_back(three, "h2", "b")
        tasks.wait_for(["/isolated"])
    assert requests.codes.ok == users.pages[-1]
    users.account()


def test_the_site_is_writable_after_the_failover_of_a_killed_host(site: Balanced) -> None:
    former = site.three.primary("h3")
    with Users(site, CATEGORY, "killed-") as users:
        with users.replicated():
            site.three.lab[site.three.host_of(former)].kill()
        fail_over(site.three, "h3")
        users.see_more()
    users.account()
