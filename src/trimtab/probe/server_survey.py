"""Surveys OSTs on their servers with obdfilter-survey, wave by wave, each recorded in the journal.

This is heavy load, and it writes below the files.

::

    for each wave:
        look again ─ refused ─> left out
            │
            ├ no echo client there yet, free space noted, a directory for the results
            ├ journal: it begins
            ├ obdfilter-survey ──── deadline, signal ──> stopped on the server
            ├ its files are read: they decide, not its exit code
            ├ objects and echo clients that it left are removed, free space is compared
            └ journal: what came of it

If Trimtab is killed, only the journal knows where the results are, and they have the numbers of the
survey's objects and of its process group.
"""

from __future__ import annotations

import platform
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from trimtab.base.code_version import __version__
from trimtab.base.error import DataError, Interrupted, Message, ToolError, TrimtabError
from trimtab.base.event import Event, EventKind, new_identifier
from trimtab.base.interruption import lifted, shielded
from trimtab.base.run import RawOutput, Run, Sample
from trimtab.base.site import Site
from trimtab.base.snapshot import Snapshot
from trimtab.base.units import format_bytes, plural
from trimtab.formats.measurement import Measurement
from trimtab.formats.obdfilter_output import read_detail, read_summary
from trimtab.formats.obdfilter_survey import KIND, SurveySpec, command, results
from trimtab.probe.echo_device import (
    Leftover,
    Pause,
    RunEach,
    answer_of,
    clean,
    complaint,
    echo_devices,
    free_bytes,
    missing_space,
    read_back,
    stop,
)
from trimtab.probe.probe import Progress
from trimtab.probe.survey_plan import (
    Candidate,
    Surveyed,
    SurveyLimits,
    SurveyOutcome,
    SurveyPlan,
    TargetResult,
    candidate,
    meet,
    status_of,
)

if TYPE_CHECKING:
    from trimtab.reach.driver_protocol import Driver


PROBE_NAME: Final = "survey-server"
SOURCE: Final = "survey"
_DIRECTORY: Final = re.compile(r"/tmp/trimtab-survey-[A-Za-z0-9]{10}")


def is_directory(text: str) -> bool:
    """Return whether a text is the directory of a survey and nothing else."""
    return _DIRECTORY.fullmatch(text) is not None


def begins(server: str, directory: str) -> str:
    """Return the note to record before a survey begins on a server."""
    return f"{_begins(server)} results in {directory}"


def ended(server: str, outcome: str, problems: str) -> str:
    """Return the note to record after it; leftovers name its directory."""
    return f"{_ended(server)} {outcome}; {problems or 'nothing left'}"


def results_left(events: Iterable[Event], server: str) -> str | None:
    """Return, as text, where the last survey of a server left its results, if it did.

    Parameters
    ----------
    events
        Events of the site, the oldest first.

    Returns
    -------
    str or None
        ``None`` if the last one removed them, or none is known.
    """
    last: Event | None = None
    for event in events:
        ours = event.source == SOURCE and event.detail.startswith((_begins(server), _ended(server)))
        last = event if ours else last
    match = None if last is None else _DIRECTORY.search(last.detail)
    if last is None or match is None:
        return None
    place, at = match[0], f"{last.at:%Y-%m-%d %H:%M} UTC"
    names = " and ".join(last.targets)
    return (
        f"the one of {at} on {names} left {server}:{place}, where survey.group is the number of its"
        " process group and survey.detail names its objects"
    )


def _begins(server: str) -> str:
    return f"{PROBE_NAME} begins on {server},"


def _ended(server: str) -> str:
    return f"{PROBE_NAME} ended on {server}:"


_WRITES: Final = frozenset({"write_bandwidth", "rewrite_bandwidth"})
_READS: Final = frozenset({"read_bandwidth"})


def cost_of(
    spec: SurveySpec, samples: Iterable[Sample], *, begun: bool
) -> Mapping[str, int | None]:
    """Return the bytes that a survey moved: for each target, the whole size in every ended test.

    A test that was cut short moved an unknown amount. So the result is a lower bound if a survey
    did not end, and ``None`` if one had ``begun`` and no test ended.
    """
    ended = [
        sample.metric
        for sample in samples
        if sample.target is not None and sample.statistic == "total" and sample.value is not None
    ]
    unknown = None if begun else 0

    def moved(metrics: frozenset[str]) -> int | None:
        return sum(metric in metrics for metric in ended) * spec.size_bytes or unknown

    return {"bytes_written": moved(_WRITES), "bytes_read": moved(_READS)}


