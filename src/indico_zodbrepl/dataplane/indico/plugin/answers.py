"""The base class of the plugin's handlers, which answer JSON."""
from __future__ import absolute_import

import json

from MaKaC.webinterface.rh.base import RH


class RHJson(RH):
    """A handler that answers JSON with no caching; denied requests get 403 and the reason."""

    def _processAccessError(self, error):
        return self._answer({'error': str(error)})

    def _answer(self, content):
        self._responseUtil.content_type = 'application/json'
        self._responseUtil.headers['Cache-Control'] = 'no-store'
        return json.dumps(content, sort_keys=True)
