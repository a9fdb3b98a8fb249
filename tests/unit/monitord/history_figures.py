"""How much processor time the monitor's history of measurements takes.

``make history-figures`` adds the measurements of some hours, one round a second, and prints the CPU
seconds for each hour, and the bytes written.  It is no test.
"""

from __future__ import annotations

import argparse
import itertools
import math
import resource
import tempfile
import time
from pathlib import Path

from indico_zodbrepl.monitord.history import FILE, Store
from indico_zodbrepl.monitord.series import Kind, Measured, Series

HOUR = 3600


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=int, default=1, help="of measurements; default 1")
    parser.add_argument("--subjects", type=int, default=10, help="of each kind; default 10")
    asked = parser.parse_args()
    names = [
        Series(kind, f"subject {number}")
        for kind, number in itertools.product(Kind, range(asked.subjects))
    ]
    now = time.time() - HOUR * asked.hours
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, FILE)
        store = Store(path)
        blocks, used = resource.getrusage(resource.RUSAGE_SELF).ru_oublock, time.process_time()
        for second in range(HOUR * asked.hours):
            wave = 3 + 3 * math.sin(second / 200)
            values = [(each, wave * (1 + place)) for place, each in enumerate(names)]
            store.add(now + second, Measured(values, {"one": {0.002: 3, 0.016: second % 5}}))
        store.close()
        used = time.process_time() - used
        blocks = resource.getrusage(resource.RUSAGE_SELF).ru_oublock - blocks
        size = path.stat().st_size
    busy, written = used / asked.hours, blocks * 512 / asked.hours / 2**20
    print(f"{len(names)} series, {asked.hours} h of rounds, one a second:")
    print(f"  CPU: {busy:.2f} s an hour, {100 * busy / HOUR:.3f} % of a core")
    print(f"  written: {written:.1f} MiB an hour; file: {size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
