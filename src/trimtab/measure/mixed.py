"""Output of several benchmarks in one file, such as the log of a batch job, taken apart.

Each benchmark is given the file with the lines of the others left blank, so that the line of a
number stays what it is in the file. Several runs of one benchmark are its format's own affair.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trimtab.measure.source import Format, Source


@dataclass(frozen=True, slots=True)
class Part:
    """What of a file is of one benchmark.

    Attributes
    ----------
    line
        Where it begins first, counted from 1.
    """

    form: Format
    content: bytes
    line: int


def parts_of(source: Source, form: Format, formats: Iterable[Format]) -> tuple[Part, ...]:
    """Return the parts of a file in the order in which they begin: one, if it is of one benchmark.

    A part begins where a benchmark says that it begins (`Format.beginning`) and goes on to where
    another says so. What stands before the first belongs to it, or to ``form``.

    Parameters
    ----------
    form
        What the file was recognised as.
    """
    content = source.content
    whole = (Part(form, content, 1),)
    marks = sorted(
        ((place, each.kind, each) for each in formats for place in _places(each, content)),
        key=lambda mark: mark[:2],
    )
    if all(kind == form.kind for _, kind, _ in marks):
        return whole
    before = Source(source.name, content[: marks[0][0]])
    if marks[0][1] != form.kind and form.recognises(before):
        marks.insert(0, (0, form.kind, form))
    if form.kind not in {kind for _, kind, _ in marks}:
        return whole
    starts = [0, *(place for place, _, _ in marks[1:])]
    ends = [*starts[1:], len(content)]
    spans = [(a, b, each) for a, b, (_, _, each) in zip(starts, ends, marks, strict=True)]
    return tuple(
        _part(content, spans, each) for each in {each.kind: each for _, _, each in marks}.values()
    )


def _places(form: Format, content: bytes) -> list[int]:
    """Return where a benchmark begins, each at the beginning of a line."""
    mark = form.beginning
    if mark is None or not any(word in content for word in mark.words):
        return []
    return [match.start() for match in mark.pattern.finditer(content)]


def _part(content: bytes, spans: list[tuple[int, int, Format]], form: Format) -> Part:
    pieces = [
        content[start:end] if owner.kind == form.kind else b"\n" * content.count(b"\n", start, end)
        for start, end, owner in spans
    ]
    first = next(start for start, _, owner in spans if owner.kind == form.kind)
    return Part(form, b"".join(pieces), 1 + content.count(b"\n", 0, first))
