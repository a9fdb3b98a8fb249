"""The list of pages is made of what the site holds, always the same, in the mix that is told."""

from __future__ import annotations

import collections
import http.server
import json
import threading
from collections.abc import Iterator

import pytest

from indico_zodbrepl.bench.suites.http_trials import (
    COUNT,
    MIX,
    Holdings,
    counts,
    different,
    held_by,
    paths,
)
from indico_zodbrepl.cluster.programs import IndicoInstance
from indico_zodbrepl.errors import OperatorError

HELD = Holdings(
    ["1", "2"],
    [str(each) for each in range(30)],
    [(str(each), str(number)) for each in range(30) for number in range(5)],
)


def kind_of(path: str) -> str:
    """What a page is, told from its path."""
    parts = path.strip("/").split("/")
    if parts[0] == "event":
        return "conference" if len(parts) == 2 else parts[2]
    if parts[0] == "category":
        return "category" if len(parts) == 2 else parts[2]
    return "help" if parts[0] else "start page"


def test_the_list_has_the_mix_that_was_given() -> None:
    found = paths(HELD)
    assert len(found) == COUNT == 2500
    assert counts(COUNT) == collections.Counter(map(kind_of, found))
    assert {kind: COUNT * percent // 100 for kind, percent in MIX.items()} == counts(COUNT)
    assert 100 == sum(MIX.values())


@pytest.mark.parametrize("count", [1, 33, 100, 2501])
def test_a_list_of_any_length_is_full(count: int) -> None:
    assert count == len(paths(HELD, count)) == sum(counts(count).values())


def test_all_pages_of_a_kind_come_equally_often() -> None:
    found = collections.Counter(each for each in paths(HELD) if kind_of(each) == "timetable")
    assert set(found) == {f"/event/{each}/timetable/" for each in HELD.conferences}
    assert max(found.values()) - min(found.values()) <= 1


def test_the_list_is_always_the_same_and_mixed() -> None:
    found = paths(HELD)
    assert found == paths(HELD)
    assert found != paths(HELD, seed=1)
    assert len(set(map(kind_of, found[:100]))) > 5


def test_the_different_pages_are_those_of_the_list_once() -> None:
    found = different(HELD)
    assert len(found) == len(set(found))
    assert set(found) == set(paths(HELD))
    assert ["timetable", "conference"] == [kind_of(found[0]), kind_of(found[30])]


class Export(http.server.BaseHTTPRequestHandler):
    """Answers as an Indico's export does."""

    status = 200
    events: tuple[str, ...] = ("10", "9")

    def do_GET(self) -> None:
        results = [
            {"id": each, "categoryId": "2", "contributions": [{"id": "0"}, {"id": "1"}]}
            for each in self.events
        ]
        body = json.dumps({"results": results}).encode()
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def exporting() -> Iterator[tuple[type[Export], IndicoInstance]]:
    """A server that exports, and the instance that it seems to be."""
    handler = type("Handler", (Export,), {})
    server = http.server.HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield handler, instance(server.server_port)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def instance(port: int) -> IndicoInstance:
    return IndicoInstance("i1", "127.0.0.1", port)


def test_what_a_site_holds_is_asked_of_indico(
    exporting: tuple[type[Export], IndicoInstance],
) -> None:
    assert Holdings(["2"], ["9", "10"], [("10", "0"), ("10", "1"), ("9", "0"), ("9", "1")]) == (
        held_by(exporting[1])
    )


def test_an_indico_without_events_or_that_fails_is_reported(
    exporting: tuple[type[Export], IndicoInstance],
) -> None:
    handler, its_instance = exporting
    handler.events = ()
    with pytest.raises(OperatorError, match="holds no conference"):
        held_by(its_instance, patience=0)
    handler.status = 503
    with pytest.raises(OperatorError, match="HTTP status 503"):
        held_by(its_instance)


def test_an_indico_that_sees_what_was_loaded_a_moment_later_is_asked_again(
    exporting: tuple[type[Export], IndicoInstance],
) -> None:
    handler, its_instance = exporting
    handler.events = ()
    later = threading.Timer(0.3, lambda: setattr(handler, "events", ("7",)))
    later.start()
    assert ["7"] == held_by(its_instance).conferences
    later.join()


def test_an_indico_that_is_away_is_reported() -> None:
    with pytest.raises(OperatorError, match="does not tell"):
        held_by(instance(1))
