"""The bulk way: new events are stamped out as ready-made records (Python 2.7).

Indico's model makes some events of each layout (`samples`). Where their records differ (`cutting`)
is where their own values are: these are the `holes` of a `stencil`, which proves itself with
further events before it is used. `stamping` fills it with the `values` of new events; `rows` puts
their records together as a file has them.

`records` brings these into a transaction, `datafs` into a Data.fs that this process opened,
`client` to a ZEO server.
`indexes`, `sets` and `names` change what Indico keeps of events outside of them; `making` does all
of this for a batch.
"""
