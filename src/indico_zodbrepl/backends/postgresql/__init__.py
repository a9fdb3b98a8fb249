"""RelStorage on PostgreSQL."""

from indico_zodbrepl.backends.postgresql.backend import PostgreSQL

__all__ = ["PostgreSQL"]
