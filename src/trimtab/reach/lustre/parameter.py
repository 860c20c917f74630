"""Parses the output of ``lctl get_param``. Pure: text in, values out.

A parameter has one of two forms::

    osp.scratch-OST0000-osc-MDT0000.active=1        a value of one line
    osd-ldiskfs.scratch-OST0000.brw_stats=          a value with line feeds: all its
    snapshot_time:         1795190466.966 secs      lines follow the name's line

A value ends only at the next name, and its lines may contain a ``=`` (``flags=0xa04``). So a line
starts a parameter only if its name starts with one of Lustre's trees and a dot, or is a known name
outside of all trees.

The exit status of ``lctl`` is useless: 0 although files could not be read, or 2 although all
patterns but one succeeded. Only the output counts.
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
"""First parts of names in 2.10 to 2.17; in addition, ``osd-`` and its backend."""
_ALONE: Final = re.compile(
    "allow_register|at_[a-z_]+|buffers|bulk_timeout|catastrophe|checksum_speed|console_[a-z_]+"
    "|cpu_partition_[a-z]+|daemon_file|debug|debug_[a-z_]+|devices|dump_on_[a-z]+|enable_[a-z_]+"
    "|expected_clients|fail_[a-z]+|force_lbug|health_check|jobid_[a-z_]+|lbug_on_[a-z]+"
    "|ldlm_timeout|lnet_[a-z_]+|lu_site|max_dirty_mb|memused|memused_max|nis|no_transno"
    "|panic_on_lbug|peers|ping_interval|pinger|portal_rotor|printk|routers|routes|stats"
    "|subsystem_[a-z]+|suppress_pings|swap_pages|timeout|version|watchdog_ratelimit"
)
"""Names outside of all trees in 2.10 to 2.17."""
_LINE: Final = re.compile(
    r"^(?P<first>[a-z][a-z0-9_-]{0,31})(?P<rest>\.[!-<>-~]{1,400})?=(?P<value>[^\n]*)", re.MULTILINE
)
# The address of a NID is the only part of a name that contains dots.
_ANY_PART: Final = r"(?:[^.]+|[A-Za-z]*[0-9]+(?:\.[0-9]+){3}@[^.]+)"
_NUMBER: Final = re.compile(r"\s*([+-]?[0-9]{1,20})\s*")


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters in the output of one ``lctl get_param``, by name.

    Attributes
    ----------
    text
        The output.
    complete
        Whether the output is complete. If not, the parameter that may have been cut is omitted, so
        every value is whole.

    Notes
    -----
    For a repeated name the first value counts: then a cut output never shows a value that differs
    from the complete one.
    """

    text: str = field(repr=False)
    complete: bool
    _spans: Mapping[str, tuple[int, int]] = field(repr=False)
    _index: Mapping[tuple[str, str], list[str]] = field(repr=False, compare=False)

    @property
    def names(self) -> tuple[str, ...]:
        """All names, in the order of the output."""
        return tuple(self._spans)

    def get(self, name: str) -> str | None:
        """Return the value without its last line feed; ``None`` if missing."""
        span = self._spans.get(name)
        return None if span is None else self.text[span[0] : span[1]]

    def number(self, name: str) -> int | None:
        """Return a value that is an integer and nothing else; otherwise ``None``."""
        value = self.get(name)
        match = None if value is None else _NUMBER.fullmatch(value)
        return None if match is None else int(match[1])

    def matching(self, pattern: str) -> dict[str, str]:
        """Return name to value for the matching names, in the order of the output.

        Parameters
        ----------
        pattern
            ``*``, ``?`` and ``[...]`` as in ``lctl get_param``. They match within one part between
            dots: ``obdfilter.*.stats`` does not match ``obdfilter.X.exports.Y.stats``. A part that
            is only ``*`` also matches a NID with its dots.
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
    r"""Parse the output of ``lctl get_param``.

    Parameters
    ----------
    complete
        False if the output was cut or ``lctl`` was stopped. A text without a final line feed always
        counts as cut.

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
            # The last line was cut: its value may be incomplete.
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
    """Return the span of the lines after the name's, without the surrounding line feeds."""
    return (start, start) if end - start < 2 else (start + 1, end - 1)


def _ends(name: str) -> tuple[str, str]:
    """Return the first and the last part of a name or pattern."""
    return name.partition(".")[0], name.rpartition(".")[2]


def _is_plain(part: str) -> bool:
    return not any(sign in part for sign in "*?[")


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str]:
    """Return a pattern of ``lctl`` as a regular expression; see `Parameters.matching`."""
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
