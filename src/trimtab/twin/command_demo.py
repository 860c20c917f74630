"""``trimtab demo``: the dashboard on a file system of the twin."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Final

import click

DIRECTORY: Final = "trimtab-demo"
_LIBRARIES: Final = ("fastapi", "uvicorn")


@click.command("demo")
@click.option(
    "--bind",
    metavar="HOST:PORT",
    default="127.0.0.1:8765",
    show_default=True,
    help="Address of this host to listen on.",
)
@click.option(
    "--directory",
    metavar="DIR",
    default=DIRECTORY,
    show_default=True,
    help="Directory of the simulated site; an existing one is served.",
)
@click.pass_context
def demo_command(context: click.Context, bind: str, directory: str) -> None:
    """Show the dashboard on nine simulated months of a Perlmutter-like site.

    Takes some ten seconds on two processors. The site is coarse: its 274 OSTs are simulated as
    four classes, in steps of eight hours. `trimtab twin run perlmutter` simulates it in full.
    """
    from trimtab.show.screen_document import progress_bar
    from trimtab.twin.page_demo import is_prepared, prepare_demo, site_file_of

    place = Path(directory)
    # Without its libraries the dashboard says what to install before the user has waited.
    if all(map(find_spec, _LIBRARIES)) and not is_prepared(place):
        remains = f"the demo is incomplete: remove {place} and start it again"
        with progress_bar(remains=remains) as progress:
            prepare_demo(place, progress)
    assert context.parent is not None
    assert isinstance(context.parent.command, click.Group)
    serve = context.parent.command.get_command(context, "serve")
    assert serve is not None
    context.invoke(serve, where=str(site_file_of(place)), bind=bind)
