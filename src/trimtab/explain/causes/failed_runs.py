"""What failed runs report as evidence, and `quota-reached`, which nothing else shows.

The error of a run is the file system's own word for what is wrong: ``ENOSPC`` for a full target,
``EDQUOT`` for a used-up quota, ``ENOTCONN`` for a lost connection (`trimtab.base.failure`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from trimtab.base.failure import FILE_SYSTEM_ERRORS, Failure
from trimtab.base.incident import Against, Evidence, Route
from trimtab.base.run import RunStatus
from trimtab.explain.causes.evidence import UNSEEN, runs_of_probe
from trimtab.explain.context import Cause, Context, RunFact, always_at
from trimtab.explain.contrast import NO_BAD_RUNS, Sign
from trimtab.explain.sight import View

NO_CONNECTION: Final = frozenset({Failure.NOT_CONNECTED, Failure.STALE})
NOT_BEGUN: Final = frozenset({Failure.LAUNCHER, Failure.NAMES})
"""The run ended before it reached the file system."""
_CANNOT_STOP: Final = -2.0
"""Weight if all bad runs ended like that."""
NO_DEVICE: Final = frozenset({Failure.IO_ERROR, Failure.READ_ONLY})


def failed_with(
    context: Context, failures: Iterable[Failure], noun: str, *, code: str, most: float
) -> Evidence:
    """Return whether runs of the bad hours failed for such a reason and those of good ones did not.

    Parameters
    ----------
    failures
        Classes of errors that the cause makes.
    noun
        What the runs report: "no space left".
    most
        Weight if every failed run reports it.

    Notes
    -----
    Runs of every probe count: the one that fails need not be the one that is slow. Other failures
    beside them, and the same ones in good hours, take from the weight. It never contradicts: most
    troubles slow runs and fail none.
    """
    sign = Sign(code, Route.RUNS, f"runs that report {noun}", unit="1", view=View.PROBE)
    bad = [run for run in context.runs if context.is_bad(run.at)]
    good = [run for run in context.runs if context.is_good(run.at)]
    if not bad:
        return sign.not_available(NO_BAD_RUNS)
    wanted = frozenset(failures)
    reporting, before = ([run for run in runs if _fails(run, wanted)] for runs in (bad, good))
    failed = [run for run in bad if run.failure is not None and run.status is not RunStatus.OK]
    if not reporting:
        return sign.weighed(f"no {sign.subject}", 0.0, value=0.0)
    share = len(reporting) / len(failed)
    usual = len(before) / len(good) if good else 0.0
    text = f"{len(reporting)} of {len(failed)} failed runs report {noun}: {reporting[0].problem}"
    sure = len(reporting) / (len(reporting) + 0.5)
    weight = most * sure * max(0.0, share - usual)
    return sign.weighed(text[:240], weight, reporting[0], value=share, reference=usual)


def kept_from_starting(context: Context) -> Evidence:
    """Return whether the bad runs never reached the file system, so load did not stop them.

    The batch system did not start them, or the names of the servers were not resolved.
    """
    subject = "bad runs that reached the file system"
    sign = Sign("runs-reached-it", Route.EXPECTED, subject, unit="1", view=View.PROBE)
    bad, _ = runs_of_probe(context)
    if not bad:
        return sign.not_available(NO_BAD_RUNS)
    stopped = [run for run in bad if never_began(run) or _fails(run, NOT_BEGUN)]
    share = len(stopped) / len(bad)
    if share <= 0.5:
        return sign.weighed(f"{len(bad) - len(stopped)} of {len(bad)} bad runs began", 0.0)
    text = f"{len(stopped)} of {len(bad)} bad runs never reached the file system"
    return sign.weighed(
        text, _CANNOT_STOP * share, stopped[0], code="runs-never-began", value=share,
        against=Against.CONDITION,
    )  # fmt: skip


def never_began(run: RunFact) -> bool:
    """Return whether a run never began, for a reason other than the file system."""
    return (
        run.status is RunStatus.NOT_STARTED and FILE_SYSTEM_ERRORS.search(run.problem or "") is None
    )


def _fails(run: RunFact, failures: frozenset[Failure]) -> bool:
    return run.failure in failures and run.status is not RunStatus.OK


_QUOTA: Final = frozenset({Failure.QUOTA})
_WORDS: Final = 1.8
_LOST: Final = 1.0
"""Weight if it explains every bad run: a probe is expected to stay within its quota."""
_NEVER: Final = -1.5
"""Nothing else makes a quota felt: writes fail with it or are as fast as ever."""


def assess_quota_reached(context: Context) -> tuple[Evidence, ...]:
    """Return the evidence for and against a quota that the probe has used up.

    Only the probe's own user, group or project is concerned; the file system may be sound.
    """
    words = failed_with(context, _QUOTA, "that a quota is used up", code="runs-over-quota",
                        most=_WORDS)  # fmt: skip
    return (words, _lost_to_quota(context))


def _lost_to_quota(context: Context) -> Evidence:
    sign = Sign(
        "runs-lost-to-quota", Route.EXPECTED, "runs lost to a quota", unit="1", view=View.PROBE
    )
    bad = [run for run in context.runs if context.is_bad(run.at)]
    if not bad:
        return sign.not_available(NO_BAD_RUNS)
    lost = [run for run in bad if _fails(run, _QUOTA)]
    unknown = [run for run in bad if run.status is RunStatus.FAILED and run.failure is None]
    text = f"{len(lost)} of {len(bad)} {sign.subject}"
    share = len(lost) / len(bad)
    weight = _LOST * share if lost or unknown else _NEVER * len(bad) / (len(bad) + 1)
    first = lost[0] if lost else None
    return sign.weighed(text, weight, first, value=share, reference=0.0, against=Against.CONDITION)


QUOTA_REACHED: Final = Cause(
    id="quota-reached",
    title="the quota of the probe's user, group or project used up",
    prior=UNSEEN,  # none of the 13 days: equal to the other unnamed causes
    assess=assess_quota_reached,
    acts_on=always_at("client"),
    signs=("runs-over-quota",),
    measurement=(
        "Compare use and limits of the probe's user, group and project (lfs quota), remove files "
        "that earlier runs left, and run the probe once by hand."
    ),
)
