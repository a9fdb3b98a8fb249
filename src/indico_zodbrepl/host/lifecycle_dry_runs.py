"""Predict what ``up`` and ``down`` would do, without changing anything."""

from __future__ import annotations

import configparser
from collections.abc import Mapping
from pathlib import Path

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.files import differs
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout, state_file
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host import (
    daemon,
    epochs,
    generated,
    lifecycle,
    orphans,
    precheck,
    programs,
    run,
    stages,
    startable,
    state,
    tunnel_control,
)
from indico_zodbrepl.host.interface import DryRun
from indico_zodbrepl.host.programs import STARTED
from indico_zodbrepl.host.supervisor import NOT_KNOWN, Supervisor, program_states


def dry_run_up(cluster: Cluster, installation: Installation, _name: str) -> DryRun:
    """Make the checks of ``up``, and of the start of each node; change nothing."""
    lifecycle.check(cluster, installation)
    states, failures = startable.states(cluster, state.current)
    known = Supervisor(cluster).states() if daemon.is_running(cluster) else None
    running = None if known is None else {n for n, each in known.items() if each.state in STARTED}
    left = orphans.find(cluster, installation, running or ())
    missing = startable.missing(cluster, states, [*(running or ()), *left], cluster.program_names())
    files = generated.cluster_files(cluster, installation)
    changed = [] if running is None else _changed_programs(cluster, files)
    new = [each for name, each in states.items() if not state_file(cluster.node(name)).exists()]
    first = precheck.founding(cluster, startable.everywhere(cluster, states))
    founds = first is not None and epochs.newest(cluster) is None
    does = [
        *(state.writing(cluster, each) for each in new if cluster.node(each.node).managed),
        *(f"write {path}" for path, text in files.items() if differs(path, text)),
        *(["start supervisord"] if running is None else []),
        *(f"stop {program}, whose settings changed" for program in changed),
        *tunnel_control.rereading(cluster, files, running or ()),
        *([epochs.raising(cluster, first.epoch, first.primary)] if first and founds else []),
    ]
    found = [
        startable.with_former_settings(cluster, instance)
        for instance in generated.to_restart(cluster, files, running or ())
        if instance.program not in changed
    ]
    problems = [_why_not(program, error) for program, error in failures.items()]
    nodes = {cluster.node(name).program: each for name, each in states.items()}
    for orphan, refusal in orphans.judged(cluster, installation, states, left):
        name = orphan.program.name
        found.append(f"{orphan} was left by a supervisord that was killed")
        if refusal is not None:
            problems.append(_why_not(name, refusal))
        else:
            does.append(f"stop {orphan}, start {name} under supervisord")
    for stage in stages.starting(cluster, states):
        for program, _ready in stage:
            if program in left:
                continue
            if program not in missing and program not in changed:
                found.append(f"{program} runs")
            elif program not in nodes or founds:
                does.append(f"start {program}")
            else:
                try:
                    entry = run.dry_run(cluster, installation, nodes[program])
                except OperatorError as error:
                    problems.append(_why_not(program, error))
                else:
                    found += entry.found
                    does += entry.does
    return DryRun(tuple(found), tuple(dict.fromkeys(does)), tuple(problems))


def dry_run_down(cluster: Cluster, installation: Installation, _name: str) -> DryRun:
    """Make the checks of ``down``; change nothing."""
    if not daemon.is_running(cluster):
        left = orphans.find(cluster, installation)
        names = [name for stage in stages.ending(cluster) for name in stage if name in left]
        return DryRun(("supervisord does not run",), tuple(f"stop {left[name]}" for name in names))
    staged = [program for stage in stages.ending(cluster) for program in stage]
    names = programs.running(cluster, dict.fromkeys([*staged, *Supervisor(cluster).states()]))
    return DryRun(
        tuple(f"{name} runs" for name in names),
        (*(f"stop {name}" for name in names), "stop supervisord"),
    )


def _why_not(program: str, error: OperatorError) -> str:
    return f"{program} would not start: {error.notice}: {error.detail}"


def changed_programs(cluster: Cluster, installation: Installation) -> list[str]:
    """Return the programs that ``up`` would stop and start, as their settings change."""
    return _changed_programs(cluster, generated.cluster_files(cluster, installation))


def added_programs(cluster: Cluster) -> list[str]:
    """Return the programs that the running supervisord learns of with the next ``up``."""
    states = program_states(cluster)
    return [name for name, each in states.items() if each.description == NOT_KNOWN]


def _changed_programs(cluster: Cluster, files: Mapping[Path, str]) -> list[str]:
    """Return the programs that supervisor runs with other settings than the cluster file's."""
    path = Layout(cluster).supervisord_conf
    before, after = configparser.RawConfigParser(), configparser.RawConfigParser()
    before.read(path, "utf-8")
    after.read_string(files[path])
    return [
        section.removeprefix("program:")
        for section in before.sections()
        if section.startswith("program:")
        and (section not in after or dict(before[section]) != dict(after[section]))
    ]
