"""The tables of ``status``: nodes, hosts, facts of database servers, Indico instances."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from indico_zodbrepl.monitor.node_status import Mark, NodeStatus, Program
from indico_zodbrepl.monitor.snapshot import IndicoStatus, Snapshot
from indico_zodbrepl.probing import tid, times

MARK_STYLES = {Mark.AS_ASSIGNED: "green", Mark.DIFFERS: "yellow", Mark.UNREACHABLE: "red"}


def nodes(snapshot: Snapshot) -> Table:
    """Return the table of nodes, with replication columns only if nodes replicate."""
    table = _table(
        "Node",
        "Program",
        "Role",
        *(["Upstream"] if snapshot.replicates else []),
        "Last transaction",
        *(["Lag", "Followers"] if snapshot.replicates else []),
    )
    for node in snapshot.nodes:
        cells: list[RenderableType] = [
            node.name,
            _program_of(node),
            _role(node),
            _upstream(node),
            _last(node),
            lag(node),
            _followers(node),
        ]
        table.add_row(*(cells if snapshot.replicates else [*cells[:3], cells[4]]))
    return table


def hosts(snapshot: Snapshot) -> Table:
    """Return the table of hosts: what answers, and what runs there."""
    table = _table("Host", "Agent", "Address", "Nodes", "Indico")
    for host in snapshot.hosts:
        agent = Text("answers" if host.up else "? no answer", style="green" if host.up else "red")
        nodes = [node.name for node in snapshot.nodes if node.host == host.name]
        instances = [each.name for each in snapshot.indico if each.host == host.name]
        name = f"{host.name} (this host)" if host.here else host.name
        table.add_row(
            name, agent, host.address, ", ".join(nodes) or "-", ", ".join(instances) or "-"
        )
    return table


def facts(snapshot: Snapshot) -> Table:
    """Return the facts that the database servers report."""
    table = _table("Facts", "", "")
    for names, said in snapshot.facts:
        for number, fact in enumerate(said):
            table.add_row("" if number else names, fact.label, fact.value)
    return table


def indico(instances: Iterable[IndicoStatus]) -> Table:
    """Return the table of Indico instances."""
    table = _table("Indico", "Program", "State", "Server", "URL")
    for instance in instances:
        table.add_row(
            instance.name,
            program(instance.program),
            _instance(instance),
            _server(instance),
            instance.url,
        )
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _program_of(node: NodeStatus) -> str:
    if node.has_program:
        return program(node.program)
    return "none" if node.managed else "not managed"


def program(found: Program | None) -> str:
    """Return supervisor's word for a program, and its process."""
    if found is None:
        return "unknown"
    return f"{found.state}\npid {found.pid}" if found.pid else found.state


def _role(node: NodeStatus) -> Text:
    if not node.reachable:
        was = "was " if node.superseded_by else ""
        lines = [
            f"{was}{node.assigned_role}",
            "unreachable" if node.address is not None else "can't be opened",
        ]
    elif node.actual_role is None:
        lines = [f"{node.assigned_role}", "wrong server"]
    elif node.differs_in_role:
        lines = [f"{node.actual_role}", f"not {node.assigned_role}"]
    else:
        lines = [f"{node.actual_role}"]
    if node.leads is not None:
        lines.append("leads" if node.leads else "stands by")
    epoch = node.epoch if node.epoch is not None or not node.managed else node.assigned_epoch
    if epoch is not None:
        lines.append(f"epoch {epoch}")
    lines += node.oddities
    return Text(f"{node.mark} " + "\n".join(lines), style=MARK_STYLES[node.mark])


def _upstream(node: NodeStatus) -> str:
    if node.upstream is None:
        return "-"
    return f"{node.upstream}\n{'connected' if node.connected else 'not connected'}"


def _last(node: NodeStatus) -> str:
    if not node.keeps_transactions:
        return "-"
    if node.last_tid is None:
        return "unknown"
    if node.last_tid == tid.EMPTY:
        return "none yet"
    if node.last_time is None:
        return tid.render(node.last_tid)
    return f"{tid.render(node.last_tid)}\n{times.moment(node.last_time).removesuffix(' UTC')}"


def lag(node: NodeStatus) -> str:
    """Return the lag in seconds and transactions; ``-`` for a node without upstream."""
    if not node.assigned_role.follows:
        return "-"
    if node.lag_seconds is None and node.lag_transactions is None:
        return "unknown"
    seconds = "" if node.lag_seconds is None else f"{node.lag_seconds:.1f} s\n"
    if node.lag_transactions is None:
        return f"{seconds}? trans."
    at_least = "" if node.lag_exact else ">="
    return f"{seconds}{at_least}{node.lag_transactions} trans."


def _followers(node: NodeStatus) -> str:
    if node.actual_role not in ("primary", "relay"):
        return "-"
    unnamed = len(node.follower_addresses) - len(node.followers)
    return "\n".join([*node.followers, *([f"{unnamed} other"] if unnamed > 0 else [])]) or "none"


def _server(instance: IndicoStatus) -> str:
    """Return the node that an instance uses; ``-`` if it opens the data itself."""
    return instance.server_node or ("-" if instance.connected else "none")


def _instance(instance: IndicoStatus) -> Text:
    if not instance.up:
        state = "down"
    elif not instance.connected:
        state = "up, no storage"
    elif instance.waits:
        state = "up, waits"
    elif instance.set_up is False:
        state = "up, not set up"
    elif instance.failure is not None:
        state = "up, no pages"
    else:
        state = "up, read-only" if instance.read_only else "up, writable"
    return Text(f"{instance.mark} {state}", style=MARK_STYLES[instance.mark])
