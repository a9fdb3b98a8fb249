"""RelStorage on MariaDB: a primary and its replicas, by global transaction ids."""

from indico_zodbrepl.backends.mariadb.backend import MariaDB

__all__ = ["MariaDB"]
