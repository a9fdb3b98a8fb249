"""Who has one copy of the data is told how they come back from a backup."""

from __future__ import annotations

from engines import FOREIGN_KILLED, POSTGRESQL_PRIMARY_KILLED, SQLITE, SQLITE_DISK_AWAY, Situation
from situations import HOME

from indico_zodbrepl.operations.recommend import procedures as advise


def commands(situation: Situation) -> list[str]:
    return [
        command
        for procedure in advise(situation.cluster, situation.snapshot, HOME)
        for step in procedure.steps
        for command in step.commands
    ]


def test_data_that_can_not_be_opened_may_be_restored() -> None:
    titles = [
        each.title for each in advise(SQLITE_DISK_AWAY.cluster, SQLITE_DISK_AWAY.snapshot, HOME)
    ]
    assert "Only if the data of node a is lost or damaged: restore a backup" == titles[1]
    found = [each for each in commands(SQLITE_DISK_AWAY) if " restore " in each]
    assert ["restore a --dry-run", "restore a --reason TEXT"] == [
        each.partition("restore ")[1] + each.partition("restore ")[2] for each in found
    ]


def test_nobody_else_is_told_so() -> None:
    for situation in (SQLITE, POSTGRESQL_PRIMARY_KILLED, FOREIGN_KILLED):
        assert not [each for each in commands(situation) if " restore " in each]
