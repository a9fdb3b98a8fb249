"""The data of a node on another host, for comparisons and copies."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from indico_zodbrepl.cluster import Cluster, Node
from indico_zodbrepl.cluster.layout import Layout, data_fs
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host import tls
from indico_zodbrepl.host.datafs import FAILURES
from indico_zodbrepl.host.node_files import NodeFile, Origin, Range, ReplacedError
from indico_zodbrepl.host.remote import client, data_routes, streams
from indico_zodbrepl.host.remote.client import AgentClient
from indico_zodbrepl.host.remote.dialogues import Dialogue
from indico_zodbrepl.host.remote.streams import CutError, Receiver, RefusedError, StreamRequest

REPLACED = "409"


class NodeData:
    """The data of one node; ``remote_copy.Source`` and ``comparing.Upstream``.

    Attributes:
        label: the data file, as messages name it.
    """

    def __init__(self, cluster: Cluster, node: Node) -> None:
        self._cluster = cluster
        self._node = node
        self._agent = AgentClient(cluster, cluster.host(str(node.on)))
        self.label = f"{data_fs(node)} on host {node.on}"

    # Copies

    def origin(self) -> Origin:
        found: Origin = self._call("origin")
        return found

    def block_digests(self, identity: str, begin: int, end: int) -> Sequence[str]:
        found: list[str] = self._call("block_digests", identity=identity, begin=begin, end=end)
        return found

    def blobs(self) -> Sequence[NodeFile]:
        found: list[NodeFile] = self._call("blobs")
        return found

    @contextlib.contextmanager
    def stream(self, ranges: Sequence[Range]) -> Iterator[Receiver]:
        request = StreamRequest(self._cluster.name, client.actor(), list(ranges))
        path = f"/data/{self._node.name}/stream"
        with received(self._cluster, self._agent, path, request) as receiver:
            yield receiver

    # Comparisons

    @contextlib.contextmanager
    def dialogue(self) -> Iterator[Dialogue]:
        """Connect to the server of the data file.

        Raises OperatorError: HostAwayError at the start; later ``broken`` tells.
        """
        url = f"https://{self._agent.host.agent_address}/data/{self._node.name}/served"
        headers = {data_routes.CLUSTER: self._cluster.name, data_routes.ACTOR: client.actor()}
        with Dialogue(url, headers, self._context()) as dialogue:
            if dialogue.problem:
                raise self.broken(dialogue)
            yield dialogue

    def broken(self, dialogue: Dialogue) -> OperatorError:
        """Return why a connection ended."""
        return self._agent.away(dialogue.problem or "the connection ended")

    def _context(self) -> Any:
        return tls.client_context(Layout(self._cluster).tls)

    def _call(self, method: str, **arguments: object) -> Any:
        return self._agent.call(method, {"name": self._node.name, **arguments})


@contextlib.contextmanager
def received(
    cluster: Cluster, agent: AgentClient, path: str, request: StreamRequest
) -> Iterator[Receiver]:
    """Receive parts of files of an agent's host.

    Raises OperatorError: HostAwayError; ReplacedError, a file is another one by now; the agent
    refused the stream.
    """
    context = tls.client_context(Layout(cluster).tls)
    try:
        with streams.received(agent.host, context, path, request) as receiver:
            yield receiver
    except CutError as error:
        raise agent.away(str(error)) from error
    except RefusedError as error:
        if str(error).startswith(REPLACED):
            raise ReplacedError(FAILURES["copy"], str(error)) from error
        raise OperatorError(
            f"the agent of host {agent.host.name} refused a stream", str(error)
        ) from error
