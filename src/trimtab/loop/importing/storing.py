"""Results as runs: under which site and probe, at what time, with which parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Final
from zoneinfo import ZoneInfo

from trimtab.config.version import __version__
from trimtab.launch.process import utc_now
from trimtab.measure.measurement import Measurement
from trimtab.message import Message, code_of
from trimtab.model.identifier import new_identifier
from trimtab.model.run import Layer, Run, RunStatus
from trimtab.record.comparability import ASKED
from trimtab.record.history import JUDGED
from trimtab.record.kept import ImportedRun, KeptOutput
from trimtab.record.raw import EMPTY_SHA256

IMPORTED = "imported"
"""The site and the probe of what nobody has named."""

_ZONE_MAXIMUM: Final = timedelta(hours=14)
"""No zone is further from UTC (Pacific/Kiritimati)."""
_QUARTER: Final = timedelta(minutes=15)
_REPETITIONS_APART: Final = ("repetitions-not-printed", "companion-missing")
"""Codes of what is missing where a result has only means, and what would have it."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a person says of files, since they do not.

    Attributes
    ----------
    at
        When it was measured, where a file does not tell.
    timezone
        An IANA name, for times that are printed without a zone; ``None``: not known.
    layer
        Where in the stack it was measured, where the content does not show it or shows another.
    """

    site: str = IMPORTED
    probe: str = IMPORTED
    at: datetime | None = None
    timezone: str | None = None
    layer: Layer | None = None


@dataclass(frozen=True, slots=True)
class Moment:
    """When something was, or why that is not known."""

    at: datetime | None
    reason: Message | None = None


def moment_of(printed: datetime | None, terms: Terms) -> Moment:
    """Return the time of a result: as printed, in the zone that is known, else as a person says.

    Examples
    --------
    >>> moment_of(datetime(2024, 3, 1, 12, 0), Terms(timezone="America/Los_Angeles")).at
    datetime.datetime(2024, 3, 1, 20, 0, tzinfo=datetime.timezone.utc)
    >>> moment_of(datetime(2024, 3, 1, 12, 0), Terms()).reason
    'the output prints 2024-03-01 12:00:00 without a time zone; --timezone says which'
    """
    if printed is None:
        if terms.at is not None:
            return Moment(terms.at)
        text = "the output prints no time; --at says when it was"
        return Moment(None, Message("time-not-printed", text))
    if printed.tzinfo is not None:
        return Moment(printed.astimezone(UTC))
    if terms.timezone is not None:
        local = printed.replace(tzinfo=ZoneInfo(terms.timezone))
        at = local.astimezone(UTC)
        if at.astimezone(local.tzinfo).replace(tzinfo=None) != printed:
            text = f"{printed} did not exist in {terms.timezone}: clocks went forward"
            return Moment(None, Message("time-skipped", text))
        return Moment(at)
    if terms.at is None:
        text = f"the output prints {printed} without a time zone; --timezone says which"
        return Moment(None, Message("time-without-zone", text))
    zone = _zone_of(printed, terms.at)
    if zone is None:
        return Moment(
            None,
            Message(
                "time-contradicted",
                f"the output prints {printed} (in a zone that is not said), which is not "
                f"{terms.at:%Y-%m-%d %H:%M} UTC of --at",
            ),
        )
    return Moment(printed.replace(tzinfo=zone).astimezone(UTC))


def _zone_of(printed: datetime, at: datetime) -> timezone | None:
    """Return the zone in which a printed time is about that time: zones are quarters of hours."""
    quarters = round((printed.replace(tzinfo=UTC) - at) / _QUARTER)
    return timezone(quarters * _QUARTER) if abs(quarters * _QUARTER) <= _ZONE_MAXIMUM else None


def probe_of(measurement: Measurement, terms: Terms) -> str:
    """Return of which probe a result is a run."""
    return terms.probe if measurement.name is None else f"{terms.probe}: {measurement.name}"


def run_of(measurement: Measurement, terms: Terms, *, file: str, ordinal: int) -> Run:
    """Return the run of one result of a file, without outputs.

    Parameters
    ----------
    ordinal
        Of the result in its file.
    """
    began = moment_of(measurement.began, terms)
    until = _until(measurement, began, terms)
    if began.at is not None and until is not None and until < began.at:
        until = None
    recorded: Mapping[str, object] = {"result": ordinal, **measurement.reported}
    return Run(
        id=new_identifier(began.at or utc_now()),
        site=terms.site,
        probe=probe_of(measurement, terms),
        kind=measurement.kind,
        status=measurement.status,
        at=began.at,
        until=until,
        at_reason=began.reason,
        tool_version=measurement.tool_version,
        path=file,
        host=measurement.host,
        trimtab_version=__version__,
        parameters={
            ASKED: dict(measurement.requested),
            "layer": terms.layer or measurement.layer,
            "told": dict(recorded),
            "warnings": list(measurement.warnings),
        },
        problem=measurement.problem,
        samples=measurement.samples,
    )


def _until(measurement: Measurement, began: Moment, terms: Terms) -> datetime | None:
    """Return when it ended, in the zone in which it began."""
    ended = measurement.ended
    if ended is None or began.at is None:
        return None
    printed = measurement.began
    if ended.tzinfo is None and printed is not None and printed.tzinfo is None:
        return began.at + (ended - printed)
    return moment_of(ended, terms).at


def why_not_judged(measurement: Measurement, run: Run) -> Message | None:
    """Return why no series has a result; ``None`` for one that has, and for what explains others.

    As `trimtab.record.history` takes them: figures of repetitions or of the whole, and a time.
    """
    if run.status not in JUDGED:
        return Message("result-failed", measurement.problem or str(run.status))
    if not measurement.samples:
        return None  # what jobs or a server's processor did
    totals = [sample for sample in measurement.samples if sample.statistic == "total"]
    is_counted = run.status is RunStatus.UNFINISHED or any(sample.believed for sample in totals)
    if totals and not is_counted:
        return Message("not-believed", totals[0].reason or "its figures are not believed")
    if not is_counted:
        reasons = (
            gap.reason for gap in measurement.missing if code_of(gap.reason) in _REPETITIONS_APART
        )
        text = next(reasons, "it has no figure of single repetitions")
        return Message("only-summaries", text)
    if run.at is None:
        return Message(code_of(run.at_reason) or "time-not-known", run.at_reason or "")
    return None


def imported_run(run: Run, outputs: tuple[tuple[str, int, str], ...], key: str) -> ImportedRun:
    """Return a run with its outputs as the store keeps them.

    Parameters
    ----------
    outputs
        Label, size in bytes and sha256 of each, whose content is kept already.
    """
    usable = tuple(
        KeptOutput(
            ordinal=ordinal,
            label=label,
            argv=(),
            stdout_sha256=sha256,
            stdout_bytes=size,
            stderr_sha256=EMPTY_SHA256,
            stderr_bytes=0,
            exit_code=None,
            started_at=None,
            elapsed_s=None,
            truncated=False,
        )
        for ordinal, (label, size, sha256) in enumerate(outputs)
    )
    return ImportedRun(run, usable, key)
