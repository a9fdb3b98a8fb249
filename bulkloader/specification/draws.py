"""Random choices that are the same on every machine and interpreter (pure)."""
from __future__ import unicode_literals

import hashlib
import random


class Draws(object):
    """Random choices that depend on nothing but the seed and the words given.

    Only `Random.random` of the standard library is used, whose sequence for an integer seed is
    the same in every Python version since 2.3; its other methods are not.
    """

    def __init__(self, *key):
        digest = hashlib.sha256('/'.join('%s' % part for part in key).encode('utf-8'))
        self.fraction = random.Random(int(digest.hexdigest(), 16)).random

    def below(self, limit):
        return int(self.fraction() * limit)

    def between(self, least, most):
        return least + self.below(most - least + 1)

    def pick(self, sequence):
        return sequence[self.below(len(sequence))]

    def some(self, sequence, count):
        """Return `count` different members, in random order."""
        left = list(sequence)
        return [left.pop(self.below(len(left))) for _ in range(count)]

    def numbers(self, limit, count):
        """Return `count` different numbers below `limit`, in random order."""
        numbers = []
        seen = set()
        while len(numbers) < count:
            number = self.below(limit)
            if number not in seen:
                seen.add(number)
                numbers.append(number)
        return numbers
