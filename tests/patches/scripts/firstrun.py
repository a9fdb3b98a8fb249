"""Creates the content of the test site: an administrator, a category, an event, an API key."""
import json

from indico.core.db import DBMgr
from indico.util.contextManager import ContextManager
from indico.web.http_api.auth import APIKey

import client


def create():
    from indico.core.index import Catalog
    from MaKaC.authentication.AuthenticationMgr import AuthenticatorMgr
    from MaKaC.common.info import HelperMaKaCInfo
    from MaKaC.conference import CategoryManager, DefaultConference
    from MaKaC.plugins import PluginsHolder
    from MaKaC.user import Avatar, AvatarHolder, LoginInfo
    from MaKaC.webinterface.rh.categoryDisplay import UtilsConference

    root = CategoryManager().getRoot()
    Catalog.updateDB()
    plugins = PluginsHolder()
    plugins.loadAllPlugins()
    plugins.reloadAllPlugins()

    admin = Avatar()
    admin.setName('Ada')
    admin.setSurName('Admin')
    admin.setOrganisation('Tests')
    admin.setLang('en_GB')
    admin.setEmail('ada@example.org')
    AvatarHolder().add(admin)
    admin.activateAccount()
    authenticators = AuthenticatorMgr()
    authenticators.add(authenticators.createIdentity(LoginInfo('ada', client.PASSWORD), admin, 'Local'))
    site = HelperMaKaCInfo.getMaKaCInfoInstance()
    site.getAdminList().grant(admin)
    site.setDefaultConference(DefaultConference())

    category = root.newSubCategory(0)
    category.setName('Category of tests')
    event = category.newConference(admin)
    UtilsConference.setValues(event, dict(
        title='An event', description='', keywords='', Timezone='UTC',
        sYear='2020', sMonth='1', sDay='2', sHour='9', sMinute='0',
        eYear='2020', eMonth='1', eDay='2', eHour='18', eMinute='0',
        locationName='', roomName='', eventType='conference', defaultStyle='static'))
    key = APIKey(admin)
    key.newKey()
    key.newSignKey()
    return {'category': category.getId(), 'event': event.getId(), 'key': key.getKey()}


if __name__ == '__main__':
    ContextManager.set('autoOps', [])
    DBMgr.getInstance().startRequest()
    ids = create()
    DBMgr.getInstance().endRequest(True)

    # what GETs create, so that later they need not write
    browser = client.Client()
    browser.login()
    for path in ('/', '/category/%(category)s/' % ids, '/event/%(event)s/' % ids, '/missing',
                 '/export/event/%(event)s.json?ak=%(key)s' % ids):
        browser.get(path)
    client.database().close()
    print json.dumps(ids)
