"""Pack a NEO cluster; only a client can request that."""
from __future__ import absolute_import

import time

from indico_zodbrepl.dataplane.neo.client import CONNECT_LIMIT, NEOClient
from indico_zodbrepl.dataplane.neo.control import Failed
from indico_zodbrepl.dataplane.neo.errors import PackIncomplete, PackRefused

_CACHE = 1 << 20  # bytes; a pack reads nothing


def pack(masters, cluster, days):
    """Remove records that were superseded more than `days` days ago; garbage stays.

    Returns: packed_to, in seconds since 1970.  Raises Failed if a copy is
    missing, or a storage goes away before it has packed; StorageAway without a
    primary master.
    """
    moment = time.time() - days * 86400
    client = NEOClient(masters, cluster, _CACHE, CONNECT_LIMIT)
    try:
        client.pack(moment, None)
    except (PackRefused, PackIncomplete) as failure:
        raise Failed(str(failure))
    finally:
        client.close()
    return {'packed_to': moment}
