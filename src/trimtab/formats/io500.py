"""IO500: the result of a whole run, from its ``result_summary.txt`` and ``result.txt``.

The summary has rate, time and validity of each phase; ``result.txt`` next to it has times, commands
and errors. Each can also be read alone, as can the output of ``io500`` itself, which contains the
summary's lines. For the shell scripts before 2020, ``result_summary.txt`` and
``io-500-summary.*.txt`` are read.

`trimtab.formats.io500_summary` parses the two files; this one decides which figures are credible:
those of valid phases whose means match the score. The outputs of IOR and mdtest in the same
directory are separate results.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from trimtab.base.error import DataError, Message
from trimtab.base.finding import Missing
from trimtab.base.plain import PrintedNumber, present, whole_of
from trimtab.base.run import Sample
from trimtab.base.units import GIB
from trimtab.formats.io500_summary import (
    KIND,
    Details,
    Io500Run,
    Io500Section,
    PhaseLine,
    ScoreLine,
    details_of,
    runs_of,
)
from trimtab.formats.ior_result import CommandLine
from trimtab.formats.mdtest_output import options_of, parameters
from trimtab.formats.measurement import (
    Mark,
    Measurement,
    Notes,
    OutputFile,
    OutputFormat,
    concluded,
    missing,
)

COARSE: Final = 0.01
"""A rate is doubted if rounding may hide more than this fraction of it."""

_METRICS: Final = {
    "write": "file_creation_rate",
    "stat": "file_stat_rate",
    "read": "file_read_rate",
    "delete": "file_removal_rate",
}
_BANDWIDTHS: Final = frozenset(
    {"ior-easy-write", "ior-easy-read", "ior-hard-write", "ior-hard-read"}
)
_OPERATIONS: Final = frozenset(
    {"mdtest-easy-write", "mdtest-easy-stat", "mdtest-easy-delete", "find"}
    | {"mdtest-hard-write", "mdtest-hard-stat", "mdtest-hard-read", "mdtest-hard-delete"}
)
_SCORED: Final = _BANDWIDTHS | _OPERATIONS
"""The phases of the score. Others belong to the extended run or are informative."""
_NO_METRIC: Final = ("timestamp", "mdworkbench-")


def measured(run: Io500Run, details: Details, *, suffix: str) -> list[Measurement]:
    """Return a result for each benchmark of a run, and one for the score.

    Parameters
    ----------
    details
        From ``result.txt``; empty without one.
    suffix
        Suffix of the names if an output has several runs.
    """
    return _Io500Judge(run, details, suffix).measurements()


@dataclass(slots=True)
class _Io500Judge:
    run: Io500Run
    details: Details
    suffix: str
    warnings: Notes = field(default_factory=Notes)

    def measurements(self) -> list[Measurement]:
        """Return the results."""
        phases, doubts = self._phases()
        invalid = self._invalid()
        problems = self._problems(phases)
        groups: dict[str, list[PhaseLine]] = {}
        for phase in phases.values():
            if _metric(phase) is None:
                if not phase.name.startswith(_NO_METRIC):
                    self.warnings.add("phase-unknown", f"{phase.name} is an unknown phase")
                continue
            groups.setdefault(_group(phase.name), []).append(phase)
        wrong = self._means(phases)
        results = [
            self._result(name, members, doubts | wrong, invalid, problems)
            for name, members in groups.items()
        ]
        if self.run.score is not None:
            results.append(self._score(self.run.score, wrong, invalid))
        return results

    def _phases(self) -> tuple[dict[str, PhaseLine], dict[str, str]]:
        """Return the phases by name, and conflicts between values."""
        phases: dict[str, PhaseLine] = {}
        doubts: dict[str, str] = {}
        for phase in self.run.phases:
            first = phases.setdefault(phase.name, phase)
            if first.figure != phase.figure or first.invalid != phase.invalid:
                text = f"line {phase.line} has another result of {phase.name}"
                doubts[phase.name] = Message("result-twice", text)
        for name, phase in phases.items():
            section = self.details.sections.get(name)
            other = section.text("score") if section is not None else None
            if other is None or phase.output == self.details.output or phase.figure is None:
                continue
            if not _same(phase.figure, other):
                doubts[name] = Message("result-mismatch", f"result.txt has {other[:40]} for {name}")
        return phases, doubts

    def _invalid(self) -> str | None:
        """Return why the run is invalid by IO500's rules.

        The score line decides. sc23 complained about a stonewall under 30 s in runs of 300 s but
        marked them valid; such complaints are warnings.
        """
        score = self.run.score
        complaints = [*self.run.complaints, *self.details.top.complaints]
        for section in self.details.sections.values():
            complaints += section.complaints
        marked = [
            phase.name for phase in self.run.phases if phase.invalid and phase.name in _SCORED
        ]
        reasons = list(dict.fromkeys(complaints or marked))
        if (score is not None and score.invalid) or marked or (reasons and score is None):
            text = "IO500 marked the run invalid" + (f": {reasons[0]}" if reasons else "")
            return Message("run-invalid", text)
        for complaint in reasons:
            text = f"IO500 printed {complaint!r} but marked the run valid"
            self.warnings.add("run-called-valid", text)
        return None

    def _problems(self, phases: Mapping[str, PhaseLine]) -> list[str]:
        problems = Notes()
        if self.run.score is None:
            problems.add("output-unfinished", "IO500 ended before its score")
        elif lacking := sorted(_SCORED - set(phases)):
            problems.add("phases-missing", f"no result for {', '.join(lacking)}")
        if self.run.unreadable:
            problems.add("line-damaged", f"line {self.run.unreadable[0]} is incomplete")
        if self.details.repeated:
            problems.add("result-twice", f"result.txt has {self.details.repeated} twice")
        return problems

    def _means(self, phases: Mapping[str, PhaseLine]) -> dict[str, str]:
        """Return why phases contradict the score: their means differ."""
        score, wrong = self.run.score, dict[str, str]()
        if score is None:
            return wrong
        for names, printed in ((_BANDWIDTHS, score.bandwidth), (_OPERATIONS, score.operations)):
            reason = _not_the_mean(
                [phases[name].figure for name in names if name in phases], printed
            )
            if reason is not None:
                self.warnings.append(reason)
                wrong |= dict.fromkeys(names, reason)
        return wrong

    def _result(
        self,
        name: str,
        phases: Sequence[PhaseLine],
        doubts: Mapping[str, str],
        invalid: str | None,
        problems: Sequence[str],
    ) -> Measurement:
        samples = [_sample(phase, doubts.get(phase.name), invalid) for phase in phases]
        reasons = dict.fromkeys(sample.reason for sample in samples if sample.reason is not None)
        sections = [self.details.sections.get(phase.name, Io500Section()) for phase in phases]
        requested, missing = self._requested(sections)
        times = {phase.name: phase.runtime_s for phase in phases if phase.runtime_s is not None}
        return self._measurement(
            name,
            samples,
            [*reasons, *problems],
            began=_first(section.moment("t_start") for section in sections),
            ended=_first(section.moment("t_end") for section in reversed(sections)),
            requested=requested,
            reported={"runtime_s": times} if times else {},
            missing=missing,
        )

    def _score(
        self, score: ScoreLine, wrong: Mapping[str, str], invalid: str | None
    ) -> Measurement:
        reason = invalid or next(iter(wrong.values()), None) or _not_the_total(score)
        value = score.total.value if score.total is not None and score.total.value > 0 else None
        if value is None:
            reason = reason or Message("number-unreadable", "no number was printed")
        sample = Sample("score", value, 0, None, "total", score.output, score.line, reason)
        bandwidth, operations, top = score.bandwidth, score.operations, self.details.top
        reported = present(
            {
                "bandwidth_bytes_per_s": None if bandwidth is None else bandwidth.value * GIB,
                "operations_per_s": None if operations is None else operations.value * 1000,
                "config_hash": top.text("config-hash"),
                "result_dir": top.text("result-dir"),
            }
        )
        return self._measurement(
            "score",
            [sample],
            [] if reason is None else [reason],
            began=self.details.began,
            ended=self.details.ended,
            requested=self._common(),
            reported=reported,
        )

    def _measurement(
        self, name: str, samples: Sequence[Sample], problems: Sequence[str], **more: Any
    ) -> Measurement:
        return concluded(
            KIND,
            samples,
            problems,
            None,
            tool_version=self.run.version or self.details.version,
            name=name + self.suffix,
            layer="client",
            warnings=self.warnings,
            **more,
        )

    def _common(self) -> dict[str, object]:
        mode = self.run.mode or self.details.mode or "standard"
        return present({"mode": mode, "tasks": self.details.tasks})

    def _requested(
        self, sections: Sequence[Io500Section]
    ) -> tuple[dict[str, object], tuple[Missing, ...]]:
        commands = [section.text("exe") for section in sections]
        known = _parameters(next(filter(None, commands), ""))
        if known is None:
            reason = "parameters are in result.txt, which is missing"
            return self._common(), (missing("parameters", "companion-missing", reason),)
        return self._common() | known, ()


def _group(name: str) -> str:
    """Return the benchmark of a phase: ``ior-easy`` of ``ior-easy-write``."""
    begin, _, last = name.rpartition("-")
    return begin if last in _METRICS else name


def _metric(phase: PhaseLine) -> str | None:
    last = phase.name.rpartition("-")[2]
    if phase.name.startswith("ior-") and phase.bandwidth and last in ("write", "read"):
        return f"{last}_bandwidth"
    if phase.name.startswith("mdtest-") and not phase.bandwidth:
        return _METRICS.get(last)
    if phase.name in ("find", "find-easy", "find-hard") and not phase.bandwidth:
        return "file_find_rate"
    return None


def _sample(phase: PhaseLine, doubt: str | None, invalid: str | None) -> Sample:
    reason, value = invalid or doubt, None
    if phase.invalid:
        reason = reason or Message("phase-invalid", "IO500 marked the phase invalid")
    figure = phase.figure
    if figure is None or figure.value <= 0:
        text = "no rate printed: the phase did not run, or ended immediately"
        reason = reason or Message("no-rate", text)
    else:
        value = figure.value * (GIB if phase.bandwidth else 1000.0)
        if figure.error > COARSE:
            text = f"printed with too few digits: {figure.value:g}"
            reason = reason or Message("too-few-digits", text)
    metric = _metric(phase)
    assert metric is not None
    return Sample(metric, value, 0, None, "total", phase.output, phase.line, reason)


def _same(figure: PrintedNumber, text: str) -> bool:
    match = re.fullmatch(r"[0-9]{1,15}(?:\.[0-9]{1,9})?", text)
    return match is not None and abs(float(text) - figure.value) <= 2 * figure.half_unit


def _not_the_mean(
    figures: Sequence[PrintedNumber | None], printed: PrintedNumber | None
) -> str | None:
    """Return why a printed mean differs from the phases'; those without a rate are ignored."""
    known = [figure for figure in figures if figure is not None and figure.value > 0]
    if printed is None or printed.value <= 0 or not known:
        return None
    mean = math.exp(sum(math.log(figure.value) for figure in known) / len(known))
    error = sum(figure.error for figure in known) / len(known) + printed.error
    if abs(printed.value / mean - 1) <= 1.1 * error + 1e-6:
        return None
    text = f"the mean of its phases is {mean:.6g}, but IO500 printed {printed.value:.6g}"
    return Message("figures-disagree", text)


