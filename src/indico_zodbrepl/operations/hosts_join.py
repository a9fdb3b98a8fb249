"""Become a host of a cluster, by the bundle of another host."""

from __future__ import annotations

import contextlib
from typing import Self

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.host import bundle
from indico_zodbrepl.host.bundle import Joining
from indico_zodbrepl.host.interface import DryRun
from indico_zodbrepl.host.remote import program
from indico_zodbrepl.operations.journal import Told
from indico_zodbrepl.operations.model import Context, Figures
from indico_zodbrepl.operations.single import Single


class Join(Single):
    """This host gets its certificate, the cluster file and the secrets, and starts its agent."""

    action = "hosts-join"
    verb = "hosts join"
    words = "Become host {name}"
    done = "this is host {name} of cluster {cluster}; its agent runs"

    @classmethod
    def of(cls, joining: Joining) -> Self:
        """Return the step for a bundle that was checked."""
        step = cls.named(joining.bundle.host, cluster=joining.cluster.name)
        object.__setattr__(step, "_joining", joining)
        return step

    @staticmethod
    def entry() -> contextlib.AbstractContextManager[Told]:
        """Return an entry of no journal: there is none before the host has joined."""
        return contextlib.nullcontext(Told())

    def checked(self, cluster: Cluster, _installation: Installation) -> DryRun:
        joining, layout = self._bundle(), Layout(cluster)
        secrets = len(joining.bundle.secrets)
        return DryRun(
            (f"this machine has the address of host {self.subject}",),
            (
                f"write the certificate of host {self.subject} in {layout.tls}",
                f"write {secrets} secrets in {layout.secrets}",
                *([f"write {cluster.source}"] if joining.writes_file else []),
                "start the agent of this host",
            ),
            tuple(f"{each} is missing" for each in joining.missing),
        )

    def do(self, context: Context) -> Figures:
        joining = self._bundle()
        bundle.join(joining)
        context.say(f"wrote {joining.cluster.source}, certificates and secrets")
        program.ensure(context.cluster, context.installation)
        for each in joining.missing:
            context.note(f"missing on this host: {each}; copy it from another host")
        return {}

    def _bundle(self) -> Joining:
        joining: Joining = getattr(self, "_joining")  # noqa: B009 - a step has no such field
        return joining
