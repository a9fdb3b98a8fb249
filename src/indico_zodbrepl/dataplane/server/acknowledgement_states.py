"""The states of a primary that acknowledges commits when followers have them:

- off: not a primary, or commits wait for nobody;
- starting: the primary was started.  It serves no client until followers have what is in its file,
  for START_LIMIT at most.  What an earlier process never acknowledged stays hidden until then.  A
  primary that was alone before goes on alone at once, unless it is to refuse commits now;
- waiting: too few followers are up to date.  Votes wait;
- synchronous: commits are acknowledged;
- refusing: votes are refused, after `timeout` seconds without enough followers;
- asking: votes would go on without followers if somebody said so (the order `alone`);
- alone: commits are acknowledged without followers, until these are up to date again.
"""
from __future__ import absolute_import

import collections

OFF = 'off'
STARTING = 'starting'
WAITING = 'waiting'
SYNCHRONOUS = 'synchronous'
REFUSING = 'refusing'
ASKING = 'asking'
ALONE = 'alone'

REFUSE, DEGRADE = 'refuse', 'degrade'

# How commits are acknowledged: the `count` of followers that must have a transaction, at `level`;
# seconds of `timeout`; what to do `alone`, one of REFUSE and DEGRADE.
Settings = collections.namedtuple('Settings', 'count level timeout alone')
