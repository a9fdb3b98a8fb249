"""Jobs that begin nothing, for pages that begin commands."""

from __future__ import annotations

from collections.abc import Sequence

from flask.testing import FlaskClient

from indico_zodbrepl.admin.jobs import Job


class FakeJobs:
    """Remembers what was begun, and begins nothing."""

    def __init__(self) -> None:
        self.begun: list[tuple[list[str], str]] = []
        self.known: list[Job] = []

    def run(self, arguments: Sequence[str], actor: str) -> Job:
        self.begun.append((list(arguments), actor))
        return job(arguments[0])

    def recent(self) -> list[Job]:
        return self.known

    def running(self, kind: str) -> Job | None:
        return next(
            (each for each in self.known if each.ended is None and f"-{kind}-" in each.identifier),
            None,
        )


def begins_nothing(client: FlaskClient) -> FlaskClient:
    """Give a client's page jobs that begin nothing; return the client."""
    client.application.extensions["zodbrepl"].__dict__["jobs"] = FakeJobs()
    return client


def job(kind: str, ended: float | None = None) -> Job:
    return Job(
        f"20261120T110607.123Z-{kind}-0a1b",
        f"bin/zodbrepl {kind}",
        "bob (admin page)",
        1795172767.0,
        ended,
        None if ended is None else 0,
        (),
        None,
    )
