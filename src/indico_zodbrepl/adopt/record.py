"""The record of an adoption: what is done of it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from indico_zodbrepl.adopt.programs import Counts
from indico_zodbrepl.cluster import Cluster, formats
from indico_zodbrepl.cluster.files import write_atomically
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError


@dataclasses.dataclass(frozen=True)
class Adoption:
    """One adoption.

    Attributes:
        source: the original Data.fs.
        digest: its SHA-256.
        release: of the Indico that wrote it.
        counts: its objects.
        began: seconds since 1970.
        migrated, copied, ended: when that was complete; None until then.
    """

    source: str
    digest: str
    release: str
    counts: Counts
    began: float
    migrated: float | None = None
    copied: float | None = None
    ended: float | None = None

    @property
    def is_older(self) -> bool:
        """Return True if the copy was migrated, so that no way leads back to its release."""
        return self.release != "1.2"


def read(cluster: Cluster) -> Adoption | None:
    """Return the adoption into a cluster; None without one.

    Raises OperatorError (exit 8) if it cannot be read.
    """
    path = Layout(cluster).adoption
    try:
        values = json.loads(path.read_text("utf-8"))
        formats.ADOPTION.refuse_newer(path, values)
        values.pop("format", None)
        return Adoption(**{**values, "counts": Counts(**values["counts"])})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise OperatorError(
            "the record of the adoption cannot be read",
            f"{path}: {error}",
            f"move the file away and look at the data folders; without it a new adoption needs "
            f"empty ones: mv {path} {path}.damaged",
            ExitCode.REFUSED,
        ) from error


def write(cluster: Cluster, adoption: Adoption) -> None:
    """Replace the record; it is on disk when this returns.  Raises OperatorError."""
    path: Path = Layout(cluster).adoption
    try:
        write_atomically(path, json.dumps(dataclasses.asdict(adoption), indent=2) + "\n")
    except OSError as error:
        raise OperatorError(
            "the record of the adoption cannot be written", f"{path}: {error.strerror}"
        ) from error
