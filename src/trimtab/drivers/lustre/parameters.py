"""What ``lctl get_param`` prints. Pure: text in, values out.

A parameter stands in one of two forms::

    osp.scratch-OST0000-osc-MDT0000.active=1        a value of one line
    osd-ldiskfs.scratch-OST0000.brw_stats=          a value with a line feed in it: all of its
    snapshot_time:         1795190466.966 secs      lines follow the name's own

Nothing ends a value but the next name, and lines of a value may have a ``=`` of their own
(``flags=0xa04``). So a line begins a parameter only where its name starts with one of Lustre's
trees and a dot, or is one of the names that stand in no tree.

The exit status of ``lctl`` tells nothing: it is 0 though files could not be read, and 2 though
all patterns but one printed what they should. Only what was printed counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

# fmt: off
_TREES: Final = frozenset((
    "echo_client", "fid", "fld", "gss", "ldlm", "llite", "lmv", "lnet", "lod", "lov",
    "lu_site", "lustre", "lwp", "mdc", "mdd", "mds", "mdt", "mgc", "mgs", "nodemap", "nrs",
    "obdecho", "obdfilter", "ofd", "osc", "osp", "ost", "page_pools", "ptlrpc", "qmt",
    "qsd", "quota", "seq", "sptlrpc",
))
# fmt: on
"""The first parts of names, as 2.10 to 2.17 have them; besides these, ``osd-`` and its backend."""
_ALONE: Final = re.compile(
    "allow_register|at_[a-z_]+|buffers|bulk_timeout|catastrophe|checksum_speed|console_[a-z_]+"
    "|cpu_partition_[a-z]+|daemon_file|debug|debug_[a-z_]+|devices|dump_on_[a-z]+|enable_[a-z_]+"
    "|expected_clients|fail_[a-z]+|force_lbug|health_check|jobid_[a-z_]+|lbug_on_[a-z]+"
    "|ldlm_timeout|lnet_[a-z_]+|lu_site|max_dirty_mb|memused|memused_max|nis|no_transno"
    "|panic_on_lbug|peers|ping_interval|pinger|portal_rotor|printk|routers|routes|stats"
    "|subsystem_[a-z]+|suppress_pings|swap_pages|timeout|version|watchdog_ratelimit"
)
"""Names that stand in no tree, as 2.10 to 2.17 have them."""
_LINE: Final = re.compile(
    r"^(?P<first>[a-z][a-z0-9_-]{0,31})(?P<rest>\.[!-<>-~]{1,400})?=(?P<value>[^\n]*)", re.MULTILINE
)
# The address of a NID is the one part of a name that has dots of its own.
_ANY_PART: Final = r"(?:[^.]+|[A-Za-z]*[0-9]+(?:\.[0-9]+){3}@[^.]+)"
_NUMBER: Final = re.compile(r"\s*([+-]?[0-9]{1,20})\s*")


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters by name, as one run of ``lctl get_param`` printed them.

    Attributes
    ----------
    text
        What was printed.
    complete
        Whether all of it is there. Where it is not, the parameter that may have been cut is left
        out: every value that is here is whole.

    Notes
    -----
    Of a name that stands twice the first value is kept: a text that is cut then never shows
    another value than the whole would.
    """

    text: str = field(repr=False)
    complete: bool
    _spans: Mapping[str, tuple[int, int]] = field(repr=False)
    _index: Mapping[tuple[str, str], list[str]] = field(repr=False, compare=False)

    @property
    def names(self) -> tuple[str, ...]:
        """Every name, in the order of printing."""
        return tuple(self._spans)

    def get(self, name: str) -> str | None:
        """Return the value without its last line feed; ``None`` where it was not printed."""
        span = self._spans.get(name)
        return None if span is None else self.text[span[0] : span[1]]

    def number(self, name: str) -> int | None:
        """Return a value that is a whole number and nothing else; else ``None``."""
        value = self.get(name)
        match = None if value is None else _NUMBER.fullmatch(value)
        return None if match is None else int(match[1])

    def matching(self, pattern: str) -> dict[str, str]:
        """Return name to value for the names that match, in the order of printing.

        Parameters
        ----------
        pattern
            ``*``, ``?`` and ``[...]`` as in ``lctl get_param``. They stay within one part between
            dots: ``obdfilter.*.stats`` is not ``obdfilter.X.exports.Y.stats``. A part that is
            ``*`` alone matches a NID too, dots and all.
        """
        first, last = _ends(pattern)
        if _is_plain(first) and _is_plain(last):
            candidates = self._index.get((first, last), [])
        else:
            wanted_first, wanted_last = _compiled(first), _compiled(last)
            candidates = [
                name
                for ends, names in self._index.items()
                if wanted_first.fullmatch(ends[0]) and wanted_last.fullmatch(ends[1])
                for name in names
            ]
            candidates.sort(key=lambda name: self._spans[name])
        wanted = _compiled(pattern)
        return {
            name: self.text[slice(*self._spans[name])]
            for name in candidates
            if wanted.fullmatch(name)
        }


