"""Restores a deleted file of an event: restore_file.py OBJECT-ID EVENT MATERIAL.

Run in a process of its own: Indico is configured once a process.
"""
import sys

from indico.core.db import DBMgr
from indico.util.contextManager import ContextManager
from MaKaC.conference import ConferenceHolder

oid, event, material = sys.argv[1:]
ContextManager.set('autoOps', [])
DBMgr.getInstance().startRequest()
deleted = DBMgr.getInstance().getDBConnection().get(oid.decode('hex'))
ConferenceHolder().getById(event).getMaterialById(material).recoverResource(deleted)
DBMgr.getInstance().endRequest(True)
