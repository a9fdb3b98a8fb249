"""Prints as JSON what must stay as it is when a site is adopted."""
import json

import MaKaC.common  # noqa: F401  first: MaKaC's packages import in a circle
from indico.core.db import DBMgr
from MaKaC.common.info import HelperMaKaCInfo
from MaKaC.conference import CategoryManager, ConferenceHolder
from MaKaC.user import AvatarHolder


def main():
    manager = DBMgr.getInstance()
    manager.startRequest()
    info = HelperMaKaCInfo.getMaKaCInfoInstance()
    print(json.dumps({
        'title': info.getTitle(),
        'admins': [admin.getEmail() for admin in info.getAdminList().getList()],
        'users': sorted(user.getEmail() for user in AvatarHolder().getList()),
        'categories': sorted(
            each.getName() for each in CategoryManager().getList()),
        'events': sorted(
            (each.getTitle(), str(each.getModificationDate()),
             each.getOwner().getId(), each.getTimezone())
            for each in ConferenceHolder().getList())}))
    manager.endRequest(False)


if __name__ == '__main__':
    main()
