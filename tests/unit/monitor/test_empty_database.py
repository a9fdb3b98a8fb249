"""A database without an Indico, and an Indico that can't begin: nobody calls that healthy."""

from __future__ import annotations

import pytest
from situations import HOME, cluster, instance, snapshot

from indico_zodbrepl.monitor.node_status import Mark
from indico_zodbrepl.monitor.snapshot import Snapshot, State
from indico_zodbrepl.operations.procedures import Procedure
from indico_zodbrepl.operations.recommend import procedures as advise
from indico_zodbrepl.probing.reading import read_indico_answer

FAILURE = "ImportError: No module named conf"


def with_instances(*names: str, **changes: object) -> Snapshot:
    return snapshot(indico={name: instance(name, **changes) for name in names})


def procedures(found: Snapshot) -> tuple[Procedure, ...]:
    return advise(cluster(), found, HOME)


def test_an_empty_database_is_reported_with_what_to_do() -> None:
    found = with_instances("one", "two", built=False, set_up=False, failure="NotSetUp: empty")
    assert State.DOWN is found.state
    assert "The database holds no Indico, so each page is answered 503; primary a is writable." == (
        found.sentence
    )
    assert {Mark.DIFFERS} == {each.mark for each in found.indico}
    assert [
        "Indico instance one finds no Indico in the database",
        "Indico instance two finds no Indico in the database",
    ] == [alert.text for alert in found.warnings]
    (procedure,) = procedures(found)
    assert "Put an Indico into the empty database" == procedure.title
    begin = (
        "INDICO_CONF=var/etc/one/indico.conf bin/indico-python -m "
        "indico_zodbrepl.dataplane.indico.firstrun --admin-file admin.json"
    )
    assert [begin, "bin/zodbrepl status"] == [
        command for step in procedure.steps for command in step.commands
    ]
    assert "disk is mounted (var/node/a, var/node/b)" in procedure.steps[0].text


def test_an_instance_that_can_not_begin_is_reported_with_its_reason() -> None:
    found = with_instances("one", built=False, failure=FAILURE)
    assert State.DEGRADED is found.state
    (alert,) = found.warnings
    assert ("Indico instance one can't begin to serve pages", True) == (
        alert.text,
        FAILURE in alert.detail,
    )
    assert ["Bring Indico instance one back"] == [each.title for each in procedures(found)]
    assert State.DOWN is with_instances("one", "two", built=False, failure=FAILURE).state


def test_one_that_is_just_starting_is_no_reason_for_alarm() -> None:
    found = with_instances("one", "two", built=False)
    assert (State.HEALTHY, ()) == (found.state, found.warnings)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (b"", (True, True, None)),
        (b', "built": true, "set_up": true, "failure": null', (True, True, None)),
        (
            b', "built": false, "set_up": false, "failure": "NotSetUp: empty"',
            (False, False, "NotSetUp: empty"),
        ),
    ],
)
def test_the_health_check_of_an_older_instance_says_nothing_of_it(
    said: bytes, expected: tuple[bool, bool, str | None]
) -> None:
    answer = read_indico_answer(
        b'{"instance": "one", "pid": 1, "server": null, "connected": true, "read_only": false, '
        b'"last_tid": null' + said + b"}"
    )
    assert expected == (answer.built, answer.set_up, answer.failure)
