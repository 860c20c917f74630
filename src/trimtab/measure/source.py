"""An imported file, and the interface of the formats that read it.

``trimtab import`` needs a `Format` of each benchmark: it recognises the benchmark's output and
reads the results in it. Both are pure. `trimtab.measure.table.formats` returns all formats.
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
"""Bytes at the start by which a format is recognised."""
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Source:
    """One file, with neighbouring files of the same result.

    Attributes
    ----------
    name
        Its path, for messages and for information in the name (a host, a target). Formats never
        open it.
    content
        All of it.
    beside
        Relative name to content of the existing files among `Format.companions`. They are the
        outputs 1, 2 ... of the run, in this order; the file itself is output 0.
    timezone
        IANA name of the zone for times printed without one, for formats that compute with them;
        otherwise the zone is applied to the measurement later. ``None``: unknown.
    """

    name: str
    content: bytes
    beside: Mapping[str, bytes] = field(default_factory=dict)
    timezone: str | None = None

    @cached_property
    def text(self) -> str:
        """The content as text; invalid UTF-8 becomes U+FFFD, a byte order mark is removed."""
        return self.content.decode("utf-8-sig", "replace")

    @cached_property
    def head(self) -> str:
        """The start of the text, for recognition."""
        return self.content[:HEAD_BYTES].decode("utf-8-sig", "replace")

    @property
    def file_name(self) -> str:
        """The last component of the name."""
        return PurePath(self.name).name

    def raw_output(self) -> RawOutput:
        """Return the content as the output of a successful tool: only the output is judged."""
        return RawOutput(self.file_name, (), self.content.removeprefix(_BYTE_ORDER_MARK))


def _alone(name: str) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class Mark:
    """Recognises where a benchmark's output starts, for files with several.

    Attributes
    ----------
    words
        Every match contains one of these: a fast way to rule it out.
    pattern
        Matches at the start of a line, in time linear in the size of the content.
    """

    words: tuple[bytes, ...]
    pattern: re.Pattern[bytes]

    def stands_in(self, source: Source) -> bool:
        """Return whether the benchmark's output starts within the head of a file."""
        head = source.content[:HEAD_BYTES]
        return any(word in head for word in self.words) and self.pattern.search(head) is not None


@dataclass(frozen=True, slots=True)
class Format:
    """How to recognise and read a benchmark's output.

    Attributes
    ----------
    kind
        As in the store and ``--kind``: ``ior``, ``mdtest``, ``obdfilter-survey`` ...
    recognises
        Whether a content has this format; uses only `Source.head` and the file name, rejects other
        formats, and never raises.
    read
        Returns every result in it, at least one. Raises `trimtab.errors.DataError` with the
        offending line if there is none; no other error on any input.
    companions
        File name to the relative names of files to read with it, if they exist.
    instead
        File name to the relative names of files that may contain the whole result of which this is
        a part; the first existing one is read instead.
    beginning
        Start of its output in a file with others; ``None`` if it always has its own file.
    """

    kind: str
    recognises: Callable[[Source], bool]
    read: Callable[[Source], tuple[Measurement, ...]]
    companions: Callable[[str], tuple[str, ...]] = _alone
    instead: Callable[[str], tuple[str, ...]] = _alone
    beginning: Mark | None = None