LOOK_S: Final = 5.0
"""Time between the two readings of the counters that give a target's load."""
_MAKE_DIRECTORY: Final = ("mktemp", "-d", "/tmp/trimtab-survey-XXXXXXXXXX")
_GRACE_S: Final = 90.0
"""Time beyond the deadline on the server, for ssh and for the survey to clean up."""

Journal = Callable[[Event], None]
"""`Store.add_event`: records what is about to be done, and what was done."""
Recall = Callable[[], Iterable[Event]]
"""Returns the journal's events of the site, the oldest first."""


@dataclass(frozen=True, slots=True)
class OnServers:
    """Surroundings of a survey on the servers.

    Attributes
    ----------
    file_system
        Lustre's name of the file system.
    deadline_s
        Deadline for one wave, on the server itself.
    together
        Whether targets of one server may be surveyed at the same time.
    pause
        Waits; `time.sleep`.
    """

    site: Site
    file_system: str
    driver: Driver
    run: RunEach
    journal: Journal
    recall: Recall
    limits: SurveyLimits
    deadline_s: float
    together: bool = False
    look_s: float = LOOK_S
    pause: Pause = time.sleep


def steps_of(spec: SurveySpec, limits: SurveyLimits) -> tuple[str, ...]:
    """Return the steps on the targets of a wave, as text."""
    load = limits.load_bytes_per_s
    busy = "" if load is None else f", and no busier than {load / 1e6:g} MB/s"
    return (
        f"check again that the target is healthy, with room{busy}; else leave it out",
        f"run obdfilter-survey on its server as root: {', '.join(spec.tests)} of"
        f" {format_bytes(spec.size_bytes)} with {spec.threads} threads on"
        f" {plural(spec.objects, 'object')} that no file owns",
        "during that time the target serves its clients slowly",
        "afterwards check that the objects, the echo client and the used space are gone,"
        " and remove what an aborted survey left",
    )


def look_twice(driver: Driver, look_s: float, pause: Pause) -> tuple[Snapshot, Snapshot]:
    """Return two snapshots with a time between them, for the load."""
    before = driver.snapshot(driver.clock())
    pause(look_s)
    return before, driver.snapshot(driver.clock())


@dataclass(slots=True)
class _Wave:
    """The targets of one server in one wave, while they are surveyed."""

    server: str
    targets: tuple[Candidate, ...]
    names: tuple[str, ...]
    directory: str = ""
    free_before: Mapping[str, int] = field(default_factory=dict)
    problem: str | None = None
    running: str | None = None
    """Why it may still run although it should have ended."""


