"""The probes of a scenario: their benchmark commands, and their results as runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np

from trimtab import __version__
from trimtab.config.targets import ost_name
from trimtab.measure import ior
from trimtab.measure.obdfilter_survey.commands import SurveySpec
from trimtab.measure.obdfilter_survey.commands import command as survey_argv
from trimtab.measure.obdfilter_survey.detail import read_detail
from trimtab.measure.obdfilter_survey.reading import results
from trimtab.measure.obdfilter_survey.summary import read_summary
from trimtab.measure.source import Source
from trimtab.model.identifier import identifier_of
from trimtab.model.run import Access, RawOutput, Run, RunStatus
from trimtab.record.comparability import ASKED
from trimtab.twin.instruments.command import LoadCommand
from trimtab.twin.instruments.failures import Failure
from trimtab.twin.instruments.ior import IorPhase, IorResult, Space
from trimtab.twin.instruments.ior import parse_command as parse_ior_command
from trimtab.twin.instruments.ior_output import print_ior
from trimtab.twin.instruments.obdfilter_survey import SurveyCommand, SurveyResult, print_survey
from trimtab.twin.scenario.model import ProbeLoad, Scenario
from trimtab.twin.simulation.traffic import SURVEY_BYTES

_DIRECTORY: Final = "{directory}"
_OPEN_S: Final = 0.3
"""Assumed: maximum time for creating or opening all files, part of the total time."""
FIRST_NODE: Final = 1000
SURVEY: Final = SurveySpec(size_bytes=SURVEY_BYTES, tests=("write", "read"))
"""What a survey of the simulation writes and reads on each OST."""
LAUNCHER: Final = "slurm"
"""The launcher of a simulated site's probes."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place where a site's probes run.

    Attributes
    ----------
    file_system
        Lustre's name of it, the prefix of target names.
    """

    site: str
    file_system: str
    path: str
    timezone: str = "UTC"


def place_of(scenario: Scenario, path: str | None = None) -> Place:
    """Return the place of a scenario's probes; ``path`` is its mount, by default its name."""
    word = "".join(letter for letter in scenario.name if letter.isalnum())[:8] or "scratch"
    return Place(scenario.name, word, path or f"/{scenario.name}", scenario.timezone)


@lru_cache(maxsize=64)
def node_names(count: int) -> tuple[str, ...]:
    """Return the batch system's names of compute nodes."""
    return tuple(f"nid{FIRST_NODE + number:06d}" for number in range(count))


