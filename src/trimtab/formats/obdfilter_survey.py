"""obdfilter-survey: bandwidth of OSTs on their servers, without network and clients. Pure.

A survey writes two files: ``NAME.summary``, with a line for each combination of record size,
objects and threads, and ``NAME.detail``, with each OST's figures. Each combination is one result
from both files; each file can be read alone. `trimtab.formats.obdfilter_output` parses them.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from trimtab.base.error import DataError, Message, UsageError
from trimtab.base.run import Layer, Sample
from trimtab.base.units import MIB
from trimtab.formats.measurement import (
    Mark,
    Measurement,
    Notes,
    OutputFile,
    OutputFormat,
    concluded,
    told_apart,
)
from trimtab.formats.obdfilter_output import (
    LINE_START,
    DetailBlock,
    DetailTest,
    Line,
    SummaryPart,
    SurveyShape,
    SurveySummary,
    SurveyTitle,
    TargetRate,
    read_detail,
    read_summary,
    target_of,
)

TESTS: Final = ("write", "rewrite", "read")
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,8}-OST[0-9a-fA-F]{4}")
_THREADS_MAXIMUM: Final = 1024
_RECORD_KIB_MAXIMUM: Final = 4096
_LEAD: Final = 'echo $$ > "$1" && shift && exec "$@"'


@dataclass(frozen=True, slots=True)
class SurveySpec:
    """One combination of a survey.

    Attributes
    ----------
    size_bytes
        Bytes that each target writes, rewrites and reads.
    objects, threads
        Per target; threads are a multiple of objects.
    """

    size_bytes: int = 16 * 2**30
    objects: int = 1
    threads: int = 16
    record_bytes: int = 2**20
    tests: tuple[str, ...] = TESTS

    def __post_init__(self) -> None:
        """Refuse what the survey would refuse, or silently do differently.

        Raises
        ------
        UsageError
            A number is out of bounds.
        """
        record_kib = self.record_bytes // 1024
        if self.record_bytes % 4096 or not 4 <= record_kib <= _RECORD_KIB_MAXIMUM:
            raise UsageError(
                f"a record size of {self.record_bytes} bytes: use 4 KiB to 4 MiB in whole pages",
                code="record-size-invalid",
            )
        if not 1 <= self.objects <= self.threads <= _THREADS_MAXIMUM or self.threads % self.objects:
            problem = f"{self.threads} threads and {self.objects} objects"
            hint = "threads must be a multiple of objects, at most 1024"
            raise UsageError(problem, code="threads-invalid", hint=hint)
        if self.size_bytes % MIB or self.size_bytes % (self.record_bytes * self.threads):
            problem = f"{self.size_bytes} bytes do not divide into whole records for each thread"
            hint = "take a multiple of 1 MiB times the threads"
            raise UsageError(problem, code="size-invalid", hint=hint)
        if not self.size_bytes:
            raise UsageError("no objects to write", code="objects-missing")
        if self.tests[:1] != ("write",) or not set(self.tests) <= set(TESTS):
            hint = f"known: {', '.join(TESTS)}"
            raise UsageError("the first test must be write", code="tests-invalid", hint=hint)

    def compared_settings(self, *, together: bool) -> dict[str, object]:
        """Return the parameters per target; surveys that differ in them are never compared.

        Includes ``together`` only if true: targets of one server measured at the same time share
        its network and CPUs, so a lower rate is not a regression.
        """
        settings: dict[str, object] = {
            "case": "disk",
            "size_bytes": self.size_bytes,
            "transfer_size_bytes": self.record_bytes,
            "objects_per_target": self.objects,
            "threads_per_target": self.threads,
            "tests": list(self.tests),
        }
        return settings | {"together": True} if together else settings


def command(
    spec: SurveySpec,
    targets: Sequence[str],
    *,
    directory: str,
    deadline_s: float,
    program: str = "obdfilter-survey",
) -> tuple[str, ...]:
    """Return the command that surveys targets of one server simultaneously.

    The survey is a shell script that reads its parameters from the environment. They are passed as
    arguments of ``env``, so that no shell parses them. It runs in its own process group and writes
    the group's number to a file, because killing ssh does not end the remote processes.

    Source: the head of lustre-iokit/obdfilter-survey/obdfilter-survey.

    Parameters
    ----------
    targets
        Lustre's full names: ``scratch-OST0000``.
    directory
        On the server, for the results (``survey.summary``, ``survey.detail``) and the process
        group's number (``survey.group``).
    deadline_s
        Time after which the server ends it.

    Raises
    ------
    UsageError
        A name is not an OST's.
    """
    for name in targets:
        if _NAME.fullmatch(name) is None:
            raise UsageError(f"{name!r} is not a Lustre OST name", code="target-invalid")
    variables = {
        "case": "disk",
        "targets": " ".join(targets),
        "size": str(spec.size_bytes // MIB),
        "nobjlo": str(spec.objects),
        "nobjhi": str(spec.objects),
        "thrlo": str(spec.threads),
        "thrhi": str(spec.threads),
        "rszlo": str(spec.record_bytes // 1024),
        "rszhi": str(spec.record_bytes // 1024),
        "tests_str": " ".join(spec.tests),
        "rslt_loc": directory,
        "rslt": f"{directory}/survey",
    }
    return (
        *("setsid", "-w", "sh", "-c", _LEAD, "sh", f"{directory}/survey.group"),
        *("timeout", "-k", "30", f"{deadline_s:.0f}"),
        *("env", *(f"{name}={value}" for name, value in variables.items()), program),
    )


KIND: Final = "obdfilter-survey"
_METRICS: Final[Mapping[str, str]] = {
    "write": "write_bandwidth",
    "rewrite": "rewrite_bandwidth",
    "rewrite_again": "rewrite_bandwidth",
    "read": "read_bandwidth",
    "reread": "read_bandwidth",
}
_LAYERS: Final[Mapping[str, Layer]] = {"disk": "ost", "network": "network", "netdisk": "client"}
_NAMED_TARGETS: Final = 8
_OST: Final = re.compile(r"(.{1,8})-(OST[0-9a-fA-F]{4})")
_BEGINNING: Final = "using LCTL="
_TITLE: Final = "Obdfilter-survey for case="
_BLOCK: Final = "=======================> ost "


def read(source: OutputFile) -> tuple[Measurement, ...]:
    """Return the results of a summary with its detail, or of one of them alone."""
    if source.text.lstrip().startswith(_BLOCK):
        summary, detail, ordinal = SurveySummary((), (), ()), source.text, 0
    else:
        summary, detail, ordinal = read_summary(source.text), _beside(source), 1
    return results(summary, read_detail(detail or ""), detail_output=ordinal)


def results(
    summary: SurveySummary, blocks: tuple[DetailBlock, ...], *, detail_output: int = 1
) -> tuple[Measurement, ...]:
    """Return one result for each line of the summary and its block of the detail.

    Parameters
    ----------
    detail_output
        Ordinal of the detail among the raw outputs; the summary's is 0.

    Raises
    ------
    DataError
        There is neither a line nor a block.
    """
    strange = None
    paired = [(line.shape, block.shape) for line, block in zip(summary.lines, blocks, strict=False)]
    if any(line != block for line, block in paired):
        text = "the .detail file belongs to another survey and was ignored"
        strange, blocks = Message("companion-of-another-run", text), ()
    if not summary.lines and not blocks:
        raise _nothing(summary)
    pairs = zip_longest(summary.lines, blocks)
    rows = [_Result(summary, line, block, detail_output) for line, block in pairs]
    return told_apart(result.measurement(strange) for result in rows)


def _nothing(summary: SurveySummary) -> DataError:
    complaints = "; ".join(text for _, text in summary.others if not text.startswith(_BEGINNING))
    why = f": {complaints[:300]}" if complaints else ""
    return DataError(f"obdfilter-survey measured nothing{why}", code="no-result", line=1)


@dataclass(frozen=True, slots=True)
class _Result:
    """One line with its block, if any."""

    summary: SurveySummary
    line: Line | None
    block: DetailBlock | None
    detail_output: int

    @property
    def shape(self) -> SurveyShape:
        if self.line is not None:
            return self.line.shape
        assert self.block is not None
        return self.block.shape

    def measurement(self, strange: str | None) -> Measurement:
        survey = self._survey()
        return concluded(
            KIND,
            tuple(self._samples()),
            self._problems(),
            "no result in this survey",
            name=self.shape.name,
            layer="ost" if survey is None else _LAYERS.get(survey.case),
            began=None if survey is None else survey.began,
            host=None if survey is None else survey.host,
            requested=self._requested(survey),
            reported=self._reported(),
            warnings=self._warnings(strange),
            identity=self._identity(survey),
        )

    def _identity(self, survey: SurveyTitle | None) -> str | None:
        """Return an identity that is equal in a survey's output and summary: its time and line."""
        if survey is None or self.line is None or self.line.problem is not None:
            return None
        return f"{survey.title}\n{self.line.text}"

    def _survey(self) -> SurveyTitle | None:
        if self.line is not None and self.line.survey is not None:
            return self.summary.surveys[self.line.survey]
        return None

    def _requested(self, survey: SurveyTitle | None) -> dict[str, object]:
        shape = self.shape
        requested: dict[str, object] = {"case": "disk" if survey is None else survey.case}
        return requested | {
            "size_bytes": shape.size_kib // shape.targets * 1024,
            "transfer_size_bytes": shape.record_kib * 1024,
            "objects_per_target": shape.objects // shape.targets,
            "threads_per_target": shape.threads // shape.targets,
            "tests": [name for name, _, _ in self._tests()],
            "targets": self._targets(),
        }

    def _targets(self) -> object:
        """Return the surveyed targets: their names if few, else their number.

        Other targets are another series, as their drives differ.
        """
        rates = self.block.tests[0].rates if self.block is not None and self.block.tests else []
        names = sorted({target_of(rate.client) for rate in rates})
        if len(names) != self.shape.targets:
            return self.shape.targets
        if len(names) <= _NAMED_TARGETS:
            return names
        digest = hashlib.sha256("\n".join(names).encode()).hexdigest()
        return {"count": len(names), "sha256": digest[:12]}

    def _reported(self) -> dict[str, object]:
        reported: dict[str, object] = {"targets": self.shape.targets}
        file_system = self._file_system()
        if file_system is not None:
            reported["file_system"] = file_system
        short = [part.test for part in self._parts() if part.word == "SHORT"]
        return reported | {"short": short} if short else reported

    def _tests(self) -> list[tuple[str, SummaryPart | None, DetailTest | None]]:
        """Return the tests in order, from the line and from the block."""
        parts = self._parts()
        tests = [] if self.block is None else self.block.tests
        rows: list[tuple[str, SummaryPart | None, DetailTest | None]] = []
        for part, test in zip_longest(parts, tests):
            name = test.name if part is None else part.test
            rows.append((name, part, test if test is not None and test.name == name else None))
        running = None if self.line is None else self.line.unfinished
        if running is not None and len(rows) == len(parts):
            rows.append((running, None, None))
        return rows

    def _parts(self) -> tuple[SummaryPart, ...]:
        return () if self.line is None else self.line.parts

    def _problems(self) -> list[str]:
        line, block = self.line, self.block
        if line is None:
            assert block is not None
            if block.whole and block.damaged is None:
                return []
            cut = Message("detail-cut", "the .detail ends before the survey did")
            return [block.damaged or cut]
        problems = Notes()
        if line.problem is not None:
            problems.add(line.problem.code, f"line {line.number}: {line.problem}")
        for part in line.parts:
            if part.word == "ERROR":
                problems.add("tool-error", f"obdfilter-survey reports ERROR in {part.test}")
        for name, _, _ in self._tests():
            if name not in _METRICS:
                problems.add("test-unknown", f"{name} is not one of its tests")
        if line.problem is not None and not line.damaged:
            complaints = [text for number, text in self.summary.others if number > line.number]
            problems += complaints[:1]
        return problems

    def _warnings(self, strange: str | None) -> Iterator[str]:
        if strange is not None:
            yield strange
        short = [part.test for part in self._parts() if part.word == "SHORT"]
        if short:
            was = "was" if len(short) == 1 else "were"
            text = f"{', '.join(short)} {was} over in about two seconds: thread start-up is part"
            yield Message("too-short", f"{text} of the time")
        if self.line is not None and self.block is not None:
            if self.block.damaged is not None:
                yield Message("detail-damaged", f"the .detail is damaged: {self.block.damaged}")
            elif not self.block.whole:
                text = "the .detail does not show that its objects were removed"
                yield Message("objects-maybe-left", text)

    def _samples(self) -> Iterator[Sample]:
        seen: dict[str, int] = {}
        for name, part, test in self._tests():
            metric = _METRICS.get(name)
            if metric is None:
                continue
            repetition = seen.get(metric, 0)
            seen[metric] = repetition + 1
            place = (metric, repetition)
            again = name == "write" and repetition > 0
            yield from self._of_all(place, part, test, again=again)
            if test is not None:
                yield from self._of_targets(place, test)

    def _of_all(
        self,
        place: tuple[str, int],
        part: SummaryPart | None,
        test: DetailTest | None,
        *,
        again: bool,
    ) -> Iterator[Sample]:
        metric, repetition = place
        if self.line is None:
            text = "the .summary with the figure of all targets is missing"
            yield Sample(metric, None, repetition, reason=Message("companion-missing", text))
            return
        line = self.line.number
        if part is None:
            reason = Message("run-unfinished", "it did not finish")
            yield Sample(metric, None, repetition, output=0, line=line, reason=reason)
            return
        reason = self._disbelief(part, test)
        if again:
            text = "its objects were written before: this is a rewrite"
            reason = reason or Message("rewrite", text)
        for statistic, value in (
            ("total", part.bandwidth_bytes_per_s),
            ("interval_min", part.slowest_bytes_per_s),
            ("interval_max", part.fastest_bytes_per_s),
        ):
            if value is not None:
                yield Sample(metric, value, repetition, None, statistic, 0, line, reason)

    def _disbelief(self, part: SummaryPart, test: DetailTest | None) -> str | None:
        assert self.line is not None
        if self.line.damaged:
            return Message("line-damaged", f"the line is damaged: {self.line.problem}")
        if part.word == "ERROR":
            return Message("tool-error", "obdfilter-survey reports ERROR")
        if part.bandwidth_bytes_per_s == 0:
            return Message("too-few-digits", "printed as 0.00: too few digits")
        if (part.slowest_bytes_per_s or 0.0) > (part.fastest_bytes_per_s or 0.0):
            return Message("figures-disagree", "its slowest second is faster than its fastest")
        if test is None or self.block is None or self.block.damaged is not None:
            return None
        return _contradiction(self.shape, part, test)

    def _of_targets(self, place: tuple[str, int], test: DetailTest) -> Iterator[Sample]:
        block = self.block
        assert block is not None
        metric, repetition = place
        output = self.detail_output
        text = f"the .detail is damaged: {block.damaged}"
        spoilt = block.damaged and Message("detail-damaged", text)
        if not spoilt and self.line is not None and self.line.damaged:
            spoilt = Message("line-damaged", "the line of the summary is damaged")
        if len({rate.client for rate in test.rates}) != len(test.rates):
            spoilt = spoilt or Message("target-twice", "a target is in the .detail twice")
        short = self._file_system() is not None
        for rate in test.rates:
            target = target_of(rate.client)[-7 if short else 0 :]
            value, reason = rate.bandwidth_bytes_per_s, rate.reason or spoilt or None
            yield Sample(metric, value, repetition, target, "total", output, rate.line, reason)

    def _file_system(self) -> str | None:
        """Return the file system of the targets, ``None`` if unknown or not unique."""
        if self.block is None or not self.block.tests:
            return None
        names = {target_of(rate.client) for rate in self.block.tests[0].rates}
        matches = [_OST.fullmatch(name) for name in names]
        systems = {match[1] for match in matches if match is not None}
        return systems.pop() if all(matches) and len(systems) == 1 else None


