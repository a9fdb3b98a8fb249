"""Create in advance the objects that Indico creates while it answers its first GETs.

Indico creates many objects when they are first viewed.  On a read-only storage
that turns every page into an error, so programs that create data (first run,
bulk loader) call these functions in the same transaction.  All of them need an
open connection (`DBMgr.startRequest()`), change only what is missing and never
commit.
"""
from __future__ import absolute_import

import MaKaC.common  # noqa: F401  first: MaKaC's packages import in a circle
from indico.core.index import Catalog
from indico.modules import ModuleHolder
from indico.modules.oauth.db import (
    AccessTokenHolder,
    ConsumerHolder,
    RequestTokenHolder,
    TempRequestTokenHolder,
)
from indico.util.i18n import setLocale
from indico.web.http_api.auth import APIKeyHolder
from MaKaC.authentication.AuthenticationMgr import AuthenticatorMgr
from MaKaC.common.Announcement import getAnnoucementMgrInstance
from MaKaC.common.indexes import IndexesHolder
from MaKaC.common.info import HelperMaKaCInfo
from MaKaC.common.url import ShortURLMapper
from MaKaC.conference import CategoryManager, ConferenceHolder
from MaKaC.domain import DomainHolder
from MaKaC.plugins import PluginsHolder
from MaKaC.roomMapping import RoomMapperHolder
from MaKaC.trashCan import TrashCanManager
from MaKaC.user import AvatarHolder, GroupHolder
from MaKaC.webcast import HelperWebcastManager
from MaKaC.webinterface.displayMgr import ConfDisplayMgrRegistery
from MaKaC.webinterface.internalPagesMgr import InternalPagesMgrRegistery

HOLDERS = (
    APIKeyHolder, AccessTokenHolder, AvatarHolder, CategoryManager,
    ConferenceHolder, ConsumerHolder, DomainHolder, GroupHolder,
    IndexesHolder, ModuleHolder, RequestTokenHolder, RoomMapperHolder,
    ShortURLMapper, TempRequestTokenHolder, TrashCanManager)
MODULES = (
    'cssTpls', 'news', 'offlineEvents', 'scheduler', 'upcoming_events')
INDEXES = (
    'calendar', 'category', 'categoryDate', 'categoryDateAll', 'categoryName',
    'conferenceTitle', 'email', 'group', 'name', 'organisation',
    'pendingConfManagers', 'pendingConfManagersTasks', 'pendingConfSubmitters',
    'pendingConfSubmittersTasks', 'pendingCoordinators',
    'pendingCoordinatorsTasks', 'pendingManagers', 'pendingManagersTasks',
    'pendingSubmitters', 'pendingSubmittersTasks', 'status', 'surName')


def prewarm_globals():
    """Create the objects that an Indico has once: managers, modules, indexes."""
    for holder in HOLDERS:
        holder()._getIdx()
    for authenticator in AuthenticatorMgr().getList():
        authenticator._getIdx()
    Catalog.updateDB()
    CategoryManager().getRoot()
    info = HelperMaKaCInfo.getMaKaCInfoInstance()
    info.getTimezone()
    info.getAdminList()
    info.getRoomBookingDBConnectionParams()
    PluginsHolder()
    # Without a language Indico would store the first news item's title in a form that it cannot
    # read back.
    setLocale(info.getLang())
    for module in MODULES:
        ModuleHolder().getById(module)
    for index in INDEXES:
        IndexesHolder().getById(index)
    HelperWebcastManager.getWebcastManagerInstance()
    getAnnoucementMgrInstance()
    ConfDisplayMgrRegistery()._getDisplayMgrRegistery()
    InternalPagesMgrRegistery()._getInternalPagesMgrRegistery()


def prewarm_user(avatar):
    """Create what pages shown to this `MaKaC.user.Avatar` would create."""
    avatar.getTimezone()


def prewarm_category(category):
    """Create what pages of this `MaKaC.conference.Category` would create."""
    _prewarm_materials(category)
    category.getTimezone()


def prewarm_conference(conference):
    """Create what pages of this `MaKaC.conference.Conference` would create."""
    _prewarm_materials(conference)
    if not hasattr(conference, '_registrantsByEmail'):
        # getRegistrantsByEmail would do this and count it as a modification.
        conference._registrantsByEmail = conference._createRegistrantsByEmail()
    conference.getRegistrarList()
    conference.getReportNumberHolder()
    conference.getPendingQueuesMgr()
    conference.getDisplayMgr()
    InternalPagesMgrRegistery().getInternalPagesMgr(conference)


def prewarm_contribution(contribution):
    """Create what pages of this `Contribution` or `SubContribution` would create."""
    _prewarm_materials(contribution)
    contribution.getReportNumberHolder()


def _prewarm_materials(owner):
    owner.getPaper()
    owner.getSlides()
    owner.getVideo()
    owner.getPoster()
    owner.getMinutes()
