"""The command that installs everything into a folder."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option(
    "--home",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="The folder to install into.",
)
@click.option(
    "--python27",
    default="",
    metavar="FILE",
    help="A CPython 2.7.  [default: $INDICO_PYTHON27, or one that is found]",
)
@click.option(
    "--install-python27",
    is_flag=True,
    help="If no Python 2.7 is found: install it from the last Debian suite that has it (Debian "
    "only, as root).",
)
@click.pass_context
def setup(context: click.Context, home: Path, python27: str, install_python27: bool) -> None:
    """Install both Python environments, the patched Indico and the commands into a folder.

    Finished parts are skipped; an interrupted run is completed by the next one.  Without a
    cluster file, DIR/etc/cluster.conf is made from an example.
    """
    from indico_zodbrepl.setup import bootstrap
    from indico_zodbrepl.setup.material import Material
    from indico_zodbrepl.setup.wanted import Wanted

    home = home.absolute()
    wanted = Wanted(
        home, Material.here(), home / "downloads", again=f"zodbrepl setup --home {home}"
    )
    context.exit(
        bootstrap.reporting(
            lambda: bootstrap.set_up(wanted, python27, install_python27=install_python27)
        )
    )
