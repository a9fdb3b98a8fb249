"""Asks an Indico instance to make one test: POST BASE/zodbrepl/benchmarks/NAME."""

from __future__ import annotations

import dataclasses
import http.client
import json
import urllib.parse
from typing import Any

from ..cluster import Cluster
from ..cluster.commands import Commands
from ..cluster.model import IndicoInstance
from ..errors import ExitCode, OperatorError
from ..node import bench_secret

SECRET_HEADER = "X-Zodbrepl-Secret"  # noqa: S105  # a header's name
MARGIN_SECONDS = 120.0
MARGIN_TIMES = 10
"""How much longer than it measures a test may take: filling caches, putting back."""


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """The tests of one instance.

    Args:
        secret: what proves that it is the control plane that asks.
    """

    cluster: Cluster
    instance: IndicoInstance
    secret: str

    @classmethod
    def of(cls, cluster: Cluster, instance: IndicoInstance) -> Endpoint:
        """That of a cluster's instance.  Raises OperatorError (exit 8) without a secret."""
        return cls(cluster, instance, bench_secret.read(cluster))

    def measure(self, test: str, fields: dict[str, str], seconds: float) -> dict[str, Any]:
        """Have a test made; an exception in this thread meanwhile ends the test too.

        Args:
            fields: its parameters, by the names that Indico knows.
            seconds: how long it measures.

        Returns:
            Its result as ``docs/reference/benchmarks/in-app.md`` describes it.

        Raises:
            OperatorError: exit 6, the instance does not answer; exit 7, not in time; exit 8, it
                does not let us, or another test runs; exit 1, the test failed.
        """
        status, content = self._post(test, fields, MARGIN_SECONDS + MARGIN_TIMES * seconds)
        if status == http.client.OK:
            return content
        name = f"indico-{self.instance.name}"
        commands = Commands.here(self.cluster)
        error = str(content.get("error", f"HTTP status {status}"))
        if status == http.client.CONFLICT:
            raise OperatorError(
                f"{name} is being measured already",
                f"{content.get('test')}, begun by {content.get('who')} at {content.get('since')}",
                "try again when that has ended, a few minutes later at most", ExitCode.REFUSED)
        if status in (http.client.FORBIDDEN, http.client.NOT_FOUND):
            raise OperatorError(
                f"{name} does not let us measure", error,
                f"it may run with an older configuration: `{commands.zodbrepl('up')}` renews that",
                ExitCode.REFUSED)
        raise OperatorError(f"{test} could not be made", error,
                            f"`{commands.zodbrepl('status')}`")

    def _post(self, test: str, fields: dict[str, str],
              limit: float) -> tuple[int, dict[str, Any]]:
        url = urllib.parse.urlsplit(self.instance.base_url)
        connection = http.client.HTTPConnection(self.instance.host, self.instance.port,
                                                timeout=limit)
        name = f"indico-{self.instance.name}"
        try:
            connection.request(
                "POST", f"{url.path}/zodbrepl/benchmarks/{test}",
                urllib.parse.urlencode(fields),
                {"Content-Type": "application/x-www-form-urlencoded",
                 SECRET_HEADER: self.secret})
            response = connection.getresponse()
            return response.status, _object(response.read())
        except TimeoutError as error:
            raise OperatorError(f"{name} did not answer in time", f"{test}: {limit:.0f} seconds",
                                "", ExitCode.TIMED_OUT) from error
        except (OSError, http.client.HTTPException) as error:
            raise OperatorError(
                f"{name} does not answer", f"{self.instance.base_url}: {error!r}",
                f"`{Commands.here(self.cluster).zodbrepl('up')}`", ExitCode.NOT_RUNNING) from error
        finally:
            connection.close()


def _object(body: bytes) -> dict[str, Any]:
    """A JSON object; of an answer that is something else, such as a page, nothing."""
    try:
        content = json.loads(body)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}
