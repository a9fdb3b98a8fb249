"""Backups of a Data.fs by ZODB's repozo, and what a data file has that a restored one lacks.

Runs as a program of its own: see ``__main__``.
"""
