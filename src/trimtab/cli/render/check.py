"""A check as text: the answer first, then what was measured, found, and not seen."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from trimtab.cli.options import extent
from trimtab.cli.render.screen import Column, print_rows, print_screen, print_wrapped
from trimtab.cli.render.text import value_text, verdict_word
from trimtab.model.check import CheckResult
from trimtab.model.filesystem import PathDescription
from trimtab.model.finding import Finding, Severity
from trimtab.model.run import Run
from trimtab.model.verdict import Comparison, Interval, Scope, Verdict, VerdictStatus
from trimtab.report.text import metric_text
from trimtab.units import format_percent, format_value, plural
from trimtab.visible import shell_text, visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console
    from rich.text import Text

_SEVERITY_STYLE = {
    Severity.CRITICAL: "bold red",
    Severity.WARNING: "bold yellow",
    Severity.INFO: "bold blue",
}

_TONES = {"healthy": "bold green", "info": "bold green"}
_DOUBTED: Final = 2
"""Figures that are not judged, on the screen, each with its reason."""
_OF_TARGETS = ("servers", "targets")
"""What is missing of a parallel file system: named in full, since troubles may hide there."""


def print_check(result: CheckResult) -> None:
    """Print a check on standard output."""
    from trimtab.report.health import health

    tone, sentence = health(result, result.findings)
    body, style = partial(_print_body, result), _TONES.get(tone, "bold yellow")
    print_screen(sentence, body, more=tuple(_closing(result)), style=style)


def _print_body(result: CheckResult, out: Console) -> None:
    from trimtab.report.health import cost_text

    print_wrapped(out, _path_line(result), "dim")
    for note in result.path.notes:
        print_wrapped(out, note, "dim", indent=2)
    print_verdicts(out, result.run, result.verdicts, result.comparisons)
    if (cost := cost_text(result)) is not None:
        print_wrapped(out, cost, indent=2)
    out.print()
    _print_findings(out, result)


def print_verdicts(
    out: Console,
    run: Run | None,
    verdicts: tuple[Verdict, ...],
    comparisons: tuple[Comparison, ...],
) -> None:
    """Print what a run says by itself, over time and against earlier ones, and what it lacks."""
    if verdicts:
        out.print()
        if is_undecided(verdicts):
            print_wrapped(out, _undecided(verdicts), indent=2)
        else:
            print_rows(out, _VERDICT_COLUMNS, [_verdict_row(verdict) for verdict in verdicts])
        reasons = [] if is_undecided(verdicts) else _reasons(verdicts)
        for line in (*reasons, *_not_believed(run)):
            print_wrapped(out, line, "dim", indent=2)
    for comparison in comparisons:
        print_wrapped(out, f"{comparison.metric}: {comparison.reason}", indent=2)
    if run is not None and run.problem:
        text = f"run {run.status.value}: {run.problem}"
        print_wrapped(out, text, "bold red", indent=2)


_IN_WORDS: Final = 2
"""Metrics that go into a sentence; more take rows."""


def is_undecided(verdicts: tuple[Verdict, ...]) -> bool:
    """Return whether one sentence says all: nothing can be judged yet, of a metric or two."""
    metrics = {verdict.metric for verdict in verdicts}
    undecided = all(verdict.status is VerdictStatus.CANNOT_TELL for verdict in verdicts)
    return undecided and 0 < len(metrics) <= _IN_WORDS and not extent().everything


def _undecided(verdicts: tuple[Verdict, ...]) -> str:
    """Return what was measured, and what it takes until it can be judged."""
    within = [verdict for verdict in verdicts if verdict.scope is Scope.REPETITIONS]
    over_time = [verdict for verdict in verdicts if verdict.scope is Scope.HISTORY]
    figures = [
        f"{metric_text(verdict.metric)} {value_text(verdict.mean, verdict.unit)} "
        f"({plural(verdict.n, 'repetition')}, slowest {value_text(verdict.slowest, verdict.unit)})"
        for verdict in within or over_time
    ]
    reasons = dict.fromkeys(verdict.reason for verdict in over_time or within)
    return visible(f"{', '.join(figures)}: steadiness cannot be told yet, {'; '.join(reasons)}.")


_VERDICT_COLUMNS = (
    Column("", wraps=True),
    Column("n", right=True, drop=1),
    Column("mean", right=True),
    Column("95 % interval", right=True, drop=2),
    Column("slowest", right=True, drop=3),
    Column("COV", right=True),
    Column("of COV", right=True, drop=4),
    Column("verdict"),
)


def _verdict_row(verdict: Verdict) -> tuple[str | Text, ...]:
    scope = "" if verdict.scope is Scope.REPETITIONS else ", over time"
    return (
        f"{metric_text(verdict.metric)}{scope}",
        str(verdict.n),
        value_text(verdict.mean, verdict.unit),
        _interval(verdict.mean_interval, verdict.unit),
        value_text(verdict.slowest, verdict.unit),
        value_text(verdict.cov, "1"),
        _interval(verdict.cov_interval, "1"),
        verdict_word(verdict.status),
    )


def print_finding(out: Console, finding: Finding) -> None:
    """Print one finding: what was seen and what to do; with ``--all`` why, and how sure it is."""
    from rich.padding import Padding
    from rich.text import Text

    head = Text()
    head.append(f"{finding.severity.value}", style=_SEVERITY_STYLE[finding.severity])
    head.append(f"  {finding.id}: {visible(finding.title)}")
    print_wrapped(out, head)
    everything = extent().everything
    seen = f"seen  {format_value(finding.seen.value, finding.seen.unit)}, {finding.seen.what}"
    if finding.source and everything:
        seen += f" ({finding.source})"
    print_wrapped(out, seen, indent=2, hang=6)
    if everything:
        print_wrapped(out, f"why   {finding.why}", indent=2, hang=6)
    print_wrapped(out, f"do    {finding.fix.prose}", indent=2, hang=6)
    if finding.fix.argv:
        command = shell_text(finding.fix.argv)
        out.print(Padding(Text(f"      {command}", style="cyan"), (0, 0, 0, 2)), soft_wrap=True)
    if everything:
        print_wrapped(out, f"sure  {finding.confidence:.0%}", "dim", indent=2)


def print_trouble(out: Console, trouble: Finding) -> None:
    """Print one entry of a site's troubles in two lines: what is wrong, and its repair."""
    style = _SEVERITY_STYLE[trouble.severity]
    print_wrapped(out, f"{trouble.severity.value}  {visible(trouble.title)}", style, indent=2)
    command = f" {shell_text(trouble.fix.argv)}" if trouble.fix.argv else ""
    print_wrapped(out, f"do  {trouble.fix.prose}{command}", "dim", indent=4, hang=4)


