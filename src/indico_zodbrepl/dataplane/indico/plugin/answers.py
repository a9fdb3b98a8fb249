"""What the plugin's handlers have in common: they answer JSON."""
from __future__ import absolute_import

import json

from MaKaC.webinterface.rh.base import RH


class RHJson(RH):
    """Answers JSON that nobody keeps; who is not let in gets 403 and why."""

    def _processAccessError(self, error):
        return self._answer({'error': str(error)})

    def _answer(self, content):
        self._responseUtil.content_type = 'application/json'
        self._responseUtil.headers['Cache-Control'] = 'no-store'
        return json.dumps(content, sort_keys=True)