def parse_parameters(stdout: str, *, complete: bool = True) -> Parameters:
    r"""Return the parameters in what ``lctl get_param`` printed.

    Parameters
    ----------
    complete
        False when the output was cut, or ``lctl`` was stopped before it ended. A text without a
        line feed at its end is taken as cut in any case.

    Examples
    --------
    >>> found = parse_parameters("health_check=healthy\nosp.a-OST0000-osc-MDT0000.active=1\n")
    >>> found.get("health_check"), found.number("osp.a-OST0000-osc-MDT0000.active")
    ('healthy', 1)
    """
    ended = stdout == "" or stdout.endswith("\n")
    whole = complete and ended
    last_line = len(stdout) if ended else stdout.rfind("\n") + 1
    spans: dict[str, tuple[int, int]] = {}
    name: str | None = None
    start = 0
    for match in _LINE.finditer(stdout):
        first, rest = match["first"], match["rest"]
        if not _begins(first, rest):
            continue
        if name is not None:
            spans.setdefault(name, _lines(start, match.start()))
            name = None
        if match.start() >= last_line:
            # The last line has no end: its value need not be whole.
            break
        if match["value"]:
            spans.setdefault(first + (rest or ""), match.span("value"))
        else:
            name, start = first + (rest or ""), match.end()
    if name is not None and whole:
        spans.setdefault(name, _lines(start, len(stdout)))
    index: dict[tuple[str, str], list[str]] = {}
    for name in spans:
        index.setdefault(_ends(name), []).append(name)
    return Parameters(stdout, whole, spans, index)


def _begins(first: str, rest: str | None) -> bool:
    if rest is None:
        return _ALONE.fullmatch(first) is not None
    return first in _TREES or (first.startswith("osd-") and len(first) > 4)


def _lines(start: int, end: int) -> tuple[int, int]:
    """Return the span of the lines after a name's, without the line feeds around them."""
    return (start, start) if end - start < 2 else (start + 1, end - 1)


def _ends(name: str) -> tuple[str, str]:
    """Return the first and the last part of a name or pattern."""
    return name.partition(".")[0], name.rpartition(".")[2]


def _is_plain(part: str) -> bool:
    return not any(sign in part for sign in "*?[")


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str]:
    """Return a pattern of ``lctl`` as a regular expression, see `Parameters.matching`."""
    return re.compile(r"\.".join(_part(part) for part in pattern.split(".")))


def _part(part: str) -> str:
    if part == "*":
        return _ANY_PART
    pieces = re.split(r"(\[!?[^\]\[\\]+\]|\*+|\?)", part)
    return "".join(
        "[^.]*"
        if piece.startswith("*")
        else "[^.]"
        if piece == "?"
        else piece.replace("[!", "[^")
        if _is_class(piece)
        else re.escape(piece)
        for piece in pieces
    )


def _is_class(piece: str) -> bool:
    return len(piece) > 2 and piece[0] == "[" and piece[-1] == "]"