def describe_layers(path: PathDescription) -> str:
    """Return the layers beneath a path in one line: ``ext4 on md0 over 12 drives, flash``."""
    medium = {True: "flash", False: "rotational", None: "medium not known"}[path.is_flash]
    if not path.devices:
        return f"{path.fs_type} ({path.kind}) from {path.source}"
    top = path.devices[0]
    below = [drive for drive in path.drives if drive.name != top.name]
    over = f" over {', '.join(drive.name for drive in below)}" if 0 < len(below) <= 3 else ""
    over = f" over {len(below)} drives" if len(below) > 3 else over
    return f"{path.fs_type} on {top.name}{over}, {medium}"


def _path_line(result: CheckResult) -> str:
    text = f"{result.path.path}: {describe_layers(result.path)}"
    for target in result.snapshot.targets[:1]:
        capacity, fullness = target.number("capacity_bytes"), target.fullness()
        if capacity is not None:
            text += f", {format_value(capacity, 'B')}"
        if fullness is not None:
            text += f", {format_percent(fullness)} full"
    return visible(text)


def _reasons(verdicts: tuple[Verdict, ...]) -> list[str]:
    """Return each reason once, with the metrics that it holds for."""
    metrics: dict[str, list[str]] = {}
    for verdict in verdicts:
        metrics.setdefault(verdict.reason, []).append(verdict.metric.split("_")[0])
    return [visible(f"{' and '.join(names)}: {text}.") for text, names in metrics.items()]


def _not_believed(run: Run | None) -> list[str]:
    """Return each figure that is not judged, beside the others with the same reason."""
    figures: dict[str, list[str]] = {}
    for sample in () if run is None else run.samples:
        if sample.statistic == "total" and sample.reason is not None:
            name = f"{sample.metric.split('_')[0]} {sample.repetition}"
            value = format_value(sample.value, sample.unit)
            figures.setdefault(sample.reason, []).append(f"{name} {value}")
    lines = [visible(f"not believed: {', '.join(f)} ({why}).") for why, f in figures.items()]
    if extent().everything or len(lines) <= _DOUBTED:
        return lines
    return [*lines[:_DOUBTED], f"... {len(lines) - _DOUBTED} more that are not believed: --all"]


def _print_findings(out: Console, result: CheckResult) -> None:
    for finding in result.findings:
        print_finding(out, finding)
    for missing in result.not_available:
        if missing.what in _OF_TARGETS:
            print_wrapped(out, f"{missing.what}: {missing.reason}", "yellow")


def _closing(result: CheckResult) -> Iterator[str]:
    if not extent().everything:
        if result.findings:
            yield "--all shows why each finding matters, how sure it is, and every figure"
        elif is_undecided(result.verdicts):
            yield "--all shows every figure with its interval"
    if result.not_available:
        names = sorted({missing.what for missing in result.not_available})
        shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
        yield f"not seen  {shown} (reasons: --json, or the report)"
    if result.run is not None:
        yield f"run       {result.run.id[:13]}: trimtab show {result.run.id[:13]}"
    if result.report:
        yield f"report    {result.report}"


def _interval(interval: Interval | None, unit: str) -> str:
    if interval is None:
        return "-"
    return f"{format_value(interval.low, unit)} .. {format_value(interval.high, unit)}"
