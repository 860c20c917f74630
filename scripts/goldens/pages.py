"""The facts of a page: title, figures of its text, cells of its tables, marks of its charts."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

from scripts.goldens.facts import is_sentence, normal, text, text_of
from tests.support.sentences import numbers

_WITHOUT_END = {"meta", "link", "br", "hr", "img", "input", "source", "wbr", "col"}
_MARK = "role-mark"
"""What Vega calls a group of marks that show data: not axes, legends, titles."""


def facts(page: str) -> dict[str, Any]:
    """Return the facts of an HTML page, neither wording nor markup."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    return {
        "title": normal(reader.title.strip()),
        "figures": [figures for figures in reader.figures if figures],
        "tables": [normal(rows) for rows in reader.tables],
        "charts": reader.charts,
    }


class _Reader(HTMLParser):
    """Takes elements as they come; only tables, charts and blocks of text are told apart."""

    def __init__(self) -> None:
        super().__init__()
        self.title = ""
        self.figures: list[list[float]] = []
        self.tables: list[list[list[Any]]] = []
        self.charts: list[dict[str, int]] = []
        self._open: list[tuple[str, str]] = []
        self._cell: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin an element."""
        words = dict(attrs).get("class") or ""
        if tag == "table":
            self.tables.append([])
        elif tag == "tr" and self.tables:
            self.tables[-1].append([])
        elif tag in {"td", "th"} and self.tables:
            self._cell = []
        elif tag == "svg" and "drawing" in words.split():
            self.charts.append({})
        elif marks := self._marks():
            self.charts[-1][marks] = self.charts[-1].get(marks, 0) + 1
        if tag not in _WITHOUT_END:
            self._open.append((tag, words))

    def handle_endtag(self, tag: str) -> None:
        """End an element, and those in it that have no end of their own."""
        if tag in {"td", "th"} and self._cell is not None:
            self.tables[-1][-1].append(_cell(" ".join("".join(self._cell).split())))
            self._cell = None
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        """Take text: of a cell as it is, of anything else its figures."""
        within = {tag for tag, _ in self._open}
        if "title" in within and "svg" not in within:
            self.title += data
        elif within & {"style", "script", "svg", "head"}:
            return
        elif self._cell is not None:
            self._cell.append(data)
        else:
            self.figures.append(sorted(numbers(text_of(data))))

    def _marks(self) -> str | None:
        """Return the kind of the marks that the open element holds, ``mark-line``."""
        words = self._open[-1][1].split() if self._open else []
        return words[0] if _MARK in words and self.charts else None


def _cell(words: str) -> Any:
    """Return a cell as it is; of a sentence its figures."""
    figures = sorted(numbers(text_of(words)))
    return {"figures": figures} if is_sentence(words) and figures else text(words)
