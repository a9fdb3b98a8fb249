"""The request handler of the plugin's status."""
import os

from indico.core.db import DBMgr

from indico_zodbrepl.dataplane.plugin.access import Refused
from indico_zodbrepl.dataplane.plugin.answers import RHJson
from indico_zodbrepl.dataplane.status import storage_status


class RHStatus(RHJson):
    """The storage's status as JSON; 403, as JSON too, for who is not an admin."""

    def _checkProtection(self):
        user = self._getUser()
        if user is None or not user.isAdmin():
            raise Refused('for administrators only')

    def _process(self):
        status = storage_status(DBMgr.getInstance()._db)
        status.update(
            instance=os.environ.get('ZODBREPL_INSTANCE'), pid=os.getpid())
        return self._answer(status)
