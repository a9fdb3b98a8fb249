"""What a run is asked for: what was given, else the suite's defaults."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from runs import cluster_in

from indico_zodbrepl.bench import suite as suites
from indico_zodbrepl.bench.suites.in_app import SUITE, TESTS
from indico_zodbrepl.cli import bench_options, main
from indico_zodbrepl.errors import OperatorError


def given(*arguments: str) -> dict[str, object]:
    command = click.Command("x", params=[*bench_options.common(SUITE), *bench_options.own(SUITE)])
    values = command.make_context("x", list(arguments)).params
    return bench_options.given(SUITE, values) | values


@pytest.mark.parametrize(
    "arguments", [["--test", TESTS[0], "--test", TESTS[1]], ["--test", f"{TESTS[0]},{TESTS[1]}"]]
)
def test_several_values_are_given_with_commas_or_again(arguments: list[str]) -> None:
    assert given(*arguments)["test"] == TESTS[:2]


def test_what_is_not_given_is_none() -> None:
    found = given()
    assert (None, None, None, ()) == (
        found["test"],
        found["repetitions"],
        found["rounds"],
        found["storages"],
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["--test", "testNothing"],
        ["--repetitions", "0"],
        ["--repetitions", "10001"],
        ["--modify", "all"],
        ["--rounds", "0"],
        ["--seconds", "0"],
        ["--data-directory", "/gone"],
    ],
)
def test_what_is_out_of_bounds_is_refused(arguments: list[str]) -> None:
    with pytest.raises(click.UsageError):
        given(*arguments)


def test_storages_are_those_named_or_the_suites_own(tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path)

    def names(*asked: str, quick: bool = False) -> list[str]:
        return [each.name for each in suites.storages_of(SUITE, asked, cluster, quick=quick)]

    assert names() == list(SUITE.storages)
    assert names(quick=True) == list(SUITE.quick_storages)
    assert names("zrs", "zeo", "zrs") == ["zrs", "zeo"]
    with pytest.raises(OperatorError, match="no storage 'oracle'"):
        names("oracle")


@pytest.mark.parametrize("name", suites.known())
def test_each_suite_has_a_command_with_its_options(name: str) -> None:
    suite = suites.suite(name)
    done = CliRunner().invoke(main, ["bench", name, "--help"])
    assert done.exit_code == 0, done.output
    assert name == suite.name
    for option in ("storages", *(each.name for each in suite.options)):
        assert f"--{option}" in done.output


def test_an_unknown_suite_is_no_command() -> None:
    assert CliRunner().invoke(main, ["bench", "everything"]).exit_code == 2
