"""Find the patches for a version of Indico, and apply them to its source without fuzz."""

from __future__ import annotations

from pathlib import Path

from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.setup.material import Material
from indico_zodbrepl.setup.processes import run

SERIES = "series"

# SHA-256 of the source releases that there are patches for.
RELEASES = {"1.2.2": "b7155aadd1d53f41e9ddec2b76e227aa77331c41def9df02d053162c3f4f869c"}


def require_patches(version: str) -> None:
    """Raise OperatorError (exit 2) if there are no patches for a version of Indico."""
    if version not in RELEASES:
        raise OperatorError(
            f"Indico {version} is not supported",
            f"there are patches for {', '.join(RELEASES)}",
            "choose one of these",
            ExitCode.BAD_CONFIG,
        )


def patches_of(material: Material, version: str, more: Path | None) -> list[Path]:
    """Return the patches for a version of Indico, ours first.

    Args:
        more: a folder with a ``series`` of further patches.

    Raises:
        OperatorError: exit 2; there are none for this version, or the folder has no series.
    """
    require_patches(version)
    found = read_series(material.patches(version))
    if more is not None:
        if not (more / SERIES).is_file():
            raise OperatorError(
                "the folder of further patches has no series",
                f"{more / SERIES} is missing",
                "list the patches in it, one name in a line",
                ExitCode.BAD_CONFIG,
            )
        found += read_series(more)
    return found


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
