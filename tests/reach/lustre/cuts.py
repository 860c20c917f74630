"""Texts that were cut, and texts that are meant to keep a parser busy for ever."""

from __future__ import annotations

from collections.abc import Iterator

_MEGABYTE = 2**20

ADVERSARIES: tuple[str, ...] = tuple(
    (unit * (_MEGABYTE // len(unit) + 1))[:_MEGABYTE]
    for unit in (
        *(" ", "\t", "\n", "a", "1", "=", ".", "a.", "osc.", "osc.a=", "osc.a.b=1\n", "osc.a.b=\n"),
        *("'", "\x00\x1b[2J", "x-OST0001_UUID ", "x-OST0001_UUID 1 1 1 1% /a[OST:1] \n", "1 "),
        *("[OST:1]", "a: ", "error: ", "1 samples [x] ", '{ [ "', "- ", "\udcff"),
    )
)
"""A megabyte each, of what the parsers look for, over and over."""


def cuts(text: str) -> Iterator[str]:
    """Yield the text cut at the end of every line and at every 37th character."""
    ends = {place + 1 for place, character in enumerate(text) if character == "\n"}
    ends.update(range(0, len(text), 37))
    for end in sorted(ends):
        yield text[:end]


def whole_lines(text: str) -> str:
    """Return a text without its last line, which may have been cut."""
    return text.rpartition("\n")[0]
