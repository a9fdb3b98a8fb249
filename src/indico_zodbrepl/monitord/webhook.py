"""Events posted as JSON to a URL."""

from __future__ import annotations

import http.client
import json
import urllib.parse
from collections.abc import Sequence
from pathlib import Path

from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.monitord.events import Event
from indico_zodbrepl.monitord.notifiers import DeliveryError
from indico_zodbrepl.monitord.secret import read_secret

SECONDS = 5.0
"""For the connection and for each step of the exchange."""
PROVEN_BY = "the webhook's secret"


class Webhook:
    """Posts ``{"cluster", "events": [...]}`` to a URL; any answer of 200 to 299 is a success.

    Redirects are not followed: the secret is for the URL that was configured.

    Args:
        cluster: name of the cluster.
        url: http or https; certificates are checked against the system's authorities.
        secret_file: holds the bearer token of each request; read each time.
        seconds: time limit of each step.
    """

    name = "webhook"

    def __init__(
        self, cluster: str, url: str, secret_file: Path | None, seconds: float = SECONDS
    ) -> None:
        self._cluster = cluster
        self._url = urllib.parse.urlsplit(url)
        self._secret_file = secret_file
        self._seconds = seconds

    def deliver(self, events: Sequence[Event]) -> None:
        """Post the events; see ``Recipient``."""
        headers = {"Content-Type": "application/json", "User-Agent": "indico_zodbrepl"}
        if self._secret_file is not None:
            try:
                secret = read_secret(self._secret_file, PROVEN_BY)
            except OperatorError as error:
                raise DeliveryError(error.detail) from error
            headers["Authorization"] = f"Bearer {secret}"
        body = json.dumps(
            {"cluster": self._cluster, "events": [event.to_json() for event in events]}
        ).encode()
        connection = self._connection()
        try:
            path = self._url.path or "/"
            connection.request(
                "POST", f"{path}?{self._url.query}" if self._url.query else path, body, headers
            )
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException) as error:
            raise DeliveryError(f"{self._url.hostname}: {error or type(error).__name__}") from error
        finally:
            connection.close()
        if not 200 <= status < 300:
            raise DeliveryError(f"{self._url.hostname} answered HTTP {status}")

    def _connection(self) -> http.client.HTTPConnection:
        kind = (
            http.client.HTTPSConnection
            if self._url.scheme == "https"
            else http.client.HTTPConnection
        )
        return kind(self._url.hostname or "", self._url.port, timeout=self._seconds)
