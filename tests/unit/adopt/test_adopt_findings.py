"""What an examination of an existing Indico means for its adoption."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from indico_zodbrepl.adopt import findings
from indico_zodbrepl.adopt.findings import Surroundings
from indico_zodbrepl.adopt.programs import Counts, Examined, Prepared, Rooms
from indico_zodbrepl.adopt.run import refuse_lost
from indico_zodbrepl.cluster import Cluster, load, rendering
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.operations.model import Verdict

HOME = Path(__file__).parents[3]
FINE = Examined(
    transactions=3,
    last="040d38baf1faee44",
    unfinished=0,
    counts=Counts(2, 2, 3, 3),
    damaged=(),
    release="1.2",
    why="2 of 2 local passwords salted",
    other_identities=0,
    archive=Path("/old/archive"),
    files=3,
    missing=0,
    named=(),
    settings=("ArchiveDir", "DBConnectionParams", "HtdocsDir"),
    rooms=Rooms(active=False, rooms=0, reservations=0, separate=None),
    scheduler=None,
    timezone="UTC",
)
AROUND = Surroundings(
    archive_problem="",
    held=(),
    stop="",
    free=10**9,
    needed=0,
    local_zone="UTC",
    same_zone=True,
    replaced=frozenset({"HtdocsDir"}),
)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """The example, with the indico.conf of an old site."""
    (tmp_path / "site.conf").touch()
    path = tmp_path / "cluster.conf"
    text = (HOME / "etc/cluster.conf").read_text()
    path.write_text(f"site-conf {tmp_path / 'site.conf'}\n{text}")
    return load(path, HOME)


def said(
    cluster: Cluster,
    verdict: Verdict,
    examined: Examined = FINE,
    around: Surroundings = AROUND,
    *,
    fresh: bool = True,
) -> list[str]:
    found = findings.findings(cluster, examined, around, fresh=fresh)
    return [each.text for each in found if each.verdict is verdict]


def test_a_site_of_1_2_can_be_adopted_as_it_is(cluster: Cluster) -> None:
    assert [] == said(cluster, Verdict.AGAINST) + said(cluster, Verdict.WARNING)
    fine = said(cluster, Verdict.FINE)
    assert "settings that apply: ArchiveDir" in fine
    assert "settings that are replaced: DBConnectionParams, HtdocsDir" in fine


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"release": "1.0"}, "only the original file leads back to 1.0"),
        ({"release": "1.1", "other_identities": 4}, "the migration removes 4 logins"),
        ({"unfinished": 17}, "the last 17 bytes are an incomplete transaction"),
        ({"damaged": ("conferences 7: POSKeyError: 0x12",)}, "conferences 7: POSKeyError"),
        ({"scheduler": "process 12 of host old"}, "process 12 of host old"),
        ({"missing": 1, "named": ("2012/talk.pdf",)}, "1 of 3 recorded files are missing"),
        ({"archive": None}, "site-conf sets no ArchiveDir"),
        (
            {"rooms": Rooms(active=True, rooms=0, reservations=0, separate="rooms:9676")},
            "a database of its own at rooms:9676",
        ),
    ],
)
def test_what_an_operator_should_know_is_a_warning(
    cluster: Cluster, changes: dict[str, object], expected: str
) -> None:
    examined = dataclasses.replace(FINE, **changes)  # type: ignore[arg-type]
    assert expected in "\n".join(said(cluster, Verdict.WARNING, examined))
    assert [] == said(cluster, Verdict.AGAINST, examined)


@pytest.mark.parametrize(
    ("examined", "around", "expected"),
    [
        ({"release": "older"}, {}, "written by a release before Indico 1.0"),
        ({"release": None}, {}, "no mark tells the release of Indico"),
        ({"blobs": 3, "missing_blobs": 2}, {}, "2 of 3 uploaded files in the database are not in"),
        ({}, {"held": ("a", "b")}, "node a, node b have data already"),
        ({}, {"stop": "bin/zodbrepl down"}, "the cluster is running"),
        ({}, {"needed": 2 * 10**9}, "the migration needs about 2,001 MB"),
        ({}, {"archive_problem": "this user cannot write to it"}, "cannot write to it"),
    ],
)
def test_an_obstacle_is_against_it(
    cluster: Cluster, examined: dict[str, object], around: dict[str, object], expected: str
) -> None:
    against = said(
        cluster,
        Verdict.AGAINST,
        dataclasses.replace(FINE, **examined),  # type: ignore[arg-type]
        dataclasses.replace(AROUND, **around),  # type: ignore[arg-type]
    )
    (found,) = against
    assert expected in found


def test_uploaded_files_in_the_database_move_along_but_not_to_neo(
    cluster: Cluster,
) -> None:
    examined = dataclasses.replace(FINE, blobs=3)
    text = "all 3 uploaded files in the database move along"
    assert text in said(cluster, Verdict.FINE, examined)
    neo = dataclasses.replace(cluster, backend="neo")
    assert "the backend neo keeps none" in "\n".join(said(neo, Verdict.AGAINST, examined))


def test_another_time_zone_is_a_warning_with_the_setting(cluster: Cluster) -> None:
    examined = dataclasses.replace(FINE, timezone="Europe/Zurich")
    around = dataclasses.replace(AROUND, same_zone=False)
    found = findings.findings(cluster, examined, around, fresh=True)
    (warning,) = [each for each in found if each.verdict is Verdict.WARNING]
    assert "set TZ=Europe/Zurich" in warning.evidence


def test_the_data_of_the_adoption_that_continues_are_no_obstacle(cluster: Cluster) -> None:
    around = dataclasses.replace(AROUND, held=("a",), stop="bin/zodbrepl down")
    assert [] == said(cluster, Verdict.AGAINST, around=around, fresh=False)


def test_the_replaced_settings_are_those_of_the_generated_file(cluster: Cluster) -> None:
    text = rendering.indico_conf(cluster, Installation(HOME), cluster.indico[0])
    replaced = findings.replaced_settings(text)
    assert {"DBStorageURL", "LogDir", "HtdocsDir", "XMLCacheDir"} <= replaced
    assert not {"ArchiveDir", "SmtpServer"} & replaced


def prepared(
    users: int = 2, conferences: int = 3, contributions: int = 3, damaged: tuple[str, ...] = ()
) -> Prepared:
    return Prepared(users, 2, conferences, contributions, damaged)


def test_lost_objects_are_refused() -> None:
    with pytest.raises(OperatorError, match="fewer objects") as raised:
        refuse_lost(FINE.counts, prepared(conferences=2))
    assert "conferences: 3 in the original, 2 now" in raised.value.detail


def test_objects_that_could_not_be_read_are_not_lost() -> None:
    refuse_lost(FINE.counts, prepared())
    refuse_lost(FINE.counts, prepared(conferences=2, damaged=("conferences 1: POSKeyError",)))
