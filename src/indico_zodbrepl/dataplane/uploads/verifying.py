"""Verify the content of every entry against its recorded size and digest; change nothing."""
from __future__ import absolute_import

from ZODB.POSException import POSKeyError

from indico_zodbrepl.dataplane.uploads import entries


def verify(database, digest_of, survey, progress):
    """Return the answer of the program: how much was read, and what is missing or differs.

    Args:
        database: a `Database`.
        digest_of: a function of `reading.reader_of`; None if no file is in the database.
        survey: a `Survey` of the same database.
        progress: a `Progress`.
    """
    findings = [dict(each, why=u'its file is missing in the archive') for each in survey.missing]
    files = size = 0
    for found in survey.stored:
        database.interrupted()
        value, why = _checked(database, digest_of, found)
        if why:
            database.refresh()  # it may have been replaced or packed away since
            value, why = _checked(database, digest_of, found)
        if why:
            findings.append(dict(entries.described(found.place, value), why=why))
        files += 1
        size += found.size
        progress.done(1, found.size)
        database.tidy()
    progress.finish()
    return {'archived': len(survey.archived) + len(survey.missing),
            'verified': {'files': files, 'bytes': size}, 'findings': findings}


def _checked(database, digest_of, found):
    """Return an entry's value, and what is wrong with its content; empty if nothing is."""
    files = entries.repositories(database.root).get(found.place.repository, {})
    value = files.get(found.place.id)
    if value is None or entries.is_archived(value):
        return value, u''
    content = entries.Content(*value)
    try:
        revision = database.revision(content.blob)
    except POSKeyError:
        return value, u'its object is missing in the database'
    there = digest_of(content.blob._p_oid, revision)
    if there is None:
        return value, u'its content is missing'
    size, sha256 = there
    if size != content.size:
        return value, u'it has %d bytes, and %d are recorded' % (size, content.size)
    if sha256 != content.sha256:
        return value, u'its content differs from what is recorded'
    return value, u''
