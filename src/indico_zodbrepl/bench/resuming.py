"""The continuation of an interrupted run, which measures the rest on the same machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from indico_zodbrepl.bench import suite as suites
from indico_zodbrepl.bench.results import Run
from indico_zodbrepl.bench.suite import Settings, Suite
from indico_zodbrepl.errors import ExitCode, OperatorError

SAME = ("cpu", "cores", "python")
"""Properties that must be the same in a continuation as in the earlier measurements."""


def request_of(run: Run) -> tuple[Suite, Settings, tuple[str, ...]]:
    """Return suite, settings and storages of a run; without those storages that were left out.

    Raises:
        OperatorError: exit 2, the results cannot be read, or there is no such suite.
    """
    problem = run.problem
    if not problem and run.suite not in suites.known():
        problem = f"there is no suite {run.suite!r}"
    if problem:
        raise OperatorError(
            f"the run in {run.folder} cannot be continued",
            problem,
            "start a new one",
            ExitCode.BAD_CONFIG,
        )
    asked = run.settings
    options = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in asked["options"].items()
    }
    settings = Settings(asked["rounds"], asked["seconds"], asked["quick"], options)
    names = tuple(name for name in asked["storages"] if name not in run.left_out)
    return suites.suite(run.suite), settings, names


def require_alike(run: Run, environment: Mapping[str, Any], version: str) -> None:
    """Refuse to mix figures of two machines, disks or versions in one run.

    Args:
        environment: this machine, as ``machine.describe`` returns it.
        version: of this project.

    Raises:
        OperatorError: exit 8, something differs.
    """
    before, now = _named(run.environment), _named(environment)
    before["version"], now["version"] = run.versions.get("indico_zodbrepl", ""), version
    differences = [
        f"{name}: {value} earlier, {now[name]} now"
        for name, value in before.items()
        if value != now[name]
    ]
    if differences:
        raise OperatorError(
            f"the run in {run.folder} cannot be continued here",
            "\n".join(differences),
            "continue it where it began, with the same --data-directory; or start a new one",
            ExitCode.REFUSED,
        )


def _named(environment: Mapping[str, Any]) -> dict[str, str]:
    disk = environment.get("disk", {})
    values = {name: str(environment.get(name)) for name in SAME}
    return {**values, "disk": f"{disk.get('device')} ({disk.get('type')})"}
