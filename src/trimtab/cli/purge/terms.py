"""Options that several steps of a purge share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

PATH = click.Path(path_type=Path)


def index(function: Decorated) -> Decorated:
    """Add ``--index``."""
    return click.option(
        "--index", "directory", type=PATH, required=True, metavar="DIR", help="Of the index."
    )(function)


def place(function: Decorated) -> Decorated:
    """Add ``--place``."""
    text = (
        "Directory of root's with the key, the journals and who armed what. Default: "
        "$TRIMTAB_PURGE, else /var/lib/trimtab/purge."
    )
    return click.option("--place", "place", metavar="DIR", help=text)(function)


def site(function: Decorated) -> Decorated:
    """Add ``--site``."""
    text = (
        "Site that says whether reads are recorded (a canary is read through each class of its "
        "clients), how full each OST is and how use has grown."
    )
    return click.option("--site", "site", metavar="SITE", help=text)(function)


def threads(function: Decorated) -> Decorated:
    """Add ``--threads``."""
    return click.option(
        "--threads",
        type=click.IntRange(0, 256),
        default=0,
        metavar="N",
        help="Threads. Default: as many as suit the machine.",
    )(function)
