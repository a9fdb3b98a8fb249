"""Conversion of a cluster's data, or of a Data.fs, into another cluster of whatever backend.

The data plane's program copies and verifies; what is here decides whether it may, starts the
servers that it needs, and tells of it.
"""

from __future__ import annotations

from .carrying_out import carry_out
from .planning import Conversion, plan
from .program import Done, Progress
from .sides import Source, source_of_cluster, source_of_file

__all__ = ["Conversion", "Done", "Progress", "Source", "carry_out", "plan", "source_of_cluster",
           "source_of_file"]
