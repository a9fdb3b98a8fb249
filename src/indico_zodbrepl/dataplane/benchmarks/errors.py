"""Why a test was not made; each with the HTTP status that says so."""


class BenchmarkError(Exception):
    """Its text is for people; `status` is that of the HTTP answer."""
    status = 500


class BadParameters(BenchmarkError):
    """A parameter is unknown, of the wrong kind, or out of its bounds."""
    status = 400


class UnknownTest(BenchmarkError):
    """There is no test of that name."""
    status = 404


class NothingLoaded(BenchmarkError):
    """The database holds nothing that the test may use."""
    status = 412


class StorageFailed(BenchmarkError):
    """The storage went away, or takes no writes."""
    status = 503
