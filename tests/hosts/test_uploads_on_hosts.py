"""Files that users upload to an Indico on two of three hosts, as a host is lost."""

from __future__ import annotations

import os

import pytest
import requests
from balanced import INSTANCES, Balanced
from losses import bring_back, fail_over
from patience import wait_until
from three import Three, later
from uploads import Uploads, digest

from indico_zodbrepl.demo.lab import Lab
from indico_zodbrepl.errors import ExitCode
from indico_zodbrepl.host import tunnel_control

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.skipif(
        tunnel_control.find() is None, reason="haproxy is missing: apt-get install haproxy"
    ),
]

CATEGORY = "1"
SIZE = 8 << 20


@pytest.fixture(scope="module")
def site(shared_lab: Lab) -> Balanced:
    made = Balanced(shared_lab)
    made.start()
    amounts = ("--conferences", "2", "--contributions", "1", "--categories", "1")
    made.three.lab["h1"].run(made.installation.bulkload, *amounts, environ=made.environment)
    return made


@pytest.fixture(scope="module")
def event(site: Balanced) -> str:
    created = site.logged_in().create_conference(CATEGORY, "With slides")
    return created.headers["Location"].split("/event/")[1].split("/")[0]


def exported(three: Three, host: str) -> set[str]:
    """Return the digests of the files that recovery exports of a host hold."""
    exports = three.lab[host].folder / "var/lost-tails"
    return {digest(path.read_bytes()) for path in exports.rglob("*.blob")}


def test_an_uploaded_file_is_on_every_host_and_outlives_the_one_it_came_to(
    site: Balanced, event: str
) -> None:
    three, user = site.three, site.logged_in()
    assert three.host_of(three.primary("h3")) == "h1"
    content = os.urandom(SIZE)

    def is_uploaded_at_the_first() -> str:
        """Return where the file is if the first instance took it."""
        path = user.upload(event, "talk.pdf", content)
        return path if site.served()[-1] == "one" else ""

    path = wait_until(is_uploaded_at_the_first, later())
    before = [user.get(path).content for _ in INSTANCES]
    assert {digest(content)} == set(map(digest, before))
    assert set(INSTANCES) == set(site.served()[-2:])
    assert three.status("h3")["state"] == "healthy"

    three.lab["h1"].kill()
    fail_over(three, "h3")

    def is_there() -> bool:
        found = user.get(path)
        return found.status_code == requests.codes.ok and digest(found.content) == digest(content)

    assert wait_until(is_there, later())
    assert site.served()[-1] == "two"

    three.lab["h1"].start()
    three.agents(["h1"])
    three.zodbrepl("h1", "up", code=ExitCode.REFUSED)
    assert bring_back(three, "h1", "a") == set()
    answers = [user.get(path) for _ in range(4)]
    assert {digest(content)} == {digest(each.content) for each in answers}
    assert set(INSTANCES) == set(site.served()[-4:])


def test_no_upload_fails_or_is_lost_during_a_switchover(site: Balanced, event: str) -> None:
    with Uploads(site, event) as uploads:
        site.three.zodbrepl("h3", "switchover", "a")
        uploads.see_more()
    assert uploads.refused == []
    assert uploads.missing() == {}


def test_each_acknowledged_upload_is_there_or_exported_when_the_host_of_the_primary_is_lost(
    site: Balanced, event: str
) -> None:
    three = site.three
    assert three.primary("h3") == "a"
    with Uploads(site, event) as uploads:
        uploads.see_more()
        three.lab["h1"].kill()
        fail_over(three, "h3")
        uploads.see_more()
        three.lab["h1"].start()
        three.agents(["h1"])
        three.zodbrepl("h1", "up", code=ExitCode.REFUSED)
        bring_back(three, "h1", "a")
        uploads.see_more()
    lost = uploads.missing()
    print(f"{len(uploads.acknowledged)} acknowledged, {uploads.refused} refused, {lost} exported")
    assert set(lost.values()) <= exported(three, "h1")
