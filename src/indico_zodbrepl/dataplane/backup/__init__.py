"""Back up a Data.fs with ZODB's repozo; find what a data file has that a restored one lacks.

Runs as a program of its own: see ``__main__``.
"""
