"""A page of sections with tables, charts and sentences: as HTML, and the same as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trimtab.report import text
from trimtab.report.chart import Chart
from trimtab.report.kit import Table, Tone, escaped, markdown
from trimtab.report.render import drawn, environment

if TYPE_CHECKING:
    from markupsafe import Markup

    Drawings = tuple[tuple[Chart, Markup], ...]


@dataclass(frozen=True, slots=True)
class Section:
    """One part of a page.

    Attributes
    ----------
    title
        Empty if its lines and tables directly follow the answer.
    lines
        Sentences, each a paragraph.
    charts
        Called when drawn, since a terminal shows none; ``None``: nothing to draw.
    tables
        ``None`` if there is nothing to show.
    notes
        What a reader should also know.
    folds
        Title and table each, behind a line that opens it; the first is open.
    commands
        For copying: never broken.
    folded
        Whether only the title is shown: until a click on a page, without ``--all`` on a terminal.
    tone
        Tone of a finding, whose title names it; without a title, tone of the lines.
    """

    title: str = ""
    lines: tuple[str, ...] = ()
    charts: tuple[Callable[[], Chart | None], ...] = ()
    tables: tuple[Table | None, ...] = ()
    notes: tuple[str, ...] = ()
    folds: tuple[tuple[str, Table | None], ...] = ()
    commands: tuple[str, ...] = ()
    folded: bool = False
    tone: Tone | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to read beneath the title; charts may still be drawn."""
        return not (self.lines or self.commands or any(self.tables) or self.folds or self.notes)


@dataclass(frozen=True, slots=True)
class Document:
    """A page, with the answer first; a terminal screen needs neither heading nor tone.

    Attributes
    ----------
    kind
        The command behind it: ``purge horizon``.
    details
        Sentences after the answer.
    more
        Last lines on a terminal: commands that show more, or continue.
    command
        The last of them, for copying: never broken.
    """

    answer: str
    sections: tuple[Section, ...] = ()
    kind: str = ""
    heading: str = ""
    subtitle: str = ""
    tone: Tone = "info"
    details: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    command: str = ""


def render_document(document: Document) -> str:
    """Return a self-contained HTML page: no network, no script, deterministic."""
    page = environment().get_template("sections.html.j2")
    return page.render(document=document, sections=drawn_sections(document))


def drawn_sections(document: Document) -> tuple[tuple[Section, Drawings], ...]:
    """Return the sections of a page, each with its charts drawn."""
    return tuple(
        (section, drawn(chart() for chart in section.charts)) for section in document.sections
    )


def document_markdown(document: Document) -> str:
    """Return a page as Markdown, without its charts: their figures are in its tables."""
    return "\n\n".join(_blocks(document)) + "\n"


def _blocks(document: Document) -> Iterator[str]:
    yield f"# {escaped(document.heading)}"
    yield escaped(document.subtitle)
    yield f"**{escaped(document.answer)}**"
    yield from map(escaped, document.details)
    for section in document.sections:
        yield f"## {escaped(section.title)}"
        yield from map(escaped, section.lines)
        yield from (f"    {command}" for command in section.commands)
        yield from (markdown(table) for table in section.tables if table is not None)
        for title, table in section.folds:
            yield f"### {escaped(title)}"
            if table is not None:
                yield markdown(table)
        if section.notes:
            yield "\n".join(f"- {escaped(text.sentence(note))}" for note in section.notes)
