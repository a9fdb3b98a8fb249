"""The one way in which the bulk loader tells an operator that it could not go on."""

OK = 0
INCOMPLETE = 1          # verify: the storage holds something else than the record says
BAD_ARGUMENTS = 2
ALREADY_LOADED = 3
OTHER_RUN_UNFINISHED = 4
NOT_INITIALISED = 5
STORAGE_AWAY = 6
STORAGE_READ_ONLY = 7
CONFLICTS = 8
DISK_FULL = 9
NOT_ALIKE = 10          # the bulk way does not know how this Indico makes events
INTERRUPTED = 130


class LoaderError(Exception):
    """Something an operator has to know of, in the pattern NOTICE / DETAIL / HINT.

    Args:
        exit_code: one of the codes above.
        notice: what could not be done, one line without a full stop.
        detail: where and why; may be empty.
        hint: what to do about it, as an exact command where there is one.
    """

    def __init__(self, exit_code, notice, detail='', hint=''):
        Exception.__init__(self, notice)
        self.exit_code = exit_code
        self.notice = notice
        self.detail = detail
        self.hint = hint

    def __str__(self):
        lines = (('NOTICE', self.notice), ('DETAIL', self.detail), ('HINT', self.hint))
        return '\n'.join('%s: %s' % line for line in lines if line[1])
