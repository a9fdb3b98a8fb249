"""Who may see and do what: accounts, sessions, tokens, and the check before every request."""

from indico_zodbrepl.admin.access.levels import Level
from indico_zodbrepl.admin.access.rules import (
    actor,
    may_operate,
    operator,
    public,
    why_not_operate,
)

__all__ = ["Level", "actor", "may_operate", "operator", "public", "why_not_operate"]
