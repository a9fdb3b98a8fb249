"""The marks by which the release of Indico that wrote a database is recognised.

Indico does not record its release.  Each of its migrations leaves marks, and so does their lack:
1.0 gave the site a list of addresses with full access, 1.1 made the users' links sorted sets, and
1.2 salted the passwords of local users and gave each kind of abstract field a class of its own.
"""
from __future__ import absolute_import

OLD_FIELD = 'AbstractField'
KEPT_IDENTITIES = ('LocalIdentity', 'LDAPIdentity')


class Marks(object):
    """The marks that were found so far.

    Args:
        info: the object of the site's settings; None without one.

    Attributes:
        other_identities: number of identities that the migration to 1.2 removes.
    """

    def __init__(self, info):
        self._before_1_0 = not hasattr(info, '_ip_based_acl_mgr')
        self._lists = self._sets = 0
        self._plain = self._salted = 0
        self._old_fields = self._fields = 0
        self.other_identities = 0

    def see_user(self, user):
        for roles in getattr(user, 'linkedTo', {}).values():
            for objects in (roles.values() if hasattr(roles, 'values') else ()):
                if isinstance(objects, list):
                    self._lists += 1
                else:
                    self._sets += 1
        self.other_identities += sum(
            type(each).__name__ not in KEPT_IDENTITIES for each in getattr(user, 'identities', ()))

    def see_identity(self, identity):
        if hasattr(identity, 'algorithm'):
            self._salted += 1
        else:
            self._plain += 1

    def see_conference(self, conference):
        manager = getattr(conference.abstractMgr, '_abstractFieldsMgr', None)
        for field in getattr(manager, '_fields', ()):
            if type(field).__name__ == OLD_FIELD:
                self._old_fields += 1
            elif field is not None:
                self._fields += 1

    def release(self):
        """Return 'older' than 1.0, '1.0', '1.1', '1.2', or None if no mark was found."""
        if self._before_1_0:
            return 'older'
        if self._plain or self._old_fields:
            return '1.0' if self._lists else '1.1'
        return '1.2' if self._salted or self._fields else None

    def why(self):
        """Return the marks in words."""
        return ('%d of %d local passwords salted, %d of %d abstract fields of the 1.2 kind, '
                '%d lists and %d sets of links' % (
                    self._salted, self._salted + self._plain,
                    self._fields, self._fields + self._old_fields, self._lists, self._sets))
