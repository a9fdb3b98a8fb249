"""Deletes a file of an event: delete_file.py EVENT MATERIAL NUMBER; prints its object id.

Run in a process of its own: Indico is configured once a process.
"""
import sys

from indico.core.db import DBMgr
from indico.util.contextManager import ContextManager
from MaKaC.conference import ConferenceHolder

event, material, number = sys.argv[1:]
ContextManager.set('autoOps', [])
DBMgr.getInstance().startRequest()
owner = ConferenceHolder().getById(event).getMaterialById(material)
deleted = owner.getResourceById(number)
owner.removeResource(deleted)
DBMgr.getInstance().endRequest(True)
print(deleted._p_oid.encode('hex'))
