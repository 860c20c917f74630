"""The probes of a scenario: their benchmark commands, printed outputs, and runs parsed from these.

IOR's output comes from `simulated_ior`; obdfilter-survey's summary and detail are printed here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np

from trimtab.base.code_version import __version__
from trimtab.base.event import identifier_of
from trimtab.base.name_set import ost_name
from trimtab.base.run import ASKED, Access, RawOutput, Run, RunStatus
from trimtab.formats import ior
from trimtab.formats.measurement import OutputFile
from trimtab.formats.obdfilter_output import read_detail, read_summary
from trimtab.formats.obdfilter_survey import SurveySpec, results
from trimtab.formats.obdfilter_survey import command as survey_argv
from trimtab.twin.load_command import FailedOutput, LoadCommand
from trimtab.twin.scenario import ProbeLoad, Scenario
from trimtab.twin.simulated_ior import IorPhase, IorResult, PrintedSpace, print_ior
from trimtab.twin.simulated_ior import parse_command as parse_ior_command
from trimtab.twin.simulation.traffic import SURVEY_BYTES

_START_S: Final = 0.05
"""Assumed: time from before the threads start until the first byte, included in the survey's clock
but not in each target's."""
_FIRST_OBJECT: Final = 0x27
_FIRST_DEVICE: Final = 49


@dataclass(frozen=True, slots=True)
class SurveyCommand:
    """A command of the survey.

    Attributes
    ----------
    targets
        Lustre's full names, prefixed with host and colon for other hosts.
    """

    spec: SurveySpec
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SurveyResult:
    """The rates of each target.

    Attributes
    ----------
    rates_bytes_per_s
        Test to one rate per target, in order. NaN: ``lctl`` printed an error.
    zone
        Abbreviation as printed by ``date``.
    """

    began: datetime
    rates_bytes_per_s: Mapping[str, np.ndarray]
    host: str = "oss0000"
    zone: str = "UTC"


def print_survey(command: SurveyCommand, result: SurveyResult) -> tuple[bytes, bytes, bytes]:
    """Return a survey's output, summary and detail.

    Raises
    ------
    ValueError
        A test is missing or has another number of rates than there are targets: a bug.
    """
    spec, count = command.spec, len(command.targets)
    for test in spec.tests:
        if len(result.rates_bytes_per_s[test]) != count:
            raise ValueError(f"{test} has not one rate for each target")
    shape = (
        f"ost {count:2d} sz {spec.size_bytes * count // 1024:8d}K"
        f" rsz {spec.record_bytes // 1024:4d}K obj {spec.objects * count:4d}"
        f" thr {spec.threads * count:4d} "
    )
    moment, _, year = result.began.ctime().rpartition(" ")
    title = f"{moment} {result.zone} {year} Obdfilter-survey for case=disk from {result.host}"
    parts = [_part(spec, test, result.rates_bytes_per_s[test]) for test in spec.tests]
    summary = f"{title}\n{shape}{' '.join(parts)} \n"
    printed = f"using LCTL='lctl' lustre_root='' LUSTRE=''\n{summary}done!\n"
    return printed.encode(), summary.encode(), _detail(command, result, shape).encode()


def seconds_of(elapsed_s: float) -> int:
    """Return the number of whole seconds of a target, without the first and last."""
    return max(0, int(elapsed_s) - 1)


def _part(spec: SurveySpec, test: str, rates: np.ndarray) -> str:
    """Return one test of a summary: all bytes over the time of the slowest, and the extremes."""
    known = rates[np.isfinite(rates) & (rates > 0)]
    slowest_s = spec.size_bytes / known.min() if known.size else 0.0
    figure = spec.size_bytes * len(rates) / (slowest_s + _START_S) / 2**20 if known.size else 0.0
    if known.size < len(rates):
        return f"{test} {figure:7.2f} {'ERROR':>17}"
    if seconds_of(spec.size_bytes / known.max()) == 0:
        return f"{test} {figure:7.2f} {'SHORT':>17}"
    # Round the detail's figures first: the summary is computed from its lines.
    low, high = (round(rate / spec.record_bytes, 6) for rate in (known.min(), known.max()))
    scale = spec.record_bytes / 2**20
    return f"{test} {figure:7.2f} [{low * scale:7.2f}, {high * scale:7.2f}]"


def _detail(command: SurveyCommand, result: SurveyResult, shape: str) -> str:
    spec = command.spec
    clients = [name if ":" in name else f"localhost:{name}" for name in command.targets]
    parts = [f"=======================> {shape}\n"]
    created = "".join(
        f"create: #{number + 1} is object id 0x{_FIRST_OBJECT + number:x}\n"
        for number in range(spec.objects)
    )
    for client in clients:
        parts.append(
            f"=============> Create {spec.objects} on {client}_ecc\n"
            f"create: {spec.objects} objects\n{created}"
        )
    for test in spec.tests:
        rates = result.rates_bytes_per_s[test].tolist()
        parts += [
            _of_target(spec, test, client, place, rate)
            for place, (client, rate) in enumerate(zip(clients, rates, strict=True))
        ]
        parts.append(f"=============> {test} global\n")
        parts += [_global(spec, rate) for rate in rates]
    for client in clients:
        parts.append(f"=============> Destroy {spec.objects} on {client}_ecc\n")
        parts.append(f"destroy: {spec.objects} objects\n{created.replace('create', 'destroy')}")
    return "".join(parts)


