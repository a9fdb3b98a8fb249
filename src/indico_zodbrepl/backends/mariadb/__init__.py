"""RelStorage on MariaDB: a primary and its followers, by global transaction ids."""

from .backend import MariaDB

__all__ = ["MariaDB"]
