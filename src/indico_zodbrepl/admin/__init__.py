"""The admin page: reads the monitor's snapshots and shows them; changes nothing."""

from indico_zodbrepl.admin.app import create_app

__all__ = ["create_app"]
