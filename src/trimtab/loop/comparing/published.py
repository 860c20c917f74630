"""Published results as a person types them: one text, or a TOML file with several."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from trimtab.config.problems import did_you_mean
from trimtab.errors import DataError, UsageError
from trimtab.model.compare import Summary
from trimtab.model.run import LAYERS, METRIC_UNITS
from trimtab.units import parse_bytes, parse_duration

_NUMBER: Final = r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_TEXT: Final = re.compile(
    rf"\s*(?P<mean>{_NUMBER})\s*(?:±|\+/?-)\s*(?P<deviation>{_NUMBER})"
    r"\s*/\s*(?P<n>[0-9]{1,9})\s*(?P<unit>[A-Za-z1/]{0,12})\s*\Z"
)
_LOOKS_LIKE_ONE: Final = re.compile(r"[^/@:=]*(?:±|\+/?-)")
"""No site and no run has a sign like that in its name; a path may, behind a slash."""
_SIGN: Final = re.compile(r"±|\+/?-")
_RATES: Final = {"": 1.0, "1/s": 1.0, "/s": 1.0, "iops": 1.0, "kiops": 1e3, "k/s": 1e3}
_KEYS: Final = frozenset({"metric", "layer", "mean", "deviation", "n", "unit", "window", "source"})
_HINT: Final = "write it as 673320±31779/240 MB/s: mean, standard deviation, number of runs, unit"
_FILE_BYTES_MAXIMUM: Final = 1_000_000


def is_published(text: str) -> bool:
    """Return whether a text is meant as mean±deviation/n."""
    return _LOOKS_LIKE_ONE.match(text) is not None


def published(text: str, metric: str | None = None) -> Summary:
    """Return what ``mean±deviation/n unit`` says; ``+-`` and ``+/-`` are the same as ``±``.

    Raises
    ------
    UsageError
        It is not written so, or the unit is not that of the metric.

    Examples
    --------
    >>> one = published("673320±31779/240 MB/s")
    >>> one.mean, one.deviation, one.n, one.unit
    (673320000000.0, 31779000000.0, 240, 'B/s')
    """
    match = _TEXT.match(text)
    if match is None:
        raise UsageError(
            f"{text[:80]!r} is not a published result: {_what_is_wrong(text)}",
            code="published-malformed",
            hint=_HINT,
        )
    unit, factor = _unit(match["unit"])
    return _checked(
        Summary(
            mean=float(match["mean"]) * factor,
            deviation=float(match["deviation"]) * factor,
            n=int(match["n"]),
            unit=unit,
            metric=metric,
        )
    )


def _what_is_wrong(text: str) -> str:
    """Return which part of a text is not as it should be."""
    mean, deviation = (part.strip() for part in _SIGN.split(text, maxsplit=1))
    deviation, slash, rest = (part.strip() for part in deviation.partition("/"))
    for number, noun in ((mean, "mean"), (deviation, "deviation")):
        if re.fullmatch(_NUMBER, number):
            continue
        shown = f"{noun} {number[:40]!r}"
        if "," in number:
            return f"{shown} has a comma: a point divides decimals, and nothing divides thousands"
        return f"{shown} is not a number" if number else f"the {noun} is missing"
    if not slash:
        return "the number of runs is missing"
    if re.match(r"[0-9]{1,9}(?![0-9.,])", rest) is None:
        return f"{rest.partition(' ')[0][:40]!r} is no number of runs"
    return "what follows the number of runs is no unit"


def published_file(path: str) -> tuple[Summary, ...] | None:
    """Return the results of a TOML file of ``[[summary]]`` tables; ``None`` if it has none.

    Raises
    ------
    DataError
        It cannot be read, is no TOML, or a table in it is wrong.
    """
    try:
        with Path(path).open("rb") as file:
            content = file.read(_FILE_BYTES_MAXIMUM + 1)
    except OSError as error:
        raise DataError(
            f"cannot be read: {error.strerror}", code="cannot-read", file=path
        ) from error
    if len(content) > _FILE_BYTES_MAXIMUM:
        raise DataError("is larger than 1 MB", code="file-too-large", file=path)
    try:
        tables = tomllib.loads(content.decode("utf-8-sig")).get("summary")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"is not TOML: {error}", code="not-toml", file=path) from error
    if tables is None:
        return None
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise DataError(
            "summary is not a list of tables: [[summary]]", code="published-malformed", file=path
        )
    return tuple(_of_table(table, number, path) for number, table in enumerate(tables, start=1))


def _of_table(table: Mapping[str, object], number: int, path: str) -> Summary:
    try:
        return _read_table(table)
    except UsageError as error:
        message = f"summary {number}: {error.message}"
        raise DataError(message, code=error.code, file=path, hint=error.hint) from error


def _read_table(table: Mapping[str, object]) -> Summary:
    unknown = sorted(table.keys() - _KEYS)
    if unknown:
        raise UsageError(
            f"unknown key {unknown[0]!r}",
            code="key-unknown",
            hint=f"known: {', '.join(sorted(_KEYS))}",
        )
    unit, factor = _unit(_text(table, "unit") or "")
    metric, layer, window = (_text(table, key) for key in ("metric", "layer", "window"))
    if metric is not None and metric not in METRIC_UNITS:
        raise UsageError(
            f"{metric!r} is not a metric",
            code="metric-unknown",
            hint=did_you_mean(metric, METRIC_UNITS) or ", ".join(METRIC_UNITS),
        )
    if layer is not None and layer not in LAYERS:
        raise UsageError(f"{layer!r} is not a layer", code="layer-unknown", hint=", ".join(LAYERS))
    n = _number(table, "n")
    if not n.is_integer() or n > 1e9:
        raise UsageError(f"n is {n}: it must be a whole number of runs", code="number-of-runs")
    return _checked(
        Summary(
            mean=_number(table, "mean") * factor,
            deviation=_number(table, "deviation") * factor,
            n=int(n),
            unit=unit,
            metric=metric,
            layer=layer,
            window_s=None if window is None else parse_duration(window),
        )
    )


def _text(table: Mapping[str, object], key: str) -> str | None:
    value = table.get(key)
    if value is not None and not isinstance(value, str):
        raise UsageError(f"{key} is {value!r}, which is not text", code="value-not-text")
    return value


def _number(table: Mapping[str, object], key: str) -> float:
    value = table.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UsageError(
            f"{key} is {'missing' if value is None else f'{value!r}, no number'}",
            code="value-not-number",
        )
    return float(value)


def _unit(text: str) -> tuple[str, float]:
    """Return the base unit of a unit and what it is a multiple of."""
    lowered = text.lower()
    if lowered in _RATES:
        return "1/s", _RATES[lowered]
    try:
        if lowered.endswith("b/s"):
            return "B/s", float(parse_bytes(f"1{text[:-2]}"))
        return "s", parse_duration(f"1{text}")
    except UsageError:
        raise UsageError(
            f"{text!r} is not a unit", code="unit-unknown", hint="MB/s, GiB/s, IOPS, 1/s, s, ms ..."
        ) from None


def _checked(summary: Summary) -> Summary:
    if not 0 < summary.mean < float("inf") or not 0 <= summary.deviation < float("inf"):
        raise UsageError(
            "a mean must be greater than 0 and a deviation at least 0",
            code="published-malformed",
            hint=_HINT,
        )
    if summary.n < 2:
        raise UsageError(
            f"{summary.n} run has no deviation", code="published-malformed", hint=_HINT
        )
    if summary.metric is not None and METRIC_UNITS.get(summary.metric) != summary.unit:
        raise UsageError(
            f"{summary.metric} is not measured in {summary.unit}", code="unit-mismatch"
        )
    return summary
