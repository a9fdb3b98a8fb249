"""Fill an Indico with conferences and contributions, quickly and repeatably.

`specification` says what is made (pure; the same on Python 2.7 and 3), `model`
makes it by Indico's own calls, `bulk` stamps it out, `loading` puts it into the
storage batch by batch, `record` keeps in the storage how far a run came, `verify` compares the
record with what the storage holds.
"""
