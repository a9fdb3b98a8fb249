"""Compares records of `bulk.sets` with ZODB's; prints as JSON which differ and how many there are."""
import json

from BTrees.IOBTree import IOTreeSet
from BTrees.OOBTree import OOSet, OOTreeSet
from bulkloader.bulk.names import stand_in
from bulkloader.bulk.sets import MOST, events_record, moment_record
from bulkloader.database import connected, opened
from ZODB.serialize import ObjectWriter
from ZODB.utils import p64

with opened() as manager:
    with connected(manager) as root:
        connection = root._p_jar
        pairs = []

        def pickled(value):
            connection.add(value)
            return ObjectWriter(value).serialize(value)

        for cls, most in (OOSet, 40), (OOTreeSet, MOST):
            for count in range(1, most + 1):
                oids = [p64(1000 + number) for number in range(count)]
                events = [stand_in(connection, oid, '%03d' % number)
                          for number, oid in enumerate(oids)]
                pairs.append(((cls.__name__, count), events_record(cls, oids),
                              pickled(cls(events))))
        pairs.append(('moment', moment_record(1063000000), pickled(IOTreeSet([1063000000]))))
        print json.dumps({'different': [name for name, made, own in pairs if made != own],
                          'compared': len(pairs)})
