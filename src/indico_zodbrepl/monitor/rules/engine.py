"""What an engine itself says is wrong with a node."""

from __future__ import annotations

from collections.abc import Iterator

from indico_zodbrepl.monitor.rules.facts import Facts
from indico_zodbrepl.monitor.snapshot import Alert, Level, NodeStatus
from indico_zodbrepl.probing.answers import ServerAnswer


def warnings(facts: Facts, node: NodeStatus) -> Iterator[Alert]:
    answer = facts.findings.servers[node.name]
    if isinstance(answer, ServerAnswer):
        for problem in answer.problems:
            yield Alert(Level(problem.severity.value), node.name, problem.text, problem.detail,
                        problem.hint)
