"""What ``up`` and ``down`` would do: told, and nothing changed."""

from __future__ import annotations

import configparser
from collections.abc import Iterator, Mapping
from pathlib import Path

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster, NodeState
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout, state_file
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host import (
    daemon,
    epochs,
    generated,
    lifecycle,
    ports,
    precheck,
    rehearsal,
    run,
    state,
)
from indico_zodbrepl.host import lifecycle as stages
from indico_zodbrepl.host.programs import ENDED, STARTED
from indico_zodbrepl.host.rehearsal import Rehearsal
from indico_zodbrepl.host.supervisor import ProgramState, Supervisor


def up(cluster: Cluster, installation: Installation) -> Rehearsal:
    """See ``lifecycle.up``; the checks that only read are made, and raise as it does."""
    lifecycle.check(cluster, installation)
    states, found = _states(cluster)
    known = _known(cluster)
    changed = _changed_programs(cluster, installation) if known is not None else []
    missing = [
        name
        for name in cluster.program_names()
        if known is None or name not in known or known[name].state not in STARTED
    ]
    ports.check_free(
        cluster,
        [
            endpoint
            for endpoint in stages.needed(cluster, states)
            if stages.program_of(cluster, endpoint) in missing
        ],
    )
    steps = [*_folders(cluster), *_files(cluster, installation, states)]
    if known is None:
        steps.append("start supervisord")
    steps += [f"have supervisor end {program}, whose settings changed" for program in changed]
    steps += _founding(cluster, states)
    for stage in stages.starting(cluster, states):
        for program, _ready in stage:
            if program in missing or program in changed:
                said, does = _start(cluster, installation, states, program)
                found += said
                steps += does
            else:
                found.append(f"{program} runs")
    return Rehearsal(tuple(found), tuple(dict.fromkeys(steps)))


def down(cluster: Cluster, _installation: Installation) -> Rehearsal:
    """See ``lifecycle.down``."""
    known = _known(cluster)
    if known is None:
        lifecycle.refuse_orphans(cluster)
        return Rehearsal(("supervisord does not run",), ())
    first = [program for stage in stages.ending(cluster) for program in stage]
    running = [
        name
        for name in [*first, *(name for name in known if name not in first)]
        if name in known and known[name].state not in ENDED
    ]
    upstreams = [
        node.program
        for node in cluster.nodes
        if any(other.upstream == node.name for other in cluster.nodes)
    ]
    steps = [
        f"have supervisor end {name}"
        + (": it hands its followers what they lack" if name in upstreams else "")
        for name in running
    ]
    return Rehearsal(tuple(f"{name} runs" for name in running), (*steps, "end supervisord"))


def _states(cluster: Cluster) -> tuple[dict[str, NodeState], list[str]]:
    """Return the nodes' states, and why others can't be started; raises the first when none can."""
    states, found, problems = {}, [], []
    for node in cluster.nodes:
        try:
            states[node.name] = state.current(cluster, node)
        except OperatorError as error:
            problems.append(error)
            found.append(f"{node.program} would not start: {error.notice}: {error.detail}")
    if not states:
        raise problems[0]
    return states, found


def _known(cluster: Cluster) -> Mapping[str, ProgramState] | None:
    """Return the programs under supervisor; None when it does not run."""
    return Supervisor(cluster).states() if daemon.is_running(cluster) else None


def _folders(cluster: Cluster) -> Iterator[str]:
    layout = Layout(cluster)
    folders = [
        layout.var,
        layout.etc,
        layout.run,
        layout.log,
        layout.secrets,
        layout.indico,
        layout.watch,
        *(node.data_directory for node in cluster.nodes if node.managed),
    ]
    missing = [str(folder) for folder in folders if not folder.is_dir()]
    if missing:
        yield f"make the folders {', '.join(missing)}"


def _files(
    cluster: Cluster, installation: Installation, states: Mapping[str, NodeState]
) -> Iterator[str]:
    for name, wanted in states.items():
        node = cluster.node(name)
        if node.managed and not state_file(node).exists():
            yield rehearsal.writes(cluster, wanted)
    for path, text in generated.cluster_files(cluster, installation).items():
        if _read(path) != text:
            yield f"write {path}"


def _founding(cluster: Cluster, states: Mapping[str, NodeState]) -> Iterator[str]:
    first = precheck.founding(cluster, states)
    if first is not None and epochs.newest(cluster) is None:
        yield rehearsal.raises(cluster, first.primary, first.epoch)


def _start(
    cluster: Cluster, installation: Installation, states: Mapping[str, NodeState], program: str
) -> tuple[list[str], list[str]]:
    """Return what is found before a program is started, and what is done to start it."""
    does = [f"have supervisor start {program}, and wait until it does its work"]
    node = next((node for node in cluster.nodes if node.program == program), None)
    if node is None:
        return [], does
    present = states[node.name]
    if backend_of(cluster).has_epochs and epochs.newest(cluster) is None:
        return [], [*does, *rehearsal.enters(cluster, present)]
    try:
        wanted = run.caught_up(cluster, node, present) if present.upstream else present
        said = run.admissible(cluster, installation, wanted)
    except OperatorError as error:
        return [f"{program} would not start: {error.notice}: {error.detail}"], does
    writing = [rehearsal.writes(cluster, wanted)] if wanted != present else []
    return said, [*writing, *does, *rehearsal.enters(cluster, wanted)]


def _changed_programs(cluster: Cluster, installation: Installation) -> list[str]:
    """Programs that supervisor runs with other settings than the cluster file's."""
    path = Layout(cluster).supervisord_conf
    before = _programs(_read(path) or "")
    after = _programs(generated.cluster_files(cluster, installation)[path])
    return [name for name in before if before[name] != after.get(name)]


def _programs(text: str) -> dict[str, dict[str, str]]:
    parsed = configparser.RawConfigParser()
    parsed.read_string(text)
    return {
        section.removeprefix("program:"): dict(parsed[section])
        for section in parsed.sections()
        if section.startswith("program:")
    }


def _read(path: Path) -> str | None:
    try:
        return path.read_text("utf-8")
    except OSError:
        return None
