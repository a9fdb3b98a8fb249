"""``zodbrepl render``: the generated files, without writing any."""

from __future__ import annotations

import click

from ..node import generated
from .app import App, pass_app


@click.command()
@pass_app
def render(app: App) -> None:
    """Print every file that would be generated; changes nothing."""
    files = {**generated.cluster_files(app.cluster, app.installation),
             **generated.node_files(app.cluster)}
    for path, text in files.items():
        click.secho(f"==> {path} <==", bold=True)
        click.echo(text)
