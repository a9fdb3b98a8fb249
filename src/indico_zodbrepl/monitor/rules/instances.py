"""Rules about one Indico instance."""

from __future__ import annotations

from collections.abc import Iterator

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster.model import Role
from indico_zodbrepl.monitor.node_status import Program
from indico_zodbrepl.monitor.rules.facts import RUNNING, Facts, condition, remedy, shown_program
from indico_zodbrepl.monitor.snapshot import IndicoStatus
from indico_zodbrepl.monitor.words import set_up
from indico_zodbrepl.probing.answers import Alert, Level


def warnings(facts: Facts, instance: IndicoStatus) -> Iterator[Alert]:
    if not instance.up:
        yield _unreachable(facts, instance)
    elif instance.instance != instance.name:
        yield _wrong_instance(facts, instance)
    elif not instance.connected:
        yield _disconnected(facts, instance)
    elif instance.waits:
        yield _waits(instance)
    elif instance.set_up is False:
        yield _not_set_up(facts, instance)
    elif instance.failure is not None:
        yield _not_built(facts, instance)
    elif instance.read_only:
        yield _read_only(facts, instance)
    program = instance.scheduler
    if program is not None and program.state not in RUNNING and not facts.away(instance.host):
        yield _no_scheduler(facts, instance, program)


def _no_scheduler(facts: Facts, instance: IndicoStatus, program: Program) -> Alert:
    others = [each.name for each in facts.indico if each.schedules]
    return Alert(
        Level.WARNING,
        instance.name,
        f"Indico's scheduler beside {instance.name} {condition(program)}"
        if others
        else f"Indico's scheduler {condition(program)}",
        f"Timed tasks are done by the one beside {others[0]}, within two minutes after this one "
        f"was lost; {shown_program(program)}"
        if others
        else "Reminders and other timed tasks wait until it runs, and are then done late; "
        f"{shown_program(program)}",
        remedy(facts.commands, facts.commands.zodbrepl("up"), program.name, program),
    )


def _unreachable(facts: Facts, instance: IndicoStatus) -> Alert:
    return Alert(
        Level.WARNING,
        instance.name,
        f"Indico instance {instance.name} {condition(instance.program)}",
        f"{instance.problem}; {shown_program(instance.program)}",
        f"bring host {instance.host} back; then `{facts.commands.zodbrepl('up')}`"
        if facts.away(instance.host) is not None
        else remedy(
            facts.commands,
            facts.commands.zodbrepl("restart", instance.name),
            f"indico-{instance.name}",
            instance.program,
        ),
    )


def _wrong_instance(facts: Facts, instance: IndicoStatus) -> Alert:
    restart = facts.commands.zodbrepl("restart", instance.name)
    return Alert(
        Level.WARNING,
        instance.name,
        f"another Indico instance answers at {instance.name}'s address",
        f"It says it is {instance.instance}; {shown_program(instance.program)}",
        f"end that one or change the port of {instance.name}, then `{restart}`",
    )


def _disconnected(facts: Facts, instance: IndicoStatus) -> Alert:
    what = (
        "is not connected to any storage server"
        if any(node.address is not None for node in facts.nodes)
        else "can't open the database"
    )
    if facts.nobody_takes_writes and backend_of(facts.cluster).clients_need_writer:
        hint = f"it reconnects automatically as soon as {_service(facts)} again"
    elif any(node.reachable for node in facts.nodes):
        restart = facts.commands.zodbrepl("restart", instance.name)
        hint = f"it reconnects automatically within seconds; if it does not: `{restart}`"
    else:
        hint = "bring a node back; it then reconnects automatically"
    return Alert(
        Level.WARNING,
        instance.name,
        f"Indico instance {instance.name} {what}",
        "It answers every page with 503.",
        hint,
    )


def _service(facts: Facts) -> str:
    """Return the condition for clients to write, as the end of a sentence."""
    if any(node.assigned_role is Role.MASTER for node in facts.nodes):
        return "a master leads"
    if backend_of(facts.cluster).has_epochs:
        return "there is a primary"
    return f"node {facts.nodes[0].name} takes writes"


def _waits(instance: IndicoStatus) -> Alert:
    node = instance.server_node
    return Alert(
        Level.WARNING,
        instance.name,
        f"Indico instance {instance.name} waits for node {node}",
        f"It is still connected to node {node}, which does not answer. A page that needs more than "
        "is in memory waits for some seconds and is then answered 503.",
        f"bring node {node} back; the instance then continues automatically",
    )


def _not_set_up(facts: Facts, instance: IndicoStatus) -> Alert:
    convert = facts.commands.zodbrepl("convert", "--help")
    return Alert(
        Level.WARNING,
        instance.name,
        f"Indico instance {instance.name} finds no Indico in the database",
        "It answers each page with 503, Not set up: the database that it is connected to is empty.",
        "if there should be one, see that each node's disk is mounted; else begin one: "
        f"`{set_up(facts.commands, instance.name)}`, or copy one into it: `{convert}`",
    )


def _not_built(facts: Facts, instance: IndicoStatus) -> Alert:
    log = facts.commands.show_log(f"indico-{instance.name}")
    return Alert(
        Level.WARNING,
        instance.name,
        f"Indico instance {instance.name} can't begin to serve pages",
        f"It is connected to the database, and fails: {instance.failure}",
        f"see why with `{log}`",
    )


def _read_only(facts: Facts, instance: IndicoStatus) -> Alert:
    reads = f"It reads from node {instance.server_node}; w" if instance.server_node else "W"
    where = f"{reads}hoever saves something is answered 503."
    restart = facts.commands.zodbrepl("restart", instance.name)
    if facts.nobody_takes_writes:
        hint = f"it becomes writable automatically as soon as {_service(facts)} again"
    elif backend_of(facts.cluster).has_epochs:
        hint = f"it moves to the primary automatically within seconds; if it does not: `{restart}`"
    else:
        hint = f"it notices automatically within seconds; if it does not: `{restart}`"
    return Alert(
        Level.WARNING, instance.name, f"Indico instance {instance.name} is read-only", where, hint
    )
