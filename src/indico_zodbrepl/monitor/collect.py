"""One round of probes: every server, Indico instance, file that tells something and supervisord."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from functools import partial

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster.installation import home_from_environment
from indico_zodbrepl.cluster.model import Cluster, Node, NodeState
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.monitor import files, questions
from indico_zodbrepl.monitor.assessment import assess
from indico_zodbrepl.monitor.findings import Findings, assignments, source_of_truth
from indico_zodbrepl.monitor.snapshot import (
    EpochWord,
    Program,
    Snapshot,
    StartRefusal,
)
from indico_zodbrepl.node import epochs
from indico_zodbrepl.node import state as node_state
from indico_zodbrepl.probing.answers import IndicoAnswer, ServerAnswer
from indico_zodbrepl.probing.comparison import Comparison, Failure
from indico_zodbrepl.probing.race import Race
from indico_zodbrepl.probing.wire import FailureKind

TIME_LIMIT = 1.25
"""Seconds for a round; leaves room within the two seconds promised for a whole command."""
STATE_FILES_LIMIT = 0.3
"""Seconds for reading state files, which are needed to know whom to compare with whom."""

Results = Iterable[tuple[tuple[str, str], object]]


def look(cluster: Cluster, time_limit: float = TIME_LIMIT) -> tuple[Findings, Snapshot]:
    """As ``take_snapshot``; what was found comes with it, for who has to judge by himself."""
    findings = collect(cluster, time_limit)
    return findings, assess(cluster, findings, home_from_environment())


def take_snapshot(cluster: Cluster, time_limit: float = TIME_LIMIT) -> Snapshot:
    """Probe everything and judge it.

    Args:
        cluster: the cluster to look at.
        time_limit: seconds after which whoever has not answered counts as silent.

    Threads: may be called from several at once; each call probes by itself.
    """
    return look(cluster, time_limit)[1]


def collect(cluster: Cluster, time_limit: float) -> Findings:
    """One round of probes; ends within ``time_limit`` seconds, whatever the servers do."""
    taken_at, started = time.time(), time.monotonic()
    deadline = started + time_limit
    states = _read_states(cluster, min(deadline, started + STATE_FILES_LIMIT))
    assigned = assignments(cluster, states)
    race = Race(_series(cluster))
    for node in cluster.nodes:
        truth = source_of_truth(node.name, assigned)
        primary = None if truth is None else cluster.node(truth)
        race.start(node.name, partial(questions.probe_node, cluster, node, primary,
                                      deadline))
    for instance in cluster.indico:
        race.start(instance.name, partial(questions.probe_instance, instance, deadline))
    race.start("supervisor", partial(questions.ask_supervisor, cluster, time_limit))
    for name, job in files.jobs(cluster):
        race.start(name, job)
    found = race.wait(deadline)
    return _findings(cluster, found, states, taken_at, time.monotonic() - started)


def _series(cluster: Cluster) -> str:
    return f"monitor of {cluster.var_directory}"


def _read_states(cluster: Cluster, deadline: float) -> dict[str, NodeState | Failure]:
    race = Race(_series(cluster))
    for node in cluster.nodes:
        race.start(f"state-{node.name}", partial(_read_state, cluster, node))
    found = race.wait(deadline)
    late = Failure(FailureKind.SILENT, "the state file cannot be read in time: disk hung?")
    states: dict[str, NodeState | Failure] = {}
    for node in cluster.nodes:
        state = found.get(("state", node.name), late)
        states[node.name] = state if isinstance(state, NodeState | Failure) else late
    return states


def _read_state(cluster: Cluster, node: Node) -> Results:
    try:
        yield ("state", node.name), node_state.current(cluster, node)
    except OperatorError as error:
        yield ("state", node.name), Failure(FailureKind.MALFORMED, error.detail or error.notice)
    except OSError as error:
        yield ("state", node.name), Failure(FailureKind.UNREACHABLE, str(error))


def _findings(cluster: Cluster, found: Mapping[tuple[str, str], object],
              states: Mapping[str, NodeState | Failure], taken_at: float,
              duration: float) -> Findings:
    late = Failure(FailureKind.SILENT, "no answer in time")
    servers: dict[str, ServerAnswer | Failure] = {}
    comparisons = {}
    for node in cluster.nodes:
        server = found.get(("server", node.name), late)
        servers[node.name] = server if isinstance(server, ServerAnswer | Failure) else late
        comparison = found.get(("comparison", node.name))
        if isinstance(comparison, Comparison):
            comparisons[node.name] = comparison
    indico: dict[str, IndicoAnswer | Failure] = {}
    for instance in cluster.indico:
        health = found.get(("indico", instance.name), late)
        indico[instance.name] = health if isinstance(health, IndicoAnswer | Failure) else late
    lineages, refusals = {}, {}
    for node in cluster.nodes:
        lineage = found.get(("lineage", node.name))
        if isinstance(lineage, tuple):
            lineages[node.name] = lineage
        refusal = found.get(("refusal", node.name))
        if isinstance(refusal, StartRefusal):
            refusals[node.name] = refusal
    words = [found.get(("record", keeper), EpochWord(keeper, None, None, "not read in time"))
             for keeper in (epochs.paths(cluster) if backend_of(cluster).guarded else ())]
    operations = found.get(("operations", ""), ())
    programs, problem = _programs(found.get(("programs", "")))
    return Findings(
        taken_at=taken_at, duration=duration, states=states, servers=servers,
        comparisons=comparisons, indico=indico, programs=programs, supervisor_problem=problem,
        records=tuple(word for word in words if isinstance(word, EpochWord)),
        lineages=lineages, refusals=refusals,
        operations=operations if isinstance(operations, tuple) else ())


def _programs(found: object) -> tuple[dict[str, Program], str]:
    if not isinstance(found, dict):
        return {}, "no answer in time"
    unreachable = [program for program in found.values() if program.state == "UNREACHABLE"]
    if unreachable:
        return {}, unreachable[0].description
    return found, ""
