"""Print the titles of all events of an Indico, by their ids, as JSON; Python 2.7.

usage: INDICO_CONF=... titles.py ZODB_CONF
"""
import json
import sys

import MaKaC.common  # noqa: F401  before MaKaC.conference
import MaKaC.conference  # noqa: F401  the classes of the objects
from client import opened


def main():
    events = opened(sys.argv[1]).open().root()['conferences']
    json.dump({key: each.title for key, each in events.items()}, sys.stdout)


if __name__ == '__main__':
    main()
