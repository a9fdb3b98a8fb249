"""RelStorage on PostgreSQL."""

from .backend import PostgreSQL

__all__ = ["PostgreSQL"]
