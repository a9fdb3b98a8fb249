"""NEO: masters that elect a leader, and storages that hold copies of parts of the data."""

from indico_zodbrepl.backends.neo.backend import NEO

__all__ = ["NEO"]
