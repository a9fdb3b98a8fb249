"""The steps of plans for a cluster that elects who leads, each with its texts.  Pure."""

from __future__ import annotations

from ..cluster.commands import Commands
from .steps import JsonValue, Step

ORDER_SECONDS = 60.0
START_SECONDS = 120.0
COPY_SECONDS = 7200.0
SERVE_SECONDS = 60.0
WHOLE_SECONDS = 300.0


class ElectingMoves:
    """Makes steps.

    Args:
        commands: for what a person would type in their place.
    """

    def __init__(self, commands: Commands) -> None:
        self._commands = commands
        self._status = commands.zodbrepl("status")

    def drop(self, node: str) -> Step:
        return Step("storage-drop", node, {},
                    f"Have the cluster forget {node} and what it held",
                    "the other storages hold everything; it empties itself and ends, if it runs",
                    "", "", ORDER_SECONDS, True)

    def come_back(self, node: str, *, empty: bool) -> Step:
        return Step("storage-return", node, {},
                    f"See {node} started again{', without data' if empty else ''}",
                    "supervisor starts it, or is told to; the cluster sees it", "",
                    self._commands.zodbrepl("node", "start", node), START_SECONDS, True)

    def take_in(self, node: str) -> Step:
        return Step("storage-add", node, {}, f"Take {node} in", "it has come and is pending", "",
                    "", ORDER_SECONDS, True)

    def spread(self, node: str) -> Step:
        return Step("storage-spread", node, {},
                    f"Spread the partitions over the storages that run, {node} among them",
                    "what is not copied yet counts on its old storages", "", "", ORDER_SECONDS,
                    True)

    def copy(self, node: str) -> Step:
        return Step("storage-copy", node, {}, f"See {node} copy what it lacks",
                    "every partition of it is up to date; Indico goes on meanwhile", "",
                    self._status, COPY_SECONDS, True)

    def serves(self, node: str) -> Step:
        return Step("electing-serves", node, {}, f"See the cluster serve without {node}",
                    "a master leads and answers, and a write can be carried out", "",
                    self._status, SERVE_SECONDS, False, may_fail=True)

    def whole(self, node: str, instances: tuple[str, ...]) -> Step:
        named: list[JsonValue] = [*instances]
        indico = f", and Indico writable ({', '.join(instances)})" if instances else ""
        return Step("electing-whole", node, {"instances": named},
                    f"See {node} take part and the cluster serve{indico}",
                    "the leading master is asked for its last transaction", "", self._status,
                    WHOLE_SECONDS, True)