def command_of(probe: ProbeLoad) -> tuple[str, ...]:
    """Return the command of an ``ior`` probe: file per task, written and read back.

    Files are whole transfers, so they add up to the probe's bytes or slightly less.
    """
    transfer = probe.transfer_size_bytes
    block = max(1, int(probe.bytes_per_task) // transfer) * transfer
    return (
        *("ior", "-a", "POSIX", "-w", "-r", "-C", "-F", "-e", "-t", str(transfer)),
        *("-b", str(block), "-s", "1", "-o", f"{_DIRECTORY}/data"),
    )


@lru_cache(maxsize=64)
def ior_command(probe: ProbeLoad, path: str) -> LoadCommand:
    """Return the command of a probe; ``path`` is that of the file system."""
    directory = f"{path.rstrip('/')}/.trimtab-probe"
    words = tuple(word.replace(_DIRECTORY, directory) for word in command_of(probe))
    return parse_ior_command(words, tasks=probe.tasks, nodes=probe.nodes)


def opening_s(took_s: float) -> float:
    """Return the time of a phase for opening its files, which equals that for closing."""
    return min(_OPEN_S, 0.01 * took_s)


def ior_phase(
    command: LoadCommand, access: Access, moved_bytes: int, elapsed_s: float, opening: float
) -> IorPhase:
    """Return a phase with ``opening`` seconds each for opening and closing its files."""
    transfers = max(1.0, moved_bytes / command.tasks / command.transfer_size_bytes)
    return IorPhase(
        access,
        moved_bytes,
        elapsed_s,
        transfer_s=elapsed_s - opening,
        open_s=opening,
        close_s=opening,
        latency_s=(elapsed_s - opening) / transfers,
    )


def ior_result(
    command: LoadCommand,
    began: datetime,
    *,
    write_s: float,
    read_s: float,
    timeout_s: float,
    space: Space | None = None,
) -> IorResult:
    """Return IOR's result for a write and a read, cut off at the timeout.

    Parameters
    ----------
    began
        In the zone of the machine.
    write_s, read_s
        Time of the slowest task; infinite if it hangs.
    """
    phases: list[IorPhase] = []
    ended_s: float | None = 0.0
    both: tuple[tuple[Access, float], ...] = (("write", write_s), ("read", read_s))
    for access, took_s in both:
        if ended_s is None or access not in command.accesses:
            continue
        if not took_s + ended_s <= timeout_s:
            ended_s = None
            continue
        ended_s += took_s
        phases.append(
            ior_phase(command, access, command.aggregate_bytes, took_s, opening_s(took_s))
        )
    finished = None if ended_s is None else began + timedelta(seconds=ended_s)
    return IorResult(began, finished, tuple(phases), node_names(1)[0], space or Space())


def ior_run(place: Place, probe: ProbeLoad, at: datetime, result: IorResult | Failure) -> Run:
    """Return the run of an IOR, by parsing its output with the parser for real ones.

    A run that timed out is unfinished, whatever its output contains.
    """
    command = ior_command(probe, place.path)
    names = node_names(probe.nodes)
    if isinstance(result, Failure):
        output = RawOutput(
            "command", command.argv, result.stdout, result.stderr, result.exit_code, at
        )
        took_s, timed_out = 0.0, False
    else:
        timed_out = result.finished is None
        took_s = sum(phase.elapsed_s for phase in result.phases)
        code = None if timed_out else 0
        output = RawOutput("command", command.argv, print_ior(command, result), b"", code, at)
    took_s = probe.timeout_s if timed_out else took_s
    output, node_hours = replace(output, elapsed_s=took_s), len(names) * took_s / 3600.0
    measured = ior.parse(output, ordinal=0)
    status, problem = measured.status, measured.problem
    if isinstance(result, Failure):
        problem = f"{result.reason}; {problem}" if problem and result.started else result.reason
        status = status if result.started else RunStatus.NOT_STARTED
    if timed_out:
        status = RunStatus.UNFINISHED
        problem = f"it did not end within {probe.timeout_s:g} s"
    has_started = not isinstance(result, Failure) or result.started
    return _run(
        place,
        probe,
        at,
        took_s,
        status=status,
        tool_version=measured.tool_version,
        host=names[0] if names else None,
        parameters={
            ASKED: requested_parameters(probe),
            "layer": "client",
            "phases": [asdict(phase) for phase in measured.phases],
            "warnings": list(measured.warnings),
            "job": {
                "launcher": LAUNCHER,
                "nodes": list(names),
                "node_hours": node_hours,
            },
            "cost": {
                "bytes_written": measured.moved_bytes("write"),
                "bytes_read": measured.moved_bytes("read"),
                "node_hours": node_hours,
            },
        },
        problem=problem,
        samples=measured.samples,
        outputs=(output,) if has_started else (),
    )


def _run(place: Place, probe: ProbeLoad, at: datetime, took_s: float, **values: Any) -> Run:
    return Run(
        id=identifier_of(at, place.site, probe.name),
        site=place.site,
        probe=probe.name,
        kind=probe.kind,
        at=at,
        until=at + timedelta(seconds=took_s),
        path=place.path,
        trimtab_version=__version__,
        **values,
    )


@lru_cache(maxsize=64)
def requested_parameters(probe: ProbeLoad) -> dict[str, object]:
    """Return the parameters that make runs of a probe comparable.

    They equal those that a site stores for a finished run of the probe as one command
    (`trimtab.loop.probing.command`), so that its own runs continue the series.
    """
    command = ior_command(probe, "/x")
    began = datetime(2000, 1, 1)
    whole = ior_result(command, began, write_s=100.0, read_s=100.0, timeout_s=math.inf)
    (measured,) = ior.FORMAT.read(Source("ior", print_ior(command, whole)))
    words = {
        "words": list(command_of(probe)),
        "output": None,
        "tasks": command.tasks,
        "nodes": command.nodes,
        "launcher": LAUNCHER,
    }
    return {**measured.requested, "command": words}


def survey_command(place: Place, servers: Mapping[int, str]) -> SurveyCommand:
    """Return the survey command for OSTs by number, each with its server."""
    targets = tuple(
        f"{server}:{place.file_system}-{ost_name(number)}" for number, server in servers.items()
    )
    return SurveyCommand(SURVEY, targets)


def survey_run(
    place: Place,
    probe: ProbeLoad,
    at: datetime,
    survey: SurveyCommand,
    rates: Mapping[str, np.ndarray],
) -> Run:
    """Return the run of a survey, read from its summary and detail.

    Parameters
    ----------
    rates
        Test to bytes per second of each OST; NaN or 0 if it did not answer.
    """
    zone = ZoneInfo(place.timezone)
    local = at.astimezone(zone)
    result = SurveyResult(local, rates, zone=local.tzname() or "UTC")
    printed, summary, detail = print_survey(survey, result)
    (measured,) = results(
        read_summary(summary.decode()), read_detail(detail.decode()), detail_output=2
    )
    names = [name.rpartition(":")[2] for name in survey.targets]
    argv = survey_argv(survey.spec, names, directory="/tmp/survey", deadline_s=probe.timeout_s)
    samples = tuple(sample for sample in measured.samples if sample.target is not None)
    believed = [sample for sample in samples if sample.believed]
    known = [
        test_rates[np.isfinite(test_rates) & (test_rates > 0)]
        for test_rates in (rates[test] for test in survey.spec.tests)
    ]
    took_s = sum(
        survey.spec.size_bytes / float(test_rates.min()) for test_rates in known if test_rates.size
    )
    failed = dict.fromkeys(str(sample.target) for sample in samples if not sample.believed)
    status = RunStatus.OK if not failed else RunStatus.PARTIAL if believed else RunStatus.FAILED
    moved = len(believed) * survey.spec.size_bytes
    return _run(
        place,
        probe,
        at,
        took_s,
        status=status,
        parameters={
            ASKED: survey.spec.compared_settings(together=True),
            "layer": "ost",
            "targets": [name[-7:] for name in names],
            "cost": {"bytes_written": moved, "bytes_read": None},
        },
        problem=None if not failed else f"not measured: {', '.join(failed)}",
        samples=samples,
        outputs=(
            RawOutput("obdfilter-survey", argv, printed, b"", 0, at, took_s),
            RawOutput("summary", (), summary),
            RawOutput("detail", (), detail),
        ),
    )
