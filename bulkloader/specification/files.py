"""The uploaded files of a run: how many each event has, how large they are, and their content (pure)."""
from __future__ import unicode_literals

import hashlib
import re
from collections import namedtuple

from bulkloader.specification.amounts import Amount
from bulkloader.specification.draws import Draws

FORMS = 'a size such as 500KiB, a range such as 100KiB-5MiB, or mean:1MiB,max:50MiB'
MAX_FILES = 1000                # of an event
MAX_SIZE = 1 << 40
UNITS = {'KiB': 1 << 10, 'MiB': 1 << 20, 'GiB': 1 << 30, 'TiB': 1 << 40}

_STEPS = 1000                   # different sizes of a distribution with few large ones
_POOL = 4 << 20                 # bytes of which contents are made
_BLOCK = 1 << 20
_SIZE = r'([0-9]+(?:\.[0-9]+)?)(%s)' % '|'.join(sorted(UNITS))

# number: of the file among those of its event. size: bytes. seed, index: of the run and the event.
File = namedtuple('File', 'name size number seed index')


def size_of(text):
    """Return the bytes of a size such as 1.5MiB; raise ValueError with words."""
    match = re.match(_SIZE + '$', text)
    if not match:
        raise ValueError("'%s' is not a size such as 500MiB or 15GiB" % text)
    return int(float(match.group(1)) * UNITS[match.group(2)])


class Sizes(object):
    """A distribution of sizes.

    Args:
        text: `500KiB`, always so large; `100KiB-5MiB`, each size in between equally often; or
            `mean:1MiB,max:50MiB`, few large ones, as an `Amount` of a thousand steps.

    Raises ValueError with words for operators.
    """

    def __init__(self, text):
        around = re.match('mean:%s,max:%s$' % (_SIZE, _SIZE), text)
        span = re.match('%s-%s$' % (_SIZE, _SIZE), text)
        self._amount = None
        if around:
            mean, greatest = (size_of(each) for each in text[len('mean:'):].split(',max:'))
            if not 0 < 2 * mean <= greatest:
                raise ValueError('the mean of %s has to be above 0 and at most half of the maximum'
                                 % text)
            self._step = max(1, greatest // _STEPS)
            self._least = self._most = greatest
            self._amount = Amount('mean:%.6f,max:%d' % (
                mean / float(self._step), greatest // self._step), greatest)
        elif span:
            self._least, self._most = (size_of(each) for each in text.split('-'))
        else:
            try:
                self._least = self._most = size_of(text)
            except ValueError:
                raise ValueError("'%s' is not %s" % (text, FORMS))
        if self._least > self._most:
            raise ValueError('%s ends before it begins' % text)
        if self._most > MAX_SIZE:
            raise ValueError('%s is more than 1TiB' % text)

    def drawn(self, draws):
        """Return a size in bytes, at least 1."""
        if self._amount is not None:
            return max(1, self._step * self._amount.at(draws.fraction()))
        return max(1, draws.between(self._least, self._most))


class Files(object):
    """The files of a run's events.

    Args:
        parameters: `Parameters`. Raises ValueError when they make no sense.
    """

    def __init__(self, parameters):
        self._seed = parameters.seed
        self._count = Amount(parameters.files, MAX_FILES)
        self._sizes = Sizes(parameters.file_size)

    def count(self, index):
        """Return how many files event `index` has."""
        return self._count.at(self._draws(index).fraction())

    def of(self, index):
        """Return the `File`s of event `index`."""
        draws = self._draws(index)
        count = self._count.at(draws.fraction())
        return [File('talk-%d-%d.pdf' % (index, number), self._sizes.drawn(draws), number,
                     self._seed, index) for number in range(count)]

    def _draws(self, index):
        return Draws(self._seed, 'files of', index)


class Contents(object):
    """The contents of files: a line that no other file has, then random bytes.

    The bytes of a seed are made once and kept in memory; each file begins at another place in them.
    """

    def __init__(self):
        self._pools = {}

    def blocks(self, file):
        """Yield the bytes of a `File`."""
        line = ('%%PDF-1.4 %s of seed %d\n' % (file.name, file.seed)).encode('ascii')
        yield line[:file.size]
        left = file.size - len(line)
        pool = self._pool(file.seed)
        place = Draws(file.seed, 'place of', file.index, file.number).below(_POOL)
        while left > 0:
            block = pool[place:place + min(left, _BLOCK)]
            yield block
            left -= len(block)
            place = (place + len(block)) % _POOL

    def sha256(self, file):
        """Return the SHA-256 of a `File` in hex."""
        digest = hashlib.sha256()
        for block in self.blocks(file):
            digest.update(block)
        return digest.hexdigest()

    def _pool(self, seed):
        if seed not in self._pools:
            self._pools[seed] = b''.join(
                hashlib.sha256(('%d/%d' % (seed, number)).encode('ascii')).digest()
                for number in range(_POOL // 32))
        return self._pools[seed]
