"""The overall state of a cluster, and the sentence that explains it."""

from __future__ import annotations

from collections.abc import Sequence

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster.model import Cluster, Role
from indico_zodbrepl.monitor import rules
from indico_zodbrepl.monitor.findings import Findings
from indico_zodbrepl.monitor.node_status import NodeStatus
from indico_zodbrepl.monitor.snapshot import IndicoStatus, State
from indico_zodbrepl.monitor.words import called, listed
from indico_zodbrepl.probing.answers import Alert, Level
from indico_zodbrepl.probing.comparison import Failure
from indico_zodbrepl.probing.wire import FailureKind


def overall_state(facts: rules.Facts, warnings: Sequence[Alert]) -> State:
    """Return the overall state; see ``State``.

    A refused connection is an answer of the host: nothing runs there.  So a stopped cluster is
    down; it is unknown only if there is no answer at all.
    """
    nodes, indico = facts.nodes, facts.indico
    if not _anything_learnt(facts.findings):
        return State.UNKNOWN
    if facts.rivals:
        return State.CRITICAL
    works = any(instance.serves for instance in indico) or not indico
    if not any(node.writable_primary for node in nodes) or not works:
        return State.DOWN
    if facts.full_writers:
        return State.CRITICAL
    if any(warning.level is not Level.NOTICE for warning in warnings):
        return State.DEGRADED
    return State.HEALTHY


def _anything_learnt(findings: Findings) -> bool:
    probed = [*findings.servers.values(), *findings.indico.values()]
    silent = (FailureKind.SILENT, FailureKind.UNREACHABLE)
    return not findings.supervisor_problem or not all(
        isinstance(found, Failure) and found.kind in silent for found in probed
    )


def sentence(facts: rules.Facts, overall: State, warnings: Sequence[Alert]) -> str:
    """Return the most important fact: if Indico can write, through which node, else why not."""
    cluster, nodes, indico = facts.cluster, facts.nodes, facts.indico
    if overall is State.UNKNOWN:
        return "Nothing could be probed: no server, no Indico instance and no supervisord answers."
    if facts.rivals:
        extra = facts.rivals[-1]
        verb = "fence" if extra.managed else "stop"
        return f"{rules.split_brain(facts)}; {verb} node {extra.name} now."
    if overall is State.DOWN:
        return _down(cluster, nodes, indico, warnings)
    for node in facts.full_writers:
        if node.write_failure is not None:
            why = f"{facts.called(node)} can't write: {node.write_failure.error}"
            return f"Nothing can be saved: {why}. {_readers(indico)}".strip()
    leads = _leads(cluster, [node for node in nodes if node.writable_primary])
    subject = "Indico" if indico else "The storage"
    service = f"{subject} is writable; {leads}"
    if not any(instance.writable for instance in indico) and indico:
        leads = leads.replace("holds the data", "takes writes")
        service = f"Indico is read-only, although {leads}"
    problems = [warning for warning in warnings if warning.level is not Level.NOTICE]
    if not problems:
        return f"{service}{_following(nodes)}."
    more = f" ({len(problems) - 1} more below)" if len(problems) > 1 else ""
    return f"{service}, but {problems[0].text}{more}."


def _leads(cluster: Cluster, primaries: Sequence[NodeStatus]) -> str:
    """Return which nodes accept writes, as the end of a sentence."""
    names = listed([node.name for node in primaries])
    one = len(primaries) == 1
    if primaries[0].assigned_role is Role.MASTER:
        return f"master {names} leads" if one else f"masters {names} both lead"
    if not backend_of(cluster).has_epochs:
        return f"node {names} holds the data"
    return f"{names} is primary" if one else f"{names} are both primary"


def _following(nodes: Sequence[NodeStatus]) -> str:
    followers = [node.name for node in nodes if node.connected]
    if not followers:
        return ""
    return f", {listed(followers)} {'follows' if len(followers) == 1 else 'follow'}"


def _down(
    cluster: Cluster,
    nodes: Sequence[NodeStatus],
    indico: Sequence[IndicoStatus],
    warnings: Sequence[Alert],
) -> str:
    primary = next((node for node in nodes if node.writable_primary), None)
    if primary is not None:
        who = called(cluster, primary.assigned_role, primary.name)
        if any(instance.set_up is False for instance in indico):
            return (
                f"The database holds no Indico, so each page is answered 503; {who} "
                f"{'leads' if primary.leads else 'is writable'}."
            )
        return f"No Indico instance works; {who} {'leads' if primary.leads else 'is writable'}."
    cause = next(
        (warning.text for warning in warnings if warning.level is Level.CRITICAL),
        _nobody(cluster, nodes),
    )
    readers = _readers(indico)
    if readers:
        return f"Nothing can be saved: {cause}. {readers}"
    if any(instance.waits for instance in indico):
        return f"Nothing can be saved: {cause}. Indico still waits for it, so pages hang or fail."
    if indico:
        return f"Nothing can be saved or read: {cause}, and no Indico instance works."
    return f"Nothing can be saved: {cause}."


def _readers(indico: Sequence[IndicoStatus]) -> str:
    reading = sum(instance.serves and not instance.waits for instance in indico)
    if not reading:
        return ""
    return f"Pages can be read ({reading} of {len(indico)} Indico instances)."


def _nobody(cluster: Cluster, nodes: Sequence[NodeStatus]) -> str:
    """Return that no node accepts writes, if no alert explains it."""
    if any(node.assigned_role is Role.MASTER for node in nodes):
        return "no master leads"
    if not backend_of(cluster).has_epochs:
        return f"node {nodes[0].name} takes no writes"
    return "there is no writable primary"
