"""What somebody may do, and who somebody is during one request."""

from __future__ import annotations

import dataclasses
import enum


class Level(enum.StrEnum):
    """A viewer sees everything; an operator also begins operations."""

    VIEWER = "viewer"
    OPERATOR = "operator"


@dataclasses.dataclass(frozen=True)
class Person:
    """Whoever a request comes from: somebody logged in, or a program with a token.

    The properties are what Flask-Login asks of a user.

    Attributes:
        stamp: changes with the password; empty for a token.
        by_token: whether the request proved itself with a token.
    """

    name: str
    level: Level
    stamp: str = ""
    by_token: bool = False

    is_authenticated = True
    is_active = True
    is_anonymous = False

    def get_id(self) -> str:
        """What a session keeps of a person."""
        return f"{self.name}:{self.stamp}"

    @property
    def actor(self) -> str:
        """The name under which the journal keeps what was done."""
        return f"{self.name} ({'token' if self.by_token else 'admin page'})"
