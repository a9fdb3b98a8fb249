"""ZEO's own server with zc.zrs as it is, except for the one repair without which nothing is replicated.

usage: stock_server.py -C ZEO_CONF

Python 2.7.  The repair is that of the secondary's transactions; see
`indico_zodbrepl.dataplane.zrs.repairs`.  Sending, receiving and everything else is zc.zrs's.
"""
from ZEO.runzeo import main

from indico_zodbrepl.dataplane.zrs import repairs

if __name__ == '__main__':
    repairs.apply()
    main()
