"""NEO: masters that agree on who leads, storages that hold copies of parts of the data."""

from indico_zodbrepl.backends.neo.backend import NEO

__all__ = ["NEO"]
