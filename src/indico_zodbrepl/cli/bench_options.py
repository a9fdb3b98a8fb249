"""Options of ``zodbrepl bench``: those of all suites, and those of one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from indico_zodbrepl.bench.suite import Option, Suite

MOST_ROUNDS = 100
LEAST_SECONDS, MOST_SECONDS = 0.05, 3600


class Listed(click.ParamType[Any]):
    """Values separated by commas."""

    name = "list"

    def __init__(self, kind: click.ParamType[Any]) -> None:
        self.kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        return tuple(
            self.kind.convert(each.strip(), param, ctx) for each in value.split(",") if each.strip()
        )


def common(suite: Suite) -> list[click.Option]:
    """Return the options of every suite; a value is None if not given."""
    return [
        click.Option(
            ["--storages"],
            type=Listed(click.STRING),
            metavar="A,B",
            default=(),
            help="Storages to measure." + _default(_storages(suite)),
        ),
        rounds(),
        click.Option(
            ["--seconds"],
            type=click.FloatRange(LEAST_SECONDS, MOST_SECONDS),
            metavar="S",
            help="Duration of a measurement that has none of its own."
            + _default(f"{suite.seconds:g}"),
        ),
        *everywhere(),
    ]


def rounds() -> click.Option:
    return click.Option(
        ["--rounds"],
        type=click.IntRange(1, MOST_ROUNDS),
        metavar="N",
        help="Repetitions of each measurement." + _default("3"),
    )


def everywhere() -> list[click.Option]:
    """Return the options that ``bench all`` has too."""
    return [
        click.Option(
            ["--quick"],
            is_flag=True,
            help="One short round: a test of function, not of speed.",
        ),
        data_directory(),
        as_json(),
    ]


def data_directory() -> click.Option:
    return click.Option(
        ["--data-directory"],
        metavar="DIR",
        type=click.Path(exists=True, file_okay=False, path_type=Path, resolve_path=True),
        help="Folder for the data of scratch clusters.  [default: the temporary folder]",
    )


def as_json() -> click.Option:
    return click.Option(
        ["--json", "as_json"], is_flag=True, help="Print the results as one JSON object."
    )


def own(suite: Suite) -> list[click.Option]:
    """Return a suite's own options; a value is None if not given."""
    return [_own(option) for option in suite.options]


def key(option: Option) -> str:
    """Return the name of an option's parameter."""
    return "own_" + option.name.replace("-", "_")


def _own(option: Option) -> click.Option:
    several = isinstance(option.default, tuple)
    kind = _kind(option)
    text = option.help[:1].upper() + option.help[1:].rstrip(".") + "."
    if option.choices and several:
        text += "  One or more of: " + ", ".join(option.choices) + "."
    elif option.default not in ("", ()):
        default = ", ".join(map(str, option.default)) if several else str(option.default)
        text += _default(default)
    return click.Option(
        [f"--{option.name}", key(option)],
        type=Listed(kind) if several else kind,
        help=text,
        multiple=several,
        default=None,
        metavar=(
            "A,B"
            if several
            else None
            if option.choices
            else {int: "N", float: "N", str: "TEXT"}[type(option.default)]
        ),
    )


def _kind(option: Option) -> click.ParamType[Any]:
    example = (option.default or ("",))[0] if isinstance(option.default, tuple) else option.default
    if option.choices:
        return click.Choice(option.choices)
    bounded = option.least is not None or option.most is not None
    if isinstance(example, int):
        return (
            click.IntRange(
                None if option.least is None else int(option.least),
                None if option.most is None else int(option.most),
            )
            if bounded
            else click.INT
        )
    if isinstance(example, float):
        return click.FloatRange(option.least, option.most) if bounded else click.FLOAT
    return click.STRING


def given(suite: Suite, values: dict[str, Any]) -> dict[str, Any]:
    """Remove a suite's own values from a command's parameters and return them."""
    found: dict[str, Any] = {}
    for option in suite.options:
        value = values.pop(key(option))
        if isinstance(option.default, tuple):
            value = tuple(each for part in value for each in part) or None
        found[option.name] = value
    return found


def _storages(suite: Suite) -> str:
    names: Sequence[str] = suite.storages
    if suite.name == "in-app":
        return "the cluster of the cluster file, as it runs"
    return ", ".join(names)


def _default(text: str) -> str:
    return f"  [default: {text}]"
