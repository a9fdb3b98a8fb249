"""The objects that the clients of a run share; Python 2.7.

Each object is used for a few seconds only, so that lists stay short and objects are judged one by
one.
"""

SPAN = 5.0  # seconds in which clients use the same objects
LISTS = 3
VALUES = 2


def generation(elapsed):
    """Return which objects are in use, by the seconds since the run began."""
    return int(elapsed // SPAN)


def key_of(kind, generation, place):
    return '%s-%d-%d' % (kind, generation, place)


def own_key(place):
    """Return the key of the object that a client has for itself."""
    return 'own-' + place
