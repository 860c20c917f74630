"""How every command shows its result: as text for people, or as one JSON document."""

from __future__ import annotations

from collections.abc import Callable

import click

from trimtab.cli.options import wants_json
from trimtab.errors import Interrupted, TrimtabError


def show(
    document: Callable[[], object],
    text: Callable[[], object],
    *,
    error: TrimtabError | Interrupted | None = None,
) -> None:
    """Print a result, then raise the error that kept it from being whole.

    Parameters
    ----------
    document
        Returns the envelope of `trimtab.report.documents`, which holds the error too; called
        only with ``--json``.
    text
        Prints the result for people.
    error
        Raised when the result was printed; a document of its own is not printed for it then.
    """
    if wants_json():
        from trimtab.report.documents.encode import to_json

        click.echo(to_json(document()))
    else:
        text()
    if error is not None:
        error.reported = wants_json()
        raise error
