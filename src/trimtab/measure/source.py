"""A file that somebody else made, and what a format offers to read it.

A `Format` is what ``trimtab import`` needs of a benchmark: whether a content is its output, and the
results in it. Both are pure. `trimtab.measure.table.formats` returns all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePath
from typing import Final

from trimtab.measure.measurement import Measurement
from trimtab.model.run import RawOutput

HEAD_BYTES: Final = 65_536
"""What a format is recognised by."""
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Source:
    """One file, with those beside it that belong to the same result.

    Attributes
    ----------
    name
        Its path as a person would name it; for messages and for what a name tells (a host, a
        target). Never opened by a format.
    content
        All of it.
    beside
        Relative name to content of the files that `Format.companions` named and that are there.
        They are the outputs 1, 2 ... of the run, in this order; the file itself is output 0.
    timezone
        IANA name of the zone of times printed without one, for a format that reckons with them;
        elsewhere the zone is put to what a measurement says. ``None``: not known.
    """

    name: str
    content: bytes
    beside: Mapping[str, bytes] = field(default_factory=dict)
    timezone: str | None = None

    @cached_property
    def text(self) -> str:
        """The content as text; bytes that are not UTF-8 become U+FFFD, a byte order mark goes."""
        return self.content.decode("utf-8-sig", "replace")

    @cached_property
    def head(self) -> str:
        """The beginning of the text, for recognising."""
        return self.content[:HEAD_BYTES].decode("utf-8-sig", "replace")

    @property
    def file_name(self) -> str:
        """The last part of the name."""
        return PurePath(self.name).name

    def raw_output(self) -> RawOutput:
        """Return the content as of a tool that ended well: the output alone shows its worth."""
        return RawOutput(self.file_name, (), self.content.removeprefix(_BYTE_ORDER_MARK))


def _alone(name: str) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class Mark:
    """What stands where a benchmark begins to print, for files that hold several.

    Attributes
    ----------
    words
        One of them stands in every match: they tell fast that there is none.
    pattern
        Matches from the beginning of a line, in time linear in the size of the content.
    """

    words: tuple[bytes, ...]
    pattern: re.Pattern[bytes]

    def stands_in(self, source: Source) -> bool:
        """Return whether the benchmark begins to print within the head of a file."""
        return self.pattern.search(source.content[:HEAD_BYTES]) is not None


@dataclass(frozen=True, slots=True)
class Format:
    """What makes a benchmark's output readable.

    Attributes
    ----------
    kind
        As in the store and ``--kind``: ``ior``, ``mdtest``, ``obdfilter-survey`` ...
    recognises
        Whether a content is of this format; looks at `Source.head` and the file name alone, says
        no to what is of another format, and never raises.
    read
        Returns every result in it, at least one. Raises `trimtab.errors.DataError` where the
        content holds none, with the line that is wrong; no other error on any input.
    companions
        File name to the relative names of files that are to be read with it, where they exist.
    instead
        File name to the relative names of files that may hold the result which this one is a part
        of; the first of them that exists is read in place of this one.
    beginning
        Where its output begins in a file with others'; ``None`` where it has a file of its own.
    """

    kind: str
    recognises: Callable[[Source], bool]
    read: Callable[[Source], tuple[Measurement, ...]]
    companions: Callable[[str], tuple[str, ...]] = _alone
    instead: Callable[[str], tuple[str, ...]] = _alone
    beginning: Mark | None = None
