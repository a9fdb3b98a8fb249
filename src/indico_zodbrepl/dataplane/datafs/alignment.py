"""Where two data files go apart, found without reading more of them than needed."""
import itertools

from .records import START

BLOCK = 1 << 20  # bytes


def same_content(left, one, right, other):
    """Whether two transactions of two DataFiles have the same tid, texts and records."""
    if one.tid != other.tid or one.metadata != other.metadata:
        return False
    for mine, theirs in itertools.izip_longest(left.records(one), right.records(other)):
        if mine is None or theirs is None or mine[:2] != theirs[:2]:
            return False
        if left.data(mine) != right.data(theirs):
            return False
    return True


def common_before(left, right, tid=None, same=same_content):
    """Finds the newest common transaction up to a tid, by steps from both ends.

    Args:
        left, right: DataFiles.
        tid: no newer one than that; None for the newest of all.
        same: decides of two transactions with the same tid; as `same_content`.

    Returns: the Transaction in the left file and that in the right one, or None.
    """
    ours, theirs = left.backward(), right.backward()
    one, other = next(ours, None), next(theirs, None)
    while one is not None and other is not None:
        if one.tid > other.tid:
            one = next(ours, None)
        elif one.tid < other.tid:
            other = next(theirs, None)
        else:
            if (tid is None or one.tid <= tid) and same(left, one, right, other):
                return one, other
            one, other = next(ours, None), next(theirs, None)
    return None


def skip_identical(left, right, position):
    """Returns the last boundary of transactions up to which two files are the same bytes.

    Args:
        left, right: DataFiles that are the same, or taken for it, up to `position`.
        position: a boundary in both.
    """
    end = min(left.end, right.end)
    differs = first_difference(left.raw, right.raw, position, end)
    if differs == end:
        return end  # it is a boundary in one file, thus also in the other one
    if differs - position < left.end - differs:
        return next(each.position for each in left.forward(position) if each.end > differs)
    for transaction in left.backward():
        if transaction.position <= differs:
            return transaction.position
    return START


def first_difference(left, right, position, end):
    """Returns the first position in which two files differ, or `end`.

    Args:
        left, right: functions of a position and a length in bytes that return bytes.
    """
    while position < end:
        length = min(BLOCK, end - position)
        ours, theirs = left(position, length), right(position, length)
        if ours != theirs:
            return position + _equal_bytes(ours, theirs)
        position += length
    return end


def _equal_bytes(ours, theirs):
    low, high = 0, min(len(ours), len(theirs))
    while low < high:
        middle = (low + high + 1) // 2
        if ours[low:middle] == theirs[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
