"""What a cluster remembers of a conversion into it: whose data it holds, and whether all of them.

While they are not all there, and proven, no Indico starts on them.
"""

from __future__ import annotations

import dataclasses
import json
import time

from ..cluster import Cluster
from ..cluster.files import write_atomically
from ..cluster.layout import Layout
from ..errors import ExitCode, OperatorError


@dataclasses.dataclass(frozen=True)
class Conversion:
    """One conversion into a cluster.

    Attributes:
        source: the other cluster's file, or the Data.fs.
        command: what makes it go on.
        began, ended: seconds since 1970; ``ended`` is None until it is complete and verified.
    """

    source: str
    command: str
    began: float
    ended: float | None = None


def begin(cluster: Cluster, source: str, command: str) -> Conversion:
    """Note that a conversion has begun, or goes on.  Raises OperatorError."""
    begun = Conversion(source, command, time.time())
    _write(cluster, begun)
    return begun


def end(cluster: Cluster, begun: Conversion) -> None:
    """Note that a conversion is complete and verified.  Raises OperatorError."""
    _write(cluster, dataclasses.replace(begun, ended=time.time()))


def restore(cluster: Cluster, before: Conversion | None) -> None:
    """Note that nothing has become of a conversion that had begun.  Raises OperatorError."""
    if before is None:
        Layout(cluster).conversion.unlink(missing_ok=True)
    else:
        _write(cluster, before)


def read(cluster: Cluster) -> Conversion | None:
    """The last conversion into a cluster.  Raises OperatorError (exit 8): it can't be read."""
    path = Layout(cluster).conversion
    try:
        return Conversion(**json.loads(path.read_text("utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise OperatorError("it can't be told whether a conversion into this cluster has ended",
                            f"{path}: {error}", "give the command `convert` again",
                            ExitCode.REFUSED) from error


def refuse_unfinished(cluster: Cluster) -> None:
    """Raise OperatorError (exit 8) while a conversion into a cluster has not ended."""
    found = read(cluster)
    if found is not None and found.ended is None:
        raise OperatorError(
            "a conversion into this cluster has not ended, so its data are not complete",
            f"from {found.source}, begun "
            f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(found.began))} UTC",
            f"{found.command} (it goes on where it was)", ExitCode.REFUSED)


def _write(cluster: Cluster, conversion: Conversion) -> None:
    path = Layout(cluster).conversion
    try:
        write_atomically(path, json.dumps(dataclasses.asdict(conversion), indent=2) + "\n")
    except OSError as error:
        raise OperatorError("it can't be noted what becomes of the conversion",
                            f"{path}: {error.strerror}") from error
