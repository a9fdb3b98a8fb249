"""Groups of commands that import a command's module only when the command runs."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import click

FORMER_NAMES = {
    "seed": "clone",
    "salvage": "recover",
    "lineage": "history",
    "node hold": "node pause-writes",
    "node release": "node resume-writes",
}
"""Former name of a command: its name.  Both are accepted; help texts list the name only."""


BUILTINS = frozenset({"list", "import"})
"""Names of commands whose functions end in an underscore: builtins and keywords."""


class Lazy(NamedTuple):
    """A command that is not imported yet.

    Attributes:
        module: the module of this package that defines it, as a function of the same name.
        help: the first sentence of its help text.
    """

    module: str
    help: str


class LazyGroup(click.Group):
    """A group that lists its commands from a table.

    Args:
        lazy: the commands by name, in the order of the help text.
    """

    def __init__(self, *arguments: Any, lazy: Mapping[str, Lazy], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.lazy = lazy

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(self.lazy)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        group = f"{self.name} " if ctx.parent else ""
        name = FORMER_NAMES.get(group + args[0], group + args[0]).removeprefix(group)
        return super().resolve_command(ctx, [name, *args[1:]])

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.lazy:
            return None
        module = importlib.import_module(f"{__package__}.{self.lazy[cmd_name].module}")
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(module, f"{name}_" if name in BUILTINS else name)
        return command

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.help) for name, command in self.lazy.items()])
