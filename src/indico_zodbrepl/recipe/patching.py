"""Applying a series of patches to a source tree: each whole and with no fuzz, or none."""

from __future__ import annotations

from pathlib import Path

from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.recipe.processes import run

SERIES = "series"


def read_series(folder: Path) -> list[Path]:
    """The patches that a folder's ``series`` names, in order; none when there is no such file."""
    series = folder / SERIES
    if not series.is_file():
        return []
    names = (line.split("#")[0].strip() for line in series.read_text().splitlines())
    return [folder / name for name in names if name]


def apply(patches: list[Path], tree: Path) -> None:
    """Apply patches to a tree, each after a dry run. The tree is to be thrown away when one fails.

    Raises:
        OperatorError: a patch is missing or does not apply exactly.
    """
    for patch in patches:
        if not patch.is_file():
            raise OperatorError(
                f"there is no patch {patch.name}",
                f"{patch.parent / SERIES} names it",
                "add the file, or take it out of the series",
            )
        for mode in (["--dry-run"], []):
            try:
                run(
                    [
                        "patch",
                        "--directory",
                        tree,
                        "-p1",
                        "--batch",
                        "--forward",
                        "--fuzz=0",
                        "--reject-file=-",
                        "--no-backup-if-mismatch",
                        "--input",
                        patch,
                        *mode,
                    ],
                    f"apply {patch.name}",
                )
            except OperatorError as error:
                raise OperatorError(
                    f"the patch {patch.name} does not apply",
                    error.detail,
                    f"make it anew against what the patches before it in {SERIES} leave",
                ) from error
