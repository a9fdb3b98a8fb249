"""What a secondary says about its upstream: each change once, no floods."""


class UpstreamLog(object):
    """Turns the events of a link that reconnects for ever into log lines.

    Not thread-safe: all events come from the reactor's thread.

    Args:
        logger: gets the lines.
        upstream: the upstream's address as text.
        delay: seconds between two attempts to connect.
    """

    def __init__(self, logger, upstream, delay):
        self._logger = logger
        self._upstream = upstream
        self._delay = delay
        self._said = None

    def unreachable(self, reason):
        """An attempt to connect failed."""
        self._say('unreachable', 'cannot reach upstream %s: %s; trying again '
                  'every %g s', self._upstream, reason, self._delay)

    def following(self):
        """A connection has lasted long enough to count."""
        self._said = None
        self._logger.info('following upstream %s', self._upstream)

    def lost(self, reason):
        """A connection that counted has ended."""
        self._say('lost', 'lost upstream %s: %s; trying again every %g s',
                  self._upstream, reason, self._delay)

    def turned_away(self, reason):
        """A connection ended before it counted."""
        self._say('turned away', 'upstream %s ended the connection at once: '
                  '%s; if it stays so, see its log: it turns away a node that '
                  'holds a later transaction than itself', self._upstream,
                  reason)

    def _say(self, what, message, *args):
        if self._said != what:
            self._said = what
            self._logger.warning(message, *args)
