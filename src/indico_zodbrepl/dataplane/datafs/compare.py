"""Compare the history of a data file with that of its upstream.

Files are compared byte by byte up to the first difference, found by bisection, then
transaction by transaction, and of common transactions the files of their blobs.  Differences that
a pack explains do not count.  Of an upstream on another host digests are compared.
"""
from __future__ import absolute_import

import os

from indico_zodbrepl.dataplane.datafs.content import (
    common_before,
    same_but_for_packs,
    skip_identical,
)
from indico_zodbrepl.dataplane.datafs.datafile import DataFile
from indico_zodbrepl.dataplane.datafs.failures import Changed, Damaged, Missing
from indico_zodbrepl.dataplane.datafs.records import START
from indico_zodbrepl.dataplane.datafs.remote import RemoteFile
from indico_zodbrepl.dataplane.datafs.walk import EMPTY, Walk

ATTEMPTS = 5


def compare(path, upstream_path, verified=None, fork=None, connection=None, damaged=False):
    """Compare a Data.fs with its upstream's; servers may have both of them open.

    Args:
        path: of the file; a missing one counts as empty.
        upstream_path: of the file with the authoritative history.
        verified: a tid up to which the two are known to be the same; None compares all.
        fork: a tid up to which the upstream had every transaction of the file, and after
            which it got none of them; None when it is not known.
        connection: a messages.Connection to a `serving.Server` of the upstream's file on another
            host; None if the file is here.
        damaged: True to compare what comes before a damaged end of the file; no server may have the
            file open then.

    Returns a dict for JSON.  Its numbers are transactions:

        relation: the file is 'empty', 'equal', 'behind' (a follower can fetch the rest),
            'ahead' (has everything and more), 'diverged', or 'unrelated': nothing in common.
        common: tid and digest of the last transaction before the two go apart, or None.
        private: those only the file has; private_first, private_last: their tids.
        missing: those only the upstream has; holes: those of them that are older than a
            common one, so that a follower would never fetch them.
        conflicting: those with the same tid and different content.
        packed: whether one of them was packed.
        packed_away: those only the file has, all of whose records a pack of the upstream
            may have removed; packed_away_last: the last one's tid, packed_away_after: that of
            the file's transaction before the first one.  If the file was written to by others
            than its upstream, transactions of its own may be among them, unless there is a
            `fork`.
        bytes_private: of the private and the conflicting ones in the file.
        examined: transactions whose header was read in either file.
        blobs: how many blobs of common transactions were compared.
        blobs_differing: those whose files differ in size or content, or that one side lacks.
        blobs_missing_upstream: those of them that only the upstream lacks.
        blobs_private: transactions with a blob whose content only the file's folder has.
        differing_blob: the oldest of them, see BlobComparison.first; it makes the file 'diverged'.
        unreadable: bytes of the file's damaged end, which are not compared.

    Raises DataFileError.
    """
    for _ in range(ATTEMPTS):
        # The follower first: the other file only grows meanwhile.
        try:
            mine = DataFile(path, damaged)
        except Missing:
            if os.path.lexists(path):
                raise
            with _opened(upstream_path, connection) as upstream:
                return _of_an_empty_file(upstream)
        with mine, _opened(upstream_path, connection) as upstream:
            try:
                result = _compare(mine, upstream, verified, fork)
            except (Changed, Damaged):
                if not (mine.replaced() or upstream.replaced()
                        or mine.present_size() < mine.end):
                    raise
                continue
            if not (mine.replaced() or upstream.replaced()):
                return result
    raise Changed('%s or %s is replaced again and again' % (path, upstream_path))


def _opened(path, connection):
    return DataFile(path) if connection is None else RemoteFile(connection, path)


def _of_an_empty_file(upstream):
    walk = Walk(None, upstream)
    for transaction in upstream.forward():
        walk.only_upstream(transaction)
    return walk.result(EMPTY)


def _compare(mine, upstream, verified, fork):
    if mine.end == START:
        return dict(_of_an_empty_file(upstream), unreadable=mine.unreadable)
    if upstream.by_digests:
        upstream.digests_until = mine.last().tid
    walk = Walk(mine, upstream, fork)
    walk.packed = any(each.first().packed for each in (mine, upstream) if each.end > START)
    begin = START, START
    if verified is not None:
        common = common_before(mine, upstream, verified, same_but_for_packs)
        if common is not None:
            begin = common[0].end, common[1].end
    if begin[0] == begin[1]:
        end = skip_identical(mine, upstream, begin[0])
        walk.blobs.add_part(begin[0], end)
        begin = end, end
    walk.start(*begin)
    for one, other in _side_by_side(mine.forward(begin[0]), upstream.forward(begin[1])):
        walk.step(one, other)
    walk.explain()
    return walk.result(walk.relation())


def _side_by_side(ours, theirs):
    """Yield pairs of transactions, oldest first, with None for the one that is missing."""
    one, other = next(ours, None), next(theirs, None)
    while one is not None or other is not None:
        yield one, other
        older = min(each.tid for each in (one, other) if each is not None)
        if one is not None and one.tid == older:
            one = next(ours, None)
        if other is not None and other.tid == older:
            other = next(theirs, None)
