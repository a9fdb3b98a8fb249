"""Requests to the process that holds the lab, over a socket in its folder.

A request is one line of JSON.  Its answer is lines of JSON: ``say`` with a text for the terminal,
then ``done`` with the result, or ``error``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import select
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from indico_zodbrepl.errors import ExitCode, OperatorError

NAME = "control.sock"
REQUEST_SECONDS = 10.0
"""For a request to arrive when its sender has connected."""
REQUEST_BYTES = 10_000

Say = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Request:
    """A fault, or the question how to enter a host.

    Attributes:
        verb: ``kill``, ``start``, ``isolate``, ``heal`` or ``enter``.
        host: its name; empty for ``heal``.
    """

    verb: str
    host: str = ""


Act = Callable[[Request, Say], list[str]]
"""Takes a request; the list is its result."""


@contextlib.contextmanager
def _address(folder: Path) -> Iterator[str]:
    """Yield an address of the socket that is short enough, however long the folder's path is."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{NAME}"
    finally:
        os.close(descriptor)


class Listener:
    """The socket of a lab; a context manager that removes it.

    Args:
        folder: of the lab, which the caller holds, so that a socket that is there is of nobody.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with _address(folder) as address:
            self._socket.bind(address)
        self._path.chmod(0o600)
        self._socket.listen()

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_error: object) -> None:
        self._socket.close()
        self._path.unlink(missing_ok=True)

    def serve(self, seconds: float, act: Act) -> None:
        """Serve one request, or return after that many seconds without one."""
        if not select.select([self._socket], [], [], seconds)[0]:
            return
        peer, _ = self._socket.accept()
        with peer:
            peer.settimeout(REQUEST_SECONDS)
            with peer.makefile("rw", encoding="utf-8") as stream:
                try:
                    request = Request(**json.loads(stream.readline(REQUEST_BYTES)))
                except (OSError, ValueError, TypeError):
                    return  # no request of ours
                _answer(stream, request, act)


def _answer(stream: IO[str], request: Request, act: Act) -> None:
    def send(answer: dict[str, Any]) -> None:
        # The request is taken to its end though its sender may have gone.
        with contextlib.suppress(OSError):
            stream.write(json.dumps(answer) + "\n")
            stream.flush()

    try:
        send({"done": act(request, lambda line: send({"say": line}))})
    except OperatorError as error:
        code = int(error.exit_code)
        send({"error": [error.notice, error.detail, error.hint, code]})


def ask(folder: Path, request: Request, say: Say) -> list[str]:
    """Send a request to the process that holds the lab of a folder; return its result.

    Raises OperatorError: exit 6, there is none, or it ended; otherwise as the request.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        try:
            with _address(folder) as address:
                peer.connect(address)
        except (FileNotFoundError, ConnectionRefusedError) as error:
            raise _not_running(folder) from error
        with peer.makefile("rw", encoding="utf-8") as stream:
            try:
                stream.write(json.dumps(dataclasses.asdict(request)) + "\n")
                stream.flush()
                return _heard(stream, say, folder)
            except (BrokenPipeError, ConnectionResetError) as error:
                raise _not_running(folder) from error


def _heard(stream: IO[str], say: Say, folder: Path) -> list[str]:
    for line in stream:
        answer = json.loads(line)
        if "say" in answer:
            say(answer["say"])
        elif "error" in answer:
            notice, detail, hint, code = answer["error"]
            exit_code = next(each for each in ExitCode if int(each) == code)
            raise OperatorError(notice, detail, hint, exit_code)
        else:
            return list(answer["done"])
    raise _not_running(folder)


def _not_running(folder: Path) -> OperatorError:
    return OperatorError(
        "the demo of several hosts is not running",
        f"nothing answers in {folder}",
        "start it in another terminal: make demo-hosts",
        ExitCode.NOT_RUNNING,
    )
