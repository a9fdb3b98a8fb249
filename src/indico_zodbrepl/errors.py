"""The one way in which a command tells an operator that it could not do it."""

from __future__ import annotations

import enum


class ExitCode(enum.IntEnum):
    """Exit codes of ``bin/zodbrepl``, each with its meaning; ``status`` has its own four.

    Attributes:
        meaning: for the reference, one line.
    """

    meaning: str

    def __new__(cls, code: int, meaning: str) -> ExitCode:
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    OK = 0, "done"
    FAILED = 1, "it could not be done; the message says why"
    BAD_CONFIG = 2, "the cluster file or the command line is wrong; nothing was changed"
    NOT_INSTALLED = 4, "the installation is not complete: run `./bootstrap`"
    PORT_TAKEN = 5, "a port that the cluster needs is taken; nothing was started"
    NOT_RUNNING = 6, "what the command works on is not running"
    TIMED_OUT = 7, "something did not happen in time"
    REFUSED = 8, "refused, because going on could lose or mix up data"
    INTERRUPTED = 130, "interrupted by Ctrl-C; `demo` also by SIGTERM or SIGHUP"


class OperatorError(Exception):
    """Something an operator has to know of, in the pattern NOTICE / DETAIL / HINT.

    Args:
        notice: what could not be done, one line without a full stop.
        detail: where and why; may be empty.
        hint: what to do about it, as an exact command where there is one.
        exit_code: the process's exit code.
    """

    def __init__(self, notice: str, detail: str = "", hint: str = "",
                 exit_code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(notice)
        self.notice = notice
        self.detail = detail
        self.hint = hint
        self.exit_code = exit_code

    def __str__(self) -> str:
        lines = [f"NOTICE: {self.notice}"]
        if self.detail:
            lines.append(f"DETAIL: {self.detail}")
        if self.hint:
            lines.append(f"HINT: {self.hint}")
        return "\n".join(lines)
