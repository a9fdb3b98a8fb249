"""The list of pages that the load asks for, made of what a site holds."""

from __future__ import annotations

import dataclasses
import http.client
import json
import random
import time
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

from ..cluster.model import IndicoInstance
from ..errors import OperatorError

COUNT = 2500
"""Entries of the list; where the site has fewer different pages some come more than once."""

MIX: Mapping[str, int] = {
    "conference": 35, "contribution": 20, "timetable": 15, "contributions": 10, "category": 10,
    "start page": 5, "overview": 3, "help": 2}
"""Kinds of pages, in percent of the list."""

NEEDING_MOST = ("timetable", "conference", "category", "contributions", "overview",
                "contribution", "start page", "help")

EVENTS_LIMIT = 1000
DETAILED_LIMIT = 100
ASKING_SECONDS = 120.0
PATIENCE_SECONDS = 30.0
PAUSE_SECONDS = 0.5


@dataclasses.dataclass(frozen=True)
class Holdings:
    """What pages there are.

    Attributes:
        categories, conferences: their ids.
        contributions: of some of the conferences, pairs of conference's and contribution's id.
    """

    categories: Sequence[str]
    conferences: Sequence[str]
    contributions: Sequence[tuple[str, str]]


def paths(held: Holdings, count: int = COUNT, seed: int = 0) -> list[str]:
    """The list, in a random order that is always the same: paths below an Indico's base URL."""
    chance = random.Random(seed)  # noqa: S311  # the list is to be repeatable
    pages = _of_kinds(held)
    found: list[str] = []
    for kind, wanted in counts(count).items():
        repeated = pages[kind] * (wanted // len(pages[kind]))
        found += repeated + chance.sample(pages[kind], wanted - len(repeated))
    chance.shuffle(found)
    return found


def different(held: Holdings) -> list[str]:
    """Each page that the list may have, once; those first that need most of the database."""
    pages = _of_kinds(held)
    return [path for kind in sorted(pages, key=NEEDING_MOST.index) for path in pages[kind]]


def counts(count: int) -> dict[str, int]:
    """How many entries of each kind a list of ``count`` has; the first kind fills it up."""
    found = {kind: count * percent // 100 for kind, percent in MIX.items()}
    found[next(iter(MIX))] += count - sum(found.values())
    return found


def held_by(instance: IndicoInstance, patience: float = PATIENCE_SECONDS) -> Holdings:
    """What an Indico tells that it holds, by its export, without a login.

    Args:
        patience: seconds; what another process has just committed may be seen a moment later.

    Raises:
        OperatorError: exit 1, it does not tell, or holds no conference with contributions.
    """
    deadline = time.monotonic() + patience
    while True:
        events = _export(instance, "events", EVENTS_LIMIT)
        detailed = _export(instance, "contributions", DETAILED_LIMIT) if events else []
        if any(event["contributions"] for event in detailed) or time.monotonic() > deadline:
            break
        time.sleep(PAUSE_SECONDS)
    held = Holdings(
        sorted({str(each["categoryId"]) for each in events}, key=_in_order),
        sorted((str(each["id"]) for each in events), key=_in_order),
        sorted((str(event["id"]), str(each["id"])) for event in detailed
               for each in event["contributions"]))
    if not held.contributions:
        raise OperatorError(f"{instance.base_url} holds no conference with contributions")
    return held


def _of_kinds(held: Holdings) -> dict[str, list[str]]:
    return {
        "conference": [f"/event/{each}/" for each in held.conferences],
        "contribution": [f"/event/{conference}/contribution/{each}"
                         for conference, each in held.contributions],
        "timetable": [f"/event/{each}/timetable/" for each in held.conferences],
        "contributions": [f"/event/{each}/contributions" for each in held.conferences],
        "category": [f"/category/{each}/" for each in held.categories],
        "start page": ["/"],
        "overview": [f"/category/{each}/overview" for each in held.categories],
        "help": ["/help", "/about", "/contact", "/news"]}


def get(instance: IndicoInstance, path: str, timeout: float) -> tuple[int, bytes]:
    """The status and the content of a page, by its path below the instance's base URL.

    Raises OSError or http.client.HTTPException when there is no answer within so many seconds.
    """
    base = urllib.parse.urlsplit(instance.base_url).path
    connection = http.client.HTTPConnection(instance.host, instance.port, timeout=timeout)
    try:
        connection.request("GET", base + path)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def _export(instance: IndicoInstance, detail: str, limit: int) -> list[dict[str, Any]]:
    try:
        status, body = get(instance, f"/export/categ/0.json?detail={detail}&limit={limit}"
                           "&nocache=yes", ASKING_SECONDS)
        if status != http.client.OK:
            raise OperatorError("Indico does not tell what it holds",
                                f"{instance.base_url}: HTTP status {status}")
        found: list[dict[str, Any]] = json.loads(body)["results"]
    except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
        raise OperatorError("Indico does not tell what it holds",
                            f"{instance.base_url}: {error!r}") from error
    return found


def _in_order(number: str) -> tuple[int, str]:
    return len(number), number
