"""Recover divergent transactions from a recovery export into the running database."""
