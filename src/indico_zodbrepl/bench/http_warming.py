"""Fills the caches of workers before they are measured.

A worker's first answer of a page reads the page's objects from the storage, and costs a multiple of
the later ones.  The pages are too many for the trials themselves to get all of that over with: the
first trials of a search would fail for it.
"""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from ..cluster.model import IndicoInstance
from ..cluster.programs import INDICO_THREADS
from ..errors import ExitCode, OperatorError
from .http_pages import get

ANSWER_SECONDS = 60.0


def warm(instances: Sequence[IndicoInstance], paths: Sequence[str], seconds: float) -> int:
    """Ask all instances for all pages, whatever is answered, until the time is up.

    Each of a worker's threads has a connection to the database with objects of its own.  So each
    instance is asked by as many clients at once as it has threads, each for all pages.

    Returns:
        How many pages were asked for in all.

    Raises:
        OperatorError: exit 6, an instance does not answer.
    """
    ended = threading.Event()
    deadline = time.monotonic() + seconds

    def ask(instance: IndicoInstance, number: int) -> int:
        first = number * len(paths) // INDICO_THREADS
        asked = 0
        for path in (*paths[first:], *paths[:first]):
            if ended.is_set() or time.monotonic() > deadline:
                break
            try:
                _ask(instance, path)
            except OperatorError:
                ended.set()
                raise
            asked += 1
        return asked

    with ThreadPoolExecutor(len(instances) * INDICO_THREADS) as pool:
        try:
            clients = [pool.submit(ask, instance, number)
                       for instance in instances for number in range(INDICO_THREADS)]
            return sum(each.result() for each in clients)
        finally:
            ended.set()


def _ask(instance: IndicoInstance, path: str) -> None:
    try:
        get(instance, path, ANSWER_SECONDS)
    except (OSError, http.client.HTTPException) as error:
        raise OperatorError(f"{instance.program} does not answer",
                            f"{instance.base_url}{path}: {error!r}",
                            exit_code=ExitCode.NOT_RUNNING) from error
