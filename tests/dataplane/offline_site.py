"""Makes the offline site of an event, as the scheduler does, or removes it: offline_site.py EVENT [ID].

Prints the number of the site.  Run in a process of its own: Indico is configured once a process.
"""
import sys

from indico.core.db import DBMgr
from indico.modules import ModuleHolder
from indico.modules.offlineEvents import OfflineEventItem
from indico.modules.scheduler.tasks.offlineEventGenerator import OfflineEventGeneratorTask
from indico.util.contextManager import ContextManager
from MaKaC.common.mail import GenericMailer
from MaKaC.conference import ConferenceHolder
from MaKaC.user import AvatarHolder

ContextManager.set('autoOps', [])
GenericMailer.sendAndLog = staticmethod(lambda *arguments: None)
DBMgr.getInstance().startRequest()
sites = ModuleHolder().getById('offlineEvents')
if len(sys.argv) > 2:
    sites.removeOfflineFile(sites.getOfflineEventByFileId(*sys.argv[1:]))
else:
    item = OfflineEventItem(ConferenceHolder().getById(sys.argv[1]), AvatarHolder().getById('0'), 'Queued')
    sites.addOfflineEvent(item)
    OfflineEventGeneratorTask(item).run()
    assert 'Generated' == item.status, item.status
    print(item.id)
DBMgr.getInstance().endRequest(True)
