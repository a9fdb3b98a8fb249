"""Copy a database with its whole history from one storage to another, and proves the copy.

Any of Data.fs, RelStorage and NEO to any other.  What the target has already must be the
beginning of the source; the copy goes on from there.  See `__main__` for the program.
"""
