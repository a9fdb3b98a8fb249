"""The log of the program: a line for each event, with the time in UTC."""

from __future__ import annotations

import datetime
import threading

from indico_zodbrepl.host.lines import write_line

_lock = threading.Lock()


def say(text: str) -> None:
    """Write a line."""
    at = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    with _lock:
        write_line(f"{at} {text}")


class Once:
    """Writes a line again only when another one about the same subject came in between."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}

    def say(self, subject: str, text: str) -> None:
        """Write the state of a subject if it has changed; an empty text is only remembered."""
        if self._said.get(subject, "") != text:
            self._said[subject] = text
            if text:
                say(text)
