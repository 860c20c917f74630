"""`launch-failure`: runs never started because of a launcher or unresolved names.

One of NERSC's 13 bad days: "a system-wide issue with the proper resolution of DNS addresses"
[S1, VII]. Nothing was measured, so nothing is known about the file system: it is never called
slow.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from statistics import median
from typing import Final

from trimtab.base.error import Message
from trimtab.base.event import EventKind
from trimtab.base.incident import Evidence, Route
from trimtab.base.run import RunStatus
from trimtab.base.units import format_percent
from trimtab.explain.causes.run_evidence import levels, runs_of_probe, says
from trimtab.explain.context import Cause, Context, RunFact
from trimtab.explain.contrast import NO_BAD_RUNS, Sign, in_time
from trimtab.explain.telemetry_frame import OSTS, observe

NAMES: Final = re.compile(
    r"could not resolve|cannot resolve|unable to resolve|failed to resolve|not resolve"
    r"|name resolution|resolution of (?:host)?names?|getaddrinfo|gethostby|unknown host"
    r"|name or service not known|no address associated|nodename nor servname|servfail|nxdomain"
    r"|\bDNS\b|\bEAI_",
    re.I,
)
"""How glibc, ssh, Slurm and MPI report an unresolved name (getaddrinfo(3), gai_strerror)."""
LAUNCHER: Final = re.compile(
    r"\b(?:srun|sbatch|salloc|slurm\w*|mpirun|mpiexec|orte\w*|prte\w*|pmix?\w*|prolog|epilog"
    r"|munge|ssh|scheduler|queue|allocation|launch\w*|job)\b"
    r"|not on PATH|was not found|may not be executed|cannot start|could not be started"
    r"|no slot of .{0,80} was begun|did not start|the watch (?:ended|was)|pending",
    re.I,
)
"""Launchers, and how `trimtab.reach` and `trimtab.watch` report a run that never began."""
_LAUNCHER_CODES: Final = frozenset({
    "controller-silent", "never-started", "program-not-executable", "program-not-found",
    "program-not-started", "slurm-unusable", "step-not-started", "tool-not-found",
})  # fmt: skip
FILE_SYSTEM: Final = re.compile(
    r"did not answer|does not answer in|read-only|no space left|no permission to write"
    r"|input/output error|stale file handle|transport endpoint|free space",
    re.I,
)
"""A file system that prevents a probe from starting: not the launcher's fault."""
_NOT_MEASURED: Final = (RunStatus.NOT_STARTED, RunStatus.FAILED)
_ALL_SILENT: Final = 1.2
_ONE_RUN: Final = 4
"""Discount for a single run without figures: that happens now and then."""
_MEASURED: Final = -1.5
_WORDS_NAMES: Final = 1.8
_WORDS_LAUNCHER: Final = 1.4
_NOT_BEGUN: Final = 0.9
_EVENT: Final = 1.2
_NEAR: Final = timedelta(hours=2)
_SLOW: Final = 0.5
"""Share of the loss from which a measured run counts as slow."""


def assess(context: Context) -> tuple[Evidence, ...]:
    """Return the evidence for and against runs that never started."""
    bad, good = runs_of_probe(context)
    return (
        _silent(bad, good),
        _words(bad, good),
        _measured(context, bad, good),
        _logged(context),
        _others_served(context),
    )


def _silent(bad: Sequence[RunFact], good: Sequence[RunFact]) -> Evidence:
    sign = Sign("runs-not-started", Route.TIME, "runs failed or did not start", unit="1")
    if not bad:
        return sign.not_available(NO_BAD_RUNS)
    none, before = ([run for run in runs if _is_silent(run)] for runs in (bad, good))
    share, reference = len(none) / len(bad), len(before) / len(good) if good else None
    text = f"{len(none)} of {len(bad)} {sign.subject} in the bad hours"
    text += "" if reference is None else f", {len(before)} of {len(good)} in the good ones"
    sure = len(bad) / (len(bad) + (1 if len(none) > 1 else _ONE_RUN))
    more = share - (reference or 0.0)
    weight = _ALL_SILENT * sure * more if more > 0 else (_MEASURED * sure if not none else 0.0)
    first = none[0] if none else None
    return sign.weighed(text, weight, first, value=share, reference=reference)


