"""The parameters of a test, and their bounds."""
from __future__ import absolute_import

from collections import namedtuple

CACHES = ('cold', 'warm', 'hot')
MODIFY = ('description', 'room', 'contribution', 'title')

# name: (type, least, most, without it)
NUMBERS = {
    'seconds': (float, 0.05, 300.0, 5.0),
    'repetitions': (int, 1, 10000, 50),
    'count': (int, 1, 10000, 200),
}

# seconds: maximum measured time.  repetitions: how many modifications
# testWriteConferencesLatency makes.  count: maximum number of different categories or conferences.
# caches: one of CACHES.  modify: one of MODIFY.
Parameters = namedtuple('Parameters', 'seconds repetitions count caches modify')


def parsed(form):
    """Return `Parameters` from a mapping of texts; raise BadParameters.

    Defaults: those in NUMBERS, `hot`, and `description`.
    """
    for name in form:
        if name not in Parameters._fields:
            raise BadParameters('there is no parameter %r; these are: %s' % (
                str(name), ', '.join(Parameters._fields)))
    values = dict((name, _number(name, form.get(name))) for name in NUMBERS)
    values['caches'] = _choice('caches', form.get('caches', 'hot'), CACHES)
    values['modify'] = _choice('modify', form.get('modify', 'description'), MODIFY)
    return Parameters(**values)


def _number(name, text):
    kind, least, most, default = NUMBERS[name]
    if text is None:
        return default
    try:
        value = kind(text)
    except ValueError:
        value = None
    if value is None or not least <= value <= most:
        raise BadParameters('%s has to be %s from %s to %s' % (
            name, 'a whole number' if kind is int else 'a number', least, most))
    return value


def _choice(name, text, choices):
    if text not in choices:
        raise BadParameters('%s has to be one of %s' % (name, ', '.join(choices)))
    return str(text)


class BenchmarkError(Exception):
    """An error whose text is for people; `status` is that of the HTTP answer."""
    status = 500


class BadParameters(BenchmarkError):
    """A parameter is unknown, of the wrong type, or out of bounds."""
    status = 400


class UnknownTest(BenchmarkError):
    """There is no test of that name."""
    status = 404


class NothingLoaded(BenchmarkError):
    """The database holds nothing that the test can use."""
    status = 412


class StorageFailed(BenchmarkError):
    """The storage went away, or refuses writes."""
    status = 503
