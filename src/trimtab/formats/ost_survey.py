"""ost-survey of lustre-iokit: one client writes and reads each OST separately with ``dd``.

::

    ./ost-survey: 11/26/26 OST speed survey on /mnt/lustre from 10.0.0.5@tcp
    Number of Active OST devices : 2
    Worst  Read OST indx: 1 speed: 748.600000
    Read Average: 824.350000 +/- 75.750000 MB/s
    Ost#  Read(MB/s)  Write(MB/s)  Read-time  Write-time
    ----------------------------------------------------
    0     900.100       881.200        0.033      0.034
    1     748.600       660.700        0.040      0.045
    2     Inactive ost

MB/s is MiB/s: the script divides by 1024 * 1024. Its index is decimal, while the number in an OST's
name is hexadecimal. The header has a date but no time. The time of a write includes a ``sync`` of
the whole client.

Source: lustre-iokit/ost-survey/ost-survey and ost-survey.pl, Lustre 1.6 to 2.16.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from trimtab.base.error import DataError, Message
from trimtab.base.name_set import ost_name
from trimtab.base.plain import PrintedNumber, figure_of, present, time_of, whole_lines
from trimtab.base.run import BANDWIDTH, Access, Sample
from trimtab.base.units import MIB
from trimtab.formats.measurement import (
    ACCESSES,
    Mark,
    Measurement,
    Notes,
    OutputFile,
    OutputFormat,
    concluded,
)

KIND: Final = "ost-survey"
_TARGETS_MAXIMUM: Final = 65_536
_NUMBER: Final = r"(\d{1,9}\.\d{3})"
_HEADER: Final = re.compile(
    r"\S{1,400}: (\d\d/\d\d/\d\d) OST speed survey on (\S{1,400}) from (\S{1,255})"
)
_ACTIVE: Final = re.compile(r"Number of Active OST devices : (\d{1,6})")
_COLUMNS: Final = re.compile(r"Ost# +Read\(MB/s\) +Write\(MB/s\) +Read-time +Write-time")
_ROW: Final = re.compile(rf"(\d{{1,5}}) +{_NUMBER} +{_NUMBER} +{_NUMBER} +{_NUMBER}")
_INACTIVE: Final = re.compile(r"(\d{1,5}) +Inactive ost")
_EXTREME: Final = re.compile(
    r"(?:Worst|Best) +(Read|Write) OST indx: (\d{1,5}) speed: (\d{1,9}\.\d{1,6})"
)
_AVERAGE: Final = re.compile(r"(Read|Write) Average: (\d{1,9}\.\d{1,6}) \+/- \d{1,9}\.\d{1,6} MB/s")


@dataclass(frozen=True, slots=True)
class _OstRow:
    """One OST: its rates in MiB/s, its times in seconds."""

    line: int
    rates: dict[Access, PrintedNumber]
    times: dict[Access, PrintedNumber]


@dataclass(slots=True)
class _OstSurvey:
    """The output of one survey.

    Attributes
    ----------
    speeds
        Rates of the worst and best OST in its summary.
    odd
        Lines of the table with an unknown format.
    """

    date: str | None = None
    path: str | None = None
    host: str | None = None
    active: int | None = None
    rows: dict[int, _OstRow] = field(default_factory=dict)
    inactive: list[int] = field(default_factory=list)
    speeds: list[tuple[Access, int, float]] = field(default_factory=list)
    averages: dict[Access, float] = field(default_factory=dict)
    odd: list[int] = field(default_factory=list)

    def take(self, number: int, line: str) -> None:
        """Read a line of the table."""
        if match := _ROW.fullmatch(line):
            figures = [figure for figure in map(figure_of, match.groups()[1:]) if figure]
            rates, times = (
                dict(zip(_ORDER, part, strict=True)) for part in (figures[:2], figures[2:])
            )
            row = _OstRow(number, rates, times)
            if self.rows.setdefault(int(match[1]), row) is not row:
                self.odd.append(number)
        elif match := _INACTIVE.fullmatch(line):
            self.inactive.append(int(match[1]))
        elif line.strip("-"):
            self.odd.append(number)


_ORDER: Final[tuple[Access, ...]] = ("read", "write")


def read(source: OutputFile) -> tuple[Measurement, ...]:
    """Return one result for each survey; raise DataError if no OST was measured."""
    surveys = [survey for survey in _surveys(source.text) if survey.rows]
    if not surveys:
        raise DataError("ost-survey measured no OST", code="no-result", line=1)
    return tuple(_measurement(survey) for survey in surveys)


def _surveys(text: str) -> list[_OstSurvey]:
    surveys: list[_OstSurvey] = []
    inside = False
    for number, line in whole_lines(text):
        if match := _HEADER.fullmatch(line):
            surveys.append(_OstSurvey(match[1], match[2], match[3]))
            inside = False
        elif _COLUMNS.fullmatch(line):
            if not surveys or surveys[-1].rows:
                surveys.append(_OstSurvey())
            inside = True
        elif inside and (line[:1].isdigit() or line.startswith("---")):
            surveys[-1].take(number, line)
        elif surveys:
            inside = False
            _take_summary(surveys[-1], line)
    return surveys


def _take_summary(survey: _OstSurvey, line: str) -> None:
    if match := _ACTIVE.fullmatch(line):
        survey.active = int(match[1])
    elif match := _EXTREME.fullmatch(line):
        survey.speeds.append((_access(match[1]), int(match[2]), float(match[3])))
    elif match := _AVERAGE.fullmatch(line):
        survey.averages[_access(match[1])] = float(match[2])


def _access(word: str) -> Access:
    return "read" if word == "Read" else "write"


def _measurement(survey: _OstSurvey) -> Measurement:
    size_mib = _size_mib(survey)
    samples = tuple(_samples(survey, size_mib))
    problems = _problems(survey)
    warnings = Notes()
    if survey.inactive:
        names = ", ".join(map(ost_name, survey.inactive[:8]))
        warnings.add("target-inactive", f"inactive, not measured: {names}")
    day = time_of(survey.date or "", "%m/%d/%y")
    if day is not None:
        warnings.add("date-only", f"it prints only the date: {day:%Y-%m-%d}")
    believed = {
        (index, sample.metric): sample.value
        for index, row in survey.rows.items()
        for sample in samples
        if sample.line == row.line and sample.believed
    }
    return concluded(
        KIND,
        samples,
        problems,
        "no OST has a rate",
        layer="client",
        host=survey.host,
        requested=present({"file_size_bytes": size_mib and size_mib * MIB, "path": survey.path}),
        reported=present({"targets": 1, "targets_measured": len(survey.rows)})
        | _slowest(survey, believed),
        warnings=warnings,
    )


def _samples(survey: _OstSurvey, size_mib: int | None) -> Iterator[Sample]:
    for index, row in sorted(survey.rows.items()):
        for access in ACCESSES:
            figure = row.rates[access]
            reason = _disbelief(survey, index, access, size_mib)
            metric, value = BANDWIDTH[access], figure.value * MIB
            yield Sample(metric, value, 0, ost_name(index), "total", 0, row.line, reason)


def _disbelief(
    survey: _OstSurvey, index: int, access: Access, size_mib: int | None
) -> Message | None:
    row = survey.rows[index]
    figure = row.rates[access]
    if figure.value == 0:
        return Message("too-few-digits", "printed as 0.000: too few digits")
    if index >= _TARGETS_MAXIMUM:
        return Message("target-unknown", f"there is no OST with index {index}")
    for of, other, speed in survey.speeds:
        if (of, other) == (access, index) and abs(speed - figure.value) > 2 * figure.half_unit:
            text = f"the summary has {speed:g} MB/s for this OST, but its line {figure.value:g}"
            return Message("figures-disagree", text)
    if size_mib is not None and not _fits(row, access, size_mib):
        text = f"its rate and time do not give the {size_mib} MiB of the others"
        return Message("figures-disagree", text)
    return None


def _fits(row: _OstRow, access: Access, size_mib: int) -> bool:
    """Return whether rate times time gives this size, within rounding."""
    rate, elapsed = row.rates[access], row.times[access]
    least = (rate.value - rate.half_unit) * (elapsed.value - elapsed.half_unit)
    most = (rate.value + rate.half_unit) * (elapsed.value + elapsed.half_unit)
    return least <= size_mib <= most


def _size_mib(survey: _OstSurvey) -> int | None:
    """Return the file size, which is not printed: the one most rates and times agree on."""
    figures: list[tuple[_OstRow, Access]] = [
        (row, access) for row in survey.rows.values() for access in ACCESSES
    ]
    # The longest time is the most precise.
    longest = sorted(figures, key=lambda at: -at[0].times[at[1]].value)[:8]
    guesses = {round(row.rates[of].value * row.times[of].value) for row, of in longest} - {0}
    agreed = {size: sum(_fits(row, of, size) for row, of in figures) for size in guesses}
    best = max(agreed, key=lambda size: agreed[size], default=None)
    return best if best is not None and agreed[best] > 0.7 * len(figures) else None


def _problems(survey: _OstSurvey) -> Notes:
    problems = Notes()
    if survey.odd:
        lines = ", ".join(map(str, survey.odd[:3]))
        problems.add("line-damaged", f"lines that ost-survey does not print: {lines}")
    if survey.active is not None and len(survey.rows) < survey.active:
        text = f"only {len(survey.rows)} of {survey.active} active OSTs have a line"
        problems.add("output-unfinished", text)
    listed = len(survey.rows) + len(survey.inactive)
    for access, average in survey.averages.items():
        # It divides by the number of all OSTs, including inactive ones.
        mean = sum(row.rates[access].value for row in survey.rows.values()) / max(listed, 1)
        if not problems and abs(mean - average) > 0.001:
            text = f"the lines have a mean {access} of {mean:.3f} MB/s, but the summary {average:g}"
            problems.add("figures-disagree", f"{text}: one of them was altered")
    return problems


def _slowest(
    survey: _OstSurvey, believed: dict[tuple[int, str], float | None]
) -> dict[str, object]:
    """Return the OST furthest below the median of its direction, and by how much."""
    ratios: dict[int, float] = {}
    for metric in BANDWIDTH.values():
        rates = {index: rate for (index, of), rate in believed.items() if of == metric and rate}
        middle = median(rates.values()) if len(rates) > 2 else 0.0
        for index, rate in rates.items() if middle else ():
            ratios[index] = max(ratios.get(index, 0.0), middle / rate)
    slowest = max(ratios, key=lambda index: ratios[index], default=None)
    if slowest is None:
        return {}
    return {"slowest_target": ost_name(slowest), "slowest_target_ratio": ratios[slowest]}


_BEGINNING: Final = Mark(
    (b"OST speed survey on",),
    re.compile(
        rb"^(?:\S{1,400}: \d\d/\d\d/\d\d OST speed survey on |Ost#  Read\(MB/s\)  Write)",
        re.MULTILINE,
    ),
)
FORMAT: Final = OutputFormat(KIND, _BEGINNING.stands_in, read, beginning=_BEGINNING)
