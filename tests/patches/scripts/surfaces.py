"""The four ways by which requests come to write, each with one write to try."""
import functools
import itertools

from indico.core.db import DBMgr
from indico.web.http_api.auth import APIKey, APIKeyHolder
from indico.web.http_api.hooks.base import HTTPAPIHook
from MaKaC.common.mail import GenericMailer
from MaKaC.conference import CategoryManager, ConferenceHolder
from MaKaC.services.implementation.conference import ConferenceTitleModification
from MaKaC.webinterface.rh.categoryMod import RHCategoryPerformCreation

MAIL = {'fromAddr': 'a@example.org', 'toList': ['b@example.org'], 'subject': 'done', 'body': 'done'}
wanted = ('Wanted %d' % number for number in itertools.count())


@HTTPAPIHook.register
class RenameHook(HTTPAPIHook):
    """A hook of the HTTP API that saves something: the title of an event."""
    PREFIX = 'api'
    TYPES = ('rename',)
    RE = r'(?P<event>\w+)'
    DEFAULT_DETAIL = 'basic'
    NO_CACHE = COMMIT = HTTP_POST = True

    def api_rename(self, aw):
        event = ConferenceHolder().getById(self._pathParams['event'])
        event.setTitle(next(wanted))
        return {'title': event.getTitle()}


class Surface(object):
    """One write.

    Args:
        owner, method: the function that writes; its calls are counted, and it also sends a mail.
        write: function of a Client that makes the request.
        value: function that reads from the database what the write is to change.
    """

    def __init__(self, owner, method, write, value):
        self.tries = 0
        self.write = write
        self.value = value
        original = getattr(owner, method).__func__

        @functools.wraps(original)
        def counted(*args, **kwargs):
            self.tries += 1
            GenericMailer.send(dict(MAIL))
            return original(*args, **kwargs)
        setattr(owner, method, counted)

    def read(self):
        """Returns what is saved, read by a connection of its own."""
        with DBMgr.getInstance().global_connection():
            return self.value()


def make(name, key):
    """Returns the surface called page, rpc, export or api."""
    if name == 'page':
        return Surface(RHCategoryPerformCreation, '_process',
                       lambda client: client.create_category(next(wanted)),
                       lambda: [each.getName() for each in CategoryManager().getRoot().getSubCategoryList()])
    if name == 'rpc':
        return Surface(ConferenceTitleModification, '_getAnswer',
                       lambda client: client.set_title('0', next(wanted)),
                       lambda: ConferenceHolder().getById('0').getTitle())
    if name == 'export':
        return Surface(APIKey, 'used',
                       lambda client: client.get('/export/event/0.json?nc=yes&ak=' + key),
                       lambda: APIKeyHolder().getById(key).getUseCount())
    if name == 'api':
        return Surface(RenameHook, 'api_rename',
                       lambda client: client.post('/api/rename/0.json', ak=key),
                       lambda: ConferenceHolder().getById('0').getTitle())
    raise ValueError(name)