@dataclass(slots=True)
class ServerSurvey:
    """A survey by the servers."""

    plan: SurveyPlan
    spec: SurveySpec
    on: OnServers
    samples: list[Sample] = field(default_factory=list)
    outputs: list[RawOutput] = field(default_factory=list)
    found: dict[str, TargetResult] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    running: list[Candidate] = field(default_factory=list)
    """Targets whose survey could not be stopped: others of the same server must wait."""
    interrupted: Interrupted | None = None

    def carry_out(self, progress: Progress) -> Surveyed:
        """Return the result of every target of the plan; a failure is a result too."""
        clock = self.on.driver.clock
        started_at = clock()
        count = len(self.plan.waves)
        for place, wave in enumerate(self.plan.waves):
            names = ", ".join(planned.target for planned in wave)
            progress(f"{names} (wave {place + 1} of {count})", place / count)
            try:
                self._wave(wave)
            except Interrupted as stopped:
                self.interrupted = stopped
            except TrimtabError as error:
                self._fail(wave, error.message)
            if self.interrupted is not None:
                break
        for target in self.plan.targets:
            reason = "the survey was stopped before its turn"
            self.found.setdefault(target.target, target.result(SurveyOutcome.SKIPPED, reason))
        for planned in self.plan.refused:
            self.found[planned.target] = planned.refused
        run = self._run(started_at, clock())
        return Surveyed(run, tuple(self.found.values()), tuple(self.notes), self.interrupted)

    def _wave(self, wave: tuple[Candidate, ...]) -> None:
        on = self.on
        before, now = look_twice(on.driver, on.look_s, on.pause)
        again = [
            candidate(current.target, before, now, on.limits, on_server=True) for current in wave
        ]
        for current, planned in zip(again, wave, strict=True):
            if current.refusal is not None:
                self.found[current.target] = current.refused
            elif current.server != planned.server:
                text = f"it has moved from {planned.server} to {current.server} since the plan"
                moved = Message("target-moved", text)
                self.found[current.target] = replace(current, refusal=moved).refused
            elif (
                other := next((it for it in self.running if meet(current, it)), None)
            ) is not None:
                text = f"the survey of {other.target} on {other.server} could not be stopped"
                why = Message("survey-not-ended", text)
                self.found[current.target] = replace(current, refusal=why).refused
        allowed = [current for current in again if current.target not in self.found]
        groups = []
        for server in dict.fromkeys(current.server or "" for current in allowed):
            targets = tuple(current for current in allowed if current.server == server)
            names = tuple(f"{on.file_system}-{target.target}" for target in targets)
            groups.append(_Wave(server, targets, names))
        with shielded():
            prepared = [group for group in groups if self._prepare(group)]
            try:
                if prepared:
                    self._measure(prepared)
            finally:
                for group in prepared:
                    self._finish(group)

    def _prepare(self, group: _Wave) -> bool:
        """Record the state before the survey; return whether it may begin."""
        run, server = self.on.run, group.server
        try:
            why = self._occupied(group)
            if why is not None:
                for target in group.targets:
                    self.found[target.target] = replace(target, refusal=why).refused
                return False
            group.free_before = free_bytes(run, server, group.names)
            directory = answer_of(run, server, _MAKE_DIRECTORY).strip()
            if not is_directory(directory):
                raise ToolError(
                    f"{server}: mktemp made no directory: {directory[:80]!r}", code="mktemp-failed"
                )
            group.directory = directory
            self._note(group, begins(server, directory))
        except TrimtabError as error:
            self._fail(group.targets, error.message)
            return False
        return True

    def _occupied(self, group: _Wave) -> Message | None:
        """Return why no survey may begin on a server: another one has its echo client there."""
        theirs = echo_devices(self.on.run, group.server)
        if self.on.together:  # others of this server are part of the request
            theirs &= {f"{name}_ecc" for name in group.names}
        if not theirs:
            return None
        why = f"{', '.join(sorted(theirs))} exists: another survey is running, or left it"
        known = results_left(self.on.recall(), group.server)
        return Message("echo-client-present", why if known is None else f"{why}; {known}")

    def _measure(self, groups: list[_Wave]) -> None:
        """Run the surveys of a wave, and ensure that all have ended when this returns."""
        on = self.on
        commands = {
            group.server: command(
                self.spec, group.names, directory=group.directory, deadline_s=on.deadline_s
            )
            for group in groups
        }
        try:
            with lifted():
                ended = on.run(commands, on.deadline_s + _GRACE_S)
        except BaseException as error:
            for group in groups:
                group.problem = str(getattr(error, "message", error))
                self._stop(group)
            raise
        for group in groups:
            result = ended[group.server]
            self.outputs.append(result.raw_output(f"{_of(group)} {KIND}"))
            if result.problem is not None:
                group.problem = complaint(result)
                self._stop(group)

    def _stop(self, group: _Wave) -> None:
        try:
            stop(self.on.run, group.server, group.directory, self.on.pause)
        except TrimtabError as error:
            group.problem = f"{group.problem}; {error.message}"
            group.running = error.message
            self.running += group.targets

    def _finish(self, group: _Wave) -> None:
        """Read the files of a survey, remove its leftovers, and record its result."""
        texts: dict[str, str] = {}
        unread: str | None = None
        for end in ("summary", "detail"):
            try:
                name = f"survey.{end}"
                texts[end] = read_back(self.on.run, group.server, group.directory, name)
            except TrimtabError as error:
                texts[end] = ""
                unread = unread or error.message
        group.problem = group.problem or unread
        done, stays = self._clean(group, texts["detail"])
        reason = unread if group.running is None else None
        if stays or reason is not None:
            where = f"its results stay in {group.server}:{group.directory}"
            reason_text = where if reason is None else f"{reason}; {where}"
            stays += tuple(Leftover(name, reason_text) for name in group.names)
        self._read(group, texts["summary"], texts["detail"], stays)
        notes = [*done, *(f"{result.target}: {result.reason}" for result in stays)]
        self.notes += notes
        outcome = ", ".join(
            f"{target.target} {self.found[target.target].outcome.value}" for target in group.targets
        )
        try:
            if not stays:
                answer_of(self.on.run, group.server, ("rm", "-r", "--", group.directory))
            self._note(group, ended(group.server, outcome, "; ".join(notes)))
        except TrimtabError as error:
            self.notes.append(error.message)

    def _clean(self, group: _Wave, detail: str) -> tuple[tuple[str, ...], tuple[Leftover, ...]]:
        """Remove the leftovers of a survey, unless it may still be running."""
        on, server = self.on, group.server
        if group.running is not None:
            why = f"nothing was removed, the survey may still run: {group.running}"
            return (), tuple(Leftover(name, why) for name in group.names)
        done, stays = clean(on.run, server, group.names, detail)
        size = self.spec.size_bytes
        return done, (*stays, *missing_space(on.run, server, group.free_before, size, on.pause))

    def _read(self, group: _Wave, summary: str, detail: str, stays: tuple[Leftover, ...]) -> None:
        first = len(self.outputs)
        for end, text in (("summary", summary), ("detail", detail)):
            content = text.encode("utf-8", "surrogateescape")
            self.outputs.append(RawOutput(f"{_of(group)} {end}", (), content))
        try:
            (measured,) = results(read_summary(summary), read_detail(detail))
        except (DataError, ValueError) as error:
            problem = error.reason if isinstance(error, DataError) else "not one combination"
            self._fail(group.targets, f"{group.problem}; {problem}" if group.problem else problem)
            return
        names = {remaining.target for remaining in group.targets}
        samples = [sample for sample in measured.samples if sample.target in names]
        self.samples += [replace(sample, output=first + (sample.output or 0)) for sample in samples]
        for target in group.targets:
            mine = [sample for sample in samples if sample.target == target.target]
            left = [
                each.reason for each in stays if each.target.rpartition("-")[2] == target.target
            ]
            self.found[target.target] = _result(target, mine, measured, group.problem, left)

    def _fail(self, targets: tuple[Candidate, ...], reason: str) -> None:
        for target in targets:
            self.found.setdefault(target.target, target.result(SurveyOutcome.FAILED, reason))

    def _note(self, group: _Wave, detail: str) -> None:
        at = self.on.driver.clock()
        self.on.journal(
            Event(
                id=new_identifier(at),
                site=self.on.site.name,
                kind=EventKind.NOTE,
                at=at,
                detail=detail,
                source=SOURCE,
                targets=tuple(target.target for target in group.targets),
            )
        )

    def _run(self, started_at: datetime, ended_at: datetime) -> Run:
        status, problem = status_of(tuple(self.found.values()))
        spec = self.spec
        return Run(
            id=new_identifier(started_at),
            site=self.on.site.name,
            probe=PROBE_NAME,
            kind=KIND,
            status=status,
            at=started_at,
            until=ended_at,
            path=self.on.site.path,
            host=platform.node(),
            trimtab_version=__version__,
            parameters={
                "spec": spec.compared_settings(together=self.on.together),
                "layer": "ost",
                "targets": list(self.found),
                "waves": [[planned.target for planned in wave] for wave in self.plan.waves],
                "cost": cost_of(spec, self.samples, begun=bool(self.outputs)),
            },
            problem=problem,
            samples=tuple(self.samples),
            outputs=tuple(self.outputs),
        )


def _of(group: _Wave) -> str:
    return f"{' '.join(target.target for target in group.targets)} on {group.server}"


def _result(
    target: Candidate,
    samples: list[Sample],
    measured: Measurement,
    problem: str | None,
    left: list[str],
) -> TargetResult:
    """Return the outcome that a target's figures prove; the exit code proves nothing."""
    reasons = [
        reason
        for reason in (
            problem,
            measured.problem,
            *(sample.reason for sample in samples),
            *left,
        )
        if reason is not None
    ]
    believed = any(sample.believed for sample in samples)
    if not samples:
        reasons.append("it is not in the .detail")
    reason = "; ".join(dict.fromkeys(reasons)) or None
    return target.result(SurveyOutcome.MEASURED if believed else SurveyOutcome.FAILED, reason)
