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
        owner, method: the function that writes. While this surface writes, its calls are counted and it also
            sends a mail.
        request: function of a Client that makes the request.
        value: function that reads from the database what the write is to change.
    """

    def __init__(self, owner, method, request, value):
        self.tries = 0
        self.request = request
        self.value = value
        self._writing = False
        original = getattr(owner, method).__func__

        @functools.wraps(original)
        def counted(*args, **kwargs):
            if self._writing:
                self.tries += 1
                GenericMailer.send(dict(MAIL))
            return original(*args, **kwargs)
        setattr(owner, method, counted)

    def write(self, client):
        self._writing = True
        try:
            return self.request(client)
        finally:
            self._writing = False

    def read(self):
        """Return what is saved, read by a connection of its own."""
        with DBMgr.getInstance().global_connection():
            return self.value()


def make(key):
    """Return the surfaces by name; `key` is the API key for two of them."""
    return {
        'page': Surface(RHCategoryPerformCreation, '_process',
                        lambda client: client.create_category(next(wanted)),
                        lambda: [each.getName() for each in CategoryManager().getRoot().getSubCategoryList()]),
        'rpc': Surface(ConferenceTitleModification, '_getAnswer',
                       lambda client: client.set_title('0', next(wanted)),
                       lambda: ConferenceHolder().getById('0').getTitle()),
        'export': Surface(APIKey, 'used',
                          lambda client: client.get('/export/event/0.json?nc=yes&ak=' + key),
                          lambda: APIKeyHolder().getById(key).getUseCount()),
        'api': Surface(RenameHook, 'api_rename',
                       lambda client: client.post('/api/rename/0.json', ak=key),
                       lambda: ConferenceHolder().getById('0').getTitle()),
    }
