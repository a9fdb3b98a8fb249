"""The confirmations by which followers report what they hold.

A primary with `synchronous` asks each follower: a notice of the stream (see `stream.NOTICE`) that
consists of ASK and JSON, {"level": ..., "epoch": ...}.  A follower that knows the question answers
on the same connection, in which others send nothing but keep-alives:

- at once with JSON, {"node": ..., "epoch": ..., "level": ..., "tid": ...}: its name, epoch and level
  of the question, and the hex of its last transaction;
- then, for each transaction that it has at this level, with its id, 8 bytes.  A confirmation covers
  all earlier transactions;
- a relay that forwards sends JSON for each of the nodes that follow it, each time; "tid" is null
  when such a node has gone.

Level null ends the answers.  A primary that never asks gets none.
"""
from __future__ import absolute_import

import collections
import json
import logging
import threading

from indico_zodbrepl.dataplane.zrs.stream import notice

logger = logging.getLogger('zodbrepl.synchronous')

ASK = b'acks1.0'

# Names that do not count and are shown or logged; a program may send any number.
_SHOWN = 100

# What a follower has done with a transaction that it confirms: it is in its memory, its checksum
# right; it is in its kernel; it is on its disk, with its blobs.
RECEIVE, WRITE, FSYNC = LEVELS = 'receive', 'write', 'fsync'

# Attributes: one of LEVELS, and the primary's epoch.
Question = collections.namedtuple('Question', 'level epoch')

NONE = Question(None, None)


class BadAnswer(ValueError):
    """A follower sent something that is no confirmation."""


def ask(question):
    """Return the Piece that asks a follower; NONE ends its answers."""
    return notice(ASK + json.dumps(question._asdict()))


def asked(content):
    """Return the Question of a notice's content; None if it is another notice."""
    if not content.startswith(ASK):
        return None
    values = json.loads(content[len(ASK):])
    return Question(values['level'], values['epoch'])


def answer(node, question, tid):
    """Return the message by which a node, or a relay for it, begins to confirm.

    Args:
        tid: its last transaction, 8 bytes; None if the node confirms no more.
    """
    return json.dumps({'node': node, 'level': question.level, 'epoch': question.epoch,
                       'tid': tid and tid.encode('hex')})


class _Node(object):

    __slots__ = 'name', 'speaker', 'host', 'question', 'tid', 'objection'

    def __init__(self, name, speaker, host, question, tid, objection):
        self.name = name
        self.speaker = speaker
        self.host = host
        self.question = question
        self.tid = tid
        self.objection = objection


class Confirmations(object):
    """What the nodes that follow a primary have confirmed; any thread may use it.

    Only a node's latest connection counts: an earlier one may be half dead, or of a data file that
    was replaced meanwhile.  What `members` objects to never counts, and takes no other's place.

    Args:
        members: the `Members` that count; None for all.

    Attributes:
        question: what followers are asked, NONE for nothing.  Answers to another do not count.
        version: differs after each change of the members; None without a list of them.
        loop: the event loop in whose thread they are read; None for the reactor's.
        changed: called with a node's name, and what it has confirmed, or None; in the thread that
            reads, or in the reactor's.
    """

    def __init__(self, members=None):
        self.question = NONE
        self.loop = None
        self.changed = _nothing
        self._members = members
        self.version = members and members.version
        self._lock = threading.Lock()
        # By connection and name, in the order in which they began.
        self._nodes = collections.OrderedDict()
        self._speakers = {}
        self._told = set()

    def heard(self, link, message, host=''):
        """Take a follower's message.

        Args:
            link: any object that stands for its connection.
            host: the address of its other end.

        Raises BadAnswer.
        """
        if len(message) == 8:
            tid = message
            with self._lock:
                node = self._nodes.get((link, self._speakers.get(link)))
                if node is None:
                    return
                node.tid = tid
                if node.objection is not None:
                    self._check_again()
        else:
            name, question, tid = _parsed(message)
            with self._lock:
                speaker = self._speakers.setdefault(link, name)
                node = self._nodes.pop((link, name), None)
                if tid is not None:
                    self._check_again()
                    node = _Node(name, speaker, host, question, tid, None)
                    node.objection = self._objection(node)
                    if node.objection is None:
                        self._replace(name)
                    self._nodes[link, name] = node
                elif node is None:
                    return
        if node.objection is None and node.question == self.question:
            self.changed(node.name, tid)

    def left(self, link):
        """Forget what a connection has confirmed: it has ended."""
        with self._lock:
            self._speakers.pop(link, None)
            gone = [self._nodes.pop(key) for key in list(self._nodes) if key[0] is link]
        for node in gone:
            if node.objection is None:
                self.changed(node.name, None)

    def confirmed(self):
        """Return what each node has confirmed in answer to the current question: {name: tid}."""
        question = self.question
        with self._lock:
            self._check_again()
            return {node.name: node.tid for node in self._nodes.values()
                    if node.objection is None and node.question == question}

    def refused(self):
        """Return why confirmations under a name do not count: {name: text}."""
        with self._lock:
            self._check_again()
            found = [node for node in self._nodes.values() if node.objection is not None]
            return {node.name: node.objection for node in found[:_SHOWN]}

    def _replace(self, name):
        """Forget a node's earlier connections."""
        for key, node in list(self._nodes.items()):
            if node.name == name and node.objection is None:
                del self._nodes[key]

    def _check_again(self):
        if self._members is None:
            return
        self._members.read_again()
        if self._members.version != self.version:
            self.version = self._members.version
            for node in self._nodes.values():
                node.objection = self._objection(node)

    def _objection(self, node):
        """Return why a node does not count, or None; log it once."""
        if self._members is None:
            return None
        found = self._members.objection(node.name, node.speaker, node.host)
        said = node.name, found
        if found is not None and said not in self._told and len(self._told) < _SHOWN:
            self._told.add(said)
            logger.error('confirmations of node %s do not count: %s', node.name, found)
        return found


def _parsed(message):
    try:
        values = json.loads(message)
        tid = values['tid'] and values['tid'].decode('hex')
        if tid is not None and len(tid) != 8:
            raise ValueError('an id of %d bytes' % len(tid))
        return str(values['node']), Question(values['level'], values['epoch']), tid
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadAnswer('%r: %s' % (message[:100], error))


def _nothing(name, tid):
    pass
