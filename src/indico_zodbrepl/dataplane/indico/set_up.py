"""Create the objects of an Indico in a database, by Indico's own calls; imports Indico."""
from __future__ import absolute_import

import time

import MaKaC.common  # noqa: F401  first: MaKaC's packages import in a circle
from indico.core.db import DBMgr
from indico.util.contextManager import ContextManager
from MaKaC.authentication.AuthenticationMgr import AuthenticatorMgr
from MaKaC.common.info import HelperMaKaCInfo
from MaKaC.conference import CategoryManager, DefaultConference
from MaKaC.plugins import PluginsHolder
from MaKaC.user import Avatar, AvatarHolder, LoginInfo
from ZEO.Exceptions import ClientDisconnected
from ZODB.POSException import ConflictError

from indico_zodbrepl.dataplane.indico import prewarm
from indico_zodbrepl.dataplane.indico.plugin import handlers
from indico_zodbrepl.dataplane.programs.clock import monotonic

PATIENCE = 60.0  # seconds
PAUSE = 0.5  # seconds


def set_up_globals():
    """Create what every Indico has, and register the plugin; do not commit."""
    prewarm.prewarm_globals()
    if not PluginsHolder().getRHMap().hasBlueprint(handlers, 'blueprint'):
        PluginsHolder().reloadAllPlugins()
    prewarm.prewarm_category(CategoryManager().getRoot())


def set_up(admin):
    """Create what is missing in the open connection; do not commit.

    Args:
        admin: what `firstrun.read_admin_file` returns.

    Returns: whether the administrator was created.
    """
    ContextManager.set('autoOps', [])
    set_up_globals()
    info = HelperMaKaCInfo.getMaKaCInfoInstance()
    if not info.getTitle():
        info.setTitle('Indico')
    authenticators = AuthenticatorMgr()
    known = authenticators.getAvatarByLogin(admin['login'], ['Local'])
    created = known.get('Local') is None
    if created:
        avatar = create_user(admin, authenticators)
        info.getAdminList().grant(avatar)
        prewarm.prewarm_user(avatar)
    if info.getDefaultConference() is None:
        # Indico makes the first administrator its owner.
        info.setDefaultConference(DefaultConference())
    return created


def create_user(admin, authenticators):
    """Create an activated user with a local login; return the Avatar.

    Args:
        admin: what `firstrun.read_admin_file` returns.
        authenticators: Indico's AuthenticatorMgr.
    """
    avatar = Avatar()
    avatar.setName(admin['first_name'])
    avatar.setSurName(admin['last_name'])
    avatar.setEmail(admin['email'])
    avatar.setOrganisation('')
    avatar.setLang('en_GB')
    AvatarHolder().add(avatar)
    avatar.activateAccount()
    login = LoginInfo(admin['login'], admin['password'])
    authenticators.add(authenticators.createIdentity(login, avatar, 'Local'))
    return avatar


def run(admin, patience=PATIENCE):
    """Set Indico up in one transaction; retry while the storage is away.

    Args:
        admin: what `firstrun.read_admin_file` returns.
        patience: seconds after which the last error is raised.

    Returns: whether the administrator was created.
    """
    deadline = monotonic() + patience
    while True:
        try:
            return _run_once(admin)
        except (ClientDisconnected, ConflictError):
            if monotonic() >= deadline:
                raise
            time.sleep(PAUSE)


def _run_once(admin):
    manager = DBMgr.getInstance()
    manager.startRequest()
    done = False
    try:
        created = set_up(admin)
        manager.commit()
        done = True
        return created
    finally:
        ContextManager.destroy()
        manager.endRequest(done)
