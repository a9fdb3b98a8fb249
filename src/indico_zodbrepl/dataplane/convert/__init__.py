"""Copy a database with its whole history from one storage to another, and verify the copy.

Data.fs, RelStorage and NEO, in any combination.  Existing content of the
target must be the beginning of the source; the copy continues from there.  See
`__main__` for the program.
"""
