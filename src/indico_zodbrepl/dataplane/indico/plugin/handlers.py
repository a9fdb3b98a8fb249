"""The request handler of the plugin's status."""
from __future__ import absolute_import

import os

from indico.core.db import DBMgr
from indico.web.flask.wrappers import IndicoBlueprint

from indico_zodbrepl.dataplane.client.status import storage_status
from indico_zodbrepl.dataplane.indico.plugin.access import Refused
from indico_zodbrepl.dataplane.indico.plugin.answers import RHJson
from indico_zodbrepl.dataplane.indico.plugin.benchmarks import RHBenchmark


class RHStatus(RHJson):
    """The storage's status as JSON; others than admins get 403, as JSON too."""

    def _checkProtection(self):
        user = self._getUser()
        if user is None or not user.isAdmin():
            raise Refused('for administrators only')

    def _process(self):
        status = storage_status(DBMgr.getInstance()._db)
        status.update(
            instance=os.environ.get('ZODBREPL_INSTANCE'), pid=os.getpid())
        return self._answer(status)


blueprint = IndicoBlueprint('zodbrepl', __name__, url_prefix='/zodbrepl')
blueprint.add_url_rule('/status', 'status', RHStatus)
blueprint.add_url_rule(
    '/benchmarks/<name>', 'benchmarks', RHBenchmark, methods=('POST',))
