r"""Removes line prefixes that launchers and other tools add to output.

::

    0: IOR-4.0.0: MPI Coordinated Test of Parallel I/O       srun --label
    node01: IOR-4.0.0: MPI Coordinated Test ...              pdsh, clush
    [0] IOR-4.0.0: MPI Coordinated Test ...                  mpirun -l of Intel MPI and MPICH
    [1,0]<stdout>:IOR-4.0.0: MPI Coordinated Test ...        mpirun --tag-output of Open MPI
    Nov 28 10:00:00 IOR-4.0.0: MPI Coordinated Test ...      ts
        IOR-4.0.0: MPI Coordinated Test ...                  pasted as code

A prefix on most lines is removed first; otherwise only if the text has no known format with it.
Line numbers do not change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

_LAYERS: Final = 3
"""``srun --label`` under ``ts``, pasted as code: no line has more prefixes."""
_LABELS_MAXIMUM: Final = 4096
"""More of them are not node names, but words of prose before a colon."""
_FEW: Final = 2
"""So few lines do not identify a prefix: a cut survey starts with a date."""
_LOOKED_AT_BYTES: Final = 65_536
"""Bytes at the start that are searched for the prefix."""

_CLOCK: Final = rb"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?: ?(?:Z|[+-]\d\d:?\d\d)(?![\d:]))?"
_DAY: Final = rb"(?:\d{4}[-/]\d\d[-/]\d\d[T ]|(?:[A-Z][a-z]{2} )?[A-Z][a-z]{2} [ \d]\d )"
_TIME: Final = rb"(?:%s?%s(?: \d{4}(?!\d))?|\d{10}(?:\.\d{1,9})?)" % (_DAY, _CLOCK)
_TAG: Final = (
    rb"(?:%s ?)?\[(?:[^\s\[\],<>]{1,99},)?(?P<label>\d{1,9})\](?:\[[^\s\[\]]{1,300}\])?"
    rb"<std(?:out|err|diag)>:" % _TIME
)
_RANK: Final = rb"(?P<label>\d{1,9})"
_NOT_MOST: Final = 1.0
_PREFIXES: Final = tuple(
    (re.compile(b"^" + pattern, re.MULTILINE), re.compile(b"\n" + pattern, re.MULTILINE), least)
    for pattern, least in (
        # Open MPI 5 adds a blank. After the prefix of version 4 a blank belongs to the line.
        (_TAG + rb"(?: |$)", 0.5),
        (_TAG, 0.5),
        (rb"(?P<label>)[\[(]?%s[\])]?(?:[ \t]|$)" % _TIME, 0.5),
        (rb"\[%s\](?: |$)" % _RANK, 0.5),
        (rb" {0,6}%s:(?: |$)" % _RANK, 0.5),
        # Not a program's error message, Slurm itself, or "V-1: " of mdtest -v.
        (
            rb"(?!(?:fio|ior|mdtest|lst|srun|slurmstepd|[A-Z]+|V-\d):)"
            rb"(?P<label>[A-Za-z][\w.-]{0,250}):(?: |$)",
            0.9,
        ),
        (rb"(?P<label>)(?: {4}|\t)", _NOT_MOST),
    )
)
"""Each at the start of a line, and after the previous line's end, which is found several times as
fast; with the share of lines above which it is removed first.

Formats that are recognised by a word within a line are recognised with a prefix, too. They may have
indented lines, and words before a colon, themselves.
"""
_INDENT: Final = re.compile(rb"\n[ \t]*(?=[^\s])")


@dataclass(frozen=True, slots=True)
class Stream:
    """The output of one process or node, or a whole text.

    Attributes
    ----------
    label
        Name of the node, or ``rank 3``, if others in the text have separate outputs.
    content
        Its lines without prefixes; other lines are blank.
    known
        ``False`` for a node whose output is not recognised.
    """

    label: str | None
    content: bytes
    known: bool = True


def streams(
    content: bytes, is_known: Callable[[bytes], bool], layers: int = _LAYERS
) -> Iterator[tuple[Stream, ...]]:
    r"""Yield the ways to read a text that contain a known format, the likeliest first.

    Nodes, and ranks if several have known outputs, are separate streams, in the order of their
    first lines. If only one rank has, all lines belong to it: without labels other ranks' lines
    would be among its own, too.

    Examples
    --------
    >>> text = b"n1: a 1\nn2: a 2\nn1: b\n"
    >>> (one, other), *_ = streams(text, lambda known: b"a" in known)
    >>> one, other.content
    (Stream(label='n1', content=b'a 1\n\nb\n', known=True), b'\na 2\n\n')
    """
    head = content[: content.rfind(b"\n", 0, _LOOKED_AT_BYTES) + 1] or content[:_LOOKED_AT_BYTES]
    prefix, most = _prefix_of(head) if layers else (None, False)
    itself = is_known(content)
    if itself and not most:
        yield (Stream(None, content),)
    if prefix is not None:
        by_label = tuple(_by_label(content, prefix, is_known, layers - 1))
        if len(by_label) > 1 and any(stream.known for stream in by_label):
            yield by_label
        else:
            yield from streams(prefix.sub(b"", content), is_known, layers - 1)
    if itself and most:
        yield (Stream(None, content),)


@lru_cache(maxsize=2)  # the same file is first recognised, then read
def _prefix_of(text: bytes) -> tuple[re.Pattern[bytes] | None, bool]:
    """Return the prefix of most lines, and whether enough have it to remove it first."""
    lines = b"\n" + text
    indents = [match.end() - match.start() - 1 for match in _INDENT.finditer(lines)]
    if b"\0" in text or not indents:
        return None, False
    if common := min(indents):
        return re.compile(rb"^(?P<label>)[ \t]{%d}" % common, re.MULTILINE), True
    counts = [sum(1 for _ in begun.finditer(lines)) for _, begun, _ in _PREFIXES]
    count = max(counts)
    prefix, _, least = _PREFIXES[counts.index(count)]
    return (prefix, count > max(least * len(indents), _FEW)) if count else (None, False)


def _by_label(
    content: bytes, prefix: re.Pattern[bytes], is_known: Callable[[bytes], bool], layers: int
) -> Iterator[Stream]:
    """Yield the streams with known output, by label."""
    labels = dict.fromkeys(match["label"] for match in prefix.finditer(content))
    if not 1 < len(labels) <= _LABELS_MAXIMUM:
        return
    lines = content.split(b"\n")
    places: dict[bytes, list[int]] = {label: [] for label in labels}
    for place, line in enumerate(lines):
        if match := prefix.match(line):
            places[match["label"]].append(place)
            lines[place] = line[match.end() :]
    for label, of_label in places.items():
        is_rank = label.isdigit()
        name = f"rank {label.decode()}" if is_rank else label.decode("ascii", "replace")
        # First without blank lines, which make each text as long as the whole.
        alone = b"".join(lines[place] + b"\n" for place in of_label)
        if next(streams(alone, is_known, layers), None) is None:
            if not is_rank:
                yield Stream(name, alone, known=False)
            continue
        text = [b""] * len(lines)
        for place in of_label:
            text[place] = lines[place]
        for stream in next(streams(b"\n".join(text), is_known, layers), ()):
            inner = name if stream.label is None else f"{name}, {stream.label}"
            yield Stream(inner, stream.content, stream.known)
