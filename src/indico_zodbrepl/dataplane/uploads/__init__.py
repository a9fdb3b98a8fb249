"""Files that users uploaded: move them between Indico's archive and blobs, and verify them.

`entries` reads what Indico's repositories record, `database` opens the storage and commits,
`reading` reads committed content back, `importing`, `exporting` and `verifying` do the work.
Indico's code is not imported: stand-ins replace its classes.
"""
