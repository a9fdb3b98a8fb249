"""Convert a cluster's data, or a Data.fs, into a cluster of any backend.

The data plane's program copies and verifies.  This package checks the conditions, starts the
servers that the program needs, and reports progress.
"""

from __future__ import annotations

from indico_zodbrepl.convert.planning import Conversion, plan
from indico_zodbrepl.convert.run import Done, Progress, carry_out
from indico_zodbrepl.convert.sources import Source, source_of_cluster, source_of_file

__all__ = [
    "Conversion",
    "Done",
    "Progress",
    "Source",
    "carry_out",
    "plan",
    "source_of_cluster",
    "source_of_file",
]
