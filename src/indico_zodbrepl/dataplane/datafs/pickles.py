"""What an object record is, told without importing or running anything that it names."""
import cStringIO

from zodbpickle import fastpickle

OURS = ('MaKaC.', 'indico.')
IDS = ('id', '_id')
TITLES = ('title', '_title', 'name', '_name', 'fileName', '_fileName')
FAMILY_NAMES = ('surName', '_surName', 'familyName')
FIRST_NAMES = ('name', 'firstName', '_firstName')
UNKNOWN = '?'
LONGEST = 120  # characters of a title


class _Placeholder(object):
    """An object of a class that is not imported."""

    def __new__(cls, *args, **kwargs):
        made = object.__new__(cls)
        made.state = None
        return made

    def __init__(self, *args, **kwargs):
        pass

    def __setstate__(self, state):
        self.state = state

    def __hash__(self):
        return id(self)

    def append(self, item):
        pass

    def extend(self, items):
        pass

    def __setitem__(self, key, value):
        pass


_placeholders = {}


def _placeholder(module, name):
    named = '%s.%s' % (module, name)
    if named not in _placeholders:
        _placeholders[named] = type('Placeholder', (_Placeholder,), {'named': named})
    return _placeholders[named]


def describe(data):
    """Tells an object's class and, for one of Indico's, what a person would call it.

    Args:
        data: the record's two pickles; None for an object whose creation was undone.

    Returns: the class, `module.Name` or '?' when the record can not be read, and a text
        like `Conference 12 "Title"`, or None.
    """
    if not data:
        return UNKNOWN, None
    unpickler = fastpickle.Unpickler(cStringIO.StringIO(data))
    unpickler.find_global = _placeholder
    unpickler.persistent_load = lambda reference: None
    named = UNKNOWN
    try:
        named = _class_name(unpickler.load())
        if not named.startswith(OURS):
            return named, None
        state = unpickler.load()
    except Exception:  # a pickle may raise anything
        return named, None
    return named, _text(named.rpartition('.')[2], state)


def _class_name(value):
    if isinstance(value, tuple) and value:
        value = value[0]
        if isinstance(value, tuple) and len(value) == 2:
            return '%s.%s' % value
    return value.named if isinstance(value, type) else UNKNOWN


def _text(name, state):
    if isinstance(state, tuple) and state:
        state = state[0]
    if not isinstance(state, dict):
        return None
    words = [_first(state, IDS), _title(state)]
    if not any(words):
        return None
    return u' '.join([name] + [word for word in words if word])


def _title(state):
    family = _first(state, FAMILY_NAMES)
    if family:
        title = u' '.join(word for word in (_first(state, FIRST_NAMES), family) if word)
    else:
        title = _first(state, TITLES)
    if not title:
        return None
    if len(title) > LONGEST:
        title = title[:LONGEST - 1] + u'\u2026'
    return u'"%s"' % u' '.join(title.split())


def _first(state, keys):
    for key in keys:
        value = state.get(key)
        if isinstance(value, (int, long)) and not isinstance(value, bool):
            return unicode(value)
        if isinstance(value, str) and value:
            return value.decode('utf-8', 'replace')
        if isinstance(value, unicode) and value:
            return value
    return None
