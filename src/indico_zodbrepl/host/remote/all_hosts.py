"""Start and stop the programs of all hosts.

A stop has the order of one host: what observes and Indico on all hosts, then each node before its
followers, then the rest of each host.  So a node can send its followers what they lack, while
their hosts and the tunnels still run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import stages
from indico_zodbrepl.host.interface import DryRun, HostAwayError, Tell
from indico_zodbrepl.probing.race import Race

Call = Callable[[str, str, Mapping[str, object]], Any]
"""Calls a method of the interface on a host."""
Job = tuple[str, Mapping[str, object]]
"""A method and its arguments."""
Upstreams = Mapping[str, str | None]


def start(cluster: Cluster, call: Call, progress: Tell) -> list[str]:
    """Start the programs of all hosts at once; return those that were started.

    Raises the OperatorError of a host that failed, or one about several hosts.
    """
    jobs: dict[str, Job] = {host.name: ("up", {}) for host in cluster.hosts}
    done, failed = _at_once(jobs, call, progress)
    if failed:
        raise several_failed(failed)
    return done


def stop(cluster: Cluster, call: Call, upstreams: Upstreams, progress: Tell) -> list[str]:
    """Stop the programs of all hosts stage by stage; return those that were running.

    Args:
        upstreams: of the nodes, by name.

    Raises OperatorError: exit 7, hosts do not answer, and everything else was stopped; otherwise
    what a host raised, and later stages run on, so that no follower stops before its upstream.
    """
    ended: list[str] = []
    away: dict[str, OperatorError] = {}
    for jobs in _stages(cluster, upstreams):
        asked = {host: job for host, job in jobs.items() if host not in away}
        done, failed = _at_once(asked, call, progress)
        ended += done
        away |= {host: each for host, each in failed.items() if isinstance(each, HostAwayError)}
        broken = {host: each for host, each in failed.items() if host not in away}
        if broken:
            raise several_failed({**broken, **away})
    if away:
        raise _left(cluster, away)
    return ended


def _stages(cluster: Cluster, upstreams: Upstreams) -> Iterator[dict[str, Job]]:
    """Yield what each host does at the same time as the others."""
    for stage in stages.stopping(cluster, upstreams):
        yield {
            str(host): ("stop_stage", {"host": host, "names": names})
            for host, names in stage.items()
        }
    yield {host.name: ("down", {}) for host in cluster.hosts}


def _left(cluster: Cluster, away: Mapping[str, OperatorError]) -> OperatorError:
    """Return the error for hosts whose programs were not stopped."""
    names = ", ".join(away)
    return OperatorError(
        f"host {names} does not answer: its programs were not stopped"
        if len(away) == 1
        else f"hosts {names} do not answer: their programs were not stopped",
        "; ".join([*(each.detail for each in away.values()), "all other hosts are down"]),
        f"on {names}, unless it is off: {Commands.here(cluster).zodbrepl('down', '--this-host')}",
        ExitCode.TIMED_OUT,
    )


def dry_run(cluster: Cluster, call: Call, verb: str, upstreams: Upstreams) -> DryRun:
    """Make the checks of ``up`` or ``down`` on all hosts.

    Args:
        upstreams: of the nodes; for the order of a stop.
    """
    jobs = {host.name: _checked(verb, host.name) for host in cluster.hosts}
    answers = _answers(jobs, call)
    found = merged({host: answers[host] for host in jobs})
    if verb != "down":
        return found
    ordered: list[str] = []
    for stage in stages.stopping(cluster, upstreams):
        wanted = {str(host): names for host, names in stage.items() if _is_dry_run(answers, host)}
        asked = {
            host: _checked("stop_stage", host, names=list(names)) for host, names in wanted.items()
        }
        ordered += merged(_answers(asked, call)).does
    does = dict.fromkeys([*ordered, *found.does])
    return DryRun(found.found, tuple(does), found.problems)


def _checked(verb: str, name: str, **arguments: object) -> Job:
    return "dry_run", {"verb": verb, "name": name, **arguments}


def _is_dry_run(answers: Mapping[str, object], host: str | None) -> bool:
    return isinstance(answers.get(str(host)), DryRun)


def _at_once(
    jobs: Mapping[str, Job], call: Call, progress: Tell
) -> tuple[list[str], dict[str, OperatorError]]:
    """Call methods that return programs, on several hosts at once.

    Returns the programs, each with its host, and the errors by host.
    """

    def tell(host: str, text: str) -> None:
        progress(f"host {host}: {text}")

    told: dict[str, Job] = {
        host: (method, {**arguments, "progress": partial(tell, host)})
        for host, (method, arguments) in jobs.items()
    }
    done: list[str] = []
    failed: dict[str, OperatorError] = {}
    for host, answer in _answers(told, call).items():
        if isinstance(answer, OperatorError):
            failed[host] = answer
        else:
            done += [f"{program} on {host}" for program in answer]
    return done, failed


def _answers(jobs: Mapping[str, Job], call: Call) -> dict[str, Any]:
    """Return the results or errors of calls on several hosts at once, by host."""
    race = Race()
    for host, (method, arguments) in jobs.items():
        race.start(host, partial(_one, call, host, method, arguments))
    found = race.wait(None)
    return {host: found["host", host] for host in jobs}


def _one(
    call: Call, host: str, method: str, arguments: Mapping[str, object]
) -> Iterable[tuple[tuple[str, str], object]]:
    try:
        yield ("host", host), call(host, method, arguments)
    except OperatorError as error:
        yield ("host", host), error


def merged(found: Mapping[str, DryRun | OperatorError]) -> DryRun:
    """Return the dry runs of several hosts as one; a host that failed is a problem."""
    facts: list[str] = []
    does: list[str] = []
    problems: list[str] = []
    for host, answer in found.items():
        if isinstance(answer, OperatorError):
            problems.append(f"host {host}: {answer.notice}: {answer.detail}")
            continue
        facts += [f"host {host}: {each}" for each in answer.found]
        does += [f"host {host}: {each}" for each in answer.does]
        problems += [f"host {host}: {each}" for each in answer.problems]
    return DryRun(tuple(facts), tuple(does), tuple(problems))


def several_failed(failed: Mapping[str, OperatorError]) -> OperatorError:
    """Return one error for the hosts that failed; with one of them, its own error."""
    (host, first), *more = failed.items()
    notice = f"host {host}: {first.notice}"
    if not more:
        return OperatorError(notice, first.detail, first.hint, first.exit_code)
    details = [f"{name}: {each.notice}: {each.detail}" for name, each in failed.items()]
    return OperatorError(
        f"{len(failed)} hosts failed: {', '.join(failed)}",
        "\n".join(details),
        first.hint,
        first.exit_code,
    )
