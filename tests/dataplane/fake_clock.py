"""A clock that tests set."""


class Clock(object):

    now = 1000.0

    def monotonic(self):
        return self.now