def _of_target(spec: SurveySpec, test: str, client: str, place: int, rate: float) -> str:
    records, device = spec.size_bytes // spec.record_bytes, _FIRST_DEVICE + place
    pages = spec.record_bytes // 4096
    letter = "r" if test == "read" else "w"
    head = (
        f"=============> {test} {client}_ecc\nPrint status every 1 seconds\n"
        f"--threads: starting {spec.threads} threads on device {device} running test_brw"
        f" {records // spec.threads} {letter}x q {pages}"
        f" {spec.objects}t{_FIRST_OBJECT + spec.objects - 1} p{pages}\n"
    )
    if not (np.isfinite(rate) and rate > 0):
        return f"{head}error: test_brw: #1 - Connection timed out on {test}\n"
    elapsed_s = spec.size_bytes / rate
    second = f"{spec.threads}/{spec.threads} Total: {rate / spec.record_bytes:.6f}/second\n"
    return (
        f"{head}{second * seconds_of(elapsed_s)}"
        f"Total: total {records} threads {spec.threads} sec {elapsed_s:.6f}"
        f" {rate / spec.record_bytes:.6f}/second\n"
    )


def _global(spec: SurveySpec, rate: float) -> str:
    seconds = seconds_of(spec.size_bytes / rate) if np.isfinite(rate) and rate > 0 else 0
    shown = rate / spec.record_bytes if seconds else 0.0
    return f"{seconds} {shown:.6f} {shown:.6f}\n"


_DIRECTORY: Final = "{directory}"
_OPEN_S: Final = 0.3
"""Assumed: maximum time for creating or opening all files, part of the total time."""
FIRST_NODE: Final = 1000
SURVEY: Final = SurveySpec(size_bytes=SURVEY_BYTES, tests=("write", "read"))
"""Specification of a simulated survey: what it writes and reads on each OST."""
LAUNCHER: Final = "slurm"
"""The launcher of a simulated site's probes."""


@dataclass(frozen=True, slots=True)
class ProbePlace:
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


def place_of(scenario: Scenario, path: str | None = None) -> ProbePlace:
    """Return the place of a scenario's probes; ``path`` is its mount, by default its name."""
    word = "".join(letter for letter in scenario.name if letter.isalnum())[:8] or "scratch"
    return ProbePlace(scenario.name, word, path or f"/{scenario.name}", scenario.timezone)


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
    space: PrintedSpace | None = None,
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
    return IorResult(began, finished, tuple(phases), node_names(1)[0], space or PrintedSpace())


def ior_run(
    place: ProbePlace, probe: ProbeLoad, at: datetime, result: IorResult | FailedOutput
) -> Run:
    """Return the run of an IOR, by parsing its output with the parser for real ones.

    A run that timed out is unfinished, whatever its output contains.
    """
    command = ior_command(probe, place.path)
    names = node_names(probe.nodes)
    if isinstance(result, FailedOutput):
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
    if isinstance(result, FailedOutput):
        problem = f"{result.reason}; {problem}" if problem and result.started else result.reason
        status = status if result.started else RunStatus.NOT_STARTED
    if timed_out:
        status = RunStatus.UNFINISHED
        problem = f"it did not end within {probe.timeout_s:g} s"
    has_started = not isinstance(result, FailedOutput) or result.started
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


def _run(place: ProbePlace, probe: ProbeLoad, at: datetime, took_s: float, **values: Any) -> Run:
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
    (`trimtab.probe.site_command`), so that its own runs continue the series.
    """
    command = ior_command(probe, "/x")
    began = datetime(2000, 1, 1)
    whole = ior_result(command, began, write_s=100.0, read_s=100.0, timeout_s=math.inf)
    (measured,) = ior.FORMAT.read(OutputFile("ior", print_ior(command, whole)))
    words = {
        "words": list(command_of(probe)),
        "output": None,
        "tasks": command.tasks,
        "nodes": command.nodes,
        "launcher": LAUNCHER,
    }
    return {**measured.requested, "command": words}


def survey_command(place: ProbePlace, servers: Mapping[int, str]) -> SurveyCommand:
    """Return the survey command for OSTs by number, each with its server."""
    targets = tuple(
        f"{server}:{place.file_system}-{ost_name(number)}" for number, server in servers.items()
    )
    return SurveyCommand(SURVEY, targets)


def survey_run(
    place: ProbePlace,
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
