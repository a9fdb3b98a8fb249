"""The certificates that an agent and its host's tunnel use, and their change while both run."""

from __future__ import annotations

import asyncio
import datetime
import ssl
import time
from collections.abc import Callable

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.etcd import member
from indico_zodbrepl.host import certificates, etcd_control, renewal, tls, tunnel, tunnel_control
from indico_zodbrepl.host.remote.listener import Listener
from indico_zodbrepl.host.supervisor import SupervisorAwayError

Log = Callable[[str], None]


class Credentials:
    """The certificates in use.

    Args:
        last: returns the cluster.
        log: takes a line for each change.

    Raises OperatorError (exit 8): they are missing, not this host's, or can't be used.
    """

    def __init__(self, last: Callable[[], Cluster], listener: Listener, log: Log) -> None:
        self._last = last
        self._listener = listener
        self._log = log
        self._alone = asyncio.Lock()
        self._seen = self._stamps()
        self.context, self.held = self._read()

    def _read(self) -> tuple[ssl.SSLContext, renewal.Held]:
        cluster = self._last()
        folder = Layout(cluster).tls
        now = datetime.datetime.now(datetime.UTC)
        certificates.check_host(folder, cluster.host(str(cluster.here)), now)
        return tls.server_context(folder), renewal.held(folder)

    def _stamps(self) -> tuple[int, ...]:
        folder = Layout(self._last()).tls
        files = (certificates.authorities_file(folder), certificates.own_file(folder))
        return tuple(each.stat().st_mtime_ns if each.exists() else 0 for each in files)

    async def renew_if_changed(self) -> None:
        """Use certificates that somebody has replaced; report those that can't be used."""
        stamps = self._stamps()
        if stamps == self._seen:
            return
        self._seen = stamps
        try:
            await self.renew()
        except OperatorError as error:
            self._log(f"the renewed certificates can't be used: {error.notice}: {error.detail}")

    async def renew(self) -> None:
        """Use the certificates that are there now for new connections.

        An authority that is no longer trusted is not trusted from now on.  Raises OperatorError
        (exit 8), and the former ones stay in use.
        """
        async with self._alone:
            self._seen = self._stamps()
            context, held = await asyncio.to_thread(self._read)
            if held != self.held:
                await self._listener.renew(context)
                self.context, self.held = context, held
                self._log("the certificates were read again")
            await asyncio.to_thread(self._renew_tunnel)
            await asyncio.to_thread(self._renew_etcd)

    def _renew_tunnel(self) -> None:
        cluster = self._last()
        if not tunnel.runs_here(cluster):
            return
        try:
            if tunnel_control.is_outdated(cluster):
                tunnel_control.reload(cluster)
                self._log(f"{tunnel.name(cluster)} has read its files again")
        except SupervisorAwayError:
            return  # it reads them when it starts
        except OperatorError as error:
            self._log(f"{tunnel.name(cluster)}: {error.notice}: {error.detail}")

    def _renew_etcd(self) -> None:
        cluster = self._last()
        if not member.runs_here(cluster):
            return
        try:
            if etcd_control.restart_if_outdated(
                cluster, time.monotonic() + etcd_control.RESTART_SECONDS
            ):
                self._log(f"{etcd_control.NAME} was restarted, to trust the authorities of now")
        except SupervisorAwayError:
            return  # it reads them when it starts
        except OperatorError as error:
            self._log(f"{etcd_control.NAME}: {error.notice}: {error.detail}")
