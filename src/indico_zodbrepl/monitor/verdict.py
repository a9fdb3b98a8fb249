"""The overall state, and the one sentence that says it."""

from __future__ import annotations

from collections.abc import Sequence

from indico_zodbrepl.monitor.findings import Failure, Findings
from indico_zodbrepl.monitor.snapshot import Alert, IndicoStatus, Level, NodeStatus, State
from indico_zodbrepl.probing.wire import FailureKind


def state(findings: Findings, nodes: Sequence[NodeStatus], indico: Sequence[IndicoStatus],
          warnings: Sequence[Alert]) -> State:
    """The overall state; see ``State``.

    A refused connection is an answer of the host: nothing runs there.  So a stopped cluster is
    down, and only one of which nothing at all could be learnt is unknown.
    """
    if not _anything_learnt(findings):
        return State.UNKNOWN
    works = any(instance.connected for instance in indico) or not indico
    if not any(node.writable_primary for node in nodes) or not works:
        return State.DOWN
    if any(warning.level is not Level.NOTICE for warning in warnings):
        return State.DEGRADED
    return State.HEALTHY


def _anything_learnt(findings: Findings) -> bool:
    probed = [*findings.servers.values(), *findings.indico.values()]
    silent = (FailureKind.SILENT, FailureKind.UNREACHABLE)
    return not findings.supervisor_problem or not all(
        isinstance(found, Failure) and found.kind in silent for found in probed)


def sentence(overall: State, nodes: Sequence[NodeStatus], indico: Sequence[IndicoStatus],
             warnings: Sequence[Alert]) -> str:
    """What an operator wants to know first: can Indico save, through whom, and if not, why."""
    if overall is State.UNKNOWN:
        return "Nothing could be probed: no server, no Indico instance and no supervisord answers."
    if overall is State.DOWN:
        return _down(nodes, indico, warnings)
    primaries = [node.name for node in nodes if node.writable_primary]
    subject = "Indico" if indico else "The storage"
    service = (f"{subject} is writable; {' and '.join(primaries)} "
               f"{'is primary' if len(primaries) == 1 else 'are both primary'}")
    if not any(instance.writable for instance in indico) and indico:
        service = f"Indico is read-only, although {' and '.join(primaries)} is primary"
    problems = [warning for warning in warnings if warning.level is not Level.NOTICE]
    if not problems:
        return f"{service}{_following(nodes)}."
    more = f" ({len(problems) - 1} more below)" if len(problems) > 1 else ""
    return f"{service}, but {problems[0].text}{more}."


def _following(nodes: Sequence[NodeStatus]) -> str:
    followers = [node.name for node in nodes if node.connected]
    if not followers:
        return ""
    return f", {_listed(followers)} {'follows' if len(followers) == 1 else 'follow'}"


def _down(nodes: Sequence[NodeStatus], indico: Sequence[IndicoStatus],
          warnings: Sequence[Alert]) -> str:
    primary = next((node for node in nodes if node.writable_primary), None)
    if primary is not None:
        return f"No Indico instance works; primary {primary.name} is writable."
    cause = next((warning.text for warning in warnings if warning.level is Level.CRITICAL),
                 "there is no writable primary")
    reading = sum(instance.connected is True and not instance.waits for instance in indico)
    if reading:
        return (f"Nothing can be saved: {cause}. Pages can be read "
                f"({reading} of {len(indico)} Indico instances).")
    if any(instance.waits for instance in indico):
        return f"Nothing can be saved: {cause}. Indico still waits for it, so pages hang or fail."
    if indico:
        return f"Nothing can be saved or read: {cause}, and no Indico instance works."
    return f"Nothing can be saved: {cause}."


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