def _is_silent(run: RunFact) -> bool:
    """Return whether a run measured nothing; one that hung resolving names did not either."""
    if run.values:
        return False
    # A run that failed for its own reason was launched: a node crashed, a disk was full.
    launched = run.status is RunStatus.FAILED and bool(run.problem) and not _speaks(run)
    return (run.status in _NOT_MEASURED and not launched) or _speaks(run)


def _words(bad: Sequence[RunFact], good: Sequence[RunFact]) -> Evidence:
    subject = "launcher or name resolution errors"
    sign = Sign("launch-words", Route.RUNS, subject, unit="1")
    ended = [run for run in bad if run.status not in (RunStatus.OK, RunStatus.INVALID_WORKLOAD)]
    explained = [run for run in ended if run.problem]
    if not bad:
        return sign.not_available(NO_BAD_RUNS)
    if not ended:
        return sign.weighed(
            f"no {subject}: every run finished", -0.8, code="runs-ended-well", unit=None
        )
    if not explained:
        return sign.missing("no-problem-text", "the failed runs give no reason")
    names = [run for run in explained if NAMES.search(run.problem or "")]
    launcher = [run for run in explained if run not in names and _of_launcher(run)]
    some, strength = (names, _WORDS_NAMES) if names else (launcher, _WORDS_LAUNCHER)
    code, kind = (
        ("names-unresolved", "name resolution") if names else ("launcher-failed", "a launcher")
    )
    if not some:
        some = [run for run in explained if _never_began(run)]
        strength, code, kind = _NOT_BEGUN, "run-never-began", "a run that never began"
    if not some:
        common = Counter(run.problem for run in explained).most_common(1)[0][0]
        text = f"no {subject} in {len(explained)} failed runs; most common: {common}"[:240]
        return sign.weighed(
            text, -0.8 * len(explained) / (len(explained) + 1), code="other-words", value=0.0
        )
    # Relative to all bad runs: two failed launches do not explain ten slow runs.
    share = len({run.id for run in (*names, *launcher, *some)}) / len(bad)
    usually = sum(_speaks(run) for run in good) / len(good) if good else 0.0
    text = f"{len(some)} of {len(bad)} runs report {kind}: {some[0].problem}"[:240]
    sure = len(some) / (len(some) + 0.5)
    weight = strength * sure * max(0.0, share - usually)
    return sign.weighed(text, weight, some[0], code=code, value=share, reference=usually)


def _of_launcher(run: RunFact) -> bool:
    """Return whether a run that never measured reports a launcher problem.

    A run that timed out may name its launcher too: it was running, so the file system is
    responsible.
    """
    text = run.problem or ""
    if FILE_SYSTEM.search(text) is not None:
        return False
    return run.status in _NOT_MEASURED and says(text, _LAUNCHER_CODES, LAUNCHER)


def _never_began(run: RunFact) -> bool:
    """Return whether a run never began, for a reason other than the file system."""
    return run.status is RunStatus.NOT_STARTED and FILE_SYSTEM.search(run.problem or "") is None


def _speaks(run: RunFact) -> bool:
    return _of_launcher(run) or NAMES.search(run.problem or "") is not None


