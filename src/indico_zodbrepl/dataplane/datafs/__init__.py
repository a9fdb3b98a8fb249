"""Reads, compares, exports, cuts and copies Data.fs files without opening them as a storage.

A server may be writing such a file meanwhile; what counts is the part up to the end of the
last complete transaction.  `python -m indico_zodbrepl.dataplane.datafs` is the program.
"""
