"""Random faults on real three-node ZRS clusters: `make faults`.

    bin/control-python tests/scenarios/random_faults.py [--minutes M] [--rounds N] [--seed N]
        [--round R]

Writers append keys all the time, readers compare pairs that are always equal. After each fault an
operator follows the advice of the tool, and nothing else, until the cluster is healthy. Then each
node's data file is read by itself: each acknowledged key has to be in all of them, in an export, or
part of a loss that the journal declares. Each read has to show a prefix of one history: the present
one, or one that the cluster abandoned.

``--seed`` and ``--round`` of a problem repeat its round on a fresh cluster. What is known of it is
kept in var/faults/. Exit code 1 if something is unaccounted for, was read though it is lost, or if
a cluster could not be brought back.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "harness"), str(HERE.parent / "integration")]

from fault_report import closing_line, keep, table  # noqa: E402
from fault_rounds import Round, Site, is_old, plan  # noqa: E402

MOST_NOT_STARTED = 3


def main() -> None:
    options = read_options()
    home = Path(os.environ.get("ZODBREPL_HOME", HERE.parents[1])).absolute()
    for each in (signal.SIGINT, signal.SIGTERM):  # SIGINT is ignored in the background
        signal.signal(each, signal.default_int_handler)
    print(f"seed {options.seed}", flush=True)
    found: list[Round] = []
    began = time.monotonic()
    try:
        run(options, home, found)
    except KeyboardInterrupt:
        print("interrupted; what was found so far:")
    finally:
        print(table(found, options.seed, time.monotonic() - began))
        print(closing_line(found))
        print(f"kept in {keep(found, options.seed, home / 'var/faults')}")
    sys.exit(1 if any(each.problems for each in found) else 0)


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--rounds", type=int, default=sys.maxsize, help="stop after so many")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--round", type=int, help="this round alone, on a fresh cluster")
    return parser.parse_args()


def run(options: argparse.Namespace, home: Path, found: list[Round]) -> None:
    """Add rounds to ``found`` until there are enough or the time is over.

    A round that began is completed.
    """
    deadline = time.monotonic() + 60 * options.minutes
    rounds = plan(options.seed)
    if options.round:
        rounds = itertools.islice(rounds, options.round - 1, options.round)
    not_started = 0
    for number in itertools.count(1):
        with tempfile.TemporaryDirectory(prefix="zodbrepl-faults-") as folder:
            Path(folder).chmod(0o755)
            try:
                site = Site(Path(folder), home, options.seed, number)
            except AssertionError as error:  # such as for a port that another program took
                print(f"cluster {number} did not start: {error}", flush=True)
                not_started += 1
                if not_started == MOST_NOT_STARTED:
                    raise
                continue
            try:
                for place, kind in rounds:
                    done = site.run(place, kind, options.seed, lambda line: print(line, flush=True))
                    if done is None:
                        continue
                    found.append(done)
                    say_result(done)
                    if done.problems:
                        site.keep(home / f"var/faults/{options.seed}-{place}-{done.fault}")
                    if len(found) >= options.rounds or time.monotonic() > deadline:
                        return
                    if done.problems or is_old(site):
                        break
                else:
                    return
            finally:
                site.close()


def say_result(done: Round) -> None:
    print(
        f"    {done.seconds:.0f} s: {done.acknowledged} acknowledged, {len(done.missing)} missing, "
        f"{len(done.exported)} exported, {len(done.declared)} declared, "
        f"{len(done.unaccounted)} unaccounted; {done.prefixes.checked} sights, "
        f"{len(done.prefixes.violations)} not a prefix, {done.prefixes.unjudged} unjudged, "
        f"{done.prefixes.back}+{done.prefixes.back_after_change} went back",
        *(f"    PROBLEM: {problem}" for problem in done.problems),
        sep="\n",
        flush=True,
    )


if __name__ == "__main__":
    main()