def _measured(context: Context, bad: Sequence[RunFact], good: Sequence[RunFact]) -> Evidence:
    """Return whether the bad runs that did measure were slow: a launcher slows none of them."""
    sign = Sign("runs-measured", Route.EXPECTED, "speed of the bad runs that did measure")
    if not bad:
        return sign.not_available(NO_BAD_RUNS)
    hung = [run for run in bad if run.status is RunStatus.UNFINISHED and not _speaks(run)]
    if hung:
        # They were started, then waited for the file system.
        text = f"{len(hung)} of {len(bad)} runs started but did not finish in time"
        return sign.weighed(text, -1.5 * len(hung) / len(bad))
    ended = (RunStatus.OK, RunStatus.PARTIAL)
    values = levels(context, [run for run in bad if run.status in ended])
    usual = levels(context, good)
    if not values:
        silent = all(run.status in _NOT_MEASURED for run in bad)
        text = "no run of the bad hours measured anything"
        return sign.weighed(text, 0.3 if silent else 0.0)
    if not usual:
        return sign.missing("no-good-runs", "no run in good hours to compare with")
    slow = _slow(context, values, median(usual))
    share = slow / len(bad)
    text = f"{slow} of {len(values)} runs that did measure in the bad hours were slow"
    weight = -1.5 * share if slow else 0.3
    return sign.weighed(text, weight, value=share, reference=0.0, unit="1")


def _slow(context: Context, values: Sequence[float], usual: float) -> int:
    """Return how many runs lost half as much as the incident; without a ratio, a tenth."""
    key, effect = context.incident.key, context.incident.effect
    lost = 1 - min(effect, 0.95) if effect is not None and 0 < effect < 1 else 0.2
    sign = 1.0 if key is None or key.more_is_better else -1.0
    return sum(sign * (1 - value / usual) > _SLOW * lost for value in values)


def _logged(context: Context) -> Evidence:
    """Return whether the log book contains failed launches."""
    sign = Sign("launch-failure-logged", Route.LOG)
    failures = context.entries(
        lambda event: event.kind is EventKind.LAUNCH_FAILURE or NAMES.search(event.detail)
    )
    within = [
        event
        for event in failures
        if any(
            event.at <= window.to + _NEAR and event.end >= window.from_ - _NEAR
            for window in context.bad
        )
    ]
    if not within:
        text = "the log book has no failed launch in the bad hours"
        return sign.weighed(text, 0.0, code="launch-failure-not-logged")
    # Where failed launches are frequent, one in the bad hours weighs less.
    usual = len(failures) - len(within)
    first = within[0]
    text = f"the log book has failed launches at {first.at:%d %B %H:%M}: {first.detail[:160]}"
    return sign.weighed(text, _EVENT / (1 + usual), first)


def _others_served(context: Context) -> Evidence:
    seen = observe(context)
    sign = Sign(
        "others-served", Route.TIME, "whether the file system served others meanwhile", unit="B/s"
    )
    rates = seen.rates("client_bytes_written_total", kinds=OSTS)
    if rates.is_empty():
        return sign.not_available(seen.why_not("client_bytes_written_total"))
    contrast = in_time(rates, worse="lower", ratio=2.0, absent=0.0, over="sum")
    if contrast.reason is not None or contrast.value is None:
        return sign.not_available(contrast.reason or Message("no-rate", "no rate is known"))
    # The probe's own traffic is missing, so only a large drop counts, and not for much.
    share = contrast.value / contrast.reference if contrast.reference else 1.0
    text = f"clients wrote {format_percent(share, 0)} of what they usually write meanwhile"
    return sign.counted(text, 0.0, contrast, source="client_bytes_written_total")


CAUSE: Final = Cause(
    id="launch-failure",
    title="name resolution or launch failure: nothing was measured",
    prior=0.08,  # 1 of the 13 bad days
    assess=assess,
    signs=(
        "runs-not-started",
        "launch-words",
        "names-unresolved",
        "launcher-failed",
        "run-never-began",
        "launch-failure-logged",
    ),
    measurement=(
        "On a client node resolve the servers' names (getent hosts) and start an empty job as the "
        "probe is started; then run the probe once by hand."
    ),
)
