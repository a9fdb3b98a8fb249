"""Decide if the automation may act: not while it is paused, nor beside an operation."""

from __future__ import annotations

from indico_zodbrepl.automation.observed import Observed
from indico_zodbrepl.automation.timing import Timing, now
from indico_zodbrepl.automation.view import View
from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.etcd.keys import Leader
from indico_zodbrepl.host.remote.etcd_lock import patience


class Calm:
    """The permission to act, by the keys in etcd; any thread may ask."""

    def __init__(self, cluster: Cluster, view: View) -> None:
        self._view = view
        self._timing = Timing(cluster.lease)
        self._patience = patience(cluster)

    def operates(self) -> bool:
        """Return True if an operation runs."""
        known = self._view.known
        return (
            known.operation is not None
            and known.operation.record.identifier != ""
            and now() - known.operation_since < self._patience
        )

    def acts(self) -> bool:
        """Return True unless an operation runs or the automation is paused."""
        return self._view.known.paused is None and not self.operates()

    def leaves_alone(self, node: str) -> bool:
        """Return True while a node's server may stop without losing its role."""
        known = self._view.known
        stops = "" if known.operation is None else known.operation.record.stops
        return known.paused is not None or (stops == node and self.operates())

    def leader(self) -> Leader | None:
        """Return the leader; None while nobody leads, or nobody may act."""
        seen = self._observed()
        if seen is None or not seen.moved or seen.is_free(self._timing):
            return None
        return seen.leader

    def last_leader(self) -> str:
        """Return which node led last; empty while one leads, or nobody may act."""
        seen = self._observed()
        if seen is None or seen.leader is None or not seen.is_free(self._timing):
            return ""
        return seen.leader.node

    def _observed(self) -> Observed | None:
        """Return what is known of the leader key; None while the automation does not act on it."""
        return self._view.known.observed if self.acts() else None
