"""Values as text for readers of a report: safe to show, with unit, never a bare ``None``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from trimtab.base.error import visible
from trimtab.base.run import METRIC_UNITS
from trimtab.base.snapshot import Reading
from trimtab.base.units import format_bytes, format_bytes_per_s, format_duration, format_value
from trimtab.base.verdict import Interval, VerdictStatus

if TYPE_CHECKING:
    from trimtab.base.series import SeriesKey

NOT_KNOWN: Final = "not known"

VERDICT_WORDS: Final[dict[VerdictStatus, str]] = {
    VerdictStatus.MET: "met",
    VerdictStatus.MISSED: "missed",
    VerdictStatus.CANNOT_TELL: "cannot tell yet",
}
"""Display text of each status."""

_LENGTH_MAX: Final = 4000
"""Maximum length of one string in a report: a broken tool must not make it unreadable."""


def printable(text: str) -> str:
    r"""Return ``text`` with all invisible characters escaped.

    File names and tool output are arbitrary bytes: control characters, undecodable bytes (kept by
    Python as lone surrogates) and marks that change the direction of writing become ``\x1b`` or
    ``\u202e``. Line feeds and tabs stay. Very long text is truncated, with a note.

    Examples
    --------
    >>> printable("a\udcffb\x1b[2J")
    'a\\xffb\\x1b[2J'
    """
    cut = text[:_LENGTH_MAX]
    shown = visible(cut, keep="\n\t")
    left = len(text) - len(cut)
    return f"{shown}… ({left:,} more characters)" if left else shown


def one_line(text: str) -> str:
    r"""Return ``text`` like `printable`, with line feeds and tabs escaped too: for names.

    Examples
    --------
    >>> one_line("two\nlines")
    'two\\nlines'
    """
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def moment_text(at: datetime | None) -> str:
    """Return a time to the second with its zone, as ``2026-11-20 17:38:02 UTC``."""
    if at is None:
        return NOT_KNOWN
    stamp = at.strftime("%Y-%m-%d %H:%M:%S")
    offset = at.utcoffset()
    if offset is None:
        return f"{stamp} (time zone not known)"
    if not offset:
        return f"{stamp} UTC"
    sign = "-" if offset.total_seconds() < 0 else "+"
    minutes = abs(int(offset.total_seconds())) // 60
    return f"{stamp} {sign}{minutes // 60:02d}:{minutes % 60:02d}"


def minute_text(at: datetime | None) -> str:
    """Return a time to the minute in UTC."""
    return "never" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def local_moment(at: datetime | None) -> str:
    """Return a time in this host's zone, with its offset; ``-`` if unknown."""
    return "-" if at is None else at.astimezone().strftime("%Y-%m-%d %H:%M %z")


def local_times(times: Sequence[datetime | None]) -> list[str]:
    """Return times in this host's zone to the minute; offsets only if they differ."""
    local = [None if at is None else at.astimezone() for at in times]
    offsets = {at.utcoffset() for at in local if at is not None}
    form = "%Y-%m-%d %H:%M" if len(offsets) < 2 else "%Y-%m-%d %H:%M %z"
    return ["-" if at is None else at.strftime(form) for at in local]


