"""Make the objects of a run, or print them all; Python 2.7.

usage: prepare.py make ZODB_CONF GENERATIONS PLACE...
       prepare.py show ZODB_CONF

Lists and values are PersistentLists; a value is its only element.  `show` prints a JSON object.
"""
import json
import sys

import transaction
from BTrees.OOBTree import OOBTree
from client import opened
from objects import LISTS, VALUES, key_of, own_key
from persistent.list import PersistentList


def make(root, generations, places):
    objects = OOBTree()
    for each in range(generations):
        for place in range(LISTS):
            objects[key_of('list', each, place)] = PersistentList()
        for place in range(VALUES):
            objects[key_of('value', each, place)] = PersistentList([0])
    for place in places:
        objects[own_key(place)] = PersistentList([0])
    root['chaos'] = objects
    transaction.commit()


def show(root):
    json.dump({key: list(value) for key, value in root['chaos'].items()}, sys.stdout)


def main():
    root = opened(sys.argv[2]).open().root()
    if sys.argv[1] == 'make':
        make(root, int(sys.argv[3]), sys.argv[4:])
    else:
        show(root)


if __name__ == '__main__':
    main()
