"""Adopt an existing Indico: examine its Data.fs, copy, migrate, start, prepare and verify.

The data plane's programs read and write the databases.  This package decides what may begin,
records each finished stage, and continues an interrupted adoption.
"""
