"""Apply a series of patches to a source tree, without fuzz."""

from __future__ import annotations

from pathlib import Path

from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.setup.processes import run

SERIES = "series"


def read_series(folder: Path) -> list[Path]:
    """Return the patches listed in a folder's ``series`` file, in order; empty without the file."""
    series = folder / SERIES
    if not series.is_file():
        return []
    names = (line.split("#")[0].strip() for line in series.read_text().splitlines())
    return [folder / name for name in names if name]


def apply(patches: list[Path], tree: Path) -> None:
    """Apply patches to a tree, each after a dry run. Discard the tree if one fails.

    Raises:
        OperatorError: a patch is missing or does not apply exactly.
    """
    for patch in patches:
        if not patch.is_file():
            raise OperatorError(
                f"the patch {patch.name} is missing",
                f"{patch.parent / SERIES} lists it",
                "add the file, or remove it from the series",
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
                    f"recreate it on top of the patches before it in {SERIES}",
                ) from error
