"""The report is one page that needs nothing else, beside it the figures as files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup, Tag
from report_runs import about, failed, kept, made, rounds, run

from indico_zodbrepl.bench import report, summary
from indico_zodbrepl.bench.report import page, sentences, tables, wording
from indico_zodbrepl.bench.results import FILE, Run
from indico_zodbrepl.errors import OperatorError

ARCHIVED = Path(__file__).parents[3] / "docs/benchmarks"
HOSTILE = '<script>alert("1")</script>\'"&$x_1$ -->'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Reports of a whole run, of a quick, interrupted and hostile one, and of a damaged file."""
    made_in = tmp_path_factory.mktemp("runs")
    kept(
        made_in / "whole",
        run(
            [*rounds("zeo", 100, 110), *rounds("zrs", 90, 99)],
            "raw",
            left_out={"neo": "no programs of NEO are there"},
        ),
    )
    kept(
        made_in / "hostile",
        run(
            [
                made(
                    HOSTILE, test=HOSTILE, parameters={HOSTILE: HOSTILE}, details={"unit": HOSTILE}
                ),
                failed(HOSTILE, 2, HOSTILE),
            ],
            f"../{HOSTILE}",
            planned=9,
            left_out={HOSTILE: HOSTILE},
            versions={HOSTILE: HOSTILE},
            configs={HOSTILE: HOSTILE},
        ),
        {"quick": True, HOSTILE: HOSTILE},
    )
    (made_in / "damaged").mkdir()
    (made_in / "damaged" / FILE).write_text('{"format": 2', "utf-8")
    report.make(made_in, made_in / "out")
    return made_in


@pytest.fixture
def soup(folder: Path) -> BeautifulSoup:
    return BeautifulSoup((folder / "out" / "index.html").read_text("utf-8"), "html.parser")


def one(soup: BeautifulSoup, selector: str) -> Tag:
    """The first element that a CSS selector finds."""
    found = soup.select_one(selector)
    assert found
    return found


def test_nothing_is_fetched_from_elsewhere(folder: Path, soup: BeautifulSoup) -> None:
    for tag in soup.find_all(True):
        for name, value in ((name, str(value)) for name, value in tag.attrs.items()):
            if name in ("src", "href", "xlink:href", "srcset", "data", "action", "style"):
                assert "//" not in value
                assert name == "style" or value.startswith("#")
    text = (folder / "out" / "index.html").read_text("utf-8")
    assert not re.search(r"@import|url\(\s*['\"]?(?!#)", text)
    assert not soup.find_all(["link", "script", "iframe", "object", "img"])


def test_ids_are_unique_and_links_lead_somewhere(soup: BeautifulSoup) -> None:
    ids = [tag["id"] for tag in soup.find_all(id=True)]
    assert len(ids) == len(set(ids))
    links = [
        value
        for tag in soup.find_all(True)
        for name, value in tag.attrs.items()
        if name in ("href", "xlink:href")
    ]
    assert {link[1:] for link in links} <= set(ids)


def test_each_figure_is_in_the_page_and_a_file(folder: Path, soup: BeautifulSoup) -> None:
    pictures = [path for path in (folder / "out").iterdir() if path.suffix == ".png"]
    assert len(soup.find_all("svg")) == len(pictures) > 3
    for path in pictures:
        assert path.read_bytes().startswith(b"\x89PNG")
        assert re.fullmatch(r"[a-z0-9-]+\.png", path.name)


def test_words_in_figures_are_text(soup: BeautifulSoup) -> None:
    """Not outlines of letters: readers search for them, and the page stays small."""
    words = {text.get_text() for text in one(soup, "#raw").select("svg text")}
    assert {"ZEO", "ZRS, 1 secondary"} <= words


@pytest.mark.exhaustive
def test_the_report_of_the_archived_run_stays_below_two_megabytes(tmp_path: Path) -> None:
    assert report.make(ARCHIVED, tmp_path).stat().st_size < 2_000_000


def test_only_results_of_the_archived_run_are_kept() -> None:
    kinds = {path.suffix for path in ARCHIVED.rglob("*") if path.is_file()}
    assert {".json", ".jsonl", ".md"} == kinds


def test_hostile_names_are_text(soup: BeautifulSoup) -> None:
    text = soup.get_text()
    assert text.count(HOSTILE) > 8
    assert soup.find(string=re.compile("Failed measurements"))


def test_a_damaged_file_says_its_problem(soup: BeautifulSoup) -> None:
    assert "it is damaged" in one(soup, "#damaged").get_text()


def test_a_quick_run_is_marked_at_the_top_of_the_page(soup: BeautifulSoup) -> None:
    assert sentences.QUICK in one(soup, "header .alarm").get_text()


def test_what_was_left_out_is_named_with_its_reason(soup: BeautifulSoup) -> None:
    assert "no programs of NEO are there" in one(soup, "#raw").get_text()


