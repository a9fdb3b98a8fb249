"""Makes the database of a site that never heard of this project.

An administrator, a user and three events, by Indico's own calls; nothing is
pre-warmed.  Run in a process of its own; prints paths as JSON.
"""
from indico_zodbrepl.dataplane.indico import prewarm, set_up
from indico.core.db import DBMgr
from indico.util.contextManager import ContextManager
from MaKaC.authentication.AuthenticationMgr import AuthenticatorMgr
from MaKaC.common.info import HelperMaKaCInfo
from MaKaC.conference import CategoryManager, DefaultConference

import make_events
from indico_site import OWNER


def nothing(_object):
    """Takes the place of the pre-warming functions."""


def main():
    for name in ('prewarm_user', 'prewarm_category', 'prewarm_conference',
                 'prewarm_contribution'):
        setattr(prewarm, name, nothing)
    manager = DBMgr.getInstance()
    manager.startRequest()
    ContextManager.set('autoOps', [])
    CategoryManager().getRoot()
    info = HelperMaKaCInfo.getMaKaCInfoInstance()
    info.setTitle('The Old Site')
    info.getAdminList().grant(set_up.create_user(OWNER, AuthenticatorMgr()))
    info.setDefaultConference(DefaultConference())
    manager.endRequest(True)
    make_events.main()


if __name__ == '__main__':
    main()
