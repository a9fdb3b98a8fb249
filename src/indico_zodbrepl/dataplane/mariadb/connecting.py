"""Connecting to MariaDB in limited time.  The driver is imported where it is the one in use."""


def limit_connecting(driver):
    """Has PyMySQL's `connect_timeout` count for the server's greeting and the login, too.

    PyMySQL waits for them as long as for any statement; the kernel takes connections to a server
    that is frozen.  Other drivers limit all of it by themselves.

    Args:
        driver: RelStorage's, which connections are made with from now on.
    """
    if driver.MODULE_NAME == 'pymysql':
        driver._connect = _limited()


def _limited():
    from pymysql.connections import Connection

    class LimitedConnection(Connection):

        def connect(self, sock=None):
            limits = self._read_timeout, self._write_timeout
            self._read_timeout = self._write_timeout = self.connect_timeout
            try:
                Connection.connect(self, sock)
            finally:
                self._read_timeout, self._write_timeout = limits
    return LimitedConnection
