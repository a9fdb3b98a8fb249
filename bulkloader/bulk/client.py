"""Send many new records to a ZEO server in one go."""
from ZEO.ClientStorage import ClientStorage
from ZODB.utils import z64


def client_of(storage):
    """Return the ClientStorage that a storage is or wraps; else None."""
    while storage is not None and not isinstance(storage, ClientStorage):
        storage = getattr(storage, 'base', None)
    return storage


def send(client, transaction, records):
    """Store new objects in a transaction that has begun, as `ClientStorage.store` does.

    That one wakes the thread that sends for each object, which takes longer than the sending. What
    the server says against a record is raised by the vote.

    Args:
        client: what `client_of` returned.
        transaction: as given to the storage's `tpc_begin`.
        records: (oid, data). The client's cache gets none of them.
    """
    client._check_trans(transaction, 'store')
    its_id = id(transaction)
    client._async_iter([('storea', (oid, z64, data, its_id)) for oid, data in records])
