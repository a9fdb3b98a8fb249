"""Rules about one Indico instance."""

from __future__ import annotations

from collections.abc import Iterator

from indico_zodbrepl.monitor.rules.facts import Facts, condition, remedy, shown_program
from indico_zodbrepl.monitor.snapshot import Alert, IndicoStatus, Level


def warnings(facts: Facts, instance: IndicoStatus) -> Iterator[Alert]:
    if not instance.up:
        yield _unreachable(facts, instance)
    elif instance.instance != instance.name:
        yield _wrong_instance(facts, instance)
    elif not instance.connected:
        yield _disconnected(facts, instance)
    elif instance.waits:
        yield _waits(instance)
    elif instance.read_only:
        yield _read_only(facts, instance)


def _unreachable(facts: Facts, instance: IndicoStatus) -> Alert:
    return Alert(Level.WARNING, instance.name,
                 f"Indico instance {instance.name} {condition(instance.program)}",
                 f"{instance.problem}; {shown_program(instance.program)}",
                 remedy(facts, f"indico-{instance.name}", instance.program))


def _wrong_instance(facts: Facts, instance: IndicoStatus) -> Alert:
    restart = facts.commands.supervisorctl("restart", f"indico-{instance.name}")
    return Alert(
        Level.WARNING, instance.name,
        f"another Indico instance answers at {instance.name}'s address",
        f"It says it is {instance.instance}; {shown_program(instance.program)}",
        f"end that one or change the port of {instance.name}, then `{restart}`")


def _disconnected(facts: Facts, instance: IndicoStatus) -> Alert:
    if any(node.reachable for node in facts.nodes):
        restart = facts.commands.supervisorctl("restart", f"indico-{instance.name}")
        hint = f"it reconnects by itself within seconds; if it does not: `{restart}`"
    else:
        hint = "bring a node back; it then reconnects by itself"
    return Alert(
        Level.WARNING, instance.name,
        f"Indico instance {instance.name} is not connected to any storage server",
        "It answers every page with 503.", hint)


def _waits(instance: IndicoStatus) -> Alert:
    node = instance.server_node
    return Alert(
        Level.WARNING, instance.name, f"Indico instance {instance.name} waits for node {node}",
        f"It is still connected to node {node}, which does not answer. A page that needs more than "
        "is in memory waits for some seconds and is then answered 503.",
        f"bring node {node} back; the instance then goes on by itself")


def _read_only(facts: Facts, instance: IndicoStatus) -> Alert:
    where = f"It reads from node {instance.server_node}; whoever saves something is answered 503."
    if any(node.writable_primary for node in facts.nodes):
        restart = facts.commands.supervisorctl("restart", f"indico-{instance.name}")
        hint = ("it moves to the primary by itself within seconds; if it does not: "
                f"`{restart}`")
    else:
        hint = "it becomes writable by itself as soon as there is a primary again"
    return Alert(Level.WARNING, instance.name,
                   f"Indico instance {instance.name} is read-only", where, hint)
