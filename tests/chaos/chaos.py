"""Random faults on three hosts, and a judgement of what clients saw.

    bin/control-python tests/chaos/chaos.py [--minutes M] [--seed N,...] [--faults A,B]
        [--backend NAME] [--synchronous K] [--sabotage NAME] [--into FILE]
    bin/control-python tests/chaos/chaos.py --table FILE

The same seed repeats the same schedule of faults; several share the time.  The exit code is 1 if
anything was wrong; then the seed, the part of the history that shows it, and a folder with all logs
are printed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "harness"), str(HERE.parent / "hosts/harness")]

import neo_copies  # noqa: E402
from judgement import PATIENCE_SECONDS, Told, Verdict, judge, window  # noqa: E402
from kept_logs import copy_logs  # noqa: E402
from nemesis import FAULTS, Nemesis, Undo, faults_of  # noqa: E402
from operators import Operators  # noqa: E402
from resources import measure  # noqa: E402
from sabotage import SABOTAGES  # noqa: E402
from schedule import Step, plan_of  # noqa: E402
from stage import Stage  # noqa: E402
from three import PATIENCE  # noqa: E402

SHOWN = 20
"""Failures, and transactions of an anomaly, that are printed; a file has all failures."""
COLUMNS = (
    *("backend", "synchronous", "seed", "minutes", "faults", "transactions", "acknowledged"),
    *("refused", "unknown_kept", "unknown_gone", "excused", "terms", "healthy", "anomalies"),
)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--minutes", type=float, default=3.0)
    options.add_argument("--seed", default=str(random.SystemRandom().randrange(10**6)))
    options.add_argument("--faults", default="", help="names, separated by commas; all by default")
    options.add_argument("--backend", default="zrs")
    options.add_argument("--synchronous", type=int, default=1)
    options.add_argument("--sabotage", choices=SABOTAGES, default="", help="a defect to be found")
    options.add_argument("--into", type=Path, help="file to which a line with the result is added")
    options.add_argument("--table", type=Path, help="print the results in a file; run nothing")
    given = options.parse_args()
    if given.table:
        print_table(given.table)
        return
    possible = faults_of(given.backend)
    names = given.faults.split(",") if given.faults else possible
    unknown = sorted(set(names) - set(possible))
    if unknown:
        options.error(f"no such faults: {', '.join(unknown)}; there are {', '.join(possible)}")
    seeds = [int(each) for each in given.seed.split(",")]
    steps = plan_of(seeds, 60 * given.minutes, [FAULTS[name].sort for name in names])
    print(f"seed {given.seed}: {len(steps)} faults", flush=True)
    with tempfile.TemporaryDirectory(prefix="zodbrepl-chaos-") as folder:
        stage = Stage(
            Path(folder),
            backend=given.backend,
            synchronous=given.synchronous,
            seconds=60 * given.minutes + PATIENCE_SECONDS + PATIENCE,
            seed=seeds[0],
            sabotage=given.sabotage,
        )
        with contextlib.closing(stage), logs_kept(Path(folder), given.seed):
            used = measure(stage)
            ended = run(stage, steps, 60 * given.minutes)
            verdict, history = judge(stage, used, exports_excuse=not given.synchronous)
        result = {
            "backend": given.backend,
            "synchronous": given.synchronous,
            "seed": given.seed,
            "minutes": given.minutes,
            "faults": len(steps),
            "load": os.getloadavg()[0],
            "commands": ended,
            **verdict.figures(),
        }
        print(json.dumps(result))
        if given.into:
            with given.into.open("a") as file:
                file.write(json.dumps(result) + "\n")
        if verdict.failures:
            if verdict.apart or verdict.anomalies:
                neo_copies.copy(stage, Path(folder) / "logs")
            print_failures(verdict, history)
            (Path(folder) / "logs/failures").write_text("\n".join(verdict.failures) + "\n")
            print_logs(Path(folder), given.seed)
    sys.exit(1 if verdict.failures else 0)


def run(stage: Stage, steps: list[Step], seconds: float) -> dict[str, int]:
    """Let the faults of a schedule strike; return how often commands had each exit code."""
    operators = Operators(stage, stage.folder / "logs/commands.log")
    nemesis = Nemesis(stage, operators)
    began = time.monotonic()
    events: list[tuple[float, int, Step]] = [(each.at, 0, each) for each in steps]
    undo: dict[Step, Undo] = {}
    while events or time.monotonic() - began < seconds:
        stage.see()
        events.sort(key=lambda each: each[:2])
        if events and time.monotonic() - began >= events[0][0]:
            _, ends, step = events.pop(0)
            if ends:
                undo.pop(step)()
                print(f"{time.monotonic() - began:7.1f} s: ended {step.fault}", flush=True)
            else:
                print(step, stage.roles().get(step.target, ""), flush=True)
                undo[step] = nemesis.strike(step)
                events.append((time.monotonic() - began + step.seconds, 1, step))
        operators.see()
        time.sleep(0.1)
    operators.finish()
    for each in nemesis.notes:
        print("damage:", each)
    ended = sorted(operators.ended.items(), key=str)
    return {f"{name} {code}": count for (name, code), count in ended}


def print_failures(verdict: Verdict, history: list[Told]) -> None:
    for each in verdict.failures[:SHOWN]:
        print("FAILURE", each)
    shown = [(list(window(each, history)), each) for each in verdict.anomalies]
    if shown:
        lines, anomaly = min(shown, key=lambda each: len(each[0]))
        print(f"The smallest part of the history that shows one: {anomaly}")
        for line in lines[:SHOWN]:
            print("   ", line)


@contextlib.contextmanager
def logs_kept(folder: Path, seed: str) -> Iterator[None]:
    """Keep the logs of a run that could not be judged."""
    try:
        yield
    except Exception:
        print_logs(folder, seed)
        raise


def print_logs(folder: Path, seed: str) -> None:
    print(f"seed {seed}; everything that was logged is in {kept(folder)}", flush=True)


def kept(folder: Path) -> Path:
    """Copy the logs of a run to a folder that stays; return it."""
    target = Path(tempfile.mkdtemp(prefix="zodbrepl-chaos-logs-"))
    for name in ("logs", "clients"):
        shutil.copytree(
            folder / name, target / name, symlinks=True, ignore=shutil.ignore_patterns("etc")
        )
    copy_logs(folder / "lab", target)
    return target


def print_table(path: Path) -> None:
    results: list[dict[str, Any]] = list(map(json.loads, path.read_text().splitlines()))
    print("|", " | ".join(each.replace("_", " ") for each in COLUMNS), "|")
    print("|" + "---|" * len(COLUMNS))
    for each in results:
        print("|", " | ".join(str(each[name]) for name in COLUMNS), "|")


if __name__ == "__main__":
    main()
