"""How many of something: `12`, `0-40` or `mean:12,max:60` (pure)."""
from __future__ import unicode_literals

import re
from bisect import bisect_right

FORMS = 'a number such as 12, a range such as 0-40, or mean:12,max:60'

_HALVINGS = 60      # of the interval in which the ratio of a distribution is looked for


class Amount(object):
    """Probabilities of the whole numbers from `least` on.

    Args:
        text: `12`, always so many; `0-40`, each of these equally often; or `mean:12,max:60`,
            none to 60, few more often than many, 12 on average: each number is rarer than the one
            below it by the same ratio (a geometric distribution, cut off).
        most: the greatest number allowed.

    Raises ValueError with words for operators. Only + - * / are used, which IEEE 754 rounds the
    same everywhere; `sum` does not add the same way in all Python versions.
    """

    def __init__(self, text, most):
        self.least, greatest, mean = _parsed(('%s' % text).strip())
        if greatest > most:
            raise ValueError('%d is more than %d' % (greatest, most))
        if mean is None:
            weights = [1.0] * (greatest - self.least + 1)
        else:
            weights = _falling(mean, greatest)
        total = _total(weights)
        self.mean = self.least + _mean(weights)
        self._up_to = []
        reached = 0.0
        for weight in weights:
            reached += weight / total
            self._up_to.append(reached)

    def at(self, fraction):
        """Return the number below which this fraction (0 to 1) of all drawn numbers lie."""
        return self.least + min(bisect_right(self._up_to, fraction), len(self._up_to) - 1)


def _parsed(text):
    """Return the least and the greatest number, and the mean if the numbers are not even."""
    if re.match('-?[0-9]+$', text):
        if int(text) < 0:
            raise ValueError('%s is less than 0' % text)
        return int(text), int(text), None
    span = re.match('([0-9]+)-([0-9]+)$', text)
    if span:
        least, greatest = int(span.group(1)), int(span.group(2))
        if least > greatest:
            raise ValueError('%s ends before it begins' % text)
        return least, greatest, None
    around = re.match(r'mean:([0-9]+(?:\.[0-9]+)?),max:([0-9]+)$', text)
    if not around:
        raise ValueError("'%s' is not %s" % (text, FORMS))
    mean, greatest = float(around.group(1)), int(around.group(2))
    if not 0 < 2 * mean <= greatest:
        raise ValueError('the mean of %s has to be above 0 and at most half of the maximum' % text)
    return 0, greatest, mean


def _falling(mean, greatest):
    """Return weights 1, r, r*r, ... for 0 to `greatest`, with r so that the mean is `mean`."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        ratio = (low + high) / 2
        if _mean(_powers(ratio, greatest)) < mean:
            low = ratio
        else:
            high = ratio
    return _powers(high, greatest)


def _powers(ratio, greatest):
    weights = [1.0]
    for _ in range(greatest):
        weights.append(weights[-1] * ratio)
    return weights


def _total(numbers):
    total = 0.0
    for number in numbers:
        total += number
    return total


def _mean(weights):
    """Return the mean of 0, 1, 2, ... with these weights."""
    return _total(place * weight for place, weight in enumerate(weights)) / _total(weights)
