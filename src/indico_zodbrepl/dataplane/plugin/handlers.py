"""Request handlers of the plugin."""
import json
import os

from indico.core.db import DBMgr
from MaKaC.errors import AccessError
from MaKaC.webinterface.rh.base import RH

from indico_zodbrepl.dataplane.status import storage_status


class RHStatus(RH):
    """The storage's status as JSON; 403, as JSON too, for who is not an admin."""

    def _checkProtection(self):
        user = self._getUser()
        if user is None or not user.isAdmin():
            raise AccessError()

    def _process(self):
        status = storage_status(DBMgr.getInstance()._db)
        status.update(
            instance=os.environ.get('ZODBREPL_INSTANCE'), pid=os.getpid())
        return self._answer(status)

    def _processAccessError(self, error):
        return self._answer({'error': 'for administrators only'})

    def _answer(self, content):
        self._responseUtil.content_type = 'application/json'
        self._responseUtil.headers['Cache-Control'] = 'no-store'
        return json.dumps(content, sort_keys=True)
