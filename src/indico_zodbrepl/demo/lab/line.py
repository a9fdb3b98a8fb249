"""Pass frames on between two network interfaces, late and no faster than a line does.

    line.py ONE OTHER DELAY_MS MEGABITS JITTER_MS

It is run as a file in the switch, where the kernel may have no module for it (netem), and uses the
standard library alone.  Frames keep the header by which the kernel combines several of them and
leaves out checksums (virtio_net_hdr), or it would have to be told not to.
"""

from __future__ import annotations

import contextlib
import errno
import heapq
import random
import select
import socket
import sys
import time
from dataclasses import dataclass, field

ETH_P_ALL = 3
SOL_PACKET = 263  # packet(7)
PACKET_VNET_HDR = 15
PACKET_IGNORE_OUTGOING = 23
FRAME_BYTES = 1 << 17
BUFFER_BYTES = 16 << 20
QUEUE_SECONDS = 0.2
"""What a slow line queues before it drops frames, as routers do."""
QUEUE_BYTES = 1 << 18
"""A slow line queues at least some of the largest combined frames."""
# The interface, or the one at its other end, is down or gone; the device's queue is full.
DROPPED = {errno.ENETDOWN, errno.ENXIO, errno.ENODEV, errno.ENOBUFS, errno.EAGAIN}


@dataclass
class Direction:
    """Frames under way to one interface.

    Attributes:
        target: where they leave.
        delay: seconds.
        rate: bytes a second; 0 for no limit.
        jitter: seconds by which a frame may be later, so that others overtake it.
    """

    target: socket.socket
    delay: float
    rate: float
    jitter: float = 0.0
    _due: list[tuple[float, int, bytes]] = field(default_factory=list)
    _free: float = 0.0
    _queued: int = 0
    _count: int = 0

    def take(self, frame: bytes, now: float) -> None:
        """Queue a frame, or drop it if too many are queued."""
        limit = max(QUEUE_BYTES, self.rate * (QUEUE_SECONDS + self.delay))
        if self._queued + len(frame) > (limit if self.rate else BUFFER_BYTES):
            return
        self._free = max(now, self._free) + (len(frame) / self.rate if self.rate else 0.0)
        late = self.delay + random.uniform(0.0, self.jitter)  # noqa: S311  # no secret
        self._count += 1
        heapq.heappush(self._due, (self._free + late, self._count, frame))
        self._queued += len(frame)

    def send(self, now: float) -> float | None:
        """Send what is due; return the seconds until the next frame is, None without one."""
        while self._due:
            due, _, frame = self._due[0]
            if due > now:
                return due - now
            heapq.heappop(self._due)
            self._queued -= len(frame)
            with dropped():
                self.target.send(frame)
        return None


class dropped(contextlib.AbstractContextManager[None]):  # noqa: N801 - like contextlib.suppress
    """Context: a frame that cannot be received or sent is lost."""

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> bool:
        return isinstance(error, OSError) and error.errno in DROPPED


def opened(interface: str) -> socket.socket:
    """Return a socket that gets and sends all frames of an interface."""
    found = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    found.setblocking(False)
    found.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    found.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        found.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
    found.bind((interface, ETH_P_ALL))
    return found


def main(one: str, other: str, delay_ms: str, megabits: str, jitter_ms: str) -> None:
    delay, rate = float(delay_ms) / 1000, float(megabits) * 1e6 / 8
    jitter = float(jitter_ms) / 1000
    ends = [opened(one), opened(other)]
    directions = {
        ends[0]: Direction(ends[1], delay, rate, jitter),
        ends[1]: Direction(ends[0], delay, rate, jitter),
    }
    print("up", flush=True)
    wait: float | None = None
    while True:
        ready, _, _ = select.select(ends, [], [], wait)
        now = time.monotonic()
        for source in ready:
            with dropped():
                directions[source].take(source.recv(FRAME_BYTES), now)
        waits = [direction.send(now) for direction in directions.values()]
        wait = min((each for each in waits if each is not None), default=None)


if __name__ == "__main__":
    main(*sys.argv[1:])
