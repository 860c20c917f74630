"""Screens as a person reads them: printed on a terminal of a given width."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
import pytest
from rich.cells import cell_len

from trimtab.base.code_version import __version__
from trimtab.cli import trimtab
from trimtab.show.command_options import _EXTENT, Extent
from trimtab.show.document import Document
from trimtab.show.screen_document import print_document

Screen = Document | Callable[[], object]
Lines = Callable[..., list[str]]
_IDENTIFIER = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b")


def lines_of(capsys: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> Lines:
    """Return what prints a screen and returns its lines.

    It is called with a document or what makes or prints one, the ``width`` of the terminal and an
    ``extent``; what differs between releases and runs is replaced.
    """

    def lines(screen: Screen, *, width: int = 80, extent: Extent | None = None) -> list[str]:
        patch.setenv("COLUMNS", str(width))
        with click.Context(trimtab) as context:
            context.meta[_EXTENT] = extent or Extent()
            made = screen if isinstance(screen, Document) else screen()
            if isinstance(made, Document):
                print_document(made)
        text = capsys.readouterr().out.replace(__version__, "VERSION")
        return [line.rstrip() for line in _IDENTIFIER.sub("IDENTIFIER", text).splitlines()]

    return lines


def too_wide(lines: list[str], width: int) -> list[str]:
    """Return the lines that a terminal of this width would break."""
    return [line for line in lines if cell_len(line) > width]


@contextmanager
def in_utc() -> Iterator[pytest.MonkeyPatch]:
    """Have the time zone of this process be UTC inside the block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield patch
    time.tzset()
