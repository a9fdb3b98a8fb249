"""The state of the cluster now: probes, and one snapshot made of their answers."""

from indico_zodbrepl.monitor.collect import take_snapshot
from indico_zodbrepl.monitor.snapshot import Snapshot, State

__all__ = ["Snapshot", "State", "take_snapshot"]
