"""Parts of the host interface in a cluster of several hosts, such as its backups and its logs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.host.remote import codec


class SeveralHostsPart(ABC):
    """A part of ``interface.Host`` whose methods each run on one host; subclasses say on which.

    Args:
        call: calls a method of the host interface on a host.
    """

    prefix: ClassVar[str]
    """What the name of each call begins with, before the name of its method."""

    def __init__(
        self, cluster: Cluster, call: Callable[[str, str, Mapping[str, object]], Any]
    ) -> None:
        self._cluster = cluster
        self._call = call

    def __getattr__(self, method: str) -> Callable[..., Any]:
        signature = codec.signatures().get(self.prefix + method)
        if signature is None:
            raise AttributeError(method)

        def call(*values: object, **named: object) -> Any:
            arguments = signature.bind(values, named)
            return self._ask(self._host_of(method, arguments), method, arguments)

        return call

    @abstractmethod
    def _host_of(self, method: str, arguments: Mapping[str, object]) -> str:
        """Return the host on which a method runs."""

    def _ask(self, host: str, method: str, arguments: Mapping[str, object]) -> Any:
        return self._call(host, self.prefix + method, arguments)