def utc_moment(at: datetime) -> str:
    """Return a time in UTC with its offset, for a page whose sentences use UTC."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M %z")


def site_labels(names: Iterable[str]) -> dict[str, str]:
    """Return each site's display name: its path if the site was derived from one.

    Examples
    --------
    >>> site_labels(["scratch", "0aff7fd2-5f3e:/data", "/dev/vda:/"])
    {'scratch': 'scratch', '0aff7fd2-5f3e:/data': '/data', '/dev/vda:/': '/'}
    """
    labels = {}
    for name in dict.fromkeys(names):
        source, colon, path = name.rpartition(":")
        label = path if colon and path.startswith("/") else name
        labels[name] = f"{label} ({source[:8]})" if label in labels.values() else label
    return labels


def reading_text(reading: Reading) -> str:
    """Return the value of a reading with its unit, ``not known`` if there is none."""
    return format_value(reading.value, reading.unit)


def exact_text(value: object, unit: str | None) -> str:
    """Return the exact figure behind a rounded one, or nothing if nothing was lost."""
    if unit != "B" or not isinstance(value, (int, float)) or isinstance(value, bool):
        return ""
    return f"{value:,.0f} B" if abs(value) >= 1024 else ""


def range_text(interval: Interval, unit: str | None) -> str:
    """Return the ends of an interval with the unit once, as ``1.90 to 1.98 GB/s``."""
    low, high = format_value(interval.low, unit), format_value(interval.high, unit)
    figure, _, low_unit = low.rpartition(" ")
    return f"{figure if figure and high.endswith(f' {low_unit}') else low} to {high}"


def interval_text(interval: Interval, unit: str | None) -> str:
    """Return an interval with its level, as ``1.90 to 1.98 GB/s (95 %)``."""
    return f"{range_text(interval, unit)} ({interval.level * 100:g} %)"


def sentence(words: str) -> str:
    """Return ``words`` with a final full stop if it is missing."""
    return words if words.endswith((".", "!", "?", ":")) else f"{words}."


def sentences(texts: Iterable[str]) -> tuple[str, ...]:
    """Return texts as sentences, each once.

    Examples
    --------
    >>> sentences(["the index is old", "The index is old."])
    ('The index is old.',)
    """
    return tuple(dict.fromkeys(sentence(f"{text[:1].upper()}{text[1:]}") for text in texts))


def joined_sentences(*texts: str) -> str:
    """Return texts as sentences on one line, empty ones left out."""
    return " ".join(text if text.endswith(".") else f"{text}." for text in texts if text)


def ratio_text(interval: Interval) -> str:
    """Return the interval of a ratio as ``0.970 to 1.040 (95 %)``."""
    return f"{interval.low:.3f} to {interval.high:.3f} ({interval.level * 100:g} %)"


def change_text(ratio: float | None) -> str:
    """Return the difference of a ratio from 1, as ``+3.2 %``; nothing if unknown."""
    return "" if ratio is None else f"{(ratio - 1) * 100:+.1f} %"


def change_range_text(interval: Interval | None) -> str:
    """Return an interval of ratios in the form of `change_text`: ``-1.0 to +3.2 %``."""
    if interval is None:
        return ""
    return f"{(interval.low - 1) * 100:+.1f} to {change_text(interval.high)}"


def metric_text(metric: str) -> str:
    """Return a metric's display name: ``write bandwidth``, ``read IOPS``."""
    words = metric.replace("_", " ")
    return words.replace("iops", "IOPS") if metric in METRIC_UNITS else words


def metric_title(metric: str) -> str:
    """Return a metric's name as a heading; an unknown name stays as it is.

    Examples
    --------
    >>> metric_title("write_iops"), metric_title("GB/s"), metric_title("ms")
    ('Write IOPS', 'GB/s', 'ms')
    """
    words = metric_text(metric)
    return f"{words[:1].upper()}{words[1:]}" if metric in METRIC_UNITS else words


def parameter_text(name: str, value: object) -> str:
    """Return a run's parameter as text; the unit is the one in its name.

    Examples
    --------
    >>> parameter_text("transfer_size_bytes", 1048576), parameter_text("duration_s", 5.0)
    ('1.00 MiB', '5.0 s')
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if name in METRIC_UNITS:
            return format_value(value, METRIC_UNITS[name])
        if name.endswith("_bytes_per_s"):
            return format_bytes_per_s(value)
        if name.endswith("_bytes"):
            return format_bytes(value)
        if name.endswith("_s"):
            return format_duration(value)
        return f"{value:,}"
    if value is None or isinstance(value, (bool, str)):
        return format_value(value, None)
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def levels_text(levels: Mapping[str, object]) -> str:
    """Return settings in readable form.

    Examples
    --------
    >>> levels_text({"tasks": 512, "transfer_size_bytes": 1048576, "options": None})
    'tasks 512, transfer_size 1.00 MiB, options not set'
    """
    return ", ".join(
        f"{name.removesuffix('_bytes')} "
        + ("not set" if value is None else parameter_text(name, value))
        for name, value in levels.items()
    )


def key_label(key: SeriesKey) -> str:
    """Return a series as text, as ``hourly write bandwidth``, with what distinguishes it."""
    if key.kind != "file":
        return series_label(key.probe, key.metric, key.apart)
    label = key.metric if key.probe == key.site else f"{key.probe} {key.metric}"
    return visible(f"{label} ({key.apart})" if key.apart else label)


def series_label(probe: str, metric: str, apart: str = "") -> str:
    """Return a stored series as text, as `key_label` does.

    Examples
    --------
    >>> series_label("hourly", "write_bandwidth", "tasks 512")
    'hourly write bandwidth (tasks 512)'
    """
    label = f"{probe} {metric_text(metric)}"
    return visible(f"{label} ({apart})" if apart else label)
