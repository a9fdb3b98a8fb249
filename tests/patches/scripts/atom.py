# -*- coding: utf-8 -*-
"""Reads the atom feed of the event, which is put into another time zone before."""
import datetime
import json

import pytz
from lxml import etree

import client
from indico.core.db import DBMgr
from MaKaC.conference import ConferenceHolder

DBMgr.getInstance().startRequest()
event = ConferenceHolder().getById('0')
event.setTimezone('Europe/Zurich')
event.setTitle('Zürich & more')
event.setDates(datetime.datetime(2020, 1, 2, 9, tzinfo=pytz.utc), datetime.datetime(2020, 1, 2, 18, tzinfo=pytz.utc))
DBMgr.getInstance().endRequest(True)

answer = client.Client().get('/export/event/0.atom?tz=Europe/Zurich')
feed = etree.fromstring(answer['body'].encode('utf-8'))
atom = {'a': 'http://www.w3.org/2005/Atom'}
print json.dumps({'status': answer['status'], 'type': answer['type'],
                  'titles': feed.xpath('a:entry/a:title/text()', namespaces=atom),
                  'updated': feed.xpath('a:entry/a:updated/text()', namespaces=atom),
                  'links': feed.xpath('a:entry/a:link/@href', namespaces=atom)})