def _contradiction(shape: SurveyShape, part: SummaryPart, test: DetailTest) -> str | None:
    """Return where a line contradicts the detail, beyond rounding."""
    slowest: TargetRate | None = max(
        (rate for rate in test.rates if rate.elapsed_s is not None and rate.reason is None),
        key=lambda rate: rate.elapsed_s or 0.0,
        default=None,
    )
    if slowest is not None and slowest.elapsed_s is not None:
        elapsed_s = shape.size_kib * 1024 / part.bandwidth_bytes_per_s
        # The survey's clock runs from before the threads start until all have ended.
        rounding = 0.005 * MIB / part.bandwidth_bytes_per_s
        if elapsed_s * (1 + rounding) < slowest.elapsed_s * (1 - 1e-6):
            text = f"the figure implies {elapsed_s:.3f} s, but {target_of(slowest.client)} took"
            return Message("figures-disagree", f"{text} {slowest.elapsed_s:.3f} s")
    if test.extremes is None or part.slowest_bytes_per_s is None or test.extremes.seconds <= 0:
        return None
    printed = (part.slowest_bytes_per_s, part.fastest_bytes_per_s or 0.0)
    extremes = (test.extremes.slowest_bytes_per_s, test.extremes.fastest_bytes_per_s)
    pairs = zip(printed, extremes, strict=True)
    if all(math.isclose(*pair, abs_tol=0.0051 * MIB) for pair in pairs):
        return None
    text = "its slowest and fastest seconds are not those of the .detail"
    return Message("figures-disagree", text)


def _beside(source: OutputFile) -> str | None:
    """Return the text of the detail next to a summary."""
    for content in source.beside.values():
        return content.decode("utf-8-sig", "replace")
    return None


def _recognises(source: OutputFile) -> bool:
    head = source.head
    if head.lstrip().startswith((_BLOCK, f"{_BEGINNING}'")):
        return True
    return _TITLE in head or LINE_START.search(head) is not None


def _companions(name: str) -> tuple[str, ...]:
    stem = name.removesuffix(".summary")
    return (f"{stem}.detail",) if stem != name else ()


def _instead(name: str) -> tuple[str, ...]:
    stem = name.removesuffix(".detail")
    return (f"{stem}.summary",) if stem != name else ()


_PRINTED: Final = re.compile(
    rb"^(?:using LCTL=[^\n]{0,400}\n)?[A-Z][a-z]{2} [^\n]{10,40} Obdfilter-survey for case=",
    re.MULTILINE,
)
FORMAT: Final = OutputFormat(
    KIND,
    _recognises,
    read,
    companions=_companions,
    instead=_instead,
    beginning=Mark((_TITLE.encode(),), _PRINTED),
)
