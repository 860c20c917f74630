"""Published results as a person types them: one text, or a TOML file with several."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trimtab.config.files import parse_toml, read_text
from trimtab.config.kinds import DURATION, TEXT, choice, of_text, real, whole
from trimtab.config.lines import key_lines
from trimtab.config.problems import config_error, problem_of
from trimtab.config.schema import Schema, key, tables
from trimtab.errors import UsageError
from trimtab.model.compare import Summary
from trimtab.model.run import LAYERS, METRIC_UNITS
from trimtab.record.kept import value_of
from trimtab.units import parse_bytes, parse_duration
from trimtab.visible import visible

_NUMBER: Final = r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_TEXT: Final = re.compile(
    rf"\s*(?P<mean>{_NUMBER})\s*(?:±|\+/?-)\s*(?P<deviation>{_NUMBER})"
    r"\s*/\s*(?P<n>[0-9]{1,9})\s*(?P<unit>[A-Za-z1/]{0,12})\s*\Z"
)
_LOOKS_LIKE_ONE: Final = re.compile(r"[^/@:=]*(?:±|\+/?-)")
"""No site and no run has a sign like that in its name; a path may, behind a slash."""
_SIGN: Final = re.compile(r"±|\+/?-")
_RATES: Final = {"": 1.0, "1/s": 1.0, "/s": 1.0, "iops": 1.0, "kiops": 1e3, "k/s": 1e3}
_HINT: Final = "write it as 673320±31779/240 MB/s: mean, standard deviation, number of runs, unit"


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
    UsageError
        It cannot be read, is no TOML, or a table in it is wrong.
    """
    name = visible(path)
    text = read_text(Path(path), "the file of published results", names_programs=False)
    of_file = parse_toml(text, name).get("summary")
    if of_file is None:
        return None
    stated, mistakes = _SCHEMA.read({"summary": of_file})
    summaries: list[Summary] = []
    for number, each in enumerate(() if mistakes else _SCHEMA.build(stated).summaries):
        unit, factor = each.unit
        mean, deviation = each.mean * factor, each.deviation * factor
        summary = value_of(Summary, each, unit=unit, mean=mean, deviation=deviation)
        try:
            summaries.append(_checked(summary))
        except UsageError as error:
            mistakes.append(problem_of(error, ("summary", str(number))))
    if mistakes:
        raise config_error(mistakes, name, key_lines(text))
    return tuple(summaries)


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


_FIGURE: Final = real(0, 1e300)


@dataclass(frozen=True, slots=True)
class _Stated:
    """One ``[[summary]]``."""

    mean: float = key(_FIGURE, "Mean over runs.")
    deviation: float = key(_FIGURE, "Standard deviation, not the error of the mean.")
    n: int = key(whole(2, 10**9), "Number of runs.")
    unit: tuple[str, float] = key(of_text(_unit, "unit", "MB/s"), "Of both.", _unit(""))
    metric: str | None = key(choice([*METRIC_UNITS]), "What was measured.", None)
    layer: str | None = key(choice(LAYERS), "At which layer of the stack.", None)
    window_s: float | None = key(DURATION, "Time span of the runs.", None)
    source: str | None = key(TEXT, "Where it is printed.", None)


@dataclass(frozen=True, slots=True)
class _File:
    summaries: tuple[_Stated, ...] = tables(_Stated, "summary", "A published result.")


_SCHEMA: Final = Schema(_File)


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