def test_tables_have_the_numbers_of_the_summary(soup: BeautifulSoup) -> None:
    found = about([*rounds("zeo", 100, 110), *rounds("zrs", 90, 99)], suite="raw")
    shown = [cell.find(string=True) for cell in one(soup, "#raw table").select("td.n")]
    expected = []
    for row in found.rows:
        ratio = summary.ratios(found.run, row, "zeo", "rate")
        cells = [wording.number(row.metrics[each.name].median) for each in found.metrics]
        cells.insert(1, wording.ratio(ratio.median) if ratio else "control")
        expected += [*cells, str(row.rounds)]
    assert expected == shown
    (table,) = tables.of(found)
    assert ["zeo", "zrs"] == [row.storage for row in found.rows]
    assert ["100", "100"] == [parameters[0] for _, parameters, _ in table.rows]


def test_the_same_results_give_the_same_report(tmp_path: Path) -> None:
    kept(tmp_path / "run", run(rounds("zeo", 1, 2), "raw"))
    first, second = (report.make(tmp_path / "run", tmp_path / name).parent for name in "ab")
    assert {path.name: path.read_bytes() for path in first.iterdir()} == {
        path.name: path.read_bytes() for path in second.iterdir()
    }


def test_without_a_folder_of_its_own_it_is_beside_the_results(tmp_path: Path) -> None:
    kept(tmp_path, run([]))
    assert tmp_path / "report" / "index.html" == report.make(tmp_path)


def test_each_figure_that_is_done_is_reported(tmp_path: Path) -> None:
    kept(tmp_path, run([*rounds("zeo", 100, 110), *rounds("zrs", 90, 99)], "raw"))
    told: list[tuple[int, int]] = []
    folder = report.make(tmp_path, told=lambda done, planned: told.append((done, planned))).parent
    figures = len(list(folder.glob("*.png")))
    assert figures > 1
    assert [(number, figures) for number in range(1, figures + 1)] == told


def test_a_folder_without_results_is_the_callers_error(tmp_path: Path) -> None:
    with pytest.raises(OperatorError):
        report.make(tmp_path)


def test_a_report_that_can_not_be_written_says_so(tmp_path: Path) -> None:
    kept(tmp_path, run([]))
    (tmp_path / "file").write_text("")
    with pytest.raises(OperatorError, match="can't be written"):
        report.make(tmp_path, tmp_path / "file")


@pytest.mark.parametrize(
    "changed",
    [
        {"settings": []},
        {"versions": {"a": 1}},
        {"left_out": "x"},
        {"began": -1},
        {"began": 1e300},
        {"planned": "x"},
        {"settings": {"storages": ["a"]}},
        {"configs": {"a": None}},
    ],
)
def test_a_run_that_no_program_of_ours_wrote_is_a_problem(changed: dict[str, Any]) -> None:
    assert "can't be used" in page.section(run([made()], **changed), "x").problem


@pytest.mark.parametrize(
    "changed",
    [
        {"metrics": {"rate": "x"}},
        {"metrics": {"rate": float("nan")}},
        {"metrics": {"rate": 1e300}},
        {"metrics": {"rate": 10**400}},
        {"metrics": []},
        {"cpu": {"a": None}},
        {"parameters": {"a": []}},
        {"storage": 1},
        {"error": None},
        {"details": 1},
        {"number": "x"},
    ],
)
def test_a_measurement_that_no_program_of_ours_wrote_is_a_problem(changed: dict[str, Any]) -> None:
    assert (
        "can't be used" in page.section(run([made(**changed)], planned=1, settings={}), "x").problem
    )


def test_a_run_on_another_machine_than_the_first_says_on_which() -> None:
    machines = [
        {"cpu": cpu, "cores": 2, "system": "Linux", "load_before": [load]}
        for cpu, load in (("one", 0.1), ("one", 0.2), ("other", 0.1))
    ]
    sections = [
        page.section(run([], environment=machine), f"run{number}")
        for number, machine in enumerate(machines)
    ]
    shown = BeautifulSoup(
        page.html(sections, {each.anchor: [] for each in sections}), "html.parser"
    )
    assert [0, 0, 1] == [len(shown.select(f"#{each.anchor} .another")) for each in sections]
    assert "other, 2 cores" in one(shown, "#run2 .another").text


def test_environments_of_any_form_are_shown() -> None:
    for environment in (
        {},
        {"disk": "x", "cores": "y", "load_before": 3},
        {"cores": 10**400, "load_before": [10**400]},
    ):
        assert page.html([page.section(run([], environment=environment), "x")], {"x": []})


def test_a_run_with_a_problem_has_nothing_else() -> None:
    assert page.section(Run(Path("x"), "raw", problem="away"), "x").subject is None
