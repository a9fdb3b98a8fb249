"""Makes one more conference in a category, or changes one; prints the path of a new one.

    make_conference.py CATEGORY TITLE
    make_conference.py --describe CONFERENCE TEXT
"""
import json
import sys

import make_events
from indico.core.db import DBMgr
from indico.util.contextManager import ContextManager
from MaKaC.conference import CategoryManager, ConferenceHolder
from MaKaC.user import AvatarHolder


def main(arguments):
    manager = DBMgr.getInstance()
    manager.startRequest()
    ContextManager.set('autoOps', [])
    if arguments[0] == '--describe':
        ConferenceHolder().getById(arguments[1]).setDescription(arguments[2])
    else:
        category, title = arguments
        print(json.dumps(make_events.make_event(
            CategoryManager().getById(category), AvatarHolder().getList()[0],
            'conference', 'static', title)))
    manager.endRequest(True)
    manager._db.close()


if __name__ == '__main__':
    main(sys.argv[1:])
