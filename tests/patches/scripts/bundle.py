"""Makes one bundle as a page does; prints its URL, its length, what Indico answers and its file.

Argument: a folder for bundles, or nothing.
"""
import json
import os
import sys

from indico.core.config import Config
from indico.core.db import DBMgr
from indico.web import assets

if sys.argv[1:]:
    Config.getInstance()._configVars['AssetsDir'] = sys.argv[1]

from MaKaC.webinterface.pages.base import WPBase  # noqa: E402: reads the configuration
import client  # noqa: E402

manager = DBMgr.getInstance()
manager.startRequest()
environment = WPBase(None)._asset_env
assets.register_all_js(environment)
url = environment['utils'].urls()[0]
manager.endRequest(False)

path = url.split('?')[0][len('/indico'):]
answer = client.Client().get(path)
print json.dumps({
    'path': path, 'status': answer['status'], 'type': answer['type'], 'body': answer['body'][:40],
    'plugin': assets.PluginEnvironment('search', '/nowhere', 'search').directory,
    'outside': client.Client().get('/static/assets/../../css/Default.css')['status'],
    'file': os.path.relpath(Config.getInstance().getStaticFile(path[1:]), os.getcwd()),
})
