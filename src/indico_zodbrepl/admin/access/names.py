"""Names of accounts and tokens."""

from __future__ import annotations

import re

from indico_zodbrepl.errors import ExitCode, OperatorError

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,31}")


def normal(typed: str) -> str:
    """A name as somebody may type it, as it is kept."""
    return typed.strip().lower()


def checked(typed: str) -> str:
    """The name of a new account or token.  Raises OperatorError (exit 2)."""
    name = normal(typed)
    if not NAME.fullmatch(name):
        raise OperatorError(
            f"{typed!r} can't be a name", "it is kept in the journal, and typed to log in",
            "take letters, digits, dots, hyphens and underscores, 32 in all at most",
            ExitCode.BAD_CONFIG)
    return name
