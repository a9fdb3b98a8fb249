"""Read, compare, export, truncate and copy Data.fs files without opening them as a storage.

A server may be writing such a file; only the part up to the end of the last complete
transaction counts.  The program is `python -m indico_zodbrepl.dataplane.datafs`.
"""
