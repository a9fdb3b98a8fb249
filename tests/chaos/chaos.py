"""Random faults on three hosts, and a judgement of what clients saw.

    bin/control-python tests/chaos/chaos.py [--minutes M] [--seed N] [--faults A,B]
        [--backend NAME] [--synchronous K]

The same seed repeats the same schedule of faults.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "harness"), str(HERE.parent / "hosts/harness")]

import leaders  # noqa: E402
import list_appends  # noqa: E402
import registers  # noqa: E402
from histories import Transaction  # noqa: E402
from logs import final_state  # noqa: E402
from nemesis import FAULTS, Nemesis, Undo  # noqa: E402
from operators import Operators  # noqa: E402
from registers import Access  # noqa: E402
from schedule import Step, plan  # noqa: E402
from stage import Stage  # noqa: E402
from three import PATIENCE  # noqa: E402
from traffic import now  # noqa: E402

from indico_zodbrepl.probing.waiting import wait_until  # noqa: E402

RECOVERY_SECONDS = 180.0
SHOWN = 20


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--minutes", type=float, default=3.0)
    options.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    options.add_argument("--faults", default="", help="names, separated by commas; all by default")
    options.add_argument("--backend", default="zrs")
    options.add_argument("--synchronous", type=int, default=1)
    given = options.parse_args()
    names = given.faults.split(",") if given.faults else list(FAULTS)
    steps = plan(given.seed, 60 * given.minutes, [FAULTS[name].sort for name in names])
    print(f"seed {given.seed}: {len(steps)} faults", flush=True)
    with tempfile.TemporaryDirectory(prefix="zodbrepl-chaos-") as folder:
        stage = Stage(
            Path(folder),
            backend=given.backend,
            synchronous=given.synchronous,
            seconds=60 * given.minutes + RECOVERY_SECONDS + PATIENCE,
            seed=given.seed,
        )
        with contextlib.closing(stage):
            run(stage, steps, 60 * given.minutes)
            judge(stage, given.synchronous)


def run(stage: Stage, steps: list[Step], seconds: float) -> None:
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
    ended = sorted(operators.ended.items(), key=str)
    print("commands:", ", ".join(f"{name} {code}: {count}" for (name, code), count in ended))
    print("damage:", "; ".join(nemesis.notes))


def judge(stage: Stage, synchronous: int) -> None:
    began = time.monotonic()

    def is_whole() -> bool:
        stage.see()
        return stage.cluster.is_whole()

    whole = wait_until(is_whole, began + RECOVERY_SECONDS, 1.0)
    print(f"whole: {whole} after {time.monotonic() - began:.0f} s")
    if not whole:
        print(stage.cluster.zodbrepl("h2", "status", code=None).stdout)
    stage.clients.see_more()
    stage.clients.stop()
    history = stage.clients.history()
    shown = {node: stage.clients.shown(node) for node in stage.cluster.nodes}
    same = len(set(shown.values())) == 1
    print("all nodes have the same:", same)
    end = now()
    lists, values = final_state(shown[stage.cluster.primary("h2")])
    exported = frozenset(stage.cluster.exported()) if not synchronous else frozenset()
    found = list_appends.judge(history.transactions, lists, exported)
    terms = stage.cluster.epoch()
    anomalies = [
        *found.anomalies,
        *registers.judge(history.accesses, values, end, exported),
        *leaders.judge(history.transactions, terms),
    ]
    print(
        f"{len(history.transactions)} transactions on lists, {len(history.accesses)} on values, "
        f"{history.failed} failed; {found.acknowledged} acknowledged, "
        f"{found.unknown_kept}+{found.unknown_gone} unknown, {found.excused} exported; "
        f"{terms} terms"
    )
    told: dict[int, Transaction | Access] = {each.number: each for each in history.transactions}
    told |= {each.number: each for each in history.accesses}
    for anomaly in anomalies[:SHOWN]:
        print(anomaly)
        for number in anomaly.numbers[:SHOWN]:
            print("   ", told.get(number))
    sys.exit(1 if anomalies or not whole or not same else 0)


if __name__ == "__main__":
    main()
