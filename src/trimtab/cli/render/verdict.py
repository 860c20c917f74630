"""The three answers as words with a colour; the word alone says it all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab.model.verdict import VerdictStatus

if TYPE_CHECKING:
    from rich.text import Text

_WORDS = {
    VerdictStatus.MET: ("met", "green"),
    VerdictStatus.MISSED: ("missed", "bold red"),
    VerdictStatus.CANNOT_TELL: ("cannot tell", "yellow"),
}


def verdict_word(status: VerdictStatus) -> Text:
    """Return the answer as coloured text."""
    from rich.text import Text

    word, style = _WORDS[status]
    return Text(word, style=style, no_wrap=True)
