"""Errors and exit codes of commands."""

from __future__ import annotations

import enum


class ExitCode(enum.IntEnum):
    """Exit codes of ``bin/zodbrepl``; ``status`` has its own.

    Attributes:
        meaning: one line, for the reference.
    """

    meaning: str

    def __new__(cls, code: int, meaning: str) -> ExitCode:
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    OK = 0, "done"
    FAILED = 1, "failed; the message gives the reason"
    BAD_CONFIG = 2, "the cluster file or the command line is invalid; nothing was changed"
    NOT_INSTALLED = 4, "the installation is incomplete: run `./bootstrap`"
    PORT_TAKEN = 5, "a port that the cluster needs is in use; nothing was started"
    NOT_RUNNING = 6, "a program that the command needs is not running"
    TIMED_OUT = 7, "timed out"
    REFUSED = 8, "refused: continuing could lose or mix data"
    NEWER_STATE = 9, "a state file is of a newer release; nothing was changed"
    UPGRADE_PENDING = 10, "`upgrade --check`: the upgrade is not complete; it prints the next steps"
    UNSUITABLE = (
        11,
        "`check --system` or the demo of several hosts: this host does not suit; the lines say why",
    )
    INTERRUPTED = 130, "interrupted by Ctrl-C; `demo` also by SIGTERM or SIGHUP"


class OperatorError(Exception):
    """An error for operators, with NOTICE, DETAIL and HINT.

    Args:
        notice: what failed; one line without a full stop.
        detail: why and where; may be empty.
        hint: how to fix it, as an exact command if there is one.
        exit_code: of the process.
    """

    def __init__(
        self, notice: str, detail: str = "", hint: str = "", exit_code: ExitCode = ExitCode.FAILED
    ) -> None:
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
