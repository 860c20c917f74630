"""Text to base SI and back: the edge where people's units become bytes and seconds.

Inside Trimtab every quantity is base SI (bytes, seconds, bytes/s) and says so in its name.
Text such as ``1MiB`` or ``30m`` is parsed here and nowhere else.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation
from fractions import Fraction
from typing import Annotated, Final
from zoneinfo import ZoneInfo

from trimtab.base.error import UsageError

KIB: Final = 2**10
MIB: Final = 2**20
GIB: Final = 2**30
DAY_S: Final = 86400.0
RATE_NOW: Final = ", now "
"""Separates a step from its current rate in progress messages: lines repeat for steps only."""
_BYTES_PER_UNIT = {
    "": Decimal(1),
    "b": Decimal(1),
    **{f"{letter}b": Decimal(1000**power) for power, letter in enumerate("kmgtpe", start=1)},
    **{f"{letter}ib": Decimal(1024**power) for power, letter in enumerate("kmgtpe", start=1)},
    # IOR, fio and dd read a lone letter as a power of 1024; so do we.
    **{letter: Decimal(1024**power) for power, letter in enumerate("kmgtpe", start=1)},
}
_SECONDS_PER_UNIT = {
    "": Decimal(1),
    "us": Decimal("1e-6"),
    "ms": Decimal("1e-3"),
    "s": Decimal(1),
    "m": Decimal(60),
    "min": Decimal(60),
    "h": Decimal(3600),
    "d": Decimal(86400),
    "w": Decimal(604800),
}
_EXACT: Final = Context(prec=100, traps=[Inexact])
"""Holds the product of any text that is no longer than `_TEXT_MAX` and any unit."""
_TEXT_MAX = 40
"""Characters: more are no quantity that anybody writes, and would overflow."""
_PLAIN_UNITS: Final = {
    "": (Decimal(1), "1"),
    "%": (Decimal("0.01"), "1"),
    "s": (Decimal(1), "s"),
    "/s": (Decimal(1), "1/s"),
}
_RATE_UNIT = re.compile(r"([kKMGTP])?((?<=[KMGTP])i)?(B/s|Bps|b/s|bps|bit/s|IOPS)\Z")
_RATE = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([A-Za-z]+(?:/s|ps))\s*\Z")
_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([A-Za-z]*)\s*\Z")


def is_digits(text: str) -> bool:
    """Return whether ``int`` takes a text of digits alone; ``str.isdigit`` takes more than it does.

    >>> is_digits("12"), is_digits("-1"), is_digits("²"), is_digits("")
    (True, False, False, False)
    """
    return text.isascii() and text.isdigit()


def parse_bytes(text: str) -> int:
    """Return the number of bytes that ``text`` names.

    ``KB``, ``MB`` ... are powers of 1000; ``KiB``, ``MiB`` ... and the lone letters of IOR and
    fio (``1m``) are powers of 1024.

    Raises
    ------
    UsageError
        The text is not a size, or not a whole number of bytes.

    Examples
    --------
    >>> parse_bytes("1MiB"), parse_bytes("4k"), parse_bytes("2 GB")
    (1048576, 4096, 2000000000)
    """
    value = _quantity(text, _BYTES_PER_UNIT, "size", "64GiB, 1MiB or 4096")
    if value != int(value):
        raise UsageError(f"size {text!r} is not a whole number of bytes", code="size-malformed")
    return int(value)


def parse_duration(text: str) -> float:
    """Return the seconds that ``text`` names: ``500ms``, ``60s``, ``30m``, ``48h``, ``7d``.

    Raises
    ------
    UsageError
        The text is not a duration.

    Examples
    --------
    >>> parse_duration("30m"), parse_duration("1.5h"), parse_duration("60")
    (1800.0, 5400.0, 60.0)
    """
    return float(_quantity(text, _SECONDS_PER_UNIT, "duration", "60s, 30m or 48h"))


def parse_unit(text: str) -> tuple[Decimal, str]:
    """Return the factor to base SI, exactly, and the base unit of a printed unit.

    Rates are written as ``GB/s``, ``MiB/s`` or, in bits, ``Gb/s`` (``Gbit/s``, ``Gbps``): here
    large and small letters differ. ``kIOPS``, ``s``, ``%`` and no unit at all are known too.

    Raises
    ------
    UsageError
        The unit is not known.

    Examples
    --------
    >>> parse_unit("MiB/s"), parse_unit("Gb/s"), parse_unit("kIOPS")
    ((Decimal('1048576'), 'B/s'), (Decimal('125000000'), 'B/s'), (Decimal('1000'), '1/s'))
    """
    if text in _PLAIN_UNITS:
        return _PLAIN_UNITS[text]
    match = _RATE_UNIT.match(text) if len(text) <= _TEXT_MAX else None
    if match is None:
        shown = text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}..."
        raise UsageError(
            f"{shown!r} is not a unit",
            code="unit-unknown",
            hint="known: GB/s, MiB/s, Gb/s, kIOPS, s, %",
        )
    prefix, binary, kind = match.groups()
    power = "kmgtp".index(prefix.lower()) + 1 if prefix else 0
    factor = Decimal(1024 if binary else 1000) ** power
    if kind == "IOPS":
        return factor, "1/s"
    return (factor if kind.startswith("B") else factor / 8), "B/s"


def parse_rate(text: str) -> float:
    """Return the bytes per second that ``text`` names: ``50MB/s``, ``1 GiB/s``, ``400Gb/s``.

    A size alone is taken as bytes per second.

    Raises
    ------
    UsageError
        The text is not a rate.

    Examples
    --------
    >>> parse_rate("50MB/s"), parse_rate("8Gb/s"), parse_rate("50MB")
    (50000000.0, 1000000000.0, 50000000.0)
    """
    match = _RATE.match(text) if len(text) <= _TEXT_MAX else None
    with contextlib.suppress(UsageError):
        if match is None:
            return float(parse_bytes(text))
        factor, base = parse_unit(match.group(2))
        if base == "B/s":
            return float(Decimal(match.group(1)) * factor)
    raise UsageError(
        f"{text[:_TEXT_MAX]!r} is not a rate",
        code="rate-malformed",
        hint="write it as 50MB/s, 1GiB/s or 400Gb/s",
    )


def parse_fraction(text: str) -> float:
    """Return the fraction that ``text`` names: ``75%`` and ``0.75`` are the same.

    Raises
    ------
    UsageError
        The text is not a fraction between 0 and 1.

    Examples
    --------
    >>> parse_fraction("75%"), parse_fraction("0.08")
    (0.75, 0.08)
    """
    stripped = text.strip()
    try:
        # Divided as a decimal: 99.9 % is 0.999 then, and not the number behind it.
        exact = Decimal(stripped[:-1]).scaleb(-2) if stripped.endswith("%") else Decimal(stripped)
        value = float(exact)
    except (InvalidOperation, ValueError):
        value = math.nan
    if not 0.0 <= value <= 1.0:
        raise UsageError(
            f"{text!r} is not a fraction",
            code="fraction-malformed",
            hint="write 75% or 0.75, between 0 and 100%",
        )
    return value


def share_of(fraction: float, whole: int) -> int:
    """Return a share of a whole number, rounded down; the fraction counts as it is written.

    Examples
    --------
    >>> share_of(0.29, 100), int(0.29 * 100)
    (29, 28)
    """
    return math.floor(Fraction(str(fraction)) * whole)


@dataclass(frozen=True, slots=True)
class Since1970:
    """Unit of a number that is a time since 1970: how many of it make a second.

    Examples
    --------
    >>> Since1970(1000).time(1_500)
    datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.timezone.utc)
    """

    per_s: Fraction | int

    def time(self, number: float) -> datetime | None:
        """Return the time to the second; ``None``: no calendar has it, as files may say."""
        try:
            return datetime.fromtimestamp(number // self.per_s, UTC)
        except (ValueError, OverflowError, OSError):
            return None


EpochS = Annotated[int, Since1970(1)]
EpochHour = Annotated[int, Since1970(Fraction(1, 3600))]
EpochNs = Annotated[int, Since1970(10**9)]


def whole_second(at: datetime) -> str:
    """Return the first whole second not before a time, as `parse_moment` reads it.

    Examples
    --------
    >>> whole_second(datetime(2026, 11, 20, 20, 37, 57, 250, UTC))
    '2026-11-20T20:37:58Z'
    """
    later = at.astimezone(UTC) + timedelta(microseconds=999_999)
    return f"{later:%Y-%m-%dT%H:%M:%SZ}"


def parse_moment(text: str, timezone: str = "UTC", *, end: bool = False) -> datetime:
    """Return the time that ``text`` names, in UTC; a date is the whole day.

    Parameters
    ----------
    text
        RFC 3339 (``2026-11-20T20:37:57Z``), or a date with or without a time; without an offset
        it is a time in ``timezone``; of an hour that comes twice, as summer time ends, the first.
    timezone
        An IANA name.
    end
        Return the last microsecond of the day that a date names, not its first.

    Raises
    ------
    UsageError
        The text is not a time.

    Examples
    --------
    >>> parse_moment("2026-11-20 21:00", "Europe/Zurich").isoformat()
    '2026-11-20T20:00:00+00:00'
    >>> parse_moment("2026-11-20", "Europe/Zurich", end=True).isoformat()
    '2026-11-20T22:59:59.999999+00:00'
    """
    try:
        at = datetime.fromisoformat(text.strip())
        is_last = end and is_date(text)
        if is_last:
            at += timedelta(days=1)
        if at.tzinfo is None:
            at = at.replace(tzinfo=ZoneInfo(timezone))
        return at.astimezone(UTC) - timedelta(microseconds=is_last)
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"{text[:_TEXT_MAX]!r} is not a time",
            code="time-malformed",
            hint="write 2026-11-20, or 2026-11-20T20:00:00Z",
        ) from error


def is_date(text: str) -> bool:
    """Return whether a text names a day and no time of it.

    Examples
    --------
    >>> is_date("2026-11-20"), is_date("2026-11-20T20:00")
    (True, False)
    """
    try:
        date.fromisoformat(text.strip())
    except ValueError:
        return False
    return True


def format_bytes(value: float) -> str:
    """Return a size in binary units with three significant figures, as ``1.50 GiB``."""
    return _scaled(value, 1024.0, ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"))


def format_bytes_per_s(value: float) -> str:
    """Return a bandwidth in decimal units with three significant figures, as ``1.94 GB/s``."""
    return _scaled(value, 1000.0, ("B/s", "KB/s", "MB/s", "GB/s", "TB/s", "PB/s"))


def format_duration(value_s: float) -> str:
    """Return a duration with the unit that suits it, as ``4.20 ms`` or ``2.0 h``.

    Examples
    --------
    >>> format_duration(0.0042), format_duration(7200), format_duration(12)
    ('4.20 ms', '2.0 h', '12.0 s')
    >>> format_duration(1826 * 86400)
    '1,826 d'
    """
    magnitude = abs(value_s)
    if magnitude and magnitude < 1.0:
        factor, unit = (1e6, "us") if magnitude < 1e-3 else (1e3, "ms")
        return f"{_three_figures(value_s * factor)} {unit}"
    for seconds, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if magnitude >= 2 * seconds or (magnitude >= seconds and unit != "min"):
            value = value_s / seconds
            return f"{value:.1f} {unit}" if abs(value) < 999.95 else f"{value:,.0f} {unit}"
    return f"{value_s:.1f} s"


def format_percent(fraction: float, digits: int = 1) -> str:
    """Return a fraction as per cent, as ``7.9 %``."""
    return f"{fraction * 100:.{digits}f} %"


def percent_or_dash(fraction: float | None, digits: int = 1) -> str:
    """Return a fraction as per cent for a cell of a table; ``-`` for ``None``."""
    return "-" if fraction is None else format_percent(fraction, digits)


def format_exact_percent(fraction: float, digits: int = 1) -> str:
    """Return a fraction as per cent, with the digits that a person may have written.

    A target of half a per cent that is rounded to none is another target. A computed fraction has
    more digits than a person would write, and is rounded.

    Parameters
    ----------
    digits
        Minimum number of decimals.

    Examples
    --------
    >>> format_exact_percent(0.7), format_exact_percent(0.005, 0), format_exact_percent(2 / 3)
    ('70.0 %', '0.5 %', '66.7 %')
    """
    texts = [format_percent(fraction, more) for more in range(digits, 5)]
    written = (text for text in texts if abs(float(text[:-2]) - fraction * 100) < 1e-9)
    return next(written, texts[0])


def plural(number: float, noun: str, form: str = "") -> str:
    """Return a number of things, as ``1 run`` or ``3 runs``.

    Parameters
    ----------
    form
        Format of the number, as in `format`: ``","`` separates thousands.

    Examples
    --------
    >>> plural(1, "run"), plural(0, "OST"), plural(5937, "run", ",")
    ('1 run', '0 OSTs', '5,937 runs')
    """
    return f"{number:{form}} {noun}{'' if number == 1 else 's'}"


def enumerated(names: Iterable[str], most: int = 4) -> str:
    """Return names in words, the first of them where they are many.

    Examples
    --------
    >>> enumerated(["OST0001", "OST0002", "OST0003"], most=2)
    'OST0001, OST0002 and 1 more'
    """
    known = list(names)
    more = len(known) - most
    return ", ".join(known[:most]) + (f" and {more:,} more" if more > 0 else "")


def format_value(value: float | int | str | bool | None, unit: str | None) -> str:
    """Return any measured value with its unit as people read it; ``None`` is ``not known``."""
    if value is None:
        return "not known"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    formatter = _FORMATTERS.get(unit or "")
    if isinstance(value, float) and float(value).is_integer():
        value = int(value)  # a count that went through arithmetic is still a count
    if formatter is not None:
        return formatter(value)
    shown = f"{value:.4g}" if isinstance(value, float) else f"{value:,}"
    return f"{shown} {unit or ''}".rstrip()


def value_or_dash(value: float | None, unit: str | None) -> str:
    """Return a value with its unit for a cell of a table; ``-`` for ``None``."""
    return "-" if value is None else format_value(value, unit)


_FORMATTERS: Final[dict[str, Callable[[float], str]]] = {
    "B": format_bytes,
    "B/s": format_bytes_per_s,
    "B/B": lambda value: f"{value:.2f}",
    "s": format_duration,
    "1/s": lambda value: f"{value:,.0f}/s",
    "1": format_percent,
    # A score of a benchmark: a number that is no share of anything.
    "points": lambda value: f"{value:,.2f}",
}


def _quantity(text: str, units: dict[str, Decimal], noun: str, example: str) -> Decimal:
    """Return what a number and a unit come to, exactly."""
    match = _QUANTITY.match(text) if len(text) <= _TEXT_MAX else None
    unit = match.group(2).lower() if match else ""
    if match is None or unit not in units:
        shown = text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}..."
        raise UsageError(
            f"{shown!r} is not a {noun}", code=f"{noun}-malformed", hint=f"write it as {example}"
        )
    return _EXACT.multiply(Decimal(match.group(1)), units[unit])


def _scaled(value: float, base: float, names: tuple[str, ...]) -> str:
    power = 0
    while abs(value) >= base * 0.9995 and power < len(names) - 1:
        value /= base
        power += 1
    text = f"{value:.0f}" if power == 0 else _three_figures(value)
    return f"{text} {names[power]}"


def _three_figures(value: float) -> str:
    magnitude = abs(value)
    digits = 2 if magnitude < 9.995 else 1 if magnitude < 99.95 else 0
    return f"{value:.{digits}f}"
