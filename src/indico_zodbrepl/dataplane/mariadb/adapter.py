"""The ZConfig section `<mariadb>`, to be used inside of `<relstorage>`."""
from relstorage.adapters.mysql import MySQLAdapter
from relstorage.config import MySQLAdapterFactory

from .connecting import limit_connecting
from .schema import MariaDBSchemaInstaller
from .stats import MariaDBStats


class MariaDBAdapter(MySQLAdapter):
    """RelStorage's adapter of MySQL with a schema installer and sizes for MariaDB.

    `connect_timeout` limits all of a connection's beginning.

    As thread-safe as the one it extends.
    """

    def _create(self):
        super(MariaDBAdapter, self)._create()
        limit_connecting(self.driver)
        self.schema = MariaDBSchemaInstaller(
            driver=self.driver,
            connmanager=self.connmanager,
            runner=self.runner,
            keep_history=self.keep_history,
            version_detector=self.version_detector)
        self.stats = MariaDBStats(
            connmanager=self.connmanager,
            keep_history=self.keep_history)


class MariaDBAdapterFactory(MySQLAdapterFactory):
    """What ZConfig makes of `<mariadb>`."""

    def create(self, options):
        """Returns a `MariaDBAdapter` for RelStorage's `options`; connects to nothing."""
        keys = set(self.config.getSectionAttributes()) - {'driver'}
        given = {key: getattr(self.config, key) for key in keys}
        return MariaDBAdapter(options=options, **{
            key: value for key, value in given.items() if value is not None})