def _not_the_total(score: ScoreLine) -> str | None:
    """Return why the total is not the root of bandwidth times IOPS."""
    if score.bandwidth is None or score.operations is None or score.total is None:
        return Message("score-unreadable", "bandwidth, operations or total is not a number")
    product = score.bandwidth.value * score.operations.value
    error = 1.1 * (score.bandwidth.error + score.operations.error + score.total.error) + 1e-6
    if product > 0 and abs(score.total.value / math.sqrt(product) - 1) <= error:
        return None
    if product > 0 and abs(score.total.value / product - 1) <= error:
        return Message("score-is-product", "computed as before 2018: the product, not its root")
    text = f"it is {score.total.value:.6g}, but the root of the product is {math.sqrt(product):.6g}"
    return Message("figures-disagree", text)


def _parameters(command: str) -> dict[str, object] | None:
    """Return the parameters in a phase's command; ``None`` without a command."""
    if not command:
        return None
    words = command.split()
    if words[0].endswith("mdtest"):
        options = options_of(command, "4")
        known = parameters(options) if options is not None else None
        if options is None or known is None:
            return {}
        known.pop("phases", None)
        return known | present({"items_per_task": whole_of(options.get("n", ""))})
    if not words[0].endswith("ior"):
        return {}
    line = CommandLine(command)
    return {"file_per_process": "F" in line.values} | present(
        {
            "transfer_size_bytes": line.size("t"),
            "block_size_bytes": line.size("b"),
            "segments": line.size("s"),
            "stonewall_s": whole_of(line.values.get("D", "")),
            "api": line.values.get("a"),
        }
    )


