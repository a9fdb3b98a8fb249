"""Blobs that followers get before the transaction that refers to them.

In the stream of transactions a large blob would hold up all later ones.  So a follower that can
takes blobs on a connection of its own, the blob channel, while they arrive at the primary.  The
vote of their transaction waits until such followers have them on disk; then the stream only names
them.  Any other follower gets the content in the stream.
"""
from __future__ import absolute_import

import os
import threading

_TOKEN = 8  # bytes


class Upload(object):
    """A blob that followers may get before its transaction.

    Attributes:
        number: identifies it on all channels of this process.
        source: has `path`, `size`, `is_complete`, `is_over`, `error` and `sha256`, as `Incoming`.
        path: of its file, also when its transaction has moved that.
        holders: the links whose followers have it.
        missed: the links whose followers cannot take it ahead of its transaction.
    """

    def __init__(self, number, source, changed, sharing):
        self.number = number
        self.source = source
        self.path = source.path
        self.holders = set()
        self.missed = set()
        self.changed = changed
        self._sharing = sharing

    def is_shared(self):
        """Return True if each follower with a channel has it, or will not get it there."""
        with self._sharing.condition:
            return all(link in self.holders or link in self.missed
                       for link in self._sharing.links.values() if link.channel is not None)


class Link(object):
    """A follower that a primary feeds, as far as blobs are concerned.

    Attributes:
        token: 8 bytes that its channel gives.
        channel: its open channel, or None.
        abandoned: numbers of uploads that the follower has and will not need.
    """

    def __init__(self, sharing):
        self.token = os.urandom(_TOKEN)
        self.channel = None
        self.abandoned = []
        self._sharing = sharing

    def held(self, oid, tid):
        """Return the `Upload` that became a blob if this follower has it, or None."""
        with self._sharing.condition:
            upload = self._sharing.placed.get((oid, tid))
            return upload if upload is not None and self in upload.holders else None


class Sharing(object):
    """The uploads of a primary or relay, and the followers that get them; for any thread.

    Attributes:
        condition: guards everything here; notified when a channel may have something to send.
        links: by token.
        live: uploads by number, until their transaction ends.
        placed: uploads by (oid, tid), until every follower that has them was told so.
    """

    def __init__(self):
        self.condition = threading.Condition()
        self.links = {}
        self.live = {}
        self.placed = {}
        self._last = 0

    def open_link(self):
        """Return a new follower's `Link`."""
        link = Link(self)
        with self.condition:
            self.links[link.token] = link
        return link

    def close_link(self, link):
        """Forget a follower whose connection has ended."""
        with self.condition:
            self.links.pop(link.token, None)
            channel = link.channel
            for upload in set(self.live.values() + self.placed.values()):
                self._release(upload, link)
        if channel is not None:
            channel.abort()
        self._changed()

    def open_channel(self, token, channel):
        """Return the Link of a new channel, or None if there is none without a channel."""
        with self.condition:
            link = self.links.get(token)
            if link is None or link.channel is not None:
                return None
            link.channel = channel
            return link

    def close_channel(self, link):
        """Note that a channel has ended.  What its follower has complete, it keeps."""
        with self.condition:
            link.channel = None
        self._changed()

    def begin(self, source, changed):
        """Return the `Upload` of a blob that begins to arrive.

        Args:
            source: see `Upload`.
            changed: called in any thread when `is_shared` may have changed.
        """
        with self.condition:
            self._last = (self._last + 1) % (1 << 32)
            upload = self.live[self._last] = Upload(self._last, source, changed, self)
            self.condition.notify_all()
            return upload

    def grown(self):
        """Note that an upload has more content, or is complete."""
        with self.condition:
            self.condition.notify_all()

    def answered(self, link, number, is_held):
        """Note that a follower has an upload, or cannot take it; return False if that is over."""
        with self.condition:
            upload = self.live.get(number)
            if upload is None:
                return False
            (upload.holders if is_held else upload.missed).add(link)
        upload.changed()
        return True

    def place(self, upload, oid, tid, path=None):
        """Note which blob of which transaction an upload becomes, before that is finished.

        Args:
            path: where its file is then; unchanged unless given.
        """
        with self.condition:
            upload.path = path or upload.path
            self.placed[oid, tid] = upload

    def settle(self, upload, is_committed):
        """Note that an upload's transaction has ended."""
        with self.condition:
            if self.live.pop(upload.number, None) is None:
                return
            if not is_committed:
                for link in upload.holders:
                    link.abandoned.append(upload.number)
                upload.holders.clear()
            if not upload.holders:
                self._forget(upload)
            self.condition.notify_all()

    def sent(self, upload, link):
        """Note that a follower was told which transaction an upload that it has belongs to."""
        with self.condition:
            self._release(upload, link)

    def reference(self, oid, tid):
        """Return the `Upload` that became a blob, if a follower has it, or None."""
        with self.condition:
            upload = self.placed.get((oid, tid))
            return upload if upload is not None and upload.holders else None

    def _release(self, upload, link):
        upload.holders.discard(link)
        if not upload.holders and upload.number not in self.live:
            self._forget(upload)

    def _forget(self, upload):
        for key in [key for key, each in self.placed.items() if each is upload]:
            del self.placed[key]

    def _changed(self):
        with self.condition:
            live = self.live.values()
        for upload in live:
            upload.changed()
