"""The loss of a primary's host, and its return."""

from __future__ import annotations

from functools import partial

from counted import held
from patience import wait_until
from three import Three, later

from indico_zodbrepl.errors import ExitCode

REASON = ("--reason", "the host of the primary is lost")


def fail_over(three: Three, host: str) -> str:
    """Type failovers on a host until one is accepted: followers notice a silent host in time."""
    said: list[str] = []

    def succeeds() -> bool:
        done = three.zodbrepl(host, "failover", *REASON, code=None)
        said[:] = [done.stdout + done.stderr]
        return done.returncode == ExitCode.OK

    assert wait_until(succeeds, later()), said
    return said[0]


def bring_back(three: Three, host: str, node: str) -> set[int]:
    """Let a former primary's host come back and its node join; return what only the node had."""
    assert wait_until(partial(_is_harmless, three, host, node), later())
    private = held(three, node) - held(three, three.primary("h2"))
    three.zodbrepl("h3", "rejoin", node, "--reason", "its host is back")
    return private


def _is_harmless(three: Three, host: str, node: str) -> bool:
    """Return True if a former primary takes no commits: stopped, or told of the epoch."""
    status = three.status(host)
    found = next(each for each in status["nodes"] if each["name"] == node)
    return bool(found["actual_role"] != "primary" or found["held"] == "epoch")
