"""The categories of a run (pure)."""
from __future__ import unicode_literals

from bulkloader import vocabulary as words
from bulkloader.specification.shapes import Category


def numbered(names, number):
    """Return name `number` of an endless list: all names, then all with 2, and so on."""
    turn, place = divmod(number, len(names))
    return names[place] if not turn else '%s %d' % (names[place], turn + 1)


class Tree(object):
    """The categories below the root, of which those without children hold the events.

    Args:
        topics: names, in the order in which they are used.
        leaves: how many categories hold events.
        fan_out: the most children of one category, and the most below the root. Up to that many
            leaves lie directly below the root; more are grouped by topic, and topics by field.
    """

    def __init__(self, topics, leaves, fan_out):
        self._topics, self._leaves, self._fan_out = topics, leaves, fan_out
        self._is_grouped = leaves > fan_out

    def topic_of(self, leaf):
        """Return the topic of the events in leaf number `leaf`."""
        return numbered(self._topics, leaf // self._fan_out if self._is_grouped else leaf)

    def categories(self):
        """Return the `Category` tuples that go directly below the root."""
        if not self._is_grouped:
            return tuple(self._of_topic(number, ()) for number in range(self._leaves))
        level = [self._series(leaf) for leaf in range(self._leaves)]
        name = self._of_topic
        while len(level) > self._fan_out:
            level = [name(number, tuple(level[first:first + self._fan_out]))
                     for number, first in enumerate(range(0, len(level), self._fan_out))]
            name = _of_field
        return tuple(level)

    def _series(self, leaf):
        series = numbered(words.SERIES, leaf % self._fan_out)
        return Category(series, '%s in the field of %s.' % (series, self.topic_of(leaf)), ())

    def _of_topic(self, number, children):
        topic = numbered(self._topics, number)
        return Category(topic, 'Conferences and workshops on %s.' % topic, children)


def _of_field(number, children):
    field = numbered(words.FIELDS, number)
    return Category(field, 'From %s to %s.' % (children[0].name, children[-1].name), children)