def _first(moments: Iterable[datetime | None]) -> datetime | None:
    return next((moment for moment in moments if moment is not None), None)


_SUMMARY_NAME: Final = "result_summary.txt"
_DETAILS_NAME: Final = "result.txt"
_SUMMARY: Final = re.compile(
    r"^(?:IO500 version\b|\[RESULT[^]\n]{0,12}\] .{1,80} : time [0-9])", re.MULTILINE
)
_DETAILS: Final = re.compile(r"^config-hash +=", re.MULTILINE)


def read(source: OutputFile) -> tuple[Measurement, ...]:
    """Return a result for each benchmark of a run, and one for the score.

    Raises
    ------
    DataError
        It has no IO500 phase.
    """
    runs = runs_of(source.text)
    if not runs:
        details = details_of(source.text, output=0)
        runs = [Io500Run(version=details.version, mode=details.mode, phases=details.phases())]
        runs[0].score = details.score
    else:
        beside = source.beside.get(_DETAILS_NAME, b"").decode("utf-8-sig", "replace")
        details = details_of(beside if len(runs) == 1 else "", output=1)
    if not any(run.phases for run in runs):
        raise DataError("no IO500 phase in this file", code="no-result", line=1)
    measurements: list[Measurement] = []
    for number, run in enumerate(runs, start=1):
        suffix = f" run {number}" if number > 1 else ""
        printed = _printed(run)
        for result in measured(run, details, suffix=suffix):
            name = (result.name or "").removesuffix(suffix)
            measurements.append(replace(result, identity=printed and f"{name}\n{printed}"))
    return tuple(measurements)


def _printed(run: Io500Run) -> str | None:
    """Return the figures of a run, which are equal in IO500's output and summary."""
    if run.score is None or run.score.total is None or run.unreadable:
        return None
    phases = (
        f"{phase.name} {phase.figure} {phase.runtime_s} {phase.invalid}" for phase in run.phases
    )
    return "\n".join((*phases, str(run.score.total)))


def _recognises(source: OutputFile) -> bool:
    head = source.head.replace("\r", "")
    return _SUMMARY.search(head) is not None or _DETAILS.search(head) is not None


def _companions(name: str) -> tuple[str, ...]:
    return (_DETAILS_NAME,) if name == _SUMMARY_NAME else ()


def _instead(name: str) -> tuple[str, ...]:
    return (_SUMMARY_NAME,) if name == _DETAILS_NAME else ()


_BEGINNING: Final = re.compile(rb"^IO500 version\b", re.MULTILINE)
FORMAT: Final = OutputFormat(
    KIND,
    _recognises,
    read,
    _companions,
    _instead,
    beginning=Mark((b"IO500 version",), _BEGINNING),
)
