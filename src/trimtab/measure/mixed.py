"""Splits a file with the output of several benchmarks, such as a batch job's log.

Each benchmark gets the file with the lines of the others blanked, so that line numbers stay those
of the file. Several runs of one benchmark are handled by its format.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trimtab.measure.source import Format, Source


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a file that belongs to one benchmark.

    Attributes
    ----------
    line
        Its first line, from 1.
    """

    form: Format
    content: bytes
    line: int


def parts_of(source: Source, form: Format, formats: Iterable[Format]) -> tuple[Part, ...]:
    """Return the parts of a file, by their first line; one for a single benchmark.

    A part starts at a benchmark's start line (`Format.beginning`) and ends before the next one's.
    Lines before the first belong to it, or to ``form``.

    Parameters
    ----------
    form
        The format that the file was recognised as.
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
    """Return the positions where a benchmark starts, each at the start of a line."""
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
