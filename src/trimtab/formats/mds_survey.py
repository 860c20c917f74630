"""mds-survey of lustre-iokit: metadata rates of MDTs on their server, without clients.

::

    Thu Nov 26 10:20:01 UTC 2026 ./mds-survey from mds1
    mdt 1 file  100000 dir    4 thr    4 create 5652.05 [ 999.01,46940.48] destroy 5797.79 [ ...

One line per number of threads: operations per second over the whole time; in brackets the minimum
and maximum in any second on any MDT; ``ERROR`` if the operation failed. The rate is that of one
MDT, although the README calls it that of all: since 2.6, which prints blanks within the brackets,
the mean over MDTs; before, that of the first, with meaningless brackets (``get_global_stats``). The
summary file and standard output have the same lines.

Source: lustre-iokit/mds-survey/mds-survey, Lustre 2.2 to 2.17; mdt-survey of 2.1 is the same with
another title.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from trimtab.base.error import DataError, Message
from trimtab.base.plain import POSIX_DATE, in_a_row, posix_date
from trimtab.base.run import Sample
from trimtab.formats.measurement import (
    Mark,
    Measurement,
    Notes,
    OutputFile,
    OutputFormat,
    concluded,
    told_apart,
)

KIND: Final = "mds-survey"
_METRICS: Final[Mapping[str, str]] = {
    "create": "file_creation_rate",
    "lookup": "file_lookup_rate",
    "md_getattr": "file_stat_rate",
    "setxattr": "file_attribute_rate",
    "destroy": "file_removal_rate",
    "mkdir": "directory_creation_rate",
    "rmdir": "directory_removal_rate",
}
_START: Final = r"mdt +(\d{1,4}) file +(\d{1,12}) dir +(\d{1,7}) thr +(\d{1,7}) "
_LINE: Final = re.compile(rf"{_START}(.*)")
_RATE: Final = r"(\d{1,12}\.\d\d)"
_PART: Final = re.compile(
    rf"([a-z_]{{1,30}}) +(?:{_RATE} +)?(?:\[ *{_RATE}, *{_RATE}\]|(ERROR|SHORT))(?: +|$)"
)
_TEST_ALONE: Final = re.compile(r"[a-z_]{1,30}")
_ENDINGS: Final = ("done!", "Terminated", "program exited with error")
"""The rest of the line of a survey that was killed."""
_TITLE: Final = re.compile(POSIX_DATE + r" \S*(?:mds-survey|Mdt-survey) from (\S{1,255})")


@dataclass(frozen=True, slots=True)
class _MdsSurvey:
    """The title above the lines."""

    began: datetime | None
    host: str
    title: str


def read(source: OutputFile) -> tuple[Measurement, ...]:
    """Return one result for each line; raise DataError if there is none."""
    survey: _MdsSurvey | None = None
    results: list[_Line] = []
    lines = source.text.split("\n")
    for number, text in enumerate(lines, start=1):
        line = text.rstrip("\r")
        if match := _TITLE.fullmatch(line):
            survey = _survey(match)
        elif match := _LINE.fullmatch(line):
            results.append(_Line(survey, number, line, match, whole=number < len(lines)))
    if not results:
        raise DataError("no complete line of mds-survey", code="no-result", line=1)
    return told_apart(result.measurement() for result in results)


def _survey(match: re.Match[str]) -> _MdsSurvey:
    return _MdsSurvey(posix_date(*match.groups()[:3]), match[4], match[0])


@dataclass(frozen=True, slots=True)
class _Line:
    """The line of one number of threads."""

    survey: _MdsSurvey | None
    number: int
    text: str
    match: re.Match[str]
    whole: bool

    @property
    def _counts(self) -> tuple[int, int, int, int]:
        mdts, files, directories, threads = map(int, self.match.groups()[:4])
        return mdts, files, directories, threads

    @property
    def _is_old(self) -> bool:
        """Whether it is from a version before 2.6."""
        return ", " not in self.match[5]

    def measurement(self) -> Measurement:
        """Return the result of the line."""
        mdts, files, directories, threads = self._counts
        problems, warnings, samples = Notes(), Notes(), list[Sample]()
        parts, rest = in_a_row(_PART, self.match[5])
        for part in parts:
            samples += self._samples(
                part, problems, warnings, extremes=mdts == 1 or not self._is_old
            )
        for ending in _ENDINGS:
            rest = rest.removesuffix(ending).rstrip()
        if _TEST_ALONE.fullmatch(rest):
            problems.add("run-unfinished", f"it ended during {rest}")
        elif rest:
            problems.add("line-damaged", f"it is unreadable from: {rest[:60]}")
        elif not self.whole:
            problems.add("end-unknown", "its end is missing")
        if mdts > 1:
            one_of = "the first" if self._is_old else "one, their mean"
            warnings.add("one-target", f"with {mdts} MDTs the script prints the rate of {one_of}")
        survey = self.survey
        return concluded(
            KIND,
            samples,
            problems,
            "the line has no result",
            name=f"dir {directories} thr {threads}",
            began=None if survey is None else survey.began,
            host=None if survey is None else survey.host,
            requested={
                "targets": mdts,
                "files": files,
                "directories": directories,
                "threads": threads,
            },
            reported={"targets": 1},
            warnings=warnings,
            identity=None if survey is None else f"{survey.title}\n{self.text.rstrip()}",
        )

    def _samples(
        self, part: re.Match[str], problems: Notes, warnings: Notes, *, extremes: bool
    ) -> Iterator[Sample]:
        test, rate, least, most, word = part.groups()
        metric = _METRICS.get(test or "")
        if word == "ERROR":
            problems.add("tool-error", f"mds-survey reports ERROR in {test}")
        if metric is None:
            warnings.add("test-unknown", f"{test} is ignored: there is no metric for it")
            return
        reason = None
        if word is not None:
            reason = Message("tool-error", f"mds-survey reports {word}")
        elif rate is not None and float(rate) == 0:
            reason = Message("too-few-digits", "printed as 0.00: too few digits")
        if rate is None:
            reason = reason or Message("no-rate", "it has no rate")
            yield Sample(metric, None, 0, output=0, line=self.number, reason=reason)
            return
        yield Sample(metric, float(rate), 0, None, "total", 0, self.number, reason)
        for statistic, value in (("interval_min", least), ("interval_max", most)):
            if value is not None and extremes:
                yield Sample(metric, float(value), 0, None, statistic, 0, self.number, reason)


_BEGINNING: Final = Mark(
    (b"-survey from ", b" file "),
    re.compile(
        rb"^(?:[A-Z][a-z]{2} [^\n]{10,40} \S{0,400}(?:mds-survey|Mdt-survey) from "
        rb"|mdt +\d{1,4} file +\d{1,12} dir +\d{1,7} thr +\d{1,7} )",
        re.MULTILINE,
    ),
)
FORMAT: Final = OutputFormat(KIND, _BEGINNING.stands_in, read, beginning=_BEGINNING)
